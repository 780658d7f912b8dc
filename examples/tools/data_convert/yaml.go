package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

type yamlReader struct {
	lines []string
	i     int
	first bool // the line at i is the rest of one whose beginning was read
}

func parseYAML(text string) (any, error) {
	r := &yamlReader{lines: strings.Split(text, "\n")}
	r.skip()
	for r.i < len(r.lines) && strings.HasPrefix(r.lines[r.i], "%") {
		return nil, at(r.i+1, "directives are not supported")
	}
	if r.i < len(r.lines) && (r.lines[r.i] == "---" || strings.HasPrefix(r.lines[r.i], "--- ")) {
		r.lines[r.i] = "   " + strings.TrimPrefix(r.lines[r.i], "---")
		r.skip()
	}
	v, err := r.block(0, 0)
	if err != nil {
		return nil, err
	}
	r.skip()
	if r.i < len(r.lines) && strings.TrimRight(r.lines[r.i], " ") == "..." {
		r.i++
		r.skip()
	}
	if r.i < len(r.lines) {
		if strings.HasPrefix(r.lines[r.i], "---") {
			return nil, at(r.i+1, "there is more than one document")
		}
		return nil, at(r.i+1, "%q does not fit its indentation", strings.TrimSpace(r.lines[r.i]))
	}
	return v, nil
}

// skip goes to the next line that holds something.
func (r *yamlReader) skip() {
	for ; r.i < len(r.lines); r.i++ {
		if t := strings.TrimLeft(r.lines[r.i], " \t"); t != "" && t[0] != '#' {
			return
		}
	}
}

// here is the indentation and the text of the line at hand, -1 at the end.
func (r *yamlReader) here() (int, string) {
	r.skip()
	if r.i >= len(r.lines) {
		return -1, ""
	}
	l := r.lines[r.i]
	t := strings.TrimLeft(l, " ")
	if len(t) == len(l) && (l == "..." || l == "---" || strings.HasPrefix(l, "--- ")) {
		return -1, ""
	}
	return len(l) - len(t), strings.TrimRight(t, " \t")
}

func isItem(t string) bool {
	return t == "-" || strings.HasPrefix(t, "- ") || strings.HasPrefix(t, "-\t")
}

// block reads a value that is indented by at least min.
func (r *yamlReader) block(min, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	ind, t := r.here()
	if ind < min {
		return nil, nil
	}
	if isItem(t) {
		return r.sequence(ind, depth)
	}
	if _, _, ok, err := r.key(t); err != nil {
		return nil, err
	} else if ok {
		return r.mapping(ind, depth)
	}
	r.i++
	return r.inline(t, min-1, depth)
}

