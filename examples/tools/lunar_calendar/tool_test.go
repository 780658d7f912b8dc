package main

import (
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Date: "2026-02-17"}, "农历 2026年正月初一\n丙午年 生肖马 (Horse)"},
		{Args{Date: "2025-01-29"}, "农历 2025年正月初一\n乙巳年 生肖蛇 (Snake), 戊戌日"},
		{Args{Date: "2025-01-28"}, "2024年腊月廿九\n甲辰年 生肖龙 (Dragon), 丁酉日\n节日: 除夕"},
		{Args{Date: "2000-01-01"}, "1999年冬月廿五\n己卯年 生肖兔 (Rabbit), 戊午日"},
		{Args{Date: "1949年10月1日"}, "1949年八月初十\n己丑年 生肖牛 (Ox), 甲子日"},
		{Args{Date: "2023-03-22"}, "2023年闰二月初一"},
		{Args{Date: "2023-04-19"}, "2023年闰二月廿九"},
		{Args{Date: "2023-04-20"}, "2023年三月初一"},
		{Args{Date: "2024-09-17"}, "节日: 中秋节"},
		{Args{Date: "2024-06-10"}, "节日: 端午节"},
		{Args{Date: "2033-12-22"}, "2033年闰冬月初一"},
		{Args{Date: "2034-02-19"}, "2034年正月初一"},
		{Args{Date: "1900-01-31"}, "1900年正月初一\n庚子年 生肖鼠"},
		{Args{Date: "2100-02-09"}, "2100年正月初一"},
		{Args{Lunar: "2023-闰2-1"}, "2023-03-22"},
		{Args{Lunar: "2026年1月1日"}, "2026-02-17"},
		{Args{Lunar: "2033-L11-1"}, "2033-12-22"},
		{Args{Lunar: "2024/8/15"}, "2024-09-17"},
		{Args{Year: 2025}, "闰六月 29 days from 2025-07-25"},
	} {
		got, err := Run(t.Context(), c.in)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %v\n%s\nwant %s", c.in, err, got, c.want)
		}
	}
}

// Every year ends where the next begins, and leap months are those of the almanacs.
func TestTable(t *testing.T) {
	if len(years) != last-first+1 {
		t.Fatalf("%d years", len(years))
	}
	for y := first; y < last; y++ {
		sum := 0
		for _, m := range months(y) {
			sum += m.days
		}
		if end := newYear(y).AddDate(0, 0, sum); !end.Equal(newYear(y + 1)) {
			t.Errorf("%d ends before %s, %d begins on %s", y, end.Format(time.DateOnly), y+1, newYear(y+1).Format(time.DateOnly))
		}
	}
	for y, leap := range map[int]int32{1900: 8, 1917: 2, 1976: 8, 1984: 10, 1995: 8, 1998: 5, 2001: 4, 2004: 2, 2006: 7, 2009: 5, 2012: 4, 2014: 9, 2017: 6, 2020: 4, 2023: 2, 2025: 6, 2028: 5, 2031: 3, 2033: 11, 2036: 6, 2024: 0, 2026: 0} {
		if got := years[y-first] >> 13 & 15; got != leap {
			t.Errorf("%d: leap month %d, want %d", y, got, leap)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{}, "one of"},
		{Args{Date: "2026-02-17", Year: 2026}, "one of"},
		{Args{Date: "1900-01-30"}, "1899"},
		{Args{Date: "2101-01-29"}, "after the lunar year 2100"},
		{Args{Date: "2023-02-29"}, "write it as"},
		{Args{Lunar: "2024-闰2-1"}, "no leap month"},
		{Args{Lunar: "2023-闰3-1"}, "闰二月, not 闰三月"},
		{Args{Lunar: "2023-闰2-30"}, "29 days"},
		{Args{Lunar: "2023-13-1"}, "1 to 12"},
		{Args{Lunar: "2101-1-1"}, "1900 to 2100"},
		{Args{Lunar: "x"}, "year-month-day"},
		{Args{Year: 1899}, "1900 to 2100"},
	} {
		if got, err := Run(t.Context(), c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q %v, want %q", c.in, got, err, c.want)
		}
	}
}
