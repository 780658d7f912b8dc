// Package snapshot records the working tree of a project and puts paths of it back.
//
// It owns a shadow repository of git objects per project below LJ_HOME/snapshots, the
// cache that makes a second look cheap, the comparison of two records and the restoring of
// paths. It knows nothing of turns, sessions or databases, and it never touches the
// user's repository: index, stash, refs and objects of it are only read, if at all.
//
//	e, err := snapshot.Open(snapshot.Options{Dir: dir, Project: project})
//	before, err := e.Take(ctx)
//	// … something changes files …
//	after, err := e.Take(ctx)
//	changes, err := e.Diff(before.Tree, after.Tree)
//	out, err := e.Restore(ctx, changes, false)
//
// Files are recorded as the bytes that are there: no filter, no line end conversion. What
// git ignores is left out, unless git tracks it or Include names it.
//
// Engines of several processes may work on one project at the same time.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/core/workspace"
)

// The default limits.
const (
	DefaultMaxFile  = 64 << 20 // bytes of one file; larger ones are left out and named
	DefaultMaxTotal = 2 << 30  // bytes that one record may have to copy
	DefaultMaxFiles = 400_000
)

// Options of an Engine. Dir and Project are needed.
type Options struct {
	Dir     string // the shadow repository
	Project string // the directory to record, absolute
	Home    string // lj's own directory, never recorded
	// MaxFile, MaxTotal and MaxFiles are limits; 0 means the default.
	MaxFile, MaxTotal int64
	MaxFiles          int
}

// Engine records and restores one project. It is safe for use by several goroutines.
type Engine struct {
	o       Options
	objects *gitrepo.Objects
	ws      *workspace.Workspace
	git     string // the project's git directory, "" for none
	mu      sync.Mutex
	cache   *statCache
	include map[string]bool
}

// Record is one recorded state.
type Record struct {
	Tree    gitrepo.Hash
	Files   int
	LeftOut []LeftOut
	entries map[string]entry
	dirs    []string
}

// LeftOut is a path that is not in a record, and why.
type LeftOut struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// entry is one path of a record: mode is git's kind and the permission bits.
type entry struct {
	mode uint32
	hash gitrepo.Hash
}

// ErrTooMuch says that a directory is too large to be recorded.
var ErrTooMuch = errors.New("too much to record")

// Open opens or makes the shadow repository of a project.
func Open(o Options) (*Engine, error) {
	if o.MaxFile == 0 {
		o.MaxFile = DefaultMaxFile
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = DefaultMaxTotal
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = DefaultMaxFiles
	}
	ws, err := workspace.Open(o.Project, workspace.Options{Home: o.Home})
	if err != nil {
		return nil, err
	}
	git := commonGitDir(o.Project)
	objects, err := gitrepo.OpenObjects(o.Dir, git)
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "open snapshots: %w", err)
	}
	return &Engine{o: o, objects: objects, ws: ws, git: git, include: map[string]bool{}}, nil
}

// commonGitDir is the git directory with the objects of a project whose object names are
// SHA-1, "" for none.
func commonGitDir(project string) string {
	dir := workGitDir(project)
	if dir == "" {
		return ""
	}
	dir = gitrepo.CommonDir(dir)
	if b, err := os.ReadFile(filepath.Join(dir, "config")); err != nil || strings.Contains(strings.ToLower(string(b)), "objectformat") {
		return ""
	}
	return dir
}

// workGitDir is the git directory of this work tree: where its index is.
func workGitDir(project string) string { return gitrepo.Dir(filepath.Join(project, ".git")) }

// Include adds paths (relative to the project, with slashes) that are recorded even when
// git ignores them: files that a tool is about to change by name.
func (e *Engine) Include(paths ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range paths {
		if p = filepath.ToSlash(filepath.Clean(p)); p != "." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "/") && !inGit(p) {
			e.include[p] = true
		}
	}
}

func inGit(p string) bool {
	return slices.Contains(strings.Split(p, "/"), ".git")
}

