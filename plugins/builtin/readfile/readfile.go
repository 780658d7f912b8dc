// Package readfile is the tool read_file: a page of a text file as UTF-8 with \n line
// ends. It owns the form in which files are shown to models and knows nothing of how a
// session remembers them; it only reports what it read.
//
// The form is one header line in brackets, then the lines as they are. They carry no
// numbers: text that a model copies into edit_file must match exactly, and weak models
// copy line numbers with it.
package readfile

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "read_file",
		Description: "Read a text file, up to 2000 lines from line offset on, or a picture.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer","description":"first line, from 1"},"limit":{"type":"integer","description":"lines"}},"required":["path"]}`),
		ReadOnly:    true, Idempotent: true,
	}
}

// wholeLimit is the size up to which a file is read into memory; larger ones are read in
// one pass that keeps only the page.
const wholeLimit = 16 << 20

// Run reads.
func Run(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct {
		Path          string
		Offset, Limit call.Int
	}
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	if in.Offset < 0 || in.Limit < 0 {
		return *call.Failf("offset %d, limit %d: neither may be negative; offset is the first line, from 1", in.Offset, in.Limit), nil
	}
	p, err := c.WS.Resolve(in.Path, workspace.Read)
	if err != nil {
		return *call.Fail(err), nil
	}
	first := max(int(in.Offset), 1)
	limit := call.MaxLines
	if in.Limit > 0 {
		limit = min(limit, int(in.Limit))
	}
	f, fi, err := c.WS.OpenFile(p)
	switch {
	case call.NotFound(err):
		return *c.Missing(in.Path, p), nil
	case err != nil:
		if st, e := os.Stat(p.Abs); e == nil && st.IsDir() {
			return *call.Failf("%s is a directory; list_files shows its content", in.Path), nil
		}
		return *call.Fail(err), nil
	}
	defer f.Close()

	var pg call.Page
	var digest, what string
	final := true
	if fi.Size() <= wholeLimit {
		file, err := c.WS.Read(p, wholeLimit+1<<20)
		if err != nil {
			return *call.Fail(err), nil
		}
		text, err := workspace.Decode(file.Raw)
		if err != nil {
			if mime := pictureType(file.Raw); mime != "" {
				return picture(p, mime, file.Raw), nil
			}
			return binary(p, file.Raw, int64(len(file.Raw))), nil
		}
		digest, what, final = file.Digest, text.Describe(), text.FinalNewline() || text.LF == ""
		pg = call.Cut(text.LF, first, limit, call.MaxBytes)
	} else {
		pg, digest, what, err = stream(ctx, f, first, limit)
		if err == workspace.ErrBinary {
			head := make([]byte, 512)
			n, _ := f.ReadAt(head, 0)
			return binary(p, head[:n], fi.Size()), nil
		}
		if err != nil {
			return *call.Fail(core.Errorf(core.KindFailed, "%s: %w", p.Name, err)), nil
		}
	}
	if pg.Total > 0 && first > pg.Total {
		return *call.Failf("%s has only %d lines; offset %d is past its end", p.Name, pg.Total, first), nil
	}
	res := core.ToolResult{Text: render(p.Name, pg, what, final)}
	return call.WithMeta(res, core.ToolMeta{Files: []core.FileTouch{{
		Path: p.Abs, Op: "read", Before: digest, After: digest, Partial: !pg.Whole(),
	}}}), nil
}

func render(name string, pg call.Page, what string, final bool) string {
	if pg.Total == 0 {
		return "[" + name + ": empty file]"
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "[%s: ", name)
	if pg.First <= 1 && pg.Last >= pg.Total {
		fmt.Fprintf(&sb, "%d line", pg.Total)
		if pg.Total != 1 {
			sb.WriteByte('s')
		}
	} else {
		fmt.Fprintf(&sb, "lines %d-%d of %d", pg.First, pg.Last, pg.Total)
	}
	if what != "" {
		sb.WriteString(", " + what)
	}
	if !final {
		sb.WriteString(", no newline at the end")
	}
	sb.WriteString("]\n")
	sb.WriteString(pg.Text)
	if !strings.HasSuffix(pg.Text, "\n") {
		sb.WriteByte('\n')
	}
	switch {
	case pg.Last < pg.Total:
		fmt.Fprintf(&sb, "[%d more lines; go on with offset %d]", pg.Total-pg.Last, pg.Last+1)
	case pg.CutLines > 0:
		fmt.Fprintf(&sb, "[%d long lines are cut; use grep_files or bash to see parts of them]", pg.CutLines)
	}
	return sb.String()
}

// maxPicture is the size of a picture that is shown, in bytes.
const maxPicture = 10 << 20

// pictureType is the kind of picture that bytes are, "" for none that models read.
func pictureType(raw []byte) string {
	switch mime := http.DetectContentType(raw); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if len(raw) <= maxPicture {
			return mime
		}
	}
	return ""
}

func picture(p workspace.Path, mime string, raw []byte) core.ToolResult {
	return core.ToolResult{
		Text:   fmt.Sprintf("[%s: %s, %s]", p.Name, workspace.Kind(raw, p.Name), workspace.Size(int64(len(raw)))),
		Images: []core.Image{{MIME: mime, Data: raw}},
	}
}

func binary(p workspace.Path, raw []byte, size int64) core.ToolResult {
	return *call.Failf("%s is a binary file: %s, %s. It can't be shown as text; use bash (file, xxd, strings) to look into it.",
		p.Name, workspace.Kind(raw, p.Name), workspace.Size(size))
}

// stream reads a large file once, keeping its digest, its number of lines and the bytes of
// the page. The encoding is judged by the page alone.
func stream(ctx context.Context, f *os.File, first, limit int) (pg call.Page, digest, what string, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return pg, "", "", err
	}
	h := sha256.New()
	r := bufio.NewReaderSize(io.TeeReader(f, h), 256<<10)
	if head, _ := r.Peek(8192); workspace.IsBinary(head) {
		return pg, "", "", workspace.ErrBinary
	}
	const keep = 4 * call.MaxBytes
	var page []byte
	line := 1
	atStart := true
	for {
		chunk, err := r.ReadSlice('\n')
		if len(chunk) > 0 {
			if atStart && line%65536 == 0 && ctx.Err() != nil {
				return pg, "", "", context.Cause(ctx)
			}
			if line >= first && line < first+limit && len(page)+len(chunk) <= keep {
				page = append(page, chunk...)
			}
			atStart = chunk[len(chunk)-1] == '\n'
			if atStart {
				line++
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil && err != bufio.ErrBufferFull {
			return pg, "", "", err
		}
	}
	total := line
	if atStart {
		total--
	}
	text, err := workspace.Decode(page)
	if err != nil {
		return pg, "", "", err
	}
	pg = call.Cut(text.LF, 1, limit, call.MaxBytes)
	got := pg.Last
	pg.First, pg.Last, pg.Total = first, first-1+got, total
	return pg, hex.EncodeToString(h.Sum(nil)), text.Describe(), nil
}
