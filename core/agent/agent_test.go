package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
)

// world is everything a turn meets: a model that plays answers, tools, a gate, a log.
type world struct {
	t       *testing.T
	answers []func(r agent.Request) (agent.Answer, error)
	asked   []agent.Request
	tools   map[string]*tool
	ask     func(name string) core.Verdict
	judge   func(name string) core.Verdict

	mu     sync.Mutex
	log    []core.StoredMessage
	events []core.Event
}

type tool struct {
	name string
	read bool
	run  func(ctx context.Context, args string) (core.ToolResult, error)
}

func (x *tool) Spec() core.ToolSpec {
	return core.ToolSpec{Name: x.name, ReadOnly: x.read, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (x *tool) Call(ctx context.Context, r core.ToolRequest) (core.ToolResult, error) {
	return x.run(ctx, string(r.Args))
}

func (w *world) Ask(ctx context.Context, r agent.Request, d func(agent.Delta)) (agent.Answer, error) {
	r.Messages = append([]json.RawMessage(nil), r.Messages...)
	w.asked = append(w.asked, r)
	w.check(r)
	if ctx.Err() != nil {
		return agent.Answer{}, ctx.Err()
	}
	if len(w.answers) == 0 {
		w.t.Fatal("a request too many")
	}
	f := w.answers[0]
	if len(w.answers) > 1 {
		w.answers = w.answers[1:]
	}
	a, err := f(r)
	if a.Message.Content != "" {
		d(agent.Delta{Text: a.Message.Content})
	}
	if a.Usage == (core.Usage{}) {
		a.Usage = core.Usage{Requests: 1, PromptTokens: 100, CompletionTokens: 10}
	}
	return a, err
}

// check holds the rule of the strictest server: each call has exactly one result.
func (w *world) check(r agent.Request) {
	open := map[string]int{}
	for _, raw := range r.Messages {
		var m struct {
			Role, ID string
			Calls    []string
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			w.t.Fatalf("%s: %v", raw, err)
		}
		if m.Role == "tool" {
			open[m.ID]--
			continue
		}
		for id, n := range open {
			if n != 0 {
				w.t.Fatalf("call %s has %d results too few", id, n)
			}
		}
		for _, c := range m.Calls {
			open[c]++
		}
	}
	for id, n := range open {
		if n != 0 {
			w.t.Fatalf("call %s has %d results too few", id, n)
		}
	}
}

func (w *world) Append(_ context.Context, _ string, msgs ...core.StoredMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, msgs...)
	return nil
}

func (w *world) Messages(context.Context, string) ([]core.StoredMessage, error) { return w.log, nil }

func (w *world) Resolve(c core.ToolCall) (core.Tool, core.ToolCall, error) {
	if x, ok := w.tools[c.Name]; ok {
		return x, c, nil
	}
	return nil, c, fmt.Errorf("there is no tool %q", c.Name)
}

func (w *world) Decide(s core.ToolSpec, _ core.ToolCall) core.Decision {
	v := core.Allow
	if w.judge != nil {
		v = w.judge(s.Name)
	}
	return core.Decision{Verdict: v, Rule: "test"}
}

type gate struct{ *world }

func (g gate) Ask(_ context.Context, s core.ToolSpec, _ core.ToolCall, d core.Decision) core.Decision {
	d.Verdict = core.Deny
	if g.ask != nil {
		d.Verdict = g.ask(s.Name)
	}
	return d
}

type enc struct{}

func (enc) Images(text string, list []core.Image) json.RawMessage {
	for _, im := range list {
		text += " " + im.MIME
	}
	return enc{}.User(text)
}

func (enc) ToolResult(id, _ string, r core.ToolResult) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"role": "tool", "id": id, "text": r.Text}) // strings encode
	return b
}
func (enc) User(s string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"role": "user", "text": s}) // strings encode
	return b
}
func (enc) Assistant(s string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"role": "assistant", "text": s}) // strings encode
	return b
}

var callCount int

func says(text string, calls ...core.ToolCall) func(agent.Request) (agent.Answer, error) {
	return func(agent.Request) (agent.Answer, error) {
		ids := []string{}
		out := append([]core.ToolCall(nil), calls...)
		for i := range out {
			callCount++
			out[i].ID = fmt.Sprintf("c%d", callCount)
			ids = append(ids, out[i].ID)
		}
		raw, err := json.Marshal(map[string]any{"role": "assistant", "text": text, "calls": ids})
		return agent.Answer{Message: core.Message{Role: "assistant", Content: text, ToolCalls: out, Raw: raw}}, err
	}
}

func call(name, args string) core.ToolCall { return core.ToolCall{Name: name, Arguments: args} }

