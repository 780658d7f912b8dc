package llm

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
)

// Request is one request for an answer.
type Request struct {
	Model string // "" means the client's model
	// Tools is the tool array as stored with the session; nil or "[]" for none.
	Tools json.RawMessage
	// Messages are the stored bytes of the messages, system first. They are sent as they
	// are and are not checked again.
	Messages []json.RawMessage
	// MaxTokens is the output limit in tokens; 0 leaves it to the server.
	MaxTokens int
	// Temperature is sent when it is not nil.
	Temperature *float64
	// Reasoning is the reasoning effort ("low", "medium", "high" …); "" leaves it to the
	// server.
	Reasoning string
	// Cause and Step are sent as X-LJ-Cause and X-LJ-Step to servers on this machine, and
	// to others when Config.TraceHeaders is set.
	Cause, Step string
	// NoImages leaves pictures out of the history and says so in their place.
	NoImages bool
	// OnRetry replaces the client's own for this request.
	OnRetry func(Retry)
}

// shape is what a server turned out not to take, for one model. Everything is sent until
// it is refused; then the request is sent again without it, and the client remembers.
type shape struct {
	swapMaxTokens bool // the other name of the output limit
	noTemperature bool
	noEffort      bool
	stripThoughts bool // no reasoning fields in the history
	noUsage       bool // no stream_options
	noImages      bool // the model can't see
}

// shapes is what a client has learned. Usage reports are a property of the server, the
// rest of a model.
type shapes struct {
	mu      sync.Mutex
	noUsage bool
	models  map[string]shape
}

func (s *shapes) get(model string) shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.models[model]
	sh.noUsage = s.noUsage
	return sh
}

func (s *shapes) update(model string, f func(*shape)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models == nil {
		s.models = map[string]shape{}
	}
	sh := s.models[model]
	sh.noUsage = s.noUsage
	f(&sh)
	s.noUsage = sh.noUsage
	s.models[model] = sh
}

var refusalWords = []string{"unsupported", "not support", "unknown", "unrecognized", "unexpected", "extra", "not permitted",
	"not allowed", "instead", "only the default", "additional propert", "forbidden", "no such field", "invalid parameter"}

// learn looks whether a refusal names something that the request can do without. sent is
// the shape of the refused request.
func (c *Client) learn(e *APIError, r *Request, model string, sent shape) bool {
	if e.Status != 400 && e.Status != 422 {
		return false
	}
	refused := e.has(refusalWords...)
	var f func(*shape)
	switch {
	case !sent.noUsage && e.has("stream_options", "include_usage"):
		f = func(s *shape) { s.noUsage = true }
	case r.MaxTokens > 0 && !sent.swapMaxTokens && refused && e.has(c.maxTokensField(sent)):
		f = func(s *shape) { s.swapMaxTokens = true }
	case r.Temperature != nil && !sent.noTemperature && refused && e.has("temperature"):
		f = func(s *shape) { s.noTemperature = true }
	case r.Reasoning != "" && !sent.noEffort && e.has("reasoning_effort", "reasoning effort"):
		f = func(s *shape) { s.noEffort = true }
	case !sent.stripThoughts && refused && e.has("reasoning") && !e.has("missing", "required", "must be passed", "must be provided") && hasThoughts(r.Messages):
		f = func(s *shape) { s.stripThoughts = true }
	case !sent.noImages && !r.NoImages && e.has("image", "multimodal", "vision", "must be a string", "should be a string") && hasImages(r.Messages):
		f = func(s *shape) { s.noImages = true }
	default:
		return false
	}
	c.shapes.update(model, f)
	return true
}

func (c *Client) maxTokensField(s shape) string {
	if (c.preset.MaxTokens == fieldMaxCompletionTokens) != s.swapMaxTokens {
		return fieldMaxCompletionTokens
	}
	return fieldMaxTokens
}

