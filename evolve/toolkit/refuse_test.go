package toolkit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/toolkit"
)

// Whatever a step refuses: the kind, the failing step last, a place to mend, and nothing
// changed byte for byte.
func TestRefusedChangesNothing(t *testing.T) {
	b := newBase(t, func(o *toolkit.Options) { o.TestTime = 2 * time.Second })
	good := echo("echo1", "three ")
	test := func(body string) map[string][]byte {
		return map[string][]byte{"tool.go": good["tool.go"], "tool_test.go": []byte("package main\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Args\n\n" + body)}
	}
	for _, c := range []struct {
		name, step string
		files      map[string][]byte
		place      string // of a diagnostic
		says       string // in the report for the model
	}{
		{"syntax", "check", replace(good, "tool.go", "type Args struct {", "type Args struc {"), "tool.go:9", ""},
		{"type error", "vet", replace(good, "tool.go", `return "three " + in.Text`, `return 1 + in.Text`), "tool.go:13", "mismatched types"},
		{"vet", "vet", replace(good, "tool_test.go", "t.Errorf(\"got %q, %v\"", "t.Errorf(\"got %d, %v\""), "tool_test.go:8", "%d"},
		// Known fault 073 a: the tests do not compile.
		{"test does not compile", "vet", replace(good, "tool_test.go", "Run(t.Context()", "Walk(t.Context()"), "tool_test.go:6", "undefined: Walk"},
		{"no test file", "check", map[string][]byte{"tool.go": good["tool.go"]}, "tool_test.go", "there is no test"},
		// Known fault 073 b: nothing to run.
		{"no test function", "check", test("func helper(t *testing.T) {}\n"), "tool_test.go", "no func TestXxx"},
		{"test fails", "test", replace(good, "tool_test.go", `"x" {`, `"y" {`), "", "1 of 1 tests failed"},
		{"test fails with a place", "test", test("func TestRun(t *testing.T) {\n\tt.Error(\"wrong\")\n}\n"), "tool_test.go:11", "TestRun: wrong"},
		{"all skipped", "test", test("func TestRun(t *testing.T) { t.Skip(\"later\") }\n"), "tool_test.go:10", "all were skipped"},
		{"only skipped subtests", "test", test("func TestRun(t *testing.T) {\n\tt.Run(\"a\", func(t *testing.T) { t.Skip(\"x\") })\n}\n"), "", "all were skipped"},
		{"exits in TestMain", "test", test("func TestMain(m *testing.M) { os.Exit(0) }\n\nfunc TestRun(t *testing.T) {}\n"), "", "no test ran"},
		{"exits in init", "test", test("func init() { os.Exit(0) }\n\nfunc TestRun(t *testing.T) {}\n"), "", "no test ran"},
		{"exits in a test", "test", test("func TestRun(t *testing.T) { os.Exit(0) }\n"), "tool_test.go:10", "os.Exit"},
		{"hides the failure", "test", test("func TestMain(m *testing.M) { m.Run(); os.Exit(0) }\n\nfunc TestRun(t *testing.T) { t.Fatal(\"no\") }\n"), "tool_test.go:12", "1 of 1"},
		{"panics", "test", test("func TestRun(t *testing.T) {\n\tvar m map[string]int\n\tm[\"a\"] = 1\n}\n"), "tool_test.go:12", "nil map"},
		// Known fault 073 c: the time limit.
		{"hangs", "test", test("func TestRun(t *testing.T) { select {} }\n"), "", ""},
		{"sleeps", "test", test("func TestRun(t *testing.T) {\n\tc := make(chan int)\n\tgo func() {\n\t\tfor {\n\t\t}\n\t}()\n\t<-c\n}\n"), "", "longer than 2s"},
		{"floods", "test", test("func TestRun(t *testing.T) {\n\tfor range 200000 {\n\t\tt.Log(\"a line that is long enough to fill the limit soon enough\")\n\t}\n}\n"), "", "refused at step test"},
		{"another name", "check", replace(good, "tool.go", `sdk.Serve("echo1"`, `sdk.Serve("echo2"`), "tool.go:15", `"echo1"`},
		{"foreign import", "check", replace(good, "tool.go", `"context"`, "\"context\"\n\t_ \"github.com/x/y\""), "tool.go:5", "standard library"},
		{"cgo", "check", replace(good, "tool.go", `"context"`, "\"C\"\n\t\"context\""), "tool.go:4", "cgo"},
		{"unsafe", "check", replace(good, "tool.go", `"context"`, "\"context\"\n\t_ \"unsafe\""), "tool.go:5", "unsafe"},
		{"net without permission", "check", replace(replace(good, "tool.go", `"context"`, "\"context\"\n\t\"net/http\""), "tool.go", "func main", "var _ = http.Get\n\nfunc main"), "tool.go:5", "permission net"},
		{"exec without permission", "check", replace(replace(good, "tool.go", `"context"`, "\"context\"\n\t\"os/exec\""), "tool.go", "func main", "var _ = exec.Command\n\nfunc main"), "tool.go:5", "permission exec"},
		{"module", "check", with(good, "go.mod", "module x\n"), "go.mod", "module"},
		{"assembly", "check", with(good, "a.s", "TEXT x(SB),0,$0\n"), "a.s", "assembly"},
		{"C", "check", with(good, "a.c", "int x;\n"), "a.c", "cgo"},
		{"left out by a constraint", "check", with(good, "x.go", "//go:build ignore\n\npackage main\n"), "x.go:3", "leaves this file out"},
		{"left out by its name", "check", with(good, "x_windows.go", "package main\n"), "x_windows.go:1", "leaves this file out"},
		{"embeds what it may not", "check", with(good, "x.go", "package main\n\nimport _ \"embed\"\n\n//go:embed tool.go\nvar s string\n"), "x.go:5", "testdata"},
		{"manifest", "check", with(good, "tool.yaml", "permissions:\n  red: [.]\n"), "tool.yaml:2:3", "did you mean read"},
		{"manifest leaves the project", "check", with(good, "tool.yaml", "permissions:\n  read: [../x]\n"), "tool.yaml:2:10", "leaves the project"},
		{"prints before the handshake", "contract", replace(good, "tool.go", "func main() {", "func init() { panic(\"early\") }\n\nfunc main() {"), "", ""},
		{"argument type", "contract", replace(good, "tool.go", "Text string", "When chan int"), "", ""},
	} {
		if os.Getenv("LJ_TEST_PROVE") == "" && slices.Contains([]string{"only skipped subtests", "exits in init", "hides the failure", "hangs", "C", "left out by its name"}, c.name) {
			continue // close to another case; in full campaigns only
		}
		t.Run(c.name, func(t *testing.T) {
			before, programs := picture(t, b.home+"/toolkit"), picture(t, b.home+"/bin")
			gen, err := b.tk.Generation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rep, err := b.tk.Save(t.Context(), toolkit.SaveRequest{Name: "echo1", Files: c.files, Message: c.name})
			if core.KindOf(err) != core.KindRefused {
				t.Fatalf("%v\n%s", err, rep.ForPerson())
			}
			if rep.Accepted || rep.Version != nil || rep.Live || rep.Unchanged {
				t.Errorf("%+v", rep)
			}
			step := c.step
			switch c.name { // what vet or the tests see first
			case "prints before the handshake":
				step = "test"
			case "argument type":
				step = "vet"
			}
			last := rep.Steps[len(rep.Steps)-1]
			if rep.Failed() != step || last.Step != step || last.OK {
				t.Errorf("failed at %s, want %s\n%s", rep.Failed(), step, rep.ForPerson())
			}
			if len(rep.Diagnostics) == 0 && c.place != "" {
				t.Error("no diagnostics")
			}
			if c.place != "" && !slices.ContainsFunc(rep.Diagnostics, func(d evolve.Diagnostic) bool { return strings.HasPrefix(d.Place(), c.place) }) {
				t.Errorf("no diagnostic at %s:\n%s", c.place, rep.ForModel())
			}
			if !strings.Contains(rep.ForModel(), c.says) {
				t.Errorf("the report does not say %q:\n%s", c.says, rep.ForModel())
			}
			samePicture(t, "toolkit", before, picture(t, b.home+"/toolkit"))
			samePicture(t, "programs", programs, picture(t, b.home+"/bin"))
			if now, _ := b.tk.Generation(t.Context()); now != gen {
				t.Errorf("generation %d after %d", now, gen)
			}
			list, err := b.tk.Versions(t.Context(), "echo1")
			if err != nil || list[0].Status != core.VersionRejected || list[0].Version != nil || !strings.HasPrefix(list[0].Reason, step+": ") || list[0].Message != c.name {
				t.Errorf("%+v %v", list[0], err)
			}
		})
	}
	if got := b.call("echo1", `{"text":"a"}`); got != "two a" {
		t.Errorf("got %q", got)
	}
	b.sound()
}

