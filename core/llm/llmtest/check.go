package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// parsed is a request body taken apart.
type parsed struct {
	fields   map[string]json.RawMessage
	messages []json.RawMessage
	usage    bool // stream_options.include_usage
}

// parse reads the body as far as it can be read.
func (r *Request) parse() error {
	if !utf8.Valid(r.Body) {
		return errors.New("the body is not valid UTF-8")
	}
	if err := json.Unmarshal(r.Body, &r.raw.fields); err != nil {
		return fmt.Errorf("the body is not a JSON object: %w", err)
	}
	_ = json.Unmarshal(r.raw.fields["model"], &r.Model)
	_ = json.Unmarshal(r.raw.fields["stream"], &r.Stream)
	var so struct {
		IncludeUsage bool `json:"include_usage"`
	}
	_ = json.Unmarshal(r.raw.fields["stream_options"], &so)
	r.raw.usage = so.IncludeUsage
	var tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(r.raw.fields["tools"], &tools)
	for _, t := range tools {
		r.Tools = append(r.Tools, t.Function.Name)
	}
	if m, ok := r.raw.fields["messages"]; ok {
		if err := json.Unmarshal(m, &r.raw.messages); err != nil {
			return errors.New("messages is not a list")
		}
	}
	for _, raw := range r.raw.messages {
		r.Message = append(r.Message, readMessage(raw))
	}
	return nil
}

