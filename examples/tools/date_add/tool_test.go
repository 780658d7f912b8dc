package main

import (
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Date: "2024-01-31", Months: 1}, "2024-02-29 Thursday 星期四"},
		{Args{Date: "2024-02-29", Years: 1}, "2025-02-28 Friday 星期五"},
		{Args{Date: "2024-03-31", Months: -13}, "2023-02-28 Tuesday 星期二"},
		{Args{Date: "2024年12月31日", Days: 1}, "2025-01-01 Wednesday 星期三"},
		{Args{Date: "2026/2/17", Weeks: -1, Days: -1}, "2026-02-09 Monday 星期一"},
		{Args{Date: "2026-11-27", Workdays: 1}, "2026-11-30 Monday 星期一"},
		{Args{Date: "2026-11-28", Workdays: 1}, "2026-11-30 Monday 星期一"},
		{Args{Date: "2026-11-30", Workdays: -1}, "2026-11-27 Friday 星期五"},
		{Args{Date: "2026-11-27", Workdays: 0}, "2026-11-27 Friday 星期五"},
		{Args{Date: "2026-11-27", Workdays: 1, Holidays: []string{"2026-11-30"}}, "2026-12-01 Tuesday 星期二"},
		{Args{Date: "2026-11-27", Workdays: 1, Extra: []string{"2026-11-28"}}, "2026-11-28 Saturday 星期六"},
		{Args{Date: "2024-01-01", Workdays: 260}, "2024-12-30 Monday 星期一"},
	} {
		got, err := Run(t.Context(), c.in)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
	now = func() time.Time { return time.Date(2026, 2, 16, 23, 59, 0, 0, time.UTC) }
	defer func() { now = time.Now }()
	if got, err := Run(t.Context(), Args{Date: "today", Days: 1}); err != nil || got != "2026-02-17 Tuesday 星期二" {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {Date: "2023-02-29"}, {Date: "2024-01-01", Holidays: []string{"x"}}, {Date: "2024-01-01", Extra: []string{""}}, {Date: "9999-12-31", Days: 1}, {Date: "0001-01-01", Days: -1}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
