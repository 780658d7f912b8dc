package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
)

// MaxEdit is the size of the largest file that is read whole and changed, 64 MiB.
const MaxEdit = 64 << 20

// File is one regular file as it was at one moment.
type File struct {
	Path   Path
	Raw    []byte
	Digest string // hex SHA-256 of Raw
	Mode   fs.FileMode
	Links  int // hard links

	stat unix.Stat_t
}

// Digest is the hex SHA-256 of b.
func Digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// ErrTooLarge is returned, wrapped, for a file above the caller's limit.
var ErrTooLarge = errors.New("file is too large")

// ErrChanged is returned, wrapped, when a file was changed by someone else between being
// read and being replaced. Nothing was written.
var ErrChanged = errors.New("file was changed meanwhile")

// OpenFile opens an existing regular file for reading. Links are not followed any more:
// a path that was swapped since it was resolved is refused.
func (w *Workspace) OpenFile(p Path) (*os.File, fs.FileInfo, error) {
	dir, name, err := p.parent(false)
	if err != nil {
		return nil, nil, fileErr(p, err)
	}
	defer unix.Close(dir)
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return nil, nil, fileErr(p, err)
	}
	f := os.NewFile(uintptr(fd), p.Abs)
	fi, err := f.Stat()
	if err == nil && fi.IsDir() {
		err = unix.EISDIR
	} else if err == nil && !fi.Mode().IsRegular() {
		err = errSpecial
	}
	if err != nil {
		f.Close()
		return nil, nil, fileErr(p, err)
	}
	return f, fi, nil
}

var errSpecial = errors.New("not a regular file")

