package outline

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keep is the number of symbols that a cache holds, some 40 MB.
const keep = 200_000

// Stat is what tells one state of a file from another.
type Stat struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // ns
}

// StatOf is the state that a stat call gave.
func StatOf(st *unix.Stat_t) Stat {
	return Stat{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

// Size is the size in bytes.
func (s Stat) Size() int64 { return s.size }

// Cache remembers outlines, and that a file has none, as long as a file's state stays the
// same. It lives in memory, is bounded, and is safe for use by several goroutines.
type Cache struct {
	mu      sync.Mutex
	entries map[string]entry
	held    int
}

type entry struct {
	stat Stat
	file *File
	err  error
}

// NewCache is an empty cache.
func NewCache() *Cache { return &Cache{} }

// Get is what is known of a file in this state. The key is its absolute path.
func (c *Cache) Get(key string, st Stat) (f *File, err error, ok bool) {
	c.mu.Lock()
	e, ok := c.entries[key]
	c.mu.Unlock()
	if !ok || e.stat != st {
		return nil, nil, false
	}
	return e.file, e.err, true
}

// tick is longer than the step of the clock that file times are taken from: a file that
// was changed within it may change again without a trace.
const tick = int64(50 * time.Millisecond)

// Put remembers what Parse gave for a file whose state was st before it was read. A file
// that changed just now is not remembered.
func (c *Cache) Put(key string, st Stat, f *File, err error) {
	if time.Now().UnixNano()-max(st.ctime, st.mtime) < tick {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]entry{}
	}
	if old, ok := c.entries[key]; ok {
		c.held -= old.weight()
	}
	e := entry{st, f, err}
	c.entries[key] = e
	c.held += e.weight()
	for k, v := range c.entries { // any other makes room
		if c.held <= keep {
			break
		}
		if k != key {
			delete(c.entries, k)
			c.held -= v.weight()
		}
	}
}

func (e entry) weight() int {
	if e.file == nil {
		return 2
	}
	return 2 + len(e.file.Symbols)
}
