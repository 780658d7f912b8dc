package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
	"github.com/lingjiyidong/lj/core/plan"
	"github.com/lingjiyidong/lj/prompts"
)

// maxStepReport is how much of a step's report the model of the whole reads, in bytes.
const maxStepReport = 6 << 10

// planTool runs the steps of a plan as agents of their own, side by side where they do not
// need each other, and reports how each ended.
func (a *App) planTool() core.Tool {
	return newHostTool(a, "plan", "Run independent pieces of work side by side: each step is done by an agent of its own with the same tools, which knows only goal, step and the results of depends_on.",
		`{"type":"object","properties":{"goal":{"type":"string"},"steps":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"desc":{"type":"string"},"depends_on":{"type":"array","items":{"type":"string"}}},"required":["desc"]}}},"required":["goal","steps"]}`, false,
		func(ctx context.Context, s *turnSession, in struct {
			Goal  string      `json:"goal"`
			Steps []plan.Step `json:"steps"`
		}) (string, error) {
			if s == nil {
				return "", errNoSession
			}
			if s.step != "" {
				return "", core.Errorf(core.KindUsage, "a step of a plan can't run a plan of its own: do the work")
			}
			steps := plan.Name(in.Steps)
			if err := plan.Check(steps); err != nil {
				return "", err
			}
			results := s.runSteps(ctx, in.Goal, steps)
			var b strings.Builder
			fmt.Fprintf(&b, "%s\n", plan.Counts(results))
			failed := false
			for _, r := range results {
				fmt.Fprintf(&b, "\n%s: %s", r.ID, r.Status)
				if r.Reason != "" {
					fmt.Fprintf(&b, " (%s)", r.Reason)
				}
				if r.Text != "" {
					fmt.Fprintf(&b, "\n%s", agent.Cut(r.Text, maxStepReport, "the rest of the report is in the step's session"))
				}
				b.WriteString("\n")
				failed = failed || r.Status != plan.Done
			}
			text := strings.TrimRight(b.String(), "\n")
			if failed {
				return "", errors.New(text)
			}
			return text, nil
		})
}

// runSteps runs a checked plan inside the turn.
func (s *turnSession) runSteps(ctx context.Context, goal string, steps []plan.Step) []plan.Result {
	if raw, err := json.Marshal(map[string]any{"goal": goal, "steps": steps}); err == nil {
		s.emit(core.Event{Type: core.EventPlan, Data: raw})
	}
	progress := s.planProgress(ctx, goal, steps)
	return plan.Run(ctx, steps, plan.Options{
		Workers: s.app.Config.Int("plan.max_workers"),
		Timeout: s.app.Config.Seconds("plan.step_timeout"),
		On: func(id, status string) {
			progress(id, status)
			s.emit(core.Event{Type: core.EventStep, ID: id, Status: status})
		},
		Do: func(ctx context.Context, st plan.Step, before []plan.Result) (string, error) {
			return s.runStep(ctx, goal, st, before)
		},
	})
}

// runStep lets an agent of its own do one step. What it costs and what it was denied
// counts for the whole turn.
func (s *turnSession) runStep(ctx context.Context, goal string, st plan.Step, before []plan.Result) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "You do one step of a larger plan. The goal of the whole: %s\n", goal)
	for _, r := range before {
		b.WriteString("\n" + prompts.Block("result", fmt.Sprintf("of=%q", r.ID), agent.Cut(r.Text, maxStepReport, "cut")))
	}
	fmt.Fprintf(&b, "\n\nYour step (%s): %s", st.ID, st.Desc)
	if st.Verify != "" {
		fmt.Fprintf(&b, "\nIt is done when: %s", st.Verify)
	}
	b.WriteString("\nDo only this step. Others may be working in the same project now: change no file that your step does not need, and read a file again before you write it. Finish with a report of what you did; begin it with FAILED: if the step could not be done.")
	o := s.opt
	o.Prompt, o.Session, o.Continue, o.Role = b.String(), "", false, ""
	o.Images, o.Steer, o.MaxSteps, o.Budget = nil, nil, s.opt.MaxSteps, nil
	o.Model = s.model
	o.parent, o.step, o.budget = s, st.ID, s.budget
	o.Events = func(e core.Event) {
		switch e.Type {
		case core.EventToolStart, core.EventToolProgress, core.EventToolEnd, core.EventPermission:
			e.ID = st.ID + "/" + e.ID
			s.emit(e)
		case core.EventUsage, core.EventNotice:
			s.emit(e)
		}
	}
	c, err := s.app.Conversation(ctx, o)
	if err != nil {
		return "", err
	}
	c.Session.Kind, c.Session.Parent = "step", s.conv.Session.ID
	c.granted = s.conv.granted
	res := c.Turn(ctx, o)
	s.mu.Lock()
	s.extra.Add(res.Usage)
	s.denied = append(s.denied, res.Denied...)
	s.mu.Unlock()
	switch {
	case res.Err != nil:
		return res.Text, res.Err
	case len(res.Denied) > 0:
		return res.Text, fmt.Errorf("%s was denied", res.Denied[0].Tool)
	case strings.HasPrefix(strings.TrimSpace(res.Text), "FAILED:"):
		return "", errors.New(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(res.Text), "FAILED:")))
	}
	return res.Text, nil
}

// emitter lets several turns write one stream of events in order.
type emitter struct {
	mu sync.Mutex
	to func(core.Event)
}

func (e *emitter) emit(x core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.to(x)
}
