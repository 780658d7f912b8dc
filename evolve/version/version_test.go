package version_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/evolve/version"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{"v1.2.3": "v1.2.3", "1.2.3": "v1.2.3", "0.0.0": "v0.0.0", "v10.20.30": "v10.20.30"} {
		if v, err := version.Parse(in); err != nil || v.String() != want {
			t.Errorf("%q: %v %v", in, v, err)
		}
	}
	for _, in := range []string{"", "v", "1", "1.2", "1.0.", "1.2.3.4", "1.2.3-beta", "vv1.2.3", "01.2.3", "1.+2.3", "1.-2.3", "abc", "007", "1.2.99999999999", "１.2.3"} {
		if v, err := version.Parse(in); err == nil {
			t.Errorf("%q was read as %v", in, v)
		}
	}
}

func TestNextIsAbove(t *testing.T) {
	v := version.Version{Major: 1, Minor: 9, Patch: 9}
	for l, want := range map[version.Level]string{version.Patch: "v1.9.10", version.Minor: "v1.10.0", version.Major: "v2.0.0"} {
		if n := v.Next(l); n.String() != want || n.Compare(v) <= 0 || v.Compare(n) >= 0 {
			t.Errorf("%s: %s", l, n)
		}
	}
}

// What the reference's numbering did wrong, case by case: a text that is no version is
// refused instead of stored, and the next version is above the one before in every case.
func TestGoldenVersionsDoBetter(t *testing.T) {
	dir := os.Getenv("LJ_GOLDEN")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "golden")
	}
	b, err := os.ReadFile(filepath.Join(dir, "tool_versions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		Cases []struct {
			ID       string
			Kind     string
			Existing string `json:"existing_version"`
			Asked    string
			Backups  []string
		}
	}
	if err := json.Unmarshal(b, &set); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range set.Cases {
		if c.Kind != "save" {
			continue
		}
		seen++
		if c.Asked != "" {
			// A version can't be asked for: only a level can, and it only raises.
			if _, err := version.ParseLevel(c.Asked); err == nil {
				t.Errorf("%s: %q was taken", c.ID, c.Asked)
			}
			continue
		}
		v, err := version.Parse(c.Existing)
		if strings.Count(c.Existing, ".") != 2 || strings.HasSuffix(c.Existing, ".") {
			if err == nil {
				t.Errorf("%s: %q was taken", c.ID, c.Existing)
			}
			continue
		}
		if err != nil || v.Next(version.Patch).Compare(v) <= 0 {
			t.Errorf("%s: %q: %v %v", c.ID, c.Existing, v, err)
		}
	}
	if seen == 0 {
		t.Fatal("no case")
	}
}

func TestCompare(t *testing.T) {
	obj := func(props, required string) string {
		return `{"type":"object","properties":{` + props + `},"required":[` + required + `],"additionalProperties":false}`
	}
	base := obj(`"a":{"type":"string","description":"x"},"n":{"type":"integer","minimum":1,"maximum":9},"e":{"type":"string","enum":["x","y"]},"l":{"type":"array","items":{"type":"number"}}`, `"a"`)
	sub := func(old, new string) string {
		s := strings.Replace(base, old, new, 1)
		if s == base {
			t.Fatalf("nothing to replace: %s", old)
		}
		return s
	}
	for _, c := range []struct {
		name, now string
		want      version.Level
		says      string
	}{
		{"same", base, version.Patch, ""},
		{"description", sub(`"description":"x"`, `"description":"y"`), version.Patch, ""},
		{"removed", obj(`"a":{"type":"string"}`, `"a"`), version.Major, "was removed"},
		{"renamed", sub(`"a":{"type":"string","description":"x"}`, `"b":{"type":"string"}`), version.Major, "a: was removed"},
		{"new optional", sub(`"a":{"type`, `"z":{"type":"string"},"a":{"type`), version.Minor, "z: was added"},
		{"new required", strings.Replace(sub(`"a":{"type`, `"z":{"type":"string"},"a":{"type`), `"required":["a"]`, `"required":["a","z"]`, 1), version.Major, "z: is required"},
		{"became required", sub(`"required":["a"]`, `"required":["a","n"]`), version.Major, "n: is required"},
		{"became optional", sub(`"required":["a"]`, `"required":[]`), version.Minor, "no longer required"},
		{"type", sub(`"a":{"type":"string"`, `"a":{"type":"integer"`), version.Major, "type"},
		{"type wider", sub(`"a":{"type":"string"`, `"a":{"type":["string","null"]`), version.Minor, "takes null"},
		{"integer to number", sub(`"n":{"type":"integer"`, `"n":{"type":"number"`), version.Minor, "number"},
		{"number to integer in items", sub(`"items":{"type":"number"}`, `"items":{"type":"integer"}`), version.Major, "l[]"},
		{"enum fewer", sub(`["x","y"]`, `["x"]`), version.Major, "y was removed"},
		{"enum more", sub(`["x","y"]`, `["x","y","z"]`), version.Minor, "z was added"},
		{"enum gone", sub(`,"enum":["x","y"]`, ``), version.Minor, "other values"},
		{"enum new", sub(`"a":{"type":"string"`, `"a":{"enum":["q"],"type":"string"`), version.Major, "only some values"},
		{"minimum higher", sub(`"minimum":1`, `"minimum":2`), version.Major, "minimum"},
		{"minimum lower", sub(`"minimum":1`, `"minimum":0`), version.Minor, "minimum"},
		{"maximum lower", sub(`"maximum":9`, `"maximum":8`), version.Major, "maximum"},
		{"maximum gone", sub(`,"maximum":9`, ``), version.Minor, "maximum is gone"},
		{"open", sub(`,"additionalProperties":false`, ``), version.Minor, "other names"},
		{"pattern", sub(`"a":{"type":"string"`, `"a":{"pattern":"^x","type":"string"`), version.Major, "pattern"},
		{"unknown keyword", sub(`"a":{"type":"string"`, `"a":{"anyOf":[{}],"type":"string"`), version.Major, "anyOf"},
		{"any", sub(`"a":{"type":"string","description":"x"}`, `"a":{}`), version.Minor, "any"},
		{"not JSON", "{", version.Major, ""},
	} {
		got, why := version.Compare(json.RawMessage(base), json.RawMessage(c.now))
		if got != c.want || !strings.Contains(why, c.says) {
			t.Errorf("%s: %s %q, want %s %q", c.name, got, why, c.want, c.says)
		}
	}
	// Widening and narrowing are each other's contrary.
	for _, c := range []string{obj(`"a":{"type":"string"}`, `"a"`), obj(`"a":{"type":["string","null"]}`, ``)} {
		for _, d := range []string{obj(`"a":{"type":"string"}`, `"a"`), obj(`"a":{"type":["string","null"]}`, ``)} {
			x, _ := version.Compare(json.RawMessage(c), json.RawMessage(d))
			y, _ := version.Compare(json.RawMessage(d), json.RawMessage(c))
			if (c == d) != (x == version.Patch && y == version.Patch) || x == version.Minor && y != version.Major {
				t.Errorf("%s / %s: %s %s", c, d, x, y)
			}
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add(`{"type":"object"}`, `{"type":["object"],"properties":{"a":true}}`)
	f.Add(`true`, `false`)
	f.Add(`[1]`, `{"required":[1,null]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if l, why := version.Compare(json.RawMessage(a), json.RawMessage(a)); l != version.Patch {
			t.Errorf("%q differs from itself: %s %s", a, l, why)
		}
		version.Compare(json.RawMessage(a), json.RawMessage(b))
	})
}
