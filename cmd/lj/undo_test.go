package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// files is the content, mode and target of everything in a project but git's own folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if rel == ".git" {
			return filepath.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case fi.IsDir():
			out[rel] = "dir"
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			out[rel] = "link " + to
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[rel] = fmt.Sprintf("%o %s", fi.Mode().Perm(), b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func changed(before, after map[string]string) []string {
	var out []string
	for p, v := range before {
		if after[p] != v {
			out = append(out, p)
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			out = append(out, p)
		}
	}
	sort.Strings(out)
	return out
}

// withRepo gives the user a repository with work of all kinds in it.
func withRepo(t *testing.T, u *user) func(args ...string) string {
	t.Helper()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = u.project
		cmd.Env = append(append([]string(nil), u.env...), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(u.project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	put(".gitignore", "ignored/\n")
	for i := range 20 {
		put(fmt.Sprintf("src/d%d/f%d.txt", i%4, i), fmt.Sprintf("file %d\n", i))
	}
	git("add", "-A")
	git("commit", "-qm", "one")
	put("stashed.txt", "x\n")
	git("add", "stashed.txt")
	git("stash", "-q")
	put("staged.txt", "staged\n")
	git("add", "staged.txt")
	put("src/d0/f0.txt", "unstaged\n")
	put("untracked/茶 馆.txt", "mine\n")
	put("ignored/data.bin", strings.Repeat("x", 10000))
	return git
}

// writer is a model whose turns change files by tools and by the shell.
func fileWriter(r llmtest.Request) llmtest.Turn {
	n := 0
	for i := len(r.Message) - 1; i >= 0 && r.Message[i].Role != "user"; i-- {
		if r.Message[i].Role == "assistant" {
			n++
		}
	}
	switch n {
	case 0:
		return llmtest.Turn{Calls: []llmtest.Call{
			{Name: "write_file", Args: map[string]any{"path": fmt.Sprintf("new/n%d.txt", r.Seq), "content": "new\n"}},
			{Name: "edit_file", Args: map[string]any{"path": "src/d1/f1.txt", "old": "file 1", "new": fmt.Sprintf("changed %d", r.Seq)}},
		}}
	case 1:
		return llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{
			"command": "rm -rf src/d2; echo x >> staged.txt; mkdir -p a/b/c; echo y > a/b/c/d; mv src/d3 moved; ln -s nowhere link; chmod 755 src/d0/f0.txt; sleep 0.05; echo z > late.txt"}}}}
	case 2:
		return llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": "echo more > more.txt; sleep 0.05; rm -f untracked/*"}}}}
	}
	return llmtest.Turn{Text: "done"}
}

// Whatever moment a turn is killed, interrupted or done at, undo brings everything back
// and git sees nothing.
func TestUndoAfterKill(t *testing.T) {
	t.Parallel()
	rounds := 9
	if os.Getenv("LJ_TEST_PROVE") != "" {
		rounds = 500
	}
	s, err := llmtest.Start(llmtest.Script{Turns: []llmtest.Turn{{Times: -1, Func: fileWriter}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	git := withRepo(t, u)
	want := files(t, u.project)
	status, stash := git("status", "--porcelain", "-z"), git("stash", "list")
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range rounds {
		cmd := u.command(t.Context(), "run", "--yolo", "change things")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
			_ = cmd.Process.Kill() // it may be done
		case 1:
			time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
			_ = cmd.Process.Signal(os.Interrupt) // it may be done
		}
		_ = cmd.Wait() // however it ended
		out, errs, st := u.run("undo", "--json")
		if st != 0 {
			t.Fatalf("round %d: undo: status %d: %s%s", i, st, out, errs)
		}
		if d := changed(want, files(t, u.project)); d != nil {
			t.Fatalf("round %d (%d): differs after undo: %q\n%s", i, i%3, d, out)
		}
	}
	if got := git("status", "--porcelain", "-z"); got != status {
		t.Errorf("git status differs: %q, was %q", got, status)
	}
	if got := git("stash", "list"); got != stash {
		t.Error("git stash list differs")
	}
	git("fsck", "--no-dangling")
}

// Two lj in one project at once, both changing files, both undone.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	turn := func(file string) llmtest.Turn {
		return llmtest.Turn{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
			if r.Message[len(r.Message)-1].Role == "user" {
				return llmtest.Turn{Calls: []llmtest.Call{
					{Name: "edit_file", Args: map[string]any{"path": "src/d1/" + file, "old": "file", "new": "changed"}},
					{Name: "bash", Args: map[string]any{"command": "sleep 0.2"}},
					{Name: "write_file", Args: map[string]any{"path": "made-" + file, "content": "x\n"}},
				}}
			}
			return llmtest.Turn{Text: "done"}
		}}
	}
	u := (*user)(nil)
	var servers []*llmtest.Server
	for _, f := range []string{"f1.txt", "f5.txt"} {
		s, err := llmtest.Start(llmtest.Script{Turns: []llmtest.Turn{turn(f)}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		servers = append(servers, s)
	}
	u = newUser(t, servers[0].URL())
	withRepo(t, u)
	want := files(t, u.project)
	var wg sync.WaitGroup
	for _, s := range servers {
		cmd := u.command(t.Context(), "run", "--yolo", "go")
		cmd.Env = append(append([]string(nil), u.env...), "OPENAI_BASE_URL="+s.URL())
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if d := changed(want, files(t, u.project)); len(d) != 4 {
		t.Fatalf("changed: %q", d)
	}
	var first struct{ Restored, Removed []string }
	out, errs, st := u.run("undo", "--json")
	if err := json.Unmarshal([]byte(out), &first); st != 0 || err != nil {
		t.Fatalf("undo: %d %s%s", st, out, errs)
	}
	if len(first.Restored) != 1 || len(first.Removed) != 1 {
		t.Errorf("one undo touched more than its own turn: %+v", first)
	}
	if out, errs, st := u.run("undo", "--json"); st != 0 {
		t.Fatalf("second undo: %d %s%s", st, out, errs)
	}
	if d := changed(want, files(t, u.project)); d != nil {
		t.Errorf("differs after both undos: %q", d)
	}
}
