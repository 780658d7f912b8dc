// Package app owns the wiring: it is the one place where the store, the model client, the
// tools, the policy and the loop meet. Front ends import it and core, nothing else.
//
// It knows nothing of flags, terminals or output formats: a front end gives it options and
// takes a stream of core.Event and a result.
//
//	a, err := app.Open(ctx, app.Options{Environ: os.Environ(), Dir: "."})
//	defer a.Close()
//	res := a.Run(ctx, app.TurnOptions{Prompt: "hi"})
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/evolve/snapshot"
	"github.com/lingjiyidong/lj/evolve/toolkit"
	"github.com/lingjiyidong/lj/memory/segment"
	"github.com/lingjiyidong/lj/plugins/builtin/bash"
	"github.com/lingjiyidong/lj/store"
)

// Options say where lj runs. Environ and Dir are needed.
type Options struct {
	Environ []string
	Dir     string // working directory
	// ConfigFile replaces LJ_HOME/config.yaml.
	ConfigFile string
	// Flags are settings given on the command line, by key.
	Flags map[string]any
	// Warn takes lines for the person; nil drops them.
	Warn func(string)
	// Version is that of lj.
	Version string
	// Self is the path of the lj binary, which built-in tools are served from.
	Self string
	Now  func() time.Time
	// Approve asks a person a yes-or-no question outside of a turn; nil: nobody can be asked.
	Approve func(ctx context.Context, question string) (bool, error)
	// Tolerate opens lj with settings files that can't be read, without them: for looking
	// at what is wrong, not for work.
	Tolerate bool
}

// App is one run of lj. Parts are made when they are first asked for. Safe for use by
// several goroutines.
type App struct {
	opt     Options
	Home    string // LJ_HOME, absolute
	Project string // project directory, absolute, links resolved
	Config  *Config

	mu     sync.Mutex
	store  *store.Store
	client map[string]*llm.Client
	tools  *toolbox
	// addDirs are the directories beside the project that this run may touch. They are set
	// before the first tool process starts.
	addDirs []string
	snaps   *snapshot.Engine
	cutter  *segment.Segmenter
	// commands says whether a process for commands was started.
	commands atomic.Bool
	held     map[string]*os.File // locks of sessions, by id
	guards   guardWatch
	// rulesTold are the warnings about rules without a tool that were given.
	rulesTold []string
	// background is what runs beside the work; Close waits for it.
	background sync.WaitGroup
	kitMu      sync.Mutex
	kit        *toolkit.Toolkit
	// meter corrects the estimate of tokens by what the server reports.
	meter    history.Meter
	spending spending
}

// Open finds home and project and reads the settings. It opens nothing else.
func Open(ctx context.Context, o Options) (*App, error) {
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &App{opt: o, client: map[string]*llm.Client{}}
	env := func(name string) string {
		for i := len(o.Environ) - 1; i >= 0; i-- {
			if k, v, ok := strings.Cut(o.Environ[i], "="); ok && k == name {
				return v
			}
		}
		return ""
	}
	home, err := homeDir(env)
	if err != nil {
		return nil, err
	}
	a.Home = home
	if fi, err := os.Stat(home); err == nil && !fi.IsDir() && !o.Tolerate {
		return nil, core.Errorf(core.KindConfig, "LJ_HOME %s is not a directory", home).Hint("set LJ_HOME to a directory that you can write to")
	}
	if a.Project, err = FindProject(o.Dir); err != nil {
		return nil, err
	}
	cfg, err := LoadConfig(ConfigOptions{
		Home: a.Home, File: o.ConfigFile, Project: a.Project, Environ: o.Environ, Flags: o.Flags, Tolerate: o.Tolerate,
		IsTrusted: func(path, digest string) bool { return a.isTrusted(ctx, path, digest) },
	})
	if err != nil {
		a.Close()
		return nil, err
	}
	a.Config = cfg
	for _, w := range cfg.Warnings {
		o.Warn(w)
	}
	return a, nil
}

