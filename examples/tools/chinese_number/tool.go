// Command chinese_number writes numbers in Chinese characters, also as an amount of money
// in capitals (大写金额), and reads Chinese numerals.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Number string `json:"number" jsonschema:"digits such as 10086 or 1234.5, or Chinese such as 一万零八十六; below 1e16"`
	Style  string `json:"style,omitempty" jsonschema:"for digits: lower 一百零一, upper 壹佰零壹, money 壹佰零壹元整" enum:"lower,upper,money" default:"lower"`
}

const (
	lower = "零一二三四五六七八九"
	upper = "零壹贰叁肆伍陆柒捌玖"
)

func Run(_ context.Context, in Args) (string, error) {
	s := strings.NewReplacer(",", "", "，", "", "_", "", " ", "").Replace(strings.TrimSpace(in.Number))
	if s == "" {
		return "", errors.New("number is empty")
	}
	neg := false
	for _, p := range []string{"-", "负"} {
		if rest, ok := strings.CutPrefix(s, p); ok && !neg {
			neg, s = true, rest
		}
	}
	if strings.Trim(s, "0123456789.") == "" {
		return write(s, neg, in.Style)
	}
	out, err := read(s)
	if err == nil && neg && strings.Trim(out, "0.") != "" {
		out = "-" + out
	}
	return out, err
}

func write(s string, neg bool, style string) (string, error) {
	whole, frac, point := strings.Cut(s, ".")
	if strings.Contains(frac, ".") || whole == "" || point && frac == "" {
		return "", fmt.Errorf("%q is not a number", s)
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > 16 {
		return "", errors.New("the number is too large; it must be below 10000000000000000 (1e16)")
	}
	sign := ""
	if neg && strings.Trim(whole+frac, "0") != "" {
		sign = "负"
	}
	if style == "money" {
		return money(sign, whole, frac)
	}
	digits := []rune(lower)
	if style == "upper" {
		digits = []rune(upper)
	}
	out := sign + integer(whole, style == "upper")
	if point {
		out += "点"
		for _, c := range frac {
			out += string(digits[c-'0'])
		}
	}
	return out, nil
}

func money(sign, whole, frac string) (string, error) {
	if len(strings.TrimRight(frac, "0")) > 2 {
		return "", fmt.Errorf("an amount has at most 2 decimals, not .%s", frac)
	}
	frac = (frac + "00")[:2]
	d := []rune(upper)
	out := ""
	if whole != "" {
		out = integer(whole, true) + "元"
	}
	jiao, fen := frac[0]-'0', frac[1]-'0'
	switch {
	case jiao == 0 && fen == 0:
		if whole == "" {
			return "零元整", nil
		}
		return sign + out + "整", nil
	case jiao == 0:
		if whole != "" {
			out += "零"
		}
		return sign + out + string(d[fen]) + "分", nil
	case fen == 0:
		return sign + out + string(d[jiao]) + "角整", nil
	}
	return sign + out + string(d[jiao]) + "角" + string(d[fen]) + "分", nil
}

var groups = []string{"", "万", "亿", "万亿"}

func integer(s string, capital bool) string {
	if s == "" {
		return "零"
	}
	digits, units := []rune(lower), []string{"千", "百", "十", ""}
	if capital {
		digits, units = []rune(upper), []string{"仟", "佰", "拾", ""}
	}
	s = strings.Repeat("0", (4-len(s)%4)%4) + s
	var b strings.Builder
	zero := false
	for g := 0; g < len(s)/4; g++ {
		some := false
		for i, c := range s[g*4 : g*4+4] {
			if c == '0' {
				zero = true
				continue
			}
			if zero && b.Len() > 0 {
				b.WriteString("零")
			}
			zero, some = false, true
			b.WriteRune(digits[c-'0'])
			b.WriteString(units[i])
		}
		name := groups[len(s)/4-1-g]
		// 万亿 before a group of 亿 that is not empty is said as 万.
		if name == "万亿" && strings.Trim(s[g*4+4:g*4+8], "0") != "" {
			name = "万"
		}
		if some {
			b.WriteString(name)
		}
	}
	out := b.String()
	if !capital {
		if rest, ok := strings.CutPrefix(out, "一十"); ok {
			out = "十" + rest
		}
	}
	return out
}

var values = func() map[rune]int64 {
	m := map[rune]int64{'〇': 0, '○': 0, '两': 2, '貳': 2, '參': 3, '陸': 6, '兩': 2, '弐': 2}
	for _, s := range []string{lower, upper} {
		for i, r := range []rune(s) {
			m[r] = int64(i)
		}
	}
	return m
}()

var unitValues = map[rune]int64{'十': 10, '拾': 10, '百': 100, '佰': 100, '千': 1000, '仟': 1000}

// read gives the digits of a Chinese numeral, or of an amount in capitals.
func read(s string) (string, error) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "人民币"), "￥")
	body := strings.TrimRight(s, "整正")
	if i := strings.IndexAny(body, "元圆块角分"); i >= 0 {
		return readMoney(s, body)
	}
	if body != s {
		return "", fmt.Errorf("%q: %s without 元", s, s[len(body):])
	}
	whole, frac, point := strings.Cut(s, "点")
	n, err := readInt(whole)
	if err != nil {
		return "", err
	}
	out := strconv.FormatInt(n, 10)
	if point {
		if frac == "" {
			return "", fmt.Errorf("%q: digits are missing after 点", s)
		}
		out += "."
		for _, r := range frac {
			v, ok := values[r]
			if !ok {
				return "", fmt.Errorf("%q: %c is no digit", s, r)
			}
			out += strconv.FormatInt(v, 10)
		}
	}
	return out, nil
}

