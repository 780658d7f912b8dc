package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core/plan"
)

// decidedPlan is the newest plan of a session and how far it got, as it is stored.
type decidedPlan struct {
	Goal  string        `json:"goal"`
	Steps []decidedStep `json:"steps"`
}

type decidedStep struct {
	ID     string `json:"id"`
	Desc   string `json:"desc"`
	Status string `json:"status"`
}

// planProgress stores a plan that begins to run and returns what records each change of a
// step, so that a resumed session knows what is done and what is next.
func (s *turnSession) planProgress(ctx context.Context, goal string, steps []plan.Step) func(id, status string) {
	p := decidedPlan{Goal: goal}
	for _, st := range steps {
		p.Steps = append(p.Steps, decidedStep{ID: st.ID, Desc: st.Desc, Status: "open"})
	}
	var mu sync.Mutex
	save := func() {
		raw, err := json.Marshal(p)
		if err == nil {
			err = s.store.SetPlan(context.WithoutCancel(ctx), s.conv.Session.ID, raw)
		}
		if err != nil {
			s.app.opt.Warn("the plan's progress is not stored: " + err.Error())
		}
	}
	save()
	return func(id, status string) {
		mu.Lock()
		defer mu.Unlock()
		for i := range p.Steps {
			if p.Steps[i].ID == id {
				p.Steps[i].Status = status
			}
		}
		save()
	}
}

// openPlan renders a stored plan when something of it is not done, "" otherwise.
func openPlan(raw json.RawMessage) string {
	var p decidedPlan
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Plan: %s", strings.Join(strings.Fields(p.Goal), " "))
	done := 0
	for _, s := range p.Steps {
		mark := "[ ]"
		switch s.Status {
		case plan.Done:
			mark = "[x]"
			done++
		case "running":
			mark = "[>]"
		}
		fmt.Fprintf(&b, "\n%s %s: %s", mark, s.ID, strings.Join(strings.Fields(s.Desc), " "))
		if mark == "[ ]" && s.Status != "open" {
			fmt.Fprintf(&b, " (%s)", s.Status)
		}
	}
	if done == len(p.Steps) {
		return ""
	}
	return b.String()
}
