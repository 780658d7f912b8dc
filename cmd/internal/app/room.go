package app

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/prompts"
	"github.com/lingjiyidong/lj/store"
)

// budgetShare is how much of the model's window a request may take: the rest is for the
// answer and for what the estimate misses.
const budgetShare = 0.8

// messageBudget is the tokens that the messages of a request may have.
func (c *Conversation) messageBudget() int {
	window := c.app.ContextWindow()
	n := min(int(float64(window)*budgetShare), window-c.app.Config.Int("max_tokens"))
	n -= estimateTools(c.Session.Tools) + history.Estimate(c.Session.System)
	if c.refused > 0 {
		n = min(n, c.refused)
	}
	return max(n, 1000)
}

// tooLong begins an epoch in the middle of a turn. Where the server refused what the
// settings allow, its window is smaller than they say: from now on less is sent.
func (c *Conversation) tooLong(ctx context.Context, st *store.Store, msgs []json.RawMessage, emit func(core.Event)) error {
	if n := c.tokens(msgs); n <= c.messageBudget() {
		c.refused = n * 3 / 4
	}
	return c.newEpoch(ctx, st, msgs, true, emit)
}

func estimateTools(raw json.RawMessage) int { return history.Estimate(string(raw)) }

// estimate guesses the tokens of one message, each only once: at two thousand messages
// that is what a request costs beside its encoding.
func (c *Conversation) estimate(m json.RawMessage) int {
	if len(m) == 0 {
		return 0
	}
	c.sizesMu.Lock()
	defer c.sizesMu.Unlock()
	if n, ok := c.sizes[&m[0]]; ok {
		return n
	}
	n := history.EstimateMessage(m)
	if c.sizes == nil {
		c.sizes = map[*byte]int{}
	}
	c.sizes[&m[0]] = n
	return n
}

// tokens guesses the tokens of messages, corrected by what the server reported.
func (c *Conversation) tokens(msgs []json.RawMessage) int {
	n := 0
	for _, m := range msgs {
		n += c.estimate(m)
	}
	return c.app.meter.Correct(n)
}

// makeRoom begins a new epoch, at a turn's boundary, when the next request would not fit.
func (c *Conversation) makeRoom(ctx context.Context, st *store.Store, prompt string, emit func(core.Event)) error {
	if len(c.history) == 0 {
		return nil
	}
	if !c.unsound && c.tokens(c.history)+c.app.meter.Correct(history.Estimate(prompt)) <= c.messageBudget() {
		return nil
	}
	return c.newEpoch(ctx, st, c.history, false, emit)
}

// fits says whether a running turn may send its messages as they are.
func (c *Conversation) fits(msgs []json.RawMessage, lastTokens, lastSent int) bool {
	if len(msgs) == 0 {
		return true
	}
	if lastTokens > 0 && lastSent <= len(msgs) {
		// The report is exact for what was sent; only what came after is guessed.
		return lastTokens+c.tokens(msgs[lastSent:]) <= int(float64(c.app.ContextWindow())*budgetShare)
	}
	return c.tokens(msgs[1:]) <= c.messageBudget()
}

// keptBytes is how many bytes of messages an epoch can keep for each token of the budget;
// more is not even read.
const keptBytes = 3

// newEpoch records a new beginning of the conversation in its log and goes on from it.
// current is what the last request held; running says that a turn is being answered.
func (c *Conversation) newEpoch(ctx context.Context, st *store.Store, current []json.RawMessage, running bool, emit func(core.Event)) error {
	before := c.tokens(current)
	e, msgs, sums, err := c.epoch(ctx, st, running)
	if err != nil {
		return err
	}
	return c.goOnFrom(ctx, st, e, msgs, sums, before, emit)
}

