package workspace

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// DecodeForDisplay turns the output of a command into valid UTF-8 without losing a byte:
// valid UTF-8 stays, lines in another encoding are decoded when it can be told, and every
// other byte is shown as \xNN.
func DecodeForDisplay(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var d Display
	d.seed(b)
	return d.Write(b) + d.Close()
}

// maxHeld is how much of a line is held back until its encoding can be told.
const maxHeld = 8 << 10

// Display decodes output that comes in pieces cut anywhere, also inside characters. ASCII
// passes at once; from the first other byte of a line on, the line is held until it ends,
// until 8 KiB of it are there, or until Close. The encoding that was found for one line is
// tried first for the next. The zero value is ready. Not safe for concurrent use.
type Display struct {
	held  []byte
	guess *Encoding
}

// seed finds the encoding from all that is there.
func (d *Display) seed(b []byte) {
	var bad []byte
	for l := range bytes.SplitAfterSeq(b, []byte("\n")) {
		if !utf8.Valid(l) {
			bad = append(bad, l...)
			if len(bad) > 64<<10 {
				break
			}
		}
	}
	if e, _ := detect(bad, nil); e != Bytes {
		d.guess = e
	}
}

// Write takes the next piece and returns the text that is certain by now. It may be
// shorter or longer than the piece.
func (d *Display) Write(p []byte) string {
	if len(d.held) == 0 && isASCII(p) {
		return string(p)
	}
	var sb strings.Builder
	for len(p) > 0 {
		if len(d.held) == 0 {
			i := 0
			for i < len(p) && p[i] < 0x80 {
				i++
			}
			sb.Write(p[:i])
			if p = p[i:]; len(p) == 0 {
				break
			}
		}
		n := len(p)
		end := bytes.IndexByte(p, '\n')
		if end >= 0 {
			n = end + 1
		}
		if len(d.held)+n > maxHeld {
			n = maxHeld - len(d.held)
			end = -1
		}
		d.held = append(d.held, p[:n]...)
		p = p[n:]
		switch {
		case end >= 0:
			sb.WriteString(d.flush(true))
		case len(d.held) >= maxHeld:
			sb.WriteString(d.flush(false))
		}
	}
	return sb.String()
}

// Close returns what is still held.
func (d *Display) Close() string { return d.flush(true) }

// Pending says how many bytes are held.
func (d *Display) Pending() int { return len(d.held) }

// flush decodes what is held. Unless it is the end of a line, a character that may be
// incomplete stays.
func (d *Display) flush(end bool) string {
	b := d.held
	d.held = d.held[:0]
	if len(b) == 0 {
		return ""
	}
	keep := func(n int) { // the last n bytes stay for the next round
		d.held = append(d.held, b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	if tail := incompleteUTF8(b); !end && tail > 0 && utf8.Valid(b[:len(b)-tail]) {
		s := string(b[:len(b)-tail])
		keep(tail)
		return s
	}
	if utf8.Valid(b) {
		return string(b)
	}
	e := d.guess
	if e == nil || !e.plausibleFor(b) {
		if found, _ := detect(b, nil); found != Bytes {
			e, d.guess = found, found
		} else {
			e = Bytes
		}
	}
	if !end && e.width != nil {
		// Cut at a character of the encoding.
		pos := 0
		for pos < len(b) {
			n := e.width(b[pos:])
			if pos+n > len(b) {
				break
			}
			pos += n
		}
		if pos > 0 {
			tail := len(b) - pos
			s, ok := e.decode(b[:pos])
			if !ok {
				s, _ = Bytes.decode(b[:pos])
			}
			if tail > 0 {
				keep(tail)
			}
			return s
		}
	}
	s, ok := e.decode(b)
	if !ok {
		s, _ = Bytes.decode(b)
	}
	return s
}

func (e *Encoding) plausibleFor(b []byte) bool {
	_, ok := e.score(b)
	return ok
}

// incompleteUTF8 is the length of a character's beginning at the end of b, 0 for none.
func incompleteUTF8(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if c >= 0xC0 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
