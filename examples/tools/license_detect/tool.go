// Command license_detect says under which licences the files of a folder stand.
//
// It reads the licence texts (LICENSE, COPYING, NOTICE …) and compares them with sentences
// that only one licence has, the names in package.json, Cargo.toml and pyproject.toml, and
// the SPDX-License-Identifier lines of source files. It gives no legal advice: a text that
// was changed is reported by the sentences that are left of it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path  string `json:"path,omitempty" jsonschema:"file or folder, relative to the project; default: the project"`
	Limit int    `json:"limit,omitempty" jsonschema:"most source files to look into; default: 5000"`
}

// known lists, from the most special to the most general, which sentences a text must have
// (all of them) and must not have (any of them). Texts are compared in lower case, with
// runs of everything but letters and digits as one blank.
var known = []struct {
	id   string
	all  []string
	none []string
}{
	{"AGPL-3.0", []string{"gnu affero general public license", "version 3 19 november 2007"}, nil},
	{"LGPL-3.0", []string{"gnu lesser general public license", "version 3 29 june 2007"}, nil},
	{"GPL-3.0", []string{"gnu general public license", "version 3 29 june 2007"}, []string{"gnu lesser general public license version 3"}},
	{"LGPL-2.1", []string{"gnu lesser general public license", "version 2 1 february 1999"}, nil},
	{"LGPL-2.0", []string{"gnu library general public license", "version 2 june 1991"}, nil},
	{"GPL-2.0", []string{"gnu general public license", "version 2 june 1991"}, nil},
	{"Apache-2.0", []string{"apache license", "version 2 0 january 2004"}, nil},
	{"MPL-2.0", []string{"mozilla public license version 2 0", "1 definitions"}, nil},
	{"MPL-1.1", []string{"mozilla public license", "version 1 1", "1 definitions"}, nil},
	{"EPL-2.0", []string{"eclipse public license v 2 0", "under the terms of this eclipse public license"}, nil},
	{"EPL-1.0", []string{"eclipse public license v 1 0", "under the terms of this eclipse public license"}, nil},
	{"CDDL-1.0", []string{"common development and distribution license", "version 1 0"}, nil},
	{"MulanPSL-2.0", []string{"mulan permissive software license version 2", "mulan psl v2"}, nil},
	{"BUSL-1.1", []string{"business source license 1 1", "change date"}, nil},
	{"CC0-1.0", []string{"cc0 1 0 universal"}, nil},
	{"CC-BY-SA-4.0", []string{"creative commons", "attribution sharealike 4 0 international"}, nil},
	{"CC-BY-4.0", []string{"creative commons", "attribution 4 0 international"}, []string{"noncommercial 4 0", "noderivatives 4 0", "sharealike 4 0"}},
	{"Artistic-2.0", []string{"the artistic license 2 0"}, nil},
	{"BSL-1.0", []string{"boost software license version 1 0", "permission is hereby granted free of charge"}, nil},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}, nil},
	{"WTFPL", []string{"do what the fuck you want to public license"}, nil},
	{"Zlib", []string{"this software is provided as is without any express or implied warranty", "altered source versions must be plainly marked as such"}, nil},
	{"BSD-4-Clause", []string{"redistribution and use in source and binary forms", "all advertising materials mentioning features"}, nil},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "may be used to endorse or promote products"}, nil},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce"}, nil},
	{"ISC", []string{"permission to use copy modify and or distribute this software for any purpose with or without fee is hereby granted provided that the above copyright notice"}, nil},
	{"0BSD", []string{"permission to use copy modify and or distribute this software for any purpose with or without fee is hereby granted"}, nil},
	{"MIT-0", []string{"permission is hereby granted free of charge to any person obtaining a copy", "the software is provided as is"}, []string{"the above copyright notice and this permission notice"}},
	{"MIT", []string{"permission is hereby granted free of charge to any person obtaining a copy", "the above copyright notice and this permission notice", "the software is provided as is"}, nil},
}

var (
	noise    = regexp.MustCompile(`[^\p{L}\p{N}]+`)
	spdx     = regexp.MustCompile(`SPDX-License-Identifier:\s*([A-Za-z0-9.+() -]*[A-Za-z0-9.+)])`)
	textName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|copyright|notice)([._-].*)?$|(?i)[._-]licen[cs]e(\.(md|txt))?$`)
	inJSON   = regexp.MustCompile(`(?m)"license"\s*:\s*"([^"]+)"`)
	inTOML   = regexp.MustCompile(`(?m)^\s*license\s*=\s*(?:"([^"]+)"|\{\s*text\s*=\s*"([^"]+)")`)
	skip     = []string{".git", ".hg", ".svn", ".agent"}
	cannot   = errors.New("the limit is reached")
)

