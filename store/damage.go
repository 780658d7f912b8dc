package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lingjiyidong/lj/core"
)

var errDamaged = errors.New("database file is damaged")

// A file up to this size is checked before it is used; a larger one beside the first
// work, and the next Open mends what that found.
const checkAtOnce = 64 << 20

// stamp is what a file looked like when it was last known to be whole.
type stamp struct {
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime_ns"`
	Inode uint64 `json:"inode"`
	Bad   string `json:"bad,omitempty"`
}

func (s *Store) stampPath() string { return s.path + ".checked" }

func (s *Store) stat() (stamp, bool) {
	fi, err := os.Stat(s.path)
	if err != nil {
		return stamp{}, false
	}
	st := stamp{Size: fi.Size(), MTime: fi.ModTime().UnixNano()}
	if sys, ok := fi.Sys().(*syscall.Stat_t); ok {
		st.Inode = sys.Ino
	}
	// A write-ahead log that is not empty holds pages that the stamp would not cover.
	if wal, err := os.Stat(s.path + "-wal"); err == nil && wal.Size() > 0 {
		return st, false
	}
	return st, true
}

// markClean records the file as whole after a clean close, so that the next start need
// not read all of it. Any later change of the file changes its time or size.
func (s *Store) markClean() {
	st, ok := s.stat()
	if !ok {
		return
	}
	b, err := json.Marshal(st)
	if err != nil {
		return
	}
	if old, err := os.ReadFile(s.stampPath()); err == nil && strings.Contains(string(old), `"bad"`) {
		return
	}
	writeFile(s.stampPath(), b)
}

func writeFile(path string, b []byte) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return // the stamp only saves time
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

// check finds damage: at once for a file that is new to it and not too large, in the
// background for a large one.
func (s *Store) check(ctx context.Context) error {
	var last stamp
	if b, err := os.ReadFile(s.stampPath()); err == nil {
		_ = json.Unmarshal(b, &last) // an unreadable stamp is no stamp
	}
	if last.Bad != "" {
		return fmt.Errorf("%w: %s", errDamaged, last.Bad)
	}
	st, quiet := s.stat()
	if st.Size == 0 {
		return nil
	}
	if quiet && st == last {
		return nil
	}
	if st.Size <= checkAtOnce {
		return quickCheck(ctx, s.db)
	}
	bg, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.bg.Go(func() {
		if err := quickCheck(bg, s.db); isDamage(err) {
			if b, err := json.Marshal(stamp{Bad: err.Error()}); err == nil {
				writeFile(s.stampPath(), b)
			}
			s.warn("the database is damaged; the next start of lj will mend it: " + err.Error())
		}
	})
	return nil
}

func quickCheck(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `PRAGMA quick_check(3)`)
	if err != nil {
		return fmt.Errorf("check database: %w", err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return fmt.Errorf("check database: %w", err)
		}
		if line != "ok" {
			found = append(found, strings.ReplaceAll(line, "\n", " "))
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("check database: %w", err)
	}
	if found != nil {
		return fmt.Errorf("%w: %s", errDamaged, strings.Join(found, "; "))
	}
	return nil
}

// rescue moves the damaged file aside and copies what can be read of it into a new one.
// It holds a lock file so that two processes don't do it at once.
func (s *Store) rescue(ctx context.Context, cause error) error {
	lock, err := os.OpenFile(s.path+".rescue-lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return core.Errorf(core.KindConfig, "mend database: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return core.Errorf(core.KindConfig, "mend database: %w", err)
	}
	// Whoever held the lock before may have mended it.
	if db, err := sql.Open("sqlite3", dsn(s.path, false)); err == nil {
		err := quickCheck(ctx, db)
		db.Close()
		if err == nil {
			os.Remove(s.stampPath())
			return nil
		}
	}
	aside := fmt.Sprintf("%s.damaged-%s", s.path, s.now().Format("20060102-150405"))
	for i := 2; ; i++ {
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.damaged-%s-%d", s.path, s.now().Format("20060102-150405"), i)
	}
	if err := os.Rename(s.path, aside); err != nil {
		return core.Errorf(core.KindConfig, "set the damaged database aside: %w", err)
	}
	for _, ext := range []string{"-wal", "-shm"} {
		if err := os.Rename(s.path+ext, aside+ext); err != nil && !errors.Is(err, os.ErrNotExist) {
			return core.Errorf(core.KindConfig, "set the damaged database aside: %w", err)
		}
	}
	os.Remove(s.stampPath())
	if err := touch(s.path); err != nil {
		return core.Errorf(core.KindConfig, "make a new database: %w", err)
	}
	kept, lost := s.salvage(ctx, aside)
	s.warn(fmt.Sprintf("the database was damaged (%s); it was moved to %s; %d rows recovered, %d tables incomplete",
		short(cause.Error(), 120), aside, kept, lost))
	return nil
}

