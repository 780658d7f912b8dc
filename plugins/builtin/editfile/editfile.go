// Package editfile is the tool edit_file: one exact text of a file becomes another. It
// matches on the text as read_file shows it and changes only the bytes that differ. It
// owns the words for a match that fails and knows nothing of permissions.
//
// A file need not have been read before: an exact match proves that the model knows the
// place. For the same reason a file that changed since it was read is still edited when
// old matches exactly once: the edit applies to the fresh content and overwrites nothing
// else; the result says so. With several matches it is refused.
package editfile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "edit_file",
		Description: "Replace old, an exact text that occurs once in the file, by new. If it occurs more often give occurrence (1 = first) or all.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"occurrence":{"type":"integer"},"all":{"type":"boolean"}},"required":["path","old","new"]}`),
		Destructive: true,
	}
}

type args struct {
	Path       string
	Old        string
	New        *string
	Occurrence call.Int
	All        bool
}

// Run edits.
func Run(_ context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in args
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	if bad := c.Writable(); bad != nil {
		return *bad, nil
	}
	if in.New == nil {
		return *call.Failf("new is missing; give an empty text to delete old"), nil
	}
	p, err := c.WS.Resolve(in.Path, workspace.Write)
	if err != nil {
		return *call.Fail(err), nil
	}
	res := edit(c, p, in)
	key := sha256.Sum256([]byte(fmt.Sprintf("%q %q %q %q %d %v", c.Ctx.Session, p.Abs, in.Old, *in.New, in.Occurrence, in.All)))
	if n := tries.count(key, res.IsError); n >= 3 {
		res.Text += fmt.Sprintf("\nThis same edit has failed %d times. Do not send it again: read the place with read_file first, then copy old from what it shows.", n)
	}
	return res, nil
}

func edit(c *call.Call, p workspace.Path, in args) core.ToolResult {
	defer c.WS.Lock(p)()
	f, err := c.WS.Read(p, workspace.MaxEdit)
	switch {
	case call.NotFound(err):
		return *c.Missing(in.Path, p)
	case errors.Is(err, workspace.ErrTooLarge):
		return *call.Failf("%v; use bash (sed, patch) for it", err)
	case err != nil:
		return *call.Fail(err)
	}
	text, err := workspace.Decode(f.Raw)
	if err != nil {
		return *call.Failf("%s is a binary file (%s); nothing was changed", p.Name, workspace.Kind(f.Raw, p.Name))
	}
	old, repl := workspace.Normalise(in.Old), workspace.Normalise(*in.New)
	switch {
	case old == "":
		return *call.Failf("old is empty; to insert text give a neighbouring line as old and that line with the addition as new, to write a whole file use write_file")
	case old == repl:
		why := ""
		if in.Old != *in.New {
			why = fmt.Sprintf(" but for line ends, which stay as the file has them (%s)", endsOf(text))
		}
		return *call.Failf("no change made: old and new are equal%s", why)
	case in.All && in.Occurrence > 0:
		return *call.Failf("give occurrence or all, not both")
	}
	if bad := call.Masked(old+"\n"+repl, text.LF); bad != nil {
		return *bad
	}
	at := find(text.LF, old)
	known := c.Known(p)
	moved := known != "" && known != f.Digest
	switch {
	case len(at) == 0:
		return *call.Failf("old was not found in %s; nothing was changed.%s%s", p.Name, movedNote(moved), explain(text.LF, old, repl))
	case moved && len(at) > 1:
		return *call.Failf("%s changed since you read it and old now occurs %d times; nothing was changed. Read it again.", p.Name, len(at))
	case in.Occurrence < 0 || int(in.Occurrence) > len(at):
		return *call.Failf("old occurs %d times in %s (%s); there is no occurrence %d", len(at), p.Name, where(text.LF, at), in.Occurrence)
	case in.Occurrence > 0:
		at = at[in.Occurrence-1 : in.Occurrence]
	case len(at) > 1 && !in.All:
		return *call.Failf("old occurs %d times in %s: %s; nothing was changed. Give occurrence (1-%d), or all: true, or a longer old.", len(at), p.Name, where(text.LF, at), len(at))
	}
	var spans []workspace.Span
	for _, i := range at {
		spans = append(spans, wholeLine(text.LF, workspace.Span{Start: i, End: i + len(old), New: repl}))
	}
	raw, err := text.Splice(spans)
	if err != nil {
		return *call.Fail(err)
	}
	if string(raw) == string(f.Raw) {
		return *call.Failf("no change made: the file already reads so")
	}
	after, err := c.WS.Replace(f, raw)
	if errors.Is(err, workspace.ErrChanged) {
		return *call.Failf("%s changed while it was being edited; nothing was changed. Read it again.", p.Name)
	}
	if err != nil {
		return *call.Fail(err)
	}
	return report(c, f, text, raw, after, len(spans), moved)
}

