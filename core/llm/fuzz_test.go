package llm

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// FuzzStream feeds any bytes as a body: it ends, and what comes out may be stored.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\\ud83ci\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte(": ping\r\n\r\ndata:{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"n\",\"arguments\":\"{\"}}]}}]}\n"))
	f.Add([]byte("{\"choices\":[{\"message\":{\"content\":[{\"text\":\"\xff\"}],\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"\xe8\"}],\"tool_calls\":[{\"function\":{\"arguments\":{\"a\":1}},\"extra_content\":{\"k\":\"\xff\"}}]}}]}"))
	f.Add([]byte("event: error\ndata: {\"error\":{\"message\":[\"x\"],\"code\":{}}}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		run := func(r io.Reader) (string, core.Message) {
			s, a := newSSE(r), &answer{}
			for {
				data, isErr, done, err := s.next()
				if err == nil && !done {
					err = a.add(data, isErr)
				}
				if err != nil || done {
					m := a.message(nil)
					if err == nil {
						err = io.EOF
					}
					return err.Error(), m
				}
			}
		}
		err1, m := run(bytes.NewReader(body))
		if !json.Valid(m.Raw) || !utf8.Valid(m.Raw) {
			t.Fatalf("raw %q", m.Raw)
		}
		ids := map[string]bool{}
		for _, c := range m.ToolCalls {
			var o map[string]json.RawMessage
			if json.Unmarshal([]byte(c.Arguments), &o) != nil || o == nil || c.ID == "" || ids[c.ID] {
				t.Fatalf("call %+v", c)
			}
			ids[c.ID] = true
		}
		back, err := ParseMessage(m.Raw)
		if err != nil || back.Content != m.Content || len(back.ToolCalls) != len(m.ToolCalls) {
			t.Fatalf("parsed back %+v, %v; was %+v", back, err, m)
		}
		// The same, however the network cuts it.
		err2, n := run(iotest.OneByteReader(bytes.NewReader(body)))
		if err1 != err2 || m.Content != n.Content || len(m.ToolCalls) != len(n.ToolCalls) {
			t.Fatalf("cut otherwise: %q %+v, whole: %q %+v", err2, n, err1, m)
		}
	})
}

// FuzzText cuts a JSON string anywhere: the parts make the same text as the whole.
func FuzzText(f *testing.F) {
	f.Add("茶🍵\x00\"\\ \u2028", 3)
	f.Add("\xe8\x8c\xb6\xff", 1)
	f.Fuzz(func(t *testing.T, s string, at int) {
		lit := appendString(nil, s)
		if !json.Valid(lit) || !utf8.Valid(lit) {
			t.Fatalf("literal %q", lit)
		}
		var whole text
		whole.add(lit)
		if utf8.ValidString(s) && string(whole.b) != s {
			t.Fatalf("read back %q", whole.b)
		}
		// Raw bytes cut anywhere, as a server with a byte-level tokenizer sends them.
		clean := strings.Map(func(r rune) rune {
			if r < 0x20 || r == '"' || r == '\\' {
				return -1
			}
			return r
		}, s)
		if len(clean) == 0 || !utf8.ValidString(s) {
			return
		}
		at = min(max(at, 0), len(clean))
		var parts text
		shown := parts.add([]byte(`"` + clean[:at] + `"`))
		shown += parts.add([]byte(`"` + clean[at:] + `"`))
		if shown != clean || parts.whole() != clean {
			t.Fatalf("cut at %d: %q, shown %q, want %q", at, parts.b, shown, clean)
		}
	})
}

// FuzzCheckArguments: what may run is one JSON object, unchanged.
func FuzzCheckArguments(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":1,}`, ``, `null`, `[`, `{"a":"\ud83d"}`, "{\"\xff\":1}", `{"茶":`} {
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, length bool) {
		finish := FinishCalls
		if length {
			finish = FinishLength
		}
		stored, problem := CheckArguments(s, finish)
		var o map[string]json.RawMessage
		if json.Unmarshal([]byte(stored), &o) != nil || o == nil {
			t.Fatalf("stored %q", stored)
		}
		if problem == "" && stored != s && strings.TrimSpace(s) != "" && strings.TrimSpace(s) != "null" {
			t.Fatalf("%q was changed to %q", s, stored)
		}
		if problem != "" && stored != "{}" {
			t.Fatalf("%q is stored with the problem %q", stored, problem)
		}
	})
}

// FuzzAPIError: whatever a server answers, the text is one line without JSON.
func FuzzAPIError(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m","code":1}}`, `[{"error":"x"}]`, `{"detail":[{"loc":["a"],"msg":"b"}]}`, `<html>`, "plain\ntext", `{"error":{"error":{"error":1}}}`, `{"error":"{\"a\":1}"}`} {
		f.Add(400, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := parseAPIError(status, body)
		s := e.Error()
		if strings.ContainsAny(s, "\n\r") || strings.Contains(s, `{"`) || len(s) > 500 || !utf8.ValidString(s) {
			t.Fatalf("%q", s)
		}
	})
}
