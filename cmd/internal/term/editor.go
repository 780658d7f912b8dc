package term

import (
	"fmt"
	"sort"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Action is what a key means to the owner of the editor.
type Action int

// The actions. Edited means that only the text or the caret has changed.
const (
	Edited Action = iota
	Submit
	AltSubmit
	Interrupt
	EOF
	Redraw
	Suspend
	Reveal
	Escape
)

// Candidate is one completion.
type Candidate struct{ Text, Note string }

// Editor is an editor of a few lines with a history. The caret moves by what a person
// takes for one character. It draws nothing; View gives rows.
type Editor struct {
	// Complete returns what may stand in place of the text from byte start to the caret.
	Complete func(before string) (start int, list []Candidate)

	text []rune
	at   int
	kill []rune
	undo []state

	past  []string
	index int    // in past; len(past) is the text being written
	draft string // what was being written before the history was looked at

	pastes []string // long pastes, each shown as one character

	menu     []Candidate
	menuAt   int // -1 before the first is chosen
	menuFrom int // rune where the completed word begins

	searching bool
	wanted    string
	foundAt   int
}

type state struct {
	text []rune
	at   int
}

// firstPaste is the character that stands for the first long paste.
const firstPaste = 0xF0000

// longPaste is from where on pasted text is shown as one character, in characters and
// lines.
const (
	longPaste      = 1500
	longPasteLines = 12
)

// Text is what stands in the editor, pastes whole.
func (e *Editor) Text() string { return e.expand(e.text) }

func (e *Editor) expand(list []rune) string {
	var b strings.Builder
	for _, r := range list {
		if i := int(r) - firstPaste; i >= 0 && i < len(e.pastes) {
			b.WriteString(e.pastes[i])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Empty says whether nothing stands in the editor.
func (e *Editor) Empty() bool { return len(e.text) == 0 }

// Set replaces the text; the caret stands at its end.
func (e *Editor) Set(s string) {
	e.text = e.text[:0]
	e.at = 0
	e.insert(s)
	e.menu, e.searching = nil, false
}

// Take returns the text and empties the editor.
func (e *Editor) Take() string {
	s := e.Text()
	e.text, e.at, e.pastes, e.undo = nil, 0, nil, nil
	e.menu, e.searching = nil, false
	e.index = len(e.past)
	return s
}

// Remember adds a text to the history.
func (e *Editor) Remember(s string) {
	if strings.TrimSpace(s) != "" && (len(e.past) == 0 || e.past[len(e.past)-1] != s) {
		e.past = append(e.past, s)
	}
	e.index = len(e.past)
}

func (e *Editor) insert(s string) {
	s = safe(s)
	if n := len([]rune(s)); n > longPaste || strings.Count(s, "\n") >= longPasteLines {
		e.pastes = append(e.pastes, s)
		s = string(rune(firstPaste + len(e.pastes) - 1))
	}
	list := []rune(s)
	e.text = append(e.text[:e.at], append(list, e.text[e.at:]...)...)
	e.at += len(list)
}

// safe takes out of a text what must not reach the terminal as it is; tabs stay.
func safe(s string) string {
	parts := strings.Split(s, "\t")
	for i, p := range parts {
		parts[i] = Clean(p)
	}
	return strings.Join(parts, "\t")
}

func (e *Editor) save() {
	if n := len(e.undo); n > 0 && string(e.undo[n-1].text) == string(e.text) {
		return
	}
	e.undo = append(e.undo, state{append([]rune(nil), e.text...), e.at})
	if len(e.undo) > 100 {
		e.undo = e.undo[1:]
	}
}

// Handle takes a key.
func (e *Editor) Handle(k Key) Action {
	if e.searching {
		if act, done := e.search(k); done {
			return act
		}
	}
	if e.menu != nil && k.Code != KeyTab && k.Code != KeyBackTab {
		e.menu = nil
		if k.Code == KeyEsc {
			return Edited
		}
	}
	switch k.Code {
	case KeyRune:
		if k.Rune == ' ' || len(e.undo) == 0 {
			e.save()
		}
		e.insert(string(k.Rune))
	case KeyPaste:
		e.save()
		e.insert(k.Text)
	case KeyShiftEnter:
		e.insert("\n")
	case KeyEnter:
		if e.at > 0 && e.text[e.at-1] == '\\' {
			e.text[e.at-1] = '\n'
			return Edited
		}
		return Submit
	case KeyAltEnter:
		return AltSubmit
	case KeyTab:
		e.tab(1)
	case KeyBackTab:
		e.tab(-1)
	case KeyBackspace:
		e.cut(e.before(), e.at, false)
	case KeyDelete:
		e.cut(e.at, e.after(), false)
	case KeyAltBackspace:
		e.cut(e.wordLeft(), e.at, true)
	case KeyLeft:
		e.at = e.before()
	case KeyRight:
		e.at = e.after()
	case KeyWordLeft:
		e.at = e.wordLeft()
	case KeyWordRight:
		e.at = e.wordRight()
	case KeyHome:
		e.at = e.lineStart()
	case KeyEnd:
		e.at = e.lineEnd()
	case KeyUp:
		e.vertical(-1)
	case KeyDown:
		e.vertical(1)
	case KeyEsc:
		return Escape
	case KeyAlt:
		if k.Rune == 'd' {
			e.cut(e.at, e.wordRight(), true)
		}
	case KeyCtrl:
		return e.control(k.Rune)
	}
	return Edited
}

func (e *Editor) control(r rune) Action {
	switch r {
	case 'a':
		e.at = e.lineStart()
	case 'e':
		e.at = e.lineEnd()
	case 'b':
		e.at = e.before()
	case 'f':
		e.at = e.after()
	case 'p':
		e.vertical(-1)
	case 'n':
		e.vertical(1)
	case 'd':
		if len(e.text) == 0 {
			return EOF
		}
		e.cut(e.at, e.after(), false)
	case 'k':
		end := e.lineEnd()
		if end == e.at && end < len(e.text) {
			end++
		}
		e.cut(e.at, end, true)
	case 'u':
		e.cut(e.lineStart(), e.at, true)
	case 'w':
		e.cut(e.wordLeft(), e.at, true)
	case 'y':
		e.save()
		e.insert(string(e.kill))
	case '_':
		if n := len(e.undo); n > 0 {
			e.text, e.at = e.undo[n-1].text, e.undo[n-1].at
			e.undo = e.undo[:n-1]
		}
	case 'r':
		e.searching, e.wanted, e.foundAt = true, "", len(e.past)
	case 'c':
		return Interrupt
	case 'l':
		return Redraw
	case 'z':
		return Suspend
	case 'o':
		return Reveal
	}
	return Edited
}

func (e *Editor) cut(from, to int, keep bool) {
	if from >= to {
		return
	}
	e.save()
	if keep {
		e.kill = append([]rune(nil), e.text[from:to]...)
	}
	e.text = append(e.text[:from], e.text[to:]...)
	e.at = from
}

func (e *Editor) lineStart() int {
	i := e.at
	for i > 0 && e.text[i-1] != '\n' {
		i--
	}
	return i
}

func (e *Editor) lineEnd() int {
	i := e.at
	for i < len(e.text) && e.text[i] != '\n' {
		i++
	}
	return i
}

// before is where the character before the caret begins, after where the one behind it
// ends.
func (e *Editor) before() int {
	if e.at == 0 {
		return 0
	}
	from := e.lineStart()
	if from == e.at {
		return e.at - 1 // the line end
	}
	last := from
	for g := graphemes.FromString(string(e.text[from:e.at])); g.Next(); {
		if n := len([]rune(g.Value())); from+n < e.at {
			from += n
			last = from
		}
	}
	return last
}

func (e *Editor) after() int {
	if e.at == len(e.text) {
		return e.at
	}
	g := graphemes.FromString(string(e.text[e.at:min(len(e.text), e.at+64)]))
	g.Next()
	return e.at + len([]rune(g.Value()))
}

func (e *Editor) wordLeft() int {
	i := e.at
	for i > 0 && !isWordRune(e.text[i-1]) {
		i--
	}
	for i > 0 && isWordRune(e.text[i-1]) {
		i--
	}
	if i == e.at && i > 0 {
		i--
	}
	return i
}

func (e *Editor) wordRight() int {
	i := e.at
	for i < len(e.text) && !isWordRune(e.text[i]) {
		i++
	}
	for i < len(e.text) && isWordRune(e.text[i]) {
		i++
	}
	return i
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// vertical moves between lines, and beyond them in the history.
func (e *Editor) vertical(d int) {
	start, end := e.lineStart(), e.lineEnd()
	if d < 0 && start == 0 || d > 0 && end == len(e.text) {
		e.travel(d)
		return
	}
	column := Width(e.label(e.text[start:e.at]))
	if d < 0 {
		e.at = start - 1
		start = e.lineStart()
	} else {
		start = end + 1
	}
	e.at = start
	n := 0
	for e.at < len(e.text) && e.text[e.at] != '\n' {
		next := e.after()
		n += Width(e.label(e.text[e.at:next]))
		if n > column {
			break
		}
		e.at = next
	}
}

func (e *Editor) travel(d int) {
	to := e.index + d
	if to < 0 || to > len(e.past) {
		return
	}
	if e.index == len(e.past) {
		e.draft = e.Text()
	}
	e.index = to
	if to == len(e.past) {
		e.Set(e.draft)
	} else {
		e.Set(e.past[to])
	}
}

// search takes a key while the history is searched. done is false when the key is meant
// for the text that was found.
func (e *Editor) search(k Key) (Action, bool) {
	look := func(from int) {
		for i := min(from, len(e.past)-1); i >= 0; i-- {
			if strings.Contains(e.past[i], e.wanted) {
				e.foundAt = i
				return
			}
		}
	}
	switch {
	case k.Code == KeyRune:
		e.wanted += string(k.Rune)
		look(len(e.past) - 1)
		return Edited, true
	case k.Code == KeyBackspace:
		if r := []rune(e.wanted); len(r) > 0 {
			e.wanted = string(r[:len(r)-1])
			look(len(e.past) - 1)
		}
		return Edited, true
	case k.Code == KeyCtrl && k.Rune == 'r':
		look(e.foundAt - 1)
		return Edited, true
	case k.Code == KeyEsc || k.Code == KeyCtrl && (k.Rune == 'g' || k.Rune == 'c'):
		e.searching = false
		return Edited, true
	}
	e.searching = false
	if e.foundAt < len(e.past) && e.wanted != "" {
		e.Set(e.past[e.foundAt])
		e.index = e.foundAt
	}
	return Edited, k.Code == KeyEnter
}

func (e *Editor) tab(d int) {
	if e.menu != nil {
		e.menuAt = (e.menuAt + d + len(e.menu)) % len(e.menu)
		if e.menuAt < 0 {
			e.menuAt = len(e.menu) - 1
		}
		e.replace(e.menu[e.menuAt].Text)
		return
	}
	if e.Complete == nil {
		return
	}
	before := string(e.text[:e.at])
	start, list := e.Complete(before)
	if len(list) == 0 {
		return
	}
	e.save()
	e.menuFrom = len([]rune(before[:start]))
	if len(list) == 1 {
		text := list[0].Text
		if !strings.HasSuffix(text, "/") {
			text += " "
		}
		e.replace(text)
		return
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Text < list[j].Text })
	common := list[0].Text
	for _, c := range list[1:] {
		for !strings.HasPrefix(c.Text, common) {
			r := []rune(common)
			common = string(r[:len(r)-1])
		}
	}
	if len(common) > len(before[start:]) {
		e.replace(common)
	}
	e.menu, e.menuAt = list, -1
}

func (e *Editor) replace(text string) {
	list := []rune(safe(text))
	e.text = append(e.text[:e.menuFrom], append(list, e.text[e.at:]...)...)
	e.at = e.menuFrom + len(list)
}

// label is runes as they are shown: a long paste by its size, a tab as spaces.
func (e *Editor) label(list []rune) string {
	var b strings.Builder
	for _, r := range list {
		if i := int(r) - firstPaste; i >= 0 && i < len(e.pastes) {
			fmt.Fprintf(&b, "[paste %d: %d lines, %d characters]", i+1, strings.Count(e.pastes[i], "\n")+1, len([]rune(e.pastes[i])))
			continue
		}
		if r == '\t' {
			b.WriteString("    ")
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// View is the editor as rows of at most width columns and at most high rows, the row of
// the caret, and what stands before the caret in it.
func (e *Editor) View(t Theme, prompt string, width, high int) (rows []string, caret int, prefix string) {
	if e.searching {
		found := ""
		if e.foundAt < len(e.past) {
			found = strings.ReplaceAll(Clean(e.past[e.foundAt]), "\n", " ")
		}
		head := "(" + e.wanted + ") "
		row := head + Cut(found, max(1, width-Width(head)))
		return []string{row}, 0, "(" + e.wanted
	}
	indent := strings.Repeat(" ", Width(prompt))
	room := max(2, width-Width(prompt))
	row, used, lead := "", 0, t.Paint(Bold|Cyan, prompt)
	end := func() {
		rows = append(rows, lead+row)
		row, used, lead = "", 0, indent
	}
	mark := func() { caret, prefix = len(rows), lead+row }
	for i := 0; i < len(e.text); {
		if e.text[i] == '\n' {
			if i == e.at {
				mark()
			}
			end()
			i++
			continue
		}
		j := i
		for j < len(e.text) && e.text[j] != '\n' {
			j++
		}
		at := i
		for g := graphemes.FromString(string(e.text[i:j])); g.Next(); {
			n := len([]rune(g.Value()))
			shown := e.label(e.text[at : at+n])
			if w := Width(shown); w > room {
				shown = Cut(shown, room)
			}
			w := Width(shown)
			if used+w > room {
				end()
			}
			if at <= e.at && e.at < at+n {
				mark()
			}
			row += shown
			used += w
			at += n
		}
		i = j
	}
	if e.at == len(e.text) {
		if used >= room {
			end()
		}
		mark()
	}
	end()
	if len(rows) > high {
		from := min(max(0, caret-high/2), len(rows)-high)
		rows, caret = rows[from:from+high], caret-from
	}
	return append(rows, e.menuRows(t, width, high)...), caret, prefix
}

// menuRows are the completions, those around the chosen one.
func (e *Editor) menuRows(t Theme, width, high int) []string {
	if e.menu == nil {
		return nil
	}
	high = min(8, max(2, high-1))
	from := min(max(0, e.menuAt-high/2), max(0, len(e.menu)-high))
	var rows []string
	for i := from; i < len(e.menu) && i < from+high; i++ {
		c := e.menu[i]
		text := "  " + Cut(Clean(c.Text), width-2)
		if i == e.menuAt {
			text = "> " + Cut(Clean(c.Text), width-2)
		}
		if room := width - Width(text) - 2; c.Note != "" && room > 8 {
			pad := max(0, 14-Width(text))
			text += strings.Repeat(" ", min(pad, max(0, room-8))) + "  " + Cut(c.Note, room-min(pad, room-8))
		}
		style := Dim
		if i == e.menuAt {
			style = Bold
		}
		rows = append(rows, t.Paint(style, Cut(text, width)))
	}
	if len(e.menu) > from+high || from > 0 {
		rows = append(rows, t.Paint(Dim, fmt.Sprintf("  %d/%d", max(1, e.menuAt+1), len(e.menu))))
	}
	return rows
}
