package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// reader is a program that only reads, and what to mind about it. Everything that is not
// in the table is not harmless.
type reader struct {
	// flags are the short options, alone or in a cluster, that make it do more.
	flags string
	// long are its long options that make it do more; abbreviations count.
	long []string
	// values are the short options whose value may be the next word.
	values string
	// text: its operands are text, not paths.
	text bool
	// pattern: its first operand is a pattern, not a path, unless one of these short
	// options gave it.
	pattern string
	// max is the number of operands it may have, 0 for any.
	max int
	// check judges the arguments instead of all that.
	check func(h *harm) bool
	// ok and not are arguments that must and must not pass; a test holds them.
	ok, not []string
}

// harm is the judging of one command.
type harm struct {
	p    *Policy
	l    *line
	c    *command
	args []word
}

var anyArgs = &reader{}
var anyText = &reader{text: true}

// readers is the fixed list of harmless reading commands.
var readers = sync.OnceValue(func() map[string]*reader {
	m := map[string]*reader{
		"cat":  {ok: []string{"a.txt", "-n a.txt b.txt", "*.txt"}, not: []string{"/etc/passwd", "../x", "~/.ssh/id_rsa", "$f"}},
		"head": {values: "nc", ok: []string{"-n 5 a.txt", "-20 a.txt"}, not: []string{"/etc/passwd"}},
		"tail": {values: "nc", ok: []string{"-n 5 a.txt", "-f a.txt"}, not: []string{"/etc/passwd"}},
		"ls":   {values: "IwT", ok: []string{"", "-la", "-la sub", "*.go"}, not: []string{"/", "..", "-la /root", "~"}},
		"dir":  anyArgs, "vdir": anyArgs, "wc": {ok: []string{"-l a.txt", "-l *.go"}, not: []string{"--files0-from=/etc/x"}},
		"tac": anyArgs, "nl": anyArgs, "rev": anyArgs, "cut": {values: "bcdf", ok: []string{"-d: -f1 a.txt", "-d / -f 1"}, not: []string{"-f1 /etc/passwd"}},
		"fold": anyArgs, "fmt": anyArgs, "paste": {values: "d"}, "join": {values: "t"}, "expand": anyArgs, "unexpand": anyArgs,
		"column": {values: "s"}, "od": anyArgs, "hexdump": anyArgs, "strings": {check: (*harm).strings, ok: []string{"a.txt", "-n 8 a.txt"}, not: []string{"@a.txt", "/etc/passwd"}}, "comm": anyArgs, "cmp": anyArgs,
		"md5sum": anyArgs, "sha1sum": anyArgs, "sha224sum": anyArgs, "sha256sum": anyArgs, "sha384sum": anyArgs, "sha512sum": anyArgs,
		"b2sum": anyArgs, "cksum": anyArgs, "sum": anyArgs, "base64": {values: "w"}, "base32": {values: "w"},
		"stat": {values: "c"}, "readlink": anyArgs, "realpath": anyArgs, "df": anyArgs,
		"du":       {flags: "LX", long: []string{"--dereference", "--files0-from", "--exclude-from"}, values: "dB", ok: []string{"-sh .", "-d 1"}, not: []string{"-sh /", "-L x"}},
		"tr":       anyText,
		"basename": anyText, "dirname": anyText, "seq": anyText, "true": anyText, "false": anyText, ":": anyText,
		"echo": {text: true, ok: []string{"hello", "/etc/passwd", `"$HOME"`, "$(ls)", "*.txt"}, not: []string{"$(touch x)", "x > f", "/root/.*", "../*", "/*"}},
		"pwd":  anyText, "whoami": anyText, "id": anyText, "groups": anyText, "uname": anyText, "arch": anyText, "nproc": anyText,
		"uptime": anyText, "free": anyText, "which": anyText, "type": anyText,
		"hostname": {check: none, ok: []string{""}, not: []string{"evil", "-F a.txt"}},
		"ps":       {check: exactly("", "aux", "-ef", "-e", "-A", "ax", "-aux"), ok: []string{"", "aux"}, not: []string{"auxe", "eww"}},
		"grep": {flags: "RP", long: []string{"--dereference-recursive", "--perl-regexp"}, values: "ABCmefdD", pattern: "ef",
			ok: []string{"-rn foo .", "-A 3 /api/v1 src", `"a|b" a.txt`, "-e x -e y a.txt"}, not: []string{"-R x .", "x /etc/passwd", "-f /etc/passwd a.txt", "-rf/etc/passwd ."}},
		"egrep": {flags: "RP", long: []string{"--dereference-recursive"}, values: "ABCmefdD", pattern: "ef"},
		"fgrep": {flags: "RP", long: []string{"--dereference-recursive"}, values: "ABCmefdD", pattern: "ef"},
		"rg": {flags: "Lz", long: []string{"--pre", "--hostname-bin", "--follow", "--search-zip", "--ignore-file"}, values: "ABCmefgtTjEMr", pattern: "ef",
			ok: []string{"foo", "-n foo src", "--files", "-g '*.go' x"}, not: []string{"--pre=sh x", "--pre sh x", "-L x", "-nz x", "x /etc", "x *"}},
		"find": {check: (*harm).find, ok: []string{"", ".", ". -name '*.go'", `. \( -name a -o -name b \) -print`, "src -type f -maxdepth 2"},
			not: []string{"/ -name x", ". -delete", `. -exec rm {} \;`, ". -execdir ls +", ". -ok rm x", ". -fprint x", ". -fprintf x y", ". -fls x", "-L .", "*", ". -newerXX"}},
		"fd": {flags: "xXL", long: []string{"--exec", "--exec-batch", "--follow", "--search-path", "--base-directory"}, values: "edEtSc", pattern: "",
			ok: []string{"foo", "-e go"}, not: []string{"-x rm", "foo --exec rm", "-HX rm", "-L x"}},
		"sort": {flags: "oT", long: []string{"--output", "--compress-program", "--temporary-directory", "--files0-from", "--random-source"}, values: "ktS",
			ok: []string{"", "-u a.txt", "-k 2 -n", "-t / -k 2"}, not: []string{"-o out a.txt", "-oout a.txt", "-uo a.txt b.txt", "--outp=x a", "--compress-program=sh a", "--comp sh a", "*.txt", "-T /tmp a"}},
		"uniq": {values: "fsw", max: 1, ok: []string{"", "-c", "a.txt", "-f 1"}, not: []string{"a.txt b.txt", "-c a.txt b.txt"}},
		"diff": {flags: "lX", long: []string{"--paginate", "--to-file", "--from-file", "--exclude-from"}, values: "UCIxFD",
			ok: []string{"a.txt b.txt", "-u a.txt b.txt"}, not: []string{"a.txt /etc/passwd", "-l a b", "-X /etc/passwd a.txt b.txt", "-uX a.txt a b", "--exclude-f=a.txt a b"}},
		"file": {flags: "CmfzZ", long: []string{"--compile", "--magic-file", "--files-from"}, ok: []string{"a.txt", "-b a.txt"}, not: []string{"-C -m x", "-bC", "--comp"}},
		"tree": {flags: "oRl", long: []string{"--fromfile", "--fromtabfile", "--gitfile", "--infofile"}, values: "LPI", ok: []string{"-L 2", "src"}, not: []string{"-o x", "-ao x", "-R -L 2", "/"}},
		"jq":   {check: (*harm).jq, ok: []string{".a a.json", "-r '.[] | .x' a.json"}, not: []string{". /etc/passwd", "-f/etc/passwd .", "-f /etc/passwd", `-n 'import "/x" as $d; $d'`, "-n 'include \"x\"; 1'"}},
		"xxd":  {flags: "r", long: []string{"-revert"}, values: "lsc", max: 1, ok: []string{"a.txt", "-l 16 a.txt"}, not: []string{"a.txt b.txt", "-r a.txt"}},
		"sed":  {check: (*harm).sed, ok: []string{"-n 1,20p a.txt", "-n '/foo/,/bar/p' a.txt", "-n '$p' a.txt", "-n -e 3p a.txt", "5q a.txt"}, not: []string{"-i s/a/b/ a.txt", "-n '1w out' a.txt", "-n '1e touch x' a.txt", "-n 's/a/b/w out' a.txt", "-n 's/x/y/e' a.txt", "-n 1p /etc/passwd", "-f script a.txt", "-n -i 1p a.txt", "-ni 1p a.txt", "-n '1r x' a.txt"}},
		"date": {check: (*harm).date, ok: []string{"", "+%s", "-u", "-u +%Y", "-d yesterday", "--iso-8601"}, not: []string{"-s now", "--set=now", "010112002020", "-us now", "--se=now"}},
		"test": {check: (*harm).test, ok: []string{"-f a.txt", "a = b", `-n "$x"`, `-f "$x"`, "! -e x", "3 -gt 2", "-z /etc"}, not: []string{"-f /etc/passwd", "-d ~/.ssh", "a.txt -nt ../b", "-v 'a[$(touch x)]'", "-R x", `"$a" "$b" c`, "-v x", "$x"}},
		"[":    {check: (*harm).bracket, ok: []string{"-f a.txt ]", `"$a" = b ]`}, not: []string{"-v 'a[$(touch x)]' ]", "-f x"}},
		"printf": {check: (*harm).printf, ok: []string{`'%s\n' a`, "-- x"},
			not: []string{"-v x hi", "-v 'a[$(touch x)]' hi", "$f x", "'%s ' /etc/*"}},
		"cd":   {check: (*harm).cd, ok: []string{"sub", "."}, not: []string{"", "..", "/", "-", "~", "$x"}},
		"read": {check: (*harm).read, ok: []string{"x", "-r line"}, not: []string{"PATH", "'a[$(touch x)]'", "-a x", "-u 3 x", "$x", ""}},
		"set":  {check: (*harm).set, ok: []string{"-e", "-euo pipefail", "-o pipefail", "+x"}, not: []string{"", "-- a", "-m", "-o monitor", "-a", "-k"}},
		"exit": {check: number, ok: []string{"", "1"}, not: []string{"'a[$(touch x)]'"}}, "return": {check: number}, "break": {check: number}, "continue": {check: number},
		"command": {check: (*harm).commandV, ok: []string{"-v go"}, not: []string{"rm x", "-p ls", ""}},
		"sleep":   {check: seconds, ok: []string{"1", "0.5"}, not: []string{"infinity", "100", ""}},
		"git": {check: (*harm).git,
			ok: []string{"status", "status -sb", "log --oneline -5", "log -p -- a.txt", "diff", "diff HEAD~1 -- a.txt", "show HEAD", "branch", "branch -a", "branch --show-current", "tag", "tag -l 'v*'", "remote -v", "stash list",
				"ls-files", "blame a.txt", "grep foo", "diff main..topic", "diff origin/main...HEAD -- a.txt", "log -SOops", "log --since=yesterday --format=%h", "show :/fix", "diff a.txt sub", "log -- 'sub/*.go'", "rev-parse HEAD", "--no-pager log", "config --get user.name", "config user.name", "config --list", "--version", "reflog", "worktree list", "show HEAD:a.txt", "show stash@{0}"},
			not: []string{"", "commit -m x", "commit --amend -m y", "branch x", "branch -v x", "branch -D x", "branch -m a b", "branch --edit-description", "tag v1", "tag -d v1", "tag -a v1 -m x", "remote add a b", "remote update", "stash", "stash pop",
				"log --output=x", "log --outp=x", "diff --output x", "show --output=x", "diff --ext-diff", "log --ext-diff", "grep -O foo", "grep -nOless foo", "grep --open-files-in-pager=sh foo", "-c core.pager=x log", "-c alias.x='!sh' x", "-C .. status", "--exec-path=/x status",
				"--git-dir=/x status", "-p log", "config user.name x", "config --unset a", "config --global a b", "config -e", "push", "fetch", "pull", "checkout .", "reset --hard", "diff --no-index a /etc/passwd", "diff /etc/shadow a.txt", "diff a.txt /root/.bashrc", "diff -- /etc/hostname a.txt", "diff ../srv.py a.txt", "diff sub/../../x a.txt", "diff ~/.bashrc a.txt", "-C sub diff ../../x a.txt",
				"blame -S /etc/shadow a.txt", "blame -S/etc/shadow a.txt", "log -O/etc/passwd", "log -pO/etc/passwd", "diff -O /etc/passwd", "ls-files -X /etc/passwd", "ls-files -X/etc/passwd", "ls-files --exclude-from=/etc/passwd", "ls-files --exclude-f=a", "log --pathspec=/etc/x", "rev-parse --resolve-git-dir /x", "diff /etc/* a.txt", "stash show -O/etc/passwd", "grep --no-index x /etc", "reflog expire --all", "reflog delete x",
				"worktree add x", "difftool", "help log", "x", "submodule status", "$x", "branch $x", "rebase -i", "update-index", "archive HEAD", "ls-remote", "cat-file --textconv HEAD:a", "cat-file --filters HEAD:a", "symbolic-ref HEAD refs/heads/x", "notes add", "bisect start", "-- status"}},
		"node": {check: version, ok: []string{"--version", "-v"}, not: []string{"", "x.js", "-e x", "--version x"}}, "python3": {check: version, not: []string{"-c x", "x.py", ""}}, "python": {check: version}, "gcc": {check: version}, "clang": {check: version},
	}
	m["fdfind"] = m["fd"]
	m["tree"].ok = append(m["tree"].ok, "")
	return m
})

