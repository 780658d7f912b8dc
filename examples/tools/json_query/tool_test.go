package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const doc = `{"users":[{"name":"张三","id":1,"tags":["a"]},{"name":"<b>","id":12345678901234567890}],"a.b":{"":{"it's":true}},"n":null}`

func TestRun(t *testing.T) {
	for q, want := range map[string]string{
		"users[0].name":        `"张三"`,
		"$.users[-1].id":       `12345678901234567890`,
		"users[*].name":        "\"张三\"\n\"<b>\"",
		"users.*.id":           "1\n12345678901234567890",
		"..id":                 "1\n12345678901234567890",
		`["a.b"][""]['it\'s']`: "true",
		"n":                    "null",
		"users[0].tags":        "[\n  \"a\"\n]",
		"users[*].tags[0]":     `"a"`,
		"users[*].none":        "no match",
	} {
		got, err := Run(t.Context(), Args{Text: doc, Query: q})
		if err != nil || got != want {
			t.Errorf("%s: got %q %v, want %q", q, got, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, []byte(`[1]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(t.Context(), Args{Path: file, Query: "$[0]"}); err != nil || got != "1" {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, query, want string }{
		{doc, "users.name", "array of 2"},
		{doc, "users[7]", "2 elements"},
		{doc, "nobody", "a.b, n, users"},
		{doc, "n.x", "neither object nor array"},
		{doc, "users[1:2]", "not supported"},
		{doc, "users[0", "] is missing"},
		{doc, "users[0]name", "dot or [ is missing"},
		{doc, "a.", "ends with a dot"},
		{doc, `["x`, "quoted key"},
		{"{\n\"a\":}", "a", "line 2"},
		{"1 2", "", "follows"},
		{"", "a", "either"},
	} {
		_, err := Run(t.Context(), Args{Text: c.text, Query: c.query})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.query, err, c.want)
		}
	}
}
