package toolkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/check"
	"github.com/lingjiyidong/lj/evolve/gobuild"
	"github.com/lingjiyidong/lj/evolve/scaffold"
	"github.com/lingjiyidong/lj/evolve/version"
)

// SaveRequest is a version to prove and publish. Either Dir or Files is given.
type SaveRequest struct {
	Name string
	Dir  string
	// Files are the tool's files by name.
	Files map[string][]byte
	// Keep takes the manifest and testdata of the live version where Files has none: a
	// model that sends source and test changes nothing else.
	Keep    bool
	Message string
	Bump    string // "", "patch", "minor" or "major": raises the computed level
	// Progress takes lines for a person while it runs. Nil for nobody.
	Progress func(text string)
}

// Save runs the whole chain. The report is never nil unless the request itself can't be
// read (kind core.KindUsage). The error's kind: core.KindRefused when a step said no,
// core.KindDenied when more permissions are wanted and nobody said yes,
// core.KindInterrupted when ctx ended; then nothing was changed.
func (t *Toolkit) Save(ctx context.Context, req SaveRequest) (*evolve.Report, error) {
	level, err := version.ParseLevel(req.Bump)
	if err != nil {
		return nil, err
	}
	if req.Files == nil {
		if fi, err := os.Stat(req.Dir); err != nil || !fi.IsDir() {
			if err == nil {
				err = errors.New("not a directory")
			}
			return nil, core.Errorf(core.KindUsage, "read tool folder %s: %w", req.Dir, err).Hint("lj tools new %s makes one", req.Name)
		}
	}
	d, err := t.desk()
	if err != nil {
		return nil, err
	}
	defer d.close()
	s := &saving{t: t, req: req, bump: level, desk: d, rep: &evolve.Report{Name: req.Name}}
	j := &journal{Ledger: t.o.Ledger, s: &s.change}
	err = evolve.Run(ctx, evolve.Chain{
		Kind: "tool.save", Owner: d.owner, Report: s.rep, Journal: j, Progress: req.Progress, Now: t.o.Now,
		Began: func(id int64) { s.change.id = id },
		Steps: []evolve.Step{
			{Name: "snapshot", Run: s.snapshot},
			{Name: "check", Run: s.check},
			{Name: "vet", Run: s.vet},
			{Name: "build", Run: s.build},
			{Name: "test", Run: s.test},
			{Name: "contract", Run: s.contract},
			{Name: "publish", Run: s.publish, Undo: s.change.undo},
		},
	})
	if s.change.committed {
		if err != nil {
			s.rep.Note("it is live, but not all is written yet (%v); the next start finishes it", err)
		}
		return s.rep, nil
	}
	if err == nil {
		return s.rep, nil
	}
	return s.rep, s.failed(ctx, err)
}

// change is the part that all changes of the toolkit have in common.
type change struct {
	t         *Toolkit
	id        int64
	kind      string
	committed bool // it counts
	mirrored  bool // refs and work tree agree
	objects   []string
	// commitHash is the commit that it made, "" for none.
	commitHash string
	program    string // put into its place by this change, "" for none
}

// journal keeps a change that counts from being recorded as undone, and one whose refs
// are not all set from being recorded as done.
type journal struct {
	Ledger
	s *change
}

func (j *journal) EndChange(ctx context.Context, id int64, state, note string) error {
	if j.s.committed && !j.s.mirrored {
		return nil // the next one finishes it
	}
	if j.s.committed {
		state, note = core.ChangeDone, ""
	}
	return j.Ledger.EndChange(ctx, id, state, note)
}

func (c *change) undo(context.Context) error {
	if c.committed {
		return nil
	}
	if c.program != "" {
		os.Remove(c.program)
		os.Remove(filepath.Dir(c.program)) // when it was the first
	}
	if len(c.objects) == 0 {
		return nil
	}
	repo, err := gitrepo.Open(c.t.dir())
	if err != nil {
		return err
	}
	return repo.Drop(c.objects)
}

type saving struct {
	t    *Toolkit
	req  SaveRequest
	bump version.Level
	desk *desk
	rep  *evolve.Report
	change

	files  map[string][]byte // as given
	src    *check.Source
	before core.ToolRecord // when the chain began
	have   core.Permissions
	asked  bool // a person said yes
	go_    *gobuild.Toolchain
	recipe string
	past   *core.ToolFailure
	bin    string // the program
	sum    string
	proof  Proof
	tests  int
}

