package gobuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
)

// Flags is the fixed set of flags as it goes into recipes.
const Flags = "CGO_ENABLED=0 -trimpath -buildvcs=false -ldflags=-s -w"

// Options of Find.
type Options struct {
	// Go is the go command; "" looks it up in PATH and in the usual places.
	Go string
	// Cache is the directory that holds the build cache ("go-build") and the go command's
	// own files. Required.
	Cache string
	// BuildTime bounds vet and build each, default 120 s; WarmTime the first build of the
	// standard library, default 15 min.
	BuildTime, WarmTime time.Duration
	// Memory bounds the data segment of each process in bytes, default 4 GiB.
	Memory uint64
	// Confine changes a go command before it starts, with the directories that it may
	// write to. Nil for none.
	Confine func(cmd *exec.Cmd, write []string) error
}

// Toolchain is a go command that is ready to use. It is safe for use by several
// goroutines.
type Toolchain struct {
	o       Options
	version string
}

// ErrNoGo is returned, wrapped, where there is no usable go command.
var ErrNoGo = errors.New("no go command")

// MinGo is the oldest release that compiles the SDK.
const MinGo = "1.26"

// Find looks for the go command and reads its version, without starting it where its
// VERSION file says it.
func Find(o Options) (*Toolchain, error) {
	if o.BuildTime == 0 {
		o.BuildTime = 120 * time.Second
	}
	if o.WarmTime == 0 {
		o.WarmTime = 15 * time.Minute
	}
	if o.Memory == 0 {
		o.Memory = 4 << 30
	}
	if o.Go == "" {
		for _, p := range []string{"go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go", filepath.Join(os.Getenv("HOME"), "go/bin/go"), "/opt/homebrew/bin/go", "/usr/local/bin/go"} {
			if f, err := exec.LookPath(p); err == nil {
				o.Go = f
				break
			}
		}
	}
	noGo := func(format string, a ...any) error {
		return core.Errorf(core.KindConfig, format+": %w", append(a, ErrNoGo)...).Hint("install Go %s or newer; tools are compiled with it", MinGo)
	}
	if o.Go == "" {
		return nil, noGo("look for go")
	}
	abs, err := filepath.Abs(o.Go)
	if err != nil {
		return nil, noGo("look for %s", o.Go)
	}
	o.Go = abs
	t := &Toolchain{o: o}
	if real, err := filepath.EvalSymlinks(o.Go); err == nil {
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(real)), "VERSION")); err == nil {
			line, _, _ := strings.Cut(string(b), "\n")
			t.version = strings.TrimSpace(line)
		}
	}
	if t.version == "" {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		out, err := t.run(ctx, "", nil, "env", "GOVERSION")
		if err != nil {
			return nil, noGo("ask %s for its version", o.Go)
		}
		t.version = strings.TrimSpace(string(out))
	}
	if !atLeast(t.version, MinGo) {
		return nil, noGo("%s is %s, too old", o.Go, t.version)
	}
	return t, nil
}

func atLeast(version, want string) bool {
	v := strings.TrimPrefix(version, "go")
	if strings.HasPrefix(version, "devel") {
		return true
	}
	num := func(s string, i int) int {
		parts := strings.Split(s, ".")
		if i >= len(parts) {
			return 0
		}
		digits := strings.TrimLeft(parts[i], "0123456789")
		n, err := strconv.Atoi(strings.TrimSuffix(parts[i], digits))
		if err != nil {
			return 0
		}
		return n
	}
	if num(v, 0) != num(want, 0) {
		return num(v, 0) > num(want, 0)
	}
	return num(v, 1) >= num(want, 1)
}

// Version is that of the go command, as "go1.26.8".
func (t *Toolchain) Version() string { return t.version }

// GoMod is the go.mod of a module that this package compiles.
func GoMod(module string) []byte { return []byte("module " + module + "\n\ngo " + MinGo + "\n") }

func (t *Toolchain) buildCache() string { return filepath.Join(t.o.Cache, "go-build") }

