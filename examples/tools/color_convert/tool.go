// Command color_convert writes a colour as hex, rgb() and hsl(), and gives its contrast to
// another by WCAG 2.2.
package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Color   string `json:"color" jsonschema:"#1e90ff, #f00, rgb(30, 144, 255), hsl(210, 100%, 56%); no alpha"`
	Against string `json:"against,omitempty" jsonschema:"another colour, to get the contrast ratio"`
}

type rgb [3]int

func Run(_ context.Context, in Args) (string, error) {
	c, err := parse(in.Color)
	if err != nil {
		return "", err
	}
	h, s, l := c.hsl()
	out := fmt.Sprintf("hex: %s\nrgb: rgb(%d, %d, %d)\nhsl: hsl(%s, %s%%, %s%%)", c.hex(), c[0], c[1], c[2], num(h), num(s), num(l))
	if in.Against == "" {
		return out, nil
	}
	d, err := parse(in.Against)
	if err != nil {
		return "", fmt.Errorf("against: %w", err)
	}
	hi, lo := max(c.luminance(), d.luminance()), min(c.luminance(), d.luminance())
	ratio := (hi + 0.05) / (lo + 0.05)
	grade := "fails"
	switch { // WCAG 2.2, success criteria 1.4.3 and 1.4.6
	case ratio >= 7:
		grade = "AAA"
	case ratio >= 4.5:
		grade = "AA, AAA for large text"
	case ratio >= 3:
		grade = "AA for large text only"
	}
	// Cut, not rounded: 4.499 must not read as 4.5.
	return out + fmt.Sprintf("\ncontrast with %s: %.2f:1 (%s)", d.hex(), math.Floor(ratio*100+1e-9)/100, grade), nil
}

func num(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

func (c rgb) hex() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

func (c rgb) hsl() (h, s, l float64) {
	r, g, b := float64(c[0])/255, float64(c[1])/255, float64(c[2])/255
	hi, lo := max(r, g, b), min(r, g, b)
	l = (hi + lo) / 2
	d := hi - lo
	if d > 0 {
		s = d / (1 - math.Abs(2*l-1))
		switch hi {
		case r:
			h = math.Mod((g-b)/d+6, 6)
		case g:
			h = (b-r)/d + 2
		default:
			h = (r-g)/d + 4
		}
	}
	return h * 60, s * 100, l * 100
}

// luminance is the relative luminance of WCAG 2.2.
func (c rgb) luminance() float64 {
	var v [3]float64
	for i, x := range c {
		f := float64(x) / 255
		if f <= 0.04045 {
			v[i] = f / 12.92
		} else {
			v[i] = math.Pow((f+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*v[0] + 0.7152*v[1] + 0.0722*v[2]
}

var function = regexp.MustCompile(`^(rgb|hsl)\(\s*(-?[\d.]+)(?:deg)?[\s,]+(-?[\d.]+)(%?)[\s,]+(-?[\d.]+)(%?)\s*\)$`)

func parse(s string) (rgb, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	bad := fmt.Errorf("%q is no colour that is known: #rgb, #rrggbb, rgb(0-255, …) or hsl(degrees, n%%, n%%)", s)
	if p := function.FindStringSubmatch(t); p != nil {
		var v [3]float64
		for i, x := range []string{p[2], p[3], p[5]} {
			f, err := strconv.ParseFloat(x, 64)
			if err != nil {
				return rgb{}, bad
			}
			v[i] = f
		}
		if p[1] == "hsl" {
			if p[4] == "" || p[6] == "" || v[1] < 0 || v[1] > 100 || v[2] < 0 || v[2] > 100 {
				return rgb{}, bad
			}
			return fromHSL(v[0], v[1]/100, v[2]/100), nil
		}
		var c rgb
		for i := range v {
			if v[i] != math.Trunc(v[i]) || v[i] < 0 || v[i] > 255 || p[4]+p[6] != "" {
				return rgb{}, bad
			}
			c[i] = int(v[i])
		}
		return c, nil
	}
	t = strings.TrimPrefix(t, "#")
	if len(t) == 3 {
		t = string([]byte{t[0], t[0], t[1], t[1], t[2], t[2]})
	}
	n, err := strconv.ParseUint(t, 16, 32)
	if err != nil || len(t) != 6 {
		return rgb{}, bad
	}
	return rgb{int(n >> 16), int(n >> 8 & 255), int(n & 255)}, nil
}

func fromHSL(h, s, l float64) rgb {
	h = math.Mod(math.Mod(h, 360)+360, 360)
	a := s * min(l, 1-l)
	f := func(n float64) int {
		k := math.Mod(n+h/30, 12)
		return int(math.Round(255 * (l - a*max(-1, min(k-3, 9-k, 1)))))
	}
	return rgb{f(0), f(8), f(4)}
}

func main() {
	sdk.Serve("color_convert", "Converts colours between hex, rgb and hsl; contrast of two colours by WCAG", Run, sdk.ReadOnly())
}
