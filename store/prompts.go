package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lingjiyidong/lj/core"
)

// Prompts lists the stored versions of the system text, oldest first. The built-in one is
// not among them.
func (s *Store) Prompts(ctx context.Context) ([]core.PromptVersion, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT version, content, coalesce(parent, 0), reason, active, created_at FROM prompts ORDER BY version`)
	if err != nil {
		return nil, fmt.Errorf("list prompts: %w", err)
	}
	defer rows.Close()
	var out []core.PromptVersion
	for rows.Next() {
		var p core.PromptVersion
		var at int64
		if err := rows.Scan(&p.Version, &p.Content, &p.Parent, &p.Reason, &p.Active, &at); err != nil {
			return nil, fmt.Errorf("list prompts: %w", err)
		}
		p.CreatedAt = fromMS(at)
		out = append(out, p)
	}
	return out, rows.Err()
}

// ActivePrompt is the active stored version; ok is false when the built-in one is active.
func (s *Store) ActivePrompt(ctx context.Context) (p core.PromptVersion, ok bool, err error) {
	var at int64
	err = s.db.QueryRowContext(ctx, `SELECT version, content, coalesce(parent, 0), reason, active, created_at FROM prompts WHERE active = 1`).
		Scan(&p.Version, &p.Content, &p.Parent, &p.Reason, &p.Active, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read the active prompt: %w", err)
	}
	p.CreatedAt = fromMS(at)
	return p, true, nil
}

// AddPrompt stores a new version, above every other and above least, and makes it the
// active one, in one transaction: two processes never make the same number.
func (s *Store) AddPrompt(ctx context.Context, p core.PromptVersion, least int) (core.PromptVersion, error) {
	p.CreatedAt = s.now()
	err := s.Tx(ctx, func(tx *sql.Tx) error {
		var top int
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM prompts`).Scan(&top); err != nil {
			return err
		}
		p.Version, p.Active = max(top, least)+1, true
		if _, err := tx.ExecContext(ctx, `UPDATE prompts SET active = 0 WHERE active = 1`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO prompts(version, content, parent, reason, active, created_at) VALUES(?,?,?,?,1,?)`,
			p.Version, p.Content, p.Parent, p.Reason, ms(p.CreatedAt))
		return err
	})
	if err != nil {
		return p, fmt.Errorf("store prompt: %w", err)
	}
	return p, nil
}

// ActivatePrompt makes a stored version the active one; 0 makes the built-in one active.
// The error wraps core.ErrNotFound for an unknown version.
func (s *Store) ActivatePrompt(ctx context.Context, version int) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE prompts SET active = 0 WHERE active = 1`); err != nil {
			return err
		}
		if version == 0 {
			return nil
		}
		res, err := tx.ExecContext(ctx, `UPDATE prompts SET active = 1 WHERE version = ?`, version)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return core.Errorf(core.KindNotFound, "prompt version %d: %w", version, core.ErrNotFound)
		}
		return nil
	})
}
