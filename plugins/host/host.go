package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// Options are the limits of a host. The zero value is usable.
type Options struct {
	// SocketRoot is the directory for socket folders, made when missing, for this user
	// alone. It must be short; one that is too long for a unix socket, or "", is replaced
	// by a folder in XDG_RUNTIME_DIR or /tmp.
	SocketRoot string
	// Logger takes one line for a person whenever a tool misbehaves; nil discards.
	Logger io.Writer
	// StartTimeout is how long a process has until it has described itself. Default 8 s.
	StartTimeout time.Duration
	// CallGrace is how long a cancelled call has to end. Default 2 s.
	CallGrace time.Duration
	// StopGrace is how long a process has to end when told to, before signals. Default 2 s.
	StopGrace time.Duration
	// CallTimeout bounds calls to plugins that are not trusted and whose context has no
	// earlier deadline. Default 10 min; negative for none.
	CallTimeout time.Duration
	// MaxText, MaxStructured and MaxImages bound a result, in bytes. Text above is cut,
	// with a note; the others are left out, with a note (see Noter). Default MaxText, 8 MiB,
	// 32 MiB.
	MaxText, MaxStructured, MaxImages int
	// MaxOutput and MaxProgress bound what one call passes to its sink: bytes of output
	// (default 1 GiB) and lines of progress (default 10,000). The rest is dropped.
	MaxOutput, MaxProgress int
	// MaxCrashes in a row within CrashWindow switch a tool off. Default 3 and 10 min.
	MaxCrashes  int
	CrashWindow time.Duration
	// OnCrash is told of each crash, in a goroutine of the host; nil for nobody.
	OnCrash func(CrashError)
	// Clock is the time for the crash window; nil for time.Now.
	Clock func() time.Time
}

// MaxText is the default for the most that one result's text may have, in bytes.
const MaxText = 8 << 20

func (o *Options) defaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.StartTimeout, 8*time.Second)
	def(&o.CallGrace, 2*time.Second)
	def(&o.StopGrace, 2*time.Second)
	def(&o.CallTimeout, 10*time.Minute)
	def(&o.CrashWindow, 10*time.Minute)
	num(&o.MaxText, MaxText)
	num(&o.MaxStructured, 8<<20)
	num(&o.MaxImages, 32<<20)
	num(&o.MaxOutput, 1<<30)
	num(&o.MaxProgress, 10_000)
	num(&o.MaxCrashes, 3)
	if o.Logger == nil {
		o.Logger = io.Discard
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.SocketRoot != "" {
		if abs, err := filepath.Abs(o.SocketRoot); err == nil {
			o.SocketRoot = abs
		}
	}
	if o.SocketRoot == "" || len(o.SocketRoot) > maxRoot {
		o.SocketRoot = defaultRoot()
	}
}

// Command says how a tool process is started.
type Command struct {
	// Name is the plugin's name in messages: the tool's name, or that of a group.
	Name    string
	Version string // "v1.2.3"; goes before what the process says
	Path    string // absolute path of the program
	Args    []string
	// Env is the whole environment, as KEY=value; nil for BaseEnv.
	Env []string
	// Dir is the working directory, "" for the host's.
	Dir string
	// SHA256 is the hex digest that the program's file must have, "" for no check.
	SHA256 string
	// Sandbox rewrites the command before it starts (another program in front, an
	// environment variable); socketDir is the folder in which the process makes its
	// socket. Standard streams, process group, parent-death signal and the first extra
	// file belong to the host.
	Sandbox func(cmd *exec.Cmd, socketDir string) error
	// MemoryLimit bounds the process's data segment and heap in bytes (RLIMIT_DATA), 0 for
	// none. Go programs need 128 MiB or more.
	MemoryLimit uint64
	// Origin is put into the specs of its tools.
	Origin string
	// Trusted marks lj's own programs: only they see ToolRequest.Context and only their
	// ToolResult.Meta is passed on; calls have no default limit; they end their own
	// descendants.
	Trusted bool
	// Specs are the tools as they are known beforehand; then Spec answers without a
	// process. What the process says of its own schema must not narrow them.
	Specs []core.ToolSpec
}

