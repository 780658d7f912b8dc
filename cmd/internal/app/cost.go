package app

import (
	"context"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/store"
)

// reserve stops before a request that would go beyond what a session, with the steps of
// its plans, or a day may cost. next is what the request itself is guessed at; it counts
// for other requests of this process until release is called, so that steps that run side
// by side do not go over together.
func (a *App) reserve(ctx context.Context, st *store.Store, session string, next int) (release func(), err error) {
	a.spending.mu.Lock()
	defer a.spending.mu.Unlock()
	for _, c := range []struct {
		key, what, session, day string
		open                    int
	}{
		{"session_tokens", "this session", session, "", a.spending.sessions[session]},
		{"daily_tokens", "today", "", a.opt.Now().Format(time.DateOnly), a.spending.all},
	} {
		limit := a.Config.Int(c.key)
		if limit <= 0 || c.key == "session_tokens" && session == "" {
			continue
		}
		used, err := a.spent(ctx, st, c.session, c.day, nil)
		if err != nil {
			return nil, err
		}
		if used += c.open; used >= limit || used+next > limit {
			return nil, core.Errorf(core.KindLimit, "%s has used %d tokens and the next request needs about %d: the limit %s is %d", c.what, used, next, c.key, limit).
				Hint("raise it with lj config set %s N", c.key)
		}
	}
	if a.spending.sessions == nil {
		a.spending.sessions = map[string]int{}
	}
	a.spending.sessions[session] += next
	a.spending.all += next
	return func() {
		a.spending.mu.Lock()
		defer a.spending.mu.Unlock()
		a.spending.all -= next
		if a.spending.sessions[session] -= next; a.spending.sessions[session] == 0 {
			delete(a.spending.sessions, session)
		}
	}, nil
}

// spending is what requests that are under way are guessed at.
type spending struct {
	mu       sync.Mutex
	all      int
	sessions map[string]int
}

// spent is the tokens of a session or a day, guessed ones too; of some causes, or of all
// with nil.
func (a *App) spent(ctx context.Context, st *store.Store, session, day string, causes map[string]bool) (int, error) {
	costs, err := st.Costs(ctx, session, day)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, x := range costs {
		if causes == nil || causes[x.Cause] {
			n += x.Spent()
		}
	}
	return n, nil
}

// CostLine is what one cause and model cost.
type CostLine struct {
	store.Cost
	Money    *float64 `json:"money"` // nil where no price is set
	Currency string   `json:"currency"`
}

// CostReport is what a conversation and the day have cost so far, and how the work that no
// turn waits for went.
type CostReport struct {
	Lines     []CostLine `json:"lines"` // of the conversation, by cause and model
	Usage     core.Usage `json:"usage"`
	Cached    int        `json:"cached_percent"` // of the prompt tokens
	Money     *float64   `json:"money"`
	Currency  string     `json:"currency"`
	Today     int        `json:"tokens_today"`
	Limits    []Limit    `json:"limits"`
	Estimated bool       `json:"estimated"` // some answers came without figures
	Jobs      []Job      `json:"background"`
}

// Limit is one cap and how much of it is used.
type Limit struct {
	Key   string `json:"key"`
	Used  int    `json:"used"`
	Limit int    `json:"limit"` // 0: none
}

// Costs is what a session has cost, by cause and model.
func (a *App) Costs(ctx context.Context, session string) ([]CostLine, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	list, err := st.Costs(ctx, session, "")
	if err != nil {
		return nil, err
	}
	out := make([]CostLine, 0, len(list))
	in, cached, answer := a.Config.Float("price.prompt"), a.Config.Float("price.cached"), a.Config.Float("price.completion")
	for _, c := range list {
		l := CostLine{Cost: c, Currency: a.Config.String("price.currency")}
		if in != nil && answer != nil {
			low := *in
			if cached != nil {
				low = *cached
			}
			m := (float64(c.PromptTokens-c.CachedTokens+c.Guessed)**in + float64(c.CachedTokens)*low + float64(c.CompletionTokens)**answer) / 1e6
			l.Money = &m
		}
		out = append(out, l)
	}
	return out, nil
}

// CostReport is what a session has cost as /cost shows it.
func (a *App) CostReport(ctx context.Context, session string) (CostReport, error) {
	r := CostReport{Currency: a.Config.String("price.currency")}
	st, err := a.Store(ctx)
	if err != nil {
		return r, err
	}
	if r.Lines, err = a.Costs(ctx, session); err != nil {
		return r, err
	}
	for _, l := range r.Lines {
		r.Usage.Add(l.Usage)
		r.Estimated = r.Estimated || l.Unreported > 0
		if l.Money != nil {
			if r.Money == nil {
				r.Money = new(float64)
			}
			*r.Money += *l.Money
		}
	}
	if r.Usage.PromptTokens > 0 {
		r.Cached = 100 * r.Usage.CachedTokens / r.Usage.PromptTokens
	}
	if r.Today, err = a.spent(ctx, st, "", a.opt.Now().Format(time.DateOnly), nil); err != nil {
		return r, err
	}
	r.Limits = []Limit{
		{"budget_tokens", 0, a.Config.Int("budget_tokens")},
		{"session_tokens", r.Usage.Spent(), a.Config.Int("session_tokens")},
		{"daily_tokens", r.Today, a.Config.Int("daily_tokens")},
	}
	r.Jobs, err = a.Jobs(ctx, session)
	return r, err
}
