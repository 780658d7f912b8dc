package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Ends is how the lines of a text end.
type Ends string

// The line ends.
const (
	LF    Ends = "LF"
	CRLF  Ends = "CRLF"
	CR    Ends = "CR"
	Mixed Ends = "mixed line ends"
	None  Ends = "" // a single line without an end
)

// ErrBinary is returned, wrapped, for bytes that are not text.
var ErrBinary = errors.New("binary file")

// Text is a file's content as the model sees it, valid UTF-8 with \n line ends and no
// byte order mark, together with the way back to the very bytes. It is immutable.
type Text struct {
	Raw []byte
	// LF is the text.
	LF string
	// Encoding is what the bytes are taken for; Rivals are other encodings that are about
	// as plausible.
	Encoding *Encoding
	Rivals   []*Encoding
	BOM      bool
	Ends     Ends

	bom   int
	same  bool // LF is Raw after the mark, byte for byte
	lines []line
}

// line is one line: where its bytes begin, where its line end begins, where the next line
// begins, and where its text begins in LF.
type line struct{ raw, end, next, txt int }

// Decode reads bytes as text. The error is ErrBinary when they are none. Undecodable
// bytes do not fail: they are shown as \xNN, under the encoding Bytes.
func Decode(raw []byte) (*Text, error) {
	t := &Text{Raw: raw, Encoding: UTF8}
	switch {
	case bytes.HasPrefix(raw, []byte("\xEF\xBB\xBF")):
		t.bom = 3
	case bytes.HasPrefix(raw, []byte("\xFF\xFE")) && len(raw)%2 == 0:
		t.bom, t.Encoding = 2, UTF16LE
	case bytes.HasPrefix(raw, []byte("\xFE\xFF")) && len(raw)%2 == 0:
		t.bom, t.Encoding = 2, UTF16BE
	}
	t.BOM = t.bom > 0
	if t.Encoding.unit == 1 {
		if IsBinary(raw) {
			return nil, ErrBinary
		}
		body := raw[t.bom:]
		dec := declared(body)
		switch {
		case utf8.Valid(body):
			if dec != nil && dec.enc != nil && isASCII(body) && t.bom == 0 {
				t.Encoding = dec // what is added must suit the declaration
			}
		case t.bom > 0:
			t.Encoding = Bytes
		default:
			t.Encoding, t.Rivals = detect(body, dec)
		}
	}
	return t, t.build()
}

