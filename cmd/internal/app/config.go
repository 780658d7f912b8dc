package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/viper"
	"github.com/subosito/gotenv"
	"go.yaml.in/yaml/v3"

	"github.com/lingjiyidong/lj/core"
)

// Config holds the effective settings. It does not change while a command runs: settings
// edited meanwhile count from the next start.
type Config struct {
	v       *viper.Viper
	sources map[string]string // key -> where its value comes from
	flags   map[string]any
	// Warnings are the lines about keys and values that were not used.
	Warnings []string
	// Broken are the errors of files that could not be read, where Tolerate left them out.
	Broken []error
	env    func(string) string
	// ProjectFile is .agent/config.yaml where it exists, with its digest and whether the
	// user trusts it.
	ProjectFile, ProjectDigest string
	Trusted                    bool
}

// ConfigOptions are what LoadConfig reads.
type ConfigOptions struct {
	Home    string // LJ_HOME
	File    string // replaces LJ_HOME/config.yaml; "" for that
	Project string // the project directory
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags are settings given on the command line, by key.
	Flags map[string]any
	// Tolerate leaves out files that can't be read or parsed, and keeps their errors in
	// Broken: for looking at what is wrong, not for work.
	Tolerate bool
	// IsTrusted says whether the user trusts a project file with this digest.
	IsTrusted func(path, digest string) bool
}

// UserFile is the file that "config set" writes.
func (o ConfigOptions) UserFile() string {
	if o.File != "" {
		return o.File
	}
	return filepath.Join(o.Home, "config.yaml")
}

type fileValue struct {
	value any
	line  int
}

// LoadConfig reads all settings, weakest first: built-in, user file, project file,
// environment, flags. What is wrong is said in Warnings, with file, line, key and the
// nearest known key, and the rest is used. Only a file that can't be read or parsed at all
// is an error, of kind core.KindConfig.
func LoadConfig(o ConfigOptions) (*Config, error) {
	c := &Config{v: viper.New(), sources: map[string]string{}, flags: o.Flags}
	for _, k := range keys {
		if k.def != nil {
			c.v.SetDefault(k.name, k.def)
		}
		c.sources[k.name] = "built-in"
	}
	broken := func(err error) error {
		if err != nil && o.Tolerate {
			c.Broken = append(c.Broken, err)
			return nil
		}
		return err
	}
	env, err := environment(o)
	if err := broken(err); err != nil {
		return nil, err
	}
	c.env = func(name string) string { return env[name] }

	user := o.UserFile()
	vals, err := c.readFile(user, o.File != "")
	if err := broken(err); err != nil {
		return nil, err
	}
	for name, fv := range vals {
		c.set(name, fv.value, user)
	}
	if err := broken(c.readProject(o)); err != nil {
		return nil, err
	}
	c.readEnv(env)
	for name, v := range o.Flags {
		c.set(name, v, "flag")
	}
	return c, nil
}

func (c *Config) set(name string, v any, source string) {
	if v == nil {
		return
	}
	c.v.Set(name, v)
	c.sources[name] = source
}

func (c *Config) warn(format string, a ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, a...))
}

// environment is the process's environment over LJ_HOME/.env. It is whole, but for what
// the file holds, beside an error.
func environment(o ConfigOptions) (map[string]string, error) {
	env := map[string]string{}
	path := filepath.Join(o.Home, ".env")
	var bad error
	if b, err := os.ReadFile(path); err == nil {
		vals, err := gotenv.StrictParse(bytes.NewReader(b))
		if err != nil {
			bad = core.Errorf(core.KindConfig, "%s: %w", path, err).Hint("write one NAME=value on each line")
		}
		for k, v := range vals {
			env[k] = v
		}
	}
	for _, kv := range o.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env, bad
}

// readFile reads one settings file. A missing one is empty unless it must exist.
func (c *Config) readFile(path string, must bool) (map[string]fileValue, error) {
	b, err := os.ReadFile(path)
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !must {
		return nil, nil
	}
	if err != nil {
		return nil, core.Errorf(core.KindConfig, "read settings: %w", err).Hint("make %s a file that you can read, or name another with -c", path)
	}
	root, err := parseYAML(path, b)
	if err != nil {
		return nil, err
	}
	vals := map[string]fileValue{}
	c.walk(path, "", root, vals)
	return vals, nil
}

