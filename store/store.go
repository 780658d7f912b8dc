// Package store owns the one SQLite file that everything lasting lives in: opening and
// migrating it, transactions, the detection and repair of damage, and one Go file per
// group of tables. It does not know what the rows are for: no ranking, no policy, no
// model, no git.
//
// Writing waits its turn instead of failing: within a process by a mutex, between
// processes by SQLite's own lock and a busy timeout. A write is durable against the death
// of the process when the method returns (WAL, synchronous=NORMAL; a power cut may lose
// the last transactions but never the file).
//
//	s, err := store.Open(ctx, filepath.Join(home, "lj.db"), store.Options{})
//	defer s.Close()
//	err = s.CreateSession(ctx, core.Session{ID: id, Project: dir})
//
// A Store is safe for use by several goroutines; several processes may have the same file
// open.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
	_ "github.com/lingjiyidong/lj/store/fts5" // full-text search in every build
)

// BusyTimeout is how long a write waits for another process before it gives up.
const BusyTimeout = 30 * time.Second

//go:embed migrations/*.sql
var migrations embed.FS

// Options of Open. The zero value is usable.
type Options struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Warn takes one line for the person when something had to be mended. Nil drops it.
	Warn func(text string)
	// SkipCheck leaves the damage check out (tests of the check itself).
	SkipCheck bool
}

// Store is an open database. See the package comment.
type Store struct {
	db   *sql.DB
	path string
	now  func() time.Time
	warn func(string)

	write sync.Mutex // one writer of this process at a time

	memory memoryReader

	bg     sync.WaitGroup
	cancel context.CancelFunc
}

// ErrNewer is returned by Open for a file whose schema is newer than this program.
var ErrNewer = errors.New("database was written by a newer lj")

// Open opens the database at path, makes it if there is none, brings its schema up to
// date, and mends it if it is damaged: a damaged file is moved aside, what can be read is
// copied into a new one, and Options.Warn is told once.
//
// The error's kind is core.KindConfig for a file that can't be opened or is newer than
// this program.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, core.Errorf(core.KindConfig, "make %s: %w", filepath.Dir(path), err).
			Hint("set LJ_HOME to a directory that you can write to")
	}
	if err := touch(path); err != nil {
		return nil, core.Errorf(core.KindConfig, "open database: %w", err).
			Hint("set LJ_HOME to a directory that you can write to")
	}
	s := &Store{path: path, now: o.Now, warn: o.Warn}
	err := s.open(ctx, o)
	if err != nil && isDamage(err) {
		if s.db != nil {
			s.db.Close()
		}
		if rerr := s.rescue(ctx, err); rerr != nil {
			return nil, rerr
		}
		err = s.open(ctx, Options{SkipCheck: true})
	}
	if err != nil {
		if s.db != nil {
			s.db.Close()
		}
		return nil, err
	}
	return s, nil
}

// touch makes the file with mode 0600, so that it is never readable by others, not even
// for a moment.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func dsn(path string, readOnly bool) string {
	v := url.Values{}
	v.Set("_busy_timeout", fmt.Sprint(BusyTimeout.Milliseconds()))
	v.Set("_foreign_keys", "on")
	v.Set("_txlock", "immediate")
	if readOnly {
		v.Set("mode", "ro")
	} else {
		v.Set("_journal_mode", "WAL")
		// KiB per connection, taken as needed. With SQLite's 2 MB the index of some thousand
		// memories is read again and again.
		v.Set("_cache_size", "-16000")
		v.Set("_synchronous", "NORMAL")
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: v.Encode()}).String()
}

func (s *Store) open(ctx context.Context, o Options) error {
	db, err := sql.Open("sqlite3", dsn(s.path, false))
	if err != nil {
		return core.Errorf(core.KindConfig, "open database %s: %w", s.path, err)
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	s.db = db
	if !o.SkipCheck {
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	return s.migrate(ctx)
}

// Close waits for background work and closes the file. The store must not be used after.
func (s *Store) Close() error {
	if s.cancel != nil {
		s.cancel()
	}
	s.bg.Wait()
	s.memory.close()
	err := s.db.Close()
	s.markClean()
	return err
}

// Path is the database file.
func (s *Store) Path() string { return s.path }

// Now is the store's clock.
func (s *Store) Now() time.Time { return s.now() }

// DB gives packages that keep their own tables (memory) the connection pool. Writing goes
// through Tx.
func (s *Store) DB() *sql.DB { return s.db }

// Tx runs fn in a write transaction and commits it when fn returns nil. It waits for
// other writers; fn must be short and must not use the Store itself.
func (s *Store) Tx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	s.write.Lock()
	defer s.write.Unlock()
	return txOn(ctx, s.db, fn)
}

func txOn(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := fault.Point("store.tx.before_commit"); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return fault.Point("store.tx.after_commit")
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

type migration struct {
	number int
	name   string
	sql    string
}

func migrationList() ([]migration, error) {
	entries, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	var list []migration
	for i, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%04d_", &n); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: expected number %04d", e.Name(), i+1)
		}
		b, err := migrations.ReadFile("migrations/" + e.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, migration{n, strings.TrimSuffix(e.Name(), ".sql"), string(b)})
	}
	return list, nil
}

func (s *Store) migrate(ctx context.Context) error {
	list, err := migrationList()
	if err != nil {
		return err
	}
	var have int
	if err := s.db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&have); err != nil {
		return fmt.Errorf("read schema version of %s: %w", s.path, err)
	}
	if have > len(list) {
		return core.Errorf(core.KindConfig, "%w: %s has schema %d, this lj knows %d", ErrNewer, s.path, have, len(list)).
			Hint("use the newer lj, or another LJ_HOME")
	}
	if have == len(list) {
		return nil
	}
	if have > 0 {
		if err := s.backup(ctx, have); err != nil {
			return err
		}
	}
	for _, m := range list[have:] {
		err := s.Tx(ctx, func(tx *sql.Tx) error {
			// Another process may have migrated while this one waited.
			var v int
			if err := tx.QueryRow(`PRAGMA user_version`).Scan(&v); err != nil {
				return err
			}
			if v >= m.number {
				return nil
			}
			if _, err := tx.Exec(m.sql); err != nil {
				return err
			}
			if err := fault.Point("store.migrate." + m.name); err != nil {
				return err
			}
			_, err := tx.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, m.number))
			return err
		})
		if err != nil {
			return fmt.Errorf("migrate %s to %s: %w", s.path, m.name, err)
		}
	}
	return nil
}

// backup copies the database beside itself before a migration.
func (s *Store) backup(ctx context.Context, version int) error {
	to := fmt.Sprintf("%s.schema%d.bak", s.path, version)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	tmp := to + ".tmp"
	os.Remove(tmp)
	if _, err := s.db.ExecContext(ctx, `VACUUM INTO ?`, tmp); err != nil {
		return fmt.Errorf("copy database before migration: %w", err)
	}
	if err := os.Chmod(tmp, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

// isDamage says whether err is SQLite's word for a damaged file.
func isDamage(err error) bool {
	var e sqlite3.Error
	if errors.As(err, &e) {
		return e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB
	}
	return errors.Is(err, errDamaged)
}

func ms(t time.Time) int64 { return t.UnixMilli() }

func fromMS(n int64) time.Time { return time.UnixMilli(n) }
