package toolkit_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve/toolkit"
)

func (b *bench) warned(what string) {
	b.Helper()
	for _, w := range b.warns {
		if strings.Contains(w, what) {
			return
		}
	}
	b.Errorf("nothing said of %q: %v", what, b.warns)
}

// The database set aside: the toolkit is read from git, with the right live versions,
// disabled and removed tools included.
func TestLedgerLost(t *testing.T) {
	b := newBase(t, nil)
	b.mustSave("gone", echo("gone", "gone "), "v1.0.0")
	for _, step := range []func() error{
		func() error { _, err := b.tk.Rollback(t.Context(), "echo1", "", nil); return err },
		func() error { _, err := b.tk.Disable(t.Context(), "other", "why"); return err },
		func() error { _, err := b.tk.Remove(t.Context(), "gone"); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	b.sound()
	before := picture(t, b.home+"/toolkit/.git")
	b.close()
	for _, ext := range []string{"", "-wal", "-shm", ".checked"} {
		os.Remove(filepath.Join(b.home, "lj.db"+ext))
	}
	b.open(nil)
	b.warned("4 were read from the toolkit's repository")
	for name, want := range map[string]string{"echo1": "v1.0.0 live", "other": "v1.0.0 disabled", "gone": " removed"} {
		if r, err := b.st.Tool(t.Context(), name); err != nil || r.Version+" "+r.State != want {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	b.sound()
	after := picture(t, b.home+"/toolkit/.git")
	delete(before, "lj-mark")
	delete(after, "lj-mark")
	delete(before, "index")
	delete(after, "index")
	samePicture(t, ".git", before, after)
	if got := b.call("echo1", `{"text":"a"}`); got != "one a" {
		t.Errorf("got %q", got)
	}
	b.mustSave("echo1", echo("echo1", "three "), "v1.0.2")
	if rep, err := b.tk.Rollback(t.Context(), "gone", "", nil); err != nil || !rep.Live {
		t.Error(err)
	}
	b.sound()
	// Nothing is found to mend any more.
	b.open(nil)
	if len(b.warns) > 0 {
		t.Errorf("%v", b.warns)
	}
}

// Files, refs and programs that were meddled with are found by digest at the next start,
// told and mended; going back works all the same.
func TestMeddledFilesAreMended(t *testing.T) {
	b := newBase(t, nil)
	dir := filepath.Join(b.home, "toolkit")
	want := picture(t, dir)
	tool := filepath.Join(dir, "tools", "echo1", "tool.go")
	for what, meddle := range map[string]func() error{
		"files of the toolkit were changed": func() error { return os.WriteFile(tool, []byte("package evil\n"), 0o600) },
		"tools/echo1":                       func() error { return os.RemoveAll(filepath.Join(dir, "tools", "echo1")) },
		"put back: tools/echo1": func() error {
			return os.WriteFile(filepath.Join(dir, "tools", "echo1", "more.go"), []byte("package main\n"), 0o600)
		},
		"tools/planted":          func() error { return os.MkdirAll(filepath.Join(dir, "tools", "planted"), 0o700) },
		"plugins/sdk":            func() error { return os.WriteFile(filepath.Join(dir, "plugins", "sdk", "tool.go"), nil, 0o600) },
		"refs/lj/live/echo1":     func() error { return os.Remove(filepath.Join(dir, ".git", "refs", "lj", "live", "echo1")) },
		"refs/tags/echo1/v1.0.0": func() error { return os.Remove(filepath.Join(dir, ".git", "refs", "tags", "echo1", "v1.0.0")) },
		"refs/heads/main": func() error {
			return os.WriteFile(filepath.Join(dir, ".git", "refs", "heads", "main"), []byte(strings.Repeat("0", 39)+"1\n"), 0o600)
		},
		"HEAD": func() error {
			return os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/other\n"), 0o600)
		},
	} {
		b.close()
		if err := meddle(); err != nil {
			t.Fatal(err)
		}
		b.open(nil)
		b.warned(what)
		if what == "files of the toolkit were changed" {
			if list, err := filepath.Glob(filepath.Join(dir, ".aside", "*", "tools", "echo1", "tool.go")); err != nil || len(list) == 0 {
				t.Errorf("what was there is lost: %v %v", list, err)
			}
		}
		os.RemoveAll(filepath.Join(dir, ".aside"))
		now := picture(t, dir)
		for _, m := range []map[string]string{want, now} {
			delete(m, ".git/index")
			delete(m, ".git/lj-mark")
		}
		if strings.Contains(what, "refs/heads") {
			for n := range now {
				if strings.HasPrefix(n, ".git/refs/lj/aside") {
					delete(now, n)
				}
			}
			os.RemoveAll(filepath.Join(dir, ".git", "refs", "lj", "aside"))
		}
		samePicture(t, what, want, now)
	}
	// A program.
	live, err := b.tk.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.close()
	if err := os.Chmod(live[0].Program, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(live[0].Program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.open(nil)
	b.warned("the program of echo1 v1.0.1 was changed")
	if now, _ := b.tk.Live(t.Context()); !now[0].Missing || now[1].Missing {
		t.Errorf("%+v", now)
	}
	if got := b.call("echo1", `{"text":"a"}`); got != "two a" {
		t.Errorf("got %q", got)
	}
	// Going back without any program, with the work tree gone.
	for _, d := range []string{"bin", "toolkit/tools"} {
		if err := os.RemoveAll(filepath.Join(b.home, d)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.tk.Rollback(t.Context(), "echo1", "v1.0.0", nil); err != nil {
		t.Fatal(err)
	}
	if got := b.call("echo1", `{"text":"a"}`); got != "one a" {
		t.Errorf("got %q", got)
	}
	b.open(nil)
	b.call("other", `{"text":"a"}`)
	b.sound()
}

// Two processes on one home: what one saves the other uses in its next call.
func TestSeveralProcessesShareAToolkit(t *testing.T) {
	b := newBase(t, nil)
	gen, _ := b.tk.Generation(t.Context())
	bin := filepath.Join(t.TempDir(), "crash")
	if out, err := exec.Command("go", "build", "-o", bin, "./testdata/crash").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Two other processes and this one save at the same time.
	type done struct {
		out []byte
		err error
	}
	ends := make(chan done, 3)
	for i := range 2 {
		dir := writeDir(t, echo("echo1", fmt.Sprintf("p%d ", i)))
		go func() {
			out, err := exec.Command(bin, b.home, cacheDir(), "save", "echo1", dir).CombinedOutput()
			ends <- done{out, err}
		}()
	}
	go func() {
		_, err := b.tk.Save(context.WithoutCancel(t.Context()), toolkit.SaveRequest{Name: "other", Files: echo("other", "p ")})
		ends <- done{nil, err}
	}()
	for range 3 {
		if d := <-ends; d.err != nil {
			t.Fatalf("%v\n%s", d.err, d.out)
		}
	}
	now, err := b.tk.Generation(t.Context())
	if err != nil || now != gen+3 {
		t.Errorf("generation %d after %d: %v", now, gen, err)
	}
	list, err := b.tk.Versions(t.Context(), "echo1")
	if err != nil || len(list) != 4 || *list[0].Version != "v1.0.3" || !list[0].Live {
		t.Errorf("%+v %v", list, err)
	}
	if got := b.call("echo1", `{"text":"a"}`); !strings.HasPrefix(got, "p") {
		t.Errorf("got %q", got)
	}
	b.sound()
}

// An export is the same bytes each time; an import is numbered by the toolkit that takes
// it.
func TestExportAndImport(t *testing.T) {
	b := newBase(t, nil)
	b.mustSave("echo1", with(echo("echo1", "three "), "testdata/a", "b"), "v1.0.2")
	var one, two bytes.Buffer
	for _, w := range []*bytes.Buffer{&one, &two} {
		if err := b.tk.Export(t.Context(), []string{"other", "echo1"}, w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two exports differ")
	}
	to := newBench(t, nil)
	reps, err := to.tk.Import(t.Context(), bytes.NewReader(one.Bytes()), nil)
	if err != nil || len(reps) != 2 || *reps[0].Version != "v1.0.0" || reps[0].Name != "echo1" {
		t.Fatalf("%v %+v", err, reps)
	}
	if got := to.call("echo1", `{"text":"a"}`); got != "three a" {
		t.Errorf("got %q", got)
	}
	list, _ := to.tk.Versions(t.Context(), "echo1")
	if list[0].Message != "imported, was v1.0.2: save echo1" {
		t.Errorf("%+v", list)
	}
	if reps, err := to.tk.Import(t.Context(), bytes.NewReader(one.Bytes()), nil); err != nil || !reps[0].Unchanged || !reps[1].Unchanged {
		t.Errorf("%v %+v", err, reps)
	}
	to.sound()
}

// Hostile archives are refused before anything is written.
func TestImportRefusesHostileArchives(t *testing.T) {
	b := newBench(t, nil)
	outside := filepath.Join(t.TempDir(), "x")
	for name, h := range map[string]tar.Header{
		"up":        {Name: "../x", Typeflag: tar.TypeReg},
		"up inside": {Name: "echo1/../../x", Typeflag: tar.TypeReg},
		"absolute":  {Name: outside, Typeflag: tar.TypeReg},
		"link":      {Name: "echo1/tool.go", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"hard link": {Name: "echo1/tool.go", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		"device":    {Name: "echo1/tool.go", Typeflag: tar.TypeChar},
		"no folder": {Name: "tool.go", Typeflag: tar.TypeReg},
		"bad name":  {Name: "Echo-1/tool.go", Typeflag: tar.TypeReg},
		"huge":      {Name: "echo1/tool.go", Typeflag: tar.TypeReg, Size: 1 << 40},
	} {
		var buf bytes.Buffer
		gz := gzip.NewWriter(&buf)
		tw := tar.NewWriter(gz)
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(name, err)
		}
		if h.Size == 0 {
			tw.Close()
		}
		gz.Close()
		if _, err := b.tk.Import(t.Context(), &buf, nil); core.KindOf(err) != core.KindUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.tk.Import(t.Context(), strings.NewReader("no gzip"), nil); core.KindOf(err) != core.KindUsage {
		t.Error(err)
	}
	// A megabyte of gzip that becomes a gigabyte.
	var bomb bytes.Buffer
	gz := gzip.NewWriter(&bomb)
	zero := make([]byte, 1<<20)
	tw := tar.NewWriter(gz)
	for i := range 80 {
		if err := tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("echo1/testdata/%d", i), Typeflag: tar.TypeReg, Size: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		tw.Write(zero)
	}
	tw.Close()
	gz.Close()
	if _, err := b.tk.Import(t.Context(), &bomb, nil); core.KindOf(err) != core.KindUsage {
		t.Error(err)
	}
	if list, err := os.ReadDir(filepath.Join(b.home, "toolkit")); err == nil && len(list) > 0 {
		t.Errorf("written: %v", list)
	}
}

// The watch puts a crashing version back, and one that fails more than its predecessor;
// without a predecessor it disables. The evidence is kept.
func TestWatch(t *testing.T) {
	b := newBench(t, nil)
	b.mustSave("echo1", echo("echo1", "one "), "v1.0.0")
	record := func(version string, outcomes ...toolkit.Outcome) toolkit.Decision {
		t.Helper()
		var last toolkit.Decision
		for _, o := range outcomes {
			d, err := b.tk.RecordOutcome(t.Context(), "echo1", version, o)
			if err != nil {
				t.Fatal(err)
			}
			if d.Action != "" {
				last = d
			}
		}
		return last
	}
	ok, failed, crashed := toolkit.Outcome{}, toolkit.Outcome{Failed: true, Detail: "no such column"}, toolkit.Outcome{Crashed: true, Detail: "panic: boom"}
	many := func(o toolkit.Outcome, n int) []toolkit.Outcome {
		out := make([]toolkit.Outcome, n)
		for i := range out {
			out[i] = o
		}
		return out
	}
	if d := record("v1.0.0", many(ok, 20)...); d.Action != "" {
		t.Errorf("%+v", d)
	}
	if d := record("v1.0.0", failed, ok, failed, ok); d.Action != "" {
		t.Errorf("%+v", d)
	}
	b.mustSave("echo1", echo("echo1", "two "), "v1.0.1")
	// Outcomes of a version that is not live any more change nothing.
	if d := record("v1.0.0", crashed, crashed, crashed); d.Action != "" {
		t.Errorf("%+v", d)
	}
	if err := b.tk.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mustSave("echo1", echo("echo1", "three "), "v1.0.2")
	record("v1.0.1", many(ok, 16)...)
	d := record("v1.0.2", crashed, ok, crashed, crashed)
	if d.Action != "rolled_back" || d.Version != "v1.0.1" || !strings.Contains(d.ForModel(), "panic: boom") {
		t.Errorf("%+v", d)
	}
	if r, err := b.st.Tool(t.Context(), "echo1"); err != nil || r.Version != "v1.0.1" || !strings.Contains(r.Reason, "crashed 3 times") {
		t.Errorf("%+v %v", r, err)
	}
	b.mustSave("echo1", echo("echo1", "four "), "v1.0.3")
	if d := record("v1.0.3", append(many(ok, 5), many(failed, 6)...)...); d.Action != "rolled_back" || d.Version != "v1.0.1" {
		t.Errorf("%+v", d)
	}
	// Its predecessor crashed itself: disabled.
	if d := record("v1.0.1", many(crashed, 3)...); d.Action != "disabled" {
		t.Errorf("%+v", d)
	}
	sh, err := b.tk.Show(t.Context(), "echo1", "")
	if err != nil || sh.State != core.ToolDisabled || sh.Health.Crashes != 3 || len(sh.Health.Evidence) != 3 {
		t.Errorf("%+v %v", sh, err)
	}
	if _, err := b.tk.Enable(t.Context(), "echo1"); err != nil {
		t.Error(err)
	}
	b.sound()
}

// A save that keeps the rest takes manifest and testdata from the live version.
func TestSaveKeepsTheRest(t *testing.T) {
	b := newBench(t, nil)
	b.mustSave("echo1", with(with(echo("echo1", "one "), "tool.yaml", "permissions: {read: [docs]}\n"), "testdata/a", "1"), "v1.0.0")
	rep, err := b.tk.Save(t.Context(), toolkit.SaveRequest{Name: "echo1", Files: echo("echo1", "two "), Keep: true, Bump: "minor"})
	if err != nil || *rep.Version != "v1.1.0" {
		t.Fatalf("%v %+v", err, rep)
	}
	sh, err := b.tk.Show(t.Context(), "echo1", "")
	if err != nil || len(sh.Permissions.Read) != 1 || sh.Permissions.Read[0] != "docs" || !strings.Contains(sh.Source["tool.yaml"], "docs") {
		t.Errorf("%+v %v", sh, err)
	}
	if _, err := os.Stat(filepath.Join(b.home, "toolkit/tools/echo1/testdata/a")); err != nil {
		t.Error(err)
	}
}

// Rows that a damaged database lost are read again, and only they; what the ledger still
// says of the rest counts.
func TestLedgerLostSomeRows(t *testing.T) {
	b := newBase(t, nil)
	if _, err := b.tk.Disable(t.Context(), "other", "for a reason"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{`DELETE FROM tool_versions WHERE name = 'echo1' AND version = 'v1.0.1'`, `DELETE FROM tools WHERE name = 'echo1'`} {
		if _, err := b.st.DB().Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	b.open(nil)
	b.warned("1 were read")
	if r, err := b.st.Tool(t.Context(), "echo1"); err != nil || r.Version != "v1.0.1" || r.State != core.ToolLive {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := b.st.Tool(t.Context(), "other"); err != nil || r.Reason != "for a reason" {
		t.Errorf("%+v %v", r, err)
	}
	b.sound()
}
