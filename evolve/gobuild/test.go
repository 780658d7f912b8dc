package gobuild

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
)

// TestRun is one run of a compiled test program.
type TestRun struct {
	Binary string
	Dir    string   // the package's folder, with its testdata
	Env    []string // the whole environment
	// Time bounds the run, default 60 s; Memory its data segment, default 1 GiB.
	Time   time.Duration
	Memory uint64
	// Confine changes the command before it starts. Nil for none.
	Confine func(cmd *exec.Cmd) error
	// Declared are the test functions that the files declare; a verdict on others is not
	// believed.
	Declared []string
}

// Test runs a test program and returns how many tests ran and passed. Anything but at
// least one passed test, no failed one, a verdict and exit status 0 is an
// *evolve.Refusal.
func Test(ctx context.Context, r TestRun) (int, error) {
	if r.Time == 0 {
		r.Time = 60 * time.Second
	}
	if r.Memory == 0 {
		r.Memory = 1 << 30
	}
	cmd := exec.Command(r.Binary, "-test.v=test2json", "-test.count=1", "-test.paniconexit0", "-test.timeout="+r.Time.String())
	cmd.Dir, cmd.Env = r.Dir, r.Env
	if r.Confine != nil {
		if err := r.Confine(cmd); err != nil {
			return 0, core.Errorf(core.KindFailed, "confine the tests: %w", err)
		}
	}
	out := &Bounded{Max: 4 << 20}
	cmd.Stdout, cmd.Stderr = out, out
	// The program ends itself at Time with a stack that says where it hung; a little later
	// it is ended.
	tctx, cancel := context.WithTimeoutCause(ctx, r.Time+2*time.Second, errTime)
	defer cancel()
	err := Run(tctx, cmd, Limits{Memory: r.Memory, FileSize: 256 << 20})
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return 0, cause
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(context.Cause(tctx), errTime) && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, core.Errorf(core.KindFailed, "start the tests: %w", err)
	}
	v := read(out.Bytes())
	passed := v.passed(r.Declared)
	if err == nil && !v.failed() && v.verdict && len(passed) > 0 && out.Dropped() == 0 {
		return len(passed), nil
	}
	return 0, v.refusal(r, err, errors.Is(context.Cause(tctx), errTime), exit, out)
}

type outcome struct {
	name   string
	status string // "", "PASS", "FAIL", "SKIP"
	text   []string
	subs   int
	skips  int // of subs
}

type verdict struct {
	tests   map[string]*outcome
	order   []*outcome
	verdict bool // the program said PASS at its end
	fails   bool // it said FAIL
	rest    []string
}

// mark begins the lines by which a test program speaks of its tests.
const mark = "\x16"

// read reads the output of -test.v=test2json.
func read(out []byte) *verdict {
	v := &verdict{tests: map[string]*outcome{}}
	var cur *outcome
	get := func(name string) *outcome {
		o := v.tests[name]
		if o == nil {
			o = &outcome{name: name}
			v.tests[name] = o
			v.order = append(v.order, o)
		}
		return o
	}
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(make([]byte, 64<<10), 8<<20)
	for sc.Scan() {
		line := sc.Text()
		// A test that prints without a newline has the mark in the middle of a line.
		if i := strings.LastIndex(line, mark); i > 0 {
			if cur != nil {
				cur.text = append(cur.text, line[:i])
			}
			line = line[i:]
		}
		said, marked := strings.CutPrefix(line, mark)
		if !marked {
			switch {
			case line == "PASS":
				v.verdict = true
			case strings.HasPrefix(line, "FAIL"):
				v.fails = true
			case strings.HasPrefix(line, "    ") && strings.HasPrefix(strings.TrimSpace(line), "--- "):
				said, marked = line, true
			}
		}
		trimmed := strings.TrimSpace(said)
		switch {
		case marked && said == "PASS":
			v.verdict = true
		case marked && strings.HasPrefix(said, "FAIL"):
			v.fails = true
		case marked && strings.HasPrefix(said, "=== RUN"), marked && strings.HasPrefix(said, "=== CONT"), marked && strings.HasPrefix(said, "=== NAME"):
			name := strings.TrimSpace(said[8:])
			if name == "" {
				cur = nil
				break
			}
			_, had := v.tests[name]
			cur = get(name)
			if top, _, sub := strings.Cut(name, "/"); sub && !had {
				get(top).subs++
			}
		case marked && strings.HasPrefix(trimmed, "--- "):
			status, name, _ := strings.Cut(strings.TrimPrefix(trimmed, "--- "), ": ")
			name, _, _ = strings.Cut(name, " (")
			cur = get(name)
			cur.status = status
			if top, _, sub := strings.Cut(name, "/"); sub && status == "SKIP" {
				get(top).skips++
			}
		case cur != nil:
			cur.text = append(cur.text, line)
		default:
			v.rest = append(v.rest, line)
		}
	}
	return v
}

func (v *verdict) failed() bool {
	for _, o := range v.tests {
		if o.status == "FAIL" || o.status == "" {
			return true
		}
	}
	return v.fails
}

