package memory

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Of the public pairs, what is merged without asking nearly always means the same.
func TestMergePrecision(t *testing.T) {
	dir := os.Getenv("LJ_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	for _, lang := range []string{"zh", "en"} {
		f, err := os.Open(filepath.Join(dir, "pairs_"+lang+".tsv"))
		if err != nil {
			t.Skipf("the data are not here: %v", err)
		}
		merged, right := 0, 0
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			if c := strings.Split(sc.Text(), "\t"); len(c) == 5 && judge(c[3], c[4]).rel == merges {
				merged++
				if c[2] == "1" {
					right++
				}
			}
		}
		f.Close()
		if merged < 50 || float64(right) < 0.95*float64(merged) {
			t.Errorf("%s: %d merged, %d rightly", lang, merged, right)
		}
	}
}
