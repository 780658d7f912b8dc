// Package prompts owns the texts that lj speaks to models with: the built-in system text,
// the texts of roles and modes, and the strict rendering of the blocks that open a
// message. Which version of the system text is active is the store's; what the values
// are is the caller's.
//
//	text := prompts.System()
//	block := prompts.Role("review")
package prompts

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// BuiltinVersion is the number of the built-in system text.
const BuiltinVersion = 1

// MaxSystem is the largest system text that is accepted, in bytes of UTF-8.
const MaxSystem = 16 << 10

//go:embed system.md
var system string

// System is the built-in system text.
func System() string { return strings.TrimSpace(system) }

// Roles are the names that Role knows.
func Roles() []string { return []string{"design", "develop", "test", "review", "docs", "devops"} }

var roles = map[string]string{
	"design":  "Role: design. Work out how it should be built: alternatives, interfaces, risks, an order of steps. Change no code.",
	"develop": "Role: develop. Build it, with tests, in the style of the project.",
	"test":    "Role: test. Find out whether it works: write and run tests, look for edge cases, report what fails. Change code only to make it testable.",
	"review":  "Role: review. Read the code and say what is wrong or risky, most important first, with file and line. Change nothing.",
	"docs":    "Role: docs. Write or mend documentation; check each statement against the code. Change no code.",
	"devops":  "Role: devops. Build, package, automate, deploy. Prefer changes that can be undone, and show what will happen before it does.",
}

// Role is the text that opens a turn in a role, "" for none. An unknown role is an error
// of kind core.KindUsage.
func Role(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if t, ok := roles[name]; ok {
		return t, nil
	}
	e := core.Errorf(core.KindUsage, "unknown role %q", name)
	if n := core.Nearest(name, Roles()); n != "" {
		return "", e.Hint("did you mean %s? roles: %s", n, strings.Join(Roles(), ", "))
	}
	return "", e.Hint("roles: %s", strings.Join(Roles(), ", "))
}

// Check says whether text may become the system text.
func Check(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return core.Errorf(core.KindUsage, "the system text is empty")
	case len(text) > MaxSystem:
		return core.Errorf(core.KindUsage, "the system text has %d bytes, the limit is %d", len(text), MaxSystem)
	case strings.ToValidUTF8(text, "") != text:
		return core.Errorf(core.KindUsage, "the system text is not UTF-8")
	}
	return nil
}

// Block wraps quoted material in a named tag. The tag can't be closed from within.
func Block(tag, attrs, body string) string {
	if attrs != "" {
		attrs = " " + attrs
	}
	body = strings.ReplaceAll(body, "</"+tag, "<\u200b/"+tag)
	return fmt.Sprintf("<%s%s>\n%s\n</%s>", tag, attrs, strings.TrimRight(body, "\n"), tag)
}
