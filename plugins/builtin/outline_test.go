package builtin_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin"
)

func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%.3000s", w, text)
		}
	}
}

func hasNot(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(text, w) {
			t.Errorf("%q is in:\n%.3000s", w, text)
		}
	}
}

const shopGo = "package shop\n\nconst Limit = 10\n\n// Cart holds.\ntype Cart struct {\n\titems []int\n}\n\nfunc (c *Cart) Add(n int) error {\n\treturn nil\n}\n\ntype Store interface {\n\tSave(c *Cart) error\n}\n\nfunc New() *Cart { return nil }\n"

func TestOutlineOfFile(t *testing.T) {
	s := begin(t)
	s.put("shop/shop.go", shopGo)
	got := s.ok("get_outline", "path", "shop/shop.go")
	want := `[shop/shop.go: Go, 18 lines, package shop]
3 const Limit = 10
6-8 type Cart struct
10-12 func (c *Cart) Add(n int) error
14-16 type Store interface
  15 method Save(c *Cart) error
18 func New() *Cart`
	if got != want {
		t.Errorf("%s", got)
	}
	s.put("run", "#!/usr/bin/env bash\ngo() { :; }\n")
	has(t, s.ok("get_outline", "path", "run"), "Bash", "2 func go()")
	s.put("bad.py", "def a():\n    x = = 1\n\ndef b(): pass\n")
	has(t, s.ok("get_outline", "path", "bad.py"), "syntax errors", "def a()", "def b()")
	s.put("empty.js", "")
	has(t, s.ok("get_outline", "path", "empty.js"), "defines nothing")
	s.put("notes.txt", "x")
	s.fails("no outline|read_file", "get_outline", "path", "notes.txt")
	s.put("bin.c", "int x;\x00\x00\x01")
	s.fails("bin.c", "get_outline", "path", "bin.c")
	s.put("big.c", strings.Repeat("int f(void);\n", 200_000))
	s.fails("too large|grep_files", "get_outline", "path", "big.c")
	s.fails("did you mean|shop/shop.go", "get_outline", "path", "shop.go")
	s.fails("outside", "get_outline", "path", "/etc")
}

func TestOutlineIsBounded(t *testing.T) {
	s := begin(t)
	var sb strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&sb, "class Thing%04d { void method%04d(int a, int b) { } }\n", i, i)
	}
	s.put("Things.java", sb.String())
	got := s.ok("get_outline", "path", "Things.java")
	if len(got) > 33<<10 {
		t.Errorf("%d bytes", len(got))
	}
	has(t, got, "class Thing0001", "left out:", "nested definitions", "find_symbol")
	for i := range 400 {
		s.put(fmt.Sprintf("pkg%d/f.go", i%20)+fmt.Sprint(i)+".go", shopGo)
	}
	got = s.ok("get_outline", "path", ".")
	if len(got) > 17<<10 {
		t.Errorf("%d bytes", len(got))
	}
	has(t, got, "401 source files", "\npkg7/\n f.go107.go (18) const Limit", "get_outline of one file")
	for i := range 1000 {
		s.put(fmt.Sprintf("deep/%s/%d/f%d.go", strings.Repeat("x", 20), i%10, i), shopGo)
	}
	got = s.ok("get_outline", "path", ".")
	if len(got) > 18<<10 {
		t.Errorf("%d bytes", len(got))
	}
	has(t, got, "deep/xxxxxxxxxxxxxxxxxxxx/3/ 100 files", "too many files")
}

func TestOutlineOfDirectory(t *testing.T) {
	s := begin(t)
	s.put("b.py", "class A:\n    def f(self): pass\ndef g(): pass\nX = 1\n")
	s.put("a/shop.go", shopGo)
	s.put("README.md", "# x\n")
	want := `[.: 2 source files]
b.py (4) class A; func g; var X
a/
 shop.go (18) const Limit; struct Cart; interface Store; func New`
	if got := s.ok("get_outline", "path", "."); got != want {
		t.Errorf("%s", got)
	}
	has(t, s.ok("get_outline", "path", "a"), "[a: 1 source file]\nshop.go (18)")
}

