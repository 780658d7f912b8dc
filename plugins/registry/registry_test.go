package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/registry"
)

type fake struct {
	spec core.ToolSpec
	call func(context.Context, core.ToolRequest) (core.ToolResult, error)
}

func (f *fake) Spec() core.ToolSpec { return f.spec }

func (f *fake) Call(ctx context.Context, r core.ToolRequest) (core.ToolResult, error) {
	if f.call == nil {
		return core.ToolResult{Text: f.spec.Version}, nil
	}
	return f.call(ctx, r)
}

func tool(name, description string) *fake {
	return &fake{spec: core.ToolSpec{Name: name, Description: description}}
}

func TestAddGetRemove(t *testing.T) {
	r := registry.New()
	if err := r.Add(tool("b", "x")); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(tool("a", "y")); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(tool("a", "z")); err == nil {
		t.Error("a name was taken twice")
	}
	if err := r.Add(tool("../a", "z")); err == nil {
		t.Error("a name that is none was taken")
	}
	if got := r.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v", got)
	}
	if s := r.Specs(); s[0].Description != "y" {
		t.Errorf("%v", s)
	}
	h, ok := r.Get("a")
	if !ok || h.Spec().Description != "y" {
		t.Errorf("%v %v", h, ok)
	}
	if old := r.Remove("a"); old == nil || old.Drain(t.Context()) != nil {
		t.Error("remove")
	}
	if _, ok := r.Get("a"); ok || r.Remove("a") != nil {
		t.Error("still there")
	}
	res, err := h.Call(t.Context(), core.ToolRequest{})
	if err != nil || !res.IsError || !strings.Contains(res.Text, `no tool "a"`) {
		t.Errorf("%v %v", res, err)
	}
}

func TestStat(t *testing.T) {
	r := registry.New()
	f := tool("t", "d")
	n := 0
	f.call = func(context.Context, core.ToolRequest) (core.ToolResult, error) {
		n++
		switch n % 3 {
		case 1:
			return core.ErrorResult("no"), nil
		case 2:
			return core.ToolResult{}, errors.New("host")
		}
		return core.ToolResult{}, nil
	}
	if err := r.Add(f); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		_, _ = r.Call(t.Context(), "t", core.ToolRequest{})
	}
	if _, err := r.Swap(tool("t", "d")); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Call(t.Context(), "t", core.ToolRequest{})
	if s := r.Stat("t"); s.Calls != 301 || s.Failures != 200 || s.P50 <= 0 {
		t.Errorf("%+v", s)
	}
	if s := r.Stat("none"); s != (core.ToolStat{}) {
		t.Errorf("%+v", s)
	}
}

// No call is lost and none runs twice, whatever is swapped meanwhile; an old version that
// is drained sees no further call.
func TestSwapUnderLoad(t *testing.T) {
	r := registry.New()
	var runs sync.Map // call id -> *atomic.Int32
	version := func(n int) (*fake, *atomic.Bool) {
		stopped := &atomic.Bool{}
		f := &fake{spec: core.ToolSpec{Name: "t", Version: fmt.Sprint(n)}}
		f.call = func(_ context.Context, req core.ToolRequest) (core.ToolResult, error) {
			if stopped.Load() {
				return core.ErrorResult("called after its end"), nil
			}
			c, _ := runs.LoadOrStore(req.CallID, &atomic.Int32{})
			c.(*atomic.Int32).Add(1)
			timer := time.NewTimer(time.Duration(len(req.CallID)%3) * time.Millisecond)
			<-timer.C
			if stopped.Load() {
				return core.ErrorResult("stopped while it ran"), nil
			}
			return core.ToolResult{Text: "ok"}, nil
		}
		return f, stopped
	}
	first, stop := version(0)
	if err := r.Add(first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var calls atomic.Int64
	for c := range 8 {
		wg.Go(func() {
			h, _ := r.Get("t")
			for i := 0; ctx.Err() == nil; i++ {
				res, err := h.Call(context.Background(), core.ToolRequest{CallID: fmt.Sprintf("%d-%d", c, i), Args: json.RawMessage(`{}`)})
				if err != nil || res.IsError {
					t.Errorf("lost: %v %v", res.Text, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for n := 1; n <= 100; n++ {
		for before := calls.Load(); calls.Load() == before && !t.Failed(); {
			runtime.Gosched() // each version serves
		}
		next, nextStop := version(n)
		old, err := r.Swap(next)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop.Store(true)
		stop = nextStop
		if got := old.Calls(); got != 0 {
			t.Fatalf("%d calls on a drained version", got)
		}
	}
	cancel()
	wg.Wait()
	n := 0
	runs.Range(func(k, v any) bool {
		n++
		if got := v.(*atomic.Int32).Load(); got != 1 {
			t.Errorf("call %v ran %d times", k, got)
		}
		return true
	})
	if n != int(calls.Load()) || n < 100 {
		t.Errorf("%d calls answered, %d ran", calls.Load(), n)
	}
}

func TestDrainIsBounded(t *testing.T) {
	r := registry.New()
	f := tool("t", "d")
	in, out := make(chan struct{}), make(chan struct{})
	f.call = func(context.Context, core.ToolRequest) (core.ToolResult, error) {
		close(in)
		<-out
		return core.ToolResult{}, nil
	}
	if err := r.Add(f); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _, _ = r.Call(context.Background(), "t", core.ToolRequest{}); close(done) }()
	<-in
	old, err := r.Swap(tool("t", "d"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := old.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 calls still run") {
		t.Errorf("%v", err)
	}
	close(out)
	<-done
	if err := old.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	r := registry.New()
	for name, d := range map[string]string{
		"csv_stats":    "Statistics of each column of a CSV file",
		"json_query":   "Query a JSON document by path",
		"text_diff":    "Difference of two texts, line by line",
		"lunar":        "农历与公历互换，1900 到 2100 年",
		"word_count":   "统计中英文文本的字数和词数",
		"line_count":   "Count the lines of files",
		"md_table":     "Format a Markdown table",
		"toolkit_list": "List stored versions of a tool",
	} {
		if err := r.Add(tool(name, d)); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{
		"csv_stats": "csv_stats", "statistics of a csv": "csv_stats", "CSV": "csv_stats", "differences": "text_diff",
		"count lines": "line_count", "农历": "lunar", "统计字数": "word_count", "markdown tables": "md_table", "json": "json_query",
	} {
		got := r.Find(query, 3)
		if len(got) == 0 || got[0].Name != want {
			t.Errorf("%q: %v", query, got)
		}
	}
	if got := r.Find("zebra 斑马", 3); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := r.Find(" ", 2); len(got) != 2 || got[0].Name != "csv_stats" {
		t.Errorf("%v", got)
	}
	if got := r.Find("a", 0); len(got) == 0 {
		t.Errorf("%v", got)
	}
}

func FuzzTerms(f *testing.F) {
	f.Add("统计 CSV_stats of 字")
	f.Add("\xff茶\x00")
	f.Fuzz(func(t *testing.T, s string) {
		for _, term := range registry.Terms(s) {
			if term == "" {
				t.Error("an empty term")
			}
		}
	})
}