// BaseEnv is the environment that a tool needs to run and that tells it nothing: search
// path, home, language, time zone, temporary folder.
func BaseEnv() []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// Host owns tool processes. Make it with New; end it with Close.
type Host struct {
	opts   Options
	ctx    context.Context // done when closed
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines that own processes

	mu      sync.Mutex
	closed  bool
	plugins map[*Plugin]struct{}
	dir     string // "" until the first process
	lock    *os.File
	life    [2]*os.File // read end, write end
	spawner chan func()
	count   int
	digests map[string]fileState

	logMu sync.Mutex
}

// New makes a host. It starts no process and makes no folder; folders of hosts that are
// dead are removed.
func New(opts Options) (*Host, error) {
	opts.defaults()
	h := &Host{opts: opts, plugins: map[*Plugin]struct{}{}, digests: map[string]fileState{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	cleanFolders(opts.SocketRoot, 0)
	return h, nil
}

// Close ends all processes and returns when they are gone and the folder is removed. It
// lets them end by themselves for as long as ctx and StopGrace allow. The error tells of
// a folder that could not be removed.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.work.Wait()
		return nil
	}
	h.closed = true
	var all []*Plugin
	for p := range h.plugins {
		all = append(all, p)
	}
	h.mu.Unlock()

	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.Stop(ctx) })
	}
	wg.Wait()
	h.cancel()
	h.work.Wait()

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spawner != nil {
		close(h.spawner)
	}
	if h.dir == "" {
		return nil
	}
	h.life[1].Close()
	h.life[0].Close()
	err := os.RemoveAll(h.dir)
	h.lock.Close()
	if err != nil {
		return fmt.Errorf("remove socket folder: %w", err)
	}
	return nil
}

// Plugin makes a plugin of a command. Nothing is started.
func (h *Host) Plugin(c Command) *Plugin {
	p := &Plugin{h: h, cmd: c, streaks: map[string]*streak{}, idle: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(h.ctx)
	p.known = map[string]*described{}
	for _, s := range c.Specs {
		s.Origin = c.Origin
		if c.Version != "" {
			s.Version = c.Version
		}
		p.known[s.Name] = newDescribed(s)
	}
	h.mu.Lock()
	h.plugins[p] = struct{}{}
	if h.closed {
		p.stopped = true
		p.cancel()
	}
	h.mu.Unlock()
	return p
}

func (h *Host) forget(p *Plugin) {
	h.mu.Lock()
	delete(h.plugins, p)
	h.mu.Unlock()
}

// enter counts a goroutine that owns a process, unless the host is closed.
func (h *Host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Add(1)
	return true
}

func (h *Host) logf(format string, a ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, a...), "\n") + "\n"
	h.logMu.Lock()
	defer h.logMu.Unlock()
	_, _ = io.WriteString(h.opts.Logger, line)
}

// ready makes what all processes share, at the first of them, and the folder of the next
// process.
func (h *Host) ready() (dir, run string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return "", "", ErrClosed
	}
	if h.dir == "" {
		dir, lock, err := claimFolder(h.opts.SocketRoot)
		if err != nil {
			return "", "", fmt.Errorf("socket folder: %w", err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			lock.Close()
			os.RemoveAll(dir)
			return "", "", err
		}
		h.dir, h.lock, h.life = dir, lock, [2]*os.File{r, w}
		h.spawner = make(chan func())
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for f := range h.spawner {
				f()
			}
		}()
	}
	h.count++
	run = filepath.Base(h.dir) + "/" + strconv.Itoa(h.count)
	dir = filepath.Join(h.dir, strconv.Itoa(h.count))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("socket folder: %w", err)
	}
	return dir, run, nil
}

// spawn runs f on the thread that stays as long as the host.
func (h *Host) spawn(f func()) {
	done := make(chan struct{})
	h.spawner <- func() { defer close(done); f() }
	<-done
}

type fileState struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
	sum          string
}

// verify compares the file's digest with want. A file that has not changed since it was
// last read is not read again.
func (h *Host) verify(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	now := fileState{dev: sys.Dev, ino: sys.Ino, size: sys.Size, mtime: sys.Mtim, ctime: sys.Ctim}
	h.mu.Lock()
	old, seen := h.digests[path]
	h.mu.Unlock()
	now.sum = old.sum
	if !seen || now != old {
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return err
		}
		now.sum = hex.EncodeToString(sum.Sum(nil))
		h.mu.Lock()
		h.digests[path] = now
		h.mu.Unlock()
	}
	if !strings.EqualFold(now.sum, want) {
		return fmt.Errorf("the file %s was changed: its SHA-256 is %s, not %s", path, now.sum, want)
	}
	return nil
}
