package workspace

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// An Encoding is one way in which text is stored as bytes. Encodings are compared by
// pointer.
type Encoding struct {
	// Name is the usual name: "UTF-8", "GB18030" …
	Name string

	enc encoding.Encoding // nil for the Unicode forms and for bytes
	// width is the length of the character at the start of b, judged by its bytes alone;
	// at least 1 and perhaps more than len(b).
	width func(b []byte) int
	big   bool // UTF-16: high byte first
	unit  int  // 2 for UTF-16, else 1
}

// The encodings that files are read and written in. Bytes is the last resort: ASCII and
// valid UTF-8 are text, every other byte is shown as \xNN and kept.
var (
	UTF8        = &Encoding{Name: "UTF-8", unit: 1}
	UTF16LE     = &Encoding{Name: "UTF-16LE", unit: 2}
	UTF16BE     = &Encoding{Name: "UTF-16BE", unit: 2, big: true}
	GB18030     = &Encoding{Name: "GB18030", unit: 1, enc: simplifiedchinese.GB18030, width: widthGB}
	Big5        = &Encoding{Name: "Big5", unit: 1, enc: traditionalchinese.Big5, width: widthDouble(0x81, 0xFE)}
	ShiftJIS    = &Encoding{Name: "Shift-JIS", unit: 1, enc: japanese.ShiftJIS, width: widthSJIS}
	EUCJP       = &Encoding{Name: "EUC-JP", unit: 1, enc: japanese.EUCJP, width: widthEUCJP}
	EUCKR       = &Encoding{Name: "EUC-KR", unit: 1, enc: korean.EUCKR, width: widthDouble(0x81, 0xFE)}
	Windows1252 = &Encoding{Name: "Windows-1252", unit: 1, enc: charmap.Windows1252, width: func([]byte) int { return 1 }}
	Bytes       = &Encoding{Name: "unknown encoding", unit: 1}
)

// legacy are the encodings that are guessed from bytes, in the order that breaks ties.
var legacy = []*Encoding{GB18030, ShiftJIS, EUCJP, Big5, EUCKR, Windows1252}

func (e *Encoding) String() string { return e.Name }

func widthDouble(lo, hi byte) func([]byte) int {
	return func(b []byte) int {
		if b[0] >= lo && b[0] <= hi {
			return 2
		}
		return 1
	}
}

func widthGB(b []byte) int {
	switch {
	case b[0] <= 0x80 || b[0] == 0xFF:
		return 1
	case len(b) > 1 && b[1] >= 0x30 && b[1] <= 0x39:
		return 4
	}
	return 2
}

func widthSJIS(b []byte) int {
	if b[0] >= 0x81 && b[0] <= 0x9F || b[0] >= 0xE0 && b[0] <= 0xFC {
		return 2
	}
	return 1
}

func widthEUCJP(b []byte) int {
	switch {
	case b[0] == 0x8F:
		return 3
	case b[0] == 0x8E || b[0] >= 0xA1 && b[0] <= 0xFE:
		return 2
	}
	return 1
}

// next decodes the character at the start of b: its length in bytes, its text, and
// whether it is one. b is not empty. In Bytes everything is a character.
func (e *Encoding) next(b []byte) (n int, s string, ok bool) {
	switch {
	case e.unit == 2:
		if len(b) < 2 {
			return len(b), "\uFFFD", false
		}
		u := e.at(b)
		if utf16.IsSurrogate(u) {
			if len(b) < 4 {
				return 2, "\uFFFD", false
			}
			if r := utf16.DecodeRune(u, e.at(b[2:])); r != utf8.RuneError {
				return 4, string(r), true
			}
			return 2, "\uFFFD", false
		}
		return 2, string(u), true
	case e.enc == nil:
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if e == Bytes {
				return 1, escapeByte(b[0]), true
			}
			return 1, "\uFFFD", false
		}
		return n, string(b[:n]), true
	case b[0] < 0x80:
		return 1, string(b[:1]), true
	}
	n = e.width(b)
	if n > len(b) {
		return len(b), "\uFFFD", false
	}
	out, err := e.enc.NewDecoder().Bytes(b[:n])
	if err != nil || len(out) == 0 || bytes.ContainsRune(out, utf8.RuneError) || len(out) > 0 && out[0] < 0x80 {
		return n, "\uFFFD", false
	}
	return n, string(out), true
}

func (e *Encoding) at(b []byte) rune {
	if e.big {
		return rune(b[0])<<8 | rune(b[1])
	}
	return rune(b[1])<<8 | rune(b[0])
}

const hexDigits = "0123456789abcdef"

func escapeByte(b byte) string {
	return string([]byte{'\\', 'x', hexDigits[b>>4], hexDigits[b&15]})
}