// env is the whole environment of the go command.
func (t *Toolchain) env() []string {
	home := filepath.Join(t.o.Cache, "go-home")
	return []string{
		"PATH=" + filepath.Dir(t.o.Go) + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "LANG=C", "TZ=UTC",
		"GOCACHE=" + t.buildCache(), "GOPATH=" + filepath.Join(home, "go"), "GOMODCACHE=" + filepath.Join(home, "go", "pkg", "mod"),
		"GOENV=off", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off", "GO111MODULE=on", "GOVCS=*:off",
		"CGO_ENABLED=0", "TMPDIR=" + filepath.Join(t.o.Cache, "tmp"), "GOTELEMETRY=off",
	}
}

var buildFlags = []string{"-trimpath", "-buildvcs=false"}

const ldflags = "-ldflags=-s -w"

// Vet checks a package and its tests.
func (t *Toolchain) Vet(ctx context.Context, dir, pkg string) error {
	return t.step(ctx, dir, pkg, "vet", "vet", buildFlags...)
}

// Build compiles a program into out.
func (t *Toolchain) Build(ctx context.Context, dir, pkg, out string) error {
	return t.step(ctx, dir, pkg, "build", "build", append([]string{ldflags, "-o", out}, buildFlags...)...)
}

// TestBinary compiles a package's tests into out.
func (t *Toolchain) TestBinary(ctx context.Context, dir, pkg, out string) error {
	return t.step(ctx, dir, pkg, "compile the tests", "test", append([]string{"-c", "-vet=off", ldflags, "-o", out}, buildFlags...)...)
}

// step runs one go command; what it says against the code becomes an *evolve.Refusal.
func (t *Toolchain) step(ctx context.Context, dir, pkg, what, verb string, flags ...string) error {
	bctx, cancel := context.WithTimeoutCause(ctx, t.o.BuildTime, errTime)
	defer cancel()
	out, err := t.run(bctx, filepath.Join(dir, filepath.FromSlash(pkg)), []string{dir}, append(append([]string{verb}, flags...), ".")...)
	if err == nil {
		return nil
	}
	if cerr := context.Cause(ctx); cerr != nil {
		return cerr
	}
	if errors.Is(context.Cause(bctx), errTime) {
		return &evolve.Refusal{Reason: fmt.Sprintf("%s took longer than %s", what, t.o.BuildTime), Transient: true}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return core.Errorf(core.KindFailed, "%s: %w", what, err)
	}
	diags := Diagnostics(string(out), filepath.Base(filepath.FromSlash(pkg)))
	if len(diags) == 0 {
		text := strings.TrimSpace(string(out))
		// No place named: the machine's fault as likely as the code's.
		return &evolve.Refusal{Reason: what + ": " + clip(text, 2000) + exitText(exit), Transient: true,
			Diagnostics: []evolve.Diagnostic{{Message: clip(text, 2000) + exitText(exit)}}}
	}
	reason := "it does not compile"
	if verb == "vet" && strings.Contains(string(out), "\n# [") || verb == "vet" && strings.HasPrefix(string(out), "# [") {
		reason = "go vet found mistakes"
	}
	return &evolve.Refusal{Reason: reason, Diagnostics: diags}
}

var errTime = errors.New("time limit")

