package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest/badtool"
)

func TestMain(m *testing.M) {
	badtool.Main()
	hostMain()
	os.Exit(m.Run())
}

// hostMain makes this binary a host that starts tools, says who they are, and waits to be
// killed.
func hostMain() {
	root := os.Getenv("LJ_TEST_HOST")
	if root == "" {
		return
	}
	h, err := host.New(host.Options{SocketRoot: root})
	if err != nil {
		panic(err)
	}
	for _, mode := range []string{"kit", "plain", "stubborn"} {
		p := h.Plugin(badtool.Command(mode))
		if _, err := p.Describe(context.Background()); err != nil {
			panic(err)
		}
		if mode == "kit" {
			if _, err := p.Tool("fork").Call(context.Background(), core.ToolRequest{Args: json.RawMessage(`{"mark":"` + os.Getenv("LJ_TEST_MARK") + `"}`)}); err != nil {
				panic(err)
			}
		}
		fmt.Println(p.PID())
	}
	fmt.Println("ready")
	select {}
}

type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newHost is a host whose end the test checks: no process and no folder is left.
func newHost(t testing.TB, o host.Options) (*host.Host, *logbook) {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "ljt")
	if err != nil {
		t.Fatal(err)
	}
	log := &logbook{}
	o.SocketRoot, o.Logger = root, log
	h, err := host.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		left, _ := filepath.Glob(root + "/h*")
		if len(left) > 0 {
			t.Errorf("left in the socket root: %v", left)
		}
		if ps := withEnv("LJ_TEST_ROOT=" + root); len(ps) > 0 {
			t.Errorf("processes left: %v", ps)
		}
		os.RemoveAll(root)
	})
	rootOf.Store(h, root)
	return h, log
}

var rootOf sync.Map

// bad is a plugin of a mode whose processes newHost can find.
func bad(h *host.Host, mode string, change ...func(*host.Command)) *host.Plugin {
	root, _ := rootOf.Load(h)
	c := badtool.Command(mode, fmt.Sprintf("LJ_TEST_ROOT=%s", root))
	for _, f := range change {
		f(&c)
	}
	return h.Plugin(c)
}

// withEnv lists living processes whose environment holds the entry.
func withEnv(entry string) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range list {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(append([]byte{0}, b...), []byte("\x00"+entry+"\x00")) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(b, ')')
	return i > 0 && i+2 < len(b) && b[i+2] != 'Z' && b[i+2] != 'X'
}

// eventually polls until ok or the limit is over.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-tick.C
	}
}

