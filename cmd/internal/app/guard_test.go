package app

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
)

func openApp(t *testing.T, home, dir string) *App {
	t.Helper()
	a, err := Open(t.Context(), Options{Environ: []string{"LJ_HOME=" + home}, Dir: dir, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestTwoProcessesCannotShareASession(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	one, two := openApp(t, home, dir), openApp(t, home, dir)
	if err := one.holdSession("s1"); err != nil {
		t.Fatal(err)
	}
	if err := one.holdSession("s1"); err != nil {
		t.Errorf("its holder can't go on: %v", err)
	}
	err := two.holdSession("s1")
	if err == nil || !strings.Contains(err.Error(), "s1") || core.NextOf(err) == "" {
		t.Fatalf("a second process got the session: %v", err)
	}
	if err := two.holdSession("s2"); err != nil {
		t.Errorf("another session: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := two.holdSession("s1"); err != nil {
		t.Errorf("after its holder has ended: %v", err)
	}
}

func TestGuardFilesThatAppearAreTakenAway(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := openApp(t, home, dir)
	a.watchGuards()
	for _, f := range []string{".git/hooks/pre-commit", ".git/commondir", ".agent/config.yaml", "kept.txt"} {
		p := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said := a.takeGuards()
	for _, f := range []string{".git/hooks", ".git/commondir", ".agent/config.yaml"} {
		if _, err := os.Lstat(filepath.Join(dir, f)); err == nil {
			t.Errorf("%s is still there", f)
		}
		if !strings.Contains(said, f) {
			t.Errorf("%s is not named in %q", f, said)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "kept.txt")); err != nil {
		t.Error(err)
	}
	kept, err := filepath.Glob(filepath.Join(home, "quarantine", "*", "*"))
	if err != nil || len(kept) != 3 {
		t.Errorf("in quarantine: %q, %v", kept, err)
	}
	// A person's own change between two calls is his.
	if err := os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.watchGuards()
	if said := a.takeGuards(); said != "" {
		t.Errorf("took what a person made: %s", said)
	}
}

func TestGuardFilesOfNestedRepositories(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{".git/modules/sm/config", ".git/modules/sm/objects/config", "sub/.git/config", ".git/worktrees/w/commondir"} {
		p := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	protect, _ := guardFiles(dir)
	for _, f := range []string{".git/modules/sm/config", "sub/.git/config", "sub/.git/hooks", ".git/worktrees/w/commondir", ".git/commondir"} {
		if !slices.Contains(protect, filepath.Join(dir, f)) {
			t.Errorf("%s is not protected", f)
		}
	}
	if slices.Contains(protect, filepath.Join(dir, ".git/modules/sm/objects/config")) {
		t.Error("objects are walked")
	}
}

func TestOpenSocketsAreFound(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !slices.Contains(openSockets(nil), path) {
		t.Errorf("%s is not found", path)
	}
	if slices.Contains(openSockets([]string{dir}), path) {
		t.Errorf("%s is not left out", path)
	}
	env := func(k string) string { return map[string]string{"SSH_AUTH_SOCK": path}[k] }
	if !slices.Contains(hiddenSockets(env, nil, nil), path) {
		t.Errorf("%s can be reached", path)
	}
	if slices.Contains(hiddenSockets(env, nil, []string{"$SSH_AUTH_SOCK"}), path) {
		t.Errorf("%s is hidden though the settings name it", path)
	}
}
