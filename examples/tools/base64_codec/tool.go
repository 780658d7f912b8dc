// Command base64_codec encodes text as base64 and decodes it: standard or URL-safe, with
// or without padding, also data: URLs. Bytes that are no text are shown in hex.
package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text   string `json:"text" jsonschema:"text to encode, or base64 to decode (either alphabet; line breaks are fine)"`
	Action string `json:"action" jsonschema:"what to do" enum:"encode,decode"`
	URL    bool   `json:"url,omitempty" jsonschema:"encode with the URL-safe alphabet and without padding"`
}

func Run(_ context.Context, in Args) (string, error) {
	switch in.Action {
	case "encode":
		if in.URL {
			return base64.RawURLEncoding.EncodeToString([]byte(in.Text)), nil
		}
		return base64.StdEncoding.EncodeToString([]byte(in.Text)), nil
	case "decode":
		return decode(in.Text)
	}
	return "", fmt.Errorf("action %q: encode or decode", in.Action)
}

func decode(s string) (string, error) {
	if strings.HasPrefix(s, "data:") {
		head, body, ok := strings.Cut(s, ",")
		if !ok || !strings.HasSuffix(head, ";base64") {
			return "", fmt.Errorf("a data: URL without ;base64")
		}
		s = body
	}
	s = strings.Join(strings.Fields(s), "")
	bare := strings.TrimRight(s, "=")
	if pad := len(s) - len(bare); pad > 2 || pad > 0 && len(s)%4 != 0 {
		return "", fmt.Errorf("not base64: %d padding characters do not fit the length %d", pad, len(s))
	}
	bare = strings.NewReplacer("-", "+", "_", "/").Replace(bare)
	b, err := base64.RawStdEncoding.Strict().DecodeString(bare)
	if err != nil {
		return "", fmt.Errorf("not base64: %w", err)
	}
	if !utf8.Valid(b) || strings.ContainsRune(string(b), 0) {
		if len(b) > 4096 {
			return fmt.Sprintf("%d bytes, not text; the first 4096 in hex:\n%s", len(b), hex.Dump(b[:4096])), nil
		}
		return fmt.Sprintf("%d bytes, not text; in hex:\n%s", len(b), hex.Dump(b)), nil
	}
	return string(b), nil
}

func main() {
	sdk.Serve("base64_codec", "Encodes text as base64 and decodes base64, URL-safe too", Run, sdk.ReadOnly())
}
