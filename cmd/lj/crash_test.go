package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// program is this test binary under the name lj, so that it runs as the program does.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lj")
	if err := os.Link(self, path); err != nil {
		in, err := os.Open(self)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, in); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// user is one person's machine: a home, a project and a model server.
type user struct {
	t                  *testing.T
	bin, home, project string
	env                []string
}

func newUser(t *testing.T, url string) *user {
	t.Helper()
	return newUserIn(t, url, t.TempDir())
}

func newUserIn(t *testing.T, url, dir string) *user {
	t.Helper()
	u := &user{t: t, bin: program(t), home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	for _, d := range []string{u.home, filepath.Join(u.project, ".agent")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	u.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "LJ_HOME=" + filepath.Join(u.home, ".lj"), "LANG=C.UTF-8",
		"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=sk-test-0123456789abcdefghij", "LJ_MODEL=m",
		"LJ_EVOLVE_IDLE=0", // a slow machine must not make requests that no test expects
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for {
			left := processesOf(filepath.Join(u.home, ".lj"))
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				for _, p := range left {
					_ = syscall.Kill(p.pid, syscall.SIGKILL)
				}
				t.Errorf("processes left over: %v", left)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return u
}

// command is lj with these arguments, in a group of its own.
func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, u.bin, args...)
	cmd.Dir, cmd.Env = u.project, u.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs lj to its end.
func (u *user) run(args ...string) (stdout, stderr string, status int) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 60*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := u.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		u.t.Fatalf("lj %q did not end: %s%s", args, out.String(), errs.String())
	}
	if err != nil && cmd.ProcessState == nil {
		u.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// busy is a model that works: it reads, writes, runs commands, several at once, and ends
// its turn after a few steps.
func busy(r llmtest.Request) llmtest.Turn {
	n := 0
	for i := len(r.Message) - 1; i >= 0 && r.Message[i].Role != "user"; i-- {
		if r.Message[i].Role == "assistant" {
			n++
		}
	}
	file := fmt.Sprintf("f%d.txt", r.Seq)
	switch n {
	case 0:
		return llmtest.Turn{Text: "working 茶馆\n", ChunkSize: 2, Calls: []llmtest.Call{
			{Name: "write_file", Args: map[string]any{"path": file, "content": strings.Repeat("line of text\n", 200)}},
			{Name: "bash", Args: map[string]any{"command": "echo one; sleep 0.03; echo two"}},
		}}
	case 1:
		return llmtest.Turn{Calls: []llmtest.Call{
			{Name: "list_files", Args: map[string]any{}},
			{Name: "grep_files", Args: map[string]any{"pattern": "line"}},
			{Name: "todo", Args: map[string]any{"items": []any{"a"}}},
			{Name: "bash", Args: map[string]any{"command": "sleep 0.02 & echo bg"}},
		}}
	case 2:
		return llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": "seq 1 3000"}}}}
	}
	return llmtest.Turn{Text: "done"}
}

// killed is how often TestKilledAtAnyMoment kills.
func killed() int {
	if os.Getenv("LJ_TEST_PROVE") != "" {
		return 1000
	}
	return 30
}

// A turn that is killed at any moment leaves a session that a strict server takes: the
// next turn goes on, nothing is half, no process stays.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{CheckPrefix: true}, Turns: []llmtest.Turn{{Times: -1, Func: busy}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	rnd := rand.New(rand.NewPCG(1, 2))
	// One whole turn says how long a turn takes here: the kills spread over that.
	start := time.Now()
	if out, errs, status := u.run("run", "--yolo", "go"); status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	window := time.Since(start)
	for i := range killed() {
		args := []string{"run", "--yolo", "go"}
		if i%5 != 0 {
			args = []string{"run", "--yolo", "--continue", "go on"}
		}
		cmd := u.command(t.Context(), args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(window))))
		if err := cmd.Process.Kill(); err != nil && !strings.Contains(err.Error(), "finished") {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if i%3 != 0 {
			continue
		}
		out, errs, status := u.run("run", "--yolo", "--continue", "--output", "json", "finish")
		if status != 0 {
			t.Fatalf("after kill %d: status %d: %s%s", i, status, out, errs)
		}
	}
	for _, e := range s.Errors() {
		t.Error(e)
	}
}

