package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

// turnFlags are the flags of run, plan and chat.
type turnFlags struct {
	model, mode, role, session, cwd string
	cont, yolo, noMemory            bool
	maxSteps, budget                int
	allow, deny, addDirs, images    []string
	cmd                             *cobra.Command
}

func (t *turnFlags) register(f *factory, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&t.model, "model", "", f.p.T("model for this turn"))
	fl.StringVar(&t.mode, "mode", "", f.p.T("ask, auto or plan"))
	fl.StringVar(&t.role, "role", "", f.p.T("design, develop, test, review, docs or devops"))
	fl.BoolVar(&t.cont, "continue", false, f.p.T("go on with the newest session of this project"))
	fl.StringVar(&t.session, "session", "", f.p.T("go on with the session ID"))
	fl.IntVar(&t.maxSteps, "max-steps", 0, f.p.T("most model requests of a turn, 0 for no limit"))
	fl.StringArrayVar(&t.allow, "allow", nil, f.p.T("allow what RULE matches, such as 'bash(git status *)'"))
	fl.StringArrayVar(&t.deny, "deny", nil, f.p.T("deny what RULE matches"))
	fl.BoolVar(&t.yolo, "yolo", false, f.p.T("answer yes to every question; walls stay"))
	fl.StringArrayVar(&t.addDirs, "add-dir", nil, f.p.T("a further directory that may be read and written"))
	fl.StringVar(&t.cwd, "cwd", "", f.p.T("work in this directory"))
	fl.IntVar(&t.budget, "budget-tokens", 0, f.p.T("most tokens of a turn, 0 for no limit"))
	fl.BoolVar(&t.noMemory, "no-memory", false, f.p.T("neither use nor make memories"))
	fl.StringArrayVar(&t.images, "image", nil, f.p.T("a picture for the model to see; may be repeated"))
	t.cmd = cmd
}

// options turns the flags into those of a turn.
func (t *turnFlags) options() (app.TurnOptions, error) {
	o := app.TurnOptions{
		Model: t.model, Mode: t.mode, Role: t.role, Session: t.session, Continue: t.cont,
		Allow: t.allow, Deny: t.deny, Yolo: t.yolo, AddDirs: t.addDirs, NoMemory: t.noMemory,
	}
	if t.cont && t.session != "" {
		return o, usageError(t.cmd, errors.New("--continue and --session exclude each other"))
	}
	switch t.mode {
	case "", "ask", "auto", "plan":
	default:
		return o, usageError(t.cmd, fmt.Errorf("--mode is ask, auto or plan, not %q", t.mode))
	}
	for _, n := range []struct {
		flag string
		v    int
		to   **int
	}{{"max-steps", t.maxSteps, &o.MaxSteps}, {"budget-tokens", t.budget, &o.Budget}} {
		if !t.cmd.Flags().Changed(n.flag) {
			continue
		}
		if n.v < 0 {
			return o, usageError(t.cmd, fmt.Errorf("--%s is 0 or more, not %d", n.flag, n.v))
		}
		v := n.v
		*n.to = &v
	}
	return o, nil
}

func newRun(f *factory) *cobra.Command {
	t := &turnFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   `run [flags] "PROMPT"`,
		Short: f.p.T("Run one turn and print the answer"),
		Long: f.p.T("Run one turn and print the answer. Piped input is appended to the prompt; the prompt - is read\n" +
			"from standard input. What needs approval is denied, unless a rule, --mode auto or --yolo allows it."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.json && !cmd.Flags().Changed("output") {
				output = "json"
			}
			switch output {
			case "text", "json", "stream-json":
			default:
				return usageError(cmd, fmt.Errorf("--output is text, json or stream-json, not %q", output))
			}
			o, err := t.options()
			if err != nil {
				return err
			}
			if o.Prompt, o.Piped, err = f.prompt(cmd, args); err != nil {
				return err
			}
			return f.run(cmd.Context(), t, output, o)
		},
	}
	t.register(f, cmd)
	cmd.Flags().StringVar(&output, "output", "text", f.p.T("text, json or stream-json"))
	return cmd
}

// stdinPatience is how long an open pipe may say nothing before it is left alone.
const stdinPatience = 2 * time.Second

// maxStdin is the most that is taken from standard input, in bytes.
const maxStdin = 16 << 20

// prompt puts the prompt together from arguments and standard input. piped is the end of it
// that nobody typed: it came through a pipe or from a file.
func (f *factory) prompt(cmd *cobra.Command, args []string) (text, piped string, err error) {
	if len(args) == 0 {
		return "", "", usageError(cmd, errors.New("lj run needs a prompt, or - to read it from standard input"))
	}
	if len(args) == 1 && args[0] == "-" {
		return f.promptInput()
	}
	text = strings.Join(args, " ")
	if f.InTTY {
		text, err = f.promptText(text)
		return text, "", err
	}
	b, err := readPatiently(f.In, stdinPatience)
	if err != nil {
		return "", "", core.Errorf(core.KindUsage, "read standard input: %w", err)
	}
	if s := strings.ToValidUTF8(strings.TrimRight(string(b), "\n"), "\uFFFD"); strings.TrimSpace(s) != "" {
		text += "\n\n" + s
		piped = s
	}
	text, err = f.promptText(text)
	return text, piped, err
}

