// Command lunar_calendar converts dates between the Gregorian and the Chinese lunisolar
// calendar, for the lunar years 1900 to 2100.
package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Date  string `json:"date,omitempty" jsonschema:"Gregorian date such as 2026-02-17, to convert to the lunar calendar"`
	Lunar string `json:"lunar,omitempty" jsonschema:"lunar date to convert back: 2023-2-15, leap months as 2023-闰2-15"`
	Year  int    `json:"year,omitempty" jsonschema:"a lunar year, to list its months" minimum:"1900" maximum:"2100"`
}

const first, last = 1900, 2100

// years holds one number a lunar year. Bits 0–12: the month in that place, a leap month
// in its own, has 30 days, not 29. Bits 13–16: the month that is repeated as the leap
// month, or 0. Bits 17 up: the new year as days after 1 January.
var years = [...]int32{
	0x3d16d2, 0x620752, 0x4c0ea5, 0x38b64a, 0x5c064b, 0x440a9b, 0x309556, 0x56056a, 0x400b59, 0x2a5752,
	0x500752, 0x3adb25, 0x600b25, 0x480a4b, 0x32b4ab, 0x5802ad, 0x42056b, 0x2c4b69, 0x520da9, 0x3efd92,
	0x640e92, 0x4c0d25, 0x36ba4d, 0x5c0a56, 0x4602b6, 0x2e95b5, 0x5606d4, 0x400ea9, 0x2c5e92, 0x500e92,
	0x3acd26, 0x5e052b, 0x480a57, 0x32b2b6, 0x580b5a, 0x4406d4, 0x2e6ec9, 0x520749, 0x3cf693, 0x620a93,
	0x4c052b, 0x34ca5b, 0x5a0aad, 0x46056a, 0x309b55, 0x560ba4, 0x400b49, 0x2a5a93, 0x500a95, 0x38f52d,
	0x5e0536, 0x480aad, 0x34b5aa, 0x5805b2, 0x420da5, 0x2e7d4a, 0x540d4a, 0x3d0a95, 0x600a97, 0x4c0556,
	0x36cab5, 0x5a0ad5, 0x4606d2, 0x308ea5, 0x560ea5, 0x40064a, 0x286c97, 0x4e0a9b, 0x3af55a, 0x5e056a,
	0x480b69, 0x34b752, 0x5a0b52, 0x420b25, 0x2c964b, 0x520a4b, 0x3d14ab, 0x6002ad, 0x4a056d, 0x36cb69,
	0x5c0da9, 0x460d92, 0x309d25, 0x560d25, 0x415a4d, 0x640a56, 0x4e02b6, 0x38c5b5, 0x5e06d5, 0x480ea9,
	0x34be92, 0x5a0e92, 0x440d26, 0x2c6a56, 0x500a57, 0x3d14d6, 0x62035a, 0x4a06d5, 0x36b6c9, 0x5c0749,
	0x460693, 0x2e952b, 0x54052b, 0x3e0a5b, 0x2a555a, 0x4e056a, 0x38fb55, 0x600ba4, 0x4a0b49, 0x32ba93,
	0x580a95, 0x42052d, 0x2c8aad, 0x500ab5, 0x3d35aa, 0x6205d2, 0x4c0da5, 0x36dd4a, 0x5c0d4a, 0x460c95,
	0x30952e, 0x540556, 0x3e0ab5, 0x2a55b2, 0x5006d2, 0x38cea5, 0x5e0725, 0x48064b, 0x32ac97, 0x560cab,
	0x42055a, 0x2c6ad6, 0x520b69, 0x3d7752, 0x620b52, 0x4c0b25, 0x36da4b, 0x5a0a4b, 0x4404ab, 0x2ea55b,
	0x5405ad, 0x3e0b6a, 0x2a5b52, 0x500d92, 0x3afd25, 0x5e0d25, 0x480a55, 0x32b4ad, 0x5804b6, 0x4005b5,
	0x2c6daa, 0x520ec9, 0x3f1e92, 0x620e92, 0x4c0d26, 0x36ca56, 0x5a0a57, 0x4404d6, 0x2e86d5, 0x540755,
	0x400749, 0x286e93, 0x4e0693, 0x38f52b, 0x5e052b, 0x460a5b, 0x32b55a, 0x58056a, 0x420b65, 0x2c974a,
	0x520b4a, 0x3d1a95, 0x620a95, 0x4a052d, 0x34caad, 0x5a0ab5, 0x4605aa, 0x2e8ba5, 0x540da5, 0x400d4a,
	0x2a7c95, 0x4e0c96, 0x38f94e, 0x5e0556, 0x480ab5, 0x32b5b2, 0x5806d2, 0x420ea5, 0x2e8e4a, 0x50068b,
	0x3b0c97, 0x6004ab, 0x4a055b, 0x34cad6, 0x5a0b6a, 0x460752, 0x309725, 0x540b45, 0x3e0a8b, 0x28549b,
	0x4e04ab,
}

