//go:build failpoints

package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lingjiyidong/lj/core/workspace"
)

// A process that is killed before the rename leaves the old content and no other file.
func TestKilledBeforeRename(t *testing.T) {
	if dir := os.Getenv("LJ_TEST_DIR"); dir != "" {
		w, err := workspace.Open(dir, workspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := w.Resolve("a", workspace.Write)
		f, err := w.Read(p, 100)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Replace(f, []byte("new"))
		return
	}
	dir := t.TempDir()
	put(t, dir, "a", "old")
	cmd := exec.Command(os.Args[0], "-test.run=TestKilledBeforeRename")
	cmd.Env = append(os.Environ(), "LJ_TEST_DIR="+dir, "LJ_FAILPOINT=workspace.rename=kill")
	if err := cmd.Run(); err == nil {
		t.Fatal("was not killed")
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "a")); string(b) != "old" {
		t.Fatalf("%q", b)
	}
	if es, _ := os.ReadDir(dir); len(es) != 1 {
		t.Fatal("left behind", es)
	}
}
