package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// The functions of this file make the canonical bytes of a message: the form that is
// stored and sent, with a fixed key order, no escaping beyond what JSON demands and
// valid UTF-8 whatever the input. Bytes that are not UTF-8 are written as the visible
// text \xNN; they are never replaced silently.

// EncodeSystem is the bytes of the system message that opens a request.
func EncodeSystem(text string) json.RawMessage { return encodePlain(core.RoleSystem, text) }

// EncodeUser is the bytes of a message of the user.
func EncodeUser(text string) json.RawMessage { return encodePlain(core.RoleUser, text) }

func encodePlain(role, text string) json.RawMessage {
	b := make([]byte, 0, len(text)+len(text)/8+40)
	b = append(b, `{"role":"`...)
	b = append(b, role...)
	b = append(b, `","content":`...)
	b = appendString(b, text)
	return append(b, '}')
}

// EncodeUserImages is the bytes of a message of the user with pictures behind its text,
// as data URLs. Without pictures it equals EncodeUser.
func EncodeUserImages(text string, images []core.Image) json.RawMessage {
	if len(images) == 0 {
		return EncodeUser(text)
	}
	b := []byte(`{"role":"user","content":[{"type":"text","text":`)
	b = appendString(b, text)
	b = append(b, '}')
	for _, im := range images {
		b = append(b, `,{"type":"image_url","image_url":{"url":`...)
		b = appendString(b, "data:"+im.MIME+";base64,"+base64.StdEncoding.EncodeToString(im.Data))
		b = append(b, `}}`...)
	}
	return append(b, `]}`...)
}

// EncodeToolResult is the bytes of the result of one call. An empty text stays as
// "content":"": servers refuse a result without content.
func EncodeToolResult(callID, text string) json.RawMessage {
	b := make([]byte, 0, len(text)+len(text)/8+len(callID)+60)
	b = append(b, `{"role":"tool","tool_call_id":`...)
	b = appendString(b, callID)
	b = append(b, `,"content":`...)
	b = appendString(b, text)
	return append(b, '}')
}

// EncodeAssistant is the bytes of an assistant message that no server sent (an imported
// or made-up one). Messages that came from a server are stored as Response.Message.Raw,
// which also keeps the fields that the server wants back.
func EncodeAssistant(text string, calls []core.ToolCall) json.RawMessage {
	b := []byte(`{"role":"assistant","content":`)
	b = appendString(b, text)
	b = appendCalls(b, calls, nil)
	return append(b, '}')
}

// appendCalls writes the tool_calls member; extra holds, per call, provider fields that
// must come back (nil for none).
func appendCalls(b []byte, calls []core.ToolCall, extra []json.RawMessage) []byte {
	if len(calls) == 0 {
		return b
	}
	b = append(b, `,"tool_calls":[`...)
	for i, c := range calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, c.ID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendString(b, wireName(c.Name))
		b = append(b, `,"arguments":`...)
		b = appendString(b, c.Arguments)
		b = append(b, '}')
		if i < len(extra) && len(extra[i]) > 0 {
			b = append(b, `,"extra_content":`...)
			b = append(b, extra[i]...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// wireName is name as strict servers accept it in a history: [A-Za-z0-9_-]{1,64}.
func wireName(name string) string {
	if validWireName(name) {
		return name
	}
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name) && len(b) < core.MaxName; i++ {
		if isWireByte(name[i]) {
			b = append(b, name[i])
		} else {
			b = append(b, '_')
		}
	}
	if len(b) == 0 {
		return "unnamed"
	}
	return string(b)
}

func validWireName(name string) bool {
	if name == "" || len(name) > core.MaxName {
		return false
	}
	for i := 0; i < len(name); i++ {
		if !isWireByte(name[i]) {
			return false
		}
	}
	return true
}

func isWireByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// EncodeTools is the tool array of a request for these tools, in this order, with each
// schema's own key order. A tool without a schema takes no arguments.
func EncodeTools(specs []core.ToolSpec) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, s := range specs {
		if i > 0 {
			b.WriteByte(',')
		}
		head := []byte(`{"type":"function","function":{"name":`)
		head = appendString(head, s.Name)
		head = append(head, `,"description":`...)
		head = appendString(head, s.Description)
		head = append(head, `,"parameters":`...)
		b.Write(head)
		schema := s.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if err := json.Compact(&b, schema); err != nil {
			return nil, fmt.Errorf("schema of tool %s: %w", s.Name, err)
		}
		b.WriteString(`}}`)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// ParseMessage reads the bytes of a stored message back into its readable form. Raw is
// the argument itself, not a copy.
func ParseMessage(raw json.RawMessage) (core.Message, error) {
	var w struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		RC         json.RawMessage `json:"reasoning_content"`
		R          json.RawMessage `json:"reasoning"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return core.Message{}, fmt.Errorf("read stored message: %w", err)
	}
	m := core.Message{Role: w.Role, ToolCallID: w.ToolCallID, Raw: raw}
	var t, th text
	addContent(w.Content, &t, &th)
	m.Content = t.whole()
	if addContent(w.RC, &th, nil); th.empty() {
		addContent(w.R, &th, nil)
	}
	m.Reasoning = th.whole()
	for _, c := range w.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, core.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return m, nil
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b = append(b, s[start:i]...)
			b = append(b, '\\', '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			i++
			start = i
			continue
		}
		i += n
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