// harmless says whether a command is on the fixed list with arguments that only read.
func (p *Policy) harmless(l *line, c *command) bool {
	if c.judged == maybe { // not judged yet
		c.judged = no
		if p.reads(l, c) {
			c.judged = yes
		}
	}
	return c.judged == yes
}

func (p *Policy) reads(l *line, c *command) bool {
	if c.bg {
		return false
	}
	for _, a := range c.assigns {
		if !tameAssignment(c, a) {
			return false
		}
	}
	if len(c.words) == 0 {
		return true
	}
	r := readers()[c.name()]
	if r == nil {
		return false
	}
	h := &harm{p: p, l: l, c: c, args: c.words[1:]}
	for _, x := range h.args {
		if x.glob != "" && !h.path(x) {
			return false // the names of files outside are none of its business either
		}
	}
	if p.rulesOnReading() && searches(c) && !h.inside(".") {
		return false
	}
	if r.check != nil {
		return r.check(h)
	}
	return h.table(r)
}

// tameAssignment: a bare assignment to a lower-case name, or a variable before a command
// that changes nothing but how it prints.
func tameAssignment(c *command, a assign) bool {
	if !a.plain || a.value.odd {
		return false
	}
	if len(c.words) > 0 {
		return tameVariable(a.name) && a.value.known
	}
	for i := 0; i < len(a.name); i++ {
		if b := a.name[i]; b >= 'A' && b <= 'Z' {
			return false
		}
	}
	if strings.HasSuffix(a.name, "_proxy") || in(a.name, "auto_resume", "histchars") {
		return false
	}
	return true // where it is used, its value counts
}

