package policy

import (
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

// rule is a rule of the user, read.
type rule struct {
	text string // as written, without its examples
	tool string
	all  bool // no pattern: every call of the tool

	// of bash
	words   []string // the words that a command must begin with; star for any one word
	assigns []string // NAME=value that must stand before it
	exact   string   // the whole line, after "="

	// of others
	pattern string
	glob    *workspace.Glob

	ok, not []string // examples
}

// star stands for a * that is a word of its own.
const star = "\x00*"

// pathTools take a path argument, and patterns for it.
var pathTools = list{text: "read_file write_file edit_file create_directory list_files grep_files get_outline find_symbol"}

// parseRule reads "tool" or "tool(pattern)", perhaps followed by examples:
//
//	bash(git log *)  # ok: git log -3  # not: git -c x=y log
func parseRule(s string) (*rule, error) {
	bad := func(why, next string, a ...any) error {
		return core.Errorf(core.KindConfig, "rule %q: %s", s, why).Hint(next, a...)
	}
	r := &rule{}
	body := strings.TrimSpace(s)
	head, _, _ := strings.Cut(body, "(")
	exact := strings.HasPrefix(body[len(head):], "(=")
	if !exact {
		parts := strings.Split(body, " # ")
		for _, e := range parts[1:] {
			e = strings.TrimSpace(e)
			switch {
			case strings.HasPrefix(e, "ok:"):
				r.ok = append(r.ok, strings.TrimSpace(e[3:]))
			case strings.HasPrefix(e, "not:"):
				r.not = append(r.not, strings.TrimSpace(e[4:]))
			}
		}
		body = strings.TrimSpace(parts[0])
		head, _, _ = strings.Cut(body, "(")
	}
	r.text = body
	r.tool = strings.TrimSpace(head)
	if body == "" {
		return nil, bad("it is empty", "a rule is tool or tool(pattern), as bash(git status *)")
	}
	if !toolName(r.tool) {
		return nil, bad("it does not begin with the name of a tool", "a rule is tool or tool(pattern), as bash(git status *)")
	}
	if r.tool == body {
		r.all = true
		return r, nil
	}
	if !strings.HasSuffix(body, ")") {
		return nil, bad("the bracket is not closed", "a rule is tool or tool(pattern), as bash(git status *)")
	}
	pat := body[len(head)+1 : len(body)-1]
	if strings.TrimSpace(pat) == "" {
		return nil, bad("the pattern is empty", "write %s alone for every call", r.tool)
	}
	switch {
	case r.tool == "bash" && strings.HasPrefix(pat, "="):
		r.exact = strings.TrimSpace(pat[1:])
		if r.exact == "" {
			return nil, bad("the line after = is empty", "write bash alone for every call")
		}
	case r.tool == "bash":
		words, why := patternWords(pat)
		if why != "" {
			return nil, bad(why, "a bash pattern is words; a * stands for whole words, as bash(go test *)")
		}
		for len(words) > 0 && assignment(words[0]) {
			r.assigns = append(r.assigns, words[0])
			words = words[1:]
		}
		r.words = words
	case pathTools.has(r.tool):
		pat = strings.TrimSpace(pat)
		if strings.IndexByte(pat, 0) >= 0 {
			return nil, bad("it contains a NUL byte", "write the path as text")
		}
		for part := range strings.SplitSeq(pat, "/") {
			if part == ".." {
				return nil, bad("a pattern can't contain ..", "patterns are relative to the project, or absolute")
			}
		}
		r.pattern = pat
		r.glob = workspace.CompileGlob(anchored(strings.TrimPrefix(pat, "./")))
	case r.tool == "web_fetch":
		r.pattern = strings.TrimSpace(pat)
		if _, _, _, ok := splitURLPattern(r.pattern); !ok {
			return nil, bad("it is no address", "as web_fetch(https://go.dev/**) or web_fetch(go.dev)")
		}
	default:
		r.pattern = strings.TrimSpace(pat)
	}
	return r, nil
}

// anchored keeps a pattern without a slash from matching at any depth: the first component
// of pattern and path is a fixed one.
func anchored(p string) string {
	if strings.HasPrefix(p, "/") {
		return "abs" + p
	}
	return "rel/" + p
}

func toolName(s string) bool {
	if s == "" || len(s) > 2*core.MaxName {
		return false
	}
	for i, c := range s {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && (c == '-' || c == '.' || c >= '0' && c <= '9')) {
			return false
		}
	}
	return true
}

func assignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && syntax.ValidName(name)
}

