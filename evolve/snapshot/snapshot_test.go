package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve/snapshot"
)

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil && args[0] != "merge" {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// busyRepo is a repository with everything a user may have in one: staged, unstaged,
// untracked, ignored and conflicted work, a stash, hooks, links, odd names.
func busyRepo(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "repo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	for i := range 30 {
		put(t, dir, fmt.Sprintf("src/p%d/f%d.go", i%5, i), fmt.Sprintf("package p\n// %d\n", i))
	}
	put(t, dir, ".gitignore", "*.log\nnode_modules/\n/data/\n")
	put(t, dir, "crlf.txt", "a\r\nb\r\n")
	put(t, dir, "茶馆/菜单 表.txt", "绿茶\n")
	put(t, dir, "with\nnewline", "x\n")
	put(t, dir, "not-utf8-\xff\xfe", "x\n")
	put(t, dir, "Case.txt", "upper\n")
	put(t, dir, "case.txt", "lower\n")
	put(t, dir, "kept.log", "tracked though ignored\n")
	put(t, dir, "conflict.txt", "base\n")
	for name, to := range map[string]string{"nowhere": "does/not/exist", "todir": "src", "out": "/etc"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "add", "-A")
	git(t, dir, "add", "-f", "kept.log")
	git(t, dir, "commit", "-qm", "one")
	put(t, dir, "stashed.txt", "in the stash\n")
	git(t, dir, "add", "stashed.txt")
	git(t, dir, "stash", "-q")
	git(t, dir, "checkout", "-qb", "other")
	put(t, dir, "conflict.txt", "other\n")
	git(t, dir, "commit", "-qam", "other")
	git(t, dir, "checkout", "-q", "main")
	put(t, dir, "conflict.txt", "main\n")
	git(t, dir, "commit", "-qam", "main")
	git(t, dir, "merge", "-q", "other")
	put(t, dir, "staged.txt", "staged\n")
	git(t, dir, "add", "staged.txt")
	put(t, dir, "src/p0/f0.go", "package p // unstaged\n")
	put(t, dir, "untracked/deep/u.txt", "mine\n")
	put(t, dir, "debug.log", "ignored\n")
	put(t, dir, "node_modules/x/index.js", "ignored\n")
	put(t, dir, "data/out.jsonl", strings.Repeat("mine\n", 1000))
	put(t, dir, ".env", "KEY=1\n")
	if err := os.Chmod(filepath.Join(dir, ".env"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "empty/inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir, ".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
	return dir
}

// picture is every byte, mode and link of a directory, its .git included.
func picture(t testing.TB, dir string) map[string]string {
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

func differ(t testing.TB, before, after map[string]string) []string {
	t.Helper()
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

func engine(t testing.TB, project string) *snapshot.Engine {
	t.Helper()
	e, err := snapshot.Open(snapshot.Options{Dir: filepath.Join(t.TempDir(), "shadow"), Project: project})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func take(t testing.TB, e *snapshot.Engine) *snapshot.Record {
	t.Helper()
	r, err := e.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func undo(t testing.TB, e *snapshot.Engine, before, after *snapshot.Record, force bool) snapshot.Outcome {
	t.Helper()
	changes, err := e.Diff(before.Tree, after.Tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Settle(changes); err != nil {
		t.Fatal(err)
	}
	out, err := e.Restore(t.Context(), changes, force)
	if err != nil {
		t.Fatal(err)
	}
	e.Tidy(e.Removable(out.Removed, before.Tree))
	return out
}

// mess changes the tree as an agent might, but nothing that git ignores and no .git.
func mess(t testing.TB, r *rand.Rand, dir string) {
	t.Helper()
	var files []string
	for p := range picture(t, dir) {
		if p == "." || strings.HasPrefix(p, ".git/") || p == ".git" || strings.Contains(p, ".log") || strings.HasPrefix(p, "node_modules") || strings.HasPrefix(p, "data") || strings.HasPrefix(p, "nested") {
			continue
		}
		files = append(files, p)
	}
	sort.Strings(files)
	for range 1 + r.IntN(6) {
		p := filepath.Join(dir, files[r.IntN(len(files))])
		fi, err := os.Lstat(p)
		if err != nil {
			continue
		}
		switch r.IntN(8) {
		case 0, 1:
			if fi.Mode().IsRegular() {
				put(t, filepath.Dir(p), filepath.Base(p), fmt.Sprintf("changed %d\n", r.Int()))
			}
		case 2:
			_ = os.RemoveAll(p) // whatever it is
		case 3:
			put(t, dir, fmt.Sprintf("new%d/d/e%d.txt", r.IntN(5), r.IntN(5)), fmt.Sprint(r.Int()))
		case 4:
			if fi.Mode().IsRegular() {
				_ = os.Chmod(p, []fs.FileMode{0o600, 0o755, 0o644, 0o640}[r.IntN(4)]) // it is there
			}
		case 5:
			_ = os.Rename(p, filepath.Join(dir, fmt.Sprintf("moved%d", r.IntN(100)))) // or not
		case 6:
			if fi.Mode().IsRegular() {
				_ = os.Remove(p)
				_ = os.Symlink("nowhere/at/all", p)
			}
		case 7:
			if fi.Mode().IsRegular() {
				_ = os.Remove(p)
				_ = os.MkdirAll(filepath.Join(p, "now/a/dir"), 0o755)
				put(t, p, "x", "file became directory")
			}
		}
	}
}

// Whatever a turn does, undo brings everything back byte for byte, and git sees no
// difference.
func TestRandomTurnsAreUndone(t *testing.T) {
	turns := 20
	if os.Getenv("LJ_TEST_PROVE") != "" {
		turns = 500
	}
	dir := busyRepo(t)
	e := engine(t, dir)
	status, stash := git(t, dir, "status", "--porcelain", "-z"), git(t, dir, "stash", "list")
	index, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	want := picture(t, dir)
	for i := range turns {
		before := take(t, e)
		mess(t, r, dir)
		after := take(t, e)
		out := undo(t, e, before, after, false)
		if len(out.Kept) > 0 {
			t.Fatalf("turn %d: kept %v", i, out.Kept)
		}
		if d := differ(t, want, picture(t, dir)); d != nil {
			t.Fatalf("turn %d: differs after undo: %q", i, d)
		}
		// Another process, with an empty cache, sees the same.
		if i%10 == 0 {
			if other := take(t, engine(t, dir)); other.Tree != before.Tree {
				t.Fatalf("turn %d: a fresh engine records another tree", i)
			}
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, ".git/index")); err != nil || !bytes.Equal(now, index) {
		t.Error("the index was touched")
	}
	if s := git(t, dir, "status", "--porcelain", "-z"); s != status {
		t.Errorf("git status differs:\n%q\n%q", status, s)
	}
	if s := git(t, dir, "stash", "list"); s != stash {
		t.Error("git stash list differs")
	}
	if out := git(t, dir, "fsck", "--no-dangling"); strings.Contains(out, "error") {
		t.Error(out)
	}
}

// What the user changed after the turn stays, and is listed; the rest is undone.
func TestUndoKeepsTheUsersWork(t *testing.T) {
	dir := busyRepo(t)
	e := engine(t, dir)
	before := take(t, e)
	put(t, dir, "a.txt", "agent\n")
	put(t, dir, "staged.txt", "agent\n")
	put(t, dir, "crlf.txt", "agent\n")
	after := take(t, e)
	put(t, dir, "crlf.txt", "user\n")
	put(t, dir, "untracked/deep/u.txt", "user\n")
	out := undo(t, e, before, after, false)
	if fmt.Sprint(out.Removed) != "[a.txt]" || fmt.Sprint(out.Restored) != "[staged.txt]" || len(out.Kept) != 1 || out.Kept[0].Path != "crlf.txt" {
		t.Errorf("%+v", out)
	}
	for name, want := range map[string]string{"crlf.txt": "user\n", "untracked/deep/u.txt": "user\n", "staged.txt": "staged\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	// Again: nothing more happens. With force the rest follows.
	if out := undo(t, e, before, after, false); len(out.Removed) != 0 || len(out.Kept) != 1 {
		t.Errorf("second time: %+v", out)
	}
	if out := undo(t, e, before, after, true); fmt.Sprint(out.Restored) == "[]" || len(out.Kept) != 0 {
		t.Errorf("force: %+v", out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "crlf.txt")); err != nil || string(b) != "a\r\nb\r\n" {
		t.Errorf("crlf.txt: %q %v", b, err)
	}
}

// A change within the grain of the clock is seen.
func TestRacyChange(t *testing.T) {
	dir := busyRepo(t)
	e := engine(t, dir)
	for i := range 20 {
		put(t, dir, "racy.txt", fmt.Sprintf("%04d", i))
		a := take(t, e)
		put(t, dir, "racy.txt", fmt.Sprintf("%04d", i+5000))
		if b := take(t, e); a.Tree == b.Tree {
			t.Fatalf("round %d: a change was missed", i)
		}
	}
}

func TestOtherPlaces(t *testing.T) {
	t.Run("no git", func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, "a.txt", "one\n")
		check(t, dir)
	})
	t.Run("linked work tree", func(t *testing.T) {
		main := busyRepo(t)
		dir := filepath.Join(filepath.Dir(main), "linked")
		git(t, main, "worktree", "add", "-q", "-f", dir, "other")
		check(t, dir)
	})
	t.Run("sha256", func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		git(t, dir, "init", "-q", "--object-format=sha256")
		put(t, dir, "a.txt", "one\n")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "one")
		check(t, dir)
	})
	t.Run("split index", func(t *testing.T) {
		dir := busyRepo(t)
		git(t, dir, "update-index", "--split-index")
		check(t, dir)
	})
	t.Run("autocrlf", func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		git(t, dir, "init", "-q")
		git(t, dir, "config", "core.autocrlf", "true")
		put(t, dir, "a.txt", "one\r\ntwo\r\n")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "one")
		check(t, dir)
	})
	t.Run("submodule and nested repository", func(t *testing.T) {
		dir := busyRepo(t)
		nested := filepath.Join(dir, "nested")
		if err := os.Mkdir(nested, 0o755); err != nil {
			t.Fatal(err)
		}
		git(t, nested, "init", "-q")
		put(t, nested, "n.txt", "nested\n")
		check(t, dir)
	})
	t.Run("broken .git file", func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, ".git", "nonsense\n")
		put(t, dir, "a.txt", "one\n")
		check(t, dir)
	})
}

