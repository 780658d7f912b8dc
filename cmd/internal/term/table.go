package term

import (
	"strings"
)

// table is a table of Markdown: its lines, the second the row of dashes.
type table struct {
	lines []string
	// more says that the lines go on a table printed before: no head, these widths.
	more   bool
	widths []int
	head   []string
}

const (
	alignLeft = iota
	alignRight
	alignCentre
)

// tableDashes reads the second line of a table: the alignment of each column.
func tableDashes(line string) ([]int, bool) {
	if !strings.Contains(line, "-") {
		return nil, false
	}
	var out []int
	for _, c := range splitCells(line) {
		body := strings.Trim(c, ":")
		if body == "" || strings.Trim(body, "-") != "" {
			return nil, false
		}
		switch {
		case strings.HasPrefix(c, ":") && strings.HasSuffix(c, ":") && len(c) > 1:
			out = append(out, alignCentre)
		case strings.HasSuffix(c, ":"):
			out = append(out, alignRight)
		default:
			out = append(out, alignLeft)
		}
	}
	return out, len(out) > 0
}

// splitCells parts a line at its bars, those in code and behind a backslash aside.
func splitCells(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	var out []string
	var cell strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line) && line[i+1] == '|':
			cell.WriteByte('|')
			i++
		case c == '`':
			n := run(line, i, '`')
			end := closing(line, i+n, n)
			if end < 0 {
				cell.WriteByte(c)
				continue
			}
			cell.WriteString(line[i : end+n])
			i = end + n - 1
		case c == '|':
			out = append(out, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			cell.WriteByte(c)
		}
	}
	if s := strings.TrimSpace(cell.String()); s != "" || !strings.HasSuffix(line, "|") {
		out = append(out, s)
	}
	return out
}

// natural is how wide each column would like to be.
func (x table) natural(t Theme, cols int) []int {
	w := make([]int, cols)
	copy(w, x.widths)
	for i, l := range x.lines {
		if i == 1 && !x.more {
			continue
		}
		for c, cell := range splitCells(l) {
			if c < cols {
				w[c] = max(w[c], spansWidth(inline(t, cell, 0)))
			}
		}
	}
	return w
}

func spansWidth(list []Span) int {
	n := 0
	for _, s := range list {
		n += Width(s.Text)
	}
	return n
}

func (x table) header() []string {
	if x.more {
		return x.head
	}
	return splitCells(x.lines[0])
}

// leastColumn is the narrowest column that is still read as one.
const leastColumn = 6

func (x table) Rows(t Theme, width int) []string {
	head := x.header()
	cols := len(head)
	body := x.lines
	var align []int
	if !x.more {
		if len(x.lines) > 1 {
			align, _ = tableDashes(x.lines[1])
		}
		body = x.lines[min(2, len(x.lines)):]
	}
	for len(align) < cols {
		align = append(align, alignLeft)
	}
	w := x.natural(t, cols)
	room := width - 3*(cols-1)
	if room < min(leastColumn, width)*cols && total(w) > room {
		return x.records(t, head, body, width)
	}
	shrink(w, room)
	var rows []string
	line := func(cells []string, style Style) {
		list := make([][]string, cols)
		widths := make([][]int, cols)
		high := 1
		for c := range cols {
			text := ""
			if c < len(cells) {
				text = cells[c]
			}
			spans := inline(t, text, style)
			list[c] = t.Wrap(spans, max(w[c], 2))
			// The widths of the wrapped rows, without what styles add.
			for _, r := range (Theme{}).Wrap(spans, max(w[c], 2)) {
				widths[c] = append(widths[c], Width(r))
			}
			high = max(high, len(list[c]))
		}
		for r := range high {
			var b strings.Builder
			for c := range cols {
				if c > 0 {
					b.WriteString(t.Paint(Dim, " │ "))
				}
				cell, used := "", 0
				if r < len(list[c]) {
					cell, used = list[c][r], widths[c][r]
				}
				gap := max(0, w[c]-used)
				left := 0
				switch align[c] {
				case alignRight:
					left = gap
				case alignCentre:
					left = gap / 2
				}
				b.WriteString(strings.Repeat(" ", left) + cell)
				if c < cols-1 {
					b.WriteString(strings.Repeat(" ", gap-left))
				}
			}
			rows = append(rows, strings.TrimRight(b.String(), " "))
		}
	}
	if !x.more {
		line(head, Bold)
		var b strings.Builder
		for c := range cols {
			if c > 0 {
				b.WriteString("─┼─")
			}
			b.WriteString(strings.Repeat("─", w[c]))
		}
		rows = append(rows, t.Paint(Dim, b.String()))
	}
	for _, l := range body {
		line(splitCells(l), 0)
	}
	return rows
}

// records is a table for terminals that are too narrow for it: one value a line.
func (x table) records(t Theme, head, body []string, width int) []string {
	var rows []string
	if len(body) == 0 {
		for _, h := range head {
			rows = append(rows, t.Wrap(inline(t, h, Bold), width)...)
		}
		return rows
	}
	for i, l := range body {
		if i > 0 || x.more {
			rows = append(rows, t.Paint(Dim, strings.Repeat("─", min(width, 10))))
		}
		for c, cell := range splitCells(l) {
			var spans []Span
			if c < len(head) && head[c] != "" {
				spans = append(inline(t, head[c], Bold), Span{": ", Bold})
			}
			rows = append(rows, t.Wrap(append(spans, inline(t, cell, 0)...), width)...)
		}
	}
	return rows
}

func total(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}

// shrink takes from the widest columns until all fit into room.
func shrink(w []int, room int) {
	for total(w) > room {
		widest, next := 0, 0
		for i := range w {
			if w[i] > w[widest] {
				widest = i
			}
		}
		for i := range w {
			if w[i] < w[widest] {
				next = max(next, w[i])
			}
		}
		if w[widest] <= 1 {
			return
		}
		w[widest] -= max(1, min(total(w)-room, w[widest]-next))
	}
}
