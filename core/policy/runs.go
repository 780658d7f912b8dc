package policy

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// What carries other commands or code. The lists decide two things: behind these programs
// deny and ask rules look for the command that would really run, and an allow rule covers
// them only when it names them.

// wrappers run the command in their arguments.
var wrappers = list{text: `env xargs timeout nice nohup ionice chrt taskset stdbuf setsid sudo doas su runuser command
	builtin exec eval time busybox toybox chroot unshare nsenter setpriv capsh strace ltrace perf gdb valgrind watch
	flock parallel script ssh entr npx bunx uvx pipx tmux screen at batch systemd-run trap alias coproc rlwrap unbuffer
	expect faketime fakeroot firejail bwrap proot catchsegv numactl prlimit dbus-run-session xvfb-run socat direnv
	dotenv mise asdf nix-shell conda poetry uv caffeinate chpst setarch linux32 linux64 i386 x86_64 hash
	ld.so ld-linux.so.2 ld-linux-x86-64.so.2 sg newgrp pkexec run-parts start-stop-daemon find-exec enable
	compgen complete bind cpulimit softlimit logsave multitime pexec grc torify torsocks proxychains proxychains4 sshpass
	msgexec msgfilter pipenv bundle opam stack cabal nix guix distrobox toolbox flatpak runuser ifne chronic ts`}

// shells run a script given by -c, by name or on their input.
var shells = list{text: `sh bash dash zsh ksh mksh ash fish rbash csh tcsh yash`}

// interpreters run code that the shell's parser does not see.
var interpreters = list{text: `python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit tclsh wish
	Rscript julia awk gawk mawk nawk osascript pwsh irb ghci scala groovy jshell elixir erl guile emacs vim vi nvim ed
	ex m4 bc dc gnuplot sqlite3 psql mysql make gmake cmake ninja just rake gradle mvn ant bazel tox nox invoke ansible
	ansible-playbook source . octave jjs jrunscript clojure lein runghc runhaskell racket sbcl gforth pry tcc`}

// codeWord says whether a sub-command of a program runs code that is neither the program's
// own nor the tests of this project.
func codeWord(name, sub string) bool {
	switch name {
	case "go":
		return in(sub, "run", "generate", "tool")
	case "npm":
		return in(sub, "run", "run-script", "exec", "x", "start", "restart", "explore", "init", "create")
	case "yarn", "pnpm":
		return in(sub, "run", "exec", "dlx", "node", "create", "start")
	case "cargo":
		return in(sub, "run", "install")
	case "docker", "podman":
		return in(sub, "run", "exec", "build", "compose")
	case "kubectl":
		return in(sub, "run", "exec", "debug")
	case "rustup", "dotnet", "hatch", "pdm", "rye", "swift", "zig", "dart", "flutter", "composer", "mix", "vagrant", "adb", "ip", "knife", "gcloud":
		return in(sub, "run", "run-script", "exec", "shell", "ssh", "netns")
	case "gh":
		return in(sub, "alias", "extension")
	case "git":
		return in(sub, "filter-branch", "difftool", "mergetool", "hook", "shell", "daemon", "upload-pack",
			"receive-pack", "instaweb", "web--browse", "send-email", "credential", "remote-ext",
			"merge-index", "for-each-repo", "gui", "citool", "gitk", "svn", "p4", "cvsserver", "http-backend")
	}
	return false
}

