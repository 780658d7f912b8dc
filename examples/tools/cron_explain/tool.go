// Command cron_explain says in words when a cron line runs, and gives the next times.
//
// It knows the five fields of cron(5), lists, ranges, steps, names of months and days, and
// the words that begin with @. Where both the day of the month and the day of the week are
// restricted, either is enough, as in cron. A time that a clock change skips is left out; one
// that comes twice is given once.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Expr string `json:"expr" jsonschema:"cron line, as */15 9-17 * * MON-FRI or @daily; what follows the five fields is taken for the command"`
	Next int    `json:"next,omitempty" jsonschema:"how many next times to give, 0 to 50; default: 5"`
	From string `json:"from,omitempty" jsonschema:"time to count from, as 2026-01-31T08:00; default: now"`
	Zone string `json:"zone,omitempty" jsonschema:"IANA time zone, as Asia/Shanghai; default: UTC"`
	Lang string `json:"lang,omitempty" jsonschema:"en or zh; default: en"`
	None bool   `json:"no_next,omitempty" jsonschema:"only the words, no times"`
}

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// field is one of the five: the values it allows, and how it was written.
type field struct {
	set  uint64 // bit i: value i
	all  bool   // every value
	star bool   // begins with *, which is what decides about the two days
	step int    // of */n
	one  int    // the only value, or -1
	min  int
	max  int
}

type schedule struct{ minute, hour, day, month, week field }

var (
	months = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	days   = strings.Fields("sun mon tue wed thu fri sat")
)

func parse(expr string) (schedule, error) {
	var s schedule
	f := strings.Fields(expr)
	if len(f) == 0 {
		return s, errors.New("expr is empty")
	}
	if strings.HasPrefix(f[0], "@") {
		m, ok := macros[strings.ToLower(f[0])]
		if !ok {
			if strings.EqualFold(f[0], "@reboot") {
				return s, errors.New("@reboot runs once when cron starts: it has no times")
			}
			return s, fmt.Errorf("%q is not known; there are @yearly @monthly @weekly @daily @hourly @reboot", f[0])
		}
		f = strings.Fields(m)
	}
	if len(f) < 5 {
		return s, fmt.Errorf("%d fields, want five: minute hour day-of-month month day-of-week", len(f))
	}
	for i, p := range []struct {
		to       *field
		name     string
		min, max int
		names    []string
	}{
		{&s.minute, "minute", 0, 59, nil}, {&s.hour, "hour", 0, 23, nil}, {&s.day, "day of the month", 1, 31, nil},
		{&s.month, "month", 1, 12, months}, {&s.week, "day of the week", 0, 7, days},
	} {
		v, err := parseField(f[i], p.min, p.max, p.names)
		if err != nil {
			return s, fmt.Errorf("%s %q: %w", p.name, f[i], err)
		}
		*p.to = v
	}
	// 7 is Sunday, too.
	w := &s.week
	w.max = 6
	if w.set&(1<<7) != 0 {
		w.set = w.set&^(1<<7) | 1
	}
	finish(w)
	return s, nil
}

func parseField(text string, lo, hi int, names []string) (field, error) {
	f := field{min: lo, max: hi, star: text[0] == '*'}
	for part := range strings.SplitSeq(text, ",") {
		body, step, stepped := strings.Cut(part, "/")
		n := 1
		if stepped {
			v, err := strconv.Atoi(step)
			if err != nil || v < 1 || v > hi {
				return f, fmt.Errorf("step %q is not a number from 1 to %d", step, hi)
			}
			n = v
		}
		a, b := lo, hi
		switch from, to, isRange := strings.Cut(body, "-"); {
		case body == "*":
			if len(names) > 0 && names[0] == "sun" {
				b = 6
			}
			if part == text && stepped {
				f.step = n
			}
		case isRange:
			var err error
			if a, err = value(from, lo, hi, names); err != nil {
				return f, err
			}
			if b, err = value(to, lo, hi, names); err != nil {
				return f, err
			}
			if a > b {
				return f, fmt.Errorf("the range %s ends before it begins", body)
			}
		default:
			var err error
			if a, err = value(body, lo, hi, names); err != nil {
				return f, err
			}
			if !stepped {
				b = a
			}
		}
		for v := a; v <= b; v += n {
			f.set |= 1 << v
		}
	}
	finish(&f)
	return f, nil
}

