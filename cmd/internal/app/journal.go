package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/prompts"
	"github.com/lingjiyidong/lj/store"
)

// JournalEntry is one change of lj to what it is: a tool, the prompt, a memory, a summary.
type JournalEntry struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Artefact string    `json:"artefact"`
	State    string    `json:"state"`
	Why      string    `json:"why"`
	Evidence string    `json:"evidence"`
	Cost     *int      `json:"cost"`   // tokens of requests made for it alone; null where it is not known
	Revert   string    `json:"revert"` // the command that takes it back, "" for none
}

// BadEntry is an entry that what it speaks of does not bear out.
type BadEntry struct {
	JournalEntry
	Problem string `json:"problem"`
}

// JournalFilter narrows Journal. The zero value is everything.
type JournalFilter struct {
	ID       string
	Artefact string
	Limit    int
}

// entry is a journal entry with its check.
type entry struct {
	JournalEntry
	check func() error
}

// Journal lists what changed, newest first. An unknown ID is an error that wraps
// core.ErrNotFound.
func (a *App) Journal(ctx context.Context, f JournalFilter) ([]JournalEntry, error) {
	all, err := a.journal(ctx)
	if err != nil {
		return nil, err
	}
	out := []JournalEntry{}
	for _, e := range all {
		if f.ID != "" && e.ID != f.ID || f.Artefact != "" && e.Artefact != f.Artefact && !strings.HasPrefix(e.Artefact, f.Artefact+"-") {
			continue
		}
		out = append(out, e.JournalEntry)
	}
	if f.ID != "" && len(out) == 0 {
		return nil, core.Errorf(core.KindNotFound, "journal entry %s: %w", f.ID, core.ErrNotFound).Hint("lj evolve log lists them")
	}
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, nil
}

// VerifyJournal holds every entry against what it speaks of, oldest first, and returns the
// first that does not agree, nil for none, and how many were looked at.
func (a *App) VerifyJournal(ctx context.Context) (*BadEntry, int, error) {
	all, err := a.journal(ctx)
	if err != nil {
		return nil, 0, err
	}
	slices.Reverse(all)
	for i, e := range all {
		if e.check == nil {
			continue
		}
		if err := e.check(); err != nil {
			return &BadEntry{e.JournalEntry, err.Error()}, i + 1, nil
		}
		if ctx.Err() != nil {
			return nil, i + 1, context.Cause(ctx)
		}
	}
	return nil, len(all), nil
}

