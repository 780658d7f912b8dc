package bash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
)

// command is one started shell with everything that it starts.
type command struct {
	s          *Shell
	text, dir  string
	limit      time.Duration // 0: none
	background bool
	id         string // of the job, guarded by s.mu
	marker     string

	cmd   *exec.Cmd
	pid   int
	pipe  *os.File
	began time.Time

	mu   sync.Mutex
	sink core.Sink // nil when nobody takes output (any more)
	out  headTail

	lastOut atomic.Int64 // when output came last, nanoseconds after began

	drained chan struct{} // everything printed before the shell's end has been taken
	last    atomic.Bool   // the reading is to end with what is in the pipe
	read    chan struct{} // the reading has ended
	eof     atomic.Bool
	exited  chan struct{} // the shell has ended, its output is taken, what it left is known
	gone    chan struct{} // no process is left

	procs   sync.Mutex
	tracked map[int]uint64 // processes seen as ours: id and start time
	rest    []proc         // what the shell left behind, set before exited
	waited  atomic.Bool    // the shell's status was taken; its number may be used again
	killed  atomic.Bool
	ended   atomic.Int32 // why a background command with a limit was ended
}

// end is why a wait is over.
type end int

const (
	endExit   end = iota // the shell ended by itself
	endIdle              // no activity for the limit
	endHard              // four times the limit
	endCancel            // the caller gave up
)

func (s *Shell) now() time.Time { return time.Now() }

// follow takes the output until no process holds the pipe any more, or finish is called.
func (c *command) follow() {
	buf := make([]byte, 32<<10)
	done := false
	drained := func() {
		if !done {
			done = true
			close(c.drained)
		}
	}
	defer close(c.read)
	defer drained()
	for {
		n, err := c.pipe.Read(buf)
		c.take(buf[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The shell, or all that it left, has ended: take what is in the pipe, at most
			// its capacity, so that a child that goes on printing holds nobody up.
			_ = c.pipe.SetReadDeadline(time.Time{})
			c.drain(buf)
			drained()
			if c.last.Load() {
				return
			}
		case err != nil:
			c.eof.Store(true)
			return
		}
	}
}

func (c *command) drain(buf []byte) {
	conn, err := c.pipe.SyscallConn()
	if err != nil {
		return
	}
	left := 64 << 10
	_ = conn.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
			left = n
		}
		for left > 0 {
			n, err := unix.Read(int(fd), buf)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				if n == 0 && err == nil {
					c.eof.Store(true)
				}
				return
			}
			left -= n
			c.take(buf[:n])
		}
	})
}

// take passes output on.
func (c *command) take(p []byte) {
	if len(p) == 0 {
		return
	}
	c.lastOut.Store(int64(time.Since(c.began)))
	c.out.Write(p)
	c.mu.Lock()
	if c.sink != nil {
		c.sink.Output(p)
	}
	c.mu.Unlock()
}

// detach ends the use of the sink.
func (c *command) detach() {
	c.mu.Lock()
	if c.sink != nil {
		c.sink = discard{}
	}
	c.mu.Unlock()
}

// discard stands for a sink that existed and is over.
type discard struct{}

func (discard) Progress(string) {}
func (discard) Output([]byte)   {}

// attend waits for the shell, finds out what it left, and watches that to its end.
func (c *command) attend() {
	defer c.s.wg.Done()
	_ = c.cmd.Wait() // the status is in ProcessState
	c.waited.Store(true)
	_ = c.pipe.SetReadDeadline(time.Now())
	<-c.drained
	left := c.leftovers()
	// What is about to end gets a moment: the writers of a process substitution and the like.
	for d := 2 * time.Millisecond; left && d <= 40*time.Millisecond && !c.killed.Load(); d *= 2 {
		time.Sleep(d)
		left = c.leftovers()
	}
	if left {
		c.procs.Lock()
		c.rest = c.members()
		left = len(c.rest) > 0
		c.procs.Unlock()
	}
	if !left {
		c.finish()
	}
	close(c.exited)
	if left {
		c.watch()
		c.finish()
	}
	c.pipe.Close()
	c.s.mu.Lock()
	delete(c.s.active, c)
	c.s.mu.Unlock()
	close(c.gone)
}

// finish takes what the last writers have left in the pipe, which the reader may not have
// come to yet, and ends the reading, also where others hold copies of the pipe.
func (c *command) finish() {
	c.last.Store(true)
	_ = c.pipe.SetReadDeadline(time.Now())
	<-c.read
}

