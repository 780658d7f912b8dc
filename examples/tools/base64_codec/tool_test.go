package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Text: "中文", Action: "encode"}, "5Lit5paH"},
		{Args{Text: "a?>~", Action: "encode"}, "YT8+fg=="},
		{Args{Text: "a?>~", Action: "encode", URL: true}, "YT8-fg"},
		{Args{Text: "", Action: "encode"}, ""},
		{Args{Text: "5Lit\n 5paH", Action: "decode"}, "中文"},
		{Args{Text: "YT8-fg", Action: "decode"}, "a?>~"},
		{Args{Text: "YT8+fg==", Action: "decode"}, "a?>~"},
		{Args{Text: "data:text/plain;base64,aGk=", Action: "decode"}, "hi"},
	} {
		got, err := Run(t.Context(), c.in)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
	got, err := Run(t.Context(), Args{Text: "/wAB", Action: "decode"})
	if err != nil || !strings.HasPrefix(got, "3 bytes, not text") || !strings.Contains(got, "ff 00 01") {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{Text: "a", Action: "decode"}, {Text: "YQ=", Action: "decode"}, {Text: "YR==", Action: "decode"}, {Text: "你好", Action: "decode"}, {Text: "data:,x", Action: "decode"}, {Action: "x"}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
