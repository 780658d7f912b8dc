package llm

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// member is one member of a JSON object, its value as written.
type member struct {
	key   string
	value json.RawMessage
}

// object is a JSON object whose members keep their order and their bytes.
type object []member

// members reads an object; nil for anything else.
func members(raw []byte) object {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var o object
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return nil
		}
		key, ok := k.(string)
		if !ok {
			return nil
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return nil
		}
		o = append(o, member{key, v})
	}
	return o
}

func (o object) get(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (o object) set(key string, v json.RawMessage) object {
	for i := range o {
		if o[i].key == key {
			o[i].value = v
			return o
		}
	}
	return append(o, member{key, v})
}

func (o object) without(keys ...string) object {
	var out object
next:
	for _, m := range o {
		for _, k := range keys {
			if m.key == k {
				continue next
			}
		}
		out = append(out, m)
	}
	return out
}

func (o object) encode() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, m.key)
		b = append(b, ':')
		b = append(b, m.value...)
	}
	return append(b, '}')
}

// cleanUTF8 makes JSON that carries a provider's own bytes valid UTF-8: bytes that are
// not are shown as \xNN inside the string they stand in.
func cleanUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			out = append(out, '\\', '\\', 'x', hexDigits[b[0]>>4], hexDigits[b[0]&15])
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}
