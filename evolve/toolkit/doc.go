// Package toolkit owns the tools that lj's user and model write: the chain that proves a
// version (snapshot, check, vet, build, test, contract, publish), the repository that
// keeps every accepted version, which version is live, going back, export and import, and
// the watch over live versions.
//
// It refuses to know how a tool is called (plugins/host), how rows are kept (Ledger), how
// a process is confined (Options.Confine) and who is asked (Options.Approve).
//
//	t, err := toolkit.Open(ctx, toolkit.Options{Home: home, Ledger: store, SDK: sdk.Source(), …})
//	rep, err := t.Save(ctx, toolkit.SaveRequest{Name: "csv_stats", Dir: dir})
//	live, err := t.Live(ctx)                 // what can be called now, and where it is
//	gen, err := t.Generation(ctx)            // has another process changed that?
//
// # What is true at every instant
//
// The row of a tool names its live version; there is exactly one row, and the version it
// names was proved. The order of a change is: intent, program and objects on the disk, one
// SQLite transaction, refs, work tree. Before the transaction nothing counts; after it
// everything does, and what is missing of refs and work tree is redone at the next Open or
// change by whatever process comes first. What a dead process left is found by the lock
// that it held.
//
// The repository in LJ_HOME/toolkit is one module: go.mod, plugins/sdk, tools/NAME (source
// and the generated SKILL.md), meta/NAME.json (what the ledger knows of the version). A
// commit for each accepted version, with the tag NAME/vX.Y.Z; refs/lj/live/NAME names the
// live version's commit, refs/lj/disabled/NAME is there for a disabled one. Nothing is
// rewritten. With the ledger lost it is filled again from there; with files of the work
// tree, refs or programs lost or changed, those are made again.
//
// # Watching
//
// RecordOutcome counts how calls of a version end. A version is put back to its
// predecessor when, among its last 10 calls, 3 crashed; or when it has been called 10
// times, at least half of its last 20 calls failed, and the predecessor failed less than
// half as often. The predecessor is the version that was live before when that is lower,
// else the next lower accepted one; one that was itself put away for these reasons does
// not count. Without one the tool is disabled, by crashes or when all of its last 20 calls
// failed. The evidence stays in the ledger and in the tool's reason.
//
// # Failpoints
//
// Around each step: tool.KIND.STEP.before and .after, KIND being save, rollback, disable,
// enable, remove. In publish: tool.KIND.publish.program, .objects, .commit, .refs,
// .worktree, .mark, each before what it is named after; store.toolkit.before_commit and
// .after_commit around the transaction.
//
// A Toolkit is safe for use by several goroutines, and several processes may use one home.
package toolkit
