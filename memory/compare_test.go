package memory

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lingjiyidong/lj/memory/segment"
)

var testSeg = segment.New(segment.Options{Cache: filepath.Join(os.TempDir(), "lj-test-dict")})

func testPart(t string) *statement { return analyse(testSeg, t) }

func judge(a, b string) verdict { return compare(testPart, analyse(testSeg, a), analyse(testSeg, b)) }

var relNames = map[relation]string{apart: "apart", related: "related", replaces: "replaces", merges: "merges"}

func TestPairsDump(t *testing.T) {
	var v struct {
		Cases []struct{ ID, A, B, Relation, Wanted string }
	}
	b, _ := os.ReadFile("../testdata/golden/similarity.json")
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Cases {
		if len(c.A) > 300 {
			continue
		}
		w := judge(c.A, c.B)
		t.Logf("%-14s %-9s %s | %s  (%s)", c.Relation, relNames[w.rel], c.A, c.B, w.reason)
	}
}
