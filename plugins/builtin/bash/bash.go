// Package bash is the tools bash and bash_jobs: one shell command per call, in a session
// and process group of its own, with a limit that stretches while it really works, and
// background jobs that are listed, read and stopped.
//
// It owns the processes that it starts and all their descendants: whatever ends a call or
// the plugin, none is left. It refuses to judge commands (core/policy does), to confine
// them (the process that it runs in is confined) and to shorten or mask what they print
// (the host does): output goes to the sink as it comes.
//
//	s := bash.New(bash.Options{})
//	defer s.Close()
//	res, err := s.Run(ctx, core.ToolRequest{Args: json.RawMessage(`{"command":"ls"}`), Project: dir, Sink: sink})
//
// # How a command ends
//
// A call waits for the shell, not for its pipe. Processes that the shell leaves behind
// become a background job that is named in the result. At the limit and on cancel the
// whole group gets SIGTERM, after a short grace SIGKILL, and so does every descendant that
// moved to a group or session of its own: the process is a subreaper, so orphans come back
// to it, and commands carry a marker in their environment. If this process is killed, the
// shells die with it (PR_SET_PDEATHSIG); Sweep finds what else they had started.
//
// # The limit
//
// The limit T is a limit on idleness: when T passes without activity the command ends, and
// after 4T in any case. Activity is output, CPU time above 5 % of one core, anything
// written or much read by any process of the command. It is first sampled after T/2, then
// every T/4 (at most 30 s), so that a short command costs nothing. Receiving from the
// network alone is not seen.
package bash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Options configure the shell. The zero value is usable.
type Options struct {
	// Shell is the program that runs commands: /bin/bash, where there is none /bin/sh.
	Shell string
	// Env is the environment of commands, the process' own when nil. What would wait for a
	// person (pager, editor, prompts) is overridden.
	Env []string
	// Timeout is the limit of a command that gives none, 120 s when zero.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL, 500 ms when zero.
	Grace time.Duration
}

// Spec describes the tool bash.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "bash",
		Description: "Run a bash command in the project directory (cd does not last; no input, no terminal). timeout: idle seconds, default 120. background: return at once with a job, see bash_jobs.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer"},"background":{"type":"boolean"}},"required":["command"]}`),
		Destructive: true,
	}
}

// JobsSpec describes the tool bash_jobs.
func JobsSpec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "bash_jobs",
		Description: "Background jobs of bash: list them, show the output of one, stop one.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"action":{"enum":["list","output","stop"]},"id":{"type":"string"}},"required":["action"]}`),
	}
}

// Shell runs commands and keeps their jobs. It is safe for use by several goroutines.
type Shell struct {
	o     Options
	owner string
	spawn *spawner
	env   []string

	mu     sync.Mutex
	next   int
	active map[*command]bool // every command with a living process
	jobs   map[string]*command
	order  []string
	closed bool
	wg     sync.WaitGroup
}

// New makes a Shell. Nothing is started before the first command.
func New(o Options) *Shell {
	if o.Timeout <= 0 {
		o.Timeout = 120 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 500 * time.Millisecond
	}
	return &Shell{o: o, active: map[*command]bool{}, jobs: map[string]*command{}}
}

type bashArgs struct {
	Command    string
	Timeout    float
	Background bool
}

// float is a number that some models send as text.
type float float64

// UnmarshalJSON takes 2, 2.5, "2" and null.
func (f *float) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `" `)
	if s == "" || s == "null" {
		return nil
	}
	var v float64
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return fmt.Errorf("%s is not a number of seconds", b)
	}
	*f = float(v)
	return nil
}

const (
	maxCommand = 1 << 20
	maxTimeout = 24 * 3600
	maxJobs    = 50
)

