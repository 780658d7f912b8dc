package sdk

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// node is one JSON Schema, as much of it as follows from Go types and tags.
type node struct {
	kind        string // "object", "array", "string", "integer", "number", "boolean"; "" for any value
	description string
	format      string
	encoding    string // contentEncoding
	enum        []any  // string or json.Number
	def         json.RawMessage
	min, max    json.Number

	props  []property // of an object with fixed names
	closed bool       // no other names
	values *node      // of a map: what every name holds
	items  *node      // of an array
}

type property struct {
	name     string
	required bool
	node     *node
}

func (n *node) prop(name string) *property {
	for i := range n.props {
		if n.props[i].name == name {
			return &n.props[i]
		}
	}
	return nil
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	numberType   = reflect.TypeFor[json.Number]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType     = reflect.TypeFor[json.Unmarshaler]()
)

// schemaOf is the schema of an argument struct.
func schemaOf(t reflect.Type) (*node, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	return typeNode(t, nil)
}

func typeNode(t reflect.Type, seen []reflect.Type) (*node, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case timeType:
		return &node{kind: "string", format: "date-time"}, nil
	case durationType:
		return nil, errors.New("time.Duration has no JSON form that a model gets right; use a number of seconds")
	case rawType:
		return &node{}, nil
	case numberType:
		return &node{kind: "number"}, nil
	}
	if p := reflect.PointerTo(t); t.Kind() != reflect.Interface {
		if p.Implements(jsonType) {
			return &node{}, nil
		}
		if p.Implements(textType) {
			return &node{kind: "string"}, nil
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &node{kind: "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &node{kind: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &node{kind: "integer", min: "0"}, nil
	case reflect.Float32, reflect.Float64:
		return &node{kind: "number"}, nil
	case reflect.String:
		return &node{kind: "string"}, nil
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return &node{}, nil
		}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return &node{kind: "string", encoding: "base64"}, nil
		}
		items, err := typeNode(t.Elem(), seen)
		if err != nil {
			return nil, err
		}
		return &node{kind: "array", items: items}, nil
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s: the keys of a map must be strings", t)
		}
		values, err := typeNode(t.Elem(), seen)
		if err != nil {
			return nil, err
		}
		return &node{kind: "object", values: values}, nil
	case reflect.Struct:
		for _, s := range seen {
			if s == t {
				return nil, fmt.Errorf("%s contains itself; use json.RawMessage or any for the inner one", t)
			}
		}
		n := &node{kind: "object", closed: true}
		if err := addFields(n, t, append(seen, t)); err != nil {
			return nil, err
		}
		return n, nil
	}
	return nil, fmt.Errorf("%s has no JSON form", t)
}

func addFields(n *node, t reflect.Type, seen []reflect.Type) error {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" && rest == "" {
			continue
		}
		if f.Anonymous && name == "" {
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && ft != timeType {
				for _, s := range seen {
					if s == ft {
						return fmt.Errorf("%s embeds itself", ft)
					}
				}
				embedded = append(embedded, ft)
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		opts := "," + rest + ","
		if strings.Contains(opts, ",string,") {
			return fmt.Errorf("field %s: the json option \"string\" is not supported", f.Name)
		}
		p, err := typeNode(f.Type, seen)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		if err := applyTags(p, f.Tag); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		if n.prop(name) != nil {
			return fmt.Errorf("field %s: the name %q is taken", f.Name, name)
		}
		optional := f.Type.Kind() == reflect.Pointer || p.def != nil ||
			strings.Contains(opts, ",omitempty,") || strings.Contains(opts, ",omitzero,")
		n.props = append(n.props, property{name, !optional, p})
	}
	// Fields of embedded structs come after; an outer field of the same name hides theirs,
	// as in encoding/json.
	for _, e := range embedded {
		inner := &node{}
		if err := addFields(inner, e, append(seen, e)); err != nil {
			return err
		}
		for _, p := range inner.props {
			if n.prop(p.name) == nil {
				n.props = append(n.props, p)
			}
		}
	}
	return nil
}

func applyTags(n *node, tag reflect.StructTag) error {
	n.description = tag.Get("jsonschema")
	leaf := n
	if n.kind == "array" {
		leaf = n.items
	}
	if s, ok := tag.Lookup("enum"); ok {
		for _, e := range strings.Split(s, ",") {
			v, err := literal(leaf.kind, strings.TrimSpace(e))
			if err != nil {
				return fmt.Errorf("enum: %w", err)
			}
			leaf.enum = append(leaf.enum, v)
		}
	}
	for name, dst := range map[string]*json.Number{"minimum": &leaf.min, "maximum": &leaf.max} {
		s, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		if leaf.kind != "integer" && leaf.kind != "number" {
			return fmt.Errorf("%s: not a number field", name)
		}
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return fmt.Errorf("%s: %q is not a number", name, s)
		}
		*dst = json.Number(s)
	}
	if s, ok := tag.Lookup("default"); ok {
		var b []byte
		if n.kind == "string" {
			b, _ = json.Marshal(s)
		} else {
			b = []byte(s)
		}
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("default: %q is not JSON", s)
		}
		c := checker{}
		c.check(v, n, "default")
		if len(c.problems) > 0 {
			return errors.New(c.problems[0])
		}
		n.def = b
	}
	return nil
}

func literal(kind, s string) (any, error) {
	switch kind {
	case "string":
		return s, nil
	case "integer", "number":
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return nil, fmt.Errorf("%q is not a number", s)
		}
		return json.Number(s), nil
	}
	return nil, errors.New("only for strings, numbers and lists of them")
}

