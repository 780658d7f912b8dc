// Package getoutline is the tool get_outline: what a source file defines, with signatures
// and line ranges, or what the files of a directory define, in an overview that fits. It
// owns how an outline looks; finding the symbols is that of package index.
package getoutline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/index"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/outline"
)

// Bounds of a result, in bytes.
const (
	maxFile = 32 << 10
	maxDir  = 16 << 10
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "get_outline",
		Description: "Definitions in a source file with signatures and line ranges; for a directory, an overview of its files.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		ReadOnly:    true, Idempotent: true,
	}
}

// Tool is the tool with the index that it looks in.
type Tool struct{ Index *index.Index }

// Run outlines.
func (t Tool) Run(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct{ Path string }
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	if in.Path == "" {
		in.Path = "."
	}
	at, err := c.WS.Resolve(in.Path, workspace.Read)
	if err != nil {
		return *call.Fail(err), nil
	}
	fi, err := os.Stat(at.Abs)
	switch {
	case call.NotFound(err):
		return *c.Missing(in.Path, at), nil
	case err != nil:
		return *call.Fail(core.Errorf(core.KindFailed, "%s: %w", in.Path, err)), nil
	case fi.IsDir():
		return t.directory(ctx, c, at)
	}
	f, err := t.Index.File(c.WS, at)
	switch {
	case errors.Is(err, outline.ErrLanguage):
		return *call.Failf("%s: no outline for this kind of file (there is one for %s); use read_file", at.Name, outline.Names), nil
	case errors.Is(err, outline.ErrTooLarge):
		return *call.Failf("%s is too large to outline (%s, at most %s); use grep_files", at.Name, workspace.Size(fi.Size()), workspace.Size(outline.MaxFile)), nil
	case errors.Is(err, outline.ErrTooSlow), errors.Is(err, workspace.ErrBinary):
		return *call.Failf("%s: %v", at.Name, err), nil
	case err != nil:
		return *call.Fail(err), nil
	}
	return core.ToolResult{Text: file(at.Name, f)}, nil
}

// file shows one file. What does not fit goes by depth, then by order.
func file(name string, f *outline.File) string {
	head := fmt.Sprintf("[%s: %s, %s", name, f.Lang, count(f.Lines, "line"))
	if f.Package != "" {
		head += ", package " + f.Package
	}
	if f.Broken {
		head += ", has syntax errors: parts may be missing"
	}
	if len(f.Symbols) == 0 {
		return head + ", defines nothing]"
	}
	deepest := 0
	for _, s := range f.Symbols {
		deepest = max(deepest, s.Depth)
	}
	depth := deepest
	for ; depth > 0; depth-- {
		size := 0
		for _, s := range f.Symbols {
			if s.Depth <= depth {
				size += len(s.Sig) + 2*s.Depth + 20
			}
		}
		if size <= maxFile {
			break
		}
	}
	var sb strings.Builder
	sb.WriteString(head + "]")
	left, nested := 0, 0
	for _, s := range f.Symbols {
		if s.Depth > depth {
			nested++
			continue
		}
		if left > 0 || sb.Len()+len(s.Sig)+40 > maxFile {
			left++
			continue
		}
		sb.WriteByte('\n')
		sb.WriteString(strings.Repeat("  ", s.Depth))
		sb.WriteString(Lines(s))
		sb.WriteByte(' ')
		sb.WriteString(Head(s))
	}
	var out []string
	if nested > 0 {
		out = append(out, fmt.Sprintf("%d nested definitions", nested))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("the last %d of %d definitions", left, len(f.Symbols)))
	}
	if f.Cut {
		out = append(out, fmt.Sprintf("all after the first %d", len(f.Symbols)))
	}
	if len(out) > 0 {
		fmt.Fprintf(&sb, "\n[left out: %s; find_symbol finds them by name]", strings.Join(out, ", "))
	}
	return sb.String()
}

// Lines is the line range of a symbol.
func Lines(s outline.Symbol) string {
	if s.End > s.Start {
		return fmt.Sprintf("%d-%d", s.Start, s.End)
	}
	return fmt.Sprint(s.Start)
}

// Head is the signature, with the kind before it unless it says so itself.
func Head(s outline.Symbol) string {
	words := []string{s.Kind}
	switch s.Kind {
	case "func", "method":
		words = []string{"func", "def", "fn", "function", "function*"}
	case "macro":
		words = []string{"#define", "macro_rules!"}
	case "type":
		words = []string{"type", "typedef", "using"}
	case "var":
		words = []string{"var", "let"}
	case "field", "impl", "static", "const":
		return s.Sig
	}
	for w := range strings.FieldsSeq(s.Sig) {
		for _, k := range words {
			if w == k || w == "@"+k {
				return s.Sig
			}
		}
	}
	return s.Kind + " " + s.Sig
}