// Known fault 143: what others made is not indexed, by the one rule of the workspace.
func TestFault143ThirdPartyIsNotIndexed(t *testing.T) {
	s := begin(t)
	s.put("main.go", "package main\nfunc Mine() {}\n")
	s.put("vendor/x/x.go", "package x\nfunc   Mine( ) { }\n")
	s.put("node_modules/y.js", "function Mine(){}\n")
	s.put("build/z.go", "package z\nfunc Mine() {}\n")
	for _, got := range []string{s.ok("get_outline", "path", "."), s.ok("find_symbol", "name", "Mine")} {
		has(t, got, "main.go", "3 in third-party or build directories left out")
		hasNot(t, got, "x.go", "y.js", "z.go")
	}
	// Whoever asks for such a directory by name gets it.
	has(t, s.ok("find_symbol", "name", "Mine", "path", "vendor/x"), "vendor/x/x.go:2")
}

func TestIgnoredAndLinkedFilesAreNotIndexed(t *testing.T) {
	s := begin(t)
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "o.go"), []byte("package o\nfunc Mine() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(out, "o.go"), filepath.Join(s.dir, "link.go")); err != nil {
		t.Fatal(err)
	}
	s.put(".gitignore", "gen/\n")
	s.put("gen/g.go", "package g\nfunc Mine() {}\n")
	s.put("a.go", "package a\nfunc Mine() {}\n")
	got := s.ok("find_symbol", "name", "Mine")
	has(t, got, "a.go:2", "[1 definition")
	hasNot(t, got, "link.go", "gen/")
}

func TestFindSymbol(t *testing.T) {
	s := begin(t)
	s.put("shop/shop.go", shopGo)
	s.put("shop/shop_test.go", "package shop\nfunc TestNew() { New() }\nfunc New() {}\n")
	s.put("web/app.ts", "export class Cart { add(n: number): void {} }\nnew Cart().add(1)\n")
	s.put("src/cart.cpp", "#include <x>\nint Cart::total() const { return 1; }\nnamespace shop { class Cart { int total() const; }; }\n")
	s.put("use.py", "from x import Cart\nCart()\n")

	got := s.ok("find_symbol", "name", "Cart")
	has(t, got, "shop/shop.go:6-8: type Cart struct\n", "web/app.ts:1: export class Cart\n", "src/cart.cpp:3: class Cart  [in shop]", "[3 definitions]")
	hasNot(t, got, "use.py")
	for _, name := range []string{"Cart.Add", "(*Cart).Add", "Cart.Add()", "Cart::Add"} {
		got = s.ok("find_symbol", "name", name)
		has(t, got, "shop/shop.go:10-12: func (c *Cart) Add(n int) error\n", "[1 definition]")
	}
	has(t, s.ok("find_symbol", "name", "shop.New"), "shop/shop.go:18: func New() *Cart\nshop/shop_test.go:3")
	has(t, s.ok("find_symbol", "name", "Cart::total"), "src/cart.cpp:2", "src/cart.cpp:3", "[2 definitions]")
	has(t, s.ok("find_symbol", "name", "Nobody.Add"), "[no Add in Nobody; others of this name:]", "shop.go:10-12")
	has(t, s.ok("find_symbol", "name", "TOTAL"), "with other capitals", "cart.cpp:2")
	has(t, s.ok("find_symbol", "name", "testne"), "names that contain testne", "shop_test.go:2")
	has(t, s.ok("find_symbol", "name", "Cart", "path", "web"), "web/app.ts:1", "[1 definition]")
	has(t, s.ok("find_symbol", "name", "Cart", "path", "shop/shop.go"), "shop/shop.go:6-8", "[1 definition]")
	has(t, s.ok("find_symbol", "name", "Zzz"), "no definition of Zzz", "5 source files", "grep_files")
	s.fails("name is empty", "find_symbol", "name", " ")
	s.fails("did you mean", "find_symbol", "name", "Cart", "path", "shop/shp.go")
}

