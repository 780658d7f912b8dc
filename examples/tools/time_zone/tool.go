// Command time_zone converts a time between IANA time zones and says where a clock change
// makes it doubtful.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the zones come with the program

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Time string   `json:"time,omitempty" jsonschema:"2024-03-10 02:30, RFC 3339, or Unix seconds as @1700000000; default: now"`
	From string   `json:"from,omitempty" jsonschema:"IANA zone of a time without offset, such as Asia/Shanghai" default:"UTC"`
	To   []string `json:"to" jsonschema:"IANA zones to show it in"`
}

var now = time.Now

func Run(_ context.Context, in Args) (string, error) {
	if len(in.To) == 0 {
		return "", errors.New("to: name at least one zone, such as Europe/Berlin")
	}
	from, err := zone(in.From)
	if err != nil {
		return "", err
	}
	t, note, err := parse(in.Time, from)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(name string, t time.Time) {
		dst := ""
		if t.IsDST() {
			dst = ", summer time"
		}
		abbr, _ := t.Zone()
		fmt.Fprintf(&b, "%s %s %s (%s%s)\n", t.Format("2006-01-02 15:04:05 -07:00"), t.Weekday(), name, abbr, dst)
	}
	line(from.String(), t.In(from))
	for _, name := range in.To {
		l, err := zone(name)
		if err != nil {
			return "", err
		}
		line(l.String(), t.In(l))
	}
	b.WriteString(note)
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" {
		return nil, errors.New("zone Local depends on the machine; name an IANA zone")
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q is not known; use an IANA name such as Asia/Shanghai, America/New_York, UTC", name)
	}
	return l, nil
}

func parse(s string, from *time.Location) (time.Time, string, error) {
	s = strings.TrimSpace(s)
	if s == "" || strings.EqualFold(s, "now") {
		return now(), "", nil
	}
	if rest, ok := strings.CutPrefix(s, "@"); ok {
		var sec int64
		if _, err := fmt.Sscanf(rest+" ", "%d ", &sec); err != nil || fmt.Sprint(sec) != rest {
			return time.Time{}, "", fmt.Errorf("%q: Unix seconds are a whole number", s)
		}
		return time.Unix(sec, 0), "", nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, "", nil
	}
	for _, l := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		wall, err := time.Parse(l, s)
		if err != nil {
			continue
		}
		t, note := place(wall, from)
		return t, note, nil
	}
	return time.Time{}, "", fmt.Errorf("time %q: write 2024-03-10 02:30, 2024-03-10T02:30:00+08:00 or @1700000000", s)
}

// place finds the moment at which clocks in l show wall (given in UTC). It tries the
// offsets in force a day before and a day after.
func place(wall time.Time, l *time.Location) (time.Time, string) {
	var found []time.Time
	_, before := wall.AddDate(0, 0, -1).In(l).Zone()
	_, after := wall.AddDate(0, 0, 1).In(l).Zone()
	offsets := []int{before, after}
	if before == after {
		offsets = offsets[:1]
	}
	for _, o := range offsets {
		t := wall.Add(-time.Duration(o) * time.Second)
		if _, have := t.In(l).Zone(); have == o {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], ""
	case 0:
		t := wall.Add(-time.Duration(before) * time.Second)
		return t, fmt.Sprintf("note: clocks in %s skip %s; read with the offset before the change\n", l, wall.Format("2006-01-02 15:04"))
	}
	return found[0], fmt.Sprintf("note: clocks in %s show %s twice; this is the first, the second is %s\n", l, wall.Format("2006-01-02 15:04"), found[1].UTC().Format(time.RFC3339))
}

func main() {
	sdk.Serve("time_zone", "Converts a time between IANA time zones, with summer time", Run, sdk.ReadOnly())
}
