package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
)

var _ core.SessionLog = (*Store)(nil)

const sessionColumns = `id, title, title_by, project, model, system, tools, prompt_version, parent, kind,
	created_at, updated_at, turns, last_stop, requests, prompt_tokens, cached_tokens, completion_tokens, unreported,
	(SELECT count(*) FROM messages m WHERE m.session_id = sessions.id AND m.note NOT IN ('epoch', 'copy'))`

func scanSession(row interface{ Scan(...any) error }) (core.Session, error) {
	var v core.Session
	var created, updated int64
	var stop string
	err := row.Scan(&v.ID, &v.Title, &v.TitleBy, &v.Project, &v.Model, &v.System, (*[]byte)(&v.Tools), &v.Prompt, &v.Parent, &v.Kind,
		&created, &updated, &v.Turns, &stop, &v.Usage.Requests, &v.Usage.PromptTokens, &v.Usage.CachedTokens,
		&v.Usage.CompletionTokens, &v.Usage.Unreported, &v.Messages)
	v.CreatedAt, v.UpdatedAt, v.LastStop = fromMS(created), fromMS(updated), core.StopReason(stop)
	return v, err
}

// CreateSession stores a new session. Its times are set to now when they are zero.
func (s *Store) CreateSession(ctx context.Context, v core.Session) error {
	if v.CreatedAt.IsZero() {
		v.CreatedAt = s.now()
	}
	if v.UpdatedAt.IsZero() {
		v.UpdatedAt = v.CreatedAt
	}
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO sessions(id, title, title_by, project, model, system, tools, prompt_version,
			parent, kind, created_at, updated_at) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)`,
			v.ID, v.Title, v.TitleBy, v.Project, v.Model, v.System, []byte(v.Tools), v.Prompt, v.Parent, v.Kind,
			ms(v.CreatedAt), ms(v.UpdatedAt))
		if err != nil {
			return fmt.Errorf("store session %s: %w", v.ID, err)
		}
		return nil
	})
}

// Session returns the session whose id is, or uniquely begins with, id. The error wraps
// core.ErrNotFound for none and has the kind core.KindUsage for several.
func (s *Store) Session(ctx context.Context, id string) (core.Session, error) {
	if err := core.CheckID(id); err != nil {
		return core.Session{}, err
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE id >= ? AND id < ? || x'7f' ORDER BY id LIMIT 3`, id, id)
	if err != nil {
		return core.Session{}, fmt.Errorf("look up session: %w", err)
	}
	defer rows.Close()
	var found []core.Session
	for rows.Next() {
		v, err := scanSession(rows)
		if err != nil {
			return core.Session{}, fmt.Errorf("look up session: %w", err)
		}
		if v.ID == id {
			return v, nil
		}
		found = append(found, v)
	}
	if err := rows.Err(); err != nil {
		return core.Session{}, fmt.Errorf("look up session: %w", err)
	}
	switch len(found) {
	case 0:
		return core.Session{}, core.Errorf(core.KindNotFound, "session %s: %w", id, core.ErrNotFound).Hint("lj sessions list shows them")
	case 1:
		return found[0], nil
	}
	return core.Session{}, core.Errorf(core.KindUsage, "session %s is ambiguous: %s, %s …", id, found[0].ID, found[1].ID).
		Hint("give more of the id")
}

// SessionFilter narrows Sessions. The zero value is every session.
type SessionFilter struct {
	Project string // absolute path; "" for all
	Kind    string // "chat" leaves the sessions of plan steps out; "" for all
	Limit   int    // 0: no limit
}

