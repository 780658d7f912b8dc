package term

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

var sgrSeq = regexp.MustCompile("\x1b\\[[0-9;]*m")

func bare(rows []string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.TrimRight(sgrSeq.ReplaceAllString(r, ""), " ")
	}
	return out
}

func render(t Theme, width int, list []Block) []string {
	var rows []string
	for _, b := range list {
		rows = append(rows, b.Rows(t, width)...)
	}
	return rows
}

func whole(text string) []Block {
	var m Markdown
	return append(m.Write(text), m.Close()...)
}

func TestMarkdown(t *testing.T) {
	for _, c := range []struct {
		name, in string
		width    int
		want     string
	}{
		{"words", "one two three four", 9, "one two\nthree\nfour"},
		{"Chinese breaks anywhere, its stops stay with their word", "今天天气很好，我们去喝茶。", 10, "今天天气很\n好，我们去\n喝茶。"},
		{"mixed", "用 lj 写 Go 程序", 8, "用 lj 写\nGo 程序"},
		{"a long word", "see https://example.com/a/very/long/path now", 12, "see\nhttps://exam\nple.com/a/ve\nry/long/path\nnow"},
		{"heading", "# Tea house\n\ntext", 20, "Tea house\n\ntext"},
		{"emphasis", "a **bold** and *thin* and ~~gone~~ `co*de*`", 60, "a bold and thin and gone co*de*"},
		{"Chinese emphasis beside its stops", "**注意：**请先读*说明*。", 60, "注意：请先读说明。"},
		{"no emphasis", "2 * 3 * 4, snake_case_name, a ** b, **open", 60, "2 * 3 * 4, snake_case_name, a ** b, **open"},
		{"nested", "***both*** **a *b* c** \\*kept\\*", 60, "both a b c *kept*"},
		{"link", "see [the docs](https://x.test/a_(b) \"T\") and <https://y.test>", 70, "see the docs (https://x.test/a_(b)) and https://y.test"},
		{"list", "- one two three\n- [x] done\n  1. sub item here", 10, "• one two\n  three\n• ☑ done\n  1. sub\n     item\n     here"},
		{"quote", "> a wise word here\n> - x", 12, "│ a wise\n│ word here\n│ • x"},
		{"code", "```go\nfunc main() {\n\tx := 1\n}\n```\nafter", 30, "  go\n  func main() {\n      x := 1\n  }\nafter"},
		{"code is not Markdown", "~~~\n# no | head **x**\n```\n~~~", 30, "  # no | head **x**\n  ```"},
		{"table", "| 茶 | price |\n|---|--:|\n| 绿茶 | 12 |\n| `a|b` | 3 |\n\nend", 30, "茶   │ price\n─────┼──────\n绿茶 │    12\na|b  │     3\n\nend"},
		{"narrow table", "| name | what it does |\n|---|---|\n| x | a long text that wraps here |\n", 24, "name │ what it does\n─────┼──────────────────\nx    │ a long text that\n     │ wraps here"},
		{"table as records", "| name | one | two |\n|---|---|---|\n| alpha | first | second |\n| b | c | d |", 16, "name: alpha\none: first\ntwo: second\n──────────\nname: b\none: c\ntwo: d"},
		{"no table", "a | b\nc | d", 30, "a | b\nc | d"},
		{"rule", "a\n\n---\n\n***", 10, "a\n\n──────────\n\n──────────"},
		{"control characters", "a\x1b[31mb\x07\u202ec\r\n", 30, "a[31mbc"},
		{"empty lines", "\n\n\na\n\n\n\nb", 30, "a\n\nb"},
		{"emoji", "👨‍👩‍👧 family 🇨🇳 flag 茶", 12, "👨‍👩‍👧 family 🇨🇳\nflag 茶"},
	} {
		got := strings.Join(bare(render(Theme{Color: true}, c.width, whole(c.in))), "\n")
		if got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

func TestStyles(t *testing.T) {
	got := strings.Join(render(Theme{Color: true}, 40, whole("# H\n**b** `c`\n```diff\n+a\n-b\n```")), "\n")
	if want := "\x1b[1;4mH\x1b[0m\n\x1b[1mb\x1b[0m \x1b[36mc\x1b[0m\n\x1b[2m  diff\x1b[0m\n\x1b[2m  \x1b[0m\x1b[32m+a\x1b[0m\n\x1b[2m  \x1b[0m\x1b[31m-b\x1b[0m"; got != want {
		t.Errorf("got %q", got)
	}
}

// Without styles the marks of emphasis and code stay, and no sequence is written.
func TestPlainTheme(t *testing.T) {
	got := strings.Join(render(Theme{}, 40, whole("# Head\n**b** `c`\n```\nx\n```\n| a | b |\n|-|-|\n| 1 | 2 |")), "\n")
	if want := "# Head\n**b** `c`\n  x\na │ b\n──┼──\n1 │ 2"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const sample = "# 标题 title\n\nSome **bold** text, 中文文字和 `code`.\n- one\n- two **三**\n\n| a | 价格 |\n|---|---:|\n| x | 1 |\n| yy | 22 |\n\n```go\nfunc f() {}\n```\n> quote\n\nlast line"

// In whatever pieces a text comes, what is printed is the same, and a row that is printed
// never changes.
func TestPieces(t *testing.T) {
	want := strings.Join(render(Theme{Color: true}, 30, whole(sample)), "\n")
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var m Markdown
		var list []Block
		for s := sample; s != ""; {
			n := min(len(s), 1+r.IntN(9)) // also inside a character
			list = append(list, m.Write(s[:n])...)
			if b := m.Open(); b != nil {
				b.Rows(Theme{Color: true}, 30)
			}
			s = s[n:]
		}
		list = append(list, m.Close()...)
		if got := strings.Join(render(Theme{Color: true}, 30, list), "\n"); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// A line without end is printed in parts, and drawing what is open of it stays cheap.
func TestEndlessLine(t *testing.T) {
	var m Markdown
	var list []Block
	text := strings.Repeat("*a [c _d ", 40000) + "|" + strings.Repeat("茶", 40000)
	for i := 0; i < len(text); i += 1000 {
		list = append(list, m.Write(text[i:min(len(text), i+1000)])...)
		if len(m.part) > 3*maxPart {
			t.Fatalf("%d bytes are held back", len(m.part))
		}
	}
	rows := bare(render(Theme{Color: true}, 80, append(list, m.Close()...)))
	got := strings.ReplaceAll(strings.Join(rows, ""), " ", "")
	if want := strings.ReplaceAll(text, " ", ""); got != want {
		t.Errorf("%d bytes of text are shown as %d", len(want), len(got))
	}
	// The same in one piece.
	if rows := bare(render(Theme{Color: true}, 80, whole(text+"\n"))); strings.ReplaceAll(strings.Join(rows, ""), " ", "") != got {
		t.Error("in one piece it looks different")
	}
}

// A long table is printed in parts that stand under each other.
func TestLongTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| number | text |\n|---|---|\n")
	for i := range 150 {
		fmt.Fprintf(&b, "| %d | row |\n", i)
	}
	rows := bare(render(Theme{Color: true}, 40, whole(b.String())))
	if len(rows) != 152 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if i != 1 && !strings.HasPrefix(r[min(7, len(r)):], "│") {
			t.Errorf("row %d: %q", i, r)
		}
	}
}

// checkRows holds rows against what every row must be.
func checkRows(t *testing.T, rows []string, width int) {
	t.Helper()
	for _, r := range rows {
		text := sgrSeq.ReplaceAllString(r, "")
		if w := Width(text); w > max(width, 4) {
			t.Fatalf("a row of %d columns where %d are allowed: %q", w, width, text)
		}
		for _, c := range text {
			if hidden(c) || c == '\n' {
				t.Fatalf("control character %q in %q", c, text)
			}
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add(sample, 20)
	f.Add("| a |\n|-|\n|`|", 7)
	f.Add("*a **b** c* ***x** _y__ [a](b `c\\", 3)
	f.Add("\x1b]0;x\x07 ‮ \tx", 9)
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = 4 + (width&0x7fffffff)%80
		if len(text) > 8<<10 {
			return
		}
		for _, th := range []Theme{{}, {Color: true}} {
			var m Markdown
			var list []Block
			for i := 0; i < len(text); i += 97 {
				list = append(list, m.Write(text[i:min(len(text), i+97)])...)
				if b := m.Open(); b != nil {
					checkRows(t, b.Rows(th, width), width)
				}
			}
			checkRows(t, render(th, width, append(list, m.Close()...)), width)
		}
	})
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"abc": 3, "你好": 4, "é": 1, "👍🏽": 2, "…—✓": 3, "": 0} {
		if got := Width(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
	for _, c := range []struct {
		s    string
		w    int
		want string
	}{{"hello", 5, "hello"}, {"hello!", 5, "hell…"}, {"你好吗", 5, "你好…"}, {"你好吗", 4, "你…"}, {"x", 0, ""}} {
		if got := Cut(c.s, c.w); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.s, c.w, got, c.want)
		}
	}
}

func keysOf(t *testing.T, s string) []Key {
	t.Helper()
	var k Keys
	list := k.Feed([]byte(s))
	if k.Pending() {
		t.Fatalf("%q: something is pending", s)
	}
	return list
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []Key
	}{
		{"a茶\r", []Key{{Code: KeyRune, Rune: 'a'}, {Code: KeyRune, Rune: '茶'}, {Code: KeyEnter}}},
		{"\x1b[A\x1bOB\x1b[1;5C\x1bb\x7f\x1b[3~", []Key{{Code: KeyUp}, {Code: KeyDown}, {Code: KeyWordRight}, {Code: KeyWordLeft}, {Code: KeyBackspace}, {Code: KeyDelete}}},
		{"\x1b\r\x1b[13;2u\x1b[13;3u", []Key{{Code: KeyAltEnter}, {Code: KeyShiftEnter}, {Code: KeyAltEnter}}},
		{"\x1b[200~x\r\ny\x1b[31m\x1b[201~z", []Key{{Code: KeyPaste, Text: "x\ny[31m"}, {Code: KeyRune, Rune: 'z'}}},
		{"\x03\x1b[12;40R\x1b[I", []Key{{Code: KeyCtrl, Rune: 'c'}}},
	} {
		if got := keysOf(t, c.in); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%q: %v, want %v", c.in, got, c.want)
		}
		// The same when the bytes come one by one.
		var k Keys
		var got []Key
		for i := range len(c.in) {
			got = append(got, k.Feed([]byte{c.in[i]})...)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%q byte by byte: %v, want %v", c.in, got, c.want)
		}
	}
	var k Keys
	if list := k.Feed([]byte{0x1b}); len(list) != 0 || !k.Pending() {
		t.Error("an escape alone is taken too early")
	}
	if list := k.Flush(); len(list) != 1 || list[0].Code != KeyEsc {
		t.Errorf("flushed: %v", list)
	}
}

