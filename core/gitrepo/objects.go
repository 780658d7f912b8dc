package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's object names
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Hash is the name of a git object (SHA-1). The zero value names none.
type Hash [20]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero says whether h names no object.
func (h Hash) IsZero() bool { return h == Hash{} }

// ParseHash reads what String wrote.
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("object name %q is not 40 hex digits", s)
	}
	copy(h[:], b)
	return h, nil
}

// EmptyTree is the tree without entries.
var EmptyTree = Hash{0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88, 0xfb, 0xee, 0x49, 0x04}

// ErrNoObject is returned for an object that is not there.
var ErrNoObject = errors.New("object not found")

// Objects is a store of git objects in a bare repository of lj's own, with another
// repository behind it that is only read. It is safe for use by several goroutines and
// processes: objects are named by their content and appear whole or not at all.
type Objects struct {
	dir string // the bare repository

	behind string

	mu     sync.Mutex
	made   map[byte]bool
	store  *filesystem.Storage
	own    *filesystem.Storage
	packs  bool      // there are packs in the store itself
	packed time.Time // as of this change of their folder

	git sync.Mutex // held in calls of go-git, whose storage is for one goroutine at a time
}

// OpenObjects opens the store in dir and makes it if there is none. behind is the git
// directory of a repository whose objects count as present, "" for none.
func OpenObjects(dir, behind string) (*Objects, error) {
	for _, d := range []string{"objects/pack", "objects/info", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("make object store: %w", err)
		}
	}
	for name, text := range map[string]string{
		"HEAD":   "ref: refs/heads/none\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return nil, fmt.Errorf("make object store: %w", err)
			}
		}
	}
	return &Objects{dir: dir, behind: behind, made: map[byte]bool{}}, nil
}

// Dir is the bare repository.
func (o *Objects) Dir() string { return o.dir }

func (o *Objects) path(h Hash) string {
	s := h.String()
	return filepath.Join(o.dir, "objects", s[:2], s[2:])
}

// HasOwn says whether the store itself holds an object.
func (o *Objects) HasOwn(h Hash) bool {
	if h == EmptyTree {
		return true
	}
	if _, err := os.Lstat(o.path(h)); err == nil {
		return true
	}
	return o.ownPacks() && o.knows(o.opened(false), h)
}

// ownPacks says whether the store itself holds packs, which lj does not make but somebody's
// git gc does: only then go-git has to be asked.
func (o *Objects) ownPacks() bool {
	dir := filepath.Join(o.dir, "objects", "pack")
	fi, err := os.Stat(dir)
	if err != nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !fi.ModTime().Equal(o.packed) || time.Since(o.packed) < time.Second {
		list, err := os.ReadDir(dir)
		o.packs, o.packed, o.own = err == nil && len(list) > 0, fi.ModTime(), nil
	}
	return o.packs
}

func (o *Objects) knows(s *filesystem.Storage, h Hash) bool {
	o.git.Lock()
	defer o.git.Unlock()
	return s.HasEncodedObject(plumbing.Hash(h)) == nil
}

// Has says whether an object is in the store, or behind it in a pack. A loose object behind
// does not count: nothing may refer to it, and then git's next clean-up removes it.
func (o *Objects) Has(h Hash) bool {
	if o.HasOwn(h) {
		return true
	}
	s := o.opened(true)
	if s == nil {
		return false
	}
	name := h.String()
	if _, err := os.Lstat(filepath.Join(o.behind, "objects", name[:2], name[2:])); err == nil {
		return false
	}
	return o.knows(s, h)
}

// refresh looks at the packs behind again: git may have packed what was loose.
func (o *Objects) refresh() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store = nil
}

// opened is the storage for reading: the own one, or the one behind, nil for none.
func (o *Objects) opened(behind bool) *filesystem.Storage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !behind {
		if o.own == nil {
			o.own = filesystem.NewStorage(osfs.New(o.dir), cache.NewObjectLRU(4<<20))
		}
		return o.own
	}
	if o.store == nil && o.behind != "" {
		o.store = filesystem.NewStorage(osfs.New(o.behind), cache.NewObjectLRU(4<<20))
	}
	return o.store
}

