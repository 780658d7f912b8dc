package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Past is one turn of a log as level 2 sees it.
type Past struct {
	N  int
	At time.Time
	Turn
	// Calls are its calls in short, one a line.
	Calls []string
}

// mostKept is how much is kept of each text of a Past, in code points.
const mostKept = 8000

// PastTurns are the turns of a log that a new epoch no longer gives word for word: those
// before the first turn of which it holds messages. All of them with all.
func PastTurns(msgs []core.StoredMessage, all bool) []Past {
	list := turns(Log(msgs))
	if !all {
		cur := Current(msgs)
		if len(cur) == 0 || cur[0].Note != NoteEpoch {
			return nil
		}
		first := 0
		for _, m := range cur[1:] {
			first = m.Turn
			break
		}
		n := 0
		for n < len(list) && (first == 0 && list[n].n <= cur[0].Turn || list[n].n < first) {
			n++
		}
		list = list[:n]
	}
	return pastOf(list)
}

func pastOf(list []turnOf) []Past {
	out := make([]Past, 0, len(list))
	for _, t := range list {
		p := Past{N: t.n}
		if len(t.msgs) > 0 {
			p.At = t.msgs[0].At
		}
		var said, thought []string
		files := map[string]bool{}
		for _, m := range t.msgs {
			switch m.Role {
			case core.RoleUser:
				said = append(said, strings.TrimSpace(m.Content))
			case core.RoleAssistant:
				text := strings.TrimSpace(m.Content)
				if text != "" {
					p.Assistant = head(text, mostKept)
				}
				if len(m.ToolCalls) > 0 {
					if r := strings.TrimSpace(m.Reasoning); r != "" {
						thought = append(thought, head(r, 2000))
					}
					if text != "" {
						thought = append(thought, head(text, 2000))
					}
				}
				for _, c := range m.ToolCalls {
					var in struct{ Path string }
					if json.Unmarshal([]byte(c.Arguments), &in) == nil && in.Path != "" {
						files[in.Path] = true
					}
				}
			}
		}
		p.User = head(strings.Join(said, "\n"), mostKept)
		p.Thinking = head(strings.Join(thought, "\n\n"), mostKept)
		for f := range files {
			p.Files = append(p.Files, f)
		}
		slices.Sort(p.Files)
		for _, l := range callLines(t.msgs) {
			if !strings.HasPrefix(l, "said: ") {
				p.Calls = append(p.Calls, l)
			}
		}
		out = append(out, p)
	}
	return out
}

// Mention is one earlier turn to be mentioned again, in full or in one line.
type Mention struct {
	N    int
	Text string
}

var unitForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\p{L}\p{N}_]+`) })

// units are what a text is compared by beside keywords: words and identifiers of two or
// more letters or digits, and pairs of neighbouring Chinese characters.
func units(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range unitForm().FindAllString(strings.ToLower(text), -1) {
		var run []rune
		flush := func() {
			if len(run) == 0 {
				return
			}
			if isHan(run[0]) {
				for i := 1; i < len(run); i++ {
					out[string(run[i-1:i+1])] = true
				}
			} else if len(run) > 1 {
				out[string(run)] = true
			}
			run = run[:0]
		}
		for _, r := range w {
			if len(run) > 0 && isHan(r) != isHan(run[0]) {
				flush()
			}
			run = append(run, r)
		}
		flush()
	}
	return out
}

func isHan(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

// The share of a message's weight that a turn must hold to be mentioned: though Filter did
// not choose it, and when it did (words that every turn holds weigh nothing). At most
// mostMentions turns are mentioned.
const (
	coverEnough  = 0.4
	coverLeast   = 0.12
	mostMentions = 8
)

// Relevant chooses the earlier turns that bear on a message, in at most room tokens, in
// their order: those that Filter gives, and those that hold most of the message's rare
// words, which a long answer hides from Filter. summarised is the last turn that a summary
// covers: of those turns only the clearly relevant ones are mentioned. skip leaves out
// turns that were mentioned already.
func Relevant(list []Past, query string, summarised, room int, skip func(turn int) bool) []Mention {
	if strings.TrimSpace(query) == "" || len(list) == 0 {
		return nil
	}
	want := units(query)
	have := make([]map[string]bool, len(list))
	seen := map[string]int{}
	for i, p := range list {
		have[i] = units(p.User + " " + p.Thinking + " " + p.Assistant)
		for u := range want {
			if have[i][u] {
				seen[u]++
			}
		}
	}
	weight := func(u string) float64 {
		return math.Log(1 + (float64(len(list))-float64(seen[u])+0.5)/(float64(seen[u])+0.5))
	}
	total := 0.0
	for u := range want {
		if seen[u] > 0 {
			total += weight(u)
		} else {
			total += weight(u) / 3 // a word nobody has used says little about any turn
		}
	}
	turns := make([]Turn, len(list))
	index := map[string][]int{}
	for i, p := range list {
		turns[i] = p.Turn
		key := p.User + "\x00" + p.Assistant
		index[key] = append(index[key], i)
	}
	brief := map[int]string{}
	chosen := map[int]bool{}
	for _, p := range Filter(turns, query) {
		for _, i := range index[p.Turn.User+"\x00"+p.Turn.Assistant] {
			chosen[i], brief[i] = true, p.Brief
		}
	}
	type cand struct {
		i     int
		score float64
	}
	keys := Keywords(query)
	files := fileForm().FindAllString(query, -1)
	var cands []cand
	for i, p := range list {
		cover := 0.0
		if total > 0 {
			for u := range want {
				if have[i][u] {
					cover += weight(u)
				}
			}
			cover /= total
		}
		named := 0
		for _, f := range files {
			if slices.Contains(p.Files, f) {
				named++
			}
		}
		switch {
		case skip != nil && skip(p.N):
			continue
		case cover >= coverEnough || named > 0:
			brief[i] = ""
		case !chosen[i] || cover < coverLeast:
			continue // nothing of weight in common: chosen for want of keywords
		case p.N <= summarised && brief[i] != "":
			continue
		}
		s := cover + 0.2*float64(named)
		if len(keys) > 0 {
			s += score(p.Turn, keys)
		}
		cands = append(cands, cand{i, s})
	}
	slices.SortStableFunc(cands, func(a, b cand) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.i, a.i)) })
	var out []Mention
	for _, c := range cands {
		p := list[c.i]
		m := Mention{N: p.N, Text: fmt.Sprintf("[turn %d", p.N)}
		if !p.At.IsZero() {
			m.Text += p.At.Format(", 2006-01-02")
		}
		if b := brief[c.i]; b != "" {
			m.Text += "] " + b
		} else {
			m.Text += "]\nUser: " + clipSaying(p.User, 1500)
			if p.Assistant != "" {
				m.Text += "\nAssistant: " + clip(p.Assistant, 1500)
			}
			if len(p.Files) > 0 {
				m.Text += "\nFiles: " + strings.Join(p.Files[:min(len(p.Files), 8)], ", ")
			}
		}
		n := Estimate(m.Text)
		if n > room || len(out) == mostMentions {
			continue
		}
		room -= n
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mention) int { return cmp.Compare(a.N, b.N) })
	return out
}

var weighty = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:remember|must|never|always|don't|do not|important|from now on|note that|keep in mind|only ever)\b|记住|记得|必须|务必|不要|不准|禁止|以后|今后|一律|总是|重要`)
})

// clipSaying is at most n code points of what a user said: its beginning, and of the rest
// the sentences that state something to be kept.
func clipSaying(s string, n int) string {
	total := utf8.RuneCountInString(s)
	if total <= n {
		return s
	}
	begin := head(s, n)
	var kept []string
	room := n * 2 / 3
	for _, sentence := range sentences(s) {
		if k := utf8.RuneCountInString(sentence); weighty().MatchString(sentence) && k <= room {
			if !strings.Contains(begin[:len(begin)/3], sentence) {
				kept = append(kept, sentence)
			}
			room -= k
		}
	}
	if len(kept) == 0 {
		return begin + " […]"
	}
	return head(s, max(0, n-utf8.RuneCountInString(strings.Join(kept, " ")))) + " […] " + strings.Join(kept, " ")
}

// sentences cuts a text at ends of sentences and lines.
func sentences(s string) []string {
	var out []string
	start := 0
	for i, r := range s {
		end := 0
		switch r {
		case '\n', '。', '！', '？', '!', '?', '；', ';':
			end = i + utf8.RuneLen(r)
		case '.':
			if i+1 == len(s) || s[i+1] == ' ' || s[i+1] == '\n' {
				end = i + 1
			}
		}
		if end > 0 {
			if t := strings.TrimSpace(s[start:end]); t != "" {
				out = append(out, t)
			}
			start = end
		}
	}
	if t := strings.TrimSpace(s[start:]); t != "" {
		out = append(out, t)
	}
	return out
}
