package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

func parseJSON(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	lineOf := func() int { return 1 + strings.Count(text[:min(int(dec.InputOffset()), len(text))], "\n") }
	v, err := readJSON(dec, 0, lineOf)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("something follows the value")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the JSON ends too early")
	}
	if err != nil {
		return nil, at(lineOf(), "%v", err)
	}
	return v, nil
}

func readJSON(dec *json.Decoder, depth int, lineOf func() int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return number(t.String()), nil
	case json.Delim:
		if t == '[' {
			list := []any{}
			for dec.More() {
				v, err := readJSON(dec, depth+1, lineOf)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := dec.Token()
			return list, err
		}
		o := newObject()
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(dec, depth+1, lineOf)
			if err != nil {
				return nil, err
			}
			if !o.set(k.(string), v) {
				return nil, fmt.Errorf("the key %q comes twice", k)
			}
		}
		_, err := dec.Token()
		return o, err
	default:
		return t, nil
	}
}

// quote is s as a JSON string, which is one of YAML and, written so, of TOML, too.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string is always written
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

func writeJSON(v any, pad string) (string, error) {
	var b strings.Builder
	var write func(v any, in, path string) error
	write = func(v any, in, path string) error {
		switch v := v.(type) {
		case nil:
			b.WriteString("null")
		case bool:
			b.WriteString(strconv.FormatBool(v))
		case string:
			b.WriteString(quote(v))
		case moment:
			b.WriteString(quote(string(v)))
		case number:
			b.WriteString(string(v))
		case special:
			return fmt.Errorf("%s is %s, which JSON can't hold", orTop(path), v)
		case []any:
			if len(v) == 0 {
				b.WriteString("[]")
				return nil
			}
			b.WriteString("[\n")
			for i, e := range v {
				b.WriteString(in + pad)
				if err := write(e, in+pad, fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
				if i < len(v)-1 {
					b.WriteByte(',')
				}
				b.WriteByte('\n')
			}
			b.WriteString(in + "]")
		case *object:
			if len(v.keys) == 0 {
				b.WriteString("{}")
				return nil
			}
			b.WriteString("{\n")
			for i, k := range v.keys {
				b.WriteString(in + pad + quote(k) + ": ")
				if err := write(v.values[k], in+pad, join(path, k)); err != nil {
					return err
				}
				if i < len(v.keys)-1 {
					b.WriteByte(',')
				}
				b.WriteByte('\n')
			}
			b.WriteString(in + "}")
		}
		return nil
	}
	err := write(v, "", "")
	return b.String(), err
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func orTop(path string) string {
	if path == "" {
		return "the value"
	}
	return path
}

// whole reads an integer with Go's prefixes 0x, 0o and 0b.
func whole(s string, base int) (number, bool) {
	n, ok := new(big.Int).SetString(s, base)
	if !ok {
		return "", false
	}
	return number(n.String()), true
}

// fraction reads a decimal number with a point or an exponent.
func fraction(s string) (number, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xXpP_nN") {
		return "", false
	}
	// As it was written, where JSON has the same form.
	if t := strings.TrimPrefix(s, "+"); json.Valid([]byte(t)) {
		return number(t), true
	}
	out := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(out, ".e") {
		out += ".0"
	}
	return number(out), true
}