// Amend adds paths to a record that was already taken, as they are now: files that git
// ignores and that a tool is about to change by name. Paths that the record holds, and
// paths where there is nothing, change nothing. It says whether the record changed.
func (e *Engine) Amend(rec *Record, paths ...string) (bool, error) {
	e.Include(paths...)
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := false
	for _, p := range paths {
		p = filepath.ToSlash(filepath.Clean(p))
		if _, ok := rec.entries[p]; ok || !e.include[p] {
			continue
		}
		if real, err := e.real(p); err != nil || func() bool { fi, err := os.Lstat(real); return err != nil || fi.IsDir() || fi.Size() > e.o.MaxFile }() {
			continue
		}
		h, st, err := e.store(p)
		if err != nil {
			return changed, core.Errorf(core.KindFailed, "record %s: %w", p, err)
		}
		rec.entries[p] = entry{st.gitMode(), h}
		changed = true
	}
	if !changed {
		return false, nil
	}
	tree, err := e.buildTrees(rec.entries, rec.dirs)
	if err != nil {
		return false, core.Errorf(core.KindFailed, "record the working tree: %w", err)
	}
	rec.Tree = tree
	return true, nil
}

// found is one file or link that the walk met.
type found struct {
	path string
	st   stat
}

// Take records the project as it is now. Nothing is copied that an earlier record or the
// project's own repository holds. An error of kind core.KindLimit wraps ErrTooMuch.
func (e *Engine) Take(ctx context.Context) (*Record, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	unlock, err := e.lock(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if e.cache == nil {
		e.cache = loadCache(filepath.Join(e.o.Dir, "stat"))
	}
	e.cache.follow(e.o.Project, e.git)
	files, dirs, left, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(files, func(f found) bool { return isAttributes(f.path) }) {
		e.cache.unseed() // git may store other bytes than those of the files
	}
	rec := &Record{LeftOut: left, entries: make(map[string]entry, len(files)), Files: len(files)}
	var todo []found
	var total int64
	now := nowNS()
	for _, f := range files {
		if h, ok := e.cache.get(f.path, f.st); ok {
			rec.entries[f.path] = entry{f.st.gitMode(), h}
			continue
		}
		if f.st.kind() == unix.S_IFREG && f.st.size > e.o.MaxFile {
			rec.LeftOut = append(rec.LeftOut, LeftOut{f.path, fmt.Sprintf("%s is over the limit of %s for one file", workspace.Size(f.st.size), workspace.Size(e.o.MaxFile))})
			rec.Files--
			continue
		}
		total += f.st.size
		todo = append(todo, f)
	}
	if total > e.o.MaxTotal {
		return nil, core.Errorf(core.KindLimit, "%w: %s in %d files below %s", ErrTooMuch, workspace.Size(total), len(todo), e.o.Project).
			Hint("add what need not be recorded to .gitignore, or work in a smaller directory")
	}
	if err := e.hashAll(ctx, todo, rec, now); err != nil {
		return nil, err
	}
	rec.dirs = dirs
	rec.Tree, err = e.buildTrees(rec.entries, dirs)
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "record the working tree: %w", err)
	}
	e.cache.keepOnly(rec.entries)
	e.cache.save(filepath.Join(e.o.Dir, "stat"))
	sort.Slice(rec.LeftOut, func(i, j int) bool { return rec.LeftOut[i].Path < rec.LeftOut[j].Path })
	return rec, nil
}

