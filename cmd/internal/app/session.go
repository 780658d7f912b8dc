package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
	"github.com/lingjiyidong/lj/core/policy"
	"github.com/lingjiyidong/lj/store"
)

// turnSession is what the tools of one running turn share. It finds tools, runs judged
// calls and keeps what has to be kept of them.
type turnSession struct {
	app   *App
	store *store.Store
	conv  *Conversation
	box   *toolbox
	gate  *gate
	emit  func(core.Event)
	opt   TurnOptions

	// Of plans: the step that this turn is, the turn that it belongs to, what the steps of
	// this turn cost and were denied.
	step   string
	parent *turnSession
	budget *agent.Budget
	model  string
	extra  core.Usage
	denied []core.Denied

	mu      sync.Mutex
	records []store.CallRecord
	// detached is a call typed on the command line: it belongs to no stored session.
	detached bool
	snap     *turnSnapshot
	wrote    bool // a call that can change files has been let through
}

// Resolve finds the tool that a call means. A call through use_tool is the tool named in
// it, with the arguments given there.
func (s *turnSession) Resolve(call core.ToolCall) (core.Tool, core.ToolCall, error) {
	if call.Name == "use_tool" && call.Arguments != "{}" {
		var in struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
			return nil, call, fmt.Errorf("use_tool: %w", err)
		}
		if in.Name == "use_tool" || in.Name == "" {
			return nil, call, fmt.Errorf("use_tool: name must be that of another tool; find_tools searches them")
		}
		call.Name = in.Name
		call.Arguments = "{}"
		if raw := in.Arguments; len(raw) > 0 && string(raw) != "null" {
			// Some models write the arguments as a text that holds the object.
			var text string
			if json.Unmarshal(raw, &text) == nil {
				raw = json.RawMessage(text)
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(raw, &object); err != nil {
				return nil, call, fmt.Errorf("use_tool: arguments must be one JSON object: %w", err)
			}
			call.Arguments = string(raw)
		}
	}
	if err := s.box.sync(context.Background()); err != nil {
		s.app.opt.Warn(err.Error())
	}
	t, ok := s.box.get(call.Name)
	if !ok {
		if err := s.box.offLive(context.Background(), call.Name); err != nil {
			return nil, call, err
		}
		err := fmt.Errorf("there is no tool %q", call.Name)
		if n := core.Nearest(call.Name, s.box.names()); n != "" {
			return nil, call, fmt.Errorf("%w; did you mean %s?", err, n)
		}
		return nil, call, fmt.Errorf("%w; find_tools searches all tools", err)
	}
	return t, call, nil
}