// codeFlags are options that name something to run, or that make a searching program
// write.
func codeFlags(name, sub string) []string {
	switch name {
	case "git":
		switch sub {
		case "": // options before the sub-command
			return []string{"-c", "-C", "-p", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--paginate"}
		case "rebase":
			return []string{"-x", "--exec"}
		case "grep":
			return []string{"-O", "--open-files-in-pager"}
		case "clone":
			return []string{"-c", "--config", "-u", "--upload-pack", "--template"}
		case "init":
			return []string{"--template"}
		case "submodule":
			return []string{"foreach"}
		case "bisect":
			return []string{"run"}
		}
		return []string{"--ext-diff", "--upload-pack", "--receive-pack", "--exec"}
	case "go":
		if sub == "env" {
			return []string{"-w", "-u"}
		}
		return []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool", "-C", "-overlay", "--overlay"}
	case "find":
		return []string{"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}
	case "fd", "fdfind":
		return []string{"-x", "-X", "--exec", "--exec-batch"}
	case "rg":
		return []string{"--pre", "--hostname-bin"}
	case "sort":
		return []string{"--compress-program"}
	case "split":
		return []string{"--filter"}
	case "gcc", "g++", "cc", "c++", "clang", "clang++", "c89", "c99", "cpp", "gfortran":
		return []string{"-wrapper", "-specs", "--specs", "-fplugin", "-B", "-load", "-fpass-plugin"}
	case "ld", "gold", "lld", "mold", "ar", "nm", "ranlib":
		return []string{"-plugin", "--plugin"}
	case "apt", "apt-get", "apt-cache":
		return []string{"-o", "--option", "-c", "--config-file"}
	case "dpkg":
		return []string{"--pre-invoke", "--post-invoke"}
	case "dnf", "yum", "pacman":
		return []string{"-c", "--config", "--setopt", "--hookdir"}
	case "rpm", "rpmquery", "rpmbuild":
		return []string{"--eval", "-E", "--pipe", "--define", "-D"}
	case "tcpdump":
		return []string{"-z"}
	case "nmap":
		return []string{"--script", "--interactive"}
	case "mail", "mailx":
		return []string{"-x", "--exec"}
	case "aria2c":
		return []string{"--on-download-complete", "--on-download-start", "--on-download-stop", "--on-bt-download-complete", "--on-download-error", "--on-download-pause", "--conf-path"}
	case "openvpn":
		return []string{"--up", "--down", "--config", "--script-security", "--plugin"}
	case "openssl":
		return []string{"engine", "-engine", "-provider", "-provider-path"}
	case "rclone":
		return []string{"--password-command", "--config"}
	case "latex", "pdflatex", "xelatex", "lualatex", "tex", "pdftex":
		return []string{"-shell-escape", "--shell-escape", "-enable-write18", "--enable-write18"}
	case "eslint", "prettier", "stylelint", "webpack", "babel", "rollup", "vite":
		return []string{"-c", "--config", "--plugin", "--rulesdir", "--resolve-plugins-relative-to"}
	case "less", "more":
		return []string{"+", "-k", "--lesskey-src", "--lesskey-file"}
	case "xdotool":
		return []string{"exec"}
	case "tar":
		return []string{"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "--rsh-command",
			"--info-script", "--new-volume-script", "-F"}
	case "rsync":
		return []string{"-e", "--rsh", "--rsync-path"}
	case "scp", "sftp":
		return []string{"-S", "-o", "-F"}
	case "zip":
		return []string{"-T", "-TT", "--unzip-command"}
	case "curl":
		return []string{"-K", "--config"}
	case "wget":
		return []string{"--use-askpass", "-e", "--execute", "--config"}
	case "man":
		return []string{"-P", "--pager", "-H"}
	case "npm":
		return []string{"--script-shell", "--node-options"}
	case "cargo":
		return []string{"--config"}
	case "sed":
		return []string{"-i", "-s", "--in-place", "-f", "--file"}
	}
	return nil
}

// scriptFlag says whether an argument of a shell or an interpreter is followed by code.
func scriptFlag(name, arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	if strings.HasPrefix(arg, "--") {
		switch n, _, _ := strings.Cut(arg, "="); n {
		case "--command", "--eval", "--print", "--execute", "--exec", "--expression":
			return true
		}
		return false
	}
	switch {
	case shells.has(name):
		return strings.ContainsRune(arg[1:], 'c')
	case strings.HasPrefix(name, "python"), strings.HasPrefix(name, "pypy"):
		return strings.ContainsRune(arg[1:], 'c')
	}
	return strings.ContainsAny(arg[1:], "eEcrp")
}

// base is the program's name without its folder, so that /bin/rm is rm.
func base(name string) string {
	if !strings.Contains(name, "/") {
		return name
	}
	return path.Base(name)
}

// interpreter knows python3.12 as well.
func interpreter(name string) bool {
	if interpreters.has(name) {
		return true
	}
	t := strings.TrimRight(name, "0123456789.")
	return t != name && t != "" && interpreters.has(t)
}

// codeAt is the index of the last word that makes a command run code other than its own
// program, -1 for none. An allow rule covers such a command only when it spells out the
// words up to and including that one.
func codeAt(words []word) int {
	if len(words) == 0 || !words[0].whole() {
		return -1
	}
	name := base(words[0].text)
	switch {
	case shells.has(name):
		for i, x := range words[1:] {
			if scriptFlag(name, x.text) {
				return i + 1
			}
			if !strings.HasPrefix(x.text, "-") {
				break
			}
		}
		return 0
	case interpreter(name):
		for i, x := range words[1:] {
			if !strings.HasPrefix(x.text, "-") {
				break
			}
			if scriptFlag(name, x.text) {
				return i + 1
			}
		}
		if escape := escapes(name); escape != nil {
			for i, x := range words[1:] {
				if !x.whole() || escape.MatchString(x.text) {
					return i + 1
				}
			}
		}
		return 0
	case name == "command" && len(words) > 1 && (words[1].text == "-v" || words[1].text == "-V"):
		return -1
	case wrappers.has(name):
		return 0
	}
	sub, at := len(words), -1
	if name == "git" {
		sub = gitSub(words)
	} else {
		for i, x := range words {
			if i > 0 && !strings.HasPrefix(x.text, "-") {
				sub = i
				break
			}
		}
	}
	subName := ""
	if sub < len(words) {
		subName = words[sub].text
		if codeWord(name, subName) {
			at = sub
		}
	}
	for i, x := range words[1:] {
		of := subName
		if name == "git" && i+1 < sub {
			of = ""
		}
		for _, f := range codeFlags(name, of) {
			if flagIs(x.text, f) || f == "+" && strings.HasPrefix(x.text, "+") {
				at = max(at, i+1)
			}
		}
		if name == "git" && strings.HasPrefix(x.text, "ext::") {
			at = max(at, i+1) // a command as a remote
		}
	}
	if name == "sed" || name == "gsed" {
		at = max(at, sedRuns(words))
	}
	return at
}

var (
	awkEscape = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`system\s*\(|\||getline|>|@|\bfflush\b|^-f|^--file|^-i|^-l`)
	})
	sqlEscape = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|[;\n])\s*\.\s*[a-z]|\\[!a-z]|load_extension|edit\s*\(|writefile|readfile|copy\b.*program|into\s+(?:out|dump)file|^-cmd|^--?init|^-f`)
	})
)

// escapes finds, in the arguments of a language for one purpose, what runs programs or
// writes files; nil for languages that are for anything.
func escapes(name string) *regexp.Regexp {
	switch name {
	case "awk", "gawk", "mawk", "nawk":
		return awkEscape()
	case "sqlite3", "psql", "mysql":
		return sqlEscape()
	}
	return nil
}

// sedTame are scripts of sed that run nothing: what harmless knows, and plain substitutions
// and deletions.
var sedTame = sync.OnceValue(func() *regexp.Regexp {
	addr := `(?:(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)(?:,(?:\d+|\$|\+\d+|/(?:[^/\\\n]|\\.)*/I?))?\s*!?\s*)?`
	one := `\s*` + addr + `(?:[pdqD=lNPGHghxnF]|s/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/[gpiI\d]*|s#(?:[^#\\\n]|\\.)*#(?:[^#\\\n]|\\.)*#[gpiI\d]*|s\|(?:[^|\\\n]|\\.)*\|(?:[^|\\\n]|\\.)*\|[gpiI\d]*|s,(?:[^,\\\n]|\\.)*,(?:[^,\\\n]|\\.)*,[gpiI\d]*)?\s*`
	return regexp.MustCompile(`^` + one + `(?:[;\n]` + one + `)*$`)
})

