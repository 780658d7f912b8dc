package policy

import (
	"os"
	"path/filepath"
	"strings"
)

// Bounds on following wildcards: a line must be judged at once, whatever the tree.
const (
	maxMatches = 500
	maxEntries = 5000 // directory entries looked at for one word
)

// expand gives the paths inside the project that a word with wildcards stands for, from a
// directory. ok is false when it leads out of the project or is too much work; then list
// is what was found so far. As in bash, * does not match a leading dot.
func (p *Policy) expand(l *line, dir, pattern string) (list []string, ok bool) {
	start := dir
	if filepath.IsAbs(pattern) {
		start = "/"
	}
	parts := strings.Split(pattern, "/")
	// The folder before the first wildcard must be in the project.
	i := 0
	for ; i < len(parts) && !strings.ContainsAny(unquoteGlob(parts[i], true), "*?["); i++ {
		if parts[i] != "" {
			start = filepath.Join(start, unquoteGlob(parts[i], false))
		}
	}
	if pl, err := p.locate(l, dir, start); err != nil || !pl.Inside {
		return nil, false
	}
	budget := maxEntries
	ok = true
	var walk func(at string, rest []string)
	walk = func(at string, rest []string) {
		for len(rest) > 0 && rest[0] == "" {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			if len(list) >= maxMatches {
				ok = false
				return
			}
			list = append(list, at)
			return
		}
		if c := unquoteGlob(rest[0], false); !strings.ContainsAny(unquoteGlob(rest[0], true), "*?[") {
			if c == ".." {
				ok = false
				return
			}
			if next := filepath.Join(at, c); exists(next) {
				walk(next, rest[1:])
			}
			return
		}
		d, err := os.Open(at)
		if err != nil {
			return
		}
		names, _ := d.Readdirnames(budget + 1)
		_ = d.Close()
		if budget -= len(names); budget <= 0 {
			ok = false
			return
		}
		for _, n := range names {
			if strings.HasPrefix(n, ".") && !strings.HasPrefix(unquoteGlob(rest[0], false), ".") {
				continue
			}
			m, err := filepath.Match(rest[0], n)
			if err != nil {
				ok = false
				return
			}
			if m && ok {
				walk(at+"/"+n, rest[1:])
			}
		}
	}
	walk(start, parts[i:])
	return list, ok
}

// unquoteGlob takes the backslashes from a component; with drop also what they quote, so
// that only wildcards that work remain.
func unquoteGlob(s string, drop bool) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if drop {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mayEnterHome says whether a word with wildcards can stand for something in lj's state
// directory.
func (p *Policy) mayEnterHome(dir, pattern string) bool {
	if !filepath.IsAbs(pattern) {
		quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
		pattern = filepath.Join(quoted, pattern)
	}
	pat := strings.Split(filepath.Clean(pattern), "/")
	for _, h := range p.home {
		if !filepath.IsAbs(h) {
			continue
		}
		home := strings.Split(h, "/")
		if len(pat) < len(home) {
			continue
		}
		hit := true
		for i := range home {
			if m, err := filepath.Match(pat[i], home[i]); err != nil || !m || strings.HasPrefix(home[i], ".") && !strings.HasPrefix(unquoteGlob(pat[i], false), ".") {
				hit = false
				break
			}
		}
		if hit {
			return true
		}
	}
	return false
}
