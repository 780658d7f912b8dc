// Command po_stats tells how far the translation in a gettext .po file is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path string `json:"path" jsonschema:".po or .pot file in UTF-8, relative to the project"`
	List int    `json:"list,omitempty" jsonschema:"how many untranslated and fuzzy messages to list" minimum:"0" maximum:"500" default:"10"`
}

type entry struct {
	line          int
	fuzzy, old    bool
	id            string
	ctx           string
	strs          []string
	hasID, hasStr bool
}

func Run(ctx context.Context, in Args) (string, error) {
	b, err := os.ReadFile(sdk.Path(ctx, in.Path))
	if err != nil {
		return "", err
	}
	all, err := parse(string(b))
	if err != nil {
		return "", fmt.Errorf("%s: %w", in.Path, err)
	}
	var done, fuzzy, open, old int
	var list []string
	language := ""
	seen := map[string]int{}
	var twice []string
	for _, e := range all {
		if e.old {
			old++
			continue
		}
		if e.id == "" && e.ctx == "" {
			for l := range strings.SplitSeq(e.strs[0], "\n") {
				if v, ok := strings.CutPrefix(l, "Language:"); ok {
					language = strings.TrimSpace(v)
				}
			}
			continue
		}
		key := e.ctx + "\x04" + e.id
		if first, ok := seen[key]; ok {
			twice = append(twice, fmt.Sprintf("line %d: the message of line %d again", e.line, first))
		} else {
			seen[key] = e.line
		}
		empty := false
		for _, s := range e.strs {
			empty = empty || s == ""
		}
		switch {
		case empty:
			open++
			list = append(list, fmt.Sprintf("line %d untranslated: %s", e.line, short(e.id)))
		case e.fuzzy:
			fuzzy++
			list = append(list, fmt.Sprintf("line %d fuzzy: %s", e.line, short(e.id)))
		default:
			done++
		}
	}
	var out strings.Builder
	total := done + fuzzy + open
	if language != "" {
		fmt.Fprintf(&out, "language: %s\n", language)
	}
	fmt.Fprintf(&out, "messages: %d\ntranslated: %d", total, done)
	if total > 0 {
		// Cut, so that only a complete translation is 100 %.
		fmt.Fprintf(&out, " (%d.%d %%)", done*1000/total/10, done*1000/total%10)
	}
	fmt.Fprintf(&out, "\nfuzzy: %d\nuntranslated: %d\nobsolete: %d", fuzzy, open, old)
	for _, s := range twice {
		out.WriteString("\n" + s)
	}
	for i, s := range list {
		if i == in.List {
			fmt.Fprintf(&out, "\n… and %d more", len(list)-i)
			break
		}
		out.WriteString("\n" + s)
	}
	return out.String(), nil
}

func short(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "…"
	}
	return strconv.Quote(s)
}

func parse(text string) ([]entry, error) {
	var all []entry
	cur := entry{}
	var target *string
	finish := func() error {
		if cur.hasID && !cur.hasStr {
			return fmt.Errorf("line %d: msgid without msgstr", cur.line)
		}
		if cur.hasID {
			all = append(all, cur)
		}
		cur, target = entry{}, nil
		return nil
	}
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		n++
		l := strings.TrimSpace(line)
		old := false
		if rest, ok := strings.CutPrefix(l, "#~"); ok {
			if strings.HasPrefix(rest, "|") {
				continue
			}
			old, l = true, strings.TrimSpace(rest)
		}
		if l == "" {
			if err := finish(); err != nil {
				return nil, err
			}
			continue
		}
		if l[0] == '#' {
			if cur.hasStr {
				if err := finish(); err != nil {
					return nil, err
				}
			}
			if strings.HasPrefix(l, "#,") && strings.Contains(l, "fuzzy") {
				cur.fuzzy = true
			}
			continue
		}
		word, rest := "", l
		if l[0] != '"' {
			word, rest, _ = strings.Cut(l, " ")
			rest = strings.TrimSpace(rest)
		}
		s, err := strconv.Unquote(rest)
		if err != nil || rest[0] != '"' {
			return nil, fmt.Errorf("line %d: %s has no text in double quotes", n, short(l))
		}
		if cur.hasStr && (word == "msgid" || word == "msgctxt") {
			if err := finish(); err != nil {
				return nil, err
			}
		}
		switch {
		case word == "":
			if target == nil {
				return nil, fmt.Errorf("line %d: text before any msgid", n)
			}
			*target += s
			continue
		case word == "msgctxt":
			cur.ctx, target = s, &cur.ctx
		case word == "msgid":
			if cur.hasID {
				return nil, fmt.Errorf("line %d: a second msgid without msgstr", n)
			}
			cur.id, cur.hasID, cur.line, target = s, true, n, &cur.id
		case word == "msgid_plural":
			plural := s
			target = &plural
		case word == "msgstr" || strings.HasPrefix(word, "msgstr["):
			if !cur.hasID {
				return nil, fmt.Errorf("line %d: msgstr without msgid", n)
			}
			cur.strs = append(cur.strs, s)
			cur.hasStr, target = true, &cur.strs[len(cur.strs)-1]
		default:
			return nil, fmt.Errorf("line %d: %s is not known", n, short(word))
		}
		cur.old = cur.old || old
	}
	if err := finish(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("there is no message")
	}
	return all, nil
}

func main() {
	sdk.Serve("po_stats", "Progress of a gettext .po file: translated, fuzzy, untranslated, obsolete, twice", Run, sdk.ReadOnly())
}
