package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := put("a", "# c\nexport A=1\nB=\"x # y\"\nGONE=秘密\nE=full\n")
	b := put("b", "A='1' \nB=x # c\nNEW=2\nE=\n")
	got, err := Run(t.Context(), Args{Old: a, New: b})
	if err != nil || got != "~ B\n~ E (now empty)\n- GONE\n+ NEW\n1 the same" {
		t.Errorf("%q %v", got, err)
	}
	got, err = Run(t.Context(), Args{Old: a, New: b, Values: true})
	if err != nil || !strings.Contains(got, `~ B="x # y" → "x"`) || !strings.Contains(got, `- GONE="秘密"`) {
		t.Errorf("%q %v", got, err)
	}
	got, err = Run(t.Context(), Args{Old: put("e", ""), New: put("f", "\n#x\n")})
	if err != nil || got != "0 the same" {
		t.Errorf("%q %v", got, err)
	}
	for text, want := range map[string]string{"A\n": "line 1", "A=1\nB=\"x\n": "line 2", "A B=1": "line 1", "=1": "line 1"} {
		_, err := Run(t.Context(), Args{Old: a, New: put("bad", text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "秘密") {
			t.Error("an error shows a value")
		}
	}
	if _, err := Run(t.Context(), Args{Old: filepath.Join(dir, "none"), New: a}); err == nil {
		t.Error("no error for a missing file")
	}
}
