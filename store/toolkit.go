package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
)

const toolGeneration = "toolkit_generation"

// ToolGeneration is a number that rises with every change of which tools are live, and
// how many accepted versions there are. It is cheap to ask before each call.
func (s *Store) ToolGeneration(ctx context.Context) (generation int64, accepted int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?), 0),
		(SELECT count(*) FROM tool_versions WHERE status = 'accepted')`, toolGeneration).Scan(&generation, &accepted)
	if err != nil {
		return 0, 0, fmt.Errorf("read toolkit generation: %w", err)
	}
	return generation, accepted, nil
}

// durable runs fn in a write transaction that survives a power cut once it returned nil.
func (s *Store) durable(ctx context.Context, point string, fn func(tx *sql.Tx) error) error {
	s.write.Lock()
	defer s.write.Unlock()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `PRAGMA synchronous = FULL`); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA synchronous = NORMAL`)
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := fault.Point(point + ".before_commit"); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return fault.Point(point + ".after_commit")
}

func bump(ctx context.Context, tx *sql.Tx, atLeast int64) (int64, error) {
	var gen int64
	err := tx.QueryRowContext(ctx, `INSERT INTO meta(key, value) VALUES(?1, CAST(?2 + 1 AS TEXT))
		ON CONFLICT(key) DO UPDATE SET value = CAST(max(CAST(value AS INTEGER), ?2) + 1 AS TEXT) RETURNING CAST(value AS INTEGER)`,
		toolGeneration, atLeast).Scan(&gen)
	return gen, err
}

const toolColumns = `name, version, state, reason, previous, updated_at`

func scanTool(row interface{ Scan(...any) error }) (core.ToolRecord, error) {
	var r core.ToolRecord
	var at int64
	err := row.Scan(&r.Name, &r.Version, &r.State, &r.Reason, &r.Previous, &at)
	r.UpdatedAt = fromMS(at)
	return r, err
}