// tameVariable: variables that change neither what runs nor what is read or written.
func tameVariable(name string) bool {
	return strings.HasPrefix(name, "LC_") || in(name, "LANG", "LANGUAGE", "TZ", "NO_COLOR", "CLICOLOR", "FORCE_COLOR",
		"COLUMNS", "LINES", "TERM", "CI", "DEBUG", "VERBOSE", "GOOS", "GOARCH", "CGO_ENABLED", "GOMAXPROCS", "GO111MODULE",
		"NODE_ENV", "RUST_BACKTRACE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PORT")
}

// searches says whether a command reads the directory that it runs in when no other is
// named.
func searches(c *command) bool {
	name := c.name()
	recursive := name == "rg"
	operands := 0
	for _, x := range c.words[1:] {
		switch {
		case !strings.HasPrefix(x.text, "-"):
			operands++
		case in(name, "grep", "egrep", "fgrep") && (x.text == "--recursive" || !strings.HasPrefix(x.text, "--") && strings.Contains(x.text, "r")):
			recursive = true
		case x.text == "--files" || strings.HasPrefix(x.text, "-e"):
			operands++
		}
	}
	return recursive && operands <= 1
}

// table judges arguments by the fields of a reader.
func (h *harm) table(r *reader) bool {
	guarded := r.flags != "" || r.long != nil || r.max > 0
	operands, ended, given := 0, false, r.pattern == ""
	if r.pattern == "\x00" {
		r = &reader{flags: r.flags, long: r.long, values: r.values}
		given = false
	}
	for i := 0; i < len(h.args); i++ {
		x := h.args[i]
		if x.odd {
			return false
		}
		option := !ended && strings.HasPrefix(x.text, "-") && len(x.text) > 1
		if !ended && guarded && !x.known && (x.text == "" || x.glob == "" && strings.HasPrefix(x.text, hole) || strings.ContainsAny(x.text[:1], "*?[-"+hole)) {
			return false // it may turn out to be an option
		}
		if option && x.text == "--" {
			ended = true
			continue
		}
		if option {
			if strings.HasPrefix(x.text, "--") {
				name, _, eq := strings.Cut(x.text, "=")
				for _, l := range r.long {
					if strings.HasPrefix(l, name) {
						return false
					}
				}
				if in(name, "--regexp", "--file") {
					given = true
				}
				if eq && !r.text && !in(name, "--include", "--exclude", "--exclude-dir", "--glob", "--color", "--format", "--regexp", "--sort", "--time-style", "--label", "--delimiter", "--separator") && !h.path(x) {
					return false
				}
				continue
			}
			if !x.known && !x.whole() {
				return false
			}
			for j := 1; j < len(x.text); j++ {
				b := x.text[j]
				if strings.IndexByte(r.flags, b) >= 0 {
					return false
				}
				if r.pattern != "" && strings.IndexByte(r.pattern, b) >= 0 {
					given = true
				}
				if strings.IndexByte(r.values, b) >= 0 {
					value := word{text: x.text[j+1:], known: true, one: true}
					if value.text == "" {
						if i++; i >= len(h.args) {
							break
						}
						value = h.args[i]
						if !value.known {
							return false
						}
					}
					if b == 'f' && r.pattern != "" && !h.path(value) {
						return false
					}
					break
				}
			}
			if !r.text && r.values == "" && !h.path(x) {
				return false
			}
			continue
		}
		operands++
		if !given {
			given = true
			if x.one || !guarded {
				continue
			}
			return false
		}
		if !r.text && !h.path(x) {
			return false
		}
	}
	return r.max == 0 || operands <= r.max
}

