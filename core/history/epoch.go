package history

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// The shares of a budget that a new epoch begins with: what stays word for word, and the
// digest of the rest. Together they leave more than half of the budget to grow into, so
// that epochs are rare.
const (
	keepShare   = 0.25
	digestShare = 0.12
)

// Notes of stored messages that belong to epochs.
const (
	NoteEpoch = "epoch" // the digest that a new epoch begins with
	NoteCopy  = "copy"  // a message that the new epoch begins with, word for word or shortened
)

// EpochOptions are what Begin needs. Budget is needed.
type EpochOptions struct {
	// Budget is the tokens that messages may have.
	Budget int
	// Tokens guesses the tokens of a message; EstimateMessage when nil.
	Tokens func(json.RawMessage) int
	// ToolResult makes the bytes of a tool message with another text.
	ToolResult func(callID, text string) json.RawMessage
	// User makes the bytes of a user message.
	User func(text string) json.RawMessage
	// State is what is decided and open (todo, plan), "" for nothing.
	State string
}

// Epoch is a new beginning of a conversation: a digest of what was before, and the newest
// messages.
type Epoch struct {
	Messages []core.StoredMessage // the digest first; all to be appended to the log
	Turns    int                  // turns that only the digest speaks of
}

// Log drops from a session's stored messages what epochs made: what is left is everything
// that was ever said, once.
func Log(msgs []core.StoredMessage) []core.StoredMessage {
	var out []core.StoredMessage
	for _, m := range msgs {
		if m.Note != NoteEpoch && m.Note != NoteCopy {
			out = append(out, m)
		}
	}
	return out
}

// Current is what the next request holds: the newest epoch and what came after it.
func Current(msgs []core.StoredMessage) []core.StoredMessage {
	for i := len(msgs) - 1; i >= 0; i-- {
		if msgs[i].Note == NoteEpoch {
			return msgs[i:]
		}
	}
	return msgs
}

// turnOf is one turn of the log.
type turnOf struct {
	n    int
	msgs []core.StoredMessage
}

func turns(log []core.StoredMessage) []turnOf {
	var out []turnOf
	for _, m := range log {
		if len(out) == 0 || out[len(out)-1].n != m.Turn {
			out = append(out, turnOf{n: m.Turn})
		}
		t := &out[len(out)-1]
		t.msgs = append(t.msgs, m)
	}
	return out
}

// Begin makes a new epoch from the whole log of a session. The newest turns stay word for
// word as far as they fit a quarter of the budget, the newest one always, with its older
// tool results shortened if need be; a call and its result are never parted. Of the rest
// the digest keeps the user's words, complete as long as they fit, and the beginnings of
// the answers.
func Begin(msgs []core.StoredMessage, o EpochOptions) Epoch {
	if o.Tokens == nil {
		o.Tokens = EstimateMessage
	}
	all := turns(Log(msgs))
	size := func(t turnOf) int {
		n := 0
		for _, m := range t.msgs {
			n += o.Tokens(m.Raw)
		}
		return n
	}
	room := int(float64(o.Budget) * keepShare)
	from := len(all)
	used := 0
	for from > 0 {
		n := size(all[from-1])
		if used+n > room && from < len(all) {
			break
		}
		from--
		used += n
		if used > room {
			break
		}
	}
	var keep []core.StoredMessage
	for _, t := range all[from:] {
		keep = append(keep, t.msgs...)
	}
	if used > room {
		keep = o.shorten(keep, room)
	}
	e := Epoch{Turns: from}
	text := o.digest(all[:from])
	e.Messages = append(e.Messages, core.StoredMessage{Turn: turnNumber(all, from), Note: NoteEpoch, Message: core.Message{Role: core.RoleUser, Content: text, Raw: o.User(text)}})
	for _, m := range keep {
		m.Note, m.Seq = NoteCopy, 0
		e.Messages = append(e.Messages, m)
	}
	return e
}

func turnNumber(all []turnOf, from int) int {
	switch {
	case from < len(all):
		return all[from].n
	case len(all) > 0:
		return all[len(all)-1].n
	}
	return 0
}

