package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct{ text, algorithm, want string }{
		{"", "md5", "md5 d41d8cd98f00b204e9800998ecf8427e"},
		{"abc", "SHA-1", "sha1 a9993e364706816aba3e25717850c26c9cd0d89d"},
		{"abc", "sha256", "sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"123456789", "crc32", "crc32 cbf43926"},
		{"中文", "md5", "md5 a7bac2239fcdcb3a067903d8077c4a07"},
	} {
		got, err := Run(t.Context(), Args{Text: c.text, Algorithms: []string{c.algorithm}})
		if err != nil || got != c.want {
			t.Errorf("%s of %q: %q %v, want %q", c.algorithm, c.text, got, err, c.want)
		}
	}
	got, err := Run(t.Context(), Args{Text: "abc", Algorithms: []string{"sha512", "crc32"}})
	if err != nil || !strings.HasPrefix(got, "sha512 ddaf35a193617aba") || !strings.HasSuffix(got, "\ncrc32 352441c2") {
		t.Errorf("%q %v", got, err)
	}
	if got, err := Run(t.Context(), Args{Text: "abc"}); err != nil || !strings.HasPrefix(got, "sha256 ") {
		t.Errorf("%q %v", got, err)
	}
}

func TestUnknown(t *testing.T) {
	if _, err := Run(t.Context(), Args{Algorithms: []string{"md4"}}); err == nil || !strings.Contains(err.Error(), "md4") {
		t.Error(err)
	}
}