// patternWords splits a bash pattern. Quotes and backslashes work as in a shell; a bare *
// at the end, also right after the last word, adds nothing: more arguments are always
// allowed.
func patternWords(pat string) (words []string, why string) {
	var b strings.Builder
	started, bare, stars := false, false, 0
	flush := func() bool {
		if !started {
			return true
		}
		w := b.String()
		switch {
		case bare && stars > 0 && w == "*":
			w = star
		case stars > 0:
			return false
		}
		words = append(words, w)
		b.Reset()
		started, bare, stars = false, false, 0
		return true
	}
	pat = strings.TrimSpace(pat)
	for i := 0; i < len(pat); i++ {
		c := pat[i]
		switch {
		case c == 0 || c == '\n' || c == '\r':
			return nil, "it contains a control character"
		case c == ' ' || c == '\t':
			if !flush() {
				return nil, "a * stands for whole words, never for a part of one"
			}
		case c == '\'' || c == '"':
			j := strings.IndexByte(pat[i+1:], c)
			if j < 0 {
				return nil, "a quote is not closed"
			}
			started = true
			b.WriteString(pat[i+1 : i+1+j])
			i += j + 1
		case c == '\\':
			if i+1 >= len(pat) {
				return nil, "it ends with a backslash"
			}
			i++
			started = true
			b.WriteByte(pat[i])
		case c == '*':
			if i == len(pat)-1 && started && stars == 0 { // git status* is git status *
				if !flush() {
					return nil, "a * stands for whole words, never for a part of one"
				}
				return words, ""
			}
			if !started {
				bare = true
			}
			started = true
			stars++
			b.WriteByte(c)
		case strings.IndexByte(";&|<>()`$", c) >= 0:
			return nil, "a bash pattern is one simple command; quote " + string(c) + " if it is meant as text"
		default:
			started = true
			bare = false
			b.WriteByte(c)
		}
	}
	if !flush() {
		return nil, "a * stands for whole words, never for a part of one"
	}
	for len(words) > 0 && words[len(words)-1] == star {
		words = words[:len(words)-1] // more arguments are always allowed
	}
	return words, ""
}

// answer is how surely a rule matches.
type answer int

const (
	no answer = iota
	maybe
	yes
)

// allows says whether an allow rule covers a command: every word of the pattern is there
// as a plain word, and what runs other code is spelled out.
func (r *rule) allows(c *command) bool {
	if r.all {
		return true
	}
	if r.exact != "" || len(c.words) == 0 || len(c.words) < len(r.words) {
		return false
	}
	for i, pw := range r.words {
		x := c.words[i]
		if pw == star {
			if !x.one || i == 0 {
				return false
			}
			continue
		}
		if !x.known || x.text != pw {
			return false
		}
	}
	if !c.words[0].known || c.words[0].text == "" {
		return false // the program itself must be known
	}
	if at := codeAt(c.words); at >= 0 && !r.spells(at) {
		return false
	}
	return r.assigned(c)
}

// spells says whether the pattern has a literal word at position at.
func (r *rule) spells(at int) bool { return at < len(r.words) && r.words[at] != star }

// assigned says whether the assignments before a command are those of the pattern or
// change nothing that matters.
func (r *rule) assigned(c *command) bool {
	for _, want := range r.assigns {
		found := false
		for _, a := range c.assigns {
			found = found || a.plain && a.value.known && a.name+"="+a.value.text == want
		}
		if !found {
			return false
		}
	}
	for _, a := range c.assigns {
		if !a.plain || !a.value.whole() {
			return false
		}
		named := false
		for _, want := range r.assigns {
			named = named || a.value.known && a.name+"="+a.value.text == want
		}
		if !named && !tameVariable(a.name) {
			return false
		}
	}
	return true
}

// touches says whether a deny or ask rule meets a command. It is as wide as allows is
// narrow: the folder of the program does not matter, options may stand in any order and
// may be written together, and what is not known may match.
func (r *rule) touches(c *command) answer {
	if r.all {
		return yes
	}
	if r.exact != "" || len(c.words) == 0 {
		return no
	}
	if len(r.words) == 0 {
		return yes
	}
	if a := r.inOrder(c); a != no {
		return a
	}
	return r.anyOrder(c)
}

func (r *rule) inOrder(c *command) answer {
	a := yes
	for i, pw := range r.words {
		if i >= len(c.words) {
			return no
		}
		x := c.words[i]
		if !x.one && !x.whole() { // it may be any number of words
			return maybe
		}
		if pw == star {
			continue
		}
		switch t := x.text; {
		case !x.whole():
			a = maybe
		case t == pw, i == 0 && (base(t) == pw || base(t) == base(pw) && !strings.Contains(t, "/")):
		default:
			return no
		}
	}
	return a
}

