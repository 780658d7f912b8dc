package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Text: "姓名,n\n张三,1\nBob,22\n"}, "| 姓名 |   n |\n| ---- | --: |\n| 张三 |   1 |\n| Bob  |  22 |\n"},
		{Args{Text: "a,b\n\"x|y\",\"1\n2\"\nz\n"}, "| a    | b      |\n| ---- | ------ |\n| x\\|y | 1<br>2 |\n| z    |        |\n"},
		{Args{Text: "a;b", Delimiter: ";"}, "| a   | b   |\n| --- | --- |\n"},
		{Args{Text: "a\tb", Delimiter: "tab"}, "| a   | b   |\n| --- | --- |\n"},
		{Args{Text: "a\nx\ny\nz\n", Limit: 1}, "| a   |\n| --- |\n| x   |\n\n2 more rows\n"},
		{Args{Text: "\ufeffa\n\\\n"}, "| a   |\n| --- |\n| \\\\  |\n"},
	} {
		if got, err := Run(t.Context(), c.in); err != nil || got != c.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", c.in, err, got, c.want)
		}
	}
}

func TestFilesAndErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(t.Context(), Args{Path: file}); err != nil || !strings.HasPrefix(got, "| a ") {
		t.Errorf("%q %v", got, err)
	}
	for _, in := range []Args{{}, {Path: file, Text: "x"}, {Path: file + "x"}, {Text: "\n"}, {Text: "a\"b"}, {Text: "a", Delimiter: "::"}} {
		if got, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: %q, no error", in, got)
		}
	}
}
