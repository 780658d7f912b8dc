package main

import (
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	for _, c := range []struct{ at, from, to, want string }{
		{"2024-07-01 12:00", "Asia/Shanghai", "Europe/Berlin", "2024-07-01 06:00:00 +02:00 Monday Europe/Berlin (CEST, summer time)"},
		{"2024-01-01 12:00", "Asia/Shanghai", "Europe/Berlin", "2024-01-01 05:00:00 +01:00 Monday Europe/Berlin (CET)"},
		{"2024-01-01", "Asia/Shanghai", "America/New_York", "2023-12-31 11:00:00 -05:00 Sunday America/New_York (EST)"},
		{"2024-01-01T00:00:00+05:45", "", "Asia/Kolkata", "2023-12-31 23:45:00 +05:30 Sunday Asia/Kolkata (IST)"},
		{"@1700000000", "", "Asia/Shanghai", "2023-11-15 06:13:20 +08:00 Wednesday Asia/Shanghai (CST)"},
		// Clocks in New York go from 02:00 to 03:00 on 2024-03-10 and back on 2024-11-03.
		{"2024-03-10 01:59:59", "America/New_York", "UTC", "2024-03-10 06:59:59 +00:00 Sunday UTC (UTC)"},
		{"2024-03-10 03:00", "America/New_York", "UTC", "2024-03-10 07:00:00 +00:00 Sunday UTC (UTC)"},
		{"2024-03-10 02:30", "America/New_York", "UTC", "note: clocks in America/New_York skip 2024-03-10 02:30"},
		{"2024-11-03 01:30", "America/New_York", "UTC", "2024-11-03 05:30:00 +00:00"},
		{"2024-11-03 01:30", "America/New_York", "UTC", "twice; this is the first, the second is 2024-11-03T06:30:00Z"},
		// China had summer time from 1986 to 1991.
		{"1988-07-01 12:00", "Asia/Shanghai", "UTC", "1988-07-01 03:00:00 +00:00"},
		{"2024-10-06 02:15", "Australia/Lord_Howe", "UTC", "skip"},
	} {
		got, err := Run(t.Context(), Args{Time: c.at, From: c.from, To: []string{c.to}})
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %v\n%s\nwant %s", c.at, c.from, err, got, c.want)
		}
	}
	now = func() time.Time { return time.Unix(0, 0) }
	defer func() { now = time.Now }()
	if got, err := Run(t.Context(), Args{To: []string{"UTC"}}); err != nil || !strings.HasPrefix(got, "1970-01-01 00:00:00") {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {To: []string{"Mars/Base"}}, {From: "Local", To: []string{"UTC"}}, {Time: "noon", To: []string{"UTC"}}, {Time: "@1x", To: []string{"UTC"}}, {Time: "2024-02-30", To: []string{"UTC"}}} {
		if _, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: no error", in)
		}
	}
}
