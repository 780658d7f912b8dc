// Command text_stats counts characters, words, sentences and lines of a text in Chinese
// and other scripts, and estimates the time to read it.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path string `json:"path,omitempty" jsonschema:"UTF-8 file, relative to the project; or give text"`
	Text string `json:"text,omitempty" jsonschema:"the text itself, instead of path"`
}

type Stats struct {
	Bytes       int     `json:"bytes"`
	Characters  int     `json:"characters"`
	NoSpace     int     `json:"characters_without_space"`
	CJK         int     `json:"cjk_characters"`
	Words       int     `json:"words"` // of other scripts; CJK is not split into words
	Sentences   int     `json:"sentences"`
	Lines       int     `json:"lines"`
	Paragraphs  int     `json:"paragraphs"`
	ReadMinutes float64 `json:"read_minutes"` // at 300 CJK characters or 230 words a minute
}

func Run(ctx context.Context, in Args) (Stats, error) {
	if in.Path != "" && in.Text != "" {
		return Stats{}, errors.New("give either path or text")
	}
	if in.Path != "" {
		b, err := os.ReadFile(sdk.Path(ctx, in.Path))
		if err != nil {
			return Stats{}, err
		}
		if !utf8.Valid(b) {
			return Stats{}, fmt.Errorf("%s is not UTF-8 text", in.Path)
		}
		in.Text = string(b)
	}
	return count(in.Text), nil
}

func cjk(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

func count(text string) Stats {
	s := Stats{Bytes: len(text)}
	inWord, open := false, false
	for _, r := range text {
		s.Characters++
		if !unicode.IsSpace(r) {
			s.NoSpace++
		}
		letter := unicode.IsLetter(r) || unicode.IsDigit(r)
		switch {
		case cjk(r):
			s.CJK++
			inWord = false
		case letter:
			if !inWord {
				s.Words++
			}
			inWord = true
		case inWord && (strings.ContainsRune("'’-_", r) || unicode.Is(unicode.Mn, r)): // don't, well-known
		case inWord && r == '.': // 3.14, e.g.; a word goes on only with a letter
		default:
			inWord = false
		}
		switch {
		case strings.ContainsRune("。！？!?….", r):
			if open {
				s.Sentences++
			}
			open = false
		case r == '\n':
			if open {
				s.Sentences++
			}
			open = false
		case letter || cjk(r):
			open = true
		}
	}
	if open {
		s.Sentences++
	}
	blank := true
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		s.Lines++
		empty := strings.TrimSpace(line) == ""
		if !empty && blank {
			s.Paragraphs++
		}
		blank = empty
	}
	if text == "" {
		s.Lines = 0
	}
	s.ReadMinutes = math.Round((float64(s.CJK)/300+float64(s.Words)/230)*10) / 10
	return s
}

func main() {
	sdk.Serve("text_stats", "Counts characters, CJK characters, words, sentences, lines; estimates reading time", Run, sdk.ReadOnly())
}
