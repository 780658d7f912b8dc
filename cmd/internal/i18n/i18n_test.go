package i18n

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every text that the command line prints has a Chinese form with the same verbs.
func TestEveryTextIsTranslated(t *testing.T) {
	files, err := filepath.Glob("../cli/*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(x ast.Node) bool {
			call, ok := x.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "T" {
				return true
			}
			text, ok := literal(call.Args[0])
			if !ok {
				return true
			}
			n++
			if _, ok := chinese[text]; !ok {
				t.Errorf("%s: no Chinese form of %q", filepath.Base(name), text)
			}
			return true
		})
	}
	if n < 50 {
		t.Errorf("only %d texts found", n)
	}
	verbs := regexp.MustCompile(`%[a-z]`)
	for en, zh := range chinese {
		if a, b := verbs.FindAllString(en, -1), verbs.FindAllString(zh, -1); strings.Join(a, "") != strings.Join(b, "") {
			t.Errorf("%q has the verbs %v, its Chinese form %v", en, a, b)
		}
	}
}

// literal is the text of a string literal or a sum of them.
func literal(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(x.X)
		b, ok2 := literal(x.Y)
		return a + b, ok && ok2
	}
	return "", false
}

func TestTell(t *testing.T) {
	p := For("zh_CN.UTF-8")
	for in, want := range map[string]string{
		"session 0193: not found":                     "没有会话 0193",
		"unknown command \"x\"":                       `未知命令 "x"`,
		"the step limit of 5 requests is reached":     "到达了 5 个请求的步数上限",
		"something that nobody translated: file a.go": "something that nobody translated: file a.go",
	} {
		if got := p.Tell(in); got != want {
			t.Errorf("%q -> %q, want %q", in, got, want)
		}
	}
	if got := For("en_US").Tell("session 1: not found"); got != "session 1: not found" {
		t.Errorf("got %q", got)
	}
}
