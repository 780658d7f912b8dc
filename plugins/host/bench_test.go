package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/host"
)

// build makes a program of testdata the way tools are built.
func build(b *testing.B, name string) host.Command {
	b.Helper()
	bin := filepath.Join(b.TempDir(), name)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return host.Command{Name: name, Path: bin, Origin: core.OriginToolkit}
}

// The ordinary go-plugin tool is the baseline of the same run.
var programs = []string{"plain", "small"}

func BenchmarkCall(b *testing.B) {
	args := json.RawMessage(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	for _, name := range programs {
		b.Run(name, func(b *testing.B) {
			h, _ := newHost(b, host.Options{})
			t := h.Plugin(build(b, name)).Tool("echo")
			one := func() time.Duration {
				start := time.Now()
				res, err := t.Call(b.Context(), core.ToolRequest{CallID: "c", Args: args})
				if err != nil || res.IsError {
					b.Fatal(res.Text, err)
				}
				return time.Since(start)
			}
			for range 200 {
				one()
			}
			var all []time.Duration
			for b.Loop() {
				all = append(all, one())
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func BenchmarkSpawnToFirstCall(b *testing.B) {
	for _, name := range programs {
		b.Run(name, func(b *testing.B) {
			h, _ := newHost(b, host.Options{})
			c := build(b, name)
			var all []time.Duration
			for b.Loop() {
				p := h.Plugin(c)
				start := time.Now()
				res, err := p.Tool("echo").Call(b.Context(), core.ToolRequest{Args: json.RawMessage(`{"text":"x"}`)})
				all = append(all, time.Since(start))
				if err != nil || res.IsError {
					b.Fatal(res.Text, err)
				}
				b.StopTimer()
				p.Stop(b.Context())
				b.StartTimer()
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

func BenchmarkStop(b *testing.B) {
	for _, name := range programs {
		b.Run(name, func(b *testing.B) {
			h, _ := newHost(b, host.Options{})
			c := build(b, name)
			var all []time.Duration
			for b.Loop() {
				b.StopTimer()
				p := h.Plugin(c)
				if _, err := p.Describe(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				start := time.Now()
				p.Stop(b.Context())
				all = append(all, time.Since(start))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// BenchmarkIdleMemory reports the resident memory of a tool process: after its start, and
// idle again after many calls.
func BenchmarkIdleMemory(b *testing.B) {
	for _, name := range programs {
		b.Run(name, func(b *testing.B) {
			h, _ := newHost(b, host.Options{})
			p := h.Plugin(build(b, name))
			if _, err := p.Describe(b.Context()); err != nil {
				b.Fatal(err)
			}
			fresh := rss(b, p.PID())
			for b.Loop() {
				for range 5000 {
					if _, err := p.Tool("echo").Call(b.Context(), core.ToolRequest{Args: json.RawMessage(`{"text":"x"}`)}); err != nil {
						b.Fatal(err)
					}
				}
			}
			busy := rss(b, p.PID())
			idle := busy
			deadline := time.NewTimer(3 * time.Second)
			defer deadline.Stop()
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for done := false; !done; {
				select {
				case <-tick.C:
					idle = min(idle, rss(b, p.PID()))
				case <-deadline.C:
					done = true
				}
			}
			b.ReportMetric(fresh, "fresh-MB")
			b.ReportMetric(busy, "busy-MB")
			b.ReportMetric(idle, "idle-MB")
		})
	}
}

func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, _ := strconv.Atoi(f[1])
			return float64(kb) / 1000
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
