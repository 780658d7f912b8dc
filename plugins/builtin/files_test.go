package builtin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin"
)

// session calls tools as a host does: it remembers what was read and written.
type session struct {
	t     *testing.T
	dir   string
	tools map[string]builtin.Tool
	known map[string]string
	ro    bool
	add   []string
}

func begin(t *testing.T) *session {
	t.Helper()
	t.Setenv("LJ_HOME", filepath.Join(t.TempDir(), "lj"))
	s := &session{t: t, dir: t.TempDir(), tools: map[string]builtin.Tool{}, known: map[string]string{}}
	for _, x := range builtin.Files() {
		s.tools[x.Spec.Name] = x
	}
	return s
}

func (s *session) call(name string, kv ...any) core.ToolResult {
	s.t.Helper()
	args := map[string]any{}
	for i := 0; i+1 < len(kv); i += 2 {
		args[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := json.Marshal(core.ToolContext{Session: s.t.Name(), Known: s.known, ReadOnly: s.ro})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.tools[name].Run(s.t.Context(), core.ToolRequest{Args: b, Project: s.dir, AddDirs: s.add, Context: c})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(r.Meta) > 0 {
		var m core.ToolMeta
		if err := json.Unmarshal(r.Meta, &m); err != nil {
			s.t.Fatal(err)
		}
		for _, f := range m.Files {
			s.known[f.Path] = f.After
		}
	}
	return r
}

func (s *session) ok(name string, kv ...any) string {
	s.t.Helper()
	r := s.call(name, kv...)
	if r.IsError {
		s.t.Fatalf("%s: %s", name, r.Text)
	}
	return r.Text
}

func (s *session) fails(words string, name string, kv ...any) string {
	s.t.Helper()
	r := s.call(name, kv...)
	if !r.IsError {
		s.t.Fatalf("%s succeeded: %s", name, r.Text)
	}
	for _, w := range strings.Split(words, "|") {
		if !strings.Contains(r.Text, w) {
			s.t.Fatalf("%s: %q is not in: %s", name, w, r.Text)
		}
	}
	return r.Text
}

func (s *session) put(name, text string) {
	s.t.Helper()
	p := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) is(name, want string) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	if string(b) != want {
		s.t.Fatalf("%s is %q, want %q", name, b, want)
	}
}

func in(t *testing.T, e encoding.Encoding, s string) string {
	t.Helper()
	b, err := e.NewEncoder().Bytes([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSpecsAreShortAndValid(t *testing.T) {
	total := 0
	for _, x := range append(builtin.Files(), builtin.Bash(builtin.BashOptions{})...) {
		var schema struct {
			Type       string
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(x.Spec.Schema, &schema); err != nil || schema.Type != "object" {
			t.Errorf("%s: %v", x.Spec.Name, err)
		}
		for _, r := range schema.Required {
			if schema.Properties[r] == nil {
				t.Errorf("%s requires %s, which it does not have", x.Spec.Name, r)
			}
		}
		n := len(x.Spec.Name) + len(x.Spec.Description) + len(x.Spec.Schema)
		total += n
		if n > 420 {
			t.Errorf("%s has %d bytes", x.Spec.Name, n)
		}
		if err := core.CheckToolName(x.Spec.Name); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d bytes in all", total)
}

func TestFault001EditCRLF(t *testing.T) {
	s := begin(t)
	s.put("greet.c", "int a;\r\nint b;\r\nint c;\r\n")
	out := s.ok("edit_file", "path", "greet.c", "old", "int a;\nint b;", "new", "int a;\nlong b;")
	s.is("greet.c", "int a;\r\nlong b;\r\nint c;\r\n")
	if !strings.Contains(out, "-int b;\n+long b;") || !strings.Contains(out, "CRLF kept") {
		t.Fatal(out)
	}
}

func TestFault002EditInGBK(t *testing.T) {
	s := begin(t)
	raw := "limit = 3\n# \xBC\xDB\xB8\xF1\xC9\xCF\xCF\xDE\n"
	s.put("price.py", raw)
	if out := s.ok("read_file", "path", "price.py"); !strings.Contains(out, "GB18030") || !strings.Contains(out, "价格上限") {
		t.Fatal(out)
	}
	s.ok("edit_file", "path", "price.py", "old", "limit = 3", "new", "limit = 5")
	s.is("price.py", strings.Replace(raw, "3", "5", 1))
	s.fails("GB18030|nothing was changed", "edit_file", "path", "price.py", "old", "5", "new", "\U0010FFFF\uFFFF\uFFFD")
}

func TestFault004WriteKeepsGB18030(t *testing.T) {
	s := begin(t)
	g := simplifiedchinese.GB18030
	s.put("菜单.txt", in(t, g, "绿茶 12元"))
	s.ok("read_file", "path", "菜单.txt")
	if out := s.ok("write_file", "path", "菜单.txt", "content", "绿茶 13元"); !strings.Contains(out, "GB18030 kept") {
		t.Fatal(out)
	}
	s.is("菜单.txt", in(t, g, "绿茶 13元"))
	s.put("two.txt", in(t, g, "绿茶 12元\n红茶 9元\n"))
	s.ok("edit_file", "path", "two.txt", "old", "绿茶 12元\n", "new", "")
	s.is("two.txt", in(t, g, "红茶 9元\n"))
}

func TestFault005InsertInShiftJIS(t *testing.T) {
	s := begin(t)
	s.put("conf.ini", in(t, japanese.ShiftJIS, "設定=1\n"))
	s.ok("edit_file", "path", "conf.ini", "old", "設定=1", "new", "設定=1\n追加=2")
	s.is("conf.ini", in(t, japanese.ShiftJIS, "設定=1\n追加=2\n"))
	s.fails("Shift-JIS", "edit_file", "path", "conf.ini", "old", "追加=2", "new", "追加=é")
	s.is("conf.ini", in(t, japanese.ShiftJIS, "設定=1\n追加=2\n"))
}

func TestFault007SeveralMatches(t *testing.T) {
	s := begin(t)
	s.put("a.go", "package a\n\n\nimport \"fmt\"\nimport \"fmt\"\nx\n")
	s.fails("lines 4, 5|occurrence|all", "edit_file", "path", "a.go", "old", `import "fmt"`, "new", "")
	s.fails("no occurrence 3", "edit_file", "path", "a.go", "old", `import "fmt"`, "new", "", "occurrence", 3)
	s.ok("edit_file", "path", "a.go", "old", `import "fmt"`, "new", "", "occurrence", 2)
	s.is("a.go", "package a\n\n\nimport \"fmt\"\nx\n")
	s.put("b", "k\nk k\nk")
	s.ok("edit_file", "path", "b", "old", "k", "new", "v", "all", true)
	s.is("b", "v\nv v\nv")
}

func TestFault008NoChangeIsAnError(t *testing.T) {
	s := begin(t)
	s.put("a", "tea\r\ncup\r\n")
	s.fails("no change made", "edit_file", "path", "a", "old", "tea\r\ncup", "new", "tea\ncup")
	s.is("a", "tea\r\ncup\r\n")
}

func TestFault010EqualFailuresAskForAReread(t *testing.T) {
	s := begin(t)
	var sb strings.Builder
	for i := 1; i <= 700; i++ {
		fmt.Fprintf(&sb, "line %d of the file\r\n", i)
	}
	s.put("big.txt", sb.String())
	same := "line 5 of the file\nline 6 of the file"
	for range 2 {
		if out := s.fails("no change made", "edit_file", "path", "big.txt", "old", same, "new", same); strings.Contains(out, "read_file") {
			t.Fatal(out)
		}
	}
	s.fails("failed 3 times|read_file", "edit_file", "path", "big.txt", "old", same, "new", same)
	out := s.fails("lines 223-225|2 of 3", "edit_file", "path", "big.txt", "old", "line 223 of the file\nline 224 of a file\nline 225 of the file", "new", "x")
	if !strings.Contains(out, "file: line 224 of the file") {
		t.Fatal(out)
	}
	s.is("big.txt", sb.String())
}

func TestFault011ReplaceAndInsert(t *testing.T) {
	s := begin(t)
	s.put("a", "l1\nl2\nl3\nl4\nl5\n")
	s.ok("edit_file", "path", "a", "old", "l2\nl3", "new", "X\nY")
	s.ok("edit_file", "path", "a", "old", "l1", "new", "l1\nZ")
	s.is("a", "l1\nZ\nX\nY\nl4\nl5\n")
}

func TestFault013ChangedSinceRead(t *testing.T) {
	s := begin(t)
	s.put("notes.md", "line 1\nline 2\n")
	s.ok("read_file", "path", "notes.md")
	s.put("notes.md", "line 1\nline 2\nline 3\n")
	s.fails("changed since you read it|line 3", "write_file", "path", "notes.md", "content", "LINE 1\nLINE 2\n")
	s.is("notes.md", "line 1\nline 2\nline 3\n")
	s.ok("write_file", "path", "notes.md", "content", "LINE 1\nLINE 2\nline 3\n")
	s.is("notes.md", "LINE 1\nLINE 2\nline 3\n")
	// An edit that matches once is safe on fresh content.
	s.put("notes.md", "LINE 1\nmore\nLINE 2\nmore\n")
	s.fails("changed since you read it", "edit_file", "path", "notes.md", "old", "more", "new", "x", "occurrence", 1)
	if out := s.ok("edit_file", "path", "notes.md", "old", "LINE 2", "new", "two"); !strings.Contains(out, "had changed since") {
		t.Fatal(out)
	}
	s.is("notes.md", "LINE 1\nmore\ntwo\nmore\n")
}

func TestFault014CandidatesForAPath(t *testing.T) {
	s := begin(t)
	s.put("css/menu.css", "a{}\n")
	s.put("mobile/css/menu.css", "a{}\n")
	s.ok("edit_file", "path", "mobile/css/menu.css", "old", "a{}", "new", "b{}")
	s.is("css/menu.css", "a{}\n")
	s.is("mobile/css/menu.css", "b{}\n")
	s.fails("does not exist|css/menu.css|mobile/css/menu.css", "edit_file", "path", "menu.css", "old", "a", "new", "b")
	s.fails("css/menu.css", "read_file", "path", "css/menus.css")
	s.fails("directory|list_files", "read_file", "path", "css")
}

func TestFault104Confinement(t *testing.T) {
	s := begin(t)
	out := t.TempDir()
	if err := os.Symlink(out, filepath.Join(s.dir, "esc")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "secret.txt"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.put("real/a", "x\n")
	if err := os.Symlink("real", filepath.Join(s.dir, "stay")); err != nil {
		t.Fatal(err)
	}
	s.fails("outside the project|--add-dir", "write_file", "path", "esc/evil.txt", "content", "x")
	for _, tool := range []string{"read_file", "list_files", "create_directory"} {
		s.fails("outside the project", tool, "path", "esc/secret.txt")
	}
	s.fails("outside the project", "grep_files", "pattern", "s", "path", "esc")
	s.fails("outside the project", "edit_file", "path", "esc/secret.txt", "old", "s", "new", "t")
	if es, _ := os.ReadDir(out); len(es) != 1 {
		t.Fatal("something was written")
	}
	s.ok("write_file", "path", "stay/b", "content", "y")
	s.is("real/b", "y")
	s.fails("guarded", "write_file", "path", ".git/hooks/pre-commit", "content", "x")
	s.add = []string{out}
	s.ok("read_file", "path", "esc/secret.txt")
}

func TestWriteFile(t *testing.T) {
	s := begin(t)
	s.ok("write_file", "path", "new/dir/a.txt", "content", "one\ntwo\n")
	s.is("new/dir/a.txt", "one\ntwo\n")
	if out := s.ok("write_file", "path", "new/dir/a.txt", "content", "one\n2\n3"); !strings.Contains(out, "+2 -1") {
		t.Fatal(out)
	}
	s.put("old.txt", "precious\nlines\n")
	s.fails("was not read|2 lines|precious", "write_file", "path", "old.txt", "content", "x")
	s.fails("was not read", "write_file", "path", "old.txt", "content", "x")
	s.is("old.txt", "precious\nlines\n")
	s.put("crlf.txt", "\xEF\xBB\xBFa\r\nb\r\n")
	s.ok("read_file", "path", "crlf.txt")
	s.ok("write_file", "path", "crlf.txt", "content", "a\nc\nd\n")
	s.is("crlf.txt", "\xEF\xBB\xBFa\r\nc\r\nd\r\n")
	s.put("bin", "\x00\x01\x02")
	s.fails("exists", "write_file", "path", "bin", "content", "x")
	s.fails("directory", "write_file", "path", "new", "content", "x")
	s.fails("content is missing", "write_file", "path", "n")
	s.fails("path is empty", "write_file", "content", "n")
	s.ro = true
	s.fails("plan mode", "write_file", "path", "n", "content", "n")
	s.fails("plan mode", "edit_file", "path", "old.txt", "old", "lines", "new", "n")
	s.fails("plan mode", "create_directory", "path", "n")
}

func TestEditExplainsAMiss(t *testing.T) {
	s := begin(t)
	s.put("a.go", "func main() {\n\tif x {\n\t\tfmt.Println(\"hi\")\n\t}\n}\n")
	for _, c := range []struct{ old, words string }{
		{"    if x {\n        fmt.Println(\"hi\")\n    }", "lines 2-4|the indentation|\tif x {"},
		{"fmt.Println(“hi”)", "line 3|quotes"},
		{"FMT.println(\"hi\")", "line 3|case"},
		{"func  main()  {", "line 1|blanks"},
		{"1\tfunc main() {\n2\t\tif x {", "line numbers"},
		{`func main() {\n\tif x {`, "unescaped"},
		{"}\n}\n\n\n", "nothing was changed"},
		{"fmt.Printn(\"hey\")", "line 3|first difference"},
		{"zzzzzz", "Nothing in the file is like it"},
	} {
		s.fails(c.words, "edit_file", "path", "a.go", "old", c.old, "new", "qqqq")
	}
	s.fails("already in the file, at line 3", "edit_file", "path", "a.go", "old", "fmt.Print(\"hi\")", "new", "fmt.Println(\"hi\")")
	s.fails("old is empty", "edit_file", "path", "a.go", "old", "", "new", "x")
	s.put("e", "end")
	s.fails("without a newline", "edit_file", "path", "e", "old", "end\n", "new", "x")
	s.put("bin", "\x00a")
	s.fails("binary", "edit_file", "path", "bin", "old", "a", "new", "b")
}

func TestReadFile(t *testing.T) {
	s := begin(t)
	s.put("a", "one\ntwo\nthree")
	if out := s.ok("read_file", "path", "a"); out != "[a: 3 lines, no newline at the end]\none\ntwo\nthree\n" {
		t.Fatalf("%q", out)
	}
	if out := s.ok("read_file", "path", "a", "offset", 2, "limit", "1"); out != "[a: lines 2-2 of 3, no newline at the end]\ntwo\n[1 more lines; go on with offset 3]" {
		t.Fatalf("%q", out)
	}
	s.fails("only 3 lines", "read_file", "path", "a", "offset", 9)
	s.fails("may be negative", "read_file", "path", "a", "offset", -1)
	s.fails("may be negative", "read_file", "path", "a", "limit", -5)
	s.put("empty", "")
	if out := s.ok("read_file", "path", "empty"); !strings.Contains(out, "empty") {
		t.Fatal(out)
	}
	s.put("x.png", "\x89PNG\r\n\x1a\n\x00\x00\x00")
	if r := s.call("read_file", "path", "x.png"); r.IsError || r.Text != "[x.png: PNG image, 11 bytes]" || len(r.Images) != 1 || r.Images[0].MIME != "image/png" {
		t.Fatalf("%+v", r)
	}
	s.put("x.bin", "\x00\x01\x02\x03")
	s.fails("binary|4 bytes", "read_file", "path", "x.bin")
	s.put("long", strings.Repeat("茶", 5000)+"\nb\n")
	if out := s.ok("read_file", "path", "long"); !strings.Contains(out, "3000 more characters") || strings.Contains(out, "\uFFFD") || !strings.Contains(out, "\nb\n") {
		t.Fatal(len(out))
	}
}

func TestFault026PagingGoesPastTheCut(t *testing.T) {
	s := begin(t)
	var sb bytes.Buffer
	for i := 1; i <= 800000; i++ {
		fmt.Fprintf(&sb, "log line number %07d\r\n", i)
	}
	s.put("big.log", sb.String()) // above the size that is read whole
	s.put("mid.log", sb.String()[:5<<20])
	for _, f := range []string{"big.log", "mid.log"} {
		out := s.ok("read_file", "path", f)
		if len(out) > 110<<10 || !strings.Contains(out, "go on with offset 2001") || !strings.HasPrefix(out, "["+f+": lines 1-2000 of ") || !strings.Contains(out, "CRLF") {
			t.Fatal(f, len(out), out[:60])
		}
		out = s.ok("read_file", "path", f, "offset", 200001, "limit", 2)
		if !strings.Contains(out, "]\nlog line number 0200001\nlog line number 0200002\n[") {
			t.Fatal(out)
		}
	}
	if out := s.ok("read_file", "path", "big.log", "offset", 800000); !strings.HasSuffix(out, "lines 800000-800000 of 800000, CRLF]\nlog line number 0800000\n") {
		t.Fatal(out)
	}
}

func TestListFiles(t *testing.T) {
	s := begin(t)
	for _, f := range []string{"a.go", "d/b.go", "d/e/c.txt", "node/x.js", ".git/HEAD"} {
		s.put(f, "x")
	}
	s.put(".gitignore", "node/\n")
	if out := s.ok("list_files"); out != "[.: 3 entries, 1 ignored]\n.gitignore\na.go\nd/" {
		t.Fatalf("%q", out)
	}
	if out := s.ok("list_files", "recursive", true, "path", "d"); out != "[d: 2 entries]\nb.go\ne/c.txt" {
		t.Fatalf("%q", out)
	}
	if out := s.ok("list_files", "pattern", "**/*.go"); out != "[.: 2 entries that match **/*.go, 1 ignored]\na.go\nd/b.go" {
		t.Fatalf("%q", out)
	}
	for i := range 1200 {
		s.put(fmt.Sprintf("many/f%04d", i), "")
	}
	if out := s.ok("list_files", "path", "many"); !strings.Contains(out, "[200 more;") {
		t.Fatal(out[len(out)-60:])
	}
	s.fails("does not exist", "list_files", "path", "nope")
}

func TestGrepFiles(t *testing.T) {
	s := begin(t)
	s.put("a.go", "package a\nfunc Foo() {}\nvar foo = 1\r\n")
	s.put("d/b.txt", "nothing\nFoo again\n")
	s.put("d/g.txt", in(t, simplifiedchinese.GB18030, "第一行\n绿茶的价格 Foo\n"))
	s.put("d/u.txt", "\xff\xfeF\x00o\x00o\x00")
	s.put("bin", "Foo\x00Foo")
	s.put("skip.log", "Foo")
	s.put(".gitignore", "*.log\n")
	want := "a.go:2:func Foo() {}\nd/b.txt:2:Foo again\nd/g.txt:2:绿茶的价格 Foo\nd/u.txt:1:Foo\n[4 matching lines in 4 of 6 files]"
	if out := s.ok("grep_files", "pattern", "Foo"); out != want {
		t.Fatalf("%s", out)
	}
	if out := s.ok("grep_files", "pattern", "绿茶.*Fo+$"); !strings.HasPrefix(out, "d/g.txt:2:绿茶") {
		t.Fatal(out)
	}
	if out := s.ok("grep_files", "pattern", "(?i)^var FOO = 1$"); !strings.HasPrefix(out, "a.go:3:var foo = 1\n") {
		t.Fatal(out)
	}
	if out := s.ok("grep_files", "pattern", "Foo", "glob", "*.go"); !strings.Contains(out, "[1 matching line in 1 of 1 files]") {
		t.Fatal(out)
	}
	if out := s.ok("grep_files", "pattern", "Foo", "path", "d/b.txt"); !strings.HasPrefix(out, "d/b.txt:2:Foo again\n") {
		t.Fatal(out)
	}
	if out := s.ok("grep_files", "pattern", "Foo", "path", "d", "limit", 1); !strings.HasPrefix(out, "d/b.txt:2:Foo again\n[first 1 of 3 ") {
		t.Fatal(out)
	}
	if out := s.ok("grep_files", "pattern", "absent_x"); !strings.HasPrefix(out, "no line matches") {
		t.Fatal(out)
	}
	s.fails("not a valid regular expression", "grep_files", "pattern", "foo(")
	s.fails("look-arounds", "grep_files", "pattern", "(?<!a)b")
	s.fails("within one line", "grep_files", "pattern", "a\nb")
	s.put("long.js", strings.Repeat("x", 100000)+"needle"+strings.Repeat("y", 100000)+"\n")
	if out := s.ok("grep_files", "pattern", "needle"); !strings.Contains(out, "xneedley") || len(out) > 600 {
		t.Fatal(out)
	}
}

func TestMasksAreNeverWritten(t *testing.T) {
	s := begin(t)
	mask := "«secret:API_KEY:5f1c02ab»"
	s.put(".env", "API_KEY=abcdefgh12345678\nPORT=1\n")
	s.ok("read_file", "path", ".env")
	s.fails("hidden from you", "write_file", "path", ".env", "content", "API_KEY="+mask+"\nPORT=2\n")
	s.fails("hidden from you", "edit_file", "path", ".env", "old", "API_KEY="+mask, "new", "API_KEY="+mask+"x")
	s.fails("hidden from you", "write_file", "path", "copy.env", "content", mask)
	s.is(".env", "API_KEY=abcdefgh12345678\nPORT=1\n")
	s.put("doc", "a mask looks like "+mask+"\n")
	s.ok("edit_file", "path", "doc", "old", "looks like "+mask, "new", "is "+mask)
}

// A process that dies while it writes leaves the old file and nothing beside it.
func TestNothingIsLeftBesideAFile(t *testing.T) {
	s := begin(t)
	s.put("a", "x\n")
	for i := range 20 {
		s.ok("edit_file", "path", "a", "old", "x", "new", fmt.Sprintf("x%d", i))
	}
	s.ok("write_file", "path", "b", "content", "y")
	if es, _ := os.ReadDir(s.dir); len(es) != 2 {
		t.Fatal(es)
	}
}

func TestCreateDirectory(t *testing.T) {
	s := begin(t)
	s.ok("create_directory", "path", "a/b/c")
	if out := s.ok("create_directory", "path", "a/b/c"); !strings.Contains(out, "exists") {
		t.Fatal(out)
	}
	s.put("f", "")
	s.fails("not a directory", "create_directory", "path", "f")
	s.fails("not a directory", "create_directory", "path", "f/x")
}

// Names that are not UTF-8 are shown byte by byte, and taken in that form by every tool.
func TestNamesThatAreNotUTF8(t *testing.T) {
	s := begin(t)
	s.put("d\xe9/caf\xe9 茶.txt", "one\n")
	s.put(`lit\xe9`, "its own\n")
	shown := `d\xe9/caf\xe9 茶.txt`
	if out := s.ok("list_files", "recursive", true); !strings.Contains(out, shown) || strings.Contains(out, "\uFFFD") {
		t.Fatal(out)
	}
	if out := s.ok("grep_files", "pattern", "one"); !strings.Contains(out, shown) {
		t.Fatal(out)
	}
	if out := s.ok("read_file", "path", shown); !strings.Contains(out, "one\n") || !strings.Contains(out, shown) {
		t.Fatal(out)
	}
	s.ok("edit_file", "path", shown, "old", "one", "new", "two")
	s.is("d\xe9/caf\xe9 茶.txt", "two\n")
	s.ok("write_file", "path", `d\xe9/new\xe9`, "content", "n\n")
	s.is("d\xe9/new\xe9", "n\n")
	if out := s.ok("read_file", "path", `lit\xe9`); !strings.Contains(out, "its own") {
		t.Fatal(out)
	}
	// The form opens nothing that bytes of ASCII would.
	s.fails("does not exist", "read_file", "path", `d\xe9\x2fcaf`)
}