// promptInput reads the whole prompt from standard input.
func (f *factory) promptInput() (text, piped string, err error) {
	b, err := io.ReadAll(io.LimitReader(f.In, maxStdin+1))
	if err != nil {
		return "", "", core.Errorf(core.KindUsage, "read the prompt from standard input: %w", err)
	}
	if text, err = f.promptText(string(b)); err == nil && !f.InTTY {
		piped = text
	}
	return text, piped, err
}

func (f *factory) promptText(s string) (string, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return "", core.Errorf(core.KindUsage, "the prompt is empty")
	case len(s) > maxStdin:
		return "", core.Errorf(core.KindUsage, "the prompt is longer than %d MiB", maxStdin>>20).Hint("write it to a file and name the file in the prompt")
	case !utf8.ValidString(s):
		return strings.ToValidUTF8(s, "\uFFFD"), nil
	}
	return s, nil
}

// readPatiently reads all of r, but leaves it alone when nothing at all comes within d.
func readPatiently(r io.Reader, d time.Duration) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	if file, ok := r.(*os.File); ok {
		// A character device such as /dev/null, or a file, ends at once.
		if fi, err := file.Stat(); err != nil || fi.Mode()&os.ModeCharDevice != 0 {
			return nil, nil
		}
	}
	type got struct {
		b   []byte
		err error
	}
	first := make(chan got, 1)
	rest := make(chan got, 1)
	go func() {
		var buf [4096]byte
		n, err := r.Read(buf[:])
		first <- got{buf[:n], err}
		if err != nil {
			return
		}
		b, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
		rest <- got{b, err}
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case g := <-first:
		if g.err == io.EOF {
			return g.b, nil
		}
		if g.err != nil {
			return nil, g.err
		}
		more := <-rest
		return append(g.b, more.b...), more.err
	case <-timer.C:
		return nil, nil
	}
}

// runRoot is lj without a command: chat on a terminal, else lj run -.
func runRoot(ctx context.Context, f *factory, t *turnFlags) error {
	o, err := t.options()
	if err != nil {
		return err
	}
	if f.InTTY && f.OutTTY {
		err := chat(ctx, f, t, o)
		if errors.Is(err, errDemo) {
			return f.demo(ctx, false, false)
		}
		return err
	}
	if o.Prompt, o.Piped, err = f.promptInput(); err != nil {
		return err
	}
	return f.run(ctx, t, "text", o)
}

// run runs one turn and prints it in one of the three outputs.
func (f *factory) run(ctx context.Context, t *turnFlags, output string, o app.TurnOptions) error {
	for name, v := range map[string]string{"mode": o.Mode} {
		if v != "" {
			f.flags[name] = v
		}
	}
	a, err := f.open(ctx, t.cwd)
	if err != nil {
		return err
	}
	defer a.Close()
	if o.Images, err = a.ReadImages(f.absAll(t.images)); err != nil {
		return err
	}
	var out printer
	switch output {
	case "json":
		out = &jsonOutput{f: f, progress: newProgress(f)}
	case "stream-json":
		out = &streamOutput{f: f}
	default:
		out = &textOutput{f: f, progress: newProgress(f)}
	}
	o.Events = out.event
	res := a.Run(ctx, o)
	if res.SessionID == "" && isUsage(res.Err) {
		return res.Err
	}
	if err := out.done(res); err != nil {
		return core.Errorf(core.KindFailed, "print the result: %w", err)
	}
	if status := exitStatus(res.Exit()); status != exitOK {
		return &silentError{status}
	}
	return nil
}

// absAll are paths of the command line as absolute ones.
func (f *factory) absAll(list []string) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = f.abs(p)
	}
	return out
}

// isUsage says whether nothing was begun because the call or the settings were wrong.
func isUsage(err error) bool {
	switch core.KindOf(err) {
	case core.KindUsage, core.KindConfig, core.KindNotFound:
		return true
	}
	return false
}

// printer is one form of output.
type printer interface {
	event(core.Event)
	done(app.Result) error
}

type jsonOutput struct {
	f        *factory
	progress *progress
}

func (j *jsonOutput) event(e core.Event) { j.progress.event(e) }

func (j *jsonOutput) done(r app.Result) error {
	j.progress.end(r)
	enc := json.NewEncoder(j.f.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

type streamOutput struct{ f *factory }

func (s *streamOutput) event(e core.Event) {
	switch e.Type {
	case core.EventDone:
		return
	case core.EventUsage:
		if e.Usage != nil {
			s.line(struct {
				Type string `json:"type"`
				core.Usage
			}{e.Type, *e.Usage})
		}
		return
	}
	if e.Type == core.EventText || e.Type == core.EventReasoning {
		// The text key is always there, also for an empty piece.
		s.line(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{e.Type, e.Text})
		return
	}
	s.line(e)
}

func (s *streamOutput) line(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) == nil {
		_, _ = s.f.Out.Write(b.Bytes()) // a reader that has gone away is found at the end
	}
}

func (s *streamOutput) done(r app.Result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	line.WriteString(`{"type":"done",`)
	line.Write(b[1:])
	line.WriteByte('\n')
	_, err = s.f.Out.Write(line.Bytes())
	return err
}

// textOutput prints the final answer; progress goes to the error stream.
type textOutput struct {
	f        *factory
	progress *progress
}

func (t *textOutput) event(e core.Event) { t.progress.event(e) }

func (t *textOutput) done(r app.Result) error {
	t.progress.end(r)
	if r.Text != "" {
		if _, err := io.WriteString(t.f.Out, strings.TrimRight(r.Text, "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
