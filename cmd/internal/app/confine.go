package app

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/core/sandbox"
	"github.com/lingjiyidong/lj/plugins/builtin/bash"
)

// profileEnv carries the profile to the process that enters it.
const profileEnv = "LJ_PLUGIN_PROFILE"

// guardFiles are the files of a project that decide what may run: they stay as they are
// whatever a tool does. pin are directories that hold them and stay where they are.
func guardFiles(project string) (protect, pin []string) {
	git := filepath.Join(project, ".git")
	dirs := []string{git}
	if p := gitrepo.Dir(git); p != "" && p != git {
		// A linked work tree: its own and the common directory.
		dirs = append(dirs, p)
		if common := gitrepo.CommonDir(p); common != p {
			dirs = append(dirs, common)
		}
		protect = append(protect, git)
	}
	for _, d := range dirs {
		if fi, err := os.Stat(d); err != nil || !fi.IsDir() {
			continue
		}
		pin = append(pin, d)
		for _, f := range []string{"config", "config.worktree", "hooks", "commondir", "gitdir"} {
			protect = append(protect, filepath.Join(d, f))
		}
		files, held := below(d)
		protect, pin = append(protect, files...), append(pin, held...)
	}
	for _, g := range nested(project) {
		if fi, err := os.Lstat(g); err != nil || !fi.IsDir() {
			protect = append(protect, g)
			continue
		}
		pin = append(pin, g)
		for _, f := range []string{"config", "config.worktree", "hooks", "commondir"} {
			protect = append(protect, filepath.Join(g, f))
		}
		files, held := below(g)
		protect, pin = append(protect, files...), append(pin, held...)
	}
	agent := filepath.Join(project, ".agent")
	if fi, err := os.Stat(agent); err == nil && fi.IsDir() {
		pin = append(pin, agent)
		protect = append(protect, filepath.Join(agent, "config.yaml"))
	}
	return protect, pin
}

// below lists what decides about running programs in the repositories that a repository
// holds: those of submodules, and linked work trees; and the directories of these.
func below(git string) (files, dirs []string) {
	_ = filepath.WalkDir(filepath.Join(git, "modules"), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		switch d.Name() {
		case "objects", "refs", "logs":
			return fs.SkipDir
		case "hooks":
			files = append(files, p)
			return fs.SkipDir
		case "config", "config.worktree", "commondir":
			files = append(files, p)
		default:
			if d.IsDir() {
				dirs = append(dirs, p)
			}
		}
		return nil
	})
	trees, _ := os.ReadDir(filepath.Join(git, "worktrees"))
	if len(trees) > 0 {
		dirs = append(dirs, filepath.Join(git, "worktrees"))
	}
	for _, t := range trees {
		dirs = append(dirs, filepath.Join(git, "worktrees", t.Name()))
		for _, f := range []string{"commondir", "gitdir", "config.worktree"} {
			files = append(files, filepath.Join(git, "worktrees", t.Name(), f))
		}
	}
	return files, dirs
}

// nestedLimit bounds the search for repositories inside a project, in entries.
const nestedLimit = 50_000

// nested lists the .git directories and files inside the project, without its own. What is
// near the top comes first, folders full of other people's code last.
func nested(project string) (list []string) {
	n := 0
	now, late := []string{project}, []string(nil)
	for len(now) > 0 || len(late) > 0 {
		if len(now) == 0 {
			now, late = late, nil
		}
		dir := now[0]
		now = now[1:]
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not for us to see, or gone
		}
		for _, e := range entries {
			if n++; n > nestedLimit {
				return list
			}
			p := filepath.Join(dir, e.Name())
			switch name := e.Name(); {
			case name == ".git":
				if dir != project && e.Type()&fs.ModeSymlink == 0 {
					list = append(list, p)
				}
			case !e.IsDir():
			case name == "node_modules" || name == "vendor" || name == ".venv" || name == "target":
				late = append(late, p)
			default:
				now = append(now, p)
			}
		}
	}
	return list
}

// openSockets lists the unix sockets with a path that programs of this machine have bound,
// but for those inside the given directories: a terminal multiplexer, a key agent or an
// editor behind one would do for a command what it may not do itself. At most 500.
func openSockets(except []string) (list []string) {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 8 || !filepath.IsAbs(f[7]) || seen[f[7]] {
			continue
		}
		path := strings.Join(f[7:], " ")
		if slices.ContainsFunc(except, func(d string) bool { return inside(path, d) }) {
			continue
		}
		seen[path] = true
		if list = append(list, path); len(list) == 500 {
			break
		}
	}
	return list
}

// foreignSockets are sockets of programs that would do for a command what it may not do
// itself.
func foreignSockets(env func(string) string) []string {
	list := []string{
		"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock",
		"/run/dbus/system_bus_socket", "/run/systemd/private", "/run/snapd.socket", "/var/snap/lxd/common/lxd/unix.socket",
		"/run/libvirt/libvirt-sock", "/run/incus/unix.socket",
	}
	if d := env("XDG_RUNTIME_DIR"); d != "" {
		for _, f := range []string{"bus", "systemd/private", "docker.sock", "podman/podman.sock"} {
			list = append(list, filepath.Join(d, f))
		}
	}
	if p := env("SSH_AUTH_SOCK"); filepath.IsAbs(p) {
		list = append(list, p)
	}
	if p, _, _ := strings.Cut(env("TMUX"), ","); filepath.IsAbs(p) {
		list = append(list, p)
	}
	return list
}

