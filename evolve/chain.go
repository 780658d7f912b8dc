package evolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
)

// UndoTime is how long undoing a chain may take. It runs on, whatever ended the chain.
const UndoTime = 10 * time.Second

// Step is one step of a chain.
type Step struct {
	Name string
	// Run does the step. It returns the tests that ran and passed, where it runs any. What
	// it refuses is an error; *Refusal carries diagnostics.
	Run func(ctx context.Context) (tests int, err error)
	// Undo takes back what Run did, also when Run failed half-way. Nil when there is
	// nothing to take back.
	Undo func(ctx context.Context) error
}

// Refusal is a step's no: the change does not pass.
type Refusal struct {
	Reason      string
	Diagnostics []Diagnostic
	// Transient is set when the same change may pass at another time: a time limit, a
	// machine without a compiler.
	Transient bool
}

func (r *Refusal) Error() string { return r.Reason }

// ErrStop, returned by a step, ends the chain there as a success: nothing is left to do.
var ErrStop = errors.New("nothing left to do")

// Journal is where a chain records what it is about to do and what came of it.
// Implementations make a record durable against the death of the process.
type Journal interface {
	BeginChange(ctx context.Context, c core.Change) (int64, error)
	StepChange(ctx context.Context, id int64, step string, data json.RawMessage) error
	EndChange(ctx context.Context, id int64, state, note string) error
}

// Chain is a list of steps that pass together or not at all.
type Chain struct {
	Kind   string // of the change, as core.Change has it
	Owner  string // names the lock that this process holds while the chain runs
	Steps  []Step
	Report *Report
	// Journal may be nil for chains that change nothing.
	Journal Journal
	// Began is told the change's id before the first step.
	Began func(id int64)
	// Progress takes one line when a step begins and one when it ended. Nil for nobody.
	Progress func(text string)
	Now      func() time.Time
}

// Run runs the steps in order. The first that fails ends the chain; then everything is
// undone, last step first, on a context that a cancellation does not reach. The report has
// the steps that ran, the failing one last.
//
// Around each step KIND.STEP.before and KIND.STEP.after are failpoints.
func Run(ctx context.Context, c Chain) error {
	if c.Now == nil {
		c.Now = time.Now
	}
	say := c.Progress
	if say == nil {
		say = func(string) {}
	}
	rep := c.Report
	if rep.Diagnostics == nil {
		rep.Diagnostics = []Diagnostic{}
	}
	if rep.Steps == nil {
		rep.Steps = []StepReport{}
	}
	var id int64
	if c.Journal != nil {
		var err error
		if id, err = c.Journal.BeginChange(ctx, core.Change{Kind: c.Kind, Name: rep.Name, Owner: c.Owner}); err != nil {
			return err
		}
		if c.Began != nil {
			c.Began(id)
		}
	}
	done := 0
	err := func() error {
		for i, s := range c.Steps {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			done = i + 1
			began := c.Now()
			say(s.Name + " …")
			tests, err := c.step(ctx, id, s)
			stop := errors.Is(err, ErrStop)
			sr := StepReport{Step: s.Name, OK: err == nil || stop, MS: c.Now().Sub(began).Milliseconds(), Tests: tests}
			rep.Steps = append(rep.Steps, sr)
			say(sr.line())
			if stop {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	}()
	state, note := core.ChangeDone, ""
	if err != nil {
		state, note = core.ChangeUndone, err.Error()
		var r *Refusal
		if errors.As(err, &r) {
			rep.Diagnostics = append(rep.Diagnostics, r.Diagnostics...)
			rep.Reason = r.Reason
		}
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTime)
		defer cancel()
		for i := done - 1; i >= 0; i-- {
			if u := c.Steps[i].Undo; u != nil {
				if uerr := u(uctx); uerr != nil {
					err = errors.Join(err, fmt.Errorf("undo %s: %w", c.Steps[i].Name, uerr))
				}
			}
		}
	}
	if c.Journal != nil {
		jctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTime)
		defer cancel()
		if jerr := c.Journal.EndChange(jctx, id, state, note); jerr != nil {
			err = errors.Join(err, jerr)
		}
	}
	return err
}

func (c Chain) step(ctx context.Context, id int64, s Step) (int, error) {
	if c.Journal != nil {
		if err := c.Journal.StepChange(ctx, id, s.Name, nil); err != nil {
			return 0, err
		}
	}
	if err := fault.Point(c.Kind + "." + s.Name + ".before"); err != nil {
		return 0, err
	}
	tests, err := s.Run(ctx)
	if err != nil {
		return tests, err
	}
	return tests, fault.Point(c.Kind + "." + s.Name + ".after")
}
