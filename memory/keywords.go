package memory

import (
	"crypto/md5"
	"math"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Keywords is the keyword set of a text as the reference computes it (spec/memory.md): the
// words of jieba's exact mode with two characters or more, and every run of three or more
// ASCII letters in lower case; sorted. Give it lower-cased text to compare texts.
func Keywords(c Cutter, text string) []string {
	seen := map[string]bool{}
	for _, w := range c.Cut(text) {
		if w = strings.TrimSpace(w); utf8.RuneCountInString(w) >= 2 {
			seen[w] = true
		}
	}
	letters := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= 'A' && text[i] <= 'Z') {
			letters++
			continue
		}
		if letters >= 3 {
			seen[strings.ToLower(text[i-letters:i])] = true
		}
		letters = 0
	}
	out := make([]string, 0, len(seen))
	for w := range seen {
		out = append(out, w)
	}
	sort.Strings(out)
	return out
}

// Similarity is the reference's measure of two texts: the Jaccard index of their keyword
// sets, of their character sets when one has no keywords, 0 when one is empty. It is kept
// for comparison; ingest does not rest on it.
func Similarity(c Cutter, a, b string) float64 {
	if a == "" || b == "" {
		return 0
	}
	ka, kb := Keywords(c, strings.ToLower(a)), Keywords(c, strings.ToLower(b))
	if len(ka) == 0 || len(kb) == 0 {
		return jaccard(strings.Split(a, ""), strings.Split(b, ""))
	}
	return jaccard(ka, kb)
}

func jaccard(a, b []string) float64 {
	in := map[string]int{}
	for _, w := range a {
		in[w] |= 1
	}
	for _, w := range b {
		in[w] |= 2
	}
	both := 0
	for _, v := range in {
		if v == 3 {
			both++
		}
	}
	if len(in) == 0 {
		return 0
	}
	return float64(both) / float64(len(in))
}

// Relevance is how much of a memory's keywords and tags the topic holds, in [0.1, 1]: 0.5
// for an empty topic, 0.3 for a memory without keywords (spec/memory.md). keywords and
// tags are lower case; so is topic.
func Relevance(keywords, tags []string, topic string) float64 {
	if strings.TrimSpace(topic) == "" {
		return 0.5
	}
	n, hits := 0, 0
	count := func(k string) {
		n++
		if strings.Contains(topic, k) {
			hits++
		}
	}
	for _, k := range keywords {
		count(k)
	}
	for _, t := range tags {
		if t != "" && !contains(keywords, t) {
			count(t)
		}
	}
	if n == 0 {
		return 0.3
	}
	return min(max(2*float64(hits)/float64(n), 0.1), 1)
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// Recency is the factor for the whole days since a memory was last used (spec/memory.md):
// up to 1 day 1.0, 7 days 0.9, 30 days 0.7, 90 days 0.5, else or never 0.3.
func Recency(lastUsed, now time.Time) float64 {
	if lastUsed.IsZero() {
		return 0.3
	}
	switch days := int(math.Floor(now.Sub(lastUsed).Hours() / 24)); {
	case days <= 1:
		return 1
	case days <= 7:
		return 0.9
	case days <= 30:
		return 0.7
	case days <= 90:
		return 0.5
	}
	return 0.3
}

// Score is relevance × max(importance, 1)/5 × recency × (4 − priority)/4 (spec/memory.md).
func Score(relevance float64, importance int, recency float64, priority int) float64 {
	// Grouped as the reference does, so that equal products are equal to the last bit.
	return relevance * (float64(max(importance, 1)) / 5) * recency * (float64(4-priority) / 4)
}

// EmbeddingSize is the length of LocalEmbedding's vectors.
const EmbeddingSize = 256

// LocalEmbedding is the reference's vector for a text where no embedding model is
// configured: character pairs hashed by MD5 into 256 places, weighed by frequency and
// inverse document frequency, of unit length. docs and df describe a corpus of earlier
// texts; with docs 0 all weights are by frequency only. It sees spelling, not meaning, and
// is used to compare with the reference.
func LocalEmbedding(text string, docs int, df map[string]int) []float64 {
	v := make([]float64, EmbeddingSize)
	gs := EmbeddingTokens(text)
	tf := map[string]int{}
	for _, g := range gs {
		tf[g]++
	}
	for g, n := range tf {
		idf := math.Log(float64(docs+1)/float64(df[g]+1)) + 1
		sum := md5.Sum([]byte(g))
		v[sum[15]] += float64(n) / float64(len(gs)) * idf // MD5 mod 256 is its last byte
	}
	length := 0.0
	for _, x := range v {
		length += x * x
	}
	if length > 0 {
		length = math.Sqrt(length)
		for i := range v {
			v[i] /= length
		}
	}
	return v
}

// EmbeddingTokens are the character pairs of the trimmed, lower-cased text; a text of one
// character is its own token.
func EmbeddingTokens(text string) []string {
	rs := []rune(strings.ToLower(strings.TrimFunc(text, unicode.IsSpace)))
	if len(rs) < 2 {
		if len(rs) == 0 {
			return nil
		}
		return []string{string(rs)}
	}
	out := make([]string, 0, len(rs)-1)
	for i := range len(rs) - 1 {
		out = append(out, string(rs[i:i+2]))
	}
	return out
}