// Tools are the records of all tools of the toolkit, removed ones included, by name.
func (s *Store) Tools(ctx context.Context) ([]core.ToolRecord, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+toolColumns+` FROM tools ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read tools: %w", err)
	}
	defer rows.Close()
	var out []core.ToolRecord
	for rows.Next() {
		r, err := scanTool(rows)
		if err != nil {
			return nil, fmt.Errorf("read tools: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Tool is the record of one tool. The error wraps core.ErrNotFound.
func (s *Store) Tool(ctx context.Context, name string) (core.ToolRecord, error) {
	r, err := scanTool(s.db.QueryRowContext(ctx, `SELECT `+toolColumns+` FROM tools WHERE name = ?`, name))
	if errors.Is(err, sql.ErrNoRows) {
		return r, core.Errorf(core.KindNotFound, "tool %s: %w", name, core.ErrNotFound)
	}
	if err != nil {
		return r, fmt.Errorf("read tool %s: %w", name, err)
	}
	return r, nil
}

const versionColumns = `id, name, version, status, reason, commit_id, sha256, source, recipe, message, spec, report, at`

func scanVersion(row interface{ Scan(...any) error }) (core.ToolVersion, error) {
	var v core.ToolVersion
	var spec, report string
	var at int64
	err := row.Scan(&v.ID, &v.Name, &v.Version, &v.Status, &v.Reason, &v.Commit, &v.SHA256, &v.Source, &v.Recipe, &v.Message, &spec, &report, &at)
	if err != nil {
		return v, err
	}
	v.Report, v.Time = json.RawMessage(report), fromMS(at)
	if err := json.Unmarshal([]byte(spec), &v.Spec); err != nil {
		return v, fmt.Errorf("specification of %s %s: %w", v.Name, v.Version, err)
	}
	return v, nil
}

// ToolVersions are all saves of a tool, oldest first; of all tools when name is "".
func (s *Store) ToolVersions(ctx context.Context, name string) ([]core.ToolVersion, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+versionColumns+` FROM tool_versions WHERE ?1 = '' OR name = ?1 ORDER BY id`, name)
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	defer rows.Close()
	var out []core.ToolVersion
	for rows.Next() {
		v, err := scanVersion(rows)
		if err != nil {
			return nil, fmt.Errorf("read versions: %w", err)
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// LiveVersions are the active versions of all tools that are not removed, by name.
func (s *Store) LiveVersions(ctx context.Context) ([]core.ToolVersion, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT v.id, v.name, v.version, v.status, v.reason, v.commit_id, v.sha256, v.source, v.recipe, v.message, v.spec, '{}', v.at
		FROM tools t JOIN tool_versions v ON v.name = t.name AND v.version = t.version AND v.status = 'accepted'
		WHERE t.version <> '' ORDER BY t.name`)
	if err != nil {
		return nil, fmt.Errorf("read live versions: %w", err)
	}
	defer rows.Close()
	var out []core.ToolVersion
	for rows.Next() {
		v, err := scanVersion(rows)
		if err != nil {
			return nil, fmt.Errorf("read live versions: %w", err)
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// ToolVersion is one accepted version. The error wraps core.ErrNotFound.
func (s *Store) ToolVersion(ctx context.Context, name, version string) (core.ToolVersion, error) {
	v, err := scanVersion(s.db.QueryRowContext(ctx, `SELECT `+versionColumns+` FROM tool_versions
		WHERE name = ? AND version = ? AND status = 'accepted'`, name, version))
	if errors.Is(err, sql.ErrNoRows) {
		return v, core.Errorf(core.KindNotFound, "tool %s has no accepted version %s: %w", name, version, core.ErrNotFound)
	}
	if err != nil {
		return v, fmt.Errorf("read version: %w", err)
	}
	return v, nil
}

func insertVersion(ctx context.Context, tx *sql.Tx, v core.ToolVersion) error {
	spec, err := json.Marshal(v.Spec)
	if err != nil {
		return fmt.Errorf("specification: %w", err)
	}
	report := string(v.Report)
	if report == "" {
		report = "{}"
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO tool_versions(name, version, status, reason, commit_id, sha256, source, recipe, message, spec, report, at)
		VALUES(?,?,?,?,?,?,?,?,?,?,?,?)`, v.Name, v.Version, v.Status, v.Reason, v.Commit, v.SHA256, v.Source, v.Recipe, v.Message,
		string(spec), report, ms(v.Time))
	if err != nil {
		return fmt.Errorf("store version %s of %s: %w", v.Version, v.Name, err)
	}
	return nil
}

func upsertTool(ctx context.Context, tx *sql.Tx, r core.ToolRecord) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO tools(name, version, state, reason, previous, updated_at) VALUES(?,?,?,?,?,?)
		ON CONFLICT(name) DO UPDATE SET version = excluded.version, state = excluded.state, reason = excluded.reason,
		previous = excluded.previous, updated_at = excluded.updated_at`, r.Name, r.Version, r.State, r.Reason, r.Previous, ms(r.UpdatedAt))
	if err != nil {
		return fmt.Errorf("store tool %s: %w", r.Name, err)
	}
	return nil
}

// CommitTool is the moment at which a change of the toolkit counts: the new version, if
// any, the tool's record and the change's state in one transaction that a power cut can't
// take back. It returns the new generation and the number of accepted versions.
func (s *Store) CommitTool(ctx context.Context, change int64, v *core.ToolVersion, r core.ToolRecord) (gen int64, accepted int, err error) {
	err = s.durable(ctx, "store.toolkit", func(tx *sql.Tx) error {
		if v != nil {
			if err := insertVersion(ctx, tx, *v); err != nil {
				return err
			}
		}
		if err := upsertTool(ctx, tx, r); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE changes SET state = 'committed' WHERE id = ? AND state = 'open'`, change)
		if err != nil {
			return fmt.Errorf("commit change %d: %w", change, err)
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return core.Errorf(core.KindInternal, "change %d is not open any more", change)
		}
		if gen, err = bump(ctx, tx, 0); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM tool_versions WHERE status = 'accepted'`).Scan(&accepted)
	})
	return gen, accepted, err
}

// MarkTool sets a tool's state and reason without touching its version. It is for what
// is found out about a tool (broken), not for changes of the toolkit.
func (s *Store) MarkTool(ctx context.Context, name, state, reason string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE tools SET state = ?, reason = ? WHERE name = ?`, state, reason, name); err != nil {
			return err
		}
		_, err := bump(ctx, tx, 0)
		return err
	})
}

// UpdateProgram records that a version's program was made again by another recipe.
func (s *Store) UpdateProgram(ctx context.Context, name, version, recipe, sha256 string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE tool_versions SET recipe = ?, sha256 = ? WHERE name = ? AND version = ? AND status = 'accepted'`,
			recipe, sha256, name, version); err != nil {
			return err
		}
		_, err := bump(ctx, tx, 0)
		return err
	})
}

