package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
)

// MemoryText is a memory whose vector is missing.
type MemoryText struct {
	ID            int64
	Content, Hash string
}

// MemoriesWithoutVector lists active memories that have no vector of this model for their
// present text, the newest first.
func (s *Store) MemoriesWithoutVector(ctx context.Context, model string, limit int) ([]MemoryText, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT m.id, m.content, m.hash FROM memories m LEFT JOIN memory_vectors v ON v.memory_id = m.id AND v.model = ? AND v.hash = m.hash
		WHERE m.state = 'active' AND v.memory_id IS NULL ORDER BY m.id DESC LIMIT ?`, model, limit)
	if err != nil {
		return nil, fmt.Errorf("list memories without vector: %w", err)
	}
	defer rows.Close()
	var out []MemoryText
	for rows.Next() {
		var t MemoryText
		if err := rows.Scan(&t.ID, &t.Content, &t.Hash); err != nil {
			return nil, fmt.Errorf("list memories without vector: %w", err)
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// SetMemoryVectors stores vectors of texts. A memory that was erased meanwhile gets none.
func (s *Store) SetMemoryVectors(ctx context.Context, model string, texts []MemoryText, vectors [][]float32) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		for i, t := range texts {
			b := make([]byte, 0, 4*len(vectors[i]))
			for _, f := range vectors[i] {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO memory_vectors(memory_id, model, hash, vector) SELECT id, ?2, ?3, ?4 FROM memories WHERE id = ?1
				ON CONFLICT(memory_id) DO UPDATE SET model = excluded.model, hash = excluded.hash, vector = excluded.vector`, t.ID, model, t.Hash, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// NearMemories gives fn the product of a vector with that of each memory that has one of
// this model and length for its present text: active ones that a project may see, the
// newest 20,000.
func (s *Store) NearMemories(ctx context.Context, model, project string, q []float32, fn func(id int64, product float64)) error {
	rows, err := s.db.QueryContext(ctx, `SELECT v.memory_id, v.vector FROM memory_vectors v JOIN memories m ON m.id = v.memory_id
		WHERE v.model = ? AND v.hash = m.hash AND m.state = 'active' AND (m.scope <> 'project' OR m.project = ?) AND length(v.vector) = ?
		ORDER BY v.memory_id DESC LIMIT 20000`, model, project, 4*len(q))
	if err != nil {
		return fmt.Errorf("read memory vectors: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var b sql.RawBytes
		if err := rows.Scan(&id, &b); err != nil {
			return fmt.Errorf("read memory vectors: %w", err)
		}
		sum := float32(0)
		for i, f := range q {
			sum += f * math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		fn(id, float64(sum))
	}
	return rows.Err()
}