func (w *world) turn(ctx context.Context, change func(*agent.Config)) agent.Outcome {
	cfg := agent.Config{
		Model: w, Log: w, Tools: w, Gate: gate{w}, Encode: enc{},
		Run: func(ctx context.Context, x core.Tool, c core.ToolCall, _ core.Decision, _ core.Sink) (core.ToolResult, error) {
			return x.Call(ctx, core.ToolRequest{Args: json.RawMessage(c.Arguments)})
		},
		Events: func(e core.Event) { w.mu.Lock(); w.events = append(w.events, e); w.mu.Unlock() },
	}
	if change != nil {
		change(&cfg)
	}
	return agent.New(cfg).Turn(ctx, agent.Input{
		Session: "s", Turn: 1, System: json.RawMessage(`{"role":"system"}`),
		User: core.Message{Role: "user", Content: "go", Raw: enc{}.User("go")},
	})
}

func text(s string) func(context.Context, string) (core.ToolResult, error) {
	return func(context.Context, string) (core.ToolResult, error) { return core.ToolResult{Text: s}, nil }
}

func newWorld(t *testing.T, answers ...func(agent.Request) (agent.Answer, error)) *world {
	return &world{t: t, answers: answers, tools: map[string]*tool{
		"read": {name: "read", read: true, run: text("content")}, "write": {name: "write", run: text("written")}, "bash": {name: "bash", run: text("ok")},
	}}
}

func TestTurnEnds(t *testing.T) {
	w := newWorld(t, says("looking", call("read", `{"p":1}`)), says("done"))
	out := w.turn(t.Context(), nil)
	if out.Stop != core.StopDone || out.Text != "done" || out.Err != nil || len(out.Calls) != 1 || out.Calls[0].Status != "ok" {
		t.Errorf("%+v", out)
	}
	if len(w.log) != 4 || out.Usage.Requests != 2 {
		t.Errorf("%d messages, usage %+v", len(w.log), out.Usage)
	}
	// Each request is the one before and more.
	for i, m := range w.asked[0].Messages {
		if string(m) != string(w.asked[1].Messages[i]) {
			t.Errorf("message %d changed", i)
		}
	}
}

func TestStepLimit(t *testing.T) {
	n := 0
	w := newWorld(t, func(agent.Request) (agent.Answer, error) {
		n++
		return says("", call("read", fmt.Sprintf(`{"n":%d}`, n)))(agent.Request{})
	})
	out := w.turn(t.Context(), func(c *agent.Config) { c.MaxSteps = 3 })
	if out.Stop != core.StopSteps || len(w.asked) != 3 || core.KindOf(out.Err) != core.KindLimit {
		t.Errorf("%s after %d requests: %v", out.Stop, len(w.asked), out.Err)
	}
}

// It stops before the call that would go over.
func TestBudget(t *testing.T) {
	n := 0
	w := newWorld(t, func(agent.Request) (agent.Answer, error) {
		n++
		return says("", call("read", fmt.Sprintf(`{"n":%d}`, n)))(agent.Request{})
	})
	b := &agent.Budget{Limit: 350}
	out := w.turn(t.Context(), func(c *agent.Config) { c.Budget = b })
	if out.Stop != core.StopBudget || b.Used() > 350 || len(w.asked) != 3 {
		t.Errorf("%s, %d used, %d requests", out.Stop, b.Used(), len(w.asked))
	}
}

// The same call with the same result: a warning, then an end; honest repetition is not
// disturbed.
func TestRepetition(t *testing.T) {
	w := newWorld(t, says("", call("read", `{"path":"a.txt"}`)))
	out := w.turn(t.Context(), nil)
	if out.Stop != core.StopRepeated || len(w.asked) != 6 {
		t.Errorf("%s after %d requests", out.Stop, len(w.asked))
	}
	warned := 0
	for _, m := range w.log {
		if m.Role == "tool" && strings.Contains(m.Content, "[lj] This is call number") {
			warned++
		}
	}
	if warned == 0 {
		t.Error("no warning")
	}

	var honest []func(agent.Request) (agent.Answer, error)
	for i := range 8 {
		honest = append(honest, says("", call("bash", `{"command":"go test ./..."}`)), says("", call("write", fmt.Sprintf(`{"n":%d}`, i))))
	}
	w = newWorld(t, append(honest, says("done"))...)
	if out := w.turn(t.Context(), nil); out.Stop != core.StopDone {
		t.Errorf("honest repetition ended with %s: %v", out.Stop, out.Err)
	}
	for _, m := range w.log {
		if strings.Contains(m.Content, "[lj]") {
			t.Errorf("warned: %s", m.Content)
		}
	}
	// A call that can't be parsed, again and again, ends too.
	w = newWorld(t, says("", core.ToolCall{Name: "read", Arguments: "{}", Problem: "not JSON"}))
	if out := w.turn(t.Context(), nil); out.Stop != core.StopRepeated {
		t.Errorf("broken calls ended with %s", out.Stop)
	}
}

