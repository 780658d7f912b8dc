package memory

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/store"
)

// storeVectors is the store as the keeper of vectors.
type storeVectors struct{ st *store.Store }

func (v storeVectors) Without(ctx context.Context, model string, n int) ([]Unvectored, error) {
	list, err := v.st.MemoriesWithoutVector(ctx, model, n)
	out := make([]Unvectored, len(list))
	for i, t := range list {
		out[i] = Unvectored(t)
	}
	return out, err
}

func (v storeVectors) Set(ctx context.Context, model string, texts []Unvectored, list [][]float32) error {
	out := make([]store.MemoryText, len(texts))
	for i, t := range texts {
		out[i] = store.MemoryText(t)
	}
	return v.st.SetMemoryVectors(ctx, model, out, list)
}

func (v storeVectors) Near(ctx context.Context, model, project string, q []float32, fn func(int64, float64)) error {
	return v.st.NearMemories(ctx, model, project, q, fn)
}

// topics is an embedder that knows three subjects.
type topics struct {
	fail  error
	asked [][]string
}

func (*topics) Model() string { return "topics" }

func (e *topics) Embed(_ context.Context, texts []string) ([][]float32, error) {
	e.asked = append(e.asked, texts)
	if e.fail != nil {
		return nil, e.fail
	}
	var out [][]float32
	for _, t := range texts {
		v := []float32{0.1, 0.1, 0.1}
		for i, words := range []string{"dog puppy Momo 小狗 宠物", "deploy ship 上线", "budget 预算"} {
			for w := range strings.FieldsSeq(words) {
				if strings.Contains(t, w) {
					v[i] += 3
				}
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// With an embedder, rows are found by meaning without a word in common; each text is sent
// once; a failing server leaves search lexical, and it says so; what is erased has no
// vector.
func TestHybrid(t *testing.T) {
	f := newService(t)
	e := &topics{}
	c := f.config()
	c.Embedder, c.Vectors = e, storeVectors{f.st}
	h := New(c)
	for _, text := range []string{"Momo eats twice a day", "ship with make ship", "the budget is 5000"} {
		if _, err := h.Add(t.Context(), Item{Content: text, Category: core.MemoryFact}); err != nil {
			t.Fatal(err)
		}
	}
	hits, err := h.Search(t.Context(), "宠物", 10, false)
	if err != nil || len(hits) != 1 || hits[0].ID != 1 {
		t.Fatalf("by meaning: %+v %v", hits, err)
	}
	if lexical, err := f.Search(t.Context(), "宠物", 10, false); err != nil || len(lexical) != 0 {
		t.Fatalf("by words: %+v %v", lexical, err)
	}
	sel, err := h.Select(t.Context(), "怎么上线？")
	if err != nil || sel.Items[0].ID != 2 || sel.Method != "hybrid (topics)" {
		t.Fatalf("%+v %v", sel, err)
	}
	if len(e.asked) != 2 || len(e.asked[0]) != 4 || len(e.asked[1]) != 1 {
		t.Errorf("asked for %v", e.asked)
	}
	// A changed text has another vector.
	text := "the puppy is called Bo"
	if _, err := h.Edit(t.Context(), 3, Change{Content: &text}); err != nil {
		t.Fatal(err)
	}
	if hits, err = h.Search(t.Context(), "宠物", 10, false); err != nil || len(hits) != 2 {
		t.Errorf("after the change: %+v %v", hits, err)
	}
	if _, err := h.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := f.st.DB().QueryRow(`SELECT count(*) FROM memory_vectors WHERE memory_id = 1`).Scan(&n); err != nil || n != 0 {
		t.Errorf("vectors of what was erased: %d %v", n, err)
	}
	e.fail = errors.New("no server")
	if sel, err = h.Select(t.Context(), "make ship"); err != nil || sel.Items[0].ID != 2 || !strings.Contains(sel.Method, "lexical: no server") {
		t.Errorf("without the server: %+v %v", sel, err)
	}
}

// In a large store meaning brings rows in that neither words nor rank would.
func TestHybridLarge(t *testing.T) {
	f := newService(t)
	low := core.PriorityLow
	var items []Item
	items = append(items, Item{Content: "Momo eats twice a day", Category: core.MemoryFact, Priority: &low, Importance: 1})
	for i := range 600 {
		items = append(items, Item{Content: "note " + strings.Repeat(string(rune('a'+i%26)), 3+i/26) + " x", Category: core.MemoryFact, Importance: 5})
	}
	if _, err := f.IngestBatch(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	e := &topics{}
	c := f.config()
	c.Embedder, c.Vectors, c.Now = e, storeVectors{f.st}, func() time.Time { return f.now }
	h := New(c)
	for range 8 { // 95 rows with each request
		if _, err := h.Select(t.Context(), "宠物"); err != nil {
			t.Fatal(err)
		}
	}
	sel, err := h.Select(t.Context(), "宠物")
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range sel.Items {
		if it.ID == 1 && it.Relevance > 0.5 {
			return
		}
	}
	t.Errorf("not chosen: %+v", sel.IDs())
}
