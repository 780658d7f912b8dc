// Command url_codec encodes and decodes text for URLs and takes URLs apart.
package main

import (
	"context"
	"fmt"
	"net/url"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text   string `json:"text" jsonschema:"the text or URL"`
	Action string `json:"action" jsonschema:"what to do" enum:"encode,decode,parse"`
	Part   string `json:"part,omitempty" jsonschema:"for encode and decode: query writes a space as +, path as %20" enum:"query,path" default:"query"`
}

func Run(_ context.Context, in Args) (string, error) {
	escape, unescape := url.QueryEscape, url.QueryUnescape
	if in.Part == "path" {
		escape, unescape = url.PathEscape, url.PathUnescape
	}
	switch in.Action {
	case "encode":
		return escape(in.Text), nil
	case "decode":
		return unescape(in.Text)
	case "parse":
		return parse(strings.TrimSpace(in.Text))
	}
	return "", fmt.Errorf("action %q: encode, decode or parse", in.Action)
}

func parse(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", err
	}
	if u.Scheme == "" && u.Host == "" {
		return "", fmt.Errorf("%q is no absolute URL: the scheme is missing", s)
	}
	var b strings.Builder
	put := func(name, v string) {
		if v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	put("scheme", u.Scheme)
	if u.User != nil {
		put("user", u.User.Username())
		if _, ok := u.User.Password(); ok {
			put("password", "(set, not shown)")
		}
	}
	put("host", u.Hostname())
	put("port", u.Port())
	put("path", u.Path)
	put("opaque", u.Opaque)
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	names := make([]string, 0, len(q))
	for k := range q {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		for _, v := range q[k] {
			fmt.Fprintf(&b, "query %s = %s\n", k, v)
		}
	}
	put("fragment", u.Fragment)
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func main() {
	sdk.Serve("url_codec", "Percent-encodes and decodes text, or takes a URL apart", Run, sdk.ReadOnly())
}
