package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core"
)

// ErrContextLength is in the chain of the error of a request that is longer than the
// model's context. errors.As with *ContextError gives the figures, where the server said
// them.
var ErrContextLength = errors.New("the conversation is longer than the model's context")

// ContextError says that a request was longer than the model's context. Figures are in
// tokens and 0 where the server did not say them. errors.Is(err, ErrContextLength) holds.
type ContextError struct{ Limit, Requested int }

func (e *ContextError) Error() string {
	switch {
	case e.Limit > 0 && e.Requested > 0:
		return fmt.Sprintf("%s (%d of %d tokens)", ErrContextLength, e.Requested, e.Limit)
	case e.Limit > 0:
		return fmt.Sprintf("%s (%d tokens)", ErrContextLength, e.Limit)
	}
	return ErrContextLength.Error()
}

// Is makes errors.Is(err, ErrContextLength) hold.
func (e *ContextError) Is(target error) bool { return target == ErrContextLength }

// APIError is what a model server answered instead of an answer. It is in the chain of
// the errors that Stream and Models return. Message is the server's own text: one line,
// cut, without the key.
type APIError struct {
	Status  int    // HTTP status; 0 for an error inside a stream without one
	Code    string // the server's code, as text
	Type    string
	Param   string
	Message string
}

func (e *APIError) Error() string {
	s := "error"
	if e.Status > 0 {
		s = strconv.Itoa(e.Status)
		if t := http.StatusText(e.Status); t != "" {
			s += " " + strings.ToLower(t)
		}
	}
	if e.Message != "" {
		return s + ": " + e.Message
	}
	if e.Code != "" {
		return s + ": " + e.Code
	}
	return s
}

// parseAPIError reads the error texts of the servers in use: {"error":{…}},
// {"error":"…"}, [{"error":{…}}], {"message":"…"}, {"detail":…} and plain text.
func parseAPIError(status int, body []byte) *APIError {
	e := &APIError{Status: status}
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return e
	}
	if body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 {
			body = list[0]
		}
	}
	o := members(body)
	if o == nil {
		if body[0] != '<' && body[0] != '{' && body[0] != '[' {
			e.Message = sentence(string(body))
		}
		return e
	}
	for range 3 {
		in := o.get("error")
		if len(in) == 0 || string(in) == "null" {
			break
		}
		if in[0] == '"' {
			e.Message = sentence(idText(in))
			break
		}
		inner := members(in)
		if inner == nil {
			break
		}
		o = inner
	}
	if e.Message == "" {
		for _, k := range []string{"message", "msg", "detail", "error_message"} {
			switch v := o.get(k); {
			case len(v) == 0:
			case v[0] == '"':
				e.Message = sentence(idText(v))
			case v[0] == '[': // [{"loc":[…],"msg":"…"}] or ["…"]
				e.Message = sentence(listMessage(v))
			}
			if e.Message != "" {
				break
			}
		}
	}
	e.Code = clip(sentence(idText(scalar(o.get("code")))), 60)
	e.Type = clip(sentence(idText(scalar(o.get("type")))), 60)
	e.Param = clip(sentence(idText(scalar(o.get("param")))), 60)
	if e.Status == 0 {
		if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 {
			e.Status = n
		}
	}
	return e
}

// scalar is v unless it is a list or an object.
func scalar(v json.RawMessage) json.RawMessage {
	if len(v) > 0 && (v[0] == '{' || v[0] == '[') {
		return nil
	}
	return v
}

func listMessage(v json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(v, &list) != nil {
		return ""
	}
	var out []string
	for _, it := range list {
		if len(it) > 0 && it[0] == '"' {
			out = append(out, idText(it))
			continue
		}
		o := members(it)
		msg := idText(scalar(o.get("msg")))
		var loc []json.RawMessage
		if json.Unmarshal(o.get("loc"), &loc) == nil && len(loc) > 0 {
			msg = idText(scalar(loc[len(loc)-1])) + ": " + msg
		}
		out = append(out, msg)
	}
	return strings.Join(out, "; ")
}

// sentence makes a server's text fit for one line: no line breaks, no JSON, not long.
func sentence(s string) string {
	s = strings.Join(strings.Fields(oneLine(s)), " ")
	if at := jsonShape().FindStringIndex(s); at != nil {
		s = strings.TrimRight(s[:at[0]], " :-{[")
	}
	return clip(keyShape().ReplaceAllString(s, "$1***"), 300)
}