// json is the schema's text: keys in a fixed order, properties in that of the struct.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	b.WriteByte('{')
	first := true
	key := func(k string) {
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString(`"` + k + `":`)
	}
	text := func(k, s string) {
		if s != "" {
			key(k)
			b.Write(quote(s))
		}
	}
	text("type", n.kind)
	text("description", n.description)
	text("format", n.format)
	text("contentEncoding", n.encoding)
	if n.enum != nil {
		key("enum")
		e, err := encodeJSON(n.enum)
		if err != nil {
			e = []byte("[]")
		}
		b.Write(e)
	}
	if n.min != "" {
		key("minimum")
		b.WriteString(string(n.min))
	}
	if n.max != "" {
		key("maximum")
		b.WriteString(string(n.max))
	}
	if n.def != nil {
		key("default")
		b.Write(n.def)
	}
	if n.items != nil {
		key("items")
		n.items.write(b)
	}
	if n.closed {
		key("properties")
		b.WriteByte('{')
		for i, p := range n.props {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quote(p.name))
			b.WriteByte(':')
			p.node.write(b)
		}
		b.WriteByte('}')
		var req []string
		for _, p := range n.props {
			if p.required {
				req = append(req, string(quote(p.name)))
			}
		}
		if req != nil {
			key("required")
			b.WriteString("[" + strings.Join(req, ",") + "]")
		}
		key("additionalProperties")
		b.WriteString("false")
	}
	if n.values != nil {
		key("additionalProperties")
		n.values.write(b)
	}
	b.WriteByte('}')
}

func quote(s string) []byte {
	b, err := encodeJSON(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return []byte(`""`)
	}
	return b
}

// checker compares a decoded JSON value (numbers as json.Number) with a schema and brings
// it into the form that encoding/json takes: null for something optional is as good as
// nothing, 3.0 is the whole number 3, missing values get their default.
type checker struct {
	problems []string
	changed  bool
}

const maxProblems = 8

func (c *checker) bad(path, format string, a ...any) {
	if len(c.problems) < maxProblems {
		if path == "" {
			path = "the whole"
		}
		c.problems = append(c.problems, path+": "+fmt.Sprintf(format, a...))
	}
}

func (c *checker) check(v any, n *node, path string) any {
	if n.kind == "" {
		return v
	}
	got := kindOf(v)
	if got != n.kind && !(n.kind == "number" && got == "integer") {
		if n.kind == "integer" && got == "number" {
			c.bad(path, "want a whole number, got %s", v)
		} else {
			c.bad(path, "want %s, got %s", n.kind, describe(v, got))
		}
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		return c.checkObject(v, n, path)
	case []any:
		for i := range v {
			v[i] = c.check(v[i], n.items, fmt.Sprintf("%s[%d]", path, i))
		}
		return v
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			c.bad(path, "%s is out of range", v)
			return v
		}
		if m, err := n.min.Float64(); err == nil && f < m {
			c.bad(path, "%s is less than %s", v, n.min)
		}
		if m, err := n.max.Float64(); err == nil && f > m {
			c.bad(path, "%s is more than %s", v, n.max)
		}
		c.checkEnum(v, n, path)
		if n.kind == "integer" && strings.ContainsAny(string(v), ".eE") {
			c.changed = true
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	case string:
		c.checkEnum(v, n, path)
	}
	return v
}

func (c *checker) checkObject(v map[string]any, n *node, path string) any {
	join := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	if n.values != nil {
		for k, e := range v {
			v[k] = c.check(e, n.values, join(k))
		}
		return v
	}
	for i := range n.props {
		p := &n.props[i]
		e, ok := v[p.name]
		if ok && e == nil && !p.required && p.node.kind != "" {
			delete(v, p.name)
			c.changed, ok = true, false
		}
		switch {
		case ok:
			v[p.name] = c.check(e, p.node, join(p.name))
		case p.required:
			want := p.node.kind
			if want == "" {
				want = "any value"
			}
			if p.node.description != "" {
				want += ", " + p.node.description
			}
			c.bad(join(p.name), "missing (%s)", want)
		case p.node.def != nil:
			v[p.name] = p.node.def
			c.changed = true
		}
	}
	if len(v) > 0 {
		var names []string
		for _, p := range n.props {
			names = append(names, p.name)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if n.prop(k) == nil {
				if names == nil {
					c.bad(join(k), "unknown; there are no arguments")
				} else {
					c.bad(join(k), "unknown; known are %s", strings.Join(names, ", "))
				}
			}
		}
	}
	return v
}

func (c *checker) checkEnum(v any, n *node, path string) {
	if n.enum == nil {
		return
	}
	var all []string
	for _, e := range n.enum {
		if e == v {
			return
		}
		if a, ok := e.(json.Number); ok {
			b, ok := v.(json.Number)
			x, err1 := a.Float64()
			y, err2 := b.Float64()
			if ok && err1 == nil && err2 == nil && x == y {
				return
			}
		}
		all = append(all, fmt.Sprint(e))
	}
	c.bad(path, "%v is none of %s", v, strings.Join(all, ", "))
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return "integer"
		}
		if _, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return "integer"
		}
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return "integer"
		}
		return "number"
	}
	return "unknown"
}

func describe(v any, kind string) string {
	switch v := v.(type) {
	case string:
		if len(v) > 40 {
			return kind
		}
		return fmt.Sprintf("%s %q", kind, v)
	case json.Number, bool:
		return fmt.Sprintf("%s %v", kind, v)
	}
	return kind
}
