package bash

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core/process"
)

// proc is one process as /proc shows it.
type proc struct {
	pid, ppid, pgrp, session int
	start                    uint64 // start time in clock ticks since boot; with pid it names a process for good
	cpu                      uint64 // ticks, reaped children included
	zombie                   bool
}

// readProc reads /proc/PID/stat.
func readProc(pid int) (p proc, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	i := bytes.LastIndexByte(b, ')') // the name may contain anything
	if i < 0 {
		return p, false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return p, false
	}
	num := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
	p = proc{pid: pid, ppid: int(num(1)), pgrp: int(num(2)), session: int(num(3)), start: num(19), zombie: f[0] == "Z" || f[0] == "X"}
	for i := 11; i <= 14; i++ { // utime stime cutime cstime
		p.cpu += num(i)
	}
	return p, true
}

// processes lists all processes that can be seen.
func processes() []proc {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []proc
	for _, n := range names {
		if n[0] < '0' || n[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// ioCount is what a process read and wrote through system calls, its reaped children
// included, the page cache too.
func ioCount(pid int) (read, written uint64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0, 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		k, v, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		n, _ := strconv.ParseUint(v, 10, 64)
		switch k {
		case "rchar":
			read = n
		case "wchar":
			written = n
		}
	}
	return read, written
}

// marked says whether a process was started with this marker in its environment.
func marked(pid int, marker string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return bytes.HasPrefix(b, []byte(marker+"\x00")) || bytes.Contains(b, []byte("\x00"+marker+"\x00"))
}

// adopted lists this process' own children on its main thread, which is where the kernel
// puts orphans of a subreaper.
func adopted() []int {
	pid := strconv.Itoa(os.Getpid())
	b, err := os.ReadFile("/proc/self/task/" + pid + "/children")
	if err != nil {
		return nil
	}
	var out []int
	for f := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// alive says whether any process of a group lives (zombies count until they are reaped).
func alive(pgid int) bool { return unix.Kill(-pgid, 0) == nil || unix.Kill(-pgid, 0) == unix.EPERM }

// reap takes the status of a finished adopted child.
func reap(pid int) bool {
	var st unix.WaitStatus
	n, err := unix.Wait4(pid, &st, unix.WNOHANG, nil)
	return n == pid || err == unix.ECHILD
}

// Owner is the marker by which commands of this process and everything they start can be
// recognised: process id and start time.
func owner() string {
	p, _ := readProc(os.Getpid())
	return strconv.Itoa(p.pid) + "." + strconv.FormatUint(p.start, 10)
}

// envOwner is the environment variable that carries the marker.
const envOwner = "LJ_COMMAND"

// Sweep ends processes that commands of a killed plugin left behind: those whose
// environment names an owner that no longer lives. It sends SIGKILL, waits up to two
// seconds for their end, and returns how many processes it met. It is meant for the host:
// when a bash plugin has died, and at start.
func Sweep() int {
	n, _ := process.End(2*time.Second, func(environ []byte) bool {
		v, ok := process.Value(environ, envOwner)
		parts := strings.Split(v, ".")
		if !ok || len(parts) != 3 {
			return false
		}
		pid, err1 := strconv.Atoi(parts[0])
		start, err2 := strconv.ParseUint(parts[1], 10, 64)
		if err1 != nil || err2 != nil || pid == os.Getpid() {
			return false
		}
		o, lives := readProc(pid)
		return !lives || o.start != start || o.zombie
	})
	return n
}