// snapshot takes the files into memory: all that follows judges and stores these bytes.
func (s *saving) snapshot(ctx context.Context) (int, error) {
	s.change.t, s.change.kind = s.t, "tool.save"
	s.files = maps.Clone(s.req.Files)
	if s.files == nil {
		var err error
		if s.files, err = check.ReadDir(s.req.Dir); err != nil {
			return 0, err
		}
	}
	total := 0
	for n, b := range s.files {
		if total += len(b); len(b) > check.MaxFile || total > check.MaxTotal || len(s.files) > check.MaxFiles {
			return 0, &evolve.Refusal{Reason: fmt.Sprintf("too large: at most %d files, %d MiB each, %d MiB together", check.MaxFiles, check.MaxFile>>20, check.MaxTotal>>20),
				Diagnostics: []evolve.Diagnostic{{File: n, Message: "too large"}}}
		}
	}
	r, err := s.t.o.Ledger.Tool(ctx, s.req.Name)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return 0, err
	}
	s.before = r
	if s.req.Keep && r.Version != "" {
		old, err := s.predecessor(ctx)
		if err != nil {
			return 0, err
		}
		for n, b := range old {
			if _, ok := s.files[n]; !ok && (n == check.ManifestFile || strings.HasPrefix(n, "testdata/")) {
				s.files[n] = b
			}
		}
	}
	return 0, nil
}

func (s *saving) predecessor(ctx context.Context) (map[string][]byte, error) {
	v, err := s.t.o.Ledger.ToolVersion(ctx, s.req.Name, s.before.Version)
	if err != nil {
		return nil, err
	}
	repo, err := gitrepo.Open(s.t.dir())
	if err != nil {
		return nil, err
	}
	return s.t.sourceAt(repo, v)
}

func (s *saving) check(ctx context.Context) (int, error) {
	if err := core.CheckToolName(s.req.Name); err != nil {
		return 0, &evolve.Refusal{Reason: err.Error() + "; " + core.NextOf(err)}
	}
	if why := s.t.o.Reserved(s.req.Name); why != "" {
		return 0, &evolve.Refusal{Reason: fmt.Sprintf("the name %s is taken: %s; choose another", s.req.Name, why)}
	}
	src, err := check.Check(s.req.Name, s.files)
	if err != nil {
		return 0, err
	}
	s.src = src
	for _, n := range src.Notes {
		s.rep.Note("%s", n)
	}
	s.have = core.DefaultPermissions()
	if s.before.Version != "" {
		live, err := s.t.o.Ledger.ToolVersion(ctx, s.req.Name, s.before.Version)
		if err != nil {
			return 0, err
		}
		s.have = live.Spec.Permissions
		old, err := s.predecessor(ctx)
		if err == nil && live.Source == src.Digest {
			s.rep.Version, s.rep.Accepted, s.rep.Unchanged = &live.Version, true, true
			s.rep.Live = s.before.State == core.ToolLive
			s.rep.Commit, s.rep.SHA256 = live.Commit, live.SHA256
			if !s.rep.Live {
				s.rep.Note("it is %s: %s", s.before.State, s.before.Reason)
			}
			return 0, evolve.ErrStop
		}
		if err != nil {
			s.rep.Note("the live version's source can't be read (%v); it is not compared", err)
		} else {
			s.compare(old)
		}
	}
	if s.go_, err = s.t.goTools(); err != nil {
		return 0, err
	}
	s.recipe = recipe(src.Digest, s.t.sdk, s.go_.Version())
	f, err := s.t.o.Ledger.ToolFailure(ctx, s.failureKey())
	if err == nil {
		s.past = &f
	} else if !errors.Is(err, core.ErrNotFound) {
		return 0, err
	}
	if s.past != nil {
		return 0, nil // no person is asked about what is known to fail
	}
	return 0, s.approve(ctx)
}

// compare notes what a reader should know of the difference to the live version.
func (s *saving) compare(old map[string][]byte) {
	was, err := check.Check(s.req.Name, old)
	if err != nil {
		return // accepted by older rules
	}
	less := s.src.Strength.Loosened(was.Strength)
	if len(less) == 0 {
		return
	}
	if check.CodeChanged(old, s.src.Files) {
		s.rep.Note("the tests ask less than before, in the same save as the code: %s", strings.Join(less, ", "))
	} else {
		s.rep.Note("the tests ask less than before: %s", strings.Join(less, ", "))
	}
}