// leftovers is a cheap look whether anything of the command may still run.
func (c *command) leftovers() bool {
	if !c.eof.Load() && !c.atEOF() {
		return true
	}
	if alive(c.pid) {
		return true
	}
	for _, pid := range adopted() {
		if c.s.leader(pid) {
			continue
		}
		p, ok := readProc(pid)
		if !ok {
			continue
		}
		if p.zombie {
			c.s.bury(p)
		} else if p.session == c.pid || marked(pid, c.marker) {
			return true
		}
	}
	return false
}

// atEOF asks the pipe whether anybody can still write into it.
func (c *command) atEOF() bool {
	conn, err := c.pipe.SyscallConn()
	if err != nil {
		return true
	}
	hup := false
	err = conn.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(p, 0)
		hup = p[0].Revents&unix.POLLHUP != 0
	})
	return hup || err != nil
}

// leader says whether a process is a shell that another goroutine waits for.
func (s *Shell) leader(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.active {
		if c.pid == pid {
			return true
		}
	}
	return false
}

// bury reaps a zombie that came to this process as an orphan. Children that other code of
// this process waits for share its session and are left alone.
func (s *Shell) bury(p proc) {
	if own, err := unix.Getsid(0); err != nil || p.session == own || p.ppid != os.Getpid() || s.leader(p.pid) {
		return
	}
	reap(p.pid)
}

// members lists the living processes of the command: its group and session, what descends
// from these, orphans that carry its marker, and whatever was once seen as part of it.
// Zombies that nobody else reaps are reaped. c.procs is held.
func (c *command) members() []proc {
	all := processes()
	self := os.Getpid()
	if c.tracked == nil {
		c.tracked = map[int]uint64{}
	}
	if c.waited.Load() && slices.ContainsFunc(all, func(p proc) bool { return p.pid == c.pid }) {
		// The number is in use again, which it can't be while a process has it as session
		// or group: none of those that have it now is ours.
		all = slices.DeleteFunc(all, func(p proc) bool { return p.session == c.pid || p.pgrp == c.pid })
	}
	in := make(map[int]bool)
	for again := true; again; {
		again = false
		for _, p := range all {
			if in[p.pid] || p.pid == self {
				continue
			}
			start, seen := c.tracked[p.pid]
			switch {
			case p.pid == c.pid, p.session == c.pid, p.pgrp == c.pid:
			case in[p.ppid]:
			case seen && start == p.start:
			case (p.ppid == self || p.ppid == 1) && !p.zombie && !c.s.leader(p.pid) && marked(p.pid, c.marker):
			default:
				continue
			}
			in[p.pid], again = true, true
			c.tracked[p.pid] = p.start
		}
	}
	var out []proc
	for _, p := range all {
		if !in[p.pid] {
			continue
		}
		if p.zombie {
			if p.pid != c.pid {
				c.s.bury(p)
			}
			continue
		}
		out = append(out, p)
	}
	return out
}

// left is what the shell left behind. Valid once exited.
func (c *command) left() []proc {
	c.procs.Lock()
	defer c.procs.Unlock()
	return c.rest
}

// watch waits until what the shell left has ended. Orphans are children of this process,
// so their end is signalled.
func (c *command) watch() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGCHLD)
	defer signal.Stop(ch)
	for {
		c.procs.Lock()
		n := len(c.members())
		c.procs.Unlock()
		if n == 0 {
			return
		}
		t := time.NewTimer(10 * time.Second) // for kernels that gave the orphans to init
		select {
		case <-ch:
		case <-t.C:
		}
		t.Stop()
	}
}

// usage is what the command has consumed so far.
type usage struct {
	cpu           uint64 // ticks of 10 ms
	read, written uint64
}

func (c *command) usage() usage {
	c.procs.Lock()
	defer c.procs.Unlock()
	var u usage
	for _, p := range c.members() {
		u.cpu += p.cpu
		r, w := ioCount(p.pid)
		u.read += r
		u.written += w
	}
	return u
}

// moved says whether the command moved data between two samples: anything written, or
// 256 KiB a second read.
func moved(a, b usage, d time.Duration) bool {
	return grown(a.written, b.written) > 0 ||
		grown(a.read, b.read) >= d.Seconds()*256*1024
}

// computed says whether the command used at least 5 % of one core between two samples. They
// lie one limit apart, not one sampling interval: a loop that looks whether something is
// there and sleeps starts a process now and then, which on a slow machine fills a short
// interval.
func computed(a, b usage, d time.Duration) bool {
	const ticks = 100 // USER_HZ, fixed on Linux
	return grown(a.cpu, b.cpu) >= max(d.Seconds()*ticks*0.05, 2)
}

func grown(a, b uint64) float64 {
	if b <= a {
		return 0
	}
	return float64(b - a)
}

