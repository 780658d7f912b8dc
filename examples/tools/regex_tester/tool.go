// Command regex_tester tries a regular expression in Go's syntax (RE2) on a text.
package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Pattern string  `json:"pattern" jsonschema:"regular expression in RE2 syntax; flags as (?i), (?s), (?m)"`
	Text    string  `json:"text" jsonschema:"text to search"`
	Replace *string `json:"replace,omitempty" jsonschema:"also show the text with each match replaced by this; $1 or ${name} is a group"`
	Limit   int     `json:"limit,omitempty" jsonschema:"matches to show" minimum:"1" maximum:"1000" default:"50"`
}

func Run(_ context.Context, in Args) (string, error) {
	re, err := regexp.Compile(in.Pattern)
	if err != nil {
		for _, s := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
			if strings.Contains(in.Pattern, s) {
				return "", fmt.Errorf("%w; lookaround (%s…) is not in RE2: match more and use a group", err, s)
			}
		}
		return "", err
	}
	if in.Limit <= 0 {
		in.Limit = 50
	}
	all := re.FindAllStringSubmatchIndex(in.Text, -1)
	var b strings.Builder
	fmt.Fprintf(&b, "%d matches\n", len(all))
	names := re.SubexpNames()
	for i, m := range all {
		if i == in.Limit {
			fmt.Fprintf(&b, "… and %d more\n", len(all)-i)
			break
		}
		line, col := place(in.Text, m[0])
		fmt.Fprintf(&b, "%d. %d:%d %q\n", i+1, line, col, in.Text[m[0]:m[1]])
		for g := 1; g < len(names); g++ {
			name := fmt.Sprint(g)
			if names[g] != "" {
				name += " " + names[g]
			}
			if m[2*g] < 0 {
				fmt.Fprintf(&b, "   group %s: not part of the match\n", name)
			} else {
				fmt.Fprintf(&b, "   group %s: %q\n", name, in.Text[m[2*g]:m[2*g+1]])
			}
		}
	}
	if in.Replace != nil {
		fmt.Fprintf(&b, "replaced:\n%s\n", re.ReplaceAllString(in.Text, *in.Replace))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// place is the line and the column in characters, both from 1.
func place(s string, at int) (int, int) {
	start := strings.LastIndexByte(s[:at], '\n') + 1
	return strings.Count(s[:at], "\n") + 1, utf8.RuneCountInString(s[start:at]) + 1
}

func main() {
	sdk.Serve("regex_tester", "Tries a regular expression (Go, RE2) on a text: matches, groups, replacement", Run, sdk.ReadOnly())
}
