package bash_test

import (
	"context"
	"encoding/json"
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
	"github.com/lingjiyidong/lj/plugins/builtin/bash"
)

type sink struct {
	mu sync.Mutex
	b  []byte
}

func (s *sink) Progress(string) {}
func (s *sink) Output(p []byte) {
	s.mu.Lock()
	s.b = append(s.b, p...)
	s.mu.Unlock()
}
func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.b)
}

type result struct {
	core.ToolResult
	meta core.ToolMeta
	out  string
	took time.Duration
}

func shell(t *testing.T) *bash.Shell {
	t.Helper()
	s := bash.New(bash.Options{})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func run(t *testing.T, s *bash.Shell, dir, command string, more ...any) result {
	t.Helper()
	return runCtx(t, t.Context(), s, dir, command, more...)
}

func runCtx(t *testing.T, ctx context.Context, s *bash.Shell, dir, command string, more ...any) result {
	t.Helper()
	args := map[string]any{"command": command}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	var k sink
	began := time.Now()
	r, err := s.Run(ctx, core.ToolRequest{Args: b, Project: dir, Sink: &k})
	if err != nil {
		t.Fatal(err)
	}
	out := result{ToolResult: r, out: k.String(), took: time.Since(began)}
	if len(r.Meta) > 0 {
		if err := json.Unmarshal(r.Meta, &out.meta); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func jobs(t *testing.T, s *bash.Shell, args string) core.ToolResult {
	t.Helper()
	r, err := s.RunJobs(t.Context(), core.ToolRequest{Args: json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually polls until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		if f() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

func dead(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	return strings.Contains(string(b), ") Z ")
}

func pidFile(t *testing.T, f string) int {
	t.Helper()
	var pid int
	eventually(t, f, func() bool {
		b, err := os.ReadFile(f)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

func exit(t *testing.T, r result, want int) {
	t.Helper()
	if r.meta.Exit == nil || *r.meta.Exit != want {
		t.Fatalf("exit %v, want %d: %q", r.meta.Exit, want, r.Text)
	}
}

func TestRunReportsExitAndOrder(t *testing.T) {
	s := shell(t)
	r := run(t, s, t.TempDir(), "echo a; echo b >&2; echo c")
	if r.IsError || r.Text != "" || r.out != "a\nb\nc\n" {
		t.Fatalf("%+v", r)
	}
	exit(t, r, 0)
	r = run(t, s, t.TempDir(), "echo x; exit 3")
	if !r.IsError || r.Text != "exit status 3" || r.out != "x\n" {
		t.Fatalf("%+v", r)
	}
	r = run(t, s, t.TempDir(), "kill -9 $$")
	exit(t, r, 137)
	if !strings.Contains(r.Text, "signal 9") {
		t.Fatal(r.Text)
	}
}

func TestFault020EveryOutcomeHasItsStatus(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	for _, c := range []struct {
		cmd string
		bad bool
	}{{"echo a", false}, {"false", true}, {"echo b", false}} {
		if r := run(t, s, dir, c.cmd); r.IsError != c.bad {
			t.Errorf("%s: %+v", c.cmd, r)
		}
	}
}

func TestFault022MissingCommand(t *testing.T) {
	r := run(t, shell(t), t.TempDir(), "nosuchcmd_xyz --version")
	exit(t, r, 127)
	if !r.IsError || !strings.Contains(r.out, "nosuchcmd_xyz") || !strings.Contains(r.Text, "not found") {
		t.Fatalf("%+v", r)
	}
	s := bash.New(bash.Options{Shell: "/nonexistent/bash"})
	defer s.Close()
	r = run(t, s, t.TempDir(), "true")
	exit(t, r, 127)
	if !r.IsError {
		t.Fatal("no error")
	}
	r = run(t, shell(t), "/nonexistent/dir", "true")
	exit(t, r, 127)
}

func TestFault016LeftoverBecomesJob(t *testing.T) {
	s := shell(t)
	r := run(t, s, t.TempDir(), "(sleep 45; echo late) & echo ready")
	if r.out != "ready\n" || r.IsError {
		t.Fatalf("%+v", r)
	}
	if r.took > 20*time.Second {
		t.Fatal("waited for the pipe")
	}
	if len(r.meta.Jobs) != 1 || !strings.Contains(r.Text, "job "+r.meta.Jobs[0]) {
		t.Fatalf("%+v", r)
	}
	if l := jobs(t, s, `{"action":"list"}`); !strings.Contains(l.Text, "job 2") && !strings.Contains(l.Text, "job "+r.meta.Jobs[0]) {
		t.Fatal(l.Text)
	}
	if st := jobs(t, s, `{"action":"stop","id":"`+r.meta.Jobs[0]+`"}`); st.IsError || !strings.Contains(st.Text, "stopped") {
		t.Fatal(st.Text)
	}
	eventually(t, "nothing is left", func() bool {
		return strings.Contains(jobs(t, s, `{"action":"list"}`).Text, "stopped")
	})
}

func TestLeftoverOutputIsReadLater(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, s, dir, "(read x < go; echo late) & echo ready")
	if len(r.meta.Jobs) != 1 {
		t.Fatalf("%+v", r)
	}
	f, err := os.OpenFile(filepath.Join(dir, "go"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("x\n")
	f.Close()
	eventually(t, "late output", func() bool {
		return strings.Contains(jobs(t, s, `{"action":"output","id":`+r.meta.Jobs[0]+`}`).Text, "ready\nlate")
	})
	eventually(t, "it ends", func() bool {
		return strings.Contains(jobs(t, s, `{"action":"list"}`).Text, "ended")
	})
	if strings.Contains(r.out, "late") {
		t.Fatal("output after the end of the call went to its sink")
	}
}

func TestDetachedDaemonIsFoundAndEnds(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	r := run(t, s, dir, "setsid sh -c 'echo $$ >pid; exec sleep 300' >/dev/null 2>&1 </dev/null & while ! test -s pid; do sleep 0.01; done")
	pid := pidFile(t, filepath.Join(dir, "pid"))
	if len(r.meta.Jobs) != 1 {
		t.Fatalf("%+v", r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "daemon gone", func() bool { return dead(pid) })
	if r := run(t, s, dir, "echo x"); !r.IsError {
		t.Fatal("runs after Close")
	}
}

func TestFault017LimitEndsWholeGroup(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	r := run(t, s, dir, `echo begun; sh -c 'trap "" TERM; (trap "" TERM; echo $$ >a; setsid sleep 301 & echo $! >b; sleep 300) & sleep 300'`, "timeout", 2)
	if !r.meta.TimedOut || !r.IsError || !strings.Contains(r.Text, "timed out after 2 s") || r.out != "begun\n" {
		t.Fatalf("%+v", r)
	}
	if r.took > 30*time.Second {
		t.Fatal("too late")
	}
	for _, f := range []string{"a", "b"} {
		if pid := pidFile(t, filepath.Join(dir, f)); !dead(pid) {
			t.Errorf("%s: process %d lives", f, pid)
		}
	}
	if len(r.meta.Jobs) != 0 {
		t.Fatal("jobs after a time-out")
	}
}

func TestFault019NothingWaitsForAPerson(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	r := run(t, s, dir, `read x; echo "status $?"`)
	if r.out != "status 1\n" {
		t.Fatalf("%+v", r)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	r = run(t, s, dir, `git init -q . && git config user.email a@b && git config user.name n && for i in 1 2 3; do git commit -q --allow-empty -m "c$i"; done; git log --oneline | wc -l; git log --oneline; echo a >f; git add f`)
	if r.IsError || strings.Count(r.out, "\n") != 4 {
		t.Fatalf("%+v", r)
	}
	r = run(t, s, dir, "git commit")
	if !r.IsError || !strings.Contains(r.out, "no editor here") {
		t.Fatalf("%+v", r)
	}
}

// The limit: what is active and what is not.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name, cmd string
		timedOut  bool
		text      string
	}{
		{"idle ends at the limit", "sleep 60", true, "without activity"},
		{"loop ends at four times the limit", "while :; do :; done", true, "four times"},
		{"output is activity", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done", false, ""},
		{"writing is activity", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i >>f; sleep 0.3; done", false, ""},
		{"a poll is no activity", "while ! test -e never; do sleep 0.5; done", true, "without activity"},
		{"work of a grandchild", "setsid --wait sh -c 'while ! test -e stop; do :; done' & (sleep 2; touch stop) & wait", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, shell(t), t.TempDir(), c.cmd, "timeout", 1)
			if r.meta.TimedOut != c.timedOut || !strings.Contains(r.Text, c.text) {
				t.Fatalf("%v %+v", r.took, r)
			}
		})
	}
}

func TestCancelEndsEverything(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		pidFile(t, filepath.Join(dir, "pid"))
		cancel()
	}()
	r := runCtx(t, ctx, s, dir, `trap "" TERM; (trap "" TERM; exec sleep 300) & echo $! >pid; wait`)
	if !r.IsError || !strings.Contains(r.Text, "cancelled") {
		t.Fatalf("%+v", r)
	}
	if pid := pidFile(t, filepath.Join(dir, "pid")); !dead(pid) {
		t.Fatal("child lives")
	}
}

func TestBackground(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	r := run(t, s, dir, "echo $$ >pid; echo hello; sleep 300", "background", true)
	if r.IsError || len(r.meta.Jobs) != 1 {
		t.Fatalf("%+v", r)
	}
	id := r.meta.Jobs[0]
	pid := pidFile(t, filepath.Join(dir, "pid"))
	eventually(t, "output", func() bool {
		return strings.Contains(jobs(t, s, `{"action":"output","id":"`+id+`"}`).Text, "hello")
	})
	if l := jobs(t, s, `{"action":"list"}`).Text; !strings.Contains(l, "running for") {
		t.Fatal(l)
	}
	if r := jobs(t, s, `{"action":"stop","id":"`+id+`"}`); r.IsError || !dead(pid) {
		t.Fatal(r.Text)
	}
	if r := jobs(t, s, `{"action":"stop","id":"99"}`); !r.IsError {
		t.Fatal(r.Text)
	}
	r = run(t, s, dir, "nosuchcmd_xyz", "background", true)
	if !strings.Contains(r.Text, "ended") && len(r.meta.Jobs) == 0 {
		t.Fatalf("%+v", r)
	}
	r = run(t, s, dir, "sleep 300", "background", true, "timeout", 1)
	eventually(t, "its limit", func() bool {
		return strings.Contains(jobs(t, s, `{"action":"list"}`).Text, "timed out")
	})
}

func TestFault026FloodIsBounded(t *testing.T) {
	s := shell(t)
	r, err := s.Run(t.Context(), core.ToolRequest{Args: json.RawMessage(`{"command":"seq 1 300000"}`), Project: t.TempDir()})
	if err != nil || r.IsError {
		t.Fatal(r.Text, err)
	}
	if len(r.Text) > 80<<10 || !strings.HasPrefix(r.Text, "1\n2\n") || !strings.HasSuffix(r.Text, "299999\n300000\n") || !strings.Contains(r.Text, "left out") {
		t.Fatalf("%d bytes, %q … %q", len(r.Text), r.Text[:20], r.Text[len(r.Text)-20:])
	}
	k := run(t, s, t.TempDir(), "seq 1 300000")
	if n := strings.Count(k.out, "\n"); n != 300000 {
		t.Fatalf("%d lines reached the sink", n)
	}
}

func TestEndlessLeftoverDoesNotHoldTheCall(t *testing.T) {
	s := shell(t)
	r := run(t, s, t.TempDir(), "yes & echo ready")
	if r.took > 20*time.Second || len(r.meta.Jobs) != 1 {
		t.Fatalf("%v %+v", r.took, r.meta)
	}
}

func TestConcurrentCallsKeepTheirOwn(t *testing.T) {
	s := shell(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			n := strconv.Itoa(i)
			b, _ := json.Marshal(map[string]any{"command": "sleep 0.0" + n + "; echo " + n})
			var k sink
			r, err := s.Run(t.Context(), core.ToolRequest{Args: b, Project: dir, Sink: &k})
			if err != nil || r.Text != "" || k.String() != n+"\n" {
				t.Errorf("%s: %q %q %v", n, r.Text, k.String(), err)
			}
		})
	}
	wg.Wait()
}

func TestLongCommandAndBadArguments(t *testing.T) {
	s := shell(t)
	r := run(t, s, t.TempDir(), "echo begin\n"+strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 2000)+"echo end")
	if r.out != "begin\nend\n" {
		t.Fatalf("%+v", r)
	}
	for _, cmd := range []string{"", "  ", "a\x00b"} {
		if r := run(t, s, t.TempDir(), cmd); !r.IsError {
			t.Errorf("%q ran", cmd)
		}
	}
	if r := run(t, s, t.TempDir(), "echo x", "timeout", "2"); r.IsError || r.out != "x\n" {
		t.Fatalf("%+v", r)
	}
}

// A plugin that is killed leaves nothing: its shells die with it, Sweep finds the rest.
func TestFault091KilledOwnerLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=TestHelperOwner")
	cmd.Env = append(os.Environ(), "LJ_TEST_OWNER="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shellPID, childPID := pidFile(t, filepath.Join(dir, "shell")), pidFile(t, filepath.Join(dir, "child"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "shell dies with its owner", func() bool { return dead(shellPID) })
	bash.Sweep()
	eventually(t, "child swept", func() bool { return dead(childPID) })
	if dead(os.Getpid()) {
		t.Fatal("swept too much")
	}
}

func TestHelperOwner(t *testing.T) {
	dir := os.Getenv("LJ_TEST_OWNER")
	if dir == "" {
		t.Skip("only as a child")
	}
	s := bash.New(bash.Options{})
	_, _ = s.Run(context.Background(), core.ToolRequest{Args: json.RawMessage(`{"command":"sleep 300 & echo $! >child; echo $$ >shell; wait"}`), Project: dir})
}

// A process whose owner lives is not touched.
func TestSweepSparesOthers(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[19]
	cmd.Env = append(os.Environ(), "LJ_COMMAND="+strconv.Itoa(os.Getppid())+"."+start+".1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bash.Sweep()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if st := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGTERM {
		t.Fatalf("killed a process of someone else: %v", st.Signal())
	}
}

func BenchmarkEcho(b *testing.B) {
	s := bash.New(bash.Options{})
	defer s.Close()
	dir := b.TempDir()
	for b.Loop() {
		var k sink
		if _, err := s.Run(b.Context(), core.ToolRequest{Args: json.RawMessage(`{"command":"echo hi"}`), Project: dir, Sink: &k}); err != nil {
			b.Fatal(err)
		}
	}
}

// The floor of BenchmarkEcho: the same command without any care.
func BenchmarkEchoBaseline(b *testing.B) {
	for b.Loop() {
		if _, err := exec.Command("/bin/bash", "--noprofile", "--norc", "-c", "echo hi").CombinedOutput(); err != nil {
			b.Fatal(err)
		}
	}
}
