package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve/snapshot"
	"github.com/lingjiyidong/lj/plugins/builtin/bash"
	"github.com/lingjiyidong/lj/plugins/host"
)

// How long and how much is kept for undo.
const (
	snapshotAge  = 30 * 24 * time.Hour
	snapshotSize = 4 << 30 // bytes of one project's store
)

// SnapshotInfo is what is kept of one turn that changed files: the states of the working
// tree before and after it. It is a file beside the objects, so that undo outlives the
// database.
type SnapshotInfo struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // turn, undo
	Of   string `json:"of,omitempty"`
	// Kept are the paths that an undo of this record left as they were; undo --force takes
	// them back, too.
	Kept      []string           `json:"kept,omitempty"`
	Session   string             `json:"session_id,omitempty"`
	Turn      int                `json:"turn,omitempty"`
	Project   string             `json:"project"`
	Before    string             `json:"before"`
	After     string             `json:"after,omitempty"`
	State     string             `json:"state"` // open, closed, crashed, undone
	UndoneBy  string             `json:"undone_by,omitempty"`
	CreatedAt time.Time          `json:"created_at"`
	ClosedAt  *time.Time         `json:"closed_at"`
	Alive     time.Time          `json:"alive_at"`
	Files     int                `json:"files"` // paths that differ
	Touched   []string           `json:"touched,omitempty"`
	LeftOut   []snapshot.LeftOut `json:"left_out"`
	PID       int                `json:"pid,omitempty"`
	Started   uint64             `json:"pid_started,omitempty"`
	Title     string             `json:"title,omitempty"`
}

// snapshotDir is the store of this project.
func (a *App) snapshotDir() string {
	sum := sha256.Sum256([]byte(a.Project))
	return filepath.Join(a.Home, "snapshots", hex.EncodeToString(sum[:8]))
}

// snapshots is the engine of this project.
func (a *App) snapshots() (*snapshot.Engine, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.snaps != nil {
		return a.snaps, nil
	}
	e, err := snapshot.Open(snapshot.Options{Dir: a.snapshotDir(), Project: a.Project, Home: a.Home})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(a.snapshotDir(), "records"), 0o700); err != nil {
		return nil, core.Errorf(core.KindFailed, "open snapshots: %w", err)
	}
	note := filepath.Join(a.snapshotDir(), "project")
	if _, err := os.Lstat(note); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(note, []byte(a.Project+"\n"), 0o600); err != nil {
			return nil, core.Errorf(core.KindFailed, "open snapshots: %w", err)
		}
	}
	a.snaps = e
	return e, nil
}

func (a *App) recordPath(id string) string {
	return filepath.Join(a.snapshotDir(), "records", id+".json")
}

func (a *App) saveRecord(r SnapshotInfo) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := fault.Point("undo.record"); err != nil {
		return err
	}
	return writePrivate(a.recordPath(r.ID), b)
}

// Snapshots lists what is kept of this project, newest first. A record that can't be read
// is left out.
func (a *App) Snapshots() ([]SnapshotInfo, error) {
	entries, err := os.ReadDir(filepath.Join(a.snapshotDir(), "records"))
	if errors.Is(err, fs.ErrNotExist) {
		return []SnapshotInfo{}, nil
	}
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "list snapshots: %w", err)
	}
	out := []SnapshotInfo{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(a.snapshotDir(), "records", e.Name()))
		if err != nil {
			continue
		}
		var r SnapshotInfo
		if json.Unmarshal(b, &r) != nil || r.ID+".json" != e.Name() {
			continue
		}
		if r.LeftOut == nil {
			r.LeftOut = []snapshot.LeftOut{}
		}
		out = append(out, r)
	}
	sort.Slice(out, func(i, j int) bool {
		if !out[i].CreatedAt.Equal(out[j].CreatedAt) {
			return out[i].CreatedAt.After(out[j].CreatedAt)
		}
		return out[i].ID > out[j].ID
	})
	return out, nil
}

// turnSnapshot is the open record of a running turn.
type turnSnapshot struct {
	info   SnapshotInfo
	before *snapshot.Record
}

// openSnapshot records the tree before the first writing call of a turn.
func (a *App) openSnapshot(ctx context.Context, session, title string, turn int, touches []string) (*turnSnapshot, error) {
	e, err := a.snapshots()
	if err != nil {
		return nil, err
	}
	e.Include(touches...)
	before, err := e.Take(ctx)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	now := a.opt.Now()
	t := &turnSnapshot{before: before, info: SnapshotInfo{
		ID: id.String(), Kind: "turn", Session: session, Turn: turn, Project: a.Project, Before: before.Tree.String(), State: "open", Title: title,
		CreatedAt: now, Alive: now, Touched: touches, LeftOut: before.LeftOut, PID: os.Getpid(), Started: processStart(os.Getpid()),
	}}
	return t, a.saveRecord(t.info)
}