// Run is the tool bash.
func (s *Shell) Run(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in bashArgs
	if bad := call.Args(req, &in); bad != nil {
		return *bad, nil
	}
	switch {
	case strings.TrimSpace(in.Command) == "":
		return *call.Failf("command is empty"), nil
	case strings.IndexByte(in.Command, 0) >= 0:
		return *call.Failf("command contains a NUL byte"), nil
	case len(in.Command) > maxCommand:
		return *call.Failf("command is longer than %d bytes; write it to a file and run that", maxCommand), nil
	case in.Timeout < 0 || in.Timeout > maxTimeout:
		return *call.Failf("timeout must be between 1 and %d seconds", maxTimeout), nil
	}
	c := &command{s: s, text: in.Command, dir: req.Project, sink: req.Sink, limit: s.o.Timeout, background: in.Background}
	if in.Timeout > 0 {
		c.limit = time.Duration(float64(in.Timeout) * float64(time.Second))
	} else if in.Background {
		c.limit = 0
	}
	if err := ctx.Err(); err != nil {
		return *call.Failf("cancelled before it started"), nil
	}
	if err := s.start(c); err != nil {
		return failedStart(c, err), nil
	}
	if in.Background {
		return s.background(c), nil
	}
	return s.foreground(ctx, c), nil
}

// failedStart has the shape of any command's result: exit 127 and a readable text.
func failedStart(c *command, err error) core.ToolResult {
	exit := 127
	return call.WithMeta(core.ErrorResult(fmt.Sprintf("exit status 127: %v", err)), core.ToolMeta{Exit: &exit})
}

// background reports a job that was just started; one that ends within a moment is
// reported as finished.
func (s *Shell) background(c *command) core.ToolResult {
	id := s.keep(c)
	if c.limit > 0 {
		go func() { c.ended.Store(int32(c.wait(context.Background()))) }()
	}
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-c.gone:
		text := fmt.Sprintf("job %s has ended already: %s", id, c.status())
		if out := c.out.Text(); out != "" {
			text += "\n" + out
		}
		m := core.ToolMeta{Exit: c.exit()}
		return call.WithMeta(core.ToolResult{Text: text, IsError: c.failed()}, m)
	case <-t.C:
	}
	return call.WithMeta(core.ToolResult{Text: fmt.Sprintf("job %s runs in the background (pid %d); bash_jobs shows its output and stops it. It ends with this session.", id, c.pid)},
		core.ToolMeta{Jobs: []string{id}})
}

// foreground waits for the shell and reports.
func (s *Shell) foreground(ctx context.Context, c *command) core.ToolResult {
	why := c.wait(ctx)
	c.detach() // from here on output goes to the job's own memory
	var parts []string
	m := core.ToolMeta{Exit: c.exit()}
	failed := c.failed()
	switch why {
	case endIdle, endHard:
		m.TimedOut, failed = true, true
		parts = append(parts, c.timeoutText(why))
	case endCancel:
		failed = true
		parts = append(parts, "cancelled; all its processes were ended")
	default:
		if st := c.status(); st != "exit status 0" {
			parts = append(parts, st)
		}
		if left := c.left(); len(left) > 0 {
			id := s.keep(c)
			m.Jobs = []string{id}
			parts = append(parts, fmt.Sprintf("still running in the background: job %s (%s); bash_jobs shows its output and stops it", id, describe(left)))
		}
	}
	text := strings.Join(parts, "\n")
	if c.sink == nil { // nobody took the output
		if out := c.out.Text(); out != "" {
			if text != "" && !strings.HasSuffix(out, "\n") {
				out += "\n"
			}
			text = out + text
		}
	}
	return call.WithMeta(core.ToolResult{Text: text, IsError: failed}, m)
}

func (c *command) timeoutText(why end) string {
	if why == endHard {
		return fmt.Sprintf("timed out after %s: it was still active, but four times the limit of %s is the most; all its processes were ended. Give a longer timeout, or background: true.", seconds(4*c.limit), seconds(c.limit))
	}
	return fmt.Sprintf("timed out after %s without activity (the limit; it ran %s); all its processes were ended. Give a longer timeout, or background: true.", seconds(c.limit), seconds(time.Since(c.began).Round(time.Second)))
}

func seconds(d time.Duration) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}

func describe(ps []proc) string {
	var parts []string
	for i, p := range ps {
		if i == 5 {
			parts = append(parts, fmt.Sprintf("%d more", len(ps)-5))
			break
		}
		parts = append(parts, fmt.Sprintf("%s, pid %d", commandName(p.pid), p.pid))
	}
	return strings.Join(parts, "; ")
}

