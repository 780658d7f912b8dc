package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

func newPrompts(f *factory) *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: f.p.T("List the versions of the system prompt"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			all, err := a.Prompts(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(items(all))
			}
			for _, p := range all {
				mark := " "
				if p.Active {
					mark = "*"
				}
				at := ""
				if !p.CreatedAt.IsZero() {
					at = p.CreatedAt.Local().Format("2006-01-02 15:04")
				}
				fmt.Fprintf(f.Out, "%s %3d  %-16s  %s\n", mark, p.Version, at, f.p.Tell(oneLine(p.Reason)))
			}
			return nil
		},
	}
	show := &cobra.Command{
		Use: "show [VERSION]", Short: f.p.T("Print a version of the system prompt (default: the active one)"), Args: rangeArgs(0, 1, "a version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			v := ""
			if len(args) == 1 {
				v = args[0]
			}
			p, err := a.Prompt(cmd.Context(), v)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(p)
			}
			fmt.Fprintln(f.Out, p.Content)
			return nil
		},
	}
	var reason string
	set := &cobra.Command{
		Use: "set FILE", Short: f.p.T("Make the text of a file the system prompt, from the next session on"), Args: exactArgs("a file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var text []byte
			var err error
			if args[0] == "-" {
				text, err = io.ReadAll(io.LimitReader(f.In, app.MaxPrompt+1))
			} else {
				text, err = os.ReadFile(f.abs(args[0]))
			}
			if err != nil {
				return core.Errorf(core.KindUsage, "read the prompt: %w", err)
			}
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			p, err := a.SetPrompt(cmd.Context(), string(text), reason)
			if err != nil {
				return err
			}
			return f.promptDone(p)
		},
	}
	set.Flags().StringVarP(&reason, "message", "m", "", f.p.T("why"))
	diff := &cobra.Command{
		Use: "diff V1 V2", Short: f.p.T("Show the difference between two versions of the system prompt"), Args: exactArgs("a version", "another version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			text, err := a.DiffPrompts(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(map[string]string{"diff": text})
			}
			_, err = fmt.Fprint(f.Out, text)
			return err
		},
	}
	rollback := &cobra.Command{
		Use: "rollback VERSION", Short: f.p.T("Make an earlier version of the system prompt active again"), Args: exactArgs("a version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			p, err := a.RollbackPrompt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return f.promptDone(p)
		},
	}
	return group(f, "prompts", f.p.T("Versions of the system prompt"), list, show, set, diff, rollback)
}

func (f *factory) promptDone(p core.PromptVersion) error {
	p.Content = ""
	if f.json {
		return f.printJSON(p)
	}
	fmt.Fprintln(f.Err, f.p.T("version %d is active from the next session on", p.Version))
	return nil
}
