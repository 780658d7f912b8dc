// Command ini_query reads INI files: sections, keys, one value.
//
// It knows [section], key = value, key: value, lines that begin with ; or #, and values in
// double quotes. A value goes on to the end of its line, also over ; and #. There are no
// continued lines and no references to other values.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path    string  `json:"path,omitempty" jsonschema:"INI file, relative to the project; or give text"`
	Text    string  `json:"text,omitempty" jsonschema:"the INI itself, instead of path"`
	Section *string `json:"section,omitempty" jsonschema:"a section; empty for keys before the first one; default: all"`
	Key     string  `json:"key,omitempty" jsonschema:"a key: only its value is given"`
}

type section struct {
	name   string
	keys   []string
	values map[string]string
}

func Run(ctx context.Context, in Args) (string, error) {
	if (in.Path == "") == (in.Text == "") {
		return "", errors.New("give either path or text")
	}
	if in.Path != "" {
		b, err := os.ReadFile(sdk.Path(ctx, in.Path))
		if err != nil {
			return "", err
		}
		in.Text = string(b)
	}
	all, err := parse(in.Text)
	if err != nil {
		return "", err
	}
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	if in.Section != nil {
		i := slices.Index(names, *in.Section)
		if i < 0 {
			return "", fmt.Errorf("no section %q; there are: %s", *in.Section, strings.Join(names[1:], ", "))
		}
		all = all[i : i+1]
	}
	if in.Key != "" {
		var found []string
		for _, s := range all {
			if v, ok := s.values[in.Key]; ok {
				if in.Section == nil && s.name != "" {
					v = fmt.Sprintf("[%s] %s", s.name, v)
				}
				found = append(found, v)
			}
		}
		if found == nil {
			return "", fmt.Errorf("no key %q there", in.Key)
		}
		return strings.Join(found, "\n"), nil
	}
	var b strings.Builder
	for _, s := range all {
		if s.name != "" {
			fmt.Fprintf(&b, "[%s]\n", s.name)
		}
		for _, k := range s.keys {
			fmt.Fprintf(&b, "%s = %s\n", k, s.values[k])
		}
	}
	if b.Len() == 0 {
		return "no keys", nil
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// parse gives the keys before the first section as the section "". A section that comes
// twice is one; of a key that comes twice the last value holds.
func parse(text string) ([]*section, error) {
	at := &section{values: map[string]string{}}
	all := []*section{at}
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		n++
		l := strings.TrimSpace(line)
		if l == "" || l[0] == ';' || l[0] == '#' {
			continue
		}
		if l[0] == '[' {
			name, rest, ok := strings.Cut(l[1:], "]")
			name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
			if !ok || name == "" || rest != "" && rest[0] != ';' && rest[0] != '#' {
				return nil, fmt.Errorf("line %d: %q is not [section]", n, l)
			}
			i := slices.IndexFunc(all, func(s *section) bool { return s.name == name })
			if i < 0 {
				i = len(all)
				all = append(all, &section{name: name, values: map[string]string{}})
			}
			at = all[i]
			continue
		}
		i := strings.IndexAny(l, "=:")
		if i <= 0 {
			return nil, fmt.Errorf("line %d: %q is neither [section] nor key = value", n, l)
		}
		k, v := strings.TrimSpace(l[:i]), strings.TrimSpace(l[i+1:])
		if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
			v = v[1 : len(v)-1]
		}
		if _, again := at.values[k]; !again {
			at.keys = append(at.keys, k)
		}
		at.values[k] = v
	}
	return all, nil
}

func main() {
	sdk.Serve("ini_query", "Reads an INI file: its sections, keys, or one value", Run, sdk.ReadOnly())
}