// RejectTool records a refused save, and the recipe that failed when failure is not nil.
func (s *Store) RejectTool(ctx context.Context, v core.ToolVersion, failure *core.ToolFailure) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		if err := insertVersion(ctx, tx, v); err != nil {
			return err
		}
		if failure == nil {
			return nil
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO tool_failures(key, name, step, reason, diagnostics, at) VALUES(?,?,?,?,?,?)`,
			failure.Key, failure.Name, failure.Step, failure.Reason, string(failure.Diagnostics), ms(failure.At))
		return err
	})
}

// ToolFailure is what is remembered of a failed recipe. The error wraps core.ErrNotFound.
func (s *Store) ToolFailure(ctx context.Context, key string) (core.ToolFailure, error) {
	f := core.ToolFailure{Key: key}
	var diagnostics string
	var at int64
	err := s.db.QueryRowContext(ctx, `SELECT name, step, reason, diagnostics, at FROM tool_failures WHERE key = ?`, key).
		Scan(&f.Name, &f.Step, &f.Reason, &diagnostics, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return f, core.ErrNotFound
	}
	f.Diagnostics, f.At = json.RawMessage(diagnostics), fromMS(at)
	return f, err
}

// BeginChange writes the intent of a change and returns its id.
func (s *Store) BeginChange(ctx context.Context, c core.Change) (int64, error) {
	var id int64
	err := s.Tx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO changes(kind, name, state, step, owner, data, at) VALUES(?,?,'open',?,?,?,?)`,
			c.Kind, c.Name, c.Step, c.Owner, jsonText(c.Data), ms(s.now()))
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("record intent: %w", err)
	}
	return id, nil
}

func jsonText(b json.RawMessage) string {
	if len(b) == 0 {
		return "{}"
	}
	return string(b)
}

// StepChange records that a step of a change begins, with data that replaces the former
// when it is not nil. What a power cut must not lose is not recorded here.
func (s *Store) StepChange(ctx context.Context, id int64, step string, data json.RawMessage) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE changes SET step = ?, data = CASE WHEN ? = '' THEN data ELSE ? END WHERE id = ?`,
			step, string(data), string(data), id)
		return err
	})
}

// EndChange records how a change ended: core.ChangeDone or core.ChangeUndone.
func (s *Store) EndChange(ctx context.Context, id int64, state, note string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE changes SET state = ?, note = ? WHERE id = ?`, state, note, id)
		return err
	})
}

// UnfinishedChanges are the changes that neither ended nor were undone, oldest first.
func (s *Store) UnfinishedChanges(ctx context.Context) ([]core.Change, error) {
	return s.changes(ctx, `WHERE state IN ('open', 'committed') ORDER BY id`)
}

// Changes are the last changes of a tool, newest first; of all when name is "".
func (s *Store) Changes(ctx context.Context, name string, limit int) ([]core.Change, error) {
	return s.changes(ctx, `WHERE ?1 = '' OR name = ?1 ORDER BY id DESC LIMIT `+strconv.Itoa(limit), name)
}