func finish(f *field) {
	f.one, f.all = -1, true
	n := 0
	for v := f.min; v <= f.max; v++ {
		if f.set&(1<<v) != 0 {
			n++
			f.one = v
		} else if v != 7 {
			f.all = false
		}
	}
	if n != 1 {
		f.one = -1
	}
	if f.all {
		f.step = 0
	}
}

func value(s string, lo, hi int, names []string) (int, error) {
	for i, n := range names {
		if strings.EqualFold(s, n) {
			return i + lo, nil
		}
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < lo || v > hi || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a number from %d to %d", s, lo, hi)
	}
	return v, nil
}

func (f field) has(v int) bool { return f.set&(1<<v) != 0 }

func (s schedule) onDay(t time.Time) bool {
	if !s.month.has(int(t.Month())) {
		return false
	}
	d, w := s.day.has(t.Day()), s.week.has(int(t.Weekday()))
	if s.day.star || s.week.star {
		return d && w
	}
	return d || w
}

// next gives the n first times after from. It looks 40 years ahead, which no date that
// exists is beyond: 29 February on a given day of the week comes at least once in 40 years.
func (s schedule) next(from time.Time, n int) []time.Time {
	var out []time.Time
	loc := from.Location()
	for i := range 40*366 + 1 {
		day := time.Date(from.Year(), from.Month(), from.Day()+i, 12, 0, 0, 0, loc)
		if !s.onDay(day) {
			continue
		}
		for h := range 24 {
			for m := range 60 {
				if !s.hour.has(h) || !s.minute.has(m) {
					continue
				}
				t := time.Date(day.Year(), day.Month(), day.Day(), h, m, 0, 0, loc)
				if t.Hour() != h || t.Minute() != m {
					continue
				}
				for _, back := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
					if u := t.Add(-back); u.Hour() == h && u.Minute() == m { // it comes twice
						t = u
						break
					}
				}
				if !t.After(from) {
					continue
				}
				if out = append(out, t); len(out) == n {
					return out
				}
			}
		}
	}
	return out
}

func Run(_ context.Context, in Args) (string, error) {
	s, err := parse(in.Expr)
	if err != nil {
		return "", err
	}
	if in.Lang != "" && in.Lang != "en" && in.Lang != "zh" {
		return "", fmt.Errorf("lang %q: en or zh", in.Lang)
	}
	if in.Next < 0 || in.Next > 50 {
		return "", errors.New("next: 0 to 50")
	}
	zh := in.Lang == "zh"
	out := s.words(zh)
	if in.None {
		return out, nil
	}
	if in.Next == 0 {
		in.Next = 5
	}
	if in.Zone == "" {
		in.Zone = "UTC"
	}
	loc, err := time.LoadLocation(in.Zone)
	if err != nil || in.Zone == "Local" {
		return "", fmt.Errorf("no time zone %q; it is written as Asia/Shanghai", in.Zone)
	}
	from := time.Now().In(loc)
	if in.From != "" {
		from, err = parseTime(in.From, loc)
		if err != nil {
			return "", err
		}
	}
	times := s.next(from, in.Next)
	if len(times) == 0 {
		if zh {
			return out + "\n没有这样的日期：永不运行", nil
		}
		return out + "\nthere is no such date: it never runs", nil
	}
	for _, t := range times {
		out += "\n" + t.Format("2006-01-02 15:04 Mon -0700")
	}
	return out, nil
}

func parseTime(s string, loc *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.In(loc), nil
	}
	for _, l := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(l, s, loc); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("from %q is not a time as 2026-01-31T08:00", s)
}

func (s schedule) words(zh bool) string {
	if zh {
		return s.chinese()
	}
	return s.english()
}

