package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

type tomlReader struct {
	s    string
	i    int
	root *object
	// closed holds tables that may not grow any more: inline ones and those made by dotted
	// keys, which no header may open; headed those that had a header.
	closed, dotted, headed map[*object]bool
	arrays                 map[string]bool // paths of [[arrays]]
}

func parseTOML(text string) (any, error) {
	r := &tomlReader{s: text, root: newObject(), closed: map[*object]bool{}, dotted: map[*object]bool{}, headed: map[*object]bool{}, arrays: map[string]bool{}}
	table := r.root
	for {
		r.blank(true)
		if r.i >= len(r.s) {
			return r.root, nil
		}
		var err error
		if r.s[r.i] == '[' {
			table, err = r.header()
		} else {
			err = r.pair(table, 0)
		}
		if err == nil {
			r.blank(false)
			if r.i < len(r.s) && r.s[r.i] != '\n' {
				err = fmt.Errorf("%q follows the value", r.word())
			}
		}
		if err != nil {
			return nil, at(1+strings.Count(r.s[:min(r.i, len(r.s))], "\n"), "%v", err)
		}
	}
}

// word is what stands at the reader's place, for messages.
func (r *tomlReader) word() string {
	w, _, _ := strings.Cut(r.s[min(r.i, len(r.s)):], "\n")
	if len(w) > 20 {
		w = strings.ToValidUTF8(w[:20], "")
	}
	return w
}

// blank skips blanks and comments, and lines where wanted.
func (r *tomlReader) blank(lines bool) {
	for r.i < len(r.s) {
		switch c := r.s[r.i]; {
		case c == ' ' || c == '\t' || lines && c == '\n':
			r.i++
		case c == '#':
			if j := strings.IndexByte(r.s[r.i:], '\n'); j >= 0 {
				r.i += j
			} else {
				r.i = len(r.s)
			}
		default:
			return
		}
	}
}

func (r *tomlReader) at(s string) bool { return strings.HasPrefix(r.s[r.i:], s) }

func (r *tomlReader) key() ([]string, error) {
	var path []string
	for {
		r.blank(false)
		if r.i >= len(r.s) {
			return nil, fmt.Errorf("a key is missing")
		}
		switch c := r.s[r.i]; {
		case c == '"' || c == '\'':
			if r.at(`"""`) || r.at("'''") {
				return nil, fmt.Errorf("a key can't have several lines")
			}
			k, err := r.text()
			if err != nil {
				return nil, err
			}
			path = append(path, k)
		default:
			j := r.i
			for j < len(r.s) && (r.s[j] == '_' || r.s[j] == '-' || r.s[j] >= '0' && r.s[j] <= '9' || r.s[j]|32 >= 'a' && r.s[j]|32 <= 'z') {
				j++
			}
			if j == r.i {
				return nil, fmt.Errorf("%q is not a key", r.word())
			}
			path = append(path, r.s[r.i:j])
			r.i = j
		}
		r.blank(false)
		if !r.at(".") {
			return path, nil
		}
		r.i++
	}
}

func (r *tomlReader) header() (*object, error) {
	list := r.at("[[")
	r.i++
	if list {
		r.i++
	}
	path, err := r.key()
	if err != nil {
		return nil, err
	}
	if end := map[bool]string{true: "]]", false: "]"}[list]; !r.at(end) {
		return nil, fmt.Errorf("the header is not closed by %s", end)
	} else {
		r.i += len(end)
	}
	o := r.root
	for i, k := range path {
		last := i == len(path)-1
		name := strings.Join(path[:i+1], "\x00")
		v, there := o.values[k]
		switch v := v.(type) {
		case *object:
			if r.closed[v] || last && (list || r.headed[v] || r.dotted[v]) {
				return nil, fmt.Errorf("%s is there already", strings.Join(path[:i+1], "."))
			}
			o = v
		case []any:
			if !r.arrays[name] || last && !list {
				return nil, fmt.Errorf("%s is a value already", strings.Join(path[:i+1], "."))
			}
			if last {
				n := newObject()
				o.values[k] = append(v, n)
				return n, nil
			}
			o = v[len(v)-1].(*object)
		default:
			if there {
				return nil, fmt.Errorf("%s is a value already", strings.Join(path[:i+1], "."))
			}
			n := newObject()
			if last && list {
				r.arrays[name] = true
				o.set(k, []any{n})
				return n, nil
			}
			o.set(k, n)
			o = n
		}
	}
	r.headed[o] = true
	return o, nil
}

