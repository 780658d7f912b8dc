// Command slugify makes a short name for URLs and files of a title.
package main

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text  string `json:"text" jsonschema:"title; Chinese characters are kept, not transcribed"`
	Max   int    `json:"max,omitempty" jsonschema:"longest slug in characters, cut between words where possible" minimum:"1" maximum:"255" default:"80"`
	ASCII bool   `json:"ascii,omitempty" jsonschema:"drop what is not ASCII"`
}

// plain are Latin letters with marks and what is written for them.
var plain = map[rune]string{'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'þ': "th", 'ł': "l", 'ı': "i", '&': " and "}

func init() {
	for to, from := range map[string]string{"a": "àáâãäåāăą", "c": "çćĉċč", "d": "ď", "e": "èéêëēĕėęě", "g": "ĝğġģ", "h": "ĥ", "i": "ìíîïĩīĭį", "j": "ĵ", "k": "ķ",
		"l": "ĺļľ", "n": "ñńņň", "o": "òóôõöōŏő", "r": "ŕŗř", "s": "śŝşšș", "t": "ţťț", "u": "ùúûüũūŭůűų", "w": "ŵ", "y": "ýÿŷ", "z": "źżž"} {
		for _, r := range from {
			plain[r] = to
		}
	}
}

func Run(_ context.Context, in Args) (string, error) {
	if in.Max <= 0 {
		in.Max = 80
	}
	var b strings.Builder
	for _, r := range strings.ToLower(in.Text) {
		switch p, ok := plain[r]; {
		case ok:
			b.WriteString(p)
		case r == '\'' || r == '’' || unicode.Is(unicode.Mn, r):
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if in.ASCII && r > 127 {
				r = ' '
			}
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	s := strings.Join(strings.Fields(b.String()), "-")
	if s == "" {
		return "", errors.New("nothing is left for a slug: the text has no letter or digit that may stay")
	}
	if r := []rune(s); len(r) > in.Max {
		s = string(r[:in.Max])
		if i := strings.LastIndexByte(s, '-'); i > 0 && r[in.Max] != '-' {
			s = s[:i]
		}
	}
	return strings.Trim(s, "-"), nil
}

func main() {
	sdk.Serve("slugify", "Makes a short name for URLs and files of a title", Run, sdk.ReadOnly())
}
