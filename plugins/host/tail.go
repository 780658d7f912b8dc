package host

import (
	"regexp"
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
		all := strings.SplitN(places(s[at:]), "\n", lines+1)
		if len(all) > lines {
			all = append(all[:lines], "…")
		}
		return cut(strings.Join(all, "\n"), limit)
	}
	all := strings.Split(places(s), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	s = strings.Join(all, "\n")
	if len(s) > limit {
		s = "…" + strings.ToValidUTF8(s[len(s)-limit:], "")
	}
	return s
}

// places puts in the stead of Go stack traces where in the tool's own code they were: one
// line "at tool.go:12 (parse), tool.go:30 (Run)" for the first trace that names any, nothing
// for the others.
func places(s string) string {
	if !strings.Contains(s, ".go:") {
		return s
	}
	var out []string
	var own, other []string
	said, traced := false, false
	end := func() {
		if len(own) == 0 {
			own = other[:min(len(other), 1)]
		}
		if !said && len(own) > 0 {
			said = true
			out = append(out, "at "+strings.Join(own[:min(len(own), 5)], ", "))
		}
		own, other = nil, nil
	}
	lines := strings.Split(s, "\n")
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		if i+1 < len(lines) {
			name := traceFunc(l)
			if m := traceFile.FindStringSubmatch(lines[i+1]); m != nil && name != "" {
				traced = true
				place := m[1]
				switch {
				case strings.HasPrefix(name, "main."):
					own = append(own, place+" ("+strings.TrimPrefix(name, "main.")+")")
				case !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "runtime/") && name != "panic":
					other = append(other, place)
				}
				i++
				continue
			}
		}
		switch {
		case traceHead.MatchString(l):
			end()
			traced = true
			continue
		case traced && (strings.TrimSpace(l) == "" || strings.HasPrefix(l, "...") && strings.HasSuffix(l, " frames elided...")):
			continue
		}
		if len(own)+len(other) > 0 {
			end()
		}
		out = append(out, l)
	}
	end()
	if traced {
		for i := len(out) - 1; i > 0; i-- { // the empty line between a panic and its trace
			if strings.HasPrefix(out[i], "at ") && strings.TrimSpace(out[i-1]) == "" {
				out = append(out[:i-1], out[i:]...)
			}
		}
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// A goroutine of a Go stack trace, and the file that follows a function.
var (
	traceHead = regexp.MustCompile(`^goroutine \d+ .*\[.*\]:$`)
	traceFile = regexp.MustCompile(`^\t(?:.*/)?([^/\t]+\.go:\d+)(?: \+0x[0-9a-f]+)?$`)
)

// traceFunc is the function of a line of a Go stack trace, "" where it is no such line.
func traceFunc(l string) string {
	if rest, ok := strings.CutPrefix(l, "created by "); ok {
		name, _, _ := strings.Cut(rest, " in goroutine ")
		return name
	}
	i := strings.LastIndexByte(l, '(')
	if i <= 0 || !strings.HasSuffix(l, ")") || strings.ContainsAny(l[:i], " \t") {
		return ""
	}
	return l[:i]
}
