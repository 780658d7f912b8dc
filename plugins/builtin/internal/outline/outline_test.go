package outline_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/outline"
)

var update = flag.Bool("update", false, "write testdata/*.want")

func show(f *outline.File) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s %d lines broken=%v %s\n", f.Lang, f.Lines, f.Broken, f.Package)
	for _, s := range f.Symbols {
		name := s.Name
		if s.Parent != "" {
			name = s.Parent + " / " + name
		}
		fmt.Fprintf(&sb, "%s%d-%d %s | %s | %s\n", strings.Repeat("  ", s.Depth), s.Start, s.End, s.Kind, name, s.Sig)
	}
	return sb.String()
}

// Each language's definitions, compared with files that a person has read.
func TestLanguages(t *testing.T) {
	p := outline.NewParser()
	defer p.Close()
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, ".want") {
			continue
		}
		n++
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lang := outline.Detect(name, src)
		if strings.HasSuffix(name, ".txt") { // not compiled with the tests
			lang = outline.Go
		}
		f, err := p.Parse(lang, src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := show(f)
		if *update {
			if err := os.WriteFile(name+".want", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name + ".want")
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
		// The same with a byte order mark and CR LF.
		crlf := append([]byte("\xef\xbb\xbf"), strings.ReplaceAll(string(src), "\n", "\r\n")...)
		if f, err = p.Parse(lang, crlf); err != nil || show(f) != got {
			t.Errorf("%s with CR LF: %v\n%s", name, err, show(f))
		}
	}
	if n < 10 {
		t.Fatalf("%d files", n)
	}
}

// A syntax error hides what it touches, not the rest.
func TestGoesOnAfterSyntaxErrors(t *testing.T) {
	p := outline.NewParser()
	defer p.Close()
	for lang, src := range map[outline.Language]string{
		outline.Go:         "package a\n\nfunc A() {\n}\n\nfunc B() {\n\tx := f(1,\n}\n\nfunc Z() {}\n",
		outline.Python:     "def A():\n    pass\n\ndef B():\n    x = = 1\n\ndef Z():\n    pass\n",
		outline.JavaScript: "function A() {}\nfunction B() { let = = ; }\nfunction Z() {}\n",
		outline.C:          "int A(void) { return 1; }\nint B( { return }\nint Z(void) { return 1; }\n",
		outline.Rust:       "fn A() {}\nfn B( {\n}\nfn Z() {}\n",
	} {
		f, err := p.Parse(lang, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		got := show(f)
		if !f.Broken || !strings.Contains(got, "| A |") || !strings.Contains(got, "| Z |") {
			t.Errorf("%s", got)
		}
	}
}

func TestRefusesWhatItCannotRead(t *testing.T) {
	p := outline.NewParser()
	defer p.Close()
	if _, err := p.Parse("", nil); !errors.Is(err, outline.ErrLanguage) {
		t.Error(err)
	}
	if _, err := p.Parse(outline.C, make([]byte, outline.MaxFile+1)); !errors.Is(err, outline.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := p.Parse(outline.C, []byte("int x;\x00\x01\x02")); !errors.Is(err, workspace.ErrBinary) {
		t.Error(err)
	}
	gbk, err := simplifiedchinese.GBK.NewEncoder().String("# 统计每一列的数据\ndef 统计(列):\n    pass\n")
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Parse(outline.Python, []byte(gbk))
	if err != nil || len(f.Symbols) != 1 || f.Symbols[0].Name != "统计" {
		t.Errorf("%v %v", f, err)
	}
}

// Text that is made to be slow or deep ends in bounded time, and the parser is usable
// afterwards.
func TestHostileText(t *testing.T) {
	p := outline.NewParser()
	defer p.Close()
	deep := strings.Repeat("namespace a { ", 20000) + strings.Repeat("}", 20000)
	for lang, src := range map[outline.Language]string{
		outline.CPP:        deep,
		outline.JavaScript: strings.Repeat("(", 100000),
		outline.Python:     strings.Repeat("if x:\n  ", 3000),
		outline.Go:         "package a\nvar x = " + strings.Repeat("(", 100000),
		outline.Bash:       strings.Repeat("$(", 20000),
	} {
		_, err := p.Parse(lang, []byte(src))
		if err != nil && !errors.Is(err, outline.ErrTooSlow) {
			t.Errorf("%s: %v", lang, err)
		}
	}
	if f, err := p.Parse(outline.CPP, []byte("int f() { return 1; }\n")); err != nil || len(f.Symbols) != 1 {
		t.Errorf("%v %v", f, err)
	}
	many := strings.Repeat("int f();\n", 6000)
	if f, err := p.Parse(outline.C, []byte(many)); err != nil || !f.Cut || len(f.Symbols) != 5000 {
		t.Errorf("%d %v", len(f.Symbols), err)
	}
}

func TestDetect(t *testing.T) {
	for name, want := range map[string]outline.Language{
		"a.go": outline.Go, "b/c.PY": outline.Python, "x.tsx": outline.TSX, "x.mts": outline.TypeScript, "README.md": "", "Makefile": "",
	} {
		if got := outline.Detect(name, nil); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for head, want := range map[string]outline.Language{
		"#!/bin/sh\n": outline.Bash, "#!/usr/bin/env python3.11\nx": outline.Python, "#!/usr/bin/env node": outline.JavaScript, "text": "", "": "",
	} {
		if got := outline.Detect("bin/run", []byte(head)); got != want {
			t.Errorf("%q: %q", head, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	langs := []outline.Language{outline.Go, outline.Python, outline.JavaScript, outline.TypeScript, outline.TSX, outline.Java, outline.C, outline.CPP, outline.Rust, outline.Bash}
	for i := range langs {
		f.Add(uint8(i), []byte("class A { int f() { return 1; } }\ndef x(): pass\nfn y() {}\nfunc z() {}"))
	}
	p := outline.NewParser()
	f.Cleanup(p.Close)
	f.Fuzz(func(t *testing.T, n uint8, src []byte) {
		file, err := p.Parse(langs[int(n)%len(langs)], src)
		if err != nil {
			return
		}
		for _, s := range file.Symbols {
			if s.Name == "" || s.Start < 1 || s.End < s.Start || s.End > file.Lines+1 || strings.ContainsAny(s.Sig+s.Name, "\n\r") {
				t.Fatalf("%+v of %d lines", s, file.Lines)
			}
		}
	})
}