// path says whether a word, taken as a path or as an option with one, stays inside the
// project whatever its unknown parts are.
func (h *harm) path(x word) bool {
	if x.fd {
		return true
	}
	if x.odd || x.substituted {
		return false
	}
	t := x.text
	if strings.HasPrefix(t, "-") && x.glob == "" {
		switch {
		case strings.HasPrefix(t, "--"):
			_, v, ok := strings.Cut(t, "=")
			if !ok {
				return true
			}
			t = v
		case len(t) > 2:
			t = t[2:]
		default:
			return true
		}
	}
	if t == "" {
		return true
	}
	if x.glob != "" {
		return h.matches(x)
	}
	if strings.Contains(t, hole) {
		return h.partly(x, t)
	}
	return h.inside(t)
}

// inside says whether a literal path leads into the project from every directory that the
// command may run in.
func (h *harm) inside(t string) bool {
	if in(t, "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "-") {
		return true
	}
	if h.c.lost && !filepath.IsAbs(t) {
		return false
	}
	for _, base := range h.c.cwds {
		pl, err := h.p.locate(h.l, base, t)
		if err != nil || !pl.Inside || pl.Home {
			return false
		}
		if h.p.rulesOnReading() {
			if h.p.pathRule(h.p.deny, readTools, pl) != nil || h.p.pathRule(h.p.ask, readTools, pl) != nil {
				return false
			}
			if fi, err := os.Stat(pl.Abs); err == nil && fi.IsDir() {
				return false // what it would read below is not known
			}
		}
	}
	return true
}

