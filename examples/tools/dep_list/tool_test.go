package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "项目[1]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "go.mod", "module x\n\ngo 1.26\n\nrequire a.org/b v1.2.3\n\nrequire (\n\tc.org/d v0.1.0 // indirect\n)\n\nreplace a.org/b => ../b\nexclude e.org/f v1.0.0\n")
	put(t, dir, "package.json", `{"name":"x","dependencies":{"b":"^1.0.0","a":"*"},"devDependencies":{"c":"~2"}}`)
	put(t, dir, "requirements.txt", "# c\nrequests[socks] >= 2.0, <3 ; python_version > '3'\nflask\nx @ https://e.org/x.zip\n-r other.txt\n--no-index\npkg==1.0 \\\n  --hash=sha256:00\n-e ./here\n")
	got, err := Run(t.Context(), Args{Path: dir})
	want := `go.mod: 2
  a.org/b v1.2.3 (replaced by ../b)
  c.org/d v0.1.0 (indirect)
package.json: 3
  a *
  b ^1.0.0
  c ~2 (dev)
requirements.txt: 6
  requests[socks] >=2.0,<3 (python_version > '3')
  flask any
  x @https://e.org/x.zip
  other.txt  (another file, not followed)
  pkg ==1.0
  ./here  (editable)`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Run(t.Context(), Args{Path: dir}); err == nil || !strings.Contains(err.Error(), "has no go.mod") {
		t.Error(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"package.json", "{", "not valid"}, {"package.json", `{"dependencies":[]}`, "not valid"}, {"go.mod", "require x\n", "line 1"}, {"go.mod", "replace a b\n", "without =>"}, {"requirements.txt", "a b c", "line 1"}, {"Cargo.toml", "", "not a go.mod"},
	} {
		if _, err := Run(t.Context(), Args{Path: put(t, dir, c.name, c.text)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v", c.name, c.text, err)
		}
	}
	if _, err := Run(t.Context(), Args{Path: filepath.Join(dir, "none")}); err == nil {
		t.Error("no error for a missing file")
	}
}