// Sessions lists sessions, newest first.
func (s *Store) Sessions(ctx context.Context, f SessionFilter) ([]core.Session, error) {
	q := `SELECT ` + sessionColumns + ` FROM sessions WHERE 1`
	var args []any
	if f.Project != "" {
		q += ` AND project = ?`
		args = append(args, f.Project)
	}
	if f.Kind == "chat" {
		q += ` AND kind IN ('', 'chat')`
	}
	q += ` ORDER BY updated_at DESC, id DESC`
	if f.Limit > 0 {
		q += fmt.Sprintf(` LIMIT %d`, f.Limit)
	}
	rows, err := s.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	defer rows.Close()
	list := []core.Session{}
	for rows.Next() {
		v, err := scanSession(rows)
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// Append adds messages at the end of a session's log, in order, in one transaction. Seq
// is given by the store: the Seq fields of msgs are ignored.
func (s *Store) Append(ctx context.Context, session string, msgs ...core.StoredMessage) error {
	if len(msgs) == 0 {
		return nil
	}
	if err := fault.Point("store.append"); err != nil {
		return err
	}
	return s.Tx(ctx, func(tx *sql.Tx) error {
		var last int64
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = ?`, session).Scan(&last); err != nil {
			return fmt.Errorf("append to session %s: %w", session, err)
		}
		now := s.now()
		turn := 0
		for _, m := range msgs {
			last++
			at := m.At
			if at.IsZero() {
				at = now
			}
			turn = max(turn, m.Turn)
			if _, err := tx.ExecContext(ctx, `INSERT INTO messages(session_id, seq, turn, at, role, note, text, raw) VALUES(?,?,?,?,?,?,?,?)`,
				session, last, m.Turn, ms(at), m.Role, m.Note, searchText(m), []byte(m.Raw)); err != nil {
				return fmt.Errorf("append to session %s: %w", session, err)
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET updated_at = ?, turns = max(turns, ?) WHERE id = ?`, ms(now), turn, session)
		if err != nil {
			return fmt.Errorf("append to session %s: %w", session, err)
		}
		return nil
	})
}

// searchText is what a search looks at: the words, and the arguments of calls; nothing for
// what a new epoch says again.
func searchText(m core.StoredMessage) any {
	if m.Note == "epoch" || m.Note == "copy" {
		return nil
	}
	if len(m.ToolCalls) == 0 {
		return m.Content
	}
	var b strings.Builder
	b.WriteString(m.Content)
	for _, c := range m.ToolCalls {
		if c.Name == "search_history" || c.Name == "use_tool" && strings.Contains(c.Arguments, "search_history") {
			continue // a question finds answers, not itself
		}
		b.WriteString("\n" + c.Name + " " + c.Arguments)
	}
	return b.String()
}

// Messages returns the whole log of a session in order. Rows with missing text are
// returned with empty text.
func (s *Store) Messages(ctx context.Context, session string) ([]core.StoredMessage, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT seq, turn, at, role, note, text, coalesce(raw, x'') FROM messages WHERE session_id = ? ORDER BY seq`, session)
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", session, err)
	}
	defer rows.Close()
	var list []core.StoredMessage
	for rows.Next() {
		var m core.StoredMessage
		var at int64
		var text sql.NullString
		if err := rows.Scan(&m.Seq, &m.Turn, &at, &m.Role, &m.Note, &text, (*[]byte)(&m.Raw)); err != nil {
			return nil, fmt.Errorf("read session %s: %w", session, err)
		}
		m.At = fromMS(at)
		if len(m.Raw) == 0 {
			continue // nothing was ever sent
		}
		decode(&m.Message)
		if m.Role == core.RoleUser && text.Valid {
			m.Content = text.String // the user's own words, without what was put before them
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// wire is the form of a message on the wire, as far as people want to see it.
type wire struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content"`
	Reason2   string          `json:"reasoning"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

// decode fills the readable fields of m from m.Raw.
func decode(m *core.Message) {
	var w wire
	if err := json.Unmarshal(m.Raw, &w); err != nil {
		return
	}
	if w.Role != "" {
		m.Role = w.Role
	}
	m.Reasoning = w.Reasoning + w.Reason2
	m.ToolCallID = w.ToolCallID
	m.Content = contentText(w.Content)
	for _, c := range w.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, core.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
}

func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		} else {
			b.WriteString("[" + p.Type + "]")
		}
	}
	return b.String()
}

// EndTurn records how a turn ended and what it cost.
func (s *Store) EndTurn(ctx context.Context, session string, stop core.StopReason, u core.Usage) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET last_stop = ?, updated_at = ?, requests = requests + ?, prompt_tokens = prompt_tokens + ?,
			cached_tokens = cached_tokens + ?, completion_tokens = completion_tokens + ?, unreported = unreported + ? WHERE id = ?`,
			string(stop), ms(s.now()), u.Requests, u.PromptTokens, u.CachedTokens, u.CompletionTokens, u.Unreported, session)
		return err
	})
}

