package sdk

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// net/http flushes the header of an answer, its data and its trailers one by one: three
// system calls here and three wake-ups of the host for every call. A coalescer lets them
// leave together.

// holdAtMost bounds how long a frame may wait for the end of its answer. It is reached
// only when that end doesn't come, because the host has reset the stream.
const holdAtMost = 25 * time.Millisecond

// holdBytes bounds what waits. Longer answers are not worth holding.
const holdBytes = 16 << 10

// coalescer is a connection that holds what is written while the end of an answer is
// announced, until that end is written.
type coalescer struct {
	net.Conn
	in *bufio.Reader

	mu     sync.Mutex
	ending int // announced ends that have not been written
	held   []byte
	timer  *time.Timer
	armed  bool
	err    error // of a write by expire

	// The frame that is being written.
	head  [frameHeader]byte
	nhead int
	rest  uint32 // bytes of its payload to come
}

// RFC 9113, section 4.1.
const (
	frameHeader    = 9
	frameData      = 0x0
	frameHeaders   = 0x1
	flagEndStream  = 0x1
	frameTypeAt    = 3
	frameFlagsAt   = 4
	frameLengthLen = 3
)

// coalescers makes one of each connection that it accepts.
type coalescers struct{ net.Listener }

func (l coalescers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	co := &coalescer{Conn: c, in: bufio.NewReader(c)}
	co.timer = time.AfterFunc(time.Hour, co.expire)
	co.timer.Stop()
	return co, nil
}

type coalescerKey struct{}

// withCoalescer is an http.Server.ConnContext.
func withCoalescer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, coalescerKey{}, c)
}

// announceEnd says that the handler of ctx is about to write the rest of its answer, of
// about n bytes, and to return.
func announceEnd(ctx context.Context, n int) {
	c, ok := ctx.Value(coalescerKey{}).(*coalescer)
	if !ok || n > holdBytes/2 {
		return
	}
	c.mu.Lock()
	c.ending++
	c.mu.Unlock()
}

// forgetEnds says that the process is about to end: nothing waits any more on the
// connection of ctx.
func forgetEnds(ctx context.Context) {
	if c, ok := ctx.Value(coalescerKey{}).(*coalescer); ok {
		c.expire()
	}
}

func (c *coalescer) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.scan(p)
	if c.ending > 0 && len(c.held)+len(p) <= holdBytes {
		// A timer set or stopped wakes another thread: one that runs is left alone, even
		// if it then cuts an answer in two.
		if !c.armed {
			c.armed = true
			c.timer.Reset(holdAtMost)
		}
		c.held = append(c.held, p...)
		return len(p), nil
	}
	if len(c.held) == 0 {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	if err := c.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is held first, unless the other end does not take it.
func (c *coalescer) Close() error {
	// A write that is under way, maybe blocked, ends with the connection.
	if c.mu.TryLock() {
		c.timer.Stop()
		if len(c.held) > 0 && c.Conn.SetWriteDeadline(time.Now().Add(holdAtMost)) == nil {
			_ = c.flush() // lost with the connection otherwise
		}
		c.mu.Unlock()
	}
	return c.Conn.Close()
}

// expire writes what is held, and waits no more for what was announced.
func (c *coalescer) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	c.ending = 0
	if err := c.flush(); err != nil {
		c.err = err
	}
}

// flush writes what is held. c.mu is held.
func (c *coalescer) flush() error {
	if len(c.held) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return err
}

// scan follows the frames in p and counts the ends of streams. c.mu is held.
func (c *coalescer) scan(p []byte) {
	for len(p) > 0 {
		if c.rest > 0 {
			n := min(len(p), int(c.rest))
			c.rest -= uint32(n)
			p = p[n:]
			continue
		}
		n := copy(c.head[c.nhead:], p)
		c.nhead += n
		p = p[n:]
		if c.nhead < frameHeader {
			return
		}
		c.nhead = 0
		c.rest = binary.BigEndian.Uint32(c.head[:]) >> (32 - 8*frameLengthLen)
		if t := c.head[frameTypeAt]; (t == frameData || t == frameHeaders) && c.head[frameFlagsAt]&flagEndStream != 0 && c.ending > 0 {
			c.ending--
		}
	}
}
