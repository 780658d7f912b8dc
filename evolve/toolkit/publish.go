package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/fault"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve/gobuild"
)

const (
	skillFile   = "SKILL.md"
	refLive     = "refs/lj/live/"
	refDisabled = "refs/lj/disabled/"
	refTags     = "refs/tags/"
)

// state is what is true of a tool under the lock.
type state struct {
	record   core.ToolRecord // zero for a tool that never was
	accepted []core.ToolVersion
	live     *core.ToolVersion
}

// plan is what a change does.
type plan struct {
	record  core.ToolRecord
	version *core.ToolVersion // a new one, nil otherwise
	program string            // put into its place, "" for none
	// files are the tool's in the work tree; with setFiles and nil they are removed.
	files    map[string][]byte
	setFiles bool
	sdk      bool   // write the SDK of this program too
	meta     []byte // of an old version, as its commit has it; made from version otherwise
	message  string
}

// changeData is what finishing or undoing a change needs, as it is journalled.
type changeData struct {
	Name    string            `json:"name"`
	Main    string            `json:"main"`
	Refs    map[string]string `json:"refs"`
	Objects []string          `json:"objects,omitempty"`
	Program string            `json:"program,omitempty"` // recipe
}

// meta is what the repository knows of a version beside its files.
type meta struct {
	Version string        `json:"version"`
	Message string        `json:"message"`
	Source  string        `json:"source"`
	Recipe  string        `json:"recipe"`
	SHA256  string        `json:"sha256"`
	Spec    core.ToolSpec `json:"spec"`
}

func (t *Toolkit) state(ctx context.Context, name string) (state, error) {
	var st state
	r, err := t.o.Ledger.Tool(ctx, name)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return st, err
	}
	st.record = r
	list, err := t.o.Ledger.ToolVersions(ctx, name)
	if err != nil {
		return st, err
	}
	for _, v := range list {
		if v.Status != core.VersionAccepted {
			continue
		}
		st.accepted = append(st.accepted, v)
		if v.Version == r.Version {
			st.live = &v
		}
	}
	return st, nil
}

// commit makes a change count. It takes the lock, finishes what others left, asks for the
// plan in terms of what is true then, and carries it out in the order that the package
// comment gives. After the ledger's transaction it does not fail: what is missing is
// redone later.
func (c *change) commit(ctx context.Context, name string, decide func(state) (plan, error)) error {
	t := c.t
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.recover(ctx, c.id); err != nil {
		return err
	}
	repo, err := t.repo()
	if err != nil {
		return err
	}
	st, err := t.state(ctx, name)
	if err != nil {
		return err
	}
	p, err := decide(st)
	if err != nil {
		return err
	}
	main, err := repo.Ref(gitrepo.Main)
	if err != nil {
		return err
	}
	if main != "" && !t.stampsAgree() {
		// Somebody meddled since the start: what is marked as right below must be right.
		if err := t.mend(ctx); err != nil {
			return err
		}
		if main, err = repo.Ref(gitrepo.Main); err != nil {
			return err
		}
	}
	data := changeData{Name: name, Main: main, Refs: map[string]string{}}
	var batch *gitrepo.Batch
	liveCommit := ""
	if st.live != nil {
		liveCommit = st.live.Commit
	}
	if p.record.Version != "" && (st.live == nil || p.record.Version != st.live.Version) && p.version == nil {
		for _, v := range st.accepted {
			if v.Version == p.record.Version {
				liveCommit = v.Commit
			}
		}
	}
	if p.setFiles {
		e := gitrepo.Edit{Parent: main, Message: p.message + "\n", Time: p.record.UpdatedAt,
			Replace: map[string]map[string][]byte{"tools/" + name: p.files}, Files: map[string][]byte{}}
		e.Files["meta/"+name+".json"] = p.meta
		if p.version != nil {
			b, err := json.MarshalIndent(meta{p.version.Version, p.version.Message, p.version.Source, p.version.Recipe, p.version.SHA256, p.version.Spec}, "", "  ")
			if err != nil {
				return err
			}
			e.Files["meta/"+name+".json"] = append(b, '\n')
			e.Tag = name + "/" + p.version.Version
		}
		if p.sdk {
			e.Replace["plugins/sdk"] = t.o.SDK
			e.Files["go.mod"] = gobuild.GoMod(Module)
		}
		if batch, err = repo.Plan(e); err != nil {
			return fmt.Errorf("plan commit: %w", err)
		}
		data.Main, data.Objects = batch.Commit, batch.Hashes()
		c.commitHash = batch.Commit
		if p.version != nil {
			p.version.Commit, liveCommit = batch.Commit, batch.Commit
			data.Refs[refTags+e.Tag] = batch.Tag
			data.Program = p.version.Recipe
		}
	}
	if data.Main != "" {
		data.Refs[gitrepo.Main] = data.Main
	}
	data.Refs[refLive+name] = liveCommit
	data.Refs[refDisabled+name] = ""
	if p.record.Version == "" {
		data.Refs[refLive+name] = ""
	} else if p.record.State == core.ToolDisabled {
		data.Refs[refDisabled+name] = liveCommit
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := t.o.Ledger.StepChange(ctx, c.id, "publish", raw); err != nil {
		return err
	}

	if err := fault.Point(c.kind + ".publish.program"); err != nil {
		return err
	}
	if p.program != "" && p.program != t.program(name, data.Program) {
		to := t.program(name, data.Program)
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			c.program = to
		}
		if _, err := t.install(p.program, name, data.Program); err != nil {
			return core.Errorf(core.KindFailed, "store the program of %s: %w", name, err)
		}
	}
	if err := fault.Point(c.kind + ".publish.objects"); err != nil {
		return err
	}
	if batch != nil {
		c.objects = data.Objects
		if err := repo.Write(batch.Objects); err != nil {
			return core.Errorf(core.KindFailed, "store %s: %w", name, err)
		}
	}
	if err := fault.Point(c.kind + ".publish.commit"); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// From here on a cancellation comes too late.
	ctx = context.WithoutCancel(ctx)
	gen, accepted, err := t.o.Ledger.CommitTool(ctx, c.id, p.version, p.record)
	if err != nil && !t.counts(ctx, c.id) {
		return err
	}
	c.committed = true
	if err != nil { // it counts although something went wrong right after
		if gen, accepted, err = t.o.Ledger.ToolGeneration(ctx); err != nil {
			return err
		}
	}
	t.prune(name, st.accepted, p)
	if err := t.mirror(repo, data, gen, accepted, c.kind); err != nil {
		return err
	}
	c.mirrored = true
	return nil
}

