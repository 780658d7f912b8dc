package check_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/check"
	"github.com/lingjiyidong/lj/evolve/scaffold"
)

func TestManifest(t *testing.T) {
	for in, want := range map[string]core.Permissions{
		"":                            core.DefaultPermissions(),
		"# nothing\n":                 core.DefaultPermissions(),
		"permissions:\n":              core.DefaultPermissions(),
		"permissions: {}":             core.DefaultPermissions(),
		"permissions: {write: [out]}": {Read: []string{"."}, Write: []string{"out"}},
		"permissions: {read: []}":     {Read: []string{}},
		`{"permissions":{"net":["example.org:443","[::1]:80"],"exec":["git"],"env":["A_B"]}}`: {Read: []string{"."}, Net: []string{"example.org:443", "[::1]:80"}, Exec: []string{"git"}, Env: []string{"A_B"}},
		"permissions: {read: [./docs/, docs]}":                                                {Read: []string{"docs"}},
	} {
		got, diags := check.Manifest([]byte(in))
		if len(diags) > 0 {
			t.Errorf("%q: %v", in, diags)
		}
		for _, p := range [][2][]string{{got.Read, want.Read}, {got.Write, want.Write}, {got.Net, want.Net}, {got.Exec, want.Exec}, {got.Env, want.Env}} {
			if !slices.Equal(p[0], p[1]) {
				t.Errorf("%q: %+v, want %+v", in, got, want)
			}
		}
	}
	for in, place := range map[string]string{
		"permission: {}":                     "tool.yaml:1:1",
		"permissions: {raed: [.]}":           "tool.yaml:1:15",
		"permissions: [read]":                "tool.yaml:1:14",
		"permissions: {read: .}":             "tool.yaml:1:21",
		"permissions: {read: [/etc]}":        "tool.yaml:1:22",
		"permissions: {read: [~/x]}":         "tool.yaml:1:22",
		"permissions: {write: [a/../../b]}":  "tool.yaml:1:23",
		"permissions: {net: [example.org]}":  "tool.yaml:1:21",
		"permissions: {net: ['x:0']}":        "tool.yaml:1:21",
		"permissions: {net: ['x:99999']}":    "tool.yaml:1:21",
		"permissions: {net: ['a b:1']}":      "tool.yaml:1:21",
		"permissions: {exec: [/bin/sh]}":     "tool.yaml:1:22",
		"permissions: {exec: ['sh -c']}":     "tool.yaml:1:22",
		"permissions: {env: [A=B]}":          "tool.yaml:1:21",
		"permissions: {env: [{a: b}]}":       "tool.yaml:1:21",
		"permissions: {env: [A], env: [B]}":  "tool.yaml:1:25",
		"a: b\npermissions: {}":              "tool.yaml:1:1",
		"permissions:\n\t- x":                "tool.yaml:2",
		"permissions: {}\npermissions: {}\n": "tool.yaml:2:1",
		"- a":                                "tool.yaml:1:1",
	} {
		_, diags := check.Manifest([]byte(in))
		if len(diags) == 0 || diags[0].Place() != place {
			t.Errorf("%q: %v, want %s", in, diags, place)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("permissions: {read: [.], net: [a:1]}"))
	f.Add([]byte("permissions:\n  exec: [git]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, diags := check.Manifest(b)
		if len(diags) > 0 {
			return
		}
		for _, s := range slices.Concat(p.Read, p.Write) {
			if filepath.IsAbs(s) || s == ".." || strings.HasPrefix(s, "../") {
				t.Errorf("%q allows %q", b, s)
			}
		}
		if more := check.Beyond(p, p); more != nil {
			t.Errorf("%q is beyond itself: %v", b, more)
		}
	})
}

func TestBeyond(t *testing.T) {
	have := core.Permissions{Read: []string{"docs", "a/b"}, Write: []string{"."}, Net: []string{"x:1"}, Exec: []string{"git"}}
	for _, c := range []struct {
		want core.Permissions
		more string
	}{
		{core.Permissions{}, ""},
		{core.Permissions{Read: []string{"docs/deep", "a/b"}, Write: []string{"x"}, Net: []string{"x:1"}, Exec: []string{"git"}}, ""},
		{core.Permissions{Read: []string{"."}}, "read ."},
		{core.Permissions{Read: []string{"docsx", "a"}}, "read docsx,read a"},
		{core.Permissions{Net: []string{"x:2"}, Exec: []string{"gi"}, Env: []string{"A"}}, "net x:2,exec gi,env A"},
	} {
		if got := strings.Join(check.Beyond(c.want, have), ","); got != c.more {
			t.Errorf("%+v: %q, want %q", c.want, got, c.more)
		}
	}
}

func TestReadDirRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for n, b := range scaffold.New("x") {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".hidden"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := check.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Fatalf("%v %v", files, err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "testdata", "l")); err != nil {
		t.Fatal(err)
	}
	var r *evolve.Refusal
	if _, err := check.ReadDir(dir); !errors.As(err, &r) || r.Diagnostics[0].File != "testdata/l" {
		t.Errorf("%v", err)
	}
	if _, err := check.ReadDir(filepath.Join(dir, "none")); core.KindOf(err) != core.KindUsage {
		t.Error(err)
	}
}

