// Package term owns what stands on a terminal: widths of text, keys, a line editor,
// Markdown as it streams in, and a screen whose lower part is redrawn in place.
//
// It knows nothing of conversations, models or commands: it is given texts and keys and
// answers with rows. What it prints carries no control character of the text's own, so
// that neither a model nor a file can drive the terminal.
package term

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/mattn/go-runewidth"
)

// cells measures as terminals do: characters of ambiguous width take one column, whatever
// the locale says.
var cells = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

// Width is the number of columns that clean text takes.
func Width(s string) int {
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf || s[i] < 0x20 {
			ascii = false
			break
		}
	}
	if ascii {
		return len(s)
	}
	return cells.StringWidth(s)
}

// Cut is s cut to at most width columns, with … where something is missing.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	var b strings.Builder
	n := 0
	for g := graphemes.FromString(s); g.Next(); {
		w := Width(g.Value())
		if n+w > width-1 {
			break
		}
		n += w
		b.WriteString(g.Value())
	}
	return b.String() + "…"
}

// tabStop is how many columns a tab is wide.
const tabStop = 4

// Clean makes text safe to print: no control characters but line ends, tabs as spaces,
// nothing that changes the direction of writing, valid UTF-8.
func Clean(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0x7f || c < 0x20 && c != '\n' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	column := 0
	for _, r := range s {
		switch {
		case r == '\n':
			column = 0
			b.WriteByte('\n')
		case r == '\t':
			n := tabStop - column%tabStop
			column += n
			b.WriteString("    "[:n])
		case hidden(r):
		default:
			column++
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029, r == 0xfeff:
		return true
	case r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// Style is how a piece of text looks; styles may be joined with |.
type Style uint16

// The styles. They use the terminal's own colours, and only those that can be read on
// light and on dark backgrounds.
const (
	Bold Style = 1 << iota
	Italic
	Underline
	Strike
	Dim
	Red
	Green
	Cyan
	Magenta
)

var sgr = []struct {
	s    Style
	code string
}{{Bold, "1"}, {Dim, "2"}, {Italic, "3"}, {Underline, "4"}, {Strike, "9"}, {Red, "31"}, {Green, "32"}, {Cyan, "36"}, {Magenta, "35"}}

// Span is a piece of text of one style.
type Span struct {
	Text  string
	Style Style
}

// Theme says how styles are written. The zero value writes none.
type Theme struct{ Color bool }

// Paint is the text with its style.
func (t Theme) Paint(s Style, text string) string {
	if !t.Color || s == 0 || text == "" {
		return text
	}
	var b strings.Builder
	b.WriteString("\x1b[")
	first := true
	for _, x := range sgr {
		if s&x.s == 0 {
			continue
		}
		if !first {
			b.WriteByte(';')
		}
		first = false
		b.WriteString(x.code)
	}
	b.WriteByte('m')
	b.WriteString(text)
	b.WriteString("\x1b[0m")
	return b.String()
}

// paintAll writes spans one after another.
func (t Theme) paintAll(spans []Span) string {
	var b strings.Builder
	for i := 0; i < len(spans); {
		j, text := i+1, spans[i].Text
		for j < len(spans) && spans[j].Style == spans[i].Style {
			text += spans[j].Text
			j++
		}
		b.WriteString(t.Paint(spans[i].Style, text))
		i = j
	}
	return b.String()
}

// piece is something that is not broken: a word, one wide character, or space.
type piece struct {
	Span
	width int
	space bool
	glue  bool // belongs to what stands before it: 。 does not begin a row
}

// noStart are characters that do not begin a row, noEnd those that do not end one.
const (
	noStart = "、。，．：；？！）］｝〉》」』】”’…—～·,.:;?!)]}%"
	noEnd   = "（［｛〈《「『【“‘([{"
)

func pieces(spans []Span) []piece {
	var out []piece
	for _, sp := range spans {
		var word strings.Builder
		width := 0
		flush := func() {
			if word.Len() > 0 {
				out = append(out, piece{Span: Span{word.String(), sp.Style}, width: width})
				word.Reset()
				width = 0
			}
		}
		if isASCII(sp.Text) {
			for i := 0; i < len(sp.Text); {
				j := i
				blank := sp.Text[i] == ' '
				for j < len(sp.Text) && (sp.Text[j] == ' ') == blank {
					j++
				}
				out = append(out, piece{Span: Span{sp.Text[i:j], sp.Style}, width: j - i, space: blank})
				i = j
			}
			continue
		}
		for g := graphemes.FromString(sp.Text); g.Next(); {
			v := g.Value()
			w := Width(v)
			switch {
			case v == " ":
				flush()
				out = append(out, piece{Span: Span{v, sp.Style}, width: 1, space: true})
			case w >= 2 || strings.Contains(noStart, v) && word.Len() == 0:
				flush()
				out = append(out, piece{Span: Span{v, sp.Style}, width: w, glue: strings.Contains(noStart, v)})
			default:
				word.WriteString(v)
				width += w
			}
		}
		flush()
	}
	// Words that meet without a space between them, such as parts of one word in two
	// styles, are not parted.
	for i := 1; i < len(out); i++ {
		a, b := out[i-1], &out[i]
		if !a.space && !b.space && (a.width == len(a.Text) && b.width == len(b.Text) || strings.HasSuffix(a.Text, "(") || strings.Contains(noEnd, a.Text)) {
			b.glue = true
		}
	}
	return out
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Wrap breaks spans into rows of at most width columns: at spaces, between wide
// characters, and inside words only where one is wider than a row. No text is lost but the
// spaces at which a row was broken.
func (t Theme) Wrap(spans []Span, width int) []string {
	width = max(width, 2)
	list := pieces(spans)
	var rows []string
	var row []Span
	used := 0
	end := func() {
		for len(row) > 0 && strings.TrimRight(row[len(row)-1].Text, " ") == "" {
			row = row[:len(row)-1]
		}
		if n := len(row); n > 0 {
			row[n-1].Text = strings.TrimRight(row[n-1].Text, " ")
		}
		rows = append(rows, t.paintAll(row))
		row, used = nil, 0
	}
	for i := 0; i < len(list); {
		// What hangs together.
		j, w := i+1, list[i].width
		for j < len(list) && list[j].glue && w+list[j].width <= width {
			w += list[j].width
			j++
		}
		if used+w > width {
			if list[i].space {
				if used > 0 {
					end()
				}
				i++
				continue
			}
			if used > 0 {
				end()
			}
		}
		if list[i].space && used == 0 && len(rows) > 0 {
			i++ // a broken row begins with its word
			continue
		}
		for ; i < j; i++ {
			p := list[i]
			for p.width > width { // wider than a row
				head, n := "", 0
				rest := p.Text
				for g := graphemes.FromString(p.Text); g.Next(); {
					gw := Width(g.Value())
					if n+gw > width-used {
						break
					}
					head += g.Value()
					n += gw
					rest = p.Text[len(head):]
				}
				if head == "" {
					if used == 0 {
						break // one character wider than the row
					}
					end()
					continue
				}
				row = append(row, Span{head, p.Style})
				used += n
				p.Text, p.width = rest, p.width-n
				end()
			}
			if used+p.width > width && used > 0 {
				end()
			}
			row = append(row, p.Span)
			used += p.width
		}
	}
	if len(row) > 0 || len(rows) == 0 {
		end()
	}
	return rows
}

// wrapWith wraps text behind a prefix; further rows stand behind the second prefix of the
// same width.
func (t Theme) wrapWith(first, rest string, spans []Span, width int) []string {
	w := width - Width(first)
	if w < 5 && Width(first) > 2 {
		first, rest = strings.TrimLeft(first, " "), ""
		w = width - Width(first)
	}
	if w < 3 {
		return t.Wrap(append([]Span{{first, Dim}}, spans...), width)
	}
	rows := t.Wrap(spans, w)
	pf, pr := t.Paint(Dim, first), t.Paint(Dim, rest)
	for i := range rows {
		if i == 0 {
			rows[i] = pf + rows[i]
		} else {
			rows[i] = pr + rows[i]
		}
	}
	return rows
}
