package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// prepared is one call on its way.
type prepared struct {
	call   core.ToolCall // as the model wrote it
	real   core.ToolCall // what it means
	tool   core.Tool
	spec   core.ToolSpec
	gate   core.Decision
	answer *core.ToolResult // set when it must not run, or when it has run
	status string
	took   time.Duration
	stored bool
}

// calls runs the calls of one answer: judged in order, neighbours that only read run
// together, the others one at a time, and stored in order. Every call gets exactly one
// result, whatever happens.
func (t *turn) calls(ctx context.Context, calls []core.ToolCall) (core.StopReason, error) {
	list := make([]*prepared, len(calls))
	for i, c := range calls {
		list[i] = t.prepare(c)
	}
	var steer []string
	var stop string
	for i := 0; i < len(list); {
		if ctx.Err() != nil {
			break
		}
		if i > 0 && t.cfg.Steer != nil {
			if steer = t.cfg.Steer(); steer != nil {
				for _, p := range list[i:] {
					if p.answer == nil {
						p.finish(core.ErrorResult("skipped: the user said something new; read it before going on"), core.CallCancelled)
					}
				}
				break
			}
		}
		// A group: one call, or a run of calls that only read and need no question.
		j := i + 1
		t.judge(ctx, list[i])
		if list[i].parallel() {
			for j < len(list) {
				t.judge(ctx, list[j])
				if !list[j].parallel() {
					break
				}
				j++
			}
		}
		t.group(ctx, list[i:j])
		why, err := t.report(ctx, list[i:j])
		if err != nil {
			return core.StopInternal, err
		}
		if why != "" {
			stop = why
		}
		i = j
	}
	// What did not run is answered too.
	var rest []*prepared
	for _, p := range list {
		if p.stored {
			continue
		}
		if p.answer == nil {
			p.finish(core.ErrorResult("cancelled: the user interrupted before this call ran"), core.CallCancelled)
		}
		t.begin(p)
		t.finished(p)
		rest = append(rest, p)
	}
	if _, err := t.report(ctx, rest); err != nil {
		return core.StopInternal, err
	}
	if ctx.Err() != nil {
		return core.StopInterrupted, interrupted(ctx)
	}
	if err := t.showImages(ctx, list); err != nil {
		return core.StopInternal, err
	}
	if _, err := t.steer(ctx, steer); err != nil {
		return core.StopInternal, err
	}
	if stop != "" {
		return core.StopRepeated, core.Errorf(core.KindLimit, "%s", stop).Hint("say what should be done differently, with --continue")
	}
	return "", nil
}

// showImages stores the pictures that calls have brought, behind all their results.
func (t *turn) showImages(ctx context.Context, list []*prepared) error {
	var images []core.Image
	var from []string
	for _, p := range list {
		if p.answer != nil && len(p.answer.Images) > 0 {
			images = append(images, p.answer.Images...)
			from = append(from, p.real.Name)
		}
	}
	if images == nil {
		return nil
	}
	text := fmt.Sprintf("[lj] The pictures of %s, in the order of the calls:", strings.Join(from, ", "))
	return t.store(ctx, "images", core.Message{Role: core.RoleUser, Content: text, Raw: t.cfg.Encode.Images(text, images)})
}

// group runs calls that were judged, together when there are several.
func (t *turn) group(ctx context.Context, list []*prepared) {
	var wg sync.WaitGroup
	for _, p := range list {
		t.begin(p)
		switch {
		case p.answer != nil:
			t.finished(p)
		case ctx.Err() != nil:
			p.finish(core.ErrorResult("cancelled: the user interrupted before this call ran"), core.CallCancelled)
			t.finished(p)
		case len(list) == 1:
			t.run(ctx, p)
		default:
			wg.Go(func() { t.run(ctx, p) })
		}
	}
	wg.Wait()
}

// report stores the results of calls in their order, before anything else happens. It
// returns a reason to stop the turn when nothing moves.
func (t *turn) report(ctx context.Context, list []*prepared) (stop string, err error) {
	if len(list) == 0 {
		return "", nil
	}
	notice, stop := t.seen.round(list)
	msgs := make([]core.Message, len(list))
	for i, p := range list {
		res := *p.answer
		if notice != "" && i == len(list)-1 {
			res.Text = strings.TrimRight(res.Text, "\n") + "\n\n" + notice
		}
		msgs[i] = core.Message{
			Role: core.RoleTool, Content: res.Text, ToolCallID: p.call.ID,
			Raw: t.cfg.Encode.ToolResult(p.call.ID, p.call.Name, res),
		}
		t.out.Calls = append(t.out.Calls, CallReport{ID: p.call.ID, Name: p.real.Name, Status: p.status, MS: p.took.Milliseconds()})
		p.stored = true
	}
	return stop, t.store(ctx, "", msgs...)
}

// prepare finds what a call means. It runs nothing.
func (t *turn) prepare(c core.ToolCall) *prepared {
	p := &prepared{call: c, real: c}
	if c.Problem != "" {
		p.finish(core.ErrorResult(t.withSchema(c)), core.CallError)
		return p
	}
	tool, real, err := t.cfg.Tools.Resolve(c)
	p.real = real
	if err != nil {
		p.finish(core.ErrorResult(err.Error()), core.CallError)
		return p
	}
	p.tool, p.spec = tool, tool.Spec()
	return p
}

