package main

import (
	"sort"

	"github.com/lingjiyidong/lj/memory"
)

type confusion struct{ n, right, same, merged, good int }

// dedup says how well pairs of sentences are told apart: by the model alone, and by what
// ingest would merge without asking.
func dedup(c memory.Cutter, dir, lang string) error {
	rows, err := readPairs(dir, lang)
	if err != nil {
		return err
	}
	by := map[string]*confusion{}
	all := &confusion{}
	for _, r := range rows {
		if by[r.source] == nil {
			by[r.source] = &confusion{}
		}
		j := memory.Judge(c, r.a, r.b)
		for _, k := range []*confusion{all, by[r.source]} {
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
	show := func(name string, k *confusion) {
		share("dedup."+name+".accuracy", k.right, k.n)
		share("dedup."+name+".merge_precision", k.good, k.merged)
		share("dedup."+name+".merge_recall", k.good, k.same)
	}
	show(lang, all)
	var names []string
	for s := range by {
		names = append(names, s)
	}
	sort.Strings(names)
	for _, s := range names {
		show(lang+"."+s, by[s])
	}
	return nil
}
