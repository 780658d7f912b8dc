package cli

import "github.com/spf13/cobra"

func newDemo(f *factory) *cobra.Command {
	return &cobra.Command{Use: "demo", Short: f.p.T("Show lj at work without a model server"), Args: exactArgs(), RunE: func(*cobra.Command, []string) error { return nil }}
}
