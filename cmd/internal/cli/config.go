package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
)

func newConfig(f *factory) *cobra.Command {
	get := &cobra.Command{
		Use: "get KEY", Short: f.p.T("Print a setting as it is in force"), Args: exactArgs("a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			s, err := a.Config.Get(args[0])
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(s)
			}
			fmt.Fprintln(f.Out, valueText(s.Value))
			return nil
		},
	}
	set := &cobra.Command{
		Use: "set KEY VALUE", Short: f.p.T("Set a key in the user's settings file"), Args: exactArgs("a key", "a value"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The file may hold mistakes elsewhere: it is not loaded for this.
			path, err := app.UserSettings(f.Environ, f.file)
			if err != nil {
				return err
			}
			if err := app.SetInFile(path, args[0], args[1]); err != nil {
				return err
			}
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			s, err := a.Config.Get(args[0])
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(s)
			}
			if s.Source != path && s.Source != "built-in" {
				f.warn(f.p.T("%s is set in %s, but %s overrides it", args[0], path, s.Source))
			}
			return nil
		},
	}
	path := &cobra.Command{
		Use: "path", Short: f.p.T("Print the path of the user's settings file"), Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			path, err := app.UserSettings(f.Environ, f.file)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(map[string]string{"path": path})
			}
			fmt.Fprintln(f.Out, path)
			return nil
		},
	}
	list := &cobra.Command{
		Use: "list", Short: f.p.T("List all settings with their values and where they come from"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			all := a.Config.Settings()
			if f.json {
				return f.printJSON(items(all))
			}
			for _, s := range all {
				fmt.Fprintf(f.Out, "%-22s %-24s %s\n", s.Key, valueText(s.Value), s.Source)
			}
			return nil
		},
	}
	trust := &cobra.Command{
		Use: "trust", Short: f.p.T("Trust this project's .agent/config.yaml as it is now"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer a.Close()
			path, err := a.Trust(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(map[string]string{"path": path, "sha256": a.Config.ProjectDigest})
			}
			fmt.Fprintln(f.Err, f.p.T("%s is trusted until it changes", path))
			return nil
		},
	}
	initCmd := &cobra.Command{
		Use: "init", Short: f.p.T("Write a settings file with every key explained"), Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			path, err := app.UserSettings(f.Environ, f.file)
			if err != nil {
				return err
			}
			if err := app.InitSettings(path); err != nil {
				return err
			}
			if f.json {
				return f.printJSON(map[string]string{"path": path})
			}
			fmt.Fprintln(f.Out, path)
			return nil
		},
	}
	return group(f, "config", f.p.T("Settings"), get, set, path, list, trust, initCmd)
}

func valueText(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case []string:
		return strings.Join(x, ", ")
	}
	return fmt.Sprint(v)
}
