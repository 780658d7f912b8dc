// Package workspace owns the project directory as tools see it: which paths may be
// touched, how files are read and written without losing a byte, in which encoding and
// with which line ends, which files are ignored, how trees are walked and how text is
// cut for people and models.
//
// It refuses to know of tools, models, permissions that can be granted, and git history:
// a path is inside or it is refused.
//
// A file is changed like this:
//
//	ws, err := workspace.Open("/home/u/project", workspace.Options{})
//	p, err := ws.Resolve("src/a.go", workspace.Write)
//	defer ws.Lock(p)()
//	f, err := ws.Read(p, workspace.MaxEdit)
//	t, err := workspace.Decode(f.Raw)
//	raw, err := t.Splice([]workspace.Span{{Start: 0, End: 3, New: "new"}})
//	after, err := ws.Replace(f, raw)
//
// Line and column numbers count from 1, sizes are bytes. A Workspace is immutable and
// safe for use by several goroutines.
package workspace