// touchSnapshot notes the paths that a call is about to change by name.
func (a *App) touchSnapshot(t *turnSnapshot, paths []string) error {
	e, err := a.snapshots()
	if err != nil {
		return err
	}
	changed, err := e.Amend(t.before, paths...)
	if err != nil {
		return err
	}
	t.info.Alive = a.opt.Now()
	for _, p := range paths {
		if !slices.Contains(t.info.Touched, p) {
			t.info.Touched = append(t.info.Touched, p)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	t.info.Before = t.before.Tree.String()
	return a.saveRecord(t.info)
}

// closeSnapshot records the tree after the turn. A turn that changed nothing leaves
// nothing.
func (a *App) closeSnapshot(ctx context.Context, t *turnSnapshot) error {
	e, err := a.snapshots()
	if err != nil {
		return err
	}
	after, err := e.Take(ctx)
	if err != nil {
		return err
	}
	if err := fault.Point("undo.close"); err != nil {
		return err
	}
	return a.settle(e, &t.info, after, "closed")
}

func (a *App) settle(e *snapshot.Engine, info *SnapshotInfo, after *snapshot.Record, state string) error {
	before, err := gitrepo.ParseHash(info.Before)
	if err != nil {
		return err
	}
	changes, err := e.Diff(before, after.Tree)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return os.Remove(a.recordPath(info.ID))
	}
	if err := e.Settle(changes); err != nil {
		return err
	}
	now := a.opt.Now()
	info.After, info.State, info.ClosedAt, info.Files = after.Tree.String(), state, &now, len(changes)
	info.LeftOut, info.PID, info.Started = after.LeftOut, 0, 0
	return a.saveRecord(*info)
}

// closeCrashed closes the records of turns whose process died.
func (a *App) closeCrashed(ctx context.Context) error {
	list, err := a.Snapshots()
	if err != nil {
		return err
	}
	swept := false
	for _, r := range list {
		if r.State != "open" || r.PID == os.Getpid() || r.PID > 0 && processStart(r.PID) == r.Started && r.Started != 0 {
			continue
		}
		if !swept {
			// What its commands had started may still be writing.
			host.Clean(a.socketRoot())
			bash.Sweep()
			swept = true
		}
		e, err := a.snapshots()
		if err != nil {
			return err
		}
		e.Include(r.Touched...)
		after, err := e.Take(ctx)
		if err != nil {
			return err
		}
		if err := a.settle(e, &r, after, "crashed"); err != nil {
			return err
		}
	}
	return nil
}

// processStart tells two processes with the same id apart: the start time in clock ticks
// since boot, 0 when there is no such process.
func processStart(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || syscall.Kill(pid, 0) != nil {
			return 0
		}
		return 1
	}
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	var n uint64
	if _, err := fmt.Sscan(fields[19], &n); err != nil {
		return 0
	}
	return n
}

// UndoResult is what undo did.
type UndoResult struct {
	Undone   *string         `json:"undone"`
	Restored []string        `json:"restored"`
	Removed  []string        `json:"removed"`
	Kept     []snapshot.Kept `json:"kept"`
	Snapshot string          `json:"snapshot,omitempty"` // the record of this undo: undo it to have the turn back
}

// Undo brings the paths that a turn changed back to what they were before it, as far as
// nobody changed them since. id "" is the newest turn that is not undone yet.
// With session, only turns of that conversation count when no id is given.
func (a *App) Undo(ctx context.Context, id, session string, force bool) (UndoResult, error) {
	res := UndoResult{Restored: []string{}, Removed: []string{}, Kept: []snapshot.Kept{}}
	if id != "" {
		if err := core.CheckID(id); err != nil {
			return res, err
		}
	}
	if _, err := os.Stat(filepath.Join(a.snapshotDir(), "records")); errors.Is(err, fs.ErrNotExist) && id == "" {
		return res, nil
	}
	if err := a.closeCrashed(ctx); err != nil {
		return res, err
	}
	list, err := a.Snapshots()
	if err != nil {
		return res, err
	}
	targets, err := pick(list, id, session, force)
	if err != nil {
		return res, err
	}
	for _, target := range targets {
		// What an earlier undo of a turn had to leave is looked at again; where it still can't
		// be taken back, the turn before is next.
		again := target.State == "undone" && id == "" && !force
		if res, err = a.undo(ctx, target, list, force, id != "" || again); err != nil || !again || len(res.Restored)+len(res.Removed) > 0 {
			return res, err
		}
	}
	return UndoResult{Restored: []string{}, Removed: []string{}, Kept: []snapshot.Kept{}}, nil
}

