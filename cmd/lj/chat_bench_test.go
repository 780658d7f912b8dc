package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// markdownOf is text of about so many pieces of five characters: headings, lists, tables,
// code, Chinese.
func markdownOf(pieces int) string {
	const part = "## 标题 heading\n\nSome **bold** words, 中文文字 and `code` in a line that is as long as lines are.\n- one item\n- 两个项目\n\n| a | 价格 |\n|---|--:|\n| x | 1 |\n\n```go\nfunc f() int { return 1 }\n```\n"
	var b strings.Builder
	for n := 0; n < pieces*5; n += len([]rune(part)) {
		b.WriteString(part)
	}
	b.WriteString("\nthe very end")
	return b.String()
}

// BenchmarkChatStream is an answer of 20,000 pieces of Markdown on a pseudo terminal: the
// processor time of the whole lj process, from its start to its end (target: 2 s), and the
// longest time that the screen stood still while text came, which is the pause between two
// frames and the longer of them (target for a frame: 50 ms).
func BenchmarkChatStream(b *testing.B) {
	lj, _ := release(b)
	text := markdownOf(20000)
	var cpu, still []float64
	for b.Loop() {
		s := llmtest.New(llmtest.Turn{Text: text, ChunkSize: 5})
		x := newBench(b, s.URL())
		cmd := exec.Command(lj)
		cmd.Dir, cmd.Env = x.dir, append(x.env, "TERM=xterm-256color", "LJ_EVOLVE_IDLE=0", "LANG=C.UTF-8")
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 100})
		if err != nil {
			b.Fatal(err)
		}
		seen := make(chan string, 1)
		go func() {
			var all strings.Builder
			buf := make([]byte, 64<<10)
			said, left := false, false
			var last time.Time
			longest := time.Duration(0)
			for {
				n, err := f.Read(buf)
				all.Write(buf[:n])
				if now := time.Now(); said && !left && strings.Contains(string(buf[:n]), "\x1b[?2026l") {
					if !last.IsZero() {
						longest = max(longest, now.Sub(last))
					}
					if !last.IsZero() || strings.Contains(all.String(), "heading") {
						last = now
					}
				}
				if !said && strings.Contains(all.String(), "/help lists") {
					said = true
					_, _ = f.WriteString("go\r")
				}
				if tail := all.String(); !left && strings.Contains(tail[max(0, len(tail)-4000):], "1 requests") {
					left = true
					_, _ = f.WriteString("/exit\r")
				}
				if err != nil {
					still = append(still, longest.Seconds()*1e3) // read after seen
					seen <- all.String()
					return
				}
			}
		}()
		timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		timer.Stop()
		f.Close()
		if out := <-seen; !strings.Contains(out, "the very end") {
			b.Fatal("the answer did not arrive")
		}
		s.Close()
		cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	b.ReportMetric(median(cpu), "cpu-s/answer")
	b.ReportMetric(median(still), "longest-ms")
}