func typed(e *Editor, t *testing.T, s string) (last Action) {
	for _, k := range keysOf(t, s) {
		last = e.Handle(k)
	}
	return last
}

// Whatever comes into the editor, by the history, a draft or a completion, nothing of it
// steers the terminal.
func TestEditorHoldsNoControls(t *testing.T) {
	const bad = "a\x1b]0;PWNED\ab\x1b[31m\u202ec\td"
	e := &Editor{Complete: func(string) (int, []Candidate) { return 0, []Candidate{{Text: bad}} }}
	check := func(how string) {
		t.Helper()
		rows, _, prefix := e.View(Theme{}, "› ", 60, 10)
		if all := strings.Join(rows, "") + prefix + e.Text(); strings.ContainsAny(all, "\x1b\a\u202e") || !strings.Contains(all, "PWNED") {
			t.Errorf("%s: %q", how, all)
		}
	}
	e.Set(bad)
	check("set")
	e.Set("a")
	e.tab(1)
	check("completed")
	e.Take()
	e.Remember(bad)
	e.travel(-1)
	check("from the history")
}

func TestEditor(t *testing.T) {
	const left, up, down = "\x1b[D", "\x1b[A", "\x1b[B"
	e := &Editor{}
	typed(e, t, "你好，world"+left+left+left+"茶")
	if got := e.Text(); got != "你好，wo茶rld" {
		t.Errorf("text %q", got)
	}
	rows, caret, prefix := e.View(Theme{}, "› ", 40, 10)
	if len(rows) != 1 || caret != 0 || prefix != "› 你好，wo茶" {
		t.Errorf("rows %q, caret %d behind %q", rows, caret, prefix)
	}
	rows, caret, prefix = e.View(Theme{}, "› ", 12, 10)
	if strings.Join(rows, "|") != "› 你好，wo茶|  rld" || caret != 1 || prefix != "  " {
		t.Errorf("wrapped: %q, caret %d behind %q", rows, caret, prefix)
	}
	typed(e, t, "\x7f")
	if got := e.Text(); got != "你好，world" {
		t.Errorf("text %q after the backspace", got)
	}
	// One step is one character, whatever it is made of.
	e.Take()
	typed(e, t, "a👨‍👩‍👧é"+left+left+"\x7f")
	if got := e.Text(); got != "👨‍👩‍👧é" {
		t.Errorf("text %q", got)
	}
	// Lines and the history.
	e.Take()
	e.Remember("first")
	e.Remember("second\nline")
	if typed(e, t, "one\\\r") != Edited || e.Text() != "one\n" {
		t.Errorf("a continued line: %q", e.Text())
	}
	typed(e, t, "two"+up+"X"+down+"Y")
	if got := e.Text(); got != "oneX\ntwoY" {
		t.Errorf("text %q", got)
	}
	typed(e, t, up+up)
	if got := e.Text(); got != "second\nline" {
		t.Errorf("the history gives %q", got)
	}
	typed(e, t, up+up)
	if got := e.Text(); got != "first" {
		t.Errorf("the history gives %q", got)
	}
	typed(e, t, down+down+down)
	if got := e.Text(); got != "oneX\ntwoY" {
		t.Errorf("what was being typed is %q", got)
	}
	// Searching.
	e.Take()
	typed(e, t, "\x12fir")
	if rows, _, _ := e.View(Theme{}, "› ", 40, 5); rows[0] != "(fir) first" {
		t.Errorf("search shows %q", rows)
	}
	if typed(e, t, "\r") != Edited || e.Text() != "first" {
		t.Errorf("found %q", e.Text())
	}
	if typed(e, t, "\r") != Submit || e.Take() != "first" || !e.Empty() {
		t.Error("it is not submitted")
	}
	// Cut, put back, undo.
	typed(e, t, "go test now\x17\x17\x19")
	if got := e.Text(); got != "go test " {
		t.Errorf("text %q", got)
	}
	typed(e, t, "\x15\x1f")
	if got := e.Text(); got != "go test " {
		t.Errorf("undone to %q", got)
	}
	// A long paste is one character on the screen and whole in the text.
	e.Take()
	long := strings.Repeat("line\n", 50)
	typed(e, t, "see \x1b[200~"+long+"\x1b[201~!")
	if rows, _, _ := e.View(Theme{}, "› ", 60, 5); len(rows) != 1 || !strings.Contains(rows[0], "[paste 1: 51 lines") {
		t.Errorf("shown as %q", rows)
	}
	if got := e.Take(); got != "see "+long+"!" {
		t.Errorf("the paste is %d bytes", len(got))
	}
}

