package app

import (
	"context"
	"encoding/json"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/store"
)

// budgetShare is how much of the model's window a request may take: the rest is for the
// answer and for what the estimate misses.
const budgetShare = 0.8

// messageBudget is the tokens that the messages of a request may have.
func (c *Conversation) messageBudget() int {
	window := c.app.ContextWindow()
	n := min(int(float64(window)*budgetShare), window-c.app.Config.Int("max_tokens"))
	return max(n-estimateTools(c.Session.Tools)-history.Estimate(c.Session.System), 1000)
}

func estimateTools(raw json.RawMessage) int { return history.Estimate(string(raw)) }

// tokens guesses the tokens of messages, corrected by what the server reported.
func (c *Conversation) tokens(msgs []json.RawMessage) int {
	n := 0
	for _, m := range msgs {
		n += history.EstimateMessage(m)
	}
	return c.app.meter.Correct(n)
}

// makeRoom begins a new epoch, at a turn's boundary, when the next request would not fit.
func (c *Conversation) makeRoom(ctx context.Context, st *store.Store, prompt string, emit func(core.Event)) error {
	if len(c.history) == 0 || c.tokens(c.history)+c.app.meter.Correct(history.Estimate(prompt)) <= c.messageBudget() {
		return nil
	}
	return c.newEpoch(ctx, st, emit)
}

// fits says whether a running turn may send its messages as they are.
func (c *Conversation) fits(msgs []json.RawMessage, lastTokens, lastBytes int) bool {
	if len(msgs) == 0 {
		return true
	}
	n := 0
	if lastTokens > 0 && lastBytes > 0 {
		// The report is exact for what was sent; only what came after is guessed.
		sent := 0
		i := 0
		for ; i < len(msgs) && sent < lastBytes; i++ {
			sent += len(msgs[i])
		}
		n = lastTokens + c.tokens(msgs[i:])
		return n <= int(float64(c.app.ContextWindow())*budgetShare)
	}
	return c.tokens(msgs[1:]) <= c.messageBudget()
}

// newEpoch records a new beginning of the conversation in its log and goes on from it.
func (c *Conversation) newEpoch(ctx context.Context, st *store.Store, emit func(core.Event)) error {
	msgs, err := st.Messages(ctx, c.Session.ID)
	if err != nil {
		return err
	}
	before := c.tokens(raws(history.Current(msgs)))
	todo, err := st.Todo(ctx, c.Session.ID)
	if err != nil {
		return err
	}
	e := history.Begin(msgs, history.EpochOptions{
		Budget: c.messageBudget(),
		Tokens: func(m json.RawMessage) int { return c.app.meter.Correct(history.EstimateMessage(m)) },
		ToolResult: func(id, text string) json.RawMessage {
			return llm.EncodeToolResult(id, text)
		},
		User:  llm.EncodeUser,
		State: openTodo(todo),
	})
	// What was recorded is in force, also when the turn is being cancelled.
	if err := st.Append(context.WithoutCancel(ctx), c.Session.ID, e.Messages...); err != nil {
		return err
	}
	c.history = raws(e.Messages)
	data, err := json.Marshal(map[string]any{"tokens_before": before, "tokens_after": c.tokens(c.history), "turns_in_digest": e.Turns})
	if err != nil {
		return err
	}
	emit(core.Event{Type: core.EventCompact, Data: data})
	return nil
}

func raws(msgs []core.StoredMessage) []json.RawMessage {
	out := make([]json.RawMessage, len(msgs))
	for i, m := range msgs {
		out[i] = m.Raw
	}
	return out
}
