// Package evolve owns the chain through which lj changes itself: a list of steps, each
// with a name, a run and an undo, journalled before and after, and the one report that
// the model, a person and scripts read.
//
// It refuses to know what is changed and what the steps do: evolve/toolkit builds the
// chain for tools. It knows no SQL, no git and no go command.
//
//	rep := &evolve.Report{Name: "csv_stats"}
//	err := evolve.Run(ctx, evolve.Chain{Report: rep, Steps: steps, Journal: j, Progress: show})
//	fmt.Println(rep.ForModel())
package evolve