// Reading calls run together and are reported in order; others one at a time.
func TestParallel(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	meet := make(chan struct{})
	slow := func(ctx context.Context, args string) (core.ToolResult, error) {
		mu.Lock()
		running++
		most = max(most, running)
		if running == 3 {
			close(meet)
		}
		mu.Unlock()
		select {
		case <-meet:
		case <-time.After(10 * time.Second):
		}
		mu.Lock()
		running--
		mu.Unlock()
		return core.ToolResult{Text: args}, nil
	}
	w := newWorld(t, says("", call("read", `{"n":1}`), call("read", `{"n":2}`), call("read", `{"n":3}`), call("write", `{}`), call("read", `{"n":4}`)), says("done"))
	w.tools["read"].run = slow
	alone := true
	w.tools["write"].run = func(context.Context, string) (core.ToolResult, error) {
		mu.Lock()
		alone = running == 0
		mu.Unlock()
		return core.ToolResult{Text: "w"}, nil
	}
	out := w.turn(t.Context(), nil)
	if most != 3 || !alone {
		t.Errorf("at most %d reads together, write alone: %v", most, alone)
	}
	var got []string
	for _, m := range w.log {
		if m.Role == "tool" {
			got = append(got, m.Content)
		}
	}
	if strings.Join(got, " ") != `{"n":1} {"n":2} {"n":3} w {"n":4}` {
		t.Errorf("order %v", got)
	}
	if len(out.Calls) != 5 || out.Calls[3].Name != "write" {
		t.Errorf("calls %+v", out.Calls)
	}
}

func TestDenied(t *testing.T) {
	w := newWorld(t, says("", call("bash", `{"c":1}`), call("write", `{"c":2}`), call("bash", `{"c":3}`), call("nosuch", `{}`)), says("done"))
	w.judge = func(name string) core.Verdict {
		if name == "write" {
			return core.Ask
		}
		return core.Allow
	}
	out := w.turn(t.Context(), nil)
	var status []string
	for _, c := range out.Calls {
		status = append(status, c.Status)
	}
	if strings.Join(status, " ") != "ok denied ok error" || len(out.Denied) != 1 || out.Denied[0].Tool != "write" || out.Stop != core.StopDone {
		t.Errorf("%v %+v %s", status, out.Denied, out.Stop)
	}
}

// A tool that breaks is a result; the agent goes on.
func TestToolFails(t *testing.T) {
	w := newWorld(t, says("", call("read", `{}`), call("bash", `{}`)), says("done"))
	w.tools["read"].run = func(context.Context, string) (core.ToolResult, error) {
		return core.ToolResult{}, errors.New("broken pipe")
	}
	w.tools["bash"].run = func(context.Context, string) (core.ToolResult, error) { return core.ErrorResult("exit status 1"), nil }
	out := w.turn(t.Context(), nil)
	if out.Stop != core.StopDone || out.Calls[0].Status != "error" || out.Calls[1].Status != "error" {
		t.Errorf("%+v", out)
	}
}

// A note of the user is heard after the running call; the calls after it are skipped.
func TestSteer(t *testing.T) {
	w := newWorld(t, says("", call("write", `{"n":1}`), call("write", `{"n":2}`), call("write", `{"n":3}`)), says("done"))
	ran := 0
	w.tools["write"].run = func(context.Context, string) (core.ToolResult, error) {
		ran++
		return core.ToolResult{Text: "w"}, nil
	}
	notes := []string{"stop, use b.txt"}
	out := w.turn(t.Context(), func(c *agent.Config) {
		c.Steer = func() []string {
			if ran == 1 {
				n := notes
				notes = nil
				return n
			}
			return nil
		}
	})
	if ran != 1 || out.Stop != core.StopDone {
		t.Errorf("%d ran, %s", ran, out.Stop)
	}
	last := w.asked[1].Messages
	if !strings.Contains(string(last[len(last)-1]), "use b.txt") {
		t.Errorf("the note is not the newest message: %s", last[len(last)-1])
	}
	skipped := 0
	for _, m := range w.log {
		if strings.HasPrefix(m.Content, "skipped") {
			skipped++
		}
	}
	if skipped != 2 {
		t.Errorf("%d skipped", skipped)
	}
}

// A note that comes while the last answer is written continues the turn.
func TestSteerAtTheEnd(t *testing.T) {
	w := newWorld(t, says("done"), says("done again"))
	n := 0
	out := w.turn(t.Context(), func(c *agent.Config) {
		c.Steer = func() []string {
			if n++; n == 1 {
				return []string{"and the tests", "in Chinese"}
			}
			return nil
		}
	})
	if out.Stop != core.StopDone || out.Text != "done again" || len(w.asked) != 2 {
		t.Fatalf("%s %q after %d requests", out.Stop, out.Text, len(w.asked))
	}
	last := w.asked[1].Messages
	if got := string(last[len(last)-1]); !strings.Contains(got, "and the tests") || !strings.Contains(got, "in Chinese") {
		t.Errorf("the newest message is %s", got)
	}
	if m := w.log[len(w.log)-2]; m.Role != core.RoleUser || m.Note != "steer" {
		t.Errorf("stored as %+v", m)
	}
}

