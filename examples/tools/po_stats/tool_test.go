package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "zh.po")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

const sample = `# head
msgid ""
msgstr ""
"Language: zh_CN\n"
"Plural-Forms: nplurals=1;\n"

#: a.go:1
msgid "Open"
msgstr "打开"
msgid "Close"
msgstr ""

#, fuzzy, c-format
#| msgid "Old"
msgid "Save %d"
msgstr "存"

msgctxt "menu"
msgid "Open"
msgstr "开启"

msgid "one"
msgid_plural "many"
msgstr[0] "甲"
msgstr[1] ""

msgid ""
"long "
"text"
msgstr ""
"长"

#~ msgid "gone"
#~ msgstr "没了"
`

func TestRun(t *testing.T) {
	got, err := Run(t.Context(), Args{Path: write(t, sample), List: 2})
	want := "language: zh_CN\nmessages: 6\ntranslated: 3 (50.0 %)\nfuzzy: 1\nuntranslated: 2\nobsolete: 1\nline 10 untranslated: \"Close\"\nline 15 fuzzy: \"Save %d\"\n… and 1 more"
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	got, err = Run(t.Context(), Args{Path: write(t, "msgid \"a\"\nmsgstr \"b\"\n\nmsgid \"a\"\nmsgstr \"c\"\n")})
	if err != nil || !strings.Contains(got, "(100.0 %)") || !strings.Contains(got, "line 4: the message of line 1 again") {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{"": "no message", "msgid \"a\"\n": "line 1: msgid without", "msgstr \"a\"": "without msgid", "msgid a": "line 1", "\"x\"": "before any", "msgxx \"a\"": "not known", "msgid \"a\"\nmsgid \"b\"": "second msgid"} {
		if got, err := Run(t.Context(), Args{Path: write(t, text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	if _, err := Run(t.Context(), Args{Path: "/nonexistent.po"}); err == nil {
		t.Error("no error for a missing file")
	}
}
