package memory_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/memory"
	"github.com/lingjiyidong/lj/memory/segment"
)

// seg is the segmenter of all tests of this package: one dictionary for the process.
var seg = segment.New(segment.Options{Cache: filepath.Join(os.TempDir(), "lj-test-dict")})

// goldenDir is the folder of test vectors: LJ_GOLDEN, else testdata/golden beside go.mod.
func goldenDir(t *testing.T) string {
	t.Helper()
	if d := os.Getenv("LJ_GOLDEN"); d != "" {
		return d
	}
	d, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return filepath.Join(d, "testdata", "golden")
		}
		if d == filepath.Dir(d) {
			t.Fatal("no go.mod above the test")
		}
		d = filepath.Dir(d)
	}
}

func golden[T any](t *testing.T, set string) T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDir(t), set+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", set, err)
	}
	return v
}

type cases[C any] struct {
	Cases []C `json:"cases"`
}

func TestGoldenKeywords(t *testing.T) {
	type c struct {
		ID, Text string
		Out      []string
	}
	bad := 0
	all := golden[cases[c]](t, "keywords").Cases
	for _, c := range all {
		got := memory.Keywords(seg, strings.ToLower(c.Text))
		want := append([]string{}, c.Out...)
		sort.Strings(want)
		if strings.Join(got, "|") != strings.Join(want, "|") {
			bad++
			t.Errorf("%s %q: got %q, want %q", c.ID, c.Text, got, want)
		}
	}
	if len(all) < 10 {
		t.Fatal("no cases")
	}
}

func TestGoldenSimilarity(t *testing.T) {
	type c struct {
		ID, A, B   string
		Similarity float64
	}
	for _, c := range golden[cases[c]](t, "similarity").Cases {
		if got := memory.Similarity(seg, c.A, c.B); got < c.Similarity-1e-6 || got > c.Similarity+1e-6 {
			t.Errorf("%s %q %q: got %.6f, want %.6f", c.ID, c.A, c.B, got, c.Similarity)
		}
	}
}

func TestGoldenEmbedding(t *testing.T) {
	type c struct {
		ID, Text string
		Without  map[string]float64            `json:"without_corpus"`
		With     map[string]map[string]float64 `json:"with_corpus"`
	}
	v := golden[struct {
		Corpus []string
		Cases  []c
	}](t, "embedding")
	docs, df := 0, map[string]int{}
	for _, text := range v.Corpus {
		docs++
		seen := map[string]bool{}
		for _, g := range memory.EmbeddingTokens(text) {
			if !seen[g] {
				seen[g] = true
				df[g]++
			}
		}
	}
	check := func(id string, got []float64, want map[string]float64) {
		t.Helper()
		for i, x := range got {
			w := want[strconvI(i)]
			if x < w-1e-5 || x > w+1e-5 {
				t.Errorf("%s [%d]: got %.6f, want %.6f", id, i, x, w)
			}
		}
	}
	for _, c := range v.Cases {
		check(c.ID, memory.LocalEmbedding(c.Text, 0, nil), c.Without)
		check(c.ID+" corpus", memory.LocalEmbedding(c.Text, docs, df), c.With["0.10.1"])
	}
}

func strconvI(i int) string { b, _ := json.Marshal(i); return string(b) }

var goldenNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type goldenMemory struct {
	ID, Content, Category string
	Priority, Importance  int
	Tags                  string
	ExpiresAt             *string `json:"expires_at"`
	Pinned                int
	CreatedAt             string  `json:"created_at"`
	LastAccessedAt        *string `json:"last_accessed_at"`
	IsActive              *int    `json:"is_active"`
}

func TestGoldenScores(t *testing.T) {
	type c struct {
		ID, Topic string
		Memory    goldenMemory
		Out       struct{ Score, Relevance, Recency float64 }
	}
	for _, c := range golden[cases[c]](t, "scores").Cases {
		var tags []string
		for tag := range strings.SplitSeq(strings.ToLower(c.Memory.Tags), ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				tags = append(tags, tag)
			}
		}
		var used time.Time
		if c.Memory.LastAccessedAt != nil {
			used, _ = time.Parse("2006-01-02 15:04:05", *c.Memory.LastAccessedAt)
		}
		rel := memory.Relevance(memory.Keywords(seg, strings.ToLower(c.Memory.Content)), tags, strings.ToLower(c.Topic))
		rec := memory.Recency(used, goldenNow)
		score := memory.Score(rel, c.Memory.Importance, rec, c.Memory.Priority)
		for _, p := range [][2]float64{{rel, c.Out.Relevance}, {rec, c.Out.Recency}, {score, c.Out.Score}} {
			if d := p[0] - p[1]; d < -1e-4 || d > 1e-4 {
				t.Errorf("%s %q on %q: got %.4f %.4f %.4f, want %+v", c.ID, c.Memory.Content, c.Topic, rel, rec, score, c.Out)
				break
			}
		}
	}
}