// parseYAML reads a settings file's top mapping, nil for an empty file.
func parseYAML(path string, b []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, core.Errorf(core.KindConfig, "%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: ")).
			Hint("mend the file by hand; lj does not overwrite what it can't read")
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	if n := doc.Content[0]; n.Kind == yaml.MappingNode {
		return n, nil
	} else if n.Tag == "!!null" {
		return nil, nil
	} else {
		return nil, core.Errorf(core.KindConfig, "%s: line %d: expected settings of the form key: value", path, n.Line).
			Hint("mend the file by hand; lj does not overwrite what it can't read")
	}
}

func (c *Config) walk(path, prefix string, n *yaml.Node, vals map[string]fileValue) {
	if n == nil {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		for v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		name := prefix + k.Value
		known, ok := findKey(name)
		if !ok {
			if v.Kind == yaml.MappingNode && hasPrefix(name+".") {
				c.walk(path, name+".", v, vals)
				continue
			}
			near := nearestKey(name)
			if near != "" {
				near = fmt.Sprintf(" (did you mean %s?)", near)
			}
			c.warn("%s:%d: unknown key %s%s", path, k.Line, name, near)
			continue
		}
		var raw any
		if err := v.Decode(&raw); err != nil {
			c.warn("%s:%d: %s: %v", path, v.Line, name, err)
			continue
		}
		val, err := known.parse(raw)
		if list, ok := known.usable(raw, err); ok {
			c.warn("%s:%d: %s", path, v.Line, err)
			val, err = list, nil
		}
		if err != nil {
			c.warn("%s:%d: %s", path, v.Line, err)
			continue
		}
		if val != nil {
			vals[name] = fileValue{val, v.Line}
		}
	}
}

func hasPrefix(p string) bool {
	for _, k := range keys {
		if strings.HasPrefix(k.name, p) {
			return true
		}
	}
	return false
}

// readProject takes from .agent/config.yaml what narrows, and the rest only when the user
// trusts this path and digest.
func (c *Config) readProject(o ConfigOptions) error {
	if o.Project == "" {
		return nil
	}
	path := filepath.Join(o.Project, ".agent", "config.yaml")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		c.warn("%s: not used: %v", path, err)
		return nil
	}
	sum := sha256.Sum256(b)
	c.ProjectFile, c.ProjectDigest = path, hex.EncodeToString(sum[:])
	c.Trusted = o.IsTrusted != nil && o.IsTrusted(path, c.ProjectDigest)
	root, err := parseYAML(path, b)
	if err != nil {
		return err
	}
	vals := map[string]fileValue{}
	c.walk(path, "", root, vals)
	for _, k := range keys {
		fv, ok := vals[k.name]
		if !ok {
			continue
		}
		switch {
		case c.Trusted:
			if k.narrow == "add" {
				fv.value = append(append([]string{}, c.Strings(k.name)...), fv.value.([]string)...)
			}
			c.set(k.name, fv.value, path)
		case k.narrow == "add":
			c.set(k.name, append(append([]string{}, c.Strings(k.name)...), fv.value.([]string)...), path)
		case k.narrow == "lower" && lower(fv.value.(int), c.v.GetInt(k.name)):
			c.set(k.name, fv.value, path)
		case k.narrow == "plan" && fv.value == "plan", k.narrow == "plan" && fv.value == "ask" && c.v.GetString(k.name) == "auto":
			c.set(k.name, fv.value, path)
		case k.narrow == "lower" && fv.value.(int) == c.v.GetInt(k.name), k.narrow == "plan" && fv.value == c.v.GetString(k.name):
		default:
			c.warn("%s:%d: %s is ignored: a project may only narrow (lj config trust allows this file)", path, fv.line, k.name)
		}
	}
	return nil
}

