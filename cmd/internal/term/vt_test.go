package term

import (
	"strconv"
	"strings"
	"testing"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// vt is a small terminal: what a screen would show.
type vt struct {
	t    *testing.T
	w, h int
	cell [][]string // "" behind a wide character
	x, y int
	past []string // rows that have scrolled off
	rest string
}

func newVT(t *testing.T, w, h int) *vt {
	v := &vt{t: t}
	v.resize(w, h)
	return v
}

// resize cuts and fills rows, as terminals without reflow do.
func (v *vt) resize(w, h int) {
	old := v.cell
	v.w, v.h = w, h
	v.cell = make([][]string, h)
	drop := max(0, len(old)-h)
	for i := range v.cell {
		v.cell[i] = v.blank()
		if i+drop < len(old) {
			copy(v.cell[i], old[i+drop][:min(w, len(old[i+drop]))])
		}
	}
	v.y = max(0, min(v.y-drop, h-1))
	v.x = min(v.x, w-1)
}

func (v *vt) blank() []string {
	r := make([]string, v.w)
	for i := range r {
		r[i] = " "
	}
	return r
}

func (v *vt) row(i int) string { return strings.TrimRight(strings.Join(v.cell[i], ""), " ") }

func (v *vt) String() string {
	var rows []string
	for i := range v.cell {
		rows = append(rows, v.row(i))
	}
	return strings.Join(rows, "\n")
}

func (v *vt) Write(p []byte) (int, error) {
	s := v.rest + string(p)
	v.rest = ""
	for len(s) > 0 {
		switch c := s[0]; {
		case c == '\r':
			v.x, s = 0, s[1:]
		case c == '\n':
			s = s[1:]
			if v.y == v.h-1 {
				v.past = append(v.past, v.row(0))
				v.cell = append(v.cell[1:], v.blank())
			} else {
				v.y++
			}
		case c == 0x1b:
			n := v.escape(s)
			if n == 0 {
				v.rest = s
				return len(p), nil
			}
			s = s[n:]
		case c < 0x20 || c == 0x7f:
			v.t.Fatalf("control character %q", c)
		default:
			g := graphemes.FromString(s)
			g.Next()
			v.put(g.Value())
			s = s[len(g.Value()):]
		}
	}
	return len(p), nil
}

func (v *vt) put(g string) {
	n := Width(g)
	if v.x+n > v.w {
		v.t.Fatalf("row %d runs over %d columns at %q: %q", v.y, v.w, g, v.row(v.y))
	}
	if n == 0 {
		return
	}
	v.cell[v.y][v.x] = g
	for i := 1; i < n; i++ {
		v.cell[v.y][v.x+i] = ""
	}
	v.x += n
}

func (v *vt) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if s[1] != '[' {
		v.t.Fatalf("sequence %q", s[:2])
	}
	i := 2
	for i < len(s) && (s[i] < 0x40 || s[i] > 0x7e) {
		i++
	}
	if i == len(s) {
		return 0
	}
	arg, n := s[2:i], 1
	if k, err := strconv.Atoi(strings.Split(arg, ";")[0]); err == nil {
		n = k
	}
	switch s[i] {
	case 'A':
		v.y = max(0, v.y-n)
	case 'H':
		v.x, v.y = 0, min(max(n, 1), v.h)-1
	case 'K':
		for k := v.x; k < v.w; k++ {
			v.cell[v.y][k] = " "
		}
	case 'J':
		for k := v.x; k < v.w; k++ {
			v.cell[v.y][k] = " "
		}
		for r := v.y + 1; r < v.h; r++ {
			v.cell[r] = v.blank()
		}
	case 'm':
	case 'h', 'l':
		if !strings.HasPrefix(arg, "?") {
			v.t.Fatalf("mode %q", arg)
		}
	default:
		v.t.Fatalf("sequence %q", s[:i+1])
	}
	return i + 1
}