// jsonShape is where JSON or a printed dictionary begins.
var jsonShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{|[{[] ?["'{[]`) })

// keyShape is what keys look like, also half masked ones.
var keyShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(sk-|gsk_|xai-|AIza|Bearer )[A-Za-z0-9_\-.*]{6,}`)
})

// has says whether the error's texts contain one of the words, in any case.
func (e *APIError) has(words ...string) bool {
	s := strings.ToLower(e.Message + "\n" + e.Code + "\n" + e.Type + "\n" + e.Param)
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// tooLong says whether the request was longer than the model's context.
func (e *APIError) tooLong() bool {
	if e.Status == http.StatusTooManyRequests || e.Status >= 500 {
		return false
	}
	if e.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	return e.has("context_length_exceeded", "maximum context length", "context length", "context window",
		"context size", "prompt is too long", "input is too long", "input length should be", "too many input tokens",
		"exceeds the maximum number of tokens", "reduce the length of the messages", "exceed_context_size",
		"maximum prompt length", "token limit exceeded", "上下文长度", "超过模型最大长度", "输入长度")
}

var figures = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d[\d,]*`) })

func (e *APIError) contextError() *ContextError {
	c := &ContextError{}
	var n []int
	for _, f := range figures().FindAllString(e.Message, 6) {
		if v, err := strconv.Atoi(strings.ReplaceAll(f, ",", "")); err == nil && v >= 256 {
			n = append(n, v)
		}
	}
	if len(n) > 0 {
		c.Limit = n[0]
	}
	if len(n) > 1 {
		c.Requested = n[1]
		if c.Requested < c.Limit { // the larger one is what was asked for
			c.Limit, c.Requested = c.Requested, c.Limit
		}
	}
	return c
}

// transient says whether the same request may succeed later.
func (e *APIError) transient() bool {
	if e.has("insufficient_quota", "exceeded your current quota", "billing", "insufficient balance") {
		return false
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	case 0: // inside a stream
		return !e.has("invalid_request", "authentication", "permission", "not_found", "invalid_api_key")
	}
	return e.Status >= 500
}

// explain is the error for people: one sentence and the next step.
func (c *Client) explain(e *APIError, model string) error {
	e.Message = c.redact(e.Message)
	host := c.host
	switch {
	case e.tooLong():
		return core.Errorf(core.KindModel, "%s refused the request: %w", host, e.contextError()).
			Hint("start a new session, or set max_context_tokens to the model's real size")
	case e.Status == http.StatusUnauthorized || e.has("invalid_api_key", "authentication_error"):
		if c.key == "" {
			return core.Errorf(core.KindModel, "%s wants a key and none is set (%w)", host, e).Hint("set %s", c.keyName)
		}
		return core.Errorf(core.KindModel, "%s refused the key (%w)", host, e).Hint("check %s, and that it belongs to this server", c.keyName)
	case e.Status == http.StatusForbidden:
		return core.Errorf(core.KindModel, "%s refused access (%w)", host, e).Hint("check that the key of %s may use model %q", c.keyName, model)
	case e.Status == http.StatusPaymentRequired || e.has("insufficient_quota", "exceeded your current quota", "insufficient balance"):
		return core.Errorf(core.KindModel, "%s: the account has no credit left (%w)", host, e).Hint("top up the account or use another key")
	case e.Status == http.StatusTooManyRequests:
		return core.Errorf(core.KindModel, "%s limits the rate of requests (%w)", host, e).Hint("wait a little, or use another model or key")
	case (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest) && model != "" && (e.has("model_not_found", "model not exist", "模型不存在", "model not found", "not a valid model") || e.Status == http.StatusNotFound && e.has("model")):
		return core.Errorf(core.KindModel, "%s does not know the model %q (%w)", host, model, e).Hint("`lj models` lists what the server offers")
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		return core.Errorf(core.KindModel, "%s has no chat completions at this address (%w)", host, e).Hint("base_url is the part before /chat/completions and usually ends in /v1")
	case e.Status >= 300 && e.Status < 400:
		return core.Errorf(core.KindModel, "%s answers with a redirect, which is not followed (%w)", host, e).Hint("set base_url to the server's final address")
	case e.has("does not support tools", "tools is not supported", "tool use is not supported"):
		return core.Errorf(core.KindModel, "model %q on %s cannot use tools (%w)", model, host, e).Hint("choose another model; `lj models` lists what the server offers")
	case e.Status == 0:
		return core.Errorf(core.KindModel, "%s broke the answer off (%w)", host, e).Hint("try again later, or use another model")
	case e.Status >= 500:
		return core.Errorf(core.KindModel, "%s failed (%w)", host, e).Hint("the fault is on the server's side; try again later")
	}
	return core.Errorf(core.KindModel, "%s refused the request (%w)", host, e).Hint("check the model and the settings that are sent with it: `lj config list`")
}

// redact takes the key out of a text.
func (c *Client) redact(s string) string {
	if len(c.key) >= 4 {
		s = strings.ReplaceAll(s, c.key, "***")
	}
	return s
}
