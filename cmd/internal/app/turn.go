package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/mattn/go-runewidth"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/memory"
	"github.com/lingjiyidong/lj/prompts"
	"github.com/lingjiyidong/lj/store"
)

// TurnOptions are what a front end asks for. Zero values take the settings.
type TurnOptions struct {
	Prompt string
	// Piped is the end of Prompt that came through a pipe or from a file: nobody said it.
	Piped    string
	Images   []core.Image
	Model    string
	Mode     string
	Role     string
	Session  string // id, or the beginning of one
	Continue bool   // the newest session of this project
	MaxSteps *int
	Budget   *int
	Allow    []string
	Deny     []string
	Yolo     bool
	AddDirs  []string
	NoMemory bool
	// Events takes every event but the last, "done", which is the front end's to print.
	Events func(core.Event)
	// Ask puts a question to a person. Nil: nobody can be asked.
	Ask Asker
	// Steer returns what the user wants a running turn to hear now. Nil: nothing.
	Steer func() []string

	// Of a step of a plan: the turn that it belongs to, its id, the shared budget.
	parent *turnSession
	step   string
	budget *agent.Budget
}

// Asker is a person who can be asked.
type Asker interface {
	// Permit asks whether a call may run. Answers: "once", "session", "always", "no".
	Permit(ctx context.Context, q PermitQuestion) (string, error)
	// Question puts the model's question; options may be empty.
	Question(ctx context.Context, question string, options []string) (string, error)
}

// PermitQuestion is a call that needs a yes.
type PermitQuestion struct {
	Tool   string
	Args   json.RawMessage
	Reason string
	Rule   string // what an answer for the session or always would allow
	Diff   string // what a writing tool would change, "" where there is none
}

// Result is how a turn ended, in the form of --output json.
type Result struct {
	SessionID string             `json:"session_id"`
	Status    string             `json:"status"`
	Text      string             `json:"text"`
	Usage     core.Usage         `json:"usage"`
	ToolCalls []agent.CallReport `json:"tool_calls"`
	Denied    []core.Denied      `json:"denied"`
	Error     *ErrorInfo         `json:"error"`

	Stop core.StopReason `json:"-"`
	Err  error           `json:"-"`
}

// ErrorInfo is an error as JSON.
type ErrorInfo struct {
	Kind    core.Kind `json:"kind"`
	Message string    `json:"message"`
}

// The statuses of a turn.
const (
	StatusCompleted   = "completed"
	StatusFailed      = "failed"
	StatusDenied      = "denied"
	StatusLimit       = "limit"
	StatusInterrupted = "interrupted"
)

// Conversation is an open session: what later turns of the same process build on.
type Conversation struct {
	app      *App
	Session  core.Session
	history  []json.RawMessage
	turn     int
	resumed  bool
	repaired []string // names of calls that were interrupted
	known    map[string]string
	opt      TurnOptions
	mem      remembering
	granted  []string // rules for this session
	used     core.Usage
	fresh    bool // not stored yet

	// Of long conversations: the turns that are given in short, the last that a summary
	// covers, those mentioned again since the last epoch; a log that a new epoch must mend.
	past       []history.Past
	summarised int
	mentioned  map[int]bool
	unsound    bool
	refused    int     // tokens of messages that stay below what the server refused, 0 for nothing
	metered    float64 // the correction of the estimate as it is stored
	sizesMu    sync.Mutex
	sizes      map[*byte]int // guessed tokens by the first byte of a message
}

