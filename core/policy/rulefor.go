package policy

import (
	"net/url"
	"path"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// subCommands are programs whose first word says what they do.
var subCommands = list{text: `git go npm pnpm yarn cargo docker podman kubectl gh pip pip3 apt apt-get brew systemctl rustup dotnet bundle
	terraform helm composer`}

// weighty are programs for which more arguments are another matter: only the very line is
// offered.
var weighty = list{text: `rm rmdir mv cp ln dd chmod chown chgrp truncate shred tee install rsync scp sftp curl wget nc ncat telnet kill pkill
	killall mount umount mkfs fdisk crontab systemctl shutdown reboot iptables useradd usermod passwd apt apt-get dnf yum
	apk pacman brew gpg openssl security keyctl`}

// RuleFor is the rule that an answer "for the session" or "always here" grants: the
// narrowest that is still of use. For a command it is program and sub-command, for wrappers,
// interpreters, several commands and what is removed or sent it is the very line,
// bash(=LINE); for a file its folder; for an address its host.
func RuleFor(spec core.ToolSpec, call core.ToolCall) string {
	tool := call.Name
	if tool == "" {
		tool = spec.Name
	}
	a, ok := parseArgs(call.Arguments)
	if !ok {
		return tool
	}
	switch {
	case tool == "bash":
		return bashRule(a.first("command"))
	case pathTools.has(tool):
		if r := fileRule(tool, a.first("path")); r != "" {
			return r
		}
	case tool == "web_fetch":
		if u, err := url.Parse(a.first("url")); err == nil && u.Host != "" && u.User == nil && in(strings.ToLower(u.Scheme), "http", "https") {
			r := "web_fetch(" + strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host) + "/**)"
			if CheckRule(r) == nil {
				return r
			}
		}
	case tool == "toolkit_save":
		if n := a.first("name"); core.CheckToolName(n) == nil {
			return "toolkit_save(" + n + ")"
		}
	}
	return tool
}

func bashRule(src string) string {
	src = strings.TrimSpace(src)
	exact := "bash(=" + src + ")"
	p := &Policy{} // only reads the line; nothing is resolved
	l := p.read(src)
	if src == "" || l.broken != "" || l.strange != "" || l.hidden || l.unsure || len(l.cmds) != 1 || len(l.files) > 0 {
		return exact
	}
	c := l.cmds[0]
	if c.bg || len(c.assigns) > 0 || len(c.words) == 0 || !c.words[0].known {
		return exact
	}
	name := c.words[0].text
	at := codeAt(c.words)
	if at == 0 || at > 0 && in(base(name), "go", "docker", "podman", "kubectl", "cargo") || weighty.has(base(name)) || systemWriter(c) {
		return exact
	}
	words := []string{name}
	if subCommands.has(base(name)) {
		if len(c.words) < 2 || !c.words[1].known || strings.HasPrefix(c.words[1].text, "-") {
			return exact
		}
		words = append(words, c.words[1].text)
		if in(c.words[1].text, "run", "run-script", "exec") {
			if len(c.words) < 3 || !c.words[2].known || strings.HasPrefix(c.words[2].text, "-") {
				return exact
			}
			words = append(words, c.words[2].text)
		}
	}
	if at >= len(words) || base(name) == "git" && gitPushes(c) {
		return exact
	}
	for _, w := range words {
		if strings.ContainsAny(w, " \t\n\r*;&|<>()`$'\"\\#") || w == "" {
			return exact
		}
	}
	return "bash(" + strings.Join(words, " ") + " *)"
}

// gitPushes: git commands that throw work away, send it, or set what git runs.
func gitPushes(c *command) bool {
	sub := gitSub(c.words)
	return sub < len(c.words) && in(c.words[sub].text, "push", "reset", "clean", "config", "remote", "submodule", "branch", "checkout",
		"restore", "rm", "rebase", "init", "lfs", "credential", "worktree", "filter-branch", "update-ref", "symbolic-ref", "gc", "reflog")
}

// fileRule covers the folder of a file; a file at the top is named itself.
func fileRule(tool, p string) string {
	if p == "" || strings.ContainsAny(p, "\x00\n\r~") {
		return ""
	}
	p = path.Clean(p)
	if p == ".." || strings.HasPrefix(p, "../") || p == "/" {
		return ""
	}
	dir, name := path.Split(p)
	quote := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `}`, `\}`).Replace
	r := tool + "(" + quote(name) + ")"
	if dir != "" && dir != "/" {
		r = tool + "(" + quote(dir) + "**)"
	}
	if CheckRule(r) != nil || strings.Contains(r, " # ") {
		return ""
	}
	return r
}

// checkExamples holds the examples of a rule against it.
func (p *Policy) checkExamples(r *rule) error {
	for _, e := range r.ok {
		if !p.covers(r, e) {
			return core.Errorf(core.KindConfig, "rule %q does not match its example %q", r.text, e).Hint("correct the pattern or the example after \"# ok:\"")
		}
	}
	for _, e := range r.not {
		if p.covers(r, e) {
			return core.Errorf(core.KindConfig, "rule %q matches %q, which it must not", r.text, e).Hint("narrow the pattern or correct the example after \"# not:\"")
		}
	}
	return nil
}

// covers says whether a rule, taken as an allow rule, covers an example by itself.
func (p *Policy) covers(r *rule, e string) bool {
	switch {
	case r.tool == "bash":
		if r.exact != "" {
			return r.exact == strings.TrimSpace(e)
		}
		l := p.read(e)
		if l.broken != "" || l.strange != "" || len(l.files) > 0 || len(l.cmds) == 0 {
			return false
		}
		for _, c := range l.cmds {
			if !r.allows(c) {
				return false
			}
		}
		return true
	case pathTools.has(r.tool):
		pl, err := p.ws.Locate(p.dir, e)
		return err == nil && r.path(pl, p.dir)
	case r.tool == "web_fetch":
		return r.address(e, false)
	}
	return r.all || wild(r.pattern, e)
}
