package host

import (
	"strings"
	"sync"
)

// tail keeps the last bytes written to it. It never blocks and never fails.
type tail struct {
	mu   sync.Mutex
	buf  []byte // ring, grown up to max
	max  int
	next int // where the next byte goes once the ring is full
	full bool
}

func newTail(max int) *tail { return &tail{max: max} }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > t.max {
		p = p[len(p)-t.max:]
	}
	if !t.full {
		room := t.max - len(t.buf)
		k := min(room, len(p))
		t.buf = append(t.buf, p[:k]...)
		p = p[k:]
		t.full = len(t.buf) == t.max
	}
	for len(p) > 0 {
		k := copy(t.buf[t.next:], p)
		t.next = (t.next + k) % t.max
		p = p[k:]
	}
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.full {
		return strings.ToValidUTF8(string(t.buf), "\uFFFD")
	}
	return strings.ToValidUTF8(string(t.buf[t.next:])+string(t.buf[:t.next]), "\uFFFD")
}

// telling is the part of a crashed process's standard error that helps most: from the
// last panic or fatal error on, else the last lines; at most lines lines and limit bytes.
func telling(s string, lines, limit int) string {
	s = strings.TrimRight(s, "\n")
	at := -1
	for _, mark := range []string{"panic: ", "fatal error: ", "SIGSEGV", "runtime: out of memory"} {
		if strings.HasPrefix(s, mark) {
			at = max(at, 0)
		}
		if i := strings.LastIndex(s, "\n"+mark); i >= 0 {
			at = max(at, i+1)
		}
	}
	if at >= 0 {
		all := strings.SplitN(s[at:], "\n", lines+1)
		if len(all) > lines {
			all = append(all[:lines], "…")
		}
		return cut(strings.Join(all, "\n"), limit)
	}
	all := strings.Split(s, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	s = strings.Join(all, "\n")
	if len(s) > limit {
		s = "…" + strings.ToValidUTF8(s[len(s)-limit:], "")
	}
	return s
}
