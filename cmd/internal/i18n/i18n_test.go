package i18n

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// Every text that the command line prints has a Chinese form with the same verbs.
func TestEveryTextIsTranslated(t *testing.T) {
	files, err := filepath.Glob("../cli/*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(x ast.Node) bool {
			call, ok := x.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "T" {
				return true
			}
			text, ok := literal(call.Args[0])
			if !ok {
				return true
			}
			n++
			if _, ok := chinese[text]; !ok {
				t.Errorf("%s: no Chinese form of %q", filepath.Base(name), text)
			}
			return true
		})
	}
	if n < 50 {
		t.Errorf("only %d texts found", n)
	}
	verbs := regexp.MustCompile(`%[a-z]`)
	for en, zh := range chinese {
		if a, b := verbs.FindAllString(en, -1), verbs.FindAllString(zh, -1); strings.Join(a, "") != strings.Join(b, "") {
			t.Errorf("%q has the verbs %v, its Chinese form %v", en, a, b)
		}
	}
}

// literal is the text of a string literal or a sum of them.
func literal(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(x.X)
		b, ok2 := literal(x.Y)
		return a + b, ok && ok2
	}
	return "", false
}

// noForm are the places whose texts only the model or a log reads, so that they have no
// Chinese form: a file, or a folder with a slash at its end, below the repository.
var noForm = []string{
	"core/fault/",                   // faults that tests inject
	"core/llm/llmtest/",             // the scripted model server
	"plugins/builtin/",              // answers of the tools to the model
	"plugins/plugintest/",           // tools of tests
	"plugins/sdk/",                  // for who writes a tool in Go
	"cmd/internal/app/hosttools.go", // answers of the host's tools to the model
	"cmd/internal/app/steps.go",     // the same, of sub-agents
	"memory/tools.go",               // the same, of the memory tools
	"cmd/internal/eval/",
	"cmd/internal/modelserver/",
	"cmd/internal/cli/demo/",
}

