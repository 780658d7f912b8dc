// Command csv_to_markdown writes a CSV file or text as a Markdown table, aligned by what
// the characters take on screen.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path      string `json:"path,omitempty" jsonschema:"CSV file, relative to the project; or give text"`
	Text      string `json:"text,omitempty" jsonschema:"the CSV itself, instead of path"`
	Delimiter string `json:"delimiter,omitempty" jsonschema:"one character between cells, or tab" default:","`
	Limit     int    `json:"limit,omitempty" jsonschema:"rows to show, without the header" minimum:"1" maximum:"10000" default:"200"`
}

func Run(ctx context.Context, in Args) (string, error) {
	if (in.Path == "") == (in.Text == "") {
		return "", errors.New("give either path or text")
	}
	if in.Path != "" {
		b, err := os.ReadFile(sdk.Path(ctx, in.Path))
		if err != nil {
			return "", err
		}
		in.Text = string(b)
	}
	if in.Limit <= 0 {
		in.Limit = 200
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(in.Text, "\ufeff")))
	r.FieldsPerRecord = -1
	switch d := []rune(in.Delimiter); {
	case in.Delimiter == "tab" || in.Delimiter == "\t":
		r.Comma = '\t'
	case len(d) == 1:
		r.Comma = d[0]
	case len(d) > 1:
		return "", fmt.Errorf("delimiter %q: one character, or tab", in.Delimiter)
	}
	rows, err := r.ReadAll()
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", errors.New("there is no row")
	}
	more := 0
	if len(rows) > in.Limit+1 {
		more = len(rows) - in.Limit - 1
		rows = rows[:in.Limit+1]
	}
	columns := 0
	clean := strings.NewReplacer("\\", "\\\\", "|", "\\|", "\r\n", "<br>", "\n", "<br>", "\t", " ")
	for _, row := range rows {
		columns = max(columns, len(row))
		for i := range row {
			row[i] = clean.Replace(strings.TrimSpace(row[i]))
		}
	}
	align := []byte(strings.Repeat("-", columns))
	for i := range align {
		if numeric(rows[1:], i) {
			align[i] = 'r'
		}
	}
	out := table(rows, align)
	if more > 0 {
		out += fmt.Sprintf("\n%d more rows\n", more)
	}
	return out, nil
}

func numeric(rows [][]string, i int) bool {
	some := false
	for _, r := range rows {
		if i >= len(r) || r[i] == "" {
			continue
		}
		if strings.Trim(r[i], "0123456789.,-+%") != "" || !strings.ContainsAny(r[i], "0123456789") {
			return false
		}
		some = true
	}
	return some
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
	sdk.Serve("csv_to_markdown", "Writes a CSV file or text as an aligned Markdown table", Run, sdk.ReadOnly())
}
