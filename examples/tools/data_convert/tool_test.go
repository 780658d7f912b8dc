package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func convert(t *testing.T, from, to, text string) string {
	t.Helper()
	out, err := Run(t.Context(), Args{Text: text, From: from, To: to})
	if err != nil {
		t.Fatalf("%s to %s: %v\n%s", from, to, err, text)
	}
	return out
}

const settings = `# 配置
server:
  host: localhost   # a comment
  port: 8080
  "tls on": true
  ratio: .5
  none: ~
tags: [a, 'b c', "d\u00e9", 1e3, 0x1f, {k: v, w: }]
users:
- name: 王芳
  roles:
    - admin
    - "yes"
-
  name: O'Neil # x
  roles: []
- - nested
  - [list,
     over lines]
text: |
  one
    two

  three
folded: >-
  a b
  c

  d
plain: goes on
  here
url: http://x.y/z#frag
empty: ""
time: 12:30
`

const settingsJSON = `{
  "server": {
    "host": "localhost",
    "port": 8080,
    "tls on": true,
    "ratio": 0.5,
    "none": null
  },
  "tags": [
    "a",
    "b c",
    "dé",
    1e3,
    31,
    {
      "k": "v",
      "w": null
    }
  ],
  "users": [
    {
      "name": "王芳",
      "roles": [
        "admin",
        "yes"
      ]
    },
    {
      "name": "O'Neil",
      "roles": []
    },
    [
      "nested",
      [
        "list",
        "over lines"
      ]
    ]
  ],
  "text": "one\n  two\n\nthree\n",
  "folded": "a b c\nd",
  "plain": "goes on here",
  "url": "http://x.y/z#frag",
  "empty": "",
  "time": "12:30"
}`

