package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// pane is lj in a window of tmux: a terminal that others have written, as people use it.
type pane struct {
	t    *testing.T
	sock string
}

// tmuxPatience is how long a condition may take on a busy machine.
const tmuxPatience = 40 * time.Second

// tmux starts lj in a window of this size.
func (u *user) tmux(width, height int, env []string, args ...string) *pane {
	u.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		u.t.Skip("tmux is not installed")
	}
	dir, err := os.MkdirTemp("", "ljt") // a socket's path is short
	if err != nil {
		u.t.Fatal(err)
	}
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte("set -g status off\nset -g remain-on-exit on\nset -s escape-time 0\nset -g history-limit 5000\nset -g default-terminal screen-256color\n"), 0o600); err != nil {
		u.t.Fatal(err)
	}
	p := &pane{t: u.t, sock: filepath.Join(dir, "s")}
	u.t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", p.sock, "kill-server").Run() // it may have ended
		os.RemoveAll(dir)
	})
	cmd := []string{"-u", "-f", conf, "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "-c", u.project, "env", "-i", "TERM=screen-256color", "LJ_EVOLVE_IDLE=0"}
	cmd = append(append(append(cmd, u.env...), env...), u.bin)
	p.do(append(cmd, args...)...)
	return p
}

func (p *pane) do(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", p.sock}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// screen is what is visible, without empty rows at its end.
func (p *pane) screen() string { return strings.TrimRight(p.do("capture-pane", "-p"), "\n") }

// all is the screen with what has scrolled off it.
func (p *pane) all() string {
	return strings.TrimRight(p.do("capture-pane", "-p", "-J", "-S", "-"), "\n")
}

// until waits for a condition of the screen.
func (p *pane) until(what string, ok func(screen string) bool) {
	p.t.Helper()
	last := ""
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(15 * time.Millisecond) {
		if last = p.screen(); ok(last) {
			return
		}
	}
	p.t.Fatalf("%s did not come; the screen:\n%s", what, last)
}

func (p *pane) see(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(s, text) })
}

// ended waits for the end of a turn, whose last line says this.
func (p *pane) ended(last string) {
	p.t.Helper()
	p.until("the end of the turn, with "+last, func(s string) bool { return strings.Contains(s, last) && !strings.Contains(s, "Enter queues") })
}

func (p *pane) say(text string)      { p.t.Helper(); p.do("send-keys", "-l", text) }
func (p *pane) press(keys ...string) { p.t.Helper(); p.do(append([]string{"send-keys"}, keys...)...) }
func (p *pane) size(w, h int) {
	p.t.Helper()
	p.do("resize-window", "-x", strconv.Itoa(w), "-y", strconv.Itoa(h))
}

// cursor waits until the cursor stands in column x of a row that is this text.
func (p *pane) cursor(row string, x int) {
	p.t.Helper()
	got := ""
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(15 * time.Millisecond) {
		var cx, cy int
		if _, err := fmt.Sscan(p.do("display-message", "-p", "#{cursor_x} #{cursor_y}"), &cx, &cy); err != nil {
			p.t.Fatal(err)
		}
		rows := strings.Split(p.screen(), "\n")
		if cy < len(rows) {
			if got = fmt.Sprintf("%d in %q", cx, rows[cy]); cx == x && rows[cy] == row {
				return
			}
		}
	}
	p.t.Fatalf("the cursor is not in column %d of %q but in %s; the screen:\n%s", x, row, got, p.screen())
}

// left waits until lj has ended, and well.
func (p *pane) left() {
	p.t.Helper()
	got := ""
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(15 * time.Millisecond) {
		if got = strings.TrimSpace(p.do("display-message", "-p", "#{pane_dead} #{pane_dead_status}")); got != "" && got[0] == '1' {
			break
		}
	}
	if got != "1 0" && got != "1" { // tmux does not always learn the status
		p.t.Fatalf("lj has not left with status 0: %q; the screen:\n%s", got, p.screen())
	}
}

// waitsFor is a command that runs until the file named go is there.
const waitsFor = "while [ ! -e go ]; do sleep 0.02; done; echo released"

func (u *user) release() {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.project, "go"), nil, 0o644); err != nil {
		u.t.Fatal(err)
	}
}

func bashCall(command string) llmtest.Call {
	return llmtest.Call{Name: "bash", Args: map[string]any{"command": command}}
}

