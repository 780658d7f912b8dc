package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
	"github.com/lingjiyidong/lj/core/gitrepo"
)

// Outcome is what a restore did.
type Outcome struct {
	Restored []string `json:"restored"` // put back as they were before
	Removed  []string `json:"removed"`  // were not there before
	Kept     []Kept   `json:"kept"`     // left alone, and why
}

// Kept is a path that was left alone.
type Kept struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Restore puts the changed paths back as they were before, each only if it still is what
// it was after; the others are left alone and listed. With force they are put back too.
// A path that is already as before counts as done, so that a restore that was killed can
// simply be repeated.
//
// Files are written beside their place and renamed, so that each is either the old or the
// new one at any moment.
func (e *Engine) Restore(ctx context.Context, changes []Change, force bool) (Outcome, error) {
	out := Outcome{Restored: []string{}, Removed: []string{}, Kept: []Kept{}}
	unlock, err := e.lock(unix.LOCK_SH)
	if err != nil {
		return out, err
	}
	defer unlock()
	// Deepest first for what goes, so that directories become empty; then what comes back,
	// shallow first.
	var gone, back []Change
	for _, c := range changes {
		if inGit(c.Path) {
			continue
		}
		if c.Before.Exists() {
			back = append(back, c)
		} else {
			gone = append(gone, c)
		}
	}
	sort.Slice(gone, func(i, j int) bool { return gone[i].Path > gone[j].Path })
	visible, err := e.visible(ctx, changes, force)
	if err != nil {
		return out, err
	}
	sort.Slice(back, func(i, j int) bool { return back[i].Path < back[j].Path })
	keep := func(c Change, reason string) { out.Kept = append(out.Kept, Kept{c.Path, reason}) }
	for _, c := range gone {
		if err := ctx.Err(); err != nil {
			return out, context.Cause(ctx)
		}
		now, err := e.state(c.Path)
		switch {
		case err != nil:
			keep(c, err.Error())
			continue
		case !now.Exists():
			continue // gone already
		case !visible[c.Path] && !now.Dir():
			continue // git ignored it before: it was not seen then, and is not of this turn
		case now.Dir() && !c.After.Dir():
			keep(c, "it is a directory now")
			continue
		case now != c.After && !force:
			keep(c, "changed since")
			continue
		}
		if err := fault.Point("snapshot.restore.remove"); err != nil {
			return out, err
		}
		if err := e.removePath(c.Path); err != nil {
			keep(c, err.Error())
			continue
		}
		out.Removed = append(out.Removed, c.Path)
	}
	for _, c := range back {
		if err := ctx.Err(); err != nil {
			return out, context.Cause(ctx)
		}
		now, err := e.state(c.Path)
		switch {
		case err != nil:
			keep(c, err.Error())
			continue
		case now == c.Before:
			if now != c.After && c.After != c.Before {
				out.Restored = append(out.Restored, c.Path)
			}
			continue
		case now.Mode&gitrepo.ModeKind == gitrepo.ModeDir && !c.Before.Dir() && (!c.After.Exists() || c.After.Dir() || force):
			// The turn made a directory of it; what was in it is gone by now. Only
			// directories without files give way.
			if err := removeEmpty(filepath.Join(e.o.Project, c.Path)); err != nil {
				keep(c, "there is a directory with other files in its place")
				continue
			}
		case now != c.After && !force:
			keep(c, "changed since")
			continue
		}
		if err := fault.Point("snapshot.restore.write"); err != nil {
			return out, err
		}
		if err := e.writePath(c.Path, c.Before); err != nil {
			keep(c, err.Error())
			continue
		}
		out.Restored = append(out.Restored, c.Path)
	}
	sort.Strings(out.Removed)
	sort.Slice(out.Kept, func(i, j int) bool { return out.Kept[i].Path < out.Kept[j].Path })
	return out, nil
}

// restoreRules puts an ignore file back as it was before, if it still is what the turn made
// of it.
func (e *Engine) restoreRules(c Change, changes []Change, force bool) error {
	for _, g := range changes {
		if strings.HasPrefix(g.Path, c.Path+"/") && !g.Before.Exists() {
			if now, err := e.state(g.Path); err == nil && (now == g.After || force && !now.Dir()) {
				if err := e.removePath(g.Path); err != nil {
					return core.Errorf(core.KindFailed, "remove %s: %w", g.Path, err)
				}
			}
		}
	}
	now, err := e.state(c.Path)
	if err != nil || now == c.Before {
		return nil // the caller looks again
	}
	if now.Mode&gitrepo.ModeKind == gitrepo.ModeDir && (!c.After.Exists() || c.After.Dir()) {
		if removeEmpty(filepath.Join(e.o.Project, c.Path)) != nil {
			return nil
		}
	} else if now != c.After && now.Exists() && !force {
		return nil
	}
	if err := e.writePath(c.Path, c.Before); err != nil {
		return core.Errorf(core.KindFailed, "restore %s: %w", c.Path, err)
	}
	return nil
}

