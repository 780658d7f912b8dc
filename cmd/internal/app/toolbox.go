package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/agent"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/core/secret"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin"
	"github.com/lingjiyidong/lj/plugins/builtin/bash"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/registry"
)

// declared are the tools that every request lists, in this order. The rest is found with
// find_tools. The list is the same in all sessions and projects.
var declared = []string{
	"read_file", "write_file", "edit_file", "create_directory", "list_files", "grep_files", "bash",
	"get_outline", "find_symbol", "web_fetch", "web_search", "save_memory", "find_tools", "use_tool",
	"toolkit_save", "todo", "plan", "ask_user",
}

// toolbox holds every tool that can be called, and the processes behind them.
type toolbox struct {
	app  *App
	host *host.Host

	reg   *registry.Registry
	masks *secret.Masker
	once  sync.Once
	open  core.Tool // bash, not confined

	kitMu      sync.Mutex
	kit        map[string]*loaded // self-written tools by name
	generation int64
	retiring   sync.WaitGroup
	closing    chan struct{}
}

// toolbox makes the tools on first use. No process starts before a tool is called.
func (a *App) toolbox(ctx context.Context) (*toolbox, error) {
	a.mu.Lock()
	have := a.tools
	a.mu.Unlock()
	if have != nil {
		return have, nil
	}
	mem, err := a.memoryTools(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tools != nil {
		return a.tools, nil
	}
	h, err := host.New(host.Options{SocketRoot: a.socketRoot(), Logger: warnWriter{a.opt.Warn}, OnCrash: func(e host.CrashError) {
		if strings.HasPrefix(e.Tool, "bash") || strings.HasPrefix(e.Tool, "lj bash") {
			bash.Sweep() // what its commands had started
		}
	}})
	if err != nil {
		return nil, err
	}
	b := &toolbox{app: a, host: h, reg: registry.New(), masks: a.masker(), closing: make(chan struct{})}
	for _, t := range append(append(a.sessionTools(), a.toolkitTools()...), mem...) {
		if err := b.reg.Add(t); err != nil {
			return nil, err
		}
	}
	for class, list := range map[string][]builtin.Tool{classFiles: builtin.Files(), classBash: builtin.Bash(builtin.BashOptions{}), classWeb: builtin.Web(builtin.WebOptions{})} {
		for _, t := range b.builtin(class, list) {
			if err := b.reg.Add(t); err != nil {
				return nil, err
			}
		}
	}
	a.tools = b
	return b, nil
}

type warnWriter struct{ warn func(string) }

func (w warnWriter) Write(p []byte) (int, error) {
	w.warn(strings.TrimSpace(string(p)))
	return len(p), nil
}

// builtin are the tools of one class, served by one process of this program.
func (b *toolbox) builtin(class string, list []builtin.Tool) []core.Tool {
	specs := make([]core.ToolSpec, len(list))
	for i, t := range list {
		specs[i] = t.Spec
		specs[i].Origin, specs[i].Version = core.OriginBuiltin, b.app.opt.Version
	}
	cmd := host.Command{
		Name: "lj " + class, Version: b.app.opt.Version, Path: b.app.opt.Self, Args: []string{serveArg, class},
		Env: b.app.toolEnv(class), Dir: b.app.Project, Origin: core.OriginBuiltin, Trusted: true, Specs: specs,
	}
	if class != classUnconfined {
		cmd.Sandbox = b.app.confine(class)
	}
	p := b.host.Plugin(cmd)
	out := make([]core.Tool, len(specs))
	for i, s := range specs {
		out[i] = p.Tool(s.Name)
	}
	return out
}

// unconfined is bash in the process that is not confined, for what a person has allowed
// there.
func (b *toolbox) unconfined() core.Tool {
	b.once.Do(func() { b.open = b.builtin(classUnconfined, builtin.Bash(builtin.BashOptions{}))[0] })
	return b.open
}

// toolEnv is the environment of a built-in tool process: the user's, without what is lj's
// own and without the keys of model servers.
func (a *App) toolEnv(class string) []string {
	drop := map[string]bool{"OPENAI_API_KEY": true}
	for _, p := range llm.Presets() {
		if p.KeyEnv != "" {
			drop[p.KeyEnv] = true
		}
	}
	secrets := map[string]bool{}
	for _, k := range keys {
		if k.secret {
			drop[EnvName(k.name)] = true
			if v := a.Config.String(k.name); v != "" {
				secrets[v] = true
			}
		}
	}
	if s, err := a.FindServer(); err == nil && s.Key != "" {
		secrets[s.Key] = true
	}
	var env []string
	for _, kv := range a.opt.Environ {
		k, v, _ := strings.Cut(kv, "=")
		if drop[k] || secrets[v] && v != "" || strings.HasPrefix(k, "LJ_PLUGIN_") {
			continue
		}
		env = append(env, kv)
	}
	env = append(env, "LJ_HOME="+a.Home)
	if class == classWeb {
		if raw, err := json.Marshal(builtin.WebOptions{
			Engine: a.Config.String("web.search"), URL: a.Config.String("web.search_url"), Key: a.Config.String("web.search_key"), AllowPrivate: a.Config.Bool("web.allow_private"),
		}); err == nil {
			env = append(env, webEnv+"="+string(raw))
		}
	}
	if class == classBash || class == classUnconfined {
		env = append(env, "LJ_PLUGIN_BASH_TIMEOUT="+a.Config.Seconds("bash.timeout").String())
	}
	return env
}

func (b *toolbox) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	close(b.closing)
	err := b.host.Close(ctx)
	b.retiring.Wait()
	return err
}

