package toolkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/evolve/toolkit"
	"github.com/lingjiyidong/lj/evolve/toolkit/testdata/rig"
	"github.com/lingjiyidong/lj/plugins/sdk"
	"github.com/lingjiyidong/lj/store"
)

// BenchmarkSave is a one-line edit from save to live, warm, beside the same work by hand.
func BenchmarkSave(b *testing.B) {
	home := b.TempDir()
	tk, st := openBench(b, home)
	defer st.Close()
	hand := b.TempDir()
	for n, f := range sdk.Source() {
		put(b, filepath.Join(hand, "plugins/sdk", n), f)
	}
	put(b, filepath.Join(hand, "go.mod"), []byte("module github.com/lingjiyidong/lj\n\ngo 1.26\n"))
	run := func(args ...string) {
		cmd := exec.Command("go", args...)
		cmd.Dir = hand
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	edit := func(i int) map[string][]byte { return echo("echo1", fmt.Sprintf("edit %d ", i)) }
	byHand := func(i int) time.Duration {
		for n, f := range edit(i) {
			put(b, filepath.Join(hand, "tools/echo1", n), f)
		}
		began := time.Now()
		run("vet", "./tools/echo1")
		run("build", "-ldflags=-s -w", "-o", filepath.Join(hand, "bin"), "./tools/echo1")
		run("test", "-vet=off", "-count=1", "./tools/echo1")
		return time.Since(began)
	}
	save := func(i int) time.Duration {
		began := time.Now()
		rep, err := tk.Save(b.Context(), toolkit.SaveRequest{Name: "echo1", Files: edit(i)})
		if err != nil {
			b.Fatal(err)
		}
		if os.Getenv("LJ_VERBOSE") != "" {
			b.Log(rep.ForPerson())
		}
		return time.Since(began)
	}
	save(1 << 20)
	byHand(1 << 20)
	var a, h time.Duration
	n := 0
	for b.Loop() {
		n++
		h += byHand(n)
		a += save(n)
	}
	b.ReportMetric(float64(a.Milliseconds())/float64(n), "save-ms")
	b.ReportMetric(float64(h.Milliseconds())/float64(n), "hand-ms")
	b.ReportMetric(float64(a)/float64(h), "ratio")
}

func openBench(b *testing.B, home string) (*toolkit.Toolkit, *store.Store) {
	b.Helper()
	tk, st, err := rig.Open(b.Context(), home, cacheDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return tk, st
}

func put(b *testing.B, path string, data []byte) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRollback goes back and forth between versions whose programs are there, and
// between ones whose programs are not.
func BenchmarkRollback(b *testing.B) {
	for _, gone := range []bool{false, true} {
		b.Run(fmt.Sprintf("gone=%v", gone), func(b *testing.B) {
			home := b.TempDir()
			tk, st := openBench(b, home)
			defer st.Close()
			for _, p := range []string{"one ", "two "} {
				if _, err := tk.Save(b.Context(), toolkit.SaveRequest{Name: "echo1", Files: echo("echo1", p)}); err != nil {
					b.Fatal(err)
				}
			}
			i := 0
			for b.Loop() {
				if gone {
					b.StopTimer()
					os.RemoveAll(filepath.Join(home, "bin"))
					b.StartTimer()
				}
				if _, err := tk.Rollback(b.Context(), "echo1", fmt.Sprintf("v1.0.%d", i%2), nil); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkOpen is what a start pays for the toolkit when nothing is wrong.
func BenchmarkOpen(b *testing.B) {
	home := b.TempDir()
	tk, st := openBench(b, home)
	for i := range 5 {
		name := fmt.Sprintf("echo%d", i)
		if _, err := tk.Save(b.Context(), toolkit.SaveRequest{Name: name, Files: echo(name, "x")}); err != nil {
			b.Fatal(err)
		}
	}
	defer st.Close()
	for b.Loop() {
		if _, err := toolkit.Open(b.Context(), toolkit.Options{Home: home, Ledger: st, SDK: sdk.Source(), Contract: rig.Contract}); err != nil {
			b.Fatal(err)
		}
	}
}