// shorten cuts tool results, oldest first and harder each time, until the messages fit.
// The newest two results are cut last.
func (o EpochOptions) shorten(msgs []core.StoredMessage, room int) []core.StoredMessage {
	out := append([]core.StoredMessage(nil), msgs...)
	total := 0
	var tools []int
	for i, m := range out {
		total += o.Tokens(m.Raw)
		if m.Role == core.RoleTool {
			tools = append(tools, i)
		}
	}
	for _, limit := range []int{4096, 1024, 256} {
		for k, i := range tools {
			if total <= room {
				return out
			}
			if limit > 256 && k >= len(tools)-2 {
				break
			}
			m := &out[i]
			if len(m.Content) <= limit {
				continue
			}
			before := o.Tokens(m.Raw)
			m.Content = Shorten(m.Content, limit)
			m.Raw = o.ToolResult(m.ToolCallID, m.Content)
			total += o.Tokens(m.Raw) - before
		}
	}
	return out
}

const digestHead = "[lj: the earlier turns of this conversation no longer fit and are given here in short. The user's words stand first; search_history and read_file find the rest. Nothing here is a new request.]"

// digest renders the turns that are no longer given word for word.
func (o EpochOptions) digest(list []turnOf) string {
	type part struct {
		head, user, answer string
		files              []string
	}
	parts := make([]part, 0, len(list))
	for _, t := range list {
		p := part{head: fmt.Sprintf("Turn %d", t.n)}
		if len(t.msgs) > 0 && !t.msgs[0].At.IsZero() {
			p.head += t.msgs[0].At.Format(" (2006-01-02)")
		}
		files := map[string]bool{}
		var said []string
		for _, m := range t.msgs {
			switch m.Role {
			case core.RoleUser:
				said = append(said, strings.TrimSpace(m.Content))
			case core.RoleAssistant:
				if strings.TrimSpace(m.Content) != "" {
					p.answer = strings.TrimSpace(m.Content)
				}
				for _, c := range m.ToolCalls {
					var in struct{ Path string }
					if json.Unmarshal([]byte(c.Arguments), &in) == nil && in.Path != "" {
						files[in.Path] = true
					}
				}
			}
		}
		p.user = strings.Join(said, "\n")
		for f := range files {
			p.files = append(p.files, f)
		}
		sort.Strings(p.files)
		if len(p.files) > 8 {
			p.files = append(p.files[:8], "…")
		}
		parts = append(parts, p)
	}
	render := func(user, answer func(i int) int) string {
		var b strings.Builder
		b.WriteString(digestHead)
		if o.State != "" {
			b.WriteString("\n\nDecided and open:\n" + o.State)
		}
		for i, p := range parts {
			fmt.Fprintf(&b, "\n\n%s\nUser: %s", p.head, clip(p.user, user(i)))
			if n := answer(i); p.answer != "" && n > 0 {
				fmt.Fprintf(&b, "\nAnswer: %s", clip(p.answer, n))
			}
			if len(p.files) > 0 && answer(i) > 0 {
				fmt.Fprintf(&b, "\nFiles: %s", strings.Join(p.files, ", "))
			}
		}
		return b.String()
	}
	always := func(n int) func(int) int { return func(int) int { return n } }
	// The older half gives way first.
	older := func(old, new int) func(int) int {
		return func(i int) int {
			if i < len(parts)/2 {
				return old
			}
			return new
		}
	}
	room := int(float64(o.Budget) * digestShare)
	const whole = 1 << 30
	var text string
	for i, try := range []struct{ user, answer func(int) int }{
		{always(whole), always(600)}, {always(whole), always(200)}, {always(whole), older(0, 160)}, {always(whole), always(0)},
		{always(2000), always(0)}, {older(500, 1000), always(0)}, {older(200, 500), always(0)}, {older(80, 200), always(0)}, {older(40, 80), always(0)},
	} {
		text = render(try.user, try.answer)
		// Very many turns may take twice the room before one of them is left out.
		if n := o.Tokens(o.User(text)); n <= room || i >= 6 && n <= 2*room {
			return text
		}
	}
	return Shorten(text, max(1024, room*2))
}

// clip is the beginning of a text, at most n code points, marked when something is missing.
func clip(s string, n int) string {
	h := head(s, n)
	if len(h) < len(s) {
		return h + " […]"
	}
	return s
}
