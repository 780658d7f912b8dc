package scaffold_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lingjiyidong/lj/evolve/scaffold"
)

var update = flag.Bool("update", false, "write the golden files")

func TestNew(t *testing.T) {
	files := scaffold.New("word_count")
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, []string{"testdata/example.json", "tool.go", "tool.yaml", "tool_test.go"}) {
		t.Fatalf("%v", got)
	}
	for name, b := range files {
		golden := filepath.Join("testdata", filepath.Base(name)+".golden")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != string(b) {
			t.Errorf("%s differs from %s (run with -update): %v", name, golden, err)
		}
	}
}
