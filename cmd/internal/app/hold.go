package app

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// holdSession makes this process the only one that adds to a session until Close: two
// would mix their messages, and the one that loads it would answer the calls of the other
// as if it had died. The lock ends with the process, however that ends.
func (a *App) holdSession(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[id] != nil {
		return nil
	}
	dir := filepath.Join(a.Home, "cache", "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return core.Errorf(core.KindConfig, "make %s: %w", dir, err)
	}
	path := filepath.Join(dir, id+".lock")
	for range 100 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return core.Errorf(core.KindConfig, "lock session %s: %w", id, err)
		}
		if err := tryLock(f); err != nil {
			f.Close()
			return core.Errorf(core.KindFailed, "another lj is at work in session %s", id).Hint("wait until it ends, or stop it; lj sessions fork %s goes on beside it in a copy", id)
		}
		// Its last holder removes the file: what was locked must still be it.
		mine, err1 := f.Stat()
		now, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, now) {
			if a.held == nil {
				a.held = map[string]*os.File{}
			}
			a.held[id] = f
			return nil
		}
		f.Close()
	}
	return core.Errorf(core.KindFailed, "the lock of session %s can't be held", id)
}

// lockWait is how long a lock is asked for that somebody holds. Its last holder may be gone
// already: a process that it was just starting shares its open files until it becomes
// another program.
const lockWait = time.Second

// tryLock locks a file for this process alone, or gives the error of the last attempt.
func tryLock(f *os.File) error {
	deadline := time.Now().Add(lockWait)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || err != syscall.EWOULDBLOCK && err != syscall.EINTR || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// unlock frees a lock and closes its file. Closing alone would leave it to whoever shares
// the open file.
func unlock(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing does it, too
	return f.Close()
}
