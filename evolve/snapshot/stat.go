package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
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
	index   stat            // of git's index when tracked was read from it
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

// follow reads from git's index, when it is not the one that was read last, which paths git
// tracks. Into an empty cache it also takes the names of unchanged files from there, where
// their bytes are what git stores: no filters, no line end conversion. The index itself is
// only read.
func (c *statCache) follow(project, common string) {
	dir := workGitDir(project)
	var ix unix.Stat_t
	if common == "" || dir == "" || unix.Stat(filepath.Join(dir, "index"), &ix) != nil || statOf(&ix) == c.index {
		return
	}
	seed := c.empty()
	list, err := gitrepo.ReadIndex(dir)
	if err != nil {
		return
	}
	c.index, c.dirty = statOf(&ix), true
	c.tracked = make(map[string]bool, len(list))
	attributes := false
	for _, e := range list {
		c.tracked[e.Path] = true
		attributes = attributes || isAttributes(e.Path)
	}
	if !seed || attributes || filtered(project, common) {
		return
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

func isAttributes(path string) bool {
	return path[strings.LastIndexByte(path, '/')+1:] == ".gitattributes"
}

// filtered says whether git might store other bytes than those of the files: by settings
// or attributes of the repository, the user or the machine. An environment that names
// settings elsewhere counts as such.
func filtered(project, common string) bool {
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_ATTR_SOURCE"} {
		if v := os.Getenv(name); v != "" && v != os.DevNull && v != "0" {
			return true
		}
	}
	work := workGitDir(project)
	configs := []string{filepath.Join(common, "config"), filepath.Join(common, "config.worktree"), filepath.Join(work, "config.worktree"), "/etc/gitconfig"}
	attributes := []string{filepath.Join(common, "info", "attributes"), filepath.Join(work, "info", "attributes"), filepath.Join(project, ".gitattributes"), "/etc/gitattributes"}
	dirs := []string{os.Getenv("XDG_CONFIG_HOME")}
	if home, err := os.UserHomeDir(); err == nil {
		configs = append(configs, filepath.Join(home, ".gitconfig"))
		dirs = append(dirs, filepath.Join(home, ".config"))
	}
	for _, d := range dirs {
		if d != "" {
			configs = append(configs, filepath.Join(d, "git", "config"))
			attributes = append(attributes, filepath.Join(d, "git", "attributes"))
		}
	}
	for _, f := range configs {
		b, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		low := strings.ToLower(string(b))
		if err != nil || strings.Contains(low, "autocrlf") || strings.Contains(low, "attributesfile") || strings.Contains(low, "[include") {
			return true
		}
	}
	for _, f := range attributes {
		if _, err := os.Lstat(f); err == nil {
			return true
		}
	}
	return false
}

// unseed forgets what was taken from git's index.
func (c *statCache) unseed() {
	for p, x := range c.m {
		if x.at == 0 {
			delete(c.m, p)
			c.dirty = true
		}
	}
}

const cacheMagic = "lj-stat-2\n"

// loadCache reads a saved cache; a damaged one is an empty one.
func loadCache(path string) *statCache {
	c := newCache()
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte(cacheMagic)) {
		return c
	}
	rest := b[len(cacheMagic):]
	if len(rest) < statSize+4 {
		return c
	}
	index := readStat(rest)
	n := binary.LittleEndian.Uint32(rest[statSize:])
	rest = rest[statSize+4:]
	m := map[string]cached{}
	const fixed = statSize + 8 + 20 + 1 + 4
	for range n {
		if len(rest) < fixed {
			return c
		}
		var x cached
		le := binary.LittleEndian
		x.stat, x.at = readStat(rest), int64(le.Uint64(rest[statSize:]))
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
	c.m, c.index = m, index
	return c
}

// statSize is the length of a written stat.
const statSize = 4 + 8*4

func readStat(b []byte) stat {
	le := binary.LittleEndian
	return stat{le.Uint32(b), int64(le.Uint64(b[4:])), int64(le.Uint64(b[12:])), int64(le.Uint64(b[20:])), le.Uint64(b[28:])}
}

func appendStat(b []byte, s stat) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, s.mode)
	for _, v := range []uint64{uint64(s.size), uint64(s.mtime), uint64(s.ctime), s.inode} {
		b = le.AppendUint64(b, v)
	}
	return b
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
	buf := le.AppendUint32(appendStat(nil, c.index), uint32(len(c.m)))
	for name, x := range c.m {
		buf = le.AppendUint64(appendStat(buf, x.stat), uint64(x.at))
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
