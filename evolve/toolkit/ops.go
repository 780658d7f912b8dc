package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/check"
	"github.com/lingjiyidong/lj/evolve/version"
)

// move runs a change that proves nothing new: prepare does what takes time, decide says
// under the lock what to do.
func (t *Toolkit) move(ctx context.Context, kind, name string, prepare func(ctx context.Context, rep *evolve.Report) error, decide func(rep *evolve.Report, st state) (plan, error)) (*evolve.Report, error) {
	d, err := t.desk()
	if err != nil {
		return nil, err
	}
	defer d.close()
	c := &change{t: t, kind: "tool." + kind}
	rep := &evolve.Report{Name: name}
	steps := []evolve.Step{{Name: "publish", Undo: c.undo, Run: func(ctx context.Context) (int, error) {
		return 0, c.commit(ctx, name, func(st state) (plan, error) { return decide(rep, st) })
	}}}
	if prepare != nil {
		steps = slices.Insert(steps, 0, evolve.Step{Name: "prepare", Run: func(ctx context.Context) (int, error) { return 0, prepare(ctx, rep) }})
	}
	err = evolve.Run(ctx, evolve.Chain{Kind: c.kind, Owner: d.owner, Report: rep, Journal: &journal{Ledger: t.o.Ledger, s: c}, Now: t.o.Now,
		Began: func(id int64) { c.id = id }, Steps: steps})
	if c.commitHash != "" {
		rep.Commit = c.commitHash
	}
	if c.committed {
		if err != nil {
			rep.Note("not all is written yet (%v); the next start finishes it", err)
		}
		return rep, nil
	}
	if err != nil {
		rep.Accepted, rep.Live = false, false
		if cause := context.Cause(ctx); cause != nil {
			return rep, core.Errorf(core.KindInterrupted, "%s %s: interrupted: %w", kind, name, cause)
		}
		var e *core.Error
		if errors.As(err, &e) {
			return rep, err
		}
		return rep, core.Errorf(core.KindFailed, "%s %s: %w", kind, name, err)
	}
	return rep, nil
}

// parse reads a version that a person typed.
func parse(s string) (string, error) {
	v, err := version.Parse(s)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}

// accepted are the accepted versions of a tool, lowest first. The error's kind is
// core.KindNotFound for a tool that never was.
func (t *Toolkit) accepted(ctx context.Context, name string) ([]core.ToolVersion, error) {
	list, err := t.o.Ledger.ToolVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(v core.ToolVersion) bool { return v.Status != core.VersionAccepted })
	if len(list) == 0 {
		return nil, t.unknown(ctx, name)
	}
	slices.SortFunc(list, func(a, b core.ToolVersion) int {
		va, errA := version.Parse(a.Version)
		vb, errB := version.Parse(b.Version)
		if errA != nil || errB != nil {
			return strings.Compare(a.Version, b.Version)
		}
		return va.Compare(vb)
	})
	return list, nil
}

func find(list []core.ToolVersion, name, ver string) (core.ToolVersion, error) {
	for _, v := range list {
		if v.Version == ver {
			return v, nil
		}
	}
	var have []string
	for _, v := range list {
		have = append(have, v.Version)
	}
	return core.ToolVersion{}, core.Errorf(core.KindNotFound, "tool %s has no accepted version %s: %w", name, ver, core.ErrNotFound).Hint("there are %s", strings.Join(have, ", "))
}

// Rollback makes an accepted version live again; "" is the next lower accepted one. Its
// program is built again when it is gone. A removed or disabled tool is live afterwards.
// History is kept: the next save is numbered above the highest accepted version.
func (t *Toolkit) Rollback(ctx context.Context, name, ver string, progress func(string)) (*evolve.Report, error) {
	return t.putBack(ctx, name, ver, "", progress)
}

