package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		old, new string
		around   int
		want     string
	}{
		{"a\nb\nc\n", "a\nB\nc\n", 3, "--- old\n+++ new\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"一\n二\n", "一\n", 1, "--- old\n+++ new\n@@ -1,2 +1 @@\n 一\n-二\n"},
		{"", "x\n", 3, "--- old\n+++ new\n@@ -0,0 +1 @@\n+x\n"},
		{"x\n", "", 3, "--- old\n+++ new\n@@ -1 +0,0 @@\n-x\n"},
		{"x\n", "x", 0, "--- old\n+++ new\n@@ -1 +1 @@\n-x\n+x\n\\ No newline at end of file\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n", "0\n2\n3\n4\n5\n6\n7\n9\n", 1, "--- old\n+++ new\n@@ -1,2 +1,2 @@\n-1\n+0\n 2\n@@ -7,2 +7,2 @@\n 7\n-8\n+9\n"},
		{"a\nb\nc\n", "a\nc\n", 0, "--- old\n+++ new\n@@ -2 +1,0 @@\n-b\n"},
		{"a\n", "a\n", 3, "no difference"},
		{"", "", 3, "no difference"},
	} {
		got, err := Run(t.Context(), Args{Old: c.old, New: c.new, Context: c.around})
		if err != nil || got != c.want {
			t.Errorf("%q %q: got %v\n%s\nwant\n%s", c.old, c.new, err, got, c.want)
		}
	}
	got, err := Run(t.Context(), Args{Old: "a b\n", New: " a  b\n", IgnoreSpace: true})
	if err != nil || got != "no difference" {
		t.Errorf("%q %v", got, err)
	}
}

// A diff is right when its two sides give the two texts.
func TestSidesOfRandomTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() []string {
		var l []string
		for range r.IntN(12) {
			l = append(l, fmt.Sprint(r.IntN(4), "\n"))
		}
		return l
	}
	for range 2000 {
		a, b := text(), text()
		es, err := edits(t.Context(), a, b, func(x, y string) bool { return x == y })
		if err != nil {
			t.Fatal(err)
		}
		var x, y strings.Builder
		for _, e := range es {
			if e.op != '+' {
				x.WriteString(e.text)
			}
			if e.op != '-' {
				y.WriteString(e.text)
			}
		}
		if x.String() != strings.Join(a, "") || y.String() != strings.Join(b, "") {
			t.Fatalf("%q %q: %v", a, b, es)
		}
	}
}

func TestFilesAndErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "b.bin")
	if err := os.WriteFile(bin, []byte("x\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Run(t.Context(), Args{OldPath: file, New: "y\n"})
	if err != nil || !strings.HasPrefix(got, "--- "+file) {
		t.Errorf("%q %v", got, err)
	}
	for _, in := range []Args{{OldPath: file, Old: "x"}, {NewPath: bin}, {OldPath: filepath.Join(dir, "none")}, {Old: "a", Context: -1}} {
		if _, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: no error", in)
		}
	}
	if _, err := Run(t.Context(), Args{Old: strings.Repeat("a\n", 6000), New: strings.Repeat("b\n", 6000)}); err == nil {
		t.Error("no error for texts with too many changes")
	}
}