func with(files map[string][]byte, name, text string) map[string][]byte {
	out := replace(files, "tool.go", "", "")
	out["tool.go"] = files["tool.go"]
	out[name] = []byte(text)
	return out
}

// A recipe that failed is not tried again unchanged; with other bytes it is.
func TestFailedRecipeIsRemembered(t *testing.T) {
	b := newBench(t, nil)
	bad := replace(echo("echo1", "one "), "tool_test.go", `"x" {`, `"y" {`)
	first, err := b.save("echo1", bad)
	if core.KindOf(err) != core.KindRefused {
		t.Fatal(err)
	}
	again, err := b.save("echo1", bad)
	if core.KindOf(err) != core.KindRefused || again.Failed() != "test" || len(again.Diagnostics) != len(first.Diagnostics) || !strings.Contains(again.Reason, "tried before") {
		t.Fatalf("%v\n%s", err, again.ForPerson())
	}
	if ms := again.Steps[2].MS + again.Steps[3].MS + again.Steps[4].MS; ms > 50 {
		t.Errorf("it was tried: %+v", again.Steps)
	}
	b.mustSave("echo1", replace(bad, "tool_test.go", `"y" {`, `"x" {`), "v1.0.0")
}

// Diagnostics name the lines of the files as they were given, though what is proved and
// stored is formatted.
func TestPlacesAreThoseOfTheGivenFiles(t *testing.T) {
	b := newBench(t, nil)
	src := "package main\n\n\n\nimport (\n\"github.com/lingjiyidong/lj/plugins/sdk\"\n\"context\"\n)\n\n\ntype Args struct { Text string `json:\"text\" jsonschema:\"t\"` }\n\n\n\nfunc Run(ctx context.Context, in Args) (string, error) {\n   return    in.Missing,   nil\n}\nfunc main() { sdk.Serve(\"up\", \"Up\", Run) }"
	files := map[string][]byte{"tool.go": []byte(src), "tool_test.go": []byte("package main\nimport \"testing\"\nfunc TestRun(t *testing.T) { if s, _ := Run(t.Context(), Args{Text: \"a\"}); s != \"a\" { t.Fatal(s) } }")}
	rep, err := b.save("up", files)
	if core.KindOf(err) != core.KindRefused || len(rep.Diagnostics) == 0 {
		t.Fatalf("%v %+v", err, rep)
	}
	if d := rep.Diagnostics[0]; d.File != "tool.go" || d.Line != 16 || d.Column != 17 || !strings.Contains(d.Text, "in.Missing") {
		t.Errorf("%+v", d)
	}
	rep = b.mustSave("up", replace(files, "tool.go", "in.Missing", "in.Text"), "v1.0.0")
	if !slices.Contains(rep.Notes, "tool.go was formatted with gofmt") {
		t.Errorf("notes: %v", rep.Notes)
	}
	if rep, err := b.save("up", replace(files, "tool.go", "in.Missing", "in.Text")); err != nil || !rep.Unchanged {
		t.Errorf("%v %+v", err, rep)
	}
}

