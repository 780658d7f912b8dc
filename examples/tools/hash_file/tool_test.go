package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Run(t.Context(), Args{Path: file, Algorithms: []string{"md5", "crc32"}})
	if err != nil || got != "md5 900150983cd24fb0d6963f7d28e17f72\ncrc32 352441c2" {
		t.Errorf("%q %v", got, err)
	}
	got, err = Run(t.Context(), Args{Path: file, Expect: " A9993E364706816ABA3E25717850C26C9CD0D89D\n"})
	if err != nil || !strings.HasPrefix(got, "same: sha1") {
		t.Errorf("%q %v", got, err)
	}
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{Path: file, Expect: strings.Repeat("0", 32)}, "differs: md5"},
		{Args{Path: file, Expect: "xyz"}, "no checksum"},
		{Args{Path: file, Expect: strings.Repeat("g", 32)}, "no checksum"},
		{Args{Path: file, Algorithms: []string{"md4"}}, "md4"},
		{Args{Path: filepath.Dir(file)}, "not a regular file"},
		{Args{Path: file + "x"}, "no such file"},
	} {
		if _, err := Run(t.Context(), c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.in, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Args{Path: file}); err == nil {
		t.Error("a cancelled call went on")
	}
}
