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
	r := &harm{p: h.p, l: h.l, c: &command{words: h.c.words, cwds: cwds, judged: maybe}}
	if printsFiles(sub, args) && h.p.rulesOnReading() {
		return false // which files it would print is not known
	}
	switch sub {
	case "status", "log", "show", "diff", "whatchanged", "shortlog", "blame", "annotate", "ls-files", "ls-tree", "rev-parse",
		"rev-list", "describe", "name-rev", "merge-base", "show-ref", "for-each-ref", "count-objects", "check-ignore",
		"check-attr", "diff-tree", "diff-index", "diff-files", "cat-file", "grep", "range-diff", "cherry", "var":
		if sub == "rev-parse" || sub == "merge-base" || sub == "check-ignore" || sub == "check-attr" || sub == "var" {
			return r.gitArgs(args, "", "--parseopt", "--resolve-git-dir")
		}
		if sub == "grep" {
			return r.gitArgs(args, "Of", "--open-files-in-pager", "--no-index", "--ext-grep")
		}
		if sub == "blame" || sub == "annotate" {
			return r.gitArgs(args, "S", "--contents", "--ignore-revs-file")
		}
		if sub == "ls-files" {
			return r.gitArgs(args, "X", "--exclude-from")
		}
		return r.gitArgs(args, "O", "--output", "--ext-diff", "--no-index", "--textconv", "--filters", "--output-directory", "--batch-command")
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
		return len(args) > 0 && args[0].known && in(args[0].text, "list", "show") && r.gitArgs(args[1:], "O", "--output", "--ext-diff", "--textconv")
	case "worktree", "notes", "bisect":
		return len(args) > 0 && args[0].known && (args[0].text == "list" && sub != "bisect" || args[0].text == "log" && sub == "bisect") && len(args) == 1
	case "reflog":
		if len(args) == 0 {
			return true
		}
		return args[0].known && (in(args[0].text, "show", "list", "HEAD") || strings.HasPrefix(args[0].text, "-")) &&
			r.gitArgs(args, "O", "--output", "--ext-diff", "--textconv")
	case "config":
		return configReads(args)
	}
	return false
}

// printsFiles says whether a form of git prints what is in files.
func printsFiles(sub string, args []word) bool {
	switch sub {
	case "diff", "show", "blame", "annotate", "grep", "cat-file", "diff-tree", "diff-index", "diff-files", "range-diff", "whatchanged", "stash":
		return true
	case "log", "reflog", "shortlog":
		for _, x := range args {
			t := x.text
			if !x.known || in(t, "-p", "-u", "-c", "--cc", "-m", "--patch-with-stat", "--patch-with-raw", "--remerge-diff", "--raw") || strings.HasPrefix(t, "--p") ||
				strings.HasPrefix(t, "-L") || strings.HasPrefix(t, "-U") || strings.HasPrefix(t, "-G") || strings.HasPrefix(t, "-S") || strings.HasPrefix(t, "--u") || strings.HasPrefix(t, "--w") || strings.HasPrefix(t, "--di") {
				return true
			}
		}
	}
	return false
}

// gitArgs: no argument is one of the short options, one of the long ones or a prefix of
// those, none can turn out to be one, and none leads out of the project: with such a path
// git diff compares files of the machine, not of the repository.
func (h *harm) gitArgs(args []word, short string, long ...string) bool {
	paths := false
	for _, x := range args {
		t := x.text
		if x.odd {
			return false
		}
		if paths || !strings.HasPrefix(t, "-") && x.known {
			if !h.path(x) && !revision(t) {
				return false
			}
			continue
		}
		if x.known && t == "--" {
			paths = true
			continue
		}
		if !x.known {
			if t == "" || strings.ContainsAny(t[:1], "-*?["+hole) || !h.path(x) {
				return false
			}
			continue
		}
		if name, v, eq := strings.Cut(t, "="); strings.HasPrefix(t, "--") {
			for _, l := range long {
				if strings.HasPrefix(l, name) {
					return false
				}
			}
			if eq && leadsOut(v) {
				return false
			}
			continue
		}
		if len(t) > 1 && short != "" && !in(t[1:2], "S", "G", "L") && strings.ContainsAny(t[1:], short) || short == "S" && strings.ContainsAny(t[1:], short) {
			return false
		}
	}
	return true
}

// revision says whether a word is surely no path: ranges such as a..b and messages such as
// :/text have dots and slashes too.
func revision(t string) bool {
	return strings.HasPrefix(t, ":/") || strings.Contains(t, "..") && !leadsOut(t) && !strings.HasPrefix(t, "/") && !strings.HasPrefix(t, "~")
}

// leadsOut says whether a text, taken as a path, is absolute or goes up.
func leadsOut(v string) bool {
	return strings.HasPrefix(v, "/") || strings.HasPrefix(v, "~") || strings.Contains("/"+v+"/", "/../")
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
