// Command env_diff compares two .env files by their keys. Values are not shown unless
// asked for: they are often secret.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Old    string `json:"old" jsonschema:"first .env file, relative to the project, such as .env.example"`
	New    string `json:"new" jsonschema:"second .env file"`
	Values bool   `json:"values,omitempty" jsonschema:"show values too; without, only that they differ"`
}

func Run(ctx context.Context, in Args) (string, error) {
	a, err := load(ctx, in.Old)
	if err != nil {
		return "", err
	}
	b, err := load(ctx, in.New)
	if err != nil {
		return "", err
	}
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	sorted := make([]string, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	sort.Strings(sorted)
	var out strings.Builder
	same := 0
	for _, k := range sorted {
		x, inA := a[k]
		y, inB := b[k]
		switch {
		case !inB:
			fmt.Fprintf(&out, "- %s%s\n", k, value(in.Values, x))
		case !inA:
			fmt.Fprintf(&out, "+ %s%s\n", k, value(in.Values, y))
		case x != y && in.Values:
			fmt.Fprintf(&out, "~ %s=%q → %q\n", k, x, y)
		case x != y && y == "":
			fmt.Fprintf(&out, "~ %s (now empty)\n", k)
		case x != y:
			fmt.Fprintf(&out, "~ %s\n", k)
		default:
			same++
		}
	}
	fmt.Fprintf(&out, "%d the same", same)
	return out.String(), nil
}

func value(show bool, v string) string {
	if show {
		return fmt.Sprintf("=%q", v)
	}
	return ""
}

func load(ctx context.Context, path string) (map[string]string, error) {
	b, err := os.ReadFile(sdk.Path(ctx, path))
	if err != nil {
		return nil, err
	}
	m, err := parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// parse knows KEY=value, export, comments, single and double quotes on one line; a # after
// a space ends a bare value. Values over several lines are refused.
func parse(text string) (map[string]string, error) {
	m := map[string]string{}
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		n++
		l := strings.TrimSpace(line)
		if l == "" || l[0] == '#' {
			continue
		}
		k, v, ok := strings.Cut(strings.TrimPrefix(l, "export "), "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if !ok || k == "" || strings.ContainsAny(k, " \t\"'") {
			return nil, fmt.Errorf("line %d is not KEY=value", n)
		}
		if v != "" && (v[0] == '"' || v[0] == '\'') {
			end := 1
			for end < len(v) && v[end] != v[0] {
				if v[0] == '"' && v[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(v) {
				return nil, fmt.Errorf("line %d: the value's quote does not end on its line", n)
			}
			quote := v[0]
			v = v[1:end]
			if quote == '"' {
				v = strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`).Replace(v)
			}
		} else if i := strings.Index(v, " #"); i >= 0 {
			v = strings.TrimSpace(v[:i])
		}
		m[k] = v
	}
	return m, nil
}

func main() {
	sdk.Serve("env_diff", "Compares two .env files by keys, without showing values", Run, sdk.ReadOnly())
}
