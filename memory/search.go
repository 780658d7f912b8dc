package memory

import (
	"context"
	"math"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/memory/segment"
)

// Hit is one answer of a search. Score has no unit; more is better.
type Hit struct {
	core.Memory
	Score float64
}

// The weights of a search. Their values were chosen on public data by
// cmd/internal/eval; the order of magnitude is what matters.
const (
	bm25K1        = 0.9
	bm25B         = 0.4
	contextWeight = 0.5 // of a word found around the content only
	nameWeight    = 1.6 // of a word written as a name in the query
	phraseWeight  = 0.35
	coverWeight   = 0.9
	otherWeight   = 0.6
	besideWeight  = 0.3
	gatherHits    = 300

	feedbackWeight = 0.5
	feedbackRows   = 4   // whose words are taken up
	feedbackWords  = 16  // that are taken up
	feedbackCounts = 150 // that are weighed
)

// toAgent finds questions about what the agent said; other questions are answered by the
// user's own words first.
var toAgent = lazy(`(?i)\byou(?:'ve| have| had)? (?:recommend|suggest|said|say|told|tell|propos|advis|mention|explain|describ|answer|show|give|gave|wrote|write|list)|你(?:之前|上次|曾经?|刚才)?(?:推荐|建议|说|告诉|提到|解释|回答|给我|写|列)`)

// queryWord is one word looked for.
type queryWord struct {
	word   string // in the index's form
	weight float64
	idf    float64
	part   bool
}

// Search finds the k memories that fit the words best: active ones, or with all also
// those that were replaced, archived or have expired. Any text is a valid query: words in
// Chinese and English, identifiers, single characters, signs and operators are all just
// words. Words that say little count only when there are no others.
func (s *Service) Search(ctx context.Context, query string, k int, all bool) ([]Hit, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if k <= 0 {
		k = 10
	}
	near := s.meaning(ctx, strings.TrimSpace(query))
	var out []Hit
	err := s.view(ctx, false, func(r core.MemoryReader) error {
		var err error
		out, err = s.search(ctx, r, query, near, k, all)
		return err
	})
	if out == nil {
		out = []Hit{}
	}
	return out, err
}

// queryWords takes a query apart.
func (s *Service) queryWords(query string) []queryWord {
	toks := tokens(s.cut, query, true)
	var out []queryWord
	seen := map[string]int{}
	collect := func(stops bool) {
		for _, t := range toks {
			w := indexWord(t.stem)
			if w == "" || t.stop != stops {
				continue
			}
			if i, ok := seen[w]; ok {
				if t.name {
					out[i].weight = nameWeight
				}
				continue
			}
			q := queryWord{word: w, weight: 1}
			if t.name || t.kind == segment.Identifier {
				q.weight = nameWeight
			}
			seen[w] = len(out)
			out = append(out, q)
		}
	}
	collect(false)
	if len(out) == 0 {
		collect(true)
	}
	if len(out) > 64 {
		out = out[:64]
	}
	return out
}

