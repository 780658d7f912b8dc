package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
)

// SDK is the import path of what a tool is made with.
const SDK = "github.com/lingjiyidong/lj/plugins/sdk"

// Source is a tool's files, judged. It is immutable.
type Source struct {
	Name   string
	Files  map[string][]byte // what belongs, formatted
	Digest string
	Want   core.Permissions
	Notes  []string
	// Tests are the functions that the test program runs and reports.
	Tests []string
	// Sample are arguments that must be answered well (testdata/example.json), nil
	// without. Example are arguments that a test uses, nil where none can be read.
	Sample, Example json.RawMessage
	Strength        Strength

	original map[string][]byte
	lines    map[string][]placePair // of formatted files
}

// Strength is how much the tests ask, counted.
type Strength struct {
	Tests   []string // names of test functions
	Asserts int      // calls that can fail a test
	Cases   int      // rows of tables
	Skips   int      // calls that skip
}

type placePair struct{ line, column, wasLine, wasColumn int }

// Original is a diagnostic about the judged files in terms of the files as they were
// given, with the text of the line.
func (s *Source) Original(d evolve.Diagnostic) evolve.Diagnostic {
	if pairs := s.lines[d.File]; pairs != nil && d.Line > 0 {
		// The last token that begins at or before the place.
		i, _ := slices.BinarySearchFunc(pairs, d, func(p placePair, d evolve.Diagnostic) int {
			if p.line != d.Line {
				return p.line - d.Line
			}
			if d.Column == 0 {
				return 1 // the first of its line
			}
			return p.column - d.Column
		})
		switch {
		case i < len(pairs) && pairs[i].line == d.Line && (d.Column == 0 || pairs[i].column == d.Column):
			d.Line = pairs[i].wasLine
			if d.Column != 0 {
				d.Column = pairs[i].wasColumn
			}
		case i > 0:
			p := pairs[i-1]
			if p.line == d.Line && d.Column != 0 {
				d.Column = p.wasColumn + d.Column - p.column
			}
			d.Line = p.wasLine
		}
	}
	if b, ok := s.original[d.File]; ok && d.Line > 0 {
		if lines := strings.Split(string(b), "\n"); d.Line <= len(lines) {
			d.Text = strings.TrimRight(lines[d.Line-1], "\r")
			if len(d.Text) > 200 {
				d.Text = strings.ToValidUTF8(d.Text[:200], "") + "…"
			}
		}
	}
	return d
}

// Check judges a tool's files. The error is a *evolve.Refusal.
func Check(name string, files map[string][]byte) (*Source, error) {
	s := &Source{Name: name, original: files, lines: map[string][]placePair{}}
	kept, notes, diags := sortFiles(files)
	s.Files, s.Notes = kept, notes
	refuse := func(reason string) error {
		for i := range diags {
			diags[i] = s.Original(diags[i])
		}
		return &evolve.Refusal{Reason: reason, Diagnostics: diags}
	}
	var wantDiags []evolve.Diagnostic
	s.Want, wantDiags = Manifest(kept[ManifestFile])
	diags = append(diags, wantDiags...)

	c := &checker{src: s, fset: token.NewFileSet(), consts: map[string]string{}}
	for _, f := range slices.Sorted(maps.Keys(kept)) {
		if !strings.HasSuffix(f, ".go") || strings.Contains(f, "/") {
			continue
		}
		c.parse(f, kept[f])
	}
	if len(c.code) == 0 && len(c.diags) == 0 {
		c.bad("tool.go", token.NoPos, "there is no Go file; a tool has one with func main() { sdk.Serve(%q, \"what it does\", Run) }", name)
	}
	if len(c.diags) == 0 {
		c.imports()
		c.serve()
		c.tests()
	}
	diags = append(diags, c.diags...)
	if len(diags) > 0 {
		reason := "the files are not a tool's"
		if c.syntax {
			reason = "a file does not parse"
		} else if len(diags) == 1 {
			reason = diags[0].Message
			if i := strings.IndexAny(reason, "\n"); i >= 0 {
				reason = reason[:i]
			}
		}
		return nil, refuse(reason)
	}
	if b, ok := kept[SampleFile]; ok {
		if !json.Valid(b) {
			diags = append(diags, evolve.Diagnostic{File: SampleFile, Message: "not JSON; it holds the arguments of a call that succeeds"})
			return nil, refuse(SampleFile + " is not JSON")
		}
		s.Sample = json.RawMessage(bytes.TrimSpace(b))
	}
	s.Example = c.example()
	s.Digest = Digest(s.Files)
	return s, nil
}

type file struct {
	name string
	ast  *ast.File
}

type checker struct {
	src    *Source
	fset   *token.FileSet
	code   []file // without tests
	test   []file
	consts map[string]string // string constants of the package
	diags  []evolve.Diagnostic
	syntax bool
}

