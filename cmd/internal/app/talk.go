package app

import (
	"context"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/prompts"
)

// CheckRole says whether there is a role of this name.
func CheckRole(name string) error {
	_, err := prompts.Role(name)
	return err
}

// WindowShare is how much of the model's window the conversation takes, in percent.
func (c *Conversation) WindowShare() int {
	n := c.tokens(c.history) + estimateTools(c.Session.Tools)
	return min(100, 100*n/max(1, c.app.ContextWindow()))
}

// Compact begins a new epoch now and returns the tokens before and after. Where that would gain
// nothing, nothing changes and the two are equal.
func (c *Conversation) Compact(ctx context.Context) (before, after int, err error) {
	st, err := c.app.Store(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(c.history) == 0 {
		return 0, 0, core.Errorf(core.KindUsage, "there is nothing to make room in yet")
	}
	before = c.tokens(c.history)
	e, _, _, err := c.epoch(ctx, st, false)
	if err != nil {
		return before, before, err
	}
	if c.tokens(raws(e.Messages)) >= before && !c.unsound {
		return before, before, nil // it would cost the server's cache and gain nothing
	}
	if err := c.newEpoch(ctx, st, c.history, false, func(core.Event) {}); err != nil {
		return before, before, err
	}
	return before, c.tokens(c.history), nil
}

// SetTitle names the conversation; a name given by the user is never replaced.
func (c *Conversation) SetTitle(ctx context.Context, title string) error {
	st, err := c.app.Store(ctx)
	if err != nil {
		return err
	}
	c.Session.Title, c.Session.TitleBy = title, "user"
	if c.fresh {
		return nil // stored with the first turn
	}
	return st.SetTitle(ctx, c.Session.ID, title, "user")
}
