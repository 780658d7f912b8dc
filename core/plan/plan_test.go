package plan_test

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
	"github.com/lingjiyidong/lj/core/plan"
)

func step(id string, on ...string) plan.Step {
	return plan.Step{ID: id, Desc: "do " + id, DependsOn: on}
}

// The graph is checked first, and the steps and the circle are named.
func TestCheck(t *testing.T) {
	for want, steps := range map[string][]plan.Step{
		"A → B → A|B → A → B":            {step("A", "B"), step("B", "A")},
		"step C needs Z, which does not": {step("C", "Z")},
		"step D needs itself":            {step("D", "D")},
		"two steps are named E":          {step("E"), step("E")},
		"no steps":                       {},
		"step F has no description":      {{ID: "F"}},
		"step 1 has no id":               {{Desc: "x"}},
		"51 steps": func() (l []plan.Step) {
			for i := range 51 {
				l = append(l, step(fmt.Sprint(i)))
			}
			return
		}(),
	} {
		err := plan.Check(steps)
		if core.KindOf(err) != core.KindUsage {
			t.Errorf("%s: %v", want, err)
			continue
		}
		ok := false
		for w := range strings.SplitSeq(want, "|") {
			ok = ok || strings.Contains(err.Error(), w)
		}
		if !ok {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := plan.Check([]plan.Step{step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")}); err != nil {
		t.Error(err)
	}
}

// A fails; B needs A; C alone; D needs C: C and D are done, B is skipped because of A.
func TestFailureSkipsDependantsOnly(t *testing.T) {
	var mu sync.Mutex
	var said []string
	got := plan.Run(t.Context(), []plan.Step{step("A"), step("B", "A"), step("C"), step("D", "C")}, plan.Options{
		Workers: 2,
		Do: func(_ context.Context, s plan.Step, before []plan.Result) (string, error) {
			if s.ID == "A" {
				return "", errors.New("no")
			}
			if s.ID == "D" && (len(before) != 1 || before[0].Text != "C did it") {
				t.Errorf("D was given %+v", before)
			}
			return s.ID + " did it", nil
		},
		On: func(id, status string) { mu.Lock(); said = append(said, id+" "+status); mu.Unlock() },
	})
	var states []string
	for _, r := range got {
		states = append(states, r.ID+" "+r.Status)
	}
	if strings.Join(states, ", ") != "A failed, B skipped, C done, D done" {
		t.Errorf("%v", states)
	}
	if got[1].Reason != "A failed" || plan.Counts(got) != "2 done, 1 failed, 1 skipped" {
		t.Errorf("%q %q", got[1].Reason, plan.Counts(got))
	}
	if len(said) != 7 { // three ran, all four ended
		t.Errorf("said %v", said)
	}
}

// Independent steps run at the same time, at most Workers of them.
func TestParallel(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	both := make(chan struct{})
	plan.Run(t.Context(), []plan.Step{step("a"), step("b"), step("c"), step("d")}, plan.Options{Workers: 2, Do: func(context.Context, plan.Step, []plan.Result) (string, error) {
		mu.Lock()
		now++
		most = max(most, now)
		if now == 2 {
			select {
			case <-both:
			default:
				close(both)
			}
		}
		mu.Unlock()
		select {
		case <-both:
		case <-time.After(10 * time.Second):
		}
		mu.Lock()
		now--
		mu.Unlock()
		return "", nil
	}})
	if most != 2 {
		t.Errorf("%d at once", most)
	}
}

func TestCancelAndTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := plan.Run(ctx, []plan.Step{step("a"), step("b", "a"), step("c")}, plan.Options{Workers: 1, Do: func(ctx context.Context, s plan.Step, _ []plan.Result) (string, error) {
		cancel()
		<-ctx.Done()
		return "half", ctx.Err()
	}})
	for _, r := range got {
		if r.Status != plan.Cancelled {
			t.Errorf("%s is %s", r.ID, r.Status)
		}
	}
	got = plan.Run(t.Context(), []plan.Step{step("a"), step("b")}, plan.Options{Workers: 2, Timeout: 20 * time.Millisecond, Do: func(ctx context.Context, s plan.Step, _ []plan.Result) (string, error) {
		if s.ID == "b" {
			panic("oops")
		}
		<-ctx.Done()
		return "", ctx.Err()
	}})
	if got[0].Status != plan.Failed || !strings.Contains(got[0].Reason, "took longer") || !strings.Contains(got[1].Reason, "oops") {
		t.Errorf("%+v", got)
	}
}

func TestStepForms(t *testing.T) {
	var steps []plan.Step
	if err := json.Unmarshal([]byte(`["first", {"id":2,"desc":"second","depends_on":1}, {"desc":"third","depends_on":["s1",2]}]`), &steps); err != nil {
		t.Fatal(err)
	}
	steps = plan.Name(steps)
	if steps[0].ID != "s1" || steps[1].ID != "2" || steps[1].DependsOn[0] != "1" || steps[2].ID != "s2" || len(steps[2].DependsOn) != 2 {
		t.Errorf("%+v", steps)
	}
}