func (r *tomlReader) pair(o *object, depth int) error {
	path, err := r.key()
	if err != nil {
		return err
	}
	if !r.at("=") {
		return fmt.Errorf("= is missing after %s", strings.Join(path, "."))
	}
	r.i++
	r.blank(false)
	for _, k := range path[:len(path)-1] {
		v, there := o.values[k]
		if !there {
			n := newObject()
			r.dotted[n] = true
			o.set(k, n)
			o = n
			continue
		}
		n, ok := v.(*object)
		if !ok || r.closed[n] || r.headed[n] {
			return fmt.Errorf("%s: %s is there already", strings.Join(path, "."), k)
		}
		o = n
	}
	v, err := r.value(depth + 1)
	if err != nil {
		return err
	}
	if !o.set(path[len(path)-1], v) {
		return fmt.Errorf("the key %s comes twice", strings.Join(path, "."))
	}
	return nil
}

var (
	tomlInt   = regexp.MustCompile(`^[+-]?(0|[1-9](_?[0-9])*)$`)
	tomlBase  = regexp.MustCompile(`^0(x[0-9A-Fa-f](_?[0-9A-Fa-f])*|o[0-7](_?[0-7])*|b[01](_?[01])*)$`)
	tomlFloat = regexp.MustCompile(`^[+-]?(0|[1-9](_?[0-9])*)(\.[0-9](_?[0-9])*)?([eE][+-]?[0-9](_?[0-9])*)?$`)
	tomlTime  = regexp.MustCompile(`^(\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(\.\d+)?)$`)
)

func (r *tomlReader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	if r.i >= len(r.s) || r.s[r.i] == '\n' {
		return nil, fmt.Errorf("a value is missing")
	}
	switch r.s[r.i] {
	case '"', '\'':
		return r.text()
	case '[':
		r.i++
		list := []any{}
		for {
			r.blank(true)
			if r.at("]") {
				r.i++
				return list, nil
			}
			v, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			r.blank(true)
			switch {
			case r.at(","):
				r.i++
			case !r.at("]"):
				return nil, fmt.Errorf("the array is not closed, or a comma is missing")
			}
		}
	case '{':
		r.i++
		o := newObject()
		r.blank(false)
		for first := true; !r.at("}"); first = false {
			if !first {
				if !r.at(",") {
					return nil, fmt.Errorf("the inline table is not closed, or a comma is missing")
				}
				r.i++
			}
			if err := r.pair(o, depth); err != nil {
				return nil, err
			}
			r.blank(false)
		}
		r.i++
		r.seal(o)
		return o, nil
	}
	j := r.i
	for j < len(r.s) && !strings.ContainsRune(",]}#\n\t ", rune(r.s[j])) {
		j++
	}
	if j+9 <= len(r.s) && r.s[j] == ' ' && tomlTime.MatchString(r.s[r.i:j]) && r.s[j+3] == ':' { // a date, a blank and a time
		for j++; j < len(r.s) && !strings.ContainsRune(",]}#\n\t ", rune(r.s[j])); j++ {
		}
	}
	w := r.s[r.i:j]
	plain := strings.ReplaceAll(w, "_", "")
	switch strings.TrimLeft(w, "+-") {
	case "inf":
		r.i = j
		return special(strings.TrimPrefix(w, "+")), nil
	case "nan":
		r.i = j
		return special("nan"), nil
	}
	switch {
	case w == "true" || w == "false":
		r.i = j
		return w == "true", nil
	case tomlInt.MatchString(w), tomlBase.MatchString(w):
		base := 10
		if tomlBase.MatchString(w) {
			base = 0
		}
		if n, ok := whole(plain, base); ok {
			r.i = j
			return n, nil
		}
	case tomlFloat.MatchString(w):
		if n, ok := fraction(plain); ok {
			r.i = j
			return n, nil
		}
	case tomlTime.MatchString(w):
		r.i = j
		return moment(w), nil
	}
	return nil, fmt.Errorf("%q is not a value; text stands in quotes", w)
}

// seal closes an inline table and what is in it.
func (r *tomlReader) seal(o *object) {
	r.closed[o] = true
	for _, v := range o.values {
		if o, ok := v.(*object); ok {
			r.seal(o)
		}
	}
}

// text reads a string of any of the four kinds.
func (r *tomlReader) text() (string, error) {
	q := r.s[r.i]
	mark := string(q)
	multi := r.at(strings.Repeat(mark, 3))
	if multi {
		mark = strings.Repeat(mark, 3)
	}
	r.i += len(mark)
	if multi && r.at("\n") {
		r.i++
	}
	var b strings.Builder
	for r.i < len(r.s) {
		c := r.s[r.i]
		switch {
		case r.at(mark):
			r.i += len(mark)
			for n := 0; multi && n < 2 && r.i < len(r.s) && r.s[r.i] == q; n++ { // up to two quotes may stand before the end
				b.WriteByte(q)
				r.i++
			}
			return b.String(), nil
		case c == '\n' && !multi:
			return "", fmt.Errorf("the text is not closed in its line")
		case c == '\\' && q == '"':
			if err := r.escape(&b, multi); err != nil {
				return "", err
			}
		case c < ' ' && c != '\t' && c != '\n' || c == 0x7f:
			return "", fmt.Errorf("the text holds the control character %#02x", c)
		default:
			b.WriteByte(c)
			r.i++
		}
	}
	return "", fmt.Errorf("the text is not closed by %s", mark)
}

