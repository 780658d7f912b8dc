package cli

import (
	"fmt"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
)

func newUndo(f *factory) *cobra.Command {
	var force bool
	var session string
	cmd := &cobra.Command{
		Use: "undo [ID]", Short: f.p.T("Undo the file changes of the last turn, or of snapshot ID"), Args: rangeArgs(0, 1, "a snapshot ID"),
		Long: f.p.T("Bring the files that a turn changed back to what they were before it, as far as nobody changed\n" +
			"them since; the others are listed and left alone (exit status 1). A second undo goes one turn\n" +
			"further back. An undo can be undone by its own ID."),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			res, err := a.Undo(cmd.Context(), id, session, force)
			if err != nil {
				return err
			}
			if f.json {
				if err := f.printJSON(res); err != nil {
					return err
				}
			} else if res.Undone == nil {
				fmt.Fprintln(f.Err, f.p.T("nothing to undo"))
			} else {
				for _, p := range res.Restored {
					fmt.Fprintln(f.Out, f.p.T("restored  %q", p))
				}
				for _, p := range res.Removed {
					fmt.Fprintln(f.Out, f.p.T("removed   %q", p))
				}
				for _, k := range res.Kept {
					fmt.Fprintln(f.Out, f.p.T("kept      %q (%s)", k.Path, f.p.Tell(k.Reason)))
				}
				if len(res.Kept) > 0 {
					fmt.Fprintln(f.Err, "lj: "+f.p.T("what was kept is not as before the turn; lj undo --force %s restores it too", *res.Undone))
				}
			}
			if len(res.Kept) > 0 {
				return &silentError{exitFailed}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, f.p.T("restore also what was changed since"))
	cmd.Flags().StringVar(&session, "session", "", f.p.T("without an ID: only turns of this conversation"))
	return cmd
}

func newSnapshots(f *factory) *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: f.p.T("List what undo can bring back in this project, newest first"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			all, err := a.Snapshots()
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(items(all))
			}
			for _, s := range all {
				fmt.Fprintf(f.Out, "%s  %s  %-4s %-7s %4d  %s\n", s.ID, s.CreatedAt.Local().Format("2006-01-02 15:04:05"), s.Kind, s.State, s.Files, runewidth.Truncate(oneLine(s.Title), 50, "…"))
			}
			if len(all) == 0 {
				fmt.Fprintln(f.Err, f.p.T("no snapshots yet"))
			}
			return nil
		},
	}
	show := &cobra.Command{
		Use: "show ID", Short: f.p.T("Show which paths a turn changed"), Args: exactArgs("a snapshot ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			s, err := a.SnapshotShow(args[0])
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(s)
			}
			fmt.Fprintf(f.Out, "%s  %s  %s  %s\n", s.ID, s.CreatedAt.Local().Format("2006-01-02 15:04:05"), s.Kind, s.State)
			for _, c := range s.Changes {
				fmt.Fprintf(f.Out, "%-8s %q\n", c.Change, c.Path)
			}
			for _, l := range s.LeftOut {
				fmt.Fprintln(f.Out, f.p.T("left out %q: %s", l.Path, f.p.Tell(l.Reason)))
			}
			return nil
		},
	}
	var days int
	var mib int64
	prune := &cobra.Command{
		Use: "prune", Short: f.p.T("Remove old snapshots"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 0 || mib < 0 {
				return usageError(cmd, fmt.Errorf("--days and --max-mib are 0 or more"))
			}
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			res, err := a.Prune(cmd.Context(), time.Duration(days)*24*time.Hour, mib<<20)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(res)
			}
			if res.Busy {
				fmt.Fprintln(f.Err, "lj: "+f.p.T("another lj is using the snapshots; nothing more was removed"))
			}
			fmt.Fprintln(f.Err, f.p.T("%d snapshots and %d objects removed, %d bytes freed", res.Records, res.Objects, res.Freed))
			return nil
		},
	}
	prune.Flags().IntVar(&days, "days", 30, f.p.T("keep what is younger than so many days"))
	prune.Flags().Int64Var(&mib, "max-mib", 4096, f.p.T("keep at most so many MiB"))
	return group(f, "snapshots", f.p.T("Recorded states of the working tree"), list, show, prune)
}
