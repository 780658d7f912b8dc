package workspace

import (
	"strings"
	"unicode/utf8"
)

// Match says whether a slash-separated path matches a pattern: * and ? stay within one
// component, ** as a whole component stands for any number of them, [a-z] and [!a-z] are
// classes, {a,b} alternatives, \ quotes. A pattern without a slash matches the last
// component at any depth.
func Match(pattern, path string) bool { return CompileGlob(pattern).Match(path) }

// Glob is a compiled pattern, safe for use by several goroutines.
type Glob struct {
	alts []globAlt
}

type globAlt struct {
	base  bool // compared with the last component only
	parts []string
	lit   string // the pattern itself when it has no wildcard
	ext   string // "*.go": the suffix
}

// CompileGlob prepares a pattern for repeated use. Every string is a pattern: what is not
// well formed stands for itself.
func CompileGlob(pattern string) *Glob {
	g := &Glob{}
	for _, p := range expandBraces(pattern, 64) {
		p = strings.TrimPrefix(p, "./")
		p = strings.TrimSuffix(p, "/")
		base := !strings.Contains(p, "/")
		p = strings.TrimPrefix(p, "/")
		a := globAlt{base: base, parts: strings.Split(p, "/")}
		if !strings.ContainsAny(p, `*?[\`) {
			a.lit = p
		} else if base && strings.HasPrefix(p, "*") && !strings.ContainsAny(p[1:], `*?[\`) {
			a.ext = p[1:]
		}
		g.alts = append(g.alts, a)
	}
	return g
}

// Match says whether the path (relative, without leading slash) matches.
func (g *Glob) Match(path string) bool {
	for i := range g.alts {
		a := &g.alts[i]
		if a.base {
			name := path[strings.LastIndexByte(path, '/')+1:]
			switch {
			case a.lit != "":
				if name == a.lit {
					return true
				}
			case a.ext != "" || a.parts[0] == "*":
				if strings.HasSuffix(name, a.ext) {
					return true
				}
			case matchPart(a.parts[0], name):
				return true
			}
			continue
		}
		if a.lit != "" {
			if path == a.lit {
				return true
			}
			continue
		}
		if matchParts(a.parts, path) {
			return true
		}
	}
	return false
}

// matchParts matches whole components; "**" stands for any number of them.
func matchParts(pat []string, path string) bool {
	for len(pat) > 0 {
		if pat[0] == "**" {
			for len(pat) > 1 && pat[1] == "**" {
				pat = pat[1:]
			}
			if len(pat) == 1 {
				return path != ""
			}
			for {
				if matchParts(pat[1:], path) {
					return true
				}
				i := strings.IndexByte(path, '/')
				if i < 0 {
					return false
				}
				path = path[i+1:]
			}
		}
		if path == "" {
			return false
		}
		c, rest, more := strings.Cut(path, "/")
		if !matchPart(pat[0], c) {
			return false
		}
		pat = pat[1:]
		if !more {
			return len(pat) == 0
		}
		path = rest
	}
	return false
}

// matchPart matches one component, in time proportional to the product of the lengths.
func matchPart(pat, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		if p < len(pat) && pat[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n, w, ok := matchOne(pat[p:], s[i:]); ok {
			p, i = p+n, i+w
			continue
		}
		if star < 0 {
			return false
		}
		_, w := utf8.DecodeRuneInString(s[mark:])
		mark += w
		p, i = star+1, mark
	}
	for p < len(pat) && pat[p] == '*' {
		p++
	}
	return p == len(pat)
}

// matchOne matches one character: how much of the pattern and of the text it takes.
func matchOne(pat, s string) (n, w int, ok bool) {
	if pat == "" {
		return 0, 0, false
	}
	r, w := utf8.DecodeRuneInString(s)
	switch pat[0] {
	case '?':
		return 1, w, true
	case '\\':
		if len(pat) > 1 {
			q, n := utf8.DecodeRuneInString(pat[1:])
			return n + 1, w, q == r
		}
	case '[':
		if n, ok := matchClass(pat, r); n > 0 {
			return n, w, ok
		}
	}
	q, n := utf8.DecodeRuneInString(pat)
	return n, w, q == r && (r != utf8.RuneError || pat[0] == s[0])
}

// matchClass matches [a-z]; n is 0 when the pattern is no class.
func matchClass(pat string, r rune) (n int, ok bool) {
	i := 1
	neg := i < len(pat) && (pat[i] == '!' || pat[i] == '^')
	if neg {
		i++
	}
	hit := false
	for first := true; ; first = false {
		if i >= len(pat) {
			return 0, false
		}
		if pat[i] == ']' && !first {
			return i + 1, hit != neg
		}
		lo, n := classRune(pat[i:])
		i += n
		hi := lo
		if i+1 < len(pat) && pat[i] == '-' && pat[i+1] != ']' {
			hi, n = classRune(pat[i+1:])
			i += n + 1
		}
		if lo <= r && r <= hi {
			hit = true
		}
	}
}

func classRune(s string) (rune, int) {
	if s[0] == '\\' && len(s) > 1 {
		r, n := utf8.DecodeRuneInString(s[1:])
		return r, n + 1
	}
	return utf8.DecodeRuneInString(s)
}

// expandBraces turns a{b,c}d into abd and acd, at most limit of them.
func expandBraces(p string, limit int) []string {
	open := -1
	for i := 0; i < len(p); i++ {
		if p[i] == '\\' {
			i++
		} else if p[i] == '{' {
			open = i
			break
		}
	}
	if open < 0 {
		return []string{p}
	}
	depth, start := 0, open+1
	var alts []string
	for i := open; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 1 {
				alts = append(alts, p[start:i])
				start = i + 1
			}
		case '}':
			if depth--; depth == 0 {
				if alts == nil {
					return []string{p}
				}
				alts = append(alts, p[start:i])
				var out []string
				for _, a := range alts {
					for _, e := range expandBraces(p[:open]+a+p[i+1:], limit) {
						if out = append(out, e); len(out) >= limit {
							return out
						}
					}
				}
				return out
			}
		}
	}
	return []string{p}
}
