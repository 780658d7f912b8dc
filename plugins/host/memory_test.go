//go:build !race

// The race detector needs more address space than the limit leaves.

package host_test

import (
	"testing"

	"github.com/lingjiyidong/lj/plugins/host"
)

func TestMemoryLimit(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit", func(c *host.Command) { c.MemoryLimit = 256 << 20 })
	wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
	// A Go program that gets no more memory says so, or its runtime breaks on the way.
	wantText(t, call(t, p, "big", `{"bytes":2000000000}`), true, "crashed")
	wantText(t, call(t, p, "echo", `{"text":"y"}`), false, "y")
}