func homeDir(env func(string) string) (string, error) {
	h := env("LJ_HOME")
	if h == "" {
		u := env("HOME")
		if u == "" {
			return "", core.Errorf(core.KindConfig, "neither LJ_HOME nor HOME is set").Hint("set LJ_HOME to a directory that you can write to")
		}
		h = filepath.Join(u, ".lj")
	}
	abs, err := filepath.Abs(h)
	if err != nil {
		return "", core.Errorf(core.KindConfig, "LJ_HOME %s: %w", h, err)
	}
	return abs, nil
}

// FindProject is the nearest directory at or above dir that holds .git or .agent, else dir
// itself; absolute, links resolved.
func FindProject(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", core.Errorf(core.KindUsage, "directory %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", core.Errorf(core.KindUsage, "directory %s: %w", dir, err)
	}
	if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
		return "", core.Errorf(core.KindUsage, "%s is not a directory", dir)
	}
	for d := real; ; {
		for _, mark := range []string{".git", ".agent"} {
			if _, err := os.Lstat(filepath.Join(d, mark)); err == nil {
				return d, nil
			}
		}
		up := filepath.Dir(d)
		if up == d {
			return real, nil
		}
		d = up
	}
}

// Close ends everything that was started. It is safe to call twice.
func (a *App) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	if a.tools != nil {
		err = a.tools.close()
		a.tools = nil
		if a.commands.Load() {
			bash.Sweep() // what its commands had started and detached
		}
	}
	a.background.Wait()
	for id, f := range a.held {
		_ = os.Remove(f.Name()) // still locked: who waits for it looks again
		err = errors.Join(err, unlock(f))
		delete(a.held, id)
	}
	for _, c := range a.client {
		c.Close()
	}
	a.client = map[string]*llm.Client{}
	a.kitMu.Lock()
	if a.kit != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err = errors.Join(err, a.kit.Close(ctx))
		cancel()
		a.kit = nil
	}
	a.kitMu.Unlock()
	if a.store != nil {
		err = errors.Join(err, a.store.Close())
		a.store = nil
	}
	return err
}

// Store opens the database on first use.
func (a *App) Store(ctx context.Context) (*store.Store, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store != nil {
		return a.store, nil
	}
	s, err := store.Open(ctx, filepath.Join(a.Home, "lj.db"), store.Options{Now: a.opt.Now, Warn: a.opt.Warn})
	if err != nil {
		return nil, err
	}
	a.store = s
	return s, nil
}

func trustKey(path string) string { return "trust:" + path }

func (a *App) isTrusted(ctx context.Context, path, digest string) bool {
	if _, err := os.Stat(filepath.Join(a.Home, "lj.db")); err != nil {
		return false
	}
	s, err := a.Store(ctx)
	if err != nil {
		return false
	}
	v, err := s.Meta(ctx, trustKey(path))
	return err == nil && v == digest
}

// Trust records that the user trusts the project's settings file as it is now.
func (a *App) Trust(ctx context.Context) (path string, err error) {
	if a.Config.ProjectFile == "" {
		return "", core.Errorf(core.KindNotFound, "there is no %s", filepath.Join(a.Project, ".agent", "config.yaml"))
	}
	s, err := a.Store(ctx)
	if err != nil {
		return "", err
	}
	return a.Config.ProjectFile, s.SetMeta(ctx, trustKey(a.Config.ProjectFile), a.Config.ProjectDigest)
}

// UserFile is the settings file that config set writes.
func (a *App) UserFile() string {
	return ConfigOptions{Home: a.Home, File: a.opt.ConfigFile}.UserFile()
}

// Server is the model server that the settings lead to.
type Server struct {
	BaseURL string
	Key     string
	KeyName string // where the key comes from, for error texts
	Preset  llm.Preset
	Known   bool   // Preset is set
	Model   string // "" when the server has to be asked
	Source  string // what decided: a setting or a variable
}