type row struct {
	path string
	file *outline.File
}

// directory shows an overview.
func (t Tool) directory(ctx context.Context, c *call.Call, at workspace.Path) (core.ToolResult, error) {
	lists := make([][]row, workspace.Workers())
	st, err := t.Index.Walk(ctx, c.WS, at, nil, func(w int, rel string, f *outline.File) {
		lists[w] = append(lists[w], row{rel, f})
	})
	if err != nil {
		return *call.Fail(core.Errorf(core.KindInterrupted, "outline of %s: %w", at.Name, err)), nil
	}
	var rows []row
	for _, l := range lists {
		rows = append(rows, l...)
	}
	sort.Slice(rows, func(i, j int) bool {
		di, fi := path.Split(rows[i].path)
		dj, fj := path.Split(rows[j].path)
		if di != dj {
			return di < dj
		}
		return fi < fj
	})
	var sb strings.Builder
	fmt.Fprintf(&sb, "[%s: %s", at.Name, count(st.Files, "source file"))
	note := func(n int, what string) {
		if n > 0 {
			fmt.Fprintf(&sb, ", %d %s", n, what)
		}
	}
	note(st.ThirdParty, "in third-party or build directories left out")
	note(st.Large, "too large")
	note(st.Unparsed, "unreadable")
	note(st.Unreadable, "directories unreadable")
	if st.Late {
		sb.WriteString(", not all: out of time")
	}
	if len(rows) == 0 {
		fmt.Fprintf(&sb, "; languages: %s]", outline.Names)
		return core.ToolResult{Text: sb.String()}, nil
	}
	sb.WriteString("]")
	overview(&sb, rows)
	return core.ToolResult{Text: sb.String()}, nil
}

// overview shows as many names of each file as fit if all get the same share.
func overview(sb *strings.Builder, rows []row) {
	var text strings.Builder
	var cut bool
	fit := func(share int) bool {
		text.Reset()
		cut = false
		dir := "."
		for _, r := range rows {
			d, base := path.Split(r.path)
			if d = strings.TrimSuffix(d, "/"); d != dir && (d != "" || dir != ".") {
				if dir = d; d == "" {
					d = "."
				}
				text.WriteString("\n" + d + "/")
			}
			text.WriteByte('\n')
			if d != "" && d != "." {
				text.WriteByte(' ')
			}
			short := names(&text, base, r.file, share)
			cut = cut || short
			if text.Len() > maxDir {
				return false
			}
		}
		return true
	}
	best := -1
	for lo, hi := 0, maxDir; lo <= hi; {
		if mid := (lo + hi) / 2; fit(mid) {
			best, lo = mid, mid+1
		} else {
			hi = mid - 1
		}
	}
	if best >= 0 {
		fit(best)
		sb.WriteString(text.String())
		if cut {
			sb.WriteString("\n[not all names; get_outline of one file or subdirectory shows more]")
		}
		return
	}
	// Not even the paths fit: directories with the number of their files.
	for depth := 8; depth > 0; depth-- {
		dirs := map[string]int{}
		for _, r := range rows {
			dirs[upTo(path.Dir(r.path), depth)]++
		}
		size := 0
		var list []string
		for d, n := range dirs {
			list = append(list, fmt.Sprintf("%s/ %s", d, count(n, "file")))
			size += len(d) + 14
		}
		if size > maxDir && depth > 1 {
			continue
		}
		sort.Strings(list)
		for i, l := range list {
			if sb.Len()+len(l) > maxDir {
				fmt.Fprintf(sb, "\n[%d more directories left out]", len(list)-i)
				break
			}
			sb.WriteByte('\n')
			sb.WriteString(l)
		}
		break
	}
	sb.WriteString("\n[too many files for names; choose a subdirectory]")
}

func upTo(dir string, depth int) string {
	parts := strings.Split(dir, "/")
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

// names writes the line of one file: its top-level definitions by kind, as many as fit in
// share bytes. It says whether that is not all of them.
func names(sb *strings.Builder, name string, f *outline.File, share int) (cut bool) {
	fmt.Fprintf(sb, "%s (%d)", name, f.Lines)
	from, kind := sb.Len(), ""
	for _, s := range f.Symbols {
		if s.Depth > 0 || s.Kind == "method" || s.Kind == "impl" {
			continue
		}
		piece := ", " + s.Name
		if s.Kind != kind {
			if piece = "; " + s.Kind + " " + s.Name; kind == "" {
				piece = " " + piece[2:]
			}
		}
		if sb.Len()-from+len(piece) > share {
			if kind != "" {
				sb.WriteString(" …")
			}
			return true
		}
		kind = s.Kind
		sb.WriteString(piece)
	}
	return false
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