// A test that is loosened in the same save as its code is shown.
func TestLoosenedTestIsShown(t *testing.T) {
	b := newBench(t, nil)
	files := with(echo("echo1", "one "), "more_test.go", "package main\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) {\n\tif s, _ := Run(t.Context(), Args{}); s == \"\" {\n\t\tt.Error(\"empty\")\n\t}\n}\n")
	b.mustSave("echo1", files, "v1.0.0")
	rep := b.mustSave("echo1", echo("echo1", "two "), "v1.0.1")
	if !strings.Contains(rep.ForModel(), "same save as the code: TestMore is gone, assertions: 1 instead of 2") {
		t.Error(rep.ForModel())
	}
}

func TestNames(t *testing.T) {
	b := newBench(t, nil)
	for _, name := range []string{"bash", "Bad-Name", "../x", ""} {
		rep, err := b.save(name, echo("echo1", "x"))
		if core.KindOf(err) != core.KindRefused || rep.Failed() != "check" {
			t.Errorf("%q: %v", name, err)
		}
		if list, _ := b.st.ToolVersions(t.Context(), name); name != "" && len(list) > 0 {
			t.Errorf("%q: recorded", name)
		}
	}
	if _, err := b.tk.Save(t.Context(), toolkit.SaveRequest{Name: "x", Dir: filepath.Join(b.home, "none")}); core.KindOf(err) != core.KindUsage {
		t.Error(err)
	}
	if _, err := b.tk.Rollback(t.Context(), "none", "", nil); !errors.Is(err, core.ErrNotFound) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(b.home, "toolkit", ".git")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a refused first save made a repository")
	}
}

