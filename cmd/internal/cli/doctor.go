package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
)

func newDoctor(f *factory) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: f.p.T("Check what lj depends on"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.open(cmd.Context(), "")
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
