package policy

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

// The modes.
const (
	ModeAsk  = "ask"  // reading is allowed, the rest asks
	ModeAuto = "auto" // also writes inside the project and confined commands
	ModePlan = "plan" // read only, whatever the rules say
)

// The names of decisions that no rule of the user made.
const (
	RuleDefault  = "default"              // what the mode says of such a call
	RulePlan     = "mode:plan"            // the wall of plan mode
	RuleAuto     = "mode:auto"            // allowed because the mode is auto
	RuleYolo     = "yolo"                 // a question answered by --yolo
	RuleHarmless = "harmless"             // a line of reading commands
	RuleOutside  = "wall:outside-project" // a path outside the project
	RuleGuard    = "wall:guard"           // lj's own state, git's configuration and hooks
)

// Config is what a policy is made of.
type Config struct {
	Mode             string // ModeAsk, ModeAuto or ModePlan; "" is ModeAsk
	Yolo             bool   // answer yes to questions; walls stay
	Project          string // absolute
	AddDirs          []string
	Home             string // LJ_HOME
	Allow, Ask, Deny []string
	// Confined says that commands are confined on this machine.
	Confined bool
	// ToolsConfined says that the permissions of self-written tools are fully enforced on
	// this machine, so that a tool that wants only the default may go live unasked.
	ToolsConfined bool
	// UserHome is what ~ means, the user's home directory when empty.
	UserHome string
	// TempDirs are directories outside the project that confined commands may write to.
	// When nil: the system's temporary directories and the user's cache directory.
	TempDirs []string
}

// Policy judges calls. It is safe for use by several goroutines.
type Policy struct {
	c    Config
	ws   *workspace.Workspace
	dir  string   // the project, resolved
	home []string // spellings of the state directory in a command line
	temp []string // resolved

	ask, deny []*rule
	allow     atomic.Pointer[[]*rule]
	grant     sync.Mutex // serialises Grant
}

// New makes a policy. Every rule is read and its examples are checked; the error, of kind
// config, names the first one that is wrong.
func New(c Config) (*Policy, error) {
	switch c.Mode {
	case "":
		c.Mode = ModeAsk
	case ModeAsk, ModeAuto, ModePlan:
	default:
		e := core.Errorf(core.KindConfig, "mode %q is unknown", c.Mode)
		if n := core.Nearest(c.Mode, []string{ModeAsk, ModeAuto, ModePlan}); n != "" {
			return nil, e.Hint("did you mean %s?", n)
		}
		return nil, e.Hint("a mode is ask, auto or plan")
	}
	ws, err := workspace.Open(c.Project, workspace.Options{AddDirs: c.AddDirs, Home: c.Home})
	if err != nil {
		return nil, err
	}
	if c.UserHome == "" {
		c.UserHome, _ = os.UserHomeDir()
	}
	if c.TempDirs == nil {
		c.TempDirs = []string{os.TempDir(), "/tmp", "/var/tmp"}
		if c.UserHome != "" {
			c.TempDirs = append(c.TempDirs, filepath.Join(c.UserHome, ".cache"))
		}
	}
	p := &Policy{c: c, ws: ws, dir: ws.Dir()}
	for _, d := range c.TempDirs {
		if real, err := filepath.EvalSymlinks(d); err == nil && filepath.IsAbs(real) {
			p.temp = append(p.temp, real)
		}
	}
	p.home = homeSpellings(c.Home, c.UserHome)
	var allow []*rule
	for _, l := range []struct {
		from []string
		to   *[]*rule
	}{{c.Allow, &allow}, {c.Ask, &p.ask}, {c.Deny, &p.deny}} {
		for _, text := range l.from {
			r, err := parseRule(text)
			if err != nil {
				return nil, err
			}
			if err := p.checkExamples(r); err != nil {
				return nil, err
			}
			*l.to = append(*l.to, r)
		}
	}
	p.allow.Store(&allow)
	return p, nil
}

// CheckRule says whether text is a rule: an error of kind config names what is wrong.
func CheckRule(text string) error {
	_, err := parseRule(text)
	return err
}

// RuleTool is the name of the tool that a rule is about, "" where text is no rule.
func RuleTool(text string) string {
	r, err := parseRule(text)
	if err != nil {
		return ""
	}
	return r.tool
}

// Grant allows what a rule matches from now on, for as long as this policy lives. Walls,
// ask rules and deny rules stay above it.
func (p *Policy) Grant(text string) error {
	r, err := parseRule(text)
	if err != nil {
		return err
	}
	p.grant.Lock()
	defer p.grant.Unlock()
	old := *p.allow.Load()
	next := append(old[:len(old):len(old)], r)
	p.allow.Store(&next)
	return nil
}

// homeSpellings are the ways in which a command line names the state directory.
func homeSpellings(home, user string) []string {
	s := []string{"$LJ_HOME", "${LJ_HOME}"}
	if home == "" && user != "" {
		home = filepath.Join(user, ".lj")
	}
	if home == "" {
		return s
	}
	add := func(h string) {
		s = append(s, h)
		if rel, err := filepath.Rel(user, h); err == nil && user != "" && filepath.IsLocal(rel) && rel != "." {
			s = append(s, "~/"+rel, "$HOME/"+rel, "${HOME}/"+rel)
		}
	}
	add(filepath.Clean(home))
	if real, err := filepath.EvalSymlinks(home); err == nil && real != filepath.Clean(home) {
		add(real)
	}
	return s
}
