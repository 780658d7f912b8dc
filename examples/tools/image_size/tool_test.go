package main

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, data string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "图")
	if err := os.WriteFile(p, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRun(t *testing.T) {
	img := image.NewPaletted(image.Rect(0, 0, 321, 45), color.Palette{color.Black, color.White})
	encoded := map[string]string{}
	var b bytes.Buffer
	for name, enc := range map[string]func() error{
		"png":  func() error { return png.Encode(&b, img) },
		"jpeg": func() error { return jpeg.Encode(&b, img, nil) },
		"gif":  func() error { return gif.Encode(&b, img, nil) },
	} {
		b.Reset()
		if err := enc(); err != nil {
			t.Fatal(err)
		}
		encoded[name] = b.String()
	}
	j := encoded["jpeg"]
	for _, c := range []struct {
		data string
		want Size
	}{
		{encoded["png"], Size{"png", 321, 45, 0}},
		{encoded["gif"], Size{"gif", 321, 45, 0}},
		{j, Size{"jpeg", 321, 45, 0}},
		// With a long comment and fill bytes before the frame.
		{j[:2] + "\xff\xff\xfe\xff\x00" + strings.Repeat("x", 0xff00-2) + j[2:], Size{"jpeg", 321, 45, 0}},
		{"BM" + strings.Repeat("\x00", 12) + "\x28\x00\x00\x00\x41\x01\x00\x00\xd3\xff\xff\xff" + strings.Repeat("\x00", 28), Size{"bmp", 321, 45, 0}},
		{"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x40\x01\x00\x2c\x00\x00", Size{"webp", 321, 45, 0}},
		{"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x41\x01\x2d\x00", Size{"webp", 321, 45, 0}},
		{"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x40\x01\x0b\x00\x00\x00\x00\x00\x00", Size{"webp", 321, 45, 0}},
	} {
		got, err := Run(t.Context(), Args{Path: write(t, c.data)})
		c.want.Bytes = int64(len(c.data))
		if err != nil || got != c.want {
			t.Errorf("%+v %v, want %+v", got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for data, want := range map[string]string{"": "ends within", "hello world, this is not an image": "not a PNG", "\x89PNG\r\n\x1a\n\x00": "ends within", "\xff\xd8\xff\xd9": "without a size", "\xff\xd8\xff\xe0\x00\x10": "ends within", "\xff\xd8abc": "damaged", "GIF89a\x00\x00\x00\x00": "0×0"} {
		if _, err := Run(t.Context(), Args{Path: write(t, data)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := Run(t.Context(), Args{Path: t.TempDir()}); err == nil {
		t.Error("no error for a folder")
	}
}
