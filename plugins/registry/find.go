package registry

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/lingjiyidong/lj/core"
)

// Find ranks the tools by how well name and description answer a query in words, and
// returns at most limit (0 for all that match). An empty query gives all, by name.
//
// A term's weight is its inverse document frequency ln(1 + N/df); a match in the name
// counts three times one in the description, and a match of word beginnings (from four
// letters on) half. Chinese, Japanese and Korean text is compared by pairs of characters.
func (r *Registry) Find(query string, limit int) []core.ToolSpec {
	specs := r.Specs()
	terms := Terms(query)
	if strings.TrimSpace(query) == "" {
		if limit > 0 && len(specs) > limit {
			specs = specs[:limit]
		}
		return specs
	}
	type doc struct {
		spec       core.ToolSpec
		name, text map[string]bool
		score      float64
	}
	set := func(s string) map[string]bool {
		m := map[string]bool{}
		for _, t := range Terms(s) {
			m[t] = true
		}
		return m
	}
	docs := make([]doc, len(specs))
	for i, s := range specs {
		docs[i] = doc{spec: s, name: set(s.Name), text: set(s.Description)}
	}
	has := func(m map[string]bool, term string) float64 {
		if m[term] {
			return 1
		}
		if len(term) >= 4 && term[0] < 0x80 {
			for w := range m {
				if len(w) >= 4 && (strings.HasPrefix(w, term) || strings.HasPrefix(term, w)) {
					return 0.5
				}
			}
		}
		return 0
	}
	for _, term := range terms {
		var hits []float64
		df := 0
		for i := range docs {
			h := max(3*has(docs[i].name, term), has(docs[i].text, term))
			hits = append(hits, h)
			if h > 0 {
				df++
			}
		}
		if df == 0 {
			continue
		}
		weight := math.Log(1 + float64(len(docs))/float64(df))
		for i := range docs {
			docs[i].score += hits[i] * weight
		}
	}
	plain := strings.ToLower(strings.TrimSpace(query))
	for i := range docs {
		if docs[i].spec.Name == plain {
			docs[i].score += 1000
		}
	}
	docs = slices.DeleteFunc(docs, func(d doc) bool { return d.score == 0 })
	slices.SortStableFunc(docs, func(a, b doc) int { return cmp.Compare(b.score, a.score) })
	if limit > 0 && len(docs) > limit {
		docs = docs[:limit]
	}
	out := make([]core.ToolSpec, len(docs))
	for i, d := range docs {
		out[i] = d.spec
	}
	return out
}

// Terms splits a text into what Find compares, without repetition: words of letters and
// digits in lower case, and for runs of CJK characters their pairs (a lone character
// stands for itself).
func Terms(s string) []string {
	var terms []string
	seen := map[string]bool{}
	add := func(t string) {
		if t != "" && !seen[t] {
			seen[t] = true
			terms = append(terms, t)
		}
	}
	var word strings.Builder
	var run []rune
	flush := func() {
		add(word.String())
		word.Reset()
		if len(run) == 1 {
			add(string(run))
		}
		for i := 0; i+1 < len(run); i++ {
			add(string(run[i : i+2]))
		}
		run = run[:0]
	}
	for _, c := range strings.ToLower(s) {
		switch {
		case unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			if word.Len() > 0 {
				flush()
			}
			run = append(run, c)
		case unicode.IsLetter(c) || unicode.IsDigit(c):
			if len(run) > 0 {
				flush()
			}
			word.WriteRune(c)
		default:
			flush()
		}
	}
	flush()
	return terms
}
