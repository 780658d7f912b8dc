package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lingjiyidong/lj/core"
	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

// maxMessage bounds one message from a tool, in bytes.
const maxMessage = 64 << 20

// maxProgressLine bounds one line of progress, in bytes.
const maxProgressLine = 4 << 10

// tool is one tool of a plugin.
type tool struct {
	p    *Plugin
	name string
	raw  bool // arguments are not judged here
}

// Unchecked is a tool whose arguments the host does not judge, so that a test sees what
// the tool itself does with bad ones.
func (p *Plugin) Unchecked(name string) core.Tool { return &tool{p, name, true} }

var (
	_ core.Tool   = (*tool)(nil)
	_ core.Warmer = (*tool)(nil)
)

// Warm starts the process in the background.
func (t *tool) Warm() { t.p.Warm() }

// Spec is what is known of the tool: what its process said, else Command.Specs, else its
// name.
func (t *tool) Spec() core.ToolSpec {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	if d := t.p.known[t.name]; d != nil {
		return d.spec
	}
	return core.ToolSpec{Name: t.name, Origin: t.p.cmd.Origin, Version: t.p.cmd.Version}
}

// errTimeout is the cause of a call's own time limit.
var errTimeout = errors.New("time limit of the call")

// Call runs the tool once. The result says whatever goes wrong on the tool's side; the
// error is ErrClosed or ErrStopped, and then nothing was run.
func (t *tool) Call(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	p := t.p
	if !p.enterCall() {
		return t.notStarted(ctx, ErrStopped)
	}
	defer p.leaveCall()
	if ctx.Err() != nil {
		return t.notStarted(ctx, ctx.Err())
	}
	if len(req.Args) == 0 {
		req.Args = json.RawMessage("{}")
	}
	p.mu.Lock()
	d := p.known[t.name]
	off := p.offText(t.name)
	p.mu.Unlock()
	if off != "" {
		return core.ErrorResult(off), nil
	}
	// Known tools are judged before a process is started for them.
	if d != nil {
		if res, bad := t.refuse(d, req.Args); bad {
			return res, nil
		}
	}
	limit := p.h.opts.CallTimeout
	if limit > 0 && !p.cmd.Trusted {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	inst, err := p.acquire(ctx)
	if err != nil {
		return t.notStarted(ctx, err)
	}
	defer p.release(inst)
	p.mu.Lock()
	now := p.known[t.name]
	inst.serial++
	serial := inst.serial
	p.mu.Unlock()
	if now == nil {
		return core.ErrorResult(fmt.Sprintf("The process of %s runs but offers no tool %q.", label(p.cmd.Name, p.cmd.Version), t.name)), nil
	}
	if now != d {
		if res, bad := t.refuse(now, req.Args); bad {
			return res, nil
		}
	}
	return t.run(ctx, inst, serial, req)
}

// offText says why the tool is switched off, "" while it is on. p.mu is held.
func (p *Plugin) offText(name string) string {
	if s := p.streaks[name]; s != nil && s.off != "" {
		return s.off
	}
	return ""
}

// refuse judges tool and arguments before a call.
func (t *tool) refuse(d *described, args json.RawMessage) (core.ToolResult, bool) {
	if why := d.problem(); why != "" {
		return core.ErrorResult("The tool " + label(d.spec.Name, d.spec.Version) + " is broken: " + why), true
	}
	if t.raw {
		return core.ToolResult{}, false
	}
	if problems := d.check(args); len(problems) > 0 {
		return d.argumentProblems(problems), true
	}
	return core.ToolResult{}, false
}

func (t *tool) notStarted(ctx context.Context, err error) (core.ToolResult, error) {
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, ErrStopped):
		return core.ToolResult{}, fmt.Errorf("call %s: %w", t.name, err)
	case ctx.Err() != nil:
		return core.ErrorResult(fmt.Sprintf("The call of %s ended before its process had started: %v.", t.name, context.Cause(ctx))), nil
	}
	text := fmt.Sprintf("The tool %s could not be started: %v", label(t.name, t.p.cmd.Version), err)
	if se := (*StartError)(nil); errors.As(err, &se) {
		text = fmt.Sprintf("The tool %s could not be started: %s.", label(t.name, se.Version), se.Reason)
		if se.Output != "" {
			text += "\nIt printed:\n" + se.Output
		}
	}
	return core.ErrorResult(text), nil
}

