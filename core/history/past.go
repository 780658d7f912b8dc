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

// spoken says whether the user said a message of the user; others show him or the model
// something (pictures that a tool read).
func spoken(m core.StoredMessage) bool { return m.Note == "" || m.Note == "steer" }

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
				if spoken(m) {
					said = append(said, strings.TrimSpace(m.Content))
				}
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

// eachUnit calls fn with each unit that texts are compared by beside keywords: words and
// identifiers of two or more letters or digits in lower case, and pairs of neighbouring
// Chinese characters. The slice is only good during the call.
func eachUnit(text string, fn func(unit []byte)) {
	var buf [96]byte
	word := buf[:0]
	var prev rune // the Chinese character before
	flush := func() {
		if len(word) > 1 {
			fn(word)
		}
		word = word[:0]
	}
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_'):
			word, prev = append(word, byte(r)), 0
			continue
		case r >= 'A' && r <= 'Z':
			word, prev = append(word, byte(r-'A'+'a')), 0
			continue
		case r < utf8.RuneSelf:
			flush()
			prev = 0
			continue
		case isHan(r):
			flush()
			if prev != 0 {
				fn(utf8.AppendRune(utf8.AppendRune(buf[:0], prev), r))
			}
			prev = r
			continue
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			word = utf8.AppendRune(word, unicode.ToLower(r))
		default:
			flush()
		}
		prev = 0
	}
	flush()
}

func units(text string) map[string]bool {
	out := map[string]bool{}
	eachUnit(text, func(u []byte) {
		if !out[string(u)] {
			out[string(u)] = true
		}
	})
	return out
}

func isHan(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3040 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// The share of a message's weight that a turn must hold to be mentioned: though Filter did
// not choose it, and when it did (words that every turn holds weigh nothing). At most
// mostMentions turns are mentioned.
const (
	coverEnough  = 0.4
	coverLeast   = 0.12
	mostMentions = 8
	queryMost    = 4000 // code points of a message that are compared
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
	query = head(query, queryMost)
	// A message of several questions is compared as a whole and sentence by sentence.
	parts := []map[string]bool{units(query)}
	for _, q := range sentences(query) {
		if u := units(q); len(u) > 1 && len(parts) < 16 {
			parts = append(parts, u)
		}
	}
	want := parts[0]
	have := make([]map[string]bool, len(list))
	seen := map[string]int{}
	for i, p := range list {
		h := map[string]bool{}
		for _, text := range []string{p.User, p.Thinking, p.Assistant} {
			eachUnit(text, func(u []byte) {
				if want[string(u)] && !h[string(u)] {
					h[string(u)] = true
				}
			})
		}
		have[i] = h
		for u := range h {
			seen[u]++
		}
	}
	weight := func(u string) float64 {
		return math.Log(1 + (float64(len(list))-float64(seen[u])+0.5)/(float64(seen[u])+0.5))
	}
	totals := make([]float64, len(parts))
	for k, part := range parts {
		for u := range part {
			if seen[u] > 0 {
				totals[k] += weight(u)
			} else {
				totals[k] += weight(u) / 3 // a word nobody has used says little about any turn
			}
		}
	}
	cover := make([]float64, len(list))
	named := make([]int, len(list))
	files := fileForm().FindAllString(query, -1)
	turns := []Turn{}
	index := []int{}
	for i, p := range list {
		for k, part := range parts {
			n := 0.0
			for u := range have[i] {
				if part[u] {
					n += weight(u)
				}
			}
			if totals[k] > 0 {
				cover[i] = max(cover[i], n/totals[k])
			}
		}
		for _, f := range files {
			if slices.Contains(p.Files, f) {
				named[i]++
			}
		}
		if named[i] > 0 || cover[i] >= coverLeast {
			turns, index = append(turns, p.Turn), append(index, i)
		}
	}
	if len(turns) == 0 {
		return nil
	}
	brief := map[int]string{}
	chosen := map[int]bool{}
	at := 0
	for _, p := range Filter(turns, query) { // in the order of turns
		for at < len(turns) && (turns[at].User != p.Turn.User || turns[at].Assistant != p.Turn.Assistant) {
			at++
		}
		if at < len(turns) {
			chosen[index[at]], brief[index[at]] = true, p.Brief
			at++
		}
	}
	type cand struct {
		i     int
		score float64
	}
	keys := Keywords(query)
	var cands []cand
	for _, i := range index {
		p := list[i]
		switch {
		case skip != nil && skip(p.N):
			continue
		case cover[i] >= coverEnough || named[i] > 0:
			brief[i] = ""
		case !chosen[i] || p.N <= summarised && brief[i] != "":
			continue
		}
		s := cover[i] + 0.2*float64(named[i])
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
			m.Text += "]\nUser: " + clipSaying(p.User, 1500, 500)
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

// clipSaying is the beginning of what a user said, n code points of it, and of the rest,
// in at most stated further ones, the sentences that state something to be kept. "" when
// nothing of that is left.
func clipSaying(s string, n, stated int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	begin := head(s, n)
	var kept []string
	for _, sentence := range sentences(s) {
		if !weighty().MatchString(sentence) || strings.Contains(begin, sentence) {
			continue
		}
		if k := utf8.RuneCountInString(sentence); k <= stated {
			kept = append(kept, sentence)
			stated -= k
		} else if stated >= 60 {
			// Where the statement begins, not where the sentence does.
			at := weighty().FindStringIndex(sentence)[0]
			kept = append(kept, clip(sentence[at:], stated))
			stated = 0
		}
	}
	if n > 0 {
		begin += " […]"
	}
	return strings.TrimSpace(begin + " " + strings.Join(kept, " "))
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
