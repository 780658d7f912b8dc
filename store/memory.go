package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
)

var _ core.MemoryWriter = (*memoryTx)(nil)

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// memoryTx is one transaction on the tables of long-term memory. Statements are prepared
// once for its life. They are all short: a cancelled context stops the work between two of
// them, as watching for it inside of each costs more than most of them do.
type memoryTx struct {
	on    preparer
	stmts map[string]*sql.Stmt
}

// WriteMemory runs fn in a write transaction. It waits for other writers of this process
// and of others; what fn did counts when WriteMemory returns nil. fn must not use the
// Store itself.
func (s *Store) WriteMemory(ctx context.Context, fn func(core.MemoryWriter) error) error {
	s.write.Lock()
	defer s.write.Unlock()
	return onConn(ctx, s.db, func(conn *sql.Conn) error {
		m := &memoryTx{on: conn, stmts: map[string]*sql.Stmt{}}
		defer m.close()
		if err := fn(m); err != nil {
			return err
		}
		return fault.Point("store.memory.before_commit")
	})
}

// onConn is txOn without sql.Tx, which starts a goroutine for every query in it: with many
// small queries that costs more than they do.
func onConn(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		if ctx.Err() != nil {
			// The lock may have come in the same moment.
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		}
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		if _, undo := conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`); undo != nil {
			// SQLite has rolled back by itself, or the connection is of no more use.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	if err := fn(conn); err != nil {
		return err
	}
	if err := fault.Point("store.tx.before_commit"); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), `COMMIT`); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	return fault.Point("store.tx.after_commit")
}

// memoryReader is the connection that memories are read on, kept with its prepared
// statements: a selection is some twenty small queries, and preparing them would cost more
// than running them.
type memoryReader struct {
	mu   sync.Mutex
	conn *sql.Conn
	tx   *memoryTx
}

func (r *memoryReader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		r.tx.close()
		r.conn.Close()
		r.conn, r.tx = nil, nil
	}
}

// ReadMemory runs fn on one consistent view of the memories. It never waits for writers of
// the file; calls of one process wait for each other.
func (s *Store) ReadMemory(ctx context.Context, fn func(core.MemoryReader) error) error {
	r := &s.memory
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("read memory: %w", err)
		}
		r.conn, r.tx = conn, &memoryTx{on: conn, stmts: map[string]*sql.Stmt{}}
	}
	if len(r.tx.stmts) > 100 {
		r.tx.close()
		r.tx.stmts = map[string]*sql.Stmt{}
	}
	// The pool's own transactions begin with a write lock; a reader must not take it.
	if _, err := r.tx.exec(ctx, `BEGIN DEFERRED`); err != nil {
		r.tx.close()
		r.conn.Close()
		r.conn, r.tx = nil, nil
		return fmt.Errorf("read memory: %w", err)
	}
	defer func() { _, _ = r.tx.exec(context.WithoutCancel(ctx), `ROLLBACK`) }()
	return fn(r.tx)
}

// PurgeMemory makes what was erased unreadable in the files: freed pages are overwritten
// by the transaction itself (fn), the write-ahead log is emptied after it.
func (s *Store) PurgeMemory(ctx context.Context, fn func(core.MemoryWriter) error) error {
	s.write.Lock()
	defer s.write.Unlock()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("erase memory: %w", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `PRAGMA secure_delete = ON`); err != nil {
		return fmt.Errorf("erase memory: %w", err)
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA secure_delete = OFF`) }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("erase memory: %w", err)
	}
	m := &memoryTx{on: tx, stmts: map[string]*sql.Stmt{}}
	if err := fn(m); err != nil {
		m.close()
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	// Rewriting the index drops the remains of the words in older segments.
	if _, err := tx.ExecContext(ctx, `INSERT INTO memory_index(memory_index) VALUES('optimize')`); err != nil {
		m.close()
		return errors.Join(fmt.Errorf("erase memory: %w", err), ignoreDone(tx.Rollback()))
	}
	m.close()
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("erase memory: %w", err)
	}
	// Other processes that read just now can keep the log from being emptied; the next
	// checkpoint does it then.
	_, _ = conn.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	// A copy from before a migration may hold it too.
	copies, err := filepath.Glob(s.path + ".schema*.bak")
	for _, c := range copies {
		err = errors.Join(err, os.Remove(c))
	}
	return err
}

func (m *memoryTx) close() {
	for _, st := range m.stmts {
		st.Close()
	}
}