func (r *yamlReader) sequence(ind, depth int) (any, error) {
	list := []any{}
	for {
		n, t := r.here()
		if n < ind || n == ind && !isItem(t) {
			return list, nil
		}
		if n > ind {
			return nil, at(r.i+1, "%q does not fit its indentation", t)
		}
		rest := strings.TrimLeft(t[1:], " \t")
		if rest == "" || rest[0] == '#' {
			r.i++
			v, err := r.block(ind+1, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			continue
		}
		// The rest is a block of its own that begins where it stands.
		r.lines[r.i] = strings.Repeat(" ", ind+len(t)-len(rest)) + rest
		v, err := r.block(ind+1, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

func (r *yamlReader) mapping(ind, depth int) (any, error) {
	o := newObject()
	for {
		n, t := r.here()
		if n < ind {
			return o, nil
		}
		k, rest, ok, err := r.key(t)
		if err != nil {
			return nil, err
		}
		if n == ind && !ok && isItem(t) {
			return o, nil
		}
		if n > ind || !ok {
			return nil, at(r.i+1, "%q is not a key with a value, or does not fit its indentation", t)
		}
		line := r.i + 1
		if k == "<<" {
			return nil, at(line, "merge keys are not supported")
		}
		r.i++
		var v any
		if rest == "" || rest[0] == '#' {
			if n, t := r.here(); n > ind {
				v, err = r.block(ind+1, depth+1)
			} else if n == ind && isItem(t) {
				v, err = r.sequence(ind, depth+1)
			}
		} else {
			v, err = r.inline(rest, ind, depth+1)
		}
		if err != nil {
			return nil, err
		}
		if !o.set(k, v) {
			return nil, at(line, "the key %q comes twice", k)
		}
	}
}

// key takes "key: rest" apart; ok is false where there is none.
func (r *yamlReader) key(t string) (key, rest string, ok bool, err error) {
	if strings.HasPrefix(t, "\t") {
		return "", "", false, at(r.i+1, "it is indented by a tab")
	}
	if t == "?" || strings.HasPrefix(t, "? ") {
		return "", "", false, at(r.i+1, "complex keys are not supported")
	}
	if t != "" && (t[0] == '"' || t[0] == '\'') {
		n := closingQuote(t)
		if n < 0 {
			return "", "", false, nil
		}
		after := strings.TrimLeft(t[n:], " \t")
		if !strings.HasPrefix(after, ":") || len(after) > 1 && after[1] != ' ' && after[1] != '\t' {
			return "", "", false, nil
		}
		k, err := unquote(t[:n])
		if err != nil {
			return "", "", false, at(r.i+1, "%v", err)
		}
		return k, strings.TrimLeft(after[1:], " \t"), true, nil
	}
	if t == "" || strings.IndexByte("[{|>@`%", t[0]) >= 0 {
		return "", "", false, nil
	}
	for i := range len(t) {
		switch {
		case t[i] == '#' && i > 0 && (t[i-1] == ' ' || t[i-1] == '\t'):
			return "", "", false, nil
		case t[i] == ':' && (i+1 == len(t) || t[i+1] == ' ' || t[i+1] == '\t'):
			k := strings.TrimRight(t[:i], " \t")
			if k != "" && strings.IndexByte("&*!", k[0]) >= 0 {
				return "", "", false, at(r.i+1, "%q: anchors, aliases and tags are not supported", k)
			}
			return k, strings.TrimLeft(t[i+1:], " \t"), true, nil
		}
	}
	return "", "", false, nil
}

// closingQuote is the length of the quoted text that t begins with, -1 when it goes on.
func closingQuote(t string) int {
	for i := 1; i < len(t); i++ {
		switch {
		case t[0] == '"' && t[i] == '\\':
			i++
		case t[i] == t[0] && t[0] == '\'' && i+1 < len(t) && t[i+1] == '\'':
			i++
		case t[i] == t[0]:
			return i + 1
		}
	}
	return -1
}

var escapes = map[byte]string{'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b",
	' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029"}

// unquote reads a quoted text whose lines are joined by \n, and folds them.
func unquote(s string) (string, error) {
	q := s[0]
	lines := strings.Split(s[1:len(s)-1], "\n")
	var b strings.Builder
	breaks := 0
	for n, l := range lines {
		if n > 0 {
			l = strings.TrimLeft(l, " \t")
		}
		if n < len(lines)-1 && !(q == '"' && strings.HasSuffix(l, `\`)) {
			l = strings.TrimRight(l, " \t")
		}
		switch {
		case n == 0:
		case l == "" && n < len(lines)-1:
			breaks++
			continue
		case breaks > 0:
			b.WriteString(strings.Repeat("\n", breaks))
			breaks = 0
		case breaks == 0:
			b.WriteByte(' ')
		default:
			breaks = 0
		}
		if q == '\'' {
			b.WriteString(strings.ReplaceAll(l, "''", "'"))
			continue
		}
		for i := 0; i < len(l); i++ {
			if l[i] != '\\' {
				b.WriteByte(l[i])
				continue
			}
			i++
			if i == len(l) { // an escaped line break
				breaks = -1
				break
			}
			if e, ok := escapes[l[i]]; ok {
				b.WriteString(e)
				continue
			}
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[l[i]]
			if n == 0 || i+n >= len(l)+0 && i+n > len(l)-1 {
				return "", fmt.Errorf(`\%c is not an escape`, l[i])
			}
			v, err := strconv.ParseUint(l[i+1:i+1+n], 16, 32)
			if err != nil {
				return "", fmt.Errorf(`\%s is no character`, l[i:i+1+n])
			}
			i += n
			// A pair of surrogates, as JSON writes what lies beyond \uffff.
			if v >= 0xd800 && v < 0xdc00 && i+6 < len(l)+0 && strings.HasPrefix(l[i+1:], `\u`) {
				if low, err := strconv.ParseUint(l[i+3:i+7], 16, 32); err == nil && low >= 0xdc00 && low < 0xe000 {
					v = 0x10000 + (v-0xd800)<<10 + (low - 0xdc00)
					i += 6
				}
			}
			if !utf8.ValidRune(rune(v)) {
				return "", fmt.Errorf("%#x is no character", v)
			}
			b.WriteRune(rune(v))
		}
	}
	return b.String(), nil
}

// inline reads a value that begins with t; the lines after it belong to it as far as they
// are indented by more than parent.
func (r *yamlReader) inline(t string, parent, depth int) (any, error) {
	line := r.i // of t, counted from 1
	switch t[0] {
	case '&', '*', '!':
		return nil, at(line, "%q: anchors, aliases and tags are not supported", t)
	case '@', '`', '%':
		return nil, at(line, "%q: a plain text can't begin with %c", t, t[0])
	case '|', '>':
		return r.literal(t, parent)
	case '"', '\'', '[', '{':
		for {
			f := &flow{s: t}
			v, err := f.value(depth)
			if err == nil {
				if rest := strings.TrimLeft(f.s[f.i:], " \t\n"); rest != "" && (rest[0] != '#' || f.s[f.i] == '#') {
					return nil, at(line, "%q follows the value", rest)
				}
				return v, nil
			}
			if err != errOpen {
				return nil, at(line, "%v", err)
			}
			if r.i >= len(r.lines) {
				return nil, at(line, "what begins with %c is not closed", t[0])
			}
			next := r.lines[r.i]
			if strings.TrimSpace(next) != "" && len(next)-len(strings.TrimLeft(next, " ")) <= parent && !strings.ContainsAny(strings.TrimSpace(next)[:1], "]}") {
				return nil, at(line, "what begins with %c is not closed", t[0])
			}
			if t[0] == '[' || t[0] == '{' {
				next = uncomment(next)
			}
			t += "\n" + next
			r.i++
		}
	}
	t = uncomment(t)
	if k := strings.Index(t, ": "); k >= 0 || strings.HasSuffix(t, ":") {
		return nil, at(line, "%q: a mapping can't stand here; put the text in quotes", t)
	}
	for r.i < len(r.lines) { // a plain text goes on
		n, more := r.lines[r.i], strings.TrimSpace(r.lines[r.i])
		if more == "" || more[0] == '#' || len(n)-len(strings.TrimLeft(n, " ")) <= parent || n == "---" || n == "..." {
			break
		}
		if _, _, ok, err := r.key(more); ok || err != nil {
			return nil, at(r.i+1, "%q does not fit its indentation", more)
		}
		t += " " + uncomment(more)
		r.i++
		return r.more(t, parent)
	}
	return plain(t), nil
}

// more reads the further lines of a plain text, which is text whatever it looks like.
func (r *yamlReader) more(t string, parent int) (any, error) {
	for r.i < len(r.lines) {
		n, more := r.lines[r.i], strings.TrimSpace(r.lines[r.i])
		if more == "" || more[0] == '#' || len(n)-len(strings.TrimLeft(n, " ")) <= parent {
			break
		}
		if _, _, ok, err := r.key(more); ok || err != nil {
			return nil, at(r.i+1, "%q does not fit its indentation", more)
		}
		t += " " + uncomment(more)
		r.i++
	}
	return t, nil
}

// uncomment cuts a comment off a line, outside of quotes.
func uncomment(t string) string {
	quote := byte(0)
	for i := range len(t) {
		switch {
		case quote != 0:
			if t[i] == quote && !(quote == '"' && i > 0 && t[i-1] == '\\') {
				quote = 0
			}
		case (t[i] == '"' || t[i] == '\'') && (i == 0 || strings.IndexByte(" [{,:", t[i-1]) >= 0):
			quote = t[i]
		case t[i] == '#' && (i == 0 || t[i-1] == ' ' || t[i-1] == '\t'):
			return strings.TrimRight(t[:i], " \t")
		}
	}
	return strings.TrimRight(t, " \t")
}

var header = regexp.MustCompile(`^[|>]([1-9]?[+-]?|[+-][1-9])\s*(#.*)?$`)

// literal reads | and > texts.
func (r *yamlReader) literal(t string, parent int) (any, error) {
	if !header.MatchString(t) {
		return nil, at(r.i, "%q is no header of a block text", t)
	}
	mark, _, _ := strings.Cut(t, "#")
	ind := -1
	if i := strings.IndexAny(mark, "123456789"); i >= 0 {
		ind = max(parent, 0) + int(mark[i]-'0')
	}
	var lines []string
	for ; r.i < len(r.lines); r.i++ {
		l := r.lines[r.i]
		n := len(l) - len(strings.TrimLeft(l, " "))
		if strings.Trim(l, " ") == "" {
			if ind >= 0 && len(l) > ind {
				lines = append(lines, l[ind:])
			} else {
				lines = append(lines, "")
			}
			continue
		}
		if ind < 0 && n > parent {
			ind = n
		}
		if n <= parent || n < ind {
			break
		}
		lines = append(lines, l[ind:])
	}
	end := len(lines)
	for end > 0 && lines[end-1] == "" {
		end--
	}
	body, trail := lines[:end], len(lines)-end
	if r.i >= len(r.lines) && trail > 0 {
		trail-- // what follows the last line break is no line
	}
	var b strings.Builder
	for i, l := range body {
		if i > 0 {
			prev := body[i-1]
			spaced := func(s string) bool { return s != "" && (s[0] == ' ' || s[0] == '\t') }
			switch {
			case mark[0] == '|' || spaced(prev) || spaced(l):
				b.WriteByte('\n')
			case l == "":
				b.WriteByte('\n')
			case prev == "": // the breaks of the empty lines stand already
				if j := i - 1; blankRunAfterSpaced(body, j, spaced) {
					b.WriteByte('\n')
				}
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteString(l)
	}
	switch {
	case strings.Contains(mark, "-"):
	case strings.Contains(mark, "+"):
		if len(body) > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.Repeat("\n", trail))
	case len(body) > 0:
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// blankRunAfterSpaced says whether the empty lines that end at j follow an indented line,
// whose own break is kept.
func blankRunAfterSpaced(body []string, j int, spaced func(string) bool) bool {
	for ; j >= 0 && body[j] == ""; j-- {
	}
	return j >= 0 && spaced(body[j])
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	yamlInf   = regexp.MustCompile(`^[-+]?\.(inf|Inf|INF)$`)
)

// plain gives an unquoted text its type by YAML's core schema.
func plain(t string) any {
	switch t {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	case ".nan", ".NaN", ".NAN":
		return special("nan")
	}
	switch {
	case yamlInf.MatchString(t):
		if t[0] == '-' {
			return special("-inf")
		}
		return special("inf")
	case strings.HasPrefix(t, "0o"):
		if n, ok := whole(t[2:], 8); ok && !strings.ContainsAny(t[2:], "+-_") {
			return n
		}
	case strings.HasPrefix(t, "0x"):
		if n, ok := whole(t[2:], 16); ok && !strings.ContainsAny(t[2:], "+-_") {
			return n
		}
	case yamlInt.MatchString(t):
		if n, ok := whole(t, 10); ok {
			return n
		}
	case yamlFloat.MatchString(t):
		if n, ok := fraction(t); ok {
			return n
		}
	}
	return t
}

var errOpen = fmt.Errorf("it goes on in the next line")

// flow reads quoted text, [lists] and {mappings}.
type flow struct {
	s string
	i int
}

func (f *flow) blank() {
	for f.i < len(f.s) {
		switch c := f.s[f.i]; {
		case c == ' ' || c == '\t' || c == '\n':
			f.i++
		case c == '#' && (f.i == 0 || strings.IndexByte(" \t\n", f.s[f.i-1]) >= 0):
			j := strings.IndexByte(f.s[f.i:], '\n')
			if j < 0 {
				f.i = len(f.s)
				return
			}
			f.i += j
		default:
			return
		}
	}
}

func (f *flow) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	f.blank()
	if f.i >= len(f.s) {
		return nil, errOpen
	}
	switch c := f.s[f.i]; c {
	case '"', '\'':
		return f.quoted()
	case '&', '*', '!':
		return nil, fmt.Errorf("anchors, aliases and tags are not supported")
	case '[':
		f.i++
		list := []any{}
		for {
			f.blank()
			if f.i >= len(f.s) {
				return nil, errOpen
			}
			if f.s[f.i] == ']' {
				f.i++
				return list, nil
			}
			v, err := f.value(depth + 1)
			if err != nil {
				return nil, err
			}
			f.blank()
			if f.i < len(f.s) && f.s[f.i] == ':' {
				return nil, fmt.Errorf("a pair in a list needs braces: [{a: b}]")
			}
			list = append(list, v)
			if err := f.comma(']'); err != nil {
				return nil, err
			}
		}
	case '{':
		f.i++
		o := newObject()
		for {
			f.blank()
			if f.i >= len(f.s) {
				return nil, errOpen
			}
			if f.s[f.i] == '}' {
				f.i++
				return o, nil
			}
			var k string
			if c := f.s[f.i]; c == '"' || c == '\'' {
				q, err := f.quoted()
				if err != nil {
					return nil, err
				}
				k = q.(string)
			} else if k = f.plain(); k == "" || k == "<<" || strings.IndexByte("&*!?", k[0]) >= 0 {
				return nil, fmt.Errorf("%q is not a key", k)
			}
			f.blank()
			if f.i >= len(f.s) {
				return nil, errOpen
			}
			var v any
			if f.s[f.i] == ':' {
				f.i++
				f.blank()
				if f.i >= len(f.s) {
					return nil, errOpen
				}
				if f.s[f.i] != ',' && f.s[f.i] != '}' {
					var err error
					if v, err = f.value(depth + 1); err != nil {
						return nil, err
					}
				}
			}
			if !o.set(k, v) {
				return nil, fmt.Errorf("the key %q comes twice", k)
			}
			if err := f.comma('}'); err != nil {
				return nil, err
			}
		}
	}
	t := f.plain()
	if t == "" {
		return nil, fmt.Errorf("a value is missing before %q", f.s[f.i:min(len(f.s), f.i+1)])
	}
	return plain(t), nil
}

func (f *flow) comma(end byte) error {
	f.blank()
	switch {
	case f.i >= len(f.s):
		return errOpen
	case f.s[f.i] == ',':
		f.i++
	case f.s[f.i] != end:
		return fmt.Errorf("a comma or %c is missing before %q", end, f.s[f.i:min(len(f.s), f.i+10)])
	}
	return nil
}

func (f *flow) quoted() (any, error) {
	n := closingQuote(f.s[f.i:])
	if n < 0 {
		return nil, errOpen
	}
	s, err := unquote(f.s[f.i : f.i+n])
	f.i += n
	return s, err
}

// plain reads an unquoted text within brackets.
func (f *flow) plain() string {
	j := f.i
	for j < len(f.s) && strings.IndexByte(",[]{}\n", f.s[j]) < 0 {
		if f.s[j] == ':' && (j+1 == len(f.s) || strings.IndexByte(" \t\n,[]{}", f.s[j+1]) >= 0) || f.s[j] == '#' && j > f.i && f.s[j-1] == ' ' {
			break
		}
		j++
	}
	t := strings.TrimRight(f.s[f.i:j], " \t")
	f.i = j
	return t
}

var word = regexp.MustCompile(`^[\pL_./][\pL\pN_./ +@()=-]*$`)

// yamlText writes a string plain where it can't be taken for anything else.
func yamlText(s string) string {
	_, isText := plain(s).(string)
	if isText && word.MatchString(s) && strings.TrimSpace(s) == s {
		switch strings.ToLower(s) { // what YAML 1.1 takes for true or false
		case "y", "n", "yes", "no", "on", "off":
		default:
			return s
		}
	}
	return quote(s)
}

func writeYAML(v any, pad string) string {
	var b strings.Builder
	yamlValue(&b, v, "", pad, false)
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), " "), "\n")
}

// yamlValue writes what stands after "key:" or "-". item says that the first line of a
// mapping or list goes on behind a dash.
func yamlValue(b *strings.Builder, v any, in, pad string, item bool) {
	lead := func(i int) string {
		if i == 0 && item {
			return " "
		}
		return in
	}
	switch v := v.(type) {
	case *object:
		if len(v.keys) == 0 {
			b.WriteString(" {}\n")
			return
		}
		if !item && b.Len() > 0 {
			b.WriteByte('\n')
		}
		for i, k := range v.keys {
			b.WriteString(lead(i) + yamlText(k) + ":")
			yamlValue(b, v.values[k], in+pad, pad, false)
		}
	case []any:
		if len(v) == 0 {
			b.WriteString(" []\n")
			return
		}
		if !item && b.Len() > 0 {
			b.WriteByte('\n')
		}
		for i, e := range v {
			b.WriteString(lead(i) + "-")
			yamlValue(b, e, in+"  ", pad, true)
		}
	case nil:
		b.WriteString(" null\n")
	case bool:
		b.WriteString(" " + strconv.FormatBool(v) + "\n")
	case string:
		b.WriteString(" " + yamlText(v) + "\n")
	case moment:
		b.WriteString(" " + quote(string(v)) + "\n")
	case special:
		s := string(v)
		b.WriteString(" " + map[bool]string{true: "-.", false: "."}[s[0] == '-'] + strings.TrimPrefix(s, "-") + "\n")
	case number:
		b.WriteString(" " + yamlNumber(string(v)) + "\n")
	}
}

// yamlNumber writes 1e5 as 1e+5, which YAML 1.1 takes for a number, too.
func yamlNumber(s string) string {
	if i := strings.IndexAny(s, "eE"); i >= 0 && json.Valid([]byte(s)) {
		if !strings.Contains(s[:i], ".") {
			s = s[:i] + ".0" + s[i:]
			i += 2
		}
		if s[i+1] != '-' && s[i+1] != '+' {
			s = s[:i+1] + "+" + s[i+1:]
		}
	}
	return s
}