func (c *checker) bad(name string, pos token.Pos, format string, a ...any) {
	d := evolve.Diagnostic{File: name, Message: fmt.Sprintf(format, a...)}
	if pos.IsValid() {
		p := c.fset.Position(pos)
		d.File, d.Line, d.Column = p.Filename, p.Line, p.Column
	}
	c.diags = append(c.diags, d)
}

func (c *checker) parse(name string, b []byte) {
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		c.bad(name, token.NoPos, "not UTF-8 text")
		c.syntax = true
		return
	}
	formatted, err := format.Source(b)
	if err == nil && !bytes.Equal(formatted, b) {
		c.src.Notes = append(c.src.Notes, name+" was formatted with gofmt")
		c.src.lines[name] = pairs(formatted, b)
		c.src.Files[name] = formatted
		b = formatted
	}
	f, err := parser.ParseFile(c.fset, name, b, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.syntax = true
		var list scanner.ErrorList
		if !errors.As(err, &list) {
			c.bad(name, token.NoPos, "%v", err)
			return
		}
		list.RemoveMultiples()
		for i, e := range list {
			if i == 10 {
				break
			}
			c.diags = append(c.diags, evolve.Diagnostic{File: name, Line: e.Pos.Line, Column: e.Pos.Column, Message: e.Msg})
		}
		return
	}
	ctx := build.Default
	ctx.CgoEnabled = false
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	if ok, err := ctx.MatchFile("/tool", name); err == nil && !ok && !importsC(f) {
		c.bad(name, f.Package, "the build leaves this file out (its name or a build constraint says so), so nothing would prove it; remove the constraint")
		return
	}
	if f.Name.Name != "main" {
		c.bad(name, f.Name.Pos(), "package %s: all files of a tool are package main", f.Name.Name)
	}
	for _, g := range f.Comments {
		for _, cm := range g.List {
			c.directive(cm)
		}
	}
	isTest := strings.HasSuffix(name, "_test.go")
	if isTest {
		c.test = append(c.test, file{name, f})
	} else {
		c.code = append(c.code, file{name, f})
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, sp := range g.Specs {
			vs := sp.(*ast.ValueSpec)
			for i, n := range vs.Names {
				if i < len(vs.Values) {
					if s, ok := stringLit(vs.Values[i]); ok {
						c.consts[n.Name] = s
					}
				}
			}
		}
	}
}

func importsC(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"C"` })
}

func (c *checker) directive(cm *ast.Comment) {
	text := cm.Text
	switch {
	case strings.HasPrefix(text, "//go:embed"):
		for _, p := range strings.Fields(strings.TrimPrefix(text, "//go:embed")) {
			p = strings.Trim(strings.TrimPrefix(p, "all:"), "\"`")
			if p != "testdata" && !strings.HasPrefix(p, "testdata/") {
				c.bad("", cm.Pos(), "//go:embed %s: only files below testdata/ can be embedded", p)
			}
		}
	case strings.HasPrefix(text, "//go:generate"):
		c.bad("", cm.Pos(), "//go:generate is not allowed: nothing but the files that are here is built")
	case strings.HasPrefix(text, "//go:linkname"), strings.HasPrefix(text, "//go:cgo_"):
		c.bad("", cm.Pos(), "%s is not allowed in a tool", strings.Fields(text)[0])
	case strings.HasPrefix(text, "//line "), strings.HasPrefix(text, "/*line "):
		c.bad("", cm.Pos(), "line directives are not allowed: places must be true")
	}
}

// refused are packages that no tool may import, and why.
var refused = map[string]string{
	"C":           "cgo is not allowed in a tool; use the standard library",
	"unsafe":      "unsafe is not allowed in a tool",
	"plugin":      "plugin loads code that nothing has proved; not allowed in a tool",
	"runtime/cgo": "cgo is not allowed in a tool; use the standard library",
}

// harmless are the names of packages that mean no access, for those packages where an
// import alone does not tell.
var harmless = map[string][]string{
	"net": {"IP", "IPv4", "IPv6zero", "IPv4zero", "IPv6loopback", "IPv6len", "IPv4len", "IPNet", "IPMask", "IPv4Mask", "CIDRMask", "ParseIP", "ParseCIDR", "ParseMAC",
		"HardwareAddr", "JoinHostPort", "SplitHostPort", "ParseError", "AddrError"},
	"net/http": {"Header", "StatusText", "CanonicalHeaderKey", "DetectContentType", "ParseTime", "TimeFormat", "ParseHTTPVersion", "Cookie", "ParseCookie", "ParseSetCookie",
		"ReadRequest", "ReadResponse", "Request", "Response", "NewRequest", "NewRequestWithContext"},
}

