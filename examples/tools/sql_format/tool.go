// Command sql_format lays out SQL: clauses on lines of their own, key words in upper case.
//
// It takes the text apart into words, strings, comments and signs and never changes one of
// them, but for the case of key words. It does not check the SQL and knows no dialect:
// quotes "a", `a`, [a], 'a”b', dollar quotes $x$…$x$ and comments --, #, /* */ are kept whole.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	SQL    string `json:"sql,omitempty" jsonschema:"the SQL; or give path"`
	Path   string `json:"path,omitempty" jsonschema:"SQL file, relative to the project"`
	Indent int    `json:"indent,omitempty" jsonschema:"blanks per level, 1 to 8; default: 2"`
	Case   string `json:"case,omitempty" jsonschema:"of key words: upper, lower or keep; default: upper"`
}

type kind int

const (
	word kind = iota
	quoted
	comment
	sign
)

type token struct {
	kind kind
	text string
	gap  bool // blank space before it
}

// scan takes sql apart. Nothing is lost but blank space.
func scan(sql string) ([]token, error) {
	var out []token
	gap := false
	for i := 0; i < len(sql); {
		rest := sql[i:]
		r, size := utf8.DecodeRuneInString(rest)
		n, k := size, sign
		switch {
		case unicode.IsSpace(r):
			gap = true
			i += size
			continue
		case strings.HasPrefix(rest, "--") || r == '#' && !strings.HasPrefix(rest, "#>") && !strings.HasPrefix(rest, "#-"):
			k, n = comment, len(rest)
			if j := strings.IndexByte(rest, '\n'); j >= 0 {
				n = j
			}
		case strings.HasPrefix(rest, "/*"):
			j := strings.Index(rest[2:], "*/")
			if j < 0 {
				return nil, fmt.Errorf("the comment that begins at byte %d does not end", i)
			}
			k, n = comment, j+4
		case r == '\'' || r == '"' || r == '`':
			end := closing(rest, byte(r))
			if end < 0 {
				return nil, fmt.Errorf("the quote %c at byte %d is not closed", r, i)
			}
			k, n = quoted, end
		case r == '$' && dollar(rest) > 0:
			k, n = quoted, dollar(rest)
		case r == '[' && (gap || opens(out)):
			j := strings.IndexByte(rest, ']')
			if j < 0 {
				return nil, fmt.Errorf("the bracket at byte %d is not closed", i)
			}
			k, n = quoted, j+1
		case wordRune(r) || r == ':' && len(rest) > 1 && wordRune(rune(rest[1])) && !(len(out) > 0 && !gap && out[len(out)-1].text == ":"):
			k = word
			for n < len(rest) {
				r, size := utf8.DecodeRuneInString(rest[n:])
				number := rest[0] >= '0' && rest[0] <= '9'
				if !wordRune(r) && !(number && (r == '.' || (r == '-' || r == '+') && (rest[n-1] == 'e' || rest[n-1] == 'E'))) {
					break
				}
				n += size
			}
		default:
			for _, op := range []string{"->>", "#>>", "<=>", "::", "->", "#>", "#-", "<=", ">=", "<>", "!=", "||", ":=", "=>", "==", "!~", "~*", "@>", "<@", "<<", ">>", "&&", "**"} {
				if strings.HasPrefix(rest, op) {
					n = len(op)
					break
				}
			}
		}
		out = append(out, token{k, strings.TrimRight(sql[i:i+n], " \t\r"), gap})
		gap = false
		i += n
	}
	return out, nil
}

// opens says whether a bracket that follows the tokens quotes a name; else it is an index.
func opens(before []token) bool {
	if len(before) == 0 {
		return true
	}
	switch p := before[len(before)-1]; p.kind {
	case comment:
		return true
	case sign:
		return p.text != ")" && p.text != "]"
	case word:
		return keywords[strings.ToUpper(p.text)]
	}
	return false
}

func wordRune(r rune) bool {
	return r == '_' || r == '@' || r == '?' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)
}

// closing is the length of a quoted text; a doubled quote stands for itself, and in single
// quotes a backslash before a quote, too, unless that would leave the quote open.
func closing(s string, q byte) int {
	scan := func(escapes bool) int {
		for i := 1; i < len(s); i++ {
			switch {
			case escapes && s[i] == '\\':
				i++
			case s[i] == q && i+1 < len(s) && s[i+1] == q:
				i++
			case s[i] == q:
				return i + 1
			}
		}
		return -1
	}
	if n := scan(q == '\''); n > 0 {
		return n
	}
	return scan(false)
}

// dollar is the length of a dollar quote, 0 when there is none.
func dollar(s string) int {
	end := strings.IndexByte(s[1:], '$')
	if end < 0 {
		return 0
	}
	tag := s[:end+2]
	for _, r := range tag[1 : len(tag)-1] {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return 0
		}
	}
	if j := strings.Index(s[len(tag):], tag); j >= 0 {
		return j + 2*len(tag)
	}
	return 0
}

