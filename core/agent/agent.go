// Package agent owns the loop: ask the model, run the calls it asks for, append, repeat,
// until a named stop reason. Limits, the detection of repetition, cancelling and the
// event stream are here.
//
// It knows nothing of HTTP, SQL, plugins, terminals or git: the model, the log, the tools
// and the gate that judges calls are interfaces.
//
//	out := agent.New(cfg).Turn(ctx, agent.Input{Session: s, Turn: 1, Messages: stored, User: raw})
//	if out.Stop != core.StopDone { … }
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// DefaultMaxSteps is the step limit of a turn when none is configured.
const DefaultMaxSteps = 50

// Request is one request to the model.
type Request struct {
	Messages []json.RawMessage // the stored bytes, system text first
	Tools    json.RawMessage
	Cause    string // "turn", "step"
}

// Delta is a piece of an answer as it streams in.
type Delta struct {
	Text      string
	Reasoning string
	// Tool is the name of a call that the model has begun to write.
	Tool string
	// Reset is true when the answer so far is void and begins again.
	Reset bool
}

// Answer is one complete answer.
type Answer struct {
	Message core.Message
	Usage   core.Usage
	// Truncated is true when the output limit ended the answer.
	Truncated bool
}

// Model answers requests. Ask returns an error of kind core.KindModel when no answer could
// be had, ErrTooLong (wrapped) when the conversation no longer fits, and ctx's error when
// it was cancelled.
type Model interface {
	Ask(ctx context.Context, r Request, d func(Delta)) (Answer, error)
}

// ErrTooLong says that the server refused the conversation as too long.
var ErrTooLong = errors.New("the conversation is longer than the model takes")

// Tools finds tools by the name that the model used.
type Tools interface {
	// Resolve returns the tool that a call really means and its arguments: a call through
	// use_tool is the tool named in it. The error's text is for the model.
	Resolve(call core.ToolCall) (core.Tool, core.ToolCall, error)
}

// Gate judges calls before they run.
type Gate interface {
	Decide(spec core.ToolSpec, call core.ToolCall) core.Decision
	// Ask puts a call to a person and returns the final verdict, Allow or Deny. It is
	// called one at a time, in the order of the calls.
	Ask(ctx context.Context, spec core.ToolSpec, call core.ToolCall, d core.Decision) core.Decision
}

// Runner runs one judged call and returns its bounded, masked result. It is where the
// wrappers (confinement, recording, snapshots) meet.
type Runner func(ctx context.Context, tool core.Tool, call core.ToolCall, d core.Decision, sink core.Sink) (core.ToolResult, error)

// Encoder makes the bytes of messages that the loop itself writes.
type Encoder interface {
	ToolResult(callID, name string, res core.ToolResult) json.RawMessage
	User(text string) json.RawMessage
	// Images is a message of the user that shows pictures which a tool has read: servers
	// take none in the result of a call.
	Images(text string, images []core.Image) json.RawMessage
	Assistant(text string) json.RawMessage
}

// Budget is a shared count of tokens. Nil is no limit. Sub-agents share their parent's.
type Budget struct {
	mu    sync.Mutex
	Limit int
	used  int
}

// Add counts tokens as used.
func (b *Budget) Add(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.used += n
	b.mu.Unlock()
}

// Used is the tokens counted so far.
func (b *Budget) Used() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Over says whether another n tokens would go over the limit.
func (b *Budget) Over(n int) bool {
	if b == nil || b.Limit <= 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used+n > b.Limit
}

// Config is what an Agent works with. Model, Log, Tools, Gate, Run and Encode are needed;
// the rest may be zero.
type Config struct {
	Model  Model
	Log    core.SessionLog
	Tools  Tools
	Gate   Gate
	Run    Runner
	Encode Encoder

	// Events takes every event, in order, from one goroutine at a time. Nil drops them.
	Events func(core.Event)
	// MaxSteps ends a turn after so many requests; 0 is no limit.
	MaxSteps int
	Budget   *Budget
	// Estimate guesses the tokens of stored messages, for the budget where there is no
	// report. Nil takes four bytes for a token.
	Estimate func(msgs ...json.RawMessage) int
	// Steer returns, once, what the user wants the running turn to hear now. It is asked
	// between calls and before each further request; calls that have not begun are skipped.
	Steer func() []string
	// Fits says whether a conversation, of which the last report counted lastTokens for the
	// first lastSent messages, may be sent. When it does not, TooLong is asked to shorten it
	// before the request. Nil: everything fits.
	Fits func(msgs []json.RawMessage, lastTokens, lastSent int) bool
	// TooLong is asked once per turn to shorten the conversation when the server refuses
	// it; it returns the messages to go on with. Nil means it can't be shortened.
	TooLong func(ctx context.Context, msgs []json.RawMessage) ([]json.RawMessage, error)
	Cause   string // "turn" when empty
	Now     func() time.Time
}

