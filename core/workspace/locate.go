package workspace

import "path/filepath"

// Place is where a path leads, for those who judge paths and do not touch them.
type Place struct {
	Abs    string // absolute, links and ".." resolved
	Name   string // as Display gives it
	Inside bool   // in the project or an added directory
	Home   bool   // in lj's state directory, as written or resolved
	// Guarded names the rule that protects the path from writing, "" for none.
	Guarded string
}

// Locate finds where a path leads without judging it. A relative path starts at base, an
// absolute directory whose links are resolved. The error says that the path can't be followed (a loop of links, a
// file where a directory should be, a directory that may not be entered).
func (w *Workspace) Locate(base, path string) (Place, error) {
	full, start := path, "/"
	if !filepath.IsAbs(path) {
		full, start = base+"/"+path, base
	}
	real, err := realFrom(start, path)
	if err != nil {
		return Place{}, plain(err)
	}
	clean := filepath.Clean(full)
	p := Place{Abs: real, Name: w.Display(real), Home: w.inHome(real) || w.inHome(clean)}
	for _, r := range w.roots {
		if _, ok := beneath(r, real); ok {
			p.Inside = true
			break
		}
	}
	p.Guarded = w.guarded(clean, real)
	return p, nil
}
