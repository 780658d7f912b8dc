package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// pairRow is one labelled sentence pair.
type pairRow struct {
	source string
	label  int
	a, b   string
}

func readPairs(dir, lang string) ([]pairRow, error) {
	f, err := os.Open(filepath.Join(dir, "pairs_"+lang+".tsv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []pairRow
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		c := strings.Split(sc.Text(), "\t")
		if len(c) != 5 || c[2] != "0" && c[2] != "1" {
			continue
		}
		out = append(out, pairRow{c[1], int(c[2][0] - '0'), c[3], c[4]})
	}
	return out, sc.Err()
}