func (s *Service) search(ctx context.Context, r core.MemoryReader, query string, near closeness, k int, all bool) ([]Hit, error) {
	states, project := []string(nil), s.scope()
	if all {
		states, project = []string{"*"}, "*"
	}
	words := s.queryWords(query)
	names := make([]string, len(words))
	for i, q := range words {
		names[i] = q.word
	}
	counts, err := r.WordCounts(ctx, names)
	if err != nil {
		return nil, err
	}
	rows, length, err := r.MemoryTotals(ctx)
	if err != nil {
		return nil, err
	}
	average := float64(max(length, 1)) / float64(max(rows, 1))
	for i := range words {
		n := float64(counts[words[i].word])
		words[i].idf = math.Log(1 + (float64(rows)-n+0.5)/(n+0.5))
	}
	found := map[int64]core.MemoryHit{}
	gather := func(q core.MemoryQuery) error {
		q.States, q.Project = states, project
		hits, err := r.MatchMemories(ctx, q)
		for _, h := range hits {
			if _, ok := found[h.Memory.ID]; !ok {
				found[h.Memory.ID] = h
			}
		}
		return err
	}
	if len(words) > 0 {
		// Words that occur nearly everywhere are not looked for in a large store: they order
		// what the others find.
		rare, common, err := s.rarest(ctx, r, names, 20000, 64)
		if err != nil {
			return nil, err
		}
		for _, q := range words {
			if counts[q.word] == 0 {
				rare = append(rare, q.word) // it may stand in the context
			}
		}
		if len(rare) > 0 {
			if err := gather(core.MemoryQuery{Any: rare, Limit: max(gatherHits, 3*k)}); err != nil {
				return nil, err
			}
		}
		if len(common) > 0 && len(found) < gatherHits {
			if len(common) >= 2 {
				if err := gather(core.MemoryQuery{All: common[:2], Column: "words", Newest: true, Limit: gatherHits}); err != nil {
					return nil, err
				}
			}
			if err := gather(core.MemoryQuery{All: common[:1], Column: "words", Newest: true, Limit: gatherHits}); err != nil {
				return nil, err
			}
		}
	}
	var pairsOf []string
	grams(query, func(g string) {
		if !contains(pairsOf, g) && len(pairsOf) < 32 && utf8.RuneCountInString(g) == 2 {
			pairsOf = append(pairsOf, g)
		}
	})
	if len(pairsOf) > 0 {
		if err := gather(core.MemoryQuery{Any: pairsOf, Column: "grams", Limit: gatherHits / 2}); err != nil {
			return nil, err
		}
	}
	plain := strings.TrimSpace(query)
	if len(found) == 0 && plain != "" {
		// A single character, or the beginning of a word.
		var first []string
		grams(query, func(g string) { first = append(first, g) })
		if len(first) > 0 {
			if err := gather(core.MemoryQuery{Any: first, Column: "grams", Prefix: true, Limit: gatherHits}); err != nil {
				return nil, err
			}
		}
		if len(found) == 0 && len(names) > 0 {
			if err := gather(core.MemoryQuery{Any: names, Column: "words", Prefix: true, Limit: gatherHits}); err != nil {
				return nil, err
			}
		}
	}
	out := make([]Hit, 0, len(found))
	for _, h := range found {
		out = append(out, Hit{h.Memory, s.relevance(h, words, pairsOf, average)})
	}
	asksAgent := toAgent().MatchString(plain)
	if err := feedback(ctx, r, out, found, words, asksAgent, rows, average); err != nil {
		return nil, err
	}
	alongside(out)
	if len(out) == 0 && plain != "" {
		// Text that no word of the index shows, such as a sign or the middle of a word.
		list, err := r.ContentLike(ctx, plain, core.MemoryFilter{States: states, Project: project, Limit: k})
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			out = append(out, Hit{m, 0.01})
		}
	}
	low := strings.ToLower(plain)
	for i := range out {
		if len(low) > 1 && strings.Contains(strings.ToLower(out[i].Content), low) {
			out[i].Score += 0.5 + 0.2*float64(len(words))
		}
		if byAgent(out[i].Memory) != asksAgent {
			out[i].Score *= otherWeight
		}
		if out[i].State != core.MemoryActive {
			out[i].Score *= 0.8
		}
	}
	if out, err = s.rerank(ctx, r, near, out); err != nil {
		return nil, err
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Score != b.Score {
			return a.Score > b.Score
		}
		if !a.UpdatedAt.Equal(b.UpdatedAt) {
			return a.UpdatedAt.After(b.UpdatedAt)
		}
		return a.ID > b.ID
	})
	return out[:min(len(out), k)], nil
}

// alongside raises rows that were said next to others that fit: what is asked for is often
// in the answer to the message that holds the words.
func alongside(hits []Hit) {
	type place struct {
		session string
		message int64
	}
	score := make(map[place]float64, len(hits))
	for _, h := range hits {
		if h.Session != "" && h.Message != 0 {
			p := place{h.Session, h.Message}
			score[p] = max(score[p], h.Score)
		}
	}
	for i, h := range hits {
		if h.Session == "" || h.Message == 0 {
			continue
		}
		hits[i].Score += besideWeight * max(score[place{h.Session, h.Message - 1}], score[place{h.Session, h.Message + 1}])
		hits[i].Score += besideWeight / 2 * max(score[place{h.Session, h.Message - 2}], score[place{h.Session, h.Message + 2}])
	}
}

func byAgent(m core.Memory) bool {
	return m.Source == core.SourceModel || m.Source == core.SourceTool
}