// look walks the project: files and links, directories without entries, what can't be
// recorded.
func (e *Engine) look(ctx context.Context) (files []found, dirs []string, left []LeftOut, err error) {
	type part struct {
		files []found
		dirs  []string
		left  []LeftOut
	}
	parts := make([]part, workspace.Workers())
	p, err := e.ws.Resolve(".", workspace.Read)
	if err != nil {
		return nil, nil, nil, err
	}
	var count atomicInt
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, err = e.ws.Walk(ctx, p, workspace.WalkOptions{}, func(w int, x workspace.Entry) {
		q := &parts[w]
		switch x.Type {
		case fs.ModeDir:
			q.dirs = append(q.dirs, x.Rel)
		case 0, fs.ModeSymlink:
			st, err := x.Stat()
			if err != nil {
				return // gone in the meantime
			}
			if count.add() > int64(e.o.MaxFiles) {
				cancel(core.Errorf(core.KindLimit, "%w: more than %d files below %s", ErrTooMuch, e.o.MaxFiles, e.o.Project).
					Hint("add what need not be recorded to .gitignore, or work in a smaller directory"))
				return
			}
			q.files = append(q.files, found{x.Rel, statOf(&st)})
		default:
			q.left = append(q.left, LeftOut{x.Rel, "neither a file nor a link"})
		}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	for _, q := range parts {
		files, dirs, left = append(files, q.files...), append(dirs, q.dirs...), append(left, q.left...)
	}
	// What git tracks, or a tool changes by name, counts also when it is ignored.
	missing := len(e.cache.tracked)
	for _, f := range files {
		if e.cache.tracked[f.path] {
			missing--
		}
	}
	if len(e.include) > 0 || missing > 0 {
		seen := make(map[string]bool, len(files))
		for _, f := range files {
			seen[f.path] = true
		}
		for _, set := range []map[string]bool{e.cache.tracked, e.include} {
			for path := range set {
				if seen[path] {
					continue
				}
				seen[path] = true
				var st unix.Stat_t
				if unix.Lstat(filepath.Join(e.o.Project, path), &st) != nil {
					continue
				}
				if s := statOf(&st); s.kind() == unix.S_IFREG || s.kind() == unix.S_IFLNK {
					if real, err := filepath.EvalSymlinks(filepath.Dir(filepath.Join(e.o.Project, path))); err == nil && real == filepath.Dir(filepath.Join(e.o.Project, path)) {
						files = append(files, found{path, s})
					}
				}
			}
		}
	}
	return files, dirs, left, nil
}

// hashAll names the content of files and stores what is new.
func (e *Engine) hashAll(ctx context.Context, todo []found, rec *Record, now int64) error {
	type result struct {
		entry
		st   stat
		left string
	}
	results := make([]result, len(todo))
	var wg sync.WaitGroup
	next := make(chan int)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range workspace.Workers() {
		wg.Go(func() {
			for i := range next {
				h, st, err := e.store(todo[i].path)
				switch {
				case errors.Is(err, fs.ErrNotExist):
					results[i].left = "gone"
				case err != nil && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errChanging)):
					results[i].left = err.Error()
				case err != nil:
					cancel(core.Errorf(core.KindFailed, "record %s: %w", todo[i].path, err))
				default:
					results[i] = result{entry{st.gitMode(), h}, st, ""}
				}
			}
		})
	}
feed:
	for i := range todo {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, r := range results {
		switch r.left {
		case "":
			rec.entries[todo[i].path] = r.entry
			e.cache.put(todo[i].path, r.st, r.hash, now)
		case "gone":
			rec.Files--
		default:
			rec.LeftOut = append(rec.LeftOut, LeftOut{todo[i].path, r.left})
			rec.Files--
		}
	}
	return nil
}

var errChanging = errors.New("it is being changed")

// store names one file's content and keeps it. The stat is that of the very file read.
func (e *Engine) store(rel string) (gitrepo.Hash, stat, error) {
	path := filepath.Join(e.o.Project, rel)
	var ls unix.Stat_t
	if err := unix.Lstat(path, &ls); err != nil {
		return gitrepo.Hash{}, stat{}, &fs.PathError{Op: "lstat", Path: rel, Err: err}
	}
	if st := statOf(&ls); st.kind() == unix.S_IFLNK {
		target, err := os.Readlink(path)
		if err != nil {
			return gitrepo.Hash{}, st, err
		}
		h, err := e.objects.Put("blob", []byte(target))
		return h, st, err
	}
	for range 3 {
		h, st, err := e.storeFile(path)
		if !errors.Is(err, errChanging) {
			return h, st, err
		}
	}
	return gitrepo.Hash{}, stat{}, errChanging
}

func (e *Engine) storeFile(path string) (gitrepo.Hash, stat, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return gitrepo.Hash{}, stat{}, err
	}
	defer f.Close()
	var us unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &us); err != nil {
		return gitrepo.Hash{}, stat{}, err
	}
	st := statOf(&us)
	if st.kind() != unix.S_IFREG {
		return gitrepo.Hash{}, st, errChanging
	}
	h, err := gitrepo.HashBlob(io.LimitReader(f, st.size+1), st.size)
	if err != nil {
		return h, st, fmt.Errorf("%w: %w", errChanging, err)
	}
	// What the user's repository holds is not copied now: Settle copies what a change needs.
	if e.objects.Has(h) {
		return h, st, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return h, st, err
	}
	if err := e.objects.PutBlob(h, io.LimitReader(f, st.size), st.size); err != nil {
		var us2 unix.Stat_t
		if unix.Fstat(int(f.Fd()), &us2) == nil && statOf(&us2) != st {
			return h, st, errChanging
		}
		return h, st, err
	}
	return h, st, nil
}