// Agent runs turns. It is safe to run turns of different sessions at the same time.
type Agent struct {
	cfg    Config
	events sync.Mutex
}

// New returns an Agent.
func New(cfg Config) *Agent {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Estimate == nil {
		cfg.Estimate = func(msgs ...json.RawMessage) int { return bytesOf(msgs) / 4 }
	}
	if cfg.Cause == "" {
		cfg.Cause = "turn"
	}
	return &Agent{cfg: cfg}
}

// Input is one turn to run.
type Input struct {
	Session string
	Turn    int
	System  json.RawMessage   // the system message
	Tools   json.RawMessage   // the tool list
	History []json.RawMessage // stored messages before this turn
	User    core.Message      // the user's message, Raw set; not yet stored
}

// CallReport is one call as the front ends report it.
type CallReport struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	MS     int64  `json:"ms"`
}

// Outcome is how a turn ended.
type Outcome struct {
	Stop   core.StopReason
	Text   string // the final answer, or what there was of it
	Usage  core.Usage
	Calls  []CallReport
	Denied []core.Denied
	Err    error // why, for any Stop but StopDone
	// Messages are all messages of the conversation after the turn, for the next one.
	Messages []json.RawMessage
}

func (a *Agent) emit(e core.Event) {
	if a.cfg.Events == nil {
		return
	}
	a.events.Lock()
	defer a.events.Unlock()
	a.cfg.Events(e)
}

// turn is the state of one running turn.
type turn struct {
	*Agent
	in     Input
	msgs   []json.RawMessage
	out    Outcome
	seen   repeats
	shrunk bool
	lastIn int // prompt tokens of the last request, 0 before the first report
	sent   int // messages in the last request
}

// Turn runs one turn to its end. Everything said in it is in the log before the next
// request leaves; at no moment does the log hold a call whose result can't be told.
func (a *Agent) Turn(ctx context.Context, in Input) Outcome {
	t := &turn{Agent: a, in: in}
	t.msgs = append(append(make([]json.RawMessage, 0, len(in.History)+8), in.System), in.History...)
	if err := t.store(ctx, "", in.User); err != nil {
		return t.end(core.StopInternal, err)
	}
	for step := 1; ; step++ {
		if a.cfg.MaxSteps > 0 && step > a.cfg.MaxSteps {
			return t.end(core.StopSteps, core.Errorf(core.KindLimit, "the step limit of %d requests is reached", a.cfg.MaxSteps).
				Hint("go on with --continue and a higher --max-steps"))
		}
		if next := t.nextCost(); a.cfg.Budget.Over(next) {
			return t.end(core.StopBudget, core.Errorf(core.KindLimit, "the token budget of %d would be exceeded: %d used, the next request needs about %d",
				a.cfg.Budget.Limit, a.cfg.Budget.Used(), next).Hint("go on with --continue and a higher --budget-tokens"))
		}
		if step > 1 && t.cfg.Fits != nil && t.cfg.TooLong != nil && !t.cfg.Fits(t.msgs, t.lastIn, t.sent) {
			msgs, err := t.cfg.TooLong(ctx, t.msgs)
			if err != nil {
				return t.end(core.StopInternal, err)
			}
			t.msgs, t.lastIn = msgs, 0
		}
		answer, stop, err := t.ask(ctx)
		if err != nil {
			return t.end(stop, err)
		}
		if len(answer.Message.ToolCalls) == 0 {
			// What the user said while the last answer was written continues the turn.
			heard, err := t.steer(ctx, nil)
			if err != nil {
				return t.end(core.StopInternal, err)
			}
			if heard {
				continue
			}
			return t.end(core.StopDone, nil)
		}
		if stop, err := t.calls(ctx, answer.Message.ToolCalls); err != nil {
			return t.end(stop, err)
		}
	}
}

// nextCost guesses the tokens of the next request from the last report and what has been
// added since.
func (t *turn) nextCost() int {
	if t.cfg.Budget == nil {
		return 0
	}
	if t.lastIn == 0 {
		return t.cfg.Estimate(t.msgs...) + t.cfg.Estimate(t.in.Tools)
	}
	return t.lastIn + t.cfg.Estimate(t.msgs[min(t.sent, len(t.msgs)):]...)
}

func bytesOf(msgs []json.RawMessage) int {
	n := 0
	for _, m := range msgs {
		n += len(m)
	}
	return n
}

