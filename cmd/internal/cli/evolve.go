package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

func newEvolve(f *factory) *cobra.Command {
	var dry, auto bool
	var only []string
	var budget int
	var watch string
	cmd := &cobra.Command{
		Use: "evolve", Short: f.p.T("Do the background work that waits: titles, summaries, memories"), Args: evolveArgs,
		Long: f.p.T("One pass over what is new: titles of conversations, summaries of long ones, memories from what\nwas said. Nothing new: no request. It may be stopped at any time and goes on where it was."),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if budget < 0 {
				return usageError(cmd, fmt.Errorf("--budget-tokens is 0 or more, not %d", budget))
			}
			every := time.Duration(0)
			if watch != "" {
				d, err := time.ParseDuration(watch)
				if err != nil || d < time.Second {
					return usageError(cmd, fmt.Errorf("--watch wants a span such as 1h or 10m, at least 1s, not %q", watch))
				}
				every = d
			}
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			o := app.EvolveOptions{DryRun: dry, Only: only, Budget: budget}
			if !f.json {
				o.Progress = func(w app.Work) { fmt.Fprintln(f.Out, f.workLine(w)) }
			}
			for {
				res, err := a.Evolve(cmd.Context(), o)
				if f.json && core.KindOf(err) != core.KindUsage {
					if perr := f.printJSON(res); perr != nil {
						return errors.Join(err, perr)
					}
				} else if err == nil && len(res.Work) == 0 {
					fmt.Fprintln(f.Out, f.p.T("nothing new"))
				} else if err == nil && !dry {
					fmt.Fprintln(f.Err, f.p.T("%d requests, %d tokens", res.Requests, res.Tokens))
				}
				if !f.json {
					for _, m := range res.Memories {
						fmt.Fprintln(f.Out, f.p.T("memory %s: %s", m.Action, runewidth.Truncate(oneLine(m.Content), 100, "…")))
					}
				}
				if every == 0 {
					return err
				}
				if err != nil && core.KindOf(err) != core.KindFailed && core.KindOf(err) != core.KindLimit && core.KindOf(err) != core.KindModel {
					return err
				}
				if err != nil {
					f.printError(err) // a later pass may succeed
				}
				select {
				case <-time.After(every):
				case <-cmd.Context().Done():
					return core.Errorf(core.KindInterrupted, "interrupted")
				}
			}
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, f.p.T("only say what would be done"))
	cmd.Flags().StringSliceVar(&only, "only", nil, f.p.T("only these kinds: %s", strings.Join(app.EvolveKinds(), ", ")))
	cmd.Flags().IntVar(&budget, "budget-tokens", 0, f.p.T("at most so many tokens in this pass"))
	cmd.Flags().BoolVar(&auto, "auto", false, f.p.T("let proposals go live without a decision (so far a pass makes none)"))
	cmd.Flags().StringVar(&watch, "watch", "", f.p.T("again and again, with so much time between: 1h"))
	cmd.AddCommand(newEvolveLog(f), newEvolveWhy(f))
	return cmd
}

func evolveArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, s := range cmd.Commands() {
		names = append(names, s.Name())
	}
	e := core.Errorf(core.KindUsage, "unknown command %q for %s", args[0], cmd.CommandPath())
	if n := core.Nearest(args[0], names); n != "" {
		return e.Hint("did you mean %s %s?", cmd.CommandPath(), n)
	}
	return e.Hint("commands: %s", strings.Join(names, ", "))
}

func (f *factory) workLine(w app.Work) string {
	line := fmt.Sprintf("%-11s %-8s", w.Kind, w.State)
	if w.Session != "" {
		line += " " + w.Session
	}
	if w.Reason != "" {
		line += "  " + f.p.Tell(oneLine(w.Reason))
	}
	return line
}

func newEvolveLog(f *factory) *cobra.Command {
	var verify bool
	var limit int
	cmd := &cobra.Command{
		Use: "log [ID]", Short: f.p.T("The journal: what changed, why, and how to take it back"), Args: rangeArgs(0, 1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withApp(cmd, func(ctx context.Context, a *app.App) error {
				if verify {
					bad, n, err := a.VerifyJournal(ctx)
					if err != nil {
						return err
					}
					if f.json {
						if err := f.printJSON(map[string]any{"entries": n, "ok": bad == nil, "bad": bad}); err != nil {
							return err
						}
					} else if bad == nil {
						fmt.Fprintln(f.Out, f.p.T("%d entries, all of them good", n))
					}
					if bad != nil {
						return core.Errorf(core.KindFailed, "entry %s (%s %s): %s", bad.ID, bad.Kind, bad.Artefact, bad.Problem).
							Hint("lj evolve log %s shows it", bad.ID)
					}
					return nil
				}
				id := ""
				if len(args) == 1 {
					id = args[0]
				}
				list, err := a.Journal(ctx, app.JournalFilter{ID: id, Limit: limit})
				if err != nil {
					return err
				}
				if id != "" {
					if f.json {
						return f.printJSON(list[0])
					}
					f.printEntries(list, true)
					return nil
				}
				if f.json {
					return f.printJSON(items(list))
				}
				f.printEntries(list, false)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, f.p.T("check every entry against what it speaks of"))
	cmd.Flags().IntVar(&limit, "limit", 100, f.p.T("at most so many, 0 for all"))
	return cmd
}

func newEvolveWhy(f *factory) *cobra.Command {
	return &cobra.Command{
		Use: "why ARTEFACT", Short: f.p.T("Why something is as it is: a tool, the prompt, a memory, a conversation"), Args: exactArgs("a tool, prompt, memory:ID or session:ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withApp(cmd, func(ctx context.Context, a *app.App) error {
				list, err := a.Journal(ctx, app.JournalFilter{Artefact: args[0]})
				if err != nil {
					return err
				}
				if len(list) == 0 {
					return core.Errorf(core.KindNotFound, "the journal knows nothing of %s", args[0]).Hint("lj evolve log lists what it knows")
				}
				if f.json {
					return f.printJSON(items(list))
				}
				f.printEntries(list, true)
				return nil
			})
		},
	}
}

func (f *factory) printEntries(list []app.JournalEntry, long bool) {
	for _, e := range list {
		fmt.Fprintf(f.Out, "%-8s %s  %-16s %-24s %-10s %s\n", e.ID, e.Time.Local().Format("2006-01-02 15:04"), e.Kind, e.Artefact, e.State, f.p.Tell(oneLine(e.Why)))
		if long && e.Evidence != "" {
			fmt.Fprintf(f.Out, "         %s\n", oneLine(e.Evidence))
		}
		if long && e.Revert != "" {
			fmt.Fprintf(f.Out, "         %s %s\n", f.p.T("take it back:"), e.Revert)
		}
	}
	if len(list) == 0 {
		fmt.Fprintln(f.Err, f.p.T("the journal is empty"))
	}
}

// withApp opens the app for one command.
func (f *factory) withApp(cmd *cobra.Command, fn func(ctx context.Context, a *app.App) error) error {
	a, err := f.open(cmd.Context(), "")
	if err != nil {
		return err
	}
	defer a.Close()
	return fn(cmd.Context(), a)
}
