package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve/check"
	"github.com/lingjiyidong/lj/evolve/version"
)

// mark is what the repository knows of the ledger: a ledger that is behind has lost
// something. It lies in .git, written after the refs of a change.
type mark struct {
	Generation int64  `json:"generation"`
	Accepted   int    `json:"accepted"`
	Main       string `json:"main"`
}

func (t *Toolkit) markFile() string { return filepath.Join(t.dir(), ".git", "lj-mark") }

func (t *Toolkit) readMark() (m mark, ok bool) {
	b, err := os.ReadFile(t.markFile())
	if err != nil {
		return m, false
	}
	return m, json.Unmarshal(b, &m) == nil
}

// writeMark records what is true, and what the files look like now.
func (t *Toolkit) writeMark(repo *gitrepo.Repo, m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	tmp := t.markFile() + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, t.markFile()); err != nil {
		return err
	}
	t.writeStamps()
	return nil
}

// stamp is what a file looked like when it was last known to be right.
type stamp struct {
	Size  int64  `json:"s"`
	MTime int64  `json:"m"`
	CTime int64  `json:"c"`
	Inode uint64 `json:"i"`
}

func (t *Toolkit) stampFile() string { return filepath.Join(t.o.Home, "cache", "toolkit.stamps") }

// stamps looks at all that Open guards without reading it: work tree, refs, programs.
func (t *Toolkit) stamps() map[string]stamp {
	out := map[string]stamp{}
	look := func(p string, fi os.FileInfo) {
		rel, err := filepath.Rel(t.o.Home, p)
		sys, ok := fi.Sys().(*syscall.Stat_t)
		if err != nil || !ok {
			return
		}
		s := stamp{CTime: sys.Ctim.Nano(), Inode: sys.Ino}
		if fi.IsDir() {
			// Only that it is there: what is in it is looked at one by one.
			s = stamp{}
		} else {
			s.Size, s.MTime = fi.Size(), fi.ModTime().UnixNano()
		}
		out[rel] = s
	}
	for _, root := range []string{"toolkit/tools", "toolkit/meta", "toolkit/plugins", "toolkit/go.mod", "toolkit/.git/HEAD", "toolkit/.git/lj-mark",
		"toolkit/.git/packed-refs", "toolkit/.git/refs", "bin/tools"} {
		_ = filepath.WalkDir(filepath.Join(t.o.Home, root), func(p string, d os.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if fi, err := d.Info(); err == nil {
				look(p, fi)
			}
			return nil
		})
	}
	return out
}

func (t *Toolkit) writeStamps() {
	b, err := json.Marshal(t.stamps())
	if err != nil {
		return
	}
	// Without stamps the next start only looks more closely.
	if os.MkdirAll(filepath.Dir(t.stampFile()), 0o700) != nil {
		return
	}
	tmp := fmt.Sprintf("%s.%d.tmp", t.stampFile(), os.Getpid())
	if os.WriteFile(tmp, b, 0o600) != nil || os.Rename(tmp, t.stampFile()) != nil {
		os.Remove(tmp)
	}
}

func (t *Toolkit) stampsAgree() bool {
	b, err := os.ReadFile(t.stampFile())
	if err != nil {
		return false
	}
	var was map[string]stamp
	if json.Unmarshal(b, &was) != nil {
		return false
	}
	now := t.stamps()
	if len(was) != len(now) {
		return false
	}
	for p, s := range was {
		if n, ok := now[p]; !ok || n != s {
			return false
		}
	}
	return true
}

// atStart looks whether anything has to be mended, and mends it under the lock.
func (t *Toolkit) atStart(ctx context.Context) error {
	unfinished, err := t.o.Ledger.UnfinishedChanges(ctx)
	if err != nil {
		return err
	}
	gen, accepted, err := t.o.Ledger.ToolGeneration(ctx)
	if err != nil {
		return err
	}
	m, marked := t.readMark()
	dead := slices.ContainsFunc(unfinished, func(c core.Change) bool { return t.isDead(c) })
	if !marked && accepted == 0 && !dead && !t.hasHistory() {
		t.cleanScratch()
		return nil // there is no toolkit
	}
	lost := !marked || m.Generation > gen || m.Accepted > accepted
	if !dead && !lost && t.stampsAgree() {
		t.cleanScratch()
		return nil
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.recover(ctx, 0); err != nil {
		return err
	}
	t.cleanScratch()
	return t.mend(ctx)
}

// Reload looks again as Open does, and finishes or mends what it finds. It is for a
// toolkit that stays open while others work on the same home.
func (t *Toolkit) Reload(ctx context.Context) error { return t.atStart(ctx) }

func (t *Toolkit) isDead(c core.Change) bool {
	if !strings.HasPrefix(c.Kind, "tool.") {
		return false
	}
	if c.Owner == "" || c.Owner != filepath.Base(c.Owner) {
		return true
	}
	p := filepath.Join(t.scratch(), c.Owner+".lock")
	if _, err := os.Stat(p); err != nil {
		return true
	}
	unlock, err := gitrepo.TryLock(p)
	if err != nil {
		return false
	}
	unlock()
	return true
}

// hasHistory says whether there is a repository with versions.
func (t *Toolkit) hasHistory() bool {
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return false
	}
	refs, err := repo.Refs("refs/")
	return err == nil && len(refs) > 0
}