func readMoney(s, body string) (string, error) {
	var yuan int64
	var err error
	rest := body
	if i := strings.IndexAny(body, "元圆块"); i >= 0 {
		if yuan, err = readInt(body[:i]); err != nil {
			return "", err
		}
		_, size := firstRune(body[i:])
		rest = body[i+size:]
	}
	cents := int64(0)
	for _, unit := range []struct {
		name  string
		value int64
	}{{"角", 10}, {"分", 1}} {
		before, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		r := []rune(strings.TrimPrefix(before, "零"))
		if before == "零" {
			r = []rune(before)
		}
		if len(r) != 1 {
			return "", fmt.Errorf("%q: one digit is expected before %s", s, unit.name)
		}
		v, known := values[r[0]]
		if !known {
			return "", fmt.Errorf("%q: %c is no digit", s, r[0])
		}
		cents, rest = cents+v*unit.value, after
	}
	if rest != "" {
		return "", fmt.Errorf("%q: %q is not understood", s, rest)
	}
	return fmt.Sprintf("%d.%02d", yuan, cents), nil
}

func firstRune(s string) (rune, int) {
	for _, r := range s {
		return r, len(string(r))
	}
	return 0, 0
}

func readInt(s string) (int64, error) {
	if s == "" {
		return 0, errors.New("a numeral is missing")
	}
	runes := []rune(s)
	plain := ""
	for _, r := range runes {
		if v, ok := values[r]; ok {
			plain += strconv.FormatInt(v, 10)
		}
	}
	if len(plain) == len(runes) { // 二〇二六: digit by digit
		n, err := strconv.ParseInt(plain, 10, 64)
		if err != nil || len(plain) > 18 {
			return 0, fmt.Errorf("%q is too large", s)
		}
		return n, nil
	}
	var total, section, digit int64
	have := false
	lastUnit, lastGroup := int64(10000), int64(1)<<62
	short := int64(0) // the unit that a digit at the end without one belongs below: 一百二 is 120
	for _, r := range runes {
		if v, ok := values[r]; ok {
			if have && digit != 0 {
				return 0, fmt.Errorf("%q: two digits in a row with units", s)
			}
			digit, have = v, true
			if v == 0 {
				short, have = 0, false
			}
			continue
		}
		if u, ok := unitValues[r]; ok {
			if u >= lastUnit {
				return 0, fmt.Errorf("%q: %c is out of order", s, r)
			}
			if !have {
				if u != 10 || section != 0 {
					return 0, fmt.Errorf("%q: a digit is missing before %c", s, r)
				}
				digit = 1
			}
			section += digit * u
			digit, have, lastUnit, short = 0, false, u, u
			continue
		}
		if r != '万' && r != '萬' && r != '亿' && r != '億' {
			return 0, fmt.Errorf("%q: %c is not part of a numeral", s, r)
		}
		section += digit
		if r == '万' || r == '萬' {
			if lastGroup <= 10000 || section == 0 {
				return 0, fmt.Errorf("%q: %c is out of order", s, r)
			}
			total, lastGroup, short = total+section*10000, 10000, 10000
		} else {
			if lastGroup <= 100000000 && lastGroup != 10000 || total+section == 0 || total >= 100000000 {
				return 0, fmt.Errorf("%q: %c is out of order", s, r)
			}
			total, lastGroup, short = (total+section)*100000000, 100000000, 100000000
		}
		section, digit, have, lastUnit = 0, 0, false, 10000
	}
	if have && short > 10 {
		digit *= short / 10
	}
	return total + section + digit, nil
}

func main() {
	sdk.Serve("chinese_number", "数字转汉字、大写金额，汉字转数字: numbers in Chinese characters and back", Run, sdk.ReadOnly())
}
