package llm

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// text gathers the JSON strings of a stream into one text. Servers cut anywhere: inside
// a UTF-8 sequence, and between the two halves of an escaped surrogate pair. What is not
// yet a whole character waits for the next piece; what can never become one is shown as
// \xNN or \uNNNN instead of being replaced. The zero value is empty.
type text struct {
	b    []byte // whole characters only
	tail []byte // the beginning of a character
	hi   rune   // a high surrogate that waits for its low half
}

func (t *text) empty() bool { return len(t.b) == 0 && len(t.tail) == 0 && t.hi == 0 }

// whole ends the text and returns it.
func (t *text) whole() string {
	t.flush()
	return string(t.b)
}

// flush writes what was waiting, visibly.
func (t *text) flush() string {
	n := len(t.b)
	t.dropHi()
	t.dropTail()
	return string(t.b[n:])
}

func (t *text) dropHi() {
	if t.hi != 0 {
		t.b = appendEscape(t.b, t.hi)
		t.hi = 0
	}
}

func (t *text) dropTail() {
	for _, c := range t.tail {
		t.b = append(t.b, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
	}
	t.tail = t.tail[:0]
}

func appendEscape(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// add appends a JSON string literal, quotes included, that a JSON parser has accepted,
// and returns the characters that are complete now.
func (t *text) add(lit []byte) string {
	if len(lit) < 2 || lit[0] != '"' {
		return ""
	}
	s := lit[1 : len(lit)-1]
	if len(s) == 0 {
		return ""
	}
	n := len(t.b)
	if t.hi == 0 && len(t.tail) == 0 && bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s) {
		t.b = append(t.b, s...)
		return string(s)
	}
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			t.dropHi()
			j := bytes.IndexByte(s[i:], '\\')
			if j < 0 {
				j = len(s) - i
			}
			t.raw(s[i : i+j])
			i += j
			continue
		}
		if i+1 >= len(s) {
			break
		}
		if s[i+1] != 'u' {
			t.dropHi()
			t.dropTail()
			c := s[i+1]
			switch c {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'r':
				c = '\r'
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			}
			t.b = append(t.b, c)
			i += 2
			continue
		}
		if i+6 > len(s) {
			break
		}
		t.dropTail()
		t.unit(hex4(s[i+2 : i+6]))
		i += 6
	}
	return string(t.b[n:])
}

// unit appends one UTF-16 code unit.
func (t *text) unit(r rune) {
	if t.hi != 0 {
		if c := utf16.DecodeRune(t.hi, r); c != utf8.RuneError {
			t.b = utf8.AppendRune(t.b, c)
			t.hi = 0
			return
		}
		t.dropHi()
	}
	switch {
	case r >= 0xD800 && r < 0xDC00:
		t.hi = r
	case r >= 0xDC00 && r < 0xE000:
		t.b = appendEscape(t.b, r)
	default:
		t.b = utf8.AppendRune(t.b, r)
	}
}

// raw appends bytes that should be UTF-8.
func (t *text) raw(p []byte) {
	if len(t.tail) > 0 {
		p = append(t.tail, p...)
		t.tail = nil
	}
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r != utf8.RuneError || n != 1 {
			t.b = append(t.b, p[:n]...)
			p = p[n:]
			continue
		}
		if !utf8.FullRune(p) {
			t.tail = append([]byte(nil), p...)
			return
		}
		t.b = append(t.b, '\\', 'x', hexDigits[p[0]>>4], hexDigits[p[0]&15])
		p = p[1:]
	}
}

func hex4(p []byte) rune {
	var r rune
	for _, c := range p {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			r |= rune(c-'A') + 10
		}
	}
	return r
}

// addContent appends a content value (a string, or a list of parts of which some may be
// the model's thoughts) and returns what became complete. th may be nil.
func addContent(raw json.RawMessage, t, th *text) (said, thought string) {
	if len(raw) == 0 {
		return "", ""
	}
	switch raw[0] {
	case '"':
		return t.add(raw), ""
	case '[':
		var parts []struct {
			Type     string          `json:"type"`
			Text     json.RawMessage `json:"text"`
			Refusal  json.RawMessage `json:"refusal"`
			Thinking json.RawMessage `json:"thinking"`
		}
		if json.Unmarshal(raw, &parts) != nil {
			return "", ""
		}
		for _, p := range parts {
			if len(p.Thinking) > 0 {
				if th != nil {
					s, _ := addContent(p.Thinking, th, nil)
					thought += s
				}
				continue
			}
			said += t.add(p.Text)
			said += t.add(p.Refusal)
		}
	}
	return said, thought
}
