package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Access is what a path is resolved for.
type Access int

// The kinds of access.
const (
	Read  Access = iota // to read or list
	Write               // to create or change
)

// Options are the parts of a Workspace beside the project directory. The zero value is a
// project alone, guarded by the state directory that the environment names.
type Options struct {
	// AddDirs are further directories that may be touched.
	AddDirs []string
	// Home is lj's state directory. It is guarded beside the one of the environment
	// (LJ_HOME, else ~/.lj), so that a missing setting never opens it.
	Home string
}

// Workspace is the project directory and the further directories of a session.
type Workspace struct {
	dir   string
	roots []string
	home  []string

	gitOnce sync.Once
	gitReal []string // real places of guarded files that links lead to
}

// Open resolves the project and the added directories. An added directory that does not
// exist is left out; a project that is no directory is an error of kind not_found.
func Open(project string, o Options) (*Workspace, error) {
	abs, err := filepath.Abs(project)
	if err != nil {
		return nil, core.Errorf(core.KindInternal, "project %s: %w", project, err)
	}
	dir, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, core.Errorf(core.KindNotFound, "project %s: %w", project, plain(err))
	}
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil, core.Errorf(core.KindNotFound, "project %s is not a directory", project)
	}
	w := &Workspace{dir: dir, roots: []string{dir}}
	for _, a := range o.AddDirs {
		if real, err := filepath.EvalSymlinks(a); err == nil && filepath.IsAbs(real) {
			w.roots = append(w.roots, real)
		}
	}
	homes := []string{o.Home, os.Getenv("LJ_HOME")}
	if homes[1] == "" {
		if u := os.Getenv("HOME"); u != "" {
			homes[1] = filepath.Join(u, ".lj")
		}
	}
	for _, h := range homes {
		if h == "" {
			continue
		}
		if h, err = filepath.Abs(h); err != nil {
			continue
		}
		if real, err := realPath(h); err == nil && real != h {
			w.home = append(w.home, real)
		}
		w.home = append(w.home, h)
	}
	return w, nil
}

// Dir is the project directory, absolute and resolved.
func (w *Workspace) Dir() string { return w.dir }

// Roots are the directories that may be touched, the project first.
func (w *Workspace) Roots() []string { return append([]string(nil), w.roots...) }

// Display is how a path is named to models and people: relative to the project inside
// it, absolute elsewhere.
func (w *Workspace) Display(abs string) string {
	if rel, ok := beneath(w.dir, abs); ok {
		return ShowBytes(rel)
	}
	return ShowBytes(abs)
}

// ShowBytes writes the bytes of a name that are not UTF-8 as \xNN, two small hexadecimal
// digits each. Resolve takes a name in this form, too.
func ShowBytes(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[i])
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

var shownByte = regexp.MustCompile(`\\x[89a-f][0-9a-f]`)

// unshow finds the file that a name in the form of ShowBytes means, where the name itself is
// none. Only bytes from 0x80 on are taken back, so no separator, dot or letter can come out
// of it.
func unshow(full string) string {
	if !shownByte.MatchString(full) {
		return full
	}
	raw := shownByte.ReplaceAllStringFunc(full, func(s string) string {
		n, _ := strconv.ParseUint(s[2:], 16, 8) // the pattern holds
		return string([]byte{byte(n)})
	})
	there := func(p string) bool { _, err := os.Lstat(p); return err == nil }
	if there(full) || ShowBytes(raw) != full || !there(raw) && (there(filepath.Dir(full)) || !there(filepath.Dir(raw))) {
		return full
	}
	return raw
}

// Path is a place inside the workspace with all links and ".." resolved. It may not
// exist.
type Path struct {
	Abs  string // absolute, resolved
	Name string // as Display gives it
	root string // the root that it lies in
	rel  string // relative to root, "." for the root itself
}

