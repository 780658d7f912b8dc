package main

import "testing"

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Text: "a b&中", Action: "encode"}, "a+b%26%E4%B8%AD"},
		{Args{Text: "a b/+", Action: "encode", Part: "path"}, "a%20b%2F+"},
		{Args{Text: "a+b%26%E4%B8%AD", Action: "decode"}, "a b&中"},
		{Args{Text: "a+b%20c", Action: "decode", Part: "path"}, "a+b c"},
		{Args{Text: "", Action: "encode"}, ""},
		{Args{Text: "https://u:p@例子.cn:8443/a%20b?q=%E4%B8%AD&a=1&a=2#x", Action: "parse"},
			"scheme: https\nuser: u\npassword: (set, not shown)\nhost: 例子.cn\nport: 8443\npath: /a b\nquery a = 1\nquery a = 2\nquery q = 中\nfragment: x"},
		{Args{Text: "http://[::1]:80/", Action: "parse"}, "scheme: http\nhost: ::1\nport: 80\npath: /"},
		{Args{Text: "mailto:a@b.c", Action: "parse"}, "scheme: mailto\nopaque: a@b.c"},
	} {
		got, err := Run(t.Context(), c.in)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{Text: "%zz", Action: "decode"}, {Text: "%E", Action: "decode", Part: "path"}, {Text: "example.org/x", Action: "parse"}, {Text: "http://a:x/", Action: "parse"}, {Text: "http://a/?x=%zz", Action: "parse"}, {Action: "guess"}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