// run runs one judged call: with what the tool may know, its output bounded and masked,
// and the files it touched remembered.
func (s *turnSession) run(ctx context.Context, tool core.Tool, call core.ToolCall, d core.Decision, sink core.Sink) (core.ToolResult, error) {
	spec := tool.Spec()
	start := s.app.opt.Now()
	args := json.RawMessage(call.Arguments)
	if spec.Origin == core.OriginBuiltin && !spec.ReadOnly {
		fixed, err := s.box.unmaskArgs(call.Name, args, s.app.Project)
		if err != nil {
			return core.ErrorResult(err.Error()), nil
		}
		args = fixed
	}
	if !spec.ReadOnly && spec.Origin != core.OriginHost {
		if err := s.beforeWrite(ctx, call.Name, args); err != nil {
			return core.ToolResult{}, err
		}
	}
	s.mu.Lock()
	tc := core.ToolContext{Session: s.conv.Session.ID, ReadOnly: s.gate.mode == "plan", Unconfined: d.Unconfined}
	if spec.Origin == core.OriginBuiltin {
		tc.Known = make(map[string]string, len(s.conv.known))
		for k, v := range s.conv.known {
			tc.Known[k] = v
		}
	}
	s.mu.Unlock()
	rawContext, err := json.Marshal(tc)
	if err != nil {
		return core.ToolResult{}, err
	}
	if d.Unconfined && spec.Name == "bash" {
		// What runs unconfined meets only what was there before the turn's commands.
		s.settle(call)
		tool = s.box.unconfined()
	}
	var out output = &agent.Bounded{Decode: s.box.decoder(), Next: sink, Keep: func() (agent.Kept, error) { return s.keep() }}
	if s.detached {
		out = &whole{decode: s.box.decoder(), note: s.app.opt.Warn}
	}
	req := core.ToolRequest{
		CallID: call.ID, Key: s.conv.Session.ID + "/" + call.ID, Args: args, Project: s.app.Project,
		AddDirs: s.opt.AddDirs, Sink: out,
	}
	if spec.Origin == core.OriginBuiltin || spec.Origin == core.OriginHost {
		req.Context = rawContext
	}
	callCtx := withSession(ctx, s)
	if d.Rule != policy.RuleDefault {
		// A rule, --yolo or a person said yes to this very call, whatever it wants.
		callCtx = context.WithValue(callCtx, approval{}, true)
	}
	crashes := 0
	if spec.Origin == core.OriginToolkit {
		crashes = s.box.crashes(spec.Name)
	}
	guard := spec.Origin != core.OriginHost && !spec.ReadOnly && !d.Unconfined
	res, err := s.guarded(guard, call, func() (core.ToolResult, error) { return tool.Call(callCtx, req) })
	if spec.Origin == core.OriginToolkit && err == nil && ctx.Err() == nil {
		s.box.watch(ctx, spec, args, crashes, &res)
	}
	res = s.app.seen(res)
	res.Text = s.box.mask(res.Text)
	text := res.Text
	if len(res.Text) > agent.MaxText && !s.detached {
		res.Text = s.cutText(ctx, call, res.Text)
	}
	if err == nil {
		var kept string
		var n, dropped int64
		res, kept, n, dropped = out.Result(res)
		if kept != "" {
			if serr := s.store.SaveOutput(context.WithoutCancel(ctx), store.Output{ID: kept, Session: s.conv.Session.ID, CallID: call.ID, Tool: spec.Name, Path: s.keptPath(kept), Bytes: n, Dropped: dropped}); serr != nil {
				return res, serr
			}
		}
		if res.Text == "" {
			res.Text = "(no output)"
		}
	}
	status := core.CallOK
	if err != nil || res.IsError {
		status = core.CallError
		if ctx.Err() != nil {
			status = core.CallCancelled
		}
	}
	rec := store.CallRecord{Session: s.conv.Session.ID, Turn: s.conv.turn, CallID: call.ID, Name: spec.Name, Version: spec.Version,
		Status: status, Took: s.app.opt.Now().Sub(start), At: start}
	if status == core.CallError {
		rec.Error = text
		if err != nil {
			rec.Error = err.Error()
		}
	}
	s.mu.Lock()
	s.records = append(s.records, rec)
	s.mu.Unlock()
	if spec.Origin == core.OriginBuiltin {
		if terr := s.touched(ctx, res); terr != nil {
			return res, terr
		}
	}
	return res, err
}

