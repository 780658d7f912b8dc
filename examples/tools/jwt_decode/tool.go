// Command jwt_decode shows what a JSON Web Token says. It does not verify the signature.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Token string `json:"token" jsonschema:"the token, with or without Bearer before it"`
}

var now = time.Now

func Run(_ context.Context, in Args) (string, error) {
	s := strings.TrimSpace(in.Token)
	if len(s) > 7 && strings.EqualFold(s[:7], "bearer ") {
		s = strings.TrimSpace(s[7:])
	}
	parts := strings.Split(s, ".")
	if len(parts) == 5 {
		return "", fmt.Errorf("this token has five parts: it is encrypted (JWE) and can't be read without its key")
	}
	if len(parts) != 3 {
		return "", fmt.Errorf("a JWT has three parts with dots, this has %d", len(parts))
	}
	var b strings.Builder
	b.WriteString("signature: NOT VERIFIED; anyone can write such a token\n")
	for i, name := range []string{"header", "payload"} {
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[i], "="))
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var m map[string]any
		if err := dec.Decode(&m); err != nil {
			return "", fmt.Errorf("%s is not a JSON object: %w", name, err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, raw, "", "  "); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&b, "%s: %s\n", name, out.String())
		if i == 0 {
			if alg, _ := m["alg"].(string); strings.EqualFold(alg, "none") {
				b.WriteString("warning: alg is none, there is no signature\n")
			}
			continue
		}
		for _, k := range []string{"iat", "nbf", "exp"} {
			v, ok := m[k].(json.Number)
			if !ok {
				continue
			}
			f, err := v.Float64()
			if err != nil || f < 0 || f > 1e12 {
				fmt.Fprintf(&b, "%s: %s is no time in Unix seconds\n", k, v)
				continue
			}
			t := time.Unix(int64(f), 0).UTC()
			note := ""
			switch {
			case k == "exp" && !now().Before(t):
				note = " (expired)"
			case k == "nbf" && now().Before(t):
				note = " (not valid yet)"
			}
			fmt.Fprintf(&b, "%s: %s%s\n", k, t.Format(time.RFC3339), note)
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func main() {
	sdk.Serve("jwt_decode", "Shows header, payload and times of a JWT; does not verify its signature", Run, sdk.ReadOnly())
}