// assemble is the request body: parameters, tools, and last the messages, so that a body
// without its closing "]}" is the beginning of the session's next one.
func (c *Client) assemble(r *Request, model string, s shape) []byte {
	msgs := r.Messages
	if s.stripThoughts {
		msgs = withoutThoughts(msgs)
	}
	if s.noImages || r.NoImages {
		msgs = withoutImages(msgs)
	}
	n := 256 + len(model) + len(r.Tools)
	for _, m := range msgs {
		n += len(m) + 1
	}
	b := make([]byte, 0, n)
	b = append(b, `{"model":`...)
	b = appendString(b, model)
	b = append(b, `,"stream":true`...)
	if !s.noUsage {
		b = append(b, `,"stream_options":{"include_usage":true}`...)
	}
	if r.MaxTokens > 0 {
		b = append(b, `,"`...)
		b = append(b, c.maxTokensField(s)...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, int64(r.MaxTokens), 10)
	}
	if r.Temperature != nil && !s.noTemperature {
		b = append(b, `,"temperature":`...)
		b = strconv.AppendFloat(b, *r.Temperature, 'g', -1, 64)
	}
	if r.Reasoning != "" && !s.noEffort {
		b = append(b, `,"reasoning_effort":`...)
		b = appendString(b, r.Reasoning)
	}
	if t := bytes.TrimSpace(r.Tools); len(t) > 0 && string(t) != "[]" && string(t) != "null" {
		b = append(b, `,"tools":`...)
		b = append(b, t...)
	}
	b = append(b, `,"messages":[`...)
	for i, m := range msgs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m...)
	}
	return append(b, `]}`...)
}

var assistantHead = []byte(`{"role":"assistant"`)

var thoughtFields = []string{"reasoning_content", "reasoning", "reasoning_details"}

func carriesThoughts(m json.RawMessage) bool {
	return bytes.HasPrefix(m, assistantHead) && bytes.Contains(m, []byte(`,"reasoning`))
}

func hasThoughts(msgs []json.RawMessage) bool {
	for _, m := range msgs {
		if carriesThoughts(m) {
			return true
		}
	}
	return false
}

// withoutThoughts is for servers that refuse the reasoning fields of another one, as
// when a session changes its model.
func withoutThoughts(msgs []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, len(msgs))
	for i, m := range msgs {
		out[i] = m
		if carriesThoughts(m) {
			if o := members(m); o != nil {
				out[i] = o.without(thoughtFields...).encode()
			}
		}
	}
	return out
}

// Sees says whether a model has not refused a picture yet.
func (c *Client) Sees(model string) bool { return !c.shapes.get(model).noImages }

var userParts = []byte(`{"role":"user","content":[`)

// carriesImages says whether a message of ours shows pictures.
func carriesImages(m json.RawMessage) bool {
	return bytes.HasPrefix(m, userParts) && bytes.Contains(m, []byte(`,{"type":"image_url"`))
}

func hasImages(msgs []json.RawMessage) bool {
	for _, m := range msgs {
		if carriesImages(m) {
			return true
		}
	}
	return false
}

// withoutImages is the history for a model that can't see.
func withoutImages(msgs []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, len(msgs))
	for i, m := range msgs {
		out[i] = m
		if !carriesImages(m) {
			continue
		}
		var w struct {
			Content []struct{ Type, Text string } `json:"content"`
		}
		if json.Unmarshal(m, &w) != nil {
			continue
		}
		text := ""
		for _, p := range w.Content {
			if p.Type == "text" {
				text += p.Text
			} else {
				text += "\n[A picture was shown here. This model can't see pictures; say so where it matters.]"
			}
		}
		out[i] = EncodeUser(text)
	}
	return out
}

// idTaken says whether a call id is already in use in the conversation.
func idTaken(msgs []json.RawMessage) func(string) bool {
	return func(id string) bool {
		needle := append(appendString([]byte(`{"id":`), id), ',')
		for _, m := range msgs {
			if bytes.HasPrefix(m, assistantHead) && bytes.Contains(m, needle) {
				return true
			}
		}
		return false
	}
}