// SetTitle sets a session's title; by is "user" or "model". A title set by the user is
// never replaced by another.
func (s *Store) SetTitle(ctx context.Context, session, title, by string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET title = ?, title_by = ? WHERE id = ? AND (title_by <> 'user' OR ? = 'user')`, title, by, session, by)
		return err
	})
}

// DeleteSession removes a session, its messages, calls and index entries, and returns the
// files below the home directory that held its kept outputs, for the caller to remove.
func (s *Store) DeleteSession(ctx context.Context, id string) (files []string, err error) {
	err = s.Tx(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT path FROM outputs WHERE session_id = ?`, id)
		if err != nil {
			return err
		}
		for rows.Next() {
			var p string
			if err := rows.Scan(&p); err != nil {
				rows.Close()
				return err
			}
			files = append(files, p)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, q := range []string{
			`DELETE FROM message_index WHERE rowid IN (SELECT id FROM messages WHERE session_id = ?)`,
			`DELETE FROM outputs WHERE session_id = ?`,
			`DELETE FROM calls WHERE session_id = ?`,
			`DELETE FROM messages WHERE session_id = ?`,
			`DELETE FROM known_files WHERE session_id = ?`,
			`DELETE FROM summaries WHERE session_id = ?`,
			`DELETE FROM background WHERE session_id = ?`,
			`DELETE FROM sessions WHERE id = ?`,
		} {
			if _, err := tx.ExecContext(ctx, q, id); err != nil {
				return fmt.Errorf("remove session %s: %w", id, err)
			}
		}
		return nil
	})
	return files, err
}

// Hit is one message that a search found.
type Hit struct {
	Session string    `json:"session_id"`
	Title   string    `json:"title"`
	Project string    `json:"project"`
	Turn    int       `json:"turn"`
	Role    string    `json:"role"`
	At      time.Time `json:"at"`
	Snippet string    `json:"snippet"`
}

// Grams cuts text into the units of the message index: words of letters and digits in
// lower case, and for scripts written without blanks each character and each pair of
// neighbours. It needs no dictionary.
func Grams(text string) []string {
	var out []string
	var word []rune
	var prev rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, string(word))
			word = word[:0]
		}
	}
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			flush()
			out = append(out, string(r))
			if prev != 0 {
				out = append(out, string([]rune{prev, r}))
			}
			prev = r
			continue
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			word = append(word, unicode.ToLower(r))
		default:
			flush()
		}
		prev = 0
	}
	flush()
	return out
}

const indexedKey = "messages_indexed"

// indexMessages brings the full-text index up to date, in batches so that no write
// transaction is long.
func (s *Store) indexMessages(ctx context.Context) error {
	for {
		n := 0
		err := s.Tx(ctx, func(tx *sql.Tx) error {
			var from int64
			err := tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = ?`, indexedKey).Scan(&from)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if from == 0 {
				if _, err := tx.ExecContext(ctx, `DELETE FROM message_index`); err != nil {
					return err
				}
			}
			type row struct {
				id   int64
				text sql.NullString
			}
			var batch []row
			rows, err := tx.QueryContext(ctx, `SELECT id, text FROM messages WHERE id > ? ORDER BY id LIMIT 1000`, from)
			if err != nil {
				return err
			}
			for rows.Next() {
				var r row
				if err := rows.Scan(&r.id, &r.text); err != nil {
					rows.Close()
					return err
				}
				batch = append(batch, r)
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
			for _, r := range batch {
				text := r.text.String
				if len(text) > 64<<10 {
					text = text[:64<<10] // the head of a huge result is enough to find it
				}
				if g := Grams(text); len(g) > 0 {
					if _, err := tx.ExecContext(ctx, `INSERT INTO message_index(rowid, grams) VALUES(?, ?)`, r.id, strings.Join(g, " ")); err != nil {
						return err
					}
				}
				from = r.id
			}
			if n = len(batch); n == 0 {
				return nil
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value`, indexedKey, fmt.Sprint(from))
			return err
		})
		if err != nil {
			return fmt.Errorf("index messages: %w", err)
		}
		if n < 1000 {
			return nil
		}
	}
}