func (r *tomlReader) escape(b *strings.Builder, multi bool) error {
	r.i++
	if r.i >= len(r.s) {
		return fmt.Errorf("the text ends in a backslash")
	}
	c := r.s[r.i]
	r.i++
	if i := strings.IndexByte(`btnfre"\`, c); i >= 0 {
		b.WriteByte("\b\t\n\f\r\x1b\"\\"[i])
		return nil
	}
	if n := map[byte]int{'u': 4, 'U': 8}[c]; n > 0 && r.i+n <= len(r.s) {
		v, err := strconv.ParseUint(r.s[r.i:r.i+n], 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) {
			return fmt.Errorf(`\%c%s is no character`, c, r.s[r.i:r.i+n])
		}
		b.WriteRune(rune(v))
		r.i += n
		return nil
	}
	if multi && (c == ' ' || c == '\t' || c == '\n') { // the line goes on
		j := r.i - 1
		for j < len(r.s) && (r.s[j] == ' ' || r.s[j] == '\t') {
			j++
		}
		if j < len(r.s) && r.s[j] == '\n' {
			for j < len(r.s) && (r.s[j] == ' ' || r.s[j] == '\t' || r.s[j] == '\n') {
				j++
			}
			r.i = j
			return nil
		}
	}
	return fmt.Errorf(`\%c is not an escape`, c)
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(k string) string {
	if bare.MatchString(k) {
		return k
	}
	return quote(k)
}

func writeTOML(v any) (string, error) {
	o, ok := v.(*object)
	if !ok {
		return "", fmt.Errorf("TOML needs a mapping at the top, this is %s", kindOf(v))
	}
	var b strings.Builder
	if err := tomlTable(&b, o, nil); err != nil {
		return "", err
	}
	return strings.Trim(b.String(), "\n"), nil
}

func kindOf(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case nil:
		return "nothing"
	}
	return "a single value"
}

// tables says whether a list is written as [[tables]].
func tables(v any) ([]any, bool) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, false
	}
	for _, e := range list {
		if _, ok := e.(*object); !ok {
			return nil, false
		}
	}
	return list, true
}

// tomlTable writes the values of a table, then the tables below it.
func tomlTable(b *strings.Builder, o *object, path []string) error {
	for _, k := range o.keys {
		v := o.values[k]
		if _, ok := v.(*object); ok {
			continue
		}
		if _, ok := tables(v); ok {
			continue
		}
		text, err := tomlValue(v, append(path, k))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s = %s\n", tomlKey(k), text)
	}
	for _, k := range o.keys {
		sub := append(path[:len(path):len(path)], k)
		var names []string
		for _, s := range sub {
			names = append(names, tomlKey(s))
		}
		name := strings.Join(names, ".")
		switch v := o.values[k].(type) {
		case *object:
			if plainValues(v) || len(v.keys) == 0 {
				fmt.Fprintf(b, "\n[%s]\n", name)
			}
			if err := tomlTable(b, v, sub); err != nil {
				return err
			}
		case []any:
			list, ok := tables(v)
			if !ok {
				continue
			}
			for _, e := range list {
				fmt.Fprintf(b, "\n[[%s]]\n", name)
				if err := tomlTable(b, e.(*object), sub); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// plainValues says whether a table has values of its own, so that it needs a header.
func plainValues(o *object) bool {
	for _, v := range o.values {
		_, isTable := v.(*object)
		_, isTables := tables(v)
		if !isTable && !isTables {
			return true
		}
	}
	return false
}

func tomlValue(v any, path []string) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", fmt.Errorf("%s is null, which TOML can't hold", strings.Join(path, "."))
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		return quote(v), nil
	case moment:
		return string(v), nil
	case special:
		return string(v), nil
	case number:
		if !strings.ContainsAny(string(v), ".eE") {
			if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
				return "", fmt.Errorf("%s is %s, beyond what TOML's integers hold", strings.Join(path, "."), v)
			}
		}
		return string(v), nil
	case []any:
		var parts []string
		for i, e := range v {
			s, err := tomlValue(e, append(path[:len(path)-1:len(path)-1], fmt.Sprintf("%s[%d]", path[len(path)-1], i)))
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case *object:
		var parts []string
		for _, k := range v.keys {
			s, err := tomlValue(v.values[k], append(path, k))
			if err != nil {
				return "", err
			}
			parts = append(parts, tomlKey(k)+" = "+s)
		}
		if len(parts) == 0 {
			return "{}", nil
		}
		return "{ " + strings.Join(parts, ", ") + " }", nil
	}
	return "", fmt.Errorf("%s can't be written", strings.Join(path, "."))
}