// mend makes ledger, refs, work tree and programs agree. The lock must be held, nothing
// may be unfinished but what a living process proves.
func (t *Toolkit) mend(ctx context.Context) error {
	gen, accepted, err := t.o.Ledger.ToolGeneration(ctx)
	if err != nil {
		return err
	}
	repo, err := gitrepo.Open(t.dir())
	if errors.Is(err, core.ErrNotFound) {
		if accepted > 0 {
			t.o.Warn("the toolkit's repository is gone, and its history with it; live tools keep running, save each again to have its source kept")
		}
		return nil
	}
	if err != nil {
		return err
	}
	m, marked := t.readMark()
	if t.hasHistory() && (!marked || m.Generation > gen || m.Accepted > accepted) {
		n, err := t.rebuild(ctx, repo, m, accepted == 0 || m.Generation > gen)
		if err != nil {
			return err
		}
		if n > 0 {
			t.o.Warn(fmt.Sprintf("the database had lost versions of tools; %d were read from the toolkit's repository", n))
		}
		if gen, accepted, err = t.o.Ledger.ToolGeneration(ctx); err != nil {
			return err
		}
	}
	main, err := t.mendRefs(ctx, repo, m)
	if err != nil {
		return err
	}
	if main != "" {
		if err := t.mendFiles(repo, main); err != nil {
			return err
		}
	}
	if err := t.mendPrograms(ctx); err != nil {
		return err
	}
	return t.writeMark(repo, mark{Generation: gen, Accepted: accepted, Main: main})
}

// mendRefs makes refs agree with the ledger and returns the main branch's commit.
func (t *Toolkit) mendRefs(ctx context.Context, repo *gitrepo.Repo, m mark) (string, error) {
	have, err := repo.Refs("refs/")
	if err != nil {
		return "", err
	}
	records, err := t.o.Ledger.Tools(ctx)
	if err != nil {
		return "", err
	}
	versions, err := t.o.Ledger.ToolVersions(ctx, "")
	if err != nil {
		return "", err
	}
	commits := map[string]string{}
	last := ""
	set := map[string]string{}
	for _, v := range versions {
		if v.Status != core.VersionAccepted || v.Commit == "" {
			continue
		}
		commits[v.Name+" "+v.Version] = v.Commit
		last = v.Commit
		tag := refTags + v.Name + "/" + v.Version
		if h := have[tag]; h != "" {
			if c, err := repo.Peel(h); err == nil && c == v.Commit {
				continue
			}
		}
		b, err := repo.PlanTag(v.Name+"/"+v.Version, v.Commit)
		if err != nil {
			t.o.Warn(fmt.Sprintf("the source of %s %s is lost: %v", v.Name, v.Version, err))
			continue
		}
		if err := repo.Write(b.Objects); err != nil {
			return "", err
		}
		set[tag] = b.Tag
	}
	want := map[string]string{}
	for _, r := range records {
		if r.Version == "" {
			continue
		}
		c := commits[r.Name+" "+r.Version]
		want[refLive+r.Name] = c
		if r.State == core.ToolDisabled {
			want[refDisabled+r.Name] = c
		}
	}
	for ref, h := range have {
		if (strings.HasPrefix(ref, refLive) || strings.HasPrefix(ref, refDisabled)) && want[ref] == "" {
			set[ref] = ""
		} else if w := want[ref]; w != "" && w != h {
			set[ref] = w
		}
	}
	for ref, h := range want {
		if have[ref] == "" && h != "" {
			set[ref] = h
		}
	}
	main := have[gitrepo.Main]
	if m.Main != "" && main != m.Main {
		if _, err := repo.Commit(m.Main); err == nil {
			if main != "" {
				// Somebody's own commits: kept under another name.
				set["refs/lj/aside/"+main] = main
			}
			main = m.Main
			set[gitrepo.Main] = main
		}
	}
	if main == "" && last != "" {
		if _, err := repo.Commit(last); err == nil {
			main = last
			set[gitrepo.Main] = main
		}
	}
	if len(set) > 0 {
		names := make([]string, 0, len(set))
		for n := range set {
			names = append(names, n)
		}
		slices.Sort(names)
		t.o.Warn("refs of the toolkit were changed or lost and were set again: " + clipList(names))
		if err := repo.SetRefs(set); err != nil {
			return "", err
		}
	}
	if b, err := os.ReadFile(filepath.Join(repo.GitDir(), "HEAD")); err == nil && strings.TrimSpace(string(b)) != "ref: "+gitrepo.Main {
		t.o.Warn("the toolkit's HEAD named another branch and was set back")
		p := filepath.Join(repo.GitDir(), "HEAD")
		if err := os.WriteFile(p+".tmp", []byte("ref: "+gitrepo.Main+"\n"), 0o600); err != nil {
			return "", err
		}
		if err := os.Rename(p+".tmp", p); err != nil {
			return "", err
		}
	}
	return main, nil
}

