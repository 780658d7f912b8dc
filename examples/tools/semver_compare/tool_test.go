package main

import (
	"strings"
	"testing"
)

func TestOrder(t *testing.T) {
	// The order of semver.org, item 11.
	got, err := Run(t.Context(), Args{Versions: []string{"1.0.0", "1.0.0-rc.1", "1.0.0-beta.11", "1.0.0-beta.2", "1.0.0-beta", "1.0.0-alpha.beta", "1.0.0-alpha.1", "1.0.0-alpha", "v1.0.0+build", "10.0.0", "9.99.0"}})
	want := "1.0.0-alpha < 1.0.0-alpha.1 < 1.0.0-alpha.beta < 1.0.0-beta < 1.0.0-beta.2 < 1.0.0-beta.11 < 1.0.0-rc.1 < 1.0.0 = v1.0.0+build < 9.99.0 < 10.0.0"
	if err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		v, r string
		yes  bool
	}{
		{"1.2.3", "^1.2.0", true}, {"2.0.0", "^1.2.0", false}, {"0.2.9", "^0.2.3", true}, {"0.3.0", "^0.2.3", false}, {"0.0.4", "^0.0.3", false},
		{"1.2.9", "~1.2.3", true}, {"1.3.0", "~1.2.3", false}, {"1.5.0", ">=1.2.0 <2.0.0", true}, {"2.0.0", ">=1.2.0, <2.0.0", false},
		{"1.0.0-rc.1", "<1.0.0", true}, {"1.1.0", "!=1.1.0", false}, {"1.1.0", "=v1.1.0", true}, {"1.1.1", "<=1.1.0", false}, {"1.1.1", ">1.1.0", true},
	} {
		got, err := Run(t.Context(), Args{Versions: []string{c.v}, Range: c.r})
		if err != nil || strings.HasSuffix(got, ": yes") != c.yes {
			t.Errorf("%s %s: %q %v", c.v, c.r, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {Versions: []string{"1.2"}}, {Versions: []string{"01.2.3"}}, {Versions: []string{"1.2.3-"}}, {Versions: []string{"1.2.3-01"}}, {Versions: []string{"1.2.3+é"}}, {Versions: []string{"1.2.x"}}, {Versions: []string{"1.2.3"}, Range: "1.x"}, {Versions: []string{"1.2.3"}, Range: ">= 1.0.0"}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
