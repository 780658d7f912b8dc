package app

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/core/llm"
)

// Cheap asks the cheap model: requests that are no turn, without tools. Its Usage is what
// it has cost so far.
type Cheap struct {
	a *App
	// Session is the conversation that the costs are counted with, "" for none.
	Session string
	// Most stops before a request once so many tokens were used; 0 is no limit.
	Most  int
	Usage core.Usage
}

// Cheap returns an asker of the cheap model. It makes no connection.
func (a *App) Cheap() *Cheap { return &Cheap{a: a} }

// CheapModel is the configured model for small work: cheap_model, else that of the preset
// where the main model is the preset's own choice, else the main model.
func (a *App) CheapModel(ctx context.Context) (*llm.Client, string, error) {
	name := a.Config.String("cheap_model")
	if name == "" && a.Config.String("model") == "" {
		if s, err := a.FindServer(); err == nil && s.Known {
			name = s.Preset.CheapModel
		}
	}
	return a.Client(ctx, name)
}

// Ask sends one request, a system text and a user text, and returns the answer's text. It
// is counted under its cause, and refused beyond the limits of the session, the day and
// the asker.
func (c *Cheap) Ask(ctx context.Context, cause, system, user string) (string, error) {
	client, model, err := c.a.CheapModel(ctx)
	if err != nil {
		return "", err
	}
	st, err := c.a.Store(ctx)
	if err != nil {
		return "", err
	}
	next := c.a.meter.Correct(history.Estimate(system) + history.Estimate(user) + 8)
	if used := c.Usage.Spent(); c.Most > 0 && (used >= c.Most || used+next > c.Most) {
		return "", core.Errorf(core.KindLimit, "%d tokens are used and the next request needs about %d: the limit is %d", used, next, c.Most)
	}
	release, err := c.a.reserve(ctx, st, c.Session, next)
	if err != nil {
		return "", err
	}
	defer release()
	masks := c.a.masker()
	res, err := client.Stream(ctx, llm.Request{
		Model: model, Cause: cause, MaxTokens: c.a.Config.Int("max_tokens"), Temperature: c.a.Config.Float("temperature"),
		Messages: []json.RawMessage{llm.EncodeSystem(system), llm.EncodeUser(masks.Mask(user))},
	}, func(llm.Delta) {})
	if res.Usage.Requests > 0 {
		res.Usage.Guessed = res.Usage.Unreported * (next + history.Estimate(res.Message.Content))
		c.Usage.Add(res.Usage)
		if cerr := st.AddCost(context.WithoutCancel(ctx), cause, model, c.Session, res.Usage); cerr != nil && err == nil {
			err = cerr
		}
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(res.Message.Content), nil
}