// run is the call itself.
func (t *tool) run(ctx context.Context, inst *instance, serial uint64, req core.ToolRequest) (core.ToolResult, error) {
	p := t.p
	msg := &wirev1.CallRequest{
		Tool: t.name, Arguments: req.Args,
		CallId: strings.ToValidUTF8(req.CallID, "?"), IdempotencyKey: strings.ToValidUTF8(req.Key, "?"),
		Project: []byte(req.Project), Serial: serial,
	}
	if at, ok := ctx.Deadline(); ok {
		msg.DeadlineUnixMs = at.UnixMilli()
	}
	for _, d := range req.AddDirs {
		msg.AddDirs = append(msg.AddDirs, []byte(d))
	}
	if p.cmd.Trusted {
		msg.Context = req.Context
	}

	// The stream has a context of its own: a cancelled call is asked to stop and may still
	// say what it has; only then is the stream cut.
	sctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	done := make(chan struct{})
	defer close(done)
	var overdue, uncancellable atomic.Bool
	stopWatching := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(p.h.opts.CallGrace)
		defer grace.Stop()
		cctx, ccut := context.WithTimeout(sctx, p.h.opts.CallGrace)
		defer ccut()
		_, err := inst.api.Cancel(cctx, &wirev1.CancelRequest{Serial: serial})
		if status.Code(err) == codes.Unimplemented {
			uncancellable.Store(true)
			cut()
			return
		}
		select {
		case <-done:
		case <-grace.C:
			overdue.Store(true)
			cut()
		}
	})
	defer stopWatching()

	stream, err := inst.api.Call(sctx, msg)
	if err != nil {
		return t.broke(ctx, inst, err, overdue.Load(), uncancellable.Load())
	}
	var output, progress int
	for {
		ev, err := stream.Recv()
		if err != nil {
			return t.broke(ctx, inst, err, overdue.Load(), uncancellable.Load())
		}
		switch e := ev.Event.(type) {
		case *wirev1.CallEvent_Progress:
			if progress++; req.Sink != nil && progress <= p.h.opts.MaxProgress {
				req.Sink.Progress(cutLine(e.Progress))
			}
		case *wirev1.CallEvent_Output:
			if room := p.h.opts.MaxOutput - output; req.Sink != nil && room > 0 {
				req.Sink.Output(e.Output[:min(room, len(e.Output))])
			}
			output += len(e.Output)
		case *wirev1.CallEvent_Result:
			if e.Result == nil {
				e.Result = &wirev1.Result{}
			}
			res := t.result(e.Result, req.Sink)
			if e.Result.Panicked {
				return t.panicked(inst, res), nil
			}
			p.mu.Lock()
			delete(p.streaks, t.name)
			p.mu.Unlock()
			return res, nil
		}
	}
}

func cutLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimRight(s, "\n"), "\n")
	return cut(s, maxProgressLine)
}

// Noter is a core.Sink that takes the notes on what was left out of a result; without it
// they stand at the end of the result's text.
type Noter interface{ Note(text string) }

// result translates what the tool said, within bounds.
func (t *tool) result(r *wirev1.Result, sink core.Sink) core.ToolResult {
	o := &t.p.h.opts
	res := core.ToolResult{Text: r.Text, IsError: r.IsError}
	var notes []string
	if len(res.Text) > o.MaxText {
		notes = append(notes, fmt.Sprintf("text cut: %s of %s shown", size(o.MaxText), size(len(res.Text))))
		res.Text = clipUTF8(res.Text, o.MaxText)
	}
	switch {
	case len(r.Structured) == 0:
	case len(r.Structured) > o.MaxStructured:
		notes = append(notes, fmt.Sprintf("structured content of %s left out", size(len(r.Structured))))
	case !json.Valid(r.Structured):
		notes = append(notes, "structured content left out: it is not JSON")
	default:
		res.Structured = r.Structured
	}
	total := 0
	for n, i := range r.Images {
		if total += len(i.Data); total > o.MaxImages {
			notes = append(notes, fmt.Sprintf("%d images left out: more than %s", len(r.Images)-n, size(o.MaxImages)))
			break
		}
		res.Images = append(res.Images, core.Image{MIME: i.Mime, Data: i.Data})
	}
	if t.p.cmd.Trusted {
		res.Meta = r.Meta
	}
	noter, _ := sink.(Noter)
	for _, n := range notes {
		if noter != nil {
			noter.Note(n)
			continue
		}
		res.Text += "\n[" + n + "]"
	}
	return res
}

// panicked counts a panic that the SDK caught like a crash.
func (t *tool) panicked(inst *instance, res core.ToolResult) core.ToolResult {
	p := t.p
	res.Text = places(res.Text)
	p.mu.Lock()
	c := &CrashError{Tool: t.name, Version: p.cmd.Version, Exit: "panic caught", InCall: true, Stderr: cut(res.Text, 4<<10)}
	p.crashes++
	p.countCrash(c, 0)
	p.mu.Unlock()
	p.h.logf("%v", c)
	p.report(*c)
	res.IsError = true
	said := ".\n" + res.Text
	if value, ok := strings.CutPrefix(res.Text, "panic: "); ok {
		said = ": " + value
	}
	res.Text = "The tool " + label(t.name, p.cmd.Version) + " panicked in this call" + said + aftermath(c, "")
	return res
}

