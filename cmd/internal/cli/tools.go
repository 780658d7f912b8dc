package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
)

func goVersion() string { return runtime.Version() }
func goos() string      { return runtime.GOOS }
func goarch() string    { return runtime.GOARCH }

func newTools(f *factory) *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: f.p.T("List all tools"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			list, err := a.ToolList(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(items(list))
			}
			for _, t := range list {
				fmt.Fprintf(f.Out, "%-22s %-9s %-8s %-9s %5d %4d %6d ms  %s\n", t.Name, t.Version, t.Origin, t.State, t.Calls, t.Failures, t.P50,
					runewidth.Truncate(oneLine(t.Description), 60, "…"))
			}
			return nil
		},
	}
	var version string
	show := &cobra.Command{
		Use: "show NAME", Short: f.p.T("Show a tool's description, schema, permissions and source"), Args: exactArgs("a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			t, err := a.ToolShow(cmd.Context(), args[0], version)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(t)
			}
			return t.Text(f.Out)
		},
	}
	show.Flags().StringVar(&version, "version", "", f.p.T("this version instead of the live one"))

	t := &turnFlags{}
	call := &cobra.Command{
		Use: "call NAME '{…}'", Short: f.p.T("Call a tool once and print its result"), Args: rangeArgs(1, 2, "a tool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw := "{}"
			if len(args) == 2 {
				raw = args[1]
			}
			a, err := f.open(cmd.Context(), t.cwd)
			if err != nil {
				return err
			}
			defer a.Close()
			res, err := a.ToolCall(cmd.Context(), args[0], json.RawMessage(raw), app.TurnOptions{AddDirs: t.addDirs, Deny: t.deny, Mode: t.mode, Yolo: t.yolo, Allow: t.allow})
			if err != nil {
				if res.Text != "" && !f.json { // what an interrupted call had said by then
					fmt.Fprintln(f.Out, strings.TrimRight(res.Text, "\n"))
				}
				return err
			}
			if f.json {
				if err := f.printJSON(res); err != nil {
					return err
				}
			} else if res.Text != "" {
				fmt.Fprintln(f.Out, strings.TrimRight(res.Text, "\n"))
			}
			if res.IsError {
				return &silentError{exitFailed}
			}
			return nil
		},
	}
	call.Flags().StringVar(&t.cwd, "cwd", "", f.p.T("work in this directory"))
	call.Flags().StringArrayVar(&t.addDirs, "add-dir", nil, f.p.T("a further directory that may be read and written"))
	call.Flags().StringArrayVar(&t.deny, "deny", nil, f.p.T("deny what RULE matches"))
	call.Flags().StringVar(&t.mode, "mode", "", f.p.T("ask, auto or plan"))
	return group(f, "tools", f.p.T("Tools: built in, of the host, and self-written"), append([]*cobra.Command{list, show, call}, toolkitCommands(f)...)...)
}
