package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/process"
)

func start(t *testing.T, mark, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it is dead in the good case
		_ = cmd.Wait()
	})
	return cmd
}

// lives says whether a process carries the mark.
func lives(mark string) bool {
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range list {
		if b, err := os.ReadFile(f); err == nil && strings.Contains("\x00"+string(b), "\x00"+mark+"\x00") {
			return true
		}
	}
	return false
}

// When End returns, nothing of the tree is left, however it forks and starts programs.
func TestEndSeesThemGone(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc here")
	}
	for i := range 5 {
		mark := fmt.Sprintf("LJ_TEST_END=%d.%d", os.Getpid(), i)
		dir := t.TempDir()
		start(t, mark, `cd '`+dir+`'; for i in 1 2 3; do (while :; do setsid sleep 0.01; done) & setsid sh -c 'while :; do /bin/true; done' & done; echo >ready; wait`)
		other := start(t, mark+"0", "exec sleep 300")
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the tree did not start")
			}
		}
		n, clean := process.End(30*time.Second, func(env []byte) bool {
			v, ok := process.Value(env, "LJ_TEST_END")
			return ok && "LJ_TEST_END="+v == mark
		})
		if n < 4 || !clean {
			t.Errorf("killed %d, clean %v", n, clean)
		}
		if lives(mark) {
			t.Error("something is left")
		}
		if !lives(mark + "0") {
			t.Error("another process was killed")
		}
		_ = other.Process.Kill()
	}
}

func TestValue(t *testing.T) {
	env := []byte("A=1\x00AB=2=3\x00B=\x00")
	for key, want := range map[string]string{"A": "1", "AB": "2=3", "B": ""} {
		if v, ok := process.Value(env, key); !ok || v != want {
			t.Errorf("%s: %q %v", key, v, ok)
		}
	}
	if _, ok := process.Value(env, "C"); ok {
		t.Error("C is there")
	}
	if _, ok := process.Value(nil, strconv.Itoa(1)); ok {
		t.Error("something in nothing")
	}
}
