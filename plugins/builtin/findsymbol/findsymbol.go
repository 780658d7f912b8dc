// Package findsymbol is the tool find_symbol: where a name is defined. It owns which
// definitions a name means and their order; finding symbols in files is that of package
// index. Only files that contain the name are parsed.
package findsymbol

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/getoutline"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/index"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/outline"
)

// most is the number of definitions that are shown.
const most = 50

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "find_symbol",
		Description: "Where a function, type, method or variable is defined, by name or Type.Method. For uses: grep_files.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"path":{"type":"string"}},"required":["name"]}`),
		ReadOnly:    true, Idempotent: true,
	}
}

// Tool is the tool with the index that it looks in.
type Tool struct{ Index *index.Index }

// How well a definition matches.
const (
	same   = iota // the name
	folded        // the name in another case
	part          // contains it
	none
)

type hit struct {
	path string
	sym  outline.Symbol
	rank int
	of   bool // belongs to the type or package that was named
}

// Run searches.
func (t Tool) Run(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct{ Name, Path string }
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	owner, name := split(in.Name)
	if name == "" {
		return *call.Failf("name is empty; give the name of a function, type, method or variable"), nil
	}
	if in.Path == "" {
		in.Path = "."
	}
	at, err := c.WS.Resolve(in.Path, workspace.Read)
	if err != nil {
		return *call.Fail(err), nil
	}
	fi, err := os.Stat(at.Abs)
	if call.NotFound(err) {
		return *c.Missing(in.Path, at), nil
	}
	if err != nil {
		return *call.Fail(core.Errorf(core.KindFailed, "%s: %w", in.Path, err)), nil
	}
	s := &search{t: t, c: c, at: at, dir: fi.IsDir(), owner: owner, name: name, low: strings.ToLower(name)}
	hits, err := s.run(ctx, same)
	if err == nil && len(hits) == 0 && !s.stats.Late {
		hits, err = s.run(ctx, part)
	}
	if err != nil {
		return *call.Fail(err), nil
	}
	return core.ToolResult{Text: s.render(in.Name, hits)}, nil
}

// split takes a name apart: "Type.Method", "a::b", "pkg.Func()" and the like.
func split(s string) (owner, name string) {
	s = strings.TrimSpace(s)
	for _, w := range []string{"func ", "def ", "class ", "fn ", "type ", "function "} {
		s = strings.TrimPrefix(s, w)
	}
	if strings.HasPrefix(s, "(*") { // (*T).M
		s = strings.Replace(s[2:], ")", "", 1)
	}
	if i := strings.IndexAny(s, "( <["); i > 0 && !strings.HasPrefix(s, "operator") {
		s = s[:i]
	}
	s = strings.Trim(s, ". :#&*()`'\"")
	if i := strings.LastIndexAny(s, ".:#/"); i >= 0 && i+1 < len(s) {
		return strings.Trim(s[:i], ".:#/"), s[i+1:]
	}
	return "", s
}

type search struct {
	t           Tool
	c           *call.Call
	at          workspace.Path
	dir         bool
	owner, name string
	low         string
	stats       index.Stats
}

// run gives the matches that are at least so good, only the best kind of them.
func (s *search) run(ctx context.Context, worst int) ([]hit, error) {
	lists := make([][]hit, workspace.Workers())
	look := func(w int, file string, f *outline.File) {
		for _, sym := range f.Symbols {
			if r := s.rank(sym.Name); r <= worst {
				lists[w] = append(lists[w], hit{file, sym, r, s.owner == "" || s.belongs(file, f, sym)})
			}
		}
	}
	if s.dir {
		want := func(src []byte) bool { return contains(src, s.name) }
		if worst > same {
			want = func(src []byte) bool { return containsFold(src, s.low) }
		}
		st, err := s.t.Index.Walk(ctx, s.c.WS, s.at, want, func(w int, rel string, f *outline.File) {
			if s.at.Name != "." {
				rel = path.Join(s.at.Name, rel)
			}
			look(w, rel, f)
		})
		if err != nil {
			return nil, core.Errorf(core.KindInterrupted, "searching %s: %w", s.at.Name, err)
		}
		s.stats = st
	} else {
		f, err := s.t.Index.File(s.c.WS, s.at)
		if err != nil {
			return nil, core.Errorf(core.KindFailed, "%s: %w", s.at.Name, err)
		}
		s.stats.Files = 1
		look(0, s.at.Name, f)
	}
	var all []hit
	best, of := none, false
	for _, l := range lists {
		for _, h := range l {
			best = min(best, h.rank)
		}
		all = append(all, l...)
	}
	for _, h := range all {
		of = of || h.of && h.rank == best
	}
	out := all[:0]
	for _, h := range all {
		if h.rank == best && (h.of || !of) {
			out = append(out, h)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if ta, tb := isTest(a.path), isTest(b.path); ta != tb {
			return tb
		}
		if len(a.sym.Name) != len(b.sym.Name) {
			return len(a.sym.Name) < len(b.sym.Name)
		}
		if a.path != b.path {
			return a.path < b.path
		}
		return a.sym.Start < b.sym.Start
	})
	return out, nil
}

