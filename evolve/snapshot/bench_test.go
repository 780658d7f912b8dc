package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/evolve/snapshot"
)

// sizes are the numbers of files that are measured; the large one with LJ_BENCH_LARGE,
// which make bench sets.
func sizes() []int {
	if os.Getenv("LJ_BENCH_LARGE") == "" {
		return []int{5000}
	}
	return []int{5000, 50000}
}

func open(b testing.TB, shadow, project string) *snapshot.Engine {
	b.Helper()
	e, err := snapshot.Open(snapshot.Options{Dir: shadow, Project: project})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// The target is twice the baseline for 5,000 files, 2.5 times for 50,000.
func BenchmarkTake(b *testing.B) {
	for _, n := range sizes() {
		dir := bigRepo(b, n)
		shadow := filepath.Join(b.TempDir(), "s")
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			take(b, open(b, shadow, dir))
			put(b, dir, "changed.txt", "first")
			git(b, dir, "add", "-A")
			var ours, theirs time.Duration
			for i := 0; b.Loop(); i++ {
				// Both in turn, so that both meet the same weather.
				put(b, dir, "changed.txt", fmt.Sprint(i))
				start := time.Now()
				take(b, open(b, shadow, dir))
				ours += time.Since(start)
				start = time.Now()
				git(b, dir, "add", "-A")
				git(b, dir, "write-tree")
				theirs += time.Since(start)
			}
			perOp(b, ours, "lj-ms")
			perOp(b, theirs, "git-add-write-tree-ms")
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
		})
	}
}

func perOp(b *testing.B, d time.Duration, unit string) {
	b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), unit)
}

// Bringing back 100 changed files; the targets are 60 and 250 ms. The baseline is git
// checkout of the same files.
func BenchmarkRestore(b *testing.B) {
	for _, n := range sizes() {
		dir := bigRepo(b, n)
		shadow := filepath.Join(b.TempDir(), "s")
		name := func(i int) string { return fmt.Sprintf("d%02d/e%02d/f%d.txt", i%10, i/10%10, i) }
		change := func(round int) {
			for i := range 100 {
				put(b, dir, name(i*(n/100)), fmt.Sprintf("changed %d\n", round))
			}
		}
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			want := picture(b, dir)
			e := open(b, shadow, dir)
			before := take(b, e)
			var ours, theirs time.Duration
			for i := 0; b.Loop(); i++ {
				change(2 * i)
				after := take(b, e)
				changes, err := e.Diff(before.Tree, after.Tree)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Settle(changes); err != nil { // at the end of a turn
					b.Fatal(err)
				}
				start := time.Now()
				if changes, err = e.Diff(before.Tree, after.Tree); err != nil {
					b.Fatal(err)
				}
				out, err := e.Restore(b.Context(), changes, false)
				if err != nil {
					b.Fatal(err)
				}
				ours += time.Since(start)
				if len(out.Restored) != 100 || len(out.Kept) > 0 {
					b.Fatalf("%+v", out)
				}
				change(2*i + 1)
				start = time.Now()
				git(b, dir, "checkout", "-q", "--", ".")
				theirs += time.Since(start)
			}
			for path, v := range picture(b, dir) {
				if !strings.HasPrefix(path, ".git") && want[path] != v {
					b.Fatalf("%s is not what it was", path)
				}
			}
			perOp(b, ours, "lj-ms")
			perOp(b, theirs, "git-checkout-ms")
		})
	}
}

// The size of the store after many turns of small edits, beside the repository's files and
// what was changed; the target is 1.2. The baseline is that sum.
func BenchmarkStore(b *testing.B) {
	files, turns := 400, 100
	if os.Getenv("LJ_BENCH_LARGE") != "" {
		files, turns = 2000, 1000
	}
	dir := b.TempDir()
	git(b, dir, "init", "-q")
	text := make([]string, files)
	total := 0
	for i := range text {
		var sb strings.Builder
		for l := range 1000 { // 66 kB of lines that differ: 133 MB in the large one
			fmt.Fprintf(&sb, "%08x line %d of file %d, %016x%016x\n", l*i*2654435761, l, i, uint64(l)*0x9e3779b97f4a7c15, uint64(i+l)*0xc2b2ae3d27d4eb4f)
		}
		text[i] = sb.String()
		total += len(text[i])
		put(b, dir, fmt.Sprintf("d%d/f%d.txt", i%20, i), text[i])
	}
	shadow := filepath.Join(b.TempDir(), "s")
	edited := 0
	for b.Loop() {
		take(b, open(b, shadow, dir))
		for turn := range turns {
			i := turn * 7 % files
			text[i] += fmt.Sprintf("turn %d\n", turn)
			edited += len(text[i])
			put(b, dir, fmt.Sprintf("d%d/f%d.txt", i%20, i), text[i])
			take(b, open(b, shadow, dir))
		}
	}
	size := open(b, shadow, dir).Size()
	b.ReportMetric(float64(size)/float64(total+edited), "ratio")
	b.ReportMetric(float64(size)/1e6, "store-MB")
	b.ReportMetric(float64(total)/1e6, "repository-MB")
	b.ReportMetric(float64(edited)/1e6, "changed-MB")
}
