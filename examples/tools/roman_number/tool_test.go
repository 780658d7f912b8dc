package main

import (
	"strconv"
	"testing"
)

func TestRun(t *testing.T) {
	for in, want := range map[string]string{"1": "I", "4": "IV", "1994": "MCMXCIV", "3999": "MMMCMXCIX", "MMXXVI": "2026", " xlix ": "49"} {
		if got, err := Run(t.Context(), Args{Number: in}); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", in, got, err, want)
		}
	}
	for n := 1; n <= 3999; n++ {
		if got, err := Run(t.Context(), Args{Number: roman(n)}); err != nil || got != strconv.Itoa(n) {
			t.Fatalf("%d: %q %v", n, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, s := range []string{"", "0", "4000", "-1", "IIII", "IC", "VX", "MMMM", "十", "1.5", "VIV"} {
		if got, err := Run(t.Context(), Args{Number: s}); err == nil {
			t.Errorf("%q: %q, no error", s, got)
		}
	}
}