// rulesOnReading says whether a deny or ask rule is about reading files.
func (p *Policy) rulesOnReading() bool {
	for _, rules := range [][]*rule{p.deny, p.ask} {
		for _, r := range rules {
			if readTools.has(r.tool) {
				return true
			}
		}
	}
	return false
}

// partly judges a path with the value of a loop's variable in it: the values were judged
// on their own, so the variable must stand as whole components and nothing goes up.
func (h *harm) partly(x word, t string) bool {
	if len(x.vars) == 0 || x.glob != "" {
		return false
	}
	for i := 0; i < len(t); i++ {
		if t[i] == 0 && (i > 0 && t[i-1] != '/' || i+1 < len(t) && t[i+1] != '/') {
			return false
		}
	}
	fixed := strings.ReplaceAll(t, hole, "x")
	if strings.HasPrefix(t, "/") || strings.Contains("/"+fixed+"/", "/../") {
		return false
	}
	if i := strings.IndexByte(t, 0); i > 0 {
		return h.inside(strings.TrimSuffix(t[:i], "/"))
	}
	return true
}

// matches judges a word with wildcards by the files that it stands for now.
func (h *harm) matches(x word) bool {
	if h.c.lost || strings.Contains("/"+x.text+"/", "/../") {
		return false
	}
	for _, base := range h.c.cwds {
		list, ok := h.p.expand(h.l, base, x.glob)
		if !ok {
			return false
		}
		for _, m := range list {
			if !h.inside(m) {
				return false
			}
		}
	}
	return true
}

