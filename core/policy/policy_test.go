package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/policy"
)

// world is a project with a repository, links that stay and links that leave, beside
// lj's state and a foreign folder.
type world struct{ root, project, home, outside, temp, user string }

func newWorld(t testing.TB) world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := world{root, root + "/proj", root + "/user/.lj", root + "/outside", root + "/temp", root + "/user"}
	for _, d := range []string{w.project + "/.git/hooks", w.project + "/.git/objects", w.project + "/.git/refs", w.project + "/.agent", w.project + "/sub/deep", w.project + "/docs",
		w.project + "/bare/objects", w.project + "/bare/refs", w.home, w.outside, w.temp, w.user + "/.ssh"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{w.project + "/a.txt", w.project + "/b.txt", w.project + "/main.go", w.project + "/sub/c.txt", w.project + "/docs/d.md", w.project + "/.env",
		w.project + "/bare/HEAD", w.project + "/bare/config", w.project + "/.git/HEAD", w.project + "/.git/config", w.project + "/.git/hooks/pre-commit", w.project + "/.agent/config.yaml",
		w.home + "/config.yaml", w.home + "/lj.db", w.outside + "/secret.txt", w.user + "/.ssh/id_rsa"} {
		if err := os.WriteFile(f, []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"esc": "../outside", "escfile": w.outside + "/secret.txt", "inlink": "sub", "gitlink": ".git", "confl": ".git/config", "ljlink": w.home} {
		if err := os.Symlink(to, w.project+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w world) config() policy.Config {
	return policy.Config{Project: w.project, Home: w.home, UserHome: w.user, TempDirs: []string{w.temp}}
}

func (w world) policy(t testing.TB, change func(*policy.Config)) *policy.Policy {
	t.Helper()
	c := w.config()
	if change != nil {
		change(&c)
	}
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var bashSpec = core.ToolSpec{Name: "bash"}

func bash(p *policy.Policy, line string) core.Decision {
	b, _ := json.Marshal(map[string]string{"command": line})
	return p.Decide(bashSpec, core.ToolCall{Name: "bash", Arguments: string(b)})
}

func call(p *policy.Policy, spec core.ToolSpec, args string) core.Decision {
	return p.Decide(spec, core.ToolCall{Name: spec.Name, Arguments: args})
}

func file(p *policy.Policy, tool, path string) core.Decision {
	b, _ := json.Marshal(map[string]string{"path": path})
	return p.Decide(core.ToolSpec{Name: tool}, core.ToolCall{Name: tool, Arguments: string(b)})
}

// Approvals can be as wide as the walls let them, never wider.
func TestFileTools(t *testing.T) {
	w := newWorld(t)
	type want struct{ ask, auto, plan, yolo string }
	read := want{"allow default", "allow default", "allow default", "allow default"}
	write := want{"ask default", "allow mode:auto", "deny mode:plan", "allow yolo"}
	outside := want{"deny wall:outside-project", "deny wall:outside-project", "deny wall:outside-project", "deny wall:outside-project"}
	guard := want{"deny wall:guard", "deny wall:guard", "deny wall:guard", "deny wall:guard"}
	for _, c := range []struct {
		tool, path string
		want       want
	}{
		{"read_file", "a.txt", read},
		{"read_file", w.project + "/a.txt", read},
		{"read_file", "sub/../a.txt", read},
		{"read_file", "missing.txt", read},
		{"read_file", "inlink/c.txt", read},
		{"read_file", ".git/config", read},
		{"read_file", "a.txt/x", read}, // not found, not denied
		{"read_file", "esc/secret.txt", outside},
		{"read_file", "escfile", outside},
		{"read_file", "../outside/secret.txt", outside},
		{"read_file", "/etc/passwd", outside},
		{"read_file", "~/.ssh/id_rsa", outside},
		{"read_file", w.home + "/lj.db", guard},
		{"read_file", "~/.lj/lj.db", guard},
		{"read_file", "ljlink/lj.db", guard},
		{"list_files", "", read},
		{"list_files", "..", outside},
		{"grep_files", "sub", read},
		{"grep_files", "/", outside},
		{"get_outline", "main.go", read},
		{"find_symbol", "esc", outside},
		{"write_file", "new.txt", write},
		{"write_file", "inlink/new.txt", write},
		{"write_file", "deep/er/new.txt", write},
		{"write_file", "esc/evil.txt", outside},
		{"write_file", "escfile", outside},
		{"write_file", "../x", outside},
		{"write_file", "sub/../../x", outside},
		{"write_file", "inlink/../../x", outside},
		{"write_file", w.project + "x/y", outside}, // a neighbour with the same beginning
		{"write_file", ".git/config", guard},
		{"write_file", "confl", guard},
		{"write_file", "gitlink/hooks/pre-commit", guard},
		{"write_file", ".git/hooks/pre-push", guard},
		{"write_file", "./.git/../.git/config", guard},
		{"write_file", ".agent/config.yaml", guard},
		{"write_file", ".agent/memory.md", write},
		{"write_file", w.home + "/config.yaml", guard},
		{"write_file", "../user/.lj/config.yaml", guard},
		{"edit_file", ".agent/config.yaml", guard},
		{"edit_file", "a.txt", write},
		{"create_directory", "x/y", write},
		{"create_directory", ".git/hooks/x", guard},
	} {
		for _, m := range []struct{ mode, want string }{{"ask", c.want.ask}, {"auto", c.want.auto}, {"plan", c.want.plan}, {"yolo", c.want.yolo}} {
			p := w.policy(t, func(x *policy.Config) {
				x.Mode = m.mode
				if m.mode == "yolo" {
					x.Mode, x.Yolo = "ask", true
				}
			})
			d := file(p, c.tool, c.path)
			if got := d.Verdict.String() + " " + d.Rule; got != m.want {
				t.Errorf("%s %q in %s: %s (%s), want %s", c.tool, c.path, m.mode, got, d.Reason, m.want)
			}
			if d.Verdict != core.Allow && d.Reason == "" {
				t.Errorf("%s %q in %s: no reason", c.tool, c.path, m.mode)
			}
		}
	}
	p := w.policy(t, func(c *policy.Config) { c.AddDirs = []string{w.outside}; c.Mode = "auto" })
	if d := file(p, "write_file", "esc/new.txt"); d.Verdict != core.Allow {
		t.Errorf("an added directory is not open: %+v", d)
	}
}

// Two arguments of one name, or of names that differ in case, can't hide one another.
func TestRepeatedArgumentsAreAllJudged(t *testing.T) {
	w := newWorld(t)
	p := w.policy(t, func(c *policy.Config) { c.Mode = "auto"; c.Confined = true })
	for _, a := range []string{
		`{"path":"a.txt","path":"/etc/passwd"}`, `{"path":"/etc/passwd","path":"a.txt"}`,
		`{"path":"a.txt","PATH":"/etc/passwd"}`, `{"path":"a.txt","Path":"../x"}`,
	} {
		if d := call(p, core.ToolSpec{Name: "write_file"}, a); d.Verdict != core.Deny {
			t.Errorf("%s: %v", a, d)
		}
	}
	p = w.policy(t, nil)
	for _, a := range []string{`{"command":"ls","command":"rm -rf x"}`, `{"command":"rm x","COMMAND":"ls"}`, `{"command":["ls"]}`, `{}`, `[]`, `{"command":"ls"} {}`, `nope`} {
		if d := call(p, bashSpec, a); d.Verdict != core.Ask {
			t.Errorf("%s: %v", a, d)
		}
	}
}

func TestOtherTools(t *testing.T) {
	w := newWorld(t)
	ro := func(n string) core.ToolSpec { return core.ToolSpec{Name: n, ReadOnly: true} }
	rw := func(n string) core.ToolSpec { return core.ToolSpec{Name: n} }
	kit := core.ToolSpec{Name: "mine", Origin: core.OriginToolkit, ReadOnly: true, Permissions: core.DefaultPermissions()}
	liar := core.ToolSpec{Name: "liar", Origin: core.OriginToolkit, ReadOnly: true, Permissions: core.Permissions{Write: []string{"."}}}
	for _, c := range []struct {
		spec                  core.ToolSpec
		args                  string
		ask, auto, plan, yolo string
	}{
		{rw("save_memory"), `{"content":"x"}`, "allow", "allow", "deny", "allow"},
		{rw("forget_memory"), `{"id":"1"}`, "allow", "allow", "deny", "allow"},
		{ro("search_memory"), `{"query":"x"}`, "allow", "allow", "allow", "allow"},
		{rw("todo"), `{"items":[]}`, "allow", "allow", "allow", "allow"},
		{rw("ask_user"), `{"question":"?"}`, "allow", "allow", "allow", "allow"},
		{rw("plan"), `{"goal":"x","steps":[]}`, "allow", "allow", "allow", "allow"},
		{ro("find_tools"), `{"query":"x"}`, "allow", "allow", "allow", "allow"},
		{ro("read_output"), `{}`, "allow", "allow", "allow", "allow"},
		{ro("web_fetch"), `{"url":"https://go.dev/"}`, "ask", "ask", "ask", "allow"},
		{ro("web_search"), `{"query":"x"}`, "ask", "ask", "ask", "allow"},
		{ro("web_fetch"), `{"url":"file:///etc/passwd"}`, "deny", "deny", "deny", "deny"},
		{rw("self_evolve"), `{}`, "ask", "ask", "deny", "allow"},
		{ro("self_evolve"), `{}`, "ask", "ask", "deny", "allow"},
		{rw("prompt_evolve"), `{}`, "ask", "ask", "deny", "allow"},
		{rw("bash_jobs"), `{"action":"list"}`, "allow", "allow", "allow", "allow"},
		{rw("bash_jobs"), `{"action":"stop","id":"1"}`, "allow", "allow", "deny", "allow"},
		{rw("mcp_github_create"), `{"title":"x"}`, "ask", "ask", "deny", "allow"},
		{ro("mcp_github_list"), `{}`, "allow", "allow", "allow", "allow"},
		{rw("toolkit_list_versions"), `{"name":"x"}`, "allow", "allow", "allow", "allow"},
		{rw("toolkit_save"), `{"name":"x"}`, "ask", "ask", "deny", "allow"}, // not confined
		{rw("toolkit_test"), `{"name":"x"}`, "ask", "ask", "deny", "allow"},
		{rw("toolkit_rollback"), `{"name":"x"}`, "ask", "ask", "deny", "allow"},
		{kit, `{"path":"a"}`, "allow", "allow", "allow", "allow"},
		{kit, `{"path":"` + w.home + `/lj.db"}`, "deny", "deny", "deny", "deny"},
		{kit, `{"deep":{"list":["~/.lj/lj.db"]}}`, "deny", "deny", "deny", "deny"},
		{liar, `{}`, "ask", "ask", "deny", "allow"},
		{rw("anything"), `nope`, "ask", "ask", "deny", "allow"},
	} {
		for _, m := range []struct{ mode, want string }{{"ask", c.ask}, {"auto", c.auto}, {"plan", c.plan}, {"yolo", c.yolo}} {
			p := w.policy(t, func(x *policy.Config) {
				x.Mode = m.mode
				if m.mode == "yolo" {
					x.Mode, x.Yolo = "ask", true
				}
			})
			if d := call(p, c.spec, c.args); d.Verdict.String() != m.want || d.Rule == "" {
				t.Errorf("%s %s in %s: %+v, want %s", c.spec.Name, c.args, m.mode, d, m.want)
			}
		}
	}
}

// toolkit_save passes when the tool wants only to read the project and permissions are
// enforced here.
func TestToolkitSave(t *testing.T) {
	w := newWorld(t)
	p := w.policy(t, func(c *policy.Config) { c.ToolsConfined = true })
	spec := core.ToolSpec{Name: "toolkit_save"}
	for args, want := range map[string]core.Verdict{
		`{"name":"x"}`:                                                                         core.Allow,
		`{"name":"x","manifest":null}`:                                                         core.Allow,
		`{"name":"x","manifest":""}`:                                                           core.Allow,
		`{"name":"x","manifest":"permissions:\n  read: [.]\n"}`:                                core.Allow,
		`{"name":"x","manifest":"permissions: {read: [.], net: []}"}`:                          core.Allow,
		`{"name":"x","manifest":{"permissions":{"read":["."]}}}`:                               core.Allow,
		`{"name":"x","manifest":"permissions: {net: ['example.com:443']}"}`:                    core.Ask,
		`{"name":"x","manifest":"permissions:\n  write: [.]\n"}`:                               core.Ask,
		`{"name":"x","manifest":"permissions: {read: [/etc]}"}`:                                core.Ask,
		`{"name":"x","manifest":"permissions: {read: [., ..]}"}`:                               core.Ask,
		`{"name":"x","manifest":"permissions: {exec: [sh]}"}`:                                  core.Ask,
		`{"name":"x","manifest":"permissions: {env: [HOME]}"}`:                                 core.Ask,
		`{"name":"x","manifest":"permissions: [1]"}`:                                           core.Ask,
		`{"name":"x","manifest":"Permissions: {net: [a]}"}`:                                    core.Ask,
		`{"name":"x","manifest":{"write":["."]}}`:                                              core.Ask,
		`{"name":"x","manifest":"{unclosed"}`:                                                  core.Ask,
		`{"name":"x","manifest":["a"]}`:                                                        core.Ask,
		`{"name":"x","manifest":"","Manifest":"permissions: {exec: [sh]}"}`:                    core.Ask,
		`{"name":"x","manifest":"permissions: {read: [.]}\n---\npermissions: {exec: [sh]}\n"}`: core.Ask,
		`{"name":"x","manifest":"a: &a {exec: [sh]}\npermissions:\n  <<: *a\n"}`:               core.Ask,
	} {
		if d := call(p, spec, args); d.Verdict != want {
			t.Errorf("%s: %+v, want %v", args, d, want)
		}
	}
}

// Rules about files and addresses are compared with where a path leads and with what an
// address means.
func TestPatterns(t *testing.T) {
	w := newWorld(t)
	web := core.ToolSpec{Name: "web_fetch"}
	p := w.policy(t, func(c *policy.Config) {
		c.Allow = []string{"write_file(docs/**)", "write_file(top.txt)", "write_file(" + w.project + "/abs/**)", "web_fetch(https://go.dev/doc/**)", "web_fetch(*.example.com)", "toolkit_save(mine)"}
		c.Ask = []string{"write_file(docs/locked/**)"}
		c.Deny = []string{"write_file(docs/secret/**)", "read_file(.env)", "web_fetch(evil.example.com)"}
	})
	for path, want := range map[string]string{
		"docs/x.md": "allow write_file(docs/**)", "docs/a/b.md": "allow write_file(docs/**)", "./docs/x.md": "allow write_file(docs/**)",
		"docs/../main.go": "ask default", "sub/docs/x.md": "ask default", "docsx/y": "ask default", "top.txt": "allow write_file(top.txt)",
		"sub/top.txt": "ask default", "docs/locked/x": "ask write_file(docs/locked/**)", "docs/secret/x": "deny write_file(docs/secret/**)",
		"abs/x": "allow write_file(" + w.project + "/abs/**)",
	} {
		if d := file(p, "write_file", path); d.Verdict.String()+" "+d.Rule != want {
			t.Errorf("write_file %s: %+v, want %s", path, d, want)
		}
	}
	// A rule allows one tool; it denies every way of doing the same.
	for tool, want := range map[string]core.Verdict{"edit_file": core.Deny, "create_directory": core.Deny} {
		if d := file(p, tool, "docs/secret/x"); d.Verdict != want {
			t.Errorf("%s docs/secret/x: %+v", tool, d)
		}
	}
	if d := file(p, "edit_file", "docs/x"); d.Verdict != core.Ask {
		t.Errorf("edit_file docs/x: %+v", d)
	}
	for _, line := range []string{"echo x > docs/secret/x", "cp a.txt docs/secret/x", "tee docs/secret/x", "cat .env", "grep x .env", "cat < .env", "rm .env", "sh -c 'cat .env'"} {
		if d := bash(p, line); d.Verdict != core.Deny {
			t.Errorf("%s: %+v", line, d)
		}
	}
	if d := bash(p, "grep -r x ."); d.Verdict != core.Ask {
		t.Errorf("a search through a folder with a file that may not be read: %+v", d)
	}
	if d := bash(p, "echo x > docs/new.md"); d.Verdict != core.Allow || d.Rule != "write_file(docs/**)" {
		t.Errorf("redirection into an allowed folder: %+v", d)
	}
	for u, want := range map[string]core.Verdict{
		"https://go.dev/doc/x": core.Allow, "https://go.dev:443/doc/x": core.Allow, "https://GO.dev/doc/a/b": core.Allow, "https://go.dev/blog": core.Ask,
		"http://go.dev/doc/x": core.Ask, "https://go.dev.evil.test/doc/x": core.Ask, "https://go.dev@evil.test/doc/x": core.Ask, "https://evil.test/go.dev/doc/": core.Ask,
		"https://go.dev/doc/../blog": core.Ask, "https://go.dev/doc/%2e%2e/blog": core.Ask, "https://go.dev:8443/doc/x": core.Ask, `https://go.dev\@evil.test/doc/x`: core.Ask,
		"https://a.example.com/": core.Allow, "https://example.com/": core.Ask, "https://evil.example.com/x": core.Deny, "https://EVIL.example.com.:444/": core.Deny,
		"https://u:p@evil.example.com/": core.Deny,
	} {
		b, _ := json.Marshal(map[string]string{"url": u})
		if d := call(p, web, string(b)); d.Verdict != want {
			t.Errorf("%s: %+v, want %v", u, d, want)
		}
	}
	if d := call(p, core.ToolSpec{Name: "toolkit_save"}, `{"name":"mine","manifest":"permissions: {exec: [sh]}"}`); d.Verdict != core.Allow {
		t.Errorf("toolkit_save(mine): %+v", d)
	}
	if d := call(p, core.ToolSpec{Name: "toolkit_save"}, `{"name":"minex"}`); d.Verdict != core.Ask {
		t.Errorf("toolkit_save(minex): %+v", d)
	}
}

func TestNewNamesTheBadRule(t *testing.T) {
	w := newWorld(t)
	for _, r := range []string{"", "bash(", "bash()", "bash( )", "bash(=)", "(x)", "1x(y)", "bash(a;b)", "bash(git st*tus x)", "bash(rm *.go)", "bash('x)", `bash(x\)`, "write_file(../x)", "web_fetch(a b)", "bash(ls) x",
		"bash(git status *) # ok: git log", "bash(git log *) # not: git log -3", "write_file(docs/**) # not: docs/x"} {
		c := w.config()
		c.Deny = []string{r}
		_, err := policy.New(c)
		if core.KindOf(err) != core.KindConfig || core.NextOf(err) == "" {
			t.Errorf("rule %q: %v (%s, next %q)", r, err, core.KindOf(err), core.NextOf(err))
		}
	}
	c := w.config()
	c.Mode = "yolo"
	if _, err := policy.New(c); core.KindOf(err) != core.KindConfig {
		t.Errorf("mode: %v", err)
	}
	c = w.config()
	c.Allow = []string{"bash(git log *) # ok: git log -3 # not: git -c x=y log # not: git log; rm x", "bash(=make -C x && ls # y)", "bash(*)", `bash(grep "a b" *)`}
	if _, err := policy.New(c); err != nil {
		t.Error(err)
	}
}

// The rule that is offered covers the call it was made for and nothing that runs more.
func TestRuleFor(t *testing.T) {
	w := newWorld(t)
	for line, want := range map[string]string{
		"go test ./...": "bash(go test *)", "npm run build": "bash(npm run build *)", "gofmt -l .": "bash(gofmt *)", "git commit -m x": "bash(git commit *)",
		"env ls": "bash(=env ls)", "python3 x.py": "bash(=python3 x.py)", "sh -c ls": "bash(=sh -c ls)", "rm x": "bash(=rm x)", "a; b": "bash(=a; b)", "x > y": "bash(=x > y)",
		"go run .": "bash(=go run .)", "git push -u origin x": "bash(=git push -u origin x)", "$x y": "bash(=$x y)", "A=1 go test": "bash(=A=1 go test)", "git -c a=b log": "bash(=git -c a=b log)",
		"cd sub": "bash(cd *)", "make test": "bash(=make test)", "find . -exec x ;": "bash(=find . -exec x ;)", "go vet -vettool=x .": "bash(=go vet -vettool=x .)",
	} {
		b, _ := json.Marshal(map[string]string{"command": line})
		c := core.ToolCall{Name: "bash", Arguments: string(b)}
		got := policy.RuleFor(bashSpec, c)
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		p := w.policy(t, nil)
		if err := p.Grant(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if d := p.Decide(bashSpec, c); d.Verdict != core.Allow {
			t.Errorf("%s after granting %s: %+v", line, got, d)
		}
	}
	for _, c := range []struct{ tool, args, want string }{
		{"write_file", `{"path":"docs/a.md"}`, "write_file(docs/**)"}, {"write_file", `{"path":"a.md"}`, "write_file(a.md)"}, {"write_file", `{"path":"./d[1]/a.md"}`, `write_file(d\[1]/**)`},
		{"edit_file", `{"path":"` + w.project + `/docs/a.md"}`, "edit_file(" + w.project + "/docs/**)"}, {"web_fetch", `{"url":"https://Go.dev/x"}`, "web_fetch(https://go.dev/**)"},
		{"toolkit_save", `{"name":"mine"}`, "toolkit_save(mine)"}, {"web_search", `{"query":"x"}`, "web_search"},
	} {
		tc := core.ToolCall{Name: c.tool, Arguments: c.args}
		spec := core.ToolSpec{Name: c.tool}
		got := policy.RuleFor(spec, tc)
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.tool, c.args, got, c.want)
		}
		p := w.policy(t, nil)
		if d := p.Decide(spec, tc); d.Verdict != core.Ask {
			t.Errorf("%s %s before: %+v", c.tool, c.args, d)
		}
		if err := p.Grant(got); err != nil {
			t.Error(err)
		}
		if d := p.Decide(spec, tc); d.Verdict != core.Allow || d.Rule != got {
			t.Errorf("%s %s after %s: %+v", c.tool, c.args, got, d)
		}
	}
}

// Deny beats ask beats allow, whoever granted what.
func TestStrictestWins(t *testing.T) {
	w := newWorld(t)
	p := w.policy(t, func(c *policy.Config) {
		c.Mode, c.Confined = "auto", true
		c.Allow = []string{"bash(git *)", "bash(ls)"}
		c.Ask = []string{"bash(git commit *)", "bash(ls)"}
		c.Deny = []string{"bash(git push *)"}
	})
	for line, want := range map[string]string{
		"git fetch": "allow bash(git *)", "git commit -m x": "ask bash(git commit *)", "git push": "deny bash(git push *)", "git fetch; git commit -m x": "ask bash(git commit *)",
		"git commit -m x && git push": "deny bash(git push *)", "ls": "ask bash(ls)", "env git commit": "ask bash(git commit *)",
	} {
		if d := bash(p, line); d.Verdict.String()+" "+d.Rule != want {
			t.Errorf("%s: %+v, want %s", line, d, want)
		}
	}
	if err := p.Grant("bash(git push *)"); err != nil {
		t.Fatal(err)
	}
	if d := bash(p, "git push"); d.Verdict != core.Deny {
		t.Errorf("a grant opened what a rule denies: %+v", d)
	}
}

func TestGrantIsSafeForConcurrentUse(t *testing.T) {
	w := newWorld(t)
	p := w.policy(t, nil)
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 50 {
				_ = p.Grant("bash(go test *)")
				bash(p, "go test ./... && ls")
			}
		}()
	}
	for range 4 {
		<-done
	}
	if d := bash(p, "go test ./..."); d.Verdict != core.Allow {
		t.Errorf("%+v", d)
	}
}

func BenchmarkDecide(b *testing.B) {
	w := newWorld(b)
	p := w.policy(b, func(c *policy.Config) {
		c.Allow = []string{"bash(go test *)", "bash(git *)"}
		c.Deny = []string{"bash(rm *)", "bash(git push *)"}
	})
	for _, line := range []string{"ls -la", "git status && git diff HEAD~1 -- a.txt | head -50", "go test -race ./... 2>&1 | tail -n 20", "sudo env A=1 sh -c 'rm -rf x'"} {
		b.Run(line, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bash(p, line)
			}
		})
	}
}