// journal reads all entries, newest first.
func (a *App) journal(ctx context.Context) ([]entry, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	var out []entry
	versions, err := st.ToolVersions(ctx, "")
	if err != nil {
		return nil, err
	}
	accepted := map[string]bool{}
	for _, v := range versions {
		e := entry{JournalEntry: JournalEntry{ID: fmt.Sprintf("t%d", v.ID), Time: v.Time, Kind: "tool.save", Artefact: v.Name, State: v.Status, Why: v.Message}}
		e.Evidence = stepsOf(v.Report)
		if v.Status == core.VersionAccepted {
			accepted[v.Name+" "+v.Version] = true
			e.Evidence = strings.TrimSpace(fmt.Sprintf("%s, commit %.12s, program %.12s; %s", v.Version, v.Commit, v.SHA256, e.Evidence))
			e.Revert = "lj tools rollback " + v.Name
			e.check = func() error {
				kit, err := a.Toolkit(ctx)
				if err != nil {
					return err
				}
				return kit.Verify(v)
			}
		} else {
			e.Why = firstOf(v.Reason, v.Message)
		}
		out = append(out, e)
	}
	changes, err := st.Changes(ctx, "", 1<<30)
	if err != nil {
		return nil, err
	}
	records, err := st.Tools(ctx)
	if err != nil {
		return nil, err
	}
	newest := map[string]bool{}
	for _, c := range changes { // newest first
		first := !newest[c.Name]
		newest[c.Name] = true
		if c.Kind == "tool.save" && c.State != core.ChangeOpen && c.State != core.ChangeCommitted {
			continue // told by the version
		}
		e := entry{JournalEntry: JournalEntry{ID: fmt.Sprintf("c%d", c.ID), Time: c.At, Kind: c.Kind, Artefact: c.Name, State: c.State, Why: c.Note}}
		if c.Step != "" {
			e.Evidence = "step " + c.Step
		}
		if first && strings.HasPrefix(c.Kind, "tool.") {
			e.check = func() error {
				for _, r := range records {
					if r.Name == c.Name && r.Version != "" && !accepted[r.Name+" "+r.Version] {
						return fmt.Errorf("%s is the live version, and no such version was accepted", r.Version)
					}
				}
				return nil
			}
		}
		out = append(out, e)
	}
	versionsOf, err := st.Prompts(ctx)
	if err != nil {
		return nil, err
	}
	known := map[int]bool{0: true, prompts.BuiltinVersion: true}
	for _, p := range versionsOf {
		known[p.Version] = true
	}
	for _, p := range versionsOf {
		e := entry{JournalEntry: JournalEntry{ID: fmt.Sprintf("p%d", p.Version), Time: p.CreatedAt, Kind: "prompt.set", Artefact: "prompt", State: "kept", Why: p.Reason,
			Evidence: fmt.Sprintf("version %d, %d bytes, after version %d", p.Version, len(p.Content), p.Parent), Revert: fmt.Sprintf("lj prompts rollback %d", max(p.Parent, 1)), Cost: new(int)}}
		if p.Active {
			e.State = "active"
		}
		e.check = func() error {
			if p.Parent != 0 && (!known[p.Parent] || p.Parent >= p.Version) {
				return fmt.Errorf("version %d, which it came after, is not there", p.Parent)
			}
			return prompts.Check(p.Content)
		}
		out = append(out, e)
	}
	mem, err := st.MemoryChanges(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range mem {
		e := entry{JournalEntry: JournalEntry{ID: fmt.Sprintf("m%d", m.ID), Time: m.At, Kind: "memory." + m.Action, Artefact: "memory:" + idText(m.Memory), State: "done",
			Why: m.Detail, Evidence: m.Content}}
		if m.Other != 0 {
			e.Evidence += fmt.Sprintf(" (memory:%d)", m.Other)
		}
		if m.Action == "created" {
			e.Revert = "lj memory rm " + idText(m.Memory)
		}
		e.check = func() error {
			if m.Gone {
				return fmt.Errorf("memory %d is not there, and its history was not erased with it", m.Memory)
			}
			return nil
		}
		out = append(out, e)
	}
	sums, err := st.AllSummaries(ctx)
	if err != nil {
		return nil, err
	}
	last := map[string]int{}
	slices.SortFunc(sums, func(x, y store.Summary) int {
		return cmp.Or(strings.Compare(x.Session, y.Session), cmp.Compare(x.From, y.From))
	})
	for _, s := range sums {
		before := last[s.Session]
		last[s.Session] = s.Upto
		e := entry{JournalEntry: JournalEntry{ID: fmt.Sprintf("s%d", s.ID), Time: s.At, Kind: "summary", Artefact: "session:" + s.Session, State: "done",
			Why: fmt.Sprintf("turns %d to %d", s.From, s.Upto), Evidence: "model " + s.Model, Cost: s.Tokens}}
		e.check = func() error {
			if s.From <= before || s.Upto < s.From {
				return fmt.Errorf("turns %d to %d overlap what is summarised already", s.From, s.Upto)
			}
			return nil
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(x, y entry) int { return cmp.Or(y.Time.Compare(x.Time), strings.Compare(y.ID, x.ID)) })
	return out, nil
}

// stepsOf names the steps of a save's report with their times.
func stepsOf(report json.RawMessage) string {
	var r evolve.Report
	if json.Unmarshal(report, &r) != nil {
		return ""
	}
	var parts []string
	for _, s := range r.Steps {
		mark := "ok"
		if !s.OK {
			mark = "failed"
		}
		parts = append(parts, s.Step+" "+mark)
	}
	return strings.Join(parts, ", ")
}