// check lets one turn change things and undoes it.
func check(t *testing.T, dir string) {
	t.Helper()
	want := picture(t, dir)
	e := engine(t, dir)
	r := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		before := take(t, e)
		put(t, dir, "made/by/agent.txt", "x\n")
		put(t, dir, "a.txt", "agent\n")
		mess(t, r, dir)
		out := undo(t, e, before, take(t, e), false)
		if len(out.Kept) > 0 {
			t.Fatalf("kept %v", out.Kept)
		}
		if d := differ(t, want, picture(t, dir)); d != nil {
			now := picture(t, dir)
			t.Fatalf("differs after undo: %q: was %q, is %q", d, want[d[0]], now[d[0]])
		}
	}
}

// Ignored files of the user are safe when the turn changed the ignore rules: what they no
// longer hide was not made by the turn.
func TestIgnoredFilesAreSafe(t *testing.T) {
	dir := busyRepo(t)
	want := picture(t, dir)
	e := engine(t, dir)
	before := take(t, e)
	put(t, dir, ".gitignore", "# nothing\n")
	put(t, dir, "fresh.txt", "agent\n")
	after := take(t, e)
	out := undo(t, e, before, after, false)
	if fmt.Sprint(out.Removed) != "[fresh.txt]" {
		t.Errorf("%+v", out)
	}
	if d := differ(t, want, picture(t, dir)); d != nil {
		t.Errorf("differs after undo: %q", d)
	}
}

