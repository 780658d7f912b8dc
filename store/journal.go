package store

import (
	"context"
	"fmt"

	"github.com/lingjiyidong/lj/core"
)

// MemoryChange is one line of the history of a memory, with its number.
type MemoryChange struct {
	ID int64
	core.MemoryEvent
	Content string // the beginning of the memory, "" when it is gone
	Gone    bool
}

// MemoryChanges lists what happened to memories, mere use left out, oldest first.
func (s *Store) MemoryChanges(ctx context.Context) ([]MemoryChange, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT e.id, e.memory_id, e.at, e.action, e.detail, e.other_id, coalesce(substr(m.content, 1, 200), ''), m.id IS NULL
		FROM memory_events e LEFT JOIN memories m ON m.id = e.memory_id WHERE e.action <> 'used' ORDER BY e.id`)
	if err != nil {
		return nil, fmt.Errorf("read the history of memories: %w", err)
	}
	defer rows.Close()
	var out []MemoryChange
	for rows.Next() {
		var c MemoryChange
		var at int64
		if err := rows.Scan(&c.ID, &c.Memory, &at, &c.Action, &c.Detail, &c.Other, &c.Content, &c.Gone); err != nil {
			return nil, fmt.Errorf("read the history of memories: %w", err)
		}
		c.At = fromMS(at)
		out = append(out, c)
	}
	return out, rows.Err()
}

// AllSummaries lists the summaries of all sessions, oldest first.
func (s *Store) AllSummaries(ctx context.Context) ([]Summary, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT y.id, y.session_id, y.from_turn, y.upto_turn, y.model, y.at, y.tokens FROM summaries y ORDER BY y.id`)
	if err != nil {
		return nil, fmt.Errorf("read summaries: %w", err)
	}
	defer rows.Close()
	var out []Summary
	for rows.Next() {
		var v Summary
		var at int64
		if err := rows.Scan(&v.ID, &v.Session, &v.From, &v.Upto, &v.Model, &at, &v.Tokens); err != nil {
			return nil, fmt.Errorf("read summaries: %w", err)
		}
		v.At = fromMS(at)
		out = append(out, v)
	}
	return out, rows.Err()
}
