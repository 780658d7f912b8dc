package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest/badtool"
	"github.com/lingjiyidong/lj/plugins/registry"
)

// What exchanging versions adds to calls that run meanwhile: 8 clients with calls of 1 ms to
// 5 s, 100 exchanges of real processes in 60 s (with LJ_BENCH_LARGE, which make bench sets;
// else 15 in 9 s). The target is 50 ms more at the 99th percentile. The baseline is the same
// load without exchanges. It runs once, whatever the number of rounds.
func BenchmarkSwap(b *testing.B) {
	swaps, span := 15, 9*time.Second
	if os.Getenv("LJ_BENCH_LARGE") != "" {
		swaps, span = 100, time.Minute
	}
	root, err := os.MkdirTemp("/tmp", "ljt")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(root)
	h, err := host.New(host.Options{SocketRoot: root})
	if err != nil {
		b.Fatal(err)
	}
	version := func(n int) *host.Plugin {
		c := badtool.Command("kit")
		c.Version = fmt.Sprintf("v1.0.%d", n)
		p := h.Plugin(c)
		if _, err := p.Describe(b.Context()); err != nil {
			b.Fatal(err)
		}
		return p
	}
	r := registry.New()
	live := version(0)
	if err := r.Add(live.Tool("sleep")); err != nil {
		b.Fatal(err)
	}
	// run loads the tool until stop and gives what each call took beyond its sleep.
	run := func(stop context.Context) []time.Duration {
		var mu sync.Mutex
		var added []time.Duration
		var wg sync.WaitGroup
		for c := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(c), 1))
				for stop.Err() == nil {
					ms := []int{1, 1, 2, 5, 10, 20, 50, 100}[rnd.IntN(8)]
					if rnd.IntN(100) == 0 {
						ms = 5000
					}
					args, _ := json.Marshal(map[string]int{"ms": ms})
					start := time.Now()
					res, err := r.Call(context.Background(), "sleep", core.ToolRequest{Args: args})
					took := time.Since(start)
					if err != nil || res.IsError {
						b.Errorf("lost: %s %v", res.Text, err)
						return
					}
					mu.Lock()
					added = append(added, took-time.Duration(ms)*time.Millisecond)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(added)
		return added
	}
	quiet, cancel := context.WithTimeout(b.Context(), span/3)
	base := run(quiet)
	cancel()
	busy, cancel := context.WithCancel(b.Context())
	done := make(chan []time.Duration, 1)
	go func() { done <- run(busy) }()
	var retired sync.WaitGroup
	tick := time.NewTicker(span / time.Duration(swaps))
	for n := 1; n <= swaps; n++ {
		next := version(n)
		old, err := r.Swap(next.Tool("sleep"))
		if err != nil {
			b.Fatal(err)
		}
		gone := live
		retired.Go(func() {
			if err := old.Drain(context.Background()); err != nil {
				b.Error(err)
			}
			gone.Stop(context.Background())
		})
		live = next
		<-tick.C
	}
	tick.Stop()
	cancel()
	added := <-done
	retired.Wait()
	p99 := func(d []time.Duration) float64 {
		if len(d) == 0 {
			return 0
		}
		return float64(d[len(d)*99/100].Microseconds()) / 1000
	}
	b.ReportMetric(p99(added), "p99-ms")
	b.ReportMetric(p99(base), "baseline-p99-ms")
	b.ReportMetric(p99(added)-p99(base), "added-p99-ms")
	b.ReportMetric(float64(len(added)), "calls")
	if err := h.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
