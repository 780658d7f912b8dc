package history_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
)

func encode(m map[string]any) json.RawMessage {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func options(budget int) history.EpochOptions {
	return history.EpochOptions{
		Budget: budget,
		ToolResult: func(id, text string) json.RawMessage {
			return encode(map[string]any{"role": "tool", "tool_call_id": id, "content": text})
		},
		User:  func(text string) json.RawMessage { return encode(map[string]any{"role": "user", "content": text}) },
		State: "[x] 1. one\n[ ] 4. four",
	}
}

// talk is a log of n turns, each with a call and its result.
func talk(n, resultBytes int) []core.StoredMessage {
	var out []core.StoredMessage
	add := func(turn int, m core.Message, raw map[string]any) {
		m.Raw = encode(raw)
		out = append(out, core.StoredMessage{Seq: int64(len(out) + 1), Turn: turn, Message: m})
	}
	for i := 1; i <= n; i++ {
		user := fmt.Sprintf("question %d 茶馆 port %d", i, 4000+i)
		add(i, core.Message{Role: "user", Content: user}, map[string]any{"role": "user", "content": user})
		id := fmt.Sprintf("c%d", i)
		add(i, core.Message{Role: "assistant", ToolCalls: []core.ToolCall{{ID: id, Name: "read_file", Arguments: `{"path":"a/b.go"}`}}},
			map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{"id": id}}})
		res := strings.Repeat("result line\n", resultBytes/12)
		add(i, core.Message{Role: "tool", Content: res, ToolCallID: id}, map[string]any{"role": "tool", "tool_call_id": id, "content": res})
		add(i, core.Message{Role: "assistant", Content: fmt.Sprintf("answer %d", i)}, map[string]any{"role": "assistant", "content": fmt.Sprintf("answer %d", i)})
	}
	return out
}

func tokens(msgs []core.StoredMessage) int {
	n := 0
	for _, m := range msgs {
		n += history.EstimateMessage(m.Raw)
	}
	return n
}

// paired says whether each call has its result right behind it.
func paired(t *testing.T, msgs []core.StoredMessage) {
	t.Helper()
	open := map[string]bool{}
	for _, m := range msgs {
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				t.Fatalf("result %s without its call", m.ToolCallID)
			}
			delete(open, m.ToolCallID)
		}
	}
	if len(open) > 0 {
		t.Fatalf("calls without results: %v", open)
	}
}

func TestEpoch(t *testing.T) {
	for _, c := range []struct{ turns, bytes, budget int }{{40, 600, 8000}, {200, 600, 50000}, {3, 200_000, 20000}, {1, 400_000, 10000}, {300, 5000, 25000}} {
		log := talk(c.turns, c.bytes)
		e := history.Begin(log, options(c.budget))
		if n := tokens(e.Messages); n > c.budget/2 {
			t.Errorf("%+v: a new epoch has %d tokens", c, n)
		}
		paired(t, e.Messages)
		d := e.Messages[0]
		if d.Note != history.NoteEpoch || d.Role != "user" || !strings.Contains(d.Content, "[ ] 4. four") {
			t.Errorf("%+v: digest %+v", c, d)
		}
		// The user's words of every turn are there: in the digest, or in what stays.
		all := ""
		for _, m := range e.Messages {
			all += m.Content
		}
		for i := 1; i <= c.turns; i++ {
			if !strings.Contains(all, fmt.Sprintf("question %d 茶馆 port %d", i, 4000+i)) {
				t.Errorf("%+v: the words of turn %d are lost", c, i)
				break
			}
		}
		// The newest answer stays as it is, and an epoch of an epoch is made from the log.
		if last := e.Messages[len(e.Messages)-1]; last.Content != fmt.Sprintf("answer %d", c.turns) || string(last.Raw) != string(log[len(log)-1].Raw) {
			t.Errorf("%+v: the newest message is %+v", c, last)
		}
		stored := append(append([]core.StoredMessage(nil), log...), e.Messages...)
		if len(history.Log(stored)) != len(log) || len(history.Current(stored)) != len(e.Messages) {
			t.Errorf("%+v: the log or the current part is wrong", c)
		}
		again := history.Begin(stored, options(c.budget))
		if again.Messages[0].Content != d.Content {
			t.Errorf("%+v: the same log gives another digest", c)
		}
	}
}

func TestCurrentWithoutEpoch(t *testing.T) {
	log := talk(2, 100)
	if got := history.Current(log); len(got) != len(log) {
		t.Errorf("%d messages", len(got))
	}
}