type month struct {
	n    int
	leap bool
	days int
}

func newYear(y int) time.Time {
	return time.Date(y, 1, 1+int(years[y-first]>>17), 0, 0, 0, 0, time.UTC)
}

func months(y int) []month {
	v := years[y-first]
	leap := int(v >> 13 & 15)
	var out []month
	for n := 1; n <= 12; n++ {
		out = append(out, month{n: n})
		if n == leap {
			out = append(out, month{n: n, leap: true})
		}
	}
	for i := range out {
		out[i].days = 29 + int(v>>i&1)
	}
	return out
}

const (
	stems    = "甲乙丙丁戊己庚辛壬癸"
	branches = "子丑寅卯辰巳午未申酉戌亥"
	animals  = "鼠牛虎兔龙蛇马羊猴鸡狗猪"
)

var english = []string{"Rat", "Ox", "Tiger", "Rabbit", "Dragon", "Snake", "Horse", "Goat", "Monkey", "Rooster", "Dog", "Pig"}

func char(s string, i int) string { return string([]rune(s)[i]) }

// cycle is the i-th of the sixty pairs, from 甲子 = 0.
func cycle(i int) string {
	i = (i%60 + 60) % 60
	return char(stems, i%10) + char(branches, i%12)
}

// dayCycle: 1900-01-31 was 甲辰, the 41st pair.
func dayCycle(t time.Time) string {
	return cycle(40 + int((t.Unix()-time.Date(1900, 1, 31, 0, 0, 0, 0, time.UTC).Unix())/86400))
}

var monthNames = []string{"正月", "二月", "三月", "四月", "五月", "六月", "七月", "八月", "九月", "十月", "冬月", "腊月"}

func (m month) name() string {
	if m.leap {
		return "闰" + monthNames[m.n-1]
	}
	return monthNames[m.n-1]
}

func dayName(d int) string {
	digits := "一二三四五六七八九十"
	switch {
	case d <= 10:
		return "初" + char(digits, d-1)
	case d < 20:
		return "十" + char(digits, d-11)
	case d == 20:
		return "二十"
	case d < 30:
		return "廿" + char(digits, d-21)
	}
	return "三十"
}

// festival names the day in a month of that length, "" for none.
func festival(m month, d int) string {
	if m.leap {
		return ""
	}
	switch m.n*100 + d {
	case 101:
		return "春节"
	case 115:
		return "元宵节"
	case 505:
		return "端午节"
	case 707:
		return "七夕"
	case 715:
		return "中元节"
	case 815:
		return "中秋节"
	case 909:
		return "重阳节"
	case 1208:
		return "腊八节"
	case 1200 + m.days:
		return "除夕"
	}
	return ""
}

func yearName(y int) string {
	i := y - 4
	return fmt.Sprintf("%s年 生肖%s (%s)", cycle(i), char(animals, i%12), english[i%12])
}

