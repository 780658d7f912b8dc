// Package version owns what a version number of a tool says: it reads and orders them and
// computes from two input schemas what the change means for a caller.
//
// It refuses to know which versions exist and which one is live.
//
//	l, why := version.Compare(oldSchema, newSchema)   // version.Major, "property path was removed"
//	v := highest.Next(l)
package version

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// Version is a semantic version without pre-release. The zero value is none.
type Version struct{ Major, Minor, Patch int }

// First is the version of a tool that never was.
var First = Version{1, 0, 0}

func (v Version) String() string { return fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Parse reads "v1.2.3" or "1.2.3", nothing else. The error's kind is core.KindUsage.
func Parse(s string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	var n [3]int
	ok := len(parts) == 3
	for i := 0; ok && i < 3; i++ {
		p := parts[i]
		v, err := strconv.ParseUint(p, 10, 31)
		ok = err == nil && (p == "0" || p[0] != '0') && p[0] != '+'
		n[i] = int(v)
	}
	if !ok {
		return Version{}, core.Errorf(core.KindUsage, "version %q is not like v1.2.3", s)
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Compare orders versions: negative when v is lower than w.
func (v Version) Compare(w Version) int {
	return slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{w.Major, w.Minor, w.Patch})
}

// Level is what a change means for a caller.
type Level int

// The levels, weakest first.
const (
	Patch Level = iota // the same calls mean the same
	Minor              // more calls are possible
	Major              // calls that were right are not any more
)

func (l Level) String() string { return [...]string{"patch", "minor", "major"}[l] }

// ParseLevel reads the name of a level; "" is Patch. The error's kind is core.KindUsage.
func ParseLevel(s string) (Level, error) {
	switch s {
	case "", "patch":
		return Patch, nil
	case "minor":
		return Minor, nil
	case "major":
		return Major, nil
	}
	return Patch, core.Errorf(core.KindUsage, "%q is not patch, minor or major", s)
}

// Next is the version above v for a change.
func (v Version) Next(l Level) Version {
	switch l {
	case Major:
		return Version{v.Major + 1, 0, 0}
	case Minor:
		return Version{v.Major, v.Minor + 1, 0}
	}
	return Version{v.Major, v.Minor, v.Patch + 1}
}

// Compare says what the change from one input schema to another means for a caller, with
// the strongest reason; "" for Patch. What it does not understand and finds changed counts
// as incompatible.
func Compare(old, now json.RawMessage) (Level, string) {
	a, errA := decode(old)
	b, errB := decode(now)
	if errA != nil || errB != nil {
		if bytes.Equal(old, now) {
			return Patch, ""
		}
		return Major, "the schema can't be read"
	}
	d := &diff{}
	d.schema("", a, b)
	return d.level, d.why
}

func decode(b json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return true, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

type diff struct {
	level Level
	why   string
}

func (d *diff) found(l Level, at, format string, a ...any) {
	if l > d.level {
		d.level = l
		d.why = fmt.Sprintf(format, a...)
		if at != "" {
			d.why = at + ": " + d.why
		}
	}
}

// told are keywords that constrain nothing.
var told = []string{"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"}

func (d *diff) schema(at string, a, b any) {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	if !okX || !okY {
		// true and false as schemas.
		if reflect.DeepEqual(a, b) {
			return
		}
		if b == true || okY && len(stripped(y)) == 0 {
			if !okX || len(stripped(x)) > 0 {
				d.found(Minor, at, "takes any value now")
			}
			return
		}
		if a == false {
			d.found(Minor, at, "is possible now")
			return
		}
		d.found(Major, at, "takes less now")
		return
	}
	d.types(at, x["type"], y["type"])
	d.enum(at, x, y)
	for _, k := range []string{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"} {
		d.bound(at, k, x[k], y[k], 1)
	}
	for _, k := range []string{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"} {
		d.bound(at, k, x[k], y[k], -1)
	}
	for _, k := range []string{"pattern", "format", "contentEncoding", "contentMediaType", "multipleOf", "const", "uniqueItems"} {
		switch {
		case reflect.DeepEqual(x[k], y[k]):
		case y[k] == nil:
			d.found(Minor, at, "%s is no longer asked for", k)
		default:
			d.found(Major, at, "%s changed", k)
		}
	}
	d.object(at, x, y)
	if x["items"] != nil || y["items"] != nil {
		d.schema(at+"[]", orTrue(x["items"]), orTrue(y["items"]))
	}
	known := append([]string{"type", "enum", "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "maximum", "exclusiveMaximum",
		"maxLength", "maxItems", "maxProperties", "pattern", "format", "contentEncoding", "contentMediaType", "multipleOf", "const", "uniqueItems",
		"properties", "required", "additionalProperties", "items"}, told...)
	for _, m := range []map[string]any{x, y} {
		for k := range m {
			if !slices.Contains(known, k) && !reflect.DeepEqual(x[k], y[k]) {
				d.found(Major, at, "%s changed", k)
			}
		}
	}
}

func stripped(m map[string]any) map[string]any {
	out := maps.Clone(m)
	for _, k := range told {
		delete(out, k)
	}
	return out
}

func orTrue(v any) any {
	if v == nil {
		return true
	}
	return v
}

func (d *diff) types(at string, a, b any) {
	x, y := typeSet(a), typeSet(b)
	switch {
	case y == nil && x == nil:
		return
	case y == nil:
		d.found(Minor, at, "takes any type now")
		return
	case x == nil:
		d.found(Major, at, "takes only %s now", strings.Join(y, ", "))
		return
	}
	has := func(set []string, t string) bool {
		return slices.Contains(set, t) || t == "integer" && slices.Contains(set, "number")
	}
	for _, t := range x {
		if !has(y, t) {
			d.found(Major, at, "type %s became %s", strings.Join(x, ", "), strings.Join(y, ", "))
			return
		}
	}
	for _, t := range y {
		if !has(x, t) {
			d.found(Minor, at, "takes %s too now", t)
		}
	}
}

func typeSet(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		out := []string{}
		for _, e := range v {
			out = append(out, fmt.Sprint(e))
		}
		return out
	}
	return nil
}

func (d *diff) enum(at string, x, y map[string]any) {
	a, okA := x["enum"].([]any)
	b, okB := y["enum"].([]any)
	switch {
	case !okA && !okB:
	case !okB:
		d.found(Minor, at, "takes other values too now")
	case !okA:
		d.found(Major, at, "takes only some values now")
	default:
		in := func(list []any, v any) bool {
			return slices.ContainsFunc(list, func(w any) bool { return reflect.DeepEqual(v, w) })
		}
		for _, v := range a {
			if !in(b, v) {
				d.found(Major, at, "the value %v was removed", v)
			}
		}
		for _, v := range b {
			if !in(a, v) {
				d.found(Minor, at, "the value %v was added", v)
			}
		}
	}
}

// bound compares a limit; sign is 1 for lower limits, -1 for upper ones.
func (d *diff) bound(at, key string, a, b any, sign int) {
	switch {
	case a == nil && b == nil:
	case b == nil:
		d.found(Minor, at, "%s is gone", key)
	case a == nil:
		d.found(Major, at, "%s %v was added", key, b)
	default:
		x, errX := strconv.ParseFloat(fmt.Sprint(a), 64)
		y, errY := strconv.ParseFloat(fmt.Sprint(b), 64)
		switch {
		case errX != nil || errY != nil:
			if !reflect.DeepEqual(a, b) {
				d.found(Major, at, "%s changed", key)
			}
		case (y-x)*float64(sign) > 0:
			d.found(Major, at, "%s was %v, is %v", key, a, b)
		case x != y:
			d.found(Minor, at, "%s was %v, is %v", key, a, b)
		}
	}
}

func (d *diff) object(at string, x, y map[string]any) {
	px, _ := x["properties"].(map[string]any)
	py, _ := y["properties"].(map[string]any)
	rx, ry := stringSet(x["required"]), stringSet(y["required"])
	sub := func(name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	}
	for _, name := range slices.Sorted(maps.Keys(px)) {
		if _, ok := py[name]; !ok {
			d.found(Major, sub(name), "was removed")
			continue
		}
		d.schema(sub(name), px[name], py[name])
	}
	for _, name := range slices.Sorted(maps.Keys(py)) {
		if _, ok := px[name]; ok {
			continue
		}
		if !slices.Contains(ry, name) {
			d.found(Minor, sub(name), "was added")
		}
	}
	for _, name := range ry {
		if !slices.Contains(rx, name) {
			d.found(Major, sub(name), "is required now")
		}
	}
	for _, name := range rx {
		if _, ok := py[name]; ok && !slices.Contains(ry, name) {
			d.found(Minor, sub(name), "is no longer required")
		}
	}
	d.schemaAdditional(at, orTrue(x["additionalProperties"]), orTrue(y["additionalProperties"]))
}

func (d *diff) schemaAdditional(at string, a, b any) {
	switch {
	case reflect.DeepEqual(a, b):
	case b == false:
		d.found(Major, at, "takes no other names now")
	case a == false:
		d.found(Minor, at, "takes other names now")
	default:
		d.schema(at+"{}", a, b)
	}
}

func stringSet(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
