package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/core/llm/llmtest"
	"github.com/lingjiyidong/lj/store"
)

// db opens the user's database beside lj.
func (u *user) db() *store.Store {
	u.t.Helper()
	s, err := store.Open(u.t.Context(), filepath.Join(u.home, ".lj", "lj.db"), store.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { s.Close() })
	return s
}

// say is what turn n of a stored session says.
type said struct{ user, answer string }

// stored writes a session of finished turns into the database, as lj would have.
func (u *user) stored(st *store.Store, turns ...said) string {
	u.t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		u.t.Fatal(err)
	}
	project, err := filepath.EvalSymlinks(u.project)
	if err != nil {
		u.t.Fatal(err)
	}
	s := core.Session{ID: id.String(), Title: "stored", Project: project, Model: "m", System: "You are lj.", Tools: json.RawMessage("[]"), Prompt: 1}
	if err := st.CreateSession(u.t.Context(), s); err != nil {
		u.t.Fatal(err)
	}
	var msgs []core.StoredMessage
	for i, x := range turns {
		msgs = append(msgs,
			core.StoredMessage{Turn: i + 1, Message: core.Message{Role: core.RoleUser, Content: x.user, Raw: llm.EncodeUser(x.user)}},
			core.StoredMessage{Turn: i + 1, Message: core.Message{Role: core.RoleAssistant, Content: x.answer, Raw: llm.EncodeAssistant(x.answer, nil)}})
	}
	if err := st.Append(u.t.Context(), s.ID, msgs...); err != nil {
		u.t.Fatal(err)
	}
	return s.ID
}

func many(n int) []said {
	var out []said
	for i := range n {
		out = append(out, said{fmt.Sprintf("question %d about part %d", i+1, i+1), fmt.Sprintf("answer %d", i+1)})
	}
	return out
}

