package main

import (
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		from, to string
		days     int
		calendar string
	}{
		{"2024-01-01", "2024-01-01", 0, "0 years 0 months 0 days"},
		{"2024-02-28", "2024-03-01", 2, "0 years 0 months 2 days"},
		{"2024-01-31", "2024-02-29", 29, "0 years 1 months 0 days"},
		{"2000-02-29", "2001-02-28", 365, "1 years 0 months 0 days"},
		{"2024年1月1日", "2025/1/2", 367, "1 years 0 months 1 days"},
		{"2024-03-01", "2024-02-28", -2, "-0 years 0 months 2 days"},
		{"2026-11-28", "2026-11-30", 2, "0 years 0 months 2 days"},
		{"19000101", "21000101", 73049, "200 years 0 months 0 days"},
	} {
		d, err := Run(t.Context(), Args{From: c.from, To: c.to})
		if err != nil || d.Days != c.days || d.Calendar != c.calendar || d.Seconds != nil {
			t.Errorf("%s %s: %+v %v", c.from, c.to, d, err)
		}
		work, a, b := 0, mustDay(t, c.from), mustDay(t, c.to)
		step := 1
		if b.Before(a) {
			a, b, step = b, a, -1
		}
		for ; a.Before(b); a = a.AddDate(0, 0, 1) {
			if w := a.Weekday(); w != time.Saturday && w != time.Sunday {
				work += step
			}
		}
		if d.Workdays != work {
			t.Errorf("%s %s: %d working days, counted %d", c.from, c.to, d.Workdays, work)
		}
	}
	if d, err := Run(t.Context(), Args{From: "2026-11-27", To: "2026-12-07"}); err != nil || d.Workdays != 6 {
		t.Errorf("%+v %v", d, err)
	}
}

func mustDay(t *testing.T, s string) time.Time {
	t.Helper()
	at, _, err := parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return day(at)
}

func TestTimesAndToday(t *testing.T) {
	d, err := Run(t.Context(), Args{From: "2024-01-01T00:00:00+08:00", To: "2024-01-02T01:02:03Z"})
	if err != nil || *d.Seconds != 33*3600+2*60+3 || d.Exact != "1 days 9 h 2 min 3 s" {
		t.Errorf("%+v %v", d, err)
	}
	now = func() time.Time { return time.Date(2026, 2, 17, 23, 0, 0, 0, time.UTC) }
	defer func() { now = time.Now }()
	d, err = Run(t.Context(), Args{From: "今天", To: "2026-02-18"})
	if err != nil || d.Days != 1 || d.FromDay != "Tuesday" || d.Exact != "" {
		t.Errorf("%+v %v", d, err)
	}
}

func TestErrors(t *testing.T) {
	for _, s := range []string{"", "2023-02-29", "tomorrow", "2024-13-01"} {
		if _, err := Run(t.Context(), Args{From: s, To: "2024-01-01"}); err == nil {
			t.Errorf("%q: no error", s)
		}
		if _, err := Run(t.Context(), Args{From: "2024-01-01", To: s}); err == nil {
			t.Errorf("to %q: no error", s)
		}
	}
}
