package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core"
)

// guardWatch holds the guard's files that do not exist: the kernel keeps those that exist
// as they are, but can't keep a name free in a directory where others may be written. What
// appears there is taken away before anything can act on it.
type guardWatch struct {
	mu     sync.Mutex
	active int // calls under watch
	absent []string
}

// absentGuards lists the names of the guard's files that are free. Those of a repository
// count only where its directory exists, so that git init works.
func (a *App) absentGuards() (free []string) {
	for _, d := range append([]string{a.Project}, a.addDirs...) {
		protect, _ := guardFiles(d)
		for _, p := range append(protect, filepath.Join(d, ".agent", "config.yaml")) {
			if _, err := os.Lstat(p); err == nil {
				continue
			}
			if fi, err := os.Stat(filepath.Dir(p)); (err == nil && fi.IsDir()) || filepath.Base(filepath.Dir(p)) == ".agent" {
				free = append(free, p)
			}
		}
	}
	return free
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
		if _, err := os.Lstat(p); err != nil {
			continue
		}
		dir := filepath.Join(a.Home, "quarantine", fmt.Sprintf("%s-%d", a.opt.Now().UTC().Format("20060102T150405.000"), i))
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
			said = append(said, fmt.Sprintf("%s was made although it is a wall, and can't be taken away: %v", p, err))
			continue
		}
		said = append(said, fmt.Sprintf("%s was made although it is a wall (it decides what may run here); it was moved to %s", p, to))
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
		s.app.opt.Warn(said)
		res.Text = strings.TrimPrefix(res.Text+"\n"+said, "\n")
		res.IsError = true
		s.mu.Lock()
		s.denied = append(s.denied, core.Denied{Tool: call.Name, Args: []byte(call.Arguments), Rule: "wall:guard"})
		s.mu.Unlock()
	}
	return res, err
}