func exitText(e *exec.ExitError) string {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf(" (ended by signal %s)", ws.Signal())
	}
	return ""
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func (t *Toolchain) run(ctx context.Context, dir string, write []string, args ...string) ([]byte, error) {
	for _, d := range []string{t.buildCache(), filepath.Join(t.o.Cache, "go-home"), filepath.Join(t.o.Cache, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(t.o.Go, args...)
	cmd.Dir = dir
	cmd.Env = t.env()
	if dir != "" {
		cmd.Env = append(cmd.Env, "PWD="+dir)
	}
	if t.o.Confine != nil {
		write = append([]string{t.buildCache(), filepath.Join(t.o.Cache, "go-home"), filepath.Join(t.o.Cache, "tmp")}, write...)
		if err := t.o.Confine(cmd, write); err != nil {
			return nil, err
		}
	}
	out := &Bounded{Max: 512 << 10}
	cmd.Stdout, cmd.Stderr = out, out
	err := Run(ctx, cmd, Limits{Memory: t.o.Memory, FileSize: 2 << 30})
	return out.Bytes(), err
}

// Limits of a process.
type Limits struct {
	Memory   uint64 // bytes of data segment, 0 for none
	FileSize uint64 // bytes of one file, 0 for none
}

// Run runs cmd to its end in a process group of its own, and ends the group with it: when
// ctx is done, when this process dies (the leader), and when the leader ended. Standard
// input is empty. It returns the cause of ctx when that ended the process.
func Run(ctx context.Context, cmd *exec.Cmd, l Limits) error {
	errs := make(chan error, 1)
	go func() {
		// The kernel's parent-death signal belongs to the thread that starts the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		errs <- run(ctx, cmd, l)
	}()
	return <-errs
}

func run(ctx context.Context, cmd *exec.Cmd, l Limits) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.Stdin = nil
	cmd.WaitDelay = 2 * time.Second
	for try := 0; ; try++ {
		err := cmd.Start()
		if err == nil {
			break
		}
		// A file that was just written is busy while another thread's fork holds it.
		if !errors.Is(err, syscall.ETXTBSY) || try == 50 {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		c := *cmd
		*cmd = exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Stdout: c.Stdout, Stderr: c.Stderr,
			ExtraFiles: c.ExtraFiles, SysProcAttr: c.SysProcAttr, WaitDelay: c.WaitDelay}
	}
	pid := cmd.Process.Pid
	for res, v := range map[int]uint64{unix.RLIMIT_DATA: l.Memory, unix.RLIMIT_FSIZE: l.FileSize} {
		if v > 0 {
			_ = unix.Prlimit(pid, res, &unix.Rlimit{Cur: v, Max: v}, nil) // a process that ended already needs none
		}
	}
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	ended := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-ctx.Done():
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		case <-ended:
		}
	}()
	// While the leader is not collected its id, and so the group's, can't be another's.
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	close(ended)
	<-killed
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	err := cmd.Wait()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return errors.Join(cause, err)
	}
	return err
}

// Bounded is a writer that keeps the first and the last half of Max bytes and counts the
// rest. The zero Max keeps nothing. One goroutine at a time may write.
type Bounded struct {
	Max        int
	head, tail []byte
	dropped    int
}

var _ io.Writer = (*Bounded)(nil)

func (b *Bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.Max/2 - len(b.head); room > 0 {
		k := min(room, len(p))
		b.head = append(b.head, p[:k]...)
		p = p[k:]
	}
	b.tail = append(b.tail, p...)
	// The front is cut off only now and then, so that a flood does not cost its square.
	if over := len(b.tail) - b.Max/2; over > 4096+b.Max/2 {
		b.dropped += over
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
	return n, nil
}

// trim cuts what is too much by now.
func (b *Bounded) trim() {
	if over := len(b.tail) - b.Max/2; over > 0 {
		b.dropped += over
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
}

// Bytes is what was kept, with a line where something is missing.
func (b *Bounded) Bytes() []byte {
	b.trim()
	if b.dropped == 0 {
		return append(bytes.Clone(b.head), b.tail...)
	}
	return fmt.Appendf(nil, "%s\n… %d bytes left out …\n%s", b.head, b.dropped, b.tail)
}

// Dropped is the number of bytes that were not kept.
func (b *Bounded) Dropped() int {
	b.trim()
	return b.dropped
}

var place = regexp.MustCompile(`^(?:vet: )?(?:\./|.*/tools/[a-z0-9_]+/|github\.com/lingjiyidong/lj/tools/[a-z0-9_]+/)?([^\s:/]+\.go):(\d+)(?::(\d+))?: (.*)$`)

// Diagnostics reads what the go command says of a package: lines that name a place, with
// the indented lines after them, at most 40. Its other lines are left out.
func Diagnostics(out, pkg string) []evolve.Diagnostic {
	var list []evolve.Diagnostic
	for line := range strings.SplitSeq(out, "\n") {
		line = strings.TrimRight(line, "\r")
		if strings.HasPrefix(line, "\t") && len(list) > 0 {
			list[len(list)-1].Message += "\n" + strings.TrimSpace(line)
			continue
		}
		m := place.FindStringSubmatch(line)
		if m == nil {
			// "tool.go:5:2: package foo is not in std" has no ./ and matches; what is left:
			// "package x imports y: …", "# …", "too many errors".
			continue
		}
		d := evolve.Diagnostic{File: m[1], Message: strings.ToValidUTF8(m[4], "�")}
		d.Line, _ = strconv.Atoi(m[2])
		d.Column, _ = strconv.Atoi(m[3])
		if len(list) == 40 {
			break
		}
		list = append(list, d)
	}
	return list
}
