package toolkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/check"
	"github.com/lingjiyidong/lj/evolve/gobuild"
)

// Module is the path of the toolkit's module; the SDK is in its plugins/sdk.
const Module = "github.com/lingjiyidong/lj"

// Ledger keeps the rows of the toolkit; store.Store is one. Its methods are those of the
// store, documented there.
type Ledger interface {
	evolve.Journal
	ToolGeneration(ctx context.Context) (generation int64, accepted int, err error)
	Tools(ctx context.Context) ([]core.ToolRecord, error)
	Tool(ctx context.Context, name string) (core.ToolRecord, error)
	ToolVersions(ctx context.Context, name string) ([]core.ToolVersion, error)
	ToolVersion(ctx context.Context, name, version string) (core.ToolVersion, error)
	LiveVersions(ctx context.Context) ([]core.ToolVersion, error)
	CommitTool(ctx context.Context, change int64, v *core.ToolVersion, r core.ToolRecord) (gen int64, accepted int, err error)
	MarkTool(ctx context.Context, name, state, reason string) error
	UpdateProgram(ctx context.Context, name, version, recipe, sha256 string) error
	RejectTool(ctx context.Context, v core.ToolVersion, failure *core.ToolFailure) error
	ToolFailure(ctx context.Context, key string) (core.ToolFailure, error)
	UnfinishedChanges(ctx context.Context) ([]core.Change, error)
	RestoreToolkit(ctx context.Context, versions []core.ToolVersion, records []core.ToolRecord, all bool, atLeast int64) (gen int64, accepted int, err error)
	ToolHealth(ctx context.Context, name, version string) (core.ToolHealth, error)
	AddToolHealth(ctx context.Context, name, version, recent string, evidence []string) (core.ToolHealth, error)
}

// Confinement says what a process may touch.
type Confinement struct {
	Program     string // the file that is run
	Permissions core.Permissions
	Project     string // the directory that relative paths of Permissions are below
	Temp        string // may be written and is removed afterwards
}

// Target is a program whose contract is to be proved.
type Target struct {
	Name        string
	Program     string // absolute path
	SHA256      string
	Permissions core.Permissions // approved
	Project     string           // a directory with the tool's files, for calls
	Temp        string
	Sample      json.RawMessage // arguments of a call that must succeed; nil for none
}

// Proof is what came of it. An empty Reason is a pass.
type Proof struct {
	Spec        core.ToolSpec // as the program describes itself
	Args        json.RawMessage
	Result      core.ToolResult // of the call with Args
	Reason      string
	Diagnostics []evolve.Diagnostic
}

// Approval is a question to a person: a tool wants more than its predecessor was given.
type Approval struct {
	Tool   string
	Want   core.Permissions
	Have   core.Permissions
	Beyond []string // what is more, as "net example.org:443"
	First  bool     // there is no predecessor; Have is the default
}

// Options of Open. Home, Ledger, SDK and Contract are required.
type Options struct {
	Home   string // LJ_HOME
	Ledger Ledger
	SDK    map[string][]byte // files of plugins/sdk
	// Reserved says why a name can't be a tool's ("a built-in tool has this name"), "" for
	// one that can. Nil: all can.
	Reserved func(name string) string
	// Contract starts a program confined by Target.Permissions and proves its contract. An
	// error means that it could not be tried.
	Contract func(ctx context.Context, t Target) (Proof, error)
	// Confine changes the command of a test program before it starts. Nil runs tests
	// unconfined.
	Confine func(cmd *exec.Cmd, c Confinement) error
	// ConfineGo changes a go command before it starts, with the directories it writes to.
	ConfineGo func(cmd *exec.Cmd, write []string) error
	// Approve asks a person. Nil: nobody can be asked, and wanting more is denied.
	Approve func(ctx context.Context, a Approval) (bool, error)
	// Go is the go command, "" to look for it.
	Go string
	// TestTime bounds a test run, default 60 s; BuildTime vet and build each, default 120 s.
	TestTime, BuildTime time.Duration
	// Warn takes one line for the person when something was found and mended. Nil drops it.
	Warn func(text string)
	// Env looks up variables that a manifest names; os.LookupEnv when nil.
	Env func(name string) (string, bool)
	Now func() time.Time
}

// Toolkit is an open toolkit. See the package comment.
type Toolkit struct {
	o   Options
	sdk string // digest of the SDK's files

	goMu  sync.Mutex
	tools *gobuild.Toolchain

	health health
}