// Every error and every next step that a person can meet has a Chinese form.
func TestEveryErrorIsTranslated(t *testing.T) {
	const top = "../../.."
	known := map[string]bool{}
	for _, f := range told {
		known[f.en] = true
	}
	n := 0
	for _, folder := range []string{"cmd", "core", "evolve", "memory", "plugins", "prompts", "store"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if d.IsDir() {
				if d.Name() == "testdata" || slices.Contains(noForm, name+"/") {
					return filepath.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(noForm, name) {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(x ast.Node) bool {
				call, ok := x.(*ast.CallExpr)
				if !ok {
					return true
				}
				text, ok := errorText(call, name)
				if !ok {
					return true
				}
				n++
				if hasWords(text) && !known[text] {
					t.Errorf("%s: no Chinese form of %q in zh_errors.go", name, text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 400 {
		t.Errorf("only %d texts found", n)
	}
}

// errorText is the literal that makes the text of an error, a next step or a verdict.
func errorText(call *ast.CallExpr, file string) (string, bool) {
	name, of := "", ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
		if x, ok := f.X.(*ast.Ident); ok {
			of = x.Name
		}
	case *ast.Ident:
		name = f.Name
	}
	at := -1
	switch {
	case name == "Errorf" && (of == "core" || of == "" && strings.HasPrefix(file, "core/")):
		at = 1
	case name == "Hint":
		at = 0
	case strings.HasPrefix(file, "core/policy/") && of == "" && (name == "deny" || name == "ask"):
		at = 1 // what a person is asked
	case strings.HasPrefix(file, "cmd/internal/cli/") && (of == "errors" && name == "New" || of == "fmt" && name == "Errorf"):
		at = 0 // these are printed as they are
	}
	if at < 0 || at >= len(call.Args) {
		return "", false
	}
	return literal(call.Args[at])
}

// hasWords says whether a format has words beside its verbs.
func hasWords(format string) bool {
	for _, p := range pieces(format) {
		if p.verb == 0 && strings.ContainsFunc(p.text, unicode.IsLetter) {
			return true
		}
	}
	return false
}

// A Chinese form takes the arguments of the English one. It may take them as texts that
// are told (%w), and leave none out.
func TestFormsAgree(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range told {
		if seen[f.en] {
			t.Errorf("%q stands twice", f.en)
		}
		seen[f.en] = true
		if f.zh == "" || strings.ContainsAny(f.zh, ",;!") && !strings.ContainsFunc(f.zh, unicode.IsLetter) {
			t.Errorf("%q has the form %q", f.en, f.zh)
		}
		var en, zh []byte
		for _, p := range pieces(f.en) {
			if p.verb != 0 {
				en = append(en, p.verb)
			}
		}
		zh = make([]byte, len(en))
		for _, p := range pieces(f.zh) {
			if p.verb == 0 {
				continue
			}
			if p.arg >= len(en) || zh[p.arg] != 0 {
				t.Errorf("%q: its form %q takes argument %d", f.en, f.zh, p.arg+1)
				continue
			}
			zh[p.arg] = p.verb
		}
		for i := range en {
			switch {
			case zh[i] == en[i], zh[i] == 'w' && (en[i] == 's' || en[i] == 'v'), zh[i] == 'v' && en[i] == 's':
			default:
				t.Errorf("%q: argument %d is %%%c, in its form %q %q", f.en, i+1, en[i], f.zh, zh[i])
			}
		}
		if !hasWords(f.en) {
			t.Errorf("%q says nothing", f.en)
			continue
		}
		// It is found, and every argument comes to its place.
		args := map[byte]string{'d': "%d", 'q': `"q%d: a"`, 'c': "7", 'o': "70%d", 'w': "x%d", 's': "x%d", 'v': "x%d"}
		ending := map[int]bool{}
		if s := newShape(f); s != nil {
			for _, p := range s.en {
				ending[p.arg] = ending[p.arg] || p.end
			}
		}
		fill := func(format string) string {
			var b strings.Builder
			for _, p := range pieces(format) {
				switch {
				case p.verb == 0:
					b.WriteString(p.text)
				case ending[p.arg]:
					b.WriteString(" (x)")
				default:
					b.WriteString(strings.ReplaceAll(args[en[p.arg]], "%d", strconv.Itoa(p.arg+1)))
				}
			}
			return b.String()
		}
		if got, want := For("zh").Tell(fill(f.en)), fill(f.zh); got != want {
			t.Errorf("%q -> %q, want %q", fill(f.en), got, want)
		}
	}
}

func TestTell(t *testing.T) {
	p := For("zh_CN.UTF-8")
	for in, want := range map[string]string{
		"session 0193: not found":                     "没有会话 0193",
		"unknown command \"x\"":                       `未知命令 "x"`,
		"the step limit of 5 requests is reached":     "到达了 5 个请求的步数上限",
		"something that nobody translated: file a.go": "something that nobody translated: file a.go",

		// Parts.
		"memory 99: not found":                                                                    "没有记忆 99",
		"not found":                                                                               "不存在",
		"open /x/y.db: permission denied":                                                         "打开 /x/y.db：没有权限",
		"mkdir /proc/x: no such file or directory":                                                "建立目录 /proc/x：没有这个文件或目录",
		"open database: make /a b: mkdir /a b: permission denied":                                 "打开数据库失败：建立 /a b 失败：建立目录 /a b：没有权限",
		"some.go:3: unknown key modle (did you mean model?)":                                      "some.go:3：未知的设置 modle（是不是 model？）",
		"some.go:3: unknown key zzz":                                                              "some.go:3：未知的设置 zzz",
		"nobody knows this: not found":                                                            "nobody knows this：不存在",
		"read session 12: nobody knows this":                                                      "读取会话 12 失败：nobody knows this",
		"nobody; context deadline exceeded; nor this":                                             "nobody；超时；nor this",
		"interrupted: context canceled":                                                           "已中断",
		"127.0.0.1:9 refused the key (401 unauthorized: Incorrect: not found)":                    "127.0.0.1:9 不接受这个密钥（401 未授权：Incorrect: not found）",
		"no connection to h:443 within 5s":                                                        "5s 内连不上 h:443",
		"max_steps wants number, not \"many\"":                                                    "max_steps 应为整数，而不是 \"many\"",
		"max_steps wants number, not \"-1\" (0 or more)":                                          "max_steps 应为整数，而不是 \"-1\"（不小于 0）",
		"cheap_model wants number, not \"a: not found\"":                                          "cheap_model 应为整数，而不是 \"a: not found\"",
		"dial tcp 127.0.0.1:9: connect: connection refused":                                       "连接 127.0.0.1:9：连接被拒绝",
		"lookup a.example on 1.1.1.1:53: no such host":                                            "向 1.1.1.1:53 解析 a.example：没有这个主机",
		"/w/x is outside the project (it leads to /w/y); a person can allow it with --add-dir /w": "/w/x 在项目之外（它指向 /w/y）；可用 --add-dir /w 允许",
		"3 of 5 pieces of work failed":                                                            "5 件工作中有 3 件失败",

		"/etc/x is outside the project; a person can allow it with --add-dir /etc":          `/etc/x 在项目之外；可用 --add-dir /etc 允许`,
		"read_file is denied (wall:x): /e (f) is outside the project":                       `已拒绝 read_file（wall:x）：/e (f) 在项目之外`,
		`/a:2: max_steps wants number, not "x"; /a:3: mode wants one of ask, auto, not "y"`: `/a:2：max_steps 应为整数，而不是 "x"；/a:3：mode 应为 ask, auto 之一，而不是 "y"`,
		`/a:4: permissions.deny: rule "bash(": the bracket is not closed`:                   `/a:4：permissions.deny：规则 "bash("：括号没有闭合`,
		"h refused the request: nobody knows; tried 3 times":                                "h 拒绝了请求：nobody knows；共试了 3 次",

		"429 too many requests: slow down: EOF; attempt 2 of 5 in 400ms": "429 请求太多：slow down: EOF；400ms 后进行第 2 次尝试（共 5 次）",

		// Names, paths and quotations stay.
		"open /not found/is a directory: EOF":   "打开 /not found/is a directory：意外结束",
		`unknown command "not found: EOF"`:      `未知命令 "not found: EOF"`,
		`nothing: "a: not found"`:               `nothing: "a: not found"`,
		"nothing (a: not found)":                "nothing (a: not found)",
		"leave: commands":                       "leave: commands",
		"100% of nothing":                       "100% of nothing",
		"http://a.example/v1":                   "http://a.example/v1",
		"没有会话 0193":                             "没有会话 0193",
		"打开 /x：没有权限":                            "打开 /x：没有权限",
		"":                                      "",
		": ":                                    ": ",
		"a: ":                                   "a: ",
		": not found":                           ": not found",
		strings.Repeat("x: ", 40) + "not found": strings.Repeat("x: ", 40) + "not found",
		"attempt 2: 50%d of it; wait":           "attempt 2: 50%d of it; wait",
	} {
		if got := p.Tell(in); got != want {
			t.Errorf("%q -> %q, want %q", in, got, want)
		}
	}
	if got := For("en_US").Tell("session 1: not found"); got != "session 1: not found" {
		t.Errorf("got %q", got)
	}
}
