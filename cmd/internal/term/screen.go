package term

import (
	"fmt"
	"io"
	"strings"
)

// Screen prints blocks for good and keeps some rows below them that are drawn again as
// they change. It is not safe for use by several goroutines.
//
// It never asks the terminal anything and uses only sequences that every terminal since
// the VT100 knows, and one (the mark around a frame) that others ignore.
type Screen struct {
	w      io.Writer
	theme  Theme
	width  int
	height int

	live  []string // rows that are drawn below what was printed
	caret int      // row of the caret in live
	shown string   // prefix of the caret

	kept    []Block // the newest of what was printed
	rows    int     // rows printed so far, at most enough to know that the screen is ours
	bytes   int     // roughly what kept holds
	foreign bool    // the screen may hold rows of others
}

// What is kept for drawing the screen again.
const (
	maxKept      = 600
	maxKeptBytes = 1 << 20
)

// NewScreen returns a screen on w.
func NewScreen(w io.Writer, t Theme, width, height int) *Screen {
	s := &Screen{w: w, theme: t, foreign: true}
	s.size(width, height)
	return s
}

func (s *Screen) size(width, height int) {
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	s.width, s.height = width, height
}

// Theme is how styles are written on it.
func (s *Screen) Theme() Theme { return s.theme }

// Width is the number of columns that rows may take: one less than the terminal has, so
// that no row fills its last column, where terminals differ.
func (s *Screen) Width() int { return max(s.width-1, 4) }

// Height is the number of rows of the terminal.
func (s *Screen) Height() int { return s.height }

const (
	frameStart = "\x1b[?2026h\x1b[?25l"
	frameEnd   = "\x1b[?25h\x1b[?2026l"
)

// Frame prints blocks and draws the live rows below them, with the cursor in row caret
// behind prefix. Nothing is written when nothing has changed.
func (s *Screen) Frame(print []Block, live []string, caret int, prefix string) error {
	if most := max(1, s.height-1); len(live) > most {
		from := min(len(live)-most, max(0, caret))
		// The caret stays visible.
		live, caret = live[from:min(len(live), from+most)], caret-from
	}
	if len(print) == 0 && caret == s.caret && prefix == s.shown && equal(live, s.live) {
		return nil
	}
	var b strings.Builder
	b.WriteString(frameStart)
	s.up(&b, s.caret)
	for _, x := range print {
		for _, r := range x.Rows(s.theme, s.Width()) {
			b.WriteString(r)
			b.WriteString("\x1b[K\r\n")
			s.rows++
		}
		s.keep(x)
	}
	s.draw(&b, live, caret, prefix)
	_, err := io.WriteString(s.w, b.String())
	return err
}

// up goes to the beginning of the row n rows above.
func (s *Screen) up(b *strings.Builder, n int) {
	b.WriteByte('\r')
	if n > 0 {
		fmt.Fprintf(b, "\x1b[%dA", n)
	}
}

// draw writes the live rows from the present row on and places the cursor. The text before
// the caret is written again instead of counting columns: so the cursor stands where the
// terminal itself thinks the text ends.
func (s *Screen) draw(b *strings.Builder, live []string, caret int, prefix string) {
	for i, r := range live {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(r)
		b.WriteString("\x1b[K")
	}
	b.WriteString("\x1b[J")
	s.up(b, len(live)-1-caret)
	b.WriteString(prefix)
	b.WriteString(frameEnd)
	s.live, s.caret, s.shown = append(s.live[:0:0], live...), caret, prefix
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (s *Screen) keep(x Block) {
	s.kept = append(s.kept, x)
	s.bytes += size(x)
	for len(s.kept) > 1 && (len(s.kept) > maxKept || s.bytes > maxKeptBytes) {
		s.bytes -= size(s.kept[0])
		s.kept[0] = nil
		s.kept = s.kept[1:]
	}
}

func size(x Block) int {
	switch x := x.(type) {
	case Text:
		return len(x.Text)
	case mdLine:
		return len(x)
	case codeLine:
		return len(x.text)
	case table:
		n := 0
		for _, l := range x.lines {
			n += len(l)
		}
		return n
	case Diff:
		return len(x)
	}
	return 64
}

// SetSize tells it that the terminal has another size; Redraw draws it then.
func (s *Screen) SetSize(width, height int) (changed bool) {
	w, h := s.width, s.height
	s.size(width, height)
	return w != s.width || h != s.height
}

// Redraw draws the whole screen again with these live rows: what stands there afterwards is
// what a screen of this size would show from the beginning.
func (s *Screen) Redraw(live []string, caret int, prefix string) error {
	if most := max(1, s.height-1); len(live) > most {
		from := min(len(live)-most, max(0, caret))
		live, caret = live[from:min(len(live), from+most)], caret-from
	}
	room := max(0, s.height-max(1, len(live)))
	var rows []string
	for i := len(s.kept) - 1; i >= 0 && len(rows) < room; i-- {
		rows = append(s.kept[i].Rows(s.theme, s.Width()), rows...)
	}
	rows = rows[max(0, len(rows)-room):]
	var b strings.Builder
	b.WriteString(frameStart)
	if s.foreign && s.rows < s.height {
		// What others have written is moved out of the way, not over.
		fmt.Fprintf(&b, "\x1b[%d;1H%s", s.height, strings.Repeat("\r\n", s.height))
	}
	s.foreign = false
	b.WriteString("\x1b[H")
	for _, r := range rows {
		b.WriteString(r)
		b.WriteString("\x1b[K\r\n")
	}
	s.draw(&b, live, caret, prefix)
	_, err := io.WriteString(s.w, b.String())
	return err
}

// Leave removes the live rows; the cursor stands below what was printed.
func (s *Screen) Leave() error {
	var b strings.Builder
	b.WriteString(frameStart)
	s.up(&b, s.caret)
	b.WriteString("\x1b[J" + frameEnd)
	s.live, s.caret, s.shown = nil, 0, ""
	_, err := io.WriteString(s.w, b.String())
	return err
}
