package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct{ color, against, want string }{
		{"#1E90FF", "", "hex: #1e90ff\nrgb: rgb(30, 144, 255)\nhsl: hsl(209.6, 100%, 55.9%)"},
		{"f00", "", "hsl: hsl(0, 100%, 50%)"},
		{"#000", "", "hsl: hsl(0, 0%, 0%)"},
		{"#fff", "#000", "contrast with #000000: 21.00:1 (AAA)"},
		{"#777", "#fff", "4.47:1 (AA for large text only)"},
		{"#767676", "#fff", "4.54:1 (AA, AAA"},
		{"#fff", "#fff", "1.00:1 (fails)"},
		{"rgb(30 144 255)", "", "#1e90ff"},
		{"hsl(120, 100%, 25%)", "", "#008000"},
		{"hsl(-120deg 100% 50%)", "", "#0000ff"},
	} {
		got, err := Run(t.Context(), Args{Color: c.color, Against: c.against})
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q %v, want %q", c.color, got, err, c.want)
		}
	}
	for n := 0; n < 1<<24; n += 4099 {
		c := rgb{n >> 16, n >> 8 & 255, n & 255}
		h, s, l := c.hsl()
		if got, err := parse(fmt.Sprintf("hsl(%f, %f%%, %f%%)", h, s, l)); err != nil || got != c {
			t.Fatalf("%v: %v %v", c, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, s := range []string{"", "#12", "#12345g", "#12345678", "rgb(256,0,0)", "rgb(1,2)", "hsl(0, 101%, 0%)", "hsl(0,1,1)", "红"} {
		if got, err := Run(t.Context(), Args{Color: s}); err == nil {
			t.Errorf("%q: %q, no error", s, got)
		}
		if _, err := Run(t.Context(), Args{Color: "#fff", Against: s}); err == nil && s != "" {
			t.Errorf("against %q: no error", s)
		}
	}
}