func readMessage(raw json.RawMessage) Message {
	var w struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		RC         string          `json:"reasoning_content"`
		R          string          `json:"reasoning"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	_ = json.Unmarshal(raw, &w)
	m := Message{Role: w.Role, Content: contentText(w.Content), Reasoning: w.RC, ToolCallID: w.ToolCallID, Raw: raw}
	if m.Reasoning == "" {
		m.Reasoning = w.R
	}
	for _, c := range w.ToolCalls {
		var args string
		if json.Unmarshal(c.Function.Arguments, &args) != nil {
			args = string(c.Function.Arguments)
		}
		m.Calls = append(m.Calls, Call{ID: c.ID, Name: c.Function.Name, RawArgs: args})
	}
	return m
}

func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts)
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func kind(raw json.RawMessage) byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

func validName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	})
}

func (s *Server) reasoningField() string {
	if s.opt.ReasoningField != "" {
		return s.opt.ReasoningField
	}
	return "reasoning_content"
}

// check holds a request against the rules of the strictest servers.
func (s *Server) check(r *Request) error {
	f := r.raw.fields
	if kind(f["model"]) != '"' || r.Model == "" {
		return errors.New("model is missing")
	}
	if _, has := f["stream_options"]; has && !r.Stream {
		return errors.New("stream_options is only allowed when stream is true")
	}
	if err := checkTools(f["tools"]); err != nil {
		return err
	}
	if len(r.raw.messages) == 0 {
		return errors.New("messages is empty")
	}
	var open []string // calls that wait for their result
	for i, raw := range r.raw.messages {
		at := func(format string, a ...any) error {
			return fmt.Errorf("messages[%d]: %s", i, fmt.Sprintf(format, a...))
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return at("not an object")
		}
		m := r.Message[i]
		if m.Role != "tool" && len(open) > 0 {
			return at("an assistant message with tool_calls must be followed by the result of each call; missing: %s", strings.Join(open, ", "))
		}
		content, has := fields["content"]
		switch m.Role {
		case "system", "developer":
			if i != 0 {
				return at("the system message must be the first")
			}
			if kind(content) != '"' && kind(content) != '[' {
				return at("content is missing")
			}
		case "user":
			if kind(content) != '"' && kind(content) != '[' {
				return at("content is missing")
			}
		case "assistant":
			if has && kind(content) != '"' && kind(content) != '[' && kind(content) != 'n' {
				return at("content is neither text nor null")
			}
			if _, hasCalls := fields["tool_calls"]; !hasCalls {
				if kind(content) != '"' && kind(content) != '[' {
					return at("an assistant message needs content or tool_calls")
				}
				break
			}
			var err error
			if open, err = checkCalls(fields["tool_calls"]); err != nil {
				return at("%v", err)
			}
			if s.opt.ReasoningRequired && m.hasNo(s.reasoningField()) {
				return at("the %s of an assistant message with tool_calls must be passed back", s.reasoningField())
			}
		case "tool":
			if kind(content) != '"' && kind(content) != '[' {
				return at("a tool message needs content")
			}
			if kind(fields["tool_call_id"]) != '"' || m.ToolCallID == "" {
				return at("a tool message needs tool_call_id")
			}
			k := slices.Index(open, m.ToolCallID)
			if k < 0 {
				return at("the tool result %q answers no open call", m.ToolCallID)
			}
			open = slices.Delete(open, k, k+1)
		case "":
			return at("role is missing")
		default:
			return at("unknown role %q", m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the messages end before the results of: %s", strings.Join(open, ", "))
	}
	return nil
}

func (m Message) hasNo(field string) bool {
	var f map[string]json.RawMessage
	_ = json.Unmarshal(m.Raw, &f)
	var s string
	switch kind(f[field]) {
	case '"':
		_ = json.Unmarshal(f[field], &s)
		return s == ""
	case '[':
		return len(bytes.TrimSpace(f[field])) <= 2
	}
	return true
}

func checkTools(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description json.RawMessage `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &tools); err != nil {
		return errors.New("tools is not a list of tools")
	}
	if len(tools) == 0 {
		return errors.New("tools is an empty list")
	}
	seen := map[string]bool{}
	for i, t := range tools {
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools[%d]: type is not function", i)
		case !validName(t.Function.Name):
			return fmt.Errorf("tools[%d]: name %q is not [A-Za-z0-9_-]{1,64}", i, t.Function.Name)
		case seen[t.Function.Name]:
			return fmt.Errorf("tools[%d]: name %q is there twice", i, t.Function.Name)
		case len(t.Function.Description) > 0 && kind(t.Function.Description) != '"':
			return fmt.Errorf("tools[%d]: description is no text", i)
		}
		seen[t.Function.Name] = true
		if len(t.Function.Parameters) == 0 {
			continue
		}
		var schema struct {
			Type       any                        `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		}
		if kind(t.Function.Parameters) != '{' || json.Unmarshal(t.Function.Parameters, &schema) != nil {
			return fmt.Errorf("tools[%d]: parameters is not a schema", i)
		}
		if schema.Type != "object" {
			return fmt.Errorf("tools[%d]: parameters is not the schema of an object", i)
		}
		for _, name := range schema.Required {
			if _, ok := schema.Properties[name]; !ok {
				return fmt.Errorf("tools[%d]: required %q is no property", i, name)
			}
		}
	}
	return nil
}

// checkCalls returns the ids of the calls.
func checkCalls(raw json.RawMessage) ([]string, error) {
	var calls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &calls) != nil {
		return nil, errors.New("tool_calls is not a list of calls")
	}
	if len(calls) == 0 {
		return nil, errors.New("tool_calls is an empty list")
	}
	var ids []string
	for i, c := range calls {
		switch {
		case c.ID == "":
			return nil, fmt.Errorf("tool_calls[%d]: id is missing", i)
		case slices.Contains(ids, c.ID):
			return nil, fmt.Errorf("tool_calls[%d]: id %q is there twice", i, c.ID)
		case c.Type != "function":
			return nil, fmt.Errorf("tool_calls[%d]: type is not function", i)
		case !validName(c.Function.Name):
			return nil, fmt.Errorf("tool_calls[%d]: name %q is not [A-Za-z0-9_-]{1,64}", i, c.Function.Name)
		}
		var args string
		if kind(c.Function.Arguments) != '"' || json.Unmarshal(c.Function.Arguments, &args) != nil {
			return nil, fmt.Errorf("tool_calls[%d]: arguments is no text", i)
		}
		var obj map[string]json.RawMessage
		if json.Unmarshal([]byte(args), &obj) != nil || obj == nil {
			return nil, fmt.Errorf("tool_calls[%d]: arguments is not a JSON object", i)
		}
		ids = append(ids, c.ID)
	}
	return ids, nil
}

// estimate counts tokens: one for each character of Chinese, Japanese or Korean, one for
// four others, rounded up.
func estimate(s string) int {
	wide, other := 0, 0
	for _, r := range s {
		if r >= 0x2E80 && r <= 0x9FFF || r >= 0xAC00 && r <= 0xD7AF || r >= 0xF900 && r <= 0xFAFF || r >= 0xFF00 && r <= 0xFFEF || r >= 0x20000 && r <= 0x3FFFF {
			wide++
		} else {
			other++
		}
	}
	return wide + (other+3)/4
}

// tokens is what the request costs: tools, contents, thoughts and arguments.
func (r *Request) tokens() int {
	n := estimate(string(r.raw.fields["tools"]))
	for _, m := range r.Message {
		n += 4 + estimate(m.Content) + estimate(m.Reasoning)
		for _, c := range m.Calls {
			n += estimate(c.Name) + estimate(c.RawArgs)
		}
	}
	return n
}

// cached is what a server with a prompt cache would have kept of this request: the
// leading messages that an earlier, good request had too, when tools and system agree.
func (s *Server) cached(r *Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := 0
	for i := len(s.requests) - 1; i >= 0; i-- {
		o := s.requests[i]
		if o == r || o.Status != 200 || o.Model != r.Model || !bytes.Equal(o.raw.fields["tools"], r.raw.fields["tools"]) {
			continue
		}
		k := 0
		for k < len(o.raw.messages) && k < len(r.raw.messages) && bytes.Equal(o.raw.messages[k], r.raw.messages[k]) {
			k++
		}
		if k == 0 {
			continue
		}
		part := Request{Message: r.Message[:k], raw: parsed{fields: map[string]json.RawMessage{"tools": r.raw.fields["tools"]}}}
		best = max(best, part.tokens())
		if k == len(o.raw.messages) {
			break // an earlier request of the same session; older ones share less
		}
	}
	return best
}

// PrefixReport says how many requests continued their session byte by byte.
type PrefixReport struct {
	Pairs  int // pairs of requests of the same session, one after the other
	Breaks []PrefixBreak
}

// PrefixBreak is a request whose body, without the closing "]}", is not the beginning of
// the next one of its session.
type PrefixBreak struct {
	From, To int // sequence numbers of the requests
	At       int // the first byte that differs
	Old, New string
}

func (b PrefixBreak) String() string {
	return fmt.Sprintf("request %d does not begin as request %d: byte %d is %q, was %q", b.To, b.From, b.At, b.New, b.Old)
}

// PrefixReport compares the accepted requests. A session is known by its system message
// and its first message of the user.
func (s *Server) PrefixReport() PrefixReport {
	var rep PrefixReport
	last := map[string]Request{}
	for _, r := range s.Requests() {
		if r.Status != 200 || len(r.raw.messages) == 0 {
			continue
		}
		key := r.Step + "\x00"
		for _, m := range r.Message {
			key += string(m.Raw) + "\x00"
			if m.Role == "user" {
				break
			}
		}
		if p, ok := last[key]; ok {
			rep.Pairs++
			old := bytes.TrimSuffix(p.Body, []byte("]}"))
			if at := common(old, r.Body); at < len(old) {
				cut := func(b []byte) string { return string(b[max(at-20, 0):min(at+40, len(b))]) }
				rep.Breaks = append(rep.Breaks, PrefixBreak{p.Seq, r.Seq, at, cut(old), cut(r.Body)})
			}
		}
		last[key] = r
	}
	return rep
}

func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
