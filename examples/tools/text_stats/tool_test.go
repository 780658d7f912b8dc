package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for text, want := range map[string]Stats{
		"":                                      {},
		"你好，世界！Hello world.":                    {Bytes: 30, Characters: 18, NoSpace: 17, CJK: 4, Words: 2, Sentences: 2, Lines: 1, Paragraphs: 1},
		"I don't.\n\nA well-known one\nThree\n": {Bytes: 33, Characters: 33, NoSpace: 26, Words: 6, Sentences: 3, Lines: 4, Paragraphs: 2},
		"...":                                   {Bytes: 3, Characters: 3, NoSpace: 3, Lines: 1, Paragraphs: 1},
		strings.Repeat("字", 600):                {Bytes: 1800, Characters: 600, NoSpace: 600, CJK: 600, Sentences: 1, Lines: 1, Paragraphs: 1, ReadMinutes: 2},
	} {
		if got, err := Run(t.Context(), Args{Text: text}); err != nil || got != want {
			t.Errorf("%q: %+v %v, want %+v", text, got, err, want)
		}
	}
}

func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("\xff\xfe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []Args{{Path: file}, {Path: file + "x"}, {Path: file, Text: "x"}} {
		if _, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: no error", in)
		}
	}
	if err := os.WriteFile(file, []byte("中"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(t.Context(), Args{Path: file}); err != nil || got.CJK != 1 {
		t.Errorf("%+v %v", got, err)
	}
}
