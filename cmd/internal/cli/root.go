// Package cli owns the command line: commands, flags, what is printed where, and exit
// statuses. It does no work itself: the work is cmd/internal/app's.
//
//	os.Exit(cli.Main(ctx, cli.Streams{…}, os.Args[1:]))
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/i18n"
	"github.com/lingjiyidong/lj/core"
)

// Streams are what a command reads and writes.
type Streams struct {
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	InTTY   bool // In is a terminal
	OutTTY  bool
	ErrTTY  bool
	Environ []string
	Dir     string // working directory; empty when it is gone
	Self    string // path of this binary
	Version string
	Commit  string
	Signal  func() os.Signal // what ended the context, nil for nothing
	// OnInterrupt sets who is asked first when an interrupt comes: true means handled. Nil
	// takes it back.
	OnInterrupt func(handler func() bool)
}

// env looks a variable up.
func (s Streams) env(name string) string {
	for i := len(s.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(s.Environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// factory is what every command is made with.
type factory struct {
	Streams
	p     i18n.Printer
	json  bool
	file  string // -c
	flags map[string]any
	exit  int // status where no error is returned
	// approve answers yes-or-no questions where a chat has the terminal; nil asks on it.
	approve func(context.Context, string) (bool, error)
}

// color says whether text on the error stream may have colours.
func (f *factory) color() bool {
	return f.ErrTTY && f.env("NO_COLOR") == "" && f.env("TERM") != "dumb"
}

// warn prints one line for the person.
func (f *factory) warn(text string) { fmt.Fprintln(f.Err, "lj: "+f.p.TellLines(text)) }

// open opens the app in the working directory, or in dir.
func (f *factory) open(ctx context.Context, dir string) (*app.App, error) {
	if dir == "" {
		dir = f.Dir
	}
	if dir == "" {
		return nil, core.Errorf(core.KindConfig, "the working directory is gone").Hint("go to one that exists, or give --cwd DIR")
	}
	return app.Open(ctx, f.options(dir))
}

// options are those of every app of this command line.
func (f *factory) options(dir string) app.Options {
	return app.Options{
		Environ: f.Environ, Dir: dir, ConfigFile: f.file, Flags: f.flags, Warn: f.warn, Version: f.Version, Self: f.Self,
		Approve: f.approver(),
	}
}

// approver asks a yes-or-no question on the terminal; nil where there is none.
func (f *factory) approver() func(context.Context, string) (bool, error) {
	if f.approve != nil {
		return f.approve
	}
	if !f.InTTY || !f.ErrTTY {
		return nil
	}
	return func(ctx context.Context, question string) (bool, error) {
		fmt.Fprintf(f.Err, "%s\n%s ", f.p.Tell(question), f.p.T("Allow it? [y/N]"))
		answer := make(chan string, 1)
		go func() {
			var line string
			_, _ = fmt.Fscanln(f.In, &line) // no answer is a no
			answer <- line
		}()
		select {
		case a := <-answer:
			a = strings.ToLower(strings.TrimSpace(a))
			return a == "y" || a == "yes" || a == "是", nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// printJSON prints one document.
func (f *factory) printJSON(v any) error {
	enc := json.NewEncoder(f.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// items wraps a list for printJSON; nil becomes an empty list.
func items[T any](list []T) any {
	if list == nil {
		list = []T{}
	}
	return struct {
		Items []T `json:"items"`
	}{list}
}

// usageError marks an error of the command line itself.
func usageError(cmd *cobra.Command, err error) error {
	return core.Errorf(core.KindUsage, "%w", err).Hint("%s --help shows the usage", cmd.CommandPath())
}

// flagError says in plain words what is wrong with a flag's value.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	wants := map[string]string{"int": "a whole number", "bool": "true or false", "float64": "a number", "duration": "a span such as 90s, 5m"}[bad.GetFlag().Value.Type()]
	if wants == "" {
		return err
	}
	return fmt.Errorf("--%s wants %s, not %q", bad.GetFlag().Name, wants, bad.GetValue())
}

// exactArgs is cobra.ExactArgs with an error that names what is missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return rangeArgs(len(names), len(names), names...)
}

func rangeArgs(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError(cmd, fmt.Errorf("%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):least], " and ")))
		case most >= 0 && len(args) > most:
			return usageError(cmd, fmt.Errorf("%s takes at most %d arguments, got %q", cmd.CommandPath(), most, args[most]))
		}
		return nil
	}
}

// Main runs one command line and returns the exit status. It prints the error.
func Main(ctx context.Context, s Streams, args []string) int {
	out := &checkedWriter{w: s.Out}
	s.Out = out
	f := &factory{Streams: s, p: i18n.Detect(s.env), flags: map[string]any{}}
	root := newRoot(f)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	status := f.exit
	if err != nil {
		var silent *silentError
		switch {
		case errors.As(err, &silent):
			status = silent.status
		default:
			f.printError(err)
			status = exitStatus(core.KindOf(err))
		}
	}
	if werr := out.failed(); werr != nil && err == nil && status == 0 {
		f.printError(core.Errorf(core.KindFailed, "write the output: %w", werr))
		status = exitStatus(core.KindFailed)
	}
	if status == exitInterrupted && s.Signal != nil {
		if sig := s.Signal(); sig != nil && sig.String() == "terminated" {
			return exitTerminated
		}
	}
	return status
}

// checkedWriter remembers the first error of a writer: output that did not arrive is no
// success, whatever command wrote it. Safe for concurrent use where w is.
type checkedWriter struct {
	w  io.Writer
	mu sync.Mutex
	e  error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		c.mu.Lock()
		if c.e == nil {
			c.e = err
		}
		c.mu.Unlock()
	}
	return n, err
}

func (c *checkedWriter) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.e
}

// silentError ends a command whose output already said everything.
type silentError struct{ status int }

func (e *silentError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

func (f *factory) printError(err error) {
	fmt.Fprintln(f.Err, "lj: "+f.p.Tell(oneLine(err.Error())))
	if next := core.NextOf(err); next != "" {
		fmt.Fprintln(f.Err, "  "+f.p.Tell(oneLine(next)))
	}
}

// tellHelp puts what cobra itself prints in --help into the person's language.
func (f *factory) tellHelp(cmd *cobra.Command) {
	text := cmd.UsageTemplate()
	for _, part := range []string{"Usage:", "Aliases:", "Examples:", "Available Commands:", "Global Flags:", "Additional help topics:"} {
		text = strings.ReplaceAll(text, part, f.p.T(part))
	}
	text = strings.ReplaceAll(text, "\n\nFlags:", "\n\n"+f.p.T("Flags:"))
	text = strings.ReplaceAll(text, `Use "{{.CommandPath}} [command] --help" for more information about a command.`, f.p.T("%s [command] --help shows more about a command", "{{.CommandPath}}"))
	cmd.SetUsageTemplate(strings.ReplaceAll(text, "}}Flags:", "}}"+f.p.T("Flags:")))
	cmd.PersistentFlags().BoolP("help", "h", false, f.p.T("show this help"))
	cmd.Flags().BoolP("version", "v", false, f.p.T("Print the version"))
	cmd.SetHelpCommand(&cobra.Command{
		Use: "help [command]", Short: f.p.T("Help about a command"), DisableFlagsInUseLine: true,
		Run: func(c *cobra.Command, args []string) {
			sub, _, err := c.Root().Find(args)
			if err != nil || sub == nil {
				sub = c.Root()
			}
			_ = sub.Help() // there is nobody to tell
		},
	})
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

func newRoot(f *factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "lj",
		Short:         f.p.T("A coding agent that grows its own tools"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       f.Version,
		CompletionOptions: cobra.CompletionOptions{
			HiddenDefaultCmd: true,
		},
	}
	cmd.SetVersionTemplate("lj {{.Version}}\n")
	if f.p.Lang() != "en" {
		f.tellHelp(cmd)
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError(c, flagError(err)) })
	cmd.PersistentFlags().StringVarP(&f.file, "config", "c", "", f.p.T("settings file instead of LJ_HOME/config.yaml"))
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, f.p.T("print one JSON document"))
	t := &turnFlags{}
	t.register(f, cmd)
	cmd.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				names = append(names, sub.Name())
			}
		}
		e := core.Errorf(core.KindUsage, "unknown command %q", args[0])
		if n := core.Nearest(args[0], names); n != "" {
			return e.Hint("did you mean lj %s? a prompt goes behind lj run", n)
		}
		return e.Hint(`lj --help lists the commands; a prompt goes behind lj run`)
	}
	cmd.RunE = func(c *cobra.Command, _ []string) error { return runRoot(c.Context(), f, t) }
	cmd.AddCommand(
		newRun(f), newSessions(f), newModels(f), newTools(f), newConfig(f), newDoctor(f), newVersion(f), newCompletion(f, cmd), newDemo(f), newUndo(f), newSnapshots(f), newPrompts(f), newMemory(f), newEvolve(f),
	)
	return cmd
}