func commandName(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return "process"
	}
	name := strings.Join(strings.Fields(strings.ReplaceAll(string(b), "\x00", " ")), " ")
	if r := []rune(name); len(r) > 60 {
		name = string(r[:59]) + "…"
	}
	return name
}

// keep makes a command a listed job and returns its id.
func (s *Shell) keep(c *command) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.id != "" {
		return c.id
	}
	s.next++
	c.id = fmt.Sprint(s.next)
	s.jobs[c.id] = c
	s.order = append(s.order, c.id)
	// Forget the oldest finished jobs beyond a number.
	for i := 0; len(s.order) > maxJobs && i < len(s.order); {
		j := s.jobs[s.order[i]]
		select {
		case <-j.gone:
			delete(s.jobs, s.order[i])
			s.order = append(s.order[:i], s.order[i+1:]...)
		default:
			i++
		}
	}
	return c.id
}

// RunJobs is the tool bash_jobs.
func (s *Shell) RunJobs(_ context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct {
		Action string
		ID     id
	}
	if bad := call.Args(req, &in); bad != nil {
		return *bad, nil
	}
	if in.Action == "" || in.Action == "list" {
		return core.ToolResult{Text: s.list()}, nil
	}
	s.mu.Lock()
	c := s.jobs[string(in.ID)]
	s.mu.Unlock()
	if c == nil {
		return *call.Failf("there is no job %q; %s", string(in.ID), s.list()), nil
	}
	switch in.Action {
	case "output":
		text := fmt.Sprintf("[job %s: %s]\n", c.id, c.state())
		out := c.out.Text()
		if out == "" {
			out = "(no output yet)"
		}
		return core.ToolResult{Text: text + out}, nil
	case "stop":
		select {
		case <-c.gone:
			return core.ToolResult{Text: fmt.Sprintf("job %s had ended already: %s", c.id, c.status())}, nil
		default:
		}
		c.kill()
		return core.ToolResult{Text: fmt.Sprintf("job %s was stopped; none of its processes is left", c.id)}, nil
	}
	return *call.Failf("unknown action %q; use list, output or stop", in.Action), nil
}

// id is an identifier that some models send as a number.
type id string

// UnmarshalJSON takes "3" and 3.
func (i *id) UnmarshalJSON(b []byte) error {
	*i = id(strings.Trim(string(b), `" `))
	return nil
}

func (s *Shell) list() string {
	s.mu.Lock()
	jobs := make([]*command, 0, len(s.order))
	for _, id := range s.order {
		jobs = append(jobs, s.jobs[id])
	}
	s.mu.Unlock()
	if len(jobs) == 0 {
		return "no background jobs"
	}
	var sb strings.Builder
	for i, c := range jobs {
		if i > 0 {
			sb.WriteByte('\n')
		}
		text := strings.Join(strings.Fields(c.text), " ")
		if r := []rune(text); len(r) > 80 {
			text = string(r[:79]) + "…"
		}
		fmt.Fprintf(&sb, "job %s: %s, %d bytes of output: %s", c.id, c.state(), c.out.Total(), text)
	}
	return sb.String()
}

// Close ends every command and job and returns when no process is left. It may be called
// more than once; commands that come later are refused.
func (s *Shell) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	var all []*command
	for c := range s.active {
		all = append(all, c)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(c.kill)
	}
	wg.Wait()
	if first {
		s.wg.Wait()
		if s.spawn != nil {
			s.spawn.close()
		}
	}
	return nil
}

// closeGrace is the most that commands are given to end by themselves when this process
// ends: it has half a second for all of that (sdk.OnExit).
const closeGrace = 150 * time.Millisecond

// grace is how long a command that is to end has until it is killed.
func (s *Shell) grace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return min(s.o.Grace, closeGrace)
	}
	return s.o.Grace
}

// subreaper makes orphans of commands children of this process. It is what lets nothing
// get away; where the kernel refuses, groups and markers must do.
func subreaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
