package memory

import (
	"context"
	_ "embed" // the prompts
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/memory/segment"
)

//go:embed prompts/extract.txt
var extractPrompt string

//go:embed prompts/adjust.txt
var adjustPrompt string

// Asker sends one request to the cheap model: a system text and a user text, no tools. It
// counts the request under its cause ("extraction", "reflect").
type Asker interface {
	Ask(ctx context.Context, cause, system, user string) (string, error)
}

var thinking = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<think(?:ing)?>.*?</think(?:ing)?>`)
})
var fences = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?s)```(?:json|JSON)?[ \t]*\r?\n?(.*?)```")
})

// Extracted is one element of an answer, its values as they came.
type Extracted struct {
	Content    string
	Category   loose
	Priority   loose
	Importance loose
	Tags       loose
	ExpiresAt  loose
}

// ParseExtraction reads a model's answer to the extraction prompt: a JSON array of objects
// with content, alone, below memories, items, results or data of an object, in a code
// fence, or anywhere in the text; also one object alone, and an array that was cut off.
// Thinking text is left out. Small faults of syntax are read past. Elements that are no
// objects with text in content are left out; no array is an empty list.
func ParseExtraction(text string) []Extracted {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.TrimSpace(thinking().ReplaceAllString(text, ""))
	if list, ok := extractionList(text); ok {
		return list
	}
	for _, m := range fences().FindAllStringSubmatch(text, -1) {
		if list, ok := extractionList(strings.TrimSpace(m[1])); ok {
			return list
		}
	}
	var out []Extracted
	for i := 0; i < len(text); i++ {
		if text[i] != '[' || !strings.HasPrefix(strings.TrimLeft(text[i+1:], " \t\r\n"), "{") {
			continue
		}
		v, n, err := lenientJSON(text[i:], true)
		if err != nil {
			continue
		}
		if a, ok := v.([]any); ok {
			out = append(out, elements(a)...)
		}
		i += n - 1
	}
	return out
}

// ErrNoList is returned for an answer to an extraction that can't be read.
var ErrNoList = core.Errorf(core.KindFailed, "the answer holds no list of memories")

// saysNothing says whether an answer without memories means that there are none: an empty
// list, or words alone.
func saysNothing(text string) bool {
	text = strings.TrimSpace(thinking().ReplaceAllString(strings.TrimPrefix(text, "\ufeff"), ""))
	if _, ok := extractionList(text); ok || text == "{}" {
		return true
	}
	for _, m := range fences().FindAllStringSubmatch(text, -1) {
		if _, ok := extractionList(strings.TrimSpace(m[1])); ok {
			return true
		}
	}
	return text != "" && (!strings.ContainsAny(text, "[]{}") || strings.Contains(text, "[]"))
}

func extractionList(text string) ([]Extracted, bool) {
	v, n, err := lenientJSON(text, false)
	if err != nil || strings.TrimSpace(text[n:]) != "" {
		return nil, false
	}
	switch v := v.(type) {
	case []any:
		return elements(v), true
	case map[string]any:
		for _, k := range []string{"memories", "items", "results", "data"} {
			if a, ok := v[k].([]any); ok {
				return elements(a), true
			}
		}
		if list := elements([]any{v}); len(list) > 0 {
			return list, true
		}
	case nil:
		return nil, true
	}
	return nil, false
}

func elements(a []any) []Extracted {
	var out []Extracted
	for _, e := range a {
		switch e := e.(type) {
		case []any:
			out = append(out, elements(e)...)
		case map[string]any:
			c, ok := e["content"].(string)
			if c = strings.TrimSpace(c); !ok || c == "" {
				continue
			}
			out = append(out, Extracted{c, loose{e["category"]}, loose{e["priority"]}, loose{e["importance"]}, loose{e["tags"]}, loose{e["expires_at"]}})
		}
	}
	return out
}

// item checks the values of an element and gives it defaults: the category must be one of
// the five, the priority follows the category when it is missing or no number.
func (s *Service) item(e Extracted) Item {
	it := Item{Content: e.Content, Category: strings.ToLower(strings.TrimSpace(e.Category.text())), Tags: e.Tags.list(), ExpiresAt: e.ExpiresAt.time(s.loc)}
	if CheckCategory(it.Category) != nil {
		it.Category = core.MemoryGeneral
	}
	p := PriorityOf(it.Category)
	if it.Category == core.MemoryGeneral {
		p = core.PriorityLow
	}
	if n, ok := e.Priority.number(); ok && n >= core.PriorityCritical && n <= core.PriorityLow {
		p = n
	}
	it.Priority = &p
	if n, ok := e.Importance.number(); ok {
		it.Importance = max(1, min(n, 5))
	}
	return it
}

// ExtractReport says what an extraction did.
type ExtractReport struct {
	Requests int
	Read     int      // messages of the user that were new
	Results  []Result // what became of the items, the refused ones left out
	Dropped  int      // items that the user's words do not bear out, or that were refused
	Reason   string   // why no request was made, "" when one was
}

const (
	extractChars = 12000 // of conversation in one request
	leastWords   = 3     // words of weight below which the user said nothing to remember
)

// Extract reads what is new in a session since the last time, asks the model what of it is
// worth keeping, checks each item against the user's own words, and takes it up. Without
// new words of the user there is no request. How far it read is recorded after each
// request, so that a stop in between costs nothing twice.
func (s *Service) Extract(ctx context.Context, ask Asker, log core.SessionLog, session string) (ExtractReport, error) {
	var rep ExtractReport
	done, err := s.st.MemoryProgress(ctx, session)
	if err != nil {
		return rep, err
	}
	msgs, err := log.Messages(ctx, session)
	if err != nil {
		return rep, err
	}
	type piece struct {
		text string
		user []core.StoredMessage
		last int64
	}
	var cur piece
	flush := func() error {
		p := cur
		cur = piece{}
		if p.last == 0 {
			return nil
		}
		var said []string
		for _, m := range p.user {
			said = append(said, m.Content)
		}
		ground := s.groundOf(strings.Join(said, "\n"))
		if len(ground) < leastWords {
			return s.st.SetMemoryProgress(ctx, session, p.last)
		}
		answer, err := ask.Ask(ctx, "extraction", strings.ReplaceAll(extractPrompt, "{{date}}", s.now().In(s.loc).Format("2006-01-02 Monday")), p.text)
		rep.Requests++
		if err != nil {
			return err
		}
		found := ParseExtraction(answer)
		if len(found) == 0 && !saysNothing(answer) {
			return ErrNoList // what was read is read again
		}
		var items []Item
		for _, e := range found {
			it, ok := s.bear(s.item(e), ground)
			if !ok {
				rep.Dropped++
				continue
			}
			it.Session = session
			it.Message, it.Context = s.whence(it.Content, p.user)
			items = append(items, it)
		}
		results, err := s.IngestBatch(ctx, items)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Action == ActionRefused || r.Action == "" {
				rep.Dropped++
			} else {
				rep.Results = append(rep.Results, r)
			}
		}
		return s.st.SetMemoryProgress(ctx, session, p.last)
	}
	for _, m := range msgs {
		if m.Seq <= done {
			continue
		}
		line := ""
		switch m.Role {
		case core.RoleUser:
			if m.Note != "" && m.Note != "steer" {
				continue
			}
			rep.Read++
			own := OwnWords(m.Content)
			if line = "USER: " + clip(own, 4000); own != m.Content {
				line += "\n(and text that was piped in)"
			}
			m.Content = own
			cur.user = append(cur.user, m)
		case core.RoleAssistant:
			if m.Content != "" {
				line = "ASSISTANT: " + clip(m.Content, 600)
			}
		}
		if len(cur.text)+len(line) > extractChars && len(cur.user) > 1 {
			if err := flush(); err != nil {
				return rep, err
			}
			if m.Role == core.RoleUser {
				cur.user = []core.StoredMessage{m}
			}
		}
		if line != "" {
			cur.text += line + "\n\n"
		}
		cur.last = m.Seq
	}
	if err := flush(); err != nil {
		return rep, err
	}
	if rep.Read == 0 {
		rep.Reason = "nothing new"
	} else if rep.Requests == 0 {
		rep.Reason = "the new messages say nothing to remember"
	}
	return rep, nil
}

// Pending lists sessions with words of the user that were not read yet, oldest first.
func (s *Service) Pending(ctx context.Context, limit int) ([]string, error) {
	return s.st.MemoryPending(ctx, limit)
}

func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	rs := []rune(text)
	return string(rs[:n]) + "…"
}

// userSentences are the sentences that a user states: quotes, code and questions are left
// out.
func userSentences(text string) []string {
	var out []string
	fence := false
	for line := range strings.SplitSeq(text, "\n") {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			fence = !fence
			continue
		}
		if fence || t == "" || strings.HasPrefix(t, ">") {
			continue
		}
		start := 0
		for i, r := range t {
			if strings.ContainsRune("。！!？?；;", r) || r == '.' && (i+1 == len(t) || t[i+1] == ' ') {
				end := i + utf8.RuneLen(r)
				if r != '?' && r != '？' {
					out = append(out, t[start:end])
				}
				start = end
			}
		}
		if rest := strings.TrimSpace(t[start:]); rest != "" && !questionHan().MatchString(rest) {
			out = append(out, rest)
		}
	}
	return out
}

// groundOf is the words of weight that a user stated.
func (s *Service) groundOf(text string) map[string]bool {
	out := map[string]bool{}
	for _, sentence := range userSentences(text) {
		for _, t := range tokens(s.cut, sentence, true) {
			if !t.stop {
				out[t.stem] = true
			}
		}
		grams(sentence, func(g string) { out[g] = true })
	}
	return out
}

// coverage is the share of a text's words of weight that are in the ground.
func (s *Service) coverage(content string, ground map[string]bool) float64 {
	n, hit := 0, 0
	lex := lexiconOf()
	for _, t := range tokens(s.cut, content, false) {
		if t.stop || pronouns[t.text] != "" || fillers[t.text] || predicates[t.text] {
			continue
		}
		n++
		if ground[t.stem] {
			hit++
			continue
		}
		found := false
		if t.kind == segment.Chinese {
			all := true
			grams(t.text, func(g string) {
				if utf8.RuneCountInString(g) == 2 && !ground[g] {
					all = false
				}
			})
			found = all && utf8.RuneCountInString(t.text) > 1
		}
		if k := lex.synonym[t.stem]; k != "" && !found {
			for g := range ground {
				if lex.synonym[g] == k {
					found = true
					break
				}
			}
		}
		if found {
			hit++
		}
	}
	if n == 0 {
		return 0
	}
	return float64(hit) / float64(n)
}

// bear says whether the user's words bear an item out, and what it may be: with most of
// its words said by the user it counts as the user's; with half of them it is the model's
// note and no rule; with fewer it is nothing.
func (s *Service) bear(it Item, ground map[string]bool) (Item, bool) {
	if s.holdsSecret(it.Content) {
		return it, false
	}
	switch c := s.coverage(it.Content, ground); {
	case c >= 0.6:
		it.Source = core.SourceUser
	case c >= 0.4:
		it.Source = core.SourceModel
		if it.Category == core.MemoryInstruction {
			it.Category = core.MemoryGeneral
		}
		p := max(*it.Priority, core.PriorityMedium)
		it.Priority = &p
	default:
		return it, false
	}
	// An extraction is not a person's command: what a person removed stays away.
	it.Force = false
	return it, true
}

// whence finds the message that an item comes from, and the words around it.
func (s *Service) whence(content string, user []core.StoredMessage) (int64, string) {
	best, at := -1.0, -1
	for i, m := range user {
		if c := s.coverage(content, s.groundOf(m.Content)); c > best {
			best, at = c, i
		}
	}
	if at < 0 {
		return 0, ""
	}
	context := clip(user[at].Content, 400)
	if !user[at].At.IsZero() {
		context = user[at].At.In(s.loc).Format("2006-01-02 January Monday") + " " + context
	}
	return user[at].Seq, context
}

// maxAdjusted is how many priorities the model may change at once.
const maxAdjusted = 3

// Adjusted is one priority that the model changed.
type Adjusted struct {
	ID     int64  `json:"id,string"`
	From   int    `json:"from"`
	To     int    `json:"to"`
	Reason string `json:"reason,omitempty"`
}

// AdjustPriorities asks the model whether memories deserve another priority after a
// conversation, given its summary. Each may move by one step, at most three move; only the
// user's words can become CRITICAL. With fewer than three memories there is no request. A
// raised memory begins to age anew.
func (s *Service) AdjustPriorities(ctx context.Context, ask Asker, summary string) ([]Adjusted, error) {
	list, err := s.List(ctx, "", false)
	if err != nil || len(list) < 3 {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "SUMMARY:\n%s\n\nMEMORIES:\n", clip(summary, 2000))
	for _, m := range list[:min(len(list), 100)] {
		fmt.Fprintf(&b, "%d | priority %d | %s | %s\n", m.ID, m.Priority, m.Category, clip(strings.Join(strings.Fields(m.Content), " "), 80))
	}
	answer, err := ask.Ask(ctx, "reflect", adjustPrompt, b.String())
	if err != nil {
		return nil, err
	}
	return s.ApplyAdjustments(ctx, answer)
}

// ApplyAdjustments applies a model's answer under the limits of AdjustPriorities.
func (s *Service) ApplyAdjustments(ctx context.Context, answer string) ([]Adjusted, error) {
	answer = thinking().ReplaceAllString(answer, "")
	i := strings.IndexByte(answer, '[')
	if i < 0 {
		return nil, nil
	}
	v, _, err := lenientJSON(answer[i:], true)
	a, ok := v.([]any)
	if err != nil || !ok {
		return nil, nil
	}
	now := s.now()
	var out []Adjusted
	err = s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
		out = nil
		for _, e := range a {
			o, ok := e.(map[string]any)
			if !ok || len(out) == maxAdjusted {
				continue
			}
			id, okID := loose{o["memory_id"]}.number()
			to, okTo := o["new_priority"].(float64)
			if !okID || !okTo || to != float64(int(to)) || to < core.PriorityCritical || to > core.PriorityLow {
				continue
			}
			m, err := w.Memory(ctx, int64(id))
			if err != nil {
				continue // the model made it up
			}
			from := m.Priority
			if d := int(to) - from; m.State != core.MemoryActive || d != 1 && d != -1 || int(to) == core.PriorityCritical && m.Source != core.SourceUser {
				continue
			}
			m.Priority, m.UpdatedAt = int(to), now
			if int(to) < from {
				m.AgedAt = now
			}
			if err := w.UpdateMemory(ctx, m, nil); err != nil {
				return err
			}
			reason := clip(strings.Join(strings.Fields(loose{o["reason"]}.text()), " "), 200)
			if err := w.AddEvent(ctx, core.MemoryEvent{Memory: m.ID, At: now, Action: "adjusted", Detail: join(fmt.Sprintf("priority %d → %d by the model", from, int(to)), reason)}); err != nil {
				return err
			}
			if int(to) == core.PriorityCritical {
				if _, err := s.capCritical(ctx, w, now, m.ID); err != nil {
					return err
				}
			}
			out = append(out, Adjusted{m.ID, from, int(to), reason})
		}
		return nil
	})
	return out, err
}

// lenientJSON reads one JSON value from the beginning of text and returns how many bytes it
// has. Single quotes, names without quotes, a comma before the end, comments, True, False,
// None and NaN are read as what they mean. With cut, an array that ends in the middle
// yields its whole elements.
func lenientJSON(text string, cut bool) (any, int, error) {
	p := &jsonReader{s: text, cut: cut}
	v, err := p.value(0)
	return v, p.i, err
}

type jsonReader struct {
	s   string
	i   int
	cut bool
}

var errJSON = fmt.Errorf("not JSON")
var errEnd = fmt.Errorf("JSON ends early: %w", errJSON)

func (p *jsonReader) space() {
	for p.i < len(p.s) {
		switch {
		case strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0:
			p.i++
		case strings.HasPrefix(p.s[p.i:], "//"):
			n := strings.IndexByte(p.s[p.i:], '\n')
			if n < 0 {
				p.i = len(p.s)
				return
			}
			p.i += n
		case strings.HasPrefix(p.s[p.i:], "/*"):
			n := strings.Index(p.s[p.i:], "*/")
			if n < 0 {
				p.i = len(p.s)
				return
			}
			p.i += n + 2
		default:
			return
		}
	}
}

func (p *jsonReader) value(depth int) (any, error) {
	p.space()
	if p.i >= len(p.s) {
		return nil, errEnd
	}
	if depth > 64 {
		return nil, errJSON
	}
	switch c := p.s[p.i]; {
	case c == '[':
		return p.array(depth)
	case c == '{':
		return p.object(depth)
	case c == '"' || c == '\'':
		return p.text()
	}
	j := p.i
	for j < len(p.s) && strings.IndexByte(",]}: \t\r\n", p.s[j]) < 0 {
		j++
	}
	word := p.s[p.i:j]
	switch word {
	case "true", "True":
		p.i = j
		return true, nil
	case "false", "False":
		p.i = j
		return false, nil
	case "null", "None", "NaN", "Infinity", "-Infinity":
		p.i = j
		return nil, nil
	}
	var n float64
	if json.Unmarshal([]byte(word), &n) != nil {
		return nil, errJSON
	}
	p.i = j
	return n, nil
}

func (p *jsonReader) array(depth int) (any, error) {
	out := []any{}
	p.i++
	for {
		p.space()
		if p.i >= len(p.s) {
			if p.cut {
				return out, nil
			}
			return nil, errEnd
		}
		if p.s[p.i] == ']' {
			p.i++
			return out, nil
		}
		v, err := p.value(depth + 1)
		if err == errEnd && p.cut && depth == 0 {
			p.i = len(p.s)
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		p.space()
		if p.i < len(p.s) && p.s[p.i] == ',' {
			p.i++
		} else if p.i < len(p.s) && p.s[p.i] != ']' {
			return nil, errJSON
		}
	}
}

func (p *jsonReader) object(depth int) (any, error) {
	out := map[string]any{}
	p.i++
	for {
		p.space()
		if p.i >= len(p.s) {
			return nil, errEnd
		}
		if p.s[p.i] == '}' {
			p.i++
			return out, nil
		}
		var key string
		if c := p.s[p.i]; c == '"' || c == '\'' {
			k, err := p.text()
			if err != nil {
				return nil, err
			}
			key = k
		} else {
			j := p.i
			for j < len(p.s) && (p.s[j] == '_' || p.s[j] >= 'a' && p.s[j] <= 'z' || p.s[j] >= 'A' && p.s[j] <= 'Z' || j > p.i && p.s[j] >= '0' && p.s[j] <= '9') {
				j++
			}
			if j == p.i {
				return nil, errJSON
			}
			key = p.s[p.i:j]
			p.i = j
		}
		p.space()
		if p.i >= len(p.s) {
			return nil, errEnd
		}
		if p.s[p.i] != ':' {
			return nil, errJSON
		}
		p.i++
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out[key] = v
		p.space()
		if p.i >= len(p.s) {
			return nil, errEnd
		}
		if p.s[p.i] == ',' {
			p.i++
		} else if p.s[p.i] != '}' {
			return nil, errJSON
		}
	}
}

func (p *jsonReader) text() (string, error) {
	quote := p.s[p.i]
	var b strings.Builder
	b.WriteByte('"')
	for j := p.i + 1; j < len(p.s); j++ {
		switch c := p.s[j]; {
		case c == '\\' && j+1 < len(p.s):
			j++
			if p.s[j] == '\'' {
				b.WriteByte('\'')
				continue
			}
			b.WriteByte('\\')
			b.WriteByte(p.s[j])
		case c == quote:
			b.WriteByte('"')
			var v string
			if json.Unmarshal([]byte(b.String()), &v) != nil {
				return "", errJSON
			}
			p.i = j + 1
			return v, nil
		case c == '"':
			b.WriteString(`\"`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	p.i = len(p.s)
	return "", errEnd
}