// DecodeAs reads bytes as text in a given encoding.
func decodeAs(raw []byte, e *Encoding, bom int) (*Text, error) {
	t := &Text{Raw: raw, Encoding: e, bom: bom, BOM: bom > 0}
	return t, t.build()
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// build splits the bytes into lines and decodes them.
func (t *Text) build() error {
	body := t.Raw[t.bom:]
	u := t.Encoding.unit
	hasLF, hasCR := false, false
	if u == 1 {
		hasLF, hasCR = bytes.IndexByte(body, '\n') >= 0, bytes.IndexByte(body, '\r') >= 0
	} else {
		for i := 0; i+1 < len(body); i += 2 {
			switch t.Encoding.at(body[i:]) {
			case '\n':
				hasLF = true
			case '\r':
				hasCR = true
			}
		}
	}
	if u == 1 && !hasCR && (t.Encoding == UTF8 || isASCII(body)) {
		t.same = true
		t.LF = string(body)
		if hasLF {
			t.Ends = LF
		}
		return nil
	}
	loneCR := hasCR && !hasLF
	var sb strings.Builder
	sb.Grow(len(body) + len(body)/2)
	crlf, lf := 0, 0
	for pos := t.bom; pos < len(t.Raw); {
		end, next := t.lineEnd(pos, loneCR)
		t.lines = append(t.lines, line{raw: pos, end: end, next: next, txt: sb.Len()})
		s, ok := t.Encoding.decode(t.Raw[pos:end])
		if !ok {
			if u == 2 {
				return fmt.Errorf("not valid %s: %w", t.Encoding.Name, ErrBinary)
			}
			return fmt.Errorf("not valid %s", t.Encoding.Name)
		}
		sb.WriteString(s)
		if next > end {
			sb.WriteByte('\n')
			if next-end == 2*u {
				crlf++
			} else {
				lf++
			}
		}
		pos = next
	}
	t.LF = sb.String()
	switch {
	case crlf > 0 && lf > 0:
		t.Ends = Mixed
	case crlf > 0:
		t.Ends = CRLF
	case lf > 0 && loneCR:
		t.Ends = CR
	case lf > 0:
		t.Ends = LF
	}
	return nil
}

// lineEnd finds the end of the line that begins at pos: where its line break begins and
// where the next line does; both len(Raw) for a last line without one.
func (t *Text) lineEnd(pos int, loneCR bool) (end, next int) {
	b := t.Raw
	if t.Encoding.unit == 2 {
		for i := pos; i+1 < len(b); i += 2 {
			switch t.Encoding.at(b[i:]) {
			case '\n':
				if !loneCR {
					if i-2 >= pos && t.Encoding.at(b[i-2:]) == '\r' {
						return i - 2, i + 2
					}
					return i, i + 2
				}
			case '\r':
				if loneCR {
					return i, i + 2
				}
			}
		}
		return len(b), len(b)
	}
	if loneCR {
		if i := bytes.IndexByte(b[pos:], '\r'); i >= 0 {
			return pos + i, pos + i + 1
		}
		return len(b), len(b)
	}
	i := bytes.IndexByte(b[pos:], '\n')
	if i < 0 {
		return len(b), len(b)
	}
	if i > 0 && b[pos+i-1] == '\r' {
		return pos + i - 1, pos + i + 1
	}
	return pos + i, pos + i + 1
}

// Lines is the number of lines; a text that does not end in a line break has a last,
// partial one.
func (t *Text) Lines() int { return CountLines(t.LF) }

// FinalNewline says whether the last line has an end. An empty text has none.
func (t *Text) FinalNewline() bool { return strings.HasSuffix(t.LF, "\n") }

// CountLines is the number of lines of a text with \n ends.
func CountLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// LineAt is the number of the line that holds byte offset off of s, from 1.
func LineAt(s string, off int) int { return strings.Count(s[:off], "\n") + 1 }

// Describe names what is unusual about the text: its encoding when it is not UTF-8, a
// byte order mark, line ends other than \n. "" when nothing is.
func (t *Text) Describe() string {
	var parts []string
	switch {
	case t.Encoding == Bytes:
		parts = append(parts, `unknown encoding, bytes that are no UTF-8 shown as \xNN`)
	case t.Encoding != UTF8 && t.Encoding.unit == 1 && isASCII(t.Raw):
	case t.Encoding != UTF8:
		parts = append(parts, t.Encoding.Name)
	case t.BOM:
		parts = append(parts, "UTF-8 with BOM")
	}
	if t.Ends != LF && t.Ends != None {
		parts = append(parts, string(t.Ends))
	}
	return strings.Join(parts, ", ")
}

// Span is one replacement: the bytes Start to End of LF become New (with \n ends).
type Span struct {
	Start, End int
	New        string
}

// errCut says that an offset lies inside a character of the file.
var errCut = errors.New("the place lies inside a character of the file")

// rawAt is the byte offset in Raw of offset off in LF. At a line break it is where the
// break begins.
func (t *Text) rawAt(off int) (int, error) {
	if t.same {
		return t.bom + off, nil
	}
	i := sort.Search(len(t.lines), func(i int) bool { return t.lines[i].txt > off }) - 1
	if i < 0 {
		return t.bom, nil
	}
	l := t.lines[i]
	at, pos := l.txt, l.raw
	if t.Encoding == UTF8 {
		if pos+off-at <= l.end {
			return pos + off - at, nil
		}
		return l.next, nil
	}
	for at < off && pos < l.end {
		n, s, _ := t.Encoding.next(t.Raw[pos:l.end])
		pos, at = pos+n, at+len(s)
	}
	switch {
	case at == off:
		return pos, nil
	case pos == l.end && at+1 == off:
		return l.next, nil
	}
	return 0, errCut
}

// breakAt is the line break, as bytes, at offset off of LF, where a \n is.
func (t *Text) breakAt(off int) []byte {
	if t.same {
		return []byte("\n")
	}
	i := sort.Search(len(t.lines), func(i int) bool { return t.lines[i].txt > off }) - 1
	return t.Raw[t.lines[i].end:t.lines[i].next]
}

// neighbourBreak is the line break that a new line at off gets: that of its own line, else
// of the line before, else \n.
func (t *Text) neighbourBreak(off int) []byte {
	if i := strings.IndexByte(t.LF[off:], '\n'); i >= 0 {
		return t.breakAt(off + i)
	}
	if i := strings.LastIndexByte(t.LF[:off], '\n'); i >= 0 {
		return t.breakAt(i)
	}
	b, _, _ := t.Encoding.encode("\n")
	return b
}

// Splice gives the file's bytes with the spans replaced. Spans are in ascending order and
// do not overlap. Every byte outside the part of each span that really differs is kept as
// it is; what is new is written in the file's encoding and with the line ends of its
// neighbours. When that can't be done, the error (kind refused) names the encoding and the
// character.
func (t *Text) Splice(spans []Span) ([]byte, error) {
	var out []byte
	want := strings.Builder{}
	pos, txt := 0, 0
	for _, s := range spans {
		if s.Start < txt || s.End < s.Start || s.End > len(t.LF) {
			return nil, core.Errorf(core.KindInternal, "span %d-%d is out of order", s.Start, s.End)
		}
		want.WriteString(t.LF[txt:s.Start])
		want.WriteString(s.New)
		txt = s.End
		s, from, to, err := t.shrink(s)
		if err != nil {
			return nil, err
		}
		mid, err := t.encodeSpan(s)
		if err != nil {
			return nil, err
		}
		out = append(out, t.Raw[pos:from]...)
		out = append(out, mid...)
		pos = to
	}
	want.WriteString(t.LF[txt:])
	out = append(out, t.Raw[pos:]...)

	// The proof: what was written reads as what was asked for.
	back, err := decodeAs(out, t.Encoding, t.bom)
	if err != nil || back.LF != want.String() {
		return nil, core.Errorf(core.KindRefused, "the change can't be written in %s without changing other text; nothing was changed", t.Encoding.Name)
	}
	return out, nil
}

// shrink takes from a span what is equal at both ends and finds the bytes that it covers.
func (t *Text) shrink(s Span) (Span, int, int, error) {
	old := t.LF[s.Start:s.End]
	p := commonPrefix(old, s.New)
	q := commonSuffix(old[p:], s.New[p:])
	// Characters that are shown as several (escapes, composed ones) are kept whole.
	for ; ; p-- {
		if p == 0 || utf8.RuneStart(at(s.New, p)) && utf8.RuneStart(at(old, p)) {
			if from, err := t.rawAt(s.Start + p); err == nil {
				for ; q >= 0; q-- {
					if q > 0 && !utf8.RuneStart(old[len(old)-q]) {
						continue
					}
					if to, err := t.rawAt(s.End - q); err == nil {
						return Span{s.Start + p, s.End - q, s.New[p : len(s.New)-q]}, from, to, nil
					}
				}
				break
			}
		}
		if p == 0 {
			break
		}
	}
	return s, 0, 0, core.Errorf(core.KindRefused, "%v; nothing was changed", errCut)
}

func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// encodeSpan gives the bytes of a span's new text. Its k-th line break takes the form of
// the k-th one that it replaces, further ones that of their neighbour.
func (t *Text) encodeSpan(s Span) ([]byte, error) {
	if s.New == "" {
		return nil, nil
	}
	old := t.LF[s.Start:s.End]
	if t.Encoding == Bytes {
		// An escape in new text would be a guess: bytes or the four characters?
		for i := 0; i+3 < len(s.New); i++ {
			if s.New[i] == '\\' && s.New[i+1] == 'x' && isHex(s.New[i+2]) && isHex(s.New[i+3]) && strings.Contains(old, s.New[i:i+4]) {
				return nil, core.Errorf(core.KindRefused, `the change touches undecodable bytes (shown as %s); nothing was changed`, s.New[i:i+4]).
					Hint("choose old and new so that these bytes stay outside")
			}
		}
		if !isASCII([]byte(s.New)) && !hasMultiByte(t.Raw[t.bom:]) {
			return nil, core.Errorf(core.KindRefused, "the file's encoding is unknown, so only ASCII text can be written into it; nothing was changed").
				Hint("convert the file first (iconv), or write ASCII only")
		}
	}
	brk := t.neighbourBreak(s.Start)
	var out []byte
	pos := 0
	for text := s.New; ; {
		part, rest, more := strings.Cut(text, "\n")
		b, bad, ok := t.Encoding.encode(part)
		if !ok {
			return nil, core.Errorf(core.KindRefused, "the file is %s, which has no %q; nothing was changed", t.Encoding.Name, string(bad)).
				Hint("use other characters, or ask the user whether to convert the file to UTF-8 (iconv)")
		}
		for _, r := range t.Rivals {
			if other, _, ok := r.encode(part); !ok || !bytes.Equal(other, b) {
				return nil, core.Errorf(core.KindRefused, "the file's encoding is not certain (%s or %s), so %q can't be written safely; nothing was changed",
					t.Encoding.Name, r.Name, Truncate(part, 40)).Hint("convert the file first (iconv), or write ASCII only")
			}
		}
		out = append(out, b...)
		if !more {
			return out, nil
		}
		if i := strings.IndexByte(old[pos:], '\n'); i >= 0 {
			brk = t.breakAt(s.Start + pos + i)
			pos += i + 1
		}
		out = append(out, brk...)
		text = rest
	}
}

func isHex(c byte) bool { return strings.IndexByte(hexDigits, c|0x20) >= 0 && c != '@' }

func hasMultiByte(b []byte) bool {
	for i := 0; i < len(b); {
		_, n := utf8.DecodeRune(b[i:])
		if n > 1 {
			return true
		}
		i++
	}
	return false
}

// Normalise turns the line ends of a text from a model into \n. The model saw \n, but some
// send \r\n for files that they know to be so.
func Normalise(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\r\n", "\n")
}

// Rewrite gives the bytes of the file with its whole text replaced: lines that stay keep
// their bytes, the others are spliced in.
func (t *Text) Rewrite(text string) ([]byte, error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	var spans []Span
	for _, h := range DiffLines(t.LF, text) {
		spans = append(spans, Span{h.OldStart, h.OldEnd, text[h.NewStart:h.NewEnd]})
	}
	return t.Splice(spans)
}