// known says whether every argument is a plain literal.
func (h *harm) known() bool {
	for _, x := range h.args {
		if !x.known {
			return false
		}
	}
	return true
}

// jq reads files by modules too.
func (h *harm) jq() bool {
	for _, x := range h.args {
		if strings.Contains(x.text, "import") || strings.Contains(x.text, "include") {
			return false
		}
	}
	return h.table(&reader{flags: "Lf", long: []string{"--from-file", "--slurpfile", "--rawfile", "--argfile"}, pattern: "\x00"})
}

// strings takes options from @FILE.
func (h *harm) strings() bool {
	for _, x := range h.args {
		if strings.HasPrefix(x.text, "@") || !x.known && (x.text == "" || strings.ContainsAny(x.text[:1], "*?["+hole)) {
			return false
		}
	}
	return h.table(&reader{})
}

func none(h *harm) bool { return len(h.args) == 0 }

func exactly(lists ...string) func(*harm) bool {
	return func(h *harm) bool {
		var got []string
		for _, x := range h.args {
			got = append(got, x.text)
		}
		return h.known() && in(strings.Join(got, " "), lists...)
	}
}

func version(h *harm) bool {
	return len(h.args) == 1 && h.known() && in(h.args[0].text, "--version", "-v", "-V") && !(h.args[0].text == "-v" && h.c.name() != "node")
}

func number(h *harm) bool {
	return len(h.args) == 0 || len(h.args) == 1 && h.known() && digits(h.args[0].text)
}

func seconds(h *harm) bool {
	if len(h.args) != 1 || !h.known() {
		return false
	}
	whole, frac, dot := strings.Cut(h.args[0].text, ".")
	return len(whole) <= 2 && (digits(whole) || whole == "" && dot) && (!dot || digits(frac))
}

func (h *harm) commandV() bool {
	return len(h.args) >= 2 && h.known() && in(h.args[0].text, "-v", "-V")
}

func (h *harm) set() bool {
	if len(h.args) == 0 || !h.known() {
		return false
	}
	for i := 0; i < len(h.args); i++ {
		t := h.args[i].text
		if len(t) < 2 || t[0] != '-' && t[0] != '+' {
			return false
		}
		for j, b := range t[1:] {
			switch b {
			case 'e', 'u', 'x', 'f', 'n', 'v':
			case 'o':
				if j != len(t)-2 || i+1 >= len(h.args) || !in(h.args[i+1].text, "pipefail", "errexit", "nounset", "xtrace") {
					return false
				}
				i++
			default:
				return false
			}
		}
	}
	return true
}

func (h *harm) read() bool {
	names := 0
	for _, x := range h.args {
		switch {
		case !x.known:
			return false
		case x.text == "-r":
		default:
			names++
			for i := 0; i < len(x.text); i++ {
				if b := x.text[i]; !(b >= 'a' && b <= 'z' || b == '_' || i > 0 && b >= '0' && b <= '9') {
					return false
				}
			}
			if x.text == "" || strings.HasSuffix(x.text, "_proxy") {
				return false
			}
		}
	}
	return names > 0
}

func (h *harm) cd() bool {
	args := h.args
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	return len(args) == 1 && args[0].known && args[0].text != "" && !strings.HasPrefix(args[0].text, "-") && h.inside(args[0].text)
}

func (h *harm) printf() bool {
	return len(h.args) > 0 && (h.args[0].known || !strings.HasPrefix(h.args[0].text, "-") && !strings.HasPrefix(h.args[0].text, hole)) &&
		(!strings.HasPrefix(h.args[0].text, "-") || h.args[0].text == "--")
}

