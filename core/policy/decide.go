package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

// Tools by what they do. The host's own tools are judged by name, not by their
// annotations.
var (
	readTools  = &list{text: "read_file list_files grep_files get_outline find_symbol"}
	writeTools = &list{text: "write_file edit_file create_directory"}
	// quietTools act on the conversation and on memory alone; plan and run_subtasks only
	// start work whose every call is judged again.
	quietTools = &list{text: `save_memory forget_memory search_memory todo plan ask_user find_tools read_output search_history
		run_subtasks reflect toolkit_list_versions toolkit_show toolkit_reload`}
	// planTools are those of them that change nothing that lasts.
	planTools = &list{text: `search_memory todo plan ask_user find_tools read_output search_history run_subtasks
		toolkit_list_versions toolkit_show`}
	// askTools always ask, whatever they say of themselves.
	askTools = &list{text: "web_fetch web_search self_evolve prompt_evolve"}
	// chainTools put a version live, or run one, that passed the whole chain with the
	// permissions that were approved for it: they pass where permissions are enforced.
	chainTools = &list{text: "toolkit_test toolkit_rollback toolkit_new"}
)

// Decide judges a call. It never waits and changes nothing.
func (p *Policy) Decide(spec core.ToolSpec, call core.ToolCall) core.Decision {
	tool := call.Name
	if tool == "" {
		tool = spec.Name
	}
	a, ok := parseArgs(call.Arguments)
	if !ok {
		return p.settle(core.Decision{Verdict: core.Ask, Rule: RuleDefault, Reason: "its arguments can't be read"}, false)
	}
	switch {
	case tool == "bash":
		return p.bash(a)
	case readTools.has(tool):
		return p.file(tool, a, workspace.Read)
	case writeTools.has(tool):
		return p.file(tool, a, workspace.Write)
	}
	return p.other(spec, tool, a)
}

// settle gives an answer its final form: plan mode has no questions about what is not
// read only, and --yolo answers them.
func (p *Policy) settle(d core.Decision, readOnly bool) core.Decision {
	if p.c.Mode == ModePlan && !readOnly && d.Verdict != core.Deny {
		return core.Decision{Verdict: core.Deny, Rule: RulePlan, Reason: "plan mode is read only"}
	}
	if d.Verdict == core.Ask && p.c.Yolo && !d.Unconfined {
		return core.Decision{Verdict: core.Allow, Rule: RuleYolo}
	}
	if d.Verdict == core.Allow {
		d.Reason = ""
	}
	return d
}

func deny(rule, format string, a ...any) core.Decision {
	return core.Decision{Verdict: core.Deny, Rule: rule, Reason: fmt.Sprintf(format, a...)}
}

func ask(rule, format string, a ...any) core.Decision {
	return core.Decision{Verdict: core.Ask, Rule: rule, Reason: fmt.Sprintf(format, a...)}
}

func allow(rule string) core.Decision { return core.Decision{Rule: rule} }

// stricter says whether a is stricter than b. Of two questions the one about the
// unconfined process is: --yolo doesn't answer it.
func stricter(a, b core.Decision) bool {
	if a.Verdict != b.Verdict {
		return a.Verdict > b.Verdict
	}
	return a.Verdict == core.Ask && a.Unconfined && !b.Unconfined
}

