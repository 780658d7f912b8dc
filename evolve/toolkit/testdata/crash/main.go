// Command crash makes one change of a toolkit; tests build it with failpoints and kill it
// there.
//
//	crash HOME CACHE save NAME DIR | rollback NAME VERSION | disable NAME | enable NAME | rm NAME | open
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/lingjiyidong/lj/evolve/toolkit"
	"github.com/lingjiyidong/lj/evolve/toolkit/testdata/rig"
)

func main() {
	rig.Reexec()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx := context.Background()
	tk, st, err := rig.Open(ctx, args[0], args[1], nil)
	if err != nil {
		return err
	}
	defer st.Close()
	switch args[2] {
	case "save":
		_, err = tk.Save(ctx, toolkit.SaveRequest{Name: args[3], Dir: args[4]})
	case "rollback":
		_, err = tk.Rollback(ctx, args[3], args[4], nil)
	case "disable":
		_, err = tk.Disable(ctx, args[3], "")
	case "enable":
		_, err = tk.Enable(ctx, args[3])
	case "rm":
		_, err = tk.Remove(ctx, args[3])
	}
	return err
}
