package main

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct{ number, style, want string }{
		{"0", "", "零"},
		{"10", "", "十"},
		{"110", "", "一百一十"},
		{"10086", "", "一万零八十六"},
		{"100000", "", "十万"},
		{"20000020", "", "二千万零二十"},
		{"100000001", "", "一亿零一"},
		{"1000000000000", "", "一万亿"},
		{"1000100000000", "", "一万零一亿"},
		{"-3.140", "", "负三点一四零"},
		{"1,204", "upper", "壹仟贰佰零肆"},
		{"10", "upper", "壹拾"},
		{"0", "money", "零元整"},
		{"1680.32", "money", "壹仟陆佰捌拾元叁角贰分"},
		{"107000.53", "money", "壹拾万零柒仟元伍角叁分"},
		{"325.04", "money", "叁佰贰拾伍元零肆分"},
		{"0.5", "money", "伍角整"},
		{"0.05", "money", "伍分"},
		{"-6.10", "money", "负陆元壹角整"},
		{"十", "", "10"},
		{"两千零二十六", "", "2026"},
		{"二〇二六", "", "2026"},
		{"一百二", "", "120"},
		{"一百零二", "", "102"},
		{"一万五", "", "15000"},
		{"负三点一四", "", "-3.14"},
		{"一万零一亿", "", "1000100000000"},
		{"壹拾万柒仟元伍角叁分", "", "107000.53"},
		{"叁佰贰拾伍元零肆分", "", "325.04"},
		{"伍角整", "", "0.50"},
	} {
		got, err := Run(t.Context(), Args{Number: c.number, Style: c.style})
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q %v, want %q", c.number, c.style, got, err, c.want)
		}
	}
}

func TestBackAndForth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		n := int64(i)
		if i > 12000 {
			n = r.Int64N(1e16)
			if i%2 == 0 { // many zeros
				n = n / 1e8 * 1e8
				n += r.Int64N(3) * 10
			}
		}
		for _, style := range []string{"lower", "upper"} {
			s, err := Run(t.Context(), Args{Number: strconv.FormatInt(n, 10), Style: style})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Run(t.Context(), Args{Number: s}); err != nil || got != strconv.FormatInt(n, 10) {
				t.Fatalf("%d: %s: %q %v", n, s, got, err)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []Args{{}, {Number: "1.2.3"}, {Number: "5."}, {Number: "12345678901234567"}, {Number: "1.234", Style: "money"}, {Number: "abc"}, {Number: "百"}, {Number: "一十百"}, {Number: "一二百"}, {Number: "万"}, {Number: "一百整"}, {Number: "三点"}, {Number: "五元六"}} {
		if got, err := Run(t.Context(), c); err == nil {
			t.Errorf("%+v: %q, no error", c, got)
		}
	}
}