func TestCompletion(t *testing.T) {
	e := &Editor{Complete: func(before string) (int, []Candidate) {
		start := strings.LastIndexByte(before, ' ') + 1
		var out []Candidate
		for _, s := range []string{"@cmd/", "@core/", "@core.go", "@茶.md"} {
			if strings.HasPrefix(s, before[start:]) {
				out = append(out, Candidate{Text: s, Note: "a note"})
			}
		}
		return start, out
	}}
	typed(e, t, "看 @co\t")
	if got := e.Text(); got != "看 @core" {
		t.Errorf("completed to %q", got)
	}
	rows, _, _ := e.View(Theme{}, "› ", 40, 10)
	if len(rows) != 3 || !strings.Contains(rows[1], "@core.go") {
		t.Errorf("shown: %q", rows)
	}
	typed(e, t, "\t")
	if got := e.Text(); got != "看 @core.go" {
		t.Errorf("chosen %q", got)
	}
	typed(e, t, "\t x")
	if got := e.Text(); got != "看 @core/ x" {
		t.Errorf("chosen %q", got)
	}
	e.Take()
	typed(e, t, "@茶\t")
	if got := e.Text(); got != "@茶.md " {
		t.Errorf("completed to %q", got)
	}
}

// The screen shows, after any frames and sizes, what a fresh screen of the last size would.
func TestScreenEqualsFreshDrawing(t *testing.T) {
	words := []string{"plain words here", "中文文字和 words", "👍 emoji 茶", strings.Repeat("long ", 30), "**bold** `x`", "| a | b |"}
	for seed := range 60 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		w, h := 20+r.IntN(80), 6+r.IntN(20)
		v := newVT(t, w, h)
		s := NewScreen(v, Theme{Color: seed%2 == 0}, w, h)
		var all []Block
		n := 1
		live := func(width int) ([]string, int, string) {
			rows := make([]string, n)
			for i := range rows {
				rows[i] = Cut("working 茶", width)
			}
			return append(rows, "› 你好"), n, "› 你"
		}
		for range 120 {
			n = r.IntN(3)
			l, c, p := live(s.Width())
			if r.IntN(8) == 0 {
				w, h = 20+r.IntN(80), 6+r.IntN(20)
				v.resize(w, h)
				s.SetSize(w, h)
				l, c, p = live(s.Width())
				if err := s.Redraw(l, c, p); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var print []Block
			for range r.IntN(3) {
				print = append(print, mdLine(words[r.IntN(len(words))]))
			}
			all = append(all, print...)
			if err := s.Frame(print, l, c, p); err != nil {
				t.Fatal(err)
			}
		}
		if s.SetSize(w, h) {
			t.Fatal("the size has changed")
		}
		l, c, p := live(s.Width())
		if err := s.Frame(nil, l, c, p); err != nil {
			t.Fatal(err)
		}
		fresh := newVT(t, w, h)
		f := NewScreen(fresh, Theme{Color: seed%2 == 0}, w, h)
		if err := f.Frame(all, l, c, p); err != nil {
			t.Fatal(err)
		}
		// Rows that scrolled off do not come back when fewer live rows are drawn: then the
		// same rows stand higher, and nothing stands below them.
		got, want := strings.TrimRight(v.String(), "\n"), strings.TrimRight(fresh.String(), "\n")
		gap := strings.Count(want, "\n") - strings.Count(got, "\n")
		if !strings.HasSuffix("\n"+want, "\n"+got) || gap > 2 || v.x != fresh.x || v.y != fresh.y-gap {
			t.Fatalf("seed %d, %dx%d: the screen is\n%s\n(cursor %d,%d), a fresh one\n%s\n(cursor %d,%d)", seed, w, h, v, v.x, v.y, fresh, fresh.x, fresh.y)
		}
	}
}

