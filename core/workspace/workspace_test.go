package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

func put(t testing.TB, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func link(t testing.TB, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, add ...string) *workspace.Workspace {
	t.Helper()
	t.Setenv("LJ_HOME", filepath.Join(t.TempDir(), "lj"))
	w, err := workspace.Open(dir, workspace.Options{AddDirs: add})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFault104LinksThatLeadOut(t *testing.T) {
	top := t.TempDir()
	dir, out := filepath.Join(top, "p"), filepath.Join(top, "outside")
	put(t, dir, "in/a.txt", "a")
	put(t, out, "secret.txt", "s")
	link(t, "../outside", filepath.Join(dir, "esc"))
	link(t, "in", filepath.Join(dir, "stay"))
	link(t, filepath.Join(dir, "in"), filepath.Join(dir, "abs"))
	link(t, "../outside/new.txt", filepath.Join(dir, "dangling"))
	link(t, "loop", filepath.Join(dir, "loop"))
	w := open(t, dir)
	for _, p := range []string{"esc/evil.txt", "esc/secret.txt", "../outside/x", "/etc/passwd", "esc", "dangling", "in/../../outside/x", "stay/../../outside/secret.txt", "loop/x"} {
		for _, a := range []workspace.Access{workspace.Read, workspace.Write} {
			if _, err := w.Resolve(p, a); err == nil {
				t.Errorf("%s is allowed", p)
			} else if p != "loop/x" && (core.KindOf(err) != core.KindDenied || !strings.Contains(core.NextOf(err), "--add-dir")) {
				t.Errorf("%s: %v", p, err)
			}
		}
	}
	for _, p := range []string{"stay/a.txt", "abs/a.txt", "in/a.txt", dir + "/in/a.txt", "./in/../in/a.txt", "new/deep/file"} {
		q, err := w.Resolve(p, workspace.Write)
		if err != nil {
			t.Errorf("%s: %v", p, err)
		} else if p != "new/deep/file" && q.Name != "in/a.txt" {
			t.Errorf("%s: %s", p, q.Name)
		}
	}
	if w = open(t, dir, out); true {
		if _, err := w.Resolve("esc/secret.txt", workspace.Write); err != nil {
			t.Errorf("added directory: %v", err)
		}
	}
}

func TestGuardedFiles(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, ".git/config", "c")
	put(t, dir, ".git/info/exclude", "")
	put(t, dir, ".agent/config.yaml", "c")
	put(t, dir, "real.yaml", "c")
	link(t, ".git/config", filepath.Join(dir, "cfg"))
	link(t, ".git", filepath.Join(dir, "g"))
	home := filepath.Join(dir, "state")
	put(t, home, "config.yaml", "x")
	t.Setenv("LJ_HOME", home)
	w, err := workspace.Open(dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{".git/config", ".git/hooks/pre-commit", ".git/hooks", "cfg", "g/config", "sub/.git/hooks/x", ".git", ".git/modules/m/config", ".git/commondir", ".agent/config.yaml", ".agent/../.agent/config.yaml", "state/lj.db"} {
		if _, err := w.Resolve(p, workspace.Write); core.KindOf(err) != core.KindDenied {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := w.Resolve(".git/config", workspace.Read); err != nil {
		t.Error(err)
	}
	if _, err := w.Resolve("state/config.yaml", workspace.Read); core.KindOf(err) != core.KindDenied {
		t.Error("LJ_HOME is readable", err)
	}
	for _, p := range []string{".git/info/exclude", ".agent/memory.md", "config", "hooks/x", ".github/config"} {
		if _, err := w.Resolve(p, workspace.Write); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestReplaceKeepsWhatIsNotContent(t *testing.T) {
	dir := t.TempDir()
	p := put(t, dir, "run.sh", "old")
	if err := os.Chmod(p, 0o751); err != nil {
		t.Fatal(err)
	}
	xattr := syscall.Setxattr(p, "user.note", []byte("v"), 0) == nil
	link(t, "run.sh", filepath.Join(dir, "l"))
	if err := os.Link(p, filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	w := open(t, dir)
	q, err := w.Resolve("l", workspace.Write)
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Read(q, 100)
	if err != nil || f.Links != 2 {
		t.Fatal(err, f)
	}
	d, err := w.Replace(f, []byte("new"))
	if err != nil || d != workspace.Digest([]byte("new")) {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(filepath.Join(dir, "l")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	fi, err := os.Stat(p)
	if err != nil || fi.Mode().Perm() != 0o751 {
		t.Error(fi.Mode(), err)
	}
	if xattr {
		b := make([]byte, 8)
		if n, err := syscall.Getxattr(p, "user.note", b); err != nil || string(b[:n]) != "v" {
			t.Error("attribute lost", err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "hard")); string(b) != "old" {
		t.Error("the other name changed")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Error("something was left behind", entries)
	}
}

func TestReplaceRefusesWhatChanged(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "one")
	w := open(t, dir)
	q, _ := w.Resolve("a", workspace.Write)
	f, err := w.Read(q, 100)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "a", "two!")
	if _, err := w.Replace(f, []byte("x")); !errors.Is(err, workspace.ErrChanged) {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "a")); string(b) != "two!" {
		t.Fatal("overwritten")
	}
	if _, err := w.Create(q, []byte("x")); !errors.Is(err, workspace.ErrChanged) {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o444); err != nil {
		t.Fatal(err)
	}
	f, _ = w.Read(q, 100)
	if _, err := w.Replace(f, []byte("x")); err == nil {
		t.Fatal("wrote a read-only file")
	}
}

func TestSwappedParentIsNotFollowed(t *testing.T) {
	top := t.TempDir()
	dir, out := filepath.Join(top, "p"), filepath.Join(top, "out")
	put(t, dir, "d/a", "x")
	put(t, out, "a", "outside")
	w := open(t, dir)
	q, err := w.Resolve("d/a", workspace.Write)
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Read(q, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
		t.Fatal(err)
	}
	link(t, out, filepath.Join(dir, "d"))
	if _, err := w.Read(q, 100); err == nil {
		t.Error("read through a swapped directory")
	}
	if _, err := w.Replace(f, []byte("evil")); err == nil {
		t.Error("wrote through a swapped directory")
	}
	n, _ := w.Resolve("e/new", workspace.Write)
	if err := os.Rename(filepath.Join(dir, "e"), filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	link(t, out, filepath.Join(dir, "e"))
	if _, err := w.Create(n, []byte("evil")); err == nil {
		t.Error("created through a swapped directory")
	}
	if b, _ := os.ReadFile(filepath.Join(out, "a")); string(b) != "outside" {
		t.Error("outside was changed")
	}
}

func TestSpecialFilesDoNotBlock(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := open(t, dir)
	q, _ := w.Resolve("pipe", workspace.Read)
	if _, err := w.Read(q, 10); err == nil {
		t.Fatal("read a pipe")
	}
}

func TestFault143ThirdParty(t *testing.T) {
	for p, want := range map[string]bool{
		"vendor/x/x.go": true, "node_modules/y.js": true, "build/z.go": true, "web/node_modules/a": true,
		"src/build.go": false, "builder/x": false, "vendors/x": false, "a/.venv/b": true, "target/x": true, "main.go": false,
	} {
		if workspace.ThirdParty(p) != want {
			t.Errorf("%s: %v", p, !want)
		}
	}
}

func walk(t testing.TB, w *workspace.Workspace, at string, o workspace.WalkOptions) []string {
	t.Helper()
	p, err := w.Resolve(at, workspace.Read)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var out []string
	if _, err := w.Walk(t.Context(), p, o, func(_ int, e workspace.Entry) {
		if !e.Type.IsDir() {
			mu.Lock()
			out = append(out, e.Rel)
			mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	sort.Strings(out)
	return out
}

func TestWalkHonoursIgnoreFiles(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	put(t, home, ".gitconfig", "[core]\n\texcludesfile = ~/ign\n")
	put(t, home, "ign", "*.swp\n")
	dir := t.TempDir()
	put(t, dir, ".git/info/exclude", "local.txt\n")
	put(t, dir, ".gitignore", "*.log\n!keep.log\n/out/\nnode_modules/\ndoc/**/tmp\n# comment\n\\#odd\na b \n")
	put(t, dir, "sub/.gitignore", "!x.log\ny.go\n/z.go\n")
	for _, f := range []string{"a.go", "a.log", "keep.log", "out/x", "sub/out/x", "sub/x.log", "sub/y.go", "sub/d/y.go", "sub/z.go", "sub/d/z.go", "node_modules/m/i.js", "w/node_modules/i.js", "doc/a/b/tmp", "doc/tmp", "local.txt", "e.swp", "#odd", "a b", ".hidden"} {
		put(t, dir, f, "x")
	}
	link(t, "/", filepath.Join(dir, "root"))
	w := open(t, dir)
	got := strings.Join(walk(t, w, ".", workspace.WalkOptions{}), " ")
	want := ".gitignore .hidden a.go keep.log root sub/.gitignore sub/d/z.go sub/out/x sub/x.log"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := strings.Join(walk(t, w, "sub/d", workspace.WalkOptions{}), " "); got != "z.go" {
		t.Errorf("below: %s", got)
	}
	if got := strings.Join(walk(t, w, "node_modules", workspace.WalkOptions{}), " "); got != "m/i.js" {
		t.Errorf("an ignored directory that is named: %s", got)
	}
	if got := walk(t, w, ".", workspace.WalkOptions{NoIgnore: true}); len(got) != 22 {
		t.Errorf("%d: %v", len(got), got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pat, path string
		want      bool
	}{
		{"*.go", "a/b.go", true}, {"*.go", "b.gox", false}, {"src/**/*.ts", "src/a.ts", true}, {"src/**/*.ts", "src/x/y/a.ts", true},
		{"src/*.ts", "src/x/a.ts", false}, {"**/a", "a", true}, {"**/a", "x/a", true}, {"a/**", "a/b/c", true}, {"a/**", "a", false},
		{"{a,b}*.go", "b1.go", true}, {"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"[]]x", "]x", true}, {"?.go", "茶.go", true},
		{"a[", "a[", true}, {"./x", "x", true}, {"/x", "x", true}, {"*a*b*c", "xaybzc", true}, {"*a*b*c", "xaybz", false}, {"{a", "{a", true},
	} {
		if got := workspace.Match(c.pat, c.path); got != c.want {
			t.Errorf("%s %s: %v", c.pat, c.path, got)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("**/*.{a,b}", "x/y.a")
	f.Add("[a-", "\\")
	f.Add("*\xff?", "\xff\xff")
	f.Fuzz(func(t *testing.T, pat, path string) {
		workspace.Match(pat, path)
	})
}
