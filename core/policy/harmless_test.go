package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

func project(t testing.TB) (*Policy, string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := root + "/proj"
	for _, d := range []string{dir + "/sub", dir + "/src", dir + "/docs", root + "/home", root + "/user"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"a.txt", "b.txt", "main.go", "sub/c.txt", "a.json", "x", "y", "f"} {
		if err := os.WriteFile(dir+"/"+f, []byte("1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(Config{Project: dir, Home: root + "/home", UserHome: root + "/user", TempDirs: []string{root + "/tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	return p, dir
}

// The table of harmless commands carries examples: each must pass or must not.
func TestHarmlessTableHoldsItsExamples(t *testing.T) {
	p, _ := project(t)
	examples := 0
	for name, r := range readers() {
		for _, e := range r.ok {
			examples++
			if d := p.line(strings.TrimSpace(name + " " + e)); d.Rule != RuleHarmless {
				t.Errorf("%s %s: %+v, must pass", name, e, d)
			}
		}
		for _, e := range r.not {
			examples++
			if d := p.line(strings.TrimSpace(name + " " + e)); d.Rule == RuleHarmless {
				t.Errorf("%s %s passes, must not", name, e)
			}
		}
	}
	if examples < 200 {
		t.Errorf("only %d examples", examples)
	}
}

// judgedHarmless re-reads a line that was judged harmless, with nothing of this package,
// and says what in it is not.
func judgedHarmless(src string) string {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		return "it can't be parsed"
	}
	bad := ""
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Background || n.Coprocess || n.Disown {
				bad = "background"
			}
		case *syntax.FuncDecl, *syntax.DeclClause, *syntax.LetClause, *syntax.CoprocClause, *syntax.CStyleLoop, *syntax.ExtGlob:
			bad = "a construct that is never harmless"
		case *syntax.ForClause:
			if n.Select {
				bad = "select"
			}
		case *syntax.SglQuoted:
			// $'…' may stand where text is only printed.
		case *syntax.ParamExp:
			if n.Excl || n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull || n.Exp.Op == syntax.OtherParamOps) {
				bad = "an expansion that evaluates"
			}
		case *syntax.Redirect:
			switch n.Op {
			case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
				var b strings.Builder
				_ = syntax.NewPrinter().Print(&b, n.Word)
				if w := strings.Trim(b.String(), `'"`); !strings.HasPrefix(strings.NewReplacer(`\`, "", `'`, "", `"`, "").Replace(w), "/dev/") {
					bad = "a redirection to " + w
				}
			}
		case *syntax.CallExpr:
			for _, a := range n.Assigns {
				if a.Array != nil || a.Index != nil {
					bad = "an array"
				}
				if len(n.Args) == 0 && strings.ToLower(a.Name.Value) != a.Name.Value {
					bad = "it sets " + a.Name.Value
				}
			}
			if len(n.Args) == 0 {
				return true
			}
			var b strings.Builder
			_ = syntax.NewPrinter().Print(&b, n.Args[0])
			name := strings.NewReplacer(`\`, "", `'`, "", `"`, "", "\n", "").Replace(b.String())
			if readers()[name] == nil {
				bad = "it runs " + b.String()
			}
		}
		return true
	})
	return bad
}

var seeds = []string{
	"ls -la", "cat a.txt | head -5", "for f in a.txt b.txt; do cat \"$f\"; done", "echo $(pwd)", "ls; touch x", "cat <<EOF\n$(ls)\nEOF", "[[ -f a && $x == y ]]", "x=1; echo $x",
	"diff <(sort a) <(sort b)", "find . -name '*.go'", "git log --oneline", "l\\s", "$'ls'", "{ ls; }", "( cd sub && cat c.txt )", "echo ${x:-y}", "case a in a) ls;; esac",
	"if ls; then pwd; fi", "sed -n '1,2p' a.txt", "echo $((1+2))", "ls 2>/dev/null", "sort -o x", "echo x > f", "ls & pwd", "cat \"a b\" 'c'", "printf '%s' x", "echo a{b,c}", "ls *.go",
	"sh -c 'rm x'", "env -S 'rm x'", "eval \"rm x\"", "find . -exec rm {} +", "git -c a=b log", "xargs rm", "bash <<'E'\nrm x\nE", "((((", "${a[$(x)]}", "`ls`", "a[1]=2", "ls >&2", "cat < a.txt", "!(x)",
	"x=a; while :; do cat $x; x=b; done", "time ls", "! ls", "echo \"`pwd`\"", "cd sub; cd ..; ls", "read -r x <<< y", "exec 3<a", "trap 'ls' EXIT", "alias x=y", "coproc ls", "select x in a; do ls; done",
}

// Whatever the line, judging it does not panic, and a line that is judged harmless
// contains only listed commands.
func FuzzLine(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	p, _ := project(f)
	p.deny = append(p.deny, mustRule("bash(rm *)"), mustRule("bash(git push --force *)"))
	f.Fuzz(func(t *testing.T, src string) {
		d := p.line(src)
		if d.Rule == "" {
			t.Fatalf("%q: no rule", src)
		}
		if d.Rule == RuleHarmless {
			if why := judgedHarmless(src); why != "" {
				t.Fatalf("%q is judged harmless: %s", src, why)
			}
		}
		_ = bashRule(src)
	})
}

// A rule that is read is read again from its own text, and matching never panics.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"bash", "bash(ls)", "bash(git status *)", "bash(git status*)", "bash(=a; b)", "write_file(docs/**)", "web_fetch(https://go.dev/**)", "x(y*z)", "bash(a 'b c' *) # ok: a 'b c'", "bash(*)", "read_file({a,b}/[!x])"} {
		f.Add(s, "git status -s")
	}
	p, _ := project(f)
	f.Fuzz(func(t *testing.T, text, line string) {
		r, err := parseRule(text)
		if err != nil {
			return
		}
		if again, err := parseRule(r.text); err != nil || again.text != r.text {
			t.Fatalf("%q is read as %q, which is not the same rule: %v", text, r.text, err)
		}
		_ = p.covers(r, line)
		for _, c := range p.read(line).cmds {
			if r.tool == "bash" && r.exact == "" && r.allows(c) && r.touches(c) != yes && len(r.assigns) == 0 {
				t.Fatalf("%q allows %q but as a deny rule would miss it", text, line)
			}
		}
	})
}

func mustRule(s string) *rule {
	r, err := parseRule(s)
	if err != nil {
		panic(err)
	}
	return r
}