// jsonOf reads one JSON document.
func jsonOf[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// Background work is done once: titles, summaries and memories, by the cheap model, without
// tools, each request under its cause. A title of the user stays.
func TestBackgroundWork(t *testing.T) {
	t.Parallel()
	extract := llmtest.Turn{When: &llmtest.When{Cause: "extraction"}, Times: -1, Text: "[]"}
	var st *store.Store
	var late string
	s := llmtest.New(
		llmtest.Turn{When: &llmtest.When{Cause: "title", User: "question 1 "}, Text: "\"Parts of the machine\"\n"},
		llmtest.Turn{When: &llmtest.When{Cause: "title", User: "named while"}, Func: func(llmtest.Request) llmtest.Turn {
			if err := st.SetTitle(context.Background(), late, "by me", "user"); err != nil {
				t.Error(err)
			}
			return llmtest.Turn{Text: "by the model"}
		}},
		llmtest.Turn{When: &llmtest.When{Cause: "summary"}, Text: "## Background\nThe parts were asked about.\n## Tool chain\nnone"},
		extract,
	)
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_CHEAP_MODEL=small")
	st = u.db()
	id := u.stored(st, many(30)...)
	late = u.stored(st, said{"named while the model thinks", "yes"})
	named := u.stored(st, said{"我们的茶馆后台用什么端口", "8848"})
	if err := st.SetTitle(t.Context(), named, "茶馆", "user"); err != nil {
		t.Fatal(err)
	}
	type evolved struct {
		Requests, Tokens int
		Examined         map[string]int
		Proposed         []any
		Work             []struct{ Kind, State, Session_ID string }
		Reason           string
	}
	out, errs, status := u.run("evolve", "--dry-run", "--json")
	if r := jsonOf[evolved](t, out); status != 0 || len(r.Work) < 3 || r.Requests != 0 || len(s.Requests()) != 0 {
		t.Fatalf("dry run: %d %s%s", status, out, errs)
	}
	if out, _, status = u.run("evolve", "--only", "nosuch"); status != 2 {
		t.Errorf("an unknown kind: %d %s", status, out)
	}
	out, errs, status = u.run("evolve", "--json")
	r := jsonOf[evolved](t, out)
	if status != 0 || r.Requests < 3 || r.Tokens == 0 || r.Proposed == nil {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	causes := map[string]int{}
	for _, q := range s.Requests() {
		causes[q.Cause]++
		if len(q.Tools) > 0 || q.Model != "small" {
			t.Errorf("a request for %s to %s with %d tools", q.Cause, q.Model, len(q.Tools))
		}
		if q.Cause == "summary" && (!strings.Contains(q.Last("user").Content, "question 1 about") || !strings.Contains(q.Last("user").Content, "answer 30")) {
			t.Error("the summary was not made of all turns")
		}
	}
	if causes["title"] != 2 || causes["summary"] != 1 || causes["extraction"] == 0 {
		t.Errorf("requests: %v", causes)
	}
	n := len(s.Requests())
	out, errs, status = u.run("evolve")
	if status != 0 || !strings.Contains(out, "nothing new") || len(s.Requests()) != n {
		t.Errorf("the second pass: %d %s%s, %d requests", status, out, errs, len(s.Requests())-n)
	}
	out, _, _ = u.run("sessions", "list")
	if !strings.Contains(out, "Parts of the machine") || !strings.Contains(out, "茶馆") || !strings.Contains(out, "by me") {
		t.Errorf("titles: %s", out)
	}
	out, _, _ = u.run("sessions", "show", id, "--json")
	show := jsonOf[struct {
		Summaries  []struct{ From_turn, Upto_turn int }
		Background []struct{ Job, State, Reason string }
	}](t, out)
	if len(show.Summaries) != 1 || show.Summaries[0].Upto_turn != 30 {
		t.Errorf("summaries: %+v", show.Summaries)
	}
	for _, b := range show.Background {
		if b.State != "done" {
			t.Errorf("%+v", b)
		}
	}
	for _, args := range [][]string{{"evolve", "log", "--json"}, {"evolve", "why", "session:" + id}, {"evolve", "log", "--verify"}} {
		if out, errs, status := u.run(args...); status != 0 || !strings.Contains(out, "turns 1 to 30") && args[2] != "--verify" {
			t.Errorf("%v: %d %s%s", args, status, out, errs)
		}
	}
	out, _, _ = u.run("evolve", "log", "--json")
	log := jsonOf[struct {
		Items []struct {
			Kind string
			Cost *int
		}
	}](t, out)
	for _, e := range log.Items {
		if e.Kind == "summary" && (e.Cost == nil || *e.Cost <= 0 || *e.Cost > r.Tokens) {
			t.Errorf("the pass used %d tokens, the summary is said to have cost %v: %s", r.Tokens, e.Cost, out)
		}
	}
	for _, args := range [][]string{{"evolve", "log", "nosuch"}, {"evolve", "why", "nosuch"}, {"evolve", "nosuch"}} {
		if out, _, status := u.run(args...); status != 2 {
			t.Errorf("%v: %d %s", args, status, out)
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// A pass that is killed, or meets a server that fails, or a limit, loses nothing: what was
// stored counts, the next pass goes on behind it, and what failed can be seen.
func TestSummaryGoesOn(t *testing.T) {
	t.Parallel()
	summary := &llmtest.When{Cause: "summary"}
	s := llmtest.New(
		llmtest.Turn{When: summary, Text: "first part"},
		llmtest.Turn{When: summary, Text: "never arrives", Silence: time.Hour},
		llmtest.Turn{When: summary, Status: 401, Body: `{"error":{"message":"no"}}`},
		llmtest.Turn{When: summary, Text: "   "},
		llmtest.Turn{When: summary, Text: "second part"},
		llmtest.Turn{When: summary, Text: "third part"},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	st := u.db()
	id := u.stored(st, many(75)...)
	upto := func() int {
		t.Helper()
		sums, err := st.Summaries(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range sums {
			if x.From != n+1 {
				t.Errorf("a gap before turn %d", x.From)
			}
			n = x.Upto
		}
		return n
	}
	evolve := []string{"evolve", "--only", "summaries"}
	for _, only := range []string{"summaries", "titles", "memory"} {
		if out, _, status := u.run("evolve", "--only", only, "--budget-tokens", "10"); status != 1 || len(s.Requests()) != 0 {
			t.Errorf("a budget too small for %s: %d %s, %d requests", only, status, out, len(s.Requests()))
		}
	}
	cmd := u.command(t.Context(), evolve...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the second request", func() bool { return len(s.Requests()) >= 2 })
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if n := upto(); n != 30 {
		t.Errorf("after the kill %d turns are summarised", n)
	}
	out, errs, status := u.run(evolve...)
	if status != 4 || upto() != 30 {
		t.Errorf("a server that refuses: %d %s%s, %d turns", status, out, errs, upto())
	}
	failed := func() string {
		out, _, _ := u.run("sessions", "show", id, "--json")
		for _, b := range jsonOf[struct {
			Background []struct{ Job, State, Reason string }
		}](t, out).Background {
			if b.Job == "summary" {
				return b.State + ": " + b.Reason
			}
		}
		return ""
	}
	if got := failed(); !strings.HasPrefix(got, "failed: ") || !strings.Contains(got, "401") {
		t.Errorf("what failed is shown as %q", got)
	}
	if out, _, status := u.run(evolve...); status != 1 || upto() != 30 {
		t.Errorf("an empty answer: %d %s, %d turns", status, out, upto())
	}
	if out, errs, status := u.run(evolve...); status != 0 || upto() != 75 {
		t.Errorf("the last pass: %d %s%s, %d turns", status, out, errs, upto())
	}
	if got := failed(); !strings.HasPrefix(got, "done") {
		t.Errorf("after it went well: %q", got)
	}
	list := s.Requests()
	if got := list[len(list)-2].Last("user").Content; !strings.HasPrefix(got, "# Turn 31 ") {
		t.Errorf("the last pass begins with %.40q", got)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// A summary is used at the next epoch, together with the facts of the project, what is
// decided and the user's words; earlier turns come back in a message that bears on them,
// and nothing that was sent changes.
func TestSummaryAndEarlierTurns(t *testing.T) {
	t.Parallel()
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{TokenLimit: 16000}, Turns: []llmtest.Turn{
		{When: &llmtest.When{Cause: "summary"}, Text: "## Decisions and reasons\nThe gateway is written in Rust because of zebra-42.\n## Tool chain\nbash listed the gateway", Times: -1},
		{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
			if r.Last("").Role == "user" && strings.Contains(r.Last("user").Content, "set the list") {
				return llmtest.Turn{Calls: []llmtest.Call{{Name: "todo", Args: map[string]any{"items": []any{
					map[string]any{"text": "draw the map", "status": "done"}, map[string]any{"text": "paint the gate", "status": "pending"}}}}}}
			}
			return llmtest.Turn{Text: "noted. " + strings.Repeat("The rest of the answer goes on at length about nothing much. ", 40)}
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=16000")
	if err := os.WriteFile(filepath.Join(u.project, "AGENTS.md"), []byte("Always use tabs in this house.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	prompts := []string{"the license server of the tea house is at oolong-17:4410", "set the list", "后台的缓存失效时间定为十分钟"}
	for i := len(prompts); i < 10; i++ {
		prompts = append(prompts, fmt.Sprintf("carry on with part %d", i))
	}
	turn := func(prompt string, first bool) string {
		t.Helper()
		args := []string{"run", "--output", "stream-json"}
		if !first {
			args = append(args, "--continue")
		}
		out, errs, status := u.run(append(args, prompt)...)
		if status != 0 {
			t.Fatalf("%q: %d %s%s", prompt, status, out[max(0, len(out)-400):], errs)
		}
		return out
	}
	for i, p := range prompts {
		if strings.Contains(turn(p, i == 0), `"type":"compact"`) {
			t.Fatalf("an epoch in turn %d", i+1)
		}
	}
	if out, errs, status := u.run("evolve", "--only", "summaries"); status != 0 {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	epochs := 0
	for i := 0; i < 40 && epochs == 0; i++ {
		epochs += strings.Count(turn(fmt.Sprintf("and then part %d", i), false), `"type":"compact"`)
	}
	if epochs != 1 {
		t.Fatalf("%d epochs", epochs)
	}
	last := func() llmtest.Request { l := s.Requests(); return l[len(l)-1] }
	head := last().Message[1].Content
	for _, want := range []string{"zebra-42", "bash listed the gateway", "[x] 1. draw the map", "[ ] 2. paint the gate", "oolong-17:4410", "缓存失效时间定为十分钟", "Always use tabs in this house", "directory: "} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in the beginning: %.3000s", want, head)
		}
	}
	turn("on which port does the license server listen?", false)
	if got := last().Last("user").Content; !strings.Contains(got, "<earlier ") || !strings.Contains(got, "[turn 1,") {
		t.Errorf("the earlier turn does not come back: %s", got)
	}
	turn("which port does the license server listen on, again?", false)
	if got := last().Last("user").Content; strings.Contains(got, "[turn 1,") {
		t.Errorf("an earlier turn comes back twice: %s", got)
	}
	turn("缓存多久失效？", false)
	if got := last().Last("user").Content; !strings.Contains(got, "[turn 3,") {
		t.Errorf("the earlier turn does not come back: %s", got)
	}
	if breaks := prefixBreaks(s); breaks != epochs {
		t.Errorf("%d requests are no prefix of the next, %d epochs", breaks, epochs)
	}
	// What people read holds everything once; a copy of the first turns goes on from them.
	id := u.newest()
	out, _, _ := u.run("sessions", "export", id)
	if strings.Contains(out, digestMark) || strings.Count(out, "\n"+prompts[0]+"\n") != 1 || strings.Count(out, "and then part 0\n") != 1 {
		t.Errorf("the export: %.500s", out)
	}
	fork := jsonOf[struct{ ID string }](t, func() string { out, _, _ := u.run("sessions", "fork", id, "--turn", "3", "--json"); return out }()).ID
	if out, errs, status := u.run("run", "--session", fork, "and now something else"); status != 0 {
		t.Errorf("a copy of the first turns: %d %s%s", status, out, errs)
	}
	if r := last(); len(r.Message) > 12 || !strings.Contains(r.Message[1].Content, prompts[0]) || strings.Contains(string(r.Body), "part 5") {
		t.Errorf("the copy begins with %.300q and has %d messages", r.Message[1].Content, len(r.Message))
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// prefixBreaks counts the requests of turns that are no byte prefix of the next one.
func prefixBreaks(s *llmtest.Server) int {
	n := 0
	var last []byte
	for _, r := range s.Requests() {
		if r.Cause != "turn" || r.Status != 200 {
			continue
		}
		if last != nil && !bytes.HasPrefix(r.Body, bytes.TrimSuffix(last, []byte("]}"))) {
			n++
		}
		last = r.Body
	}
	return n
}

// A plan that lj died in the middle of is named in the first message of the resumed turn,
// with the list, the calls that ran, and what of the plan is done and what is next.
func TestResumeNamesWhatWasOpen(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := llmtest.New(
		llmtest.Turn{When: &llmtest.When{Cause: "turn", User: "begin"}, Calls: []llmtest.Call{
			{Name: "todo", Args: map[string]any{"items": []any{map[string]any{"text": "measure the roof", "status": "doing"}}}},
			{Name: "plan", Args: map[string]any{"goal": "mend the roof", "steps": []any{
				map[string]any{"id": "a", "desc": "buy the slates"}, map[string]any{"id": "b", "desc": "lay the slates", "depends_on": []any{"a"}}, map[string]any{"id": "c", "desc": "clean up", "depends_on": []any{"b"}}}}}}},
		llmtest.Turn{When: &llmtest.When{Step: "a"}, Text: "bought"},
		llmtest.Turn{When: &llmtest.When{Step: "b"}, Func: func(llmtest.Request) llmtest.Turn {
			close(hang)
			return llmtest.Turn{Silence: time.Hour}
		}},
		llmtest.Turn{When: &llmtest.When{Cause: "turn"}, Text: "going on"},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	cmd := u.command(t.Context(), "run", "--yolo", "begin")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-hang:
	case <-time.After(60 * time.Second):
		t.Fatal("the second step did not begin")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	out, errs, status := u.run("run", "--yolo", "--continue", "go on")
	if status != 0 {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	list := s.Requests()
	got := list[len(list)-1].Last("user").Content
	for _, want := range []string{"they may be partly done: plan", "measure the roof", "Plan: mend the roof", "[x] a: buy the slates", "[>] b: lay the slates", "[ ] c: clean up"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// What is kept outside of the conversation stays readable, also in a copy and when the
// original is gone; history is searched over all sessions, in Chinese too, by sentences.
func TestKeptOutputsAndSearch(t *testing.T) {
	t.Parallel()
	call := func(name string, args map[string]any) llmtest.Turn {
		return llmtest.Turn{Calls: []llmtest.Call{{Name: name, Args: args}}}
	}
	find := `read_output \{"id":"(o[0-9a-f]+)"\}`
	s := llmtest.New(
		call("bash", map[string]any{"command": "seq 1 200000"}), llmtest.Turn{Text: "long"},
		llmtest.Turn{Capture: map[string]string{"id": find}, Calls: []llmtest.Call{{Name: "read_output", Args: map[string]any{"id": "{{id}}", "pattern": "123457"}}}}, llmtest.Turn{Text: "read"},
		llmtest.Turn{Text: "记下了"},
		call("search_history", map[string]any{"query": "茶馆的后台端口是多少"}), llmtest.Turn{Text: "found"},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	ok := func(args ...string) string {
		t.Helper()
		out, errs, status := u.run(args...)
		if status != 0 {
			t.Fatalf("%v: %d %s%s", args, status, out, errs)
		}
		return strings.TrimSpace(out)
	}
	ok("run", "--yolo", "count")
	first := jsonOf[struct{ Items []struct{ ID string } }](t, ok("sessions", "list", "--json")).Items[0].ID
	fork := jsonOf[struct{ ID string }](t, ok("sessions", "fork", first, "--json")).ID
	ok("sessions", "rm", first)
	ok("run", "--yolo", "--session", fork, "read on")
	if got := s.Requests()[3].Last("tool").Content; !strings.Contains(got, "123457: 123457") {
		t.Errorf("the kept output is not readable in the copy: %.300s", got)
	}
	ok("run", "茶馆后台的端口改成 8848 了")
	ok("run", "which port was it?")
	list := s.Requests()
	got := list[len(list)-1].Last("tool").Content
	if !strings.Contains(got, "8848") || strings.Contains(got, "search_history") || strings.Contains(got, "which port was it") {
		t.Errorf("search_history found %s", got)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// Caps stop before the call, count the steps of plans, and hold where the server reports
// nothing.
func TestCapsStopBeforeTheCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key string
		silent    bool
	}{{"session", "LJ_SESSION_TOKENS", false}, {"day", "LJ_DAILY_TOKENS", false}, {"unreported", "LJ_SESSION_TOKENS", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{NoUsage: c.silent}, Turns: []llmtest.Turn{
				{When: &llmtest.When{Cause: "step"}, Times: -1, Text: "step done"},
				{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
					return llmtest.Turn{Calls: []llmtest.Call{{Name: "plan", Args: map[string]any{"goal": fmt.Sprint("g", r.Seq), "steps": []any{"one", "two"}}}}}
				}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			u := newUser(t, s.URL())
			const limit = 40000
			u.env = append(u.env, fmt.Sprintf("%s=%d", c.key, limit))
			out, errs, status := u.run("run", "--yolo", "--output", "json", "go")
			if status != 1 {
				t.Fatalf("%d %s%s", status, out, errs)
			}
			r := jsonOf[struct {
				Status string
				Error  struct{ Kind, Message string }
			}](t, out)
			if r.Status != "limit" || !strings.Contains(r.Error.Message, fmt.Sprint(limit)) {
				t.Errorf("%s", out)
			}
			steps, used := 0, 0
			for _, q := range s.Requests() {
				if q.Cause == "step" {
					steps++
				}
			}
			costs, err := u.db().Costs(t.Context(), u.newest(), "")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range costs {
				used += c.Spent()
			}
			if used > limit+500 || used < limit/2 || steps == 0 {
				t.Errorf("%d tokens were used, the limit is %d; %d steps", used, limit, steps)
			}
			n := len(s.Requests())
			if out, _, status := u.run("run", "--yolo", "--continue", "again"); status != 1 || len(s.Requests()) != n {
				t.Errorf("beyond the limit: %d %s, %d further requests", status, out, len(s.Requests())-n)
			}
		})
	}
}

// What a conversation costs is told by cause, with money where a price is set.
func TestCostReport(t *testing.T) {
	t.Parallel()
	s := llmtest.New(
		llmtest.Turn{Text: "hi", Usage: &llmtest.Usage{Prompt: 1000, Cached: 600, Completion: 50}},
		llmtest.Turn{When: &llmtest.When{Cause: "title"}, Text: "A greeting", Usage: &llmtest.Usage{Prompt: 100, Completion: 5}},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_PRICE_PROMPT=2", "LJ_PRICE_CACHED=0.5", "LJ_PRICE_COMPLETION=8", "LJ_MEMORY_EXTRACT=false", "LJ_SESSION_TOKENS=50000")
	for _, args := range [][]string{{"run", "hello"}, {"evolve"}} {
		if out, errs, status := u.run(args...); status != 0 {
			t.Fatalf("%v: %d %s%s", args, status, out, errs)
		}
	}
	a := u.open(t.Context())
	id := u.newest()
	r, err := a.CostReport(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lines) != 2 || r.Lines[0].Cause != "title" || r.Lines[1].CachedTokens != 600 || r.Cached != 54 || r.Today != 1155 || r.Limits[1].Used != 1155 {
		t.Errorf("%+v", r)
	}
	want := (400*2+600*0.5+50*8)/1e6 + (100*2+5*8)/1e6
	if r.Money == nil || *r.Money < want-1e-9 || *r.Money > want+1e-9 {
		t.Errorf("money: %v, want %v", r.Money, want)
	}
	for _, j := range r.Jobs {
		if j.Job == "title" && j.State != "done" || j.Job == "summary" && !strings.Contains(j.Reason, "never ran") {
			t.Errorf("%+v", j)
		}
	}
}

// open opens the app in this process, as lj does.
func (u *user) open(ctx context.Context) *app.App {
	u.t.Helper()
	a, err := app.Open(ctx, app.Options{Environ: u.env, Dir: u.project, Version: "test", Self: u.bin, Warn: func(s string) { u.t.Log(s) }})
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		if err := a.Close(); err != nil {
			u.t.Error(err)
		}
	})
	return a
}

// newest is the id of the newest session.
func (u *user) newest() string {
	u.t.Helper()
	out, _, _ := u.run("sessions", "list", "--json")
	list := jsonOf[struct{ Items []struct{ ID string } }](u.t, out).Items
	if len(list) == 0 {
		u.t.Fatal("no sessions")
	}
	return list[0].ID
}

// A server whose window is smaller than the settings say refuses once; the conversation
// goes on from a digest. What can never fit is said clearly, and the next turn goes on.
func TestServerSaysTooLong(t *testing.T) {
	t.Parallel()
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{TokenLimit: 12000}, Turns: []llmtest.Turn{{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
		n := 0
		for i := len(r.Message) - 1; i >= 0 && r.Message[i].Role != "user"; i-- {
			n++
		}
		if n >= 6 || strings.Contains(r.Last("user").Content, "short") {
			return llmtest.Turn{Text: "done"}
		}
		return llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": fmt.Sprintf("seq %d %d", r.Seq, r.Seq+1500)}}}}
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	for i := range 4 {
		before := len(s.Requests())
		args := []string{"run", "--yolo"}
		if i > 0 {
			args = append(args, "--continue")
		}
		if out, errs, status := u.run(append(args, "look at part "+fmt.Sprint(i))...); status != 0 {
			t.Fatalf("turn %d: %d %s%s", i+1, status, out, errs)
		}
		refused := 0
		for _, r := range s.Requests()[before:] {
			if r.Status == 400 {
				refused++
			}
		}
		if refused > 1 {
			t.Errorf("turn %d: %d requests were refused", i+1, refused)
		}
	}
	before := len(s.Requests())
	out, errs, status := u.run("run", "--yolo", "--continue", "--output", "json", strings.Repeat("a very long question ", 4000))
	if status != 1 || !strings.Contains(out, `"status":"limit"`) || !strings.Contains(out, "longer than the model takes") {
		t.Errorf("what can't fit: %d %s%s", status, out, errs)
	}
	if n := len(s.Requests()) - before; n != 2 {
		t.Errorf("%d requests for what can't fit", n)
	}
	if out, errs, status := u.run("run", "--yolo", "--continue", "a short one"); status != 0 || out != "done\n" {
		t.Errorf("afterwards: %d %s%s", status, out, errs)
	}
	for _, e := range s.Errors() {
		t.Error(e)
	}
}

// The window is judged by what the server reports: Chinese at a token a character is
// compressed before the server has to refuse it; English that fits is left alone, and the
// shown figure is near the truth.
func TestWindowIsCalibrated(t *testing.T) {
	t.Parallel()
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{TokenLimit: 32000}, Turns: []llmtest.Turn{{Times: -1, Text: "好的"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=32000")
	compacts := 0
	for i := range 12 {
		args := []string{"run", "--output", "stream-json"}
		if i > 0 {
			args = append(args, "--continue")
		}
		out, errs, status := u.run(append(args, fmt.Sprintf("第%d段：", i)+strings.Repeat("茶馆后台的日志要保留一年并且每天备份到苏州机房去", 170))...)
		if status != 0 {
			t.Fatalf("turn %d: %d %s%s", i+1, status, out[max(0, len(out)-300):], errs)
		}
		compacts += strings.Count(out, `"type":"compact"`)
	}
	for _, r := range s.Requests() {
		if r.Status != 200 {
			t.Errorf("request %d was refused", r.Seq)
		}
	}
	if compacts == 0 {
		t.Error("nothing was compressed")
	}
	x := u.talker(app.TurnOptions{Continue: true})
	res, _ := x.turn("还剩多少？")
	shown, real := x.c.WindowShare(), 100*res.Usage.PromptTokens/32000
	if shown < real*7/10 || shown > real*13/10+1 {
		t.Errorf("%d%% of the window are shown, it is %d%%", shown, real)
	}
	for _, e := range s.Errors() {
		t.Error(e)
	}
}

// While a chat is silent its title and its memories are made; who types meanwhile is not
// kept waiting; /cost and /compact say how it went, and the user's own title stays.
func TestIdleChat(t *testing.T) {
	t.Parallel()
	titles := &llmtest.When{Cause: "title"}
	s := llmtest.New(
		llmtest.Turn{When: &llmtest.When{Cause: "turn"}, Text: "the kettle is on\n", Times: 3},
		llmtest.Turn{When: titles, Text: "too late", Silence: time.Hour},
		llmtest.Turn{When: titles, Text: "Kettles and tea"},
		llmtest.Turn{When: &llmtest.When{Cause: "extraction"}, Text: "[]", Times: -1},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_EVOLVE_IDLE=1")
	count := func(cause string) (n int) {
		for _, r := range s.Requests() {
			if r.Cause == cause {
				n++
				if cause != "turn" && len(r.Tools) > 0 {
					t.Errorf("a request for %s has tools", cause)
				}
			}
		}
		return n
	}
	x, wait := u.terminal()
	x.see("/help lists the commands")
	x.say("my kitchen has a copper kettle from Sheffield\r")
	x.see("1 requests")
	waitUntil(t, "the first title", func() bool { return count("title") == 1 })
	x.say("and two blue teapots from Leeds\r")
	x.see("1 requests")
	waitUntil(t, "the second title", func() bool { return count("title") == 2 })
	waitUntil(t, "extraction", func() bool { return count("extraction") > 0 })
	x.say("/cost\r")
	x.see("title")
	x.see("tokens in all")
	x.see("title      done")
	n := count("extraction")
	x.say("the teapots are older than the kettle\r")
	x.see("1 requests")
	waitUntil(t, "extraction again", func() bool { return count("extraction") > n })
	x.say("/title my own words\r")
	x.say("/title\r")
	x.see("my own words")
	x.say("/compact\r")
	x.see("would not be smaller")
	x.see("summary    skipped")
	x.say("/exit\r")
	if st := wait(); st != 0 {
		t.Errorf("exit status %d", st)
	}
	if out, errs, status := u.run("evolve", "--only", "titles"); status != 0 || !strings.Contains(out, "nothing new") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if out, _, _ := u.run("sessions", "list"); !strings.Contains(out, "my own words") {
		t.Errorf("titles: %s", out)
	}
	if count("title") != 2 {
		t.Errorf("%d requests for titles", count("title"))
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// The journal tells of tools, prompts, memories and summaries, and a change behind its back
// is found and named.
func TestJournal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:9/v1")
	u.compiler()
	u.saveTool("first")
	st := u.db()
	id := u.stored(st, many(3)...)
	if err := st.AddSummary(t.Context(), store.Summary{Session: id, From: 1, Upto: 2, Semantic: "x", Model: "m"}); err != nil {
		t.Fatal(err)
	}
	prompt := filepath.Join(u.home, "p.md")
	if err := os.WriteFile(prompt, []byte("You are mine.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"prompts", "set", prompt, "-m", "shorter"}, {"memory", "add", "the attic is dusty"}} {
		if out, errs, status := u.run(args...); status != 0 {
			t.Fatalf("%v: %d %s%s", args, status, out, errs)
		}
	}
	out, errs, status := u.run("evolve", "log", "--json")
	type entry struct{ ID, Kind, Artefact, State, Why, Evidence, Revert string }
	list := jsonOf[struct{ Items []entry }](t, out).Items
	kinds := map[string]entry{}
	for _, e := range list {
		kinds[e.Kind] = e
	}
	for kind, artefact := range map[string]string{"tool.save": "shout", "prompt.set": "prompt", "memory.created": "memory:1", "summary": "session:" + id} {
		if e := kinds[kind]; e.Artefact != artefact || e.Evidence == "" {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	if status != 0 || kinds["prompt.set"].Revert != "lj prompts rollback 1" {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if out, errs, status := u.run("evolve", "log", "--verify"); status != 0 {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	for _, c := range []struct{ spoil, mend, id string }{
		{`UPDATE tool_versions SET source = 'x' || source`, `UPDATE tool_versions SET source = substr(source, 2)`, kinds["tool.save"].ID},
		{`UPDATE tool_versions SET sha256 = 'x' || sha256`, `UPDATE tool_versions SET sha256 = substr(sha256, 2)`, kinds["tool.save"].ID},
		{`UPDATE prompts SET parent = 9`, `UPDATE prompts SET parent = 1`, kinds["prompt.set"].ID},
		{`UPDATE memory_events SET memory_id = 99`, `UPDATE memory_events SET memory_id = 1`, kinds["memory.created"].ID},
		{`UPDATE summaries SET upto_turn = 0`, `UPDATE summaries SET upto_turn = 2`, kinds["summary"].ID},
	} {
		for i, q := range []string{c.spoil, c.mend} {
			if _, err := st.DB().ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			out, errs, status := u.run("evolve", "log", "--verify")
			if i == 0 && (status != 1 || !strings.Contains(errs, "entry "+c.id+" ")) || i == 1 && status != 0 {
				t.Errorf("%s: %d %s%s", q, status, out, errs)
			}
		}
	}
	if out, errs, status := u.run("evolve", "why", "shout"); status != 0 || !strings.Contains(out, "lj tools rollback shout") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

// A session that somebody works in is not removed under them.
func TestRemoveSessionAtWork(t *testing.T) {
	t.Parallel()
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{bashCall(waitsFor)}}, llmtest.Turn{Text: "done"})
	u := newUser(t, s.URL())
	cmd := u.command(t.Context(), "run", "--yolo", "--output", "json", "go")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	requestsOf(t, s, 1)
	var list struct{ Items []struct{ ID string } }
	for deadline := time.Now().Add(tmuxPatience); len(list.Items) == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text, _, _ := u.run("sessions", "list", "--json")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, status := u.run("sessions", "rm", list.Items[0].ID); status != 1 || !strings.Contains(errs, "another lj is at work in session "+list.Items[0].ID) {
		t.Errorf("status %d: %s", status, errs)
	}
	u.release()
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(string(text), `"status":"completed"`) {
		t.Errorf("the run: %v: %s", err, text)
	}
	if _, errs, status := u.run("sessions", "rm", list.Items[0].ID); status != 0 {
		t.Errorf("status %d: %s", status, errs)
	}
}