func (m *memoryTx) stmt(ctx context.Context, q string) (*sql.Stmt, error) {
	if st := m.stmts[q]; st != nil {
		return st, nil
	}
	st, err := m.on.PrepareContext(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	m.stmts[q] = st
	return st, nil
}

func (m *memoryTx) query(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	st, err := m.stmt(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return rows, nil
}

func (m *memoryTx) exec(ctx context.Context, q string, args ...any) (sql.Result, error) {
	st, err := m.stmt(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	res, err := st.ExecContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return res, nil
}

func (m *memoryTx) scalar(ctx context.Context, into any, q string, args ...any) error {
	st, err := m.stmt(ctx, q)
	if err != nil {
		return err
	}
	if err := st.QueryRowContext(context.WithoutCancel(ctx), args...).Scan(into); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

const memoryColumns = `m.id, m.content, m.category, m.priority, m.importance, m.tags, m.scope, m.project, m.pinned, m.state, m.source,
	m.session_id, m.message_seq, m.context, m.created_at, m.updated_at, m.aged_at, m.expires_at, m.last_used_at, m.use_count,
	m.last_outcome, m.valid_from, m.valid_to, m.superseded_by, m.hash, m.keywords`

// Odd values (NULL, text where a number belongs, a written date) are read as what they
// mean or as the default: one bad row must not switch memory off.

type lenientInt struct {
	p   *int
	def int
}

func (l lenientInt) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		*l.p = int(v)
	case float64:
		*l.p = int(v)
	case string:
		*l.p = atoi(v, l.def)
	case []byte:
		*l.p = atoi(string(v), l.def)
	case bool:
		*l.p = 0
		if v {
			*l.p = 1
		}
	default:
		*l.p = l.def
	}
	return nil
}

func atoi(s string, def int) int {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
		return n
	}
	return def
}

type lenientText struct {
	p   *string
	def string
}

func (l lenientText) Scan(v any) error {
	switch v := v.(type) {
	case string:
		*l.p = v
	case []byte:
		*l.p = string(v)
	case nil:
		*l.p = l.def
	default:
		*l.p = fmt.Sprint(v)
	}
	if *l.p == "" {
		*l.p = l.def
	}
	return nil
}

type lenientTime struct{ p *time.Time }

func (l lenientTime) Scan(v any) error {
	*l.p = time.Time{}
	switch v := v.(type) {
	case int64:
		if v != 0 {
			*l.p = fromMS(v)
		}
	case float64:
		*l.p = fromMS(int64(v))
	case time.Time:
		*l.p = v
	case string:
		*l.p, _ = core.ParseTime(v, time.UTC)
	case []byte:
		*l.p, _ = core.ParseTime(string(v), time.UTC)
	}
	return nil
}

func toMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

type memoryRow struct {
	tags   string
	words  string
	pinned int
	sup    int
	seq    int
}

func scanMemory(rows interface{ Scan(...any) error }, m *core.Memory, more ...any) error {
	var r memoryRow
	dest := append(make([]any, 0, 30), &m.ID, lenientText{&m.Content, ""}, lenientText{&m.Category, core.MemoryGeneral},
		lenientInt{&m.Priority, core.PriorityMedium}, lenientInt{&m.Importance, 3}, lenientText{&r.tags, ""},
		lenientText{&m.Scope, core.ScopeGlobal}, lenientText{&m.Project, ""}, lenientInt{&r.pinned, 0},
		lenientText{&m.State, core.MemoryActive}, lenientText{&m.Source, core.SourceUser}, lenientText{&m.Session, ""},
		lenientInt{&r.seq, 0}, lenientText{&m.Context, ""}, lenientTime{&m.CreatedAt}, lenientTime{&m.UpdatedAt},
		lenientTime{&m.AgedAt}, lenientTime{&m.ExpiresAt}, lenientTime{&m.LastUsedAt}, lenientInt{&m.UseCount, 0},
		lenientText{&m.LastOutcome, ""}, lenientTime{&m.ValidFrom}, lenientTime{&m.ValidTo}, lenientInt{&r.sup, 0},
		lenientText{&m.Hash, ""}, lenientText{&r.words, ""})
	if err := rows.Scan(append(dest, more...)...); err != nil {
		return fmt.Errorf("read memory row: %w", err)
	}
	m.Message, m.Pinned, m.SupersededBy = int64(r.seq), r.pinned != 0, int64(r.sup)
	m.Priority = max(core.PriorityCritical, min(m.Priority, core.PriorityLow))
	if m.Importance < 1 || m.Importance > 5 {
		m.Importance = max(1, min(m.Importance, 5))
	}
	if r.tags != "" {
		m.Tags = strings.Split(r.tags, "\n")
	}
	if r.words != "" {
		m.Keywords = strings.Split(r.words, "\n")
	}
	return nil
}

func (m *memoryTx) list(ctx context.Context, q string, args ...any) ([]core.Memory, error) {
	rows, err := m.query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []core.Memory
	for rows.Next() {
		out = append(out, core.Memory{})
		if err := scanMemory(rows, &out[len(out)-1]); err != nil {
			return nil, err
		}
	}
	return out, rows.Err()
}

func (m *memoryTx) Memory(ctx context.Context, id int64) (core.Memory, error) {
	list, err := m.list(ctx, `SELECT `+memoryColumns+` FROM memories m WHERE m.id = ?`, id)
	if err != nil {
		return core.Memory{}, err
	}
	if len(list) == 0 {
		return core.Memory{}, core.Errorf(core.KindNotFound, "memory %d: %w", id, core.ErrNotFound).Hint("lj memory list --all shows them")
	}
	v := list[0]
	rows, err := m.query(ctx, `SELECT kind, CASE WHEN from_id = ?1 THEN to_id ELSE from_id END FROM memory_links
		WHERE from_id = ?1 OR (to_id = ?1 AND kind = 'linked') ORDER BY 2`, id)
	if err != nil {
		return v, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind string
		var other int64
		if err := rows.Scan(&kind, &other); err != nil {
			return v, fmt.Errorf("read memory links: %w", err)
		}
		if kind == "derived" {
			v.Sources = append(v.Sources, other)
		} else {
			v.Links = append(v.Links, other)
		}
	}
	return v, rows.Err()
}

func (m *memoryTx) MemoriesByID(ctx context.Context, ids []int64) ([]core.Memory, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	// One text for any number of ids: the statement is kept.
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	return m.list(ctx, `SELECT `+memoryColumns+` FROM json_each(?) j CROSS JOIN memories m ON m.id = j.value ORDER BY j.key`, string(list))
}

func placeholders(n int) string { return "?" + strings.Repeat(",?", n-1) }

// where builds the conditions that filters and queries share.
//
// With other set, another condition is the one to look rows up by: the plus sign keeps the
// planner from walking all active rows.
func where(b *strings.Builder, args []any, states []string, project string, other bool) []any {
	if len(states) == 0 {
		states = []string{core.MemoryActive}
	}
	if states[0] != "*" {
		plus := ""
		if other {
			plus = "+"
		}
		b.WriteString(` AND ` + plus + `m.state IN (` + placeholders(len(states)) + `)`)
		for _, v := range states {
			args = append(args, v)
		}
	}
	if project != "*" {
		b.WriteString(` AND (m.scope <> 'project' OR m.project = ?)`)
		args = append(args, project)
	}
	return args
}

func (m *memoryTx) Memories(ctx context.Context, f core.MemoryFilter) ([]core.Memory, error) {
	var b strings.Builder
	b.WriteString(`SELECT ` + memoryColumns + ` FROM memories m WHERE 1`)
	project := f.Project
	if project == "" {
		project = "*"
	}
	args := where(&b, nil, f.States, project, f.Pinned || f.ByID || !f.DueBefore.IsZero())
	if f.Category != "" {
		b.WriteString(` AND m.category = ?`)
		args = append(args, f.Category)
	}
	if len(f.Priorities) > 0 {
		b.WriteString(` AND m.priority IN (` + placeholders(len(f.Priorities)) + `)`)
		for _, p := range f.Priorities {
			args = append(args, p)
		}
	}
	if f.Pinned {
		b.WriteString(` AND m.pinned = 1`)
	}
	if !f.DueBefore.IsZero() {
		b.WriteString(` AND m.expires_at > 0 AND m.expires_at <= ?`)
		args = append(args, toMS(f.DueBefore))
	}
	if f.After > 0 {
		b.WriteString(` AND m.id > ?`)
		args = append(args, f.After)
	}
	if f.ByID {
		b.WriteString(` ORDER BY m.id`)
	} else {
		b.WriteString(` ORDER BY coalesce(m.priority, 2), m.last_used_at DESC, m.id`)
	}
	if f.Limit > 0 {
		b.WriteString(` LIMIT ` + strconv.Itoa(f.Limit))
	}
	return m.list(ctx, b.String(), args...)
}

// match is the query text of the index. Words are letters and digits only, so quoting
// makes any of them plain words.
func match(q core.MemoryQuery) string {
	var b strings.Builder
	if q.Column != "" {
		b.WriteString(q.Column + " : (")
	}
	join := func(words []string, op string) {
		for i, w := range words {
			if i > 0 {
				b.WriteString(op)
			}
			b.WriteString(`"` + strings.ReplaceAll(w, `"`, ``) + `"`)
			if q.Prefix {
				b.WriteByte('*')
			}
		}
	}
	if len(q.All) > 0 {
		join(q.All, " AND ")
		if len(q.Any) > 0 {
			b.WriteString(" AND (")
			join(q.Any, " OR ")
			b.WriteByte(')')
		}
	} else {
		join(q.Any, " OR ")
	}
	if q.Column != "" {
		b.WriteByte(')')
	}
	return b.String()
}

func (m *memoryTx) MatchMemories(ctx context.Context, q core.MemoryQuery) ([]core.MemoryHit, error) {
	if len(q.Any)+len(q.All) == 0 {
		return nil, nil
	}
	var b strings.Builder
	score := `-bm25(memory_index, 1.0, 0.3, 0.35)`
	if q.Newest {
		score = `0.0`
	}
	b.WriteString(`SELECT ` + memoryColumns + `, i.words, i.grams, i.context, ` + score + ` FROM memory_index i CROSS JOIN memories m ON m.id = i.rowid WHERE memory_index MATCH ?`)
	args := []any{match(q)}
	if !q.Newest {
		b.WriteString(` AND i.rank MATCH 'bm25(1.0, 0.3, 0.35)'`)
	}
	args = where(&b, args, q.States, q.Project, true)
	if q.Newest {
		b.WriteString(` ORDER BY i.rowid DESC`)
	} else {
		b.WriteString(` ORDER BY i.rank`)
	}
	b.WriteString(` LIMIT ` + strconv.Itoa(max(1, q.Limit)))
	rows, err := m.query(ctx, b.String(), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make([]core.MemoryHit, 0, min(max(q.Limit, 1), 16))
	for rows.Next() {
		out = append(out, core.MemoryHit{})
		h := &out[len(out)-1]
		if err := scanMemory(rows, &h.Memory, &h.Index.Words, &h.Index.Grams, &h.Index.Context, &h.Score); err != nil {
			return nil, err
		}
	}
	return out, rows.Err()
}

func (m *memoryTx) MemoriesByHash(ctx context.Context, hash, project string) ([]core.Memory, error) {
	var b strings.Builder
	b.WriteString(`SELECT ` + memoryColumns + ` FROM memories m INDEXED BY memories_by_hash WHERE m.hash = ?`)
	var states []string
	if project == "*" {
		states = []string{"*"}
	}
	args := where(&b, []any{hash}, states, project, true)
	b.WriteString(` ORDER BY m.id`)
	return m.list(ctx, b.String(), args...)
}

const rankColumns = `m.id, m.priority, m.importance, m.last_used_at, m.keywords, m.tags`

func (m *memoryTx) ranks(ctx context.Context, q string, args ...any) ([]core.MemoryRank, error) {
	rows, err := m.query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []core.MemoryRank
	for rows.Next() {
		var r core.MemoryRank
		if err := rows.Scan(&r.ID, lenientInt{&r.Priority, core.PriorityMedium}, lenientInt{&r.Importance, 3}, lenientTime{&r.LastUsedAt},
			lenientText{&r.Keywords, ""}, lenientText{&r.Tags, ""}); err != nil {
			return nil, fmt.Errorf("read memory ranks: %w", err)
		}
		r.Priority, r.Importance = max(core.PriorityCritical, min(r.Priority, core.PriorityLow)), max(1, min(r.Importance, 5))
		out = append(out, r)
	}
	return out, rows.Err()
}

func (m *memoryTx) MemoryTierTop(ctx context.Context, t core.MemoryTier, project string, limit int) ([]core.MemoryRank, error) {
	return m.ranks(ctx, `SELECT `+rankColumns+` FROM memories m WHERE m.state = 'active' AND m.priority IS ? AND m.importance IS ?
		AND (m.scope <> 'project' OR m.project = ?) ORDER BY m.last_used_at DESC, m.id LIMIT ?`, t.Priority, t.Importance, project, limit)
}

func (m *memoryTx) MemoryRanks(ctx context.Context, project string, limit int) ([]core.MemoryRank, error) {
	return m.ranks(ctx, `SELECT `+rankColumns+` FROM memories m WHERE m.state = 'active' AND m.priority > 0 AND (m.scope <> 'project' OR m.project = ?)
		ORDER BY m.priority, m.last_used_at DESC, m.id LIMIT ?`, project, limit)
}

func (m *memoryTx) FewMemories(ctx context.Context, most int) (bool, error) {
	var n int
	err := m.scalar(ctx, &n, `SELECT count(*) FROM (SELECT 1 FROM memories WHERE state = 'active' AND priority > 0 LIMIT ?)`, most+1)
	return n <= most, err
}

func (m *memoryTx) OddMemories(ctx context.Context) (bool, error) {
	var n int
	err := m.scalar(ctx, &n, `SELECT EXISTS(SELECT 1 FROM memories WHERE state = 'active' AND priority IS NULL)
		OR EXISTS(SELECT 1 FROM memories WHERE state = 'active' AND priority IN (0, 1, 2, 3) AND importance IS NULL)
		OR EXISTS(SELECT 1 FROM memories WHERE state = 'active' AND priority IN (0, 1, 2, 3) AND (aged_at IS NULL OR aged_at <= 0))`)
	return n != 0, err
}

func (m *memoryTx) DerivedMemories(ctx context.Context, id int64) ([]int64, error) {
	rows, err := m.query(ctx, `SELECT from_id FROM memory_links WHERE to_id = ? AND kind = 'derived' ORDER BY from_id`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var d int64
		if err := rows.Scan(&d); err != nil {
			return nil, fmt.Errorf("read derived memories: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

func (m *memoryTx) RankMemories(ctx context.Context, q core.MemoryQuery) ([]core.MemoryRank, error) {
	if len(q.Any)+len(q.All) == 0 {
		return nil, nil
	}
	var b strings.Builder
	b.WriteString(`SELECT ` + rankColumns + ` FROM memory_index i CROSS JOIN memories m ON m.id = i.rowid WHERE memory_index MATCH ?`)
	args := []any{match(q)}
	if !q.Newest {
		b.WriteString(` AND i.rank MATCH 'bm25(1.0, 0.3, 0.35)'`)
	}
	args = where(&b, args, q.States, q.Project, true)
	if q.Newest {
		b.WriteString(` ORDER BY i.rowid DESC`)
	} else {
		b.WriteString(` ORDER BY i.rank`)
	}
	b.WriteString(` LIMIT ` + strconv.Itoa(max(1, q.Limit)))
	return m.ranks(ctx, b.String(), args...)
}

func (m *memoryTx) DueMemories(ctx context.Context, before [3]time.Time) ([]core.Memory, error) {
	var out []core.Memory
	for p, t := range before {
		list, err := m.list(ctx, `SELECT `+memoryColumns+` FROM memories m WHERE m.state = 'active' AND m.priority = ? AND m.aged_at > 0 AND m.aged_at <= ?
			AND coalesce(m.pinned, 0) = 0 ORDER BY m.id`, p, toMS(t))
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

func (m *memoryTx) WordCounts(ctx context.Context, words []string) (map[string]int, error) {
	out := make(map[string]int, len(words))
	st, err := m.stmt(ctx, `SELECT rows FROM memory_words WHERE word = ?`)
	if err != nil {
		return nil, err
	}
	for _, w := range words {
		if _, ok := out[w]; ok {
			continue
		}
		var n int
		err := st.QueryRowContext(context.WithoutCancel(ctx), w).Scan(&n)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("count memory words: %w", err)
		}
		out[w] = n
	}
	return out, nil
}

func (m *memoryTx) MemoryTotals(ctx context.Context) (rows, words int, err error) {
	st, err := m.stmt(ctx, `SELECT rows, words FROM memory_totals WHERE id = 1`)
	if err != nil {
		return 0, 0, err
	}
	err = st.QueryRowContext(ctx).Scan(&rows, &words)
	if errors.Is(err, sql.ErrNoRows) {
		return -1, 0, nil
	}
	return rows, words, err
}

func (m *memoryTx) ContentLike(ctx context.Context, piece string, f core.MemoryFilter) ([]core.Memory, error) {
	var b strings.Builder
	b.WriteString(`SELECT ` + memoryColumns + ` FROM memories m WHERE (instr(lower(m.content), lower(?1)) > 0 OR instr(lower(m.tags), lower(?1)) > 0)`)
	args := []any{piece}
	project := f.Project
	if project == "" {
		project = "*"
	}
	args = where(&b, args, f.States, project, false)
	b.WriteString(` ORDER BY m.id DESC LIMIT ` + strconv.Itoa(max(1, f.Limit)))
	return m.list(ctx, b.String(), args...)
}

func (m *memoryTx) MemoryEvents(ctx context.Context, id int64) ([]core.MemoryEvent, error) {
	rows, err := m.query(ctx, `SELECT memory_id, at, action, detail, other_id FROM memory_events WHERE memory_id = ? ORDER BY id`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []core.MemoryEvent{}
	for rows.Next() {
		var e core.MemoryEvent
		if err := rows.Scan(&e.Memory, lenientTime{&e.At}, &e.Action, &e.Detail, &e.Other); err != nil {
			return nil, fmt.Errorf("read memory history: %w", err)
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

func (m *memoryTx) Tombstoned(ctx context.Context, hashes ...string) (bool, error) {
	for _, h := range hashes {
		var n int
		if err := m.scalar(ctx, &n, `SELECT count(*) FROM memory_tombstones WHERE hash = ?`, h); err != nil {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (m *memoryTx) ActiveSince(ctx context.Context, since time.Time) (int, error) {
	var n int
	err := m.scalar(ctx, &n, `SELECT count(*) FROM memories WHERE state = 'active' AND created_at >= ?`, toMS(since))
	return n, err
}

func (m *memoryTx) CountMemories(ctx context.Context) (core.MemoryCounts, error) {
	c := core.MemoryCounts{States: map[string]int{}, Categories: map[string]int{}}
	rows, err := m.query(ctx, `SELECT coalesce(state, 'active'), coalesce(category, 'general'), count(*), coalesce(sum(pinned = 1), 0),
		coalesce(sum(length(CAST(content AS BLOB))), 0) FROM memories GROUP BY 1, 2`)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	for rows.Next() {
		var state, category string
		var n, pinned int
		var size int64
		if err := rows.Scan(&state, &category, &n, &pinned, &size); err != nil {
			return c, fmt.Errorf("count memories: %w", err)
		}
		c.States[state] += n
		if state == core.MemoryActive {
			c.Categories[category] += n
			c.Pinned += pinned
		}
		c.Bytes += size
	}
	if err := rows.Err(); err != nil {
		return c, fmt.Errorf("count memories: %w", err)
	}
	if err := m.scalar(ctx, &c.Tombstones, `SELECT count(*) FROM memory_tombstones`); err != nil {
		return c, err
	}
	err = m.scalar(ctx, &c.Events, `SELECT count(*) FROM memory_events`)
	return c, err
}

func memoryArgs(v core.Memory) []any {
	pinned := 0
	if v.Pinned {
		pinned = 1
	}
	return []any{v.Content, v.Category, v.Priority, v.Importance, strings.Join(v.Tags, "\n"), v.Scope, v.Project, pinned, v.State, v.Source,
		v.Session, v.Message, v.Context, toMS(v.CreatedAt), toMS(v.UpdatedAt), toMS(v.AgedAt), toMS(v.ExpiresAt), toMS(v.LastUsedAt), v.UseCount,
		v.LastOutcome, toMS(v.ValidFrom), toMS(v.ValidTo), v.SupersededBy, v.Hash, strings.Join(v.Keywords, "\n")}
}

func (m *memoryTx) AddMemory(ctx context.Context, v core.Memory, ix core.MemoryIndex) (int64, error) {
	res, err := m.exec(ctx, `INSERT INTO memories(content, category, priority, importance, tags, scope, project, pinned, state, source,
		session_id, message_seq, context, created_at, updated_at, aged_at, expires_at, last_used_at, use_count, last_outcome,
		valid_from, valid_to, superseded_by, hash, keywords) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, memoryArgs(v)...)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, fmt.Errorf("add memory: %w", err)
	}
	for _, src := range v.Sources {
		if err := m.LinkMemories(ctx, id, src, "derived"); err != nil {
			return 0, err
		}
	}
	return id, m.index(ctx, id, ix)
}

func (m *memoryTx) UpdateMemory(ctx context.Context, v core.Memory, ix *core.MemoryIndex) error {
	if _, err := m.exec(ctx, `UPDATE memories SET content=?, category=?, priority=?, importance=?, tags=?, scope=?, project=?, pinned=?, state=?,
		source=?, session_id=?, message_seq=?, context=?, created_at=?, updated_at=?, aged_at=?, expires_at=?, last_used_at=?, use_count=?,
		last_outcome=?, valid_from=?, valid_to=?, superseded_by=?, hash=?, keywords=? WHERE id=?`, append(memoryArgs(v), v.ID)...); err != nil {
		return err
	}
	if ix == nil {
		return nil
	}
	if err := m.unindex(ctx, v.ID); err != nil {
		return err
	}
	return m.index(ctx, v.ID, *ix)
}

// distinct calls fn once for each word and returns how many words there are in all.
func distinct(words string, fn func(string) error) (int, error) {
	seen := map[string]bool{}
	n := 0
	for w := range strings.FieldsSeq(words) {
		n++
		if !seen[w] {
			seen[w] = true
			if err := fn(w); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (m *memoryTx) index(ctx context.Context, id int64, ix core.MemoryIndex) error {
	if _, err := m.exec(ctx, `INSERT INTO memory_index(rowid, words, grams, context) VALUES(?,?,?,?)`, id, ix.Words, ix.Grams, ix.Context); err != nil {
		return err
	}
	n, err := distinct(ix.Words, func(w string) error {
		_, err := m.exec(ctx, `INSERT INTO memory_words(word, rows) VALUES(?, 1) ON CONFLICT(word) DO UPDATE SET rows = rows + 1`, w)
		return err
	})
	if err != nil {
		return err
	}
	_, err = m.exec(ctx, `UPDATE memory_totals SET rows = rows + 1, words = words + ? WHERE id = 1`, n)
	return err
}

func (m *memoryTx) unindex(ctx context.Context, id int64) error {
	st, err := m.stmt(ctx, `SELECT words FROM memory_index WHERE rowid = ?`)
	if err != nil {
		return err
	}
	var words string
	err = st.QueryRowContext(ctx, id).Scan(&words)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read memory index: %w", err)
	}
	n, err := distinct(words, func(w string) error {
		if _, err := m.exec(ctx, `UPDATE memory_words SET rows = rows - 1 WHERE word = ?`, w); err != nil {
			return err
		}
		_, err := m.exec(ctx, `DELETE FROM memory_words WHERE word = ? AND rows <= 0`, w)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := m.exec(ctx, `DELETE FROM memory_index WHERE rowid = ?`, id); err != nil {
		return err
	}
	_, err = m.exec(ctx, `UPDATE memory_totals SET rows = max(0, rows - 1), words = max(0, words - ?) WHERE id = 1`, n)
	return err
}

// RepairMemories gives rows with missing values their defaults.
func (m *memoryTx) RepairMemories(ctx context.Context) (int, error) {
	n := 0
	for _, q := range []string{
		`UPDATE memories SET priority = 2 WHERE state = 'active' AND priority IS NULL`,
		`UPDATE memories SET importance = 3 WHERE state = 'active' AND priority IN (0, 1, 2, 3) AND importance IS NULL`,
		`UPDATE memories SET aged_at = CASE WHEN typeof(created_at) = 'integer' AND created_at > 0 THEN created_at ELSE updated_at END
			WHERE state = 'active' AND priority IN (0, 1, 2, 3) AND (aged_at IS NULL OR aged_at <= 0) AND typeof(updated_at) = 'integer'`,
	} {
		res, err := m.exec(ctx, q)
		if err != nil {
			return n, err
		}
		k, err := res.RowsAffected()
		if err != nil {
			return n, fmt.Errorf("repair memories: %w", err)
		}
		n += int(k)
	}
	return n, nil
}

// ResetMemoryIndex empties the index, for making it again with AddMemoryIndex.
func (m *memoryTx) ResetMemoryIndex(ctx context.Context) error {
	for _, q := range []string{`DELETE FROM memory_index`, `DELETE FROM memory_words`, `INSERT OR REPLACE INTO memory_totals VALUES(1, 0, 0)`} {
		if _, err := m.exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// AddMemoryIndex indexes a row that is not in the index.
func (m *memoryTx) AddMemoryIndex(ctx context.Context, id int64, ix core.MemoryIndex) error {
	return m.index(ctx, id, ix)
}

func (m *memoryTx) UseMemories(ctx context.Context, ids []int64, at time.Time) error {
	for _, id := range ids {
		if _, err := m.exec(ctx, `UPDATE memories SET last_used_at = max(coalesce(last_used_at, 0), ?), use_count = coalesce(use_count, 0) + 1 WHERE id = ?`, toMS(at), id); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryTx) SetOutcome(ctx context.Context, ids []int64, outcome string) error {
	for _, id := range ids {
		if _, err := m.exec(ctx, `UPDATE memories SET last_outcome = ? WHERE id = ?`, outcome, id); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryTx) LinkMemories(ctx context.Context, a, b int64, kind string) error {
	if a == b {
		return nil
	}
	_, err := m.exec(ctx, `INSERT OR IGNORE INTO memory_links(from_id, to_id, kind) VALUES(?,?,?)`, a, b, kind)
	return err
}

func (m *memoryTx) AddEvent(ctx context.Context, e core.MemoryEvent) error {
	_, err := m.exec(ctx, `INSERT INTO memory_events(memory_id, at, action, detail, other_id) VALUES(?,?,?,?,?)`, e.Memory, toMS(e.At), e.Action, e.Detail, e.Other)
	return err
}

func (m *memoryTx) EraseMemory(ctx context.Context, id int64) (derived []int64, err error) {
	if derived, err = m.DerivedMemories(ctx, id); err != nil {
		return nil, err
	}
	if err := m.unindex(ctx, id); err != nil {
		return nil, err
	}
	for _, q := range []string{
		`DELETE FROM memory_events WHERE memory_id = ?`,
		`UPDATE memory_events SET other_id = 0, detail = '' WHERE other_id = ?`,
		`DELETE FROM memory_links WHERE ?1 IN (from_id, to_id)`,
		`UPDATE memories SET superseded_by = 0 WHERE superseded_by = ?`,
		`DELETE FROM memories WHERE id = ?`,
	} {
		if _, err := m.exec(ctx, q, id); err != nil {
			return nil, err
		}
	}
	return derived, nil
}

func (m *memoryTx) AddTombstone(ctx context.Context, at time.Time, hashes ...string) error {
	for _, h := range hashes {
		if _, err := m.exec(ctx, `INSERT OR IGNORE INTO memory_tombstones(hash, at) VALUES(?,?)`, h, toMS(at)); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryTx) DropTombstone(ctx context.Context, hashes ...string) error {
	for _, h := range hashes {
		if _, err := m.exec(ctx, `DELETE FROM memory_tombstones WHERE hash = ?`, h); err != nil {
			return err
		}
	}
	return nil
}

// MemoryProgress is the last message of a session that extraction has read, 0 for none.
func (s *Store) MemoryProgress(ctx context.Context, session string) (int64, error) {
	var n int64
	err := s.db.QueryRowContext(ctx, `SELECT seq FROM memory_progress WHERE session_id = ?`, session).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// SetMemoryProgress records how far extraction has read; it never goes back.
func (s *Store) SetMemoryProgress(ctx context.Context, session string, seq int64) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory_progress(session_id, seq, at) VALUES(?,?,?)
			ON CONFLICT(session_id) DO UPDATE SET seq = max(seq, excluded.seq), at = excluded.at`, session, seq, ms(s.now()))
		return err
	})
}

// SkipMemory leaves out what a session holds so far: extraction reads only what follows.
func (s *Store) SkipMemory(ctx context.Context, session string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory_progress(session_id, seq, at)
			SELECT ?1, max(seq), ?2 FROM messages WHERE session_id = ?1 HAVING max(seq) IS NOT NULL
			ON CONFLICT(session_id) DO UPDATE SET seq = max(seq, excluded.seq), at = excluded.at`, session, ms(s.now()))
		return err
	})
}

// MemoryPending lists sessions of a person that hold messages of the user which
// extraction has not read, oldest first.
func (s *Store) MemoryPending(ctx context.Context, limit int) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT s.id FROM sessions s LEFT JOIN memory_progress p ON p.session_id = s.id
		WHERE s.kind IN ('', 'chat') AND EXISTS (SELECT 1 FROM messages m WHERE m.session_id = s.id AND m.seq > coalesce(p.seq, 0) AND m.role = 'user')
		ORDER BY s.updated_at, s.id LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("list sessions to read: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("list sessions to read: %w", err)
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// ReferenceMemories reads the table memories of a chat_history.db of the reference. The
// file is opened for reading only and is not changed. Odd values become defaults. Ids are
// counted from 1 in the order of creation. Times without zone are in loc.
func ReferenceMemories(ctx context.Context, path string, loc *time.Location) ([]core.Memory, error) {
	db, err := sql.Open("sqlite3", dsn(path, true))
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "open %s: %w", path, err)
	}
	defer db.Close()
	have := map[string]bool{}
	cols, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_info('memories')`)
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "read %s: %w", path, err)
	}
	for cols.Next() {
		var c string
		if err := cols.Scan(&c); err != nil {
			cols.Close()
			return nil, err
		}
		have[c] = true
	}
	if err := errors.Join(cols.Err(), cols.Close()); err != nil {
		return nil, core.Errorf(core.KindUsage, "read %s: %w", path, err)
	}
	if !have["content"] {
		return nil, core.Errorf(core.KindUsage, "%s holds no table of memories", path).Hint("give a chat_history.db, a .jsonl file or a memory.md")
	}
	col := func(name string) string {
		if have[name] {
			return name
		}
		return "NULL"
	}
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`SELECT %s FROM memories ORDER BY rowid`, strings.Join([]string{
		"content", col("category"), col("priority"), col("importance"), col("tags"), col("expires_at"), col("is_active"), col("created_at"),
		col("updated_at"), col("last_accessed_at"), col("pinned"), col("source_topic_id")}, ", ")))
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "read %s: %w", path, err)
	}
	defer rows.Close()
	var out []core.Memory
	for rows.Next() {
		var v core.Memory
		var tags, expires, created, updated, used, topic string
		var active, pinned int
		if err := rows.Scan(lenientText{&v.Content, ""}, lenientText{&v.Category, core.MemoryGeneral}, lenientInt{&v.Priority, core.PriorityMedium},
			lenientInt{&v.Importance, 3}, lenientText{&tags, ""}, lenientText{&expires, ""}, lenientInt{&active, 1}, lenientText{&created, ""},
			lenientText{&updated, ""}, lenientText{&used, ""}, lenientInt{&pinned, 0}, lenientText{&topic, ""}); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		v.ID = int64(len(out) + 1)
		for t := range strings.SplitSeq(tags, ",") {
			if t = strings.TrimSpace(t); t != "" {
				v.Tags = append(v.Tags, t)
			}
		}
		v.State, v.Pinned, v.Source, v.Session = core.MemoryActive, pinned != 0, core.SourceImport, topic
		if active == 0 {
			v.State = core.MemoryArchived
		}
		v.ExpiresAt, _ = core.ParseTime(expires, loc)
		v.CreatedAt, _ = core.ParseTime(created, loc)
		v.UpdatedAt, _ = core.ParseTime(updated, loc)
		v.LastUsedAt, _ = core.ParseTime(used, loc)
		out = append(out, v)
	}
	return out, rows.Err()
}
