// Package registry holds the tools that can be called now: one per name, exchangeable
// while calls run.
//
// It owns the pointer from a name to the live version, the count of calls in flight on
// each version, and what calls cost. It refuses to know what a tool is made of, where
// versions are kept and who decides which one is live.
//
//	r := registry.New()
//	_ = r.Add(v1)
//	t, _ := r.Get("csv_stats")     // stays right across swaps
//	old, _ := r.Swap(v2)           // from here on calls reach v2
//	_ = old.Drain(ctx)             // until the last call on v1 has ended; then stop v1
//
// A call takes the version that is live when it begins and keeps it to its end. So a swap
// loses no call and runs none twice.
//
// Everything in this package is safe for use by several goroutines.
package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// Registry maps names to live tools. The zero value is not usable; see New.
type Registry struct {
	mu    sync.RWMutex
	slots map[string]*slot
}

// slot is a name. Its live version changes; its statistics stay.
type slot struct {
	name string
	live *Version // guarded by Registry.mu; nil once removed
	stat stats
}

// Version is one tool under a name, live or not any more.
type Version struct {
	tool core.Tool

	mu      sync.Mutex
	calls   int
	retired bool
	idle    chan struct{} // closed when retired and no call runs
}

// New is an empty registry.
func New() *Registry { return &Registry{slots: map[string]*slot{}} }

// Add makes a tool callable. A name that is taken is an error.
func (r *Registry) Add(t core.Tool) error {
	name := t.Spec().Name
	if err := core.CheckToolName(name); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.slots[name]; ok {
		return core.Errorf(core.KindUsage, "there is already a tool %q", name)
	}
	r.slots[name] = &slot{name: name, live: newVersion(t)}
	return nil
}

// Swap makes t the live version of its name, whether or not there was one. It returns the
// version that was live before, nil for none; its running calls go on, and Drain waits
// for them.
func (r *Registry) Swap(t core.Tool) (old *Version, err error) {
	name := t.Spec().Name
	if err := core.CheckToolName(name); err != nil {
		return nil, err
	}
	fresh := newVersion(t)
	r.mu.Lock()
	s := r.slots[name]
	if s == nil {
		r.slots[name] = &slot{name: name, live: fresh}
	} else {
		old, s.live = s.live, fresh
	}
	r.mu.Unlock()
	old.retire()
	return old, nil
}

// Remove makes the name uncallable and returns its live version, nil when there is none.
func (r *Registry) Remove(name string) *Version {
	r.mu.Lock()
	var old *Version
	if s := r.slots[name]; s != nil {
		old, s.live = s.live, nil
		delete(r.slots, name)
	}
	r.mu.Unlock()
	old.retire()
	return old
}

func newVersion(t core.Tool) *Version {
	return &Version{tool: t, idle: make(chan struct{})}
}

// Tool is the tool itself.
func (v *Version) Tool() core.Tool { return v.tool }

// Calls are the calls in flight.
func (v *Version) Calls() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.calls
}

// Drain waits until no call runs on a version that is no longer live, or for ctx. A nil
// Version is drained.
func (v *Version) Drain(ctx context.Context) error {
	if v == nil {
		return nil
	}
	select {
	case <-v.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain %s: %d calls still run: %w", v.tool.Spec().Name, v.Calls(), context.Cause(ctx))
	}
}

func (v *Version) retire() {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.retired {
		v.retired = true
		if v.calls == 0 {
			close(v.idle)
		}
	}
}

func (v *Version) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls--
	if v.retired && v.calls == 0 {
		close(v.idle)
	}
}

// acquire counts a call on the live version of a name. The count rises before the lock is
// given back, so that a swap that follows sees it.
func (r *Registry) acquire(name string) (*slot, *Version) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.slots[name]
	if s == nil {
		return nil, nil
	}
	s.live.mu.Lock()
	s.live.calls++
	s.live.mu.Unlock()
	return s, s.live
}

// Get is the tool of a name as a handle: each call through it reaches the version that is
// live then.
func (r *Registry) Get(name string) (core.Tool, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, ok := r.slots[name]; !ok {
		return nil, false
	}
	return &handle{r, name}, true
}

// Call runs the live version of a tool once. An unknown name is a failed result that
// names the nearest one.
func (r *Registry) Call(ctx context.Context, name string, req core.ToolRequest) (core.ToolResult, error) {
	s, v := r.acquire(name)
	if v == nil {
		text := fmt.Sprintf("There is no tool %q.", name)
		if n := core.Nearest(name, r.Names()); n != "" {
			text += fmt.Sprintf(" Did you mean %q?", n)
		}
		return core.ErrorResult(text + " find_tools lists what there is."), nil
	}
	defer v.leave()
	start := time.Now()
	res, err := v.tool.Call(ctx, req)
	s.stat.add(time.Since(start), err != nil || res.IsError)
	return res, err
}

type handle struct {
	r    *Registry
	name string
}

var (
	_ core.Tool   = (*handle)(nil)
	_ core.Warmer = (*handle)(nil)
)

// Spec is that of the live version; only the name once the tool is removed.
func (h *handle) Spec() core.ToolSpec {
	h.r.mu.RLock()
	defer h.r.mu.RUnlock()
	if s := h.r.slots[h.name]; s != nil {
		return s.live.tool.Spec()
	}
	return core.ToolSpec{Name: h.name}
}

func (h *handle) Call(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	return h.r.Call(ctx, h.name, req)
}

// Warm lets the live version prepare itself.
func (h *handle) Warm() {
	h.r.mu.RLock()
	s := h.r.slots[h.name]
	var t core.Tool
	if s != nil {
		t = s.live.tool
	}
	h.r.mu.RUnlock()
	if w, ok := t.(core.Warmer); ok {
		w.Warm()
	}
}

// Names are the names of all tools, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.slots))
	for n := range r.slots {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Specs are the specs of all tools, sorted by name.
func (r *Registry) Specs() []core.ToolSpec {
	r.mu.RLock()
	tools := make([]core.Tool, 0, len(r.slots))
	for _, s := range r.slots {
		tools = append(tools, s.live.tool)
	}
	r.mu.RUnlock()
	specs := make([]core.ToolSpec, len(tools))
	for i, t := range tools {
		specs[i] = t.Spec()
	}
	slices.SortFunc(specs, func(a, b core.ToolSpec) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return specs
}

// Stat is what the calls of a name did, over all its versions since the registry was made.
func (r *Registry) Stat(name string) core.ToolStat {
	r.mu.RLock()
	s := r.slots[name]
	r.mu.RUnlock()
	if s == nil {
		return core.ToolStat{}
	}
	return s.stat.get()
}

// stats counts calls. The median is that of the last window calls.
type stats struct {
	mu              sync.Mutex
	calls, failures int
	last            [window]time.Duration
}

const window = 128

func (s *stats) add(d time.Duration, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[s.calls%window] = d
	s.calls++
	if failed {
		s.failures++
	}
}

func (s *stats) get() core.ToolStat {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := core.ToolStat{Calls: s.calls, Failures: s.failures}
	if n := min(s.calls, window); n > 0 {
		sorted := slices.Clone(s.last[:n])
		slices.Sort(sorted)
		st.P50 = sorted[(n-1)/2]
	}
	return st
}