func TestYAML(t *testing.T) {
	if got := convert(t, "yaml", "json", settings); got != settingsJSON {
		t.Errorf("got\n%s", got)
	}
	back := convert(t, "yaml", "json", convert(t, "json", "yaml", settingsJSON))
	if strings.Replace(back, "1.0e+3", "1e3", 1) != settingsJSON {
		t.Errorf("back\n%s", back)
	}
	want := "a: 1\nb:\n  - x: \"yes\"\n    k:\n      - 1\n      - []\n  - - z\n    - {}\nc: \"1\"\nd: \"a: b\""
	if got := convert(t, "json", "yaml", `{"a":1,"b":[{"x":"yes","k":[1,[]]},["z",{}]],"c":"1","d":"a: b"}`); got != want {
		t.Errorf("got\n%s", got)
	}
	for in, want := range map[string]string{
		"": "null", "--- 1\n...\n": "1", "'it''s'": `"it's"`, "\"a\\\n  b\\x41\\ud83d\\ude00\"": `"abA😀"`, "|+\n a\n": `"a\n\n"`, "|2\n   a": `" a\n"`,
		"\"one\n  two\n\n  three\"": `"one two\nthree"`, "[]": "[]", "-.inf": "", "a:\n- 1\n- 2\nb: 3": "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": 3\n}",
	} {
		got, err := Run(t.Context(), Args{Text: in + "\n", From: "yml", To: "json"})
		if got != want && want != "" || (err != nil) != (want == "") {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
}

func TestTOML(t *testing.T) {
	in := `title = "x" # c
"a b".c.d = 1_000
when = 1979-05-27 07:32:00Z
hex = 0xDEAD_BEEF
f = 6.02e23
s = '''
raw \n
'''
m = """\
  joined \
    here"""
list = [ [1, 2], # c
  ["a"], ]
point = { x = 1, y.z = 2 }
[fruit]
name = "apple"
[fruit.taste]
sweet = true
[[it]]
n = 1
[[it.sub]]
k = 1
[[it]]
n = -2
`
	want := `{
  "title": "x",
  "a b": {
    "c": {
      "d": 1000
    }
  },
  "when": "1979-05-27 07:32:00Z",
  "hex": 3735928559,
  "f": 6.02e23,
  "s": "raw \\n\n",
  "m": "joined here",
  "list": [
    [
      1,
      2
    ],
    [
      "a"
    ]
  ],
  "point": {
    "x": 1,
    "y": {
      "z": 2
    }
  },
  "fruit": {
    "name": "apple",
    "taste": {
      "sweet": true
    }
  },
  "it": [
    {
      "n": 1,
      "sub": [
        {
          "k": 1
        }
      ]
    },
    {
      "n": -2
    }
  ]
}`
	if got := convert(t, "toml", "json", in); got != want {
		t.Errorf("got\n%s", got)
	}
	again := convert(t, "toml", "toml", in)
	if got := convert(t, "toml", "json", again); len(got) != len(want) || !strings.Contains(again, "when = 1979-05-27 07:32:00Z") || !strings.Contains(again, "[[it.sub]]") {
		t.Errorf("again\n%s", again)
	}
}

// Whatever the value, it comes back from YAML, and from TOML where TOML can hold it.
func TestThereAndBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	texts := []string{`""`, `"a"`, `"yes"`, `"null"`, `"1.5"`, `"- x"`, `"a: b"`, `"# no"`, `"中 文"`, `" lead"`, `"tail "`, `"x\ny\n"`, `"\t"`, `"q\"'"`, `"a #b"`, `"0x1"`, `"---"`, `"{"`, `"\u0000"`, `"~"`, `"12:30"`, `"\u007f"`, `"😀"`, `"."`, `"=x"`}
	var value func(depth int, null bool) string
	value = func(depth int, null bool) string {
		switch n := rnd.IntN(9); {
		case n < 4 || depth > 4:
			return texts[rnd.IntN(len(texts))]
		case n == 4:
			return []string{"0", "-1", "1.5", "2.5e-3", "9007199254740993"}[rnd.IntN(5)]
		case n == 5:
			if null {
				return "null"
			}
			return "true"
		case n == 6:
			var parts []string
			for range rnd.IntN(4) {
				parts = append(parts, value(depth+1, null))
			}
			return "[" + strings.Join(parts, ",") + "]"
		default:
			var parts []string
			for i := range rnd.IntN(4) {
				k := texts[rnd.IntN(len(texts))]
				parts = append(parts, fmt.Sprintf("%s%d\":%s", k[:len(k)-1], i, value(depth+1, null)))
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
	}
	sorted := func(s string) string { // TOML writes single values before tables
		v, err := parseJSON(s)
		if err != nil {
			t.Fatal(err)
		}
		return canonical(v)
	}
	for range 2000 {
		in := convert(t, "json", "json", value(0, true))
		y := convert(t, "json", "yaml", in)
		if got := convert(t, "yaml", "json", y); got != in {
			t.Fatalf("by YAML\n%s\n%s\n%s", in, y, got)
		}
		in = convert(t, "json", "json", `{"top":`+value(0, false)+`}`)
		m := convert(t, "json", "toml", in)
		if got := convert(t, "toml", "json", m); sorted(got) != sorted(in) {
			t.Fatalf("by TOML\n%s\n%s\n%s", in, m, got)
		}
	}
}

func canonical(v any) string {
	switch v := v.(type) {
	case *object:
		var parts []string
		for k, e := range v.values {
			parts = append(parts, quote(k)+canonical(e))
		}
		for i := range parts { // few: any order that does not depend on the map will do
			for j := range i {
				if parts[i] < parts[j] {
					parts[i], parts[j] = parts[j], parts[i]
				}
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, canonical(e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return fmt.Sprintf("%T%v", v, v)
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("[", 5000)
	for _, c := range []struct{ from, to, text, want string }{
		{"json", "yaml", `{"a":1,"a":2}`, "twice"},
		{"json", "yaml", "{\n\"a\":}", "line 2"},
		{"json", "yaml", `{"a":1} x`, "line 1"},
		{"json", "yaml", `[1`, "too early"},
		{"json", "yaml", deep, "levels"},
		{"json", "toml", `{"a":{"b":[1,null]}}`, "a.b[1] is null"},
		{"json", "toml", `[1]`, "a list"},
		{"json", "toml", `{"a":99999999999999999999}`, "beyond"},
		{"yaml", "json", "a: 1\nb: .inf", "b is inf"},
		{"yaml", "json", "a: &x 1", "line 1"},
		{"yaml", "json", "a: 1\nb: *x", "line 2"},
		{"yaml", "json", "a: !!str 1", "tags"},
		{"yaml", "json", "a: 1\na: 2", "line 2"},
		{"yaml", "json", "a: 1\n  b: 2", "line 2"},
		{"yaml", "json", "a:\n\tb: 1", "tab"},
		{"yaml", "json", "a: 1\n---\nb: 2", "document"},
		{"yaml", "json", "a: [1, 2", "not closed"},
		{"yaml", "json", "a: 'x", "not closed"},
		{"yaml", "json", "a: b: c", "quotes"},
		{"yaml", "json", "a\nb: 1", "line 2"},
		{"yaml", "json", deep, "levels"},
		{"toml", "json", "a = 1\na = 2", "line 2"},
		{"toml", "json", "[a]\n[a]", "already"},
		{"toml", "json", "a = {b = 1}\n[a.c]", "already"},
		{"toml", "json", "a.b = 1\n[a]", "already"},
		{"toml", "json", "a = [1]\n[[a]]", "value already"},
		{"toml", "json", "a = x", "quotes"},
		{"toml", "json", "a = 1 b = 2", "follows"},
		{"toml", "json", "a = 01", "not a value"},
		{"toml", "json", "a = \"x\ny\"", "not closed"},
		{"toml", "json", "a = " + deep, "levels"},
		{"", "json", "1", "say from"},
		{"xml", "json", "1", `from "xml"`},
		{"json", "xml", "1", `to "xml"`},
		{"json", "yaml", "\"\xff\"", "UTF-8"},
	} {
		if got, err := Run(t.Context(), Args{From: c.from, To: c.to, Text: c.text}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %q %v, want %q", c.text, got, err, c.want)
		}
	}
	if _, err := Run(t.Context(), Args{To: "json"}); err == nil {
		t.Error("nothing to convert")
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.YML")
	if err := os.WriteFile(path, []byte("\ufeffa: 1\r\nb: x\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(t.Context(), Args{Path: path, To: "toml"}); err != nil || got != "a = 1\nb = \"x\"" {
		t.Errorf("%q %v", got, err)
	}
}

func FuzzNeverPanics(f *testing.F) {
	f.Add(settings)
	f.Add("a = [1, {b = \"\\u00e9\"}]\n[x.y]\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, from := range []string{"yaml", "toml", "json"} {
			_, _ = Run(t.Context(), Args{Text: s, From: from, To: "json"})
		}
	})
}