// Interrupting stops what runs within 2 s, and the conversation goes on.
func TestInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			s := llmtest.New(
				llmtest.Turn{Calls: []llmtest.Call{
					{Name: "bash", Args: map[string]any{"command": "echo first"}},
					{Name: "bash", Args: map[string]any{"command": "touch started; trap '' TERM; sleep 60"}},
					{Name: "bash", Args: map[string]any{"command": "touch never"}},
				}},
				llmtest.Turn{Text: "ok"},
			)
			defer s.Close()
			u := newUser(t, s.URL())
			cmd := u.command(t.Context(), "run", "--yolo", "--output", "json", "go")
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, filepath.Join(u.project, "started"))
			start := time.Now()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the status is checked below
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v to stop", took)
			}
			want := map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143}[sig]
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("exit status %d, want %d", got, want)
			}
			for _, w := range []string{`"status":"interrupted"`, `"status":"ok"`, `"status":"cancelled"`, `"kind":"interrupted"`} {
				if !strings.Contains(out.String(), w) {
					t.Errorf("no %s in %s", w, out.String())
				}
			}
			if _, err := os.Stat(filepath.Join(u.project, "never")); err == nil {
				t.Error("a call ran after the interrupt")
			}
			if o, e, status := u.run("run", "--yolo", "--continue", "go on"); status != 0 || !strings.Contains(o, "ok") {
				t.Errorf("go on: %d %s%s", status, o, e)
			}
			if err := s.Verify(); err != nil {
				t.Error(err)
			}
			last := s.Requests()[1]
			for _, w := range []string{"first", "cancelled"} {
				if !bytes.Contains(last.Body, []byte(w)) {
					t.Errorf("the model does not hear %q", w)
				}
			}
		})
	}
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not appear", path)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A call that was running when lj was killed is named to the model, once.
func TestKilledCallIsNamed(t *testing.T) {
	t.Parallel()
	s := llmtest.New(
		llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": "touch started; sleep 30"}}}},
		llmtest.Turn{Text: "one"}, llmtest.Turn{Text: "two"},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	cmd := u.command(t.Context(), "run", "--yolo", "go")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, filepath.Join(u.project, "started"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for i, want := range []string{"one", "two"} {
		out, errs, status := u.run("run", "--continue", "go on")
		if status != 0 || strings.TrimSpace(out) != want {
			t.Fatalf("turn %d: %d %q %s", i, status, out, errs)
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	for i := 1; i <= 2; i++ {
		if n := bytes.Count(s.Requests()[i].Body, []byte("interrupted: lj was stopped")); n != 1 {
			t.Errorf("request %d names the interrupted call %d times", i, n)
		}
	}
}

// What a command started outlives neither lj nor its kill: at the latest the next start
// ends it, however far it had moved away.
func TestNothingOutlivesKill(t *testing.T) {
	t.Parallel()
	s := llmtest.New(
		llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{
			"command": "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > pid; sleep 300') & touch started; sleep 100"}}}},
		llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": "echo again"}}}},
		llmtest.Turn{Text: "ok"},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	cmd := u.command(t.Context(), "run", "--yolo", "go")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, filepath.Join(u.project, "started"))
	waitFor(t, filepath.Join(u.project, "pid"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if out, errs, status := u.run("run", "--yolo", "--continue", "go on"); status != 0 {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	b, err := os.ReadFile(filepath.Join(u.project, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(b))
	for deadline := time.Now().Add(10 * time.Second); ; {
		raw, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(raw), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is still there: %s", pid, raw)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// What ignores every polite signal ends with an lj that is killed, too.
func TestStubbornCommandEndsWithTheKilled(t *testing.T) {
	t.Parallel()
	s := llmtest.New(llmtest.Turn{Calls: []llmtest.Call{bashCall(`trap "" TERM HUP INT; echo $$ >pid; sleep 3371; sleep 3372`)}})
	defer s.Close()
	u := newUser(t, s.URL())
	cmd := u.command(t.Context(), "run", "--yolo", "go")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for deadline := time.Now().Add(tmuxPatience); pid == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(filepath.Join(u.project, "pid")) // not there yet
		_, _ = fmt.Sscan(string(b), &pid)
	}
	if pid == 0 {
		t.Fatal("the command did not start")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	ours := func() (left []string) {
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // gone
			}
			// Its session is the shell's.
			if _, rest, ok := strings.Cut(string(b), ") "); ok {
				if v := strings.Fields(rest); len(v) > 3 && v[3] == fmt.Sprint(pid) && v[0] != "Z" {
					left = append(left, f)
				}
			}
		}
		return left
	}
	for deadline := time.Now().Add(tmuxPatience); len(ours()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it outlives lj: %v", ours())
		}
	}
}
