package history

import (
	"regexp"
	"strings"
	"sync"
)

// Turn is what level 2 keeps of an earlier turn: the user's words, the final answer, what
// was thought on the way, the files it was about.
type Turn struct {
	User      string   `json:"user"`
	Assistant string   `json:"assistant"`
	Thinking  string   `json:"thinking,omitempty"`
	Files     []string `json:"files,omitempty"`
}

// How many turns level 2 holds before the oldest are handed to the summary, and how many
// then stay.
const (
	Level2Most = 50
	Level2Stay = 20
)

// Push adds a turn. When Level2Most are reached the oldest are handed over and the newest
// Level2Stay stay.
func Push(turns []Turn, t Turn) (kept, over []Turn) {
	turns = append(turns, t)
	if len(turns) < Level2Most {
		return turns, nil
	}
	cut := len(turns) - Level2Stay
	return turns[cut:], turns[:cut]
}

// The scores from which a turn is mentioned in full and in brief.
const (
	scoreFull  = 0.15
	scoreBrief = 0.05
)

// Pick is one turn worth mentioning. Brief is one line for a turn of small relevance, ""
// for one in full.
type Pick struct {
	Turn  Turn
	Brief string
}

var keywordForms = sync.OnceValues(func() (*regexp.Regexp, *regexp.Regexp) {
	return regexp.MustCompile(`[\x{4e00}-\x{9fff}]{2,}`), regexp.MustCompile(`[a-z_]{3,}`)
})

// Keywords is the set that relevance is measured with: runs of two or more Chinese
// characters and of three or more letters a–z or _, in lower case.
func Keywords(text string) map[string]bool {
	han, latin := keywordForms()
	low := strings.ToLower(text)
	out := map[string]bool{}
	for _, re := range []*regexp.Regexp{han, latin} {
		for _, w := range re.FindAllString(low, -1) {
			out[w] = true
		}
	}
	return out
}

var fileForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[A-Za-z0-9_.\-]+(?:/[A-Za-z0-9_.\-]+)+\.[A-Za-z0-9]+`)
})

// Filter chooses the turns that bear on a query, in their order. The score is the Jaccard
// similarity of the keyword sets, 0.5 for a turn without keywords; a file named in both
// lifts it to 0.4 + 0.1 for each. From 0.15 a turn is given in full, from 0.05 in brief;
// when nothing is left the best one is given. An empty query gives all in full.
//
// Beyond the reference: a query without any keyword (one character, digits, punctuation)
// gives the newest turn instead of everything, and a Chinese run that the turn holds with
// blanks in between counts as found.
func Filter(turns []Turn, query string) []Pick {
	if strings.TrimSpace(query) == "" {
		out := make([]Pick, len(turns))
		for i, t := range turns {
			out[i] = Pick{Turn: t}
		}
		return out
	}
	want := Keywords(query)
	files := map[string]bool{}
	for _, f := range fileForm().FindAllString(query, -1) {
		files[f] = true
	}
	if len(turns) == 0 {
		return nil
	}
	if len(want) == 0 && len(files) == 0 {
		return []Pick{{Turn: turns[len(turns)-1]}}
	}
	var out []Pick
	best, bestScore := 0, -1.0
	for i, t := range turns {
		s := score(t, want)
		n := 0
		for _, f := range t.Files {
			if files[f] {
				n++
			}
		}
		if n > 0 {
			s = max(s, 0.4+0.1*float64(n))
		}
		if s > bestScore {
			best, bestScore = i, s
		}
		switch {
		case s >= scoreFull:
			out = append(out, Pick{Turn: t})
		case s >= scoreBrief:
			out = append(out, Pick{Turn: t, Brief: "User: " + head(t.User, 80) + "... → Assistant: " + head(t.Assistant, 120) + "..."})
		}
	}
	if out == nil {
		return []Pick{{Turn: turns[best]}}
	}
	return out
}

func score(t Turn, want map[string]bool) float64 {
	text := t.User + " " + t.Thinking + " " + t.Assistant
	have := Keywords(text)
	if len(want) == 0 || len(have) == 0 {
		return 0.5
	}
	both := 0
	for w := range want {
		if have[w] {
			both++
		}
	}
	if both == 0 {
		// A missing blank decides nothing in Chinese.
		closed := strings.Join(strings.Fields(strings.ToLower(text)), "")
		for w := range want {
			if w[0] >= 0x80 && !strings.Contains(strings.ToLower(text), w) && strings.Contains(closed, w) {
				both++
			}
		}
		if both > 0 {
			return max(scoreFull, float64(both)/float64(len(want)+len(have)-both))
		}
	}
	return float64(both) / float64(len(want)+len(have)-both)
}

// head is the first n code points of a text.
func head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
