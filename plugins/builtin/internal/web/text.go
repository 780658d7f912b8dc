package web

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/lingjiyidong/lj/core/workspace"
)

// MediaType is the type that the answer declares, or the one that its bytes look like.
func (p *Page) MediaType() string {
	t, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
	if err != nil || t == "application/octet-stream" || t == "binary/octet-stream" {
		t, _, _ = mime.ParseMediaType(http.DetectContentType(p.Body))
	}
	return strings.ToLower(t)
}

// Text decodes the body by its byte order mark, the header, the page's own meta element,
// or else by what it looks like. ok is false when it is no text.
func (p *Page) Text() (s string, ok bool) {
	b := p.Body
	if p.Cut { // perhaps inside a character
		b = b[:len(b)-partial(b)]
	}
	enc, _, certain := charset.DetermineEncoding(b[:min(len(b), 4096)], p.Header.Get("Content-Type"))
	if certain && !(utf8.Valid(b) && bytes.IndexByte(b, 0) < 0) {
		out, err := enc.NewDecoder().Bytes(b)
		if err == nil && bytes.IndexByte(out[:min(len(out), 8192)], 0) < 0 {
			return strings.TrimPrefix(string(out), "\ufeff"), true
		}
	}
	t, err := workspace.Decode(b)
	if err != nil {
		return "", false
	}
	return t.LF, true
}

// partial is the number of bytes at the end that are the beginning of a character.
func partial(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= 0xc0 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
