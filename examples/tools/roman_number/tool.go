// Command roman_number converts whole numbers from 1 to 3999 to Roman numerals and back.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Number string `json:"number" jsonschema:"1 to 3999, or a Roman numeral such as MMXXVI"`
}

var parts = []struct {
	value int
	text  string
}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}}

func Run(_ context.Context, in Args) (string, error) {
	s := strings.ToUpper(strings.TrimSpace(in.Number))
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 || n > 3999 {
			return "", fmt.Errorf("%d: Roman numerals are for 1 to 3999", n)
		}
		return roman(n), nil
	}
	n, rest := 0, s
	for _, p := range parts {
		for strings.HasPrefix(rest, p.text) {
			n, rest = n+p.value, rest[len(p.text):]
		}
	}
	if s == "" || rest != "" {
		return "", fmt.Errorf("%q is neither a whole number nor a Roman numeral of I V X L C D M", in.Number)
	}
	if n > 3999 {
		return "", fmt.Errorf("%q is above 3999", in.Number)
	}
	if r := roman(n); r != s {
		return "", fmt.Errorf("%q is not well formed; %d is written %s", in.Number, n, r)
	}
	return strconv.Itoa(n), nil
}

func roman(n int) string {
	var b strings.Builder
	for _, p := range parts {
		for n >= p.value {
			b.WriteString(p.text)
			n -= p.value
		}
	}
	return b.String()
}

func main() {
	sdk.Serve("roman_number", "Converts 1 to 3999 to Roman numerals and back", Run, sdk.ReadOnly())
}