// needs says which permission an import wants.
var needs = map[string]string{
	"net": "net", "net/http": "net", "net/rpc": "net", "net/rpc/jsonrpc": "net", "net/smtp": "net", "crypto/tls": "net", "log/syslog": "net",
	"net/http/httputil": "net", "net/http/cgi": "exec", "os/exec": "exec",
}

func (c *checker) imports() {
	for _, f := range slices.Concat(c.code, c.test) {
		isTest := strings.HasSuffix(f.name, "_test.go")
		for _, im := range f.ast.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				continue
			}
			if why, no := refused[p]; no {
				c.bad("", im.Pos(), "import %q: %s", p, why)
				continue
			}
			first, _, _ := strings.Cut(p, "/")
			if p != SDK && (strings.Contains(first, ".") || first == "internal" || first == "cmd" || strings.HasPrefix(p, "./") || strings.HasPrefix(p, "../")) {
				c.bad("", im.Pos(), "import %q: a tool imports the standard library and %s, nothing else", p, SDK)
				continue
			}
			perm := needs[p]
			if perm == "" || isTest {
				continue
			}
			have := c.src.Want.Net
			example := "net: [example.org:443]"
			if perm == "exec" {
				have, example = c.src.Want.Exec, "exec: [git]"
			}
			if len(have) > 0 {
				continue
			}
			if used := c.uses(f, im, p); len(used) > 0 {
				c.bad("", im.Pos(), "import %q (%s) needs the permission %s; in %s: permissions: {%s}", p, strings.Join(used, ", "), perm, ManifestFile, example)
			}
		}
	}
}

// uses are the names of a package that a file uses and that mean access, at most 3.
func (c *checker) uses(f file, im *ast.ImportSpec, p string) []string {
	local := path.Base(p)
	if im.Name != nil {
		local = im.Name.Name
	}
	if local == "." || local == "_" {
		return []string{"all of it"}
	}
	ok := harmless[p]
	methods := []string{"Method", "Status"}
	var out []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, is := n.(*ast.SelectorExpr)
		if !is {
			return true
		}
		if id, is := sel.X.(*ast.Ident); is && id.Name == local {
			name := sel.Sel.Name
			fine := slices.Contains(ok, name) || p == "net/http" && slices.ContainsFunc(methods, func(m string) bool { return strings.HasPrefix(name, m) })
			if u := local + "." + name; !fine && len(out) < 3 && !slices.Contains(out, u) {
				out = append(out, u)
			}
		}
		return true
	})
	return out
}

func stringLit(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.BinaryExpr:
		a, ok1 := stringLit(e.X)
		b, ok2 := stringLit(e.Y)
		return a + b, e.Op == token.ADD && ok1 && ok2
	case *ast.ParenExpr:
		return stringLit(e.X)
	}
	return "", false
}

func (c *checker) text(e ast.Expr) (string, bool) {
	if id, ok := e.(*ast.Ident); ok {
		s, ok := c.consts[id.Name]
		return s, ok
	}
	return stringLit(e)
}

// sdkCalls visits the calls of functions of the SDK in the code.
func (c *checker) sdkCalls(visit func(fn string, call *ast.CallExpr)) {
	for _, f := range c.code {
		local := ""
		for _, im := range f.ast.Imports {
			if im.Path.Value == strconv.Quote(SDK) {
				local = "sdk"
				if im.Name != nil {
					local = im.Name.Name
				}
			}
		}
		if local == "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun := call.Fun
			if ix, ok := fun.(*ast.IndexListExpr); ok {
				fun = ix.X
			}
			switch fn := fun.(type) {
			case *ast.SelectorExpr:
				if id, ok := fn.X.(*ast.Ident); ok && id.Name == local {
					visit(fn.Sel.Name, call)
				}
			case *ast.Ident:
				if local == "." {
					visit(fn.Name, call)
				}
			}
			return true
		})
	}
}

func (c *checker) serve() {
	found := false
	c.sdkCalls(func(fn string, call *ast.CallExpr) {
		if fn != "Serve" && fn != "New" || len(call.Args) < 3 {
			return
		}
		found = true
		if got, ok := c.text(call.Args[0]); ok && got != c.src.Name {
			c.bad("", call.Args[0].Pos(), "the tool calls itself %q here; its name is %q", got, c.src.Name)
		}
		if got, ok := c.text(call.Args[1]); ok && strings.TrimSpace(got) == "" {
			c.bad("", call.Args[1].Pos(), "the description is empty; say in one sentence what the tool does")
		}
	})
	if !found {
		name := "tool.go"
		if len(c.code) > 0 {
			name = c.code[0].name
		}
		c.bad(name, token.NoPos, "func main() { sdk.Serve(%q, \"what it does\", Run) } is missing; import %q", c.src.Name, SDK)
	}
}