// countCrash counts c, and says in it what follows. p.mu is held.
func (p *Plugin) countCrash(c *CrashError, gen int) {
	s := p.fail(c.Tool, gen)
	c.InRow = s.n
	if s.n >= p.h.opts.MaxCrashes {
		c.Off = true
		if s.off == "" {
			s.off = fmt.Sprintf("The tool %s is switched off: it crashed %d times in a row. The last time (%s):\n%s",
				label(c.Tool, p.cmd.Version), s.n, c.Exit, c.Stderr)
			p.h.logf("tool %s is switched off after %d crashes in a row", label(c.Tool, p.cmd.Version), s.n)
		}
	}
	p.last = c
}

func aftermath(c *CrashError, otherwise string) string {
	if c.Off {
		return fmt.Sprintf("\nIt crashed %d times in a row and is now switched off.", c.InRow)
	}
	return otherwise
}

// broke makes a result of a call whose stream ended without one.
func (t *tool) broke(ctx context.Context, inst *instance, err error, overdue, uncancellable bool) (core.ToolResult, error) {
	p := t.p
	name := label(t.name, p.cmd.Version)
	if uncancellable || overdue {
		why := fmt.Sprintf("The call of %s was cancelled (%v)", name, context.Cause(ctx))
		if errors.Is(context.Cause(ctx), errTimeout) {
			why = fmt.Sprintf("%s did not answer within %v and was stopped", name, p.h.opts.CallTimeout)
		}
		alone := t.retire(inst, overdue)
		if overdue {
			why += fmt.Sprintf("; it did not stop within %v", p.h.opts.CallGrace)
			if alone {
				why += ", so its process was killed"
			}
		}
		return core.ErrorResult(why + "."), nil
	}

	// The connection may have broken because the process is ending. Its end is known a
	// moment later.
	patience := 200 * time.Millisecond
	switch status.Code(err) {
	case codes.Unavailable:
		patience = time.Second
		fallthrough
	case codes.Canceled, codes.Internal:
		wait := time.NewTimer(patience)
		defer wait.Stop()
		select {
		case <-inst.proc.exited:
			return t.crashed(inst)
		case <-wait.C:
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return core.ErrorResult(fmt.Sprintf("The tool %s ended the call without a result.", name)), nil
	case status.Code(err) == codes.ResourceExhausted:
		return core.ErrorResult(fmt.Sprintf("The call of %s was refused for its size: %s (a message may have %s).", name, status.Convert(err).Message(), size(maxMessage))), nil
	case status.Code(err) == codes.Unknown:
		// What an ordinary gRPC server makes of an error that its function returns.
		return core.ErrorResult(cut(status.Convert(err).Message(), p.h.opts.MaxText)), nil
	case status.Code(err) == codes.Unavailable:
		// Alive, but not on the line.
		t.retire(inst, true)
		return core.ErrorResult(fmt.Sprintf("The tool %s closed the connection during the call; its process is replaced.", name)), nil
	}
	return core.ErrorResult(fmt.Sprintf("The tool %s broke the tool protocol: %s", name, oneLine(wireText(err), 500))), nil
}

// retire gives the instance no new calls. Alone with kill it is ended at once; otherwise
// when its other calls have ended, at the latest after a minute. It says whether no other
// call runs in it.
func (t *tool) retire(inst *instance, kill bool) (alone bool) {
	p := t.p
	p.mu.Lock()
	first := !inst.retired
	inst.retired = true
	alone = inst.calls <= 1
	if alone {
		inst.expected = true
	}
	p.mu.Unlock()
	switch {
	case alone && kill:
		inst.proc.end(0)
	case first && p.h.enter():
		go func() {
			defer p.h.work.Done()
			limit := time.NewTimer(time.Minute)
			defer limit.Stop()
			select {
			case <-inst.proc.exited:
			case <-p.ctx.Done(): // whoever stops the plugin ends it
			case <-limit.C:
				p.mu.Lock()
				inst.expected = true
				p.mu.Unlock()
				inst.proc.end(0)
			}
		}()
	}
	return alone
}

// crashed is the result of a call whose process has ended.
func (t *tool) crashed(inst *instance) (core.ToolResult, error) {
	p := t.p
	p.mu.Lock()
	if inst.expected {
		p.mu.Unlock()
		return core.ErrorResult(fmt.Sprintf("The tool %s was stopped during the call.", label(t.name, p.cmd.Version))), nil
	}
	c := p.crashOf(inst, t.name, true)
	seen := inst.blamed
	if !seen {
		inst.blamed = true
		p.crashes++
	}
	p.countCrash(c, inst.gen)
	p.mu.Unlock()
	if !seen {
		p.h.logf("%v", c)
		p.report(*c)
	}
	text := fmt.Sprintf("The tool %s crashed during this call (%s).", label(t.name, p.cmd.Version), c.Exit)
	if c.Stderr != "" {
		text += "\nThe end of its standard error:\n" + c.Stderr
	}
	text += aftermath(c, "\nThe next call starts it again.")
	return core.ErrorResult(text), nil
}

// Known are the names of the tools that the plugin is known to offer, sorted.
func (p *Plugin) Known() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.known))
	for n := range p.known {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
