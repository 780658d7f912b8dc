package gitrepo

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Program is a file of a repository that names a program which git would run.
type Program struct {
	Path string // of the file, or of the folder of hooks
	What string // the key of the configuration, or the hook
}

// maxConfig is the largest configuration that is read, in bytes; a larger one counts as
// naming programs.
const maxConfig = 1 << 20

// RunsPrograms lists what in the repository at git, a .git directory or a file that leads
// to one, makes git run programs: hooks, and keys of its configuration (see git-config(1)).
// What can't be read counts too. It is meant for repositories whose origin is not known.
func RunsPrograms(git string) (list []Program) {
	dir := Dir(git)
	if dir == "" {
		return nil // git refuses it
	}
	dirs := []string{dir}
	if c := CommonDir(dir); c != dir {
		dirs = append(dirs, c)
	}
	for _, d := range dirs {
		for _, name := range []string{"config", "config.worktree"} {
			p := filepath.Join(d, name)
			if key := configRuns(p); key != "" {
				list = append(list, Program{p, key})
			}
		}
		hooks := filepath.Join(d, "hooks")
		entries, err := os.ReadDir(hooks)
		if err != nil {
			continue // there are none, or it is no folder
		}
		for _, e := range entries {
			if fi, err := e.Info(); err == nil && !strings.HasSuffix(e.Name(), ".sample") && (fi.Mode()&0o111 != 0 || fi.Mode()&fs.ModeSymlink != 0) {
				list = append(list, Program{hooks, "hook " + e.Name()})
				break
			}
		}
	}
	if dir != git && len(list) > 0 {
		// Where it leads to may be somebody's: the file that leads there is what goes.
		return []Program{{git, list[0].What + " in " + list[0].Path}}
	}
	return list
}

// configRuns is the first key of a configuration file that names a program, "" for none.
func configRuns(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if fi.Size() > maxConfig || !fi.Mode().IsRegular() {
		return "it can't be read"
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "it can't be read"
	}
	section, sub := "", ""
	for line := range strings.Lines(strings.ReplaceAll(string(b), "\\\n", "")) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		for strings.HasPrefix(line, "[") {
			end := sectionEnd(line)
			if end < 0 {
				return "it can't be read"
			}
			head := line[1:end]
			section, sub, _ = strings.Cut(head, " ")
			if sub == "" {
				section, sub, _ = strings.Cut(head, ".") // the old form
			}
			section, sub = strings.ToLower(strings.TrimSpace(section)), strings.Trim(strings.TrimSpace(sub), `"`)
			line = strings.TrimSpace(line[end+1:])
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)
		if runs(section, sub, key, value) {
			if sub != "" {
				return section + "." + sub + "." + key
			}
			return section + "." + key
		}
	}
	return ""
}

// sectionEnd is the index of the bracket that ends a section's head; one in quotes does not.
func sectionEnd(line string) int {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ']':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// runs says whether a key of git's configuration names a program or another file of
// configuration.
func runs(section, sub, key, value string) bool {
	plain := value == "" || value == "true" || value == "false" || value == "0" || value == "1" || value == "yes" || value == "no" || value == "on" || value == "off"
	switch section {
	case "include", "includeif", "alias", "browser", "man", "guitool", "difftool", "mergetool", "sendemail", "imap", "instaweb", "gitcvs", "svn":
		return section != "alias" || strings.HasPrefix(value, "!")
	case "core":
		switch key {
		case "fsmonitor", "pager":
			return !plain
		case "hookspath", "sshcommand", "editor", "askpass", "gitproxy", "alternaterefscommand":
			return value != ""
		}
	case "pager":
		return !plain
	case "sequence", "interactive", "init", "web", "help", "uploadpack", "receive":
		switch key {
		case "editor", "difffilter", "templatedir", "browser", "packobjectshook", "procreceiverefs":
			return true
		}
	case "diff", "merge", "filter", "credential", "tar", "trailer":
		switch key {
		case "external", "command", "textconv", "driver", "clean", "smudge", "process", "helper", "cmd":
			return value != ""
		}
	case "gpg":
		return key == "program" || key == "defaultkeycommand"
	case "remote":
		return key == "uploadpack" || key == "receivepack" || key == "vcs" || strings.HasPrefix(value, "ext::")
	case "url":
		return strings.HasPrefix(sub, "ext::")
	case "submodule":
		return key == "update" && strings.HasPrefix(value, "!") || strings.HasPrefix(value, "ext::")
	case "protocol":
		return sub == "ext" && key == "allow" && value != "never"
	}
	return false
}