// keptPrograms is how many programs of one tool stay; others are built again when their
// version is wanted.
const keptPrograms = 10

// prune takes away the programs of old versions.
func (t *Toolkit) prune(name string, accepted []core.ToolVersion, p plan) {
	if len(accepted) < keptPrograms {
		return
	}
	keep := map[string]bool{}
	for _, v := range accepted[len(accepted)-keptPrograms+1:] {
		keep[v.Recipe] = true
	}
	for _, v := range accepted {
		if v.Version == p.record.Version || v.Version == p.record.Previous {
			keep[v.Recipe] = true
		}
	}
	if p.version != nil {
		keep[p.version.Recipe] = true
	}
	for _, v := range accepted {
		if !keep[v.Recipe] {
			os.Remove(t.program(name, v.Recipe))
		}
	}
}

// counts says whether a change was committed in spite of an error.
func (t *Toolkit) counts(ctx context.Context, id int64) bool {
	list, err := t.o.Ledger.UnfinishedChanges(ctx)
	if err != nil {
		return false
	}
	for _, c := range list {
		if c.ID == id {
			return c.State == core.ChangeCommitted
		}
	}
	return false
}

func (t *Toolkit) repo() (*gitrepo.Repo, error) {
	repo, err := gitrepo.Init(t.dir())
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "open the toolkit: %w", err)
	}
	exclude := filepath.Join(repo.GitDir(), "info", "exclude")
	if _, err := os.Stat(exclude); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(exclude, []byte("/.lock\n/.tmp-*\n/.aside/\n"), 0o600); err != nil {
			return nil, core.Errorf(core.KindFailed, "open the toolkit: %w", err)
		}
	}
	return repo, nil
}

// mirror makes refs, work tree, index and mark agree with a change that counts. It can be
// repeated.
func (t *Toolkit) mirror(repo *gitrepo.Repo, data changeData, gen int64, accepted int, kind string) error {
	if err := fault.Point(kind + ".publish.refs"); err != nil {
		return err
	}
	if err := repo.SetRefs(data.Refs); err != nil {
		return err
	}
	if err := fault.Point(kind + ".publish.worktree"); err != nil {
		return err
	}
	if data.Main != "" {
		if err := t.checkout(repo, data.Main, "tools/"+data.Name); err != nil {
			return err
		}
		for _, d := range []string{"plugins/sdk", "meta"} {
			if err := t.checkout(repo, data.Main, d); err != nil {
				return err
			}
		}
		if err := t.checkoutFile(repo, data.Main, "go.mod"); err != nil {
			return err
		}
		if err := repo.WriteIndex(data.Main); err != nil {
			return err
		}
	}
	if err := fault.Point(kind + ".publish.mark"); err != nil {
		return err
	}
	return t.writeMark(repo, mark{Generation: gen, Accepted: accepted, Main: data.Main})
}