var (
	keywords = set(`ADD ALL ALTER ANALYZE AND ANY AS ASC BEGIN BETWEEN BY CASCADE CASE CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT CREATE CROSS
		CURRENT_DATE CURRENT_TIMESTAMP DATABASE DEFAULT DELETE DESC DISTINCT DO DROP ELSE END ESCAPE EXCEPT EXISTS EXPLAIN FALSE FETCH FILTER FIRST FOLLOWING FOR FOREIGN
		FROM FULL GRANT GROUP HAVING IF ILIKE IN INDEX INNER INSERT INTERSECT INTERVAL INTO IS JOIN KEY LAST LATERAL LEFT LIKE LIMIT MATERIALIZED NATURAL NEXT NOT NOTHING
		NULL NULLS OF OFFSET ON ONLY OR ORDER OUTER OVER PARTITION PRECEDING PRIMARY RANGE RECURSIVE REFERENCES RENAME REPLACE RESTRICT RETURNING RIGHT ROLLBACK ROW ROWS SELECT
		SET TABLE TEMPORARY THEN TO TRIGGER TRUE TRUNCATE UNBOUNDED UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WINDOW WITH`)
	// clauses begin a line; what follows them is one level deeper.
	clauses = set("SELECT FROM WHERE GROUP HAVING ORDER LIMIT OFFSET FETCH VALUES SET RETURNING WINDOW UNION EXCEPT INTERSECT INSERT UPDATE DELETE WITH")
	// lists have a line for each item.
	lists = set("SELECT SET RETURNING VALUES WITH")
	joins = set("JOIN LEFT RIGHT INNER FULL CROSS NATURAL")
	// calls are key words that are names of functions when a parenthesis follows at once.
	calls = set("LEFT RIGHT REPLACE IF VALUES TRUNCATE")
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

type layout struct {
	b      strings.Builder
	indent string
	toCase func(string) string
	stack  []frame // of parentheses and CASE
	level  int
	atLine bool // the next token begins a line
	prev   token
	upper  string // prev in upper case when it is a key word
	create int    // 1 after CREATE, 2 after CREATE TABLE, until its parenthesis
}

// frame is an open parenthesis, a CASE, or the statement itself.
type frame struct {
	kind    byte // 0 statement, '(' plain, 'q' subquery, 't' columns of a new table, 'c' CASE
	level   int
	clause  string
	between bool // the next AND belongs to BETWEEN
}

func (l *layout) top() *frame { return &l.stack[len(l.stack)-1] }

func (l *layout) line(level int) {
	if l.b.Len() > 0 && !l.atLine {
		l.b.WriteByte('\n')
	}
	l.atLine, l.level = true, level
}

func (l *layout) put(t token, text string, space bool) {
	switch {
	case l.atLine:
		l.b.WriteString(strings.Repeat(l.indent, l.level))
	case space:
		l.b.WriteByte(' ')
	}
	l.b.WriteString(text)
	l.atLine = false
	l.prev = t
}

func format(tokens []token, indent string, toCase func(string) string) string {
	l := &layout{indent: indent, toCase: toCase, stack: []frame{{}}, atLine: true}
	for i, t := range tokens {
		key := ""
		if t.kind == word && keywords[strings.ToUpper(t.text)] && l.prev.text != "." && !(i+1 < len(tokens) && tokens[i+1].text == ".") {
			key = strings.ToUpper(t.text)
		}
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1].text
		}
		if calls[key] && next == "(" && !tokens[i+1].gap && !(key == "VALUES" && l.top().kind != 'c' && l.top().clause == "INSERT") {
			key = ""
		}
		f := l.top()
		text := t.text
		if key != "" {
			text = l.toCase(text)
		}
		space := l.space(t, key)
		switch {
		case key == "CREATE":
			l.create = 1
		case key == "TABLE" && l.create == 1:
			l.create = 2
		case key == "AS":
			l.create = 0
		}
		switch {
		case t.kind == comment:
			if !l.atLine {
				space = true
			}
			l.put(t, text, space)
			if !strings.HasPrefix(text, "/*") || f.kind != '(' {
				l.line(l.level)
			}
			continue
		case t.text == ";":
			l.stack = l.stack[:1]
			l.put(t, text, false)
			l.line(0)
			l.b.WriteByte('\n')
			l.stack[0], l.upper, l.create = frame{}, "", 0
			continue
		case t.text == "(":
			l.put(t, text, space)
			k := byte('(')
			if n := strings.ToUpper(next); n == "SELECT" || n == "WITH" {
				k = 'q'
			}
			if l.create == 2 && len(l.stack) == 1 {
				k = 't'
			}
			l.stack = append(l.stack, frame{kind: k, level: l.level + 1})
			l.upper = ""
			if k == 't' {
				l.create = 0
				l.line(l.level + 1)
			}
			continue
		case t.text == ")":
			for len(l.stack) > 1 && l.top().kind == 'c' {
				l.stack = l.stack[:len(l.stack)-1]
			}
			if len(l.stack) > 1 {
				f = l.top()
				l.stack = l.stack[:len(l.stack)-1]
				if f.kind == 'q' || f.kind == 't' {
					l.line(f.level - 1)
				} else if !l.atLine {
					l.level = f.level - 1
				}
			}
			l.put(t, text, false)
			l.upper = ""
			continue
		case t.text == ",":
			l.put(t, text, false)
			if f.kind == 't' {
				l.line(f.level)
			}
			if lists[f.clause] && f.kind != '(' && f.kind != 'c' {
				level := f.level + 1
				if f.clause == "WITH" {
					level = f.level
				}
				l.line(level)
			}
			l.upper = ""
			continue
		case key == "CASE":
			l.put(t, text, space)
			l.stack = append(l.stack, frame{kind: 'c', level: l.level + 1})
			l.upper = key
			continue
		case f.kind == 'c' && (key == "WHEN" || key == "ELSE"):
			l.line(f.level)
		case f.kind == 'c' && key == "END":
			l.line(f.level - 1)
			l.stack = l.stack[:len(l.stack)-1]
		case key == "BETWEEN":
			f.between = true
		case key == "AND" && f.between:
			f.between = false
		case (key == "AND" || key == "OR") && (f.clause == "WHERE" || f.clause == "HAVING" || f.clause == "JOIN") && f.kind != '(' && f.kind != 'c':
			l.line(f.level + 1)
		case f.kind != '(' && f.kind != 'c' && joins[key] && !joins[l.upper] && l.upper != "OUTER" && f.clause != "":
			f.clause = "JOIN"
			l.line(f.level)
		case f.kind != '(' && f.kind != 'c' && clauses[key] && !l.joined(key):
			l.line(f.level)
			f.clause = key
			l.put(t, text, false)
			l.upper = key
			if key == "SELECT" && (strings.EqualFold(next, "DISTINCT") || strings.EqualFold(next, "ALL")) {
				continue
			}
			if key == "SELECT" || key == "SET" || key == "RETURNING" {
				l.line(f.level + 1)
			}
			continue
		case (key == "DISTINCT" || key == "ALL") && l.upper == "SELECT":
			l.put(t, text, true)
			l.upper = key
			if !strings.EqualFold(next, "ON") {
				l.line(f.level + 1)
			}
			continue
		case key == "ON" && (strings.EqualFold(next, "CONFLICT") || strings.EqualFold(next, "DUPLICATE")):
			l.line(f.level)
			f.clause = key
		}
		l.put(t, text, space)
		l.upper = key
	}
	return strings.TrimRight(l.b.String(), " \n")
}

