package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
)

func newDoctor(f *factory) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: f.p.T("Check what lj depends on"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// What is wrong with the settings is a check, and no reason to check nothing.
			o := f.options(f.Dir)
			if o.Dir == "" {
				o.Dir = os.TempDir()
			}
			o.Tolerate, o.Warn = true, nil
			a, err := app.Open(cmd.Context(), o)
			if err != nil {
				return err
			}
			defer a.Close()
			checks := a.Doctor(cmd.Context())
			failed := false
			for _, c := range checks {
				failed = failed || c.Status == "fail"
			}
			if f.json {
				if err := f.printJSON(struct {
					Checks []app.Check `json:"checks"`
				}{checks}); err != nil {
					return err
				}
			} else {
				for _, c := range checks {
					fmt.Fprintf(f.Out, "%-4s %-12s %s\n", c.Status, c.Name, f.p.Tell(oneLine(c.Detail)))
					if c.Fix != "" {
						fmt.Fprintf(f.Out, "                  %s\n", f.p.Tell(c.Fix))
					}
				}
			}
			if failed {
				return &silentError{exitFailed}
			}
			return nil
		},
	}
}
