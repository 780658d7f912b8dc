package main

import (
	"path/filepath"
	"testing"
)

func TestRun(t *testing.T) {
	for in, want := range map[string]string{
		"<html><head><title>题目</title><style>x{}</style></head><body><h1>Hello</h1><p>One\n two</p><p>Three</p>": "题目\n\n# Hello\n\nOne two\n\nThree",
		"<script>if (a<b) {}</script>ok<!-- <p>no --> yes":                                                       "ok yes",
		"a &amp; b &lt;tag&gt; &nbsp; &#20013;":                                                                  "a & b <tag> 中",
		"<ul><li>one<li>two<ol><li>x</li><li>y</ol></ul>end":                                                     "- one\n- two\n  1. x\n  2. y\n\nend",
		"<table><tr><th>a<th>b</tr><tr><td>1<td>2</table>":                                                       "a | b\n1 | 2",
		"<pre>  x\n    y</pre>z":                                                                                 "  x\n    y\n\nz",
		"a<br>b<b>c</b> <i>d</i>":                                                                                "a\nbc d",
		"1 < 2 and 3 > 2":                                                                                        "1 < 2 and 3 > 2",
		`<img alt="a > b"> t`:                                                                                    "[a > b] t",
		"<p title='>'>x</p>":                                                                                     "x",
		"text<script>never closed":                                                                               "text",
		"你<b>好</b>，世界":                                                                                           "你好，世界",
		"<hr>":                                                                                                   "---",
	} {
		got, err := Run(t.Context(), Args{Text: in})
		if err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", in, got, err, want)
		}
	}
	got, err := Run(t.Context(), Args{Text: `<a href="/x?a=1&amp;b=2">link</a>, <a href="#t">top</a>.`, Links: true})
	if err != nil || got != "link (/x?a=1&b=2), top." {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, in := range []Args{{}, {Path: "a", Text: "b"}, {Path: filepath.Join(t.TempDir(), "none")}} {
		if _, err := Run(t.Context(), in); err == nil {
			t.Errorf("%+v: no error", in)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{"<p>a", "<", "</", "<a href='", "</ol></li>", "<head><title>"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { render(s, true) })
}
