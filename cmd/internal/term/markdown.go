package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Block is something printed that can be drawn again for another width.
type Block interface {
	// Rows are its rows for a terminal of width columns.
	Rows(t Theme, width int) []string
}

// Text is a block of plain text in one style, line by line.
type Text struct {
	Style  Style
	Text   string
	Indent string
}

// Rows wraps each line.
func (x Text) Rows(t Theme, width int) []string {
	var rows []string
	for _, l := range strings.Split(Clean(x.Text), "\n") {
		rows = append(rows, t.wrapWith(x.Indent, x.Indent, []Span{{l, x.Style}}, width)...)
	}
	return rows
}

// Spans is one line of pieces in their own styles.
type Spans struct {
	List   []Span
	Indent string // of the rows after the first
}

// Rows wraps the line.
func (x Spans) Rows(t Theme, width int) []string {
	list := make([]Span, len(x.List))
	for i, s := range x.List {
		list[i] = Span{strings.ReplaceAll(Clean(s.Text), "\n", " "), s.Style}
	}
	if x.Indent == "" {
		return t.Wrap(list, width)
	}
	rows := t.Wrap(list, width-Width(x.Indent))
	for i := 1; i < len(rows); i++ {
		rows[i] = x.Indent + rows[i]
	}
	return rows
}

// Diff is a difference in unified form.
type Diff string

// Rows colours what comes and goes.
func (d Diff) Rows(t Theme, width int) []string {
	var rows []string
	for _, l := range strings.Split(strings.TrimRight(Clean(string(d)), "\n"), "\n") {
		rows = append(rows, t.wrapWith("  ", "  ", []Span{{l, diffStyle(l)}}, width)...)
	}
	return rows
}

func diffStyle(line string) Style {
	switch {
	case strings.HasPrefix(line, "+"):
		return Green
	case strings.HasPrefix(line, "-"):
		return Red
	case strings.HasPrefix(line, "@@"):
		return Dim
	}
	return 0
}

// mdLine is one line of Markdown outside of tables. Line ends of the source stay: models
// mean them, and a line that is complete never changes again.
type mdLine string

func (m mdLine) Rows(t Theme, width int) []string {
	line := string(m)
	trimmed := strings.TrimLeft(line, " ")
	indent := len(line) - len(trimmed)
	if trimmed == "" {
		return []string{""}
	}
	if isRule(trimmed) {
		return []string{t.Paint(Dim, strings.Repeat("─", min(width, 40)))}
	}
	if n := headingLevel(trimmed); n > 0 {
		text := strings.TrimSpace(strings.TrimRight(strings.TrimSpace(trimmed[n:]), "#"))
		if !t.Color {
			text = trimmed
		}
		style := Bold
		if n == 1 {
			style |= Underline
		}
		return t.Wrap(inline(t, text, style), width)
	}
	quote := ""
	for strings.HasPrefix(trimmed, ">") {
		quote += "│ "
		trimmed = strings.TrimPrefix(strings.TrimPrefix(trimmed, ">"), " ")
	}
	if quote != "" {
		if strings.TrimSpace(trimmed) == "" {
			return []string{t.Paint(Dim, Cut(strings.TrimRight(quote, " "), width))}
		}
		for quote != "" && width-Width(quote) < 4 {
			quote = strings.TrimSuffix(quote, "│ ")
		}
		sub := mdLine(trimmed).Rows(t, width-Width(quote))
		for i := range sub {
			sub[i] = t.Paint(Dim, quote) + sub[i]
		}
		return sub
	}
	pad := strings.Repeat(" ", min(indent, 16))
	if mark, text, ok := listItem(trimmed); ok {
		return t.wrapWith(pad+mark, pad+strings.Repeat(" ", Width(mark)), inline(t, text, 0), width)
	}
	text := strings.TrimRight(trimmed, " ")
	if strings.HasSuffix(text, `\`) && !strings.HasSuffix(text, `\\`) {
		text = text[:len(text)-1]
	}
	return t.wrapWith(pad, pad, inline(t, text, 0), width)
}

func isRule(s string) bool {
	c := s[0]
	if c != '-' && c != '*' && c != '_' {
		return false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case c:
			n++
		case ' ':
		default:
			return false
		}
	}
	return n >= 3
}

func headingLevel(s string) int {
	n := 0
	for n < len(s) && s[n] == '#' {
		n++
	}
	if n == 0 || n > 6 || n < len(s) && s[n] != ' ' {
		return 0
	}
	return n
}

// listItem takes the mark of an item off, with a box where it has one.
func listItem(s string) (mark, text string, ok bool) {
	switch {
	case len(s) >= 2 && (s[0] == '-' || s[0] == '*' || s[0] == '+') && s[1] == ' ':
		mark, text = "• ", strings.TrimLeft(s[2:], " ")
	default:
		n := 0
		for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == 0 || n+1 >= len(s) || s[n] != '.' && s[n] != ')' || s[n+1] != ' ' {
			return "", "", false
		}
		mark, text = s[:n+2], strings.TrimLeft(s[n+2:], " ")
	}
	for box, sign := range map[string]string{"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "} {
		if strings.HasPrefix(text, box) {
			return mark + sign, text[len(box):], true
		}
	}
	return mark, text, true
}

// codeLine is one line inside a fence.
type codeLine struct {
	text string
	lang string
}

func (c codeLine) Rows(t Theme, width int) []string {
	style := Cyan
	if c.lang == "diff" {
		style = diffStyle(c.text)
	}
	return t.wrapWith("  ", "  ", []Span{{c.text, style}}, width)
}

// fenceLine is the line that opens a fence; the one that closes it shows nothing.
type fenceLine string

func (f fenceLine) Rows(t Theme, width int) []string {
	if f == "" {
		return nil
	}
	return []string{t.Paint(Dim, "  "+Cut(string(f), width-2))}
}

// inline finds emphasis, code and links in a line. In a theme without styles the marks
// stay, because they then are all there is.
func inline(t Theme, s string, base Style) []Span {
	if !t.Color {
		return []Span{{s, 0}}
	}
	var out []Span
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			out = append(out, Span{plain.String(), base})
			plain.Reset()
		}
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && isPunct(s[i+1]):
			plain.WriteByte(s[i+1])
			i += 2
			continue
		case c == '`':
			n := run(s, i, '`')
			if end := closing(s, i+n, n); end >= 0 {
				flush()
				text := s[i+n : end]
				if len(text) > 2 && text[0] == ' ' && text[len(text)-1] == ' ' {
					text = text[1 : len(text)-1]
				}
				out = append(out, Span{text, base | Cyan})
				i = end + n
				continue
			}
			plain.WriteString(s[i : i+n])
			i += n
			continue
		case c == '*' || c == '_' || c == '~':
			n := run(s, i, c)
			if in, skip, st, ok := emphasis(s, i, n, c); ok {
				flush()
				out = append(out, inline(t, in, base|st)...)
				i += skip
				continue
			}
			plain.WriteString(s[i : i+n])
			i += n
			continue
		case c == '[' || c == '!' && i+1 < len(s) && s[i+1] == '[':
			from := i
			if c == '!' {
				from++
			}
			if text, url, end, ok := link(s, from); ok {
				flush()
				out = append(out, inline(t, text, base|Underline)...)
				if url != "" && url != text {
					out = append(out, Span{" (" + url + ")", base | Dim})
				}
				i = end
				continue
			}
		case c == '<':
			if end := strings.IndexByte(s[i:], '>'); end > 0 && (strings.HasPrefix(s[i+1:], "http://") || strings.HasPrefix(s[i+1:], "https://")) {
				flush()
				out = append(out, Span{s[i+1 : i+end], base | Underline})
				i += end + 1
				continue
			}
			if n := lineBreakTag(s[i:]); n > 0 {
				plain.WriteByte(' ')
				i += n
				continue
			}
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		plain.WriteString(s[i : i+n])
		i += n
	}
	flush()
	return out
}