// FindServer works out the server without any request. The error has the kind
// core.KindConfig when none is configured.
func (a *App) FindServer() (Server, error) {
	c := a.Config
	s := Server{BaseURL: c.String("base_url"), Key: c.String("api_key"), KeyName: c.Source("api_key"), Model: c.String("model"), Source: c.Source("base_url")}
	if s.Key == "" {
		s.KeyName = "" // the variable of the server's kind
	}
	if s.BaseURL != "" && !strings.Contains(s.BaseURL, "://") {
		// The name of a preset is as good as its address.
		p, ok := llm.PresetNamed(s.BaseURL)
		if !ok {
			return s, core.Errorf(core.KindConfig, "base_url %q is neither an address nor a known provider", s.BaseURL).
				Hint("write it as https://host/v1")
		}
		s.BaseURL = p.BaseURL
	}
	if s.BaseURL == "" {
		if s.Key != "" && c.Source("api_key") != "built-in" {
			p, _ := llm.PresetNamed("openai")
			s.BaseURL, s.Source = p.BaseURL, c.Source("api_key")
		} else {
			for _, p := range llm.Presets() {
				if p.KeyEnv == "" {
					continue
				}
				if v := c.Env(p.KeyEnv); v != "" {
					s.BaseURL, s.Key, s.KeyName, s.Source = p.BaseURL, v, p.KeyEnv, p.KeyEnv
					break
				}
			}
		}
	}
	if s.BaseURL == "" {
		return s, core.Errorf(core.KindConfig, "no model server is configured").
			Hint("set OPENAI_BASE_URL and OPENAI_API_KEY, or lj config set base_url https://…/v1; lj demo shows lj without a server")
	}
	s.Preset, s.Known = llm.PresetFor(s.BaseURL)
	if s.Known && s.Preset.KeyEnv != "" {
		// The provider's own variable beats a key that was meant for another server.
		if v := c.Env(s.Preset.KeyEnv); v != "" && (s.Key == "" || s.KeyName == "OPENAI_API_KEY" && s.Preset.KeyEnv != "OPENAI_API_KEY") {
			s.Key, s.KeyName = v, s.Preset.KeyEnv
		}
	}
	if s.Model == "" && s.Known {
		s.Model = s.Preset.Model
	}
	return s, nil
}

// Client returns the client for a model ("" for the configured one) and the model's name.
// Where no setting and no preset names a model, the server is asked once and the answer
// remembered.
func (a *App) Client(ctx context.Context, model string) (*llm.Client, string, error) {
	s, err := a.FindServer()
	if err != nil {
		return nil, "", err
	}
	if model != "" {
		s.Model = model
	}
	a.mu.Lock()
	c := a.client[s.BaseURL]
	a.mu.Unlock()
	if c == nil {
		c, err = llm.New(llm.Config{
			BaseURL: s.BaseURL, APIKey: s.Key, KeyName: s.KeyName, Model: s.Model,
			ConnectTimeout: a.Config.Seconds("timeout.connect"), FirstByteTimeout: a.Config.Seconds("timeout.first_byte"),
			IdleTimeout: a.Config.Seconds("timeout.idle"), MaxRetries: retries(a.Config.Int("retries")),
			TraceHeaders: a.Config.Bool("trace_headers"), UserAgent: "lj/" + a.opt.Version,
		})
		if err != nil {
			return nil, "", err
		}
		a.mu.Lock()
		a.client[s.BaseURL] = c
		a.mu.Unlock()
	}
	if s.Model != "" {
		return c, s.Model, nil
	}
	st, err := a.Store(ctx)
	if err != nil {
		return nil, "", err
	}
	key := "model:" + s.BaseURL
	if m, err := st.Meta(ctx, key); err != nil {
		return nil, "", err
	} else if m != "" {
		return c, m, nil
	}
	list, err := c.Models(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(list) == 0 {
		return nil, "", core.Errorf(core.KindConfig, "the server %s offers no model", s.BaseURL).Hint("set LJ_MODEL or lj config set model NAME")
	}
	if err := st.SetMeta(ctx, key, list[0].ID); err != nil {
		return nil, "", err
	}
	return c, list[0].ID, nil
}

func retries(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// ContextWindow is the size of the model's window in tokens.
func (a *App) ContextWindow() int {
	if n := a.Config.Int("max_context_tokens"); n > 0 {
		return n
	}
	return 128_000
}

// ensureAgentDir makes .agent with its own .gitignore in the project.
func (a *App) ensureAgentDir() (string, error) {
	dir := filepath.Join(a.Project, ".agent")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	ignore := filepath.Join(dir, ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("# Made by lj: scratch files. Settings, memory and skills may be committed.\n/.gitignore\n/workspace/\n"), 0o644); err != nil {
			return "", fmt.Errorf("make %s: %w", ignore, err)
		}
	}
	return dir, nil
}