// undo takes back one turn, or what an undo of it has left. With keep, the record stays as
// it is when nothing could be taken back.
func (a *App) undo(ctx context.Context, target *SnapshotInfo, list []SnapshotInfo, force, keep bool) (UndoResult, error) {
	res := UndoResult{Restored: []string{}, Removed: []string{}, Kept: []snapshot.Kept{}}
	e, err := a.snapshots()
	if err != nil {
		return res, err
	}
	before, err := gitrepo.ParseHash(target.Before)
	if err != nil {
		return res, err
	}
	after, err := gitrepo.ParseHash(target.After)
	if err != nil {
		return res, err
	}
	e.Include(target.Touched...)
	changes, err := e.Diff(before, after)
	if err != nil {
		return res, err
	}
	changes, late := a.own(changes, *target, list, force)
	if target.State == "undone" { // what the undo before left
		changes = slices.DeleteFunc(changes, func(c snapshot.Change) bool { return !slices.Contains(target.Kept, c.Path) })
	}
	// The undo is a turn of its own, so that it can be undone. Once begun it is finished:
	// an interrupt does not leave half of it.
	ctx = context.WithoutCancel(ctx)
	open, err := a.openSnapshot(ctx, target.Session, target.Title, target.Turn, target.Touched)
	if err != nil {
		return res, err
	}
	open.info.Kind, open.info.Of = "undo", target.ID
	if err := a.saveRecord(open.info); err != nil {
		return res, err
	}
	out, err := e.Restore(ctx, changes, force)
	if err != nil {
		return res, err
	}
	e.Tidy(e.Removable(out.Removed, before))
	res.Restored, res.Removed, res.Kept = out.Restored, out.Removed, append(out.Kept, late...)
	res.Undone, res.Snapshot = &target.ID, open.info.ID
	if keep && len(res.Restored)+len(res.Removed) == 0 {
		if err := a.closeSnapshot(ctx, open); err != nil {
			return res, err
		}
		res.Snapshot = ""
		return res, nil
	}
	target.State, target.UndoneBy, target.Kept = "undone", open.info.ID, nil
	for _, k := range res.Kept {
		target.Kept = append(target.Kept, k.Path)
	}
	if err := a.saveRecord(*target); err != nil {
		return res, err
	}
	if target.Kind == "undo" {
		// The turn that it undid is in force again.
		for _, r := range list {
			if r.ID == target.Of {
				r.State, r.UndoneBy, r.Kept = "closed", "", nil
				if err := a.saveRecord(r); err != nil {
					return res, err
				}
			}
		}
	}
	if err := a.closeSnapshot(ctx, open); err != nil {
		return res, err
	}
	if _, err := os.Lstat(a.recordPath(open.info.ID)); err != nil {
		res.Snapshot = ""
	}
	return res, nil
}

// pick finds the records that an undo is about, the first first: the one that id names, or
// without one the newest turn that is not undone, and before it those whose undo had to
// leave something.
func pick(list []SnapshotInfo, id, session string, force bool) ([]*SnapshotInfo, error) {
	var found *SnapshotInfo
	var turns []*SnapshotInfo
	for i := range list {
		r := &list[i]
		if id == "" {
			if r.Kind != "turn" || session != "" && r.Session != session {
				continue
			}
			if r.left() {
				turns = append(turns, r)
				if force {
					return turns, nil
				}
			}
			if r.State == "closed" || r.State == "crashed" {
				return append(turns, r), nil
			}
			continue
		}
		if r.ID == id {
			found = r
			break
		}
		if len(id) >= 4 && strings.HasPrefix(r.ID, id) {
			if found != nil {
				return nil, core.Errorf(core.KindUsage, "snapshot %s is ambiguous", id).Hint("give more of the id")
			}
			found = r
		}
	}
	if id == "" {
		return turns, nil
	}
	switch {
	case found == nil:
		return nil, core.Errorf(core.KindNotFound, "snapshot %s: %w", id, core.ErrNotFound).Hint("lj snapshots list shows them")
	case found.State == "open":
		return nil, core.Errorf(core.KindUsage, "the turn of snapshot %s is still running", found.ID).Hint("wait for its end, or stop it")
	case found.State == "undone" && !found.left():
		return nil, core.Errorf(core.KindUsage, "snapshot %s is undone already", found.ID).Hint("lj undo %s brings it back", found.UndoneBy)
	}
	return []*SnapshotInfo{found}, nil
}

// left says whether an undo of this record had to leave paths as they were.
func (r *SnapshotInfo) left() bool { return r.State == "undone" && len(r.Kept) > 0 }

