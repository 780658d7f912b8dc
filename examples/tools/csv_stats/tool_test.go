package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRun(t *testing.T) {
	s, err := Run(t.Context(), Args{Path: write(t, "\ufeff姓名,age,score,day,ok,none\n张三,9,1.5,2024-01-02,true,\n\"李, 四\",10,2.5,2023-12-31,FALSE,\n张三,,,,,\n")})
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 3 || len(s.Columns) != 6 {
		t.Fatalf("%+v", s)
	}
	for i, want := range []Column{
		{Name: "姓名", Type: "text", Count: 3, Distinct: 2, Min: "张三", Max: "李, 四"},
		{Name: "age", Type: "integer", Count: 2, Empty: 1, Distinct: 2, Min: "9", Max: "10"},
		{Name: "score", Type: "number", Count: 2, Empty: 1, Distinct: 2, Min: "1.5", Max: "2.5"},
		{Name: "day", Type: "date", Count: 2, Empty: 1, Distinct: 2, Min: "2023-12-31", Max: "2024-01-02"},
		{Name: "ok", Type: "boolean", Count: 2, Empty: 1, Distinct: 2, Min: "FALSE", Max: "true"},
		{Name: "none", Type: "empty", Empty: 3},
	} {
		got := s.Columns[i]
		mean := got.Mean
		got.Mean = nil
		if got != want {
			t.Errorf("column %d: got %+v, want %+v", i, got, want)
		}
		if i == 1 && (mean == nil || *mean != 9.5) {
			t.Errorf("mean of age: %v", mean)
		}
	}
}

func TestDelimiterAndHeader(t *testing.T) {
	s, err := Run(t.Context(), Args{Path: write(t, "1;2\n3;4\n"), NoHeader: true})
	if err != nil || s.Rows != 2 || len(s.Columns) != 2 || s.Columns[1].Name != "column2" || *s.Columns[1].Mean != 3 {
		t.Errorf("%+v %v", s, err)
	}
	s, err = Run(t.Context(), Args{Path: write(t, "a\tb,c\n1\t2\n"), Delimiter: "tab"})
	if err != nil || len(s.Columns) != 2 || s.Columns[1].Name != "b,c" {
		t.Errorf("%+v %v", s, err)
	}
	s, err = Run(t.Context(), Args{Path: write(t, "a,b\n1\n")})
	if err != nil || s.Columns[1].Empty != 1 {
		t.Errorf("short row: %+v %v", s, err)
	}
	s, err = Run(t.Context(), Args{Path: write(t, "a,b\n")})
	if err != nil || s.Rows != 0 || s.Columns[0].Type != "empty" {
		t.Errorf("header only: %+v %v", s, err)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, delimiter, want string }{
		{"", "", "empty"},
		{"a,b\n1,2,3\n", "", "line 2 has 3 cells"},
		{"a\n\"x\n", "", "quote"},
		{"a\n", "::", "one character"},
	} {
		_, err := Run(t.Context(), Args{Path: write(t, c.text), Delimiter: c.delimiter})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	if _, err := Run(t.Context(), Args{Path: filepath.Join(t.TempDir(), "none.csv")}); err == nil {
		t.Error("no error for a missing file")
	}
}
