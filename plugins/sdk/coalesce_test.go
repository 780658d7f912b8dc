package sdk

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

func frameOf(kind, flags byte, payload string) []byte {
	b := make([]byte, frameHeader, frameHeader+len(payload))
	binary.BigEndian.PutUint32(b, uint32(len(payload))<<8)
	b[frameTypeAt], b[frameFlagsAt], b[8] = kind, flags, 1
	return append(b, payload...)
}

// coalesced gives a coalescer and what arrives at its other end, write by write.
func coalesced(t *testing.T) (net.Conn, context.Context, <-chan int) {
	t.Helper()
	dir := t.TempDir()
	ln, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	c, err := coalescers{ln}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); peer.Close() })
	arrived := make(chan int, 100)
	go func() {
		buf := make([]byte, 1<<20)
		for {
			n, err := peer.Read(buf)
			if err != nil {
				close(arrived)
				return
			}
			arrived <- n
		}
	}()
	return c, withCoalescer(t.Context(), c), arrived
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

func TestAnswerLeavesInOneWrite(t *testing.T) {
	c, ctx, arrived := coalesced(t)
	write := func(b []byte) {
		t.Helper()
		if n, err := c.Write(b); err != nil || n != len(b) {
			t.Fatal(n, err)
		}
	}
	head, data, end := frameOf(frameHeaders, 4, "h"), frameOf(frameData, 0, "data"), frameOf(frameHeaders, 4|flagEndStream, "t")
	whole := len(head) + len(data) + len(end)

	// The timer may cut one answer of many in two.
	inOne := 0
	for range 20 {
		announceEnd(ctx, len(data))
		write(head)
		write(data[:3]) // a frame may come in pieces
		write(data[3:])
		write(end)
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
	write(head)
	if n := next(t, arrived); n != len(head) {
		t.Errorf("%d bytes arrived, not the %d of the header", n, len(head))
	}
	write(data)
	if n := next(t, arrived); n != len(data) {
		t.Errorf("%d bytes arrived, not the %d of the data", n, len(data))
	}
}

func TestAnnouncedEndThatDoesNotCome(t *testing.T) {
	c, ctx, arrived := coalesced(t)
	// The host has reset the stream: its end is never written.
	announceEnd(ctx, 10)
	other := frameOf(frameData, 0, "of another stream")
	for range 3 {
		if _, err := c.Write(other); err != nil {
			t.Fatal(err)
		}
		if n := next(t, arrived); n != len(other) {
			t.Fatalf("%d bytes arrived, want %d", n, len(other))
		}
	}

	// What is held when the connection is closed is written first.
	announceEnd(ctx, 10)
	_, _ = c.Write(other)
	_ = c.Close()
	if n := next(t, arrived); n != len(other) {
		t.Fatalf("%d bytes arrived at the end, want %d", n, len(other))
	}
}

func TestLongAnswersAreNotHeld(t *testing.T) {
	c, ctx, arrived := coalesced(t)
	announceEnd(ctx, holdBytes)
	data := frameOf(frameData, 0, "x")
	_, _ = c.Write(data)
	c.(*coalescer).mu.Lock()
	held := len(c.(*coalescer).held)
	c.(*coalescer).mu.Unlock()
	if held != 0 || next(t, arrived) != len(data) {
		t.Errorf("%d bytes are held", held)
	}
}