// Read reads a whole file of at most limit bytes.
func (w *Workspace) Read(p Path, limit int64) (*File, error) {
	f, fi, err := w.OpenFile(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi.Size() > limit {
		return nil, core.Errorf(core.KindFailed, "%s has %s: %w", p.Name, Size(fi.Size()), ErrTooLarge)
	}
	out := &File{Path: p, Mode: fi.Mode()}
	if err := unix.Fstat(int(f.Fd()), &out.stat); err != nil {
		return nil, fileErr(p, err)
	}
	out.Links = int(out.stat.Nlink)
	buf := make([]byte, 0, fi.Size()+512)
	for {
		n, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fileErr(p, err)
		}
		if int64(len(buf)) > limit {
			return nil, core.Errorf(core.KindFailed, "%s has more than %s: %w", p.Name, Size(limit), ErrTooLarge)
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
	out.Raw, out.Digest = buf, Digest(buf)
	return out, nil
}

// Create writes a file that does not exist yet, with its parent directories. The new
// file appears whole or not at all; one that someone else made meanwhile is ErrChanged.
// It returns the digest of what was written.
func (w *Workspace) Create(p Path, raw []byte) (string, error) {
	return w.put(p, nil, raw)
}

// Replace writes new content over a file that was read with Read. It is one rename: at
// every moment the old or the new content is there whole. Mode, owner and extended
// attributes are kept; of several hard links only this name changes. A file that is no
// longer the one that was read is ErrChanged.
func (w *Workspace) Replace(f *File, raw []byte) (string, error) {
	return w.put(f.Path, f, raw)
}

func (w *Workspace) put(p Path, old *File, raw []byte) (digest string, err error) {
	if what := w.guarded(p.Abs); what != "" {
		return "", core.Errorf(core.KindDenied, "%s is guarded", p.Name)
	}
	if old != nil && old.Mode.Perm()&0o222 == 0 {
		return "", core.Errorf(core.KindFailed, "%s is read-only", p.Name).Hint("chmod u+w %s first, if it is meant to be changed", p.Name)
	}
	dir, name, err := p.parent(old == nil)
	if err != nil {
		return "", fileErr(p, err)
	}
	defer unix.Close(dir)
	err = w.place(p, dir, name, old, raw, true)
	if errors.Is(err, errNamed) {
		err = w.place(p, dir, name, old, raw, false)
	}
	if err != nil {
		return "", err
	}
	_ = syncDir(dir)
	return Digest(raw), nil
}

// errNamed asks for a second try with a named temporary file.
var errNamed = errors.New("no nameless files here")

// place writes a new file beside the old one and puts it in its place. A nameless file, if
// the file system has them, leaves nothing behind when this process is killed while it
// writes.
func (w *Workspace) place(p Path, dir int, name string, old *File, raw []byte, nameless bool) error {
	perm := uint32(0o666)
	if old != nil {
		perm = 0o600
	}
	tmp := fmt.Sprintf(".lj-%016x.tmp", rand.Uint64())
	fd, err := retry(func() (int, error) {
		if nameless {
			return unix.Openat(dir, ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, perm)
		}
		return unix.Openat(dir, tmp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	})
	if err != nil && nameless {
		return errNamed
	}
	if err != nil {
		if old != nil && (err == unix.EACCES || err == unix.EROFS || err == unix.EPERM) {
			return core.Errorf(core.KindFailed, "%s: cannot make a new file in its directory: %w", p.Name, err)
		}
		return fileErr(p, err)
	}
	f := os.NewFile(uintptr(fd), tmp)
	named := !nameless
	defer func() {
		f.Close()
		if named {
			_ = unix.Unlinkat(dir, tmp, 0)
		}
	}()
	if _, err := f.Write(raw); err != nil {
		return fileErr(p, err)
	}
	if old != nil {
		old.dress(fd)
	}
	if err := f.Sync(); err != nil {
		return fileErr(p, err)
	}
	if err := fault.Point("workspace.rename"); err != nil {
		return fileErr(p, err)
	}
	if old == nil {
		switch {
		case nameless:
			err = linkFD(fd, dir, name)
		default:
			err = unix.Linkat(dir, tmp, dir, name, 0)
			if err != nil && err != unix.EEXIST { // a file system without links
				err = unix.Renameat2(dir, tmp, dir, name, unix.RENAME_NOREPLACE)
			}
		}
		switch {
		case err == unix.EEXIST:
			return core.Errorf(core.KindFailed, "%s exists by now: %w", p.Name, ErrChanged)
		case err != nil && nameless:
			return errNamed
		case err != nil:
			return fileErr(p, err)
		}
		return nil
	}
	if nameless {
		if err := linkFD(fd, dir, tmp); err != nil {
			return errNamed
		}
		named = true
	}
	var now unix.Stat_t
	if err := unix.Fstatat(dir, name, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil || !same(&now, &old.stat) {
		return core.Errorf(core.KindFailed, "%s: %w", p.Name, ErrChanged)
	}
	if err := unix.Renameat(dir, tmp, dir, name); err != nil {
		return fileErr(p, err)
	}
	named = false
	return nil
}

// linkFD gives a nameless file a name.
func linkFD(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// same says whether two looks at a name saw the same file in the same state.
func same(a, b *unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// dress gives the new file what the old one had: owner, attributes, mode. What the user
// may not set is left as it is; then the bits that act in the owner's name go too.
func (f *File) dress(fd int) {
	mode := f.stat.Mode & 0o7777
	if err := unix.Fchown(fd, int(f.stat.Uid), int(f.stat.Gid)); err != nil {
		mode &^= 0o6000
	}
	if old, _, err := (&Workspace{}).OpenFile(f.Path); err == nil {
		copyXattrs(int(old.Fd()), fd)
		old.Close()
	}
	_ = unix.Fchmod(fd, mode)
}

func copyXattrs(from, to int) {
	n, err := unix.Flistxattr(from, nil)
	if err != nil || n == 0 {
		return
	}
	list := make([]byte, n)
	if n, err = unix.Flistxattr(from, list); err != nil {
		return
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		size, err := unix.Fgetxattr(from, name, nil)
		if err != nil {
			continue
		}
		v := make([]byte, size)
		if size, err = unix.Fgetxattr(from, name, v); err == nil {
			_ = unix.Fsetxattr(to, name, v[:size], 0)
		}
	}
}

// MkdirAll makes a directory and its parents and says whether there was anything to make.
func (w *Workspace) MkdirAll(p Path) (made bool, err error) {
	if what := w.guarded(p.Abs); what != "" {
		return false, core.Errorf(core.KindDenied, "%s is guarded", p.Name)
	}
	if p.rel == "." {
		return false, nil
	}
	dir, name, err := p.parent(true)
	if err != nil {
		return false, fileErr(p, err)
	}
	defer unix.Close(dir)
	switch err := unix.Mkdirat(dir, name, 0o777); err {
	case nil:
		_ = syncDir(dir)
		return true, nil
	case unix.EEXIST:
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return false, nil
		}
		return false, core.Errorf(core.KindFailed, "%s exists and is not a directory", p.Name)
	default:
		return false, fileErr(p, err)
	}
}

// Stat looks at a path without following links.
func (w *Workspace) Stat(p Path) (fs.FileInfo, error) {
	fi, err := os.Lstat(p.Abs)
	if err != nil {
		return nil, fileErr(p, err)
	}
	return fi, nil
}

// parent opens the directory that holds p, component by component and never through a
// link, so that nothing swapped in since p was resolved leads outside. With create,
// missing directories are made.
func (p Path) parent(create bool) (fd int, name string, err error) {
	if p.rel == "." {
		return -1, "", unix.EISDIR
	}
	dir, name := filepath.Split(p.rel)
	fd, err = openDir(unix.AT_FDCWD, p.root, 0)
	if err != nil {
		return -1, "", err
	}
	for c := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if c == "" {
			continue
		}
		next, err := openDir(fd, c, unix.O_NOFOLLOW)
		if err == unix.ENOENT && create {
			if err = unix.Mkdirat(fd, c, 0o777); err == nil || err == unix.EEXIST {
				next, err = openDir(fd, c, unix.O_NOFOLLOW)
			}
		}
		unix.Close(fd)
		if err != nil {
			return -1, "", err
		}
		fd = next
	}
	return fd, name, nil
}

func openDir(at int, name string, flags int) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	})
}

func syncDir(pathFD int) error {
	fd, err := unix.Openat(pathFD, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

func retry(f func() (int, error)) (int, error) {
	for {
		fd, err := f()
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// fileErr turns a system error on a path into a sentence that names it.
func fileErr(p Path, err error) error {
	name := p.Name
	err = plain(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return core.Errorf(core.KindNotFound, "%s does not exist: %w", name, err)
	case errors.Is(err, unix.EISDIR):
		return core.Errorf(core.KindFailed, "%s is a directory: %w", name, err)
	case errors.Is(err, unix.ENOTDIR):
		return core.Errorf(core.KindFailed, "%s: a part of the path is not a directory: %w", name, err)
	case errors.Is(err, unix.ELOOP):
		return core.Errorf(core.KindDenied, "%s became a link while it was being used: %w", name, err)
	}
	return core.Errorf(core.KindFailed, "%s: %w", name, err)
}

// Size is n bytes in words for people: "812 bytes", "4.2 KB", "1.0 MB".
func Size(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	case n < 1000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// SweepTemp removes temporary files that a killed process left in a directory: those of
// this package's naming that are older than age. It returns how many it removed.
func (w *Workspace) SweepTemp(p Path, age time.Duration) int {
	entries, err := os.ReadDir(p.Abs)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if !e.Type().IsRegular() || !isTemp(e.Name()) {
			continue
		}
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > age && os.Remove(filepath.Join(p.Abs, e.Name())) == nil {
			n++
		}
	}
	return n
}

// isTemp recognises the names that put gives to its temporary files.
func isTemp(name string) bool {
	s, ok := strings.CutPrefix(name, ".lj-")
	if !ok {
		return false
	}
	s, ok = strings.CutSuffix(s, ".tmp")
	return ok && len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}
