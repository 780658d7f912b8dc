package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/store"
)

// EvolveKinds are what one pass of evolve can be limited to. Titles and summaries of
// conversations are part of every pass that is not limited.
func EvolveKinds() []string {
	return []string{"tools", "memory", "prompts", "skills", "docs", "titles", "summaries"}
}

// EvolveOptions say how far a pass goes. The zero value does all that waits.
type EvolveOptions struct {
	DryRun bool
	Only   []string
	Budget int // tokens of this pass; 0: evolve.daily_tokens alone counts
	// Progress takes a line for the person about each piece of work; nil drops it.
	Progress func(w Work)
}

// Proposal is a change to lj that waits for a decision.
type Proposal struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Artefact string `json:"artefact"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
}

// Work is one piece of background work.
type Work struct {
	Kind     string `json:"kind"` // title, summary, extraction
	Session  string `json:"session_id,omitempty"`
	State    string `json:"state"` // waits, done, failed, skipped
	Reason   string `json:"reason,omitempty"`
	Requests int    `json:"requests"`
	Tokens   int    `json:"tokens"`
}

// Evolved is what one pass did.
type Evolved struct {
	Examined map[string]int `json:"examined"`
	Proposed []Proposal     `json:"proposed"`
	Accepted []Proposal     `json:"accepted"`
	Refused  []Proposal     `json:"refused"`
	Requests int            `json:"requests"`
	Tokens   int            `json:"tokens"`
	Work     []Work         `json:"work"`
	Memories []Remembered   `json:"memories,omitempty"` // what extraction saved
	Reason   string         `json:"reason,omitempty"`   // "nothing new", or what stopped it
}

// backgroundCauses are the causes that evolve.daily_tokens limits.
var backgroundCauses = map[string]bool{"summary": true, "title": true, "extraction": true, "reflect": true, "evolve": true}

// allowance is how many tokens background work may still use: today, and in this pass.
func (a *App) allowance(ctx context.Context, st *store.Store, budget int) (int, error) {
	used, err := a.spent(ctx, st, "", a.opt.Now().Format(time.DateOnly), backgroundCauses)
	if err != nil {
		return 0, err
	}
	daily := a.Config.Int("evolve.daily_tokens")
	left := daily - used
	if left <= 0 {
		return 0, core.Errorf(core.KindLimit, "background work has used %d tokens today, the limit evolve.daily_tokens is %d", used, daily).
			Hint("raise it with lj config set evolve.daily_tokens N")
	}
	if budget > 0 {
		left = min(left, budget)
	}
	return left, nil
}

// Evolve does the background work that waits: titles, summaries of conversations,
// extraction of memories. It may be stopped at any time and goes on where it was. Without
// anything new there is no request. A limit is an error of kind core.KindLimit; what was
// done before it is in the result.
func (a *App) Evolve(ctx context.Context, o EvolveOptions) (Evolved, error) {
	out := Evolved{Examined: map[string]int{}, Proposed: []Proposal{}, Accepted: []Proposal{}, Refused: []Proposal{}, Work: []Work{}}
	for _, k := range o.Only {
		if !slices.Contains(EvolveKinds(), k) {
			e := core.Errorf(core.KindUsage, "evolve knows nothing of %q", k)
			if n := core.Nearest(k, EvolveKinds()); n != "" {
				return out, e.Hint("did you mean %s?", n)
			}
			return out, e.Hint("kinds: %s", strings.Join(EvolveKinds(), ", "))
		}
	}
	wanted := func(k string) bool { return len(o.Only) == 0 || slices.Contains(o.Only, k) }
	st, err := a.Store(ctx)
	if err != nil {
		return out, err
	}
	free, err := a.alone("evolve.lock")
	if err != nil {
		return out, core.Errorf(core.KindFailed, "another lj does the background work now").Hint("try again when it has ended")
	}
	defer free()
	w := &worker{a: a, st: st, out: &out, o: o, ask: a.Cheap()}
	if wanted("titles") {
		list, err := st.Untitled(ctx)
		if err != nil {
			return out, err
		}
		out.Examined["titles"] = len(list)
		for _, s := range list {
			if err := w.title(ctx, s); err != nil {
				return w.end(err)
			}
		}
	}
	if wanted("summaries") {
		list, err := st.Unsummarised(ctx, summaryLeast, int64(float64(a.ContextWindow())*budgetShare*summaryLeastShare))
		if err != nil {
			return out, err
		}
		out.Examined["summaries"] = len(list)
		for _, s := range list {
			if err := w.summary(ctx, s, false); err != nil {
				return w.end(err)
			}
		}
	}
	if wanted("memory") {
		if err := w.extraction(ctx, ""); err != nil {
			return w.end(err)
		}
	}
	return w.end(nil)
}

// worker does single pieces of background work under one limit.
type worker struct {
	a      *App
	st     *store.Store
	o      EvolveOptions
	out    *Evolved
	ask    *Cheap
	failed int
}

func (w *worker) end(err error) (Evolved, error) {
	out := *w.out
	switch {
	case err != nil:
		out.Reason = err.Error()
	case w.failed > 0:
		err = core.Errorf(core.KindFailed, "%d of %d pieces of work failed", w.failed, len(out.Work)).Hint("the next pass tries them again")
		out.Reason = err.Error()
	case len(out.Work) == 0:
		out.Reason = "nothing new"
	}
	return out, err
}

// limit sets what the next request may still use.
func (w *worker) limit(ctx context.Context) error {
	n, err := w.a.allowance(ctx, w.st, 0)
	if err != nil {
		return err
	}
	w.ask.Most = w.ask.Usage.Spent() + n
	if w.o.Budget > 0 {
		w.ask.Most = min(w.ask.Most, w.o.Budget)
	}
	return nil
}

// do runs one piece of work. Its error is recorded and makes the pass go on, unless nothing
// else could work either.
func (w *worker) do(ctx context.Context, kind string, s core.Session, fn func() (upto int, note string, err error)) error {
	work := Work{Kind: kind, Session: s.ID, State: "waits"}
	if w.o.DryRun {
		w.add(work)
		return nil
	}
	if err := w.limit(ctx); err != nil {
		return err
	}
	before := w.ask.Usage
	upto, note, err := fn()
	work.Requests, work.Tokens = w.ask.Usage.Requests-before.Requests, w.ask.Usage.Spent()-before.Spent()
	work.State, work.Reason = store.JobDone, note
	stop := false
	if err != nil {
		upto, work.State, work.Reason = s.Turns, store.JobFailed, err.Error()
		stop = ctx.Err() != nil || core.KindOf(err) != core.KindFailed
	}
	if ctx.Err() == nil {
		if rerr := w.st.RecordJob(context.WithoutCancel(ctx), Job{Job: kind, Session: s.ID, State: work.State, Reason: work.Reason, Upto: upto}); rerr != nil {
			return rerr
		}
	}
	w.out.Requests += work.Requests
	w.out.Tokens += work.Tokens
	w.add(work)
	if err != nil {
		w.failed++
	}
	if stop {
		return err
	}
	return nil
}

func (w *worker) add(x Work) {
	w.out.Work = append(w.out.Work, x)
	if w.o.Progress != nil {
		w.o.Progress(x)
	}
}

func (w *worker) title(ctx context.Context, s core.Session) error {
	return w.do(ctx, JobTitle, s, func() (int, string, error) {
		t, err := w.a.title(ctx, w.st, w.ask, s)
		return s.Turns, t, err
	})
}

func (w *worker) summary(ctx context.Context, s core.Session, idle bool) error {
	past, after, due, err := w.a.summaryDue(ctx, w.st, s, idle)
	if err != nil || !due {
		return err
	}
	return w.do(ctx, JobSummary, s, func() (int, string, error) {
		upto, err := w.a.summarise(ctx, w.st, w.ask, s, past, after)
		return upto, fmt.Sprintf("turns %d to %d", after+1, upto), err
	})
}

// extraction reads what is new for memory, in all conversations.
func (w *worker) extraction(ctx context.Context, _ string) error {
	if !w.a.Config.Bool("memory.enabled") || !w.a.Config.Bool("memory.extract") {
		return nil
	}
	pending, err := w.st.MemoryPending(ctx, 1000)
	if err != nil {
		return err
	}
	w.out.Examined["memory"] = len(pending)
	if len(pending) == 0 {
		return nil
	}
	if w.o.DryRun {
		for _, id := range pending {
			w.add(Work{Kind: JobExtraction, Session: id, State: "waits"})
		}
		return nil
	}
	if err := w.limit(ctx); err != nil {
		return err
	}
	left := w.ask.Most - w.ask.Usage.Spent()
	if left <= 0 {
		return core.Errorf(core.KindLimit, "%d tokens are used, the limit is %d", w.ask.Usage.Spent(), w.ask.Most)
	}
	res, err := w.a.Extract(ctx, ExtractOptions{Tokens: left, Events: func(e core.Event) {
		w.out.Memories = append(w.out.Memories, Remembered{e.Action, e.ID, e.Content})
	}})
	work := Work{Kind: JobExtraction, State: store.JobDone, Requests: res.Requests, Tokens: res.Tokens,
		Reason: firstOf(res.Reason, fmt.Sprintf("%d conversations, %d kept, %d dropped", res.Sessions, len(res.Results), res.Dropped))}
	if err != nil {
		work.State, work.Reason = store.JobFailed, err.Error()
		w.failed++
	}
	if err == nil && strings.Contains(res.Reason, "limit") {
		// A limit stopped it: what was read counts, the rest waits.
		work.State, err = store.JobFailed, core.Errorf(core.KindLimit, "%s", res.Reason)
	}
	w.ask.Usage.Requests += res.Requests
	w.ask.Usage.PromptTokens += res.Tokens
	w.out.Requests += res.Requests
	w.out.Tokens += res.Tokens
	w.add(work)
	if ctx.Err() == nil {
		if rerr := w.st.RecordJob(context.WithoutCancel(ctx), Job{Job: JobExtraction, State: work.State, Reason: work.Reason}); rerr != nil {
			return rerr
		}
	}
	if err != nil && core.KindOf(err) == core.KindFailed {
		return nil
	}
	return err
}

// IdleAfter is how long a chat must be silent before background work begins; 0 is never.
func (a *App) IdleAfter() time.Duration { return a.Config.Seconds("evolve.idle") }

// Idle does the background work of a chat that is silent: the title of the conversation,
// its summary when enough is new, extraction of memories. Cancel ctx and wait for it to
// return before the conversation goes on. Nothing is said to the person: /cost and
// /compact show when each job last ran and why not.
func (a *App) Idle(ctx context.Context, c *Conversation) (Evolved, error) {
	out := Evolved{Work: []Work{}}
	st, err := a.Store(ctx)
	if err != nil {
		return out, err
	}
	free, err := a.alone("evolve.lock")
	if err != nil {
		out.Reason = "another lj does it"
		return out, nil
	}
	defer free()
	out.Examined = map[string]int{}
	w := &worker{a: a, st: st, out: &out, ask: a.Cheap()}
	if !c.fresh && c.Session.Kind != "step" {
		s, err := st.Session(ctx, c.Session.ID)
		if err != nil {
			return out, err
		}
		jobs, err := st.Jobs(ctx, s.ID)
		if err != nil {
			return out, err
		}
		waits := func(kind string) bool { // what failed is not tried again until something is new
			return slices.ContainsFunc(jobs, func(j Job) bool { return j.Job == kind && j.State == store.JobFailed && j.Upto >= s.Turns })
		}
		if s.TitleBy == "" && s.Turns > 0 && !waits(JobTitle) {
			if err := w.title(ctx, s); err != nil {
				return w.end(err)
			}
			if s, err = st.Session(ctx, s.ID); err != nil {
				return w.end(err)
			}
			c.Session.Title, c.Session.TitleBy = s.Title, s.TitleBy
		}
		if !waits(JobSummary) {
			if err := w.summary(ctx, s, true); err != nil {
				return w.end(err)
			}
		}
	}
	err = w.extraction(ctx, c.Session.ID)
	for _, m := range out.Memories { // the next turn says so
		c.mem.saved = append(c.mem.saved, core.Event{Type: core.EventMemory, Action: m.Action, ID: m.ID, Content: m.Content})
	}
	return w.end(err)
}