func isTest(p string) bool {
	b := path.Base(p)
	return strings.Contains(b, "_test.") || strings.HasPrefix(b, "test_") || strings.Contains(b, ".test.") || strings.Contains(b, ".spec.")
}

// rank compares the last part of a symbol's name: C++ and JavaScript have qualified ones.
func (s *search) rank(name string) int {
	if i := strings.LastIndexAny(name, ".:"); i >= 0 && i+1 < len(name) {
		name = name[i+1:]
	}
	switch {
	case name == s.name:
		return same
	case strings.EqualFold(name, s.name):
		return folded
	case strings.Contains(strings.ToLower(name), s.low):
		return part
	}
	return none
}

// belongs says whether a symbol is of the type, class, module, package, directory or file
// that the name before the dot means.
func (s *search) belongs(file string, f *outline.File, sym outline.Symbol) bool {
	owners := []string{sym.Parent, f.Package, path.Base(path.Dir(file)), strings.TrimSuffix(path.Base(file), path.Ext(file))}
	if i := strings.LastIndexAny(sym.Name, ".:"); i > 0 {
		owners = append(owners, sym.Name[:i])
	}
	want := parts(s.owner)
	for _, o := range owners {
		have := parts(o)
		if o == "" || len(have) == 0 {
			continue
		}
		if strings.EqualFold(have[len(have)-1], want[len(want)-1]) {
			return true
		}
	}
	return false
}

func parts(s string) []string {
	p := strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == ':' || r == '#' || r == '/' })
	if len(p) == 0 {
		return []string{s}
	}
	return p
}

// contains looks for a word. Text that is not UTF-8 is always worth parsing when the word
// is not ASCII, and so is UTF-16.
func contains(src []byte, word string) bool {
	if encoded(src, word) {
		return true
	}
	for from := 0; ; {
		i := bytes.Index(src[from:], []byte(word))
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRune(src[:i])
		after, _ := utf8.DecodeRune(src[i+len(word):])
		if (i == 0 || !isWord(before)) && (i+len(word) == len(src) || !isWord(after)) {
			return true
		}
		from = i + 1
	}
}

func containsFold(src []byte, low string) bool {
	return encoded(src, low) || bytes.Contains(bytes.ToLower(src), []byte(low))
}

func encoded(src []byte, word string) bool {
	if len(src) > 1 && (src[0] == 0xff && src[1] == 0xfe || src[0] == 0xfe && src[1] == 0xff) {
		return true
	}
	for i := range len(word) {
		if word[i] >= 0x80 {
			return !utf8.Valid(src)
		}
	}
	return false
}

func isWord(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func (s *search) render(asked string, hits []hit) string {
	var sb strings.Builder
	if len(hits) == 0 {
		fmt.Fprintf(&sb, "no definition of %s in %s (%d source files", asked, s.at.Name, s.stats.Files)
		s.notes(&sb)
		sb.WriteString("); grep_files finds text in all files")
		return sb.String()
	}
	switch h := hits[0]; {
	case h.rank == folded:
		fmt.Fprintf(&sb, "[%s is not defined; with other capitals:]\n", asked)
	case h.rank == part:
		fmt.Fprintf(&sb, "[%s is not defined; names that contain %s:]\n", asked, s.name)
	case !h.of:
		fmt.Fprintf(&sb, "[no %s in %s; others of this name:]\n", s.name, s.owner)
	}
	for _, h := range hits[:min(len(hits), most)] {
		fmt.Fprintf(&sb, "%s:%s: %s", h.path, getoutline.Lines(h.sym), getoutline.Head(h.sym))
		if h.sym.Depth > 0 && h.sym.Parent != "" {
			sb.WriteString("  [in " + h.sym.Parent + "]")
		}
		sb.WriteByte('\n')
	}
	what := "definitions"
	if len(hits) == 1 {
		what = "definition"
	}
	if len(hits) > most {
		fmt.Fprintf(&sb, "[first %d of %d definitions; give path or a longer name", most, len(hits))
	} else {
		fmt.Fprintf(&sb, "[%d %s", len(hits), what)
	}
	s.notes(&sb)
	sb.WriteString("]")
	return sb.String()
}

func (s *search) notes(sb *strings.Builder) {
	if s.stats.Large > 0 {
		fmt.Fprintf(sb, ", %d too large left out", s.stats.Large)
	}
	if s.stats.ThirdParty > 0 {
		fmt.Fprintf(sb, ", %d in third-party or build directories left out", s.stats.ThirdParty)
	}
	if s.stats.Late {
		sb.WriteString(", not all: out of time")
	}
}
