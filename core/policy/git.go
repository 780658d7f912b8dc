package policy

import (
	"os"
	"path/filepath"
	"strings"
)

// git allows sub-commands and forms that only read this repository.
func (h *harm) git() bool {
	i, cwds := 0, h.c.cwds
	for ; i < len(h.args) && h.args[i].known; i++ {
		if h.args[i].text == "-C" && i+1 < len(h.args) && h.args[i+1].known && h.args[i+1].text != "" {
			var next []string
			for _, d := range cwds {
				pl, err := h.p.locate(h.l, d, h.args[i+1].text)
				if err != nil {
					return false
				}
				next = append(next, pl.Abs)
			}
			cwds = next
			i++
			continue
		}
		if !in(h.args[i].text, "--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs") {
			break
		}
	}
	if i >= len(h.args) || !h.args[i].known {
		return false
	}
	sub, args := h.args[i].text, h.args[i+1:]
	if sub == "--version" || sub == "version" {
		return len(args) == 0
	}
	if h.c.lost {
		return false
	}
	for _, d := range cwds {
		if !h.p.trustedRepository(d) {
			return false
		}
	}
	switch sub {
	case "status", "log", "show", "diff", "whatchanged", "shortlog", "blame", "annotate", "ls-files", "ls-tree", "rev-parse",
		"rev-list", "describe", "name-rev", "merge-base", "show-ref", "for-each-ref", "count-objects", "check-ignore",
		"check-attr", "diff-tree", "diff-index", "diff-files", "cat-file", "grep", "range-diff", "cherry", "var":
		if sub == "rev-parse" || sub == "merge-base" || sub == "check-ignore" || sub == "check-attr" || sub == "var" {
			return plainArgs(args, "", "--parseopt")
		}
		if sub == "grep" {
			return plainArgs(args, "Of", "--open-files-in-pager", "--no-index", "--ext-grep")
		}
		if sub == "blame" || sub == "annotate" {
			return plainArgs(args, "", "--contents", "--ignore-revs-file")
		}
		return plainArgs(args, "", "--output", "--ext-diff", "--no-index", "--textconv", "--filters", "--output-directory", "--batch-command")
	case "branch":
		return listing(args, []string{"-a", "-r", "-v", "-vv", "--all", "--remotes", "--show-current", "--no-color", "--color",
			"--color=never", "--no-column", "--column", "-i", "--ignore-case", "-q", "-av", "-avv", "-va", "-vva", "-rv"},
			[]string{"--list", "-l"}, []string{"--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format", "--abbrev"})
	case "tag":
		return listing(args, []string{"-n", "--no-color", "--color", "--color=never", "-i", "--ignore-case", "--column", "--no-column"},
			[]string{"--list", "-l"}, []string{"--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format"})
	case "remote":
		return len(args) == 0 || len(args) == 1 && args[0].known && in(args[0].text, "-v", "--verbose") ||
			len(args) == 2 && args[0].known && args[0].text == "get-url" && args[1].known && !strings.HasPrefix(args[1].text, "-")
	case "stash":
		return len(args) > 0 && args[0].known && in(args[0].text, "list", "show") && plainArgs(args[1:], "", "--output", "--ext-diff", "--textconv")
	case "worktree", "notes", "bisect":
		return len(args) > 0 && args[0].known && (args[0].text == "list" && sub != "bisect" || args[0].text == "log" && sub == "bisect") && len(args) == 1
	case "reflog":
		if len(args) == 0 {
			return true
		}
		return args[0].known && (in(args[0].text, "show", "list", "HEAD") || strings.HasPrefix(args[0].text, "-")) &&
			plainArgs(args, "", "--output", "--ext-diff", "--textconv")
	case "config":
		return configReads(args)
	}
	return false
}

// plainArgs: no argument is one of the short options, one of the long ones or a prefix of
// those, and none can turn out to be one.
func plainArgs(args []word, short string, long ...string) bool {
	for _, x := range args {
		t := x.text
		if x.odd {
			return false
		}
		if x.known && t == "--" {
			return true // only paths follow; git reads them in its repository
		}
		if !x.known && (t == "" || strings.ContainsAny(t[:1], "-*?["+hole)) {
			return false
		}
		if strings.HasPrefix(t, "--") {
			name, _, _ := strings.Cut(t, "=")
			for _, l := range long {
				if strings.HasPrefix(l, name) {
					return false
				}
			}
			continue
		}
		if strings.HasPrefix(t, "-") && short != "" && strings.ContainsAny(t[1:], short) {
			return false
		}
	}
	return true
}

