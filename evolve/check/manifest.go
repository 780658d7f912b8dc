package check

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
)

var permissionKeys = []string{"read", "write", "net", "exec", "env"}

var (
	programName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	yamlLine    = regexp.MustCompile(`line (\d+): `)
)

// Manifest reads a tool.yaml. An empty one wants core.DefaultPermissions; so does each
// key that it leaves out. JSON is YAML too.
func Manifest(b []byte) (core.Permissions, []evolve.Diagnostic) {
	p := core.Permissions{Read: core.DefaultPermissions().Read, Write: []string{}, Net: []string{}, Exec: []string{}, Env: []string{}}
	var diags []evolve.Diagnostic
	bad := func(n *yaml.Node, format string, a ...any) {
		diags = append(diags, evolve.Diagnostic{File: ManifestFile, Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, a...)})
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		d := evolve.Diagnostic{File: ManifestFile, Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			d.Line, _ = strconv.Atoi(m[1])
			d.Message = "not YAML: " + strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), m[0])
		}
		return p, []evolve.Diagnostic{d}
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return p, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		bad(root, "expected permissions: {read: […], write: […], net: […], exec: […], env: […]}")
		return p, diags
	}
	var perms *yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		switch {
		case k.Value != "permissions":
			bad(k, "unknown key %q%s", k.Value, nearest(k.Value, []string{"permissions"}))
		case perms != nil:
			bad(k, "permissions is given twice")
		default:
			perms = v
		}
	}
	if perms == nil || perms.Tag == "!!null" {
		return p, diags
	}
	if perms.Kind != yaml.MappingNode {
		bad(perms, "permissions is not a mapping of %s to lists", strings.Join(permissionKeys, ", "))
		return p, diags
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(perms.Content); i += 2 {
		k, v := perms.Content[i], perms.Content[i+1]
		if !slices.Contains(permissionKeys, k.Value) {
			bad(k, "unknown permission %q%s", k.Value, nearest(k.Value, permissionKeys))
			continue
		}
		if seen[k.Value] {
			bad(k, "permission %s is given twice", k.Value)
			continue
		}
		seen[k.Value] = true
		list := []string{}
		switch {
		case v.Tag == "!!null":
		case v.Kind == yaml.SequenceNode:
			for _, e := range v.Content {
				s, why := permission(k.Value, e)
				if why != "" {
					bad(e, "%s: %s", k.Value, why)
					continue
				}
				if !slices.Contains(list, s) {
					list = append(list, s)
				}
			}
		default:
			bad(v, "%s is not a list; write %s: [%s]", k.Value, k.Value, v.Value)
		}
		switch k.Value {
		case "read":
			p.Read = list
		case "write":
			p.Write = list
		case "net":
			p.Net = list
		case "exec":
			p.Exec = list
		case "env":
			p.Env = list
		}
	}
	return p, diags
}

func nearest(s string, of []string) string {
	if n := core.Nearest(s, of); n != "" {
		return fmt.Sprintf("; did you mean %s?", n)
	}
	return "; known: " + strings.Join(of, ", ")
}

// permission judges one entry of a list.
func permission(key string, n *yaml.Node) (s, why string) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", "an entry is not a text"
	}
	s = n.Value
	if s == "" || strings.ContainsAny(s, "\x00\n") {
		return "", "an entry is empty or not a usable text"
	}
	switch key {
	case "read", "write":
		if path.IsAbs(s) || strings.HasPrefix(s, "~") {
			return "", fmt.Sprintf("%q must be relative to the project; . is all of it", s)
		}
		c := path.Clean(s)
		if c == ".." || strings.HasPrefix(c, "../") {
			return "", fmt.Sprintf("%q leaves the project", s)
		}
		return c, ""
	case "net":
		host, port, ok := cutPort(s)
		if n, err := strconv.Atoi(port); !ok || err != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, "/ @") {
			return "", fmt.Sprintf("%q is not host:port", s)
		}
	case "exec":
		if !programName.MatchString(s) {
			return "", fmt.Sprintf("%q is not the name of a program (no path, no arguments)", s)
		}
	case "env":
		if !envName.MatchString(s) {
			return "", fmt.Sprintf("%q is not the name of an environment variable", s)
		}
	}
	return s, ""
}

func cutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	host = s[:i]
	if strings.Contains(host, ":") && !(strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]")) {
		return "", "", false
	}
	return host, s[i+1:], true
}

// Beyond lists what want has more than have, as "net example.org:443"; nil when have
// covers it all.
func Beyond(want, have core.Permissions) []string {
	var out []string
	paths := func(what string, w, h []string) {
		for _, p := range w {
			covered := slices.ContainsFunc(h, func(q string) bool { return q == "." || p == q || strings.HasPrefix(p, q+"/") })
			if !covered {
				out = append(out, what+" "+p)
			}
		}
	}
	names := func(what string, w, h []string) {
		for _, p := range w {
			if !slices.Contains(h, p) {
				out = append(out, what+" "+p)
			}
		}
	}
	paths("read", want.Read, have.Read)
	paths("write", want.Write, have.Write)
	names("net", want.Net, have.Net)
	names("exec", want.Exec, have.Exec)
	names("env", want.Env, have.Env)
	return out
}
