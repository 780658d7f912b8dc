package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// CallRecord is one tool call that ended.
type CallRecord struct {
	Session string
	Turn    int
	CallID  string
	Name    string
	Version string
	Status  string // ok, error, denied, cancelled
	Took    time.Duration
	At      time.Time
	Error   string // the beginning of the error text, "" for ok
}

// RecordCalls stores how calls ended, in one transaction.
func (s *Store) RecordCalls(ctx context.Context, calls ...CallRecord) error {
	if len(calls) == 0 {
		return nil
	}
	return s.Tx(ctx, func(tx *sql.Tx) error {
		for _, c := range calls {
			if c.At.IsZero() {
				c.At = s.now()
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO calls(session_id, turn, call_id, name, version, status, ms, at, error) VALUES(?,?,?,?,?,?,?,?,?)`,
				c.Session, c.Turn, c.CallID, c.Name, c.Version, c.Status, c.Took.Milliseconds(), ms(c.At), short(c.Error, 500)); err != nil {
				return fmt.Errorf("record call of %s: %w", c.Name, err)
			}
		}
		return nil
	})
}

// CallStats counts calls and failures of each tool over all sessions; the median time is
// that of the newest 200 calls. Denied and cancelled calls are neither.
func (s *Store) CallStats(ctx context.Context) (map[string]core.ToolStat, error) {
	rows, err := s.db.QueryContext(ctx, `
		WITH n AS (SELECT name, status, ms, row_number() OVER (PARTITION BY name ORDER BY id DESC) AS k FROM calls WHERE status IN ('ok','error')),
		     p AS (SELECT name, ms, row_number() OVER (PARTITION BY name ORDER BY ms) AS r, count(*) OVER (PARTITION BY name) AS c FROM n WHERE k <= 200)
		SELECT n.name, count(*), sum(status = 'error'), (SELECT ms FROM p WHERE p.name = n.name AND r = (c + 1) / 2) FROM n GROUP BY n.name`)
	if err != nil {
		return nil, fmt.Errorf("count calls: %w", err)
	}
	defer rows.Close()
	out := map[string]core.ToolStat{}
	for rows.Next() {
		var name string
		var st core.ToolStat
		var p50 int64
		if err := rows.Scan(&name, &st.Calls, &st.Failures, &p50); err != nil {
			return nil, fmt.Errorf("count calls: %w", err)
		}
		st.P50 = time.Duration(p50) * time.Millisecond
		out[name] = st
	}
	return out, rows.Err()
}

// Calls returns the calls of a session, oldest first.
func (s *Store) Calls(ctx context.Context, session string) ([]CallRecord, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT turn, call_id, name, version, status, ms, at, error FROM calls WHERE session_id = ? ORDER BY id`, session)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	defer rows.Close()
	var out []CallRecord
	for rows.Next() {
		c := CallRecord{Session: session}
		var took, at int64
		if err := rows.Scan(&c.Turn, &c.CallID, &c.Name, &c.Version, &c.Status, &took, &at, &c.Error); err != nil {
			return nil, fmt.Errorf("read calls: %w", err)
		}
		c.Took, c.At = time.Duration(took)*time.Millisecond, fromMS(at)
		out = append(out, c)
	}
	return out, rows.Err()
}

// Output is a large result that is kept outside of the log.
type Output struct {
	ID      string
	Session string
	CallID  string
	Tool    string
	Path    string // relative to the home directory
	Bytes   int64
	Dropped int64
}

// SaveOutput records a kept output.
func (s *Store) SaveOutput(ctx context.Context, o Output) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO outputs(id, session_id, call_id, tool, path, bytes, dropped, at) VALUES(?,?,?,?,?,?,?,?)`,
			o.ID, o.Session, o.CallID, o.Tool, o.Path, o.Bytes, o.Dropped, ms(s.now()))
		return err
	})
}

// OutputByID returns a kept output of a session or of the steps of its plans. The error
// wraps core.ErrNotFound.
func (s *Store) OutputByID(ctx context.Context, session, id string) (Output, error) {
	o := Output{ID: id, Session: session}
	err := s.db.QueryRowContext(ctx, `SELECT call_id, tool, path, bytes, dropped FROM outputs WHERE id = ?1 AND (session_id = ?2
		OR session_id IN (SELECT id FROM sessions WHERE parent = ?2 AND kind = 'step')) ORDER BY session_id <> ?2 LIMIT 1`, id, session).
		Scan(&o.CallID, &o.Tool, &o.Path, &o.Bytes, &o.Dropped)
	if errors.Is(err, sql.ErrNoRows) {
		return o, core.Errorf(core.KindNotFound, "output %s: %w", id, core.ErrNotFound)
	}
	return o, err
}

// Known returns the digests of the files that a session has read or written.
func (s *Store) Known(ctx context.Context, session string) (map[string]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT path, digest FROM known_files WHERE session_id = ?`, session)
	if err != nil {
		return nil, fmt.Errorf("read known files: %w", err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var p, d string
		if err := rows.Scan(&p, &d); err != nil {
			return nil, fmt.Errorf("read known files: %w", err)
		}
		out[p] = d
	}
	return out, rows.Err()
}

// SetKnown records digests of files that a session has read or written.
func (s *Store) SetKnown(ctx context.Context, session string, digests map[string]string) error {
	if len(digests) == 0 {
		return nil
	}
	return s.Tx(ctx, func(tx *sql.Tx) error {
		for p, d := range digests {
			if _, err := tx.ExecContext(ctx, `INSERT INTO known_files(session_id, path, digest) VALUES(?,?,?)
				ON CONFLICT(session_id, path) DO UPDATE SET digest = excluded.digest`, session, p, d); err != nil {
				return fmt.Errorf("record known file %s: %w", p, err)
			}
		}
		return nil
	})
}

// Todo returns a session's list as the model wrote it, "[]" when there is none.
func (s *Store) Todo(ctx context.Context, session string) (json.RawMessage, error) {
	var v string
	err := s.db.QueryRowContext(ctx, `SELECT todo FROM sessions WHERE id = ?`, session).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return json.RawMessage("[]"), nil
	}
	return json.RawMessage(v), err
}

// SetTodo replaces a session's list.
func (s *Store) SetTodo(ctx context.Context, session string, list json.RawMessage) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET todo = ? WHERE id = ?`, string(list), session)
		return err
	})
}

// Grants returns the rules that a person allowed always in a project.
func (s *Store) Grants(ctx context.Context, project string) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT rule FROM grants WHERE project = ? ORDER BY at, rule`, project)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var r string
		if err := rows.Scan(&r); err != nil {
			return nil, fmt.Errorf("read grants: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Grant records a rule as allowed always in a project.
func (s *Store) Grant(ctx context.Context, project, rule string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO grants(project, rule, at) VALUES(?,?,?)`, project, rule, ms(s.now()))
		return err
	})
}

// AddCost counts what requests cost under their cause, on the local date of now.
func (s *Store) AddCost(ctx context.Context, cause, model, session string, u core.Usage) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO costs(day, cause, model, session_id, requests, prompt_tokens, cached_tokens, completion_tokens, unreported, guessed_tokens)
			VALUES(?,?,?,?,?,?,?,?,?,?) ON CONFLICT(day, cause, model, session_id) DO UPDATE SET requests = requests + excluded.requests,
			prompt_tokens = prompt_tokens + excluded.prompt_tokens, cached_tokens = cached_tokens + excluded.cached_tokens,
			completion_tokens = completion_tokens + excluded.completion_tokens, unreported = unreported + excluded.unreported,
			guessed_tokens = guessed_tokens + excluded.guessed_tokens`,
			s.now().Format(time.DateOnly), cause, model, session, u.Requests, u.PromptTokens, u.CachedTokens, u.CompletionTokens, u.Unreported, u.Guessed)
		return err
	})
}

