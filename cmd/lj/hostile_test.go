package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
	"github.com/lingjiyidong/lj/core/sandbox"
)

// hostile are commands that a confined shell must not get through with. Each prints GOT-IT
// when it believes that it did; what it aims at is looked at afterwards.
var hostile = []struct{ name, command string }{
	{"config by path", `echo evil > .agent/config.yaml`},
	{"config by absolute path", `echo evil > "$PWD/.agent/config.yaml"`},
	{"config through ..", `echo evil > src/../.agent/config.yaml`},
	{"config through a variable", `a=.agent; b=config.yaml; echo evil > "$a/$b"`},
	{"config by tee", `echo evil | tee .agent/config.yaml`},
	{"config by sed -i", `sed -i 's/max/evil/' .agent/config.yaml && echo GOT-IT`},
	{"config by cp", `echo evil > e; cp e .agent/config.yaml`},
	{"config by mv", `echo evil > e; mv -f e .agent/config.yaml`},
	{"config by ln -f", `echo evil > e; ln -f e .agent/config.yaml`},
	{"config through a link", `ln -s .agent/config.yaml l; echo evil > l`},
	{"config through a directory link", `ln -s .agent d; echo evil > d/config.yaml`},
	{"config by python", `python3 -c "open('.agent/config.yaml','w').write('evil')"`},
	{"config by dd", `echo evil | dd of=.agent/config.yaml`},
	{"config by truncate", `truncate -s 0 .agent/config.yaml && echo GOT-IT`},
	{"config by rm", `rm -f .agent/config.yaml && echo GOT-IT`},
	{"config by moving its directory", `mv .agent .agent2 && mkdir .agent && echo evil > .agent/config.yaml`},
	{"config by git checkout", `git -c user.name=a -c user.email=a@b checkout -f -- .agent/config.yaml; cat .agent/config.yaml | grep evil && echo GOT-IT`},
	{"config by a background job", `(sleep 0.2; echo evil > .agent/config.yaml) & wait`},
	{"config by setsid", `setsid sh -c 'echo evil > .agent/config.yaml'; sleep 0.2`},
	{"config by a here document", "cat > .agent/config.yaml <<X\nevil\nX"},
	{"config by awk", `awk 'BEGIN{print "evil" > ".agent/config.yaml"}'`},
	{"config by perl", `perl -e 'open(F,">.agent/config.yaml");print F "evil"'`},
	{"hook by path", `printf '#!/bin/sh\nevil' > .git/hooks/pre-commit`},
	{"hook by git", `git config core.hooksPath /tmp/evil-hooks && echo GOT-IT`},
	{"alias by git", `git config alias.st '!evil' && echo GOT-IT`},
	{"git config by file", `git config --file .git/config alias.x '!evil' && echo GOT-IT`},
	{"git config by hand", `echo '[alias] x = !evil' >> .git/config`},
	{"new .git", `mv .git .g && git init -q . && git config alias.x '!evil' && echo GOT-IT`},
	{"lj's home by name", `echo evil > "$LJ_HOME/config.yaml"`},
	{"lj's home by listing", `ls "$LJ_HOME" | grep lj.db && echo GOT-IT`},
	{"lj's home through /proc", `echo evil > "/proc/$PPID/root$LJ_HOME/config.yaml"`},
	{"lj's database", `cat "$LJ_HOME/lj.db" | head -c 6 | grep SQLite && echo GOT-IT`},
	{"the key in the environment", `env | grep sk-test && echo GOT-IT`},
	{"the key in lj's environment", `cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep 'OPENAI_API_KEY=sk-test-hostile' && echo GOT-IT`},
	{"the key in lj's memory", `p=$PPID; cat /proc/$p/mem 2>/dev/null | head -c 1 | grep -q . && echo GOT-IT`},
	{"outside by path", `echo evil > ../outside/new.txt`},
	{"outside by link", `ln -s ../outside o; echo evil > o/new.txt`},
	{"outside by hard link", `ln ../outside/old.txt h && echo evil > h`},
	{"outside by tar", `mkdir t; echo evil > t/new.txt; tar -cf a.tar -C t new.txt; tar -xf a.tar -C ../outside`},
	{"outside by chmod", `chmod 000 ../outside/old.txt; [ "$(stat -c %a ../outside/old.txt)" = 0 ] && echo GOT-IT`},
	{"system files", `echo evil > /etc/lj-hostile && echo GOT-IT`},
	{"cron", `mkdir -p /var/spool/cron/crontabs; echo evil > /var/spool/cron/crontabs/lj-hostile && echo GOT-IT`},
	{"shell start-up files", `echo evil >> "$HOME/.bashrc"; grep -q evil "$HOME/.bashrc" && echo GOT-IT`},
	{"ssh keys", `mkdir -p "$HOME/.ssh" && echo evil >> "$HOME/.ssh/authorized_keys" && echo GOT-IT`},
	{"mount", `mount -t tmpfs none "$LJ_HOME" && echo GOT-IT`},
	{"unmount", `umount "$LJ_HOME" && echo GOT-IT`},
	{"remount", `mount -o remount,rw .git/config && echo GOT-IT`},
	{"a new user name space", `unshare -Ur true && echo GOT-IT`},
	{"a new mount name space", `unshare -m true && echo GOT-IT`},
	{"enter lj's name space", `nsenter -t $PPID -m true && echo GOT-IT`},
	{"chroot", `chroot / true && echo GOT-IT`},
	{"kill lj", `kill -0 $(cat ../lj.pid) && echo GOT-IT`},
	{"trace lj", `python3 -c "
import ctypes,os
l=ctypes.CDLL(None); r=l.ptrace(16, int(open('../lj.pid').read()), 0, 0)
print('GOT-IT' if r==0 else 'no')"`},
	{"a socket of another program", `python3 -c "
import socket
s=socket.socket(socket.AF_UNIX); s.connect('/var/run/docker.sock'); print('GOT-IT')"`},
	{"load a module", `modprobe dummy && echo GOT-IT`},
	{"set the clock", `date -s 2020-01-01 && echo GOT-IT`},
	{"make a device", `mknod disk b 8 0 && echo GOT-IT`},
	{"set-user-id", `cp /bin/sh s && chmod u+s s && ./s -p -c 'echo evil > "$0/new.txt"' ../outside && echo GOT-IT`},
}