// putBack is Rollback with a reason that stays with the tool.
func (t *Toolkit) putBack(ctx context.Context, name, ver, reason string, progress func(string)) (*evolve.Report, error) {
	if ver != "" {
		var err error
		if ver, err = parse(ver); err != nil {
			return nil, err
		}
	}
	list, err := t.accepted(ctx, name)
	if err != nil {
		return nil, err
	}
	record, err := t.o.Ledger.Tool(ctx, name)
	if err != nil {
		return nil, err
	}
	if ver == "" {
		if ver, err = lower(list, name, record.Version); err != nil {
			return nil, err
		}
	}
	target, err := find(list, name, ver)
	if err != nil {
		return nil, err
	}
	if record.Version == ver && record.State == core.ToolLive {
		v, err := t.ensure(ctx, target, progress)
		return &evolve.Report{Name: name, Version: &ver, Accepted: true, Live: true, Unchanged: true, Commit: v.Commit, SHA256: v.SHA256,
			Steps: []evolve.StepReport{}, Diagnostics: []evolve.Diagnostic{}}, err
	}
	var files map[string][]byte
	var metaText []byte
	return t.move(ctx, "rollback", name, func(ctx context.Context, rep *evolve.Report) error {
		var err error
		if target, err = t.ensure(ctx, target, progress); err != nil {
			return err
		}
		repo, err := gitrepo.Open(t.dir())
		if err != nil {
			return core.Errorf(core.KindFailed, "open the toolkit: %w", err)
		}
		if files, err = repo.Files(target.Commit, "tools/"+name); err != nil {
			return core.Errorf(core.KindFailed, "read %s %s: %w", name, ver, err)
		}
		if metaText, err = repo.File(target.Commit, "meta/"+name+".json"); err != nil {
			return core.Errorf(core.KindFailed, "read %s %s: %w", name, ver, err)
		}
		return nil
	}, func(rep *evolve.Report, st state) (plan, error) {
		rep.Version, rep.Accepted, rep.Live, rep.SHA256 = &target.Version, true, true, target.SHA256
		msg := fmt.Sprintf("%s: back to %s", name, ver)
		if reason != "" {
			msg += "\n\n" + reason
		}
		return plan{record: core.ToolRecord{Name: name, Version: ver, State: core.ToolLive, Reason: reason, Previous: st.record.Version, UpdatedAt: t.o.Now()},
			files: files, setFiles: true, meta: metaText, message: msg}, nil
	})
}

// lower is the highest accepted version below the live one; for a removed tool the
// highest.
func lower(list []core.ToolVersion, name, live string) (string, error) {
	if live == "" {
		return list[len(list)-1].Version, nil
	}
	at, err := version.Parse(live)
	if err != nil {
		return "", err
	}
	for _, v := range slices.Backward(list) {
		if w, err := version.Parse(v.Version); err == nil && w.Compare(at) < 0 {
			return v.Version, nil
		}
	}
	return "", core.Errorf(core.KindNotFound, "tool %s has no accepted version below %s: %w", name, live, core.ErrNotFound).Hint("lj tools rm %s takes it out", name)
}

// setState is disable, enable and remove.
func (t *Toolkit) setState(ctx context.Context, kind, name string, next func(st state) (core.ToolRecord, error)) (*evolve.Report, error) {
	if _, _, err := t.liveVersion(ctx, name); err != nil {
		return nil, err
	}
	return t.move(ctx, kind, name, nil, func(rep *evolve.Report, st state) (plan, error) {
		if st.record.Version == "" || st.live == nil {
			return plan{}, core.Errorf(core.KindNotFound, "tool %s was removed meanwhile: %w", name, core.ErrNotFound)
		}
		r, err := next(st)
		if err != nil {
			return plan{}, err
		}
		r.Name, r.UpdatedAt = name, t.o.Now()
		p := plan{record: r}
		if r.Version == "" {
			p.setFiles, p.message = true, name+": remove"
		} else {
			rep.Version = &r.Version
		}
		rep.Accepted, rep.Live = true, r.State == core.ToolLive
		return p, nil
	})
}

// Disable keeps a tool from being called; reason is shown where it would be used.
func (t *Toolkit) Disable(ctx context.Context, name, reason string) (*evolve.Report, error) {
	if reason == "" {
		reason = "disabled by the user"
	}
	return t.setState(ctx, "disable", name, func(st state) (core.ToolRecord, error) {
		return core.ToolRecord{Version: st.record.Version, State: core.ToolDisabled, Reason: reason, Previous: st.record.Previous}, nil
	})
}

// Enable undoes Disable, and tries a broken tool again.
func (t *Toolkit) Enable(ctx context.Context, name string) (*evolve.Report, error) {
	if _, v, err := t.liveVersion(ctx, name); err != nil {
		return nil, err
	} else if _, err := t.ensure(ctx, v, nil); err != nil {
		return nil, err
	}
	return t.setState(ctx, "enable", name, func(st state) (core.ToolRecord, error) {
		return core.ToolRecord{Version: st.record.Version, State: core.ToolLive, Previous: st.record.Previous}, nil
	})
}

// Remove takes a tool out. Its versions are kept, and Rollback brings it back.
func (t *Toolkit) Remove(ctx context.Context, name string) (*evolve.Report, error) {
	return t.setState(ctx, "remove", name, func(st state) (core.ToolRecord, error) {
		return core.ToolRecord{State: core.ToolRemoved, Previous: st.record.Version}, nil
	})
}

