// Command semver_compare orders semantic versions (semver.org 2.0.0) and says whether they
// meet a condition.
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Versions []string `json:"versions" jsonschema:"versions such as 1.2.3, v1.0.0-rc.1+build"`
	Range    string   `json:"range,omitempty" jsonschema:"conditions that all hold, such as >=1.2.0 <2.0.0, ^1.2.3, ~1.2.3, =1.0.0, !=1.1.0"`
}

type version struct {
	text  string
	parts [3]string // without leading zeros
	pre   []string
}

func Run(_ context.Context, in Args) (string, error) {
	if len(in.Versions) == 0 {
		return "", errors.New("versions: give at least one")
	}
	conds, err := conditions(in.Range)
	if err != nil {
		return "", err
	}
	var vs []version
	for _, s := range in.Versions {
		v, err := parse(s)
		if err != nil {
			return "", err
		}
		vs = append(vs, v)
	}
	sort.SliceStable(vs, func(i, j int) bool { return compare(vs[i], vs[j]) < 0 })
	var b strings.Builder
	for i, v := range vs {
		if i > 0 {
			if compare(vs[i-1], v) == 0 {
				b.WriteString(" = ")
			} else {
				b.WriteString(" < ")
			}
		}
		b.WriteString(v.text)
	}
	if in.Range == "" {
		return b.String(), nil
	}
	b.WriteString("\n")
	for _, v := range vs {
		why := "yes"
		for _, c := range conds {
			if !c.holds(v) {
				why = "no, not " + c.text
				break
			}
		}
		fmt.Fprintf(&b, "%s: %s\n", v.text, why)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func parse(s string) (version, error) {
	v := version{text: strings.TrimSpace(s)}
	bad := func(why string) (version, error) { return v, fmt.Errorf("%q is not a semantic version: %s", s, why) }
	core, build, hasBuild := strings.Cut(strings.TrimPrefix(v.text, "v"), "+")
	core, pre, hasPre := strings.Cut(core, "-")
	nums := strings.Split(core, ".")
	if len(nums) != 3 {
		return bad("three numbers with dots are needed")
	}
	for i, n := range nums {
		if !number(n) {
			return bad(fmt.Sprintf("%q is not a number without leading zeros", n))
		}
		v.parts[i] = n
	}
	if hasPre {
		v.pre = strings.Split(pre, ".")
		for _, id := range v.pre {
			if !identifier(id) || strings.Trim(id, "0123456789") == "" && !number(id) {
				return bad(fmt.Sprintf("the pre-release part %q", id))
			}
		}
	}
	if hasBuild {
		for id := range strings.SplitSeq(build, ".") {
			if !identifier(id) {
				return bad(fmt.Sprintf("the build part %q", id))
			}
		}
	}
	return v, nil
}

func number(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

func identifier(s string) bool {
	for _, r := range s {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-') {
			return false
		}
	}
	return s != ""
}

// digits compares numbers of any length without leading zeros.
func digits(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func compare(a, b version) int {
	for i := range a.parts {
		if c := digits(a.parts[i], b.parts[i]); c != 0 {
			return c
		}
	}
	switch {
	case a.pre == nil && b.pre == nil:
		return 0
	case a.pre == nil:
		return 1
	case b.pre == nil:
		return -1
	}
	for i := range min(len(a.pre), len(b.pre)) {
		x, y := a.pre[i], b.pre[i]
		c := 0
		switch nx, ny := number(x), number(y); {
		case nx && ny:
			c = digits(x, y)
		case nx:
			c = -1
		case ny:
			c = 1
		default:
			c = strings.Compare(x, y)
		}
		if c != 0 {
			return c
		}
	}
	return len(a.pre) - len(b.pre)
}

type condition struct {
	text, op string
	v        version
}

func conditions(s string) ([]condition, error) {
	var out []condition
	for _, f := range strings.Fields(strings.ReplaceAll(s, ",", " ")) {
		c := condition{text: f, op: "="}
		for _, op := range []string{">=", "<=", "!=", ">", "<", "=", "^", "~"} {
			if strings.HasPrefix(f, op) {
				c.op, f = op, f[len(op):]
				break
			}
		}
		var err error
		if c.v, err = parse(f); err != nil {
			return nil, fmt.Errorf("range: %w (write operators without a space; ||, x and - ranges are not supported)", err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (c condition) holds(v version) bool {
	n := compare(v, c.v)
	same := func(k int) bool { // the first k numbers
		for i := range k {
			if v.parts[i] != c.v.parts[i] {
				return false
			}
		}
		return true
	}
	switch c.op {
	case ">=":
		return n >= 0
	case "<=":
		return n <= 0
	case "!=":
		return n != 0
	case ">":
		return n > 0
	case "<":
		return n < 0
	case "~":
		return n >= 0 && same(2)
	case "^": // up to the first number that is not 0
		k := 1
		for k < 3 && c.v.parts[k-1] == "0" {
			k++
		}
		return n >= 0 && same(k)
	}
	return n == 0
}

func main() {
	sdk.Serve("semver_compare", "Orders semantic versions and checks them against a range", Run, sdk.ReadOnly())
}
