package sdk

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// What plugins/wire/v1 and hashicorp/go-plugin name; the tests hold them equal.
const (
	protocolVersion = 1
	cookieKey       = "LJ_PLUGIN_COOKIE"
	cookieValue     = "2f1d3c0a-lj-tool"
	envSecret       = "LJ_PLUGIN_SECRET"
	envLifeline     = "LJ_PLUGIN_LIFELINE"
	secretHeader    = "Lj-Secret"
	servicePath     = "/lj.wire.v1.Plugin/"
)

// maxMessage bounds one message from the host, in bytes.
const maxMessage = 64 << 20

// started is what the start of the process left for ServeTools.
var started struct {
	byHost    bool
	secret    string
	socketDir string
	lifeline  int // file descriptor, -1 for none
	out       int // file descriptor of the handshake
}

// In a process that a host started, this runs before the code of the tool does: what the
// tool prints, even in an init function, must not reach the handshake, and neither secret
// nor cookie belong into the environment of the tool's children. In any other process it
// is one look at the environment.
func init() {
	if os.Getenv(cookieKey) != cookieValue {
		return
	}
	s := &started
	s.byHost, s.lifeline = true, -1
	s.secret, s.socketDir = os.Getenv(envSecret), os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	if n, err := strconv.Atoi(os.Getenv(envLifeline)); err == nil && n > 2 {
		s.lifeline = n
		syscall.CloseOnExec(n)
		// The host asked the kernel for SIGKILL when it dies. With a lifeline a milder
		// signal does, and leaves time to take children along. The setting is that of
		// this thread, and init functions run on the first one, as the host's did.
		_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
	}
	for _, kv := range os.Environ() {
		k, _, _ := strings.Cut(kv, "=")
		if k == cookieKey || k == envSecret || k == envLifeline || strings.HasPrefix(k, "PLUGIN_") {
			_ = os.Unsetenv(k)
		}
	}
	out, _, errno := syscall.Syscall(syscall.SYS_FCNTL, 1, syscall.F_DUPFD_CLOEXEC, 3)
	s.out = int(out)
	if errno != 0 {
		s.out = -1
		return
	}
	_ = syscall.Dup3(2, 1, 0)
}

// Serve serves one tool and ends the process; it does not return. It is the whole of a
// tool's main function.
func Serve[In, Out any](name, description string, run func(context.Context, In) (Out, error), opts ...Option) {
	ServeTools(New(name, description, run, opts...))
}

// ServeTools serves several tools from one process and ends it; it does not return. A
// process that no host started says so on standard error and ends with status 2, and so
// does one whose tools are not sound.
func ServeTools(tools ...Tool) {
	os.Exit(serve(tools))
}

func serve(tools []Tool) int {
	byName := make(map[string]Tool, len(tools))
	for _, t := range tools {
		err := t.Err()
		if err == nil && byName[t.d.info.Name].d != nil {
			err = errors.New("two tools of one name")
		}
		if err != nil {
			name := "?"
			if t.d != nil {
				name = t.d.info.Name
			}
			fmt.Fprintf(os.Stderr, "tool %s is not sound: %v\n", name, err)
			return 2
		}
		byName[t.d.info.Name] = t
	}
	if !started.byHost {
		name := "NAME"
		if len(tools) > 0 {
			name = tools[0].d.info.Name
		}
		fmt.Fprintf(os.Stderr, "This is a tool for lj and does nothing by itself. Run it with: lj tools call %s '{…}'\n", name)
		return 2
	}
	s := &server{tools: byName, list: tools, secret: started.secret, running: map[uint64]context.CancelFunc{}}
	if err := s.run(); err != nil {
		fmt.Fprintf(os.Stderr, "serving tools: %v\n", err)
		return 1
	}
	return 0
}

type server struct {
	tools  map[string]Tool
	list   []Tool
	secret string

	mu      sync.Mutex
	running map[uint64]context.CancelFunc
	active  atomic.Int64

	calls      atomic.Int64 // that have ended
	idle       *time.Timer
	idleArmed  atomic.Bool
	callsAtRun int64 // of the last run of idle

	quitOnce sync.Once
	quit     chan struct{}
}