// visible is what would be recorded now if the ignore files were as before. A path that is
// not in it may have been there, ignored, before the turn: it is never removed.
func (e *Engine) visible(ctx context.Context, changes []Change, force bool) (map[string]bool, error) {
	for _, c := range changes {
		if _, name := split(c.Path); name != ".gitignore" || !c.Before.Exists() || c.Before.Dir() {
			continue
		}
		if err := e.restoreRules(c, changes, force); err != nil {
			return nil, err
		}
		if now, err := e.state(c.Path); err != nil || now != c.Before {
			return map[string]bool{}, nil // the rules of then can't be had: nothing is removed
		}
	}
	var hidden []string
	for _, c := range changes {
		if _, name := split(c.Path); name == ".gitignore" && !c.Before.Exists() {
			hidden = append(hidden, c.Path)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cache == nil {
		e.cache = loadCache(filepath.Join(e.o.Dir, "stat"))
	}
	files, _, _, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(files))
	for _, f := range files {
		out[f.path] = true
	}
	// An ignore file that the turn made hides what the turn made too.
	for _, h := range hidden {
		dir, _ := split(h)
		for _, c := range changes {
			if !c.Before.Exists() && (dir == "" || strings.HasPrefix(c.Path, dir+"/")) {
				out[c.Path] = true
			}
		}
	}
	return out, nil
}

// removeEmpty removes a directory that holds nothing but such directories.
func removeEmpty(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, x := range list {
		if !x.IsDir() {
			return errors.New("it holds files")
		}
		if err := removeEmpty(filepath.Join(dir, x.Name())); err != nil {
			return err
		}
	}
	return unix.Rmdir(dir)
}

// real is the place of a path, provided that no link on the way leads elsewhere.
func (e *Engine) real(path string) (string, error) {
	full := filepath.Join(e.o.Project, filepath.FromSlash(path))
	dir := filepath.Dir(full)
	for d := dir; d != e.o.Project && strings.HasPrefix(d, e.o.Project); d = filepath.Dir(d) {
		fi, err := os.Lstat(d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if !fi.IsDir() {
			return "", fmt.Errorf("%s is no directory", strings.TrimPrefix(d, e.o.Project+"/"))
		}
	}
	return full, nil
}

// state is what a path is now. A directory counts as an empty one when it has no entries;
// otherwise its hash is zero.
func (e *Engine) state(path string) (State, error) {
	full, err := e.real(path)
	if err != nil {
		return State{}, nil // something else is in the way: the path itself is not there
	}
	var us unix.Stat_t
	if err := unix.Lstat(full, &us); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return State{}, nil
		}
		return State{}, err
	}
	st := statOf(&us)
	switch st.kind() {
	case unix.S_IFDIR:
		list, err := os.ReadDir(full)
		if err != nil {
			return State{}, err
		}
		if len(list) == 0 {
			return State{gitrepo.ModeDir, gitrepo.EmptyTree}, nil
		}
		return State{Mode: gitrepo.ModeDir}, nil
	case unix.S_IFLNK:
		target, err := os.Readlink(full)
		if err != nil {
			return State{}, err
		}
		h, err := gitrepo.HashBlob(strings.NewReader(target), int64(len(target)))
		return State{gitrepo.ModeLink, h}, err
	case unix.S_IFREG:
		f, err := os.OpenFile(full, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return State{}, err
		}
		defer f.Close()
		h, err := gitrepo.HashBlob(f, st.size)
		return State{st.gitMode(), h}, err
	}
	return State{}, errors.New("neither a file nor a link")
}

// removePath removes a file, link or empty directory, and the directories above it that
// became empty and that nothing recorded holds.
func (e *Engine) removePath(path string) error {
	full, err := e.real(path)
	if err != nil {
		return err
	}
	if err := os.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writePath puts a recorded state in place.
func (e *Engine) writePath(path string, s State) error {
	full, err := e.real(path)
	if err != nil {
		return err
	}
	if s.Dir() {
		return os.MkdirAll(full, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	kind, size, r, err := e.objects.Read(s.Hash)
	if err != nil {
		return err
	}
	defer r.Close()
	if kind != "blob" {
		return fmt.Errorf("object %s is a %s", s.Hash, kind)
	}
	if s.Mode&gitrepo.ModeKind == gitrepo.ModeLink {
		target := make([]byte, size)
		if _, err := io.ReadFull(r, target); err != nil {
			return err
		}
		tmp := filepath.Join(filepath.Dir(full), fmt.Sprintf(".lj-undo-%d", os.Getpid()))
		os.Remove(tmp)
		if err := os.Symlink(string(target), tmp); err != nil {
			return err
		}
		if err := os.Rename(tmp, full); err != nil {
			os.Remove(tmp)
			return err
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(full), ".lj-undo-*")
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	err = errors.Join(err, f.Chmod(fs.FileMode(s.Mode&0o777)), f.Sync(), f.Close())
	if err == nil {
		err = fault.Point("snapshot.restore.rename")
	}
	if err == nil {
		err = os.Rename(f.Name(), full)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return nil
}

// Removable lists, deepest first, the directories that hold nothing any more although
// they were not there before: undo removes them with the files that made them.
func (e *Engine) Removable(removed []string, before gitrepo.Hash) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range removed {
		for d, _ := split(p); d != ""; d, _ = split(d) {
			if seen[d] {
				continue
			}
			seen[d] = true
			if ok, err := e.hasDir(before, d); err == nil && !ok {
				out = append(out, d)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return strings.Count(out[i], "/") > strings.Count(out[j], "/") })
	return out
}

// hasDir says whether a record holds a directory.
func (e *Engine) hasDir(tree gitrepo.Hash, dir string) (bool, error) {
	for part := range strings.SplitSeq(dir, "/") {
		list, err := e.entriesOf(tree)
		if err != nil {
			return false, err
		}
		found := false
		for _, x := range list {
			if x.Name == part && x.Mode&gitrepo.ModeKind == gitrepo.ModeDir {
				tree, found = x.Hash, true
				break
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// Tidy removes directories that Removable named, as far as they are empty.
func (e *Engine) Tidy(dirs []string) {
	for _, d := range dirs {
		if full, err := e.real(d); err == nil {
			_ = unix.Rmdir(full) // one that is not empty stays
		}
	}
}

// Describe is a short word for a change: "changed", "created", "removed".
func (c Change) Describe() string {
	switch {
	case !c.Before.Exists():
		return "created"
	case !c.After.Exists():
		return "removed"
	}
	return "changed"
}