// Resolve finds where a path given by a model really leads and says whether it may be
// touched there. Relative paths start at the project. Links are followed as the kernel
// does; one that stays inside is fine. The error, of kind denied, names the path and
// what would allow it.
func (w *Workspace) Resolve(path string, a Access) (Path, error) {
	if path == "" {
		return Path{}, core.Errorf(core.KindUsage, "path is empty")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return Path{}, core.Errorf(core.KindUsage, "path contains a NUL byte")
	}
	full := path
	switch {
	case filepath.IsAbs(path):
	case path == "~" || strings.HasPrefix(path, "~/"):
		if _, err := os.Lstat(filepath.Join(w.dir, "~")); err != nil && os.Getenv("HOME") != "" {
			full = os.Getenv("HOME") + path[1:]
		} else {
			full = w.dir + "/" + path
		}
	default:
		full = w.dir + "/" + path
	}
	full = unshow(full)
	real, err := realPath(full)
	if err != nil {
		return Path{}, core.Errorf(core.KindNotFound, "%s: %w", path, plain(err))
	}
	if w.inHome(real) || w.inHome(filepath.Clean(full)) {
		return Path{}, core.Errorf(core.KindDenied, "%s belongs to lj's own state, which no tool touches", path)
	}
	p := Path{Abs: real}
	for _, r := range w.roots {
		if rel, ok := beneath(r, real); ok {
			p.root, p.rel = r, rel
			break
		}
	}
	if p.root == "" {
		where := ""
		if filepath.Clean(full) != real {
			where = " (it leads to " + real + ")"
		}
		return Path{}, core.Errorf(core.KindDenied, "%s is outside the project%s", path, where).
			Hint("a person can allow it with --add-dir %s", suggestDir(real))
	}
	p.Name = w.Display(real)
	if a == Write {
		if what := w.guarded(filepath.Clean(full), real); what != "" {
			return Path{}, core.Errorf(core.KindDenied, "%s is guarded: %s is never written by a tool", path, what).
				Hint("ask the user to change it")
		}
	}
	return p, nil
}

// Child is the path of an entry of a directory that was walked; it is not resolved again.
func (p Path) child(rel string) Path {
	c := p
	c.Abs = filepath.Join(p.Abs, rel)
	c.rel = filepath.Join(p.rel, rel)
	c.Name = filepath.Join(p.Name, rel)
	return c
}

func suggestDir(real string) string {
	if fi, err := os.Stat(real); err == nil && fi.IsDir() {
		return real
	}
	return filepath.Dir(real)
}

func (w *Workspace) inHome(p string) bool {
	for _, h := range w.home {
		if _, ok := beneath(h, p); ok {
			return true
		}
	}
	return false
}

// guarded names the rule that protects a path from writing, "" for none. Both the path as
// written and the place it leads to are judged.
func (w *Workspace) guarded(paths ...string) string {
	for _, p := range paths {
		if what := guardedName(p); what != "" {
			return what
		}
	}
	w.gitOnce.Do(func() {
		for _, r := range w.roots {
			for _, name := range []string{".git", ".git/hooks", ".git/config", ".agent/config.yaml"} {
				link := filepath.Join(r, name)
				real, err := realPath(link)
				if err != nil || real == link {
					continue
				}
				if name == ".git" {
					w.gitReal = append(w.gitReal, filepath.Join(real, "hooks"), filepath.Join(real, "config"))
				} else {
					w.gitReal = append(w.gitReal, real)
				}
			}
			if b, err := os.ReadFile(filepath.Join(r, ".git")); err == nil { // a worktree or submodule
				if dir, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: "); ok {
					if !filepath.IsAbs(dir) {
						dir = filepath.Join(r, dir)
					}
					w.gitReal = append(w.gitReal, filepath.Join(dir, "hooks"), filepath.Join(dir, "config"))
				}
			}
		}
	})
	for _, p := range paths {
		for _, g := range w.gitReal {
			if _, ok := beneath(g, p); ok {
				return w.Display(g)
			}
		}
	}
	return ""
}