func (s schedule) english() string {
	name := func(names ...string) func(int) string {
		return func(v int) string { return names[v] }
	}
	num := strconv.Itoa
	var b strings.Builder
	switch {
	case s.minute.all && s.hour.all:
		b.WriteString("every minute")
	case s.minute.step > 0 && s.hour.all:
		fmt.Fprintf(&b, "at every minute divisible by %d", s.minute.step)
	case s.minute.one == 0 && s.hour.all:
		b.WriteString("every hour, on the hour")
	case s.minute.one >= 0 && s.hour.one >= 0:
		fmt.Fprintf(&b, "at %02d:%02d", s.hour.one, s.minute.one)
	default:
		switch {
		case s.minute.all:
			b.WriteString("every minute")
		case s.minute.step > 0:
			fmt.Fprintf(&b, "at every minute divisible by %d", s.minute.step)
		default:
			b.WriteString("at minute " + spans(s.minute, num, " to ", ", ", " and "))
		}
		switch {
		case s.hour.all:
			b.WriteString(" of every hour")
		case s.hour.step > 0:
			fmt.Fprintf(&b, " of every hour divisible by %d", s.hour.step)
		default:
			b.WriteString(" of hour " + spans(s.hour, num, " to ", ", ", " and "))
		}
	}
	var when []string
	if !s.day.all {
		when = append(when, "on day "+spans(s.day, num, " to ", ", ", " and ")+" of the month")
	}
	if !s.week.all {
		when = append(when, "on "+spans(s.week, name("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"), " to ", ", ", " and "))
	}
	join := " or "
	if s.day.star || s.week.star {
		join = " that is also "
	}
	switch {
	case len(when) > 0:
		b.WriteString(", " + strings.Join(when, join))
	default:
		b.WriteString(", every day")
	}
	if !s.month.all {
		b.WriteString(", in " + spans(s.month, name("", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"), " to ", ", ", " and "))
	}
	return b.String()
}

func (s schedule) chinese() string {
	num := strconv.Itoa
	list := func(f field, n func(int) string) string { return spans(f, n, "至", "、", "、") }
	var b strings.Builder
	if !s.month.all {
		b.WriteString(list(s.month, num) + "月，")
	}
	var when []string
	if !s.day.all {
		when = append(when, "每月"+list(s.day, num)+"日")
	}
	if !s.week.all {
		when = append(when, "周"+list(s.week, func(v int) string { return string([]rune("日一二三四五六")[v]) }))
	}
	join := "或"
	if s.day.star || s.week.star {
		join = "且为"
	}
	if len(when) == 0 {
		when = []string{"每天"}
	}
	b.WriteString(strings.Join(when, join) + "，")
	switch {
	case s.minute.all && s.hour.all:
		b.WriteString("每分钟")
	case s.minute.one == 0 && s.hour.all:
		b.WriteString("每小时整点")
	case s.minute.one >= 0 && s.hour.one >= 0:
		fmt.Fprintf(&b, "%02d:%02d", s.hour.one, s.minute.one)
	default:
		switch {
		case s.hour.all:
			b.WriteString("每小时的")
		case s.hour.step > 0:
			fmt.Fprintf(&b, "能被%d整除的每个小时的", s.hour.step)
		default:
			b.WriteString(list(s.hour, num) + "点的")
		}
		switch {
		case s.minute.all:
			b.WriteString("每分钟")
		case s.minute.step > 0:
			fmt.Fprintf(&b, "能被%d整除的每一分钟", s.minute.step)
		default:
			b.WriteString("第" + list(s.minute, num) + "分")
		}
	}
	return b.String()
}

// spans lists the values of f; three or more in a row become a range.
func spans(f field, name func(int) string, to, comma, and string) string {
	var parts []string
	for v := f.min; v <= f.max; v++ {
		if !f.has(v) {
			continue
		}
		end := v
		for end < f.max && f.has(end+1) {
			end++
		}
		if end-v < 2 {
			end = v
			parts = append(parts, name(v))
		} else {
			parts = append(parts, name(v)+to+name(end))
		}
		v = end
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], comma) + and + parts[len(parts)-1]
}

func main() {
	sdk.Serve("cron_explain", "Explains a cron line in words and gives the next times it runs (cron 表达式解释)", Run, sdk.ReadOnly())
}
