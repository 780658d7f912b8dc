package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// terminal is lj on a real pseudo terminal.
type terminal struct {
	t  *testing.T
	f  *os.File
	mu sync.Mutex
	b  bytes.Buffer
	at int // what was looked at so far
}

func (u *user) terminal(args ...string) (*terminal, func() int) {
	u.t.Helper()
	cmd := u.command(u.t.Context(), args...)
	cmd.SysProcAttr = nil
	cmd.Env = append(append([]string(nil), u.env...), "TERM=xterm-256color")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 100})
	if err != nil {
		u.t.Fatal(err)
	}
	x := &terminal{t: u.t, f: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			x.mu.Lock()
			x.b.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	u.t.Cleanup(func() { f.Close(); <-done })
	return x, func() int {
		u.t.Helper()
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }() // the status is what is looked at
		select {
		case <-ended:
			return cmd.ProcessState.ExitCode()
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			all := x.all()
			u.t.Fatalf("lj did not leave; the screen: … %q", all[max(0, len(all)-2000):])
			return -1
		}
	}
}

func (x *terminal) all() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

func (x *terminal) say(text string) {
	x.t.Helper()
	if _, err := x.f.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// see waits until text has come since what was seen last.
func (x *terminal) see(text string) {
	x.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		all := x.all()
		if i := strings.Index(all[x.at:], text); i >= 0 {
			x.at += i + len(text)
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("%q did not come; since then: … %q", text, all[max(x.at, len(all)-2000):])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A conversation on a terminal: Chinese, an approval, a refusal, a turn that is stopped,
// undo, leaving.
func TestChat(t *testing.T) {
	s := llmtest.New(
		llmtest.Turn{Text: "你好\n", Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": "echo x > made.txt"}}}},
		llmtest.Turn{Text: "made it\n"},
		llmtest.Turn{Calls: []llmtest.Call{{Name: "write_file", Args: map[string]any{"path": "no.txt", "content": "x"}}}},
		llmtest.Turn{Text: "not made\n"},
		llmtest.Turn{Calls: []llmtest.Call{{Name: "bash", Args: map[string]any{"command": "sleep 60"}}}},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	x, wait := u.terminal()
	x.see("/help lists the commands")
	x.say("茶馆开了吗\r")
	x.see("你好")
	x.see("Allow it?")
	x.say("y\n")
	x.see("made it")
	x.see("2 requests")
	if _, err := os.Stat(filepath.Join(u.project, "made.txt")); err != nil {
		t.Error(err)
	}
	x.say("and another\r")
	x.see("+x") // what it would write
	x.see("Allow it?")
	x.say("n\n")
	x.see("not made")
	x.see("2 requests")
	if _, err := os.Stat(filepath.Join(u.project, "no.txt")); err == nil {
		t.Error("a refused call ran")
	}
	x.say("wait\r")
	x.see("sleep 60")
	x.say("\x03")
	x.see("interrupted")
	x.say("/undo\r")
	x.see("made.txt")
	x.say("/mode plan\r")
	x.see("plan\x1b[K")
	x.say("/nosuch\r")
	x.see("unknown command")
	x.say("/exit\r")
	if st := wait(); st != 0 {
		t.Errorf("exit status %d", st)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if got := s.Requests()[0].Body; !bytes.Contains(got, []byte("茶馆开了吗")) {
		t.Error("the typed text did not arrive")
	}
}

// The slash commands, one after another; each that acts through a turn shows it.
func TestChatCommands(t *testing.T) {
	agents := llmtest.Call{Name: "write_file", Args: map[string]any{"path": "AGENTS.md", "content": "# Tea house\n"}}
	s := llmtest.New(
		llmtest.Turn{Text: "It is about tea.\n"},
		llmtest.Turn{Calls: []llmtest.Call{agents}, When: &llmtest.When{User: "Write AGENTS.md for this repository"}},
		llmtest.Turn{Text: "written\n"},
		llmtest.Turn{Text: "kept as it is\n", When: &llmtest.When{User: "AGENTS.md exists already: read it"}},
		llmtest.Turn{Text: "planned\n", When: &llmtest.When{User: "The goal: sell more"}},
	)
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_EVOLVE_IDLE=0", "LJ_PRICE_PROMPT=1", "LJ_PRICE_COMPLETION=2")
	x, wait := u.terminal()
	x.see("/help lists the commands")
	x.say("/help\r")
	x.see("/exit")
	x.see("Ctrl-R searches")
	x.say("what is it about?\r")
	x.see("It is about tea.")
	x.see(" USD")
	x.say("/init\r")
	x.see("+# Tea house")
	x.see("Allow it?")
	x.say("y\r")
	x.see("written")
	x.see(" USD")
	// It exists now: nothing happens without a yes.
	x.say("/init\r")
	x.see("exists already")
	x.see("Allow it?")
	x.say("n\r")
	x.say("/init\r")
	x.see("exists already")
	x.see("Allow it?")
	x.say("y\r")
	x.see("kept as it is")
	x.see(" USD")
	if b, err := os.ReadFile(filepath.Join(u.project, "AGENTS.md")); err != nil || string(b) != "# Tea house\n" {
		t.Errorf("%q, %v", b, err)
	}
	x.say("/memory add \"prices are in yuan\"\r")
	x.see("created")
	x.say("/memory search yuan\r")
	x.see("prices are in yuan")
	x.say("/memory\r")
	x.see("prices are in yuan")
	x.say("/tools\r")
	x.see("read_file")
	x.say("/tools show read_file\r")
	x.see("Read a text file")
	x.say("/prompts\r")
	x.see("1 ")
	x.say("/title 茶馆的事\r")
	x.say("/title\r")
	x.see("茶馆的事\x1b[K")
	x.say("/role review\r")
	x.see("review\x1b[K")
	x.say("/role nosuch\r")
	x.see("unknown role")
	x.say("/model other\r")
	x.see("other\x1b[K")
	x.say("/sessions\r")
	x.see("茶馆的事")
	x.say("/history\r")
	x.see("call write_file")
	x.say("/cost\r")
	x.see("turn")
	x.say("/undo\r")
	x.see("AGENTS.md")
	x.say("/plan sell more\r")
	x.see("planned")
	x.see(" USD")
	x.say("/compact\r")
	x.see("would not be smaller")
	x.say("/clear\r")
	x.see("a new conversation")
	x.say("/resume\r")
	x.see("going on with")
	x.say("/memory search \"open\r")
	x.see("is not closed")
	x.say("/hist\r")
	x.see("did you mean /history?")
	x.say("/exit\r")
	if st := wait(); st != 0 {
		t.Errorf("exit status %d", st)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if got := s.Requests()[4]; got.Model != "other" {
		t.Errorf("the last request went to %s", got.Model)
	}
	if _, err := os.Stat(filepath.Join(u.project, "AGENTS.md")); err == nil {
		t.Error("the undo left the file")
	}
	// What was typed is there at the next start.
	x, wait = u.terminal()
	x.see("/help lists the commands")
	x.say("\x12茶馆\r")
	x.see("/title 茶馆的事")
	x.say("\x03\x04")
	if st := wait(); st != 0 {
		t.Errorf("exit status %d", st)
	}
}