// guardedName judges a path by its components. Beside .git/hooks and .git/config these
// are the files that redirect git to another configuration.
func guardedName(p string) string {
	parts := strings.Split(p, "/")
	for i, c := range parts {
		rest := parts[i+1:]
		switch c {
		case ".git":
			if len(rest) == 0 {
				return ".git"
			}
			for j, r := range rest {
				last := j == len(rest)-1
				switch {
				case r == "hooks" && (j == 0 || rest[0] == "modules" || rest[0] == "worktrees"):
					return ".git/hooks"
				case last && (r == "config" || r == "config.worktree" || r == "commondir" || r == "gitdir") &&
					(j == 0 || rest[0] == "modules" || rest[0] == "worktrees"):
					return ".git/" + strings.Join(rest, "/")
				}
			}
		case ".agent":
			if len(rest) == 1 && rest[0] == "config.yaml" {
				return ".agent/config.yaml"
			}
		}
	}
	return ""
}

// beneath says whether p is dir or lies in it, and gives the relative path.
func beneath(dir, p string) (string, bool) {
	if p == dir {
		return ".", true
	}
	if dir == "/" {
		return strings.TrimPrefix(p, "/"), true
	}
	if strings.HasPrefix(p, dir) && p[len(dir)] == '/' {
		return p[len(dir)+1:], true
	}
	return "", false
}

// realPath resolves links and ".." from left to right as the kernel does. Unlike
// filepath.EvalSymlinks it goes on where nothing exists yet, so that the place where a
// file would be made is known.
func realPath(p string) (string, error) {
	if !filepath.IsAbs(p) {
		return "", fs.ErrInvalid
	}
	return realFrom("/", p)
}

// realFrom is realPath for a path that starts at a directory which is resolved already.
func realFrom(cur, p string) (string, error) {
	rest := strings.Split(p, "/")
	links := 0
	for len(rest) > 0 {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case "", ".":
			continue
		case "..":
			cur = filepath.Dir(cur)
			continue
		}
		next := cur + "/" + c
		if cur == "/" {
			next = "/" + c
		}
		fi, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case fi.Mode()&fs.ModeSymlink != 0:
			if links++; links > 40 {
				return "", &fs.PathError{Op: "resolve", Path: p, Err: syscall.ELOOP}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if filepath.IsAbs(target) {
				cur = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		}
		cur = next
	}
	return cur, nil
}

// plain takes operation and path off a system error; the caller names the path itself.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

// keyed locks, one per path, for all workspaces of the process.
var locks = struct {
	sync.Mutex
	m map[string]*keyLock
}{m: map[string]*keyLock{}}

type keyLock struct {
	sync.Mutex
	n int
}

// Lock takes the process-wide lock of a path, so that two calls never interleave between
// reading a file and replacing it, and returns the function that gives it back.
func (w *Workspace) Lock(p Path) (unlock func()) {
	locks.Lock()
	l := locks.m[p.Abs]
	if l == nil {
		l = &keyLock{}
		locks.m[p.Abs] = l
	}
	l.n++
	locks.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		locks.Lock()
		if l.n--; l.n == 0 {
			delete(locks.m, p.Abs)
		}
		locks.Unlock()
	}
}

// thirdParty are directories whose content others made: dependencies and build results.
var thirdParty = map[string]bool{
	".git": true, ".hg": true, ".svn": true, "vendor": true, "node_modules": true, "bower_components": true,
	"build": true, "dist": true, "target": true, ".venv": true, "venv": true, "__pycache__": true,
	".tox": true, ".gradle": true, "third_party": true,
}

// ThirdParty says whether a path (relative to the project) lies in a directory of
// dependencies or build results: vendor, node_modules, build, dist, target, .venv and
// the like. It is the one rule that everything which formats or indexes a project uses.
func ThirdParty(rel string) bool {
	for c := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		if thirdParty[c] {
			return true
		}
	}
	return false
}
