package term

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Code says which key a Key is.
type Code int

// The keys. Those without a letter of their own come from escape sequences.
const (
	KeyRune  Code = iota // Rune is set
	KeyPaste             // Text is set
	KeyCtrl              // Rune is the small letter
	KeyAlt               // Rune is the letter
	KeyEnter
	KeyAltEnter
	KeyShiftEnter
	KeyTab
	KeyBackTab
	KeyBackspace
	KeyAltBackspace
	KeyDelete
	KeyLeft
	KeyRight
	KeyUp
	KeyDown
	KeyWordLeft
	KeyWordRight
	KeyHome
	KeyEnd
	KeyEsc
)

// Key is one key, or one piece of pasted text.
type Key struct {
	Code Code
	Rune rune
	Text string
}

// Keys makes keys of the bytes that a terminal sends. Sequences may come in pieces.
type Keys struct {
	buf   []byte
	paste bool
	seen  int // bytes of an open paste that were looked through
}

var pasteEnd = []byte("\x1b[201~")

// maxPaste is how much pasted text is taken, in bytes.
const maxPaste = 8 << 20

// Feed takes bytes and returns the keys that are complete.
func (k *Keys) Feed(b []byte) []Key {
	k.buf = append(k.buf, b...)
	var out []Key
	for len(k.buf) > 0 {
		key, n, ok := k.next()
		if n == 0 {
			break
		}
		k.buf = k.buf[n:]
		if ok {
			out = append(out, key)
		}
	}
	if len(k.buf) == 0 {
		k.buf = nil
	}
	return out
}

// Pending says whether a sequence is incomplete that may also be a key by itself.
func (k *Keys) Pending() bool { return len(k.buf) > 0 && !k.paste }

// Flush takes what is pending as it is: an escape that nothing followed is the key Esc.
func (k *Keys) Flush() []Key {
	b := k.buf
	k.buf = nil
	if len(b) > 0 && b[0] == 0x1b {
		return append([]Key{{Code: KeyEsc}}, k.Feed(b[1:])...)
	}
	return nil
}

// next reads one key. n is 0 when more bytes are needed; ok is false for what means
// nothing.
func (k *Keys) next() (key Key, n int, ok bool) {
	b := k.buf
	if k.paste {
		i := bytes.Index(b[k.seen:], pasteEnd)
		if i >= 0 {
			i += k.seen
		}
		k.seen = 0
		if i < 0 {
			k.seen = max(0, len(b)-len(pasteEnd))
			if len(b) > maxPaste {
				k.paste, k.seen = false, 0
				return Key{Code: KeyPaste, Text: pasted(b)}, len(b), true
			}
			return Key{}, 0, false
		}
		k.paste = false
		return Key{Code: KeyPaste, Text: pasted(b[:i])}, i + len(pasteEnd), true
	}
	switch c := b[0]; {
	case c == 0x1b:
		return k.escape()
	case c == '\r' || c == '\n':
		return Key{Code: KeyEnter}, 1, true
	case c == '\t':
		return Key{Code: KeyTab}, 1, true
	case c == 0x7f || c == 0x08:
		return Key{Code: KeyBackspace}, 1, true
	case c >= 1 && c <= 26:
		return Key{Code: KeyCtrl, Rune: rune('a' + c - 1)}, 1, true
	case c == 0x1f:
		return Key{Code: KeyCtrl, Rune: '_'}, 1, true
	case c < 0x20:
		return Key{}, 1, false
	}
	if !utf8.FullRune(b) {
		return Key{}, 0, false
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 || hidden(r) {
		return Key{}, n, false
	}
	return Key{Code: KeyRune, Rune: r}, n, true
}

func pasted(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	// Tabs of pasted code are kept; other control characters are not text.
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && hidden(r) {
			return -1
		}
		return r
	}, s)
}

func (k *Keys) escape() (Key, int, bool) {
	b := k.buf
	if len(b) == 1 {
		return Key{}, 0, false
	}
	switch b[1] {
	case '[':
		i := 2
		for i < len(b) && (b[i] < 0x40 || b[i] > 0x7e) {
			i++
		}
		if i == len(b) {
			if i > 40 {
				return Key{}, i, false
			}
			return Key{}, 0, false
		}
		return k.csi(string(b[2:i]), b[i], i+1)
	case 'O':
		if len(b) < 3 {
			return Key{}, 0, false
		}
		if c, ok := arrows[b[2]]; ok {
			return Key{Code: c}, 3, true
		}
		if b[2] == 'M' {
			return Key{Code: KeyEnter}, 3, true
		}
		return Key{}, 3, false
	case '\r', '\n':
		return Key{Code: KeyAltEnter}, 2, true
	case 0x7f, 0x08:
		return Key{Code: KeyAltBackspace}, 2, true
	case 0x1b:
		return Key{Code: KeyEsc}, 1, true
	}
	if !utf8.FullRune(b[1:]) {
		return Key{}, 0, false
	}
	r, n := utf8.DecodeRune(b[1:])
	switch r {
	case 'b':
		return Key{Code: KeyWordLeft}, n + 1, true
	case 'f':
		return Key{Code: KeyWordRight}, n + 1, true
	}
	if r < 0x20 || r == utf8.RuneError {
		return Key{}, n + 1, false
	}
	return Key{Code: KeyAlt, Rune: r}, n + 1, true
}

var arrows = map[byte]Code{'A': KeyUp, 'B': KeyDown, 'C': KeyRight, 'D': KeyLeft, 'H': KeyHome, 'F': KeyEnd}

func (k *Keys) csi(params string, final byte, n int) (Key, int, bool) {
	if c, ok := arrows[final]; ok {
		if i := strings.LastIndexByte(params, ';'); i >= 0 { // with Ctrl or Alt
			switch c {
			case KeyLeft:
				c = KeyWordLeft
			case KeyRight:
				c = KeyWordRight
			}
		}
		return Key{Code: c}, n, true
	}
	switch final {
	case 'Z':
		return Key{Code: KeyBackTab}, n, true
	case '~':
		switch params {
		case "1", "7":
			return Key{Code: KeyHome}, n, true
		case "4", "8":
			return Key{Code: KeyEnd}, n, true
		case "3":
			return Key{Code: KeyDelete}, n, true
		case "200":
			k.paste = true
			return Key{}, n, false
		case "27;2;13":
			return Key{Code: KeyShiftEnter}, n, true
		case "27;3;13":
			return Key{Code: KeyAltEnter}, n, true
		}
	case 'u':
		switch params {
		case "13;2":
			return Key{Code: KeyShiftEnter}, n, true
		case "13;3":
			return Key{Code: KeyAltEnter}, n, true
		}
	}
	return Key{}, n, false
}
