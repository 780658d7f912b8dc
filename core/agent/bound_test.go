package agent_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
)

type raw struct{}

func (raw) Push(p []byte) string { return string(p) }
func (raw) Close() string        { return "" }

type kept struct{ bytes.Buffer }

func (*kept) Close() error { return nil }
func (*kept) ID() string   { return "o1" }

func TestBounded(t *testing.T) {
	long := strings.Repeat("茶杯", 30000)
	var lines strings.Builder
	for i := 0; lines.Len() < 500_000; i++ {
		lines.WriteString(strings.Repeat("x", i%90) + "\n")
	}
	for name, in := range map[string]string{
		"empty": "", "short": "hello\n", "no line breaks": long, "lines": lines.String(),
		"exactly head": strings.Repeat("a", agent.DefaultHead), "head and tail": strings.Repeat("b", agent.DefaultHead+agent.DefaultTail),
		"one more": strings.Repeat("c", agent.DefaultHead+agent.DefaultTail+1),
	} {
		for _, chunk := range []int{1, 7, 4096, 1 << 20} {
			if chunk == 1 && len(in) > 200_000 {
				continue
			}
			var k *kept
			b := &agent.Bounded{Decode: raw{}, Keep: func() (agent.Kept, error) { k = &kept{}; return k, nil }}
			for p := []byte(in); len(p) > 0; {
				n := min(chunk, len(p))
				b.Output(p[:n])
				p = p[n:]
			}
			res, id, n, dropped := b.Result(core.ToolResult{Text: "exit status 1"})
			if !utf8.ValidString(res.Text) {
				t.Errorf("%s/%d: result is not UTF-8", name, chunk)
			}
			if !strings.HasSuffix(res.Text, "exit status 1") {
				t.Errorf("%s/%d: the trailer is lost: …%q", name, chunk, res.Text[max(0, len(res.Text)-40):])
			}
			if len(in) <= agent.DefaultHead+agent.DefaultTail {
				if id != "" || !strings.HasPrefix(res.Text, in) {
					t.Errorf("%s/%d: a short output must be whole", name, chunk)
				}
				continue
			}
			if id != "o1" || k.String() != in || n != int64(len(in)) || dropped != 0 {
				t.Errorf("%s/%d: stored %d of %d bytes, id %q, dropped %d", name, chunk, k.Len(), len(in), id, dropped)
			}
			if len(res.Text) > agent.DefaultHead+agent.DefaultTail+300 {
				t.Errorf("%s/%d: result has %d bytes", name, chunk, len(res.Text))
			}
			head, rest, ok := strings.Cut(res.Text, "\n[… ")
			_, tail, ok2 := strings.Cut(rest, " …]\n")
			tail = strings.TrimSuffix(strings.TrimSuffix(tail, "exit status 1"), "\n")
			if !ok || !ok2 || !strings.HasPrefix(in, head) || !strings.HasSuffix(strings.TrimSuffix(in, "\n"), tail) || head == "" || tail == "" {
				t.Errorf("%s/%d: head or tail differs from the output", name, chunk)
			}
		}
	}
}

func TestCut(t *testing.T) {
	in := strings.Repeat("茶馆", 1000)
	got := agent.Cut(in, 1000, "nowhere")
	if !utf8.ValidString(got) || len(got) > 1100 || !strings.Contains(got, "bytes left out") {
		t.Errorf("got %d bytes, valid %v", len(got), utf8.ValidString(got))
	}
	if got := agent.Cut("short", 1000, ""); got != "short" {
		t.Errorf("got %q", got)
	}
}