// decode decodes bytes that hold whole characters; ok is false when any is undecodable.
func (e *Encoding) decode(b []byte) (s string, ok bool) {
	switch {
	case e == UTF8:
		return string(b), utf8.Valid(b)
	case e.enc != nil:
		out, err := e.enc.NewDecoder().Bytes(b)
		if err != nil || bytes.ContainsRune(out, utf8.RuneError) {
			return string(out), false
		}
		return string(out), true
	}
	if e == Bytes && utf8.Valid(b) {
		return string(b), true
	}
	var sb strings.Builder
	sb.Grow(len(b))
	ok = true
	for len(b) > 0 {
		n, c, good := e.next(b)
		ok = ok && good
		sb.WriteString(c)
		b = b[n:]
	}
	return sb.String(), ok
}

// encode gives the bytes of a text without line ends. When it can't, bad is the first
// character that the encoding lacks.
func (e *Encoding) encode(s string) (b []byte, bad rune, ok bool) {
	switch {
	case e == UTF8 || e == Bytes:
		return []byte(s), 0, true
	case e.unit == 2:
		for _, r := range s {
			if r == utf8.RuneError {
				return nil, r, false
			}
			for _, u := range utf16.AppendRune(nil, r) {
				if e.big {
					b = append(b, byte(u>>8), byte(u))
				} else {
					b = append(b, byte(u), byte(u>>8))
				}
			}
		}
		return b, 0, true
	}
	enc := e.enc.NewEncoder()
	for i, r := range s {
		if r < 0x80 {
			b = append(b, byte(r))
			continue
		}
		out, err := enc.Bytes([]byte(s[i : i+utf8.RuneLen(r)]))
		if err != nil || len(out) == 0 {
			return nil, r, false
		}
		// What does not come back the same is not encodable for us.
		if _, back, ok := e.next(out); !ok || back != string(r) {
			return nil, r, false
		}
		b = append(b, out...)
	}
	return b, 0, true
}

// Encode gives the bytes of a text in an encoding; ok is false when a character has none.
func (e *Encoding) Encode(s string) (b []byte, ok bool) {
	b, _, ok = e.encode(s)
	return b, ok
}

var common = sync.OnceValue(func() (t struct{ hans, hant, hangul map[rune]bool }) {
	set := func(s string) map[rune]bool {
		m := make(map[rune]bool, len(s)/3)
		for _, r := range s {
			m[r] = true
		}
		return m
	}
	t.hans, t.hant, t.hangul = set(commonHans), set(commonHant), set(commonHangul)
	return t
})

// score says how plausible it is that the sample is text in the encoding: the mean over
// its non-ASCII characters of how usual each is, from about 0 (rare ones throughout) to 1
// (running text). ok is false when a character can't be decoded or there is none.
func (e *Encoding) score(sample []byte) (mean float64, ok bool) {
	t := common()
	var sum float64
	n, kana := 0, 0
	for i := 0; i < len(sample); {
		b := sample[i:]
		if b[0] < 0x80 {
			i++
			continue
		}
		w, s, good := e.next(b)
		if !good {
			return 0, false
		}
		r, _ := utf8.DecodeRuneInString(s)
		var v float64
		switch {
		case e == Windows1252:
			v = scoreLatin(sample, i, r)
		case r >= 0xE000 && r <= 0xF8FF:
			v = -0.5
		case isCJKPunct(r):
			v = 0.7
		case e == GB18030:
			switch {
			case w == 4:
				v = 0.1
			case unicode.In(r, unicode.Hiragana, unicode.Katakana):
				v = 0.2
			case t.hans[r]:
				v = 1
			case w == 2 && b[0] >= 0xB0 && b[0] <= 0xD7 && b[1] >= 0xA1:
				v = 0.55
			case w == 2 && b[0] >= 0xD8 && b[0] <= 0xF7 && b[1] >= 0xA1:
				v = 0.25
			}
		case e == Big5:
			switch {
			case t.hant[r]:
				v = 1
			case b[0] >= 0xA4 && b[0] <= 0xC6:
				v = 0.5
			case b[0] >= 0xC9 && b[0] <= 0xF9:
				v = 0.1
			}
		case e == ShiftJIS || e == EUCJP:
			switch {
			case r >= 0xFF61 && r <= 0xFF9F:
				v = 0.15
			case unicode.In(r, unicode.Hiragana, unicode.Katakana) || r == 'ー':
				v, kana = 1, kana+1
			case e == ShiftJIS && b[0] >= 0x88 && (b[0] < 0x98 || b[0] == 0x98 && b[1] <= 0x72),
				e == EUCJP && b[0] >= 0xB0 && b[0] <= 0xCF:
				v = 0.5
				if t.hans[r] || t.hant[r] {
					v = 0.6
				}
			default:
				v = 0.1
			}
		case e == EUCKR:
			switch {
			case t.hangul[r]:
				v = 1
			case r >= 0xAC00 && r <= 0xD7A3 && b[0] >= 0xB0 && b[0] <= 0xC8 && b[1] >= 0xA1:
				v = 0.2
			case r >= 0xAC00 && r <= 0xD7A3:
				v = 0.02
			default:
				v = 0.1
			}
		}
		sum += v
		n++
		i += w
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), true
}

func isCJKPunct(r rune) bool {
	return r >= 0x3000 && r <= 0x303F || r >= 0xFF01 && r <= 0xFF60 || strings.ContainsRune("“”‘’—…·×→←℃①②③④⑤", r)
}