// lower says whether limit a is stricter than b; 0 is no limit.
func lower(a, b int) bool {
	if a <= 0 {
		return false
	}
	return b <= 0 || a < b
}

// EnvName is the environment variable of a key.
func EnvName(key string) string {
	return "LJ_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// notKeys are variables with the prefix LJ_ that are no settings.
var notKeys = map[string]bool{
	"LJ_HOME": true, "LJ_LANG": true, "LJ_GOLDEN": true, "LJ_DATA": true,
	"LJ_FAILPOINT": true, "LJ_FAILPOINT_LIST": true,
}

func (c *Config) readEnv(env map[string]string) {
	for _, std := range []struct{ name, key string }{{"OPENAI_BASE_URL", "base_url"}, {"OPENAI_API_KEY", "api_key"}} {
		if v := env[std.name]; v != "" {
			// A key belongs to the server that it was given for: OPENAI_API_KEY does not go
			// to a server that a file names together with its own key.
			if std.key == "api_key" && c.sources["api_key"] != "built-in" && env["OPENAI_BASE_URL"] == "" {
				continue
			}
			c.set(std.key, v, std.name)
		}
	}
	known := map[string]string{}
	for _, k := range keys {
		known[EnvName(k.name)] = k.name
	}
	for name, v := range env {
		if !strings.HasPrefix(name, "LJ_") || notKeys[name] || strings.HasPrefix(name, "LJ_TEST_") || strings.HasPrefix(name, "LJ_PLUGIN_") {
			continue
		}
		keyName, ok := known[name]
		if !ok {
			names := make([]string, 0, len(known))
			for n := range known {
				names = append(names, n)
			}
			near := core.Nearest(name, names)
			if near != "" {
				near = " (did you mean " + near + "?)"
			}
			c.warn("environment: unknown variable %s%s", name, near)
			continue
		}
		k, _ := findKey(keyName)
		if v == "" {
			continue
		}
		val, err := k.parse(v)
		if list, ok := k.usable(v, err); ok {
			c.warn("environment: %s: %s", name, err)
			val, err = list, nil
		}
		if err != nil {
			c.warn("environment: %s: %s", name, err)
			continue
		}
		c.set(keyName, val, name)
	}
}

// Env is the environment that settings were read from, LJ_HOME/.env included.
func (c *Config) Env(name string) string { return c.env(name) }

// String, Int, Bool, Strings, Seconds and Float return a setting.
func (c *Config) String(name string) string { return c.v.GetString(name) }

// Int returns a number.
func (c *Config) Int(name string) int { return c.v.GetInt(name) }

// Bool returns a truth value.
func (c *Config) Bool(name string) bool { return c.v.GetBool(name) }

// Strings returns a list.
func (c *Config) Strings(name string) []string { return c.v.GetStringSlice(name) }

// Seconds returns a span of time.
func (c *Config) Seconds(name string) time.Duration {
	return time.Duration(c.v.GetInt(name)) * time.Second
}

// Float returns a number, nil where it is not set.
func (c *Config) Float(name string) *float64 {
	if !c.v.IsSet(name) {
		return nil
	}
	f := c.v.GetFloat64(name)
	return &f
}

// Source says where a setting's value comes from: "built-in", a file, a variable, "flag".
func (c *Config) Source(name string) string { return c.sources[name] }

// Setting is one setting as it is shown.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
	Doc    string `json:"description"`
}

// Settings lists every setting with its effective value; secrets are masked.
func (c *Config) Settings() []Setting {
	out := make([]Setting, len(keys))
	for i, k := range keys {
		out[i] = Setting{k.name, c.value(k), c.sources[k.name], k.doc}
	}
	return out
}

func (c *Config) value(k key) any {
	if !c.v.IsSet(k.name) {
		switch k.kind {
		case kindList:
			return []string{}
		case kindText:
			return ""
		}
		return nil
	}
	switch k.kind {
	case kindList:
		return c.Strings(k.name)
	case kindInt, kindDuration:
		return c.Int(k.name)
	case kindFloat:
		return c.v.GetFloat64(k.name)
	case kindBool:
		return c.Bool(k.name)
	}
	s := c.String(k.name)
	if k.secret && s != "" {
		return maskKey(s)
	}
	return s
}

