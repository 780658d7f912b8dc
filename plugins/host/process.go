package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
)

const (
	tailBytes  = 64 << 10 // of standard error, kept for a crash
	noiseBytes = 16 << 10 // of standard output before the handshake, kept
	noiseLimit = 1 << 20  // of it, read before giving up
)

// process is one tool process and its group. It is the runner that go-plugin drives, so
// that nothing of how it is started, watched and killed is left to defaults.
type process struct {
	cmd   *exec.Cmd
	dir   string // its socket folder
	run   string // the value of wirev1.EnvRun
	sweep bool   // look for what has left the group

	stderr *tail
	noise  *tail // standard output before the handshake

	hand     *io.PipeReader // the handshake line, for go-plugin
	handW    *io.PipeWriter
	gotHand  chan struct{} // closed with the handshake line
	outputs  sync.WaitGroup
	pipes    [2]*os.File
	exited   chan struct{} // closed when it is gone and its output read
	exitText string        // valid after exited
	strays   int           // descendants that it left behind; valid after exited
	pid      int

	mu     sync.Mutex
	reaped bool
	ended  bool // by end
}

var _ runner.Runner = (*process)(nil)

// launch starts cmd by way of spawn, which runs a function on a thread that outlives the
// process: the kernel's parent-death signal is tied to the thread that forks.
func (p *process) launch(spawn func(func())) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = nil, outW, errW
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.cmd.SysProcAttr.Setpgid = true
	p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err = ErrClosed
	spawn(func() {
		for range 20 {
			// A file that was just written is busy while another thread's fork holds it.
			if err = p.cmd.Start(); !errors.Is(err, syscall.ETXTBSY) {
				return
			}
			time.Sleep(5 * time.Millisecond)
			p.cmd = cloneCmd(p.cmd)
		}
	})
	outW.Close()
	errW.Close()
	if err != nil {
		outR.Close()
		errR.Close()
		return err
	}
	p.mu.Lock()
	p.pid = p.cmd.Process.Pid
	p.mu.Unlock()
	// No core files of tools; a failure here costs nothing but disk.
	_ = unix.Prlimit(p.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	p.pipes = [2]*os.File{outR, errR}
	p.hand, p.handW = io.Pipe()
	p.outputs.Add(2)
	go func() {
		defer p.outputs.Done()
		_, _ = io.Copy(p.stderr, errR)
	}()
	go func() {
		defer p.outputs.Done()
		p.readStdout(outR)
	}()
	go p.reap()
	return nil
}

// readStdout finds the handshake among what the process prints. What comes before is kept
// as noise; what comes after counts as standard error.
func (p *process) readStdout(r io.Reader) {
	br := bufio.NewReaderSize(r, 8<<10)
	read, start := 0, true
	for {
		line, err := br.ReadSlice('\n')
		if start && isHandshake(line) {
			close(p.gotHand)
			_, _ = p.handW.Write(line)
			p.handW.Close()
			_, _ = io.Copy(p.stderr, br)
			return
		}
		read += len(line)
		_, _ = p.noise.Write(line)
		start = len(line) > 0 && line[len(line)-1] == '\n'
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || read > noiseLimit {
			p.handW.Close()
			_, _ = io.Copy(io.Discard, br)
			return
		}
	}
}

// isHandshake recognises "1|1|unix|PATH|grpc|…".
func isHandshake(line []byte) bool {
	parts := strings.Split(strings.TrimSpace(string(line)), "|")
	if len(parts) < 4 || parts[2] != "unix" && parts[2] != "tcp" {
		return false
	}
	_, err1 := strconv.Atoi(parts[0])
	_, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil
}

// reap waits for the process, ends what it left behind and its group, while its id cannot
// be taken by another yet, and then collects it.
func (p *process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if p.sweep {
		p.strays = sweep(p.run)
	}
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	err := p.cmd.Wait()
	// Descendants that got away may hold the pipes open: their output is not waited for.
	read := make(chan struct{})
	go func() {
		p.outputs.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(300 * time.Millisecond):
	}
	p.pipes[0].Close()
	p.pipes[1].Close()
	<-read
	p.exitText = "exit status 0"
	if err != nil {
		p.exitText = err.Error()
	}
	close(p.exited)
}

// signal sends sig to the whole group, unless the process has been collected.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped && p.pid > 0 {
		_ = syscall.Kill(-p.pid, sig)
	}
}

func (p *process) isExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// end asks the group to terminate, kills it after a moment, and returns when the process
// is gone.
func (p *process) end(patience time.Duration) {
	p.mu.Lock()
	p.ended = p.ended || !p.isExited()
	p.mu.Unlock()
	if patience > 0 {
		p.signal(syscall.SIGTERM)
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-p.exited:
			return
		case <-t.C:
		}
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// diedAlone says whether it is gone and end had no part in it.
func (p *process) diedAlone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isExited() && !p.ended
}

// What follows is runner.Runner.

func (p *process) Start(context.Context) error { return nil }

func (p *process) Diagnose(context.Context) string { return "" }

func (p *process) Stdout() io.ReadCloser { return p.hand }

func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (p *process) Name() string { return p.cmd.Path }

func (p *process) ID() string { return strconv.Itoa(p.pid) }

func (p *process) Wait(context.Context) error {
	<-p.exited
	return nil
}

// Kill is called when go-plugin gives up. A process that gave no handshake is mostly
// ending by itself, and how it ends is worth a moment.
func (p *process) Kill(context.Context) error {
	select {
	case <-p.gotHand:
	default:
		t := time.NewTimer(200 * time.Millisecond)
		defer t.Stop()
		select {
		case <-p.exited:
		case <-t.C:
		}
	}
	p.end(0)
	return nil
}

// PluginToHost accepts only a socket in the process's own folder: a tool must not make
// the host connect to another service.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	if network != "unix" || filepath.Dir(filepath.Clean(addr)) != p.dir {
		return "", "", fmt.Errorf("it offers the address %s %s, which is not in its socket folder", network, cut(addr, 200))
	}
	st, err := os.Lstat(addr)
	if err != nil {
		return "", "", err
	}
	if st.Mode().Type() != os.ModeSocket {
		return "", "", fmt.Errorf("%s is not a socket", addr)
	}
	return network, addr, nil
}

func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// started says whether launch got as far as a process.
func (p *process) started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid > 0
}

// cloneCmd is a command that can be started where c could not.
func cloneCmd(c *exec.Cmd) *exec.Cmd {
	return &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout,
		Stderr: c.Stderr, ExtraFiles: c.ExtraFiles, SysProcAttr: c.SysProcAttr}
}