// HashBlob is the name of a blob with this content.
func HashBlob(r io.Reader, size int64) (Hash, error) {
	var h Hash
	d := sha1.New() //nolint:gosec // git's object names
	fmt.Fprintf(d, "blob %d\x00", size)
	n, err := io.Copy(d, r)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes read, %d expected: the file is being changed", n, size)
	}
	if err != nil {
		return h, err
	}
	copy(h[:], d.Sum(nil))
	return h, nil
}

// Put stores an object of a kind ("blob", "tree") and returns its name. One that is there
// already is not written again.
func (o *Objects) Put(kind string, data []byte) (Hash, error) {
	head := fmt.Sprintf("%s %d\x00", kind, len(data))
	d := sha1.New() //nolint:gosec // git's object names
	io.WriteString(d, head)
	d.Write(data)
	var h Hash
	copy(h[:], d.Sum(nil))
	if o.HasOwn(h) {
		return h, nil
	}
	return h, o.write(h, head, bytes.NewReader(data))
}

// PutBlob stores the content of r, size bytes, under its name. The content must be what h
// was made from.
func (o *Objects) PutBlob(h Hash, r io.Reader, size int64) error {
	if o.HasOwn(h) {
		return nil
	}
	return o.write(h, fmt.Sprintf("blob %d\x00", size), r)
}

func (o *Objects) write(h Hash, head string, r io.Reader) error {
	path := o.path(h)
	o.mu.Lock()
	if !o.made[h[0]] {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			o.mu.Unlock()
			return fmt.Errorf("store object: %w", err)
		}
		o.made[h[0]] = true
	}
	o.mu.Unlock()
	f, err := os.CreateTemp(filepath.Dir(path), "tmp_obj_")
	if err != nil {
		return fmt.Errorf("store object: %w", err)
	}
	d := sha1.New() //nolint:gosec // git's object names
	buf := bufio.NewWriterSize(f, 64<<10)
	z, err := zlib.NewWriterLevel(buf, zlib.BestSpeed)
	if err == nil {
		w := io.MultiWriter(z, d)
		if _, err = io.WriteString(w, head); err == nil {
			_, err = io.Copy(w, r)
		}
		err = errors.Join(err, z.Close(), buf.Flush())
	}
	err = errors.Join(err, f.Chmod(0o400), f.Close())
	if err == nil && [20]byte(d.Sum(nil)) != [20]byte(h) {
		err = errors.New("the content changed while it was read")
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("store object %s: %w", h, err)
	}
	return nil
}

// Read opens an object of the store or of the one behind it. The error wraps ErrNoObject
// when there is none.
func (o *Objects) Read(h Hash) (kind string, size int64, body io.ReadCloser, err error) {
	if h == EmptyTree {
		return "tree", 0, io.NopCloser(strings.NewReader("")), nil
	}
	if f, err := os.Open(o.path(h)); err == nil {
		return readLoose(f)
	}
	for again := range 2 {
		for _, s := range []*filesystem.Storage{o.opened(false), o.opened(true)} {
			if s == nil {
				continue
			}
			o.git.Lock()
			obj, err := s.EncodedObject(plumbing.AnyObject, plumbing.Hash(h))
			var r io.ReadCloser
			if err != nil {
				o.git.Unlock()
				continue
			}
			r, err = obj.Reader()
			o.git.Unlock()
			if err != nil {
				return "", 0, nil, fmt.Errorf("read object %s: %w", h, err)
			}
			return obj.Type().String(), obj.Size(), r, nil
		}
		if again == 0 {
			o.refresh()
		}
	}
	return "", 0, nil, fmt.Errorf("%w: %s", ErrNoObject, h)
}

type looseBody struct {
	io.Reader
	z io.Closer
	f io.Closer
}