func (h *harm) date() bool {
	for i := 0; i < len(h.args); i++ {
		x := h.args[i]
		t := x.text
		switch {
		case !x.known:
			return false
		case strings.HasPrefix(t, "+"):
		case in(t, "-u", "-R", "-I", "--utc", "--universal", "--rfc-email", "--iso-8601"), strings.HasPrefix(t, "-I"),
			strings.HasPrefix(t, "--iso-8601="), strings.HasPrefix(t, "--rfc-3339="), strings.HasPrefix(t, "--date="):
		case in(t, "-d", "--date"):
			i++
			if i < len(h.args) && !h.args[i].known {
				return false
			}
		case t == "-r":
			if i++; i < len(h.args) && !h.path(h.args[i]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (h *harm) bracket() bool {
	n := len(h.args)
	if n == 0 || !h.args[n-1].known || h.args[n-1].text != "]" {
		return false
	}
	h.args = h.args[:n-1]
	return h.test()
}

// test allows forms whose operators are plain words: -v and -R evaluate their operand.
func (h *harm) test() bool {
	args := h.args
	for len(args) > 1 && args[0].known && args[0].text == "!" {
		args = args[1:]
	}
	for _, x := range args {
		if x.odd || !x.one {
			return false
		}
	}
	switch len(args) {
	case 0:
		return true
	case 1:
		return args[0].one
	case 2:
		if (args[1].known || leadsOut(args[1].text)) && args[0].known && !in(args[0].text, "-z", "-n", "-t") && !h.path(args[1]) {
			return false
		}
		return args[0].known && in(args[0].text, "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-z", "-n", "-L", "-h", "-p", "-S", "-b", "-c", "-g", "-u", "-k", "-O", "-G", "-N", "-t")
	case 3:
		if args[1].known && in(args[1].text, "-nt", "-ot", "-ef") && !(h.path(args[0]) && h.path(args[2])) {
			return false
		}
		return args[1].known && in(args[1].text, "=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge")
	}
	return false
}

// find knows the tests and actions that only look.
func (h *harm) find() bool {
	expr := false
	for i := 0; i < len(h.args); i++ {
		x := h.args[i]
		t := x.text
		switch {
		case !expr && !strings.HasPrefix(t, "-") && !in(t, "(", "!", ","):
			if x.odd || t == "" || !x.known && strings.ContainsAny(t[:1], "*?["+hole) || !h.path(x) {
				return false
			}
			continue
		case !x.known:
			return false
		case !expr && in(t, "-H", "-P"):
			continue
		}
		expr = true
		switch t {
		case "(", ")", "!", ",", "-not", "-a", "-and", "-o", "-or", "-true", "-false", "-print", "-print0", "-ls", "-prune", "-quit",
			"-depth", "-d", "-xdev", "-mount", "-noleaf", "-daystart", "-empty", "-readable", "-writable", "-executable", "-nouser",
			"-nogroup", "-ignore_readdir_race", "-warn", "-nowarn":
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype", "-lname", "-ilname",
			"-type", "-xtype", "-maxdepth", "-mindepth", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-newer",
			"-anewer", "-cnewer", "-newermt", "-newerat", "-newerct", "-perm", "-user", "-group", "-uid", "-gid", "-links", "-inum",
			"-samefile", "-printf", "-used", "-fstype":
			if i++; i >= len(h.args) || !h.args[i].known {
				return false
			}
		default:
			return false
		}
	}
	return true
}

var sedScript = sync.OnceValue(func() *regexp.Regexp {
	addr := `(?:\d+|\$|\d+~\d+|/[^/\\\n\[]*/)`
	one := `\s*(?:` + addr + `(?:,(?:` + addr + `|\+\d+))?)?\s*(?:p|=|q)\s*`
	return regexp.MustCompile(`^` + one + `(?:;` + one + `)*$`)
})

// sed may print lines, with -n, or stop early; no other command of its language passes.
func (h *harm) sed() bool {
	script := false
	for i := 0; i < len(h.args); i++ {
		x := h.args[i]
		t := x.text
		switch {
		case in(t, "-n", "-E", "-r", "-u", "-z", "-nE", "-nr", "-En", "-rn", "--quiet", "--silent", "--regexp-extended") && x.known:
		case in(t, "-e", "-ne") && x.known:
			if i++; i >= len(h.args) || !h.args[i].known || !sedScript().MatchString(h.args[i].text) {
				return false
			}
			script = true
		case strings.HasPrefix(t, "-"), !x.known && (t == "" || strings.ContainsAny(t[:1], "*?["+hole)):
			return false
		case !script:
			if !x.known || !sedScript().MatchString(t) {
				return false
			}
			script = true
		default:
			if !h.path(x) {
				return false
			}
		}
	}
	return script
}
