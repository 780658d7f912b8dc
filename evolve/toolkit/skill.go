package toolkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve/check"
)

// skill writes a tool's SKILL.md: what it does, its parameters, an example that ran, what
// it may touch, its version.
func skill(v core.ToolVersion, src *check.Source, p Proof, tests int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %s\nversion: %s\ngenerated: true\n---\n\n# %s\n\n%s\n\n## Parameters\n\n", v.Name, yamlText(v.Spec.Description), v.Version, v.Name, strings.TrimSpace(v.Spec.Description))
	params := parameters(v.Spec.Schema)
	if len(params) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| name | type | required | meaning |\n| --- | --- | --- | --- |\n")
		for _, r := range params {
			req := "no"
			if r.required {
				req = "yes"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, cell(r.kind), req, cell(r.meaning))
		}
	}
	args, result, from := p.Args, p.Result, "This call was made when the version was proved."
	switch {
	case !result.IsError && len(args) > 0 && (len(src.Sample) > 0 || src.Example == nil):
		fmt.Fprintf(&b, "\n## Example\n\n%s\n\n```json\n%s\n```\n\nAnswer:\n\n```\n%s\n```\n", from, args, fence(result.Text, 1500))
	case src.Example != nil:
		fmt.Fprintf(&b, "\n## Example\n\nThese arguments are from its tests, which passed.\n\n```json\n%s\n```\n", src.Example)
	case len(args) > 0:
		fmt.Fprintf(&b, "\n## Example\n\n%s It was answered with an error.\n\n```json\n%s\n```\n\nAnswer:\n\n```\n%s\n```\n", from, args, fence(result.Text, 600))
	}
	b.WriteString("\n## Permissions\n\n")
	any := false
	for _, l := range []struct {
		what string
		list []string
	}{{"read", v.Spec.Permissions.Read}, {"write", v.Spec.Permissions.Write}, {"net", v.Spec.Permissions.Net}, {"exec", v.Spec.Permissions.Exec}, {"env", v.Spec.Permissions.Env}} {
		if len(l.list) > 0 {
			any = true
			fmt.Fprintf(&b, "- %s: %s\n", l.what, strings.Join(l.list, ", "))
		}
	}
	if !any {
		b.WriteString("None.\n")
	}
	fmt.Fprintf(&b, "\n## Version\n\n%s, %s, %d tests. %s\n", v.Version, v.Time.UTC().Format("2006-01-02"), tests, v.Message)
	return b.Bytes()
}

func yamlText(s string) string {
	b, err := json.Marshal(strings.Join(strings.Fields(s), " "))
	if err != nil {
		return `""`
	}
	return string(b)
}

func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

func fence(s string, n int) string {
	s = strings.TrimRight(strings.ReplaceAll(s, "```", "'''"), "\n")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

type parameter struct {
	name, kind, meaning string
	required            bool
}

// parameters are the properties of an input schema in their order.
func parameters(schema json.RawMessage) []parameter {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Properties) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	var out []parameter
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return out
		}
		var p struct {
			Type        any             `json:"type"`
			Description string          `json:"description"`
			Enum        []any           `json:"enum"`
			Default     json.RawMessage `json:"default"`
			Items       struct {
				Type any `json:"type"`
			} `json:"items"`
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return out
		}
		if json.Unmarshal(raw, &p) != nil {
			p.Description = ""
		}
		r := parameter{name: fmt.Sprint(key), kind: "any", meaning: p.Description}
		if p.Type != nil {
			r.kind = fmt.Sprint(p.Type)
		}
		if r.kind == "array" && p.Items.Type != nil {
			r.kind = fmt.Sprintf("array of %v", p.Items.Type)
		}
		if len(p.Enum) > 0 {
			var vals []string
			for _, e := range p.Enum {
				vals = append(vals, fmt.Sprint(e))
			}
			r.kind += ": " + strings.Join(vals, ", ")
		}
		if len(p.Default) > 0 {
			r.meaning += " (default " + string(p.Default) + ")"
		}
		for _, q := range s.Required {
			r.required = r.required || q == r.name
		}
		out = append(out, r)
	}
	return out
}