// scoreLatin judges one high byte of western text: letters stand among ASCII letters and
// rarely more than two in a row.
func scoreLatin(b []byte, i int, r rune) float64 {
	letter := func(j int) bool {
		return j >= 0 && j < len(b) && (b[j]|0x20 >= 'a' && b[j]|0x20 <= 'z')
	}
	run := 1
	for j := i - 1; j >= 0 && b[j] >= 0x80; j-- {
		run++
	}
	for j := i + 1; j < len(b) && b[j] >= 0x80; j++ {
		run++
	}
	switch {
	case run > 2:
		return 0.02
	case unicode.IsLetter(r) && r >= 0xC0 && (letter(i-1) || letter(i+1)):
		return 0.6
	case strings.ContainsRune("‘’“”–—…€", r) && run == 1:
		return 0.5
	case run == 1 && r < 0xC0:
		return 0.3
	}
	return 0.1
}

const (
	plausible = 0.3  // a lower score is no text in this encoding
	clear     = 0.12 // a rival nearer than this makes a guess ambiguous
)

// detect guesses the encoding of bytes that are not valid UTF-8. rivals are the other
// encodings that are about as plausible. Bytes when none is.
func detect(raw []byte, declared *Encoding) (best *Encoding, rivals []*Encoding) {
	s := sample(raw)
	if mostlyUTF8(s) {
		return Bytes, nil
	}
	type cand struct {
		e *Encoding
		v float64
	}
	var cands []cand
	for _, e := range legacy {
		v, ok := e.score(s)
		if !ok {
			continue
		}
		if e == declared {
			if _, ok := e.decode(raw); ok {
				return e, nil
			}
		}
		if v >= plausible {
			cands = append(cands, cand{e, v})
		}
	}
	top := cand{Bytes, 0}
	for _, c := range cands {
		if c.v > top.v {
			if _, ok := c.e.decode(raw); ok {
				top = c
			}
		}
	}
	for _, c := range cands {
		if c.e != top.e && top.v-c.v < clear {
			rivals = append(rivals, c.e)
		}
	}
	return top.e, rivals
}

// sample gathers up to 64 KiB of the lines that hold other bytes than ASCII.
func sample(raw []byte) []byte {
	const limit = 64 << 10
	var out []byte
	for len(raw) > 0 && len(out) < limit {
		i := 0
		for i < len(raw) && raw[i] < 0x80 {
			i++
		}
		if i == len(raw) {
			break
		}
		start := bytes.LastIndexByte(raw[:i], '\n') + 1
		start = max(start, i-200)
		end := len(raw)
		if j := bytes.IndexByte(raw[i:], '\n'); j >= 0 {
			end = i + j + 1
		}
		if end-start > limit && len(out) == 0 {
			// One endless line: its beginning, cut before an ASCII byte so that no
			// character is torn where that can be seen.
			end = start + limit
			for end > start && raw[end] >= 0x80 {
				end--
			}
			for k := end; k > start+limit-64 && k > start; k-- {
				if raw[k] == ' ' || raw[k] == ',' || raw[k] == '.' {
					end = k
					break
				}
			}
			return raw[start:end]
		}
		out = append(out, raw[start:end]...)
		raw = raw[end:]
	}
	return out
}

// mostlyUTF8 recognises UTF-8 with a few stray bytes: more whole multi-byte characters
// of three bytes or more than four for each stray byte.
func mostlyUTF8(b []byte) bool {
	good, bad := 0, 0
	for len(b) > 0 {
		if b[0] < 0x80 {
			b = b[1:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			bad++
		case n >= 3:
			good += 2
		default:
			good++
		}
		b = b[n:]
	}
	return good > 4*bad
}

var declaration = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:coding[:=][ \t]*|charset=["']?|encoding=["'])([-_.\w]+)`)
})

// declared is the encoding that a file names in its first lines, as source files and HTML
// and XML documents do; nil when it names none that we know.
func declared(raw []byte) *Encoding {
	head := raw[:min(len(raw), 1024)]
	if !bytes.Contains(head, []byte("oding")) && !bytes.Contains(bytes.ToLower(head), []byte("charset")) {
		return nil
	}
	m := declaration().FindSubmatch(head)
	if m == nil {
		return nil
	}
	return ByName(string(m[1]))
}

// ByName finds an encoding by one of its usual names, nil for others.
func ByName(name string) *Encoding {
	switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name)) {
	case "utf8":
		return UTF8
	case "utf16le":
		return UTF16LE
	case "utf16be":
		return UTF16BE
	case "gb18030", "gbk", "gb2312", "cp936", "euccn":
		return GB18030
	case "big5", "cp950", "big5hkscs":
		return Big5
	case "shiftjis", "sjis", "cp932", "windows31j", "ms932":
		return ShiftJIS
	case "eucjp":
		return EUCJP
	case "euckr", "cp949", "ksc56011987", "uhc":
		return EUCKR
	case "latin1", "iso88591", "windows1252", "cp1252", "iso885915":
		return Windows1252
	}
	return nil
}
