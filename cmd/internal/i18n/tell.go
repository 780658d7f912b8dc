package i18n

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// form is the Chinese form of a text that code makes with a format and hands on, such as
// an error.
//
// The Chinese form has the verbs of the English one, in the same order or with an index
// (%[2]s). A %w in it stands for a part that is a text for people too and is told in its
// turn, and a %v for somebody's words, which stay as they are. Every other part is a name, a
// path, a number or a quotation: it stays too, and holds no ": ".
type form struct{ en, zh string }

// Tell translates a text that is already formatted, such as an error: one that is known
// as a whole, that fits a known text with verbs, or that is put together of such texts with
// colons and semicolons between them. What is not known stays as it is.
func (p Printer) Tell(text string) string {
	if p.lang != "zh" || text == "" {
		return text
	}
	if t, ok := chinese[text]; ok && !strings.Contains(text, "%") {
		return t
	}
	return tell(text, 0)
}

// TellLines is Tell for each line of a text; indented lines are quotations, but notes.
func (p Printer) TellLines(text string) string {
	if p.lang != "zh" {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if rest, ok := strings.CutPrefix(l, "  note: "); ok {
			lines[i] = "  " + p.T("note: %s", p.Tell(rest))
		} else if !strings.HasPrefix(l, " ") {
			lines[i] = p.Tell(l)
		}
	}
	return strings.Join(lines, "\n")
}

// The bounds of what is taken apart: longer texts are somebody's output.
const (
	mostTold  = 2 << 10 // bytes of a text
	mostParts = 16      // parts of a composed text
	mostDeep  = 8       // texts in texts
)

// tell translates a text that may be composed.
func tell(text string, depth int) string {
	if text == "" || len(text) > mostTold || depth > mostDeep {
		return text
	}
	if t, ok := whole(text, depth); ok {
		return t
	}
	at := seams(text)
	if at == nil {
		return text
	}
	// Part i is text[at[i-1]+2 : at[i]]; as many parts as possible are taken together.
	at = append(at, len(text))
	type part struct {
		text, sep string // sep stands before it
		ok        bool   // it was translated
	}
	var parts []part
	told := false
	for i, start := 0, 0; i < len(at); {
		p, next := part{text: text[start:at[i]]}, i+1
		for j := len(at) - 1; j >= i && (start > 0 || i < len(at)-1); j-- {
			if t, hit := whole(text[start:at[j]], depth); hit {
				p.text, p.ok, next, told = t, true, j+1, true
				break
			}
		}
		if start > 0 {
			p.sep = text[start-2 : start]
		}
		parts = append(parts, p)
		i, start = next, at[next-1]+2
	}
	if !told {
		return text
	}
	var b strings.Builder
	for i, p := range parts {
		// Between two parts that stay, only names are joined in the Chinese way.
		if i > 0 && (p.ok || parts[i-1].ok || !strings.Contains(p.text+parts[i-1].text, " ")) {
			p.sep = map[string]string{": ": "：", "; ": "；"}[p.sep]
		}
		b.WriteString(p.sep + p.text)
	}
	return b.String()
}

// whole translates a text that is one known text.
func whole(text string, depth int) (string, bool) {
	k := known()
	if t, ok := k.exact[text]; ok {
		return t, true
	}
	for _, f := range k.formats {
		if len(text) < f.weight || !strings.HasSuffix(text, f.tail) {
			continue
		}
		var got [12]string
		if n, ok := f.match(f.en, text, got[:0]); ok {
			return f.say(n, depth), true
		}
	}
	return "", false
}

// seams are the places of the ": " and "; " between the parts of a text, outside of
// quotations and brackets.
func seams(s string) []int {
	var out []int
	for i := 0; i < len(s) && len(out) < mostParts; i++ {
		switch c := s[i]; {
		case c == '"' || c == '`':
			if q, err := strconv.QuotedPrefix(s[i:]); err == nil {
				i += len(q) - 1
			}
		case c == '(':
			if n := bracketed(s[i:]); n > 0 {
				i += n - 1
			}
		case (c == ':' || c == ';') && i > 0 && i+2 < len(s) && s[i+1] == ' ':
			out = append(out, i)
			i++
		}
	}
	return out
}

// bracketed is the length of the bracket that s begins with, 0 where it is not closed.
func bracketed(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// piece is a literal of a format, or a verb.
type piece struct {
	text string
	verb byte // 0 for a literal
	arg  int  // which argument a verb takes
	end  bool // an ending such as " (from 1 to 3)", or nothing
}

// pieces takes a format apart. %% is text.
func pieces(format string) []piece {
	var out []piece
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			out = append(out, piece{text: lit.String()})
			lit.Reset()
		}
	}
	arg := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			lit.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == '%' {
			lit.WriteByte('%')
			continue
		}
		from := i
		for i+1 < len(format) && strings.IndexByte("0123456789.+-# []", format[i]) >= 0 {
			i++
		}
		if a := strings.IndexByte(format[from:i], '['); a >= 0 {
			if n, err := strconv.Atoi(format[from+a+1 : from+strings.IndexByte(format[from:i], ']')]); err == nil {
				arg = n - 1
			}
		}
		flush()
		out = append(out, piece{verb: format[i], arg: arg})
		arg++
	}
	flush()
	return out
}

