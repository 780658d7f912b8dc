// Command number_base writes whole numbers of any size in other bases.
package main

import (
	"context"
	"fmt"
	"math/big"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Number string `json:"number" jsonschema:"such as 255, 0xff, 0b1010, 0o17, -1_000, or digits of the base from"`
	From   int    `json:"from,omitempty" jsonschema:"base of number, 2 to 36; 0: by its prefix, else 10" minimum:"0" maximum:"36"`
	To     int    `json:"to,omitempty" jsonschema:"base to write it in, 2 to 36; 0: 2, 8, 10 and 16" minimum:"0" maximum:"36"`
}

func Run(_ context.Context, in Args) (string, error) {
	for _, b := range []int{in.From, in.To} {
		if b == 1 || b < 0 || b > 36 {
			return "", fmt.Errorf("base %d: bases are 2 to 36", b)
		}
	}
	s := strings.TrimSpace(in.Number)
	if len(s) > 10000 {
		return "", fmt.Errorf("%d digits are too many; at most 10000", len(s))
	}
	from := in.From
	digits := strings.TrimLeft(s, "+-")
	if from == 0 && !(len(digits) > 1 && digits[0] == '0' && strings.ContainsRune("xXbBoO", rune(digits[1]))) {
		from = 10 // a leading 0 alone does not mean octal
	}
	if from != 0 {
		s = strings.ReplaceAll(s, "_", "")
		for base, prefix := range map[int]string{16: "0x", 2: "0b", 8: "0o"} {
			if from == base && strings.HasPrefix(strings.ToLower(digits), prefix) {
				s = strings.Replace(s, digits[:2], "", 1)
			}
		}
	}
	n, ok := new(big.Int).SetString(s, from)
	if !ok {
		if from == 0 {
			from = map[byte]int{'x': 16, 'b': 2, 'o': 8}[digits[1]|0x20]
		}
		return "", fmt.Errorf("%q is not a whole number in base %d", in.Number, from)
	}
	if in.To != 0 {
		return n.Text(in.To), nil
	}
	return fmt.Sprintf("decimal %d\nhex     %#x\noctal   %O\nbinary  %#b\nbits    %d", n, n, n, n, n.BitLen()), nil
}

func main() {
	sdk.Serve("number_base", "Converts whole numbers of any size between bases 2 to 36", Run, sdk.ReadOnly())
}