func maskKey(s string) string {
	if len(s) <= 12 {
		return "***"
	}
	return s[:3] + "…" + s[len(s)-4:]
}

// Get returns one setting. An unknown key is an error of kind core.KindUsage.
func (c *Config) Get(name string) (Setting, error) {
	k, ok := findKey(name)
	if !ok {
		return Setting{}, unknownKey(name)
	}
	return Setting{k.name, c.value(k), c.sources[k.name], k.doc}, nil
}

func unknownKey(name string) error {
	e := core.Errorf(core.KindUsage, "unknown key %s", name)
	if n := nearestKey(name); n != "" {
		return e.Hint("did you mean %s?", n)
	}
	return e.Hint("lj config list shows all keys")
}

// SetInFile sets a key in a settings file, keeping the rest of it, comments included, and
// makes the file (0600) if there is none. A value that the key does not take, and a file
// that can't be parsed, are errors; then nothing is written.
func SetInFile(path, name, value string) error {
	k, ok := findKey(name)
	if !ok {
		return unknownKey(name)
	}
	val, err := k.parse(value)
	if err != nil {
		return core.Errorf(core.KindUsage, "%w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindConfig, "read settings: %w", err)
	}
	if _, err := parseYAML(path, b); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return core.Errorf(core.KindConfig, "%s: %w", path, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		// An empty file, or comments only: keep the comments above.
		comments := string(b)
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}
		if strings.TrimSpace(comments) != "" {
			doc.HeadComment = strings.TrimRight(comments, "\n")
		}
	}
	node := doc.Content[0]
	parts := strings.Split(name, ".")
	for i, part := range parts {
		child := mapChild(node, part)
		if i < len(parts)-1 {
			if child == nil || child.Kind != yaml.MappingNode {
				fresh := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				setChild(node, part, fresh)
				child = fresh
			}
			node = child
			continue
		}
		var leaf yaml.Node
		if err := leaf.Encode(val); err != nil {
			return core.Errorf(core.KindInternal, "encode %s: %w", name, err)
		}
		if val == nil {
			leaf = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: ""}
		}
		if child != nil {
			leaf.LineComment = child.LineComment
		}
		setChild(node, part, &leaf)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return core.Errorf(core.KindInternal, "encode settings: %w", err)
	}
	return writePrivate(path, out.Bytes())
}

func mapChild(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func setChild(n *yaml.Node, name string, v *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, v)
}

// writePrivate replaces a file of ours in one step, mode 0600. A link is followed, so that
// a settings file kept elsewhere stays there.
func writePrivate(path string, b []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return core.Errorf(core.KindConfig, "make %s: %w", filepath.Dir(path), err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return core.Errorf(core.KindConfig, "write %s: %w", path, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return core.Errorf(core.KindConfig, "write %s: %w", path, err)
	}
	return nil
}

// Template is the commented settings file that "config init" writes.
func Template() []byte {
	var b strings.Builder
	b.WriteString("# Settings of lj. Remove the # in front of a key to set it.\n")
	b.WriteString("# Stronger: .agent/config.yaml of a project (it may only narrow), the environment\n")
	b.WriteString("# (LJ_ and the key in upper case, dots as _), then flags.\n")
	group := ""
	for _, k := range keys {
		name, indent := k.name, "# "
		if g, rest, ok := strings.Cut(k.name, "."); ok {
			if g != group {
				fmt.Fprintf(&b, "\n# %s:\n", g)
			}
			group, name, indent = g, rest, "#   "
		} else {
			group = ""
			b.WriteString("\n")
		}
		def := ""
		switch {
		case k.kind == kindList:
			def = " []"
		case k.def != nil:
			def = fmt.Sprintf(" %v", k.def)
		}
		fmt.Fprintf(&b, "%s%s:%s  # %s", indent, name, def, k.doc)
		if k.oneOf != nil {
			fmt.Fprintf(&b, " (%s)", strings.Join(nonEmpty(k.oneOf), ", "))
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}