func (s *Store) changes(ctx context.Context, where string, args ...any) ([]core.Change, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, kind, name, state, step, owner, data, note, at FROM changes `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	defer rows.Close()
	var out []core.Change
	for rows.Next() {
		var c core.Change
		var data string
		var at int64
		if err := rows.Scan(&c.ID, &c.Kind, &c.Name, &c.State, &c.Step, &c.Owner, &data, &c.Note, &at); err != nil {
			return nil, fmt.Errorf("read changes: %w", err)
		}
		c.Data, c.At = json.RawMessage(data), fromMS(at)
		out = append(out, c)
	}
	return out, rows.Err()
}

// RestoreToolkit puts rows in that were read from the toolkit's repository, after the
// database was lost: versions that are missing, and records that are missing or name a
// version that is missing. With all, records are replaced in any case. The generation
// rises above atLeast.
func (s *Store) RestoreToolkit(ctx context.Context, versions []core.ToolVersion, records []core.ToolRecord, all bool, atLeast int64) (gen int64, accepted int, err error) {
	err = s.durable(ctx, "store.toolkit.restore", func(tx *sql.Tx) error {
		for _, v := range versions {
			var have int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM tool_versions WHERE name = ? AND version = ? AND status = 'accepted'`,
				v.Name, v.Version).Scan(&have); err != nil {
				return err
			}
			if have == 0 {
				if err := insertVersion(ctx, tx, v); err != nil {
					return err
				}
			}
		}
		for _, r := range records {
			var sound int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM tools t WHERE name = ? AND (version = '' OR EXISTS (
				SELECT 1 FROM tool_versions v WHERE v.name = t.name AND v.version = t.version AND v.status = 'accepted'))`, r.Name).Scan(&sound); err != nil {
				return err
			}
			if all || sound == 0 {
				if err := upsertTool(ctx, tx, r); err != nil {
					return err
				}
			}
		}
		var err error
		if gen, err = bump(ctx, tx, atLeast); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM tool_versions WHERE status = 'accepted'`).Scan(&accepted)
	})
	return gen, accepted, err
}

// ToolHealth is what calls of a version ended with; zero counts for one that was never
// called.
func (s *Store) ToolHealth(ctx context.Context, name, version string) (core.ToolHealth, error) {
	h, err := readHealth(s.db.QueryRowContext(ctx, healthQuery, name, version))
	h.Name, h.Version = name, version
	return h, err
}

const healthQuery = `SELECT calls, failures, crashes, recent, evidence FROM tool_health WHERE name = ? AND version = ?`

func readHealth(row interface{ Scan(...any) error }) (core.ToolHealth, error) {
	var h core.ToolHealth
	var evidence string
	err := row.Scan(&h.Calls, &h.Failures, &h.Crashes, &h.Recent, &evidence)
	if errors.Is(err, sql.ErrNoRows) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read health: %w", err)
	}
	if err := json.Unmarshal([]byte(evidence), &h.Evidence); err != nil {
		return h, fmt.Errorf("read health: %w", err)
	}
	return h, nil
}

// AddToolHealth adds calls to the health of a version and returns the sum. The letters of
// recent are those of core.ToolHealth; evidence are the new failures in words.
func (s *Store) AddToolHealth(ctx context.Context, name, version, recent string, evidence []string) (core.ToolHealth, error) {
	var h core.ToolHealth
	err := s.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		if h, err = readHealth(tx.QueryRowContext(ctx, healthQuery, name, version)); err != nil {
			return err
		}
		h.Name, h.Version = name, version
		for _, c := range recent {
			h.Calls++
			switch c {
			case 'f':
				h.Failures++
			case 'c':
				h.Failures++
				h.Crashes++
			}
		}
		h.Recent += recent
		h.Recent = h.Recent[max(0, len(h.Recent)-32):]
		h.Evidence = append(h.Evidence, evidence...)
		h.Evidence = h.Evidence[max(0, len(h.Evidence)-10):]
		b, err := json.Marshal(h.Evidence)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO tool_health(name, version, calls, failures, crashes, recent, evidence) VALUES(?,?,?,?,?,?,?)`,
			name, version, h.Calls, h.Failures, h.Crashes, h.Recent, string(b))
		return err
	})
	if err != nil {
		return h, fmt.Errorf("record health of %s %s: %w", name, version, err)
	}
	return h, nil
}
