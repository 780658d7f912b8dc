package bash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawner starts processes from one thread that lives as long as this process: the
// parent-death signal is tied to the thread that forked, not to the process.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		defer close(s.done)
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *spawner) do(f func()) {
	back := make(chan struct{})
	s.work <- func() { f(); close(back) }
	<-back
}

func (s *spawner) close() {
	close(s.work)
	<-s.done
}

// environment is the user's, less what makes a command wait for a person.
func environment(base []string) []string {
	set := []string{
		"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat", "GH_PAGER=cat", "AWS_PAGER=",
		"GIT_EDITOR=echo 'there is no editor here: give the text in the command, as git commit -m TEXT' >&2; false",
		"GIT_SEQUENCE_EDITOR=echo 'there is no editor here' >&2; false",
		"EDITOR=false", "VISUAL=false", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
		"TERM=dumb", "DEBIAN_FRONTEND=noninteractive", "PIP_NO_INPUT=1", "PYTHONUNBUFFERED=1",
	}
	drop := map[string]bool{"BASH_ENV": true, "ENV": true, "COLUMNS": true, "LINES": true, "PROMPT_COMMAND": true, envOwner: true}
	for _, s := range set {
		k, _, _ := strings.Cut(s, "=")
		drop[k] = true
	}
	lang := false
	var out []string
	for _, e := range base {
		k, _, _ := strings.Cut(e, "=")
		if drop[k] {
			continue
		}
		lang = lang || k == "LANG" || k == "LC_ALL" || k == "LC_CTYPE"
		out = append(out, e)
	}
	out = append(out, set...)
	if !lang {
		out = append(out, "LANG=C.UTF-8")
	}
	return out
}

// shell finds the program once.
func shell(want string) (path string, args []string, err error) {
	if want != "" {
		return want, flags(want), nil
	}
	for _, p := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if unix.Access(p, unix.X_OK) == nil {
			return p, flags(p), nil
		}
	}
	if p, err := exec.LookPath("bash"); err == nil {
		return p, flags(p), nil
	}
	if unix.Access("/bin/sh", unix.X_OK) == nil {
		return "/bin/sh", nil, nil
	}
	return "", nil, errors.New("there is no shell: neither bash nor /bin/sh was found")
}

func flags(path string) []string {
	if strings.HasSuffix(path, "bash") {
		return []string{"--noprofile", "--norc"}
	}
	return nil
}

// maxArg is below the kernel's limit for one argument (MAX_ARG_STRLEN, 128 KiB).
const maxArg = 120 << 10

// serial numbers the commands of this process.
var serial atomic.Int64

// start starts the command's shell and what watches it.
func (s *Shell) start(c *command) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("the shell is shutting down")
	}
	if s.spawn == nil {
		subreaper()
		s.spawn = newSpawner()
		s.owner = owner()
		base := s.o.Env
		if base == nil {
			base = os.Environ()
		}
		s.env = environment(base)
	}
	c.marker = fmt.Sprintf("%s=%s.%d", envOwner, s.owner, serial.Add(1))
	s.wg.Add(1)
	s.mu.Unlock()
	if err := s.launch(c); err != nil {
		s.wg.Done()
		return err
	}
	return nil
}

func (s *Shell) launch(c *command) error {
	path, args, err := shell(s.o.Shell)
	if err != nil {
		return err
	}
	if fi, err := os.Stat(c.dir); err != nil || !fi.IsDir() {
		return fmt.Errorf("the working directory %s does not exist", c.dir)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	cmd := exec.Command(path)
	cmd.Args = append([]string{"bash"}, args...)
	var long *os.File
	if len(c.text) <= maxArg {
		cmd.Args = append(cmd.Args, "-c", c.text)
	} else {
		if long, err = memFile(c.text); err != nil {
			r.Close()
			w.Close()
			return err
		}
		cmd.ExtraFiles = []*os.File{long}
		cmd.Args = append(cmd.Args, "/dev/fd/3")
	}
	cmd.Dir = c.dir
	cmd.Env = append(s.env[:len(s.env):len(s.env)], c.marker)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	c.began = c.s.now()
	s.spawn.do(func() { err = cmd.Start() })
	w.Close()
	if long != nil {
		long.Close()
	}
	if err != nil {
		r.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	c.cmd, c.pid, c.pipe = cmd, cmd.Process.Pid, r
	c.exited, c.drained, c.read, c.gone = make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	s.active[c] = true
	closed := s.closed
	s.mu.Unlock()
	go c.follow()
	go c.attend()
	if closed { // Close did not see it
		c.kill()
	}
	return nil
}

// memFile holds a script that is too long for an argument.
func memFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "command")
	if _, err := f.WriteString(text); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("memory file: %w", err)
	}
	return f, nil
}