func report(c *call.Call, f *workspace.File, text *workspace.Text, raw []byte, after string, n int, moved bool) core.ToolResult {
	p := f.Path
	var sb strings.Builder
	fmt.Fprintf(&sb, "edited %s", p.Name)
	if n > 1 {
		fmt.Fprintf(&sb, ": %d replacements", n)
	}
	if d := text.Describe(); d != "" {
		sb.WriteString(" (" + d + " kept)")
	}
	if moved {
		sb.WriteString("; note: the file had changed since you read it, read it again before further edits")
	}
	if f.Links > 1 {
		fmt.Fprintf(&sb, "; it had %d hard links, the other names keep the old content", f.Links)
	}
	if now, err := workspace.Decode(raw); err == nil {
		sb.WriteString("\n" + workspace.UnifiedDiff(text.LF, now.LF, 2, 200, 60))
	}
	return call.WithMeta(core.ToolResult{Text: sb.String()}, core.ToolMeta{Files: []core.FileTouch{{
		Path: p.Abs, Op: "write", Before: f.Digest, After: after,
	}}})
}

func endsOf(t *workspace.Text) string {
	if t.Ends == workspace.None {
		return "none"
	}
	return string(t.Ends)
}

func movedNote(moved bool) string {
	if moved {
		return " The file changed since you read it."
	}
	return ""
}

// find gives the offsets of all matches that do not overlap.
func find(s, old string) []int {
	var at []int
	for i := 0; ; {
		j := strings.Index(s[i:], old)
		if j < 0 {
			return at
		}
		at = append(at, i+j)
		i += j + len(old)
	}
}

// where lists the lines of matches.
func where(s string, at []int) string {
	var parts []string
	line, pos := 1, 0
	for i, a := range at {
		line += strings.Count(s[pos:a], "\n")
		pos = a
		if i == 20 {
			parts = append(parts, fmt.Sprintf("and %d more", len(at)-20))
			break
		}
		parts = append(parts, fmt.Sprint(line))
	}
	if len(parts) == 1 {
		return "line " + parts[0]
	}
	return "lines " + strings.Join(parts, ", ")
}

// wholeLine widens a deletion that covers whole lines but their last line break, so that
// no empty line is left behind.
func wholeLine(s string, sp workspace.Span) workspace.Span {
	if sp.New != "" || sp.Start > 0 && s[sp.Start-1] != '\n' || s[sp.End-1] == '\n' {
		return sp
	}
	switch {
	case sp.End < len(s) && s[sp.End] == '\n':
		sp.End++
	case sp.End == len(s) && sp.Start > 0:
		sp.Start--
	}
	return sp
}

// counter counts equal failures. It is bounded and safe for concurrent use.
type counter struct {
	mu sync.Mutex
	m  map[[32]byte]int
}

var tries counter

func (c *counter) count(k [32]byte, failed bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !failed {
		delete(c.m, k)
		return 0
	}
	if c.m == nil || len(c.m) > 4096 {
		c.m = map[[32]byte]int{}
	}
	c.m[k]++
	return c.m[k]
}