// passed are the declared tests that ran to their end and did not skip all they had.
func (v *verdict) passed(declared []string) []string {
	var out []string
	for _, name := range declared {
		o := v.tests[name]
		if o != nil && o.status == "PASS" && (o.subs == 0 || o.skips < o.subs) {
			out = append(out, name)
		}
	}
	return out
}

var (
	testLine  = regexp.MustCompile(`^\s+([^\s:/]+\.go):(\d+): (.*)$`)
	stackLine = regexp.MustCompile(`^\t(?:.*/)?([^\s:/]+\.go):(\d+)(?: \+0x[0-9a-f]+)?$`)
)

func (v *verdict) refusal(r TestRun, err error, timedOut bool, exit *exec.ExitError, out *Bounded) *evolve.Refusal {
	// The same line again and again says nothing more.
	const maxDiagnostics = 40
	ref := &evolve.Refusal{}
	panicked := v.panicAt()
	for _, o := range v.order {
		if o.status != "FAIL" && o.status != "" {
			continue
		}
		found := false
		for i := 0; i < len(o.text); i++ {
			m := testLine.FindStringSubmatch(o.text[i])
			if m == nil {
				continue
			}
			msg := m[3]
			for i+1 < len(o.text) && strings.HasPrefix(o.text[i+1], "        ") {
				i++
				msg += "\n" + strings.TrimSpace(o.text[i])
			}
			d := evolve.Diagnostic{File: m[1], Message: clip(o.name+": "+msg, 2000)}
			d.Line, _ = strconv.Atoi(m[2])
			found = true
			if len(ref.Diagnostics) < maxDiagnostics && !slices.Contains(ref.Diagnostics, d) {
				ref.Diagnostics = append(ref.Diagnostics, d)
			}
		}
		if !found && panicked == nil && o.subs == 0 {
			msg := o.name + ": failed without a word"
			if o.status == "" {
				msg = o.name + ": did not end"
			}
			ref.Diagnostics = append(ref.Diagnostics, evolve.Diagnostic{Message: msg})
		}
	}
	if panicked != nil {
		ref.Diagnostics = append(ref.Diagnostics, *panicked)
	}
	all := string(out.Bytes())
	switch {
	case strings.Contains(all, "panic: test timed out after"), timedOut:
		ref.Reason = fmt.Sprintf("the tests took longer than %s", r.Time)
		ref.Transient = true
	case strings.Contains(all, "panic: unexpected call to os.Exit(0) during test"):
		ref.Reason = "a test called os.Exit before the tests had ended"
	case panicked != nil && v.failed():
		ref.Reason = "a test panicked"
	case v.failed() && len(v.tests) > 0:
		n := 0
		for _, o := range v.order {
			if o.status != "PASS" && o.status != "SKIP" && !strings.Contains(o.name, "/") {
				n++
			}
		}
		ref.Reason = fmt.Sprintf("%d of %d tests failed", n, max(n, len(r.Declared)))
	case out.Dropped() > 0:
		ref.Reason = "the tests printed more than 4 MiB, so their verdict can't be read"
	case len(v.tests) == 0 && err != nil && exit != nil:
		ref.Reason = fmt.Sprintf("the test program ended before any test ran (%s)", exit.ProcessState)
		if text := strings.TrimSpace(strings.Join(v.rest, "\n")); text != "" && panicked == nil {
			ref.Diagnostics = append(ref.Diagnostics, evolve.Diagnostic{Message: clip(text, 2000)})
		}
	case len(v.tests) == 0:
		ref.Reason = "no test ran: the test program ended before its tests"
	case len(v.passed(r.Declared)) == 0:
		ref.Reason = "no test ran to its end: all were skipped"
		for _, o := range v.order {
			for _, l := range o.text {
				if m := testLine.FindStringSubmatch(l); m != nil {
					d := evolve.Diagnostic{File: m[1], Message: o.name + " was skipped: " + m[3]}
					d.Line, _ = strconv.Atoi(m[2])
					ref.Diagnostics = append(ref.Diagnostics, d)
				}
			}
		}
	case err != nil:
		ref.Reason = fmt.Sprintf("the test program ended badly: %v", err)
		if text := strings.TrimSpace(strings.Join(v.rest, "\n")); text != "" {
			ref.Diagnostics = append(ref.Diagnostics, evolve.Diagnostic{Message: clip(text, 2000)})
		}
	default:
		ref.Reason = "the test program did not say that it passed"
	}
	return ref
}

// panicAt is the panic or fatal error in the output, at the first line of the package's
// own files in its stack.
func (v *verdict) panicAt() *evolve.Diagnostic {
	var lines []string
	for _, o := range v.order {
		lines = append(lines, o.text...)
	}
	lines = append(lines, v.rest...)
	for i, l := range lines {
		if !strings.HasPrefix(l, "panic: ") && !strings.HasPrefix(l, "fatal error: ") {
			continue
		}
		d := &evolve.Diagnostic{Message: clip(strings.TrimSuffix(l, " [recovered]"), 1000)}
		for _, s := range lines[i+1:] {
			m := stackLine.FindStringSubmatch(s)
			if m == nil || !strings.Contains(path.Dir(strings.TrimSpace(s)), "lj/tools/") {
				continue
			}
			d.File = m[1]
			d.Line, _ = strconv.Atoi(m[2])
			break
		}
		return d
	}
	return nil
}
