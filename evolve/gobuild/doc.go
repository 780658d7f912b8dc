// Package gobuild owns running the go command and test programs on code that nobody has
// read: always offline, in a scrubbed environment, in a process group of its own, bounded
// in time, memory and output, with the cache in a directory that it is given. It reads
// their output into diagnostics and counts the tests that really ran.
//
// It refuses to know what the code is for, where it goes when it passes and what a person
// is asked.
//
//	t, err := gobuild.Find(gobuild.Options{Cache: dir})
//	diags, err := t.Vet(ctx, work, "./tools/csv_stats")
//
// The flags are fixed once, because every other set of flags has the standard library
// compiled again: CGO_ENABLED=0, -trimpath (so that results don't depend on the folder),
// -ldflags='-s -w', no version stamping.
package gobuild
