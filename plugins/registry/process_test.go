package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest/badtool"
	"github.com/lingjiyidong/lj/plugins/registry"
)

func TestMain(m *testing.M) {
	badtool.Main()
	os.Exit(m.Run())
}

// The guarantee of a swap with real processes: each call leaves its line exactly once,
// and old processes are stopped gracefully.
func TestSwapOfProcesses(t *testing.T) {
	root, err := os.MkdirTemp("/tmp", "ljt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	h, err := host.New(host.Options{SocketRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New()
	version := func(n int) *host.Plugin {
		c := badtool.Command("kit")
		c.Version = fmt.Sprintf("v1.0.%d", n)
		p := h.Plugin(c)
		if _, err := p.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	live := version(0)
	if err := r.Add(live.Tool("note")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lines")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var calls atomic.Int64
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				args, _ := json.Marshal(map[string]string{"file": file, "line": fmt.Sprintf("%d-%d", c, i)})
				res, err := r.Call(context.Background(), "note", core.ToolRequest{Args: args})
				if err != nil || res.IsError {
					t.Errorf("lost: %s %v", res.Text, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for n := 1; n <= 20; n++ {
		next := version(n)
		for before := calls.Load(); calls.Load() == before && !t.Failed(); {
			runtime.Gosched() // each version serves
		}
		old, err := r.Swap(next.Tool("note"))
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end := live.Stop(t.Context()); !end.Graceful {
			t.Errorf("version %d was killed", n-1)
		}
		live = next
	}
	cancel()
	wg.Wait()
	if v := r.Specs()[0].Version; v != "v1.0.20" {
		t.Errorf("live %s", v)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if seen[line] {
			t.Errorf("ran twice: %s", line)
		}
		seen[line] = true
	}
	if len(seen) != int(calls.Load()) {
		t.Errorf("%d calls, %d lines", calls.Load(), len(seen))
	}
}
