package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, r *gitrepo.Repo, e gitrepo.Edit) *gitrepo.Batch {
	t.Helper()
	e.Time = time.Unix(1_700_000_000, 0)
	b, err := r.Plan(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(b.Objects); err != nil {
		t.Fatal(err)
	}
	return b
}

// What is written is what git itself reads: commits, trees, tags, refs, index.
func TestGitReadsWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	r, err := gitrepo.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := commit(t, r, gitrepo.Edit{Message: "one\n", Tag: "a/v1", Replace: map[string]map[string][]byte{
		"tools/a": {"x.go": []byte("x"), "testdata/deep/y": []byte("y")}, "tools/b": {"z": nil}}, Files: map[string][]byte{"go.mod": []byte("m")}})
	second := commit(t, r, gitrepo.Edit{Parent: first.Commit, Message: "two\n", Replace: map[string]map[string][]byte{"tools/a": {"x.go": []byte("x2")}, "tools/b": nil}, Files: map[string][]byte{"go.mod": nil, "meta/a": []byte("1")}})
	if err := r.SetRefs(map[string]string{gitrepo.Main: second.Commit, "refs/tags/a/v1": first.Tag, "refs/lj/live/a": first.Commit}); err != nil {
		t.Fatal(err)
	}
	if out := git(t, dir, "fsck", "--strict", "--full"); out != "" {
		t.Errorf("fsck: %s", out)
	}
	if out := git(t, dir, "ls-tree", "-r", "--name-only", "HEAD"); out != "meta/a\ntools/a/x.go" {
		t.Errorf("%s", out)
	}
	if out := git(t, dir, "ls-tree", "-r", "--name-only", "a/v1"); out != "go.mod\ntools/a/testdata/deep/y\ntools/a/x.go\ntools/b/z" {
		t.Errorf("%s", out)
	}
	if out := git(t, dir, "cat-file", "-t", "a/v1"); out != "tag" {
		t.Errorf("%s", out)
	}
	if err := r.WriteIndex(second.Commit); err != nil {
		t.Fatal(err)
	}
	for n, b := range map[string]string{"meta/a": "1", "tools/a/x.go": "x2"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, n), []byte(b), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out := git(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("status: %s", out)
	}
	// Packed by git, everything is still found.
	git(t, dir, "gc", "-q", "--prune=now")
	r, err = gitrepo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.Files(first.Commit, "tools/a")
	if want := map[string]string{"x.go": "x", "testdata/deep/y": "y"}; err != nil || !maps.EqualFunc(files, want, func(a []byte, b string) bool { return string(a) == b }) {
		t.Errorf("%v %v", files, err)
	}
	refs, err := r.Refs("refs/")
	if err != nil || len(refs) != 3 || refs["refs/lj/live/a"] != first.Commit {
		t.Errorf("%v %v", refs, err)
	}
	if c, err := r.Peel(refs["refs/tags/a/v1"]); err != nil || c != first.Commit {
		t.Errorf("%v %v", c, err)
	}
	if err := r.SetRefs(map[string]string{"refs/lj/live/a": ""}); err != nil {
		t.Fatal(err)
	}
	if h, err := r.Ref("refs/lj/live/a"); err != nil || h != "" {
		t.Errorf("%q %v", h, err)
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	if b, err := r.File(first.Commit, "none"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("%q %v", b, err)
	}
	if tag, err := r.PlanTag("a/v1", first.Commit); err != nil || tag.Tag != first.Tag || len(tag.Objects) != 0 {
		t.Errorf("%+v %v", tag, err)
	}
}

// The index is read as git lists it, conflicts aside.
func TestReadIndex(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil && args[0] != "merge" {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q", "-b", "main")
	for _, name := range []string{"a", "b", "茶"} {
		put(name, name+"\n")
	}
	git("add", "-A")
	git("commit", "-qm", "one")
	git("checkout", "-qb", "other")
	put("a", "other\n")
	git("commit", "-qam", "two")
	git("checkout", "-q", "main")
	put("a", "main\n")
	git("commit", "-qam", "three")
	git("merge", "other")
	for i := range 300 {
		name := fmt.Sprintf("%s%d", strings.Repeat("long", i%40), i)
		put(name, name)
	}
	git("add", "-A", "--", ":!a") // a stays in conflict
	put("announced", "x\n")
	git("add", "-N", "announced")
	for _, version := range []string{"2", "3", "4"} {
		git("update-index", "--index-version", version)
		list, err := gitrepo.ReadIndex(filepath.Join(dir, ".git"))
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, e := range list {
			var st syscall.Stat_t
			if err := syscall.Lstat(filepath.Join(dir, e.Path), &st); err != nil {
				t.Fatal(err)
			}
			if e.MTimeNS != st.Mtim.Nano() || e.CTimeNS != st.Ctim.Nano() || int64(e.Size) != st.Size || e.Inode != uint32(st.Ino) || e.Mode != 0o100644 {
				t.Errorf("version %s: %+v, it is %+v", version, e, st)
			}
			got = append(got, e.Hash.String()+" "+e.Path)
		}
		for line := range strings.SplitSeq(git("-c", "core.quotepath=off", "ls-files", "-s"), "\n") {
			if f := strings.Fields(line); len(f) == 4 && f[2] == "0" && f[3] != "announced" {
				want = append(want, f[1]+" "+f[3])
			}
		}
		if len(want) < 302 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("version %s: %q, git says %q", version, got, want)
		}
	}
	whole, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 7 { // cut anywhere: no panic
		if err := os.WriteFile(filepath.Join(dir, ".git", "index"), whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		_, _ = gitrepo.ReadIndex(filepath.Join(dir, ".git"))
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "index"), whole, 0o644); err != nil {
		t.Fatal(err)
	}
	git("update-index", "--split-index")
	if list, err := gitrepo.ReadIndex(filepath.Join(dir, ".git")); err == nil {
		t.Errorf("a split index gave %d entries", len(list))
	}
}

// Planning writes nothing; dropping leaves nothing.
func TestPlanAndDropLeaveNoTrace(t *testing.T) {
	dir := t.TempDir()
	r, err := gitrepo.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		_ = filepath.WalkDir(filepath.Join(dir, ".git"), func(string, os.DirEntry, error) error { n++; return nil })
		return n
	}
	before := count()
	b, err := r.Plan(gitrepo.Edit{Message: "m", Files: map[string][]byte{"a": []byte("a")}})
	if err != nil || count() != before {
		t.Fatalf("%v %d %d", err, before, count())
	}
	if err := r.Write(b.Objects); err != nil || count() == before {
		t.Fatal(err)
	}
	if err := r.Drop(b.Hashes()); err != nil || count() != before {
		t.Errorf("%v %d %d", err, before, count())
	}
}

