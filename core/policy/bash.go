package policy

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

// bash judges a call of the shell.
func (p *Policy) bash(a args) core.Decision {
	lines, ok := a.strings("command")
	if !ok || len(lines) == 0 {
		return p.settle(ask(RuleDefault, "its command can't be read"), false)
	}
	var worst core.Decision
	for i, s := range lines {
		if d := p.line(s); i == 0 || stricter(d, worst) {
			worst = d
		}
	}
	return worst
}

// line judges a command line: the strictest of what is said about its parts.
func (p *Policy) line(src string) core.Decision {
	l := p.read(src)
	allowed := *p.allow.Load()

	// The walls that stand in every mode come first.
	if d, hit := p.walls(l); hit {
		return d
	}
	if r := p.forbidden(l); r != nil {
		return deny(r.text, "the rule %s denies it", r.text)
	}
	if r := p.codeReads(l); r != nil {
		return deny(r.text, "it contains code that names what the rule %s denies", r.text)
	}
	var exact, all *rule
	for _, r := range allowed {
		if r.tool != "bash" {
			continue
		}
		if r.exact != "" && r.exact == strings.TrimSpace(src) && exact == nil {
			exact = r
		}
		if r.all && all == nil {
			all = r
		}
	}

	worst, unconfined := allow(RuleHarmless), false
	weigh := func(d core.Decision) {
		unconfined = unconfined || d.Unconfined
		if stricter(d, worst) || worst.Verdict == core.Allow && d.Verdict == core.Allow && worst.Rule == RuleHarmless {
			worst = d
		}
	}
	for _, list := range [][]*command{l.cmds, l.inner} {
		for _, c := range list {
			if d, hit := p.elsewhere(l, c, allowed); hit {
				weigh(d)
			}
		}
	}
	for _, f := range l.files {
		d, _ := p.redirect(l, f, allowed, false)
		unconfined = unconfined || d.Unconfined
	}
	// A line that leaves the confinement leaves it as a whole: being confined is then no
	// reason to allow any of its parts.
	confined := p.c.Confined && !unconfined
	readOnly := !unconfined
	for _, c := range l.cmds {
		harmless := p.harmless(l, c)
		readOnly = readOnly && harmless
		weigh(p.command(l, c, harmless, allowed, confined))
	}
	for _, c := range l.inner {
		if r, _ := p.asks(c); r != nil {
			weigh(ask(r.text, "the rule %s asks", r.text))
		}
	}
	if r := p.readsUnnamed(l); r != nil {
		readOnly = false
		weigh(ask(r.text, "it may read what the rule %s denies", r.text))
	}
	for _, f := range l.files {
		d, reads := p.redirect(l, f, allowed, confined)
		readOnly = readOnly && reads
		weigh(d)
	}
	if l.strange != "" {
		readOnly = false
		weigh(p.unjudged("it contains "+l.strange, all, confined))
	}
	if l.broken != "" {
		readOnly = false
		weigh(ask(RuleDefault, "%s", l.broken))
	}
	if exact != nil && worst.Verdict == core.Ask && !p.askRule(worst.Rule) {
		worst = allow(exact.text)
	}
	worst.Unconfined = unconfined
	if p.c.Mode == ModePlan && !readOnly {
		return deny(RulePlan, "plan mode is read only")
	}
	return p.answer(l, worst)
}

// readsUnnamed is the deny rule about reading that a part of a line may meet.
func (p *Policy) readsUnnamed(l *line) *rule {
	for _, list := range [][]*command{l.cmds, l.inner} {
		for _, c := range list {
			if r := p.mayRead(l, c); r != nil {
				return r
			}
		}
	}
	return nil
}

// askRule says whether a name is that of an ask rule.
func (p *Policy) askRule(name string) bool {
	for _, r := range p.ask {
		if r.text == name {
			return true
		}
	}
	return false
}