// Search finds messages that hold all of the words, best first. Words may be of any
// script; a query without a letter or digit finds nothing. Project "" searches all.
func (s *Store) Search(ctx context.Context, words, project string, limit int) ([]Hit, error) {
	return s.search(ctx, words, project, limit, "", 0, " AND ")
}

// SearchAny is Search for those who ask in sentences: where no message holds all of the
// words, those that hold most of them count. What was said in a session from a turn on is
// left out: the question itself.
func (s *Store) SearchAny(ctx context.Context, words, project string, limit int, session string, turn int) ([]Hit, error) {
	hits, err := s.search(ctx, words, project, limit, session, turn, " AND ")
	if err != nil || len(hits) > 0 {
		return hits, err
	}
	return s.search(ctx, words, project, limit, session, turn, " OR ")
}

func (s *Store) search(ctx context.Context, words, project string, limit int, without string, turn int, join string) ([]Hit, error) {
	if limit <= 0 {
		limit = 20
	}
	if err := s.indexMessages(ctx); err != nil {
		return nil, err
	}
	match := matchWords(words, join)
	if match == "" {
		return []Hit{}, nil
	}
	q := `SELECT m.session_id, s.title, s.project, m.turn, m.role, m.at, coalesce(m.text, '')
		FROM message_index i JOIN messages m ON m.id = i.rowid JOIN sessions s ON s.id = m.session_id
		WHERE message_index MATCH ?`
	args := []any{match}
	if project != "" {
		q += ` AND s.project = ?`
		args = append(args, project)
	}
	if without != "" {
		q += ` AND NOT (m.session_id = ? AND m.turn >= ?)`
		args = append(args, without, turn)
	}
	q += fmt.Sprintf(` ORDER BY bm25(message_index), m.id DESC LIMIT %d`, limit)
	rows, err := s.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, fmt.Errorf("search messages: %w", err)
	}
	defer rows.Close()
	hits := []Hit{}
	for rows.Next() {
		var h Hit
		var at int64
		var text string
		if err := rows.Scan(&h.Session, &h.Title, &h.Project, &h.Turn, &h.Role, &at, &text); err != nil {
			return nil, fmt.Errorf("search messages: %w", err)
		}
		h.At = fromMS(at)
		h.Snippet = snippet(text, words)
		hits = append(hits, h)
	}
	return hits, rows.Err()
}

// matchWords is the index query for all or any of the grams of words: a run of characters
// without blanks must occur as its pairs, a single one as itself.
func matchWords(words, join string) string {
	seen := map[string]bool{}
	var terms []string
	for f := range strings.FieldsSeq(words) {
		grams := Grams(f)
		pairs := false
		for _, g := range grams {
			pairs = pairs || isPair(g)
		}
		for _, g := range grams {
			// Where pairs exist single characters add nothing.
			if pairs && isSingle(g) || seen[g] {
				continue
			}
			seen[g] = true
			terms = append(terms, `"`+g+`"`)
		}
	}
	return strings.Join(terms, join)
}

func isIdeo(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

func isPair(g string) bool {
	r := []rune(g)
	return len(r) == 2 && isIdeo(r[0])
}

func isSingle(g string) bool {
	r := []rune(g)
	return len(r) == 1 && isIdeo(r[0])
}

// snippet is the line of text around the first of the words, at most about 160 runes.
func snippet(text, words string) string {
	lower := strings.ToLower(text)
	at := -1
	for f := range strings.FieldsSeq(strings.ToLower(words)) {
		if i := strings.Index(lower, f); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	runes := []rune(text)
	pos := 0
	if at > 0 && at <= len(text) {
		pos = len([]rune(lower[:at]))
	}
	from := max(0, pos-40)
	to := min(len(runes), from+160)
	if from > len(runes) {
		from = 0
	}
	out := strings.Join(strings.Fields(string(runes[from:to])), " ")
	if from > 0 {
		out = "…" + out
	}
	if to < len(runes) {
		out += "…"
	}
	return out
}