// sedRuns is the index of the word that is or may be a script of sed with a command that
// runs something: e, or s///e.
func sedRuns(words []word) int {
	at, script := -1, false
	look := func(i int, t string, known bool) {
		script = true
		if !known || !sedTame().MatchString(t) {
			at = max(at, i)
		}
	}
	for i := 1; i < len(words); i++ {
		x := words[i]
		t := x.text
		switch {
		case strings.HasPrefix(t, "--expression="):
			look(i, t[len("--expression="):], x.whole())
		case strings.HasPrefix(t, "--"):
			if flagIs(t, "--expression") && i+1 < len(words) {
				i++
				look(i, words[i].text, words[i].whole())
			}
		case strings.HasPrefix(t, "-") && len(t) > 1:
			k := strings.IndexByte(t, 'e')
			if s := strings.IndexAny(t, "isfl"); k < 0 || s >= 0 && s < k {
				continue // -i takes the rest of the word
			}
			if k+1 < len(t) {
				look(i, t[k+1:], x.whole())
			} else if i+1 < len(words) {
				i++
				look(i, words[i].text, words[i].whole())
			}
		}
	}
	if script {
		return at
	}
	for i := 1; i < len(words); i++ {
		if !strings.HasPrefix(words[i].text, "-") {
			look(i, words[i].text, words[i].whole())
			break
		}
	}
	return at
}