func TestHarmlessUseOfNetIsFree(t *testing.T) {
	files := scaffold.New("x")
	files["tool.go"] = []byte(strings.Replace(string(files["tool.go"]), `"fmt"`, "\"fmt\"\n\t\"net\"\n\t\"net/http\"\n\t\"net/url\"", 1) +
		"\nvar _, _, _ = net.ParseIP, http.StatusText, url.Parse\n")
	src, err := check.Check("x", files)
	if err != nil {
		t.Fatal(err)
	}
	if len(src.Tests) != 2 || string(src.Sample) != `{"path": "testdata/example.json"}` || src.Strength.Asserts != 4 {
		t.Errorf("%+v", src)
	}
}

func TestExampleIsReadFromTests(t *testing.T) {
	files := scaffold.New("x")
	files["tool_test.go"] = []byte(`package main

import "testing"

func TestRun(t *testing.T) {
	for _, in := range []Args{{Path: t.TempDir()}} {
		_ = in
	}
	_ = Args{Path: t.TempDir()}
	if _, err := Run(t.Context(), Args{Path: "a" + "b"}); err == nil {
		t.Error("x")
	}
}
`)
	src, err := check.Check("x", files)
	if err != nil || string(src.Example) != `{"path":"ab"}` {
		t.Errorf("%s %v", src.Example, err)
	}
}

func TestTestsThatCannotFailAreNoted(t *testing.T) {
	files := scaffold.New("x")
	files["tool_test.go"] = []byte("package main\n\nimport \"testing\"\n\nfunc TestRun(t *testing.T) { _, _ = Run(t.Context(), Args{}) }\n")
	src, err := check.Check("x", files)
	if err != nil || !slices.ContainsFunc(src.Notes, func(n string) bool { return strings.Contains(n, "can't fail") }) {
		t.Errorf("%v %v", src, err)
	}
}

func TestTestsThatDoNothingAreRefused(t *testing.T) {
	for _, body := range []string{"", "_ = t", "for range 3 {\n\t}"} {
		files := scaffold.New("x")
		files["tool_test.go"] = []byte("package main\n\nimport \"testing\"\n\nfunc TestRun(t *testing.T) {\n\t" + body + "\n}\n")
		_, err := check.Check("x", files)
		var r *evolve.Refusal
		if !errors.As(err, &r) || len(r.Diagnostics) != 1 || !strings.Contains(r.Diagnostics[0].Message, "the tests do nothing") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// Whatever the bytes are, the answer is a source whose files are stored formatted, or a
// refusal with places.
func FuzzCheck(f *testing.F) {
	s := scaffold.New("x")
	f.Add(string(s["tool.go"]), string(s["tool_test.go"]))
	f.Add("package main\n//line x:1\nfunc main() { sdk.Serve(", "package main")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, code, test string) {
		src, err := check.Check("x", map[string][]byte{"tool.go": []byte(code), "tool_test.go": []byte(test)})
		var r *evolve.Refusal
		if err != nil && (!errors.As(err, &r) || r.Reason == "") {
			t.Errorf("%v", err)
		}
		if err == nil {
			again, err := check.Check("x", src.Files)
			if err != nil || again.Digest != src.Digest {
				t.Errorf("what is stored is not what is checked: %v", err)
			}
		}
	})
}
