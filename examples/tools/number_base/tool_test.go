package main

import "testing"

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Number: "255"}, "decimal 255\nhex     0xff\noctal   0o377\nbinary  0b11111111\nbits    8"},
		{Args{Number: "-0xFF", To: 10}, "-255"},
		{Args{Number: "0b1010", To: 16}, "a"},
		{Args{Number: "0o17", To: 10}, "15"},
		{Args{Number: "010", To: 10}, "10"},
		{Args{Number: "1_000", To: 10}, "1000"},
		{Args{Number: "zz", From: 36, To: 10}, "1295"},
		{Args{Number: "0xff", From: 16, To: 2}, "11111111"},
		{Args{Number: "b1", From: 16, To: 10}, "177"},
		{Args{Number: "0", To: 2}, "0"},
		{Args{Number: "340282366920938463463374607431768211456", To: 16}, "100000000000000000000000000000000"},
	} {
		got, err := Run(t.Context(), c.in)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {Number: "12", From: 2}, {Number: "0xg"}, {Number: "1.5"}, {Number: "1", From: 1}, {Number: "1", To: 37}, {Number: "--1"}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
