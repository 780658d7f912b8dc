// Package policy judges calls before they run: by mode, by rules and by walls.
//
// It owns the language of rules, the list of harmless commands and the reading of shell
// lines. It judges what would really run: every simple command of the parsed line, the
// commands behind wrappers, every redirection, every resolved path. What it does not
// understand asks. It knows nothing of terminals, of who is asked, or of how commands are
// confined (core/sandbox): it returns a decision that names its rule.
//
//	p, err := policy.New(policy.Config{Mode: "ask", Project: dir, Allow: []string{"bash(go test *)"}})
//	d := p.Decide(spec, core.ToolCall{Name: "bash", Arguments: `{"command":"go test ./..."}`})
//	// d.Verdict is core.Allow, d.Rule is "bash(go test *)"
//
// The verdict for a line is the strictest over its parts. Deny beats ask beats allow. Walls
// (plan mode, paths outside the project, the guard's files, deny rules) hold whatever else
// is allowed. docs/permissions.md describes rules for users.
package policy