// A changed byte in an object is found.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	r, err := gitrepo.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := commit(t, r, gitrepo.Edit{Message: "m", Files: map[string][]byte{"a": []byte(strings.Repeat("a", 100))}})
	if err := r.SetRefs(map[string]string{gitrepo.Main: b.Commit}); err != nil {
		t.Fatal(err)
	}
	other := commit(t, r, gitrepo.Edit{Message: "m", Files: map[string][]byte{"a": []byte("other")}})
	blob := func(c string) string {
		h := git(t, dir, "rev-parse", c+":a")
		return filepath.Join(dir, ".git", "objects", h[:2], h[2:])
	}
	data, err := os.ReadFile(blob(other.Commit))
	if err != nil {
		t.Fatal(err)
	}
	p := blob(b.Commit)
	os.Chmod(p, 0o600)
	if err := os.WriteFile(p, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = gitrepo.Open(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Files(b.Commit, ""); !errors.Is(err, gitrepo.ErrDamaged) {
		t.Errorf("%v", err)
	}
	if err := r.Verify(); !errors.Is(err, gitrepo.ErrDamaged) {
		t.Errorf("%v", err)
	}
}

func TestPathsThatWouldEscape(t *testing.T) {
	r, err := gitrepo.Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"../a", "/a", "a/../b", ".git/config", "a/.GIT/x", "", "a//b", "a/"} {
		if _, err := r.Plan(gitrepo.Edit{Message: "m", Files: map[string][]byte{p: []byte("x")}}); err == nil {
			t.Errorf("%q was taken", p)
		}
	}
	for _, n := range []string{"HEAD", "refs/../HEAD", "refs/heads/../../config", "config"} {
		if err := r.SetRefs(map[string]string{n: strings.Repeat("a", 40)}); err == nil {
			t.Errorf("ref %q was taken", n)
		}
	}
	if _, err := gitrepo.Open(t.TempDir()); !errors.Is(err, core.ErrNotFound) {
		t.Error(err)
	}
}

func TestLockWaitsItsTurn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock, err := gitrepo.TryLock(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gitrepo.TryLock(file); !errors.Is(err, gitrepo.ErrLocked) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gitrepo.Lock(ctx, file); !errors.Is(err, gitrepo.ErrLocked) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	got := make(chan error, 1)
	go func() {
		u, err := gitrepo.Lock(context.WithoutCancel(t.Context()), file)
		if err == nil {
			u()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
