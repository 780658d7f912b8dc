package main

import "testing"

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Text: " Hello,  World! "}, "hello-world"},
		{Args{Text: "Don't stop"}, "dont-stop"},
		{Args{Text: "Straße Ünïcode & Łódź"}, "strasse-unicode-and-lodz"},
		{Args{Text: "e\u0301te\u0301"}, "ete"},
		{Args{Text: "Go 语言入门：第1章"}, "go-语言入门-第1章"},
		{Args{Text: "Go 语言", ASCII: true}, "go"},
		{Args{Text: "one two three", Max: 9}, "one-two"},
		{Args{Text: "one two three", Max: 7}, "one-two"},
		{Args{Text: "abcdefgh", Max: 3}, "abc"},
		{Args{Text: "a/../b"}, "a-b"},
	} {
		if got, err := Run(t.Context(), c.in); err != nil || got != c.want {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {Text: "!!!"}, {Text: "中文", ASCII: true}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
