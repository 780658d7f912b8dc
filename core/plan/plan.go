// Package plan owns the running of steps that depend on each other: the check of the
// graph, the order, the states that steps end in. It knows nothing of models: what a step
// does is a function of its caller's.
//
//	if err := plan.Check(steps); err != nil { … }
//	results := plan.Run(ctx, steps, plan.Options{Workers: 3, Do: do})
package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// MaxSteps is the most steps that a plan may have.
const MaxSteps = 50

// Step is one piece of work.
type Step struct {
	ID        string   `json:"id"`
	Desc      string   `json:"desc"`
	DependsOn []string `json:"depends_on"`
	Verify    string   `json:"verify,omitempty"`
}

// UnmarshalJSON takes an object, or a text that is the description.
func (s *Step) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*s = Step{Desc: text}
		return nil
	}
	type plain Step
	var p struct {
		plain
		ID json.RawMessage `json:"id"`
		On json.RawMessage `json:"depends_on"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*s = Step(p.plain)
	s.ID = scalar(p.ID)
	s.DependsOn = nil
	if len(p.On) > 0 && string(p.On) != "null" {
		var list []json.RawMessage
		if err := json.Unmarshal(p.On, &list); err != nil {
			list = []json.RawMessage{p.On}
		}
		for _, raw := range list {
			s.DependsOn = append(s.DependsOn, scalar(raw))
		}
	}
	return nil
}

// scalar is a text or a number as a text: models write both.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strings.TrimSpace(text)
	}
	return strings.TrimSpace(string(raw))
}

// Name gives the steps without an id one: s1, s2 … that no other has.
func Name(steps []Step) []Step {
	used := map[string]bool{}
	for _, s := range steps {
		used[s.ID] = true
	}
	out := append([]Step(nil), steps...)
	n := 0
	for i := range out {
		if out[i].ID != "" {
			continue
		}
		for {
			n++
			if id := fmt.Sprintf("s%d", n); !used[id] {
				out[i].ID = id
				used[id] = true
				break
			}
		}
	}
	return out
}

// Check says what is wrong with a graph before anything runs: no step, too many, a step
// without words, two with one id, a dependency that does not exist, a cycle. The error,
// of kind core.KindUsage, names the steps.
func Check(steps []Step) error {
	if len(steps) == 0 {
		return core.Errorf(core.KindUsage, "the plan has no steps")
	}
	if len(steps) > MaxSteps {
		return core.Errorf(core.KindUsage, "the plan has %d steps, at most %d are allowed", len(steps), MaxSteps)
	}
	var problems []string
	byID := map[string]Step{}
	for i, s := range steps {
		switch {
		case s.ID == "":
			problems = append(problems, fmt.Sprintf("step %d has no id", i+1))
			continue
		case strings.TrimSpace(s.Desc) == "":
			problems = append(problems, fmt.Sprintf("step %s has no description", s.ID))
		}
		if _, twice := byID[s.ID]; twice {
			problems = append(problems, fmt.Sprintf("two steps are named %s", s.ID))
		}
		byID[s.ID] = s
	}
	for _, s := range steps {
		for _, d := range s.DependsOn {
			if d == s.ID {
				problems = append(problems, fmt.Sprintf("step %s needs itself", s.ID))
			} else if _, ok := byID[d]; !ok {
				problems = append(problems, fmt.Sprintf("step %s needs %s, which does not exist", s.ID, d))
			}
		}
	}
	if problems == nil {
		if c := cycle(steps, byID); c != nil {
			problems = append(problems, "these steps need each other in a circle: "+strings.Join(c, " → "))
		}
	}
	if problems != nil {
		return core.Errorf(core.KindUsage, "the plan can't be run: %s", strings.Join(problems, "; "))
	}
	return nil
}

// cycle finds a circle, nil when there is none.
func cycle(steps []Step, byID map[string]Step) []string {
	state := map[string]int{} // 1: on the way, 2: done
	var path []string
	var visit func(id string) []string
	visit = func(id string) []string {
		switch state[id] {
		case 2:
			return nil
		case 1:
			for i, p := range path {
				if p == id {
					return append(append([]string(nil), path[i:]...), id)
				}
			}
		}
		state[id] = 1
		path = append(path, id)
		for _, d := range byID[id].DependsOn {
			if c := visit(d); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		state[id] = 2
		return nil
	}
	for _, s := range steps {
		if c := visit(s.ID); c != nil {
			return c
		}
	}
	return nil
}

// The states that a step ends in.
const (
	Done      = "done"
	Failed    = "failed"
	Skipped   = "skipped"   // something that it needs did not get done
	Cancelled = "cancelled" // the whole was stopped
)

// Result is how one step ended.
type Result struct {
	Step
	Status string `json:"status"`
	Reason string `json:"reason"`
	MS     int64  `json:"ms"`
	// Text is what the step reported.
	Text string `json:"-"`
}

// Options of Run. Do is needed.
type Options struct {
	Workers int           // at the same time; 1 when 0
	Timeout time.Duration // of one step; 0 for none
	// Do does a step and returns its report. before are the results of what it depends on.
	Do func(ctx context.Context, s Step, before []Result) (string, error)
	// On is told when a step begins (status "running") and ends; nil for nobody. It is
	// called from one goroutine at a time.
	On func(id, status string)
}

// Run runs the steps of a checked graph: each as soon as what it needs is done, several at
// once. A step that fails skips what depends on it and nothing else. Every step ends in a
// named state, in the order of steps. Run returns when all have ended.
func Run(ctx context.Context, steps []Step, o Options) []Result {
	workers := max(o.Workers, 1)
	results := map[string]*Result{}
	var mu sync.Mutex
	tell := func(id, status string) {
		if o.On != nil {
			o.On(id, status)
		}
	}
	end := func(s Step, status, reason, text string, took time.Duration) {
		results[s.ID] = &Result{Step: s, Status: status, Reason: reason, Text: text, MS: took.Milliseconds()}
		tell(s.ID, status)
	}
	running := map[string]bool{}
	wake := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for {
		mu.Lock()
		progressed := false
		for _, s := range steps {
			if results[s.ID] != nil || running[s.ID] {
				continue
			}
			ready, blocked := true, ""
			var before []Result
			for _, d := range s.DependsOn {
				switch r := results[d]; {
				case r == nil:
					ready = false
				case r.Status != Done:
					blocked = d
				default:
					before = append(before, *r)
				}
			}
			switch {
			case ctx.Err() != nil:
				end(s, Cancelled, "the plan was stopped", "", 0)
				progressed = true
			case blocked != "":
				end(s, Skipped, fmt.Sprintf("%s %s", blocked, results[blocked].Status), "", 0)
				progressed = true
			case ready && len(running) < workers:
				running[s.ID] = true
				tell(s.ID, "running")
				wg.Go(func() {
					start := time.Now()
					text, err := do(ctx, s, before, o)
					mu.Lock()
					defer mu.Unlock()
					delete(running, s.ID)
					switch {
					case err == nil:
						end(s, Done, "", text, time.Since(start))
					case ctx.Err() != nil:
						end(s, Cancelled, "the plan was stopped", text, time.Since(start))
					default:
						end(s, Failed, err.Error(), text, time.Since(start))
					}
					select {
					case wake <- struct{}{}:
					default:
					}
				})
			}
		}
		finished := len(results) == len(steps)
		mu.Unlock()
		if finished {
			break
		}
		if !progressed {
			<-wake // something runs: a checked graph always has a step that can
		}
	}
	wg.Wait()
	out := make([]Result, len(steps))
	for i, s := range steps {
		out[i] = *results[s.ID]
	}
	return out
}

func do(ctx context.Context, s Step, before []Result, o Options) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the step broke: %v", r)
		}
	}()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the step took longer than %s", o.Timeout))
		defer cancel()
	}
	text, err = o.Do(ctx, s, before)
	if err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return text, err
}

// Counts says how many steps ended how, for people: "3 done, 1 failed, 1 skipped".
func Counts(list []Result) string {
	n := map[string]int{}
	for _, r := range list {
		n[r.Status]++
	}
	names := make([]string, 0, len(n))
	for s := range n {
		names = append(names, s)
	}
	order := map[string]int{Done: 0, Failed: 1, Skipped: 2, Cancelled: 3}
	sort.Slice(names, func(i, j int) bool { return order[names[i]] < order[names[j]] })
	var parts []string
	for _, s := range names {
		parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
	}
	return strings.Join(parts, ", ")
}
