package sdk

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// CallInfo is what is known of the call that a function answers.
type CallInfo struct {
	// ID is the model server's identifier of the call; it may repeat.
	ID string
	// Key is the idempotency key: the same key is the same piece of work.
	Key string
	// Project is the absolute path of the project directory.
	Project string
	// AddDirs are further directories that the session may touch.
	AddDirs []string
	// Deadline is when the caller stops waiting; zero for never.
	Deadline time.Time
	// Context is private between host and built-in tools, nil for others.
	Context json.RawMessage
}

// Sink takes what a running call says before its result.
type Sink interface {
	Progress(text string)
	Output(p []byte)
}

type callKey struct{}

type callValue struct {
	info CallInfo
	sink Sink
}

// NewContext is ctx as a function gets it for a call: for tests and for hosts in the same
// process. sink may be nil.
func NewContext(ctx context.Context, info CallInfo, sink Sink) context.Context {
	return context.WithValue(ctx, callKey{}, &callValue{info, sink})
}

func callOf(ctx context.Context) *callValue {
	v, _ := ctx.Value(callKey{}).(*callValue)
	return v
}

// Call is the call that ctx belongs to; the zero value outside of one. Its slices are
// shared and must not be changed.
func Call(ctx context.Context) CallInfo {
	if v := callOf(ctx); v != nil {
		return v.info
	}
	return CallInfo{}
}

// Project is the absolute path of the project directory; outside of a call (in a test)
// the working directory.
func Project(ctx context.Context) string {
	if v := callOf(ctx); v != nil && v.info.Project != "" {
		return v.info.Project
	}
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// Path is p seen from the project directory: an absolute path stays, another is joined
// to Project. It looks at no file and is no permission.
func Path(ctx context.Context, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(Project(ctx), p)
}

// Context is the private context of a built-in tool's call, nil when there is none.
func Context(ctx context.Context) json.RawMessage { return Call(ctx).Context }

// Progress shows one short line to the person while the call runs. It does nothing
// outside of a call and after its end, and is safe for use by several goroutines.
func Progress(ctx context.Context, text string) {
	if v := callOf(ctx); v != nil && v.sink != nil {
		v.sink.Progress(text)
	}
}

// Output passes on raw bytes of the work's own output while the call runs, cut anywhere.
// p is not kept. It does nothing outside of a call and after its end, and is safe for use
// by several goroutines.
func Output(ctx context.Context, p []byte) {
	if v := callOf(ctx); v != nil && v.sink != nil && len(p) > 0 {
		v.sink.Output(p)
	}
}

var exitHooks struct {
	sync.Mutex
	list []func()
}

// OnExit registers what must happen before the process ends on request of the host, on
// SIGTERM or because the host is gone: children in process groups of their own are ended
// here. Hooks run once, last registered first, and have half a second together.
func OnExit(f func()) {
	exitHooks.Lock()
	exitHooks.list = append(exitHooks.list, f)
	exitHooks.Unlock()
}

func runExitHooks() {
	exitHooks.Lock()
	list := exitHooks.list
	exitHooks.list = nil
	exitHooks.Unlock()
	if len(list) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := len(list) - 1; i >= 0; i-- {
			list[i]()
		}
	}()
	select {
	case <-done:
	case <-time.After(500 * time.Millisecond):
	}
}