// wait waits for the shell's end, the limit or the caller, whichever is first; when it
// returns for the latter two, no process is left.
func (c *command) wait(ctx context.Context) end {
	var tick <-chan time.Time
	var timer *time.Timer
	if c.limit > 0 {
		timer = time.NewTimer(c.limit / 2)
		defer timer.Stop()
		tick = timer.C
	}
	interval := max(min(c.limit/4, 30*time.Second), 20*time.Millisecond)
	type sample struct {
		at time.Duration // after began
		usage
	}
	// What was used within the last limit. The first one is nothing at all: CPU time counts
	// from the start; what was read and written by then is mostly the start itself.
	samples := []sample{{}}
	active := time.Duration(0) // of the last output or moved data, after began
	for {
		select {
		case <-c.exited:
			return endExit
		case <-ctx.Done():
			c.kill()
			return endCancel
		case <-tick:
		}
		now := time.Since(c.began)
		u := c.usage()
		if last := samples[len(samples)-1]; last.at > 0 && moved(last.usage, u, now-last.at) {
			active = now
		}
		samples = append(samples, sample{now, u})
		for len(samples) > 2 && samples[1].at <= now-c.limit {
			samples = samples[1:]
		}
		active = max(active, time.Duration(c.lastOut.Load()))
		why := endExit
		switch {
		case now >= 4*c.limit:
			why = endHard
		case now-active >= c.limit && !computed(samples[0].usage, u, now-samples[0].at):
			why = endIdle
		}
		if why != endExit {
			select {
			case <-c.exited: // it was just in time
				return endExit
			default:
			}
			c.kill()
			return why
		}
		next := min(interval, 4*c.limit-now)
		if d := active + c.limit - now; d > 0 {
			next = min(next, d)
		}
		timer.Reset(max(next, time.Millisecond))
	}
}

// kill ends everything that belongs to the command: SIGTERM, a grace, SIGKILL until
// nothing is left. It returns when that is so, at the latest a few seconds later.
func (c *command) kill() {
	c.killed.Store(true)
	c.signal(unix.SIGTERM)
	begun := time.Now()
	for d := 2 * time.Millisecond; time.Since(begun) < c.s.grace(); d = min(2*d, 50*time.Millisecond) {
		if c.waitGone(d) {
			return
		}
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if c.signal(unix.SIGKILL) == 0 {
			break
		}
		if c.waitGone(5 * time.Millisecond) {
			return
		}
	}
	_ = c.pipe.SetReadDeadline(time.Now())
	c.waitGone(time.Second)
}

func (c *command) waitGone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.gone:
		return true
	case <-t.C:
		return false
	}
}

// signal sends to every member and returns how many there were.
func (c *command) signal(sig syscall.Signal) int {
	c.procs.Lock()
	defer c.procs.Unlock()
	ms := c.members()
	for _, p := range ms {
		if now, ok := readProc(p.pid); !ok || now.start != p.start {
			continue
		}
		_ = unix.Kill(p.pid, sig)
		if sig == unix.SIGTERM {
			_ = unix.Kill(p.pid, unix.SIGCONT) // a stopped process would never see it
		}
	}
	return len(ms)
}

// exit is the exit status as a shell gives it, nil while the shell runs.
func (c *command) exit() *int {
	select {
	case <-c.exited:
	default:
		return nil
	}
	st, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return nil
	}
	n := st.ExitStatus()
	if st.Signaled() {
		n = 128 + int(st.Signal())
	}
	return &n
}

func (c *command) failed() bool {
	n := c.exit()
	return n == nil || *n != 0
}

// status says how the shell ended.
func (c *command) status() string {
	n := c.exit()
	if n == nil {
		return "running"
	}
	switch st := c.cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case st.Signaled():
		return fmt.Sprintf("killed by signal %d (%s)", st.Signal(), st.Signal())
	case *n == 127:
		return "exit status 127 (command not found)"
	case *n == 126:
		return "exit status 126 (not executable)"
	case *n > 128 && *n < 160:
		return fmt.Sprintf("exit status %d (signal %d, %s)", *n, *n-128, syscall.Signal(*n-128))
	}
	return fmt.Sprintf("exit status %d", *n)
}

// state is a job's state in a list.
func (c *command) state() string {
	select {
	case <-c.gone:
		switch {
		case end(c.ended.Load()) != endExit:
			return "timed out"
		case c.killed.Load():
			return "stopped"
		}
		return "ended, " + c.status()
	default:
	}
	select {
	case <-c.exited:
		return fmt.Sprintf("its shell ended (%s), but left running: %s", c.status(), describe(c.left()))
	default:
	}
	return fmt.Sprintf("running for %s, pid %d", seconds(time.Since(c.began).Round(time.Second)), c.pid)
}
