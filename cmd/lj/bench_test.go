package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// release builds the release binary and the floor once for all benchmarks.
func release(b *testing.B) (lj, floor string) {
	b.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("lj-bench-%d", os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	lj, floor = filepath.Join(dir, "lj"), filepath.Join(dir, "floor")
	for out, pkg := range map[string]string{lj: ".", floor: "./testdata/floor"} {
		if _, err := os.Stat(out); err == nil {
			continue
		}
		if msg, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", out, pkg).CombinedOutput(); err != nil {
			b.Fatalf("build %s: %v: %s", pkg, err, msg)
		}
	}
	return lj, floor
}

type bench struct {
	env []string
	dir string
}

func newBench(b *testing.B, url string) bench {
	b.Helper()
	dir := b.TempDir()
	x := bench{dir: filepath.Join(dir, "project")}
	if err := os.MkdirAll(x.dir, 0o755); err != nil {
		b.Fatal(err)
	}
	x.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LJ_HOME=" + filepath.Join(dir, "home"), "OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=k", "LJ_MODEL=m"}
	return x
}

// run runs a program and returns its wall time, CPU time and largest memory in MiB.
func (x bench) run(b *testing.B, bin string, args ...string) (wall, cpu time.Duration, mib float64) {
	b.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Env = x.dir, x.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s %v: %v: %s", bin, args, err, errs.String())
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), float64(u.Maxrss) / 1024
}

func median(v []float64) float64 {
	sort.Float64s(v)
	return v[len(v)/2]
}

// compare runs lj and the floor in turn and reports medians and their ratio.
func compare(b *testing.B, prepare func(), lj, floor func() (time.Duration, time.Duration, float64)) {
	var wall, cpu, mib, base, baseCPU []float64
	for b.Loop() {
		prepare()
		w, c, m := lj()
		wall, cpu, mib = append(wall, w.Seconds()*1e3), append(cpu, c.Seconds()*1e3), append(mib, m)
		prepare()
		w, c, _ = floor()
		base, baseCPU = append(base, w.Seconds()*1e3), append(baseCPU, c.Seconds()*1e3)
	}
	b.ReportMetric(median(wall), "lj-ms")
	b.ReportMetric(median(base), "floor-ms")
	b.ReportMetric(median(wall)/median(base), "ratio")
	b.ReportMetric(median(cpu), "lj-cpu-ms")
	b.ReportMetric(median(baseCPU), "floor-cpu-ms")
	b.ReportMetric(median(mib), "lj-MiB")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkVersion(b *testing.B) {
	lj, floor := release(b)
	x := newBench(b, "http://127.0.0.1:9/v1")
	compare(b, func() {},
		func() (time.Duration, time.Duration, float64) { return x.run(b, lj, "--version") },
		func() (time.Duration, time.Duration, float64) { return x.run(b, floor, "--version") })
}

func BenchmarkOneShot(b *testing.B) {
	lj, floor := release(b)
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Lax: true}, Turns: []llmtest.Turn{{Text: "hello", Times: -1}}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := newBench(b, s.URL())
	compare(b, func() {},
		func() (time.Duration, time.Duration, float64) { return x.run(b, lj, "run", "hi") },
		func() (time.Duration, time.Duration, float64) { return x.run(b, floor) })
}

// calls is a model that asks n times for an echo and then ends.
func calls(n int) llmtest.Turn {
	return llmtest.Turn{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
		k := 0
		for i := len(r.Message) - 1; i >= 0 && r.Message[i].Role != "user"; i-- {
			if r.Message[i].Role == "assistant" {
				k++
			}
		}
		if k >= n {
			return llmtest.Turn{Text: "done"}
		}
		return llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": fmt.Sprintf("echo %d", k)}}}}
	}}
}

func BenchmarkTwentyCalls(b *testing.B) {
	lj, floor := release(b)
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Lax: true}, Turns: []llmtest.Turn{calls(20)}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := newBench(b, s.URL())
	compare(b, func() {},
		func() (time.Duration, time.Duration, float64) { return x.run(b, lj, "run", "--yolo", "go") },
		func() (time.Duration, time.Duration, float64) { return x.run(b, floor) })
	// The time from the server's answer to the next request, the first one of a turn left out.
	var gaps []float64
	list := s.Requests()
	for i := 1; i < len(list); i++ {
		if bytes.Contains(list[i].Body, []byte(`"tools"`)) && len(list[i].Message) > len(list[i-1].Message) && len(list[i].Message) > 6 {
			gaps = append(gaps, list[i].At.Sub(list[i-1].Ended).Seconds()*1e3)
		}
	}
	if len(gaps) > 0 {
		b.ReportMetric(median(gaps), "answer-to-request-ms")
	}
}

func BenchmarkResume(b *testing.B) {
	lj, _ := release(b)
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Lax: true}, Turns: []llmtest.Turn{calls(100)}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := newBench(b, s.URL())
	x.run(b, lj, "run", "--yolo", "--max-steps", "0", "go")
	s2, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Lax: true}, Turns: []llmtest.Turn{{Text: "ok", Times: -1}}})
	if err != nil {
		b.Fatal(err)
	}
	defer s2.Close()
	for i, kv := range x.env {
		if strings.HasPrefix(kv, "OPENAI_BASE_URL=") {
			x.env[i] = "OPENAI_BASE_URL=" + s2.URL()
		}
	}
	var wall []float64
	for b.Loop() {
		w, _, _ := x.run(b, lj, "run", "--continue", "go on")
		wall = append(wall, w.Seconds()*1e3)
	}
	b.ReportMetric(median(wall), "lj-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPrompt reports the bytes that every request begins with.
func BenchmarkPrompt(b *testing.B) {
	lj, _ := release(b)
	s, err := llmtest.Start(llmtest.Script{Turns: []llmtest.Turn{{Text: "hello", Times: -1}}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := newBench(b, s.URL())
	for b.Loop() {
		x.run(b, lj, "run", "hi")
	}
	var body struct {
		Tools    json.RawMessage
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(s.Requests()[0].Body, &body); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(body.Tools)+len(body.Messages[0].Content)), "bytes")
	if fi, err := os.Stat(lj); err == nil {
		b.ReportMetric(float64(fi.Size())/1e6, "binary-MB")
	}
	b.ReportMetric(0, "ns/op")
}