// Open opens the toolkit of a home: it finishes or undoes what a dead process left, fills
// the ledger from the repository when the ledger lost rows, and mends files, refs and
// programs that are not what they should be. It makes nothing where there is no toolkit
// yet, reads no history and starts no process unless it has to mend.
func Open(ctx context.Context, o Options) (*Toolkit, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.Reserved == nil {
		o.Reserved = func(string) string { return "" }
	}
	if o.TestTime == 0 {
		o.TestTime = 60 * time.Second
	}
	t := &Toolkit{o: o}
	t.sdk = check.Digest(o.SDK)
	if err := t.atStart(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// Close writes what is only in memory (counts of calls). The toolkit must not be used
// after.
func (t *Toolkit) Close(ctx context.Context) error { return t.flushHealth(ctx) }

// Generation rises whenever another version of a tool is live, also through another
// process. It is one small query.
func (t *Toolkit) Generation(ctx context.Context) (int64, error) {
	g, _, err := t.o.Ledger.ToolGeneration(ctx)
	return g, err
}

// The places in a home.
func (t *Toolkit) dir() string     { return filepath.Join(t.o.Home, "toolkit") }
func (t *Toolkit) scratch() string { return filepath.Join(t.o.Home, "cache", "tool-changes") }

func (t *Toolkit) program(name, recipe string) string {
	return filepath.Join(t.o.Home, "bin", "tools", name, recipe)
}

func (t *Toolkit) goTools() (*gobuild.Toolchain, error) {
	t.goMu.Lock()
	defer t.goMu.Unlock()
	if t.tools == nil {
		g, err := gobuild.Find(gobuild.Options{Go: t.o.Go, Cache: filepath.Join(t.o.Home, "cache"), BuildTime: t.o.BuildTime, Confine: t.o.ConfineGo})
		if err != nil {
			return nil, err
		}
		t.tools = g
	}
	return t.tools, nil
}

// recipe names all that goes into a program.
func recipe(source, sdk, goVersion string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "source %s\nsdk %s\ngo %s %s/%s\nflags %s\n", source, sdk, goVersion, runtime.GOOS, runtime.GOARCH, gobuild.Flags))
	return hex.EncodeToString(sum[:])
}

// lock takes the writers' lock. It is held for milliseconds: everything slow comes before.
func (t *Toolkit) lock(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(t.dir(), 0o700); err != nil {
		return nil, core.Errorf(core.KindFailed, "lock the toolkit: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	unlock, err := gitrepo.Lock(ctx, filepath.Join(t.dir(), ".lock"))
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "lock the toolkit: %w", err).Hint("another lj is changing it; try again")
	}
	return unlock, nil
}

// desk is the place of one change: a folder that is gone when it ends, and the lock that
// tells others that its owner lives.
type desk struct {
	owner, dir string
	unlock     func()
}

func (t *Toolkit) desk() (*desk, error) {
	if err := os.MkdirAll(t.scratch(), 0o700); err != nil {
		return nil, core.Errorf(core.KindFailed, "make a work folder: %w", err)
	}
	var d *desk
	for try := 0; ; try++ {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails
		d = &desk{owner: hex.EncodeToString(b[:])}
		d.dir = filepath.Join(t.scratch(), d.owner)
		unlock, err := gitrepo.TryLock(d.dir + ".lock")
		if err == nil {
			// Another process that cleans up may have taken it for a dead one's.
			if _, err = os.Stat(d.dir + ".lock"); err == nil {
				d.unlock = unlock
				break
			}
			unlock()
		}
		if try == 5 {
			return nil, core.Errorf(core.KindFailed, "make a work folder: %w", err)
		}
	}
	for _, sub := range []string{"tmp", "bin"} {
		if err := os.MkdirAll(filepath.Join(d.dir, sub), 0o700); err != nil {
			d.close()
			return nil, core.Errorf(core.KindFailed, "make a work folder: %w", err)
		}
	}
	return d, nil
}

func (d *desk) mod() string  { return filepath.Join(d.dir, "mod") }
func (d *desk) temp() string { return filepath.Join(d.dir, "tmp") }

// close removes the folder, what tests made unreadable included.
func (d *desk) close() {
	removeAll(d.dir)
	os.Remove(d.dir + ".lock")
	d.unlock()
}

