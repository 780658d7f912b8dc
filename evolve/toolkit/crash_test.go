package toolkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// crasher builds the program that dies at failpoints.
func crasher(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "crash")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", bin, "./testdata/crash").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

func writeDir(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for n, b := range files {
		if err := os.WriteFile(filepath.Join(dir, n), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copyHome(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return to
}

// kill -9 at every failpoint of every change: at the next start exactly one version is
// active, the old one or the fully proved new one, and git and the database are whole.
func TestKilledAtEveryFailpoint(t *testing.T) {
	bin := crasher(t)
	dir := writeDir(t, echo("echo1", "three "))
	for _, c := range []struct {
		args     []string
		old, new string
	}{
		{[]string{"save", "echo1", dir}, "v1.0.1 live", "v1.0.2 live"},
		{[]string{"rollback", "echo1", "v1.0.0"}, "v1.0.1 live", "v1.0.0 live"},
		{[]string{"disable", "echo1"}, "v1.0.1 live", "v1.0.1 disabled"},
		{[]string{"rm", "echo1"}, "v1.0.1 live", " removed"},
	} {
		list := filepath.Join(t.TempDir(), "points")
		home := baseHome(t)
		cmd := exec.Command(bin, append([]string{home, cacheDir()}, c.args...)...)
		cmd.Env = append(os.Environ(), "LJ_FAILPOINT_LIST="+list)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.args, err, out)
		}
		b, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		var points []string
		for _, p := range strings.Fields(string(b)) {
			if (strings.HasPrefix(p, "tool.") || strings.HasPrefix(p, "store.toolkit")) && !slices.Contains(points, p) {
				points = append(points, p)
			}
		}
		if len(points) < 9 {
			t.Errorf("%v: only the failpoints %v", c.args, points)
		}
		counts := slices.Index(points, "store.toolkit.after_commit")
		// Before publish nothing is written but the work folder: in an ordinary run a few
		// of those places stand for all.
		every := os.Getenv("LJ_TEST_PROVE") != ""
		for i, p := range points {
			if early := strings.HasPrefix(p, "tool.save.") && !strings.HasPrefix(p, "tool.save.publish."); early && !every &&
				p != "tool.save.snapshot.before" && p != "tool.save.contract.after" {
				continue
			}
			if !every && c.args[0] == "save" && slices.Contains([]string{"tool.save.publish.before", "tool.save.publish.objects", "tool.save.publish.mark", "tool.save.publish.after"}, p) {
				continue // the other changes stop there too
			}
			t.Run(c.args[0]+"/"+p, func(t *testing.T) {
				b := &bench{T: t, home: baseHome(t)}
				cmd := exec.Command(bin, append([]string{b.home, cacheDir()}, c.args...)...)
				cmd.Env = append(os.Environ(), "LJ_FAILPOINT="+p+"=kill")
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("%v\n%s", err, out)
				}
				began := time.Now()
				b.open(nil)
				defer b.close()
				ready := time.Since(began)
				r, err := b.st.Tool(t.Context(), "echo1")
				if err != nil {
					t.Fatal(err)
				}
				want := c.old
				if i >= counts {
					want = c.new
				}
				if got := r.Version + " " + r.State; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if ready > 2*time.Second {
					t.Errorf("ready after %s", ready)
				}
				b.sound()
				if r.State == core.ToolLive {
					said := map[string]string{"v1.0.0": "one a", "v1.0.1": "two a", "v1.0.2": "three a"}[r.Version]
					if got := b.call("echo1", `{"text":"a"}`); got != said {
						t.Errorf("%s answers %q", r.Version, got)
					}
				}
				// The same change goes through now.
				if i < counts && (every || p == "store.toolkit.before_commit") {
					out, err := exec.Command(bin, append([]string{b.home, cacheDir()}, c.args...)...).CombinedOutput()
					if err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					if r, err := b.st.Tool(t.Context(), "echo1"); err != nil || r.Version+" "+r.State != c.new {
						t.Errorf("then %+v %v", r, err)
					}
					b.sound()
				}
				for _, p := range processesOf(t, b.home) {
					t.Errorf("left running: %s", p)
				}
			})
		}
	}
}

