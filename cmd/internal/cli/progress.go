package cli

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/term"
	"github.com/lingjiyidong/lj/core"
)

// progress tells a person on the error stream what happens in a turn.
type progress struct {
	f    *factory
	args map[string]string // call id -> short arguments
	used []core.Event      // memories that this turn is given, not told yet
}

func newProgress(f *factory) *progress { return &progress{f: f, args: map[string]string{}} }

func (p *progress) line(format string, a ...any) { fmt.Fprintf(p.f.Err, format+"\n", a...) }

func (p *progress) event(e core.Event) {
	if e.Type == core.EventMemory && e.Action == "used" {
		p.used = append(p.used, e)
		return
	}
	p.tellUsed()
	switch e.Type {
	case core.EventToolStart:
		p.args[e.ID] = shortArgs(e.Args, 80)
	case core.EventToolEnd:
		var ms int64
		if e.MS != nil {
			ms = *e.MS
		}
		mark := marks[e.Status]
		p.line("%s %s %s (%d ms)", mark, e.Name, p.args[e.ID], ms)
		delete(p.args, e.ID)
	case core.EventNotice:
		p.line("lj: %s", p.f.p.TellLines(e.Text))
	case core.EventMemory:
		p.line("lj: %s", p.f.p.T("memory %s: %s", p.f.did(e.Action), runewidth.Truncate(oneLine(e.Content), 100, "…")))
	}
}

// tellUsed says on one line which memories the turn is given.
func (p *progress) tellUsed() {
	if len(p.used) > 0 {
		p.line("lj: %s", usedText(p.f, p.used))
	}
	p.used = nil
}

// usedText names the memories that a turn is given: one by its text, several by their ids.
func usedText(f *factory, list []core.Event) string {
	if len(list) == 1 {
		return f.p.T("memory %s: %s", f.did("used"), runewidth.Truncate(term.Clean(oneLine(list[0].Content)), 100, "…"))
	}
	const most = 10
	var ids []string
	for i, e := range list {
		if i == most {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, e.ID)
	}
	return f.p.T("memory: %d notes used (%s)", len(list), strings.Join(ids, ", "))
}

// end says how the turn ended where it did not simply end well.
func (p *progress) end(r app.Result) {
	p.tellUsed()
	for _, d := range r.Denied {
		what := shortArgs(d.Args, 80)
		if strings.HasPrefix(d.Rule, "wall:") || strings.HasPrefix(d.Rule, "mode:") || strings.HasPrefix(d.Rule, "deny:") {
			p.line("lj: %s", p.f.p.T("denied: %s %s (rule %s)", d.Tool, what, d.Rule))
			continue
		}
		p.line("lj: %s", p.f.p.T("denied: %s %s (rule %s); allow it with --allow RULE, --mode auto or --yolo", d.Tool, what, d.Rule))
	}
	if r.Err != nil {
		p.f.printError(r.Err)
	}
	if r.Usage.Unreported > 0 {
		p.line("lj: %s", p.f.p.T("the server reported no usage for %d of %d requests", r.Usage.Unreported, r.Usage.Requests))
	}
}

// did says what became of a memory that was to be kept: one that superseded another has
// taken its place, where in a history the older one is said to be superseded.
func (f *factory) did(action string) string {
	if action == "superseded" && f.p.Lang() != "en" {
		action = "new, in place of an older one"
	}
	return f.p.T(action)
}

// shortArgs is a one-line form of a call's arguments, cut by display width.
func shortArgs(raw json.RawMessage, width int) string {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return ""
	}
	for _, k := range []string{"command", "path", "pattern", "query", "url", "name", "id"} {
		if v, ok := m[k].(string); ok {
			return runewidth.Truncate(strings.Join(strings.Fields(v), " "), width, "…")
		}
	}
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	var parts []string
	for _, k := range names {
		parts = append(parts, fmt.Sprintf("%s=%v", k, m[k]))
	}
	return runewidth.Truncate(strings.Join(strings.Fields(strings.Join(parts, " ")), " "), width, "…")
}

// marks show how a call ended.
var marks = map[string]string{core.CallOK: "✓", core.CallError: "✗", core.CallDenied: "⊘", core.CallCancelled: "–"}