// Wanting more than the predecessor waits for a person; the tests run with what was
// approved and no more.
func TestPermissionsNeedAPerson(t *testing.T) {
	files := with(echo("echo1", "one "), "tool.yaml", "permissions:\n  write: [out]\n  env: [TOKEN]\n")
	b := newBench(t, nil)
	if err := os.MkdirAll(b.home+"/toolkit", 0o700); err != nil {
		t.Fatal(err)
	}
	before := picture(t, b.home+"/toolkit")
	rep, err := b.save("echo1", files)
	if core.KindOf(err) != core.KindDenied || rep.Failed() != "check" || !strings.Contains(err.Error(), "write out, env TOKEN") {
		t.Fatalf("%v", err)
	}
	samePicture(t, "toolkit", before, picture(t, b.home+"/toolkit"))
	var asked []toolkit.Approval
	b.open(func(o *toolkit.Options) {
		o.Approve = func(_ context.Context, a toolkit.Approval) (bool, error) {
			asked = append(asked, a)
			return len(asked) > 1, nil
		}
	})
	if _, err := b.save("echo1", files); core.KindOf(err) != core.KindDenied {
		t.Fatal(err)
	}
	b.mustSave("echo1", files, "v1.0.0")
	if len(asked) != 2 || !asked[1].First || slices.Compare(asked[1].Beyond, []string{"write out", "env TOKEN"}) != 0 {
		t.Errorf("%+v", asked)
	}
	// The same wants are not asked for again; fewer neither.
	b.mustSave("echo1", with(echo("echo1", "two "), "tool.yaml", "permissions:\n  write: [out/deep]\n  env: [TOKEN]\n"), "v1.0.1")
	if len(asked) != 2 {
		t.Errorf("asked again: %+v", asked[2:])
	}
	// What was given up must be asked for again.
	if _, err := b.save("echo1", with(echo("echo1", "three "), "tool.yaml", "permissions:\n  write: [out]\n  env: [TOKEN]\n")); err != nil || len(asked) != 3 {
		t.Errorf("%v %d", err, len(asked))
	}
}

// Tests are held to the permissions by the kernel.
func TestTestsAreConfined(t *testing.T) {
	b := newBench(t, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := with(echo("echo1", "one "), "escape_test.go", `package main

import (
	"errors"
	"net"
	"os"
	"testing"
)

func TestEscape(t *testing.T) {
	if _, err := os.ReadFile("`+secret+`"); err == nil {
		t.Error("read a file outside")
	}
	if err := os.WriteFile("`+secret+`.new", nil, 0o600); err == nil {
		t.Error("wrote a file outside")
	}
	if err := os.WriteFile("here", nil, 0o600); err == nil {
		t.Error("wrote into the project without permission")
	}
	if _, err := net.Dial("tcp", "127.0.0.1:1"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("network: %v", err)
	}
	if len(os.Getenv("LJ_SECRET")) > 0 || os.Getenv("HOME") == "`+os.Getenv("HOME")+`" {
		t.Error("environment", os.Environ())
	}
	if err := os.WriteFile(t.TempDir()+"/a", nil, 0o600); err != nil {
		t.Error(err)
	}
	if _, err := os.StartProcess("/bin/sh", []string{"sh"}, &os.ProcAttr{}); err == nil {
		t.Error("started a shell")
	}
}
`)
	t.Setenv("LJ_SECRET", "s")
	if rep, err := b.save("echo1", files); err != nil {
		t.Fatalf("%v\n%s", err, rep.ForPerson())
	}
}

// A cancel in any step leaves everything as it was.
func TestCancelInEveryStep(t *testing.T) {
	b := newBase(t, nil)
	for _, step := range []string{"snapshot", "check", "vet", "build", "test", "contract"} {
		before := picture(t, b.home+"/toolkit")
		ctx, cancel := context.WithCancel(t.Context())
		rep, err := b.tk.Save(ctx, toolkit.SaveRequest{Name: "echo1", Files: echo("echo1", "three "), Progress: func(s string) {
			if strings.HasPrefix(s, step+" …") {
				cancel()
			}
		}})
		cancel()
		if core.KindOf(err) != core.KindInterrupted || rep.Accepted {
			t.Errorf("%s: %v", step, err)
		}
		samePicture(t, step, before, picture(t, b.home+"/toolkit"))
		b.sound()
	}
	b.mustSave("echo1", echo("echo1", "three "), "v1.0.2")
}

// Known fault 074: tests see their files as they are at that moment.
func TestFilesAreFreshInEachRun(t *testing.T) {
	b := newBench(t, nil)
	files := with(echo("echo1", "one "), "data_test.go", "package main\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestData(t *testing.T) {\n\tb, err := os.ReadFile(\"testdata/n\")\n\tif err != nil || string(b) != \"10\" {\n\t\tt.Errorf(\"%s %v\", b, err)\n\t}\n}\n")
	b.mustSave("echo1", with(files, "testdata/n", "10"), "v1.0.0")
	if _, err := b.save("echo1", with(files, "testdata/n", "12")); core.KindOf(err) != core.KindRefused {
		t.Error(err)
	}
	if rep, err := b.save("echo1", with(files, "testdata/n", "10")); err != nil || !rep.Unchanged {
		t.Errorf("%v %+v", err, rep)
	}
	rep, err := b.tk.Test(t.Context(), "echo1", nil)
	if err != nil || len(rep.Steps) != 3 || rep.Steps[2].Tests != 2 {
		t.Errorf("%v %+v", err, rep)
	}
}
