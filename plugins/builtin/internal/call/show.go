package call

import (
	"fmt"
	"strings"

	"github.com/lingjiyidong/lj/core/workspace"
)

// Bounds of what one result shows of a file.
const (
	MaxLines = 2000
	MaxBytes = 100 << 10
	MaxLine  = 2000 // characters of one line
)

// Page is a part of a text, whole lines.
type Page struct {
	Text        string
	First, Last int // lines, from 1; Last < First for an empty page
	Total       int
	CutLines    int // lines of which only the beginning is shown
}

// Cut takes up to limit lines from line first on, within maxBytes.
func Cut(text string, first, limit, maxBytes int) Page {
	total := workspace.CountLines(text)
	pg := Page{First: first, Last: first - 1, Total: total}
	rest := text
	for i := 1; i < first && rest != ""; i++ {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	var sb strings.Builder
	for n := 0; n < limit && rest != ""; n++ {
		line, tail, more := strings.Cut(rest, "\n")
		shown := line
		cut := false
		if len(line) > MaxLine {
			if s := firstRunes(line, MaxLine); len(s) < len(line) {
				shown, cut = fmt.Sprintf("%s… [%d more characters of this line]", s, len([]rune(line))-MaxLine), true
			}
		}
		if sb.Len()+len(shown)+1 > maxBytes && n > 0 {
			break
		}
		if cut {
			pg.CutLines++
		}
		sb.WriteString(shown)
		if more {
			sb.WriteByte('\n')
		}
		pg.Last++
		rest = tail
	}
	pg.Text = sb.String()
	return pg
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// Whole says whether the page is the whole text, uncut.
func (p Page) Whole() bool { return p.First <= 1 && p.Last >= p.Total && p.CutLines == 0 }

// Quote is a short indented excerpt.
func Quote(text string, lines, bytes int) string {
	pg := Cut(text, 1, lines, bytes)
	out := "  " + strings.ReplaceAll(strings.TrimSuffix(pg.Text, "\n"), "\n", "\n  ")
	if pg.Last < pg.Total {
		out += fmt.Sprintf("\n  … %d more lines", pg.Total-pg.Last)
	}
	return out
}
