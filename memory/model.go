package memory

import (
	_ "embed" // the weights
	"encoding/json"
	"math"
	"strings"
	"sync"
)

// The model says how likely it is that two texts mean the same, from how their words and
// letters agree. It is a logistic regression over the features of PairFeatures and their
// products, one set of weights for texts with Chinese characters and one for others,
// fitted by `go run ./cmd/internal/eval -train memory/model.json` on public sentence pairs.
//
//go:embed model.json
var modelJSON []byte

// Weights are one fitted model.
type Weights struct {
	Mean  []float64 `json:"mean"`
	Scale []float64 `json:"scale"`
	W     []float64 `json:"w"` // the constant, then features and products in the order of Expand
}

var model = sync.OnceValue(func() map[string]Weights {
	var m map[string]Weights
	if json.Unmarshal(modelJSON, &m) != nil {
		return nil
	}
	return m
})

// SameProbability is the model's probability that two texts mean the same, in [0, 1]. It
// knows nothing of the rules that forbid a merge; see Judge.
func SameProbability(c Cutter, a, b string) float64 {
	return probability(analyse(c, a), analyse(c, b), nil)
}

func probability(a, b *statement, al *alignment) float64 {
	key := "en"
	if a.han || b.han {
		key = "zh"
	}
	w, ok := model()[key]
	if a.model != nil {
		w, ok = *a.model, true
	}
	if !ok {
		return 0
	}
	x := pairFeatures(a, b, al)
	if len(x) != len(w.Mean) {
		return 0
	}
	for i := range x {
		x[i] = (x[i] - w.Mean[i]) / w.Scale[i]
	}
	z := 0.0
	for i, v := range Expand(x) {
		z += v * w.W[i]
	}
	return 1 / (1 + math.Exp(-z))
}

// Expand gives a constant, the features, and the products of all pairs of them.
func Expand(x []float64) []float64 {
	out := make([]float64, 0, 1+len(x)+len(x)*(len(x)+1)/2)
	out = append(append(out, 1), x...)
	for i := range x {
		for j := i; j < len(x); j++ {
			out = append(out, x[i]*x[j])
		}
	}
	return out
}

// PairFeatures describes how two texts agree, by words, word order, letters, numbers,
// names and polarity. The order of the texts plays no part.
func PairFeatures(c Cutter, a, b string) []float64 {
	return pairFeatures(analyse(c, a), analyse(c, b), nil)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func pairFeatures(a, b *statement, given *alignment) []float64 {
	ca, cb := a.content(), b.content()
	var al alignment
	if given != nil {
		al = *given
	} else {
		al = align(ca, cb)
	}
	onlyA, onlyB := 0, 0
	for _, s := range al.sites {
		onlyA += len(s.a)
		onlyB += len(s.b)
	}
	onlyA -= al.moved
	onlyB -= al.moved
	total := float64(max(1, max(len(al.a), len(al.b))))
	subs, extra := min(onlyA, onlyB), max(onlyA, onlyB)-min(onlyA, onlyB)
	names := func(list []slot) (out []slot) {
		for _, s := range list {
			if s.kind != slotWord {
				out = append(out, s)
			}
		}
		return out
	}
	na, nb := names(al.a), names(al.b)
	nal := align(na, nb)
	nameAgree, nameOrder := 1.0, 1.0
	if len(na)+len(nb) > 0 {
		nameAgree = float64(nal.common+nal.moved) / float64(max(len(na), len(nb)))
		nameOrder = float64(nal.common) / float64(max(len(na), len(nb)))
	}
	_, opposite := al.oppositePair()
	ra, rb := []rune(strings.ReplaceAll(a.bare, " ", "")), []rune(strings.ReplaceAll(b.bare, " ", ""))
	la, lb := float64(max(1, len(ra))), float64(max(1, len(rb)))
	wa, wb := words(a.toks), words(b.toks)
	moves := 0.0
	for _, s := range al.sites {
		moves += bit(len(s.a) > 0 && len(s.b) > 0)
	}
	qa, qb := asks(a), asks(b)
	return []float64{
		al.near(),
		float64(al.common) / total,
		float64(al.moved) / total,
		bit(al.moved > 0),
		float64(subs) / total,
		math.Min(float64(subs), 4),
		float64(extra) / total,
		math.Min(float64(extra), 5),
		bit(subs == 0 && extra == 0),
		nameAgree,
		nameOrder,
		bit(al.conflict()),
		bit(a.negated != b.negated),
		bit(opposite),
		ngramAgree(ra, rb, 2),
		ngramAgree(ra, rb, 3),
		float64(lcs(ra, rb)) / math.Max(la, lb),
		math.Min(la, lb) / math.Max(la, lb),
		agree(wa, wb),
		agree(grow(wa), grow(wb)),
		math.Log(la+lb) / 5,
		moves / total,
		agree(qa, qb),
		bit(len(qa) > 0 && len(qb) > 0),
		bit(len(wa) > 0 && len(wb) > 0 && wa[0] == wb[0]),
		bit(len(wa) > 0 && len(wb) > 0 && wa[len(wa)-1] == wb[len(wb)-1]),
		agree(small(a.toks), small(b.toks)),
	}
}

func words(toks []token) []string {
	out := make([]string, len(toks))
	for i, t := range toks {
		out[i] = t.stem
	}
	return out
}

func small(toks []token) []string {
	var out []string
	for _, t := range toks {
		if t.stop {
			out = append(out, t.text)
		}
	}
	return out
}

func grow(ws []string) []string {
	out := make([]string, 0, len(ws)+1)
	prev := "^"
	for _, w := range ws {
		out = append(out, prev+" "+w)
		prev = w
	}
	return append(out, prev+" $")
}

// askWords are the words of a question by what they ask for.
var askWords = map[string]string{}

func init() {
	for _, g := range []string{"what 什么 啥 哪个 哪些 which 那个 何", "who 谁 whom whose", "when 何时 多久", "where 哪里 哪儿 哪", "why 为什么 为何 为啥",
		"how 怎么 怎么办 怎样 怎么样 如何 咋 怎", "many 几 多少 much", "yes 吗 么 能否 是否 可否"} {
		ws := strings.Fields(g)
		for _, w := range ws {
			askWords[w] = ws[0]
		}
	}
}

func asks(s *statement) []string {
	var out []string
	for _, t := range s.toks {
		if k := askWords[t.text]; k != "" {
			out = append(out, k)
		}
	}
	return out
}

// agree is the Jaccard index of two lists as multisets; 1 when both are empty.
func agree(a, b []string) float64 {
	n := map[string]int{}
	for _, w := range a {
		n[w]++
	}
	both := 0
	for _, w := range b {
		if n[w] > 0 {
			n[w]--
			both++
		}
	}
	if len(a)+len(b) == 0 {
		return 1
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

func ngramAgree(a, b []rune, n int) float64 {
	list := func(r []rune) []string {
		var out []string
		for i := 0; i+n <= len(r); i++ {
			out = append(out, string(r[i:i+n]))
		}
		return out
	}
	return agree(list(a), list(b))
}

// lcs is the length of the longest common subsequence of the first 200 characters.
func lcs(a, b []rune) int {
	a, b = a[:min(len(a), 200)], b[:min(len(b), 200)]
	row := make([]int, len(b)+1)
	for i := range a {
		diag := 0
		for j := range b {
			up := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diag + 1
			} else {
				row[j+1] = max(row[j], row[j+1])
			}
			diag = up
		}
	}
	return row[len(b)]
}
