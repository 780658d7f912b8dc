package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
)

func TestPreviewDiff(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(t.Context(), Options{Environ: []string{"LJ_HOME=" + t.TempDir()}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Project = dir
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\r\ntwo\r\none\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, args string
		want       []string
		not        string
	}{
		{"write_file", `{"path":"a.txt","content":"one\nTWO\none\n"}`, []string{"-two", "+TWO"}, "-one"},
		{"write_file", `{"path":"new.txt","content":"hello\n"}`, []string{"+hello"}, "-"},
		{"edit_file", `{"path":"a.txt","old":"two","new":"三"}`, []string{"-two", "+三"}, "-one"},
		{"edit_file", `{"path":"a.txt","old":"one","new":"1","occurrence":2}`, []string{" two", "-one", "+1"}, ""},
		{"edit_file", `{"path":"a.txt","old":"one","new":"1"}`, nil, ""},
		{"edit_file", `{"path":"a.txt","old":"absent","new":"1"}`, nil, ""},
		{"bash", `{"command":"ls"}`, nil, ""},
	} {
		got := a.previewDiff(core.ToolCall{Name: c.tool, Arguments: c.args})
		if len(c.want) == 0 && got != "" {
			t.Errorf("%s %s: shows %q", c.tool, c.args, got)
		}
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s %s: %q is not in\n%s", c.tool, c.args, w, got)
			}
		}
		if c.not != "" && strings.Contains(got, c.not) && c.tool != "write_file" {
			t.Errorf("%s %s: %q is in\n%s", c.tool, c.args, c.not, got)
		}
	}
}
