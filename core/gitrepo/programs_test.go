package gitrepo

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRunsPrograms(t *testing.T) {
	for text, want := range map[string]string{
		"[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tmerge = refs/heads/main\n": "",
		"[core]\n\tfsmonitor = true\n\tworktree = ../../sub\n[alias]\n\tst = status\n[pull]\n\trebase = true\n":                                                                                          "",
		"[core] fsmonitor = \"touch x\"\n":                   "core.fsmonitor",
		"[CORE]\nFsMonitor=touch x":                          "core.fsmonitor",
		"\ufeff[core]\n hooksPath = .h\n":                    "core.hookspath",
		"[core]\n\tfsmon\\\nitor = x\n":                      "core.fsmonitor",
		"[diff \"a]b\"]\n\ttextconv = x\n":                   "diff.a]b.textconv",
		"[filter.x]\nclean = y":                              "filter.x.clean",
		"[alias]\n\tx = !sh y\n":                             "alias.x",
		"[include]\n\tpath = /tmp/x\n":                       "include.path",
		"[includeIf \"gitdir:/\"]\n\tpath = x\n":             "includeif.gitdir:/.path",
		"[credential \"https://x\"]\n\thelper = !y\n":        "credential.https://x.helper",
		"[remote \"o\"]\n\turl = ext::sh -c x\n":             "remote.o.url",
		"[submodule \"s\"]\n\tupdate = !x\n":                 "submodule.s.update",
		"[gpg \"ssh\"]\n\tprogram = x\n":                     "gpg.ssh.program",
		"[pager]\n\tlog = sh x\n":                            "pager.log",
		"[core\n":                                            "it can't be read",
		"# [core] fsmonitor = x\n; y\n[pager]\n\tlog = no\n": "",
	} {
		git := filepath.Join(t.TempDir(), ".git")
		if err := os.MkdirAll(filepath.Join(git, "hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{"config": 0o644, "hooks/pre-push.sample": 0o755, "hooks/readme": 0o644} {
			body := "x"
			if name == "config" {
				body = text
			}
			if err := os.WriteFile(filepath.Join(git, name), []byte(body), mode); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		if list := RunsPrograms(git); len(list) > 0 {
			got = list[0].What
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if err := os.WriteFile(filepath.Join(git, "hooks", "post-checkout"), []byte("x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if list := RunsPrograms(git); list[len(list)-1].What != "hook post-checkout" {
			t.Errorf("the hook is not found: %v", list)
		}
		file := filepath.Join(filepath.Dir(git), "file")
		if err := os.WriteFile(file, []byte("gitdir: .git\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if list := RunsPrograms(file); len(list) != 1 || list[0].Path != file {
			t.Errorf("by way of a file: %v", list)
		}
	}
}