// epoch makes a new beginning of the conversation, which is not recorded yet, of the newest
// part of its log and its summaries.
func (c *Conversation) epoch(ctx context.Context, st *store.Store, running bool) (e history.Epoch, msgs []core.StoredMessage, sums []store.Summary, err error) {
	sizes, err := st.TurnSizes(ctx, c.Session.ID)
	if err != nil {
		return e, nil, nil, err
	}
	whole, from, bytes := 0, store.EndOfLog, 0
	for _, t := range sizes {
		if bytes += t.Bytes; bytes > c.messageBudget()*keptBytes && from != store.EndOfLog {
			break
		}
		whole, from = t.Turn, min(from, t.First)
	}
	if msgs, err = st.LogFrom(ctx, c.Session.ID, from, false); err != nil {
		return e, nil, nil, err
	}
	state, err := c.state(ctx, st)
	if err != nil {
		return e, nil, nil, err
	}
	if sums, err = st.Summaries(ctx, c.Session.ID); err != nil {
		return e, nil, nil, err
	}
	var texts []history.Summary
	for _, s := range sums {
		texts = append(texts, history.Summary{From: s.From, Upto: s.Upto, Semantic: s.Semantic, Tools: s.Tools})
	}
	e = history.Begin(msgs, history.EpochOptions{
		Budget: c.messageBudget(),
		Tokens: func(m json.RawMessage) int { return c.app.meter.Correct(history.EstimateMessage(m)) },
		ToolResult: func(id, text string) json.RawMessage {
			return llm.EncodeToolResult(id, text)
		},
		User:  llm.EncodeUser,
		State: state, Facts: c.app.facts(), Summaries: texts, Running: running, Whole: whole,
	})
	return e, msgs, sums, nil
}

// goOnFrom records a new beginning and goes on from it.
func (c *Conversation) goOnFrom(ctx context.Context, st *store.Store, e history.Epoch, msgs []core.StoredMessage, sums []store.Summary, before int, emit func(core.Event)) error {
	// What was recorded is in force, also when the turn is being cancelled.
	if err := st.Append(context.WithoutCancel(ctx), c.Session.ID, e.Messages...); err != nil {
		return err
	}
	c.history, c.unsound, c.mentioned = raws(e.Messages), false, nil
	c.past = history.PastTurns(append(msgs, e.Messages...), false)
	c.summarised = 0
	if len(sums) > 0 {
		c.summarised = sums[len(sums)-1].Upto
	}
	c.sizesMu.Lock()
	c.sizes = nil
	c.sizesMu.Unlock()
	data, err := json.Marshal(map[string]any{"tokens_before": before, "tokens_after": c.tokens(c.history), "turns_in_digest": e.Turns, "turns_in_summary": e.Covered})
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

// mentionShare is how much of the budget earlier turns may take in one message, and
// mentionMost how many tokens at most.
const (
	mentionShare = 0.06
	mentionMost  = 3000
)

var mentionMark = regexp.MustCompile(`(?m)^\[turn (\d+)[,\]]`)

// earlier is the block of earlier turns that bear on a message and are no longer part of
// the conversation; "" for none. What was mentioned since the last epoch is not repeated.
func (c *Conversation) earlier(prompt string) string {
	if len(c.past) == 0 {
		return ""
	}
	if c.mentioned == nil {
		c.mentioned = map[int]bool{}
	}
	room := min(int(float64(c.messageBudget())*mentionShare), mentionMost)
	list := history.Relevant(c.past, prompt, c.summarised, room, func(n int) bool { return c.mentioned[n] })
	if len(list) == 0 {
		return ""
	}
	texts := make([]string, len(list))
	for i, m := range list {
		c.mentioned[m.N] = true
		texts[i] = m.Text
	}
	return prompts.Block("earlier", `note="earlier turns of this conversation that bear on this message; nothing here is a new request"`, strings.Join(texts, "\n\n"))
}

// wasMentioned finds the turns that stored messages already mention.
func wasMentioned(msgs []core.StoredMessage) map[int]bool {
	out := map[int]bool{}
	for _, m := range msgs {
		if m.Role != core.RoleUser || m.Note == history.NoteEpoch || !bytes.Contains(m.Raw, []byte("<earlier ")) {
			continue
		}
		full, err := llm.ParseMessage(m.Raw)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(full.Content, "<earlier ")
		block, _, ok2 := strings.Cut(rest, "</earlier>")
		if !ok || !ok2 {
			continue
		}
		for _, f := range mentionMark.FindAllStringSubmatch(block, -1) {
			if n, err := strconv.Atoi(f[1]); err == nil {
				out[n] = true
			}
		}
	}
	return out
}

// state is what is decided and open in a session: its list and its plan with their
// progress, "" for nothing.
func (c *Conversation) state(ctx context.Context, st *store.Store) (string, error) {
	return stateOf(ctx, st, c.Session.ID)
}

func stateOf(ctx context.Context, st *store.Store, session string) (string, error) {
	todo, err := st.Todo(ctx, session)
	if err != nil {
		return "", err
	}
	raw, err := st.Plan(ctx, session)
	if err != nil {
		return "", err
	}
	var parts []string
	if s := openTodo(todo); s != "" {
		parts = append(parts, "Task list:\n"+s)
	}
	if s := openPlan(raw); s != "" {
		parts = append(parts, s)
	}
	return strings.Join(parts, "\n"), nil
}
