package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"|名称|n|\n|-|-:|\n|苹果|1|\n|pear|22|", "| 名称 |   n |\n| ---- | --: |\n| 苹果 |   1 |\n| pear |  22 |"},
		{"a|b\n:-:|:--\nlonger|x", "|   a    | b   |\n| :----: | :-- |\n| longer | x   |"},
		{"text\n\n|a|\n|-|\n\nafter|x", "text\n\n| a   |\n| --- |\n\nafter|x"},
		{"|a|b|\n|-|-|\n|x\\|y|`p|q`|\n|z|", "| a    | b     |\n| ---- | ----- |\n| x\\|y | `p|q` |\n| z    |       |"},
		{"```\n|a|\n|-|\n```\n|b|\n|-|", "```\n|a|\n|-|\n```\n| b   |\n| --- |"},
	} {
		got, err := Run(t.Context(), Args{Text: c.text})
		if err != nil || got != c.want {
			t.Errorf("%q: %v\n%s\nwant\n%s", c.text, err, got, c.want)
		}
		if again, err := Run(t.Context(), Args{Text: got}); err != nil || again != got {
			t.Errorf("not stable: %v\n%s", err, again)
		}
	}
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "ab": 2, "中文": 4, "，": 2, "é": 1, "e\u0301": 1, "ｱ": 1, "한": 2, "😀": 2} {
		if got := width(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{"": "no table", "a|b\nc|d": "no table", "|a|\n|-|\n|1|2|": "more cells", "|a|b|\n|-|": "no table"} {
		if got, err := Run(t.Context(), Args{Text: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}