// anyOrder compares plain words in order and options as a set, -rf as -r -f.
func (r *rule) anyOrder(c *command) answer {
	flags := false
	for _, pw := range r.words {
		flags = flags || strings.HasPrefix(pw, "-") && len(pw) > 1
	}
	if !flags {
		return no
	}
	var plain []word
	have := map[string]bool{}
	for i, x := range c.words {
		if i > 0 && strings.HasPrefix(x.text, "-") && len(x.text) > 1 {
			for _, f := range flagSet(x.text) {
				have[f] = true
			}
			continue
		}
		plain = append(plain, x)
	}
	var rest []string
	for i, pw := range r.words {
		if i > 0 && pw != star && strings.HasPrefix(pw, "-") && len(pw) > 1 {
			for _, f := range flagSet(pw) {
				if !have[f] {
					return no
				}
			}
			continue
		}
		rest = append(rest, pw)
	}
	return (&rule{words: rest}).inOrder(&command{words: plain})
}

func flagSet(s string) []string {
	if strings.HasPrefix(s, "--") {
		return []string{s}
	}
	for _, c := range s[1:] {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return []string{s}
		}
	}
	out := []string{s}
	for _, c := range s[1:] {
		out = append(out, "-"+string(c))
	}
	if len(s) > 2 {
		return out[1:]
	}
	return out[:1]
}

// mentions says whether the words of a bash pattern stand in a text, in order: the last
// resort for code that the shell's parser does not see.
func (r *rule) mentions(tokens []string) bool {
	if r.all {
		return true
	}
	if len(r.words) == 0 {
		return r.exact == ""
	}
	i := 0
	for _, t := range tokens {
		for i < len(r.words) && r.words[i] == star {
			i++
		}
		if i < len(r.words) && (t == r.words[i] || i == 0 && base(t) == r.words[i]) {
			i++
		}
	}
	for i < len(r.words) && r.words[i] == star {
		i++
	}
	return i == len(r.words)
}

// tokens are the words of a text whose quotes and backslashes are taken away.
func tokens(s string) []string {
	s = strings.NewReplacer(`\`, "", `'`, "", `"`, "", "`", " ").Replace(s)
	joined := strings.FieldsFunc(s, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-./+@:=", c)
	})
	return joined
}

// path says whether a path pattern matches a place.
func (r *rule) path(pl workspace.Place, dir string) bool {
	if r.all {
		return true
	}
	if r.glob == nil {
		return false
	}
	if r.glob.Match("abs" + pl.Abs) {
		return true
	}
	rel, err := filepath.Rel(dir, pl.Abs)
	return err == nil && filepath.IsLocal(rel) && r.glob.Match("rel/"+rel)
}

// splitURLPattern takes https://host/path, host/path or host apart.
func splitURLPattern(p string) (scheme, host, path string, ok bool) {
	rest := p
	if i := strings.Index(p, "://"); i >= 0 {
		scheme, rest = strings.ToLower(p[:i]), p[i+3:]
		if scheme != "http" && scheme != "https" {
			return "", "", "", false
		}
	}
	host, path, _ = strings.Cut(rest, "/")
	host = strings.ToLower(host)
	if strings.HasPrefix(host, "*.") {
		ok = !strings.Contains(host[2:], "*") && host[2:] != ""
	} else {
		ok = host != "" && !strings.Contains(host, "*")
	}
	if host == "*" || host == "**" {
		ok = true
	}
	return scheme, host, path, ok && !strings.ContainsAny(host, "@ \\?#")
}

// address says whether an address matches. loose is for deny and ask rules: neither
// scheme nor port nor a final dot make a difference.
func (r *rule) address(s string, loose bool) bool {
	if r.all {
		return true
	}
	scheme, host, path, _ := splitURLPattern(r.pattern)
	u, err := url.Parse(s)
	if err != nil {
		return loose && strings.Contains(strings.ToLower(s), strings.TrimPrefix(host, "*."))
	}
	got := strings.ToLower(u.Host)
	if loose {
		got = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		host, _, _ = strings.Cut(host, ":")
	} else {
		if u.User != nil || u.Opaque != "" || scheme != "" && !strings.EqualFold(u.Scheme, scheme) ||
			!in(strings.ToLower(u.Scheme), "http", "https") || strings.ContainsAny(s, "\\\t\r\n ") {
			return false
		}
		got = strings.TrimSuffix(got, map[string]string{"http": ":80", "https": ":443"}[strings.ToLower(u.Scheme)])
	}
	switch {
	case host == "*" || host == "**":
	case strings.HasPrefix(host, "*."):
		if !strings.HasSuffix(got, host[1:]) || got == host[1:] {
			return false
		}
	case got != host:
		return false
	}
	if path == "" || path == "**" {
		return true
	}
	clean := strings.TrimPrefix(filepath.Clean("/"+u.Path), "/")
	if !loose && strings.Contains(u.EscapedPath(), "%2") {
		return false // an encoded slash or dot: not the path that it seems
	}
	return workspace.Match("u/"+path, "u/"+clean)
}

// wild matches a text: * stands for any run of characters.
func wild(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}
