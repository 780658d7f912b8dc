package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// long runs lj where it may have to compile Go's library first.
func (u *user) long(args ...string) (stdout, stderr string, status int) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 10*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := u.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		u.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// checkDemo holds what the walk-through prints against its heart, in order.
func checkDemo(t *testing.T, out string, want ...string) {
	t.Helper()
	rest := out
	for _, w := range want {
		i := strings.Index(rest, w)
		if i < 0 {
			t.Fatalf("%q is missing in\n%s", w, out)
		}
		rest = rest[i+len(w):]
	}
}

// The walk-through from end to end: a tool made, refused, mended, used, changed, rolled
// back; a memory told and recalled; an undo. It leaves nothing behind but the compiler's
// cache.
func TestDemo(t *testing.T) {
	u := newUser(t, "http://127.0.0.1:1/v1")
	lj := filepath.Join(u.home, ".lj")
	if err := os.MkdirAll(filepath.Join(lj, "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(goCache(), filepath.Join(lj, "cache", "go-build")); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	u.env = append(u.env, "TMPDIR="+tmp)
	out, errs, status := u.long("demo")
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, errs, out)
	}
	checkDemo(t, out, "the model is a script",
		"memory created: prices in our menu",
		"FAIL test", "✗ toolkit_save menu_total", "Refused", "✓ toolkit_save menu_total", "✓ menu_total menu.txt", "the total is 26",
		"✓ toolkit_save menu_total", "the total is 64", "✓ toolkit_rollback menu_total", "The first version is live again: the total is 26",
		"* v1.0.0", "rejected",
		"✓ edit_file menu.txt", "restored", "byte for byte what it was",
		"memory used: prices in our menu", "yuan")
	for _, dir := range []string{u.project, tmp} {
		if left, _ := os.ReadDir(dir); len(left) > 1 || len(left) == 1 && left[0].Name() != ".agent" {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
	if left, _ := os.ReadDir(lj); len(left) != 1 {
		t.Errorf("left in LJ_HOME: %v", left)
	}
}

// Without what needs Go it shows the rest.
func TestDemoWithoutGo(t *testing.T) {
	u := newUser(t, "http://127.0.0.1:1/v1")
	out, errs, status := u.run("demo", "--without-go")
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, errs, out)
	}
	checkDemo(t, out, "1/3", "memory created", "2/3", "restored", "3/3", "memory used")
	if strings.Contains(out, "toolkit_save") {
		t.Error("a tool was made")
	}
}
