package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core/gitrepo"
)

// stat is what tells that a file has not changed.
type stat struct {
	mode         uint32
	size         int64
	mtime, ctime int64 // ns
	inode        uint64
}

func statOf(s *unix.Stat_t) stat {
	return stat{s.Mode, s.Size, s.Mtim.Nano(), s.Ctim.Nano(), s.Ino}
}

func (s stat) kind() uint32 { return s.mode & unix.S_IFMT }

// gitMode is the mode of a tree entry: links are 0120000, files have their permission
// bits, so that 0600 stays 0600.
func (s stat) gitMode() uint32 {
	if s.kind() == unix.S_IFLNK {
		return gitrepo.ModeLink
	}
	return gitrepo.ModeFile | s.mode&0o777
}

type atomicInt struct{ n atomic.Int64 }

func (a *atomicInt) add() int64 { return a.n.Add(1) }

func nowNS() int64 { return time.Now().UnixNano() }

// racy is how close to its recording a file may have been changed so that a second change
// would not show in its times: they are that coarse on some file systems.
const racy = int64(20 * time.Millisecond)

type cached struct {
	stat
	hash gitrepo.Hash
	at   int64 // when the content was read, ns; 0 for one taken from git's index
}

// statCache remembers the content of files by their stat. An entry that was changed at
// about the time at which it was read is never believed.
type statCache struct {
	m       map[string]cached
	trees   map[string]gitrepo.Hash // content of a tree -> its name
	fresh   map[string]gitrepo.Hash
	tracked map[string]bool // paths that git tracks
	dirty   bool
}

func newCache() *statCache {
	return &statCache{m: map[string]cached{}, trees: map[string]gitrepo.Hash{}, fresh: map[string]gitrepo.Hash{}}
}

func (c *statCache) empty() bool { return len(c.m) == 0 }

func (c *statCache) get(path string, st stat) (gitrepo.Hash, bool) {
	x, ok := c.m[path]
	if !ok || x.stat != st || x.at != 0 && max(st.mtime, st.ctime) > x.at-racy {
		return gitrepo.Hash{}, false
	}
	return x.hash, true
}

func (c *statCache) put(path string, st stat, h gitrepo.Hash, at int64) {
	c.m[path] = cached{st, h, at}
	c.dirty = true
}

func (c *statCache) keepOnly(entries map[string]entry) {
	for p := range c.m {
		if _, ok := entries[p]; !ok {
			delete(c.m, p)
			c.dirty = true
		}
	}
}

// tree returns the name of a tree whose content was seen in the last record without asking
// the disk.
func (c *statCache) tree(raw []byte, put func() (gitrepo.Hash, error)) (gitrepo.Hash, error) {
	if h, ok := c.trees[string(raw)]; ok {
		c.fresh[string(raw)] = h
		return h, nil
	}
	h, err := put()
	if err == nil {
		c.fresh[string(raw)] = h
	}
	return h, err
}

// seed takes the names of unchanged files from git's index, where their bytes are what git
// stores: no filters, no line end conversion. The index itself is only read.
func (c *statCache) seed(project, common string) {
	if common == "" || filtered(project, common) {
		return
	}
	dir := workGitDir(project)
	var ix unix.Stat_t
	if dir == "" || unix.Stat(filepath.Join(dir, "index"), &ix) != nil {
		return
	}
	list, err := gitrepo.ReadIndex(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if base := e.Path[strings.LastIndexByte(e.Path, '/')+1:]; base == ".gitattributes" {
			return
		}
	}
	c.tracked = make(map[string]bool, len(list))
	for _, e := range list {
		c.tracked[e.Path] = true
	}
	for _, e := range list {
		var st unix.Stat_t
		if e.MTimeNS >= ix.Mtim.Nano()-racy || unix.Lstat(filepath.Join(project, e.Path), &st) != nil {
			continue
		}
		s := statOf(&st)
		if s.kind() != unix.S_IFREG && s.kind() != unix.S_IFLNK || uint32(s.size) != e.Size || s.mtime != e.MTimeNS || s.ctime != e.CTimeNS ||
			uint32(s.inode) != e.Inode || s.size >= 1<<32 || (s.kind() == unix.S_IFLNK) != (e.Mode == gitrepo.ModeLink) {
			continue
		}
		c.m[e.Path] = cached{stat: s, hash: e.Hash}
	}
}