// flagIs says whether an argument is the option f, alone, with =value, attached to its
// value, or as an abbreviation.
func flagIs(arg, f string) bool {
	if arg == f {
		return true
	}
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	name, _, eq := strings.Cut(arg, "=")
	if eq && name == f {
		return true
	}
	if strings.HasPrefix(f, "--") {
		return strings.HasPrefix(arg, "--") && len(name) > 3 && strings.HasPrefix(f, name)
	}
	// A short option of one letter with its value attached: -cKEY=VALUE.
	return len(f) == 2 && !strings.HasPrefix(arg, "--") && strings.HasPrefix(arg, f)
}

// through looks behind a command: it adds what its arguments would run to the inner
// commands. It takes every tail of a wrapper's words as a command, so that no option of
// any wrapper can hide one.
func (w *walker) through(c *command) {
	if len(c.words) == 0 {
		return
	}
	if !c.words[0].whole() {
		w.l.unsure = true
		if c.words[0].odd || len(c.words[0].text) > 1 {
			w.l.hidden = true
		}
		return
	}
	name := base(c.words[0].text)
	switch {
	case name == "command" && len(c.words) > 1 && (c.words[1].text == "-v" || c.words[1].text == "-V"):
	case name == "xargs" || name == "parallel":
		sub := *c
		sub.words = append(c.words[:len(c.words):len(c.words)], word{text: hole}) // what comes from its input
		w.tails(&sub, 1)
	case name == "eval":
		w.evaluate(c.words[1:])
		w.tails(c, 1)
	case wrappers.has(name):
		w.tails(c, 1)
	case shells.has(name):
		w.tails(c, 1)
		if c.piped || len(c.words) == 1 {
			w.l.hidden = true
		}
	case interpreter(name):
		w.inline(c)
	case name == "find" || name == "fd" || name == "fdfind":
		for i, x := range c.words {
			for _, f := range []string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"} {
				if flagIs(x.text, f) {
					end := i + 1
					for end < len(c.words) && !in(c.words[end].text, ";", "+") {
						end++
					}
					sub := &command{judged: maybe, words: c.words[i+1 : end], cwds: c.cwds, lost: c.lost, bg: c.bg, piped: c.piped}
					w.tails(sub, 0)
					break
				}
			}
			if !x.whole() && x.glob == "" && i > 0 {
				w.l.unsure = true
			}
		}
	case name == "git":
		w.git(c)
	default:
		if at := codeAt(c.words); at >= 0 {
			w.l.hidden = w.l.hidden || ownLanguage(c.words, at)
			w.tails(c, at)
		}
	}
}

// ownLanguage says whether the word that makes a command run something holds it in a form
// that only the program knows, not as words of the shell or the name of a script elsewhere.
func ownLanguage(words []word, at int) bool {
	return at > 0 && (strings.HasPrefix(words[at].text, "-") || in(base(words[0].text), "sed", "gsed"))
}

// inline notes code that an interpreter gets in its arguments or on its input.
func (w *walker) inline(c *command) {
	name := base(c.words[0].text)
	if c.piped {
		w.l.hidden = true
	}
	for _, x := range c.words[1:] {
		switch {
		case scriptFlag(name, x.text), strings.ContainsAny(x.text, " \t\n(;'\"$`{"):
			w.l.hidden = true
		case !x.whole() && x.glob == "":
			w.l.hidden, w.l.unsure = true, true
		}
	}
}

// evaluate reads words as eval does, joined.
func (w *walker) evaluate(words []word) {
	var b strings.Builder
	for _, x := range words {
		if !x.whole() {
			w.l.hidden, w.l.unsure = true, true
			return
		}
		b.WriteString(x.text)
		b.WriteByte(' ')
	}
	w.nested(b.String())
}

