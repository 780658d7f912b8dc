package main

import (
	"io"
	"os"
	"sort"

	"github.com/lingjiyidong/lj/memory"
)

type confusion struct{ n, right, same, merged, good int }

// counts are the judgements on pairs, all together ("") and by source.
type counts map[string]*confusion

func newCounts() counts { return counts{"": {}} }

func (c counts) add(r pairRow, j memory.Judgement) {
	if c[r.source] == nil {
		c[r.source] = &confusion{}
	}
	for _, k := range []*confusion{c[""], c[r.source]} {
		k.n++
		k.same += r.label
		if (j.Same >= 0.5) == (r.label == 1) {
			k.right++
		}
		if j.Merge {
			k.merged++
			k.good += r.label
		}
	}
}

func (c counts) print(w io.Writer, name string) {
	var sources []string
	for s := range c {
		sources = append(sources, s)
	}
	sort.Strings(sources) // "" is the first
	for _, s := range sources {
		k, n := c[s], name
		if s != "" {
			n += "." + s
		}
		share(w, n+".accuracy", k.right, k.n)
		share(w, n+".merge_precision", k.good, k.merged)
		share(w, n+".merge_recall", k.good, k.same)
	}
}

// dedup says how well pairs of sentences are told apart: by the model alone, and by what
// ingest would merge without asking.
func dedup(c memory.Cutter, dir, lang string) error {
	rows, err := readPairs(dir, lang)
	if err != nil {
		return err
	}
	count := newCounts()
	for _, r := range rows {
		count.add(r, memory.Judge(c, r.a, r.b))
	}
	count.print(os.Stdout, "dedup."+lang)
	return nil
}