// Cost is one line of the cost table.
type Cost struct {
	Cause string `json:"cause"`
	Model string `json:"model"`
	core.Usage
	// What answers without figures are guessed at, and how many there were.
	Unreported int `json:"unreported"`
	Guessed    int `json:"guessed_tokens"`
}

// Costs sums what requests cost: of a session with the steps of its plans, or of a day
// (local date "2006-01-02") when session is "", by cause and model.
func (s *Store) Costs(ctx context.Context, session, day string) ([]Cost, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT cause, model, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(unreported), sum(guessed_tokens)
		FROM costs WHERE (?1 = '' OR session_id = ?1 OR session_id IN (SELECT id FROM sessions WHERE parent = ?1 AND kind = 'step'))
		AND (?2 = '' OR day = ?2) GROUP BY cause, model ORDER BY cause, model`, session, day)
	if err != nil {
		return nil, fmt.Errorf("read costs: %w", err)
	}
	defer rows.Close()
	var out []Cost
	for rows.Next() {
		var c Cost
		if err := rows.Scan(&c.Cause, &c.Model, &c.Requests, &c.PromptTokens, &c.CachedTokens, &c.CompletionTokens, &c.Unreported, &c.Guessed); err != nil {
			return nil, fmt.Errorf("read costs: %w", err)
		}
		c.Usage.Unreported, c.Usage.Guessed = c.Unreported, c.Guessed
		out = append(out, c)
	}
	return out, rows.Err()
}

// Meta returns a stored setting of lj itself (for example the remembered model of a
// server), "" when it is not set.
func (s *Store) Meta(ctx context.Context, key string) (string, error) {
	var v string
	err := s.db.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = ?`, key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return v, err
}

// SetMeta stores a setting of lj itself.
func (s *Store) SetMeta(ctx context.Context, key, value string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO meta(key, value) VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value = excluded.value`, key, value)
		return err
	})
}
