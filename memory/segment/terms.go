package segment

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Term is one word of a text.
type Term struct {
	Text string // as written
	// Parts are the words inside an identifier, version, path or long Chinese word, so that
	// each finds the whole: chk-menu has chk and menu. Nil where there are none.
	Parts []string
	Kind  Kind
}

// Kind says what a term is made of.
type Kind byte

// The kinds of term.
const (
	Word       Kind = iota // letters of an alphabet
	Chinese                // Chinese characters
	Number                 // digits, with a point, percent sign or unit
	Identifier             // anything that holds letters or digits and punctuation: a name, path, version, address
	Other                  // another script or a symbol
)

// joins are the characters that hold an identifier together, between letters and digits.
const joins = "_-./:\\@#+=~&%?"

// Terms divides text into words for searching and comparing: identifiers, versions, file
// names and addresses stay whole (their parts beside them), Chinese is divided as in
// jieba's exact mode with the shorter words of its search mode as parts, other scripts
// without blanks come as runs. Punctuation alone is left out, symbols are not.
func (s *Segmenter) Terms(text string) []Term {
	text = Clean(text)
	out := make([]Term, 0, len(text)/4+1)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case IsHan(r):
			j := i + n
			for j < len(text) {
				r, n := utf8.DecodeRuneInString(text[j:])
				if !IsHan(r) {
					break
				}
				j += n
			}
			s.chinese(text[i:j], func(t Term) { out = append(out, t) })
			i = j
		case wordRune(r) || (strings.ContainsRune("~./@", r) && identAhead(text[i+n:])):
			j := identEnd(text, i)
			if w := text[i:j]; w != "" {
				out = append(out, ident(w))
			}
			i = max(j, i+n)
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			j := i + n
			for j < len(text) {
				r, n := utf8.DecodeRuneInString(text[j:])
				if IsHan(r) || wordRune(r) || !(unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) {
					break
				}
				j += n
			}
			t := Term{Text: text[i:j], Kind: Other}
			pairs(t.Text, func(p string) {
				if p != t.Text {
					t.Parts = append(t.Parts, p)
				}
			})
			out = append(out, t)
			i = j
		case unicode.IsSymbol(r) && r != '`' && r != '|' && r != '^' && r != '<' && r != '>' && r != '=' && r != '+' && r != '~' && r != '$':
			out = append(out, Term{Text: text[i : i+n], Kind: Other})
			i += n
		default:
			i += n
		}
	}
	return out
}

// wordRune is a letter of an alphabet with blanks between words, or a digit.
func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return asciiAlnum(r) || r == '_'
	}
	return unicode.In(r, unicode.Latin, unicode.Cyrillic, unicode.Greek) || unicode.IsMark(r) || r >= '０' && r <= '９'
}

func identAhead(rest string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest[:min(len(rest), 6)], "./~"))
	return wordRune(r)
}

// identEnd is the end of the identifier that begins at i: word characters, joined by
// single or double punctuation; trailing punctuation of the sentence stays out, ++ and #
// after letters stay in.
func identEnd(text string, i int) int {
	end := i
	for j := i; j < len(text); {
		r, n := utf8.DecodeRuneInString(text[j:])
		switch {
		case wordRune(r):
			j += n
			end = j
		case r == '\'' && end == j && j+1 < len(text) && asciiLetter(text[j+1]): // don't
			j += n
		case strings.ContainsRune(joins, r) && joinsHere(text, i, j):
			j += n
		default:
			j = len(text)
		}
	}
	if end > i {
		switch rest := text[end:]; {
		case strings.HasPrefix(rest, "++") && end-i <= 2:
			end += 2
		case rest != "" && (rest[0] == '%' || rest[0] == '#' && end-i <= 2):
			end++
		}
	}
	return end
}

func asciiLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// joinsHere says whether the punctuation at j may be inside the identifier begun at i:
// not the full stop before a blank, not a second sign in a row but for :// ../ and --.
func joinsHere(text string, i, j int) bool {
	if j+1 >= len(text) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(text[j+1:])
	if wordRune(next) {
		return text[j] != '+' || j == i || text[j-1] != '+'
	}
	switch text[j] {
	case ':', '/', '.', '-', '~':
		return strings.ContainsRune("/.-~", next)
	}
	return false
}

func ident(w string) Term {
	plain, digits, letters := true, false, false
	for _, r := range w {
		switch {
		case r >= '0' && r <= '9' || r >= '０' && r <= '９':
			digits = true
		case wordRune(r) && r != '_':
			letters = true
		case r == '\'':
		default:
			plain = false
		}
	}
	t := Term{Text: w, Kind: Word}
	switch {
	case plain && digits && !letters:
		t.Kind = Number
		return t
	case plain && !digits:
		if p := camel(w); len(p) > 1 {
			t.Kind, t.Parts = Identifier, p
		}
		return t
	case !letters && digits && strings.Trim(w, "0123456789.,%") == "" && strings.Count(w, ".") <= 1:
		t.Kind = Number
		return t
	case plain && w[0] >= '0' && w[0] <= '9': // 5MB, 3rd, 128K
		t.Kind = Number
		return t
	}
	t.Kind = Identifier
	for _, f := range strings.FieldsFunc(w, func(r rune) bool { return !wordRune(r) || r == '_' }) {
		t.Parts = append(t.Parts, f)
		if p := camel(f); len(p) > 1 {
			t.Parts = append(t.Parts, p...)
		}
	}
	if len(t.Parts) == 1 && t.Parts[0] == w {
		t.Parts = nil
	}
	return t
}

// camel divides getUserName and HTTPServer; nil when there is nothing to divide.
func camel(w string) []string {
	var out []string
	start := 0
	for i := 1; i < len(w); i++ {
		up := w[i] >= 'A' && w[i] <= 'Z'
		low := w[i-1] >= 'a' && w[i-1] <= 'z'
		nextLow := i+1 < len(w) && w[i+1] >= 'a' && w[i+1] <= 'z'
		prevUp := w[i-1] >= 'A' && w[i-1] <= 'Z'
		if up && (low || prevUp && nextLow) {
			if i-start > 1 {
				out = append(out, w[start:i])
				start = i
			}
		}
	}
	if start == 0 || len(w)-start < 2 {
		return nil
	}
	return append(out, w[start:])
}

// chinese divides a run in exact mode; the words inside of long ones become parts.
func (s *Segmenter) chinese(run string, emit func(Term)) {
	var words []string
	s.han(run, false, func(w string) { words = append(words, w) })
	long := false
	for _, w := range words {
		if len(w) > 6 {
			long = true
		}
	}
	if !long {
		for _, w := range words {
			emit(Term{Text: w, Kind: Chinese})
		}
		return
	}
	var search []string
	s.han(run, true, func(w string) { search = append(search, w) })
	k := 0
	for _, w := range words {
		t := Term{Text: w, Kind: Chinese}
		for k < len(search) && search[k] != w { // search mode gives the inner words first
			if !strings.Contains(w, search[k]) {
				break
			}
			t.Parts = append(t.Parts, search[k])
			k++
		}
		if k < len(search) && search[k] == w {
			k++
		}
		emit(t)
	}
}