func (b *toolbox) get(name string) (core.Tool, bool) { return b.reg.Get(name) }

func (b *toolbox) names() []string { return b.reg.Names() }

// declaredTools is the tool list of a new session, as it is sent.
func (a *App) declaredTools() (json.RawMessage, error) {
	b, err := a.toolbox(context.Background())
	if err != nil {
		return nil, err
	}
	var specs []core.ToolSpec
	for _, n := range declared {
		if t, ok := b.get(n); ok {
			specs = append(specs, t.Spec())
		}
	}
	return llm.EncodeTools(specs)
}

// find lists the tools that are not declared and match the words of a query, best first.
func (b *toolbox) find(query string) string {
	listed := map[string]bool{}
	for _, n := range declared {
		listed[n] = true
	}
	var out strings.Builder
	n := 0
	for _, s := range b.reg.Find(query, 0) {
		if listed[s.Name] {
			continue
		}
		if n++; n > 8 {
			break
		}
		fmt.Fprintf(&out, "%s: %s\n  arguments: %s\n", s.Name, s.Description, s.Schema)
	}
	if n == 0 {
		out.WriteString("no tool matches; all that are not listed:")
		for _, name := range b.names() {
			if !listed[name] {
				out.WriteString(" " + name)
			}
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

// masker knows the secrets of this run: the server's key, the environment, the project's
// files of variables.
func (a *App) masker() *secret.Masker {
	m := secret.New(a.salt())
	if s, err := a.FindServer(); err == nil && s.Key != "" {
		name := s.KeyName
		if strings.ContainsAny(name, "/ ") || name == "" || name == "flag" {
			name = "api_key"
		}
		m.Add(name, s.Key)
	}
	for _, k := range keys {
		if k.secret {
			if v := a.Config.String(k.name); v != "" {
				m.Add(k.name, v)
			}
		}
	}
	m.AddEnviron(a.opt.Environ)
	m.AddEnvFiles(a.Home)
	m.AddEnvFiles(a.Project)
	return m
}

// salt makes the markers of masked values say nothing of them to others. It is kept, so
// that the markers of a session mean the same when it is resumed.
func (a *App) salt() []byte {
	path := filepath.Join(a.Home, "cache", "salt")
	if b, err := os.ReadFile(path); err == nil && len(b) >= 16 {
		return b
	}
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return []byte(a.Home)
	}
	if err := writePrivate(path, b); err != nil {
		a.opt.Warn(err.Error())
	}
	return b
}

// decoder turns the raw output of a call into masked text for the conversation.
func (b *toolbox) decoder() agent.Transform { return &display{stream: b.masks.Stream()} }

// display decodes bytes to text and masks it, keeping state across pieces.
type display struct {
	decode workspace.Display
	stream *secret.Stream
}

func (d *display) Push(p []byte) string { return d.stream.Push(d.decode.Write(p)) }

func (d *display) Close() string { return d.stream.Push(d.decode.Close()) + d.stream.Close() }

// mask replaces secrets in text.
func (b *toolbox) mask(s string) string { return b.masks.Mask(s) }

// unmaskArgs puts back what masks in the arguments of a writing tool stand for, from the
// file that is written, or says why it can't.
func (b *toolbox) unmaskArgs(tool string, args json.RawMessage, project string) (json.RawMessage, error) {
	if !bytes.Contains(args, []byte("secret:")) {
		return args, nil
	}
	var m map[string]any
	if err := json.Unmarshal(args, &m); err != nil {
		return args, nil // the tool itself says what is wrong
	}
	original := ""
	if path, ok := m["path"].(string); ok {
		if !filepath.IsAbs(path) {
			path = filepath.Join(project, path)
		}
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() < 16<<20 {
			if raw, err := os.ReadFile(path); err == nil {
				original = workspace.DecodeForDisplay(raw)
			}
		}
	}
	changed := false
	for _, k := range []string{"content", "old", "new", "command"} {
		s, ok := m[k].(string)
		if !ok {
			continue
		}
		text, missing := b.masks.Restore(s, original)
		if missing != nil {
			return nil, fmt.Errorf("not done: the text holds a masked value that this file does not hold: %s. Masked values can only be kept where they are; leave it out, or let the user put it there", strings.Join(missing, ", "))
		}
		if text != s {
			m[k], changed = text, true
		}
	}
	if !changed {
		return args, nil
	}
	return json.Marshal(m)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// ToolInfo is one tool as it is listed.
type ToolInfo struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Origin      string `json:"origin"`
	State       string `json:"state"`
	Calls       int    `json:"calls"`
	Failures    int    `json:"failures"`
	P50         int64  `json:"p50_ms"`
	Description string `json:"description"`
}

// ToolList lists every tool with what is known of its use.
func (a *App) ToolList(ctx context.Context) ([]ToolInfo, error) {
	b, err := a.toolbox(ctx)
	if err != nil {
		return nil, err
	}
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	stats, err := st.CallStats(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.sync(ctx); err != nil {
		return nil, err
	}
	var out []ToolInfo
	if b.hasKit() {
		// Those that are not live are listed too.
		t, err := a.Toolkit(ctx)
		if err != nil {
			return nil, err
		}
		all, err := t.Live(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			if l.State != core.ToolLive {
				c := stats[l.Name]
				out = append(out, ToolInfo{l.Name, l.Version, core.OriginToolkit, l.State, c.Calls, c.Failures, c.P50.Milliseconds(), l.Spec.Description})
			}
		}
	}
	for _, n := range b.names() {
		t, ok := b.get(n)
		if !ok {
			continue
		}
		s := t.Spec()
		c := stats[n]
		out = append(out, ToolInfo{s.Name, s.Version, s.Origin, "live", c.Calls, c.Failures, c.P50.Milliseconds(), s.Description})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// ToolDetail is one tool as it is shown.
type ToolDetail struct {
	ToolInfo
	Schema      json.RawMessage   `json:"input_schema"`
	ReadOnly    bool              `json:"read_only"`
	Permissions *core.Permissions `json:"permissions,omitempty"`
	Source      map[string]string `json:"source,omitempty"`
	SkillMD     string            `json:"skill_md,omitempty"`
	Evidence    []string          `json:"evidence,omitempty"`
}

// ToolShow is what is known of one tool.
func (a *App) ToolShow(ctx context.Context, name, version string) (ToolDetail, error) {
	list, err := a.ToolList(ctx)
	if err != nil {
		return ToolDetail{}, err
	}
	b, err := a.toolbox(ctx)
	if err != nil {
		return ToolDetail{}, err
	}
	for _, i := range list {
		if i.Name != name {
			continue
		}
		if i.Origin == core.OriginToolkit {
			t, err := a.Toolkit(ctx)
			if err != nil {
				return ToolDetail{}, err
			}
			v, err := t.Show(ctx, name, version)
			if err != nil {
				return ToolDetail{}, err
			}
			i.Version, i.Description, i.State = v.Version, v.Description, v.State
			d := ToolDetail{ToolInfo: i, Schema: v.Schema, Permissions: &v.Permissions, Source: v.Source, SkillMD: v.Skill, Evidence: v.Health.Evidence}
			if l, ok := b.get(name); ok {
				d.ReadOnly = l.Spec().ReadOnly
			}
			return d, nil
		}
		t, ok := b.get(name)
		if !ok {
			break
		}
		s := t.Spec()
		if version != "" && strings.TrimPrefix(version, "v") != strings.TrimPrefix(s.Version, "v") {
			return ToolDetail{}, core.Errorf(core.KindNotFound, "%s has no version %s", name, version).Hint("it is %s, %s", s.Origin, s.Version)
		}
		return ToolDetail{ToolInfo: i, Schema: s.Schema, ReadOnly: s.ReadOnly}, nil
	}
	return ToolDetail{}, b.unknown(ctx, name)
}

// offLive says that a self-written tool of this name is there but not live; nil where it is
// not there.
func (b *toolbox) offLive(ctx context.Context, name string) error {
	if !b.hasKit() {
		return nil
	}
	t, err := b.app.Toolkit(ctx)
	if err != nil {
		return nil // that it is unknown is said anyway
	}
	all, err := t.Live(ctx)
	if err != nil {
		return nil
	}
	for _, l := range all {
		switch {
		case l.Name != name || l.State == core.ToolLive:
		case l.State == core.ToolDisabled && (l.Reason == "" || l.Reason == byUser):
			return core.Errorf(core.KindNotFound, "the tool %s is disabled", name).Hint("lj tools enable %s makes it live again", name)
		case l.State == core.ToolDisabled:
			return core.Errorf(core.KindNotFound, "the tool %s is disabled: %s", name, l.Reason).Hint("lj tools enable %s makes it live again", name)
		default:
			return core.Errorf(core.KindNotFound, "the tool %s is broken: %s", name, l.Reason).Hint("lj tools enable %s tries it again, lj tools rollback %s goes back to an earlier version", name, name)
		}
	}
	return nil
}

func (b *toolbox) unknown(ctx context.Context, name string) error {
	if err := b.offLive(ctx, name); err != nil {
		return err
	}
	e := core.Errorf(core.KindNotFound, "there is no tool %q", name)
	if n := core.Nearest(name, b.names()); n != "" {
		return e.Hint("did you mean %s?", n)
	}
	return e.Hint("lj tools list shows all tools")
}

// Text writes the tool for people.
func (t ToolDetail) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s, %s)\n\n%s\n\narguments:\n%s\n", t.Name, t.Version, t.Origin, t.State, t.Description, indentJSON(t.Schema))
	if t.SkillMD != "" {
		b.WriteString("\n" + t.SkillMD + "\n")
	}
	names := make([]string, 0, len(t.Source))
	for n := range t.Source {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintf(&b, "\n--- %s\n%s", n, t.Source[n])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func indentJSON(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(raw)
	}
	return string(out)
}

// ToolCall runs one call through the same host as a conversation's. The typed call is the
// approval; walls stay. The error's kind is core.KindUsage or KindNotFound for bad
// arguments and an unknown tool, core.KindDenied at a wall.
func (a *App) ToolCall(ctx context.Context, name string, args json.RawMessage, o TurnOptions) (core.ToolResult, error) {
	var object map[string]json.RawMessage
	if !utf8.Valid(args) {
		return core.ToolResult{}, core.Errorf(core.KindUsage, "the arguments are not UTF-8, as JSON is").Hint(`write other bytes of text as escapes: "\\u00e9"`)
	}
	if err := json.Unmarshal(args, &object); err != nil || object == nil {
		return core.ToolResult{}, core.Errorf(core.KindUsage, "the arguments are not one JSON object: %s", jsonProblem(args, err)).Hint(`write them as '{"path":"a.txt"}'`)
	}
	var err error
	if o.AddDirs, err = a.setDirs(o.AddDirs); err != nil {
		return core.ToolResult{}, err
	}
	b, err := a.toolbox(ctx)
	if err != nil {
		return core.ToolResult{}, err
	}
	if err := b.sync(ctx); err != nil {
		return core.ToolResult{}, err
	}
	tool, ok := b.get(name)
	if !ok {
		return core.ToolResult{}, b.unknown(ctx, name)
	}
	st, err := a.Store(ctx)
	if err != nil {
		return core.ToolResult{}, err
	}
	if err := checkAgainstSchema(tool.Spec(), args); err != nil {
		return core.ToolResult{}, err
	}
	conv := &Conversation{app: a, opt: o, known: map[string]string{}}
	o.Yolo = true // the typed call is the approval
	g, err := a.newGate(ctx, st, conv, o)
	if err != nil {
		return core.ToolResult{}, err
	}
	s := &turnSession{app: a, store: st, conv: conv, box: b, gate: g, emit: func(core.Event) {}, opt: o, detached: true}
	call := core.ToolCall{ID: "cli", Name: name, Arguments: string(args)}
	spec := tool.Spec()
	d := g.Decide(spec, call)
	if d.Verdict == core.Ask {
		d = g.Ask(ctx, spec, call, d)
	}
	if d.Verdict != core.Allow {
		return core.ToolResult{}, core.Errorf(core.KindDenied, "%s is denied (%s): %s", name, d.Rule, d.Reason)
	}
	conv.Session.ID = "tools-call"
	res, err := s.run(ctx, tool, call, d, nil)
	s.settle(call)
	s.finish(ctx)
	if ctx.Err() != nil && (err != nil || res.IsError) {
		return res, core.Errorf(core.KindInterrupted, "interrupted")
	}
	if err == nil && len(s.denied) > 0 {
		err = core.Errorf(core.KindDenied, "the call met a wall: %s", s.denied[0].Rule)
	}
	return res, err
}

func jsonProblem(args json.RawMessage, err error) string {
	if err == nil {
		return "null"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