// buildTrees writes the trees of a record and returns the topmost.
func (e *Engine) buildTrees(entries map[string]entry, dirs []string) (gitrepo.Hash, error) {
	children := map[string][]gitrepo.TreeEntry{"": nil}
	for _, d := range dirs {
		if _, ok := children[d]; !ok {
			children[d] = nil
		}
	}
	var ensure func(dir string)
	ensure = func(dir string) {
		if _, ok := children[dir]; ok {
			return
		}
		children[dir] = nil
		if i := strings.LastIndexByte(dir, '/'); i >= 0 {
			ensure(dir[:i])
		}
	}
	for path, x := range entries {
		dir, name := split(path)
		ensure(dir)
		children[dir] = append(children[dir], gitrepo.TreeEntry{Name: name, Mode: x.mode, Hash: x.hash})
	}
	names := make([]string, 0, len(children))
	for d := range children {
		names = append(names, d)
	}
	// Deepest first: a directory's tree needs those of its directories.
	sort.Slice(names, func(i, j int) bool {
		a, b := strings.Count(names[i], "/"), strings.Count(names[j], "/")
		if (names[i] == "") != (names[j] == "") {
			return names[j] == ""
		}
		return a > b
	})
	var top gitrepo.Hash
	for _, d := range names {
		list := children[d]
		sort.Slice(list, func(i, j int) bool { return gitrepo.TreeLess(list[i], list[j]) })
		raw := gitrepo.EncodeTree(list)
		h, err := e.cache.tree(raw, func() (gitrepo.Hash, error) { return e.objects.Put("tree", raw) })
		if err != nil {
			return top, err
		}
		if d == "" {
			return h, nil
		}
		up, name := split(d)
		children[up] = append(children[up], gitrepo.TreeEntry{Name: name, Mode: gitrepo.ModeDir, Hash: h})
	}
	return top, nil
}

func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// Change is one path that differs between two records. A zero Before or After means that
// there was nothing; Dir marks a directory without entries.
type Change struct {
	Path          string
	Before, After State
}

// State is what a path was.
type State struct {
	Mode uint32 // git's kind and permission bits; 0 for nothing
	Hash gitrepo.Hash
}

// Exists says whether there was something.
func (s State) Exists() bool { return s.Mode != 0 }

// Dir says whether it was a directory without entries.
func (s State) Dir() bool { return s.Mode&gitrepo.ModeKind == gitrepo.ModeDir }

// Diff lists the paths that differ between two trees, sorted. Only what differs is read.
func (e *Engine) Diff(before, after gitrepo.Hash) ([]Change, error) {
	var out []Change
	err := e.diff("", before, after, &out)
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "compare snapshots: %w", err)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

func (e *Engine) entriesOf(h gitrepo.Hash) ([]gitrepo.TreeEntry, error) {
	if h.IsZero() || h == gitrepo.EmptyTree {
		return nil, nil
	}
	b, err := e.objects.Bytes(h)
	if err != nil {
		return nil, err
	}
	return gitrepo.DecodeTree(b)
}

