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

// Summary is what a model wrote about some turns of a session. The summaries of a session
// follow each other without gaps.
type Summary struct {
	ID       int64     `json:"id"`
	Session  string    `json:"session_id"`
	From     int       `json:"from_turn"`
	Upto     int       `json:"upto_turn"`
	Semantic string    `json:"semantic"`
	Tools    string    `json:"tools,omitempty"`
	Model    string    `json:"model"`
	At       time.Time `json:"at,omitzero"`
	Tokens   *int      `json:"tokens,omitempty"` // that it cost; nil where it is not known
}

// Summaries returns a session's summaries in the order of its turns.
func (s *Store) Summaries(ctx context.Context, session string) ([]Summary, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, session_id, from_turn, upto_turn, semantic, tools, model, at, tokens FROM summaries WHERE session_id = ? ORDER BY from_turn`, session)
	if err != nil {
		return nil, fmt.Errorf("read summaries: %w", err)
	}
	defer rows.Close()
	var out []Summary
	for rows.Next() {
		var v Summary
		var at int64
		if err := rows.Scan(&v.ID, &v.Session, &v.From, &v.Upto, &v.Semantic, &v.Tools, &v.Model, &at, &v.Tokens); err != nil {
			return nil, fmt.Errorf("read summaries: %w", err)
		}
		v.At = fromMS(at)
		out = append(out, v)
	}
	return out, rows.Err()
}

// AddSummary stores a summary in the place of those of its session that lie within its
// turns. One that overlaps others in part is refused: somebody else was faster.
func (s *Store) AddSummary(ctx context.Context, v Summary) error {
	if v.At.IsZero() {
		v.At = s.now()
	}
	return s.Tx(ctx, func(tx *sql.Tx) error {
		var n int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM summaries WHERE session_id = ?1 AND from_turn <= ?3 AND upto_turn >= ?2
			AND NOT (from_turn >= ?2 AND upto_turn <= ?3)`, v.Session, v.From, v.Upto).Scan(&n)
		if err != nil {
			return err
		}
		if n > 0 {
			return core.Errorf(core.KindFailed, "turns %d to %d of session %s are summarised already", v.From, v.Upto, v.Session)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM summaries WHERE session_id = ? AND from_turn >= ? AND upto_turn <= ?`, v.Session, v.From, v.Upto); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO summaries(session_id, from_turn, upto_turn, semantic, tools, model, at, tokens) VALUES(?,?,?,?,?,?,?,?)`,
			v.Session, v.From, v.Upto, v.Semantic, v.Tools, v.Model, ms(v.At), v.Tokens)
		if err != nil {
			return fmt.Errorf("store summary of session %s: %w", v.Session, err)
		}
		return nil
	})
}

// Background is how a job that no turn waits for last ended.
type Background struct {
	Job      string    `json:"job"`
	Session  string    `json:"session_id,omitempty"`
	State    string    `json:"state"` // done, failed, skipped
	Reason   string    `json:"reason,omitempty"`
	Upto     int       `json:"upto_turn,omitempty"`
	Failures int       `json:"failures,omitempty"` // in a row
	At       time.Time `json:"at,omitzero"`
}

// The states of a job.
const (
	JobDone    = "done"
	JobFailed  = "failed"
	JobSkipped = "skipped"
)

// RecordJob stores how a job ended; failures in a row are counted.
func (s *Store) RecordJob(ctx context.Context, b Background) error {
	failed := 0
	if b.State == JobFailed {
		failed = 1
	}
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO background(job, session_id, state, reason, upto, failures, at) VALUES(?1,?2,?3,?4,?5,?6,?7)
			ON CONFLICT(job, session_id) DO UPDATE SET state = ?3, reason = ?4, upto = ?5, at = ?7,
			failures = CASE WHEN ?6 = 1 THEN failures + 1 ELSE 0 END`,
			b.Job, b.Session, b.State, short(b.Reason, 500), b.Upto, failed, ms(s.now()))
		if err != nil {
			return fmt.Errorf("record %s: %w", b.Job, err)
		}
		return nil
	})
}

// Jobs returns how the jobs of a session last ended; "" is all sessions, newest first.
func (s *Store) Jobs(ctx context.Context, session string) ([]Background, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT job, session_id, state, reason, upto, failures, at FROM background WHERE ?1 = '' OR session_id = ?1 ORDER BY at DESC, job`, session)
	if err != nil {
		return nil, fmt.Errorf("read background work: %w", err)
	}
	defer rows.Close()
	out := []Background{}
	for rows.Next() {
		var b Background
		var at int64
		if err := rows.Scan(&b.Job, &b.Session, &b.State, &b.Reason, &b.Upto, &b.Failures, &at); err != nil {
			return nil, fmt.Errorf("read background work: %w", err)
		}
		b.At = fromMS(at)
		out = append(out, b)
	}
	return out, rows.Err()
}

// Plan returns the decided plan of a session as it was stored, nil for none.
func (s *Store) Plan(ctx context.Context, session string) (json.RawMessage, error) {
	var v string
	err := s.db.QueryRowContext(ctx, `SELECT plan FROM sessions WHERE id = ?`, session).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) || v == "" {
		return nil, nil
	}
	return json.RawMessage(v), err
}

// SetPlan replaces the decided plan of a session.
func (s *Store) SetPlan(ctx context.Context, session string, plan json.RawMessage) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET plan = ? WHERE id = ?`, string(plan), session)
		return err
	})
}

// Outputs lists what was kept of a session's calls.
func (s *Store) Outputs(ctx context.Context, session string) ([]Output, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, call_id, tool, path, bytes, dropped FROM outputs WHERE session_id = ? ORDER BY at, id`, session)
	if err != nil {
		return nil, fmt.Errorf("list kept outputs: %w", err)
	}
	defer rows.Close()
	var out []Output
	for rows.Next() {
		o := Output{Session: session}
		if err := rows.Scan(&o.ID, &o.CallID, &o.Tool, &o.Path, &o.Bytes, &o.Dropped); err != nil {
			return nil, fmt.Errorf("list kept outputs: %w", err)
		}
		out = append(out, o)
	}
	return out, rows.Err()
}

// Untitled lists the sessions of persons that have turns and a made-up title only, oldest
// first, but not those for which no title could be had three times and nothing is new.
func (s *Store) Untitled(ctx context.Context) ([]core.Session, error) {
	return s.sessionsWhere(ctx, `title_by = '' AND turns > 0 AND NOT EXISTS (SELECT 1 FROM background b
		WHERE b.job = 'title' AND b.session_id = sessions.id AND b.failures >= 3 AND b.upto >= sessions.turns)`)
}

// Unsummarised lists the sessions of persons of which at least so many turns, or turns of
// so many bytes, have no summary yet.
func (s *Store) Unsummarised(ctx context.Context, turns int, bytes int64) ([]core.Session, error) {
	const upto = `(SELECT coalesce(max(upto_turn), 0) FROM summaries y WHERE y.session_id = sessions.id)`
	return s.sessionsWhere(ctx, `turns > `+upto+` AND (turns - `+upto+` >= ? OR (SELECT sum(length(raw)) FROM messages m
		WHERE m.session_id = sessions.id AND m.turn > `+upto+`) >= ?)`, turns, bytes)
}

func (s *Store) sessionsWhere(ctx context.Context, where string, args ...any) ([]core.Session, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE kind IN ('', 'chat') AND `+where+` ORDER BY updated_at, id`, args...)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	defer rows.Close()
	var list []core.Session
	for rows.Next() {
		v, err := scanSession(rows)
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		list = append(list, v)
	}
	return list, rows.Err()
}