func clipList(names []string) string {
	if len(names) > 6 {
		return strings.Join(names[:6], ", ") + fmt.Sprintf(" and %d more", len(names)-6)
	}
	return strings.Join(names, ", ")
}

// mendFiles makes the work tree agree with the main branch.
func (t *Toolkit) mendFiles(repo *gitrepo.Repo, main string) error {
	want, err := repo.Files(main, "")
	if err != nil {
		t.o.Warn(fmt.Sprintf("the toolkit's files can't be checked: %v", err))
		return nil
	}
	dirs := map[string]bool{"plugins/sdk": true, "meta": true}
	for name := range want {
		if rest, ok := strings.CutPrefix(name, "tools/"); ok {
			tool, _, _ := strings.Cut(rest, "/")
			dirs["tools/"+tool] = true
		}
	}
	if list, err := os.ReadDir(filepath.Join(t.dir(), "tools")); err == nil {
		for _, e := range list {
			dirs["tools/"+e.Name()] = true
		}
	}
	var changed []string
	aside := ""
	for dir := range dirs {
		files := map[string][]byte{}
		for name, b := range want {
			if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
				files[rest] = b
			}
		}
		have, ok := readTree(filepath.Join(t.dir(), filepath.FromSlash(dir)))
		if ok && sameFiles(have, files) && len(files) > 0 {
			continue
		}
		if _, err := os.Lstat(filepath.Join(t.dir(), filepath.FromSlash(dir))); err != nil && len(files) == 0 {
			continue
		}
		changed = append(changed, dir)
		if len(have) > 0 {
			// It may be somebody's work: it is kept.
			if aside == "" {
				aside = filepath.Join(t.dir(), ".aside", t.o.Now().UTC().Format("20060102-150405.000"))
			}
			to := filepath.Join(aside, filepath.FromSlash(dir))
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(t.dir(), filepath.FromSlash(dir)), to); err != nil {
				return err
			}
		}
		if err := t.checkout(repo, main, dir); err != nil {
			return err
		}
	}
	if len(changed) > 0 {
		slices.Sort(changed)
		text := "files of the toolkit were changed outside of lj and were put back: " + clipList(changed)
		if aside != "" {
			text += "; what was there is in " + aside + "; to change a tool, edit a copy and save it"
		}
		t.o.Warn(text)
	}
	if err := t.checkoutFile(repo, main, "go.mod"); err != nil {
		return err
	}
	return repo.WriteIndex(main)
}

