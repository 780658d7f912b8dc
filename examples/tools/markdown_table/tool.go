// Command markdown_table lays out the tables of a Markdown text anew, aligned by what the
// characters take on screen. Text outside of tables and in fenced code stays as it is.
package main

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text string `json:"text" jsonschema:"Markdown with one or more tables"`
}

func Run(_ context.Context, in Args) (string, error) {
	lines := strings.Split(strings.ReplaceAll(in.Text, "\r\n", "\n"), "\n")
	var out []string
	fence, tables := "", 0
	for i := 0; i < len(lines); i++ {
		l := strings.TrimSpace(lines[i])
		if fence != "" {
			if strings.HasPrefix(l, fence) {
				fence = ""
			}
			out = append(out, lines[i])
			continue
		}
		for _, f := range []string{"```", "~~~"} {
			if strings.HasPrefix(l, f) {
				fence = f
			}
		}
		if fence != "" || i+1 >= len(lines) || !strings.Contains(l, "|") {
			out = append(out, lines[i])
			continue
		}
		head := cells(l)
		align, ok := rule(cells(strings.TrimSpace(lines[i+1])))
		if !ok || len(align) != len(head) {
			out = append(out, lines[i])
			continue
		}
		rows := [][]string{head}
		for i += 2; i < len(lines) && strings.Contains(lines[i], "|"); i++ {
			r := cells(strings.TrimSpace(lines[i]))
			if len(r) > len(align) {
				return "", errors.New("a row has more cells than its header: " + strings.TrimSpace(lines[i]))
			}
			rows = append(rows, r)
		}
		i--
		out = append(out, strings.TrimSuffix(table(rows, align), "\n"))
		tables++
	}
	if tables == 0 {
		return "", errors.New("there is no table: a header row, then a row such as | --- | --- |")
	}
	return strings.Join(out, "\n"), nil
}

// cells splits a row at | that is neither escaped nor in a code span.
func cells(l string) []string {
	l = strings.TrimPrefix(l, "|")
	var out []string
	var b strings.Builder
	code := false
	for i := 0; i < len(l); i++ {
		switch c := l[i]; {
		case c == '\\' && i+1 < len(l):
			b.WriteString(l[i : i+2])
			i++
		case c == '`':
			code = !code && strings.Contains(l[i+1:], "`")
			b.WriteByte(c)
		case c == '|' && !code:
			out = append(out, strings.TrimSpace(b.String()))
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	if rest := strings.TrimSpace(b.String()); rest != "" || !strings.HasSuffix(l, "|") {
		out = append(out, rest)
	}
	return out
}

func rule(cells []string) ([]byte, bool) {
	var align []byte
	for _, c := range cells {
		l, r := strings.HasPrefix(c, ":"), strings.HasSuffix(c, ":")
		body := strings.Trim(c, ":")
		if body == "" || strings.Trim(body, "-") != "" {
			return nil, false
		}
		switch {
		case l && r:
			align = append(align, 'c')
		case l:
			align = append(align, 'l')
		case r:
			align = append(align, 'r')
		default:
			align = append(align, '-')
		}
	}
	return align, len(align) > 0
}

// width is the number of columns that s takes in a terminal: two for East Asian wide and
// fullwidth characters and most emoji, none for marks that combine.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0x33ff, r >= 0x3400 && r <= 0x4dbf,
			r >= 0x4e00 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97f, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
			r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
			r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
			n += 2
		default:
			n++
		}
	}
	return n
}

// table lays rows out; align holds l, c, r or - (not said) for each column.
func table(rows [][]string, align []byte) string {
	w := make([]int, len(align))
	for _, r := range rows {
		for i, c := range r {
			w[i] = max(w[i], width(c), 3)
		}
	}
	var b strings.Builder
	for n, r := range rows {
		for i := range align {
			c := ""
			if i < len(r) {
				c = r[i]
			}
			pad := w[i] - width(c)
			left := 0
			switch align[i] {
			case 'r':
				left = pad
			case 'c':
				left = pad / 2
			}
			b.WriteString("| " + strings.Repeat(" ", left) + c + strings.Repeat(" ", pad-left) + " ")
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, a := range align {
			l, r := "-", "-"
			if a == 'l' || a == 'c' {
				l = ":"
			}
			if a == 'r' || a == 'c' {
				r = ":"
			}
			b.WriteString("| " + l + strings.Repeat("-", w[i]-2) + r + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}
func main() {
	sdk.Serve("markdown_table", "Aligns the tables of a Markdown text, Chinese text too", Run, sdk.ReadOnly())
}