// Without a change of size nothing is lost that was printed: it stands on the screen or
// has scrolled off it.
func TestNothingPrintedIsLost(t *testing.T) {
	v := newVT(t, 30, 8)
	s := NewScreen(v, Theme{Color: true}, 30, 8)
	n := 0
	for i := range 200 {
		var print []Block
		for range i % 4 {
			print = append(print, Text{Text: fmt.Sprintf("row %d", n)})
			n++
		}
		live := make([]string, 1+i%7)
		for k := range live {
			live[k] = fmt.Sprintf("live %d", k)
		}
		if err := s.Frame(print, live, len(live)-1, "live"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.Join(append(v.past, v.String()), "\n"), "\n")
	at := 0
	for _, r := range rows {
		if r == fmt.Sprintf("row %d", at) {
			at++
		} else if strings.HasPrefix(r, "live") {
			t.Errorf("a live row stayed: %q", r)
		}
	}
	if at != n {
		t.Errorf("%d of %d rows are there", at, n)
	}
}

// What a frame changes nothing in is not written.
func TestQuietFrame(t *testing.T) {
	var b strings.Builder
	s := NewScreen(&b, Theme{}, 40, 10)
	for range 3 {
		if err := s.Frame(nil, []string{"a", "› b"}, 1, "› "); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(b.String(), frameStart); n != 1 {
		t.Errorf("%d frames were written", n)
	}
}

// BenchmarkStream is 20,000 pieces of Markdown, drawn every 100 pieces: what lj's own part
// of showing a very long answer costs.
func BenchmarkStream(b *testing.B) {
	const pieces = 20000
	var parts []string
	for s := sample + "\n"; len(parts) < pieces; {
		for i := 0; i < len(s) && len(parts) < pieces; i += 5 {
			parts = append(parts, s[i:min(len(s), i+5)])
		}
	}
	b.ResetTimer()
	for range b.N {
		var sink strings.Builder
		s := NewScreen(&sink, Theme{Color: true}, 100, 40)
		var m Markdown
		var print []Block
		for i, p := range parts {
			print = append(print, m.Write(p)...)
			if i%100 == 0 {
				var live []string
				if o := m.Open(); o != nil {
					live = o.Rows(s.Theme(), s.Width())
				}
				if err := s.Frame(print, append(live, "› "), len(live), "› "); err != nil {
					b.Fatal(err)
				}
				print = nil
			}
		}
	}
}