// checkout makes a directory of the work tree agree with a commit, in one step. Nothing
// is written where it agrees already.
func (t *Toolkit) checkout(repo *gitrepo.Repo, commit, dir string) error {
	want, err := repo.Files(commit, dir)
	if err != nil {
		return err
	}
	to := filepath.Join(t.dir(), filepath.FromSlash(dir))
	if have, ok := readTree(to); ok && sameFiles(have, want) && len(want) > 0 {
		return nil
	}
	if len(want) == 0 {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		// An empty tools folder is no trace.
		os.Remove(filepath.Dir(to))
		return nil
	}
	tmp, err := os.MkdirTemp(t.dir(), ".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "new")
	if err := writeFiles(fresh, want); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
		return os.Rename(fresh, to)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE); err == nil {
		return nil
	}
	// A file system that can't exchange.
	if err := os.Rename(to, filepath.Join(tmp, "old")); err != nil {
		return err
	}
	return os.Rename(fresh, to)
}

func (t *Toolkit) checkoutFile(repo *gitrepo.Repo, commit, name string) error {
	b, err := repo.File(commit, name)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	p := filepath.Join(t.dir(), name)
	if have, err := os.ReadFile(p); err == nil && string(have) == string(b) {
		return nil
	}
	tmp := p + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, p)
}

func sameFiles(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(x, y []byte) bool { return string(x) == string(y) })
}

// readTree reads all regular files below a directory; ok is false when there is anything
// else, or nothing.
func readTree(dir string) (files map[string][]byte, ok bool) {
	files = map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return errors.New("not a regular file")
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		files[filepath.ToSlash(rel)] = b
		return err
	})
	return files, err == nil
}

// recover finishes or undoes the changes of dead processes. The lock must be held; own is
// the caller's change, 0 for none.
func (t *Toolkit) recover(ctx context.Context, own int64) error {
	list, err := t.o.Ledger.UnfinishedChanges(ctx)
	if err != nil {
		return err
	}
	var repo *gitrepo.Repo
	for _, c := range list {
		if c.ID == own || !strings.HasPrefix(c.Kind, "tool.") {
			continue
		}
		free, dead := func() {}, false
		if c.Owner != "" && c.Owner == filepath.Base(c.Owner) {
			unlock, err := gitrepo.TryLock(filepath.Join(t.scratch(), c.Owner+".lock"))
			if errors.Is(err, gitrepo.ErrLocked) && c.State == core.ChangeOpen {
				continue // its owner lives and is still proving
			}
			if err == nil {
				free, dead = unlock, true
			}
		}
		var data changeData
		if err := json.Unmarshal(c.Data, &data); err != nil {
			free()
			return core.Errorf(core.KindInternal, "change %d: %w", c.ID, err)
		}
		if repo == nil {
			if repo, err = t.repo(); err != nil {
				free()
				return err
			}
			repo.CleanTemp()
			t.cleanTemp()
		}
		state, note := core.ChangeUndone, "undone after its process died"
		if c.State == core.ChangeCommitted {
			state, note = core.ChangeDone, "finished after its process died"
			gen, accepted, err := t.o.Ledger.ToolGeneration(ctx)
			if err == nil {
				err = t.mirror(repo, data, gen, accepted, c.Kind)
			}
			if err != nil {
				free()
				return core.Errorf(core.KindFailed, "finish %s of %s: %w", c.Kind, c.Name, err)
			}
		} else if err := t.undoDead(ctx, repo, data); err != nil {
			free()
			return core.Errorf(core.KindFailed, "undo %s of %s: %w", c.Kind, c.Name, err)
		}
		if err := t.o.Ledger.EndChange(ctx, c.ID, state, note); err != nil {
			free()
			return err
		}
		if dead {
			removeAll(filepath.Join(t.scratch(), c.Owner))
			os.Remove(filepath.Join(t.scratch(), c.Owner+".lock"))
		}
		free()
	}
	return nil
}

// undoDead takes back what a change left that never counted.
func (t *Toolkit) undoDead(ctx context.Context, repo *gitrepo.Repo, data changeData) error {
	if err := repo.Drop(data.Objects); err != nil {
		return err
	}
	if data.Program == "" || data.Name == "" {
		return nil
	}
	list, err := t.o.Ledger.ToolVersions(ctx, data.Name)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v.Status == core.VersionAccepted && v.Recipe == data.Program {
			return nil
		}
	}
	p := t.program(data.Name, data.Program)
	os.Remove(p)
	os.Remove(filepath.Dir(p))
	return nil
}

func (t *Toolkit) cleanTemp() {
	list, err := filepath.Glob(filepath.Join(t.dir(), ".tmp-*"))
	if err != nil {
		return
	}
	for _, p := range list {
		os.RemoveAll(p)
	}
}

// cleanScratch removes the folders of changes whose process died before it recorded
// anything.
func (t *Toolkit) cleanScratch() {
	list, err := os.ReadDir(t.scratch())
	if err != nil {
		return
	}
	for _, e := range list {
		owner, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok {
			continue
		}
		unlock, err := gitrepo.TryLock(filepath.Join(t.scratch(), e.Name()))
		if err != nil {
			continue
		}
		removeAll(filepath.Join(t.scratch(), owner))
		os.Remove(filepath.Join(t.scratch(), e.Name()))
		unlock()
	}
}