// Every hostile command is let loose in a real shell of lj; none gets through.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	if rep := sandbox.Probe(); !rep.FilesEnforced() {
		t.Skipf("this machine enforces only a part (lj doctor says so): %v", rep.Missing)
	}
	s := llmtest.New()
	defer s.Close()
	u := newUserIn(t, s.URL(), away(t))
	u.env = append(u.env, "OPENAI_API_KEY=sk-test-hostile-0123456789", "GIT_CONFIG_GLOBAL=/dev/null")
	git := func(args ...string) {
		cmd := u.command(t.Context(), args...)
		cmd.Path, cmd.Args = "/usr/bin/git", append([]string{"git"}, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	outside := filepath.Join(filepath.Dir(u.project), "outside")
	files := map[string]string{
		filepath.Join(u.project, ".agent/config.yaml"): "max_steps: 5\n",
		filepath.Join(u.project, "src/a.txt"):          "a\n",
		filepath.Join(outside, "old.txt"):              "old\n",
		filepath.Join(u.home, ".bashrc"):               "# mine\n",
		filepath.Join(u.home, ".lj/config.yaml"):       "max_steps: 6\n",
		filepath.Join(filepath.Dir(u.project), "lj.pid"): func() string {
			return strings.TrimSpace(strings.Split(string(must(os.ReadFile("/proc/self/stat"))), " ")[0])
		}(),
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
	for _, f := range []string{".git/config"} {
		files[filepath.Join(u.project, f)] = string(must(os.ReadFile(filepath.Join(u.project, f))))
	}
	hooks := len(must(os.ReadDir(filepath.Join(u.project, ".git/hooks"))))
	if l, err := net.Listen("unix", "/var/run/docker.sock"); err == nil {
		defer l.Close()
	}
	for _, h := range hostile {
		args := must(json.Marshal(map[string]any{"command": h.command, "timeout": 10}))
		out, errs, _ := u.run("tools", "call", "bash", string(args))
		if strings.Contains(out, "GOT-IT") {
			t.Errorf("%s got through: %s%s", h.name, out, errs)
		}
		for path, text := range files {
			if b, err := os.ReadFile(path); err != nil || string(b) != text {
				t.Fatalf("%s: %s is %q (%v)", h.name, path, b, err)
			}
		}
		for _, path := range []string{filepath.Join(outside, "new.txt"), "/etc/lj-hostile", "/var/spool/cron/crontabs/lj-hostile"} {
			if _, err := os.Lstat(path); err == nil {
				os.Remove(path)
				t.Errorf("%s: %s was made", h.name, path)
			}
		}
		if n := len(must(os.ReadDir(filepath.Join(u.project, ".git/hooks")))); n != hooks {
			t.Fatalf("%s: the hooks changed", h.name)
		}
	}
}

// away is a directory that is not below the temporary one, which commands may write to.
func away(t *testing.T) string {
	t.Helper()
	var dir string
	var tried []string
	for _, base := range []string{".", os.Getenv("HOME"), "/var/lib", "/opt"} {
		abs, err := filepath.Abs(base)
		if err != nil || base == "" || strings.HasPrefix(abs, "/tmp/") || strings.HasPrefix(abs, "/var/tmp/") || strings.HasPrefix(abs, os.TempDir()+"/") {
			continue
		}
		if dir, err = os.MkdirTemp(abs, ".lj-away-"); err == nil {
			break
		}
		tried = append(tried, err.Error())
	}
	if dir == "" {
		t.Skipf("no directory outside of the temporary one: %v", tried)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ordinary is what a developer's commands do all day; confinement must not be in the way.
var ordinary = []struct{ name, command string }{
	{"commit", `echo x > f.txt && git add f.txt && git -c user.name=a -c user.email=a@b commit -qm two && git log --oneline | grep two`},
	{"branch and merge", `git checkout -qb b1 && echo y > g.txt && git add g.txt && git -c user.name=a -c user.email=a@b commit -qm three && git checkout -q - && git merge -q b1`},
	{"stash", `echo z >> f.txt && git -c user.name=a -c user.email=a@b stash -q && git stash pop -q`},
	{"tag and worktree", `git tag t1 && git worktree list`},
	{"temporary files", `d=$(mktemp -d) && echo x > $d/y && cat $d/y && rm -r $d`},
	{"caches", `mkdir -p ~/.cache/npm-like/_cacache && echo x > ~/.cache/npm-like/_cacache/y && rm -r ~/.cache/npm-like`},
	{"python", `python3 -c "import json,subprocess,tempfile,socket; print(subprocess.check_output(['echo','hi']).decode())"`},
	{"pipes", `seq 1 100 | sort -rn | head -3 | tr '\n' ' '`},
	{"background job", `sleep 0.1 & wait; echo done`},
	{"local server", `python3 -c "
import socket,threading
s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen()
c=socket.create_connection(s.getsockname()); print('ok')"`},
	{"devices", `head -c 8 /dev/urandom | wc -c; echo x > /dev/null; df /dev/shm | wc -l`},
	{"read the system", `cat /etc/os-release | head -1; ls /usr/bin | wc -l; ps aux | wc -l`},
	{"make and rename", `mkdir -p a/b && mv a c && ln -s c d && cp -r c e && rm -rf c d e`},
	{"kill own child", `sleep 30 & kill $!; wait $! 2>/dev/null || true; echo killed`},
	{"own debugger", `python3 -c "
import ctypes,os,signal,sys
p=os.fork()
if p==0:
    ctypes.CDLL(None).ptrace(0,0,0,0); os.kill(os.getpid(),signal.SIGSTOP); os._exit(0)
os.waitpid(p,0); ctypes.CDLL(None).ptrace(7,p,0,0); os.waitpid(p,0); print('traced')"`},
	{"go test", `mkdir -p m && cd m && printf 'module m\n\ngo 1.21\n' > go.mod && printf 'package m\n\nimport "testing"\n\nfunc TestX(t *testing.T) {}\n' > m_test.go && go test ./... | grep ok`},
}

func TestOrdinaryCommands(t *testing.T) {
	t.Parallel()
	s := llmtest.New()
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "GIT_CONFIG_GLOBAL=/dev/null", "GOFLAGS=")
	for _, k := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT"} {
		if v := os.Getenv(k); v != "" {
			u.env = append(u.env, k+"="+v)
		}
	}
	if os.Getenv("GOCACHE") == "" {
		if d, err := os.UserCacheDir(); err == nil {
			u.env = append(u.env, "GOCACHE="+filepath.Join(d, "go-build"))
		}
	}
	if err := os.MkdirAll(filepath.Join(u.home, ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, errs, st := u.run("tools", "call", "bash", `{"command":"git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"}`); st != 0 {
		t.Fatalf("git init: %s%s", out, errs)
	}
	for _, o := range ordinary {
		args := must(json.Marshal(map[string]any{"command": "set -e\n" + o.command, "timeout": 120}))
		if out, errs, status := u.run("tools", "call", "bash", string(args)); status != 0 {
			t.Errorf("%s: status %d: %s%s", o.name, status, out, errs)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Repositories inside a project are part of the wall: those that exist can't be turned into
// ones that run programs, and one that commands make is left without what names programs.
// A plain git status of the user afterwards runs nothing.
func TestHostileNestedRepositories(t *testing.T) {
	t.Parallel()
	if rep := sandbox.Probe(); !rep.FilesEnforced() {
		t.Skipf("this machine enforces only a part (lj doctor says so): %v", rep.Missing)
	}
	u := newUserIn(t, "", away(t))
	proof := filepath.Join(filepath.Dir(u.project), "pwned")
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=u", "-c", "user.email=u@x", "-c", "protocol.file.allow=always", "-C", dir}, args...)...)
		cmd.Env = append(u.env, "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	up := filepath.Join(filepath.Dir(u.project), "up")
	for _, d := range []string{u.project, up, filepath.Join(u.project, "nest"), filepath.Join(u.project, "vendor/v"), filepath.Join(u.project, "deep/er")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		git(d, "init", "-q")
		git(d, "commit", "-q", "--allow-empty", "-m", "first")
	}
	git(u.project, "submodule", "add", "-q", up, "smod")
	git(u.project, "worktree", "add", "-q", "wt")
	git(u.project, "add", "nest", "deep/er")
	git(u.project, "commit", "-q", "-m", "all")
	script := strings.ReplaceAll(`
evil='[core]
	fsmonitor = "touch PROOF; false"
	hooksPath = .evil'
mkdir -p evil; cp -r .git/modules/smod/. evil/; printf '%s\n' "$evil" >>evil/config
printf 'gitdir: ../evil\n' >smod/.git && echo LEAK gitfile
printf 'gitdir: ../evil\n' >wt/.git && echo LEAK worktree file
mv .git/modules/smod .git/modules/x && echo LEAK modules/smod
mv .git/modules .git/m2 && echo LEAK modules
mv .git/worktrees/wt .git/worktrees/x && echo LEAK worktrees/wt
mv nest/.git nest/git2 && echo LEAK nest/.git
printf '%s\n' "$evil" >>vendor/v/.git/config && echo LEAK vendor config
mkdir vendor/v/.git/hooks/x 2>/dev/null && echo LEAK vendor hooks
mv deep deep_o && cp -r deep_o deep && printf '%s\n' "$evil" >>deep/er/.git/config
git init -q fresh && git -C fresh config core.fsmonitor 'touch PROOF; false'
git init -q plain
echo over
`, "PROOF", proof)
	if err := os.WriteFile(filepath.Join(u.project, "run.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{bashCall("sh run.sh")}}, llmtest.Turn{Text: "done"})
	u.env = append(u.env, "OPENAI_BASE_URL="+s.URL())
	out, errs, status := u.run("run", "--mode", "auto", "--output", "json", "go")
	result := requestsOf(t, s, 2)[1].Last("tool").Content
	if !strings.Contains(result, "over") || strings.Contains(result, "LEAK") {
		t.Errorf("the commands said %q", result)
	}
	if status != 5 || !strings.Contains(out, `"wall:guard"`) || !strings.Contains(errs, "fresh/.git/config") || !strings.Contains(errs, "deep/er/.git/config") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	for _, d := range []string{".", "smod", "wt", "nest", "vendor/v", "deep/er", "fresh", "plain"} {
		dir := filepath.Join(u.project, d)
		cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "status", "--short")
		cmd.Env = append(u.env, "GIT_CONFIG_GLOBAL=/dev/null")
		_, _ = cmd.CombinedOutput() // a repository without its configuration may fail
		if _, err := os.Stat(proof); err == nil {
			t.Fatalf("git status in %s ran a program", d)
		}
	}
	// The same for one typed call.
	if err := os.WriteFile(filepath.Join(u.project, "typed.sh"), []byte("git init -q typed && git -C typed config core.fsmonitor 'touch "+proof+"; false'"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, errs, status := u.run("tools", "call", "bash", `{"command":"sh typed.sh"}`); status != 5 || !strings.Contains(errs, "typed/.git/config") {
		t.Errorf("a typed call: status %d: %s%s", status, out, errs)
	}
	if _, err := os.Stat(filepath.Join(u.project, "typed/.git/config")); err == nil {
		t.Error("what a typed call made is still there")
	}
	if out := git(filepath.Join(u.project, "plain"), "rev-parse", "--git-dir"); strings.TrimSpace(out) != ".git" {
		t.Errorf("a harmless new repository is gone: %s", out)
	}
	if strings.Contains(errs, "plain/.git") {
		t.Errorf("a harmless new repository is named: %s", errs)
	}
}
