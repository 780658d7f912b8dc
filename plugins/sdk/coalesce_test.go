package sdk

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"testing"
	"time"
)

func frameOf(kind, flags byte, payload string) []byte {
	b := make([]byte, frameHeader, frameHeader+len(payload))
	binary.BigEndian.PutUint32(b, uint32(len(payload))<<8)
	b[frameTypeAt], b[frameFlagsAt], b[8] = kind, flags, 1
	return append(b, payload...)
}

// recorder is a connection that tells the length of each write to it.
type recorder struct {
	net.Conn
	writes chan int
}

func (r recorder) Write(p []byte) (int, error) { r.writes <- len(p); return len(p), nil }
func (r recorder) Close() error                { return nil }

func (r recorder) SetWriteDeadline(time.Time) error { return nil }

type oneConn struct {
	net.Listener
	c net.Conn
}

func (l oneConn) Accept() (net.Conn, error) { return l.c, nil }

// coalesced gives a coalescer and what arrives below it, write by write.
func coalesced(t *testing.T) (net.Conn, context.Context, <-chan int) {
	t.Helper()
	r := recorder{writes: make(chan int, 100)}
	c, err := coalescers{oneConn{c: r}}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c, withCoalescer(t.Context(), c), r.writes
}

func next(t *testing.T, arrived <-chan int) int {
	t.Helper()
	select {
	case n := <-arrived:
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("nothing arrived")
		return 0
	}
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if n, err := c.Write(b); err != nil || n != len(b) {
		t.Fatal(n, err)
	}
}

func TestAnswerLeavesInOneWrite(t *testing.T) {
	c, ctx, arrived := coalesced(t)
	head, data, end := frameOf(frameHeaders, 4, "h"), frameOf(frameData, 0, "data"), frameOf(frameHeaders, 4|flagEndStream, "t")
	whole := len(head) + len(data) + len(end)

	// The timer may cut one answer of many in two.
	inOne := 0
	for range 20 {
		announceEnd(ctx, len(data))
		write(t, c, head)
		write(t, c, data[:3]) // a frame may come in pieces
		write(t, c, data[3:])
		write(t, c, end)
		n := next(t, arrived)
		if n == whole {
			inOne++
		}
		for n < whole {
			n += next(t, arrived)
		}
	}
	if inOne < 10 {
		t.Errorf("%d of 20 answers left in one write", inOne)
	}

	// Without an announcement nothing waits.
	write(t, c, head)
	if n := next(t, arrived); n != len(head) {
		t.Errorf("%d bytes arrived, not the %d of the header", n, len(head))
	}
	write(t, c, data)
	if n := next(t, arrived); n != len(data) {
		t.Errorf("%d bytes arrived, not the %d of the data", n, len(data))
	}
}

func TestAnnouncedEndThatDoesNotCome(t *testing.T) {
	c, ctx, arrived := coalesced(t)
	// The host has reset the stream: its end is never written.
	announceEnd(ctx, 10)
	other := frameOf(frameData, 0, "of another stream")
	for i := range 3 {
		co := c.(*coalescer)
		co.mu.Lock()
		if i > 0 && co.ending != 0 {
			t.Error("still waits for an end that does not come")
		}
		co.mu.Unlock()
		write(t, c, other)
		if n := next(t, arrived); n != len(other) {
			t.Fatalf("%d bytes arrived, want %d", n, len(other))
		}
	}

	// The last answer of a process leaves at once.
	announceEnd(ctx, 10)
	write(t, c, other)
	forgetEnds(ctx)
	write(t, c, other)
	if len(arrived) != 2 {
		t.Fatalf("%d writes, want 2", len(arrived))
	}
	next(t, arrived)
	next(t, arrived)

	// What is held when the connection is closed is written first.
	announceEnd(ctx, 10)
	write(t, c, other)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := next(t, arrived); n != len(other) {
		t.Fatalf("%d bytes arrived at the end, want %d", n, len(other))
	}
}

func TestLongAnswersAreNotHeld(t *testing.T) {
	c, ctx, arrived := coalesced(t)
	announceEnd(ctx, holdBytes)
	data := frameOf(frameData, 0, "x")
	write(t, c, data)
	c.(*coalescer).mu.Lock()
	held := len(c.(*coalescer).held)
	c.(*coalescer).mu.Unlock()
	if held != 0 || next(t, arrived) != len(data) {
		t.Errorf("%d bytes are held", held)
	}
}

// A host that has stopped reading does not keep the connection open.
func TestCloseDoesNotWaitForABlockedWrite(t *testing.T) {
	for _, announced := range []bool{false, true} {
		mine, peer := net.Pipe() // nobody reads from peer
		defer peer.Close()
		c, err := coalescers{oneConn{c: mine}}.Accept()
		if err != nil {
			t.Fatal(err)
		}
		wrote := make(chan error, 1)
		if announced {
			announceEnd(withCoalescer(t.Context(), c), 1)
			write(t, c, frameOf(frameData, 0, "held"))
			wrote <- net.ErrClosed
		} else {
			go func() {
				_, err := c.Write(frameOf(frameData, 0, "x"))
				wrote <- err
			}()
			for co := c.(*coalescer); co.mu.TryLock(); { // until the write has begun
				co.mu.Unlock()
				runtime.Gosched()
			}
		}
		closed := make(chan struct{})
		go func() { _ = c.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Fatalf("announced %v: Close hangs", announced)
		}
		if err := <-wrote; err == nil {
			t.Error("a write that nobody read succeeded")
		}
	}
}