// requests waits until so many requests have come.
func requestsOf(t *testing.T, s *llmtest.Server, n int) []llmtest.Request {
	t.Helper()
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(15 * time.Millisecond) {
		if list := s.Requests(); len(list) >= n && list[n-1].Status != 0 {
			return list
		}
	}
	t.Fatalf("%d requests came, not %d", len(s.Requests()), n)
	return nil
}

// Chinese typed and edited: the text, and the cursor at the caret, also when rows wrap,
// while work goes on, and after the window became narrow.
func TestTmuxTyping(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{bashCall(waitsFor)}}, llmtest.Turn{Text: "好"}, llmtest.Turn{Text: "**再见**"})
	u := newUser(t, s.URL())
	p := u.tmux(60, 20, nil, "--yolo")
	p.see("/help lists the commands")
	p.say("你好，world")
	p.cursor("› 你好，world", 13)
	p.press("Left", "Left", "Left")
	p.say("茶")
	p.cursor("› 你好，wo茶rld", 12)
	p.press("BSpace")
	p.cursor("› 你好，world", 10)
	p.press("Enter")
	// While it works the line can be typed in, and the cursor stays there.
	p.see("bash")
	p.say("测试abc")
	p.press("Home", "Right")
	for range 20 {
		p.cursor("› 测试abc", 4)
	}
	p.size(20, 12)
	p.press("End")
	p.say("很长的一行文字要换行")
	p.cursor("  文字要换行", 12)
	p.see("› 测试abc很长的一行\n  文字要换行")
	p.size(60, 20)
	p.cursor("› 测试abc很长的一行文字要换行", 29)
	p.press("C-u")
	p.say("第二")
	u.release()
	p.see("好\n")
	p.press("Enter")
	p.see("再见")
	p.press("C-d")
	p.left()
	if body := string(s.Requests()[0].Body); !strings.Contains(body, "你好，world") {
		t.Error("the first message did not arrive as typed")
	}
	if got := s.Requests()[2].Last("user").Content; !strings.Contains(got, "第二") {
		t.Errorf("the second message is %q", got)
	}
}

// The difference stands above the question; yes changes the file, and what was typed when
// the question came is there again after it.
func TestTmuxApproval(t *testing.T) {
	s := llmtest.ForTest(t,
		llmtest.Turn{Calls: []llmtest.Call{{Name: "read_file", Args: map[string]any{"path": "menu.txt"}}}},
		llmtest.Turn{Calls: []llmtest.Call{{Name: "edit_file", Args: map[string]any{"path": "menu.txt", "old": "绿茶 12", "new": "绿茶 14"}}}},
		llmtest.Turn{Text: "changed"},
		llmtest.Turn{Calls: []llmtest.Call{{Name: "ask_user", Args: map[string]any{"question": "Which tea?", "options": []string{"green", "乌龙"}}}}},
		llmtest.Turn{Text: "noted"})
	u := newUser(t, s.URL())
	file := filepath.Join(u.project, "menu.txt")
	if err := os.WriteFile(file, []byte("red 10\n绿茶 12\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := u.tmux(70, 30, nil)
	p.see("/help lists the commands")
	p.say("green tea costs 14")
	p.press("Enter")
	p.see("-绿茶 12\n  +绿茶 14")
	p.see("Allow it?")
	p.say("what now")
	p.press("Enter")
	p.see("answer y, s, a or n")
	if b, _ := os.ReadFile(file); !strings.Contains(string(b), "12") {
		t.Error("changed before the yes")
	}
	p.say("y")
	p.press("Enter")
	p.see("changed\n")
	p.ended("3 requests")
	if b, _ := os.ReadFile(file); string(b) != "red 10\n绿茶 14\n" {
		t.Errorf("the file is %q", b)
	}
	p.press("C-u")
	p.say("order")
	p.press("Enter")
	p.see("2. 乌龙")
	p.say("2")
	p.press("Enter")
	p.see("noted")
	if got := s.Requests()[4].Last("tool").Content; got != "乌龙" {
		t.Errorf("the answer that came is %q", got)
	}
}

// A long difference is shown in part, and whole on demand, before the answer.
func TestTmuxWholeDifference(t *testing.T) {
	var text strings.Builder
	for i := range 70 {
		fmt.Fprintf(&text, "茶 %d\n", i)
	}
	text.WriteString(strings.Repeat("long ", 60) + "and its end\n")
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{{Name: "write_file", Args: map[string]any{"path": "long.txt", "content": text.String()}}}}, llmtest.Turn{Text: "as you like"})
	u := newUser(t, s.URL())
	p := u.tmux(100, 30, nil)
	p.see("/help lists the commands")
	p.say("write it")
	p.press("Enter")
	p.see("… 32 more lines of the difference")
	p.see("d shows the whole difference")
	if strings.Contains(p.all(), "茶 69") {
		t.Error("all of it was shown at once")
	}
	p.say("d")
	p.press("Enter")
	p.see("+茶 69")
	p.see("and its end")
	p.say("n")
	p.press("Enter")
	p.ended("2 requests")
	if _, err := os.Stat(filepath.Join(u.project, "long.txt")); err == nil {
		t.Error("written without a yes")
	}
}

