package main

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for _, c := range []struct{ expr, en, zh string }{
		{"* * * * *", "every minute, every day", "每天，每分钟"},
		{"@hourly", "every hour, on the hour, every day", "每天，每小时整点"},
		{"5 4 * * *", "at 04:05, every day", "每天，04:05"},
		{"*/15 9-17 * * MON-FRI", "at every minute divisible by 15 of hour 9 to 17, on Monday to Friday", "周一至五，9至17点的能被15整除的每一分钟"},
		{"0 0 1,15 * 5", "at 00:00, on day 1 and 15 of the month or on Friday", "每月1、15日或周五，00:00"},
		{"0 0 29 feb *", "at 00:00, on day 29 of the month, in February", "2月，每月29日，00:00"},
		{"3,33 */2 * * 7", "at minute 3 and 33 of every hour divisible by 2, on Sunday", "周日，能被2整除的每个小时的第3、33分"},
		{"0 12 * * 0-7", "at 12:00, every day", "每天，12:00"},
		{"10 1 * * * /usr/bin/true -x", "at 01:10, every day", "每天，01:10"},
	} {
		for lang, want := range map[string]string{"en": c.en, "zh": c.zh} {
			if got, err := Run(t.Context(), Args{Expr: c.expr, Lang: lang, None: true}); err != nil || got != want {
				t.Errorf("%s: %q %v, want %q", c.expr, got, err, want)
			}
		}
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		expr, from, zone string
		n                int
		want             string
	}{
		{"*/20 * * * *", "2026-01-31T23:30", "", 3, "2026-01-31 23:40 Sat +0000|2026-02-01 00:00 Sun +0000|2026-02-01 00:20 Sun +0000"},
		{"0 0 29 2 *", "2026-01-01", "Asia/Shanghai", 2, "2028-02-29 00:00 Tue +0800|2032-02-29 00:00 Sun +0800"},
		{"0 0 13 * 5", "2026-02-10", "", 3, "2026-02-13 00:00 Fri +0000|2026-02-20 00:00 Fri +0000|2026-02-27 00:00 Fri +0000"},
		// 02:30 does not exist on 29 March 2026 in Berlin, and comes twice on 25 October.
		{"30 2 * * *", "2026-03-28T12:00", "Europe/Berlin", 1, "2026-03-30 02:30 Mon +0200"},
		{"30 2 * * *", "2026-10-24T12:00", "Europe/Berlin", 2, "2026-10-25 02:30 Sun +0200|2026-10-26 02:30 Mon +0100"},
		{"0 8 * * *", "2026-01-01T00:00:00Z", "Asia/Shanghai", 1, "2026-01-02 08:00 Fri +0800"},
		{"0 0 31 2 *", "2026-01-01", "", 1, "there is no such date: it never runs"},
	} {
		got, err := Run(t.Context(), Args{Expr: c.expr, From: c.from, Zone: c.zone, Next: c.n})
		_, got, _ = strings.Cut(got, "\n")
		if got = strings.ReplaceAll(got, "\n", "|"); err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", c.expr, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Expr: " "}, "empty"},
		{Args{Expr: "* * * *"}, "4 fields"},
		{Args{Expr: "60 * * * *"}, `minute "60"`},
		{Args{Expr: "* * 0 * *"}, "1 to 31"},
		{Args{Expr: "*/0 * * * *"}, "step"},
		{Args{Expr: "30-10 * * * *"}, "ends before"},
		{Args{Expr: "* * * * monday"}, "day of the week"},
		{Args{Expr: "* * * * ,"}, "not a number"},
		{Args{Expr: "@reboot"}, "no times"},
		{Args{Expr: "@often"}, "not known"},
		{Args{Expr: "* * * * *", Zone: "Mars/Base"}, "no time zone"},
		{Args{Expr: "* * * * *", From: "soon"}, "not a time"},
		{Args{Expr: "* * * * *", Next: 99}, "0 to 50"},
		{Args{Expr: "* * * * *", Lang: "fr"}, "en or zh"},
	} {
		if got, err := Run(t.Context(), c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q %v", c.in, got, err)
		}
	}
}
