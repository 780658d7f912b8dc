package workspace

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// RuneWidth is the number of screen cells of a character: 2 for wide ones (East Asian
// Width W and F, Unicode Standard Annex 11), 0 for combining and format characters and
// controls, else 1.
func RuneWidth(r rune) int {
	if r < 0x300 {
		if r < ' ' || r >= 0x7F && r < 0xA0 || r == 0xAD {
			return 0
		}
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Width is the number of screen cells of a text.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += RuneWidth(r)
	}
	return n
}

// Truncate cuts a text to at most cells screen cells, the last of which is then "…". It
// never cuts inside a character or between a character and its combining marks.
func Truncate(s string, cells int) string {
	if len(s) <= cells {
		return s
	}
	if cells <= 0 {
		return ""
	}
	n, cut := 0, 0
	for i, r := range s {
		w := RuneWidth(r)
		if n+w > cells {
			return s[:cut] + "…"
		}
		n += w
		if n <= cells-1 {
			cut = i + utf8.RuneLen(r)
			if r == utf8.RuneError {
				_, size := utf8.DecodeRuneInString(s[i:])
				cut = i + size
			}
		}
	}
	return s
}

// TruncateBytes cuts a text to at most limit bytes, between characters.
func TruncateBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// TailBytes keeps at most limit bytes of a text's end, beginning between characters.
func TailBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	i := len(s) - limit
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// OneLine makes a text fit for one line of a list: line breaks and tabs become blanks and
// it is cut to cells screen cells.
func OneLine(s string, cells int) string {
	return Truncate(strings.Join(strings.Fields(s), " "), cells)
}