// answer is settle for lines: --yolo answers yes, but not for the unconfined process, and
// not to what may be a denied command in a form that can't be read.
func (p *Policy) answer(l *line, d core.Decision) core.Decision {
	if d.Verdict == core.Ask && p.c.Yolo {
		if d.Unconfined {
			return deny(d.Rule, "%s; under --yolo only a rule that names it allows this", d.Reason)
		}
		r := p.perhaps(l)
		if r == nil {
			r = p.readsUnnamed(l)
		}
		if r != nil {
			return deny(r.text, "it can't be told whether the rule %s denies it", r.text)
		}
	}
	return p.settle(d, true)
}

// unjudged is the answer to a part that is not understood.
func (p *Policy) unjudged(why string, all *rule, confined bool) core.Decision {
	switch {
	case all != nil:
		return allow(all.text)
	case p.c.Mode == ModeAuto && confined:
		return allow(RuleAuto)
	}
	return ask(RuleDefault, "%s", why)
}

// command judges one simple command.
func (p *Policy) command(l *line, c *command, harmless bool, allowed []*rule, confined bool) core.Decision {
	if r, sure := p.asks(c); r != nil {
		if sure == yes {
			return ask(r.text, "the rule %s asks", r.text)
		}
		return ask(r.text, "it may be what the rule %s asks about", r.text)
	}
	if d, hit := p.elsewhere(l, c, allowed); hit {
		return d
	}
	if harmless {
		return allow(RuleHarmless)
	}
	for _, r := range allowed {
		if r.tool == "bash" && r.allows(c) {
			return allow(r.text)
		}
	}
	if p.c.Mode == ModeAuto && confined {
		return allow(RuleAuto)
	}
	return ask(RuleDefault, "%s", p.why(c))
}

// why is the sentence about a command that is not allowed.
func (p *Policy) why(c *command) string {
	switch n := c.name(); {
	case len(c.words) == 0:
		return "it sets a variable that may change what runs"
	case n == "":
		return "the program is known only when the line runs"
	case codeAt(c.words) >= 0:
		return n + " runs other code"
	case readers()[n] != nil:
		return "this form of " + n + " is not on the list of harmless commands"
	default:
		return n + " is not on the list of harmless commands"
	}
}

// asks is the first ask rule that a command meets.
func (p *Policy) asks(c *command) (*rule, answer) {
	for _, r := range p.ask {
		if r.tool != "bash" {
			continue
		}
		if a := r.touches(c); a != no {
			return r, a
		}
	}
	return nil, no
}

// forbidden is the deny rule that a line surely meets. Code that the parser doesn't see is
// searched for the rule's words.
func (p *Policy) forbidden(l *line) *rule {
	var words []string
	for _, r := range p.deny {
		if r.tool != "bash" {
			continue
		}
		if r.all || r.exact != "" && r.exact == strings.TrimSpace(l.src) {
			return r
		}
		for _, list := range [][]*command{l.cmds, l.inner} {
			for _, c := range list {
				if r.touches(c) == yes {
					return r
				}
			}
		}
		if l.hidden || l.broken != "" || l.strange != "" {
			if words == nil {
				words = tokens(l.src)
			}
			if r.mentions(words) {
				return r
			}
		}
	}
	return nil
}

// perhaps is the deny rule that a line may meet, as far as can be told.
func (p *Policy) perhaps(l *line) *rule {
	for _, r := range p.deny {
		if r.tool != "bash" || r.exact != "" {
			continue
		}
		if l.unsure || l.broken != "" {
			return r
		}
		for _, list := range [][]*command{l.cmds, l.inner} {
			for _, c := range list {
				if r.touches(c) == maybe {
					return r
				}
			}
		}
	}
	return nil
}