// filtered says whether git might store other bytes than those of the files.
func filtered(project, common string) bool {
	files := []string{filepath.Join(common, "config"), "/etc/gitconfig"}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config", "git", "config"))
	}
	if d := os.Getenv("XDG_CONFIG_HOME"); d != "" {
		files = append(files, filepath.Join(d, "git", "config"))
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		low := strings.ToLower(string(b))
		if strings.Contains(low, "autocrlf") || strings.Contains(low, "attributesfile") || strings.Contains(low, "[include") {
			return true
		}
	}
	for _, f := range []string{filepath.Join(common, "info", "attributes"), filepath.Join(project, ".gitattributes")} {
		if _, err := os.Lstat(f); err == nil {
			return true
		}
	}
	return false
}

const cacheMagic = "lj-stat-1\n"

// loadCache reads a saved cache; a damaged one is an empty one.
func loadCache(path string) *statCache {
	c := newCache()
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte(cacheMagic)) {
		return c
	}
	r := bytes.NewReader(b[len(cacheMagic):])
	var n uint32
	if binary.Read(r, binary.LittleEndian, &n) != nil {
		return c
	}
	rest := b[len(b)-r.Len():]
	m := make(map[string]cached, n)
	const fixed = 4 + 8*5 + 20 + 1 + 4
	for range n {
		if len(rest) < fixed {
			return c
		}
		var x cached
		le := binary.LittleEndian
		x.mode = le.Uint32(rest)
		x.size, x.mtime, x.ctime = int64(le.Uint64(rest[4:])), int64(le.Uint64(rest[12:])), int64(le.Uint64(rest[20:]))
		x.inode, x.at = le.Uint64(rest[28:]), int64(le.Uint64(rest[36:]))
		copy(x.hash[:], rest[44:64])
		tracked := rest[64] == 1
		l := int(le.Uint32(rest[65:]))
		rest = rest[fixed:]
		if l > len(rest) {
			return c
		}
		name := string(rest[:l])
		rest = rest[l:]
		m[name] = x
		if tracked {
			if c.tracked == nil {
				c.tracked = map[string]bool{}
			}
			c.tracked[name] = true
		}
	}
	if len(rest) != 0 {
		return newCache()
	}
	c.m = m
	return c
}

// save writes the cache beside the objects. A cache that can't be saved only costs time.
func (c *statCache) save(path string) {
	c.trees, c.fresh = c.fresh, map[string]gitrepo.Hash{}
	if !c.dirty {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), "stat-*")
	if err != nil {
		return
	}
	w := bufio.NewWriterSize(f, 256<<10)
	_, err = io.WriteString(w, cacheMagic)
	le := binary.LittleEndian
	var buf []byte
	buf = le.AppendUint32(buf, uint32(len(c.m)))
	for name, x := range c.m {
		buf = le.AppendUint32(buf, x.mode)
		for _, v := range []uint64{uint64(x.size), uint64(x.mtime), uint64(x.ctime), x.inode, uint64(x.at)} {
			buf = le.AppendUint64(buf, v)
		}
		buf = append(buf, x.hash[:]...)
		t := byte(0)
		if c.tracked[name] {
			t = 1
		}
		buf = append(buf, t)
		buf = le.AppendUint32(buf, uint32(len(name)))
		buf = append(buf, name...)
		if err == nil && len(buf) > 64<<10 {
			_, err = w.Write(buf)
			buf = buf[:0]
		}
	}
	if err == nil {
		_, err = w.Write(buf)
	}
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return
	}
	c.dirty = false
}
