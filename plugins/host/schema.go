package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lingjiyidong/lj/core"
)

const (
	maxSchema      = 256 << 10 // bytes
	maxDescription = 16 << 10  // bytes
	maxTools       = 1000      // per process
)

// described is a tool as its process (or Command.Specs) describes it, with its schema
// made ready for checking at first need.
type described struct {
	spec core.ToolSpec

	once     sync.Once
	resolved *jsonschema.Resolved
	props    []string // nil when other names are allowed
	closed   bool
	required []string
	broken   string // why it cannot be used
}

func newDescribed(s core.ToolSpec) *described { return &described{spec: s} }

// problem is why the tool cannot be used, "" for a sound one.
func (d *described) problem() string {
	d.once.Do(d.prepare)
	return d.broken
}

func (d *described) prepare() {
	defer func() {
		// The library asserts in places; a schema is foreign text.
		if r := recover(); r != nil {
			d.broken = fmt.Sprintf("its input schema cannot be used: %v", r)
		}
	}()
	if err := core.CheckToolName(d.spec.Name); err != nil {
		d.broken = err.Error()
		return
	}
	if strings.TrimSpace(d.spec.Description) == "" {
		d.broken = "it has no description"
		return
	}
	raw := d.spec.Schema
	if len(raw) > maxSchema {
		d.broken = fmt.Sprintf("its input schema has %d bytes, more than %d", len(raw), maxSchema)
		return
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil || top == nil {
		d.broken = "its input schema is not a JSON object: " + cut(string(raw), 200)
		return
	}
	if string(top["type"]) != `"object"` {
		d.broken = `its input schema does not say "type": "object"`
		return
	}
	var all any
	if err := json.Unmarshal(raw, &all); err != nil {
		d.broken = "its input schema is not valid: " + err.Error()
		return
	}
	if why := unknownType(all, ""); why != "" {
		d.broken = "its input schema is not valid: " + why
		return
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		d.broken = "its input schema is not valid: " + tidy(err)
		return
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		d.broken = "its input schema is not valid: " + tidy(err)
		return
	}
	// A first validation shows what Resolve leaves to later, an unknown $schema for one.
	if err := r.Validate(map[string]any{}); err != nil && strings.Contains(err.Error(), "cannot validate version") {
		d.broken = "its input schema is not valid: " + tidy(err)
		return
	}
	d.resolved, d.required = r, s.Required
	if string(bytes.TrimSpace(top["additionalProperties"])) == "false" && len(s.PatternProperties) == 0 {
		d.closed = true
	}
	d.props = slices.Sorted(maps.Keys(s.Properties))
}

// unknownType finds a "type" that JSON Schema does not know, which the library lets pass.
func unknownType(v any, path string) string {
	s, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	types, ok := s["type"].([]any)
	if !ok && s["type"] != nil {
		types = []any{s["type"]}
	}
	for _, t := range types {
		switch t {
		case "object", "array", "string", "integer", "number", "boolean", "null":
		default:
			return fmt.Sprintf("%s has the unknown type %v", strings.TrimPrefix(path+" ", "/"), t)
		}
	}
	for k, sub := range s {
		at := path + "/" + k
		var inner string
		switch k {
		case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties":
			inner = unknownType(sub, at)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			m, _ := sub.(map[string]any)
			for name, e := range m {
				if inner = unknownType(e, at+"/"+name); inner != "" {
					break
				}
			}
		case "allOf", "anyOf", "oneOf", "prefixItems":
			l, _ := sub.([]any)
			for i, e := range l {
				if inner = unknownType(e, fmt.Sprintf("%s/%d", at, i)); inner != "" {
					break
				}
			}
		}
		if inner != "" {
			return inner
		}
	}
	return ""
}

// check says what is wrong with the arguments, nil when nothing is. The tool is sound.
func (d *described) check(args json.RawMessage) (problems []string) {
	defer func() {
		if r := recover(); r != nil {
			problems = []string{fmt.Sprint(r)}
		}
	}()
	d.once.Do(d.prepare)
	if d.resolved == nil {
		return []string{d.broken}
	}
	var v any
	if err := json.Unmarshal(args, &v); err != nil {
		return []string{"not JSON: " + err.Error()}
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return []string{"not a JSON object"}
	}
	for _, k := range d.required {
		if _, ok := obj[k]; !ok {
			problems = append(problems, fmt.Sprintf("%q is missing", k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		if d.closed && !slices.Contains(d.props, k) {
			p := fmt.Sprintf("%q is unknown", cut(k, 64))
			if n := core.Nearest(k, d.props); n != "" {
				p += fmt.Sprintf("; did you mean %q?", n)
			}
			problems = append(problems, p)
			delete(obj, k)
			continue
		}
		// null for something optional is what many models send for "not given".
		if obj[k] == nil && !slices.Contains(d.required, k) {
			delete(obj, k)
		}
	}
	if len(problems) > 8 {
		return append(problems[:8], "…")
	}
	if err := d.resolved.Validate(obj); err != nil {
		text := tidy(err)
		if len(problems) == 0 || !strings.Contains(text, "required") {
			problems = append(problems, text)
		}
	}
	return problems
}

// tidy takes the library's path prefixes out of an error's text.
func tidy(err error) string {
	text := err.Error()
	// "validating root: validating /properties/n: type: 1 has type …" keeps the last place.
	place := ""
	for strings.HasPrefix(text, "validating ") {
		head, rest, ok := strings.Cut(text, ": ")
		if !ok {
			break
		}
		place = strings.TrimPrefix(head, "validating ")
		text = rest
	}
	if place != "" && place != "root" {
		place = strings.ReplaceAll(strings.TrimPrefix(place, "/properties/"), "/properties/", ".")
		text = place + ": " + text
	}
	return cut(text, 500)
}

// argumentProblems is the result that tells the model what to change.
func (d *described) argumentProblems(problems []string) core.ToolResult {
	var b strings.Builder
	fmt.Fprintf(&b, "The arguments of %s are not valid, so it was not run:\n", d.spec.Name)
	for _, p := range problems {
		b.WriteString("- " + p + "\n")
	}
	b.WriteString("They follow this schema: ")
	b.WriteString(cut(string(d.spec.Schema), 8<<10))
	return core.ErrorResult(b.String())
}
