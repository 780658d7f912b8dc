// Command hash_text gives checksums of a text, as UTF-8.
package main

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text       string   `json:"text" jsonschema:"the text; its UTF-8 bytes are hashed as they are"`
	Algorithms []string `json:"algorithms,omitempty" jsonschema:"of md5, sha1, sha256, sha512, crc32 (IEEE); default sha256"`
}

func Run(_ context.Context, in Args) (string, error) {
	if len(in.Algorithms) == 0 {
		in.Algorithms = []string{"sha256"}
	}
	out, err := sums(strings.NewReader(in.Text), in.Algorithms)
	return strings.Join(out, "\n"), err
}

func sums(r io.Reader, names []string) ([]string, error) {
	var out []string
	hs := make([]hash.Hash, len(names))
	ws := make([]io.Writer, len(names))
	for i, n := range names {
		make, ok := algorithms[strings.ReplaceAll(strings.ToLower(n), "-", "")]
		if !ok {
			return nil, fmt.Errorf("algorithm %q: md5, sha1, sha256, sha512 and crc32 are known", n)
		}
		hs[i] = make()
		ws[i] = hs[i]
	}
	if _, err := io.Copy(io.MultiWriter(ws...), r); err != nil {
		return nil, err
	}
	for i, n := range names {
		out = append(out, fmt.Sprintf("%s %x", strings.ReplaceAll(strings.ToLower(n), "-", ""), hs[i].Sum(nil)))
	}
	return out, nil
}

var algorithms = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New,
	"crc32": func() hash.Hash { return crc32.NewIEEE() },
}

func main() {
	sdk.Serve("hash_text", "Checksums of a text: md5, sha1, sha256, sha512, crc32", Run, sdk.ReadOnly())
}