// Three calls run; a message is queued and one is steered: the note is heard after the
// running call, the calls after it are skipped, the queued message is the next turn.
func TestTmuxQueueAndSteer(t *testing.T) {
	s := llmtest.ForTest(t,
		llmtest.Turn{Calls: []llmtest.Call{bashCall(waitsFor), bashCall("echo two"), bashCall("echo three > made.txt")}},
		llmtest.Turn{Text: "turned"}, llmtest.Turn{Text: "and then"})
	u := newUser(t, s.URL())
	p := u.tmux(80, 24, nil, "--yolo")
	p.see("/help lists the commands")
	p.say("begin")
	p.press("Enter")
	p.see("bash while")
	p.say("later words")
	p.press("Enter")
	p.see("queued: later words")
	p.say("turn left")
	p.press("M-Enter")
	p.see("steering: turn left")
	u.release()
	p.see("and then")
	list := requestsOf(t, s, 3)
	if got := list[1].Last(""); got.Role != "user" || !strings.Contains(got.Content, "turn left") {
		t.Errorf("the second request ends with %s %q", got.Role, got.Content)
	}
	var results []string
	for _, m := range list[1].Message {
		if m.Role == "tool" {
			results = append(results, m.Content)
		}
	}
	if len(results) != 3 || !strings.Contains(results[0], "released") || !strings.HasPrefix(results[1], "skipped") || !strings.HasPrefix(results[2], "skipped") {
		t.Errorf("results %q", results)
	}
	if got := list[2].Last("user").Content; !strings.Contains(got, "later words") {
		t.Errorf("the third request is about %q", got)
	}
	if _, err := os.Stat(filepath.Join(u.project, "made.txt")); err == nil {
		t.Error("a skipped call ran")
	}
}

// Ctrl-C stops the turn; what waited is in the line again and can be sent; twice leaves.
func TestTmuxCancel(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{bashCall("sleep 300")}}, llmtest.Turn{Text: "fresh answer"})
	u := newUser(t, s.URL())
	p := u.tmux(80, 24, nil, "--yolo")
	p.see("/help lists the commands")
	p.say("begin")
	p.press("Enter")
	p.see("bash sleep 300")
	p.say("waiting words")
	p.press("Enter")
	p.see("queued: waiting words")
	p.press("C-c")
	p.see("interrupted")
	p.cursor("› waiting words", 15)
	p.press("Enter")
	p.see("fresh answer")
	if got := requestsOf(t, s, 2)[1].Last("user").Content; !strings.Contains(got, "waiting words") {
		t.Errorf("the second request is about %q", got)
	}
	p.ended("1 requests")
	p.press("C-c")
	p.see("Ctrl-C again leaves")
	p.press("C-c")
	p.left()
}

