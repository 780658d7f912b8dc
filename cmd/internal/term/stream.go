package term

import "strings"

// Markdown takes Markdown piece by piece and gives blocks as soon as they can't change any
// more: line by line, tables as a whole. Only the last, unfinished block is drawn again
// and again.
type Markdown struct {
	part  string // the line that is being written
	fence string // what closes the open fence, "" outside
	lang  string
	maybe string   // a line that may be the head of a table
	rows  []string // an open table
	tab   table    // what its printed part settled
	blank bool     // the last block was an empty line
	began bool
}

const (
	// maxPart is how many bytes an unfinished line may have before its beginning is printed.
	maxPart = 4 << 10
	// maxTable is how many lines of a table are held back.
	maxTable = 64
)

// Write takes the next piece.
func (m *Markdown) Write(text string) []Block {
	var out []Block
	for {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			break
		}
		line := Clean(m.part + text[:i])
		m.part, text = "", text[i+1:]
		for len(line) > 2*maxPart {
			m.part = line
			out = m.cut(out)
			line, m.part = m.part, ""
		}
		out = m.line(out, line)
	}
	m.part += text
	for len(m.part) > 2*maxPart {
		out = m.cut(out)
	}
	return out
}

// cut prints the beginning of a line that is too long to be drawn again and again.
func (m *Markdown) cut(out []Block) []Block {
	out = m.endTable(out)
	if m.maybe != "" {
		out = m.put(out, mdLine(m.maybe))
		m.maybe = ""
	}
	n := maxPart
	for n > maxPart/2 && m.part[n] != ' ' {
		n--
	}
	if n == maxPart/2 {
		for n = maxPart; n > maxPart-4 && m.part[n]&0xc0 == 0x80; n-- { // not inside a character
		}
	}
	head := Clean(m.part[:n])
	m.part = m.part[n:]
	if m.fence != "" {
		out = append(out, codeLine{head, m.lang})
	} else {
		out = append(out, mdLine(head))
		m.part = strings.TrimLeft(m.part, " ")
	}
	m.began, m.blank = true, false
	return out
}

func (m *Markdown) line(out []Block, line string) []Block {
	trimmed := strings.TrimSpace(line)
	if m.fence != "" {
		if strings.HasPrefix(trimmed, m.fence) && strings.Trim(trimmed, m.fence[:1]) == "" {
			m.fence, m.lang = "", ""
			return out
		}
		return append(out, codeLine{line, m.lang})
	}
	if m.rows != nil {
		if trimmed != "" && strings.Contains(trimmed, "|") {
			m.rows = append(m.rows, line)
			if len(m.rows) >= maxTable {
				out = append(out, m.takeTable())
				m.rows = []string{} // it goes on
			}
			return out
		}
		out = m.endTable(out)
	}
	if m.maybe != "" {
		head := m.maybe
		m.maybe = ""
		if align, ok := tableDashes(trimmed); ok && len(align) == len(splitCells(head)) {
			m.rows, m.tab = []string{head, line}, table{}
			return out
		}
		out = m.put(out, mdLine(head))
	}
	switch {
	case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
		n := run(trimmed, 0, trimmed[0])
		info := strings.TrimSpace(trimmed[n:])
		if !strings.Contains(info, "`") {
			m.fence = trimmed[:n]
			m.lang, _, _ = strings.Cut(info, " ")
			m.began, m.blank = true, false
			return append(out, fenceLine(m.lang))
		}
	case strings.Contains(trimmed, "|") && !strings.HasPrefix(trimmed, ">"):
		m.maybe = line
		return out
	}
	return m.put(out, mdLine(line))
}

// put adds a line; of several empty ones the first counts, and none at the beginning.
func (m *Markdown) put(out []Block, l mdLine) []Block {
	blank := strings.TrimSpace(string(l)) == ""
	if blank && (m.blank || !m.began) {
		return out
	}
	m.blank, m.began = blank, true
	return append(out, l)
}

// takeTable is the table so far, as something that is printed.
func (m *Markdown) takeTable() Block {
	t := table{lines: m.rows, more: m.tab.more, widths: m.tab.widths, head: m.tab.head}
	head := t.header()
	m.tab = table{more: true, head: head, widths: t.natural(Theme{Color: true}, len(head))}
	return t
}

func (m *Markdown) endTable(out []Block) []Block {
	if len(m.rows) > 0 {
		out = append(out, m.takeTable())
		m.began, m.blank = true, false
	}
	m.rows, m.tab = nil, table{}
	return out
}

// Open is the block that is being written, nil for none.
func (m *Markdown) Open() Block {
	part := Clean(m.part)
	switch {
	case m.fence != "":
		if part == "" || strings.HasPrefix(m.fence, strings.TrimSpace(part)) {
			return nil
		}
		return codeLine{part, m.lang}
	case len(m.rows) > 0:
		lines := m.rows
		if strings.Contains(part, "|") {
			lines = append(lines[:len(lines):len(lines)], part)
		}
		return table{lines: lines, more: m.tab.more, widths: m.tab.widths, head: m.tab.head}
	case m.maybe != "":
		if part == "" || strings.Trim(part, "|-: ") == "" {
			return mdLine(m.maybe)
		}
		return mdLines{m.maybe, part}
	case strings.TrimSpace(part) == "" || strings.Trim(part, "`~ ") == "":
		return nil
	}
	return mdLine(part)
}

type mdLines []string

func (m mdLines) Rows(t Theme, width int) []string {
	var rows []string
	for _, l := range m {
		rows = append(rows, mdLine(l).Rows(t, width)...)
	}
	return rows
}

// Close ends the text and gives what was open. The Markdown is new again.
func (m *Markdown) Close() []Block {
	var out []Block
	if m.part != "" {
		part := Clean(m.part)
		m.part = ""
		out = m.line(out, part)
	}
	out = m.endTable(out)
	if m.maybe != "" {
		out = m.put(out, mdLine(m.maybe))
	}
	*m = Markdown{}
	return out
}
