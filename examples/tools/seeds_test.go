// Package tools_test checks that the example tools are whole: it builds none of them.
package tools_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const sdkPath = "github.com/lingjiyidong/lj/plugins/sdk"

func TestSeeds(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	valid := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	n := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		n++
		name := e.Name()
		t.Run(name, func(t *testing.T) {
			if !valid.MatchString(name) {
				t.Error("the name is not valid")
			}
			if !strings.Contains(string(readme), "| `"+name+"` |") {
				t.Error("README.md does not list it")
			}
			if got := served(t, filepath.Join(name, "tool.go")); got != name {
				t.Errorf("it serves %q", got)
			}
			if tests(t, filepath.Join(name, "tool_test.go")) == 0 {
				t.Error("it has no test")
			}
		})
	}
	if n < 30 {
		t.Errorf("%d tools, want at least 30", n)
	}
	if listed := strings.Count(string(readme), "\n| `"); listed != n {
		t.Errorf("README.md lists %d tools, there are %d", listed, n)
	}
}

// parse also holds a file to its imports.
func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name.Name != "main" {
		t.Errorf("%s is package %s", file, f.Name.Name)
	}
	for _, im := range f.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(p, "/")
		if p != sdkPath && strings.Contains(first, ".") || p == "unsafe" || p == "os/exec" || p == "net" || p == "net/http" || p == "C" {
			t.Errorf("%s imports %s", file, p)
		}
	}
	return f
}

// served is the name that the file gives to sdk.Serve.
func served(t *testing.T, file string) string {
	t.Helper()
	name := ""
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Serve" {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "sdk" {
			if lit, ok := call.Args[0].(*ast.BasicLit); ok {
				name, _ = strconv.Unquote(lit.Value)
			}
		}
		return true
	})
	return name
}

func tests(t *testing.T, file string) int {
	t.Helper()
	n := 0
	for _, d := range parse(t, file).Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
			n++
		}
	}
	return n
}
