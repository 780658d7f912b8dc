package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
)

// guardWatch holds the guard's files that do not exist: the kernel keeps those that exist
// as they are, but can't keep a name free in a directory where others may be written. What
// appears there is taken away before anything can act on it.
//
// It also looks, when a turn in which commands ran has ended, at the repositories inside
// the project that were not there before or lie where another one was: git follows into
// them, so one that names programs to run would run them when a person uses git next.
type guardWatch struct {
	mu      sync.Mutex
	active  int // calls under watch
	absent  []string
	protect []string          // of this turn, nil before its first call
	known   map[string]string // the repositories of before: path and identity
}

// absentGuards lists the names of the guard's files that are free. Those of a repository
// count only where its directory exists, so that git init works.
func (a *App) absentGuards() (free []string) {
	if a.guards.protect == nil {
		a.guards.known = map[string]string{}
		for _, d := range append([]string{a.Project}, a.addDirs...) {
			protect, _ := guardFiles(d)
			a.guards.protect = append(append(a.guards.protect, protect...), filepath.Join(d, ".agent", "config.yaml"))
			for _, g := range nested(d) {
				a.guards.known[g] = identity(g)
			}
		}
	}
	for _, p := range a.guards.protect {
		if _, err := os.Lstat(p); err == nil {
			continue
		}
		if fi, err := os.Stat(filepath.Dir(p)); (err == nil && fi.IsDir()) || filepath.Base(filepath.Dir(p)) == ".agent" {
			free = append(free, p)
		}
	}
	return free
}

// identity tells one repository from another that lies at the same path.
func identity(git string) string {
	fi, err := os.Lstat(git)
	if err != nil {
		return ""
	}
	if !fi.IsDir() {
		b, err := os.ReadFile(git)
		if err != nil || len(b) > 64<<10 {
			return "?"
		}
		return string(b)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// settleGuards looks at the repositories that a turn's commands have made and takes away
// what in them names programs to run. It says what it took, "" for nothing.
func (a *App) settleGuards() string {
	a.guards.mu.Lock()
	defer a.guards.mu.Unlock()
	if a.guards.protect == nil {
		return ""
	}
	known := a.guards.known
	a.guards.protect, a.guards.known = nil, nil
	var said []string
	for _, d := range append([]string{a.Project}, a.addDirs...) {
		for _, g := range nested(d) {
			if id, ok := known[g]; ok && id == identity(g) {
				continue
			}
			for _, x := range gitrepo.RunsPrograms(g) {
				said = append(said, a.quarantine(x.Path, fmt.Sprintf("%s names a program that git would run (%s)", x.Path, x.What), len(said)))
			}
		}
	}
	return strings.Join(said, "\n")
}

// quarantine moves a file out of the project and says so.
func (a *App) quarantine(p, why string, n int) string {
	dir := filepath.Join(a.Home, "quarantine", fmt.Sprintf("%s-%d", a.opt.Now().UTC().Format("20060102T150405.000"), n))
	err := os.MkdirAll(dir, 0o700)
	to := filepath.Join(dir, filepath.Base(p))
	if err == nil {
		if err = os.Rename(p, to); err != nil {
			// Another file system: it is copied where it is small, and goes in any case.
			if raw, rerr := os.ReadFile(p); rerr == nil && len(raw) < 1<<20 {
				_ = writePrivate(to, raw)
			}
			err = os.RemoveAll(p)
		}
	}
	if err != nil {
		return fmt.Sprintf("%s, and can't be taken away: %v", why, err)
	}
	return fmt.Sprintf("%s; it was moved to %s", why, to)
}

// watchGuards notes what is free before a confined call.
func (a *App) watchGuards() {
	a.guards.mu.Lock()
	defer a.guards.mu.Unlock()
	if a.guards.active++; a.guards.active == 1 {
		a.guards.absent = a.absentGuards()
	}
}

// takeGuards moves what has appeared under a free name to LJ_HOME/quarantine and says so;
// "" when nothing has.
func (a *App) takeGuards() string {
	a.guards.mu.Lock()
	defer a.guards.mu.Unlock()
	a.guards.active--
	var said []string
	for i, p := range a.guards.absent {
		if _, err := os.Lstat(p); err == nil {
			said = append(said, a.quarantine(p, p+" was made although it is a wall (it decides what may run here)", i))
		}
	}
	return strings.Join(said, "\n")
}

// guarded runs a confined call under the watch and adds what was taken away to its result.
func (s *turnSession) guarded(confined bool, call core.ToolCall, f func() (core.ToolResult, error)) (core.ToolResult, error) {
	if !confined {
		return f()
	}
	s.app.watchGuards()
	res, err := f()
	if said := s.app.takeGuards(); said != "" {
		s.took(said, call)
		res.Text = strings.TrimPrefix(res.Text+"\n"+said, "\n")
		res.IsError = true
	}
	return res, err
}

// settle looks at what the commands so far have made; call is named for what it finds.
func (s *turnSession) settle(call core.ToolCall) {
	if said := s.app.settleGuards(); said != "" {
		s.took(said, call)
	}
}

// took tells and records what was taken away.
func (s *turnSession) took(said string, call core.ToolCall) {
	s.app.opt.Warn(said)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = append(s.denied, core.Denied{Tool: call.Name, Args: []byte(call.Arguments), Rule: "wall:guard"})
}
