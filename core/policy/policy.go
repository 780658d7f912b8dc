// Package policy judges calls before they run: by mode, by rules and by walls. It knows
// nothing of terminals or of who is asked; it returns a decision that names its rule.
package policy

import (
	"github.com/lingjiyidong/lj/core"
)

// Config is what a policy is made of.
type Config struct {
	Mode             string // ask, auto, plan
	Yolo             bool
	Project          string // absolute
	AddDirs          []string
	Home             string // LJ_HOME
	Allow, Ask, Deny []string
	// Confined says that commands are confined on this machine.
	Confined bool
}

// Policy judges calls.
type Policy struct{ c Config }

// New makes a policy.
func New(c Config) (*Policy, error) { return &Policy{c}, nil }

// Decide judges a call.
func (p *Policy) Decide(spec core.ToolSpec, call core.ToolCall) core.Decision {
	if spec.ReadOnly || p.c.Yolo {
		return core.Decision{Rule: "default"}
	}
	return core.Decision{Verdict: core.Ask, Rule: "default"}
}

// Grant allows what a rule matches for the rest of the session.
func (p *Policy) Grant(rule string) {}

// RuleFor is the rule that an answer for the session or for always would grant.
func RuleFor(spec core.ToolSpec, call core.ToolCall) string { return call.Name }
