package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/lingjiyidong/lj/core"
)

// EndOfLog is beyond every message: LogFrom gives none of them whole.
const EndOfLog = int64(1) << 62

// leanText is how much LogFrom gives of a result that is not wanted whole, in characters.
const leanText = 400

// LogFrom reads the log of a session so that a long one costs little: messages from seq on
// whole, as Messages does, and of those before it what was said and called. Of earlier
// results the beginning is given, without Raw, or with results false nothing at all; what
// epochs say again is left out there.
func (s *Store) LogFrom(ctx context.Context, session string, seq int64, results bool) ([]core.StoredMessage, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT seq, turn, at, role, note,
			CASE WHEN role = 'user' THEN text WHEN seq < ?2 AND role = 'tool' THEN substr(text, 1, ?3) END,
			CASE WHEN seq >= ?2 OR role = 'assistant' OR text IS NULL THEN raw WHEN role = 'tool' THEN substr(raw, 1, 512) ELSE x'' END
		FROM messages WHERE session_id = ?1 AND (seq >= ?2 OR note NOT IN ('epoch', 'copy') AND (?4 OR role <> 'tool')) ORDER BY seq`, session, seq, leanText, results)
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
		whole := m.Seq >= seq
		switch {
		case whole && len(m.Raw) == 0:
			continue // nothing was ever sent
		case !whole && m.Role == core.RoleTool:
			m.ToolCallID, m.Content = callID(m.Raw), text.String
			m.Raw = nil
		case len(m.Raw) > 0:
			decode(&m.Message)
		}
		if m.Role == core.RoleUser && text.Valid {
			m.Content = text.String
		}
		if !whole {
			m.Raw = nil
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// callID reads the id from the beginning of a tool message.
func callID(head []byte) string {
	dec := json.NewDecoder(bytes.NewReader(head))
	last := ""
	for {
		t, err := dec.Token()
		if err != nil {
			return ""
		}
		if s, ok := t.(string); ok {
			if last == "tool_call_id" {
				return s
			}
			last = s
		}
	}
}

// LastEpoch is the message that the newest epoch of a session begins with, 0 for none.
func (s *Store) LastEpoch(ctx context.Context, session string) (int64, error) {
	var n int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = ? AND note = 'epoch'`, session).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read session %s: %w", session, err)
	}
	return n, nil
}

// TurnSize is how large the messages of a turn are.
type TurnSize struct {
	Turn  int
	Bytes int
	First int64 // its first message
}

// TurnSizes lists the turns of a session, newest first; what epochs say again is left out.
func (s *Store) TurnSizes(ctx context.Context, session string) ([]TurnSize, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT turn, sum(length(raw)), min(seq) FROM messages
		WHERE session_id = ? AND note NOT IN ('epoch', 'copy') GROUP BY turn ORDER BY turn DESC`, session)
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", session, err)
	}
	defer rows.Close()
	var out []TurnSize
	for rows.Next() {
		var t TurnSize
		if err := rows.Scan(&t.Turn, &t.Bytes, &t.First); err != nil {
			return nil, fmt.Errorf("read session %s: %w", session, err)
		}
		out = append(out, t)
	}
	return out, rows.Err()
}
