package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		ext, text            string
		code, comment, blank int
	}{
		{".go", "package x\n\n// 注释\nvar a = 1 // b\n/* c\n\n d */\nvar s = \"// no\"\n", 3, 3, 2},
		{".go", "/* a */ var b int\n/* a */ /* b */\n", 1, 1, 0},
		{".go", "var r = `\n// text\n`\n", 3, 0, 0},
		{".go", "c := '\"' // x\n// y\n", 1, 1, 0},
		{".py", "# a\nx = '#'\n\n", 1, 1, 1},
		{".html", "<p>\n<!-- a\nb -->\n</p>", 2, 2, 0},
		{".sql", "-- a\nselect 1;", 1, 1, 0},
		{".md", "# title\n", 1, 0, 0},
		{".go", "", 0, 0, 0},
	} {
		code, comment, blank := count(c.text, languages[c.ext])
		if code != c.code || comment != c.comment || blank != c.blank {
			t.Errorf("%q: %d %d %d, want %d %d %d", c.text, code, comment, blank, c.code, c.comment, c.blank)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n", "sub/B.PY": "x=1\n", "node_modules/c.js": "x\n", "gen/d.go": "package d\n", "e.bin": "x", "f.go": "\x00", "Makefile": "# c\nall:\n"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Run(t.Context(), Args{Path: dir, Ignore: []string{"gen"}})
	want := "language       files      code   comment     blank\nGo                 1         1         0         0\nMakefile           1         1         1         0\nPython             1         1         0         0\ntotal              3         3         1         0"
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if got, err := Run(t.Context(), Args{Path: filepath.Join(dir, "e.bin")}); err != nil || !strings.HasPrefix(got, "no file") {
		t.Errorf("%q %v", got, err)
	}
	for _, in := range []Args{{Path: filepath.Join(dir, "none")}, {Path: dir, Ignore: []string{"["}}} {
		if _, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: no error", in)
		}
	}
}
