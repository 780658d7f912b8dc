package main

import (
	"regexp"
	"sort"
	"strings"
	"testing"
)

func TestMake(t *testing.T) {
	for _, v := range []string{"4", "7"} {
		got, err := Run(t.Context(), Args{Action: "v" + v, Count: 1000})
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Split(got, "\n")
		re := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-` + v + `[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		seen := map[string]bool{}
		for _, u := range all {
			if !re.MatchString(u) || seen[u] {
				t.Fatalf("%q", u)
			}
			seen[u] = true
		}
		if len(all) != 1000 || v == "7" && !sort.StringsAreSorted(all) {
			t.Errorf("v%s: %d, or not in order", v, len(all))
		}
	}
	if got, err := Run(t.Context(), Args{Action: "v4"}); err != nil || len(got) != 36 {
		t.Errorf("%q %v", got, err)
	}
}

// The examples of RFC 9562, appendix A: all of the same moment.
func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"C232AB00-9414-11EC-B3C8-9F6BDECED846":          "version: 1 (time and node)\ntime: 2022-02-22T19:22:22.0000000Z",
		"1EC9414C-232A-6B00-B3C8-9F6BDECED846":          "version: 6 (time, reordered)\ntime: 2022-02-22T19:22:22.0000000Z",
		"017F22E2-79B0-7CC3-98C4-DC0C0C07398F":          "version: 7 (Unix time)\ntime: 2022-02-22T19:22:22.000Z",
		"{919108f7-52d1-4320-9bac-f847db4148a8}":        "version: 4 (random)",
		"urn:uuid:5df41881-3aed-3515-88a7-2f4a814cf09e": "version: 3",
		"2ed6657de927568b95e12665a8aea6a2":              "version: 5",
		"00000000-0000-0000-0000-000000000000":          "nil UUID",
		"ffffffff-ffff-ffff-ffff-ffffffffffff":          "max UUID",
		"00000000-0000-4000-c000-000000000000":          "variant: not",
	} {
		got, err := Run(t.Context(), Args{Action: "parse", UUID: in})
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q %v", in, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {Action: "v4", Count: -1}, {Action: "v7", Count: 1001}, {Action: "parse"}, {Action: "parse", UUID: "x"}, {Action: "parse", UUID: "017F22E279B0-7CC3-98C4-DC0C0C07398F"}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