// A window that changes its size while the answer streams shows in the end what one shows
// that never did.
func TestTmuxResize(t *testing.T) {
	var a, b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&a, "第 %d 行 **line** with 中文文字 and some more words that are long enough to wrap in a narrow window\n", i)
		fmt.Fprintf(&b, "- 项目 %d with `code` 和很多很多的中文文字，在窄的窗口里必须换行才能显示出来的那种长度\n", i)
	}
	b.WriteString("\n| 茶 | price |\n|---|--:|\n| 绿茶 | 12 |\n| oolong | 14 |\n\nthe end")
	fresh := ""
	for _, move := range []bool{false, true} {
		s := llmtest.ForTest(t, llmtest.Turn{Text: a.String(), Calls: []llmtest.Call{bashCall(waitsFor)}, ChunkSize: 3}, llmtest.Turn{Text: b.String(), ChunkSize: 3})
		u := newUser(t, s.URL())
		p := u.tmux(120, 30, nil, "--yolo")
		p.see("/help lists the commands")
		p.say("开始")
		p.press("Enter")
		p.see("bash while")
		if move {
			for _, w := range []int{60, 100, 20, 60} {
				p.size(w, 30)
			}
			p.until("the narrow drawing", func(s string) bool {
				return strings.Contains(s, "第 99 行") && strings.Contains(s, "are\nlong enough") && strings.Contains(s, "bash while")
			})
			u.release()
			for _, w := range []int{61, 40, 90, 60, 120} {
				p.size(w, 20+w%13)
			}
			p.size(120, 30)
		}
		u.release()
		if move {
			p.until("the drawing of a window that kept its size:\n"+fresh+"\n", func(s string) bool { return sameEnd(s, fresh, 26) })
			continue
		}
		p.until("the end of the turn", func(s string) bool {
			fresh = s
			return strings.Contains(s, "2 requests") && strings.Contains(s, "the end\n") && strings.Contains(s, "oolong │    14") && !strings.Contains(s, "Enter queues")
		})
	}
}

// sameEnd says whether two screens are the same from their last row up, for at least so
// many rows. How high the last row stands depends on how many rows the frames before it
// had, and so on the moments at which they were drawn.
func sameEnd(a, b string, rows int) bool {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	n := min(len(x), len(y))
	return n >= rows && slices.Equal(x[len(x)-n:], y[len(y)-n:])
}

// A conversation that is gone on with shows its end; suspended and resumed, the screen is
// drawn again.
func TestTmuxResume(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Text: "I am **lj**"}, llmtest.Turn{Text: "still here"}, llmtest.Turn{Text: "new one"})
	u := newUser(t, s.URL())
	if out, errs, status := u.run("run", "who are you?"); status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	p := u.tmux(80, 24, nil, "--continue")
	p.see("going on with")
	p.see("› who are you?")
	p.see("I am lj")
	p.say("and now?")
	p.press("Enter")
	p.see("still here")
	if list := requestsOf(t, s, 2)[1].Message; len(list) != 4 {
		t.Errorf("the second request has %d messages", len(list))
	}
	p.ended("1 requests")
	p.say("/clear")
	p.press("Enter")
	p.see("a new conversation")
	p.say("who else?")
	p.press("Enter")
	p.see("new one")
	if list := requestsOf(t, s, 3)[2].Message; len(list) != 2 {
		t.Errorf("the third request has %d messages", len(list))
	}
	p.say("/resume ")
	p.press("Enter")
	p.see("new one")
	p.say("/res")
	p.press("Tab")
	p.cursor("› /resume", 10)
}

// Suspended and taken up again by a shell, it is drawn anew and goes on.
func TestTmuxSuspend(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Text: "before"}, llmtest.Turn{Text: "after"})
	u := newUser(t, s.URL())
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	bin := u.bin
	u.bin = "bash"
	p := u.tmux(80, 24, []string{"PS1=shell: "}, "--norc", "--noprofile", "-i")
	p.see("shell:")
	p.say(bin)
	p.press("Enter")
	p.see("/help lists the commands")
	p.say("one")
	p.press("Enter")
	p.ended("1 requests")
	p.say("half")
	p.press("C-z")
	p.see("Stopped")
	p.say("fg")
	p.press("Enter")
	p.cursor("› half", 6)
	p.until("a fresh drawing", func(s string) bool { return strings.HasPrefix(s, "lj ") && strings.Contains(s, "before") })
	p.press("Enter")
	p.see("after")
	p.press("C-d")
	p.until("the shell", func(s string) bool { return strings.HasSuffix(s, "shell:") })
}

