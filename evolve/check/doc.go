// Package check owns what can be said of a tool's files without running anything: which
// files belong, gofmt, imports against wanted permissions, the manifest, that tests are
// there and what they hold.
//
// It refuses to know versions, where files are kept, and what a person allows.
//
//	files, notes, err := check.ReadDir(dir)
//	src, err := check.Check("csv_stats", files)   // err: *evolve.Refusal with places
//
// What is refused is refused early with a place; the walls are elsewhere: the kernel holds
// a tool to its approved permissions whatever it imports. cgo, assembly and unsafe are
// refused because the proofs of the chain (vet, race-free reading of memory, a program
// without foreign code) end with them.
package check
