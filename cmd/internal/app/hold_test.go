package app

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A lock is free when its holder says so, though a process that is being started still
// shares the open file; and one that such a process holds a little longer is waited for.
func TestLocksAndSharedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	if err := tryLock(f); err != nil {
		t.Fatal(err)
	}
	shared, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(shared)
	if err := unlock(f); err != nil {
		t.Fatal(err)
	}
	g := open()
	if err := syscall.Flock(int(g.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	// g's holder dies; what shares its file goes a moment later.
	late, err := syscall.Dup(int(g.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	time.AfterFunc(20*time.Millisecond, func() { syscall.Close(late) })
	h := open()
	if err := tryLock(h); err != nil {
		t.Errorf("after its holder's end: %v", err)
	}
	if err := unlock(h); err != nil {
		t.Error(err)
	}
}
