// Command hash_file gives checksums of a file, or says whether it has an expected one.
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
	"os"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path       string   `json:"path" jsonschema:"file, relative to the project"`
	Algorithms []string `json:"algorithms,omitempty" jsonschema:"of md5, sha1, sha256, sha512, crc32 (IEEE); default sha256"`
	Expect     string   `json:"expect,omitempty" jsonschema:"a checksum in hex to compare with; its length tells the algorithm"`
}

var byLength = map[int]string{8: "crc32", 32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}

func Run(ctx context.Context, in Args) (string, error) {
	want := strings.ToLower(strings.TrimSpace(in.Expect))
	if want != "" {
		name := byLength[len(want)]
		if name == "" || strings.Trim(want, "0123456789abcdef") != "" {
			return "", fmt.Errorf("expect: %d characters are no checksum in hex of a known algorithm", len(want))
		}
		in.Algorithms = []string{name}
	}
	if len(in.Algorithms) == 0 {
		in.Algorithms = []string{"sha256"}
	}
	f, err := os.Open(sdk.Path(ctx, in.Path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return "", err
	} else if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", in.Path)
	}
	out, err := sums(&reader{ctx, f}, in.Algorithms)
	if err != nil || want == "" {
		return strings.Join(out, "\n"), err
	}
	if name, got, _ := strings.Cut(out[0], " "); got != want {
		return "", fmt.Errorf("differs: %s of %s is %s, expected %s", name, in.Path, got, want)
	}
	return "same: " + out[0], nil
}

// reader ends when the call is cancelled.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
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
	sdk.Serve("hash_file", "Checksums of a file (md5, sha1, sha256, sha512, crc32), or a comparison with an expected one", Run, sdk.ReadOnly())
}