// withSchema is the text for a call that must not run, with the tool's schema where there
// is one.
func (t *turn) withSchema(c core.ToolCall) string {
	text := "not executed: " + c.Problem
	if tool, _, err := t.cfg.Tools.Resolve(core.ToolCall{Name: c.Name, Arguments: "{}"}); err == nil {
		text += "\nThe arguments must be one JSON object of this schema: " + string(tool.Spec().Schema)
	}
	return text
}

// judge asks the gate, and a person where the gate says so.
func (t *turn) judge(ctx context.Context, p *prepared) {
	if p.answer != nil || p.gate.Rule != "" {
		return
	}
	p.gate = t.cfg.Gate.Decide(p.spec, p.real)
	if p.gate.Verdict == core.Ask {
		p.gate = t.cfg.Gate.Ask(ctx, p.spec, p.real, p.gate)
		if ctx.Err() != nil {
			return
		}
		t.emit(core.Event{Type: core.EventPermission, ID: p.call.ID, Name: p.real.Name, Rule: p.gate.Rule, Decision: p.gate.Verdict.String()})
	} else if p.gate.Verdict == core.Deny {
		t.emit(core.Event{Type: core.EventPermission, ID: p.call.ID, Name: p.real.Name, Rule: p.gate.Rule, Decision: p.gate.Verdict.String()})
	}
	if p.gate.Verdict != core.Allow {
		reason := p.gate.Reason
		if reason == "" {
			reason = "permission was not given"
		}
		p.finish(core.ErrorResult(fmt.Sprintf("denied (%s): %s", p.gate.Rule, reason)), core.CallDenied)
		t.out.Denied = append(t.out.Denied, core.Denied{Tool: p.real.Name, Rule: p.gate.Rule, Args: argsJSON(p.real.Arguments)})
	}
}

func argsJSON(s string) json.RawMessage {
	if !json.Valid([]byte(s)) || s == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(s)
}

// parallel says whether the call may run beside its neighbours.
func (p *prepared) parallel() bool {
	return p.answer == nil && p.spec.ReadOnly
}

func (p *prepared) finish(res core.ToolResult, status string) {
	p.answer, p.status = &res, status
}

func (t *turn) begin(p *prepared) {
	t.emit(core.Event{Type: core.EventToolStart, ID: p.call.ID, Name: p.real.Name, Args: argsJSON(p.real.Arguments)})
}

// run runs one call that was allowed.
func (t *turn) run(ctx context.Context, p *prepared) {
	start := t.cfg.Now()
	res, err := t.cfg.Run(ctx, p.tool, p.real, p.gate, progress{t, p.call.ID})
	p.took = t.cfg.Now().Sub(start)
	switch {
	case ctx.Err() != nil && (err != nil || res.IsError):
		text := "cancelled by the user while it ran; it may be partly done"
		if res.Text != "" {
			text = strings.TrimRight(res.Text, "\n") + "\n" + text
		}
		p.finish(core.ErrorResult(text), core.CallCancelled)
	case err != nil:
		p.finish(core.ErrorResult(p.real.Name+": "+err.Error()), core.CallError)
	case res.IsError:
		p.finish(res, core.CallError)
	default:
		p.finish(res, core.CallOK)
	}
	t.finished(p)
}

func (t *turn) finished(p *prepared) {
	n := p.took.Milliseconds()
	t.emit(core.Event{Type: core.EventToolEnd, ID: p.call.ID, Name: p.real.Name, Status: p.status, MS: &n})
}

// progress sends a call's progress to the event stream; raw output is the Runner's.
type progress struct {
	t  *turn
	id string
}

func (p progress) Progress(text string) {
	p.t.emit(core.Event{Type: core.EventToolProgress, ID: p.id, Text: text})
}

func (p progress) Output([]byte) {}

// How often the same call may bring the same result: the model is told at warnAt, the turn
// ends at stopAt. Calls that change something are given more room, since honest work
// repeats them.
const (
	warnAt      = 3
	stopAt      = 6
	writeWarnAt = 5
	writeStopAt = 10
)

// repeats notices when nothing moves: the same call, the same result, and nothing changed
// in between.
type repeats struct {
	reads  map[[32]byte]int
	writes map[[32]byte]int
}

// round takes one round of calls and returns a warning for the model, and a reason to stop
// the turn, both "" when things move.
func (r *repeats) round(list []*prepared) (notice, stop string) {
	if r.reads == nil {
		r.reads, r.writes = map[[32]byte]int{}, map[[32]byte]int{}
	}
	for _, p := range list {
		if p.answer == nil {
			continue
		}
		key := sha256.Sum256([]byte(p.real.Name + "\x00" + p.real.Arguments + "\x00" + p.answer.Text))
		changes := p.status == core.CallOK && p.tool != nil && !p.spec.ReadOnly
		n, warn, end := 0, warnAt, stopAt
		if changes && p.real.Name != "bash" {
			r.writes[key]++
			n, warn, end = r.writes[key], writeWarnAt, writeStopAt
			clear(r.reads) // something changed: looking again is honest
		} else {
			r.reads[key]++
			n = r.reads[key]
		}
		if n >= end {
			stop = fmt.Sprintf("%s was called %d times with the same arguments and the same result; nothing moves", p.real.Name, n)
		} else if n >= warn {
			notice = fmt.Sprintf("[lj] This is call number %d of %s with the same arguments and the same result. Do something else, or end the turn and say what is missing.", n, p.real.Name)
		}
	}
	return notice, stop
}
