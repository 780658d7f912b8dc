package workspace

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// WalkOptions say what a walk leaves out beside .git, which it never enters.
type WalkOptions struct {
	NoIgnore bool // do not read ignore files
	Depth    int  // 1: only the entries of the directory itself; 0: no limit
}

// Entry is one entry that a walk met.
type Entry struct {
	// Rel is the path relative to the walked directory, with slashes.
	Rel  string
	Type fs.FileMode // the type bits

	dir  int // open descriptor of the directory that holds it, valid during the call
	name string
}

// Open opens the entry for reading, never through a link. The caller owns the descriptor.
func (e Entry) Open() (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(e.dir, e.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
}

// Readlink is where a link points to.
func (e Entry) Readlink() string {
	b := make([]byte, 4096)
	n, err := unix.Readlinkat(e.dir, e.name, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// Size is the size of the entry in bytes, -1 when it can't be known.
func (e Entry) Size() int64 {
	var st unix.Stat_t
	if err := unix.Fstatat(e.dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1
	}
	return st.Size
}

// WalkStats is what a walk left out.
type WalkStats struct {
	Ignored    int // entries that ignore files name
	Unreadable int // directories that could not be read
}

// Walk visits what lies beneath a directory: files, links and directories, in no order and
// from several goroutines at once, each of which is told by its number (0 up to
// Workers()-1). Links are not followed. Ignored entries are not visited. It ends early
// when ctx is done, with its cause.
func (w *Workspace) Walk(ctx context.Context, p Path, o WalkOptions, visit func(worker int, e Entry)) (WalkStats, error) {
	root, err := openDirAt(p)
	if err != nil {
		return WalkStats{}, fileErr(p, err)
	}
	defer unix.Close(root)

	k := &walker{w: w, o: o, root: root, visit: visit, start: p}
	k.cond.L = &k.mu
	var r *rules
	if !o.NoIgnore {
		r, k.prefix = w.rulesAbove(p)
	}
	k.push(task{dir: ".", rules: r, depth: 1})
	stop := context.AfterFunc(ctx, func() {
		k.mu.Lock()
		k.quit = true
		k.mu.Unlock()
		k.cond.Broadcast()
	})
	defer stop()
	var wg sync.WaitGroup
	for i := range Workers() {
		wg.Go(func() { k.work(i) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return k.stats, context.Cause(ctx)
	}
	return k.stats, nil
}

// Workers is the number of goroutines of a walk.
func Workers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// openDirAt opens a resolved directory without following links.
func openDirAt(p Path) (int, error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if p.rel == "." {
		return retry(func() (int, error) { return unix.Open(p.root, flags, 0) })
	}
	dir, name, err := p.parent(false)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return retry(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

// rulesAbove gathers the ignore rules of the directories from the repository's top down to
// the parent of p. The walk's frame is that top; prefix leads from it to p.
func (w *Workspace) rulesAbove(p Path) (*rules, string) {
	top := p.Abs
	for d := p.Abs; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			top = d
			break
		}
		if d == p.root || d == "/" {
			top = d
			break
		}
	}
	r := frameRules(top)
	prefix, _ := beneath(top, p.Abs)
	if prefix == "." {
		return r, ""
	}
	base := ""
	for {
		if b, err := os.ReadFile(filepath.Join(top, base, ".gitignore")); err == nil {
			r = r.with(base, parseIgnore(b))
		}
		rest := prefix
		if base != "" {
			rest = prefix[len(base)+1:]
		}
		i := indexSlash(rest)
		if i < 0 {
			return r, prefix
		}
		base = filepath.Join(base, rest[:i])
	}
}

func indexSlash(s string) int {
	for i := range len(s) {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

type task struct {
	dir   string // relative to the walked directory
	names []fs.DirEntry
	rules *rules
	depth int
}

type walker struct {
	w      *Workspace
	o      WalkOptions
	start  Path
	root   int
	prefix string
	visit  func(int, Entry)

	mu    sync.Mutex
	cond  sync.Cond
	queue []task
	busy  int
	quit  bool
	stats WalkStats
}

func (k *walker) push(ts ...task) {
	k.mu.Lock()
	k.queue = append(k.queue, ts...)
	k.mu.Unlock()
	if len(ts) > 1 {
		k.cond.Broadcast()
	} else {
		k.cond.Signal()
	}
}

func (k *walker) work(id int) {
	for {
		k.mu.Lock()
		for len(k.queue) == 0 && k.busy > 0 && !k.quit {
			k.cond.Wait()
		}
		if len(k.queue) == 0 || k.quit {
			k.mu.Unlock()
			k.cond.Broadcast()
			return
		}
		t := k.queue[len(k.queue)-1]
		k.queue = k.queue[:len(k.queue)-1]
		k.busy++
		k.mu.Unlock()

		ignored, bad := k.do(id, t)

		k.mu.Lock()
		k.busy--
		k.stats.Ignored += ignored
		k.stats.Unreadable += bad
		idle := k.busy == 0 && len(k.queue) == 0
		k.mu.Unlock()
		if idle {
			k.cond.Broadcast()
		}
	}
}

// batch is the number of entries of one directory that one task visits.
const batch = 256

func (k *walker) do(id int, t task) (ignored, bad int) {
	fd := k.open(t.dir)
	if fd < 0 {
		return 0, 1
	}
	f := os.NewFile(uintptr(fd), t.dir)
	defer f.Close()
	if t.names == nil {
		names, err := f.ReadDir(-1)
		if err != nil && len(names) == 0 {
			return 0, 1
		}
		if !k.o.NoIgnore {
			for _, e := range names {
				if e.Name() == ".gitignore" && e.Type().IsRegular() {
					t.rules = t.rules.with(k.frame(t.dir), k.readIgnore(fd))
				}
			}
		}
		for len(names) > batch {
			k.push(task{t.dir, names[:batch:batch], t.rules, t.depth})
			names = names[batch:]
		}
		t.names = names
	}
	var dirs []task
	for _, e := range t.names {
		name, typ := e.Name(), e.Type()
		if name == ".git" || isTemp(name) {
			continue
		}
		rel := name
		if t.dir != "." {
			rel = t.dir + "/" + name
		}
		if t.rules != nil && t.rules.ignored(k.frame(rel), typ.IsDir()) {
			ignored++
			continue
		}
		if len(k.w.home) > 0 && typ.IsDir() && k.w.inHome(filepath.Join(k.start.Abs, rel)) {
			continue
		}
		k.visit(id, Entry{Rel: rel, Type: typ, dir: fd, name: name})
		if typ.IsDir() && (k.o.Depth == 0 || t.depth < k.o.Depth) {
			dirs = append(dirs, task{dir: rel, rules: t.rules, depth: t.depth + 1})
		}
	}
	if len(dirs) > 0 {
		k.push(dirs...)
	}
	return ignored, bad
}

// frame turns a path of the walk into one of the ignore rules.
func (k *walker) frame(rel string) string {
	switch {
	case k.prefix == "":
		if rel == "." {
			return ""
		}
		return rel
	case rel == ".":
		return k.prefix
	}
	return k.prefix + "/" + rel
}

// open opens a directory of the walk, with no link on the way where the kernel can say so.
func (k *walker) open(rel string) int {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err := retry(func() (int, error) {
		return unix.Openat2(k.root, rel, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	})
	if err == unix.ENOSYS || err == unix.EPERM || err == unix.EAGAIN {
		c := k.start.child(rel)
		fd, err = openDirAt(c)
	}
	if err != nil {
		return -1
	}
	return fd
}

func (k *walker) readIgnore(dir int) []rule {
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, ".gitignore", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), ".gitignore")
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return parseIgnore(b)
}

// Stat is the entry's own state; links are not followed.
func (e Entry) Stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(e.dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}