func (e *Engine) diff(dir string, a, b gitrepo.Hash, out *[]Change) error {
	if a == b {
		return nil
	}
	la, err := e.entriesOf(a)
	if err != nil {
		return err
	}
	lb, err := e.entriesOf(b)
	if err != nil {
		return err
	}
	type pair struct{ a, b gitrepo.TreeEntry }
	byName := map[string]*pair{}
	for _, x := range la {
		byName[x.Name] = &pair{a: x}
	}
	for _, x := range lb {
		if p := byName[x.Name]; p != nil {
			p.b = x
		} else {
			byName[x.Name] = &pair{b: x}
		}
	}
	for name, p := range byName {
		if p.a.Mode == p.b.Mode && p.a.Hash == p.b.Hash {
			continue
		}
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		isDir := func(t gitrepo.TreeEntry) bool { return t.Mode&gitrepo.ModeKind == gitrepo.ModeDir }
		ha, hb := p.a.Hash, p.b.Hash
		var sa, sb State
		if p.a.Mode != 0 && (!isDir(p.a) || ha == gitrepo.EmptyTree) {
			sa = State{p.a.Mode, ha}
		}
		if p.b.Mode != 0 && (!isDir(p.b) || hb == gitrepo.EmptyTree) {
			sb = State{p.b.Mode, hb}
		}
		if !isDir(p.a) {
			ha = gitrepo.Hash{}
		}
		if !isDir(p.b) {
			hb = gitrepo.Hash{}
		}
		// An empty directory that got entries, or lost them all, is no change of its own
		// beyond them, but one that comes or goes is.
		if sa.Dir() && isDir(p.b) || sb.Dir() && isDir(p.a) {
			if sa.Dir() {
				sa = State{}
			}
			if sb.Dir() {
				sb = State{}
			}
		}
		if sa != sb {
			*out = append(*out, Change{path, sa, sb})
		}
		if !ha.IsZero() || !hb.IsZero() {
			if err := e.diff(path, ha, hb, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// Settle makes sure that the store itself holds what restoring these changes needs, so
// that a clean-up of the user's repository can't take it away.
func (e *Engine) Settle(changes []Change) error {
	for _, c := range changes {
		for _, s := range []State{c.Before, c.After} {
			if !s.Exists() || s.Dir() {
				continue
			}
			if err := e.objects.Keep(s.Hash); err != nil {
				return core.Errorf(core.KindFailed, "keep %s: %w", c.Path, err)
			}
		}
	}
	return nil
}

// lock holds the store against pruning (LOCK_SH) or against everybody (LOCK_EX).
func (e *Engine) lock(how int) (func(), error) {
	f, err := os.OpenFile(filepath.Join(e.o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "lock snapshots: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, core.Errorf(core.KindFailed, "lock snapshots: %w", err)
	}
	return func() { f.Close() }, fault.Point("snapshot.locked")
}

// Prune removes the objects that none of the trees in keep needs. It waits for nobody:
// when another process uses the store it does nothing and returns false.
func (e *Engine) Prune(keep []gitrepo.Hash) (removed int, freed int64, done bool, err error) {
	f, err := os.OpenFile(filepath.Join(e.o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, 0, false, core.Errorf(core.KindFailed, "lock snapshots: %w", err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return 0, 0, false, nil
	}
	needed := map[gitrepo.Hash]bool{gitrepo.EmptyTree: true}
	var mark func(h gitrepo.Hash) error
	mark = func(h gitrepo.Hash) error {
		if needed[h] {
			return nil
		}
		needed[h] = true
		list, err := e.entriesOf(h)
		if err != nil {
			return err
		}
		for _, x := range list {
			if x.Mode&gitrepo.ModeKind == gitrepo.ModeDir {
				if err := mark(x.Hash); err != nil {
					return err
				}
			} else {
				needed[x.Hash] = true
			}
		}
		return nil
	}
	for _, h := range keep {
		if err := mark(h); err != nil {
			return 0, 0, false, core.Errorf(core.KindFailed, "prune snapshots: %w", err)
		}
	}
	err = e.objects.Each(func(h gitrepo.Hash, path string) error {
		if !h.IsZero() && needed[h] {
			return nil
		}
		fi, err := os.Lstat(path)
		if err != nil {
			return nil
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		removed++
		freed += fi.Size()
		return nil
	})
	if err != nil {
		return removed, freed, false, core.Errorf(core.KindFailed, "prune snapshots: %w", err)
	}
	// Cached names may be of objects that are gone.
	os.Remove(filepath.Join(e.o.Dir, "stat"))
	e.mu.Lock()
	e.cache = nil
	e.mu.Unlock()
	return removed, freed, true, nil
}

// Size is what the store takes on the disk, in bytes.
func (e *Engine) Size() int64 {
	var n int64
	_ = e.objects.Each(func(_ gitrepo.Hash, path string) error { // a store that can't be listed has no size
		if fi, err := os.Lstat(path); err == nil {
			n += fi.Size()
		}
		return nil
	})
	return n
}
