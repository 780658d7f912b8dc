package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	osprocess "github.com/lingjiyidong/lj/core/process"
	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

// The folders: ROOT/.lock is held while folders come and go; ROOT/hNNN belongs to one
// host, which holds an OS lock on its file "lock" for as long as it lives; ROOT/hNNN/K is
// the socket folder of its K-th process. A folder whose lock can be had is that of a dead
// host, whatever its name or age. No process id is ever written down or believed.

// maxRoot is the longest socket root in bytes: a unix socket path has at most 107, and
// below the root come a host's folder, a process's and a name.
const maxRoot = 107 - len("/h1234567890/123456/plugin1234567890")

// defaultRoot is the socket root when the caller names none that fits.
func defaultRoot() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) && len(d)+3 <= maxRoot {
		if st, err := os.Stat(d); err == nil && st.IsDir() {
			return filepath.Join(d, "lj")
		}
	}
	return filepath.Join("/tmp", "lj-"+strconv.Itoa(os.Geteuid()))
}

// secureDir makes dir for its user alone, or says why it can't be trusted.
func secureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user", dir)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// lockFile opens and locks a file, waiting at most wait. Closing it unlocks.
func lockFile(path string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(wait)
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || !time.Now().Before(deadline) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// claimFolder makes this host's folder below root and locks it.
func claimFolder(root string) (dir string, lock *os.File, err error) {
	if err := secureDir(root); err != nil {
		return "", nil, err
	}
	gate, err := lockFile(filepath.Join(root, ".lock"), 5*time.Second)
	if err != nil {
		return "", nil, err
	}
	defer gate.Close()
	dir, err = os.MkdirTemp(root, "h")
	if err != nil {
		return "", nil, err
	}
	lock, err = lockFile(filepath.Join(dir, "lock"), 0)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// Clean does what New does first: it ends what dead hosts with this socket root left
// behind, returns when that is gone, and removes their folders.
func Clean(socketRoot string) {
	o := Options{SocketRoot: socketRoot}
	o.defaults()
	cleanFolders(o.SocketRoot, 100*time.Millisecond)
}

// cleanFolders removes the folders of dead hosts below root and ends what their processes
// left behind. A root that does not exist or is busy is left alone. wait is how long to ask
// for the lock of each folder: a dead host's may be shared for a moment by a process that it
// was just starting.
func cleanFolders(root string, wait time.Duration) (removed int) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return 0
	}
	found := false
	for _, e := range entries {
		found = found || e.IsDir() && strings.HasPrefix(e.Name(), "h")
	}
	if !found || secureDir(root) != nil {
		return 0
	}
	gate, err := lockFile(filepath.Join(root, ".lock"), wait)
	if err != nil {
		return 0
	}
	defer gate.Close()
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "h") {
			continue
		}
		dir := filepath.Join(root, e.Name())
		lock, err := lockFile(filepath.Join(dir, "lock"), wait)
		if err != nil {
			continue // alive, or gone meanwhile
		}
		sweep(e.Name() + "/")
		if os.RemoveAll(dir) == nil {
			removed++
		}
		lock.Close()
	}
	return removed
}

// sweep kills the processes whose environment says that they descend from the tool
// process run (or, where run ends in a slash, from any of a host), and sees them gone. It
// gives up after two seconds against something that forks faster.
func sweep(run string) (killed int) {
	killed, _ = osprocess.End(2*time.Second, func(environ []byte) bool {
		v, ok := osprocess.Value(environ, wirev1.EnvRun)
		return ok && (v == run || strings.HasSuffix(run, "/") && strings.HasPrefix(v, run))
	})
	return killed
}
