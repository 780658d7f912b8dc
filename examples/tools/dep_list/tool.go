// Command dep_list lists what a project depends on by its go.mod, package.json or
// requirements.txt.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path string `json:"path,omitempty" jsonschema:"go.mod, package.json, requirements*.txt, or the folder that holds them, relative to the project" default:"."`
}

type dep struct{ name, version, kind string }

func Run(ctx context.Context, in Args) (string, error) {
	if in.Path == "" {
		in.Path = "."
	}
	p := sdk.Path(ctx, in.Path)
	st, err := os.Stat(p)
	if err != nil {
		return "", err
	}
	files := []string{p}
	if st.IsDir() {
		files = nil
		for _, pat := range []string{"go.mod", "package.json", "requirements*.txt"} {
			m, _ := filepath.Glob(filepath.Join(escape(p), pat))
			files = append(files, m...)
		}
		if len(files) == 0 {
			return "", fmt.Errorf("%s has no go.mod, package.json or requirements.txt", in.Path)
		}
	}
	var b strings.Builder
	for _, f := range files {
		deps, err := list(f)
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
		fmt.Fprintf(&b, "%s: %d\n", filepath.Base(f), len(deps))
		for _, d := range deps {
			fmt.Fprintf(&b, "  %s %s", d.name, d.version)
			if d.kind != "" {
				fmt.Fprintf(&b, " (%s)", d.kind)
			}
			b.WriteString("\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func escape(p string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`).Replace(p)
}

func list(file string) ([]dep, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text := strings.TrimPrefix(string(b), "\ufeff")
	switch name := filepath.Base(file); {
	case name == "go.mod":
		return goMod(text)
	case name == "package.json":
		return packageJSON(text)
	case strings.HasSuffix(name, ".txt"):
		return requirements(text)
	}
	return nil, errors.New("not a go.mod, package.json or requirements.txt")
}

func goMod(text string) ([]dep, error) {
	var out []dep
	block := ""
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		code, comment, _ := strings.Cut(line, "//")
		f := strings.Fields(code)
		if len(f) == 0 {
			continue
		}
		if f[0] == ")" {
			block = ""
			continue
		}
		if len(f) == 2 && f[1] == "(" {
			block = f[0]
			continue
		}
		verb := block
		if verb == "" {
			verb, f = f[0], f[1:]
		}
		switch verb {
		case "require":
			if len(f) != 2 {
				return nil, fmt.Errorf("line %d: a path and a version are expected after require", n)
			}
			d := dep{name: strings.Trim(f[0], `"`), version: f[1]}
			if strings.HasPrefix(strings.TrimSpace(comment), "indirect") {
				d.kind = "indirect"
			}
			out = append(out, d)
		case "replace":
			from, to, ok := strings.Cut(strings.Join(f, " "), " => ")
			if !ok {
				return nil, fmt.Errorf("line %d: replace without =>", n)
			}
			name, _, _ := strings.Cut(from, " ")
			for i := range out {
				if out[i].name == name {
					out[i].kind = strings.TrimPrefix(out[i].kind+", replaced by "+to, ", ")
				}
			}
		}
	}
	return out, nil
}

func packageJSON(text string) ([]dep, error) {
	var m struct {
		Dependencies         map[string]string `json:"dependencies"`
		DevDependencies      map[string]string `json:"devDependencies"`
		PeerDependencies     map[string]string `json:"peerDependencies"`
		OptionalDependencies map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("not valid: %w", err)
	}
	var out []dep
	for _, k := range []struct {
		kind string
		m    map[string]string
	}{{"", m.Dependencies}, {"dev", m.DevDependencies}, {"peer", m.PeerDependencies}, {"optional", m.OptionalDependencies}} {
		start := len(out)
		for name, v := range k.m {
			out = append(out, dep{name, v, k.kind})
		}
		part := out[start:]
		sort.Slice(part, func(i, j int) bool { return part[i].name < part[j].name })
	}
	return out, nil
}

var requirement = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(@\s*\S+|[=<>!~][^;]*)?\s*(;.*)?$`)

func requirements(text string) ([]dep, error) {
	var out []dep
	n := 0
	carry := ""
	for line := range strings.SplitSeq(text, "\n") {
		n++
		line = carry + strings.TrimRight(line, "\r")
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			carry = rest
			continue
		}
		carry = ""
		if i := strings.Index(line, " #"); i >= 0 {
			line = line[:i]
		}
		l := strings.TrimSpace(line)
		switch {
		case l == "" || l[0] == '#':
			continue
		case strings.HasPrefix(l, "-r") || strings.HasPrefix(l, "-c"):
			out = append(out, dep{strings.TrimSpace(strings.TrimLeft(l[2:], " =")), "", "another file, not followed"})
			continue
		case strings.HasPrefix(l, "-e ") || strings.HasPrefix(l, "--editable"):
			_, what, _ := strings.Cut(l, " ")
			out = append(out, dep{what, "", "editable"})
			continue
		case l[0] == '-':
			continue
		case strings.Contains(l, "://") && !strings.Contains(l, "@ ") || l[0] == '.' || l[0] == '/':
			out = append(out, dep{l, "", "from a URL or path"})
			continue
		}
		l, _, _ = strings.Cut(l, " --hash")
		m := requirement.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			return nil, fmt.Errorf("line %d: %q is not a requirement", n, l)
		}
		v := strings.ReplaceAll(m[3], " ", "")
		if v == "" {
			v = "any"
		}
		out = append(out, dep{m[1] + m[2], v, strings.TrimSpace(strings.TrimPrefix(m[4], ";"))})
	}
	return out, nil
}

func main() {
	sdk.Serve("dep_list", "Dependencies of a project by go.mod, package.json or requirements.txt", Run, sdk.ReadOnly())
}