func (l looseBody) Close() error { return errors.Join(l.z.Close(), l.f.Close()) }

func readLoose(f *os.File) (string, int64, io.ReadCloser, error) {
	bad := func(err error) (string, int64, io.ReadCloser, error) {
		f.Close()
		return "", 0, nil, fmt.Errorf("object %s: %w", filepath.Base(f.Name()), err)
	}
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		return bad(err)
	}
	r := bufio.NewReader(z)
	head, err := r.ReadString(0)
	if err != nil {
		return bad(err)
	}
	kind, num, ok := strings.Cut(strings.TrimSuffix(head, "\x00"), " ")
	size, err := strconv.ParseInt(num, 10, 64)
	if !ok || err != nil {
		return bad(errors.New("damaged header"))
	}
	return kind, size, looseBody{io.LimitReader(r, size), z, f}, nil
}

// Bytes is the whole content of an object.
func (o *Objects) Bytes(h Hash) ([]byte, error) {
	_, size, r, err := o.Read(h)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read object %s: %w", h, err)
	}
	return b, nil
}

// Keep copies an object from behind into the store, so that it stays when the repository
// behind is cleaned up.
func (o *Objects) Keep(h Hash) error {
	if o.HasOwn(h) {
		return nil
	}
	kind, size, r, err := o.Read(h)
	if err != nil {
		return err
	}
	defer r.Close()
	return o.write(h, fmt.Sprintf("%s %d\x00", kind, size), r)
}