func Run(_ context.Context, in Args) (string, error) {
	given := 0
	for _, b := range []bool{in.Date != "", in.Lunar != "", in.Year != 0} {
		if b {
			given++
		}
	}
	if given != 1 {
		return "", errors.New("give one of date, lunar and year")
	}
	switch {
	case in.Year != 0:
		return list(in.Year)
	case in.Date != "":
		t, err := parse(in.Date)
		if err != nil {
			return "", err
		}
		return toLunar(t)
	}
	return fromLunar(in.Lunar)
}

func parse(s string) (time.Time, error) {
	for _, l := range []string{"2006-1-2", "2006/1/2", "20060102", "2006年1月2日"} {
		if t, err := time.Parse(l, strings.TrimSpace(s)); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("date %q: write it as 2026-02-17", s)
}

func inRange(y int) error {
	if y < first || y > last {
		return fmt.Errorf("lunar year %d: only %d to %d are known", y, first, last)
	}
	return nil
}

func toLunar(t time.Time) (string, error) {
	y := t.Year()
	if y == last+1 {
		y--
	} else if y >= first && y <= last && t.Before(newYear(y)) {
		y--
	}
	if err := inRange(y); err != nil {
		return "", err
	}
	left := int((t.Unix() - newYear(y).Unix()) / 86400)
	for _, m := range months(y) {
		if left < m.days {
			return describe(t, y, m, left+1), nil
		}
		left -= m.days
	}
	return "", fmt.Errorf("%s is after the lunar year %d, the last that is known", t.Format(time.DateOnly), last)
}

func describe(t time.Time, y int, m month, d int) string {
	s := fmt.Sprintf("%s %s\n农历 %d年%s%s\n%s, %s日", t.Format(time.DateOnly), t.Weekday(), y, m.name(), dayName(d), yearName(y), dayCycle(t))
	if f := festival(m, d); f != "" {
		s += "\n节日: " + f
	}
	return s
}

var lunarDate = regexp.MustCompile(`^(\d{4})\s*[-/年]\s*(闰|L|leap)?\s*(\d{1,2})\s*[-/月]\s*(\d{1,2})日?$`)

func fromLunar(s string) (string, error) {
	p := lunarDate.FindStringSubmatch(strings.TrimSpace(s))
	if p == nil {
		return "", fmt.Errorf("lunar %q: write year-month-day as 2023-2-15, a leap month as 2023-闰2-15", s)
	}
	y, _ := strconv.Atoi(p[1])
	n, _ := strconv.Atoi(p[3])
	d, _ := strconv.Atoi(p[4])
	if err := inRange(y); err != nil {
		return "", err
	}
	t := newYear(y)
	for _, m := range months(y) {
		if m.n == n && m.leap == (p[2] != "") {
			if d < 1 || d > m.days {
				return "", fmt.Errorf("%d年%s has %d days, so no day %d", y, m.name(), m.days, d)
			}
			return describe(t.AddDate(0, 0, d-1), y, m, d), nil
		}
		t = t.AddDate(0, 0, m.days)
	}
	if p[2] != "" && n >= 1 && n <= 12 {
		if leap := int(years[y-first] >> 13 & 15); leap != 0 {
			return "", fmt.Errorf("the leap month of %d is 闰%s, not 闰%s", y, monthNames[leap-1], monthNames[n-1])
		}
		return "", fmt.Errorf("the lunar year %d has no leap month", y)
	}
	return "", fmt.Errorf("month %d: months are 1 to 12", n)
}

func list(y int) (string, error) {
	if err := inRange(y); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", y, yearName(y))
	t := newYear(y)
	for _, m := range months(y) {
		fmt.Fprintf(&b, "\n%s %d days from %s", m.name(), m.days, t.Format(time.DateOnly))
		t = t.AddDate(0, 0, m.days)
	}
	return b.String(), nil
}

func main() {
	sdk.Serve("lunar_calendar", "Gregorian to Chinese lunar calendar and back (1900–2100): 农历, 闰月, 干支, 生肖, 节日", Run, sdk.ReadOnly())
}