// Test vets, builds and tests the live version again. Nothing is changed by it. The
// error's kind is core.KindFailed when a step says no.
func (t *Toolkit) Test(ctx context.Context, name string, progress func(string)) (*evolve.Report, error) {
	_, v, err := t.liveVersion(ctx, name)
	if err != nil {
		return nil, err
	}
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "open the toolkit: %w", err)
	}
	files, err := t.sourceAt(repo, v)
	if err != nil {
		return nil, err
	}
	sdk, err := repo.Files(v.Commit, "plugins/sdk")
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "read the SDK of %s %s: %w", name, v.Version, err)
	}
	g, err := t.goTools()
	if err != nil {
		return nil, err
	}
	if err := t.warm(ctx, progress); err != nil {
		return nil, err
	}
	d, err := t.desk()
	if err != nil {
		return nil, err
	}
	defer d.close()
	src, err := check.Check(name, files)
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "test %s: %w", name, err)
	}
	rep := &evolve.Report{Name: name, Version: &v.Version, Unchanged: true}
	err = evolve.Run(ctx, evolve.Chain{Kind: "tool.test", Report: rep, Progress: progress, Now: t.o.Now, Steps: []evolve.Step{
		{Name: "vet", Run: func(ctx context.Context) (int, error) {
			if err := d.layOut(name, files, sdk); err != nil {
				return 0, err
			}
			return 0, g.Vet(ctx, d.mod(), "tools/"+name)
		}},
		{Name: "build", Run: func(ctx context.Context) (int, error) {
			return 0, g.Build(ctx, d.mod(), "tools/"+name, d.dir+"/bin/"+name)
		}},
		{Name: "test", Run: func(ctx context.Context) (int, error) { return t.test(ctx, d, src, v.Spec.Permissions) }},
	}})
	if err == nil {
		rep.Accepted = true
		r, err := t.o.Ledger.Tool(ctx, name)
		rep.Live = err == nil && r.State == core.ToolLive && r.Version == v.Version
		return rep, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return rep, core.Errorf(core.KindInterrupted, "test %s: interrupted: %w", name, cause)
	}
	return rep, core.Errorf(core.KindFailed, "test %s %s: %w", name, v.Version, err)
}

// VersionInfo is one line of the list of versions.
type VersionInfo struct {
	Version *string   `json:"version"` // nil when rejected
	Commit  string    `json:"commit"`
	SHA256  string    `json:"sha256"`
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Live    bool      `json:"live"`
}

// Versions are all saves of a tool, newest first.
func (t *Toolkit) Versions(ctx context.Context, name string) ([]VersionInfo, error) {
	list, err := t.o.Ledger.ToolVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, t.unknown(ctx, name)
	}
	r, err := t.o.Ledger.Tool(ctx, name)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return nil, err
	}
	out := make([]VersionInfo, 0, len(list))
	for _, v := range slices.Backward(list) {
		i := VersionInfo{Commit: v.Commit, SHA256: v.SHA256, Time: v.Time, Message: v.Message, Status: v.Status, Reason: v.Reason}
		if v.Status == core.VersionAccepted {
			i.Version = &v.Version
			i.Live = r.State == core.ToolLive && v.Version == r.Version
		}
		out = append(out, i)
	}
	return out, nil
}

// Shown is all that is to be told of one version.
type Shown struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Live        bool              `json:"live"`
	State       string            `json:"state"`
	Reason      string            `json:"reason,omitempty"`
	Description string            `json:"description"`
	Schema      json.RawMessage   `json:"input_schema"`
	Permissions core.Permissions  `json:"permissions"`
	Source      map[string]string `json:"source"` // testdata left out
	Skill       string            `json:"skill"`
	Health      core.ToolHealth   `json:"health"`
}

// Show is a version of a tool, "" the live one.
func (t *Toolkit) Show(ctx context.Context, name, ver string) (Shown, error) {
	v, r, err := t.pick(ctx, name, ver)
	if err != nil {
		return Shown{}, err
	}
	s := Shown{Name: name, Version: v.Version, Live: r.State == core.ToolLive && r.Version == v.Version, State: r.State, Reason: r.Reason,
		Description: v.Spec.Description, Schema: v.Spec.Schema, Permissions: v.Spec.Permissions, Source: map[string]string{}}
	if s.Health, err = t.o.Ledger.ToolHealth(ctx, name, v.Version); err != nil {
		return s, err
	}
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return s, core.Errorf(core.KindFailed, "open the toolkit: %w", err)
	}
	files, err := repo.Files(v.Commit, "tools/"+name)
	if err != nil {
		return s, core.Errorf(core.KindFailed, "read %s %s: %w", name, v.Version, err)
	}
	s.Skill = string(files[skillFile])
	for n, b := range files {
		if n != skillFile && !strings.HasPrefix(n, "testdata/") {
			s.Source[n] = string(b)
		}
	}
	return s, nil
}