// hiddenSockets are the sockets that commands may not reach: all but those inside the
// given directories and those that the settings name.
func hiddenSockets(env func(string) string, except, allowed []string) []string {
	var open []string
	for _, s := range allowed {
		if name, ok := strings.CutPrefix(s, "$"); ok {
			s = env(name)
		}
		open = append(open, s)
	}
	return slices.DeleteFunc(append(foreignSockets(env), openSockets(except)...), func(p string) bool { return slices.Contains(open, p) })
}

// cacheDirs are where build tools and package managers of the user keep what can be made
// again.
func cacheDirs(env func(string) string) []string {
	home := env("HOME")
	list := []string{env("GOCACHE"), env("GOMODCACHE"), env("XDG_CACHE_HOME"), env("CARGO_HOME"), env("npm_config_cache"), env("PIP_CACHE_DIR")}
	if p := env("GOPATH"); p != "" {
		list = append(list, filepath.Join(p, "pkg"))
	}
	if home != "" {
		for _, d := range []string{".cache", "go/pkg", ".npm", ".cargo/registry", ".cargo/git", ".gradle", ".m2", ".yarn", ".pnpm-store", ".local/share/pnpm", ".bun", ".nuget", ".ivy2", ".sbt", ".cache/pip", "Library/Caches"} {
			list = append(list, filepath.Join(home, d))
		}
	}
	var out []string
	for _, d := range list {
		if d != "" && filepath.IsAbs(d) {
			out = append(out, d)
		}
	}
	return out
}

// profile is what a class of built-in tools may touch.
func (a *App) profile(class string) sandbox.Profile {
	env := a.Config.Env
	protect, pin := guardFiles(a.Project)
	write := append([]string{a.Project}, a.addDirs...)
	for _, d := range a.addDirs {
		p, q := guardFiles(d)
		protect, pin = append(protect, p...), append(pin, q...)
	}
	p := sandbox.Profile{ReadAll: true, Write: write, Protect: protect, Pin: pin, Hide: []string{a.Home}}
	switch class {
	case classFiles:
		p.Net = sandbox.NetNone
	case classWeb:
		p.Net, p.Write = sandbox.NetAll, nil
	case classBash:
		p.Net = sandbox.NetAll
		p.Write = append(p.Write, os.TempDir(), "/tmp", "/var/tmp")
		p.Write = append(p.Write, cacheDirs(env)...)
		p.Hide = append(p.Hide, hiddenSockets(env, []string{a.Home, a.Project}, a.Config.Strings("bash.sockets"))...)
		if os.Geteuid() != 0 {
			p.Processes = 0 // of the user, not of the command: a limit would hit his other programs
		}
	}
	return p
}

// confine prepares a built-in tool process of a class. The process enters the profile
// itself, before it serves. That of bash becomes this program anew in between: Landlock
// confines each thread by a domain of its own, and a thread may neither signal nor look at
// what another one started; after an exec there is one domain for all.
func (a *App) confine(class string) func(cmd *exec.Cmd, socketDir string) error {
	return func(cmd *exec.Cmd, socketDir string) error {
		if class == classBash {
			a.commands.Store(true)
			a.sweep()
		}
		p := a.profile(class)
		p.Sockets = socketDir
		if class == classBash {
			return a.behind(cmd, p)
		}
		sandbox.Prepare(cmd, p)
		cmd.Env = append(cmd.Env, profileEnv+"="+p.Encode())
		return nil
	}
}

// socketRoot is where the hosts of this LJ_HOME have their folders.
func (a *App) socketRoot() string { return filepath.Join(a.Home, "cache", "run") }

// sweep ends, beside the work, what commands of an lj that was killed left behind.
func (a *App) sweep() { a.background.Go(func() { bash.Sweep() }) }

// enter confines this process when its parent wants it.
func enter() error {
	encoded, ok := os.LookupEnv(profileEnv)
	if !ok {
		return nil
	}
	if err := os.Unsetenv(profileEnv); err != nil {
		return err
	}
	p, err := sandbox.Decode(encoded)
	if err != nil {
		return err
	}
	_, err = sandbox.Enter(p)
	return err
}

// confined says whether the kernel holds commands to their project here, guard files
// included.
func (a *App) confined() bool { return sandbox.Probe().FilesEnforced() }

// setDirs takes the added directories of a session, absolute and with links resolved.
func (a *App) setDirs(dirs []string) ([]string, error) {
	var out []string
	for _, d := range dirs {
		if !filepath.IsAbs(d) {
			d = filepath.Join(a.opt.Dir, d)
		}
		real, err := filepath.EvalSymlinks(d)
		if err != nil {
			return nil, core.Errorf(core.KindUsage, "--add-dir %s: %w", d, err)
		}
		if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
			return nil, core.Errorf(core.KindUsage, "--add-dir %s is not a directory", d)
		}
		if inside(real, a.Home) {
			return nil, core.Errorf(core.KindUsage, "--add-dir %s: lj's own directory can't be added", d)
		}
		out = append(out, real)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tools == nil {
		a.addDirs = out
	}
	return out, nil
}