// Open finds or begins the conversation that options name. Nothing is stored before its
// first turn.
func (a *App) Conversation(ctx context.Context, o TurnOptions) (*Conversation, error) {
	if _, err := prompts.Role(o.Role); err != nil {
		return nil, err
	}
	var err error
	if o.AddDirs, err = a.setDirs(o.AddDirs); err != nil {
		return nil, err
	}
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	a.warm(ctx, st, o)
	c := &Conversation{app: a, opt: o, known: map[string]string{}}
	switch {
	case o.Session != "":
		if c.Session, err = st.Session(ctx, o.Session); err != nil {
			return nil, err
		}
	case o.Continue:
		list, err := st.Sessions(ctx, store.SessionFilter{Project: a.Project, Kind: "chat", Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, core.Errorf(core.KindNotFound, "no session of %s to continue", a.Project).Hint("leave --continue out to begin one")
		}
		c.Session = list[0]
	default:
		return c, c.begin(ctx)
	}
	if err := a.holdSession(c.Session.ID); err != nil {
		return nil, err
	}
	return c, c.load(ctx, st)
}

func (c *Conversation) begin(ctx context.Context) error {
	a := c.app
	_, model, err := a.Client(ctx, c.opt.Model)
	if err != nil {
		return err
	}
	tools, err := a.declaredTools()
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	system, version, err := a.systemText(ctx)
	if err != nil {
		return err
	}
	c.Session = core.Session{
		ID: id.String(), Project: a.Project, Model: model, Prompt: version,
		System: system, Tools: tools,
	}
	c.fresh = true
	return nil
}

// load reads a stored session and repairs its end, once, when its last process died.
func (c *Conversation) load(ctx context.Context, st *store.Store) error {
	epoch, err := st.LastEpoch(ctx, c.Session.ID)
	if err != nil {
		return err
	}
	msgs, err := st.LogFrom(ctx, c.Session.ID, epoch, false)
	if err != nil {
		return err
	}
	if fix := agent.Repair(msgs, encoder{}); fix != nil {
		if err := st.Append(ctx, c.Session.ID, fix...); err != nil {
			return err
		}
		msgs = append(msgs, fix...)
	}
	c.repaired = interruptedCalls(msgs)
	for _, m := range msgs {
		c.turn = max(c.turn, m.Turn)
	}
	current := history.Current(msgs)
	c.history = raws(current)
	_, c.unsound = history.Sound(current, func(string, string) []byte { return nil })
	if len(current) > 0 && current[0].Note == history.NoteEpoch {
		c.past, c.mentioned = history.PastTurns(msgs, false), wasMentioned(current)
		sums, err := st.Summaries(ctx, c.Session.ID)
		if err != nil {
			return err
		}
		if len(sums) > 0 {
			c.summarised = sums[len(sums)-1].Upto
		}
	}
	if c.known, err = st.Known(ctx, c.Session.ID); err != nil {
		return err
	}
	c.used, c.resumed = c.Session.Usage, true
	return nil
}

// interruptedCalls names the calls of the last turn that nobody answered because lj died,
// also when that was found out by a process that died in turn.
func interruptedCalls(msgs []core.StoredMessage) []string {
	var ids []string
	i := len(msgs)
	for i > 0 && msgs[i-1].Role == core.RoleTool {
		i--
		if msgs[i].Note == "repair" {
			ids = append(ids, msgs[i].ToolCallID)
		}
	}
	if len(ids) == 0 || i == 0 {
		return nil
	}
	var out []string
	for _, k := range msgs[i-1].ToolCalls {
		if slices.Contains(ids, k.ID) {
			out = append(out, k.Name)
		}
	}
	return out
}

// Run runs one turn of a conversation that it opens for it.
func (a *App) Run(ctx context.Context, o TurnOptions) Result {
	c, err := a.Conversation(ctx, o)
	if err != nil {
		return failure("", err)
	}
	return c.Turn(ctx, o)
}

func failure(session string, err error) Result {
	r := Result{SessionID: session, Status: StatusFailed, ToolCalls: []agent.CallReport{}, Denied: []core.Denied{},
		Error: &ErrorInfo{core.KindOf(err), err.Error()}, Err: err}
	if core.KindOf(err) == core.KindInterrupted {
		r.Status = StatusInterrupted
	}
	return r
}

// Turn runs one turn. Options given here count for this turn; the conversation's own
// session decides model, system text and tools.
func (c *Conversation) Turn(ctx context.Context, o TurnOptions) Result {
	o.AddDirs = c.opt.AddDirs // resolved when the conversation was opened
	c.opt = o
	res, err := c.run(ctx, o)
	if err != nil {
		return failure(c.Session.ID, err)
	}
	return res
}

func (c *Conversation) run(ctx context.Context, o TurnOptions) (Result, error) {
	a := c.app
	st, err := a.Store(ctx)
	if err != nil {
		return Result{}, err
	}
	client, model, err := a.Client(ctx, firstOf(o.Model, c.Session.Model))
	if err != nil {
		return Result{}, err
	}
	gate, err := a.newGate(ctx, st, c, o)
	if err != nil {
		return Result{}, err
	}
	box, err := a.toolbox(ctx)
	if err != nil {
		return Result{}, err
	}
	a.tellRules(ctx, append(append([]string{}, o.Allow...), o.Deny...)...)
	// What came through a pipe beside a prompt is a file's text, not what a person typed.
	hidden := false
	if typed, piped := o.said(); piped != "" && strings.TrimSpace(typed) != "" {
		if m := box.mask(piped); m != piped {
			o.Prompt, o.Piped, hidden = strings.TrimSuffix(o.Prompt, piped)+m, m, true
		}
	}
	out1 := &emitter{to: o.Events}
	if out1.to == nil {
		out1.to = func(core.Event) {}
	}
	emit := func(e core.Event) {
		if len(e.Args) > 0 {
			e.Args = json.RawMessage(box.mask(string(e.Args)))
		}
		out1.emit(e)
	}
	if c.fresh {
		if c.Session.TitleBy != "user" {
			c.Session.Title = titleOf(o.Prompt)
		}
		if err := a.holdSession(c.Session.ID); err != nil {
			return Result{}, err
		}
		if err := st.CreateSession(ctx, c.Session); err != nil {
			return Result{}, err
		}
		c.fresh = false
	}
	emit(core.Event{Type: core.EventSession, SessionID: c.Session.ID})
	if hidden {
		emit(core.Event{Type: core.EventNotice, Text: "what looks like a secret in the piped text is masked"})
	}
	c.tellSaved(emit)
	c.learned(ctx, st, model)
	if err := c.makeRoom(ctx, st, o.Prompt, emit); err != nil {
		return Result{}, err
	}
	c.turn++
	text, err := c.userText(ctx, o, gate.mode, emit)
	if err != nil {
		return Result{}, err
	}
	user := core.Message{Role: core.RoleUser, Content: memory.WithPiped(o.said()), Raw: llm.EncodeUserImages(text, o.Images)}
	if len(o.Images) == 0 {
		user.Raw = llm.EncodeUser(text)
	}

	limit := a.Config.Int("budget_tokens")
	if o.Budget != nil {
		limit = *o.Budget
	}
	steps := a.Config.Int("max_steps")
	if o.MaxSteps != nil {
		steps = *o.MaxSteps
	}
	budget, cause := o.budget, ""
	if budget == nil {
		budget = &agent.Budget{Limit: limit}
	}
	if o.step != "" {
		cause = "step"
	}
	session := &turnSession{app: a, store: st, conv: c, box: box, gate: gate, emit: emit, opt: o, step: o.step, parent: o.parent, budget: budget, model: model}
	m := &model_{app: a, client: client, model: model, session: c.Session.ID, store: st, emit: emit, step: o.step, size: c.estimate}
	if o.parent != nil {
		m.root = o.parent.conv.Session.ID
	}
	ag := agent.New(agent.Config{
		Cause: cause,
		Model: m, Log: st, Tools: session, Gate: gate, Run: session.run, Encode: encoder{},
		Events: emit, MaxSteps: steps, Budget: budget, Steer: o.Steer,
		Estimate: func(msgs ...json.RawMessage) int { return c.tokens(msgs) }, Now: a.opt.Now,
		Fits: c.fits,
		TooLong: func(ctx context.Context, msgs []json.RawMessage) ([]json.RawMessage, error) {
			if err := c.tooLong(ctx, st, msgs[1:], emit); err != nil {
				return nil, err
			}
			return append([]json.RawMessage{llm.EncodeSystem(c.Session.System)}, c.history...), nil
		},
	})
	out := ag.Turn(ctx, agent.Input{
		Session: c.Session.ID, Turn: c.turn, System: llm.EncodeSystem(c.Session.System),
		Tools: c.Session.Tools, History: c.history, User: user,
	})
	c.history = out.Messages
	c.remember(ctx, st, model)
	session.settle(core.ToolCall{Name: "bash", Arguments: "{}"})
	session.finish(ctx)
	if err := c.keepMemories(context.WithoutCancel(ctx), o, out.Stop, emit); err != nil {
		emit(core.Event{Type: core.EventNotice, Text: "what was to be remembered is not stored: " + err.Error()})
	}
	own := out.Usage
	out.Usage.Add(session.extra)
	out.Denied = append(out.Denied, session.denied...)
	for i, d := range out.Denied {
		out.Denied[i].Args = json.RawMessage(box.mask(string(d.Args)))
	}
	res := resultOf(c.Session.ID, out)
	if err := st.EndTurn(context.WithoutCancel(ctx), c.Session.ID, out.Stop, own); err != nil {
		return res, err
	}
	c.used.Add(own)
	return res, nil
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func resultOf(id string, out agent.Outcome) Result {
	r := Result{SessionID: id, Text: out.Text, Usage: out.Usage, ToolCalls: out.Calls, Denied: out.Denied, Stop: out.Stop, Err: out.Err}
	if r.ToolCalls == nil {
		r.ToolCalls = []agent.CallReport{}
	}
	if r.Denied == nil {
		r.Denied = []core.Denied{}
	}
	if out.Err != nil {
		r.Error = &ErrorInfo{core.KindOf(out.Err), out.Err.Error()}
	}
	switch out.Stop {
	case core.StopDone:
		r.Status = StatusCompleted
	case core.StopSteps, core.StopBudget, core.StopRepeated, core.StopContext:
		r.Status = StatusLimit
	case core.StopInterrupted:
		r.Status = StatusInterrupted
	default:
		r.Status = StatusFailed
	}
	if len(r.Denied) > 0 {
		r.Status = StatusDenied
	}
	return r
}

// Exit is the error kind that decides the exit status: of those that apply, the strictest
// (interrupted, model, denied, refused, failed).
func (r Result) Exit() core.Kind {
	k := core.KindOf(r.Err)
	switch {
	case k == core.KindInterrupted || k == core.KindModel:
		return k
	case len(r.Denied) > 0:
		return core.KindDenied
	}
	return k
}

// The correction of the token estimate lasts: a process that resumes a conversation knows
// what the server reported to the one before.
func meterKey(model string) string { return "tokens:" + model }

func (c *Conversation) learned(ctx context.Context, st *store.Store, model string) {
	if c.app.meter.Ratio() > 0 {
		return
	}
	v, err := st.Meta(ctx, meterKey(model))
	if err != nil || v == "" {
		return
	}
	if r, err := strconv.ParseFloat(v, 64); err == nil {
		c.app.meter.Learned(r)
		c.metered = r
	}
}

func (c *Conversation) remember(ctx context.Context, st *store.Store, model string) {
	r := c.app.meter.Ratio()
	if d := r - c.metered; r == 0 || d < 0.02 && d > -0.02 {
		return
	}
	if err := st.SetMeta(context.WithoutCancel(ctx), meterKey(model), strconv.FormatFloat(r, 'f', 3, 64)); err != nil {
		c.app.opt.Warn(err.Error())
		return
	}
	c.metered = r
}

// titleOf makes a title from the user's first words.
func titleOf(prompt string) string {
	line := strings.Join(strings.Fields(prompt), " ")
	return runewidth.Truncate(line, 60, "…")
}

// model_ adapts the client to the loop.
type model_ struct {
	app     *App
	client  *llm.Client
	model   string
	session string
	root    string // the session that a step of a plan counts for
	store   *store.Store
	emit    func(core.Event)
	step    string
	size    func(json.RawMessage) int
}

func (m *model_) Ask(ctx context.Context, r agent.Request, d func(agent.Delta)) (agent.Answer, error) {
	n := estimateTools(r.Tools)
	for _, x := range r.Messages {
		n += m.size(x)
	}
	next := m.app.meter.Correct(n)
	release, err := m.app.reserve(ctx, m.store, firstOf(m.root, m.session), next)
	if err != nil {
		return agent.Answer{}, err
	}
	defer release()
	saw := m.client.Sees(m.model)
	res, err := m.client.Stream(ctx, llm.Request{
		NoImages: m.app.Config.String("vision") == "false",
		Model:    m.model, Tools: r.Tools, Messages: r.Messages, MaxTokens: m.app.Config.Int("max_tokens"),
		Temperature: m.app.Config.Float("temperature"), Reasoning: m.app.Config.String("reasoning"), Cause: r.Cause, Step: m.step,
		OnRetry: func(x llm.Retry) {
			m.emit(core.Event{Type: core.EventNotice, Text: fmt.Sprintf("%s; attempt %d of %d in %s", x.Reason, x.Attempt, x.Max, x.Wait.Round(100*time.Millisecond))})
		},
	}, func(x llm.Delta) {
		d(agent.Delta{Text: x.Text, Reasoning: x.Reasoning, Tool: x.ToolName, Reset: x.Reset})
	})
	if saw && !m.client.Sees(m.model) {
		m.emit(core.Event{Type: core.EventNotice, Text: fmt.Sprintf("the model %s can't see pictures and is told so instead", m.model)})
	}
	switch {
	case res.Usage.PromptTokens > 0 && res.Usage.Answered() == 1:
		m.app.meter.Report(n, res.Usage.PromptTokens)
	case res.Usage.Unreported > 0:
		// The limits hold also where the server reports nothing.
		res.Usage.Guessed = res.Usage.Unreported * (next + history.EstimateMessage(res.Message.Raw))
	}
	if res.Usage.Requests > 0 {
		if cerr := m.store.AddCost(context.WithoutCancel(ctx), r.Cause, m.model, m.session, res.Usage); cerr != nil && err == nil {
			err = cerr
		}
	}
	if errors.Is(err, llm.ErrContextLength) {
		err = fmt.Errorf("%w: %w", agent.ErrTooLong, err)
	}
	return agent.Answer{Message: res.Message, Usage: res.Usage, Truncated: res.FinishReason == llm.FinishLength}, err
}

// encoder makes the bytes of messages.
type encoder struct{}

func (encoder) ToolResult(id, _ string, res core.ToolResult) json.RawMessage {
	return llm.EncodeToolResult(id, res.Text)
}
func (encoder) User(text string) json.RawMessage { return llm.EncodeUser(text) }
func (encoder) Images(text string, list []core.Image) json.RawMessage {
	return llm.EncodeUserImages(text, list)
}
func (encoder) Assistant(text string) json.RawMessage { return llm.EncodeAssistant(text, nil) }
