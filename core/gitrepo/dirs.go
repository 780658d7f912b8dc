package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLink is the most that a file which leads to a git directory may hold, in bytes.
const maxLink = 64 << 10

// Dir is the git directory that a .git is, or as the file of a linked work tree or a
// submodule leads to; "" where it is neither.
func Dir(git string) string {
	fi, err := os.Stat(git)
	if err != nil {
		return ""
	}
	if fi.IsDir() {
		return git
	}
	to, ok := strings.CutPrefix(link(git), "gitdir: ")
	if !ok {
		return ""
	}
	return against(filepath.Dir(git), to)
}

// CommonDir is where a git directory keeps what all work trees share: itself, but for that
// of a linked work tree.
func CommonDir(dir string) string {
	if to := link(filepath.Join(dir, "commondir")); to != "" {
		return against(dir, to)
	}
	return dir
}

func link(file string) string {
	fi, err := os.Stat(file)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxLink {
		return ""
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func against(dir, p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(dir, p)
	}
	return filepath.Clean(p)
}