func (s *saving) approve(ctx context.Context) error {
	more := check.Beyond(s.src.Want, s.have)
	if len(more) == 0 {
		return nil
	}
	who := "the live version may"
	if s.before.Version == "" {
		who = "a new tool may"
	}
	deny := func(why string) error {
		return core.Errorf(core.KindDenied, "%s wants more than %s (%s), and %s", s.req.Name, who, strings.Join(more, ", "), why).
			Hint("a person must allow it in a terminal; or leave it out of %s", check.ManifestFile)
	}
	if s.t.o.Approve == nil {
		return deny("nobody can be asked")
	}
	yes, err := s.t.o.Approve(ctx, Approval{Tool: s.req.Name, Want: s.src.Want, Have: s.have, Beyond: more, First: s.before.Version == ""})
	if err != nil {
		if core.KindOf(err) == core.KindDenied {
			return deny(err.Error())
		}
		return err
	}
	if !yes {
		return deny("that was denied")
	}
	s.asked = true
	return nil
}

// failureKey names what decides whether vet, build, test and contract pass.
func (s *saving) failureKey() string {
	perms, err := json.Marshal(s.src.Want)
	if err != nil {
		perms = nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", s.req.Name, s.recipe, perms))
	return hex.EncodeToString(sum[:])
}

// known is what is remembered of a step for this very recipe.
func (s *saving) known(step string) (skip bool, err error) {
	if s.past == nil {
		return false, nil
	}
	if s.past.Step != step {
		return true, nil
	}
	r := &evolve.Refusal{Reason: fmt.Sprintf("%s (the same source was tried before, at %s; change it)", s.past.Reason, s.past.At.Format("2006-01-02 15:04:05"))}
	if err := json.Unmarshal(s.past.Diagnostics, &r.Diagnostics); err != nil {
		return false, err
	}
	return false, r
}

func (s *saving) vet(ctx context.Context) (int, error) {
	if skip, err := s.known("vet"); skip || err != nil {
		return 0, err
	}
	if err := s.t.warm(ctx, s.req.Progress); err != nil {
		return 0, err
	}
	if err := s.desk.layOut(s.req.Name, s.src.Files, s.t.o.SDK); err != nil {
		return 0, core.Errorf(core.KindFailed, "lay out the module: %w", err)
	}
	return 0, s.original(s.go_.Vet(ctx, s.desk.mod(), "tools/"+s.req.Name))
}

// original puts the places of a refusal in terms of the files as they were given.
func (s *saving) original(err error) error {
	var r *evolve.Refusal
	if errors.As(err, &r) {
		for i := range r.Diagnostics {
			r.Diagnostics[i] = s.src.Original(r.Diagnostics[i])
		}
	}
	return err
}

func (s *saving) build(ctx context.Context) (int, error) {
	if skip, err := s.known("build"); skip || err != nil {
		return 0, err
	}
	s.bin = filepath.Join(s.desk.dir, "bin", s.req.Name)
	// The same recipe is not built twice.
	list, err := s.t.o.Ledger.ToolVersions(ctx, s.req.Name)
	if err != nil {
		return 0, err
	}
	for _, v := range list {
		if v.Status != core.VersionAccepted || v.Recipe != s.recipe {
			continue
		}
		if sum, err := fileSum(s.t.program(v.Name, v.Recipe)); err == nil && sum == v.SHA256 {
			s.bin, s.sum = s.t.program(v.Name, v.Recipe), sum
			return 0, nil
		}
	}
	if err := s.original(s.go_.Build(ctx, s.desk.mod(), "tools/"+s.req.Name, s.bin)); err != nil {
		return 0, err
	}
	s.sum, err = fileSum(s.bin)
	if err != nil {
		return 0, core.Errorf(core.KindFailed, "read the program: %w", err)
	}
	return 0, nil
}

func (s *saving) test(ctx context.Context) (int, error) {
	if skip, err := s.known("test"); skip || err != nil {
		return 0, err
	}
	n, err := s.t.test(ctx, s.desk, s.src, s.src.Want)
	s.tests = n
	return n, s.original(err)
}

// test compiles and runs the tests of what lies in the desk, confined by permissions.
func (t *Toolkit) test(ctx context.Context, d *desk, src *check.Source, perms core.Permissions) (int, error) {
	g, err := t.goTools()
	if err != nil {
		return 0, err
	}
	bin := filepath.Join(d.dir, "bin", src.Name+".test")
	if err := g.TestBinary(ctx, d.mod(), "tools/"+src.Name, bin); err != nil {
		return 0, err
	}
	dir := filepath.Join(d.mod(), "tools", src.Name)
	run := gobuild.TestRun{Binary: bin, Dir: dir, Declared: src.Tests, Time: t.o.TestTime, Env: t.testEnv(d, dir, perms)}
	if t.o.Confine != nil {
		run.Confine = func(cmd *exec.Cmd) error {
			return t.o.Confine(cmd, Confinement{Program: bin, Permissions: perms, Project: dir, Temp: d.temp()})
		}
	}
	return gobuild.Test(ctx, run)
}

func (t *Toolkit) testEnv(d *desk, dir string, perms core.Permissions) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + d.temp(), "TMPDIR=" + d.temp(), "PWD=" + dir, "LANG=C.UTF-8", "TZ=UTC"}
	for _, name := range perms.Env {
		if v, ok := t.o.Env(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (s *saving) contract(ctx context.Context) (int, error) {
	if skip, err := s.known("contract"); skip || err != nil {
		return 0, err
	}
	p, err := s.t.contract(ctx, s.desk, s.src, s.bin, s.sum, s.src.Want)
	s.proof = p
	return 0, s.original(err)
}

func (t *Toolkit) contract(ctx context.Context, d *desk, src *check.Source, bin, sum string, perms core.Permissions) (Proof, error) {
	p, err := t.o.Contract(ctx, Target{
		Name: src.Name, Program: bin, SHA256: sum, Permissions: perms, Project: filepath.Join(d.mod(), "tools", src.Name), Temp: d.temp(), Sample: src.Sample,
	})
	switch {
	case err != nil:
		return p, err
	case context.Cause(ctx) != nil:
		return p, context.Cause(ctx)
	case p.Reason != "":
		if p.Diagnostics == nil {
			p.Diagnostics = []evolve.Diagnostic{{Message: p.Reason}}
		}
		return p, &evolve.Refusal{Reason: p.Reason, Diagnostics: p.Diagnostics}
	case p.Spec.Name != src.Name:
		return p, &evolve.Refusal{Reason: fmt.Sprintf("the program calls itself %q, not %q", p.Spec.Name, src.Name)}
	}
	return p, nil
}

// publish makes the version count: program, objects, ledger, refs, work tree.
func (s *saving) publish(ctx context.Context) (int, error) {
	err := s.change.commit(ctx, s.req.Name, func(st state) (plan, error) {
		have, v := core.DefaultPermissions(), version.First
		level, why := version.Patch, ""
		if len(st.accepted) > 0 {
			highest, ref := version.Version{}, core.ToolVersion{}
			for _, old := range st.accepted {
				if o, err := version.Parse(old.Version); err == nil && o.Compare(highest) > 0 {
					highest, ref = o, old
				}
			}
			if st.live != nil {
				ref = *st.live
			}
			level, why = version.Compare(ref.Spec.Schema, s.proof.Spec.Schema)
			level = max(level, s.bump)
			v = highest.Next(level)
		}
		if st.live != nil {
			have = st.live.Spec.Permissions
		}
		if st.record.Version != s.before.Version {
			if more := check.Beyond(s.src.Want, have); len(more) > 0 && !s.asked {
				return plan{}, &evolve.Refusal{Transient: true, Reason: "another version went live meanwhile that may less: " + strings.Join(more, ", ")}
			}
			s.rep.Note("%s %s went live while this was proved", s.req.Name, st.record.Version)
		}
		if st.record.State == core.ToolDisabled || st.record.State == core.ToolBroken {
			s.rep.Note("it was %s (%s) and is live again", st.record.State, st.record.Reason)
		}
		if why != "" {
			s.rep.Note("%s version: %s", level, why)
		}
		msg := strings.TrimSpace(s.req.Message)
		if msg == "" {
			msg = "save " + s.req.Name
		}
		spec := s.proof.Spec
		spec.Permissions, spec.Origin, spec.Version = s.src.Want, core.OriginToolkit, v.String()
		nv := core.ToolVersion{Name: s.req.Name, Version: v.String(), SHA256: s.sum, Time: s.t.o.Now(), Message: msg, Status: core.VersionAccepted,
			Source: s.src.Digest, Recipe: s.recipe, Spec: spec}
		s.rep.Version, s.rep.Accepted, s.rep.Live, s.rep.SHA256 = &nv.Version, true, true, s.sum
		var err error
		if nv.Report, err = json.Marshal(s.rep); err != nil {
			return plan{}, err
		}
		files := map[string][]byte{skillFile: skill(nv, s.src, s.proof, s.tests)}
		for n, b := range s.src.Files {
			files[n] = b
		}
		return plan{
			version: &nv, program: s.bin,
			record: core.ToolRecord{Name: s.req.Name, Version: nv.Version, State: core.ToolLive, Previous: st.record.Version, UpdatedAt: nv.Time},
			files:  files, setFiles: true, sdk: true, message: fmt.Sprintf("%s %s: %s", nv.Name, nv.Version, msg),
		}, nil
	})
	if err != nil && !s.committed {
		s.rep.Version, s.rep.Accepted, s.rep.Live, s.rep.SHA256 = nil, false, false, ""
	}
	s.rep.Commit = s.change.commitHash
	return 0, err
}

// failed records a refusal and gives it its kind.
func (s *saving) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		s.rep.Reason = "it was interrupted"
		return core.Errorf(core.KindInterrupted, "save %s: interrupted: %w", s.req.Name, cause)
	}
	kind := core.KindFailed
	var r *evolve.Refusal
	var ce *core.Error
	switch {
	case errors.As(err, &r):
		kind = core.KindRefused
	case errors.As(err, &ce):
		kind = ce.Kind
	}
	if s.rep.Reason == "" {
		s.rep.Reason = err.Error()
	}
	if (kind == core.KindRefused || kind == core.KindDenied) && core.CheckToolName(s.req.Name) == nil && s.t.o.Reserved(s.req.Name) == "" {
		v := core.ToolVersion{Name: s.req.Name, Status: core.VersionRejected, Message: s.req.Message, Time: s.t.o.Now(), Recipe: s.recipe,
			Reason: s.rep.Failed() + ": " + s.rep.Reason}
		if s.src != nil {
			v.Source = s.src.Digest
		}
		var f *core.ToolFailure
		if r != nil && !r.Transient && s.recipe != "" && s.past == nil {
			switch step := s.rep.Failed(); step {
			case "vet", "build", "test", "contract":
				f = &core.ToolFailure{Key: s.failureKey(), Name: s.req.Name, Step: step, Reason: r.Reason, At: v.Time}
				if b, merr := json.Marshal(r.Diagnostics); merr == nil {
					f.Diagnostics = b
				}
			}
		}
		var merr error
		if v.Report, merr = json.Marshal(s.rep); merr == nil {
			merr = s.t.o.Ledger.RejectTool(ctx, v, f)
		}
		if merr != nil {
			err = errors.Join(err, merr)
		}
	}
	next := core.NextOf(err)
	if kind == core.KindRefused && next == "" {
		next = "mend what is named and save again"
	}
	e := core.Errorf(kind, "save %s: %w", s.req.Name, err)
	if next != "" {
		return e.Hint("%s", next)
	}
	return e
}

