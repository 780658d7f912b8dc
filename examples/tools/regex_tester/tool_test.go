package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	to := "<$n>"
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Pattern: `(?P<n>\d+)(x)?`, Text: "a1\n中文22x"}, "2 matches\n1. 1:2 \"1\"\n   group 1 n: \"1\"\n   group 2: not part of the match\n2. 2:3 \"22x\"\n   group 1 n: \"22\"\n   group 2: \"x\""},
		{Args{Pattern: `(?P<n>\d)`, Text: "a1", Replace: &to}, "1 matches\n1. 1:2 \"1\"\n   group 1 n: \"1\"\nreplaced:\na<1>"},
		{Args{Pattern: `\p{Han}+`, Text: "ab中文"}, "1 matches\n1. 1:3 \"中文\""},
		{Args{Pattern: `x`, Text: "abc"}, "0 matches"},
		{Args{Pattern: `a`, Text: "aaa", Limit: 1}, "3 matches\n1. 1:1 \"a\"\n… and 2 more"},
		{Args{Pattern: ``, Text: ""}, "1 matches\n1. 1:1 \"\""},
	} {
		got, err := Run(t.Context(), c.in)
		if err != nil || got != c.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", c.in, err, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := Run(t.Context(), Args{Pattern: "("}); err == nil {
		t.Error("no error")
	}
	if _, err := Run(t.Context(), Args{Pattern: "a(?=b)"}); err == nil || !strings.Contains(err.Error(), "lookaround") {
		t.Error(err)
	}
}
