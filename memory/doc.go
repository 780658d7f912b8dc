// Package memory owns what lj remembers between conversations: what may become a memory,
// how a new one meets those that exist (same, replaced, in doubt), which ones belong into
// a turn, how they age, and how they are written down for a person. It knows rows through
// the interfaces of core; it knows no SQL, no model client, no terminal, and it never
// takes a rule from a file, a tool or a memory: only the user's own words found one.
//
//	m := memory.New(memory.Config{Store: st, Segmenter: seg, Project: dir})
//	res, err := m.Add(ctx, memory.Item{Content: "deploy with make ship"})
//	sel, err := m.Select(ctx, "how do we deploy?")
//	block := sel.Text() // the lines for the model; the caller wraps them
//
// A Service is safe for use by several goroutines, and several processes may work on the
// same store. docs/memory.md explains the decisions.
package memory
