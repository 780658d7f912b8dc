package memory

import (
	"context"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// Embedder makes vectors of texts. Without one, search is lexical.
type Embedder interface {
	// Model names what makes the vectors: those of one model are not compared with those of
	// another.
	Model() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// VectorStore keeps the vectors of memories; *store.Store is one, by way of the caller's
// Vectors.
type VectorStore interface {
	// Without lists active memories that have no vector of their present text.
	Without(ctx context.Context, model string, limit int) ([]Unvectored, error)
	Set(ctx context.Context, model string, texts []Unvectored, vectors [][]float32) error
	// Near gives fn the product of q with the vector of each active memory of a project.
	Near(ctx context.Context, model, project string, q []float32, fn func(id int64, product float64)) error
}

// Unvectored is a memory whose vector is missing.
type Unvectored struct {
	ID            int64
	Content, Hash string
}

const (
	embedAtOnce = 96              // texts of one request, the query among them
	embedWait   = 5 * time.Second // for a request
	nearest     = 50              // rows that meaning alone may bring in
	leastNear   = 0.3             // the least product for that
)

// The names of how relevance was found.
const (
	methodLexical = "lexical"
	methodHybrid  = "hybrid"
)

// closeness is the products of a text with memories in meaning, nil where search is
// lexical.
type closeness struct {
	of     map[int64]float64
	method string
}

// meaning asks the embedder for the vector of a text, and in the same request for those of
// memories that have none yet. Where that fails, search is lexical and says why.
func (s *Service) meaning(ctx context.Context, text string) closeness {
	switch {
	case s.embed == nil || s.vectors == nil:
		return closeness{method: methodLexical + " (no embeddings endpoint)"}
	case text == "":
		return closeness{method: methodLexical + " (no words)"}
	}
	c, err := s.products(ctx, text)
	if err != nil {
		return closeness{method: methodLexical + ": " + err.Error()}
	}
	return c
}

func (s *Service) products(ctx context.Context, text string) (closeness, error) {
	model := s.embed.Model()
	missing, err := s.vectors.Without(ctx, model, embedAtOnce-1)
	if err != nil {
		return closeness{}, err
	}
	if s.mask != nil {
		text = s.mask(text)
	}
	texts := []string{clip(text, 4000)}
	for _, m := range missing {
		texts = append(texts, m.Content)
	}
	wait, cancel := context.WithTimeout(ctx, embedWait)
	defer cancel()
	vectors, err := s.embed.Embed(wait, texts)
	if err != nil {
		return closeness{}, err
	}
	if len(vectors) != len(texts) {
		return closeness{}, fmt.Errorf("%d vectors for %d texts", len(vectors), len(texts))
	}
	for _, v := range vectors {
		unit(v)
	}
	if len(missing) > 0 {
		if err := s.vectors.Set(ctx, model, missing, vectors[1:]); err != nil {
			return closeness{}, err
		}
	}
	c := closeness{of: map[int64]float64{}, method: methodHybrid + " (" + model + ")"}
	err = s.vectors.Near(ctx, model, s.scope(), vectors[0], func(id int64, p float64) { c.of[id] = p })
	return c, err
}

// unit brings a vector to length one.
func unit(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum <= 0 {
		return
	}
	k := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= k
	}
}

// best are the ids of the rows nearest in meaning.
func (c closeness) best() []int64 {
	var out []int64
	top := 0.0
	for id, p := range c.of {
		top = math.Max(top, p)
		if p >= leastNear {
			out = append(out, id)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if a, b := c.of[out[i]], c.of[out[j]]; a != b {
			return a > b
		}
		return out[i] > out[j]
	})
	for i, id := range out {
		if i == nearest || c.of[id] < 0.6*top {
			return out[:i]
		}
	}
	return out
}

// weigh is the spec's relevance of a row with a vector: words and meaning.
func (c closeness) weigh(id int64, words float64) float64 {
	if p, ok := c.of[id]; ok {
		return 0.4*math.Max(words, 0.1) + 0.6*math.Max(p, 0)
	}
	return words
}

// rerank brings the hits of the words and those of meaning together: each share counts
// half, that of the words by the best of them.
func (s *Service) rerank(ctx context.Context, r core.MemoryReader, c closeness, out []Hit) ([]Hit, error) {
	if c.of == nil {
		return out, nil
	}
	top := 0.0
	have := map[int64]bool{}
	for _, h := range out {
		top = math.Max(top, h.Score)
		have[h.ID] = true
	}
	var missing []int64
	for _, id := range c.best() {
		if !have[id] {
			missing = append(missing, id)
		}
	}
	rows, err := r.MemoriesByID(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, m := range rows {
		out = append(out, Hit{Memory: m})
	}
	for i, h := range out {
		words := 0.0
		if top > 0 {
			words = h.Score / top
		}
		out[i].Score = words/2 + math.Max(c.of[h.ID], 0)/2
	}
	return out, nil
}