// elsewhere judges what confined commands can't do: write git's configuration, or outside
// the project. It needs the unconfined process and a person's yes, or a rule that names
// it.
func (p *Policy) elsewhere(l *line, c *command, allowed []*rule) (core.Decision, bool) {
	if len(c.words) == 0 || !c.words[0].whole() {
		return core.Decision{}, false
	}
	at, rule, why := -1, RuleGuard, ""
	if base(c.words[0].text) == "git" {
		if at = p.gitConfigures(c); at >= 0 {
			why = "git " + c.words[at].text + " writes the repository's configuration, which needs the unconfined process"
		}
	}
	if at < 0 {
		for _, t := range p.targets(l, c) {
			if t.place.Inside || t.place.Home || p.temporary(t.place.Abs) {
				continue
			}
			at, rule = t.at, RuleOutside
			why = c.words[0].text + " writes " + t.place.Abs + ", outside the project, which needs the unconfined process"
			break
		}
	}
	if at < 0 && systemWriter(c) {
		at, rule, why = 0, RuleOutside, c.words[0].text+" writes outside the project, which needs the unconfined process"
	}
	if at < 0 {
		return core.Decision{}, false
	}
	for _, r := range allowed {
		if r.tool == "bash" && !r.all && r.spells(at) && r.allows(c) {
			d := allow(r.text)
			d.Unconfined = true
			return d, true
		}
	}
	d := ask(rule, "%s", why)
	d.Unconfined = true
	return d, true
}

// systemWriter knows programs whose work is outside the project.
func systemWriter(c *command) bool {
	sub, global := "", false
	for _, x := range c.words[1:] {
		if !strings.HasPrefix(x.text, "-") && sub == "" {
			sub = x.text
		}
		global = global || in(x.text, "-g", "--global", "--location=global")
	}
	switch base(c.words[0].text) {
	case "apt", "apt-get", "dnf", "yum", "apk", "pacman", "zypper", "brew", "snap":
		return in(sub, "install", "remove", "purge", "update", "upgrade", "dist-upgrade", "full-upgrade", "autoremove", "add", "del", "tap", "reinstall") ||
			strings.HasPrefix(sub, "-S")
	case "npm", "pnpm":
		return global && in(sub, "install", "i", "add", "uninstall", "update", "link", "remove", "rm")
	case "yarn":
		return sub == "global"
	case "go":
		if sub == "install" {
			return true
		}
		if sub == "env" {
			for _, x := range c.words {
				if in(x.text, "-w", "-u") {
					return true
				}
			}
		}
	case "cargo":
		return sub == "install"
	case "systemctl", "service", "crontab", "useradd", "usermod", "groupadd", "passwd", "chsh", "visudo", "mount", "umount", "modprobe", "sysctl",
		"iptables", "ufw", "reboot", "shutdown", "halt", "poweroff":
		return len(c.words) > 1 || in(base(c.words[0].text), "reboot", "shutdown", "halt", "poweroff", "passwd", "chsh", "visudo")
	}
	return false
}

// target is a path that a command writes, with the index of its word.
type target struct {
	at    int
	place workspace.Place
}