// joined says that a clause's key word goes on a line that was begun before it.
func (l *layout) joined(key string) bool {
	switch key {
	case "FROM":
		return l.upper == "DELETE" || l.upper == "DISTINCT"
	case "UPDATE":
		return l.upper == "FOR" || l.upper == "DO" || l.upper == "ON" || l.upper == "KEY"
	case "DELETE":
		return l.upper == "ON"
	case "SET":
		return l.upper == "ON" || l.upper == "UPDATE" && l.top().clause != "UPDATE"
	case "SELECT":
		return false
	case "WITH", "GROUP", "ORDER", "LIMIT", "VALUES", "OFFSET":
		return false
	}
	return false
}

func (l *layout) space(t token, key string) bool {
	p := l.prev
	switch {
	case p.text == "" || p.text == "(" || p.text == "." || p.text == "::" || p.text == "[":
		return false
	case t.text == "." && p.kind == word && p.text[0] >= '0' && p.text[0] <= '9':
		return t.gap
	case t.text == "." || t.text == "::" || t.text == "[" || t.text == "]":
		return t.gap && t.text == "." && p.kind == sign
	case t.text == "(":
		return l.upper != "" || t.gap && p.kind != word || p.kind == sign && p.text != ")" || t.gap
	case p.kind == sign && (p.text == "-" || p.text == "+" || p.text == "~"):
		return t.gap
	case p.kind == word && t.kind == quoted || t.kind == sign && (p.kind == sign && !t.gap && p.text != ")"):
		return t.gap || l.upper != ""
	}
	return true
}

func Run(ctx context.Context, in Args) (string, error) {
	if (in.SQL == "") == (in.Path == "") {
		return "", errors.New("give either sql or path")
	}
	if in.Path != "" {
		b, err := os.ReadFile(sdk.Path(ctx, in.Path))
		if err != nil {
			return "", err
		}
		in.SQL = strings.TrimPrefix(string(b), "\ufeff")
	}
	if in.Indent == 0 {
		in.Indent = 2
	}
	if in.Indent < 1 || in.Indent > 8 {
		return "", errors.New("indent: 1 to 8")
	}
	toCase := map[string]func(string) string{"": strings.ToUpper, "upper": strings.ToUpper, "lower": strings.ToLower, "keep": func(s string) string { return s }}[in.Case]
	if toCase == nil {
		return "", fmt.Errorf("case %q: upper, lower or keep", in.Case)
	}
	tokens, err := scan(in.SQL)
	if err != nil {
		return "", err
	}
	if len(tokens) == 0 {
		return "", errors.New("there is no SQL in it")
	}
	return format(tokens, strings.Repeat(" ", in.Indent), toCase), nil
}

func main() {
	sdk.Serve("sql_format", "Lays out SQL: clauses on lines of their own, key words in upper case", Run, sdk.ReadOnly())
}
