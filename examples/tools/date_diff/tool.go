// Command date_diff tells how far two dates are apart: in days, in years, months and
// days, in weeks and in working days; with times also in hours, minutes and seconds.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	From string `json:"from" jsonschema:"date as 2024-02-29, 2024/2/29, 2024年2月29日 or time as RFC 3339; today"`
	To   string `json:"to" jsonschema:"the other date, likewise"`
}

type Diff struct {
	Days     int    `json:"days"` // negative when to is before from
	Calendar string `json:"calendar"`
	Weeks    string `json:"weeks"`
	Workdays int    `json:"workdays"` // Monday to Friday from the first day, the last not counted
	FromDay  string `json:"from_weekday"`
	ToDay    string `json:"to_weekday"`
	Exact    string `json:"exact,omitempty"` // only when both have a time
	Seconds  *int64 `json:"seconds,omitempty"`
}

var now = time.Now

func Run(_ context.Context, in Args) (Diff, error) {
	from, fromTime, err := parse(in.From)
	if err != nil {
		return Diff{}, fmt.Errorf("from: %w", err)
	}
	to, toTime, err := parse(in.To)
	if err != nil {
		return Diff{}, fmt.Errorf("to: %w", err)
	}
	a, b := day(from), day(to)
	d := Diff{Days: days(a, b), FromDay: a.Weekday().String(), ToDay: b.Weekday().String()}
	lo, hi, sign := a, b, ""
	if d.Days < 0 {
		lo, hi, sign = b, a, "-"
	}
	n := days(lo, hi)
	d.Calendar = sign + calendar(lo, hi)
	d.Weeks = fmt.Sprintf("%s%d weeks %d days", sign, n/7, n%7)
	d.Workdays = n / 7 * 5
	for i := range n % 7 {
		if w := lo.AddDate(0, 0, i).Weekday(); w != time.Saturday && w != time.Sunday {
			d.Workdays++
		}
	}
	if sign != "" {
		d.Workdays = -d.Workdays
	}
	if fromTime && toTime {
		s := to.Unix() - from.Unix()
		d.Seconds = &s
		abs := s
		exactSign := ""
		if s < 0 {
			abs, exactSign = -s, "-"
		}
		d.Exact = fmt.Sprintf("%s%d days %d h %d min %d s", exactSign, abs/86400, abs/3600%24, abs/60%60, abs%60)
	}
	return d, nil
}

// parse also says whether there was a time of day.
func parse(s string) (time.Time, bool, error) {
	s = strings.TrimSpace(s)
	if strings.EqualFold(s, "today") || s == "今天" {
		return now(), false, nil
	}
	for _, l := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.Parse(l, s); err == nil {
			return t, true, nil
		}
	}
	for _, l := range []string{"2006-1-2", "2006/1/2", "2006.1.2", "20060102", "2006年1月2日"} {
		if t, err := time.Parse(l, s); err == nil {
			return t, false, nil
		}
	}
	return time.Time{}, false, fmt.Errorf("%q is no date; write it as 2024-02-29 or 2024-02-29T08:00:00Z", s)
}

func day(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func days(a, b time.Time) int { return int((b.Unix() - a.Unix()) / 86400) }

// calendar counts whole months from lo, then days. A month after the 31st ends on the last
// day of a shorter month.
func calendar(lo, hi time.Time) string {
	months := (hi.Year()-lo.Year())*12 + int(hi.Month()-lo.Month())
	at := addMonths(lo, months)
	if at.After(hi) {
		months--
		at = addMonths(lo, months)
	}
	return fmt.Sprintf("%d years %d months %d days", months/12, months%12, days(at, hi))
}

func addMonths(t time.Time, n int) time.Time {
	first := time.Date(t.Year(), t.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

func main() {
	sdk.Serve("date_diff", "Difference of two dates in days, years/months/days, weeks and working days", Run, sdk.ReadOnly())
}
