package main

import (
	"strings"
	"testing"
)

const text = "\ufefftop = 1\r\n; c\n[数据库]\nhost: 本机\nurl = a=b;c\n[web] # x\nport=80\nport=81\nname = \" x \"\n[数据库]\nuser=\n"

func TestRun(t *testing.T) {
	db, none := "数据库", ""
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{}, "top = 1\n[数据库]\nhost = 本机\nurl = a=b;c\nuser = \n[web]\nport = 81\nname =  x "},
		{Args{Section: &db, Key: "host"}, "本机"},
		{Args{Section: &none}, "top = 1"},
		{Args{Key: "port"}, "[web] 81"},
		{Args{Section: &db, Key: "user"}, ""},
	} {
		c.in.Text = text
		if got, err := Run(t.Context(), c.in); err != nil || got != c.want {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	no := "none"
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{}, "either"},
		{Args{Path: "/nonexistent/a.ini"}, "no such file"},
		{Args{Text: text, Section: &no}, "there are: 数据库, web"},
		{Args{Text: text, Key: "x"}, "no key"},
		{Args{Text: "a\n"}, "line 1"},
		{Args{Text: "\n[a\n"}, "line 2"},
		{Args{Text: "=x"}, "line 1"},
	} {
		if got, err := Run(t.Context(), c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q %v", c.in, got, err)
		}
	}
}
