package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// fence finds the blocks of a page: their kind and their text.
var fence = regexp.MustCompile("(?ms)^```([a-z ]+)\n(.*?)^```$")

// The commands of docs/first-hour.md, run as they stand in one shell; each line of a text
// block is in the output of the commands above it, in that order. The clone is of this
// repository; with LJ_TEST_CLONE it is really made and built, else the program under test
// stands in for it. The model is a script.
func TestFirstHour(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "first-hour.md"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := llmtest.FromFile("testdata/firsthour.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	cache := filepath.Join(u.home, ".lj", "cache")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(goCache(), filepath.Join(cache, "go-build")); err != nil {
		t.Fatal(err)
	}
	clone := os.Getenv("LJ_TEST_CLONE") != ""
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		clone = false // an unpacked archive
	}

	type expected struct{ from, to, lines string }
	var want []expected
	var script strings.Builder
	script.WriteString("set -e\n")
	mark := func(n int) string { return fmt.Sprintf("== block %d ==", n) }
	n := 0
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		kind, text := strings.TrimSpace(m[1]), m[2]
		switch kind {
		case "sh build":
			if !clone {
				text = fmt.Sprintf("export PATH=%q:\"$PATH\"\n", filepath.Dir(u.bin))
			}
		case "sh server":
			text = "" // the script's, from the environment
		case "sh":
		case "text":
			want = append(want, expected{mark(n), mark(n + 1), text})
			continue
		default:
			t.Fatalf("a block of kind %q", kind)
		}
		n++
		fmt.Fprintf(&script, "echo '%s'\n%s", mark(n), text)
	}
	fmt.Fprintf(&script, "echo '%s'\n", mark(n+1))
	if n < 15 || len(want) < 10 {
		t.Fatalf("%d blocks, %d with an output", n, len(want))
	}

	// The address of the project leads to this checkout.
	git := filepath.Join(u.home, ".gitconfig")
	if err := os.WriteFile(git, fmt.Appendf(nil, "[url %q]\n\tinsteadOf = https://github.com/lingjiyidong/lj\n[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n", root), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = u.env
	for _, kv := range u.env {
		if strings.HasPrefix(kv, "LJ_MODEL=") {
			cmd.Env = append(cmd.Env, "LJ_MODEL=test-model")
		}
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS"} {
		if v := goVar(t, name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	raw, err := cmd.CombinedOutput()
	out := string(raw)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, w := range want {
		from := strings.Index(out, w.from)
		to := strings.Index(out, w.to)
		if from < 0 || to < from {
			t.Fatalf("%s is missing in\n%s", w.from, out)
		}
		got := out[from:to]
		rest := got
		for _, line := range strings.Split(strings.TrimSpace(w.lines), "\n") {
			i := strings.Index(rest, line)
			if i < 0 {
				t.Errorf("the page says %q, in this order, where this comes:\n%s", line, got)
				break
			}
			rest = rest[i+len(line):]
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// goVar is a setting of the go command of this test.
func goVar(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