// processesOf lists processes whose command line or folder is below dir, waiting a moment
// for those that are ending.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		var out []string
		list, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			cmdline, _ := os.ReadFile(p + "/cmdline")
			cwd, _ := os.Readlink(p + "/cwd")
			if bytes.Contains(cmdline, []byte(dir)) || strings.HasPrefix(cwd, dir) {
				out = append(out, fmt.Sprintf("%s %q in %s", filepath.Base(p), cmdline, cwd))
			}
		}
		if len(out) == 0 || time.Now().After(deadline) {
			return out
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// An error at every point of publish (a full disk) is a refusal without a trace, or counts
// and is finished later.
func TestErrorsWhilePublishing(t *testing.T) {
	bin := crasher(t)
	for _, point := range []string{"tool.save.publish.objects", "tool.save.publish.commit", "tool.save.publish.refs", "tool.rollback.publish.program", "tool.rollback.publish.objects",
		"tool.rollback.publish.commit", "store.toolkit.before_commit", "store.toolkit.after_commit", "tool.rollback.publish.refs", "tool.rollback.publish.worktree",
		"tool.rollback.publish.mark", "tool.rollback.publish.after"} {
		t.Run(point, func(t *testing.T) {
			b := &bench{T: t, home: baseHome(t)}
			before, programs := picture(t, b.home+"/toolkit"), picture(t, b.home+"/bin")
			args, fresh := []string{"rollback", "echo1", "v1.0.0"}, "v1.0.0"
			if strings.HasPrefix(point, "tool.save") {
				args, fresh = []string{"save", "echo1", writeDir(t, echo("echo1", "three "))}, "v1.0.2"
			}
			cmd := exec.Command(bin, append([]string{b.home, cacheDir()}, args...)...)
			cmd.Env = append(os.Environ(), "LJ_FAILPOINT="+point+"=error")
			out, err := cmd.CombinedOutput()
			counts := !strings.Contains(string(out), "injected")
			if counts != (err == nil) {
				t.Fatalf("%v\n%s", err, out)
			}
			if !counts {
				samePicture(t, "toolkit", before, picture(t, b.home+"/toolkit"))
				samePicture(t, "programs", programs, picture(t, b.home+"/bin"))
			}
			b.open(nil)
			defer b.close()
			r, err := b.st.Tool(t.Context(), "echo1")
			if err != nil || (r.Version == fresh) != counts {
				t.Errorf("%+v %v", r, err)
			}
			b.sound()
		})
	}
}

// kill -9 at random moments of saves and rollbacks, each on top of what the last left: 4
// in an ordinary run, LJ_TEST_PROVE of them otherwise (1,000 when it is no number).
func TestKilledAtRandomMoments(t *testing.T) {
	n := 4
	if p := os.Getenv("LJ_TEST_PROVE"); p != "" {
		n = 1000
		if k, err := strconv.Atoi(p); err == nil && k > 1 {
			n = k
		}
	}
	bin := crasher(t)
	b := &bench{T: t, home: baseHome(t)}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		said := fmt.Sprintf("random %d ", i)
		args := []string{"save", "echo1", writeDir(t, echo("echo1", said))}
		within := 3 * time.Second
		if rnd.IntN(3) == 0 {
			args, within = []string{"rollback", "echo1", "v1.0.0"}, 150*time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.Int64N(int64(within))))
		out, err := exec.CommandContext(ctx, bin, append([]string{b.home, cacheDir()}, args...)...).CombinedOutput()
		if err != nil && ctx.Err() == nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cancel()
		b.open(nil)
		b.sound()
		r, err := b.st.Tool(t.Context(), "echo1")
		if err != nil || r.State != core.ToolLive {
			t.Fatalf("%+v %v", r, err)
		}
		if got := b.call("echo1", `{"text":"a"}`); got != "one a" && got != "two a" && !strings.HasPrefix(got, "random ") {
			t.Errorf("%s answers %q", r.Version, got)
		}
		b.close()
	}
	for _, p := range processesOf(t, b.home) {
		t.Errorf("left running: %s", p)
	}
}