func lineBreakTag(s string) int {
	for _, tag := range []string{"<br>", "<br/>", "<br />"} {
		if strings.HasPrefix(s, tag) {
			return len(tag)
		}
	}
	return 0
}

func run(s string, i int, c byte) int {
	n := 0
	for i+n < len(s) && s[i+n] == c {
		n++
	}
	return n
}

// maxSpan is how far away, in bytes, what closes a mark is looked for.
const maxSpan = 1000

// closing finds n backquotes, no more and no less.
func closing(s string, from, n int) int {
	s = s[:min(len(s), from+maxSpan)]
	for i := from; i < len(s); {
		if s[i] != '`' {
			i++
			continue
		}
		m := run(s, i, '`')
		if m == n {
			return i
		}
		i += m
	}
	return -1
}

// emphasis reads *a*, **a**, ***a***, _a_, __a__ and ~~a~~ at i. Beside East-Asian text,
// which has no spaces, marks count wherever they touch their text.
func emphasis(s string, i, n int, c byte) (in string, skip int, st Style, ok bool) {
	switch {
	case c == '~':
		if n != 2 {
			return "", 0, 0, false
		}
		st = Strike
	case n == 1:
		st = Italic
	case n == 2:
		st = Bold
	case n == 3:
		st = Bold | Italic
	default:
		return "", 0, 0, false
	}
	if i+n >= len(s) || s[i+n] == ' ' {
		return "", 0, 0, false
	}
	s = s[:min(len(s), i+n+maxSpan)]
	if before, _ := utf8.DecodeLastRuneInString(s[:i]); i > 0 && c == '_' && isWord(before) {
		return "", 0, 0, false // snake_case
	}
	for j := i + n; j < len(s); {
		switch s[j] {
		case '\\':
			j += 2
			continue
		case '`':
			m := run(s, j, '`')
			if end := closing(s, j+m, m); end >= 0 {
				j = end + m
			} else {
				j += m
			}
			continue
		case c:
			m := run(s, j, c)
			after, _ := utf8.DecodeRuneInString(s[j+m:])
			if m == n && s[j-1] != ' ' && (c != '_' || j+m == len(s) || !isWord(after)) {
				return s[i+n : j], j + m - i, st, true
			}
			if n == 1 && m >= 2 { // *a **b** c*
				if end := strings.Index(s[j+m:], s[j:j+m]); end >= 0 {
					j += m + end + m
					continue
				}
			}
			j += m
			continue
		}
		j++
	}
	return "", 0, 0, false
}

func isWord(r rune) bool {
	return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}

func isPunct(c byte) bool {
	return c >= '!' && c <= '/' || c >= ':' && c <= '@' || c >= '[' && c <= '`' || c >= '{' && c <= '~'
}

// link reads [text](url "title") at i.
func link(s string, i int) (text, url string, end int, ok bool) {
	s = s[:min(len(s), i+2*maxSpan)]
	depth := 0
	j := i
	for ; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
			continue
		case '[':
			depth++
		case ']':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if j >= len(s) || j+1 >= len(s) || s[j+1] != '(' {
		return "", "", 0, false
	}
	text = s[i+1 : j]
	depth = 0
	k := j + 1
	for ; k < len(s); k++ {
		switch s[k] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if k >= len(s) {
		return "", "", 0, false
	}
	url = strings.TrimSpace(s[j+2 : k])
	if a, _, cut := strings.Cut(url, " "); cut {
		url = a
	}
	return text, strings.Trim(url, "<>"), k + 1, true
}
