package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that does nothing ends at its limit: the process that watches it is confined
// and can still signal what it started, from any of its threads.
func TestIdleCommandEndsAtItsLimit(t *testing.T) {
	u := newUser(t, "http://127.0.0.1:9/v1")
	for range 4 {
		start := time.Now()
		out, _, status := u.run("tools", "call", "bash", `{"command":"sleep 300","timeout":1}`)
		took := time.Since(start)
		if status != 1 || !strings.Contains(out, "timed out after 1 s without activity") || took > 2*time.Second {
			t.Fatalf("exit %d after %v: %s", status, took, out)
		}
	}
}

// An interrupt ends a command that does not object to it at once.
func TestInterruptEndsCommandAtOnce(t *testing.T) {
	u := newUser(t, "http://127.0.0.1:9/v1")
	pidFile := filepath.Join(u.project, "pid")
	for i, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, os.Interrupt, syscall.SIGTERM, os.Interrupt, os.Interrupt} {
		os.Remove(pidFile)
		cmd := u.command(t.Context(), "tools", "call", "bash", `{"command":"echo $$ >pid; exec sleep 300"}`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := 0
		for deadline := time.Now().Add(10 * time.Second); pid == 0; time.Sleep(5 * time.Millisecond) {
			if b, err := os.ReadFile(pidFile); err == nil {
				pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
			}
			if time.Now().After(deadline) {
				t.Fatal("the command did not start")
			}
		}
		start := time.Now()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		for syscall.Kill(pid, 0) == nil && time.Since(start) < 5*time.Second {
			time.Sleep(2 * time.Millisecond)
		}
		dead := time.Since(start)
		_ = cmd.Wait() // the status is looked at
		t.Logf("try %d, %v: the command was dead after %v, lj after %v, %v", i, sig, dead, time.Since(start), cmd.ProcessState)
		if dead > time.Second {
			t.Errorf("try %d, %v: the command was dead after %v only", i, sig, dead)
		}
		if want := map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143}[sig]; cmd.ProcessState.ExitCode() != want {
			t.Errorf("try %d, %v: %v, want %d", i, sig, cmd.ProcessState, want)
		}
	}
}
