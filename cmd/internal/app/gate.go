package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/policy"
	"github.com/lingjiyidong/lj/core/sandbox"
	"github.com/lingjiyidong/lj/store"
)

// gate joins the policy with the person who can be asked.
type gate struct {
	mode   string
	policy *policy.Policy
	ask    Asker
	app    *App
	store  *store.Store
	conv   *Conversation
	mu     sync.Mutex // one question at a time
}

// newGate makes the gate of one turn from the settings as they were when the session's
// process began, the flags, and what a person has granted.
func (a *App) newGate(ctx context.Context, st *store.Store, c *Conversation, o TurnOptions) (*gate, error) {
	mode := firstOf(o.Mode, a.Config.String("mode"))
	grants, err := st.Grants(ctx, a.Project)
	if err != nil {
		return nil, err
	}
	allow := append(append([]string{}, a.Config.Strings("permissions.allow")...), o.Allow...)
	allow = append(append(allow, grants...), c.granted...)
	p, err := policy.New(policy.Config{
		Mode: mode, Yolo: o.Yolo, Project: a.Project, AddDirs: o.AddDirs, Home: a.Home,
		Allow: allow, Ask: a.Config.Strings("permissions.ask"),
		Deny:     append(append([]string{}, a.Config.Strings("permissions.deny")...), o.Deny...),
		Confined: a.confined(), ToolsConfined: sandbox.Probe().ToolsEnforced(),
	})
	if err != nil {
		return nil, err
	}
	return &gate{mode: mode, policy: p, ask: o.Ask, app: a, store: st, conv: c}, nil
}

// UnknownRules says of each rule in the settings, and of the further ones, whose tool there
// is not: a mistyped rule allows and denies nothing.
func (a *App) UnknownRules(ctx context.Context, further ...string) []string {
	var rules []string
	for _, key := range []string{"permissions.allow", "permissions.ask", "permissions.deny"} {
		rules = append(rules, a.Config.Strings(key)...)
	}
	if rules = append(rules, further...); len(rules) == 0 {
		return nil
	}
	box, err := a.toolbox(ctx)
	if err != nil {
		return nil // said where the tools are needed
	}
	if err := box.sync(ctx); err != nil {
		return nil
	}
	var out []string
	for _, text := range rules {
		name := policy.RuleTool(text)
		if name == "" {
			continue // no rule at all: said where it is read
		}
		if _, ok := box.get(name); ok || box.offLive(ctx, name) != nil {
			continue
		}
		line := fmt.Sprintf("rule %q: there is no tool %q, so it has no effect", text, name)
		if n := core.Nearest(name, box.names()); n != "" {
			line += fmt.Sprintf(" (did you mean %s?)", n)
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// tellRules warns of rules without a tool, of each once.
func (a *App) tellRules(ctx context.Context, further ...string) {
	for _, line := range a.UnknownRules(ctx, further...) {
		a.mu.Lock()
		told := slices.Contains(a.rulesTold, line)
		if !told {
			a.rulesTold = append(a.rulesTold, line)
		}
		a.mu.Unlock()
		if !told {
			a.opt.Warn(line)
		}
	}
}

func (g *gate) Decide(spec core.ToolSpec, call core.ToolCall) core.Decision {
	return g.policy.Decide(spec, call)
}

// Ask puts a call to the person. Where nobody can be asked it is denied under the rule
// that asked.
func (g *gate) Ask(ctx context.Context, spec core.ToolSpec, call core.ToolCall, d core.Decision) core.Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	// An answer to the question before may have settled this one.
	if again := g.policy.Decide(spec, call); again.Verdict != core.Ask {
		return again
	}
	if g.ask == nil {
		d.Verdict = core.Deny
		if d.Reason == "" {
			d.Reason = "it needs approval and nobody can be asked here"
		}
		return d
	}
	rule := policy.RuleFor(spec, call)
	answer, err := g.ask.Permit(ctx, PermitQuestion{Tool: call.Name, Args: json.RawMessage(call.Arguments), Reason: d.Reason, Rule: rule, Diff: g.app.previewDiff(call)})
	if err != nil {
		d.Verdict, d.Reason = core.Deny, "the question was not answered: "+err.Error()
		return d
	}
	switch answer {
	case "once":
	case "session":
		if err := g.policy.Grant(rule); err != nil {
			g.app.opt.Warn(err.Error())
		}
		g.conv.granted = append(g.conv.granted, rule)
	case "always":
		if err := g.policy.Grant(rule); err != nil {
			g.app.opt.Warn(err.Error())
		}
		g.conv.granted = append(g.conv.granted, rule)
		if err := g.store.Grant(ctx, g.app.Project, rule); err != nil {
			g.app.opt.Warn(fmt.Sprintf("the grant %s is not kept: %v", rule, err))
		}
	default:
		d.Verdict, d.Reason = core.Deny, "the user said no"
		return d
	}
	d.Verdict, d.Reason = core.Allow, ""
	d.Rule = "approved:" + answer
	return d
}

// checkAgainstSchema checks typed arguments before anything is started.
func checkAgainstSchema(spec core.ToolSpec, args json.RawMessage) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(spec.Schema, &s); err != nil {
		return fmt.Errorf("schema of %s: %w", spec.Name, err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("schema of %s: %w", spec.Name, err)
	}
	var v map[string]any
	if err := json.Unmarshal(args, &v); err != nil {
		return core.Errorf(core.KindUsage, "arguments of %s: %w", spec.Name, err)
	}
	// A key that no tool reads is a mistyped one.
	for k := range v {
		if _, ok := s.Properties[k]; !ok && s.AdditionalProperties == nil && len(s.PatternProperties) == 0 {
			return core.Errorf(core.KindUsage, "arguments of %s: it takes no %q", spec.Name, k).Hint("lj tools show %s prints the schema", spec.Name)
		}
	}
	if err := r.Validate(v); err != nil {
		return core.Errorf(core.KindUsage, "arguments of %s: %w", spec.Name, err).Hint("lj tools show %s prints the schema", spec.Name)
	}
	return nil
}
