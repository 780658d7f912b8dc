package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// The shares of a budget that a new epoch begins with. Together they leave 60 % of the
// budget to grow into, so that epochs are rare.
const (
	keepShare    = 0.18 // what stays word for word
	headShare    = 0.22 // the first message: facts, summaries, digest
	factsShare   = 0.05 // of that at most the facts of the project,
	summaryShare = 0.07 // the summaries by a model,
	answerShare  = 0.12 // and the digest as long as it holds answers
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
	// Facts are the facts of the project, given again once the first turn is left out.
	Facts string
	// Summaries are what a model wrote about earlier turns, in their order.
	Summaries []Summary
	// Whole is the first turn whose messages have their bytes; earlier ones are only spoken of.
	Whole int
	// Running says that the newest turn is being answered: its user message stays whole.
	Running bool
}

// Summary is what a model wrote about some turns.
type Summary struct {
	From, Upto int
	Semantic   string
	Tools      string
}

// Epoch is a new beginning of a conversation: a digest of what was before, and the newest
// messages.
type Epoch struct {
	Messages []core.StoredMessage // the digest first; all to be appended to the log
	Turns    int                  // turns that only the digest speaks of
	Covered  int                  // how many of them a summary speaks of
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
// word as far as they fit their share of the budget; the newest one, while it is being
// answered, always. A call and its result are never parted. What goes first: earlier turns
// (into summaries and digest: answers before the user's words, older before newer), then
// large tool results, then earlier steps of the newest turn, then long texts and arguments
// of the model. The user's words of the running turn are never touched.
func Begin(msgs []core.StoredMessage, o EpochOptions) Epoch {
	if o.Tokens == nil {
		o.Tokens = EstimateMessage
	}
	log, _ := Sound(Log(msgs), func(id, text string) []byte { return o.ToolResult(id, text) })
	all := turns(log)
	room := int(float64(o.Budget) * keepShare)
	from := len(all)
	used := 0
	for from > 0 && all[from-1].n >= o.Whole {
		n := o.size(all[from-1].msgs)
		if used+n > room && (from < len(all) || !o.Running) {
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
	switch {
	case used > room:
		keep = o.fit(keep, room)
	case from == len(all) && from > 0 && all[from-1].n >= o.Whole:
		// A finished turn too large to stay as it is stays in short where that is possible.
		if k := o.fit(all[from-1].msgs, room); o.size(k) <= room {
			from--
			keep = k
		}
	}
	e := Epoch{Turns: from}
	text := o.head(all[:from], &e)
	e.Messages = append(e.Messages, core.StoredMessage{Turn: turnNumber(all, from), Note: NoteEpoch, Message: core.Message{Role: core.RoleUser, Content: text, Raw: o.User(text)}})
	for _, m := range keep {
		m.Note, m.Seq = NoteCopy, 0
		e.Messages = append(e.Messages, m)
	}
	return e
}

func (o EpochOptions) size(msgs []core.StoredMessage) int {
	n := 0
	for _, m := range msgs {
		n += o.Tokens(m.Raw)
	}
	return n
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

// fit makes the messages of one turn small enough, as far as that is possible without
// touching the user's words: tool results oldest first, earlier steps, then the newest
// results and long texts of the model.
func (o EpochOptions) fit(msgs []core.StoredMessage, room int) []core.StoredMessage {
	out := append([]core.StoredMessage(nil), msgs...)
	total := o.size(out)
	tools := func(newest bool, limit int) {
		var at []int
		for i, m := range out {
			if m.Role == core.RoleTool {
				at = append(at, i)
			}
		}
		cut := max(0, len(at)-2)
		at, rest := at[:cut], at[cut:]
		if newest {
			at = rest
		}
		for _, i := range at {
			if m := &out[i]; total > room && len(m.Content) > limit {
				before := o.Tokens(m.Raw)
				m.Content = Shorten(m.Content, limit)
				m.Raw = o.ToolResult(m.ToolCallID, m.Content)
				total += o.Tokens(m.Raw) - before
			}
		}
	}
	for _, limit := range []int{4096, 1024, 256} {
		tools(false, limit)
	}
	if total > room {
		out = o.dropSteps(out, room)
		total = o.size(out)
	}
	for _, limit := range []int{16384, 4096, 1024} {
		tools(true, limit)
		for i := range out {
			if m := &out[i]; total > room && m.Role == core.RoleAssistant && len(m.Raw) > limit {
				before := o.Tokens(m.Raw)
				m.Raw = shortenAssistant(m.Raw, limit)
				total += o.Tokens(m.Raw) - before
			}
		}
	}
	tools(true, 256)
	return out
}

// dropSteps replaces the earlier steps of a turn (what the model said, its calls and their
// results) by a line for each call.
func (o EpochOptions) dropSteps(msgs []core.StoredMessage, room int) []core.StoredMessage {
	type step struct{ from, to int }
	var steps []step
	for i, m := range msgs {
		switch {
		case m.Role == core.RoleAssistant:
			steps = append(steps, step{i, i + 1})
		case (m.Role == core.RoleTool || m.Role == core.RoleUser && !spoken(m)) && len(steps) > 0:
			steps[len(steps)-1].to = i + 1
		}
	}
	const stay = 2
	if len(steps) <= stay {
		return msgs
	}
	total, gone := o.size(msgs), 0
	drop := map[int]bool{}
	for gone < len(steps)-stay && total > room*3/4 {
		for i := steps[gone].from; i < steps[gone].to; i++ {
			total -= o.Tokens(msgs[i].Raw)
			drop[i] = true
		}
		gone++
	}
	var lines []string
	for _, s := range steps[:gone] {
		lines = append(lines, callLines(msgs[s.from:s.to])...)
	}
	text := ""
	for {
		text = fmt.Sprintf("[lj: %d earlier steps of this turn no longer fit; their calls in short, oldest first. Not a new request.]\n%s", gone, strings.Join(lines, "\n"))
		if len(lines) < 2 || o.Tokens(o.User(text)) <= room/4 {
			break
		}
		lines = append([]string{fmt.Sprintf("(%d calls before)", len(lines)*3/4)}, lines[len(lines)*3/4:]...)
	}
	var out []core.StoredMessage
	placed := false
	for i, m := range msgs {
		if drop[i] {
			if !placed {
				placed = true
				out = append(out, core.StoredMessage{Turn: m.Turn, At: m.At, Message: core.Message{Role: core.RoleUser, Content: text, Raw: o.User(text)}})
			}
			continue
		}
		out = append(out, m)
	}
	return out
}

// callLines is a line for each call with the beginning of its result.
func callLines(msgs []core.StoredMessage) []string {
	results := map[string]string{}
	for _, m := range msgs {
		if m.Role == core.RoleTool {
			results[m.ToolCallID] = m.Content
		}
	}
	var out []string
	for _, m := range msgs {
		if s := flat(m.Content); m.Role == core.RoleAssistant && s != "" {
			out = append(out, "said: "+clip(s, 160))
		}
		for _, c := range m.ToolCalls {
			out = append(out, fmt.Sprintf("%s %s → %s", c.Name, clip(flat(c.Arguments), 120), clip(flat(results[c.ID]), 80)))
		}
	}
	return out
}

func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// shortenAssistant shortens the long texts of a message of the model: what it said, and
// the texts in the arguments of its calls. Everything else stays as the server wants it
// back.
func shortenAssistant(raw json.RawMessage, limit int) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}
	var text string
	if json.Unmarshal(m["content"], &text) == nil && len(text) > limit {
		m["content"] = plain(Shorten(text, limit))
	}
	var calls []map[string]json.RawMessage
	if json.Unmarshal(m["tool_calls"], &calls) == nil {
		for _, c := range calls {
			var f map[string]json.RawMessage
			var args string
			var in map[string]any
			if json.Unmarshal(c["function"], &f) != nil || json.Unmarshal(f["arguments"], &args) != nil || len(args) <= limit || json.Unmarshal([]byte(args), &in) != nil {
				continue
			}
			f["arguments"] = plain(string(plain(shortenTexts(in, max(256, limit/2)))))
			c["function"] = ordered(f, "name", "arguments")
		}
		var list []json.RawMessage
		for _, c := range calls {
			list = append(list, ordered(c, "id", "type", "function"))
		}
		if len(list) > 0 {
			m["tool_calls"] = plain(list)
		}
	}
	return ordered(m, "role", "content", "reasoning_content", "reasoning")
}

func shortenTexts(v any, limit int) any {
	switch v := v.(type) {
	case string:
		return Shorten(v, limit)
	case []any:
		for i := range v {
			v[i] = shortenTexts(v[i], limit)
		}
	case map[string]any:
		for k := range v {
			v[k] = shortenTexts(v[k], limit)
		}
	}
	return v
}

// plain is JSON with characters as they are.
func plain(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage("null") // only values read from JSON come here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ordered is the object with these keys first and the rest by name.
func ordered(m map[string]json.RawMessage, first ...string) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	write := func(k string) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(plain(k))
		b.WriteByte(':')
		b.Write(m[k])
	}
	for _, k := range first {
		if _, ok := m[k]; ok {
			write(k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(first, k) {
			write(k)
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

const digestHead = "[lj: the earlier turns of this conversation no longer fit and are given here in short. The user's words stand first; search_history and read_file find the rest. Nothing here is a new request.]"

// head is the first message of an epoch.
func (o EpochOptions) head(list []turnOf, e *Epoch) string {
	tokens := func(text string) int {
		if text == "" {
			return 0
		}
		return o.Tokens(o.User(text))
	}
	var parts []string
	left := int(float64(o.Budget) * headShare)
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
			left -= tokens(text)
		}
	}
	if len(list) > 0 && o.Facts != "" {
		add(fitText(o.Facts, int(float64(o.Budget)*factsShare), tokens))
	}
	add(digestHead)
	if o.State != "" {
		add("Decided and open:\n" + o.State)
	}
	covered := 0
	if len(list) > 0 {
		var sums []Summary
		for _, s := range o.Summaries {
			if s.From <= list[len(list)-1].n {
				sums = append(sums, s)
				covered = s.Upto
			}
		}
		add(renderSummaries(sums, int(float64(o.Budget)*summaryShare), tokens))
	}
	for _, t := range list {
		if t.n <= covered {
			e.Covered++
		}
	}
	if text := digest(list, covered, max(left, int(float64(o.Budget)*0.06)), int(float64(o.Budget)*answerShare), tokens); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n\n")
}

// fitText shortens a text until it has at most room tokens.
func fitText(text string, room int, tokens func(string) int) string {
	for limit := len(text); limit > 256; limit = limit * 3 / 4 {
		if s := Shorten(text, limit); tokens(s) <= room {
			return s
		}
	}
	return Shorten(text, 256)
}

// renderSummaries writes what a model wrote about earlier turns: the newest whole as long
// as they fit, the older ones shortened.
func renderSummaries(list []Summary, room int, tokens func(string) int) string {
	if len(list) == 0 {
		return ""
	}
	var parts []string
	for i := len(list) - 1; i >= 0 && room > 0; i-- {
		s := list[i]
		text := fmt.Sprintf("Summary of turns %d to %d:\n%s", s.From, s.Upto, strings.TrimSpace(s.Semantic))
		if t := strings.TrimSpace(s.Tools); t != "" {
			text += "\n\nTools used in them:\n" + t
		}
		if n := tokens(text); n > room || i > 0 && n > room*2/3 {
			text = fitText(text, max(room*2/3, room/(i+1)), tokens)
		}
		room -= tokens(text)
		parts = append(parts, text)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "\n\n")
}

// digest renders the turns that are no longer given word for word, in at most room tokens;
// in at most answers tokens as long as answers are part of it. Of turns that a summary
// covers the answers go first.
func digest(list []turnOf, covered, room, answers int, tokens func(string) int) string {
	if len(list) == 0 {
		return ""
	}
	type part struct {
		head, files string
		past        Past
	}
	parts := make([]part, 0, len(list))
	for _, p := range pastOf(list) {
		x := part{head: fmt.Sprintf("Turn %d", p.N), past: p}
		if !p.At.IsZero() {
			x.head += p.At.Format(" (2006-01-02)")
		}
		f := p.Files
		if len(f) > 8 {
			f = append(f[:8:8], "…")
		}
		x.files = strings.Join(f, ", ")
		parts = append(parts, x)
	}
	// A try says how much of the user's words and of the answers is given of each turn, and
	// how much of what the user stated to be kept stays in any case. Turns of which nothing is
	// left are counted.
	type try struct {
		user, answer func(i int) int
		stated, room int
	}
	render := func(t try) string {
		var b strings.Builder
		gone := 0
		for i, p := range parts {
			user := t.user(i)
			words := clipSaying(p.past.User, user, t.stated)
			if words == "" && p.past.User != "" {
				gone++
				continue
			}
			if user < 200 {
				fmt.Fprintf(&b, "\n[%d] %s", p.past.N, flat(words))
				continue
			}
			fmt.Fprintf(&b, "\n\n%s\nUser: %s", p.head, words)
			n := t.answer(i)
			if n > 0 && p.past.N <= covered {
				n = min(n, 120)
			}
			if p.past.Assistant != "" && n > 0 {
				fmt.Fprintf(&b, "\nAnswer: %s", clip(p.past.Assistant, n))
			}
			if p.files != "" && n > 0 {
				fmt.Fprintf(&b, "\nFiles: %s", p.files)
			}
		}
		text := strings.TrimSpace(b.String())
		if gone > 0 {
			text = fmt.Sprintf("%d turns are left out here; search_history finds them. Of others only what the user said, by number:\n%s", gone, text)
		}
		return text
	}
	always := func(n int) func(int) int { return func(int) int { return n } }
	uncovered := func(n int) func(int) int {
		return func(i int) int {
			if parts[i].past.N <= covered {
				return 0
			}
			return n
		}
	}
	// The older half gives way first.
	older := func(old, new int) func(int) int {
		return func(i int) int {
			if i < len(parts)/2 {
				return old
			}
			return new
		}
	}
	const whole = 1 << 30
	none := always(0)
	var text string
	for _, t := range []try{
		{always(whole), always(600), 0, answers}, {always(whole), always(200), 0, answers}, {always(whole), uncovered(200), 0, answers}, {always(whole), older(0, 160), 0, answers},
		{always(whole), none, 0, room}, {always(2000), none, 600, room}, {older(500, 1000), none, 600, room}, {older(300, 600), none, 400, room},
		{older(200, 400), none, 400, room}, {older(120, 240), none, 300, room}, {older(80, 160), none, 300, room}, {older(40, 80), none, 300, room},
		{older(0, 60), none, 300, room}, {older(0, 30), none, 240, room}, {none, none, 200, room}, {none, none, 100, room},
	} {
		text = render(t)
		if tokens(text) <= min(t.room, room) {
			return text
		}
	}
	return fitText(text, room, tokens)
}

// clip is the beginning of a text, at most n code points, marked when something is missing.
func clip(s string, n int) string {
	h := head(s, n)
	if len(h) < len(s) {
		return h + " […]"
	}
	return s
}