func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// salvage copies rows of every ordinary table from the file aside into the store's new
// file, skipping what can't be read. It returns the rows copied and the number of tables
// in which something could not be read. Errors are part of the job: it never fails.
func (s *Store) salvage(ctx context.Context, aside string) (rows, incomplete int) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fresh := &Store{path: s.path, now: s.now, warn: func(string) {}}
	if err := fresh.open(ctx, Options{SkipCheck: true}); err != nil {
		if fresh.db != nil {
			fresh.db.Close()
		}
		return 0, 1
	}
	defer fresh.db.Close()
	old, err := sql.Open("sqlite3", dsn(aside, false))
	if err != nil {
		return 0, 1
	}
	defer old.Close()
	old.SetMaxOpenConns(1)
	tables, err := tableList(ctx, fresh.db)
	if err != nil {
		return 0, 1
	}
	for _, t := range tables {
		n, whole := copyTable(ctx, old, fresh, t)
		rows += n
		if !whole {
			incomplete++
		}
	}
	// The index is made again from the messages at the next search.
	_ = fresh.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM meta WHERE key = 'messages_indexed'`)
		return err
	})
	// The index of memories is made again when memory is next opened.
	_ = fresh.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT OR REPLACE INTO memory_totals VALUES(1, -1, 0)`)
		return err
	})
	return rows, incomplete
}

type table struct {
	name    string
	columns []string
	rowid   bool
}

// tableList is every ordinary table of the schema, parents before children.
func tableList(ctx context.Context, db *sql.DB) ([]table, error) {
	rows, err := db.QueryContext(ctx, `SELECT name, wr FROM pragma_table_list
		WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name <> 'sessions', name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []table
	for rows.Next() {
		var t table
		var without bool
		if err := rows.Scan(&t.name, &without); err != nil {
			return nil, err
		}
		t.rowid = !without
		list = append(list, t)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range list {
		cols, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_info(?)`, list[i].name)
		if err != nil {
			return nil, err
		}
		for cols.Next() {
			var c string
			if err := cols.Scan(&c); err != nil {
				cols.Close()
				return nil, err
			}
			list[i].columns = append(list[i].columns, c)
		}
		if err := errors.Join(cols.Err(), cols.Close()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// copyTable copies the readable rows of one table: forwards until something can't be
// read, then backwards from the end, so that one bad page costs its own rows only.
func copyTable(ctx context.Context, old *sql.DB, fresh *Store, t table) (n int, whole bool) {
	var cols []string
	have := map[string]bool{}
	info, err := old.QueryContext(ctx, `SELECT name FROM pragma_table_info(?)`, t.name)
	if err != nil {
		return 0, false
	}
	for info.Next() {
		var c string
		if info.Scan(&c) == nil {
			have[c] = true
		}
	}
	if errors.Join(info.Err(), info.Close()) != nil {
		return 0, false
	}
	for _, c := range t.columns {
		if have[c] {
			cols = append(cols, quote(c))
		}
	}
	if len(cols) == 0 {
		return 0, true // the table is newer than the file
	}
	list := strings.Join(cols, ", ")
	insert := fmt.Sprintf(`INSERT OR IGNORE INTO %s(%s) VALUES(?%s)`, quote(t.name), list, strings.Repeat(",?", len(cols)-1))
	scan := func(order string) (int, bool) {
		q := fmt.Sprintf(`SELECT %s FROM %s`, list, quote(t.name))
		if t.rowid {
			q += ` NOT INDEXED ORDER BY rowid ` + order
		} else if order != "ASC" {
			return 0, false
		}
		rows, err := old.QueryContext(ctx, q)
		if err != nil {
			return 0, false
		}
		defer rows.Close()
		count := 0
		var batch [][]any
		flush := func() {
			_ = fresh.Tx(ctx, func(tx *sql.Tx) error {
				for _, r := range batch {
					// A row that no longer fits (its session is lost) is left out.
					if res, err := tx.Exec(insert, r...); err == nil {
						if k, err := res.RowsAffected(); err == nil {
							count += int(k)
						}
					}
				}
				return nil
			})
			batch = batch[:0]
		}
		for rows.Next() {
			vals := make([]any, len(cols))
			ptrs := make([]any, len(cols))
			for i := range vals {
				ptrs[i] = &vals[i]
			}
			if rows.Scan(ptrs...) != nil {
				continue
			}
			if batch = append(batch, vals); len(batch) == 500 {
				flush()
			}
		}
		flush()
		return count, rows.Err() == nil
	}
	n, whole = scan("ASC")
	if !whole {
		more, _ := scan("DESC")
		n += more
	}
	return n, whole
}
