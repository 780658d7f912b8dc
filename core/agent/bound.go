package agent

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Sizes of what a result may put into the conversation, in bytes of UTF-8.
const (
	// DefaultHead and DefaultTail are what is kept of a command's output.
	DefaultHead = 12 << 10
	DefaultTail = 12 << 10
	// MaxText is the most that any result's text may have; a longer one is cut the same
	// way.
	MaxText = 112 << 10
	// MaxStored is the most that is stored of one output.
	MaxStored = 64 << 20
)

// Transform turns text into other text as it streams by (decoding, masking). Push may hold
// text back until it knows more; Close gives the rest.
type Transform interface {
	Push(p []byte) string
	Close() string
}

// Kept is a place for the whole of an output: a file of the store.
type Kept interface {
	io.WriteCloser
	// ID is what read_output takes.
	ID() string
}

// Bounded is a core.Sink that keeps head and tail of a call's raw output in bounded
// memory, and the whole, up to MaxStored, in a Kept place once it no longer fits. It is
// where output is cut: once, between characters, saying how much is missing and where it
// is. Safe for use by several goroutines.
type Bounded struct {
	// Decode turns raw bytes into masked UTF-8 text. Needed.
	Decode Transform
	// Keep opens the place for the whole output; nil keeps no more than head and tail.
	Keep func() (Kept, error)
	// Next takes progress; nil drops it. Lines of output are sent there too.
	Next core.Sink

	mu      sync.Mutex
	head    []byte
	tail    []byte // ring
	at      int
	total   int64
	kept    Kept
	keptErr error
	written int64
	dropped int64
}

// Progress passes a line on.
func (b *Bounded) Progress(text string) {
	if b.Next != nil {
		b.Next.Progress(text)
	}
}

// Output takes raw bytes.
func (b *Bounded) Output(p []byte) {
	b.mu.Lock()
	s := b.Decode.Push(p)
	b.add(s)
	b.mu.Unlock()
	if s != "" && b.Next != nil {
		b.Next.Progress(s)
	}
}

func (b *Bounded) add(s string) {
	if s == "" {
		return
	}
	b.total += int64(len(s))
	if b.kept != nil {
		b.store(s)
	}
	if room := DefaultHead - len(b.head); room > 0 {
		n := min(room, len(s))
		b.head = append(b.head, s[:n]...)
		s = s[n:]
	}
	if s == "" {
		return
	}
	if b.tail == nil {
		b.tail = make([]byte, 0, 4<<10)
	}
	over := len(b.tail)+len(s) > DefaultTail
	if over && b.kept == nil && b.keptErr == nil && b.Keep != nil {
		// The moment at which something would be lost: open the place for the whole.
		if b.kept, b.keptErr = b.Keep(); b.keptErr == nil {
			b.store(string(b.head))
			b.store(string(b.tail))
			b.store(s)
		}
	}
	if len(s) >= DefaultTail {
		b.tail = append(b.tail[:0], s[len(s)-DefaultTail:]...)
		b.at = 0
		return
	}
	for len(s) > 0 {
		if len(b.tail) < DefaultTail {
			n := min(DefaultTail-len(b.tail), len(s))
			b.tail = append(b.tail, s[:n]...)
			s = s[n:]
			continue
		}
		n := copy(b.tail[b.at:], s)
		b.at = (b.at + n) % DefaultTail
		s = s[n:]
	}
}

func (b *Bounded) store(s string) {
	if room := MaxStored - b.written; int64(len(s)) > room {
		b.dropped += int64(len(s)) - max(room, 0)
		if room <= 0 {
			return
		}
		s = s[:room]
	}
	n, err := io.WriteString(b.kept, s)
	b.written += int64(n)
	if err != nil {
		b.dropped += int64(len(s) - n)
	}
}

// Result puts the collected output before the text of res and returns the bounded whole.
// kept is the id of the stored output, "" when everything is in the text.
func (b *Bounded) Result(res core.ToolResult) (out core.ToolResult, kept string, bytes, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(b.Decode.Close())
	tail := append(append([]byte(nil), b.tail[b.at:]...), b.tail[:b.at]...)
	missing := b.total - int64(len(b.head)) - int64(len(tail))
	var text strings.Builder
	if missing <= 0 {
		text.Write(b.head)
		text.Write(tail)
	} else {
		h, t := lineEnd(b.head), lineStart(tail)
		missing += int64(len(b.head)-len(h)) + int64(len(tail)-len(t))
		text.Write(h)
		where := "it was not stored"
		if b.kept != nil {
			where = fmt.Sprintf("read_output {\"id\":%q} reads all of it", b.kept.ID())
		}
		fmt.Fprintf(&text, "\n[… %d bytes left out here; %s …]\n", missing, where)
		text.Write(t)
	}
	if b.kept != nil {
		kept = b.kept.ID()
		if err := b.kept.Close(); err != nil && b.keptErr == nil {
			b.keptErr = err
		}
	}
	if own := strings.TrimRight(res.Text, "\n"); own != "" {
		if text.Len() > 0 && !strings.HasSuffix(text.String(), "\n") {
			text.WriteByte('\n')
		}
		text.WriteString(own)
	}
	res.Text = text.String()
	return res, kept, b.written, b.dropped
}

// lineEnd cuts p after its last line end where that loses little, else between characters.
func lineEnd(p []byte) []byte {
	for i := len(p); i > len(p)*3/4; i-- {
		if p[i-1] == '\n' {
			return p[:i-1]
		}
	}
	return trimRight(p)
}

func lineStart(p []byte) []byte {
	for i := 0; i < len(p)/4; i++ {
		if p[i] == '\n' {
			return p[i+1:]
		}
	}
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	return p
}

// trimRight drops an incomplete character at the end.
func trimRight(p []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(p); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// Cut bounds a text that is already whole: head and tail of at most limit bytes, whole
// lines where that is cheap, with where as the words that say how to see the rest.
func Cut(text string, limit int, where string) string {
	if len(text) <= limit {
		return text
	}
	h := lineEnd([]byte(text[:limit/2]))
	t := lineStart([]byte(text[len(text)-limit/2:]))
	return fmt.Sprintf("%s\n[… %d bytes left out here; %s …]\n%s", h, len(text)-len(h)-len(t), where, t)
}
