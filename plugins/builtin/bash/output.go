package bash

import (
	"fmt"
	"sync"

	"github.com/lingjiyidong/lj/core/workspace"
)

// headTail keeps the beginning and the end of a stream in bounded memory. Safe for
// concurrent use.
type headTail struct {
	mu    sync.Mutex
	head  []byte
	ring  []byte
	at    int // where the next byte goes in ring
	total int64
}

const (
	headSize = 16 << 10
	tailSize = 48 << 10
)

func (h *headTail) Write(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total += int64(len(p))
	if n := headSize - len(h.head); n > 0 {
		n = min(n, len(p))
		h.head = append(h.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	if n := tailSize - len(h.ring); n > 0 {
		n = min(n, len(p))
		h.ring = append(h.ring, p[:n]...)
		p = p[n:]
		if len(h.ring) == tailSize {
			h.at = 0
		}
	}
	for len(p) > 0 {
		n := copy(h.ring[h.at:], p)
		h.at = (h.at + n) % tailSize
		p = p[n:]
	}
}

// Total is the number of bytes written.
func (h *headTail) Total() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// Text is what is kept, decoded for display, with a line that says what is left out.
func (h *headTail) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	tail := h.ring
	if len(h.ring) == tailSize {
		tail = append(append(make([]byte, 0, tailSize), h.ring[h.at:]...), h.ring[:h.at]...)
	}
	left := h.total - int64(len(h.head)) - int64(len(tail))
	if left <= 0 {
		return workspace.DecodeForDisplay(append(append([]byte(nil), h.head...), tail...))
	}
	head := h.head[:whole(h.head)]
	for i := 0; i < 4 && len(tail) > 0 && tail[0]&0xC0 == 0x80; i++ { // the rest of a cut character
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[… %s left out …]\n%s", workspace.DecodeForDisplay(head), workspace.Size(left), workspace.DecodeForDisplay(tail))
}

// whole is the length of b without a cut character at its end.
func whole(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		c := b[len(b)-n]
		if c < 0x80 {
			return len(b)
		}
		if c >= 0xC0 {
			need := 2
			if c >= 0xF0 {
				need = 4
			} else if c >= 0xE0 {
				need = 3
			}
			if need > n {
				return len(b) - n
			}
			return len(b)
		}
	}
	return len(b)
}