// own leaves out what another session changed by name while the turn ran, and what was
// changed after a turn's process had died.
func (a *App) own(changes []snapshot.Change, target SnapshotInfo, list []SnapshotInfo, force bool) (own []snapshot.Change, kept []snapshot.Kept) {
	foreign := map[string]bool{}
	for _, r := range list {
		if r.ID == target.ID || r.Session == target.Session || r.Kind != "turn" || r.ClosedAt == nil || target.ClosedAt == nil ||
			r.ClosedAt.Before(target.CreatedAt) || r.CreatedAt.After(*target.ClosedAt) {
			continue
		}
		for _, p := range r.Touched {
			foreign[p] = true
		}
	}
	for _, p := range target.Touched {
		delete(foreign, p)
	}
	for _, c := range changes {
		if foreign[c.Path] {
			continue
		}
		if target.State == "crashed" && !force && !slices.Contains(target.Touched, c.Path) {
			if fi, err := os.Lstat(filepath.Join(a.Project, c.Path)); err == nil && fi.ModTime().After(target.Alive.Add(time.Minute)) {
				kept = append(kept, snapshot.Kept{Path: c.Path, Reason: "changed after lj had been stopped"})
				continue
			}
		}
		own = append(own, c)
	}
	return own, kept
}

// SnapshotDetail is one record with the paths that differ.
type SnapshotDetail struct {
	SnapshotInfo
	Changes []SnapshotChange `json:"changes"`
}

// SnapshotChange is one path of a record.
type SnapshotChange struct {
	Path   string `json:"path"`
	Change string `json:"change"` // changed, created, removed
}

// SnapshotShow is one record of this project.
func (a *App) SnapshotShow(id string) (SnapshotDetail, error) {
	if err := core.CheckID(id); err != nil {
		return SnapshotDetail{}, err
	}
	list, err := a.Snapshots()
	if err != nil {
		return SnapshotDetail{}, err
	}
	var d *SnapshotDetail
	for _, r := range list {
		if r.ID == id || strings.HasPrefix(r.ID, id) && d == nil {
			d = &SnapshotDetail{SnapshotInfo: r, Changes: []SnapshotChange{}}
		}
	}
	if d == nil {
		return SnapshotDetail{}, core.Errorf(core.KindNotFound, "snapshot %s: %w", id, core.ErrNotFound).Hint("lj snapshots list shows them")
	}
	if d.After == "" {
		return *d, nil
	}
	e, err := a.snapshots()
	if err != nil {
		return *d, err
	}
	before, err := gitrepo.ParseHash(d.Before)
	if err != nil {
		return *d, err
	}
	after, err := gitrepo.ParseHash(d.After)
	if err != nil {
		return *d, err
	}
	changes, err := e.Diff(before, after)
	if err != nil {
		return *d, err
	}
	for _, c := range changes {
		d.Changes = append(d.Changes, SnapshotChange{c.Path, c.Describe()})
	}
	return *d, nil
}

// PruneResult is what prune removed.
type PruneResult struct {
	Records int   `json:"records"`
	Objects int   `json:"objects"`
	Freed   int64 `json:"freed_bytes"`
	Busy    bool  `json:"busy"`
}

// Prune removes records that are older than age, and the oldest ones until the store fits
// size, with everything that only they need.
func (a *App) Prune(ctx context.Context, age time.Duration, size int64) (PruneResult, error) {
	var res PruneResult
	if _, err := os.Stat(a.snapshotDir()); errors.Is(err, fs.ErrNotExist) {
		return res, nil
	}
	e, err := a.snapshots()
	if err != nil {
		return res, err
	}
	list, err := a.Snapshots()
	if err != nil {
		return res, err
	}
	limit := a.opt.Now().Add(-age)
	for {
		var keep []gitrepo.Hash
		var left []SnapshotInfo
		for _, r := range list {
			if r.State != "open" && r.CreatedAt.Before(limit) {
				if err := os.Remove(a.recordPath(r.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return res, core.Errorf(core.KindFailed, "remove snapshot %s: %w", r.ID, err)
				}
				res.Records++
				continue
			}
			left = append(left, r)
			for _, s := range []string{r.Before, r.After} {
				if h, err := gitrepo.ParseHash(s); err == nil {
					keep = append(keep, h)
				}
			}
		}
		n, freed, done, err := e.Prune(keep)
		res.Objects += n
		res.Freed += freed
		if err != nil || !done {
			res.Busy = !done
			return res, err
		}
		if e.Size() <= size || len(left) == 0 {
			return res, nil
		}
		// The oldest half goes next.
		list = left
		limit = left[len(left)/2].CreatedAt.Add(time.Nanosecond)
		if len(left) == 1 {
			limit = left[0].CreatedAt.Add(time.Nanosecond)
		}
		if ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
	}
}

// touchedBy is the paths, relative to the project, that a call will change by name.
func (a *App) touchedBy(name string, args json.RawMessage) []string {
	switch name {
	case "write_file", "edit_file":
	default:
		return nil
	}
	var in struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(args, &in) != nil || in.Path == "" {
		return nil
	}
	path := in.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Project, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	rel, err := filepath.Rel(a.Project, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil
	}
	return []string{filepath.ToSlash(rel)}
}
