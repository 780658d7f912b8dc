package memory

import (
	"bufio"
	"os"
	"sort"
	"strings"
	"testing"
)

type pair struct {
	source string
	label  int
	a, b   string
}

func pairs(t testing.TB, file string) []pair {
	f, err := os.Open("../../shared/data/" + file)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	var out []pair
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		c := strings.Split(sc.Text(), "\t")
		if len(c) == 5 && c[0] != "id" {
			l := 0
			if c[2] == "1" {
				l = 1
			}
			out = append(out, pair{c[1], l, c[3], c[4]})
		}
	}
	return out
}

func TestPairsMerge(t *testing.T) {
	for _, file := range []string{"pairs_zh.tsv", "pairs_en.tsv"} {
		type cnt struct{ n, pos, merged, right int }
		by := map[string]*cnt{"all": {}}
		var wrong []string
		for _, p := range pairs(t, file) {
			if by[p.source] == nil {
				by[p.source] = &cnt{}
			}
			v := judge(p.a, p.b)
			for _, c := range []*cnt{by["all"], by[p.source]} {
				c.n++
				c.pos += p.label
				if v.rel == merges {
					c.merged++
					c.right += p.label
				}
			}
			if v.rel == merges && p.label == 0 {
				wrong = append(wrong, p.source+" "+p.a+" | "+p.b)
			}
		}
		var names []string
		for n := range by {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			c := by[n]
			t.Logf("%s %-10s n=%d merged=%d precision=%.3f recall=%.3f", file, n, c.n, c.merged, float64(c.right)/float64(max(1, c.merged)), float64(c.right)/float64(c.pos))
		}
		for _, w := range wrong {
			t.Log("WRONG ", w)
		}
	}
}