// Twenty columns, no colours, a terminal that can do nothing: it is readable everywhere.
func TestTmuxNarrowAndPlain(t *testing.T) {
	text := "# 茶馆\n\n| name | 价格 | remark |\n|---|---|---|\n| oolong | 14 | fine |\n\n**bold** words and `code`"
	s := llmtest.ForTest(t, llmtest.Turn{Text: text}, llmtest.Turn{Text: text}, llmtest.Turn{Text: text, Calls: []llmtest.Call{bashCall("echo x > made")}}, llmtest.Turn{Text: "done"})
	u := newUser(t, s.URL())
	p := u.tmux(20, 40, nil)
	p.see("›")
	p.say("show")
	p.press("Enter")
	p.see("价格: 14")
	p.see("bold words and code")
	p.press("C-d")
	p.left()

	p = u.tmux(60, 40, []string{"NO_COLOR=1"})
	p.see("/help lists the commands")
	p.say("show")
	p.press("Enter")
	p.see("**bold** words and `code`")
	if out := p.do("capture-pane", "-p", "-e"); strings.Contains(out, "\x1b[") {
		t.Errorf("NO_COLOR is not honoured: %q", out)
	}
	p.press("C-d")
	p.left()

	p = u.tmux(60, 40, []string{"TERM=dumb"})
	p.see("\n>")
	p.say("show\\")
	p.press("Enter")
	p.say("more")
	p.press("Enter")
	p.see("**bold** words and `code`")
	p.see("Allow it?")
	p.say("n")
	p.press("Enter")
	p.see("done")
	if out := p.do("capture-pane", "-p", "-e"); strings.Contains(out, "\x1b[") {
		t.Errorf("a dumb terminal gets sequences: %q", out)
	}
	p.say("/exit")
	p.press("Enter")
	p.left()
	if got := s.Requests()[2].Last("user").Content; !strings.Contains(got, "show\nmore") {
		t.Errorf("the continued line is %q", got)
	}
}

// Undo in a chat is about that chat's turns; making room that would gain nothing is not
// made; a file name that could steer the terminal is neither completed nor pasted raw.
func TestTmuxOwnUndo(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{{Name: "write_file", Args: map[string]any{"path": "other.txt", "content": "x\n"}}}}, llmtest.Turn{Text: "written"}, llmtest.Turn{Text: "hello"})
	u := newUser(t, s.URL())
	if out, errs, status := u.run("run", "--yolo", "write"); status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	if err := os.WriteFile(filepath.Join(u.project, "osc\x1b]0;PWNED\ax.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := u.tmux(80, 24, nil, "--yolo")
	p.see("/help lists the commands")
	p.say("hi")
	p.press("Enter")
	p.ended("1 requests")
	p.say("/undo")
	p.press("Enter")
	p.see("nothing to undo")
	if _, err := os.Stat(filepath.Join(u.project, "other.txt")); err != nil {
		t.Error("the other conversation's file is gone")
	}
	p.say("/compact")
	p.press("Enter")
	p.see("would not be smaller")
	p.say("@osc")
	p.press("Tab")
	p.cursor("› @osc", 6)
	p.press("C-u")
	p.do("set-buffer", "a\x1b]0;PWNED\ab")
	p.do("paste-buffer", "-p")
	p.see("› a]0;PWNEDb") // without the characters that make it a command
	if title := p.do("display-message", "-p", "#{pane_title}"); strings.Contains(title, "PWNED") {
		t.Errorf("the title is %q", title)
	}
	p.press("C-u")
	p.press("C-d")
	p.left()
	if out, errs, status := u.run("undo"); status != 0 || !strings.Contains(out, "other.txt") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// Room is made where there is some to gain.
func TestTmuxCompact(t *testing.T) {
	var turns []llmtest.Turn
	for range 6 {
		turns = append(turns, llmtest.Turn{Calls: []llmtest.Call{bashCall("seq 1 3000")}}, llmtest.Turn{Text: "counted"})
	}
	s := llmtest.ForTest(t, append(turns, llmtest.Turn{Text: "still here"})...)
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=60000")
	p := u.tmux(80, 24, nil, "--yolo")
	p.see("/help lists the commands")
	for i := range 6 {
		p.say(fmt.Sprintf("count number %d", i))
		p.press("Enter")
		requestsOf(t, s, 2*i+2)
		p.ended("2 requests")
		p.until("the turn's end", func(screen string) bool { return strings.HasSuffix(screen, "\n\n›") })
	}
	p.say("/compact")
	p.press("Enter")
	p.see("tokens before")
	p.say("and now?")
	p.press("Enter")
	p.see("still here")
	list := requestsOf(t, s, 13)
	if a, b := len(list[11].Body), len(list[12].Body); b*2 > a || !strings.Contains(string(list[12].Body), "count number 0") {
		t.Errorf("the request before has %d bytes, the one after %d", a, b)
	}
}