// tails takes the words from i on as commands that may run, and words that are more than
// one word as scripts.
func (w *walker) tails(c *command, from int) {
	for i := from; i < len(c.words); i++ {
		x := c.words[i]
		if !x.whole() {
			if i == from || c.words[i-1].whole() && strings.HasPrefix(c.words[i-1].text, "-") {
				w.l.hidden, w.l.unsure = true, true
			}
			if x.glob == "" {
				w.l.hidden = true
			}
			continue
		}
		in := &command{judged: maybe, words: c.words[i:], cwds: c.cwds, lost: c.lost, bg: c.bg, piped: c.piped}
		if !w.counts(in) {
			return
		}
		w.l.inner = append(w.l.inner, in)
		switch n := base(x.text); {
		case n == "git":
			w.git(in)
		case interpreter(n):
			w.inline(in)
		case shells.has(n) && (c.piped || i == len(c.words)-1):
			w.l.hidden = true
		}
		texts := []string{x.text}
		if strings.HasPrefix(x.text, "-") {
			if _, v, ok := strings.Cut(x.text, "="); ok {
				texts = append(texts, v)
				if _, v, ok = strings.Cut(v, "="); ok {
					texts = append(texts, v) // --checkpoint-action=exec=…
				}
			} else if len(x.text) > 2 {
				texts = append(texts, x.text[2:])
			}
		} else if _, v, ok := strings.Cut(x.text, "="); ok {
			texts = append(texts, v) // alias x='…'
		}
		for j, t := range texts {
			if j > 0 || strings.ContainsAny(t, " \t\n;&|<>$`(){}\\'\"") {
				w.nested(t)
			}
		}
	}
}

// git reads a git command without its global options as well, and what it would run.
func (w *walker) git(c *command) {
	sub := gitSub(c.words)
	if at := codeAt(c.words); at >= 0 {
		w.l.hidden = w.l.hidden || ownLanguage(c.words, at)
	}
	if sub < len(c.words) && c.words[sub].text == "merge-index" {
		w.tails(c, sub+1)
	}
	if sub > 1 && sub < len(c.words) {
		words := append([]word{c.words[0]}, c.words[sub:]...)
		w.l.inner = append(w.l.inner, &command{judged: maybe, words: words, cwds: c.cwds, lost: c.lost, bg: c.bg, piped: c.piped})
	}
	if sub < len(c.words) && !c.words[sub].whole() {
		w.l.unsure = true
	}
	for i, x := range c.words {
		if i == 0 {
			continue
		}
		prev := c.words[i-1].text
		switch {
		case prev == "-c" || prev == "--config" || strings.HasPrefix(x.text, "-c") && strings.Contains(x.text, "="):
			_, v, _ := strings.Cut(x.text, "=")
			w.nested(strings.TrimPrefix(v, "!"))
		case prev == "--exec" || prev == "-x" || prev == "foreach" || prev == "run":
			if x.whole() {
				w.nested(x.text)
				w.l.inner = append(w.l.inner, &command{judged: maybe, words: c.words[i:], cwds: c.cwds, lost: c.lost})
			} else {
				w.l.unsure, w.l.hidden = true, true
			}
		case strings.HasPrefix(x.text, "--exec="), strings.HasPrefix(x.text, "-x"), strings.HasPrefix(x.text, "ext::"):
			w.nested(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(x.text, "--exec="), "-x"), "ext::"))
		}
	}
}

// gitSub is the index of the sub-command among the words of a git command, their number
// when there is none.
func gitSub(words []word) int {
	for i := 1; i < len(words); i++ {
		switch t := words[i].text; {
		case t == "-C" || t == "-c" || t == "--git-dir" || t == "--work-tree" || t == "--namespace" || t == "--exec-path" ||
			t == "--super-prefix" || t == "--config-env" || t == "--attr-source" || t == "--list-cmds":
			if t != "--exec-path" {
				i++
			}
		case strings.HasPrefix(t, "-"):
		default:
			return i
		}
	}
	return len(words)
}

// readsScript says whether a command takes its input as a script.
func readsScript(c *command) bool {
	return len(c.words) > 0 && c.words[0].whole() && shells.has(base(c.words[0].text))
}

// list is a set of words that is made on first use.
type list struct {
	text string
	once sync.Once
	m    map[string]bool
}

func (l *list) has(s string) bool {
	l.once.Do(func() {
		l.m = map[string]bool{}
		for _, w := range strings.Fields(l.text) {
			l.m[w] = true
		}
	})
	return l.m[s]
}

func in(s string, list ...string) bool {
	for _, x := range list {
		if s == x {
			return true
		}
	}
	return false
}
