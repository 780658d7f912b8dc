// Package writefile is the tool write_file: a whole file at once. It never loses what the
// model has not seen: a file that exists must have been read in this session and be
// unchanged since. Encoding, byte order mark and line ends of an existing file are kept.
// It knows nothing of permissions.
package writefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "write_file",
		Description: "Create a file, or replace one that you have read, with content. For small changes use edit_file.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`),
		Idempotent:  true, Destructive: true,
	}
}

// Run writes.
func Run(_ context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct {
		Path    string
		Content *string
	}
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	if bad := c.Writable(); bad != nil {
		return *bad, nil
	}
	if in.Content == nil {
		return *call.Failf("content is missing"), nil
	}
	p, err := c.WS.Resolve(in.Path, workspace.Write)
	if err != nil {
		return *call.Fail(err), nil
	}
	defer c.WS.Lock(p)()

	old, err := c.WS.Read(p, workspace.MaxEdit)
	if call.NotFound(err) {
		return create(c, p, *in.Content), nil
	}
	if err != nil {
		return *call.Fail(err), nil
	}
	return replace(c, old, *in.Content), nil
}

func create(c *call.Call, p workspace.Path, content string) core.ToolResult {
	if bad := call.Masked(content, ""); bad != nil {
		return *bad
	}
	raw := []byte(content)
	digest, err := c.WS.Create(p, raw)
	if err != nil {
		return *call.Fail(err)
	}
	res := core.ToolResult{Text: fmt.Sprintf("created %s: %s, %s", p.Name, lines(workspace.CountLines(content)), workspace.Size(int64(len(raw))))}
	return touched(res, p, "", digest)
}

func replace(c *call.Call, old *workspace.File, content string) core.ToolResult {
	p := old.Path
	text, derr := workspace.Decode(old.Raw)
	known := c.Known(p)
	switch {
	case known == "" && derr != nil:
		return *call.Failf("%s exists and was not read in this session; nothing was written. It would be lost: %s, %s.",
			p.Name, workspace.Kind(old.Raw, p.Name), workspace.Size(int64(len(old.Raw))))
	case known == "" && len(old.Raw) > 0:
		return *call.Failf("%s exists and was not read in this session; nothing was written. It would be lost: %s, %s, beginning with\n%s\nRead it with read_file first, or change parts with edit_file.",
			p.Name, lines(text.Lines()), workspace.Size(int64(len(old.Raw))), call.Quote(text.LF, 5, 600))
	case known != "" && known != old.Digest:
		if derr != nil {
			return *call.Failf("%s changed since you read it and is binary now; nothing was written", p.Name)
		}
		return changed(p, old, text)
	case derr != nil:
		return *call.Failf("%s is a binary file (%s); write_file writes text only. Nothing was written.", p.Name, workspace.Kind(old.Raw, p.Name))
	}
	if bad := call.Masked(content, text.LF); bad != nil {
		return *bad
	}
	want := workspace.Normalise(content)
	raw, err := text.Rewrite(want)
	if err != nil {
		return *call.Fail(err)
	}
	if string(raw) == string(old.Raw) {
		return touched(core.ToolResult{Text: p.Name + " already has this content; nothing was written"}, p, old.Digest, old.Digest)
	}
	after, err := c.WS.Replace(old, raw)
	if errors.Is(err, workspace.ErrChanged) {
		return *call.Failf("%s changed while it was being written; nothing was written. Read it again.", p.Name)
	}
	if err != nil {
		return *call.Fail(err)
	}
	add, del := workspace.CountChanges(text.LF, want)
	msg := fmt.Sprintf("wrote %s: +%d -%d lines, now %s", p.Name, add, del, lines(workspace.CountLines(want)))
	if d := text.Describe(); d != "" {
		msg += " (" + d + " kept)"
	}
	return touched(core.ToolResult{Text: msg + linkNote(old)}, p, old.Digest, after)
}

// changed refuses and shows the fresh content; having shown it whole counts as reading it.
func changed(p workspace.Path, old *workspace.File, text *workspace.Text) core.ToolResult {
	pg := call.Cut(text.LF, 1, 400, 16<<10)
	msg := fmt.Sprintf("%s changed since you read it; nothing was written. It now has %s:\n%s", p.Name, lines(pg.Total), pg.Text)
	if pg.Last < pg.Total {
		msg += fmt.Sprintf("\n[%d more lines; read_file with offset %d]", pg.Total-pg.Last, pg.Last+1)
		return core.ErrorResult(msg)
	}
	return call.WithMeta(core.ErrorResult(msg), core.ToolMeta{Files: []core.FileTouch{{
		Path: p.Abs, Op: "read", Before: old.Digest, After: old.Digest, Partial: !pg.Whole(),
	}}})
}

func linkNote(f *workspace.File) string {
	if f.Links > 1 {
		return fmt.Sprintf("; it had %d hard links, the other names keep the old content", f.Links)
	}
	return ""
}

func lines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

func touched(r core.ToolResult, p workspace.Path, before, after string) core.ToolResult {
	return call.WithMeta(r, core.ToolMeta{Files: []core.FileTouch{{Path: p.Abs, Op: "write", Before: before, After: after}}})
}