func isTestName(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || !unicode.IsLower(r)
}

func (c *checker) tests() {
	tests := 0
	for _, f := range c.test {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			name := fn.Name.Name
			switch {
			case name == "TestMain":
			case isTestName(name, "Test") && params(fn) == 1:
				tests++
				c.src.Tests = append(c.src.Tests, name)
			case isTestName(name, "Fuzz") && params(fn) == 1:
				c.src.Tests = append(c.src.Tests, name)
			}
		}
	}
	if len(c.test) == 0 {
		c.bad("tool_test.go", token.NoPos, "there is no test; a tool has a file like tool_test.go with at least one func TestRun(t *testing.T)")
		return
	}
	if tests == 0 {
		c.bad(c.test[0].name, token.NoPos, "no test: the test files declare no func TestXxx(t *testing.T)")
		return
	}
	if !c.testsAct() {
		c.bad(c.test[0].name, token.NoPos, "no test: the tests do nothing; one calls Run with Args and fails on a wrong answer")
		return
	}
	c.src.Strength = c.strength()
	if c.src.Strength.Asserts == 0 {
		c.src.Notes = append(c.src.Notes, "the tests can't fail: nothing in them calls t.Error or t.Fatal")
	}
}

// testsAct says whether any function of the test files does anything.
func (c *checker) testsAct() (acts bool) {
	for _, f := range c.test {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr, *ast.IndexExpr, *ast.SendStmt, *ast.IncDecStmt:
					acts = true
				case *ast.AssignStmt:
					for _, l := range n.Lhs {
						id, ok := l.(*ast.Ident)
						acts = acts || !ok || id.Name != "_"
					}
				}
				return !acts
			})
		}
	}
	return acts
}

func params(fn *ast.FuncDecl) int { return fn.Type.Params.NumFields() }

func (c *checker) strength() Strength {
	s := Strength{Tests: slices.Sorted(slices.Values(c.src.Tests))}
	for _, f := range c.test {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				switch n.Sel.Name {
				case "Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow":
					// err.Error() is the name's other use.
					if id, ok := n.X.(*ast.Ident); ok && strings.HasPrefix(id.Name, "err") {
						break
					}
					s.Asserts++
				case "Skip", "Skipf", "SkipNow":
					s.Skips++
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						e = kv.Value
					}
					if _, ok := e.(*ast.CompositeLit); ok {
						s.Cases++
					}
				}
			}
			return true
		})
	}
	return s
}

// Loosened says in which ways s asks less than old, nil when in none.
func (s Strength) Loosened(old Strength) []string {
	var out []string
	for _, t := range old.Tests {
		if !slices.Contains(s.Tests, t) {
			out = append(out, t+" is gone")
		}
	}
	less := func(what string, now, was int) {
		if now < was {
			out = append(out, fmt.Sprintf("%s: %d instead of %d", what, now, was))
		}
	}
	less("assertions", s.Asserts, old.Asserts)
	less("cases", s.Cases, old.Cases)
	if s.Skips > old.Skips {
		out = append(out, fmt.Sprintf("skips: %d instead of %d", s.Skips, old.Skips))
	}
	return out
}

// CodeChanged and TestsChanged say whether two sets of files differ in code (manifest
// included) and in tests (testdata included).
func CodeChanged(a, b map[string][]byte) bool  { return differ(a, b, false) }
func TestsChanged(a, b map[string][]byte) bool { return differ(a, b, true) }

func differ(a, b map[string][]byte, tests bool) bool {
	pick := func(m map[string][]byte) map[string][]byte {
		out := map[string][]byte{}
		for n, v := range m {
			if (strings.HasSuffix(n, "_test.go") || strings.HasPrefix(n, "testdata/")) == tests {
				out[n] = v
			}
		}
		return out
	}
	return Digest(pick(a)) != Digest(pick(b))
}

// pairs maps the tokens of a formatted file to where they were before, nil where that
// can't be told.
func pairs(formatted, was []byte) []placePair {
	a, b := tokens(formatted), tokens(was)
	if len(a) != len(b) {
		return nil
	}
	out := make([]placePair, len(a))
	for i := range a {
		out[i] = placePair{a[i].Line, a[i].Column, b[i].Line, b[i].Column}
	}
	return out
}

func tokens(src []byte) []token.Position {
	fset := token.NewFileSet()
	f := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(f, src, func(token.Position, string) {}, 0)
	var out []token.Position
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return out
		case tok == token.SEMICOLON && lit != ";":
		case tok == token.SEMICOLON || tok == token.COMMA:
			// gofmt takes some away and moves others.
		default:
			out = append(out, f.Position(pos))
		}
	}
}
