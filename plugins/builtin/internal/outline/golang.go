package outline

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
)

// parseGo reads a Go file. go/parser bounds the depth of nesting by itself and needs less
// than 0.1 s for the largest file that is taken.
//
// After a syntax error go/parser often takes the rest of the file for a part of the
// broken function. Then each piece that begins with func, type, var or const at the
// beginning of a line is read by itself.
func parseGo(src []byte) *File {
	out := &File{Lang: Go, Lines: lines(src)}
	if out.goDecls(src, 0) {
		return out
	}
	out.Broken, out.Cut, out.Symbols = true, false, nil
	begin, line := 0, 0
	for pos, n := 0, 0; pos < len(src); n++ {
		next := len(src)
		if i := bytes.IndexByte(src[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		for _, w := range []string{"func ", "type ", "type(", "var ", "const "} {
			if pos > begin && bytes.HasPrefix(src[pos:], []byte(w)) {
				out.goPiece(src[begin:pos], line)
				begin, line = pos, n
				break
			}
		}
		pos = next
	}
	out.goPiece(src[begin:], line)
	return out
}

// goPiece reads a part of a file that begins after line lines.
func (out *File) goPiece(src []byte, line int) {
	if line == 0 && bytes.Contains(src, []byte("package ")) {
		out.goDecls(src, 0)
		return
	}
	out.goDecls(append([]byte("package p;"), src...), line)
}

// goDecls adds the declarations of a text and says whether it has no syntax errors.
func (out *File) goDecls(src []byte, line int) bool {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if f == nil {
		return false
	}
	g := &goFile{builder: builder{src: src, file: out}, at: fset.File(f.FileStart), base: line}
	if g.at == nil {
		return false
	}
	if f.Name != nil && line == 0 {
		out.Package = f.Name.Name
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			g.function(d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				g.spec(d, s)
			}
		}
	}
	return err == nil
}

type goFile struct {
	builder
	at   *token.File
	base int // lines before the text
}

func (g *goFile) off(p token.Pos) int {
	if !p.IsValid() || int(p) < g.at.Base() || int(p) > g.at.Base()+g.at.Size() {
		return g.at.Size()
	}
	return g.at.Offset(p)
}

func (g *goFile) line(p token.Pos) int {
	return g.base + g.at.Line(g.at.Pos(g.off(p)))
}

func (g *goFile) function(d *ast.FuncDecl) {
	s := Symbol{Name: d.Name.Name, Kind: "func", Start: g.line(d.Pos()), End: g.line(d.End())}
	end := d.End()
	if d.Body != nil {
		end = d.Body.Lbrace
	}
	s.Sig = g.sig(g.off(d.Pos()), g.off(end))
	if d.Recv != nil {
		s.Kind = "method"
		if len(d.Recv.List) > 0 {
			s.Parent = receiver(d.Recv.List[0].Type)
		}
	}
	g.add(s)
}

func receiver(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.ParenExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func (g *goFile) spec(d *ast.GenDecl, s ast.Spec) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		from, start := s.Pos(), s.Pos()
		if !d.Lparen.IsValid() {
			start = d.Pos()
		}
		sym := Symbol{Name: s.Name.Name, Kind: "type", Start: g.line(start), End: g.line(s.End())}
		head, end := "type ", s.End()
		var methods *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			sym.Kind = "struct"
			if t.Fields != nil {
				end = t.Fields.Opening
			}
		case *ast.InterfaceType:
			sym.Kind = "interface"
			if t.Methods != nil {
				end, methods = t.Methods.Opening, t.Methods
			}
		}
		sym.Sig = head + g.sig(g.off(from), g.off(end))
		if !g.add(sym) || methods == nil {
			return
		}
		for _, m := range methods.List {
			if _, ok := m.Type.(*ast.FuncType); !ok || len(m.Names) == 0 {
				continue
			}
			g.add(Symbol{Name: m.Names[0].Name, Parent: sym.Name, Kind: "method", Sig: g.sig(g.off(m.Pos()), g.off(m.Type.End())),
				Start: g.line(m.Pos()), End: g.line(m.End()), Depth: 1})
		}
	case *ast.ValueSpec:
		kind := "var"
		if d.Tok == token.CONST {
			kind = "const"
		}
		from := g.off(s.Pos())
		sig := kind + " " + g.sig(from, g.firstLine(from, g.off(s.End())))
		for i, n := range s.Names {
			if n.Name == "_" {
				continue
			}
			sym := Symbol{Name: n.Name, Kind: kind, Sig: sig, Start: g.line(s.Pos()), End: g.line(s.End())}
			if i > 0 {
				sym.Sig = kind + " " + n.Name
			}
			g.add(sym)
		}
	}
}
