package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

// toolkitCommands are the commands over self-written tools.
func toolkitCommands(f *factory) []*cobra.Command {
	// with opens the app for one command.
	with := func(cmd *cobra.Command, fn func(ctx context.Context, a *app.App) error) error {
		a, err := f.open(cmd.Context(), "")
		if err != nil {
			return err
		}
		defer a.Close()
		return fn(cmd.Context(), a)
	}
	progress := func(text string) { fmt.Fprintln(f.Err, f.p.Tell(text)) }
	// report prints the outcome of a change and turns its error into the exit status.
	report := func(rep *app.ToolReport, err error) error {
		if rep == nil {
			return err
		}
		if f.json {
			if perr := f.printJSON(rep); perr != nil {
				return perr
			}
		} else {
			fmt.Fprintln(f.Out, f.p.TellLines(strings.TrimRight(rep.ForPerson(), "\n")))
		}
		if err != nil {
			if core.KindOf(err) == core.KindRefused {
				return &silentError{exitRefused}
			}
			return err
		}
		return nil
	}

	var dir string
	newCmd := &cobra.Command{
		Use: "new NAME", Short: f.p.T("Write a small working tool with its test, ready to edit"), Args: exactArgs("a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App) error {
				if dir == "" {
					dir = args[0]
				}
				files, err := a.ToolNew(ctx, args[0], f.abs(dir))
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(map[string]any{"name": args[0], "files": files})
				}
				for _, n := range files {
					fmt.Fprintln(f.Out, n)
				}
				return nil
			})
		},
	}
	newCmd.Flags().StringVar(&dir, "dir", "", f.p.T("folder to make (default ./NAME)"))

	var from, message, bump string
	save := &cobra.Command{
		Use: "save NAME --dir DIR", Short: f.p.T("Prove a tool and make it live"), Args: exactArgs("a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return usageError(cmd, errors.New("--dir is needed: the folder with the tool's files"))
			}
			return with(cmd, func(ctx context.Context, a *app.App) error {
				return report(a.ToolSave(ctx, args[0], f.abs(from), message, bump, progress))
			})
		},
	}
	save.Flags().StringVar(&from, "dir", "", f.p.T("folder with the tool's files"))
	save.Flags().StringVarP(&message, "message", "m", "", f.p.T("what this version changes"))
	save.Flags().StringVar(&bump, "bump", "", f.p.T("at least this level: patch, minor or major"))

	test := &cobra.Command{
		Use: "test NAME", Short: f.p.T("Vet, build and test the live version again"), Args: exactArgs("a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App) error { return report(a.ToolTest(ctx, args[0], progress)) })
		},
	}
	versions := &cobra.Command{
		Use: "versions NAME", Short: f.p.T("List all versions of a tool"), Args: exactArgs("a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App) error {
				list, err := a.ToolVersions(ctx, args[0])
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(items(list))
				}
				for _, v := range list {
					name, mark := "-", " "
					if v.Version != nil {
						name = *v.Version
					}
					if v.Live {
						mark = "*"
					}
					fmt.Fprintf(f.Out, "%s %-9s %-8s %s  %s\n", mark, name, v.Status, v.Time.Local().Format("2006-01-02 15:04:05"), oneLine(strings.TrimSpace(v.Message+" "+f.p.Tell(v.Reason))))
				}
				return nil
			})
		},
	}
	diff := &cobra.Command{
		Use: "diff NAME [V1 [V2]]", Short: f.p.T("Show the difference between two versions of a tool's source"), Args: rangeArgs(1, 3, "a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App) error {
				var v1, v2 string
				if len(args) > 1 {
					v1 = args[1]
				}
				if len(args) > 2 {
					v2 = args[2]
				}
				text, err := a.ToolDiff(ctx, args[0], v1, v2)
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(map[string]string{"name": args[0], "diff": text})
				}
				_, err = fmt.Fprint(f.Out, text)
				return err
			})
		},
	}
	rollback := &cobra.Command{
		Use: "rollback NAME [VERSION]", Short: f.p.T("Make an earlier accepted version live again"), Args: rangeArgs(1, 2, "a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App) error {
				v := ""
				if len(args) > 1 {
					v = args[1]
				}
				return report(a.ToolRollback(ctx, args[0], v, progress))
			})
		},
	}
	simple := func(use, short string, fn func(ctx context.Context, a *app.App, name string) (*app.ToolReport, error)) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Short: short, Args: exactArgs("a tool name"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return with(cmd, func(ctx context.Context, a *app.App) error { return report(fn(ctx, a, args[0])) })
			},
		}
	}
	var out string
	export := &cobra.Command{
		Use: "export NAME... -o FILE", Short: f.p.T("Write the live versions of tools to a tar.gz"), Args: rangeArgs(1, -1, "a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError(cmd, errors.New("-o is needed: the file to write"))
			}
			return with(cmd, func(ctx context.Context, a *app.App) error {
				if err := a.ToolExport(ctx, args, f.abs(out)); err != nil {
					return err
				}
				if f.json {
					return f.printJSON(map[string]any{"file": out, "tools": args})
				}
				return nil
			})
		},
	}
	export.Flags().StringVarP(&out, "output", "o", "", f.p.T("file to write"))
	importCmd := &cobra.Command{
		Use: "import FILE", Short: f.p.T("Prove the tools of a tar.gz and make them live"), Args: exactArgs("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App) error {
				file, err := os.Open(f.abs(args[0]))
				if err != nil {
					return core.Errorf(core.KindUsage, "open the archive: %w", err)
				}
				defer file.Close()
				list, err := a.ToolImport(ctx, file, progress)
				if f.json && list != nil {
					if perr := f.printJSON(items(list)); perr != nil {
						return perr
					}
				} else {
					for _, r := range list {
						fmt.Fprintln(f.Out, f.p.TellLines(strings.TrimRight(r.ForPerson(), "\n")))
					}
				}
				return err
			})
		},
	}
	return []*cobra.Command{
		newCmd, save, test, versions, diff, rollback,
		simple("disable", f.p.T("Switch a self-written tool off"), func(ctx context.Context, a *app.App, n string) (*app.ToolReport, error) { return a.ToolDisable(ctx, n) }),
		simple("enable", f.p.T("Switch a self-written tool on again"), func(ctx context.Context, a *app.App, n string) (*app.ToolReport, error) { return a.ToolEnable(ctx, n) }),
		simple("rm", f.p.T("Remove a self-written tool; its history is kept"), func(ctx context.Context, a *app.App, n string) (*app.ToolReport, error) { return a.ToolRemove(ctx, n) }),
		export, importCmd,
	}
}

// abs is a path of the command line, seen from the working directory.
func (f *factory) abs(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.Dir, p)
}