// file judges a tool that takes a path.
func (p *Policy) file(tool string, a args, access workspace.Access) core.Decision {
	paths, ok := a.strings("path")
	if !ok {
		return p.settle(ask(RuleDefault, "its path can't be read"), access == workspace.Read)
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var worst core.Decision
	for i, path := range paths {
		if d := p.filePath(tool, path, access); i == 0 || stricter(d, worst) {
			worst = d
		}
	}
	return worst
}

func (p *Policy) filePath(tool, path string, access workspace.Access) core.Decision {
	full := path
	if path == "~" || strings.HasPrefix(path, "~/") {
		if pl, err := p.ws.Locate(p.dir, "~"); p.c.UserHome != "" && (err != nil || !pl.Inside || !exists(pl.Abs)) {
			full = p.c.UserHome + path[1:]
		}
	}
	if strings.IndexByte(path, 0) >= 0 {
		return deny(RuleOutside, "the path contains a NUL byte")
	}
	pl, err := p.ws.Locate(p.dir, full)
	if err != nil {
		// It can't be followed, so it can't be opened: the tool says why.
		clean := filepath.Clean(full)
		if !filepath.IsAbs(clean) {
			clean = filepath.Join(p.dir, clean)
		}
		pl = workspace.Place{Abs: clean}
		for _, r := range p.ws.Roots() {
			if rel, err := filepath.Rel(r, clean); err == nil && filepath.IsLocal(rel) {
				pl.Inside = true
			}
		}
	}
	switch {
	case pl.Home:
		return deny(RuleGuard, "%s belongs to lj's own state, which no tool touches", path)
	case !pl.Inside:
		where := ""
		if pl.Abs != filepath.Clean(full) && filepath.IsAbs(full) || !filepath.IsAbs(full) && pl.Abs != filepath.Join(p.dir, full) {
			where = " (it leads to " + pl.Abs + ")"
		}
		return deny(RuleOutside, "%s is outside the project%s; a person can allow it with --add-dir %s", path, where, filepath.Dir(pl.Abs))
	case access == workspace.Write && pl.Guarded != "":
		return deny(RuleGuard, "%s is guarded: no tool writes %s; ask the user to change it", path, pl.Guarded)
	}
	tools := &list{text: tool + " read_file"}
	if access == workspace.Write {
		tools = writeTools
	}
	if r := p.pathRule(p.deny, tools, pl); r != nil {
		return deny(r.text, "the rule %s denies it", r.text)
	}
	if access == workspace.Write && p.c.Mode == ModePlan {
		return deny(RulePlan, "plan mode is read only")
	}
	readOnly := access == workspace.Read
	if r := p.pathRule(p.ask, tools, pl); r != nil {
		return p.settle(ask(r.text, "the rule %s asks", r.text), readOnly)
	}
	if readOnly {
		return allow(RuleDefault)
	}
	if r := p.pathRule(*p.allow.Load(), &list{text: tool}, pl); r != nil {
		return allow(r.text)
	}
	if p.c.Mode == ModeAuto {
		return allow(RuleAuto)
	}
	return p.settle(ask(RuleDefault, "%s changes files", tool), false)
}

// pathRule is the first rule of one of the tools whose pattern matches a place.
func (p *Policy) pathRule(rules []*rule, tools *list, pl workspace.Place) *rule {
	for _, r := range rules {
		if tools.has(r.tool) && r.path(pl, p.dir) {
			return r
		}
	}
	return nil
}

// other judges tools that are neither bash nor about files.
func (p *Policy) other(spec core.ToolSpec, tool string, a args) core.Decision {
	readOnly := spec.ReadOnly && !askTools.has(tool) && !chainTools.has(tool) && tool != "toolkit_save" && honest(spec)
	harmlessJobs := tool == "bash_jobs" && in(strings.ToLower(a.first("action")), "list", "output")
	inPlan := readOnly || planTools.has(tool) || harmlessJobs || tool == "web_fetch" || tool == "web_search"

	if spec.Origin == core.OriginToolkit || spec.Origin == core.OriginMCP {
		for _, m := range a {
			var at string
			deepStrings(m.raw, func(s string) {
				if at == "" && p.inHome(s) {
					at = s
				}
			})
			if at != "" {
				return deny(RuleGuard, "%s belongs to lj's own state, which no tool touches", at)
			}
		}
	}
	if tool == "web_fetch" {
		urls, ok := a.strings("url")
		for _, u := range urls {
			scheme, _, found := strings.Cut(u, ":")
			if found && !in(strings.ToLower(strings.TrimSpace(scheme)), "http", "https") && !strings.Contains(scheme, ".") && !strings.Contains(scheme, "/") && scheme != "localhost" {
				return deny(RuleOutside, "%s is no address of the web", u)
			}
		}
		if !ok {
			return p.settle(ask(RuleDefault, "its address can't be read"), inPlan)
		}
	}
	if r := p.otherRule(p.deny, spec, tool, a, true); r != nil {
		return deny(r.text, "the rule %s denies it", r.text)
	}
	if p.c.Mode == ModePlan && !inPlan {
		return deny(RulePlan, "plan mode is read only")
	}
	if r := p.otherRule(p.ask, spec, tool, a, true); r != nil {
		return p.settle(ask(r.text, "the rule %s asks", r.text), inPlan)
	}
	if readOnly || quietTools.has(tool) || tool == "bash_jobs" {
		return allow(RuleDefault)
	}
	if r := p.otherRule(*p.allow.Load(), spec, tool, a, false); r != nil {
		return allow(r.text)
	}
	switch {
	case chainTools.has(tool) && p.c.ToolsConfined:
		return allow(RuleDefault)
	case tool == "toolkit_save":
		wants, ok := defaultManifest(a)
		switch {
		case ok && p.c.ToolsConfined:
			return allow(RuleDefault)
		case ok:
			return p.settle(ask(RuleDefault, "this machine does not enforce the permissions of tools"), false)
		default:
			return p.settle(ask(RuleDefault, "the tool wants more than to read the project: %s", wants), false)
		}
	}
	reason := tool + " is not read only"
	if tool == "web_fetch" || tool == "web_search" {
		reason = tool + " sends data to other machines"
	}
	return p.settle(ask(RuleDefault, "%s", reason), inPlan)
}

// honest says whether a tool's claim to be read only can be true: one of the toolkit that
// may write, connect or run programs is not.
func honest(spec core.ToolSpec) bool {
	return spec.Origin != core.OriginToolkit || len(spec.Permissions.Write)+len(spec.Permissions.Net)+len(spec.Permissions.Exec) == 0
}

func (p *Policy) otherRule(rules []*rule, spec core.ToolSpec, tool string, a args, loose bool) *rule {
	main, known := "", false
	for _, r := range rules {
		if r.tool != tool {
			continue
		}
		if r.all {
			return r
		}
		if !known {
			main, known = mainArg(tool, spec.Schema), true
		}
		values, ok := a.strings(main)
		if main == "" || !ok || len(values) == 0 {
			if loose && main != "" && !ok {
				return r
			}
			continue
		}
		hits := 0
		for _, v := range values {
			if tool == "web_fetch" && r.address(v, loose) || tool != "web_fetch" && wild(r.pattern, v) {
				hits++
			}
		}
		if hits == len(values) || loose && hits > 0 {
			return r
		}
	}
	return nil
}

// inHome says whether a text is a path in lj's state.
func (p *Policy) inHome(s string) bool {
	if len(s) > 4096 || strings.IndexByte(s, 0) >= 0 {
		return false
	}
	s = strings.TrimPrefix(s, "file://")
	switch {
	case strings.HasPrefix(s, "~/") && p.c.UserHome != "":
		s = p.c.UserHome + s[1:]
	case strings.HasPrefix(s, "/"), strings.HasPrefix(s, "../"), strings.Contains(s, "/../"):
	default:
		return false
	}
	pl, err := p.ws.Locate(p.dir, s)
	return err == nil && pl.Home
}

// defaultManifest says whether the manifest of a toolkit_save wants no more than to read
// the project, else what it wants. A manifest is the text of a tool.yaml or its value.
func defaultManifest(a args) (wants string, ok bool) {
	for _, m := range a {
		if !strings.EqualFold(m.name, "manifest") {
			continue
		}
		text := []byte(m.raw)
		var s string
		if json.Unmarshal(m.raw, &s) == nil {
			text = []byte(s)
		}
		var doc map[string]any
		dec := yaml.NewDecoder(bytes.NewReader(text))
		if err := dec.Decode(&doc); err != nil && err != io.EOF {
			return "its manifest can't be read", false
		}
		if err := dec.Decode(new(any)); err != io.EOF {
			return "more than one document", false
		}
		perms := doc
		for k, v := range doc {
			switch strings.ToLower(k) {
			case "permissions":
				pm, isMap := v.(map[string]any)
				if !isMap && v != nil {
					return "its permissions can't be read", false
				}
				if k != "permissions" {
					return k, false
				}
				if w, ok := defaultPermissions(pm); !ok {
					return w, false
				}
				perms = nil
			}
		}
		if perms != nil {
			if w, ok := defaultPermissions(onlyPermissions(doc)); !ok {
				return w, false
			}
		}
	}
	return "", true
}

// onlyPermissions takes the members that are permissions, so that a manifest may give them
// without the outer key.
func onlyPermissions(doc map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range doc {
		if in(strings.ToLower(k), "read", "write", "net", "exec", "env") {
			out[k] = v
		}
	}
	return out
}

func defaultPermissions(m map[string]any) (wants string, ok bool) {
	for k, v := range m {
		list, isList := v.([]any)
		if v == nil || isList && len(list) == 0 {
			continue
		}
		if k == "read" && isList {
			more := false
			for _, x := range list {
				more = more || x != "." && x != "./"
			}
			if !more {
				continue
			}
		}
		return fmt.Sprintf("%s: %v", k, v), false
	}
	return "", true
}