func scaffoldFiles(name string) map[string][]byte { return scaffold.New(name) }

// NewFiles writes a small working tool into dir, which must not exist or be empty. The
// error's kind is core.KindUsage for a name or folder that can't be used.
func (t *Toolkit) NewFiles(name, dir string) ([]string, error) {
	if err := core.CheckToolName(name); err != nil {
		return nil, err
	}
	if why := t.o.Reserved(name); why != "" {
		return nil, core.Errorf(core.KindUsage, "the name %s is taken: %s", name, why).Hint("choose another name")
	}
	if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
		return nil, core.Errorf(core.KindUsage, "%s is not empty", dir).Hint("give another folder with --dir")
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, core.Errorf(core.KindUsage, "make %s: %w", dir, err)
	}
	files := scaffold.New(name)
	var out []string
	for _, n := range []string{"tool.go", "tool_test.go", "tool.yaml", "testdata/example.json"} {
		p := filepath.Join(dir, filepath.FromSlash(n))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return nil, core.Errorf(core.KindFailed, "make %s: %w", p, err)
		}
		if err := os.WriteFile(p, files[n], 0o644); err != nil {
			return nil, core.Errorf(core.KindFailed, "make %s: %w", p, err)
		}
		out = append(out, p)
	}
	return out, nil
}
