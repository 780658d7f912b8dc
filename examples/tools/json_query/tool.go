// Command json_query picks values out of a JSON document by a path such as
// users[0].name, users[*].email, $.a["odd key"] or ..id for every id at any depth.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path  string `json:"path,omitempty" jsonschema:"JSON file, relative to the project; or give text"`
	Text  string `json:"text,omitempty" jsonschema:"the JSON itself, instead of path"`
	Query string `json:"query" jsonschema:"such as users[0].name, users[*].id, items[-1], a[\"odd key\"], *.size, ..id (any depth); $ or empty for all of it"`
}

// Run gives the value; with a wildcard, one match a line.
func Run(ctx context.Context, in Args) (string, error) {
	if (in.Path == "") == (in.Text == "") {
		return "", errors.New("give either path or text")
	}
	data := []byte(in.Text)
	if in.Path != "" {
		var err error
		if data, err = os.ReadFile(sdk.Path(ctx, in.Path)); err != nil {
			return "", err
		}
	}
	steps, err := parse(in.Query)
	if err != nil {
		return "", err
	}
	doc, err := decode(data)
	if err != nil {
		return "", err
	}
	at := []match{{"$", doc}}
	many := false
	for _, s := range steps {
		many = many || s.all || s.deep
		var next []match
		for _, m := range at {
			found, err := s.apply(m)
			if err != nil && !many {
				return "", err
			}
			next = append(next, found...)
		}
		at = next
	}
	if len(at) == 0 {
		return "no match", nil
	}
	var lines []string
	for _, m := range at {
		b, err := encode(m.value, !many)
		if err != nil {
			return "", err
		}
		lines = append(lines, b)
	}
	return strings.Join(lines, "\n"), nil
}

func decode(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		at := int64(len(data))
		if se, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = min(at, se.Offset)
		}
		return nil, fmt.Errorf("not JSON (near line %d): %w", 1+bytes.Count(data[:at], []byte("\n")), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the first value")
	}
	return v, nil
}

func encode(v any, indent bool) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	err := enc.Encode(v)
	return strings.TrimSuffix(buf.String(), "\n"), err
}

type match struct {
	path  string
	value any
}

type step struct {
	key     string
	index   int
	isIndex bool
	all     bool // *
	deep    bool // at any depth
}

func (s step) apply(m match) ([]match, error) {
	out, err := s.here(m)
	if !s.deep {
		return out, err
	}
	for _, child := range children(m) {
		sub, _ := s.apply(child)
		out = append(out, sub...)
	}
	return out, nil
}

func (s step) here(m match) ([]match, error) {
	if s.all {
		return children(m), nil
	}
	switch v := m.value.(type) {
	case map[string]any:
		if s.isIndex {
			return nil, fmt.Errorf("%s is an object, not an array; its keys: %s", m.path, keys(v))
		}
		if x, ok := v[s.key]; ok {
			return []match{{m.path + "." + s.key, x}}, nil
		}
		return nil, fmt.Errorf("%s has no key %q; its keys: %s", m.path, s.key, keys(v))
	case []any:
		if !s.isIndex {
			return nil, fmt.Errorf("%s is an array of %d; say [0] or [*] before %q", m.path, len(v), s.key)
		}
		i := s.index
		if i < 0 {
			i += len(v)
		}
		if i < 0 || i >= len(v) {
			return nil, fmt.Errorf("%s has %d elements, so no [%d]", m.path, len(v), s.index)
		}
		return []match{{fmt.Sprintf("%s[%d]", m.path, i), v[i]}}, nil
	}
	return nil, fmt.Errorf("%s is neither object nor array", m.path)
}

func children(m match) []match {
	var out []match
	switch v := m.value.(type) {
	case map[string]any:
		for _, k := range sorted(v) {
			out = append(out, match{m.path + "." + k, v[k]})
		}
	case []any:
		for i, x := range v {
			out = append(out, match{fmt.Sprintf("%s[%d]", m.path, i), x})
		}
	}
	return out
}

func sorted(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func keys(m map[string]any) string {
	k := sorted(m)
	if len(k) == 0 {
		return "none"
	}
	if len(k) > 20 {
		k = append(k[:20], "…")
	}
	return strings.Join(k, ", ")
}

func parse(q string) ([]step, error) {
	s := strings.TrimPrefix(strings.TrimSpace(q), "$")
	var out []step
	bad := func(why string) ([]step, error) { return nil, fmt.Errorf("query %q: %s", q, why) }
	for first := true; s != ""; first = false {
		var st step
		switch {
		case strings.HasPrefix(s, ".."):
			st.deep, s = true, s[2:]
		case s[0] == '.':
			s = s[1:]
		case s[0] != '[' && !first:
			return bad("a dot or [ is missing")
		}
		if s == "" {
			return bad("it ends with a dot")
		}
		if s[0] != '[' {
			end := strings.IndexAny(s, ".[")
			if end < 0 {
				end = len(s)
			}
			if end == 0 {
				return bad("an empty key; write [\"\"]")
			}
			st.key, st.all = s[:end], s[:end] == "*"
			out, s = append(out, st), s[end:]
			continue
		}
		s = s[1:]
		if s != "" && (s[0] == '"' || s[0] == '\'') {
			quote := s[0]
			end := 1
			for end < len(s) && s[end] != quote {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(s) || !strings.HasPrefix(s[end+1:], "]") {
				return bad("a quoted key does not end with its quote and ]")
			}
			body := s[1:end]
			if quote == '\'' {
				body = strings.NewReplacer(`\'`, `'`, `"`, `\"`).Replace(body)
			}
			if err := json.Unmarshal([]byte(`"`+body+`"`), &st.key); err != nil {
				return bad("a quoted key is not valid")
			}
			out, s = append(out, st), s[end+2:]
			continue
		}
		inner, rest, ok := strings.Cut(s, "]")
		if !ok {
			return bad("a ] is missing")
		}
		if st.all = inner == "*"; !st.all {
			n, err := strconv.Atoi(inner)
			if err != nil {
				return bad(fmt.Sprintf("[%s] is neither a number, * nor a quoted key; slices and filters are not supported", inner))
			}
			st.index, st.isIndex = n, true
		}
		out, s = append(out, st), rest
	}
	return out, nil
}

func main() {
	sdk.Serve("json_query", "Picks values out of a JSON file or text by a path with dots, [n], [*] and ..", Run, sdk.ReadOnly())
}