// feedback raises rows that share the telling words of the rows that fit best, so that a
// question finds also what was said about its subject in other words. It is pseudo-relevance
// feedback after J. J. Rocchio, "Relevance feedback in information retrieval" (1971), with
// words weighed by their share of the best rows and their rarity. Rows of the side that
// was not asked say nothing here. With few rows found there is nothing to choose from.
func feedback(ctx context.Context, r core.MemoryReader, hits []Hit, found map[int64]core.MemoryHit, words []queryWord, asksAgent bool, rows int, average float64) error {
	if len(hits) <= feedbackRows {
		return nil
	}
	sort.Slice(hits, func(i, j int) bool {
		if hits[i].Score != hits[j].Score {
			return hits[i].Score > hits[j].Score
		}
		return hits[i].ID > hits[j].ID
	})
	share := map[string]float64{}
	best := 0
	for _, h := range hits {
		if byAgent(h.Memory) != asksAgent {
			continue
		}
		list := strings.Fields(found[h.ID].Index.Words)
		for _, w := range list {
			share[w] += h.Score / float64(len(list))
		}
		if best++; best == feedbackRows {
			break
		}
	}
	full := 0.0
	for _, q := range words {
		delete(share, q.word)
		full += q.weight * q.idf
	}
	names := make([]string, 0, len(share))
	for w := range share {
		names = append(names, w)
	}
	byWeight := func(i, j int) bool {
		if a, b := share[names[i]], share[names[j]]; a != b {
			return a > b
		}
		return names[i] < names[j]
	}
	sort.Slice(names, byWeight)
	names = names[:min(len(names), feedbackCounts)]
	counts, err := r.WordCounts(ctx, names)
	if err != nil {
		return err
	}
	for _, w := range names {
		n := float64(counts[w])
		if share[w] *= math.Log(1 + (float64(rows)-n+0.5)/(n+0.5)); n < 2 {
			share[w] = 0 // it can find nothing else
		}
	}
	sort.Slice(names, byWeight)
	names = names[:min(len(names), feedbackWords)]
	total := 0.0
	for _, w := range names {
		total += share[w]
	}
	if total <= 0 {
		return nil
	}
	taken := make(map[string]int, len(names))
	for i, w := range names {
		taken[w] = i
	}
	for i, h := range hits {
		tf := make([]int, len(names))
		length := 0
		for w := range strings.FieldsSeq(found[h.ID].Index.Words) {
			if k, ok := taken[w]; ok {
				tf[k]++
			}
			length++
		}
		norm := bm25K1 * (1 - bm25B + bm25B*float64(length)/math.Max(average, 1))
		sum := 0.0
		for k, n := range tf {
			if n > 0 {
				sum += share[names[k]] / total * float64(n) * (bm25K1 + 1) / (float64(n) + norm)
			}
		}
		hits[i].Score += feedbackWeight * full * sum
	}
	return nil
}

// relevance orders what the index found: BM25 over the words of the content, those of its
// context counting less, with more for rows that hold many different words of the query
// and hold them next to each other.
func (s *Service) relevance(h core.MemoryHit, words []queryWord, pairsOf []string, average float64) float64 {
	length := 0
	type at struct{ n, first int }
	in := make(map[string]at, 32)
	for w := range strings.FieldsSeq(h.Index.Words) {
		v, ok := in[w]
		if !ok {
			v.first = length
		}
		v.n++
		in[w] = v
		length++
	}
	near := set(h.Index.Context)
	norm := bm25K1 * (1 - bm25B + bm25B*float64(length)/math.Max(average, 1))
	score, possible, covered := 0.0, 0.0, 0.0
	last := -2
	for _, q := range words {
		w := q.weight * q.idf
		possible += w
		v, ok := in[q.word]
		switch {
		case ok:
			tf := float64(v.n)
			score += w * tf * (bm25K1 + 1) / (tf + norm)
			covered += w
			if v.first == last+1 {
				score += phraseWeight * w
			}
			last = v.first
		case near[q.word]:
			score += contextWeight * w
			covered += contextWeight * w
			last = -2
		default:
			last = -2
		}
	}
	if possible > 0 {
		score *= 1 + coverWeight*covered/possible
	}
	if len(pairsOf) > 0 {
		have := set(h.Index.Grams)
		n := 0
		for _, g := range pairsOf {
			if have[g] {
				n++
			}
		}
		score += 1.5 * float64(n) / float64(len(pairsOf))
	}
	return score
}

// Surroundings is the context of something said: when, and what was said just before and
// after. It helps to find it and is never shown.
func Surroundings(at time.Time, before, after string) string {
	out := ""
	if !at.IsZero() {
		out = at.Format("2 January 2006 Monday")
	}
	for _, t := range []string{before, after} {
		if t != "" {
			out += "\n" + clip(t, 600)
		}
	}
	return strings.TrimSpace(out)
}

// IndexWords are the words of a text as the index holds them, without those that say
// little.
func IndexWords(c Cutter, text string) []string {
	var out []string
	for _, t := range tokens(c, text, true) {
		if !t.stop {
			out = append(out, indexWord(t.stem))
		}
	}
	return out
}