// touched remembers the digests of the files that a built-in tool read or wrote.
func (s *turnSession) touched(ctx context.Context, res core.ToolResult) error {
	if len(res.Meta) == 0 {
		return nil
	}
	var meta core.ToolMeta
	if err := json.Unmarshal(res.Meta, &meta); err != nil {
		return fmt.Errorf("what the tool says of its files: %w", err)
	}
	fresh := map[string]string{}
	for _, f := range meta.Files {
		digest := f.After
		if f.Op == "read" {
			digest = f.Before
			if digest == "" {
				digest = f.After
			}
		}
		if digest != "" {
			fresh[f.Path] = digest
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	s.mu.Lock()
	for k, v := range fresh {
		s.conv.known[k] = v
	}
	s.mu.Unlock()
	if s.detached {
		return nil
	}
	return s.store.SetKnown(context.WithoutCancel(ctx), s.conv.Session.ID, fresh)
}

// finish stores what the turn has gathered.
func (s *turnSession) finish(ctx context.Context) {
	s.mu.Lock()
	records := s.records
	s.records = nil
	s.mu.Unlock()
	if err := s.store.RecordCalls(context.WithoutCancel(ctx), records...); err != nil {
		s.app.opt.Warn(err.Error())
	}
	s.afterTurn(ctx)
}

// beforeWrite runs before each call that can change files: before the first one of a turn
// the working tree is recorded. Where it can't be, that is said once and the work goes on.
func (s *turnSession) beforeWrite(ctx context.Context, name string, args json.RawMessage) error {
	if s.gate.mode == "plan" {
		return nil // nothing can be changed
	}
	if s.parent != nil {
		return s.parent.beforeWrite(ctx, name, args) // the whole turn is one record
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	touches := s.app.touchedBy(name, args)
	if s.wrote {
		if s.snap == nil || len(touches) == 0 {
			return nil
		}
		return s.app.touchSnapshot(s.snap, touches)
	}
	s.wrote = true
	err := s.app.closeCrashed(ctx)
	if err == nil {
		s.snap, err = s.app.openSnapshot(ctx, s.conv.Session.ID, s.conv.Session.Title, s.conv.turn, touches)
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.snap = nil
		text := "this turn can't be undone: " + err.Error()
		if next := core.NextOf(err); next != "" {
			text += "; " + next
		}
		s.emit(core.Event{Type: core.EventNotice, Text: text})
		return nil
	}
	for _, l := range s.snap.before.LeftOut {
		s.emit(core.Event{Type: core.EventNotice, Text: fmt.Sprintf("%s is not covered by undo: %s", l.Path, l.Reason)})
	}
	return nil
}

// afterTurn runs at the end of every turn, also of one that was cancelled.
func (s *turnSession) afterTurn(ctx context.Context) {
	if s.snap == nil {
		return
	}
	if err := s.app.closeSnapshot(context.WithoutCancel(ctx), s.snap); err != nil {
		s.app.opt.Warn("this turn can't be undone: " + err.Error())
	}
	s.snap = nil
}

// keptFile is the whole of one large output, in LJ_HOME/cache/output/SESSION/ID.
type keptFile struct {
	*os.File
	id string
}

func (k *keptFile) ID() string { return k.id }

func (s *turnSession) keptPath(id string) string {
	return filepath.Join("cache", "output", s.conv.Session.ID, id+".txt")
}

func (s *turnSession) keep() (*keptFile, error) {
	var b [5]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	id := "o" + hex.EncodeToString(b[:])
	path := filepath.Join(s.app.Home, s.keptPath(id))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	return &keptFile{f, id}, nil
}

// cutText keeps the whole of a text that is too long for the conversation and returns its
// head and tail.
func (s *turnSession) cutText(ctx context.Context, call core.ToolCall, text string) string {
	where := "it was not stored"
	k, err := s.keep()
	if err == nil {
		n, werr := k.WriteString(text)
		if cerr := k.Close(); werr == nil {
			werr = cerr
		}
		if werr == nil {
			werr = s.store.SaveOutput(context.WithoutCancel(ctx), store.Output{ID: k.id, Session: s.conv.Session.ID, CallID: call.ID, Tool: call.Name, Path: s.keptPath(k.id), Bytes: int64(n)})
		}
		if werr == nil {
			where = fmt.Sprintf("read_output {\"id\":%q} reads all of it", k.id)
		}
	}
	return agent.Cut(text, agent.MaxText, where)
}

type sessionKey struct{}

// withSession lets host tools find the turn that they are called in.
func withSession(ctx context.Context, s *turnSession) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

func sessionFrom(ctx context.Context) (*turnSession, bool) {
	s, ok := ctx.Value(sessionKey{}).(*turnSession)
	return s, ok
}