// shape is a form taken apart.
type shape struct {
	en, zh []piece
	weight int    // bytes of its literals
	tail   string // the literal at its end
	weak   bool   // few letters: its names hold no blanks
	told   []bool // which arguments are texts
	long   []bool // which arguments may have parts
}

func newShape(f form) *shape {
	s := &shape{en: pieces(f.en), zh: pieces(f.zh)}
	letters, verbs := 0, 0
	for _, p := range s.en {
		if p.verb != 0 {
			verbs++
			continue
		}
		s.weight += len(p.text)
		for _, r := range p.text {
			if unicode.IsLetter(r) {
				letters++
			}
		}
	}
	if letters == 0 || verbs == 0 {
		return nil
	}
	s.weak = letters < 4
	if last := s.en[len(s.en)-1]; last.verb == 0 {
		s.tail = last.text
	}
	s.told, s.long = make([]bool, verbs), make([]bool, verbs)
	for _, p := range s.zh {
		if p.verb != 0 && p.arg < verbs {
			s.told[p.arg] = p.verb == 'w'
			s.long[p.arg] = p.verb == 'v'
		}
	}
	for i := range s.en {
		p, lit := &s.en[i], ""
		if p.verb == 0 || !s.told[p.arg] {
			continue
		}
		if i > 0 {
			lit = s.en[i-1].text
		}
		last, _ := utf8.DecodeLastRuneInString(lit)
		p.end = p.verb == 's' && i > 0 && (lit == "" || unicode.IsLetter(last))
		s.long[p.arg] = p.verb != 's' || i == 0 || i == len(s.en)-1 || last == '(' || strings.HasSuffix(lit, ": ")
	}
	return s
}

// match finds the arguments that make text of the pieces.
func (f *shape) match(p []piece, text string, got []string) ([]string, bool) {
	if len(p) == 0 {
		return got, text == ""
	}
	if p[0].verb == 0 {
		if !strings.HasPrefix(text, p[0].text) {
			return nil, false
		}
		return f.match(p[1:], text[len(p[0].text):], got)
	}
	arg := p[0].arg
	got = got[:len(got):len(got)]
	if p[0].end {
		if strings.HasPrefix(text, " (") {
			n := 1 + bracketed(text[1:])
			if rest, ok := f.match(p[1:], text[n:], append(got, text[:n])); n > 1 && ok {
				return rest, true
			}
		}
		return f.match(p[1:], text, append(got, ""))
	}
	switch p[0].verb {
	case 'q':
		q, err := strconv.QuotedPrefix(text)
		if err != nil {
			return nil, false
		}
		return f.match(p[1:], text[len(q):], append(got, q))
	case 'd', 'x', 'f', 'o':
		n := 0
		digits := ".0123456789"
		if p[0].verb == 'x' {
			digits = "0123456789abcdef"
		}
		for n < len(text) && (strings.IndexByte(digits, text[n]) >= 0 || n == 0 && text[0] == '-') {
			n++
		}
		if n == 0 || text[:n] == "-" {
			return nil, false
		}
		return f.match(p[1:], text[n:], append(got, text[:n]))
	case 'c':
		_, n := utf8.DecodeRuneInString(text)
		if n == 0 {
			return nil, false
		}
		return f.match(p[1:], text[n:], append(got, text[:n]))
	}
	if len(p) == 1 {
		if text == "" || !f.fits(arg, text) {
			return nil, false
		}
		return append(got, text), true
	}
	// The argument ends where the next literal begins; before an ending that may be anywhere.
	most := len(text)
	if at := seams(text); len(at) > 0 && !f.long[arg] {
		most = at[0]
	}
	for i := 1; i <= most; i++ {
		n := strings.Index(text[i:], p[1].text)
		if n < 0 || i+n > most {
			return nil, false
		}
		i += n
		if !f.fits(arg, text[:i]) {
			continue
		}
		if rest, ok := f.match(p[1:], text[i:], append(got, text[:i])); ok {
			return rest, true
		}
	}
	return nil, false
}

// fits says whether text can be the argument: a name has no seam.
func (f *shape) fits(arg int, text string) bool {
	if f.long[arg] {
		return true
	}
	return len(seams(text)) == 0 && !(f.weak && strings.Contains(text, " "))
}

// say makes the Chinese text.
func (f *shape) say(args []string, depth int) string {
	var b strings.Builder
	for _, p := range f.zh {
		switch {
		case p.verb == 0:
			b.WriteString(p.text)
		case p.arg >= len(args):
		case p.verb == 'w':
			b.WriteString(tell(args[p.arg], depth+1))
		default:
			b.WriteString(args[p.arg])
		}
	}
	return b.String()
}

type forms struct {
	exact   map[string]string
	formats []*shape // those with most text first
}

// known are the forms, made on first need.
var known = sync.OnceValue(func() forms {
	k := forms{exact: make(map[string]string, len(told))}
	for _, f := range told {
		if s := newShape(f); s != nil {
			k.formats = append(k.formats, s)
		} else {
			k.exact[f.en] = f.zh
		}
	}
	// What ends in somebody's words takes any text to its end, so it is tried last.
	rank := func(s *shape) int {
		if last := s.en[len(s.en)-1]; last.verb != 0 && s.long[last.arg] && !s.told[last.arg] {
			return s.weight - mostTold
		}
		return s.weight
	}
	slices.SortStableFunc(k.formats, func(a, b *shape) int { return rank(b) - rank(a) })
	return k
})
