// Command eval prints figures of retrieval and deduplication on public data, one a line:
//
//	name<TAB>value<TAB>low<TAB>high<TAB>n
//
// low and high bound the value with 95 % confidence: Wilson's interval for shares, and for
// means of shares (recall) Wilson's with the effective number of trials that their variance
// amounts to. It asks no model and touches no network. The data are the files named in
// LJ_DATA (default ../shared/data); what is not there is named on stderr and left out.
//
//	LJ_DATA=/data go run ./cmd/internal/eval
//	go run ./cmd/internal/eval -train memory/model.json   # fit the weights again
//
// The model of sentence pairs is fitted on the public pairs: their figures are those of
// known texts. -train prints on stderr, as dedup.LANG.held_out, those of texts that the
// model was not fitted on.
//
// It owns the measuring only: what is measured is the code of memory and store that lj
// itself uses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/lingjiyidong/lj/memory/segment"
)

func main() {
	trainTo := flag.String("train", "", "fit the model of sentence pairs and write its weights to this `file`")
	only := flag.String("only", "", "run only locomo, beam, zh or en")
	flag.Parse()
	dir := os.Getenv("LJ_DATA")
	if dir == "" {
		dir = filepath.Join("..", "shared", "data")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	seg := segment.New(segment.Options{Cache: filepath.Join(os.TempDir(), fmt.Sprintf("lj-eval-dict-%d", os.Getuid()))})
	if *trainTo != "" {
		if err := train(seg, dir, *trainTo); err != nil {
			fail(err)
		}
		return
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"zh", func() error { return dedup(seg, dir, "zh") }},
		{"en", func() error { return dedup(seg, dir, "en") }},
		{"locomo", func() error { return locomo(ctx, seg, dir) }},
		{"beam", func() error { return beam(ctx, seg, dir) }},
	} {
		if *only != "" && *only != part.name {
			continue
		}
		err := part.run()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(os.Stderr, "eval: %s skipped: %v; set LJ_DATA to the folder of the data\n", part.name, err)
		case err != nil:
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "eval:", err)
	os.Exit(1)
}

// wilson is the score interval of p out of n trials at 95 %.
func wilson(p, n float64) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	const z = 1.959964
	d := 1 + z*z/n
	mid := (p + z*z/(2*n)) / d
	half := z / d * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return math.Max(0, mid-half), math.Min(1, mid+half)
}

func line(w io.Writer, name string, p, low, high float64, n int) {
	fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%.4f\t%d\n", name, p, low, high, n)
}

// share prints k of n.
func share(w io.Writer, name string, k, n int) {
	p := 0.0
	if n > 0 {
		p = float64(k) / float64(n)
	}
	low, high := wilson(p, float64(n))
	line(w, name, p, low, high, n)
}

// report prints the mean of values in [0, 1].
func report(name string, values []float64) {
	n := float64(len(values))
	if n == 0 {
		line(os.Stdout, name, 0, 0, 1, 0)
		return
	}
	mean, variance := 0.0, 0.0
	for _, v := range values {
		mean += v
	}
	mean /= n
	for _, v := range values {
		variance += (v - mean) * (v - mean)
	}
	variance /= math.Max(n-1, 1)
	effective := n
	if variance > 0 {
		effective = math.Min(n*mean*(1-mean)/variance, n*4)
	}
	low, high := wilson(mean, math.Max(effective, n))
	line(os.Stdout, name, mean, low, high, len(values))
}
