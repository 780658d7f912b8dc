package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// rules are the patterns of one ignore file, for the paths beneath its directory.
// The semantics are those of gitignore(5).
type rules struct {
	base string // the directory, relative to the walk's frame; "" for its top
	list []rule
	up   *rules // the rules of the directories above
}

type rule struct {
	neg, dir bool
	glob     *Glob
}

// parseIgnore reads an ignore file; nil when it holds no pattern.
func parseIgnore(b []byte) []rule {
	var list []rule
	b = bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF"))
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		// Trailing blanks count only when quoted.
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		var r rule
		if strings.HasPrefix(line, "!") {
			r.neg, line = true, line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.dir, line = true, strings.TrimSuffix(line, "/")
		}
		if line == "" {
			continue
		}
		r.glob = compileIgnore(line)
		list = append(list, r)
	}
	return list
}

// compileIgnore is CompileGlob without braces, which gitignore does not have.
func compileIgnore(p string) *Glob {
	base := !strings.Contains(p, "/")
	p = strings.TrimPrefix(p, "/")
	a := globAlt{base: base, parts: strings.Split(p, "/")}
	if !strings.ContainsAny(p, `*?[\`) {
		a.lit = p
	} else if base && p[0] == '*' && !strings.ContainsAny(p[1:], `*?[\`) {
		a.ext = p[1:]
	}
	return &Glob{alts: []globAlt{a}}
}

// ignored judges a path (relative to the walk's frame). The last pattern that matches
// decides, the nearest file's before those above.
func (r *rules) ignored(path string, dir bool) bool {
	for ; r != nil; r = r.up {
		rel := path
		if r.base != "" {
			rel = path[len(r.base)+1:]
		}
		for i := len(r.list) - 1; i >= 0; i-- {
			if (!r.list[i].dir || dir) && r.list[i].glob.Match(rel) {
				return !r.list[i].neg
			}
		}
	}
	return false
}

// with adds the rules of one directory.
func (r *rules) with(base string, list []rule) *rules {
	if len(list) == 0 {
		return r
	}
	return &rules{base: base, list: list, up: r}
}

// frameRules gathers the rules that hold at the top of a repository: the user's own
// excludes file and .git/info/exclude.
func frameRules(top string) *rules {
	var r *rules
	if f := excludesFile(); f != "" {
		if b, err := os.ReadFile(f); err == nil {
			r = r.with("", parseIgnore(b))
		}
	}
	if b, err := os.ReadFile(filepath.Join(top, ".git", "info", "exclude")); err == nil {
		r = r.with("", parseIgnore(b))
	}
	return r
}

// excludesFile is git's core.excludesFile of the user, else git's default place for it.
func excludesFile() string {
	home := os.Getenv("HOME")
	conf := os.Getenv("XDG_CONFIG_HOME")
	if conf == "" && home != "" {
		conf = filepath.Join(home, ".config")
	}
	var files []string
	if home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}
	if conf != "" {
		files = append(files, filepath.Join(conf, "git", "config"))
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		section := ""
		for line := range strings.SplitSeq(string(b), "\n") {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "[") {
				section = strings.ToLower(strings.Trim(line, "[] \t"))
				continue
			}
			k, v, ok := strings.Cut(line, "=")
			if ok && section == "core" && strings.EqualFold(strings.TrimSpace(k), "excludesfile") {
				v = strings.Trim(strings.TrimSpace(v), `"`)
				if rest, ok := strings.CutPrefix(v, "~/"); ok {
					v = filepath.Join(home, rest)
				}
				return v
			}
		}
	}
	if conf == "" {
		return ""
	}
	return filepath.Join(conf, "git", "ignore")
}