func (s *server) run() error {
	if started.out < 0 {
		return errors.New("no standard output for the handshake")
	}
	dir := started.socketDir
	if dir == "" {
		d, err := os.MkdirTemp("", "lj-tool-")
		if err != nil {
			return err
		}
		dir = d
		defer os.RemoveAll(d)
	}
	path := filepath.Join(dir, "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	s.quit = make(chan struct{})
	s.idle = time.AfterFunc(time.Hour, s.rest)
	s.idle.Stop()

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	gone := make(chan struct{})
	if started.lifeline >= 0 {
		if err := syscall.SetNonblock(started.lifeline, true); err != nil {
			return fmt.Errorf("lifeline: %w", err)
		}
		go func() {
			f := os.NewFile(uintptr(started.lifeline), "lifeline")
			_, _ = f.Read(make([]byte, 1))
			close(gone)
		}()
	}

	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler:     s,
		Protocols:   &protocols,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ConnContext: withCoalescer,
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(coalescers{ln}) }()

	line := "1|" + strconv.Itoa(protocolVersion) + "|unix|" + path + "|grpc|\n"
	if _, err := syscall.Write(started.out, []byte(line)); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	_ = syscall.Close(started.out)

	for {
		select {
		case err := <-served:
			return err
		case <-s.quit:
			s.cancelAll()
			// Let the reply to Shutdown leave: it is the last answer.
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			s.hooks(ctx)
			cancel()
			return nil
		case <-gone:
			s.orphaned()
		case sig := <-signals:
			if sig == syscall.SIGINT {
				continue // meant for the host, which tells us if it means us
			}
			// From the host, whose signals go to the whole group, or from the kernel because
			// the host is dying. The two can't be told apart: its threads die one by one, and
			// the signal comes with the one that started this process.
			s.orphaned()
		}
	}
}

// hooks runs the exit hooks and waits until the running handlers have answered, or ctx.
func (s *server) hooks(ctx context.Context) {
	runExitHooks()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.active.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// restAfter is how long the process must have been idle to return memory.
const restAfter = time.Second

// ended notes the end of a call. A timer set or stopped wakes another thread, which costs
// more than the rest of a small call: one that runs is left alone.
func (s *server) ended() {
	s.calls.Add(1)
	s.active.Add(-1)
	if !s.idleArmed.Swap(true) {
		s.idle.Reset(restAfter)
	}
}

// rest returns memory to the system when no call has run for a while.
func (s *server) rest() {
	n := s.calls.Load()
	if s.active.Load() > 0 || n != s.callsAtRun {
		s.callsAtRun = n
		s.idle.Reset(restAfter)
		return
	}
	s.idleArmed.Store(false)
	debug.FreeOSMemory()
}

// orphaned ends this process and its group: the host is gone, or has given up asking.
func (s *server) orphaned() {
	s.cancelAll()
	runExitHooks()
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	os.Exit(1)
}

func (s *server) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.running {
		cancel()
	}
}

// The gRPC status codes in use.
const (
	codeInvalid         = 3
	codeExhausted       = 8
	codeUnimplemented   = 12
	codeUnauthenticated = 16
)

// ServeHTTP answers one gRPC request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	h["Date"] = nil
	if s.secret != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(secretHeader)), []byte(s.secret)) != 1 {
		fail(w, codeUnauthenticated, "the request does not carry this process's secret")
		return
	}
	switch r.URL.Path {
	case servicePath + "Call":
		s.call(w, r)
	case servicePath + "Describe":
		s.unary(w, r, func([]byte) []byte { return encodeDescribeReply(s.list) })
	case servicePath + "Cancel":
		s.unary(w, r, s.cancelCall)
	case "/grpc.health.v1.Health/Check":
		s.unary(w, r, func([]byte) []byte { return []byte{0x08, 0x01} })
	case "/plugin.GRPCController/Shutdown":
		s.active.Add(1)
		forgetEnds(r.Context())
		s.unary(w, r, func([]byte) []byte { return nil })
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		s.quitOnce.Do(func() { close(s.quit) })
		s.active.Add(-1)
	case "/plugin.GRPCStdio/StreamStdio", "/plugin.GRPCBroker/StartStream":
		// Held open and never used: what the tool prints is on its standard error.
		w.WriteHeader(http.StatusOK)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		<-r.Context().Done()
	default:
		fail(w, codeUnimplemented, "no method "+r.URL.Path)
	}
}

