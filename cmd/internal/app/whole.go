package app

import (
	"fmt"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
	"github.com/lingjiyidong/lj/plugins/host"
)

// output takes what a call prints and puts it before the text of its result.
type output interface {
	core.Sink
	Result(res core.ToolResult) (out core.ToolResult, kept string, bytes, dropped int64)
}

// whole is the output of a call that a person typed: nothing is left out up to the host's
// limit for one result, and what is missing is told beside it.
type whole struct {
	decode agent.Transform
	note   func(string)

	mu      sync.Mutex
	text    strings.Builder
	dropped int64
}

// Progress drops the line: nobody waits for it.
func (w *whole) Progress(string) {}

// Output takes raw bytes.
func (w *whole) Output(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(w.decode.Push(p))
}

func (w *whole) add(s string) {
	room := host.MaxText - w.text.Len()
	if w.dropped > 0 {
		room = 0 // no holes
	}
	if len(s) > room {
		fits := strings.ToValidUTF8(s[:max(room, 0)], "")
		w.dropped += int64(len(s) - len(fits))
		s = fits
	}
	w.text.WriteString(s)
}

// Note takes what was left out of the result.
func (w *whole) Note(text string) { w.note(text) }

// Result puts the output before the text of res.
func (w *whole) Result(res core.ToolResult) (core.ToolResult, string, int64, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(w.decode.Close())
	text := w.text.String()
	if w.dropped > 0 {
		w.note(fmt.Sprintf("output cut: %d of %d bytes shown", len(text), int64(len(text))+w.dropped))
	}
	if own := strings.TrimRight(res.Text, "\n"); own != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += own
	}
	res.Text = text
	return res, "", int64(len(text)), w.dropped
}
