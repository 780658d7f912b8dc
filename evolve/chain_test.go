package evolve_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
)

type journal struct{ log []string }

func (j *journal) BeginChange(_ context.Context, c core.Change) (int64, error) {
	j.log = append(j.log, "begin "+c.Kind)
	return 7, nil
}

func (j *journal) StepChange(_ context.Context, _ int64, step string, _ json.RawMessage) error {
	j.log = append(j.log, step)
	return nil
}

func (j *journal) EndChange(ctx context.Context, id int64, state, note string) error {
	j.log = append(j.log, state+" "+note)
	return ctx.Err()
}

// The intent is written before a step and the result after it; what fails is undone in
// reverse, also when the context is gone.
func TestChainUndoesInReverse(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		j, undone := &journal{}, []string{}
		ctx, cancel := context.WithCancel(t.Context())
		step := func(name string, err error) evolve.Step {
			return evolve.Step{Name: name, Run: func(ctx context.Context) (int, error) {
				if err != nil && cancelled {
					cancel()
					return 0, ctx.Err()
				}
				return 1, err
			}, Undo: func(ctx context.Context) error {
				undone = append(undone, name)
				return ctx.Err()
			}}
		}
		no := &evolve.Refusal{Reason: "no", Diagnostics: []evolve.Diagnostic{{File: "a.go", Line: 1, Message: "bad"}}}
		rep := &evolve.Report{Name: "x"}
		err := evolve.Run(ctx, evolve.Chain{Kind: "t", Report: rep, Journal: j, Steps: []evolve.Step{step("one", nil), step("two", no), step("three", nil)}})
		cancel()
		want := error(no)
		if cancelled {
			want = context.Canceled
		}
		if !errors.Is(err, want) || !slices.Equal(undone, []string{"two", "one"}) {
			t.Errorf("%v %v", err, undone)
		}
		if !strings.HasPrefix(strings.Join(j.log, ","), "begin t,one,two,undone ") || len(rep.Steps) != 2 || rep.Failed() != "two" {
			t.Errorf("%v %+v", j.log, rep)
		}
		if !cancelled && (rep.Reason != "no" || !strings.Contains(rep.ForModel(), "a.go:1: bad") || !strings.Contains(rep.ForPerson(), "FAIL two")) {
			t.Errorf("%s\n%s", rep.ForModel(), rep.ForPerson())
		}
	}
}

func TestReportJSON(t *testing.T) {
	b, err := json.Marshal(&evolve.Report{Name: "x", Steps: []evolve.StepReport{{Step: "test", OK: true, MS: 3, Tests: 2}}, Diagnostics: []evolve.Diagnostic{}})
	if want := `{"name":"x","version":null,"accepted":false,"live":false,"unchanged":false,"steps":[{"step":"test","ok":true,"ms":3,"tests":2}],"diagnostics":[]}`; err != nil || string(b) != want {
		t.Errorf("%s %v", b, err)
	}
}