func call(t testing.TB, p *host.Plugin, name, args string) core.ToolResult {
	t.Helper()
	res, err := p.Tool(name).Call(t.Context(), core.ToolRequest{CallID: "c1", Args: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func wantText(t testing.TB, res core.ToolResult, isError bool, parts ...string) {
	t.Helper()
	if res.IsError != isError {
		t.Errorf("IsError = %v: %s", res.IsError, res.Text)
	}
	for _, p := range parts {
		if !strings.Contains(res.Text, p) {
			t.Errorf("the text lacks %q:\n%s", p, res.Text)
		}
	}
}

func TestCall(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	for _, mode := range []string{"kit", "plain"} {
		t.Run(mode, func(t *testing.T) {
			p := bad(h, mode)
			specs, err := p.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s := specs[0]
			if s.Version != "v1.0.0" || s.Origin != core.OriginToolkit || s.Description == "" || !json.Valid(s.Schema) {
				t.Errorf("spec = %+v", s)
			}
			if mode == "kit" && (!s.ReadOnly || !s.Idempotent || s.Destructive) {
				t.Errorf("annotations of %+v", s)
			}
			wantText(t, call(t, p, s.Name, `{"text":"茶"}`), false, "茶")
			pid := p.PID()
			wantText(t, call(t, p, s.Name, `{"text":"again"}`), false, "again")
			if p.PID() != pid || p.State() != host.StateLive {
				t.Errorf("the process was not kept: %d, %d, %s", pid, p.PID(), p.State())
			}
		})
	}
}

func TestResultKinds(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	res := call(t, p, "sum", `{"numbers":[1,2.5]}`)
	if res.Text != `{"sum":3.5}` || string(res.Structured) != `{"sum":3.5}` {
		t.Errorf("%s, %s", res.Text, res.Structured)
	}
	wantText(t, call(t, p, "fail", ``), true, "no such tea")
	res = call(t, p, "picture", `{}`)
	if len(res.Images) != 1 || res.Images[0].MIME != "image/png" || string(res.Structured) != `{"w":1}` {
		t.Errorf("%+v", res)
	}
	wantText(t, call(t, p, "nothing_like_it", `{}`), true, "offers no tool")
}

func TestContextAndMetaAreForTrustedTools(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	for _, trusted := range []bool{false, true} {
		p := bad(h, "kit", func(c *host.Command) { c.Trusted = trusted })
		res, err := p.Tool("call").Call(t.Context(), core.ToolRequest{
			CallID: "c7", Key: "k", Project: "/tmp/\xb2\xe8", AddDirs: []string{"/x"}, Context: json.RawMessage(`{"a":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, res, false, "id=c7 key=k project=/tmp/", `add=["/x"]`)
		if got := strings.Contains(res.Text, `{"a":1}`); got != trusted {
			t.Errorf("trusted %v: context passed: %v", trusted, got)
		}
		if got := res.Meta != nil; got != trusted {
			t.Errorf("trusted %v: meta passed: %v", trusted, got)
		}
	}
}

type sink struct {
	mu       sync.Mutex
	lines    []string
	bytes    int
	onLine   func(string)
	progress chan struct{}
}

func (s *sink) Progress(text string) {
	s.mu.Lock()
	s.lines = append(s.lines, text)
	f := s.onLine
	s.mu.Unlock()
	if f != nil {
		f(text)
	}
}

func (s *sink) Output(p []byte) {
	s.mu.Lock()
	s.bytes += len(p)
	s.mu.Unlock()
}

func TestFloodsAreBounded(t *testing.T) {
	h, _ := newHost(t, host.Options{MaxOutput: 1 << 20, MaxProgress: 10, MaxText: 1 << 20})
	p := bad(h, "kit")
	s := &sink{}
	res, err := p.Tool("talk").Call(t.Context(), core.ToolRequest{Args: json.RawMessage(`{"lines":1000,"bytes":3000000}`), Sink: s})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, res, false, "done")
	if len(s.lines) != 10 || s.bytes != 1<<20 {
		t.Errorf("%d lines, %d bytes", len(s.lines), s.bytes)
	}
	res = call(t, p, "big", `{"bytes":5000001,"unit":"茶"}`)
	wantText(t, res, false, "[text cut: 1.0 MiB of 4.8 MiB shown]")
	if len(res.Text) > 1<<20+100 || strings.Contains(res.Text, "\uFFFD") {
		t.Errorf("%d bytes", len(res.Text))
	}
	// More than a message may have.
	wantText(t, call(t, p, "big", `{"bytes":70000000}`), true, "size")
	// Standard error is read on, whatever its amount.
	wantText(t, call(t, p, "flood", `{"bytes":20000000}`), false, "flooded")
	if n := len(p.Stderr()); n > 64<<10 {
		t.Errorf("kept %d bytes of standard error", n)
	}
	wantText(t, call(t, p, "print", `{}`), false, "printed")
	eventually(t, 5*time.Second, "prints are kept", func() bool {
		return strings.Contains(p.Stderr(), "on stdout") && strings.Contains(p.Stderr(), "on stderr")
	})
}

func TestArgumentsAreJudgedBeforeTheCall(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	for _, mode := range []string{"plain", "kit"} {
		p := bad(h, mode)
		name := map[string]string{"plain": "plain", "kit": "echo"}[mode]
		wantText(t, call(t, p, name, `{}`), true, `"text" is missing`, `"type":"object"`)
		wantText(t, call(t, p, name, `{"text":"a","tetx":1}`), true, `"tetx" is unknown; did you mean "text"?`)
		wantText(t, call(t, p, name, `{"text":1}`), true, "text", "string")
		wantText(t, call(t, p, name, `[1]`), true, "not a JSON object")
		wantText(t, call(t, p, name, `{"text"`), true, "not JSON")
	}
	p := bad(h, "kit")
	wantText(t, call(t, p, "echo", `{"text":"a","n":null}`), false, "a")
	wantText(t, call(t, p, "echo", `{"text":"a","n":0}`), true, "n")
	// With specs known beforehand not even a process is started.
	p = bad(h, "single", func(c *host.Command) {
		c.Specs = []core.ToolSpec{{Name: "single", Description: "x", Schema: json.RawMessage(`{"type":"object","required":["text"]}`)}}
	})
	wantText(t, call(t, p, "single", `{}`), true, "missing")
	if p.State() != host.StateIdle {
		t.Errorf("state %s", p.State())
	}
	if s := p.Tool("single").Spec(); s.Version != "v1.0.0" || s.Description != "x" {
		t.Errorf("%+v", s)
	}
}

// Case 068.
func TestEnvironmentIsAllowListed(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	res := call(t, p, "env", `{}`)
	for _, bad := range []string{"sk-secret", "OPENAI", "LJ_PLUGIN_SECRET", "LJ_PLUGIN_COOKIE", "PLUGIN_UNIX_SOCKET_DIR"} {
		if strings.Contains(res.Text, bad) {
			t.Errorf("the tool sees %s", bad)
		}
	}
	p = bad(h, "kit", func(c *host.Command) { c.Env = append(c.Env, "GRANTED=yes") })
	wantText(t, call(t, p, "env", `{}`), false, "GRANTED=yes")
}

// Case 092.
func TestStartIsBoundedAndReported(t *testing.T) {
	h, log := newHost(t, host.Options{StartTimeout: time.Second})
	for mode, parts := range map[string][]string{
		"hang":      {"no handshake within 1s", "waiting for nothing"},
		"exit":      {"ended before the handshake (exit status 3)", "no configuration found"},
		"printing":  {"not a handshake", "ended before the handshake"},
		"crashed":   {"panic: crash at start"},
		"elsewhere": {"not in its socket folder"},
		"mute":      {"none"},
		"endless":   {"no handshake"},
		"empty":     {"offers no tool"},
	} {
		t.Run(mode, func(t *testing.T) {
			wantText(t, call(t, bad(h, mode), mode, `{"text":"x"}`), true, append(parts, "could not be started")...)
		})
	}
	t.Run("not there", func(t *testing.T) {
		p := bad(h, "kit", func(c *host.Command) { c.Path = "/nonexistent/tool" })
		wantText(t, call(t, p, "echo", `{"text":"x"}`), true, "/nonexistent/tool is not there")
	})
	t.Run("noise", func(t *testing.T) {
		p := bad(h, "noise")
		wantText(t, call(t, p, "noise", `{"text":"works"}`), false, "works")
		if !strings.Contains(p.Noise(), "hello from init") || !strings.Contains(log.String(), "hello from init") {
			t.Errorf("noise %q, log %q", p.Noise(), log.String())
		}
	})
	t.Run("fine", func(t *testing.T) {
		wantText(t, call(t, bad(h, "kit"), "echo", `{"text":"fine"}`), false, "fine")
	})
}

func TestStartFailuresSwitchOff(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "exit")
	for range 3 {
		wantText(t, call(t, p, "exit", `{}`), true, "ended before the handshake")
	}
	wantText(t, call(t, p, "exit", `{}`), true, "switched off after 3 failed starts", "no configuration found")
	if p.State() != host.StateDisabled {
		t.Errorf("state %s", p.State())
	}
	p.Enable()
	wantText(t, call(t, p, "exit", `{}`), true, "ended before the handshake")
}

func TestLyingDescriptions(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "liar")
	specs, err := p.Describe(t.Context())
	if len(specs) != 1 || specs[0].Name != "honest" {
		t.Errorf("sound: %v", specs)
	}
	var b *host.BrokenError
	if !errors.As(err, &b) {
		t.Fatalf("err = %v", err)
	}
	for _, name := range []string{"list", "nothing", "text", "wrong", "remote", "pattern", "version", "twice", "silent", "Bad/Name"} {
		wantText(t, call(t, p, name, `{}`), true, "is broken")
	}
	wantText(t, call(t, p, "honest", `{"text":"hi"}`), false, "hi")
}

// Case 094.
func TestCrashIsAResultAndRepeatedCrashesSwitchOff(t *testing.T) {
	for _, c := range []struct {
		mode, tool string
		parts      []string
	}{
		{"plain", "plain", []string{"crashed during this call (exit status 2)", "panic: plain boom"}},
		{"kit", "die", []string{"crashed during this call (exit status 2)", "panic: the bottom fell out", "v1.0.0"}},
		{"kit", "boom", []string{"panicked in this call", "assignment to entry in nil map", "badtool.go:"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			h, log := newHost(t, host.Options{})
			p := bad(h, c.mode)
			ok, boom := `{"text":"hi"}`, `{"text":"boom"}`
			wantText(t, call(t, p, c.tool, ok), false, "hi")
			wantText(t, call(t, p, c.tool, boom), true, c.parts...)
			wantText(t, call(t, p, c.tool, ok), false, "hi")
			for i := range 3 {
				res := call(t, p, c.tool, boom)
				wantText(t, res, true, c.parts...)
				if got := strings.Contains(res.Text, "now switched off"); got != (i == 2) {
					t.Errorf("crash %d: switched off: %v", i+1, got)
				}
			}
			wantText(t, call(t, p, c.tool, ok), true, "is switched off: it crashed 3 times in a row", c.parts[len(c.parts)-1])
			if p.Crashes() != 4 || p.LastCrash() == nil || !p.LastCrash().Off || p.State() != host.StateDisabled {
				t.Errorf("%d crashes, last %+v, state %s", p.Crashes(), p.LastCrash(), p.State())
			}
			if n := strings.Count(log.String(), "\n"); n != 5 {
				t.Errorf("%d lines for a person:\n%s", n, log)
			}
			if c.mode == "kit" { // other tools of the process are not touched
				wantText(t, call(t, p, "echo", ok), false, "hi")
			}
			p.Enable()
			wantText(t, call(t, p, c.tool, ok), false, "hi")
		})
	}
}

func TestCrashWindow(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	h, _ := newHost(t, host.Options{Clock: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	p := bad(h, "kit")
	for range 5 {
		wantText(t, call(t, p, "die", `{"text":"boom"}`), true, "The next call starts it again")
		mu.Lock()
		now = now.Add(11 * time.Minute)
		mu.Unlock()
	}
}

func TestEndWithoutResult(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	wantText(t, call(t, p, "leave", `{}`), true, "crashed during this call (exit status 0)")
	wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
	wantText(t, call(t, bad(h, "plain"), "plain", `{"text":"silence"}`), true, "without a result")
	wantText(t, call(t, bad(h, "plain"), "plain", `{"text":"refuse"}`), true, "plain refusal")
}

func TestOneCrashOfManyCalls(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	call(t, p, "echo", `{"text":"x"}`)
	pid := p.PID()
	var wg sync.WaitGroup
	var asleep sync.WaitGroup
	for range 8 {
		asleep.Add(1)
		wg.Go(func() {
			s := &sink{onLine: func(string) { asleep.Done() }}
			res, err := p.Tool("sleep").Call(t.Context(), core.ToolRequest{Args: json.RawMessage(`{"ms":60000}`), Sink: s})
			if err != nil || !res.IsError || !strings.Contains(res.Text, "signal: killed") {
				t.Errorf("%v, %v", res, err)
			}
		})
	}
	asleep.Wait()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if p.Crashes() != 1 {
		t.Errorf("%d crashes", p.Crashes())
	}
	wantText(t, call(t, p, "sleep", `{"ms":1}`), false, "slept")
	if p.PID() == pid {
		t.Error("not started again")
	}
}

func TestIdleDeathIsNoticed(t *testing.T) {
	h, log := newHost(t, host.Options{})
	p := bad(h, "kit")
	call(t, p, "echo", `{"text":"x"}`)
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "a line for the person", func() bool { return strings.Contains(log.String(), "signal: killed") })
	wantText(t, call(t, p, "echo", `{"text":"y"}`), false, "y")
}

func TestCancel(t *testing.T) {
	h, _ := newHost(t, host.Options{CallGrace: 500 * time.Millisecond})
	start := func(t *testing.T, p *host.Plugin, name, args string) core.ToolResult {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &sink{onLine: func(string) { cancel(errors.New("enough")) }}
		if name == "plain" { // says nothing while it runs
			time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("enough")) })
		}
		res, err := p.Tool(name).Call(ctx, core.ToolRequest{Args: json.RawMessage(args), Sink: s})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	t.Run("a tool that listens answers with what it has", func(t *testing.T) {
		p := bad(h, "kit")
		wantText(t, start(t, p, "sleep", `{"ms":60000}`), true, "woken early", "context canceled")
		pid := p.PID()
		wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
		if pid == 0 || p.PID() != pid {
			t.Error("the process was not kept")
		}
	})
	t.Run("a deaf tool is killed", func(t *testing.T) {
		p := bad(h, "kit")
		wantText(t, start(t, p, "sleep", `{"ms":60000,"deaf":true}`), true, "did not stop within 500ms", "killed", "enough")
		wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
		if p.Crashes() != 0 {
			t.Errorf("%d crashes", p.Crashes())
		}
	})
	t.Run("a deaf call does not take others along", func(t *testing.T) {
		p := bad(h, "kit")
		other := make(chan core.ToolResult, 1)
		go func() {
			res, err := p.Tool("sleep").Call(context.Background(), core.ToolRequest{Args: json.RawMessage(`{"ms":1500}`)})
			if err != nil {
				res.Text = err.Error()
			}
			other <- res
		}()
		wantText(t, start(t, p, "sleep", `{"ms":60000,"deaf":true}`), true, "did not stop within 500ms")
		wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
		wantText(t, <-other, false, "slept")
	})
	t.Run("an ordinary tool is replaced", func(t *testing.T) {
		p := bad(h, "plain")
		call(t, p, "plain", `{"text":"x"}`)
		pid := p.PID()
		wantText(t, start(t, p, "plain", `{"text":"wait"}`), true, "cancelled (enough)")
		wantText(t, call(t, p, "plain", `{"text":"y"}`), false, "y")
		eventually(t, 10*time.Second, "the old process ends", func() bool { return !alive(pid) })
	})
	t.Run("a call that is cancelled before it starts is not run", func(t *testing.T) {
		p := bad(h, "kit")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		file := filepath.Join(t.TempDir(), "f")
		args, _ := json.Marshal(map[string]string{"file": file, "line": "x"})
		res, err := p.Tool("note").Call(ctx, core.ToolRequest{Args: args})
		if err != nil || !res.IsError {
			t.Errorf("%v %v", res, err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("it ran")
		}
	})
	t.Run("a deadline reaches the tool", func(t *testing.T) {
		p := bad(h, "kit")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		res, err := p.Tool("sleep").Call(ctx, core.ToolRequest{Args: json.RawMessage(`{"ms":60000}`)})
		if err != nil {
			t.Fatal(err)
		}
		// Whether the tool's own clock or the message that the caller has given up comes
		// first is open; that it knew its limit is not.
		wantText(t, res, true, "woken early with a limit of ")
	})
}

func TestOwnTimeLimit(t *testing.T) {
	h, _ := newHost(t, host.Options{CallTimeout: 200 * time.Millisecond, CallGrace: 200 * time.Millisecond})
	p := bad(h, "kit")
	wantText(t, call(t, p, "sleep", `{"ms":60000,"deaf":true}`), true, "did not answer within 200ms")
	trusted := bad(h, "kit", func(c *host.Command) { c.Trusted = true })
	wantText(t, call(t, trusted, "sleep", `{"ms":600}`), false, "slept")
}

// stopProcess stops a process and waits until all its threads stand still: the signal is
// delivered when it is sent, each thread stops when it next enters the kernel.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		moving := len(files)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if _, rest, ok := strings.Cut(string(b), ") "); err != nil || ok && rest[0] == 'T' {
				moving--
			}
		}
		if len(files) > 0 && moving == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d did not stop", pid)
		}
	}
}

func TestStoppedProcessThatNeitherAnswersNorDies(t *testing.T) {
	h, _ := newHost(t, host.Options{CallGrace: 300 * time.Millisecond, StopGrace: 300 * time.Millisecond})
	p := bad(h, "kit")
	call(t, p, "echo", `{"text":"x"}`)
	pid := p.PID()
	stopProcess(t, pid)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	res, err := p.Tool("echo").Call(ctx, core.ToolRequest{Args: json.RawMessage(`{"text":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, res, true, "did not stop within")
	if alive(pid) {
		t.Error("it lives")
	}
	call(t, p, "echo", `{"text":"x"}`)
	pid = p.PID()
	stopProcess(t, pid)
	p.Stop(t.Context())
	if alive(pid) {
		t.Error("it lives after Stop")
	}
}

func TestStop(t *testing.T) {
	h, log := newHost(t, host.Options{StopGrace: 500 * time.Millisecond})
	for _, mode := range []string{"kit", "plain", "stubborn"} {
		p := bad(h, mode)
		if _, err := p.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		pid := p.PID()
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if alive(pid) {
			t.Errorf("%s lives", mode)
		}
		if _, err := p.Tool(mode).Call(t.Context(), core.ToolRequest{}); !errors.Is(err, host.ErrStopped) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if s := log.String(); !strings.Contains(s, "stubborn v1.0.0 did not stop when told to") || strings.Contains(s, "kit") {
		t.Errorf("log: %s", s)
	}
}

func TestDrainWaitsForCalls(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	asleep := make(chan struct{})
	got := make(chan core.ToolResult, 1)
	go func() {
		s := &sink{onLine: func(string) { close(asleep) }}
		res, err := p.Tool("sleep").Call(context.Background(), core.ToolRequest{Args: json.RawMessage(`{"ms":300}`), Sink: s})
		if err != nil {
			res = core.ErrorResult(err.Error())
		}
		got <- res
	}()
	<-asleep
	if err := p.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	wantText(t, <-got, false, "slept")

	p = bad(h, "kit")
	asleep = make(chan struct{})
	go func() {
		s := &sink{onLine: func(string) { close(asleep) }}
		res, err := p.Tool("sleep").Call(context.Background(), core.ToolRequest{Args: json.RawMessage(`{"ms":60000,"deaf":true}`), Sink: s})
		if err != nil {
			res = core.ErrorResult(err.Error())
		}
		got <- res
	}()
	<-asleep
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 calls still run") {
		t.Errorf("err = %v", err)
	}
	wantText(t, <-got, true, "stopped during the call")
}

func TestForksDieWithTheTool(t *testing.T) {
	for _, how := range []string{"stop", "crash"} {
		t.Run(how, func(t *testing.T) {
			h, _ := newHost(t, host.Options{})
			p := bad(h, "kit")
			wantText(t, call(t, p, "fork", `{"mark":"297"}`), false, "forked")
			root, _ := rootOf.Load(h)
			entry := fmt.Sprintf("LJ_TEST_ROOT=%s", root)
			eventually(t, 5*time.Second, "four processes", func() bool { return len(withEnv(entry)) >= 4 })
			if how == "stop" {
				p.Stop(t.Context())
			} else {
				call(t, p, "die", `{"text":"boom"}`)
			}
			if left := withEnv(entry); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Trusted tools are not swept up after; their group still goes with them.
func TestGroupDiesWithTheTool(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit", func(c *host.Command) { c.Trusted = true })
	wantText(t, call(t, p, "fork", `{"mark":"296"}`), false, "forked")
	pid := p.PID()
	inGroup := func() bool { return exec.Command("pgrep", "-g", strconv.Itoa(pid), "sleep").Run() == nil }
	eventually(t, 5*time.Second, "a child in the group", inGroup)
	p.Stop(t.Context())
	eventually(t, 5*time.Second, "the group ends", func() bool { return !inGroup() })
	// The others are this test's own to end.
	root, _ := rootOf.Load(h)
	for _, stray := range withEnv(fmt.Sprintf("LJ_TEST_ROOT=%s", root)) {
		_ = syscall.Kill(stray, syscall.SIGKILL)
	}
	eventually(t, 5*time.Second, "strays end", func() bool { return len(withEnv(fmt.Sprintf("LJ_TEST_ROOT=%s", root))) == 0 })
}

// Cases 091 and 095: nothing outlives a killed host; stale folders go at the next start;
// no id on disk is believed.
func TestNothingOutlivesAKilledHost(t *testing.T) {
	root, err := os.MkdirTemp("/tmp", "ljt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	mark := strconv.Itoa(100000 + os.Getpid())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LJ_TEST_HOST="+root, "LJ_TEST_MARK="+mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	var text string
	buf := make([]byte, 256)
	for !strings.Contains(text, "ready") {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		text += string(buf[:n])
	}
	for _, f := range strings.Fields(text) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 3 {
		t.Fatalf("pids %v", pids)
	}
	bystander := exec.Command("sleep", "100")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	stale, _ := filepath.Glob(root + "/h*")
	if len(stale) != 1 {
		t.Fatalf("folders %v", stale)
	}
	// A folder that names an unrelated process.
	if err := os.WriteFile(filepath.Join(stale[0], "pid"), []byte(strconv.Itoa(bystander.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	// While the host lives, another one leaves its folder alone.
	if h, err := host.New(host.Options{SocketRoot: root}); err != nil {
		t.Fatal(err)
	} else if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale[0]); err != nil {
		t.Fatal("the folder of a living host was removed")
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range pids {
		eventually(t, 5*time.Second, fmt.Sprintf("process %d ends", pid), func() bool { return !alive(pid) })
	}
	// What the first tool forked within its group goes with it, without a next start.
	eventually(t, 5*time.Second, "the group of the first tool ends", func() bool {
		return exec.Command("pgrep", "-g", strconv.Itoa(pids[0]), "sleep").Run() != nil
	})
	h, err := host.New(host.Options{SocketRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(root + "/h*"); len(left) > 0 {
		t.Errorf("stale folders: %v", left)
	}
	if out, _ := exec.Command("pgrep", "-f", "sleep "+mark).Output(); len(out) > 0 {
		t.Errorf("forked processes left: %s", out)
	}
	if !alive(bystander.Process.Pid) {
		t.Error("the bystander was killed")
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHostCloseEndsEverything(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	var pids []int
	for _, mode := range []string{"kit", "plain", "single"} {
		p := bad(h, mode)
		if _, err := p.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.PID())
	}
	hanging := bad(h, "hang")
	hanging.Warm()
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("%d lives", pid)
		}
	}
	p := bad(h, "kit")
	if _, err := p.Tool("echo").Call(t.Context(), core.ToolRequest{}); err == nil {
		t.Error("a closed host calls")
	}
}

func TestChangedProgramIsRefused(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	dir := t.TempDir()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "tool")
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	sum, err := exec.Command("sha256sum", bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	change := func(c *host.Command) { c.Path, c.SHA256 = bin, string(sum[:64]) }
	p := bad(h, "kit", change)
	wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
	p.Stop(t.Context())
	self[len(self)-1] ^= 1
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	wantText(t, call(t, bad(h, "kit", change), "echo", `{"text":"x"}`), true, "was changed: its SHA-256 is")
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	wantText(t, call(t, bad(h, "kit", change), "echo", `{"text":"x"}`), true, "no such file")
}

func TestSandboxHookRewritesTheCommand(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit", func(c *host.Command) {
		c.Sandbox = func(cmd *exec.Cmd, socketDir string) error {
			if st, err := os.Stat(socketDir); err != nil || st.Mode().Perm() != 0o700 {
				return fmt.Errorf("socket folder: %v, %v", st, err)
			}
			cmd.Env = append(cmd.Env, "THROUGH=helper")
			cmd.Args = append([]string{"/usr/bin/env", "--", cmd.Path}, cmd.Args[1:]...)
			cmd.Path = "/usr/bin/env"
			return nil
		}
	})
	wantText(t, call(t, p, "env", `{}`), false, "THROUGH=helper")
	p = bad(h, "kit", func(c *host.Command) {
		c.Sandbox = func(*exec.Cmd, string) error { return errors.New("not on this kernel") }
	})
	wantText(t, call(t, p, "echo", `{"text":"x"}`), true, "sandbox: not on this kernel")
}

func TestConcurrentFirstCallsShareOneStart(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	var wg sync.WaitGroup
	var mu sync.Mutex
	pids := map[int]bool{}
	for range 16 {
		wg.Go(func() {
			res, err := p.Tool("echo").Call(t.Context(), core.ToolRequest{Args: json.RawMessage(`{"text":"x"}`)})
			if err != nil || res.IsError {
				t.Errorf("%v %v", res, err)
			}
			mu.Lock()
			pids[p.PID()] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(pids) != 1 {
		t.Errorf("processes %v", pids)
	}
}

func TestLongSocketRootIsReplaced(t *testing.T) {
	root := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	h, err := host.New(host.Options{SocketRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	p := h.Plugin(badtool.Command("kit"))
	wantText(t, call(t, p, "echo", `{"text":"x"}`), false, "x")
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("the long root was made")
	}
}

func TestCyclesDoNotLeak(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	fds := func() int { l, _ := os.ReadDir("/proc/self/fd"); return len(l) }
	cycle := func() {
		p := bad(h, "kit")
		call(t, p, "echo", `{"text":"x"}`)
		p.Stop(t.Context())
	}
	cycle()
	before := fds()
	for range 20 {
		cycle()
	}
	eventually(t, 5*time.Second, "file descriptors go", func() bool { return fds() <= before+2 })
}
