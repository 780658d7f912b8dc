package grepfiles

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"encoding/json"

	"github.com/lingjiyidong/lj/core"
)

// matching lists the numbers of the lines that the machine finds.
func matching(p *pattern, text string) (lines []int) {
	m := p.machine()
	b := []byte(text)
	for pos := 0; pos < len(b); {
		start, end, ok := m.next(b, pos)
		if !ok {
			break
		}
		lines = append(lines, bytes.Count(b[:start], []byte("\n")))
		pos = lineAfter(b, end)
	}
	return lines
}

// expected does the same with package regexp.
func expected(re *regexp.Regexp, text string) (lines []int) {
	all := strings.Split(text, "\n")
	for i, l := range all {
		if i == len(all)-1 && l == "" {
			break
		}
		if i < len(all)-1 {
			l = strings.TrimSuffix(l, "\r")
		}
		if re.MatchString(l) {
			lines = append(lines, i)
		}
	}
	return lines
}

var seeds = []struct{ pat, text string }{
	{"foo", "a foo\nbar\nfoo foo\n"}, {`^a+$`, "aa\nab\r\na\r\n"}, {`\bfoo\b`, "foo\nfoobar\n foo,\n"},
	{`(?i)straße|k`, "STRASSE\nstraße\nKELVIN \u212a\n"}, {`[^a]b`, "ab\ncb\n"}, {`x*`, "\n\ny"}, {`\Bx`, "x\nax\n"},
	{`func (\(\w+ \*?\w+\) )?Get\w*\(`, "func GetA(\nfunc (a *B) GetX(x)\nfunc Set()\n"}, {`茶+[馆杯]$`, "茶馆\n茶\n茶茶杯\n"},
	{`\d{3}-\d{4}`, "555-1234\n55-1234\n"}, {`(a|ab)(c|bcd)(d*)`, "abcd\n"}, {`^$`, "\n\na\n"}, {`(foo|bar)baz`, "foobaz\nbaz\nbarbaz"},
	{`.`, "\xff\n\n\xe8\x8c\n"}, {`a$b|^`, "ab\n"}, {`\Aab|c\z`, "ab\nxab\nxc\ncx"}, {`(?s)a.b`, "a\nb\n"}, {`a{2,}b{0,1}c?`, "aac\nab"},
}

func TestMachineAgreesWithRegexp(t *testing.T) {
	for _, s := range seeds {
		p, err := compile(s.pat)
		if err != nil {
			t.Fatal(s.pat, err)
		}
		if got, want := matching(p, s.text), expected(regexp.MustCompile(s.pat), s.text); !slices.Equal(got, want) {
			t.Errorf("%q on %q: %v, want %v", s.pat, s.text, got, want)
		}
	}
}

func FuzzMachineAgreesWithRegexp(f *testing.F) {
	for _, s := range seeds {
		f.Add(s.pat, s.text)
	}
	f.Fuzz(func(t *testing.T, pat, text string) {
		if len(pat) > 60 || len(text) > 2000 {
			return
		}
		p, err := compile(pat)
		if err != nil {
			return
		}
		re, err := regexp.Compile(pat)
		if err != nil {
			t.Fatalf("%q compiles only for us", pat)
		}
		if got, want := matching(p, text), expected(re, text); !slices.Equal(got, want) {
			t.Fatalf("%q on %q: %v, want %v", pat, text, got, want)
		}
	})
}

func TestMachineIsBounded(t *testing.T) {
	p, err := compile(`(a|b)*a(a|b){14}c`)
	if err != nil {
		t.Fatal(err)
	}
	m := p.machine()
	var b []byte
	x := uint32(1)
	for range 200000 {
		x = x*1664525 + 1013904223
		b = append(b, 'a'+byte(x>>31))
	}
	if _, _, ok := m.next(b, 0); ok {
		t.Fatal("matched")
	}
	if len(m.states) > 2*maxStates+10 {
		t.Fatal(len(m.states))
	}
}

// tree makes a tree of n source-like files.
func tree(tb testing.TB, n int) string {
	tb.Helper()
	dir := os.Getenv("LJ_BENCH_TREE")
	if dir == "" {
		dir = tb.TempDir()
	} else if _, err := os.Stat(dir); err == nil {
		return dir
	}
	words := strings.Fields("func return if err nil range context string value index buffer request response server client handler parse token state config option reader writer")
	x := uint32(7)
	next := func(n int) int { x = x*1664525 + 1013904223; return int(x>>8) % n }
	for i := range n {
		var sb strings.Builder
		for l := 0; l < 20+next(120); l++ {
			for range 3 + next(7) {
				sb.WriteString(words[next(len(words))])
				sb.WriteByte(' ')
			}
			fmt.Fprintf(&sb, "%d\n", next(10000))
		}
		if i%997 == 0 {
			sb.WriteString("needleInHaystack := findMe(42)\n")
		}
		d := filepath.Join(dir, fmt.Sprintf("d%d/e%d", i/1000, i/25%40))
		if err := os.MkdirAll(d, 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("f%d.go", i)), []byte(sb.String()), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

var benchPatterns = []struct{ name, pat string }{
	{"literal", "needleInHaystack"},
	{"regexp", `needle\w+ := find[A-Z]\w*\(\d+\)`},
	{"noliteral", `[A-Z]\w\(\d{2}\)`},
	{"fold", `(?i)NEEDLEinhaystack`},
}

// BenchmarkGrep measures against ripgrep and grep where they are installed; LJ_BENCH_TREE
// keeps the tree between runs.
func BenchmarkGrep(b *testing.B) {
	dir := tree(b, 50000)
	for _, c := range benchPatterns {
		b.Run(c.name+"/lj", func(b *testing.B) {
			args, _ := json.Marshal(map[string]string{"pattern": c.pat})
			for b.Loop() {
				r, err := Run(b.Context(), core.ToolRequest{Args: args, Project: dir})
				if err != nil || !strings.Contains(r.Text, "[51 matching lines") {
					b.Fatal(r.Text, err)
				}
			}
		})
		for _, peer := range [][]string{{"rg", "-n", "--no-heading"}, {"grep", "-rInE"}} {
			path, err := exec.LookPath(peer[0])
			if err != nil || peer[0] == "grep" && strings.HasPrefix(c.pat, "(?i)") {
				continue
			}
			b.Run(c.name+"/"+peer[0], func(b *testing.B) {
				for b.Loop() {
					pat := c.pat
					if peer[0] == "grep" {
						pat = strings.ReplaceAll(pat, `\d`, "[0-9]")
					}
					cmd := exec.Command(path, append(slices.Clone(peer[1:]), "-e", pat, dir)...)
					out, err := cmd.Output()
					if err != nil || bytes.Count(out, []byte("\n")) != 51 {
						b.Fatal(err, bytes.Count(out, []byte("\n")))
					}
				}
			})
		}
	}
}