// Pictures stand behind the results of all calls of an answer.
func TestImages(t *testing.T) {
	w := newWorld(t, says("", call("read", `{"n":1}`), call("write", `{"n":2}`)), says("seen"))
	w.tools["read"].run = func(context.Context, string) (core.ToolResult, error) {
		return core.ToolResult{Text: "a picture", Images: []core.Image{{MIME: "image/png", Data: []byte{1}}}}, nil
	}
	out := w.turn(t.Context(), nil)
	if out.Stop != core.StopDone {
		t.Fatalf("%+v", out)
	}
	msgs := w.asked[1].Messages
	if got := string(msgs[len(msgs)-1]); !strings.Contains(got, "image/png") {
		t.Errorf("the newest message is %s", got)
	}
	if n := len(w.log); w.log[n-2].Note != "images" || w.log[n-3].Role != core.RoleTool || w.log[n-4].Role != core.RoleTool {
		t.Errorf("the log ends with %+v", w.log[n-4:])
	}
}

// Cancelled during the second of three calls: the first result is real, all are answered.
func TestCancelledInCalls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, says("", call("write", `{"n":1}`), call("write", `{"n":2}`), call("write", `{"n":3}`)))
	n := 0
	w.tools["write"].run = func(ctx context.Context, _ string) (core.ToolResult, error) {
		if n++; n == 2 {
			cancel()
			return core.ToolResult{}, ctx.Err()
		}
		return core.ToolResult{Text: "real"}, nil
	}
	out := w.turn(ctx, nil)
	if out.Stop != core.StopInterrupted || n != 2 {
		t.Errorf("%s, %d ran", out.Stop, n)
	}
	var status []string
	for _, c := range out.Calls {
		status = append(status, c.Status)
	}
	if strings.Join(status, " ") != "ok cancelled cancelled" {
		t.Errorf("status %v", status)
	}
	w.check(agent.Request{Messages: out.Messages})
	if w.log[2].Content != "real" {
		t.Errorf("first result %q", w.log[2].Content)
	}
}

func TestModelFails(t *testing.T) {
	for kind, stop := range map[core.Kind]core.StopReason{core.KindModel: core.StopModel, core.KindLimit: core.StopBudget, core.KindInternal: core.StopInternal} {
		w := newWorld(t, func(agent.Request) (agent.Answer, error) { return agent.Answer{}, core.Errorf(kind, "x") })
		if out := w.turn(t.Context(), nil); out.Stop != stop || core.KindOf(out.Err) != kind {
			t.Errorf("%s: %s %v", kind, out.Stop, out.Err)
		}
	}
}

func TestTooLong(t *testing.T) {
	n := 0
	w := newWorld(t, func(agent.Request) (agent.Answer, error) {
		n++
		return agent.Answer{}, fmt.Errorf("%w: 400", agent.ErrTooLong)
	})
	out := w.turn(t.Context(), func(c *agent.Config) {
		c.TooLong = func(_ context.Context, m []json.RawMessage) ([]json.RawMessage, error) { return m, nil }
	})
	if out.Stop != core.StopContext || n != 2 {
		t.Errorf("%s after %d requests", out.Stop, n)
	}
}

func TestRepair(t *testing.T) {
	user := core.StoredMessage{Message: core.Message{Role: "user"}}
	asks := core.StoredMessage{Turn: 4, Message: core.Message{Role: "assistant", ToolCalls: []core.ToolCall{{ID: "a"}, {ID: "b"}, {ID: "c"}}}}
	res := func(id string) core.StoredMessage {
		return core.StoredMessage{Message: core.Message{Role: "tool", ToolCallID: id}}
	}
	for name, c := range map[string]struct {
		log  []core.StoredMessage
		want string
	}{
		"nothing": {nil, ""}, "whole": {[]core.StoredMessage{user, asks, res("a"), res("b"), res("c")}, ""},
		"none": {[]core.StoredMessage{user, asks}, "a b c"}, "one": {[]core.StoredMessage{user, asks, res("a")}, "b c"},
		"then a user": {[]core.StoredMessage{asks, res("a"), res("b"), res("c"), user}, ""},
	} {
		var got []string
		for _, m := range agent.Repair(c.log, enc{}) {
			got = append(got, m.ToolCallID)
			if m.Turn != 4 || m.Note != "repair" {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
