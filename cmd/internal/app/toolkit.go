package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/sandbox"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/toolkit"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest"
	"github.com/lingjiyidong/lj/plugins/sdk"
)

// confineArg is the first argument of the step that enters confinement and then becomes
// another program.
const confineArg = "__confine"

// carriedEnv carries the environment of that program: what lies in the environment itself
// would be taken by this program's own SDK. A number follows, as one variable holds no more
// than 128 KiB.
const carriedEnv = "LJ_PLUGIN_ENV"

// carriedPiece is how much of it lies in one variable.
const carriedPiece = 96 << 10

// carry packs an environment into variables.
func carry(env []string) (out []string) {
	text := base64.StdEncoding.EncodeToString([]byte(strings.Join(env, "\x00")))
	for piece := range slices.Chunk([]byte(text), carriedPiece) {
		out = append(out, carriedEnv+strconv.Itoa(len(out))+"="+string(piece))
	}
	return out
}

// carried unpacks it.
func carried() ([]string, error) {
	var text strings.Builder
	for i := 0; ; i++ {
		piece, ok := os.LookupEnv(carriedEnv + strconv.Itoa(i))
		if !ok {
			break
		}
		text.WriteString(piece)
	}
	b, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil {
		return nil, fmt.Errorf("carried environment: %w", err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(string(b), "\x00"), nil
}

// become enters the profile of the environment and becomes the program of args.
func become(args []string) int {
	env, err := carried()
	if err == nil {
		err = enter()
	}
	if err == nil {
		err = syscall.Exec(args[0], args, env)
		if args[0] == os.Args[0] {
			// It lies where this process may not look any more.
			err = syscall.Exec("/proc/self/exe", args, env)
		}
	}
	fmt.Fprintf(os.Stderr, "lj: confine %s: %v\n", args[0], err)
	return 1
}

// behind puts the confinement step in front of a command.
func (a *App) behind(cmd *exec.Cmd, p sandbox.Profile) error {
	sandbox.Prepare(cmd, p)
	cmd.Args = append([]string{a.opt.Self, confineArg, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = a.opt.Self
	cmd.Env = append(carry(cmd.Env), profileEnv+"="+p.Encode())
	return nil
}

// confineTool confines a self-written tool to what its manifest was approved for.
func (a *App) confineTool(cmd *exec.Cmd, c toolkit.Confinement, sockets string) error {
	if err := c.MakeWritable(); err != nil {
		return err
	}
	return a.behind(cmd, c.Profile(sockets))
}

// approval is a person's yes to what a save wants, carried with the call.
type approval struct{}

// Toolkit opens the toolkit on first use.
func (a *App) Toolkit(ctx context.Context) (*toolkit.Toolkit, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	a.kitMu.Lock()
	defer a.kitMu.Unlock()
	if a.kit != nil {
		return a.kit, nil
	}
	t, err := toolkit.Open(ctx, toolkit.Options{
		Home: a.Home, Ledger: st, SDK: sdk.Source(), Warn: a.opt.Warn, Now: a.opt.Now,
		Reserved: a.reserved,
		Contract: a.contract,
		Confine: func(cmd *exec.Cmd, c toolkit.Confinement) error {
			if !sandbox.Probe().ToolsEnforced() {
				return c.MakeWritable()
			}
			return a.confineTool(cmd, c, "")
		},
		Approve: func(ctx context.Context, q toolkit.Approval) (bool, error) { return a.approve(ctx, q) },
		Env: func(name string) (string, bool) {
			v := a.Config.Env(name)
			return v, v != ""
		},
	})
	if err != nil {
		return nil, err
	}
	a.kit = t
	return t, nil
}

// approve asks for permissions beyond what a tool was given before: the yes that came with
// the call, else a person.
func (a *App) approve(ctx context.Context, q toolkit.Approval) (bool, error) {
	if yes, ok := ctx.Value(approval{}).(bool); ok && yes {
		return true, nil
	}
	if a.opt.Approve == nil {
		return false, nil
	}
	return a.opt.Approve(ctx, fmt.Sprintf("%s wants more than before: %s", q.Tool, strings.Join(q.Beyond, ", ")))
}

// reserved says why a name can't be that of a self-written tool.
func (a *App) reserved(name string) string {
	for _, n := range declared {
		if n == name {
			return "a tool of lj has this name"
		}
	}
	a.mu.Lock()
	b := a.tools
	a.mu.Unlock()
	if b == nil {
		return ""
	}
	if t, ok := b.get(name); ok && t.Spec().Origin != core.OriginToolkit {
		return "a tool of lj has this name"
	}
	return ""
}

// contract starts a program, confined, and proves that it keeps the contract of tools.
func (a *App) contract(ctx context.Context, t toolkit.Target) (toolkit.Proof, error) {
	cmd := host.Command{
		Name: t.Name, Path: t.Program, SHA256: t.SHA256, Origin: core.OriginToolkit, Dir: t.Project,
		Env: []string{"PATH=" + a.Config.Env("PATH"), "HOME=" + t.Temp, "TMPDIR=" + t.Temp, "LANG=C.UTF-8"},
	}
	if sandbox.Probe().ToolsEnforced() {
		cmd.Sandbox = func(cmd *exec.Cmd, sockets string) error {
			return a.confineTool(cmd, toolkit.Confinement{Program: t.Program, Permissions: t.Permissions, Project: t.Project, Temp: t.Temp}, sockets)
		}
	}
	rep := plugintest.Run(ctx, plugintest.Target{Command: cmd, Name: t.Name, Sample: t.Sample, Project: t.Project, SocketRoot: a.socketRoot()})
	p := toolkit.Proof{Spec: rep.Spec, Args: rep.Args, Result: rep.Result}
	if rep.OK {
		return p, nil
	}
	p.Reason = "the contract was not kept"
	for _, c := range rep.Checks {
		if !c.OK {
			p.Reason = c.Name + ": " + c.Detail
			p.Diagnostics = append(p.Diagnostics, evolve.Diagnostic{Message: strings.TrimSpace(p.Reason)})
		}
	}
	return p, nil
}

// loaded is one self-written tool as this process runs it.
type loaded struct {
	version string
	sha256  string
	plugin  *host.Plugin
}

// sync makes the registry show the toolkit as it is now, whoever changed it. It is one
// small query when nothing changed, and nothing at all where there is no toolkit.
func (b *toolbox) sync(ctx context.Context) error {
	if !b.hasKit() {
		return nil
	}
	t, err := b.app.Toolkit(ctx)
	if err != nil {
		return err
	}
	gen, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	b.kitMu.Lock()
	defer b.kitMu.Unlock()
	if b.kit != nil && gen == b.generation {
		return nil
	}
	live, err := t.Live(ctx)
	if err != nil {
		return err
	}
	if b.kit == nil {
		b.kit = map[string]*loaded{}
	}
	seen := map[string]bool{}
	for _, l := range live {
		if l.State != core.ToolLive {
			continue
		}
		seen[l.Name] = true
		have := b.kit[l.Name]
		if have != nil && have.version == l.Version && have.sha256 == l.SHA256 && !l.Missing {
			continue
		}
		if l.Missing {
			if l, err = t.Prepare(ctx, l.Name); err != nil {
				b.app.opt.Warn(err.Error())
				continue
			}
		}
		fresh := &loaded{l.Version, l.SHA256, b.host.Plugin(b.toolCommand(l))}
		old, err := b.reg.Swap(fresh.plugin.Tool(l.Name))
		if err != nil {
			return err
		}
		b.kit[l.Name] = fresh
		b.retire(old, have)
	}
	for name, have := range b.kit {
		if !seen[name] {
			b.retire(b.reg.Remove(name), have)
			delete(b.kit, name)
		}
	}
	b.generation = gen
	return nil
}

// hasKit says whether there is a toolkit, or what is left of one.
func (b *toolbox) hasKit() bool {
	for _, dir := range []string{"toolkit", "bin/tools"} {
		if _, err := os.Stat(filepath.Join(b.app.Home, dir)); err == nil {
			return true
		}
	}
	return false
}

// retire stops an old version when its last call has ended.
func (b *toolbox) retire(v interface{ Drain(context.Context) error }, l *loaded) {
	if l == nil {
		return
	}
	b.retiring.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		go func() {
			select {
			case <-b.closing:
				cancel()
			case <-ctx.Done():
			}
		}()
		_ = v.Drain(ctx) // what still runs then is ended below
		l.plugin.Stop(ctx)
	})
}

// toolCommand is how a live self-written tool is started.
func (b *toolbox) toolCommand(l toolkit.LiveTool) host.Command {
	a := b.app
	if p := l.Spec.Permissions; sandbox.Probe().ToolsEnforced() && len(p.Write)+len(p.Net)+len(p.Exec) == 0 {
		l.Spec.ReadOnly = true // the kernel sees to it, whatever the tool says of itself
	}
	env := host.BaseEnv()
	for _, name := range l.Spec.Permissions.Env {
		if v := a.Config.Env(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	c := host.Command{
		Name: l.Name, Version: l.Version, Path: l.Program, SHA256: l.SHA256, Env: env, Dir: a.Project, Origin: core.OriginToolkit, Specs: []core.ToolSpec{l.Spec},
	}
	if sandbox.Probe().ToolsEnforced() {
		c.Sandbox = func(cmd *exec.Cmd, sockets string) error {
			return a.confineTool(cmd, toolkit.Confinement{Program: l.Program, Permissions: l.Spec.Permissions, Project: a.Project}, sockets)
		}
	}
	return c
}

// watch counts how a call of a self-written tool ended; when the watch did something about
// it, the model is told.
func (b *toolbox) watch(ctx context.Context, spec core.ToolSpec, args json.RawMessage, crashes int, res *core.ToolResult) {
	if checkAgainstSchema(spec, args) != nil {
		return // the caller's failure
	}
	t, err := b.app.Toolkit(ctx)
	if err != nil {
		return
	}
	o := toolkit.Outcome{Failed: res.IsError, Crashed: b.crashes(spec.Name) > crashes}
	if res.IsError {
		o.Detail = res.Text
	}
	d, err := t.RecordOutcome(context.WithoutCancel(ctx), spec.Name, spec.Version, o)
	if err != nil {
		b.app.opt.Warn(err.Error())
		return
	}
	if text := d.ForModel(); text != "" {
		res.Text = strings.TrimRight(res.Text, "\n") + "\n\n[lj] " + text
		b.app.opt.Warn(text)
	}
}

func (b *toolbox) crashes(name string) int {
	b.kitMu.Lock()
	defer b.kitMu.Unlock()
	if l := b.kit[name]; l != nil {
		return l.plugin.Crashes()
	}
	return 0
}

// toolkitTools are the host tools that act on the toolkit.
func (a *App) toolkitTools() []core.Tool {
	kit := func(ctx context.Context) (*toolkit.Toolkit, error) { return a.Toolkit(ctx) }
	reload := func(ctx context.Context) error {
		b, err := a.toolbox(ctx)
		if err != nil {
			return err
		}
		return b.sync(ctx)
	}
	const nameOnly = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`
	type named struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	progress := func(ctx context.Context) func(string) {
		sink, _ := ctx.Value(sinkKey{}).(core.Sink)
		return func(text string) {
			if sink != nil {
				sink.Progress(text)
			}
		}
	}
	report := func(rep *evolve.Report, err error) (string, error) {
		if err != nil && (rep == nil || core.KindOf(err) != core.KindRefused) {
			return "", err
		}
		if err != nil {
			return "", core.Errorf(core.KindRefused, "%s", rep.ForModel())
		}
		return rep.ForModel(), nil
	}
	return []core.Tool{
		newHostTool(a, "toolkit_save", "Prove and publish a tool of your own in Go (source = tool.go, test = tool_test.go, manifest = tool.yaml for more than reading the project); usable at once.",
			`{"type":"object","properties":{"name":{"type":"string"},"source":{"type":"string"},"test":{"type":"string"},"manifest":{"type":"string"},"message":{"type":"string"}},"required":["name","source","test"]}`, false,
			func(ctx context.Context, s *turnSession, in struct {
				Name     string `json:"name"`
				Source   string `json:"source"`
				Test     string `json:"test"`
				Manifest string `json:"manifest"`
				Message  string `json:"message"`
			}) (string, error) {
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				files := map[string][]byte{"tool.go": []byte(in.Source), "tool_test.go": []byte(in.Test)}
				if in.Manifest != "" {
					files["tool.yaml"] = []byte(in.Manifest)
				}
				text, err := report(t.Save(ctx, toolkit.SaveRequest{Name: in.Name, Files: files, Keep: true, Message: in.Message, Progress: progress(ctx)}))
				if err != nil {
					return "", err
				}
				if err := reload(ctx); err != nil {
					return "", err
				}
				if b, err := a.toolbox(ctx); err == nil {
					if live, ok := b.get(in.Name); ok {
						text += "\narguments: " + string(live.Spec().Schema)
					}
				}
				return text, nil
			}),
		newHostTool(a, "toolkit_new", "Show a small working tool with its test, to start from.", nameOnly, true,
			func(ctx context.Context, s *turnSession, in named) (string, error) {
				if err := core.CheckToolName(in.Name); err != nil {
					return "", err
				}
				dir, err := os.MkdirTemp("", "lj-new-")
				if err != nil {
					return "", err
				}
				defer os.RemoveAll(dir)
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				files, err := t.NewFiles(in.Name, filepath.Join(dir, in.Name))
				if err != nil {
					return "", err
				}
				var b strings.Builder
				for _, f := range files {
					raw, err := os.ReadFile(f)
					if err != nil {
						return "", err
					}
					rel, err := filepath.Rel(filepath.Join(dir, in.Name), f)
					if err != nil {
						return "", err
					}
					fmt.Fprintf(&b, "--- %s\n%s\n", rel, raw)
				}
				return b.String(), nil
			}),
		newHostTool(a, "toolkit_reload", "Use the newest versions of the self-written tools (it happens by itself before each call).",
			`{"type":"object","properties":{},"additionalProperties":false}`, true,
			func(ctx context.Context, s *turnSession, _ struct{}) (string, error) {
				if err := reload(ctx); err != nil {
					return "", err
				}
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				live, err := t.Live(ctx)
				if err != nil {
					return "", err
				}
				var out []string
				for _, l := range live {
					out = append(out, fmt.Sprintf("%s %s (%s)", l.Name, l.Version, l.State))
				}
				if out == nil {
					return "there are no self-written tools yet", nil
				}
				return strings.Join(out, "\n"), nil
			}),
		newHostTool(a, "toolkit_rollback", "Make an earlier accepted version of a self-written tool live again; without version the next lower one.",
			`{"type":"object","properties":{"name":{"type":"string"},"version":{"type":"string"}},"required":["name"],"additionalProperties":false}`, false,
			func(ctx context.Context, s *turnSession, in named) (string, error) {
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				text, err := report(t.Rollback(ctx, in.Name, in.Version, progress(ctx)))
				if err != nil {
					return "", err
				}
				return text, reload(ctx)
			}),
		newHostTool(a, "toolkit_list_versions", "List the versions of a self-written tool.", nameOnly, true,
			func(ctx context.Context, s *turnSession, in named) (string, error) {
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				list, err := t.Versions(ctx, in.Name)
				if err != nil {
					return "", err
				}
				var b strings.Builder
				for _, v := range list {
					name, mark := "(rejected)", ""
					if v.Version != nil {
						name = *v.Version
					}
					if v.Live {
						mark = " live"
					}
					fmt.Fprintf(&b, "%s%s %s %s", name, mark, v.Time.Format(time.RFC3339), v.Message)
					if v.Reason != "" {
						fmt.Fprintf(&b, " (%s)", v.Reason)
					}
					b.WriteString("\n")
				}
				return strings.TrimRight(b.String(), "\n"), nil
			}),
		newHostTool(a, "toolkit_test", "Vet, build and test the live version of a self-written tool again.", nameOnly, false,
			func(ctx context.Context, s *turnSession, in named) (string, error) {
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				return report(t.Test(ctx, in.Name, progress(ctx)))
			}),
		newHostTool(a, "toolkit_show", "Show the source, schema, permissions and last failures of a self-written tool.",
			`{"type":"object","properties":{"name":{"type":"string"},"version":{"type":"string"}},"required":["name"],"additionalProperties":false}`, true,
			func(ctx context.Context, s *turnSession, in named) (string, error) {
				t, err := kit(ctx)
				if err != nil {
					return "", err
				}
				v, err := t.Show(ctx, in.Name, in.Version)
				if err != nil {
					return "", err
				}
				var b strings.Builder
				fmt.Fprintf(&b, "%s %s (%s)\n%s\narguments: %s\n", v.Name, v.Version, v.State, v.Description, v.Schema)
				for _, e := range v.Health.Evidence {
					fmt.Fprintf(&b, "failure: %s\n", e)
				}
				for _, n := range sortedKeys(v.Source) {
					fmt.Fprintf(&b, "--- %s\n%s\n", n, v.Source[n])
				}
				return b.String(), nil
			}),
	}
}
