package store_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/store"
)

// Summaries follow each other, one may take the place of several, none overlaps another.
func TestSummaries(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "lj.db"))
	ctx := t.Context()
	if err := s.CreateSession(ctx, core.Session{ID: "a", Project: "/p"}); err != nil {
		t.Fatal(err)
	}
	add := func(from, upto int, text string) error {
		return s.AddSummary(ctx, store.Summary{Session: "a", From: from, Upto: upto, Semantic: text, Model: "m"})
	}
	for i, x := range [][2]int{{1, 30}, {31, 60}, {61, 75}} {
		if err := add(x[0], x[1], string(rune('a'+i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(20, 40, "overlap"); core.KindOf(err) != core.KindFailed {
		t.Errorf("an overlap: %v", err)
	}
	if err := add(1, 60, "merged"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Summaries(ctx, "a")
	if err != nil || len(got) != 2 || got[0].Semantic != "merged" || got[0].Upto != 60 || got[1].From != 61 {
		t.Errorf("%+v %v", got, err)
	}
	for _, state := range []string{store.JobFailed, store.JobFailed, store.JobDone, store.JobFailed} {
		if err := s.RecordJob(ctx, store.Background{Job: "summary", Session: "a", State: state, Reason: "r " + state, Upto: 7}); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := s.Jobs(ctx, "a")
	if err != nil || len(jobs) != 1 || jobs[0].State != store.JobFailed || jobs[0].Failures != 1 || jobs[0].Upto != 7 || jobs[0].At.IsZero() {
		t.Errorf("%+v %v", jobs, err)
	}
	if raw, err := s.Plan(ctx, "a"); raw != nil || err != nil {
		t.Errorf("%s %v", raw, err)
	}
	if err := s.SetPlan(ctx, "a", json.RawMessage(`{"goal":"g"}`)); err != nil {
		t.Fatal(err)
	}
	if raw, err := s.Plan(ctx, "a"); string(raw) != `{"goal":"g"}` || err != nil {
		t.Errorf("%s %v", raw, err)
	}
	if _, err := s.DeleteSession(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.AllSummaries(ctx); len(got) != 0 {
		t.Errorf("summaries of a removed session: %+v", got)
	}
	if jobs, _ := s.Jobs(ctx, ""); len(jobs) != 0 {
		t.Errorf("jobs of a removed session: %+v", jobs)
	}
}

// The lean form of a log has what was said and called, with short results; from a message
// on it is whole.
func TestLogFrom(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "lj.db"))
	ctx := t.Context()
	if err := s.CreateSession(ctx, core.Session{ID: "a", Project: "/p"}); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("输出 ", 1000)
	tool := func(id string, turn int) core.StoredMessage {
		raw, err := json.Marshal(map[string]any{"role": "tool", "content": long, "tool_call_id": id})
		if err != nil {
			t.Fatal(err)
		}
		// The order of keys that lj writes.
		raw = []byte(`{"role":"tool","tool_call_id":"` + id + `","content":` + string(raw[len(`{"content":`):strings.LastIndex(string(raw), `,"role"`)]) + `}`)
		return core.StoredMessage{Turn: turn, Message: core.Message{Role: core.RoleTool, Content: long, ToolCallID: id, Raw: raw}}
	}
	call := func(id string, turn int) core.StoredMessage {
		return core.StoredMessage{Turn: turn, Message: core.Message{Role: core.RoleAssistant, ToolCalls: []core.ToolCall{{ID: id, Name: "bash", Arguments: "{}"}},
			Raw: json.RawMessage(`{"role":"assistant","content":"","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"bash","arguments":"{}"}}]}`)}}
	}
	user := message(core.RoleUser, "own words", 1)
	user.Raw = json.RawMessage(`{"role":"user","content":"facts\n\nown words"}`)
	epoch := message(core.RoleUser, "digest", 2)
	epoch.Note = "epoch"
	again := tool("c1", 1)
	again.Note = "copy"
	if err := s.Append(ctx, "a", user, call("c1", 1), tool("c1", 1), epoch, again, message(core.RoleUser, "next", 2), call("c2", 2), tool("c2", 2)); err != nil {
		t.Fatal(err)
	}
	from, err := s.LastEpoch(ctx, "a")
	if err != nil || from != 4 {
		t.Fatalf("the epoch is message %d: %v", from, err)
	}
	got, err := s.LogFrom(ctx, "a", from, true)
	if err != nil || len(got) != 8 {
		t.Fatalf("%d messages: %v", len(got), err)
	}
	if m := got[2]; m.ToolCallID != "c1" || m.Raw != nil || len([]rune(m.Content)) != 400 || !strings.HasPrefix(long, m.Content) {
		t.Errorf("an earlier result: %q %d %d", m.ToolCallID, len(m.Raw), len(m.Content))
	}
	if m := got[1]; len(m.ToolCalls) != 1 || m.Raw != nil {
		t.Errorf("an earlier call: %+v", m)
	}
	if m := got[0]; m.Content != "own words" {
		t.Errorf("earlier words: %+v", m)
	}
	if m := got[7]; m.ToolCallID != "c2" || len(m.Raw) < len(long) || m.Content != long {
		t.Errorf("a later result: %q %d", m.ToolCallID, len(m.Raw))
	}
	all, err := s.LogFrom(ctx, "a", store.EndOfLog, true)
	if err != nil || len(all) != 6 {
		t.Errorf("%d messages without epochs: %v", len(all), err)
	}
	if said, err := s.LogFrom(ctx, "a", from, false); err != nil || len(said) != 7 {
		t.Errorf("%d messages without earlier results: %v", len(said), err)
	}
	sizes, err := s.TurnSizes(ctx, "a")
	if err != nil || len(sizes) != 2 || sizes[0].Turn != 2 || sizes[0].First != 6 || sizes[1].Bytes < len(long) || sizes[1].Bytes > 2*len(long) {
		t.Errorf("%+v %v", sizes, err)
	}
}
