package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/term"
)

// resting is a chat that waits for its person: after a while it does the background work.
type resting struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// rest begins the wait. What comes of it is not said: /cost and /compact show it.
func (c *talk) rest(ctx context.Context) {
	after := c.a.IdleAfter()
	if after <= 0 || c.resting != nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &resting{cancel: cancel, done: make(chan struct{})}
	c.resting = r
	conv := c.conv
	go func() {
		defer close(r.done)
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return
		}
		_, _ = c.a.Idle(ctx, conv) // how it went is recorded
	}()
}

// rouse ends the wait, and what was begun in it, before anything else happens.
func (c *talk) rouse() {
	if r := c.resting; r != nil {
		r.cancel()
		<-r.done
		c.resting = nil
	}
}

// jobs shows when each piece of background work last ran and why not.
func (c *talk) jobs(list []app.Job) {
	for _, j := range list {
		when := c.f.p.T("never")
		if !j.At.IsZero() {
			when = j.At.Local().Format("2006-01-02 15:04")
		}
		line := fmt.Sprintf("%-10s %-7s %s", j.Job, j.State, when)
		if j.Upto > 0 {
			line += ", " + c.f.p.T("up to turn %d", j.Upto)
		}
		if j.Reason != "" {
			line += ": " + c.f.p.Tell(oneLine(j.Reason))
		}
		c.face.show(term.Text{Style: term.Dim, Text: line})
	}
}