// A changed file is seen at once, also when size and name stay the same.
func TestOutlineSeesChanges(t *testing.T) {
	s := begin(t)
	old := time.Now().Add(-time.Hour)
	for i, name := range []string{"Aaa", "Bbb", "Ccc", "Ddd"} {
		s.put("a.go", "package a\nfunc "+name+"() {}\n")
		if err := os.Chtimes(filepath.Join(s.dir, "a.go"), old, old); err != nil { // as a restored backup
			t.Fatal(err)
		}
		has(t, s.ok("get_outline", "path", "a.go"), name)
		has(t, s.ok("find_symbol", "name", name), "a.go:2")
		has(t, s.ok("get_outline", "path", "."), name)
		if i > 0 {
			has(t, s.ok("find_symbol", "name", "Aaa"), "no definition")
		}
	}
}

// corpus links up to n source files of the Go toolchain and of the module cache into a
// directory. It skips the benchmark when there are too few.
func corpus(b *testing.B, dir string, n int, exts ...string) {
	have := 0
	mod := os.Getenv("LJ_CORPUS")
	if mod == "" {
		mod = filepath.Join(runtime.GOROOT(), "src")
	}
	per := map[string]int{}
	_ = filepath.WalkDir(mod, func(p string, d fs.DirEntry, err error) error {
		ext := filepath.Ext(p)
		if err != nil || d.IsDir() || have >= n || per[ext] >= (n+len(exts)-1)/len(exts) {
			return nil
		}
		for _, e := range exts {
			if e != ext {
				continue
			}
			src, err := os.ReadFile(p)
			if err != nil || len(src) > 200_000 {
				return nil
			}
			to := filepath.Join(dir, fmt.Sprintf("d%d", have%40), fmt.Sprintf("f%d%s", have, ext))
			if os.MkdirAll(filepath.Dir(to), 0o755) == nil && os.WriteFile(to, src, 0o644) == nil {
				have++
				per[ext]++
			}
		}
		return nil
	})
	if have < n/2 {
		b.Skipf("only %d files", have)
	}
	var size int64
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if fi, e := d.Info(); err == nil && e == nil && !d.IsDir() {
			size += fi.Size()
		}
		return nil
	})
	b.Logf("%d files, %d bytes, %v", have, size, per)
}

func benchOutline(b *testing.B, warm bool, exts ...string) {
	dir := b.TempDir()
	corpus(b, dir, 1000, exts...)
	var tools map[string]builtin.Tool
	fresh := func() {
		tools = map[string]builtin.Tool{}
		for _, x := range builtin.Files() {
			tools[x.Spec.Name] = x
		}
	}
	fresh()
	call := func() {
		r, err := tools["get_outline"].Run(b.Context(), core.ToolRequest{Args: []byte(`{"path":"."}`), Project: dir})
		if err != nil || r.IsError {
			b.Fatal(err, r.Text)
		}
	}
	call()
	for b.Loop() {
		if !warm {
			fresh()
		}
		call()
	}
}

func BenchmarkOutlineGoCold(b *testing.B)    { benchOutline(b, false, ".go") }
func BenchmarkOutlineGoWarm(b *testing.B)    { benchOutline(b, true, ".go") }
func BenchmarkOutlineMixedCold(b *testing.B) { benchOutline(b, false, mixed...) }
func BenchmarkOutlineMixedWarm(b *testing.B) { benchOutline(b, true, mixed...) }

var mixed = []string{".py", ".js", ".ts", ".java", ".c", ".h", ".cpp", ".rs", ".sh", ".go"}
