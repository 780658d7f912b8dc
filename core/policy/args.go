package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// args are the top-level members of a call's arguments, in order and with repeats: a tool
// may take the first or the last of two equal names, so both are judged. Names are
// compared as encoding/json does, without regard to case.
type args []arg

type arg struct {
	name string
	raw  json.RawMessage
}

// parseArgs reads one JSON object.
func parseArgs(s string) (args, bool) {
	if strings.TrimSpace(s) == "" {
		return nil, true
	}
	dec := json.NewDecoder(strings.NewReader(s))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var out args
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, false
		}
		name, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, false
		}
		out = append(out, arg{name, raw})
	}
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, false
	}
	return out, true
}

// strings gives every value of a name that is a text; ok is false when one is not.
func (a args) strings(name string) (list []string, ok bool) {
	ok = true
	for _, m := range a {
		if !strings.EqualFold(m.name, name) || bytes.Equal(m.raw, []byte("null")) {
			continue
		}
		var s string
		if json.Unmarshal(m.raw, &s) != nil {
			ok = false
			continue
		}
		list = append(list, s)
	}
	return list, ok
}

// first is the single text value of a name, "" when there is none or more than one.
func (a args) first(name string) string {
	if l, ok := a.strings(name); ok && len(l) == 1 {
		return l[0]
	}
	return ""
}

// deepStrings calls f with every text in a value.
func deepStrings(raw json.RawMessage, f func(string)) {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			f(v)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(v)
}

// mainArg is the name of the argument that a pattern is compared with: the known one of
// lj's own tools, else the first text among the required arguments of the schema.
func mainArg(tool string, schema json.RawMessage) string {
	switch {
	case pathTools.has(tool):
		return "path"
	case tool == "web_fetch":
		return "url"
	case tool == "web_search" || tool == "search_memory" || tool == "search_history" || tool == "find_tools":
		return "query"
	case tool == "bash":
		return "command"
	case strings.HasPrefix(tool, "toolkit_"):
		return "name"
	}
	var s struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return ""
	}
	for _, n := range s.Required {
		if s.Properties[n].Type == "string" {
			return n
		}
	}
	return ""
}