// A file that a tool changes by name is recorded even when git ignores it.
func TestIncludeIgnored(t *testing.T) {
	dir := busyRepo(t)
	e := engine(t, dir)
	e.Include("debug.log", "../x", ".git/config", "data/new.txt")
	before := take(t, e)
	put(t, dir, "debug.log", "agent\n")
	put(t, dir, "data/new.txt", "agent\n")
	out := undo(t, e, before, take(t, e), false)
	if fmt.Sprint(out.Restored, out.Removed) != "[debug.log] [data/new.txt]" {
		t.Errorf("%+v", out)
	}
}

// Huge files and huge directories are not copied: they are named, or refused.
func TestLimits(t *testing.T) {
	dir := busyRepo(t)
	f, err := os.Create(filepath.Join(dir, "sparse.img"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(12<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	e := engine(t, dir)
	rec := take(t, e)
	if len(rec.LeftOut) != 1 || rec.LeftOut[0].Path != "sparse.img" || !strings.Contains(rec.LeftOut[0].Reason, "12") {
		t.Errorf("left out %+v", rec.LeftOut)
	}
	small, err := snapshot.Open(snapshot.Options{Dir: filepath.Join(t.TempDir(), "s"), Project: dir, MaxFiles: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Take(t.Context()); !errors.Is(err, snapshot.ErrTooMuch) || core.KindOf(err) != core.KindLimit {
		t.Errorf("got %v", err)
	}
	small, err = snapshot.Open(snapshot.Options{Dir: filepath.Join(t.TempDir(), "s"), Project: dir, MaxTotal: 10, MaxFile: 100})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "fresh.txt", strings.Repeat("x", 50))
	if _, err := small.Take(t.Context()); !errors.Is(err, snapshot.ErrTooMuch) {
		t.Errorf("got %v", err)
	}
}

// Pruning keeps what the kept records need and removes the rest.
func TestPrune(t *testing.T) {
	dir := busyRepo(t)
	e := engine(t, dir)
	before := take(t, e)
	var after *snapshot.Record
	for i := range 20 {
		put(t, dir, "a.txt", strings.Repeat(fmt.Sprint(i), 1000))
		after = take(t, e)
	}
	changes, err := e.Diff(before.Tree, after.Tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Settle(changes); err != nil {
		t.Fatal(err)
	}
	size := e.Size()
	removed, freed, done, err := e.Prune([]gitrepo.Hash{before.Tree, after.Tree})
	if err != nil || !done || removed == 0 || freed <= 0 || e.Size() >= size {
		t.Errorf("removed %d, freed %d, done %v, %v", removed, freed, done, err)
	}
	if out := undo(t, e, before, after, false); fmt.Sprint(out.Removed) != "[a.txt]" {
		t.Errorf("%+v", out)
	}
}

// Git may pack, and throw away, what is loose in its repository while a turn runs.
func TestGitCleansUpMeanwhile(t *testing.T) {
	dir := busyRepo(t)
	git(t, dir, "merge", "--abort")
	// A file that git knows only from an index that was dropped again.
	put(t, dir, "dangling.txt", "known to nobody\n")
	git(t, dir, "add", "dangling.txt")
	git(t, dir, "rm", "-q", "--cached", "dangling.txt")
	// Files that lie still: their names are taken from git's index.
	old := time.Now().Add(-time.Hour)
	for path := range picture(t, dir) {
		if strings.HasPrefix(path, "src/") && strings.HasSuffix(path, ".go") {
			if err := os.Chtimes(filepath.Join(dir, path), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	git(t, dir, "update-index", "-q", "--refresh")
	e := engine(t, dir)
	before := take(t, e)
	put(t, dir, "src/p1/f1.go", "package p // first\n")
	undo(t, e, before, take(t, e), false) // what is behind has been looked at
	want := picture(t, dir)
	before = take(t, e)
	for i := range 5 {
		put(t, dir, fmt.Sprintf("src/p%d/f%d.go", i, i+5), "package p // changed\n")
	}
	put(t, dir, "dangling.txt", "changed\n")
	git(t, dir, "gc", "-q", "--prune=now")
	undo(t, e, before, take(t, e), false)
	got := picture(t, dir)
	for path, v := range want {
		if !strings.HasPrefix(path, ".git/") && got[path] != v {
			t.Errorf("%s is not what it was", path)
		}
	}
}

// Where git stores other bytes than those of the file, the file's count.
func TestBytesAreThoseOfTheFile(t *testing.T) {
	for name, attributes := range map[string]string{"tracked": "sub/.gitattributes", "untracked": "sub/.gitattributes", "info": ".git/info/attributes", "the user's": "../home/.config/git/attributes"} {
		t.Run(name, func(t *testing.T) {
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("HOME", filepath.Join(top, "home"))
			t.Setenv("XDG_CONFIG_HOME", "")
			dir := filepath.Join(top, "repo")
			run := func(args ...string) {
				t.Helper()
				cmd := exec.Command("git", args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v: %s", args, err, out)
				}
			}
			put(t, dir, "sub/a.txt", "one\r\ntwo\r\n")
			put(t, dir, attributes, "*.txt text eol=crlf\n")
			run("init", "-q")
			put(t, dir, attributes, "*.txt text eol=crlf\n") // init made .git
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(dir, "sub/a.txt"), old, old); err != nil {
				t.Fatal(err)
			}
			run("add", "sub/a.txt")
			if name == "tracked" {
				run("add", "-A")
			}
			e := engine(t, dir)
			before := take(t, e)
			put(t, dir, "sub/a.txt", "agent\n")
			if out := undo(t, e, before, take(t, e), false); fmt.Sprint(out.Restored) != "[sub/a.txt]" {
				t.Fatalf("%+v", out)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "sub/a.txt")); err != nil || string(b) != "one\r\ntwo\r\n" {
				t.Errorf("%q %v", b, err)
			}
		})
	}
}

// What git tracks is recorded though it is ignored, also when it was added between two
// records.
func TestTrackedThoughIgnored(t *testing.T) {
	dir := busyRepo(t)
	e := engine(t, dir)
	for _, name := range []string{"kept.log", "late.log"} {
		if name == "late.log" {
			put(t, dir, name, "mine\n")
			git(t, dir, "add", "-f", name)
			e = open(t, filepath.Join(t.TempDir(), "s"), dir)
			take(t, e)
			put(t, dir, "later.log", "mine\n")
			git(t, dir, "add", "-f", "later.log")
			name = "later.log"
		}
		want := picture(t, dir)[name]
		before := take(t, e)
		put(t, dir, name, "agent\n")
		if out := undo(t, e, before, take(t, e), false); fmt.Sprint(out.Restored) != "["+name+"]" {
			t.Errorf("%s: %+v", name, out)
		}
		if got := picture(t, dir)[name]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A record that is cancelled leaves nothing half.
func TestCancel(t *testing.T) {
	dir := busyRepo(t)
	e := engine(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Take(ctx); err == nil {
		t.Fatal("a cancelled record succeeded")
	}
	take(t, e)
}

// bigRepo has n small files in a hundred directories.
func bigRepo(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	git(b, dir, "init", "-q")
	for i := range n {
		put(b, dir, fmt.Sprintf("d%02d/e%02d/f%d.txt", i%10, i/10%10, i), strings.Repeat(fmt.Sprintf("line %d\n", i), 200))
	}
	git(b, dir, "add", "-A")
	git(b, dir, "commit", "-qm", "one")
	return dir
}
