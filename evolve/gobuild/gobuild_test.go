package gobuild

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDiagnostics(t *testing.T) {
	out := "# github.com/lingjiyidong/lj/tools/x\n# [github.com/lingjiyidong/lj/tools/x]\n./tool.go:12:3: undefined: a\n" +
		"vet: ./tool_test.go:5:2: cannot use x\n\thave (int)\n\twant (string)\ntool.go:4:2: package foo is not in std (/usr/lib/go/src/foo)\ntoo many errors\n"
	got := Diagnostics(out, "x")
	if len(got) != 3 || got[0].String() != "tool.go:12:3: undefined: a" || got[1].Message != "cannot use x\nhave (int)\nwant (string)" || got[2].Line != 4 {
		t.Errorf("%+v", got)
	}
}

func TestAtLeast(t *testing.T) {
	for v, want := range map[string]bool{"go1.26": true, "go1.26.8": true, "go1.27rc1": true, "go1.25.9": false, "go2.0": true, "devel go1.28": true, "": false, "go1": false} {
		if atLeast(v, "1.26") != want {
			t.Errorf("%q", v)
		}
	}
}

// A verdict counts only what ran to its end; what a test prints is not taken for one.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, out string
		passed    int
		failed    bool
		verdict   bool
	}{
		{"pass", "\x16=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\n\x16PASS\n", 1, false, true},
		{"printed", "\x16=== RUN   TestA\n--- PASS: TestB (0.00s)\nno newline\x16--- PASS: TestA (0.00s)\n\x16PASS\n", 1, false, true},
		{"not declared", "\x16=== RUN   TestZ\n\x16--- PASS: TestZ (0.00s)\n\x16PASS\n", 0, false, true},
		{"did not end", "\x16=== RUN   TestA\n", 0, true, false},
		{"skipped", "\x16=== RUN   TestA\n\x16--- SKIP: TestA (0.00s)\n\x16PASS\n", 0, false, true},
		{"subs skipped", "\x16=== RUN   TestA\n\x16=== RUN   TestA/x\n\x16--- SKIP: TestA/x (0.00s)\n\x16--- PASS: TestA (0.00s)\n\x16PASS\n", 0, false, true},
		{"one sub skipped", "\x16=== RUN   TestA\n\x16=== RUN   TestA/x\n\x16--- SKIP: TestA/x (0.00s)\n\x16=== RUN   TestA/y\n\x16--- PASS: TestA/y (0.00s)\n\x16--- PASS: TestA (0.00s)\n\x16PASS\n", 1, false, true},
		{"fail", "\x16=== RUN   TestA\n\x16--- FAIL: TestA (0.00s)\n\x16FAIL\n", 0, true, false},
		{"nothing", "testing: warning: no tests to run\nPASS\n", 0, false, true},
		{"empty", "", 0, false, false},
	} {
		v := read([]byte(c.out))
		if p := len(v.passed([]string{"TestA", "TestB"})); p != c.passed || v.failed() != c.failed || v.verdict != c.verdict {
			t.Errorf("%s: passed %d failed %v verdict %v", c.name, p, v.failed(), v.verdict)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x16=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\n\x16PASS\n"))
	f.Add([]byte("\x16=== RUN   TestA/x\n    --- FAIL: \n\x16=== NAME  \npanic: x\n\t/a/lj/tools/x/t.go:1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v := read(b)
		v.refusal(TestRun{}, errors.New("x"), false, nil, &Bounded{Max: 100, head: b[:min(50, len(b))]})
		Diagnostics(string(b), "x")
	})
}

func TestBounded(t *testing.T) {
	b := &Bounded{Max: 10}
	for range 100 {
		b.Write([]byte("abc"))
	}
	if got := string(b.Bytes()); !strings.HasPrefix(got, "abcab\n… 290 bytes") || !strings.HasSuffix(got, "bcabc") || b.Dropped() != 290 {
		t.Errorf("%q", got)
	}
	b = &Bounded{Max: 10}
	b.Write([]byte("0123456789"))
	if !bytes.Equal(b.Bytes(), []byte("0123456789")) || b.Dropped() != 0 {
		t.Errorf("%q", b.Bytes())
	}
}

// A cancelled command is gone with its whole group, and the cause is what is returned.
func TestRunEndsTheGroup(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("sh", "-c", "sleep 300 & echo $!; wait")
	cmd.Stdout = w
	go func() {
		buf := make([]byte, 64)
		_, _ = r.Read(buf)
		cancel(cause)
	}()
	began := time.Now()
	if err := Run(ctx, cmd, Limits{}); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	w.Close()
	if time.Since(began) > time.Minute {
		t.Error("it waited for the end of the child")
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		// The child is the kernel's to collect; a moment may pass.
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
			if errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH) {
				return
			}
		}
		t.Errorf("the group lives: %v", err)
	}
}