// store writes a message to the log and adds it to the conversation.
func (t *turn) store(ctx context.Context, note string, msgs ...core.Message) error {
	stored := make([]core.StoredMessage, len(msgs))
	for i, m := range msgs {
		stored[i] = core.StoredMessage{Turn: t.in.Turn, At: t.cfg.Now(), Note: note, Message: m}
	}
	// What has happened is recorded also when the turn is being cancelled.
	if err := t.cfg.Log.Append(context.WithoutCancel(ctx), t.in.Session, stored...); err != nil {
		return fmt.Errorf("store message: %w", err)
	}
	for _, m := range msgs {
		t.msgs = append(t.msgs, m.Raw)
	}
	return nil
}

// steer stores what the user wants the turn to hear, as one message behind everything that
// happened so far. list is what was asked for already.
func (t *turn) steer(ctx context.Context, list []string) (heard bool, err error) {
	if list == nil && t.cfg.Steer != nil {
		list = t.cfg.Steer()
	}
	if len(list) == 0 {
		return false, nil
	}
	s := strings.Join(list, "\n\n")
	return true, t.store(ctx, "steer", core.Message{Role: core.RoleUser, Content: s, Raw: t.cfg.Encode.User(s)})
}

// ask makes one request and stores its answer.
func (t *turn) ask(ctx context.Context) (Answer, core.StopReason, error) {
	var text, line strings.Builder
	t.sent = len(t.msgs)
	answer, err := t.cfg.Model.Ask(ctx, Request{Messages: t.msgs, Tools: t.in.Tools, Cause: t.cfg.Cause}, func(d Delta) {
		if d.Reset {
			text.Reset()
			line.Reset()
			t.emit(core.Event{Type: core.EventTextReset})
		}
		if d.Reasoning != "" {
			t.emit(core.Event{Type: core.EventReasoning, Text: d.Reasoning})
		}
		if d.Text != "" {
			text.WriteString(d.Text)
			t.emit(core.Event{Type: core.EventText, Text: d.Text})
		}
		if d.Tool != "" {
			t.warm(d.Tool)
		}
	})
	t.count(answer.Usage)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		t.out.Text = text.String()
		if s := t.out.Text; s != "" {
			// What the user saw stays in the conversation, marked as cut off.
			s += "\n\n[interrupted by the user]"
			if serr := t.store(ctx, "interrupted", core.Message{Role: core.RoleAssistant, Content: s, Raw: t.cfg.Encode.Assistant(s)}); serr != nil {
				return answer, core.StopInternal, serr
			}
		}
		return answer, core.StopInterrupted, interrupted(ctx)
	case errors.Is(err, ErrTooLong):
		if t.cfg.TooLong != nil && !t.shrunk {
			t.shrunk = true
			msgs, serr := t.cfg.TooLong(ctx, t.msgs)
			if serr == nil {
				t.msgs = msgs
				return t.ask(ctx)
			}
			err = errors.Join(err, serr)
		}
		return answer, core.StopContext, core.Errorf(core.KindLimit, "%w", err).Hint("begin a new session, or /compact this one")
	default:
		t.out.Text = text.String()
		switch core.KindOf(err) {
		case core.KindModel:
			return answer, core.StopModel, err
		case core.KindLimit:
			return answer, core.StopBudget, err
		}
		return answer, core.StopInternal, err
	}
	t.out.Text = answer.Message.Content
	if err := t.store(ctx, "", answer.Message); err != nil {
		return answer, core.StopInternal, err
	}
	if answer.Truncated && len(answer.Message.ToolCalls) == 0 {
		t.emit(core.Event{Type: core.EventNotice, Text: "the answer was cut off by the model's output limit"})
	}
	return answer, "", nil
}

func (t *turn) count(u core.Usage) {
	t.out.Usage.Add(u)
	t.cfg.Budget.Add(u.Total())
	if u.Requests == 0 {
		return
	}
	switch {
	case u.PromptTokens > 0:
		t.lastIn = u.PromptTokens
	case u.Answered() > 0:
		// No report: the guess counts, so that the budget still holds.
		t.cfg.Budget.Add(t.cfg.Estimate(t.msgs[:min(t.sent, len(t.msgs))]...) + t.cfg.Estimate(t.in.Tools))
	}
	t.emit(core.Event{Type: core.EventUsage, Usage: &u})
}

func (t *turn) warm(name string) {
	tool, _, err := t.cfg.Tools.Resolve(core.ToolCall{Name: name, Arguments: "{}"})
	if err != nil {
		return
	}
	if w, ok := tool.(core.Warmer); ok {
		w.Warm()
	}
}

func interrupted(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.Canceled) {
		return core.Errorf(core.KindInterrupted, "interrupted")
	}
	return core.Errorf(core.KindInterrupted, "interrupted: %w", cause)
}

func (t *turn) end(stop core.StopReason, err error) Outcome {
	t.out.Stop, t.out.Err = stop, err
	t.out.Messages = t.msgs[1:]
	if err != nil {
		t.emit(core.Event{Type: core.EventError, Kind: core.KindOf(err), Message: err.Error()})
	}
	return t.out
}