func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// layOut writes the module with one tool into the desk.
func (d *desk) layOut(name string, files, sdk map[string][]byte) error {
	if err := writeFiles(filepath.Join(d.mod(), "tools", name), files); err != nil {
		return err
	}
	if err := writeFiles(filepath.Join(d.mod(), "plugins", "sdk"), sdk); err != nil {
		return err
	}
	return writeFiles(d.mod(), map[string][]byte{"go.mod": gobuild.GoMod(Module)})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, b := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(p, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// install puts a program into its place, on the disk when it returns.
func (t *Toolkit) install(from, name, recipe string) (string, error) {
	to := t.program(name, recipe)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	err = errors.Join(f.Chmod(0o500), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(from, to)
	}
	if err == nil {
		err = gitrepo.SyncDir(filepath.Dir(to))
	}
	return to, err
}

// LiveTool is a tool that can be called now.
type LiveTool struct {
	core.ToolRecord
	Spec    core.ToolSpec // with approved permissions, version and origin
	Program string        // absolute path
	SHA256  string
	// Missing is set when the program is not in its place; Prepare makes it again.
	Missing bool
}

// Live are the tools that are not removed, disabled ones included (see State), by name.
func (t *Toolkit) Live(ctx context.Context) ([]LiveTool, error) {
	records, err := t.o.Ledger.Tools(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := t.o.Ledger.LiveVersions(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]core.ToolVersion{}
	for _, v := range versions {
		byName[v.Name] = v
	}
	var out []LiveTool
	for _, r := range records {
		v, ok := byName[r.Name]
		if r.Version == "" || !ok || v.Version != r.Version {
			continue
		}
		l := LiveTool{ToolRecord: r, Spec: v.Spec, Program: t.program(r.Name, v.Recipe), SHA256: v.SHA256}
		if _, err := os.Stat(l.Program); err != nil {
			l.Missing = true
		}
		out = append(out, l)
	}
	return out, nil
}

// Prepare is one live tool with its program in place, made again where it was missing or
// is not what it should be. A program that can't be made again marks the tool broken.
func (t *Toolkit) Prepare(ctx context.Context, name string) (LiveTool, error) {
	r, v, err := t.liveVersion(ctx, name)
	if err != nil {
		return LiveTool{}, err
	}
	v, err = t.ensure(ctx, v, nil)
	if err != nil {
		if context.Cause(ctx) == nil && r.State == core.ToolLive {
			if merr := t.o.Ledger.MarkTool(ctx, name, core.ToolBroken, err.Error()); merr != nil {
				err = errors.Join(err, merr)
			}
		}
		return LiveTool{}, err
	}
	if r.State == core.ToolBroken {
		if err := t.o.Ledger.MarkTool(ctx, name, core.ToolLive, ""); err != nil {
			return LiveTool{}, err
		}
		r.State, r.Reason = core.ToolLive, ""
	}
	return LiveTool{ToolRecord: r, Spec: v.Spec, Program: t.program(name, v.Recipe), SHA256: v.SHA256}, nil
}

// liveVersion is the record of a tool that is not removed, and its version.
func (t *Toolkit) liveVersion(ctx context.Context, name string) (core.ToolRecord, core.ToolVersion, error) {
	r, err := t.o.Ledger.Tool(ctx, name)
	if err == nil && r.Version == "" {
		err = core.Errorf(core.KindNotFound, "tool %s was removed: %w", name, core.ErrNotFound).Hint("lj tools versions %s lists what can be brought back with lj tools rollback", name)
	}
	if err != nil {
		if errors.Is(err, core.ErrNotFound) && r.Name == "" {
			err = t.unknown(ctx, name)
		}
		return r, core.ToolVersion{}, err
	}
	v, err := t.o.Ledger.ToolVersion(ctx, name, r.Version)
	return r, v, err
}

func (t *Toolkit) unknown(ctx context.Context, name string) error {
	e := core.Errorf(core.KindNotFound, "no tool %q in the toolkit: %w", name, core.ErrNotFound)
	var names []string
	if list, err := t.o.Ledger.Tools(ctx); err == nil {
		for _, r := range list {
			names = append(names, r.Name)
		}
	}
	if n := core.Nearest(name, names); n != "" {
		return e.Hint("did you mean %s?", n)
	}
	return e.Hint("lj tools list shows what there is")
}

// ensure makes sure that a version's program is in its place and what it should be. A
// program that comes out differently (another Go version) is tested again before it
// counts.
func (t *Toolkit) ensure(ctx context.Context, v core.ToolVersion, progress func(string)) (core.ToolVersion, error) {
	p := t.program(v.Name, v.Recipe)
	if sum, err := fileSum(p); err == nil && sum == v.SHA256 {
		return v, nil
	} else if err == nil {
		t.o.Warn(fmt.Sprintf("the program of %s %s was changed; it is built again", v.Name, v.Version))
	}
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return v, core.Errorf(core.KindFailed, "build %s %s again: %w", v.Name, v.Version, err)
	}
	files, err := t.sourceAt(repo, v)
	if err != nil {
		return v, err
	}
	sdk, err := repo.Files(v.Commit, "plugins/sdk")
	if err != nil {
		return v, core.Errorf(core.KindFailed, "build %s %s again: %w", v.Name, v.Version, err)
	}
	g, err := t.goTools()
	if err != nil {
		return v, err
	}
	if err := t.warm(ctx, progress); err != nil {
		return v, err
	}
	d, err := t.desk()
	if err != nil {
		return v, err
	}
	defer d.close()
	if err := d.layOut(v.Name, files, sdk); err != nil {
		return v, core.Errorf(core.KindFailed, "build %s %s again: %w", v.Name, v.Version, err)
	}
	bin := filepath.Join(d.dir, "bin", v.Name)
	if err := g.Build(ctx, d.mod(), "tools/"+v.Name, bin); err != nil {
		return v, core.Errorf(core.KindFailed, "build %s %s again: %w", v.Name, v.Version, err)
	}
	sum, err := fileSum(bin)
	if err != nil {
		return v, core.Errorf(core.KindFailed, "build %s %s again: %w", v.Name, v.Version, err)
	}
	if sum != v.SHA256 {
		src, err := check.Check(v.Name, files)
		if err == nil {
			_, err = t.test(ctx, d, src, v.Spec.Permissions)
		}
		if err == nil {
			_, err = t.contract(ctx, d, src, bin, sum, v.Spec.Permissions)
		}
		if err != nil {
			return v, core.Errorf(core.KindFailed, "prove %s %s again: %w", v.Name, v.Version, err)
		}
		v.Recipe, v.SHA256 = recipe(v.Source, check.Digest(sdk), g.Version()), sum
	}
	if _, err := t.install(bin, v.Name, v.Recipe); err != nil {
		return v, core.Errorf(core.KindFailed, "build %s %s again: %w", v.Name, v.Version, err)
	}
	return v, t.o.Ledger.UpdateProgram(ctx, v.Name, v.Version, v.Recipe, v.SHA256)
}

// sourceAt are the files of an accepted version, checked against their digest.
func (t *Toolkit) sourceAt(repo *gitrepo.Repo, v core.ToolVersion) (map[string][]byte, error) {
	files, err := repo.Files(v.Commit, "tools/"+v.Name)
	if err != nil {
		return nil, core.Errorf(core.KindFailed, "read %s %s: %w", v.Name, v.Version, err)
	}
	delete(files, skillFile)
	if check.Digest(files) != v.Source {
		return nil, core.Errorf(core.KindFailed, "read %s %s: commit %s does not hold its source", v.Name, v.Version, v.Commit)
	}
	return files, nil
}

// Warm fills the build cache for tools, once for a Go version; progress takes lines
// meanwhile. It returns at once when the cache is warm. It is safe to run beside
// everything else.
func (t *Toolkit) Warm(ctx context.Context, progress func(string)) error {
	return t.warm(ctx, progress)
}

func (t *Toolkit) warm(ctx context.Context, progress func(string)) error {
	g, err := t.goTools()
	if err != nil {
		return err
	}
	if g.Warm() {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(t.o.Home, "cache"), 0o700); err != nil {
		return core.Errorf(core.KindFailed, "prepare the build cache: %w", err)
	}
	// Two at once would only wait for each other's packages.
	unlock, err := gitrepo.Lock(ctx, filepath.Join(t.o.Home, "cache", ".warm.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if g.Warm() {
		return nil
	}
	d, err := t.desk()
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.layOut("warm", scaffoldFiles("warm"), t.o.SDK); err != nil {
		return core.Errorf(core.KindFailed, "prepare the build cache: %w", err)
	}
	return g.WarmUp(ctx, d.mod(), "tools/warm", progress)
}