func (s *server) unary(w http.ResponseWriter, r *http.Request, f func([]byte) []byte) {
	msg, code, err := readMessage(r.Body)
	if err != nil {
		fail(w, code, err.Error())
		return
	}
	_, _ = w.Write(frame(f(msg)))
	w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
}

func (s *server) cancelCall(msg []byte) []byte {
	var serial uint64
	_ = fields(msg, func(field, num uint64, _ []byte) {
		if field == 1 {
			serial = num
		}
	})
	s.mu.Lock()
	cancel := s.running[serial]
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	return appendBool(nil, 1, true)
}

func (s *server) call(w http.ResponseWriter, r *http.Request) {
	msg, code, err := readMessage(r.Body)
	if err != nil {
		fail(w, code, err.Error())
		return
	}
	req, err := decodeCallRequest(msg)
	if err != nil {
		fail(w, codeInvalid, err.Error())
		return
	}
	s.active.Add(1)
	defer s.ended()

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if req.deadline > 0 {
		req.info.Deadline = time.UnixMilli(req.deadline)
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, req.info.Deadline)
		defer stop()
	}
	if req.serial != 0 {
		s.mu.Lock()
		s.running[req.serial] = cancel
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.running, req.serial)
			s.mu.Unlock()
		}()
	}

	out := &stream{w: w}
	var res Result
	if t, ok := s.tools[req.tool]; ok {
		res = t.Call(NewContext(ctx, req.info, out), req.args)
	} else {
		res = Errorf("this process has no tool %q", req.tool)
	}
	event := encodeResultEvent(res)
	announceEnd(r.Context(), len(event))
	out.end(event)
	w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
}

// stream is the Sink of a call over the wire.
type stream struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	ended bool
}

// maxChunk bounds one output event, in bytes.
const maxChunk = 256 << 10

func (s *stream) send(field uint64, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	msg := appendTag(make([]byte, 0, len(p)+8), field, 2)
	msg = binary.AppendUvarint(msg, uint64(len(p)))
	msg = append(msg, p...)
	_, _ = s.w.Write(frame(msg))
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (s *stream) Progress(text string) { s.send(1, []byte(strings.ToValidUTF8(text, "\uFFFD"))) }

func (s *stream) Output(p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxChunk)
		s.send(2, p[:n])
		p = p[n:]
	}
}

func (s *stream) end(event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_, _ = s.w.Write(frame(event))
}

// frame is msg with the prefix of a gRPC message.
func frame(msg []byte) []byte {
	b := make([]byte, 5, 5+len(msg))
	binary.BigEndian.PutUint32(b[1:], uint32(len(msg)))
	return append(b, msg...)
}

func readMessage(r io.Reader) (msg []byte, code int, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, codeInvalid, fmt.Errorf("reading a message: %w", err)
	}
	if head[0] != 0 {
		return nil, codeUnimplemented, errors.New("compressed messages are not taken")
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxMessage {
		return nil, codeExhausted, fmt.Errorf("a message of %d bytes; the limit is %d", n, maxMessage)
	}
	msg = make([]byte, n)
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, codeInvalid, fmt.Errorf("reading a message: %w", err)
	}
	return msg, 0, nil
}

func fail(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Grpc-Status", strconv.Itoa(code))
	h.Set("Grpc-Message", url.PathEscape(text))
	w.WriteHeader(http.StatusOK)
}
