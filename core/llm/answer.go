package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// The finish reasons that matter here; servers may send others.
const (
	FinishStop   = "stop"
	FinishCalls  = "tool_calls"
	FinishLength = "length"
)

// chunk is one object of a stream, or a whole answer.
type chunk struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index   int             `json:"index"`
		Delta   *piece          `json:"delta"`
		Message *piece          `json:"message"`
		Finish  json.RawMessage `json:"finish_reason"`
		Usage   *usage          `json:"usage"` // Moonshot
	} `json:"choices"`
	Usage *usage `json:"usage"`
	XGroq *struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type piece struct {
	Content          json.RawMessage   `json:"content"`
	Refusal          json.RawMessage   `json:"refusal"`
	ReasoningContent json.RawMessage   `json:"reasoning_content"`
	Reasoning        json.RawMessage   `json:"reasoning"`
	Details          []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []fragment        `json:"tool_calls"`
	Extra            json.RawMessage   `json:"extra_content"`
}

// count is a number that servers write as 12, 12.0, "12" or null.
type count int

func (c *count) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err == nil && f >= 0 && f < 1<<53 {
		*c = count(f)
	}
	return nil
}

// usage has every spelling in use of what an answer cost.
type usage struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Input      count `json:"input_tokens"`
	Output     count `json:"output_tokens"`
	Details    struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheHit  count `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached    count `json:"cached_tokens"`           // Moonshot
	CacheRead count `json:"cache_read_input_tokens"` // Anthropic
}

func (u *usage) core() (core.Usage, bool) {
	if u == nil {
		return core.Usage{}, false
	}
	prompt, completion := int(max(u.Prompt, u.Input)), int(max(u.Completion, u.Output))
	cached := int(max(u.Details.Cached, u.CacheHit, u.Cached, u.CacheRead))
	if prompt == 0 && completion == 0 {
		return core.Usage{}, false
	}
	return core.Usage{PromptTokens: prompt, CachedTokens: min(cached, prompt), CompletionTokens: completion}, true
}

// answer gathers one answer.
type answer struct {
	out func(Delta)

	said      text
	rc        text // reasoning_content
	reasoning text // reasoning
	details   []*detail
	detailed  text // the readable text of details
	parts     text // thoughts inside content parts: shown, never sent back
	extra     json.RawMessage
	calls     calls

	finish    string
	usage     core.Usage
	reported  bool
	chunks    int  // objects with a choice
	whole     bool // the answer came as one object
	delivered bool
}

func (a *answer) emit(d Delta) {
	if d.Text == "" && d.Reasoning == "" && d.ToolName == "" {
		return
	}
	a.delivered = true
	if a.out != nil {
		a.out(d)
	}
}

// add takes one object of the stream.
func (a *answer) add(data []byte, isErr bool) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		// A field of an unexpected type is passed over, except where calls are.
		var te *json.UnmarshalTypeError
		if !errors.As(err, &te) || strings.Contains(te.Field, "tool_calls") {
			return errBroken
		}
	}
	if isErr && (len(c.Error) == 0 || string(c.Error) == "null") {
		c.Error = data
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return parseAPIError(0, data)
	}
	a.count(c.Usage)
	if c.XGroq != nil {
		a.count(c.XGroq.Usage)
	}
	for _, ch := range c.Choices {
		a.count(ch.Usage)
		if ch.Index != 0 {
			continue
		}
		a.chunks++
		if ch.Delta != nil {
			a.piece(ch.Delta, false)
		} else if ch.Message != nil {
			a.piece(ch.Message, true)
			a.whole = true
		}
		if f := idText(ch.Finish); f != "" {
			a.finish = f
		}
	}
	return nil
}

func (a *answer) count(u *usage) {
	if v, ok := u.core(); ok {
		a.usage, a.reported = v, true
	}
}

func (a *answer) piece(p *piece, whole bool) {
	var d Delta
	// The same thought often comes in two or three spellings; it is shown once.
	rc := a.rc.add(p.ReasoningContent)
	r := a.reasoning.add(p.Reasoning)
	det := a.addDetails(p.Details)
	switch {
	case rc != "":
		d.Reasoning = rc
	case r != "":
		d.Reasoning = r
	default:
		d.Reasoning = det
	}
	said, thought := addContent(p.Content, &a.said, &a.parts)
	d.Text = said
	d.Reasoning += thought
	if s, _ := addContent(p.Refusal, &a.said, nil); s != "" {
		d.Text += s
	}
	if len(p.Extra) > 0 && string(p.Extra) != "null" {
		a.extra = append(json.RawMessage(nil), p.Extra...)
	}
	a.emit(d)
	for i, f := range p.ToolCalls {
		a.emit(Delta{ToolName: a.calls.add(f, i, whole)})
	}
}

// detail is one block of OpenRouter's reasoning_details.
type detail struct {
	obj   object
	field string // the member that streams in pieces; "" for none
	t     text
}

func (d *detail) encode() json.RawMessage {
	if d.field == "" {
		return d.obj.encode()
	}
	return d.obj.set(d.field, appendString(nil, d.t.whole())).encode()
}

// addDetails joins the pieces of reasoning_details: pieces of text of the same block
// become one, everything else is kept as it came.
func (a *answer) addDetails(list []json.RawMessage) (shown string) {
	for _, raw := range list {
		o := members(append([]byte(nil), raw...))
		if o == nil {
			continue
		}
		d := &detail{obj: o}
		switch string(o.get("type")) {
		case `"reasoning.text"`:
			d.field = "text"
		case `"reasoning.summary"`:
			d.field = "summary"
		}
		if d.field != "" {
			shown += a.detailed.add(o.get(d.field))
			if n := len(a.details); n > 0 && a.details[n-1].join(d) {
				continue
			}
			d.t.add(o.get(d.field))
		}
		a.details = append(a.details, d)
	}
	return shown
}

// join appends next when both are pieces of the same block.
func (d *detail) join(next *detail) bool {
	if d.field == "" || d.field != next.field || !bytes.Equal(d.obj.get("index"), next.obj.get("index")) {
		return false
	}
	if id, own := next.obj.get("id"), d.obj.get("id"); len(id) > 0 && string(id) != "null" && len(own) > 0 && string(own) != "null" && !bytes.Equal(id, own) {
		return false
	}
	d.t.add(next.obj.get(d.field))
	for _, m := range next.obj {
		if m.key != d.field && (string(m.value) != "null" || len(d.obj.get(m.key)) == 0) {
			d.obj = d.obj.set(m.key, m.value)
		}
	}
	return true
}

// message is the answer as a message, with the bytes to store and send back.
func (a *answer) message(taken func(string) bool) core.Message {
	m := core.Message{Role: core.RoleAssistant}
	a.emit(Delta{Text: a.said.flush()}) // characters that will never be whole
	m.Content = a.said.whole()
	rc, r := a.rc.whole(), a.reasoning.whole()
	switch {
	case rc != "":
		m.Reasoning = rc
	case r != "":
		m.Reasoning = r
	default:
		m.Reasoning = a.detailed.whole() + a.parts.whole()
	}
	var extra []json.RawMessage
	m.ToolCalls, extra = a.calls.finish(a.finish, taken)

	b := make([]byte, 0, len(m.Content)+len(rc)+len(r)+256)
	b = append(b, `{"role":"assistant","content":`...)
	b = appendString(b, m.Content)
	if rc != "" {
		b = append(b, `,"reasoning_content":`...)
		b = appendString(b, rc)
	}
	if r != "" {
		b = append(b, `,"reasoning":`...)
		b = appendString(b, r)
	}
	if len(a.details) > 0 {
		b = append(b, `,"reasoning_details":[`...)
		for i, d := range a.details {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, d.encode()...)
		}
		b = append(b, ']')
	}
	if len(a.extra) > 0 {
		b = append(b, `,"extra_content":`...)
		b = append(b, a.extra...)
	}
	b = appendCalls(b, m.ToolCalls, extra)
	b = append(b, '}')
	m.Raw = cleanUTF8(b)
	return m
}

// partial is what a broken-off answer said so far: its text, never its calls.
func (a *answer) partial() core.Message {
	m := core.Message{Role: core.RoleAssistant, Content: a.said.whole(), Reasoning: a.rc.whole()}
	if m.Reasoning == "" {
		m.Reasoning = a.reasoning.whole()
	}
	if m.Content != "" {
		m.Raw = EncodeAssistant(m.Content, nil)
	}
	return m
}