// Each calls fn for every loose object of the store with its path.
func (o *Objects) Each(fn func(h Hash, path string) error) error {
	dirs, err := os.ReadDir(filepath.Join(o.dir, "objects"))
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	for _, d := range dirs {
		if len(d.Name()) != 2 || !d.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(o.dir, "objects", d.Name()))
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		for _, f := range files {
			path := filepath.Join(o.dir, "objects", d.Name(), f.Name())
			h, err := ParseHash(d.Name() + f.Name())
			if err != nil {
				h = Hash{} // a leftover of a write that was killed
			}
			if err := fn(h, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// TreeEntry is one entry of a tree. Mode is git's, with the permission bits of files that
// are neither 0644 nor 0755 as they are.
type TreeEntry struct {
	Name string
	Mode uint32
	Hash Hash
}

// The kinds of entry, as in git.
const (
	ModeDir  = 0o040000
	ModeFile = 0o100000
	ModeLink = 0o120000
	ModeKind = 0o170000
)

// EncodeTree is the content of a tree. Entries must be sorted by TreeLess.
func EncodeTree(entries []TreeEntry) []byte {
	n := 0
	for _, e := range entries {
		n += 8 + len(e.Name) + 20
	}
	b := make([]byte, 0, n)
	for _, e := range entries {
		b = strconv.AppendUint(b, uint64(e.Mode), 8)
		b = append(b, ' ')
		b = append(b, e.Name...)
		b = append(b, 0)
		b = append(b, e.Hash[:]...)
	}
	return b
}

// TreeLess is git's order: a directory sorts as if its name ended in a slash.
func TreeLess(a, b TreeEntry) bool { return treeKey(a) < treeKey(b) }

func treeKey(e TreeEntry) string {
	if e.Mode&ModeKind == ModeDir {
		return e.Name + "/"
	}
	return e.Name
}

// DecodeTree reads the content of a tree.
func DecodeTree(b []byte) ([]TreeEntry, error) {
	var out []TreeEntry
	for len(b) > 0 {
		sp := bytes.IndexByte(b, ' ')
		nul := bytes.IndexByte(b, 0)
		if sp < 1 || nul < sp || len(b) < nul+21 {
			return nil, errors.New("damaged tree")
		}
		mode, err := strconv.ParseUint(string(b[:sp]), 8, 32)
		if err != nil {
			return nil, fmt.Errorf("damaged tree: %w", err)
		}
		e := TreeEntry{Name: string(b[sp+1 : nul]), Mode: uint32(mode)}
		copy(e.Hash[:], b[nul+1:])
		out = append(out, e)
		b = b[nul+21:]
	}
	return out, nil
}

// IndexEntry is what git's index knows of one file.
type IndexEntry struct {
	Path             string
	Hash             Hash
	Size             uint32
	Mode             uint32
	MTimeNS, CTimeNS int64
	Inode            uint32
}

// ReadIndex reads a repository's index (versions 2 to 4, gitformat-index). It is read only.
// Entries in conflict, outside a sparse checkout and such that are only announced are left
// out. An index of another kind (split, sparse, of a SHA-256 repository) is an error: the
// caller does without. go-git's decoder does the same at thirty times the cost, which counts
// in a large repository.
func ReadIndex(gitDir string) ([]IndexEntry, error) {
	b, err := os.ReadFile(filepath.Join(gitDir, "index"))
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	out, err := parseIndex(b)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return out, nil
}

var errIndex = errors.New("it is damaged, or of a kind that is not read")

func parseIndex(b []byte) ([]IndexEntry, error) {
	const header, fixed, sum = 12, 62, 20
	be := binary.BigEndian
	if len(b) < header+sum || string(b[:4]) != "DIRC" {
		return nil, errIndex
	}
	version, n := be.Uint32(b[4:]), be.Uint32(b[8:])
	if version < 2 || version > 4 || uint64(n) > uint64(len(b))/fixed {
		return nil, errIndex
	}
	out := make([]IndexEntry, 0, n)
	b = b[header : len(b)-sum]
	var path []byte
	for range n {
		if len(b) < fixed+1 {
			return nil, errIndex
		}
		e := IndexEntry{
			CTimeNS: int64(be.Uint32(b))*1e9 + int64(be.Uint32(b[4:])), MTimeNS: int64(be.Uint32(b[8:]))*1e9 + int64(be.Uint32(b[12:])),
			Inode: be.Uint32(b[20:]), Mode: be.Uint32(b[24:]), Size: be.Uint32(b[36:]), Hash: Hash(b[40:60]),
		}
		flags := be.Uint16(b[60:])
		at, more := fixed, uint16(0)
		if flags&0x4000 != 0 {
			if version < 3 || len(b) < fixed+3 {
				return nil, errIndex
			}
			more = be.Uint16(b[62:])
			at += 2
		}
		if version == 4 {
			cut, size := offset(b[at:])
			if size == 0 || cut > uint64(len(path)) {
				return nil, errIndex
			}
			at += size
			path = path[:uint64(len(path))-cut]
		} else {
			path = path[:0]
		}
		end := bytes.IndexByte(b[at:], 0)
		if end < 0 {
			return nil, errIndex
		}
		path = append(path, b[at:at+end]...)
		at += end + 1
		if version < 4 {
			at = (at - 1 + 8) &^ 7 // one to eight NULs up to a multiple of eight
			if at > len(b) {
				return nil, errIndex
			}
		}
		b = b[at:]
		const stage, intentToAdd, skipWorktree = 0x3000, 0x2000, 0x4000
		if flags&stage == 0 && more&(intentToAdd|skipWorktree) == 0 {
			e.Path = string(path)
			out = append(out, e)
		}
	}
	for len(b) >= 8 {
		if b[0] >= 'a' && b[0] <= 'z' { // an extension that must be understood
			return nil, errIndex
		}
		size := uint64(be.Uint32(b[4:])) + 8
		if size > uint64(len(b)) {
			return nil, errIndex
		}
		b = b[size:]
	}
	if len(b) != 0 {
		return nil, errIndex
	}
	return out, nil
}

// offset reads a number in the form of a pack's offsets: big-endian groups of seven bits,
// each but the last plus one.
func offset(b []byte) (n uint64, size int) {
	for i, c := range b {
		if i == 9 {
			return 0, 0
		}
		n = n<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return n, i + 1
		}
		n++
	}
	return 0, 0
}
