package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mit = `MIT License

Copyright (c) 2026 the authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software ... subject to the following conditions:
The above copyright notice and this permission notice shall be included in all
copies. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND.`

func TestIdentify(t *testing.T) {
	bsd := "Redistribution and use in source and binary forms, with or without modification:\n * Redistributions in binary form must reproduce the above\n"
	for _, c := range []struct{ text, want string }{
		{mit, "MIT"},
		{strings.ReplaceAll(mit, "The above copyright notice and this permission notice", "x"), "MIT-0"},
		{bsd, "BSD-2-Clause"},
		{bsd + "Neither the name may be used to endorse or promote products", "BSD-3-Clause"},
		{"GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n", "GPL-3.0"},
		{"GNU LESSER GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007\n incorporates the GNU General Public License", "LGPL-3.0"},
		{"GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3, 19 November 2007", "AGPL-3.0"},
		{"GNU GENERAL PUBLIC LICENSE Version 2, June 1991", "GPL-2.0"},
		{"                Apache License\n           Version 2.0, January 2004\n", "Apache-2.0"},
		{"Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee is hereby granted, provided that the above\ncopyright notice and", "ISC"},
		{"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted.", "0BSD"},
		{mit + "\n\nApache License Version 2.0, January 2004", "Apache-2.0, MIT"},
		{"All rights reserved.", ""},
		{"木兰宽松许可证 Mulan Permissive Software License，Version 2 (Mulan PSL v2)", "MulanPSL-2.0"},
	} {
		if got := strings.Join(identify(c.text), ", "); got != c.want {
			t.Errorf("%.40q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": mit, "lib/COPYING.txt": "what we like", "NOTICE": "made by us", "package.json": `{"name":"a","license":"MIT"}`,
		"Cargo.toml": "[package]\nlicense = \"MIT OR Apache-2.0\"\n", "node_modules/x/package.json": `{"license":"ISC"}`,
		"a.go": "// SPDX-License-Identifier: MIT\npackage a\n", "b.c": "/* SPDX-License-Identifier: GPL-2.0-only */\n", "c.py": "x\n", "license.go": "package a\n",
		".git/LICENSE": mit,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := `licence texts
  LICENSE: MIT
  lib/COPYING.txt: not recognised
declared
  Cargo.toml: MIT OR Apache-2.0
  package.json: MIT
SPDX lines in source files
  GPL-2.0-only: 1
  MIT: 1
  without: 2`
	if got, err := Run(t.Context(), Args{Path: dir}); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	for name, want := range map[string]string{"LICENSE": "MIT", "a.go": "MIT (SPDX line)", "c.py": "not recognised"} {
		if got, err := Run(t.Context(), Args{Path: filepath.Join(dir, name)}); err != nil || got != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if got, err := Run(t.Context(), Args{Path: dir, Limit: 1}); err != nil || !strings.Contains(got, "only the first 1 source files") {
		t.Errorf("%q %v", got, err)
	}
	if got, err := Run(t.Context(), Args{Path: t.TempDir()}); err != nil || !strings.Contains(got, "no licence") {
		t.Errorf("%q %v", got, err)
	}
	if _, err := Run(t.Context(), Args{Path: filepath.Join(dir, "no")}); err == nil {
		t.Error("a folder that is not there")
	}
}