// pick is a version by its name: "" is the live one, or the highest of a removed tool.
func (t *Toolkit) pick(ctx context.Context, name, ver string) (core.ToolVersion, core.ToolRecord, error) {
	list, err := t.accepted(ctx, name)
	if err != nil {
		return core.ToolVersion{}, core.ToolRecord{}, err
	}
	r, err := t.o.Ledger.Tool(ctx, name)
	if err != nil {
		return core.ToolVersion{}, r, err
	}
	switch {
	case ver != "":
		if ver, err = parse(ver); err != nil {
			return core.ToolVersion{}, r, err
		}
	case r.Version != "":
		ver = r.Version
	default:
		ver = list[len(list)-1].Version
	}
	v, err := find(list, name, ver)
	return v, r, err
}

// Diff is the difference of the sources of two versions as a unified diff, "" for none.
// Without v2 it is the live version's; without v1 it is the one below v2.
func (t *Toolkit) Diff(ctx context.Context, name, v1, v2 string) (string, error) {
	b, _, err := t.pick(ctx, name, v2)
	if err != nil {
		return "", err
	}
	if v1 == "" {
		list, err := t.accepted(ctx, name)
		if err != nil {
			return "", err
		}
		if v1, err = lower(list, name, b.Version); err != nil {
			return "", err
		}
	}
	a, _, err := t.pick(ctx, name, v1)
	if err != nil {
		return "", err
	}
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return "", core.Errorf(core.KindFailed, "open the toolkit: %w", err)
	}
	fa, err := t.sourceAt(repo, a)
	if err != nil {
		return "", err
	}
	fb, err := t.sourceAt(repo, b)
	if err != nil {
		return "", err
	}
	names := maps.Clone(fa)
	maps.Copy(names, fb)
	var out strings.Builder
	for _, n := range slices.Sorted(maps.Keys(names)) {
		out.WriteString(unified(name+" "+a.Version+"/"+n, name+" "+b.Version+"/"+n, fa[n], fb[n], fa[n] != nil, fb[n] != nil))
	}
	return out.String(), nil
}

// unified is the difference of two files with three lines of context.
func unified(nameA, nameB string, fa, fb []byte, hasA, hasB bool) string {
	a, b := string(fa), string(fb)
	if a == b && hasA == hasB {
		return ""
	}
	if !hasA {
		nameA = "/dev/null"
	}
	if !hasB {
		nameB = "/dev/null"
	}
	if strings.ContainsRune(a+b, 0) {
		return fmt.Sprintf("binary files %s and %s differ\n", nameA, nameB)
	}
	la := lines(a)
	type op struct {
		sign byte
		text string
	}
	var ops []op
	i := 0
	for _, h := range workspace.DiffLines(a, b) {
		for ; i < h.OldLine-1; i++ {
			ops = append(ops, op{' ', la[i]})
		}
		for _, l := range lines(a[h.OldStart:h.OldEnd]) {
			ops = append(ops, op{'-', l})
			i++
		}
		for _, l := range lines(b[h.NewStart:h.NewEnd]) {
			ops = append(ops, op{'+', l})
		}
	}
	for ; i < len(la); i++ {
		ops = append(ops, op{' ', la[i]})
	}
	const around = 3
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", nameA, nameB)
	oldLine, newLine := 1, 1
	for at := 0; at < len(ops); {
		// The next change, with its context.
		next := at
		for next < len(ops) && ops[next].sign == ' ' {
			next++
		}
		if next == len(ops) {
			break
		}
		start := max(at, next-around)
		end, last := next, next
		for end < len(ops) && end-last <= 2*around {
			if ops[end].sign != ' ' {
				last = end
			}
			end++
		}
		end = min(len(ops), last+1+around)
		for ; at < start; at++ {
			oldLine++
			newLine++
		}
		oldN, newN := 0, 0
		for _, o := range ops[start:end] {
			if o.sign != '+' {
				oldN++
			}
			if o.sign != '-' {
				newN++
			}
		}
		from := func(line, n int) int {
			if n == 0 {
				return line - 1
			}
			return line
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", from(oldLine, oldN), oldN, from(newLine, newN), newN)
		for _, o := range ops[start:end] {
			out.WriteByte(o.sign)
			out.WriteString(strings.TrimSuffix(o.text, "\n"))
			out.WriteByte('\n')
			if !strings.HasSuffix(o.text, "\n") {
				out.WriteString("\\ No newline at end of file\n")
			}
		}
		oldLine += oldN
		newLine += newN
		at = end
	}
	return out.String()
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}