// listing: options that list, names only where one of the listing options is there, or as
// the value of one that takes a value.
func listing(args []word, plain, list, valued []string) bool {
	lists := false
	for _, x := range args {
		lists = lists || x.known && in(x.text, list...)
	}
	for i := 0; i < len(args); i++ {
		x := args[i]
		if !x.known {
			return false
		}
		name, _, eq := strings.Cut(x.text, "=")
		switch {
		case in(x.text, plain...), in(x.text, list...):
		case in(name, valued...):
			if !eq && i+1 < len(args) && !strings.HasPrefix(args[i+1].text, "-") && args[i+1].known {
				i++
			}
		case strings.HasPrefix(x.text, "-n") && digits(x.text[2:]):
		case lists && !strings.HasPrefix(x.text, "-"):
		default:
			return false
		}
	}
	return true
}

// configReads: git config in the forms that print.
func configReads(args []word) bool {
	names, reads := 0, false
	for i, x := range args {
		if !x.known {
			return false
		}
		t := x.text
		switch {
		case in(t, "--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch"), i == 0 && in(t, "get", "list"):
			reads = true
		case in(t, "--local", "--global", "--system", "--worktree", "--show-origin", "--show-scope", "--name-only", "-z", "--null",
			"--includes", "--no-includes", "--bool", "--int", "--path", "--all"):
		case strings.HasPrefix(t, "-"):
			return false
		default:
			names++
		}
	}
	return reads || names == 1
}

// trustedRepository says whether git, run in dir, finds the project's own repository and
// not one that a file in the tree makes up: a folder with HEAD, objects and refs is a
// repository whose configuration can name programs to run.
func (p *Policy) trustedRepository(dir string) bool {
	exists := func(parts ...string) bool {
		_, err := os.Lstat(filepath.Join(parts...))
		return err == nil
	}
	for d := dir; ; d = filepath.Dir(d) {
		if d == p.dir {
			return exists(d, ".git") || !exists(d, "HEAD") || !exists(d, "objects") || !exists(d, "refs")
		}
		if exists(d, ".git") || exists(d, "HEAD") && exists(d, "refs") {
			return false
		}
		if d == "/" || d == "." || len(d) < len(p.dir) {
			return false
		}
	}
}

// gitConfigures is the index of the word that makes a git command write the repository's
// configuration or hooks, which confined commands can't, -1 for none.
func (p *Policy) gitConfigures(c *command) int {
	sub := gitSub(c.words)
	if sub >= len(c.words) || !c.words[sub].whole() {
		return -1
	}
	args := c.words[sub+1:]
	has := func(flags ...string) bool {
		for _, x := range args {
			for _, f := range flags {
				if flagIs(x.text, f) {
					return true
				}
			}
			// -fu is -f -u
			if len(x.text) > 2 && x.text[0] == '-' && x.text[1] != '-' {
				for _, f := range flags {
					if len(f) == 2 && strings.Contains(x.text[1:], f[1:]) {
						return true
					}
				}
			}
		}
		return false
	}
	first := func(list ...string) bool {
		for _, x := range args {
			if !strings.HasPrefix(x.text, "-") {
				return in(x.text, list...)
			}
		}
		return false
	}
	found := false
	switch c.words[sub].text {
	case "config":
		found = !configReads(args)
	case "remote":
		found = first("add", "rename", "rm", "remove", "set-url", "set-head", "set-branches")
	case "push":
		found = has("-u", "--set-upstream")
	case "branch":
		found = has("-u", "--set-upstream-to", "--unset-upstream", "--edit-description", "-m", "-M", "-c", "-C", "--move", "--copy", "-t", "--track")
	case "checkout", "switch":
		found = has("-t", "--track")
	case "submodule":
		found = first("add", "init", "update", "sync", "deinit", "set-url", "set-branch", "absorbgitdirs")
	case "init":
		found = has("--template", "--separate-git-dir", "--shared")
		if !found {
			_, err := os.Lstat(filepath.Join(p.dir, ".git"))
			operand := false
			for _, x := range args {
				operand = operand || !strings.HasPrefix(x.text, "-")
			}
			found = err == nil && !operand
		}
	case "lfs":
		found = first("install", "uninstall", "update")
	case "maintenance":
		found = first("start", "stop", "register", "unregister")
	case "sparse-checkout":
		found = first("set", "init", "disable", "reapply", "add")
	case "flow":
		found = first("init")
	case "credential", "credential-store", "credential-cache":
		found = true
	}
	if found {
		return sub
	}
	return -1
}