// targets are the literal paths that a command writes, as far as its name tells.
func (p *Policy) targets(l *line, c *command) []target {
	var idx []int
	operands := func() (list []int) {
		for i := 1; i < len(c.words); i++ {
			if c.words[i].text != "" && c.words[i].text != hole && !strings.HasPrefix(c.words[i].text, "-") {
				list = append(list, i)
			}
		}
		return list
	}
	valueOf := func(flags ...string) {
		for i := 1; i < len(c.words); i++ {
			for _, f := range flags {
				if c.words[i].text == f && i+1 < len(c.words) {
					idx = append(idx, i+1)
				} else if flagIs(c.words[i].text, f) {
					idx = append(idx, i)
				}
			}
		}
	}
	switch base(c.words[0].text) {
	case "rm", "rmdir", "mkdir", "touch", "truncate", "tee", "shred", "unlink", "mkfifo", "mknod", "mktemp":
		idx = operands()
	case "chmod", "chown", "chgrp", "setfacl", "chattr":
		if o := operands(); len(o) > 1 {
			idx = o[1:]
		}
	case "mv":
		idx = operands()
		valueOf("-t", "--target-directory")
	case "cp", "ln", "install", "rsync", "scp", "link":
		if o := operands(); len(o) > 1 {
			idx = o[len(o)-1:]
		}
		valueOf("-t", "--target-directory")
	case "dd":
		for i, x := range c.words {
			if strings.HasPrefix(x.text, "of=") {
				idx = append(idx, i)
			}
		}
	case "sed", "perl", "ruby":
		for _, x := range c.words[1:] {
			if strings.HasPrefix(x.text, "-i") || strings.HasPrefix(x.text, "--in-place") ||
				strings.HasPrefix(x.text, "-") && !strings.HasPrefix(x.text, "--") && strings.Contains(x.text, "i") {
				if o := operands(); len(o) > 0 {
					idx = o
				}
				break
			}
		}
	case "sort":
		valueOf("-o", "--output")
	case "curl":
		valueOf("-o", "--output", "--output-dir")
	case "wget":
		valueOf("-O", "--output-document", "-P", "--directory-prefix")
	case "tar":
		valueOf("-C", "--directory")
	case "unzip":
		valueOf("-d")
	case "git":
		if s := gitSub(c.words); s < len(c.words) && (c.words[s].text == "clone" || c.words[s].text == "worktree" || c.words[s].text == "init") {
			for _, i := range operands() {
				if i > s && filepath.IsAbs(c.words[i].text) || strings.HasPrefix(c.words[i].text, "..") {
					idx = append(idx, i)
				}
			}
		}
	}
	var out []target
	for _, i := range idx {
		x := c.words[i]
		t := x.text
		if strings.HasPrefix(t, "-") || strings.HasPrefix(t, "of=") {
			if _, v, ok := strings.Cut(t, "="); ok {
				t = v
			} else if len(t) > 2 {
				t = t[2:]
			}
		}
		if strings.Contains(t, hole) {
			t = t[:strings.IndexByte(t, 0)]
			if !filepath.IsAbs(t) {
				continue
			}
		}
		if x.glob != "" {
			t = t[:strings.IndexAny(t, "*?[")]
		}
		if t == "" || in(t, "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "-") || c.lost && !filepath.IsAbs(t) {
			continue
		}
		if base(c.words[0].text) == "sed" && i < len(c.words)-1 && !exists(filepath.Join(c.cwds[0], t)) && !filepath.IsAbs(t) {
			continue // the script
		}
		for _, dir := range c.cwds {
			if pl, err := p.locate(l, dir, t); err == nil {
				out = append(out, target{i, pl})
			}
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// temporary says whether confined commands may write a place outside the project.
func (p *Policy) temporary(abs string) bool {
	for _, d := range p.temp {
		if abs == d || strings.HasPrefix(abs, strings.TrimSuffix(d, "/")+"/") {
			return true
		}
	}
	return false
}

// redirect judges a redirection; reads is true when nothing is written.
func (p *Policy) redirect(l *line, f redirect, allowed []*rule, confined bool) (d core.Decision, reads bool) {
	reads = !f.write
	if f.word.known && in(f.word.text, "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin") {
		return allow(RuleHarmless), true
	}
	h := &harm{p: p, l: l, c: &command{cwds: f.cwds, lost: f.lost}}
	if reads {
		if h.path(f.word) {
			return allow(RuleHarmless), true
		}
		if p.c.Mode == ModeAuto && confined {
			return allow(RuleAuto), true
		}
		return ask(RuleDefault, "it reads %s, which is not known to be in the project", display(f.word.text)), false
	}
	auto := p.c.Mode == ModeAuto
	whole := f.word.whole() && !(f.lost && !filepath.IsAbs(f.word.text))
	if !whole {
		if auto && confined {
			return allow(RuleAuto), false
		}
		return ask(RuleDefault, "it writes a file whose name is known only when the line runs"), false
	}
	worst := core.Decision{Rule: RuleHarmless}
	for _, dir := range f.cwds {
		pl, err := p.locate(l, dir, f.word.text)
		var one core.Decision
		switch {
		case err != nil:
			one = ask(RuleDefault, "%s can't be followed", f.word.text)
		case !pl.Inside && !p.temporary(pl.Abs):
			one = ask(RuleOutside, "it writes %s, outside the project, which needs the unconfined process", pl.Abs)
			one.Unconfined = true
			if strings.HasPrefix(pl.Abs, "/dev/tcp/") || strings.HasPrefix(pl.Abs, "/dev/udp/") {
				one = ask(RuleDefault, "it connects to %s", pl.Abs)
				if auto && confined {
					one = allow(RuleAuto)
				}
			}
		default:
			if r := p.pathRule(p.ask, writeTools, pl); r != nil {
				one = ask(r.text, "the rule %s asks", r.text)
			} else if r := p.pathRule(allowed, &list{text: "write_file"}, pl); r != nil {
				one = allow(r.text)
			} else if auto && (pl.Inside || confined) {
				one = allow(RuleAuto)
			} else {
				one = ask(RuleDefault, "it writes %s", pl.Name)
			}
		}
		if stricter(one, worst) || worst.Rule == RuleHarmless {
			worst = one
		}
	}
	return worst, false
}

func display(s string) string {
	return strings.ReplaceAll(s, hole, "…")
}

// walls finds what no yes opens: lj's own state in any word, writes to the guard's files,
// and paths that a rule denies to be read or written.
func (p *Policy) walls(l *line) (core.Decision, bool) {
	for _, f := range l.files {
		for _, pl := range p.places(l, f.word, f.cwds, f.lost) {
			if d, hit := p.wall(pl, f.write, f.write); hit {
				return d, true
			}
		}
	}
	for _, list := range [][]*command{l.cmds, l.inner} {
		for _, c := range list {
			if d, hit := p.commandWalls(l, c); hit {
				return d, true
			}
		}
	}
	if (l.hidden || l.broken != "" || l.strange != "") && len(l.src) <= maxLine {
		if s := p.namesHome(l.src); s != "" {
			return deny(RuleGuard, "it contains code that names %s, lj's own state", s), true
		}
		if s := namesGuard(l.src); s != "" {
			return deny(RuleGuard, "it contains code that names %s, which no command writes", s), true
		}
	}
	return core.Decision{}, false
}

// wall judges one place. writes: the command may write it; removes: or its folder.
func (p *Policy) wall(pl workspace.Place, writes, removes bool) (core.Decision, bool) {
	switch {
	case pl.Home:
		return deny(RuleGuard, "%s belongs to lj's own state, which no command touches", pl.Abs), true
	case writes && pl.Guarded != "" && (pl.Guarded != ".git" || removes):
		return deny(RuleGuard, "%s is guarded: no command writes %s; ask the user to change it", pl.Name, pl.Guarded), true
	}
	if r := p.pathRule(p.deny, readTools, pl); r != nil {
		return deny(r.text, "the rule %s denies it", r.text), true
	}
	if writes {
		if r := p.pathRule(p.deny, writeTools, pl); r != nil {
			return deny(r.text, "the rule %s denies it", r.text), true
		}
	}
	return core.Decision{}, false
}

// readsOnly are programs that never write the files they are given, whatever their other
// arguments; sort, sed and the like are judged by their arguments.
var readsOnly = list{text: `cat head tail ls dir vdir wc tac nl rev cut fold fmt paste join expand unexpand column od hexdump strings comm cmp
	md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base64 base32 stat readlink realpath du df tr basename dirname
	echo printf pwd grep egrep fgrep test [ diff less more file which type cd jq bat`}

// commandWalls judges the words of a command as paths.
func (p *Policy) commandWalls(l *line, c *command) (core.Decision, bool) {
	for _, a := range c.assigns {
		for _, pl := range p.places(l, a.value, c.cwds, c.lost) {
			if pl.Home {
				return p.wall(pl, false, false)
			}
		}
	}
	if len(c.words) == 0 {
		return core.Decision{}, false
	}
	name := ""
	if c.words[0].whole() {
		name = base(c.words[0].text)
	}
	reads := readsOnly.has(name) || p.harmless(l, c)
	last := 0
	if in(name, "cp", "rsync", "scp", "install", "ln", "link") {
		for i := 1; i < len(c.words); i++ {
			if !strings.HasPrefix(c.words[i].text, "-") {
				last = i
			}
		}
		for _, x := range c.words {
			if name == "ln" || name == "link" || flagIs(x.text, "-t") || flagIs(x.text, "--target-directory") || flagIs(x.text, "--remove-source-files") {
				last = 0 // any operand may be changed, or become another name of one that is guarded
			}
		}
	}
	for i, x := range c.words {
		if x.text == "" || i == 0 && !strings.Contains(x.text, "/") {
			continue
		}
		writes := !reads && i > 0
		if last > 0 && i != last || (shells.has(name) || name == "source" || name == ".") && i == 1 {
			writes = false // a source, a script
		}
		// .git as a whole is in danger where it is removed, renamed or filled.
		whole := in(name, "rm", "mv", "rmdir", "chmod", "chown", "chgrp", "ln", "shred", "unlink", "chattr", "mount", "find") ||
			last > 0 && i == last || i > 0 && in(c.words[i-1].text, "-C", "--directory", "-d", "-t", "--target-directory") && name != "git" && name != "make"
		for _, pl := range p.places(l, x, c.cwds, c.lost) {
			if d, hit := p.wall(pl, writes, whole); hit {
				return d, true
			}
		}
	}
	return core.Decision{}, false
}

// places are where a word may lead, as a path or as an option with one.
func (p *Policy) places(l *line, x word, cwds []string, lost bool) []workspace.Place {
	t := x.text
	if i := strings.IndexByte(t, 0); i >= 0 && !strings.Contains(t, "/") {
		return nil
	}
	t = strings.ReplaceAll(t, hole, "x")
	var out []workspace.Place
	try := func(s string) {
		if s == "" || len(s) > 4096 || strings.ContainsAny(s, "\n") {
			return
		}
		if (s == "~" || strings.HasPrefix(s, "~/")) && p.c.UserHome != "" {
			s = p.c.UserHome + s[1:]
		}
		for i, dir := range cwds {
			if i > 0 && filepath.IsAbs(s) {
				break
			}
			if pl, err := p.locate(l, dir, s); err == nil {
				out = append(out, pl)
			}
		}
		if lost && !filepath.IsAbs(s) {
			// It may run inside .git: judge the end of the path by itself.
			if g := namesGuard("/" + s); g != "" {
				out = append(out, workspace.Place{Abs: s, Name: s, Guarded: g})
			}
		}
	}
	if x.glob != "" {
		for i, dir := range cwds {
			if i > 0 && filepath.IsAbs(x.glob) {
				break
			}
			if p.mayEnterHome(dir, x.glob) {
				out = append(out, workspace.Place{Abs: display(x.text), Home: true})
			}
			list, _ := p.expand(l, dir, x.glob)
			for _, m := range list {
				try(m)
			}
		}
	}
	if !strings.HasPrefix(t, "-") {
		try(t)
	} else if !strings.HasPrefix(t, "--") && len(t) > 2 {
		try(t[2:])
	}
	if _, v, ok := strings.Cut(t, "="); ok {
		try(v)
	}
	if h, v, ok := strings.Cut(t, ":"); ok && !strings.Contains(h, "/") {
		try(v)
	}
	return out
}

// namesHome is the spelling of lj's state directory that a line contains, "" for none.
func (p *Policy) namesHome(src string) string {
	for _, s := range p.home {
		for rest := src; ; {
			i := strings.Index(rest, s)
			if i < 0 {
				break
			}
			rest = rest[i+len(s):]
			if rest == "" || !wordByte(rest[0]) || strings.HasSuffix(s, "}") {
				return s
			}
		}
	}
	return ""
}

func wordByte(b byte) bool {
	return b == '_' || b == '-' || b == '.' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// namesGuard is the guarded file that a text names, "" for none.
func namesGuard(src string) string {
	src = strings.NewReplacer(`\`, "", `'`, "", `"`, "").Replace(src)
	for _, s := range []string{".git/config", ".git/hooks", ".agent/config.yaml", "core.hooksPath", "core.hookspath"} {
		if i := strings.Index(src, s); i >= 0 {
			if rest := src[i+len(s):]; rest == "" || !wordByte(rest[0]) || s == ".git/config" && strings.HasPrefix(rest, ".worktree") {
				return s
			}
		}
	}
	return ""
}