// mendPrograms takes away programs of live tools that are not what they should be; they
// are built again when they are needed.
func (t *Toolkit) mendPrograms(ctx context.Context) error {
	live, err := t.o.Ledger.LiveVersions(ctx)
	if err != nil {
		return err
	}
	for _, v := range live {
		p := t.program(v.Name, v.Recipe)
		sum, err := fileSum(p)
		if err != nil || sum == v.SHA256 {
			continue
		}
		t.o.Warn(fmt.Sprintf("the program of %s %s was changed; it is built again when it is needed", v.Name, v.Version))
		if err := os.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// Rebuild fills the ledger from the repository: rows of versions that are missing, and
// which versions are live where the ledger does not say it. It returns how many versions
// were added. Open does it when the ledger has lost something.
func (t *Toolkit) Rebuild(ctx context.Context) (int, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := t.recover(ctx, 0); err != nil {
		return 0, err
	}
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return 0, core.Errorf(core.KindNotFound, "there is no toolkit: %w", err)
	}
	m, _ := t.readMark()
	return t.rebuild(ctx, repo, m, false)
}

func (t *Toolkit) rebuild(ctx context.Context, repo *gitrepo.Repo, m mark, all bool) (int, error) {
	tags, err := repo.Refs(refTags)
	if err != nil {
		return 0, err
	}
	rows, err := t.o.Ledger.ToolVersions(ctx, "")
	if err != nil {
		return 0, err
	}
	known := map[string]bool{}
	for _, v := range rows {
		if v.Status == core.VersionAccepted {
			known[v.Name+"/"+v.Version] = true
		}
	}
	var missing []core.ToolVersion
	byCommit := map[string]core.ToolVersion{}
	for ref, h := range tags {
		name, ver, ok := strings.Cut(strings.TrimPrefix(ref, refTags), "/")
		if _, err := version.Parse(ver); !ok || err != nil || core.CheckToolName(name) != nil {
			continue
		}
		commit, err := repo.Peel(h)
		if err != nil {
			t.o.Warn(fmt.Sprintf("%s %s can't be read: %v", name, ver, err))
			continue
		}
		v, err := t.readVersion(repo, commit, name, ver)
		if err != nil {
			t.o.Warn(fmt.Sprintf("%s %s can't be read: %v", name, ver, err))
			continue
		}
		byCommit[name+" "+commit] = v
		if !known[name+"/"+ver] {
			missing = append(missing, v)
		}
	}
	slices.SortFunc(missing, func(a, b core.ToolVersion) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		va, _ := version.Parse(a.Version)
		vb, _ := version.Parse(b.Version)
		return va.Compare(vb)
	})
	lives, err := repo.Refs(refLive)
	if err != nil {
		return 0, err
	}
	disabled, err := repo.Refs(refDisabled)
	if err != nil {
		return 0, err
	}
	names := map[string]core.ToolRecord{}
	for _, v := range byCommit {
		if _, ok := names[v.Name]; !ok {
			names[v.Name] = core.ToolRecord{Name: v.Name, State: core.ToolRemoved, UpdatedAt: t.o.Now()}
		}
	}
	for ref, commit := range lives {
		name := strings.TrimPrefix(ref, refLive)
		v, ok := byCommit[name+" "+commit]
		if !ok {
			continue
		}
		r := core.ToolRecord{Name: name, Version: v.Version, State: core.ToolLive, UpdatedAt: t.o.Now()}
		if disabled[refDisabled+name] != "" {
			r.State, r.Reason = core.ToolDisabled, "it was disabled when the database was lost"
		}
		names[name] = r
	}
	records := make([]core.ToolRecord, 0, len(names))
	for _, r := range names {
		records = append(records, r)
	}
	_, _, err = t.o.Ledger.RestoreToolkit(ctx, missing, records, all, m.Generation)
	return len(missing), err
}

// readVersion reads a version as its commit has it.
func (t *Toolkit) readVersion(repo *gitrepo.Repo, commit, name, ver string) (core.ToolVersion, error) {
	b, err := repo.File(commit, "meta/"+name+".json")
	if err != nil {
		return core.ToolVersion{}, err
	}
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return core.ToolVersion{}, fmt.Errorf("meta/%s.json: %w", name, err)
	}
	if m.Version != ver {
		return core.ToolVersion{}, fmt.Errorf("its commit holds %s", m.Version)
	}
	c, err := repo.Commit(commit)
	if err != nil {
		return core.ToolVersion{}, err
	}
	files, err := repo.Files(commit, "tools/"+name)
	if err != nil {
		return core.ToolVersion{}, err
	}
	delete(files, skillFile)
	if check.Digest(files) != m.Source {
		return core.ToolVersion{}, errors.New("its source does not have its digest")
	}
	return core.ToolVersion{Name: name, Version: ver, Commit: commit, SHA256: m.SHA256, Time: c.Time, Message: m.Message,
		Status: core.VersionAccepted, Source: m.Source, Recipe: m.Recipe, Spec: m.Spec}, nil
}
