package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// A time that is not known is null, never the year one, in whatever prints JSON.
func TestNoInventedTimes(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Calls: []llmtest.Call{{Name: "write_file", Args: map[string]any{"path": "a.txt", "content": "a\n"}}}}, llmtest.Turn{Text: "written"})
	u := newUser(t, s.URL())
	check := func(args ...string) string {
		t.Helper()
		out, errs, status := u.run(args...)
		if status != 0 {
			t.Errorf("%q: status %d: %s", args, status, errs)
		}
		for line := range strings.Lines(out) {
			if len(args) > 2 && args[2] == "stream-json" && !json.Valid([]byte(line)) {
				t.Errorf("%q prints %q", args, line)
			}
		}
		if strings.Contains(out, "0001-01-01") || strings.Contains(out, "1970-01-01") {
			t.Errorf("%q invents a time: %s", args, out)
		}
		return out
	}
	check("run", "--output", "stream-json", "--mode", "auto", "write a.txt")
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(check("sessions", "list", "--json")), &list); err != nil || len(list.Items) != 1 {
		t.Fatal(err, list)
	}
	check("sessions", "show", list.Items[0].ID, "--json")
	check("sessions", "export", list.Items[0].ID, "--format", "json")
	check("memory", "add", "--json", "the kettle is blue")
	for _, c := range []string{"memory list", "memory show 1", "memory stats", "memory select kettle", "memory search kettle", "memory maintain",
		"prompts list", "prompts show", "snapshots list", "tools list", "tools show read_file", "evolve log", "doctor", "undo", "config list"} {
		check(append(strings.Fields(c), "--json")...)
	}
	var snaps struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(check("snapshots", "list", "--json")), &snaps); err != nil || len(snaps.Items) == 0 {
		t.Fatal(err, snaps)
	}
	check("snapshots", "show", snaps.Items[0].ID, "--json")
}
