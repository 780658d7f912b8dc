// Package process ends processes that are recognised by their environment, and sees them
// gone. It owns the looking through /proc and the care that no reused id is hit. It refuses
// to know what the processes are and why they should end: callers bring the judgement.
//
// It works on Linux; elsewhere there is no /proc to look through, and nothing is found.
package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// End kills with SIGKILL every process, this one and init aside, whose environment, as it
// was when its program began, satisfies match, and whatever such processes start in the
// meantime. It returns when all of them are gone or when limit is over, and says how many
// it met (one that could not be killed in time may count twice) and whether the last look
// found none. Zombies count as gone. Environ holds KEY=value entries, each ended by a NUL.
// It is safe for concurrent use.
func End(limit time.Duration, match func(environ []byte) bool) (killed int, clean bool) {
	deadline := time.Now().Add(limit)
	var since time.Time // of the first look in a row that was unsure and met nothing
	for {
		hit, unsure := round(deadline, match)
		killed += hit
		switch {
		case hit > 0:
			since = time.Time{}
		case !unsure, !since.IsZero() && time.Since(since) > settle:
			return killed, true
		case since.IsZero():
			since = time.Now()
		}
		if !time.Now().Before(deadline) {
			return killed, false
		}
		if hit == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// settle is how long a process may be between two programs. One that shows neither
// arguments nor environment for longer has thrown them away.
const settle = 100 * time.Millisecond

// round kills what it finds in one look and waits for its end. It is unsure when it met a
// process that is between two programs: its environment can't be seen at that moment.
func round(deadline time.Time, match func([]byte) bool) (hit int, unsure bool) {
	d, err := os.Open("/proc")
	if err != nil {
		return 0, false
	}
	names, _ := d.Readdirnames(-1) // what could be read of it is judged
	d.Close()
	var ending []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil {
			continue
		}
		if len(env) == 0 {
			unsure = unsure || between(name)
			continue
		}
		if !match(env) {
			continue
		}
		// Judged again and killed through one handle: the id may have passed to another.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if env, err := os.ReadFile("/proc/" + name + "/environ"); err == nil && (len(env) == 0 && between(name) || match(env)) &&
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			hit++
			ending = append(ending, fd)
			continue
		}
		unix.Close(fd)
	}
	for _, fd := range ending {
		for left := time.Until(deadline); left > 0; left = time.Until(deadline) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
			if n > 0 || err != nil && err != unix.EINTR {
				break
			}
		}
		unix.Close(fd)
	}
	return hit, unsure
}

// between says whether a process without environment is one in execve: neither a kernel
// thread nor a zombie, and its arguments are not there yet either.
func between(pid string) bool {
	if args, err := os.ReadFile("/proc/" + pid + "/cmdline"); err != nil || len(args) > 0 {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name may contain anything
	if len(f) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	const kernelThread, exiting = 0x200000, 0x4 // PF_KTHREAD, PF_EXITING
	return err == nil && flags&(kernelThread|exiting) == 0 && f[0] != "Z" && f[0] != "X"
}

// Value finds a variable in an environment as match gets it.
func Value(environ []byte, key string) (value string, ok bool) {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if v, found := bytes.CutPrefix(entry, []byte(key+"=")); found {
			return string(v), true
		}
	}
	return "", false
}
