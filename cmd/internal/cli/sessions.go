package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/core"
)

// group is a command that only holds others. Without one it prints its help and fails, so
// that a script notices.
func group(f *factory, use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, s := range cmd.Commands() {
				if !s.Hidden {
					names = append(names, s.Name())
				}
			}
			if len(args) > 0 {
				e := core.Errorf(core.KindUsage, "unknown command %q for %s", args[0], cmd.CommandPath())
				if n := core.Nearest(args[0], names); n != "" {
					return e.Hint("did you mean %s %s?", cmd.CommandPath(), n)
				}
				return e.Hint("commands: %s", strings.Join(names, ", "))
			}
			return core.Errorf(core.KindUsage, "%s needs a command", cmd.CommandPath()).Hint("commands: %s", strings.Join(names, ", "))
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}

func newSessions(f *factory) *cobra.Command {
	var all bool
	var limit int
	list := &cobra.Command{
		Use: "list", Short: f.p.T("List stored conversations of this project, newest first"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			list, err := a.Sessions(cmd.Context(), all, limit)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(items(list))
			}
			for _, s := range list {
				fmt.Fprintf(f.Out, "%s  %s  %3d  %s\n", s.ID, s.UpdatedAt.Local().Format("2006-01-02 15:04"), s.Turns, runewidth.Truncate(oneLine(s.Title), 60, "…"))
			}
			if len(list) == 0 {
				fmt.Fprintln(f.Err, f.p.T("no sessions yet"))
			}
			return nil
		},
	}
	list.Flags().BoolVar(&all, "all", false, f.p.T("of all projects"))
	list.Flags().IntVar(&limit, "limit", 0, f.p.T("at most so many, 0 for all"))

	show := &cobra.Command{
		Use: "show ID", Short: f.p.T("Show a conversation"), Args: exactArgs("a session ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			t, err := a.Transcript(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(t)
			}
			return t.Markdown(f.Out)
		},
	}

	var searchAll bool
	var k int
	search := &cobra.Command{
		Use: "search WORDS", Short: f.p.T("Search the words of stored conversations"), Args: rangeArgs(1, -1, "words to search for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			hits, err := a.SearchSessions(cmd.Context(), strings.Join(args, " "), searchAll, k)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(items(hits))
			}
			for _, h := range hits {
				fmt.Fprintf(f.Out, "%s  %s  %s %d  %s\n", h.Session, h.At.Local().Format("2006-01-02 15:04"), h.Role, h.Turn, runewidth.Truncate(h.Snippet, 100, "…"))
			}
			if len(hits) == 0 {
				fmt.Fprintln(f.Err, f.p.T("nothing found"))
			}
			return nil
		},
	}
	search.Flags().BoolVar(&searchAll, "all", false, f.p.T("in all projects"))
	search.Flags().IntVarP(&k, "limit", "k", 20, f.p.T("at most so many"))

	var format string
	export := &cobra.Command{
		Use: "export ID", Short: f.p.T("Print a whole conversation as Markdown or JSON"), Args: exactArgs("a session ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.json && !cmd.Flags().Changed("format") {
				format = "json"
			}
			if format != "md" && format != "json" {
				return usageError(cmd, fmt.Errorf("--format is md or json, not %q", format))
			}
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			t, err := a.Transcript(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if format == "json" {
				return f.printJSON(t)
			}
			return t.Markdown(f.Out)
		},
	}
	export.Flags().StringVar(&format, "format", "md", f.p.T("md or json"))

	var turn int
	fork := &cobra.Command{
		Use: "fork ID", Short: f.p.T("Begin a new conversation with the first turns of another"), Args: exactArgs("a session ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("turn") && turn < 1 {
				return usageError(cmd, fmt.Errorf("--turn counts from 1, not %d", turn))
			}
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			s, err := a.ForkSession(cmd.Context(), args[0], turn)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(s)
			}
			fmt.Fprintln(f.Out, s.ID)
			return nil
		},
	}
	fork.Flags().IntVar(&turn, "turn", 0, f.p.T("up to and with this turn; 0 for all"))

	rm := &cobra.Command{
		Use: "rm ID...", Short: f.p.T("Remove conversations"), Args: rangeArgs(1, -1, "a session ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			var removed []string
			var errs []error
			for _, id := range args {
				full, err := a.RemoveSession(cmd.Context(), id)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				removed = append(removed, full)
			}
			if f.json {
				if removed == nil {
					removed = []string{}
				}
				if err := f.printJSON(map[string]any{"removed": removed}); err != nil {
					return err
				}
			} else {
				for _, id := range removed {
					fmt.Fprintln(f.Err, f.p.T("session %s is removed", id))
				}
			}
			return errors.Join(errs...)
		},
	}
	return group(f, "sessions", f.p.T("Stored conversations"), list, show, search, export, fork, rm)
}

func newModels(f *factory) *cobra.Command {
	return &cobra.Command{
		Use: "models", Short: f.p.T("List what the configured server offers"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			list, note, err := a.Models(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(items(list))
			}
			for _, m := range list {
				mark := " "
				if m.Main {
					mark = "*"
				}
				fmt.Fprintf(f.Out, "%s %s\n", mark, m.ID)
			}
			if note != "" {
				fmt.Fprintln(f.Err, "lj: "+f.p.Tell(note))
			}
			return nil
		},
	}
}

func newVersion(f *factory) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: f.p.T("Print the version"), Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if f.json {
				return f.printJSON(struct {
					Version string `json:"version"`
					Commit  string `json:"commit"`
					Go      string `json:"go"`
					OS      string `json:"os"`
					Arch    string `json:"arch"`
				}{f.Version, f.Commit, goVersion(), goos(), goarch()})
			}
			fmt.Fprintln(f.Out, "lj "+f.Version)
			return nil
		},
	}
}

func newCompletion(f *factory, root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: f.p.T("Print a completion script for a shell"), Args: exactArgs("bash, zsh or fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(f.Out, true)
			case "zsh":
				return root.GenZshCompletion(f.Out)
			case "fish":
				return root.GenFishCompletion(f.Out, true)
			}
			return usageError(cmd, fmt.Errorf("no completion for %q: bash, zsh or fish", args[0]))
		},
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
