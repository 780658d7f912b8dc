// Command date_add adds years, months, weeks, days and working days to a date.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Date     string   `json:"date" jsonschema:"date as 2024-02-29, or today"`
	Years    int      `json:"years,omitempty" jsonschema:"years to add, negative to subtract" minimum:"-9999" maximum:"9999"`
	Months   int      `json:"months,omitempty" jsonschema:"months to add; a day that the month lacks becomes its last" minimum:"-99999" maximum:"99999"`
	Weeks    int      `json:"weeks,omitempty" jsonschema:"weeks to add" minimum:"-99999" maximum:"99999"`
	Days     int      `json:"days,omitempty" jsonschema:"days to add" minimum:"-999999" maximum:"999999"`
	Workdays int      `json:"workdays,omitempty" jsonschema:"working days to add: Monday to Friday without holidays" minimum:"-99999" maximum:"99999"`
	Holidays []string `json:"holidays,omitempty" jsonschema:"dates that are no working days"`
	Extra    []string `json:"extra,omitempty" jsonschema:"dates at weekends that are working days (调休)"`
}

var now = time.Now

var zh = []string{"星期日", "星期一", "星期二", "星期三", "星期四", "星期五", "星期六"}

func Run(ctx context.Context, in Args) (string, error) {
	t, err := parse(in.Date)
	if err != nil {
		return "", err
	}
	off, err := set(in.Holidays)
	if err != nil {
		return "", fmt.Errorf("holidays: %w", err)
	}
	on, err := set(in.Extra)
	if err != nil {
		return "", fmt.Errorf("extra: %w", err)
	}
	first := time.Date(t.Year()+in.Years, t.Month()+time.Month(in.Months), 1, 0, 0, 0, 0, time.UTC)
	t = first.AddDate(0, 0, min(t.Day(), first.AddDate(0, 1, -1).Day())-1+in.Weeks*7+in.Days)
	step, left := 1, in.Workdays
	if left < 0 {
		step, left = -1, -left
	}
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		t = t.AddDate(0, 0, step)
		w := t.Weekday()
		if on[t] || !off[t] && w != time.Saturday && w != time.Sunday {
			left--
		}
	}
	if t.Year() < 1 || t.Year() > 9999 {
		return "", fmt.Errorf("the result is in the year %d; years are 1 to 9999", t.Year())
	}
	return fmt.Sprintf("%s %s %s", t.Format(time.DateOnly), t.Weekday(), zh[t.Weekday()]), nil
}

func set(dates []string) (map[time.Time]bool, error) {
	m := map[time.Time]bool{}
	for _, s := range dates {
		t, err := parse(s)
		if err != nil {
			return nil, err
		}
		m[t] = true
	}
	return m, nil
}

func parse(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	if strings.EqualFold(s, "today") || s == "今天" {
		y, m, d := now().Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), nil
	}
	for _, l := range []string{"2006-1-2", "2006/1/2", "2006.1.2", "20060102", "2006年1月2日"} {
		if t, err := time.Parse(l, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no date; write it as 2024-02-29", s)
}

func main() {
	sdk.Serve("date_add", "Adds years, months, weeks, days and working days to a date", Run, sdk.ReadOnly())
}