// identify names the licences that a text holds.
func identify(text string) []string {
	norm := " " + noise.ReplaceAllString(strings.ToLower(text), " ") + " "
	has := func(s string) bool { return strings.Contains(norm, " "+s+" ") }
	var ids []string
	for _, k := range known {
		if slices.ContainsFunc(k.all, func(s string) bool { return !has(s) }) || slices.ContainsFunc(k.none, has) {
			continue
		}
		// The more special one of a family was first.
		family, _, _ := strings.Cut(k.id, "-")
		if k.id == "0BSD" && slices.Contains(ids, "ISC") || family == "BSD" && slices.ContainsFunc(ids, func(s string) bool { return strings.HasPrefix(s, "BSD-") }) {
			continue
		}
		ids = append(ids, k.id)
	}
	return ids
}

type report struct {
	texts, tags  []string
	byTag        map[string]int
	looked, none int
}

func (r *report) text(name string, b []byte) {
	if ids := identify(string(b)); len(ids) > 0 {
		r.texts = append(r.texts, name+": "+strings.Join(ids, ", "))
	} else if !strings.HasPrefix(strings.ToLower(filepath.Base(name)), "notice") {
		r.texts = append(r.texts, name+": not recognised")
	}
}

func Run(ctx context.Context, in Args) (string, error) {
	if in.Limit < 0 {
		return "", errors.New("limit: a positive number")
	}
	in.Limit = cmp.Or(in.Limit, 5000)
	root := sdk.Path(ctx, cmp.Or(in.Path, "."))
	fi, err := os.Stat(root)
	if err != nil {
		return "", err
	}
	r := &report{byTag: map[string]int{}}
	if !fi.IsDir() {
		b, err := head(root, 1<<20)
		if err != nil {
			return "", err
		}
		if ids := identify(string(b)); len(ids) > 0 {
			return strings.Join(ids, ", "), nil
		}
		if m := spdx.FindSubmatch(b); m != nil {
			return string(m[1]) + " (SPDX line)", nil
		}
		return "not recognised", nil
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == root {
				return err
			}
			return nil // what can't be read is not counted
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.IsDir() {
			if slices.Contains(skip, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch base := strings.ToLower(d.Name()); {
		case textName.MatchString(d.Name()) && !source(base):
			if b, err := head(path, 1<<20); err == nil {
				r.text(name, b)
			}
		case base == "package.json" || base == "cargo.toml" || base == "pyproject.toml":
			if strings.Contains(filepath.ToSlash(name), "node_modules/") {
				return nil
			}
			b, err := head(path, 1<<20)
			if err != nil {
				return nil
			}
			re := inTOML
			if base == "package.json" {
				re = inJSON
			}
			if m := re.FindSubmatch(b); m != nil {
				r.tags = append(r.tags, fmt.Sprintf("%s: %s", name, cmp.Or(string(m[1]), string(m[len(m)-1]))))
			}
		case source(base):
			if r.looked == in.Limit {
				return cannot
			}
			r.looked++
			b, err := head(path, 4<<10)
			if err != nil {
				return nil
			}
			if m := spdx.FindSubmatch(b); m != nil {
				r.byTag[string(m[1])]++
			} else {
				r.none++
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, cannot) {
		return "", err
	}
	return r.String(in.Limit, errors.Is(err, cannot)), nil
}

func (r *report) String(limit int, cut bool) string {
	var b strings.Builder
	part := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "%s\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	part("licence texts", r.texts)
	part("declared", r.tags)
	var lines []string
	for id, n := range r.byTag {
		lines = append(lines, fmt.Sprintf("%s: %d", id, n))
	}
	slices.Sort(lines)
	if len(lines) > 0 && r.none > 0 {
		lines = append(lines, fmt.Sprintf("without: %d", r.none))
	}
	part("SPDX lines in source files", lines)
	if b.Len() == 0 {
		b.WriteString("no licence text, declaration or SPDX line found\n")
	}
	if cut {
		fmt.Fprintf(&b, "only the first %d source files were looked into\n", limit)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func source(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".c", ".h", ".cc", ".cpp", ".hpp", ".rs", ".py", ".js", ".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt", ".swift", ".rb", ".php", ".sh", ".cs", ".scala", ".lua", ".sql", ".css", ".vue":
		return true
	}
	return false
}

func head(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(bufio.NewReader(f), n))
}

func main() {
	sdk.Serve("license_detect", "Finds the licences of a folder: licence texts, declarations, SPDX lines (许可证识别)", Run, sdk.ReadOnly())
}
