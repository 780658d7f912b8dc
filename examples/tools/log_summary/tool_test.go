package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.log")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(`2024-05-02 10:00:01,123 ERROR 用户 42 不存在 from 10.0.0.1:80
2024-05-02 10:00:00 ERROR 用户 7 不存在 from 10.0.0.2:81
2024-05-02 10:00:09 INFO took 1.5 ms, id 0a1b2c3d-0000-4000-8000-000000000000
time=x level=warning msg="disk 91% full"
[debug] x
no error here

`)
	got, err := Run(t.Context(), Args{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"7 lines, from 2024-05-02 10:00:00 to 2024-05-02 10:00:09", "error: 2\nwarn: 1\ninfo: 1\ndebug: 1\nno level: 1", "     2× ERROR 用户 # 不存在 from <ip> (first in line 1)", "took # ms, id <uuid>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	got, err = Run(t.Context(), Args{Path: file, Level: "WARNING", Top: 1})
	if err != nil || !strings.Contains(got, "1× time=x level=warning") || strings.Contains(got, "用户") {
		t.Errorf("%s %v", got, err)
	}
	put("INFO " + strings.Repeat("x", 1<<20) + "\nINFO y\n")
	got, err = Run(t.Context(), Args{Path: file})
	if err != nil || !strings.HasPrefix(got, "2 lines\ninfo: 2") || len(got) > 1000 {
		t.Errorf("%.300s %v", got, err)
	}
	put("")
	if got, err := Run(t.Context(), Args{Path: file}); err != nil || got != "0 lines" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := Run(t.Context(), Args{Path: file, Level: "loud"}); err == nil {
		t.Error("no error for an unknown level")
	}
	if _, err := Run(t.Context(), Args{Path: file + "x"}); err == nil {
		t.Error("no error for a missing file")
	}
}
