package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const maxBody = 64 << 20

func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.models++
	s.mu.Unlock()
	if !s.authorized(w, r) {
		return
	}
	type model struct {
		ID     string `json:"id"`
		Object string `json:"object"`
		Owner  string `json:"owned_by"`
	}
	names := s.opt.Models
	if names == nil {
		names = []string{"test-model", "test-model-small"}
	}
	list := []model{}
	for _, n := range names {
		list = append(list, model{n, "model", "llmtest"})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (s *Server) authorized(w http.ResponseWriter, r *http.Request) bool {
	if s.opt.Key == "" || r.Header.Get("Authorization") == "Bearer "+s.opt.Key {
		return true
	}
	writeError(w, http.StatusUnauthorized, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
	return false
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
	_, _ = w.Write([]byte("\n"))
}

func writeError(w http.ResponseWriter, status int, msg, typ, code string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": msg, "type": typ, "code": code, "param": nil}})
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only values made here are encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (s *Server) serveChat(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		return
	}
	r := &Request{At: time.Now(), Header: hr.Header.Clone(), Body: body, Cause: hr.Header.Get("X-LJ-Cause"), Step: hr.Header.Get("X-LJ-Step"), Turn: -1}
	parseErr := r.parse()
	s.mu.Lock()
	s.requests = append(s.requests, r)
	r.Seq = len(s.requests)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		r.Ended = time.Now()
		s.mu.Unlock()
	}()
	status := func(n int) {
		s.mu.Lock()
		r.Status = n
		s.mu.Unlock()
	}
	if !s.authorized(w, hr) {
		status(http.StatusUnauthorized)
		return
	}
	refuse := func(code, format string, a ...any) {
		msg := fmt.Sprintf(format, a...)
		status(http.StatusBadRequest)
		writeError(w, http.StatusBadRequest, msg, "invalid_request_error", code)
	}
	for _, field := range s.opt.Refuse {
		if _, has := r.raw.fields[field]; has {
			hint := ""
			if field == "max_tokens" {
				hint = " Use 'max_completion_tokens' instead."
			}
			refuse("unsupported_parameter", "Unsupported parameter: '%s' is not supported with this model.%s", field, hint)
			return
		}
	}
	if !s.opt.Lax {
		if parseErr == nil {
			parseErr = s.check(r)
		}
		if parseErr != nil {
			s.fail("request %d: %v", r.Seq, parseErr)
			refuse("invalid_request", "%v", parseErr)
			return
		}
	}
	prompt := r.tokens()
	if s.opt.TokenLimit > 0 && prompt > s.opt.TokenLimit {
		refuse("context_length_exceeded", "This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", s.opt.TokenLimit, prompt)
		return
	}
	t, index, ok := s.pick(r)
	if !ok {
		s.fail("request %d: no turn fits (cause %q, step %q, newest message: %s %.80q)", r.Seq, r.Cause, r.Step, r.Last("").Role, r.Last("").Content)
		refuse("no_turn", "the script has no turn for this request")
		return
	}
	s.mu.Lock()
	r.Turn = index
	view := *r
	s.mu.Unlock()
	if t.Func != nil {
		f := t.Func(view)
		t = played{Turn: f}
		for name, expr := range f.Capture {
			if t.capture == nil {
				t.capture = map[string]*regexp.Regexp{}
			}
			t.capture[name] = regexp.MustCompile(expr)
		}
	}
	s.capture(r, t.capture)
	st := t.Status
	if st == 0 {
		st = http.StatusOK
	}
	status(st)
	s.play(w, hr, r, t.Turn, prompt)
}

// pick chooses and uses up a turn.
func (s *Server) pick(r *Request) (played, int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.turns {
		t := &s.turns[i]
		if t.Times >= 0 && t.n >= max(t.Times, 1) || !t.fits(r) {
			continue
		}
		t.n++
		return *t, i, true
	}
	switch {
	case s.opt.Fallback != nil:
		return played{Turn: Turn{Func: s.opt.Fallback}}, -1, true
	case s.opt.Echo:
		return played{Turn: Turn{Text: "You said: " + r.Last("user").Content}}, -1, true
	}
	return played{}, -1, false
}

func (t *played) fits(r *Request) bool {
	if t.Match != nil && !t.Match(*r) {
		return false
	}
	w := t.When
	if w == nil {
		return true
	}
	switch {
	case w.Cause != "" && w.Cause != r.Cause,
		w.Step != "" && w.Step != r.Step,
		w.Model != "" && w.Model != r.Model,
		w.Tools != nil && *w.Tools != (len(r.Tools) > 0),
		t.user != nil && !t.user.MatchString(r.Last("user").Content),
		t.system != nil && !t.system.MatchString(r.Last("system").Content),
		t.last != nil && !t.last.MatchString(r.Last("").Content):
		return false
	}
	return true
}

// capture fills the turn's variables from the newest tool result that fits each.
func (s *Server) capture(r *Request, exprs map[string]*regexp.Regexp) {
	for _, name := range slices.Sorted(maps.Keys(exprs)) {
		found := false
		for i := len(r.Message) - 1; i >= 0 && !found; i-- {
			if r.Message[i].Role != "tool" {
				continue
			}
			if m := exprs[name].FindStringSubmatch(r.Message[i].Content); m != nil {
				v := m[0]
				if len(m) > 1 {
					v = m[1]
				}
				s.mu.Lock()
				s.vars[name] = v
				s.mu.Unlock()
				found = true
			}
		}
		if !found {
			s.fail("request %d: nothing to capture for %s", r.Seq, name)
			s.mu.Lock()
			s.vars[name] = ""
			s.mu.Unlock()
		}
	}
}

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`) })

// fill replaces the placeholders of a text; unknown ones stay as they are.
func (s *Server) fill(r *Request, text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return placeholder().ReplaceAllStringFunc(text, func(p string) string {
		name := placeholder().FindStringSubmatch(p)[1]
		switch name {
		case "last_result":
			return r.Last("tool").Content
		case "last_user":
			return r.Last("user").Content
		case "model":
			return r.Model
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if v, ok := s.vars[name]; ok {
			return v
		}
		return p
	})
}

// fillValue replaces the placeholders in all texts of a value.
func (s *Server) fillValue(r *Request, v any) any {
	switch v := v.(type) {
	case string:
		return s.fill(r, v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = s.fillValue(r, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = s.fillValue(r, e)
		}
		return out
	}
	return v
}

// args is the text of a call's arguments.
func (s *Server) args(r *Request, c Call) string {
	if c.RawArgs != "" || c.Args == nil {
		return c.RawArgs
	}
	return string(encode(s.fillValue(r, c.Args)))
}

// wire writes an answer in the way that its turn asks for.
type wire struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	t     Turn
	wait  func(time.Duration) bool
	n     int // events written
	ended bool
}

func (x *wire) write(p []byte) {
	size := x.t.WriteSize
	if size <= 0 {
		_, _ = x.w.Write(p)
		if x.t.Silence > 0 || x.t.CutAfter > 0 || x.t.PingEvery > 0 {
			_ = x.rc.Flush() // else the whole answer goes out at once
		}
		return
	}
	for len(p) > 0 {
		k := min(size, len(p))
		_, _ = x.w.Write(p[:k])
		_ = x.rc.Flush()
		p = p[k:]
	}
}

// event writes one event, or what the turn does instead at this place.
func (x *wire) event(p []byte) {
	if x.ended {
		return
	}
	if x.t.Silence > 0 && x.n == x.t.SilenceAfter && !x.wait(x.t.Silence) {
		x.ended = true
		return
	}
	x.write(p)
	x.n++
	if x.t.CutAfter > 0 && x.n >= x.t.CutAfter {
		panic(http.ErrAbortHandler) // closes the connection without the end of the body
	}
}

func (x *wire) data(v any) {
	x.event(slices.Concat([]byte("data: "), encode(v), []byte("\n\n")))
}

func (s *Server) play(w http.ResponseWriter, hr *http.Request, r *Request, t Turn, prompt int) {
	wait := func(d time.Duration) bool {
		tm := time.NewTimer(d)
		defer tm.Stop()
		select {
		case <-tm.C:
			return true
		case <-hr.Context().Done():
		case <-s.done:
		}
		return false
	}
	if t.Delay > 0 && !wait(t.Delay) {
		return
	}
	if t.CutAfter < 0 {
		panic(http.ErrAbortHandler)
	}
	for k, v := range t.Headers {
		w.Header().Set(k, v)
	}
	status := t.Status
	if status == 0 {
		status = http.StatusOK
	}
	if t.Body != "" {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, t.Body)
		return
	}
	if status >= 300 {
		writeError(w, status, http.StatusText(status), "error", strconv.Itoa(status))
		return
	}

	text, reasoning := s.fill(r, t.Text), s.fill(r, t.Reasoning)
	field := t.ReasoningField
	if field == "" {
		field = s.reasoningField()
	}
	type fn struct {
		Name      string `json:"name,omitempty"`
		Arguments any    `json:"arguments"`
	}
	type call struct {
		Index *int   `json:"index,omitempty"`
		ID    string `json:"id,omitempty"`
		Type  string `json:"type,omitempty"`
		Fn    fn     `json:"function"`
	}
	var calls []call
	for _, c := range t.Calls {
		id := c.ID
		if id == "" && !t.NoID {
			id = fmt.Sprintf("call_%d", s.calls.Add(1))
		}
		calls = append(calls, call{ID: id, Type: "function", Fn: fn{c.Name, s.args(r, c)}})
	}
	var finish any = t.FinishReason
	switch {
	case t.FinishReason == "none":
		finish = nil
	case t.FinishReason == "" && len(calls) > 0:
		finish = "tool_calls"
	case t.FinishReason == "":
		finish = "stop"
	}
	var usage any
	if !t.NoUsage && !s.opt.NoUsage {
		u := Usage{Prompt: prompt, Cached: s.cached(r), Completion: estimate(text) + estimate(reasoning)}
		for _, c := range calls {
			u.Completion += estimate(c.Fn.Arguments.(string)) + 4
		}
		if t.Usage != nil {
			u = *t.Usage
		}
		usage = map[string]any{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
			"prompt_tokens_details": map[string]any{"cached_tokens": u.Cached}}
	}
	id, created := fmt.Sprintf("chatcmpl-%d", r.Seq), time.Now().Unix()

	if t.JSON || !r.Stream && t.RawSSE == nil {
		msg := map[string]any{"role": "assistant", "content": text}
		if reasoning != "" {
			msg[field] = reasoning
		}
		if len(calls) > 0 {
			for i := range calls {
				if t.ObjectArgs {
					calls[i].Fn.Arguments = json.RawMessage(calls[i].Fn.Arguments.(string))
				}
			}
			msg["tool_calls"] = calls
		}
		doc := map[string]any{"id": id, "object": "chat.completion", "created": created, "model": r.Model,
			"choices": []any{map[string]any{"index": 0, "message": msg, "finish_reason": finish}}}
		if usage != nil {
			doc["usage"] = usage
		}
		writeJSON(w, status, doc)
		return
	}

	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
	x := &wire{w: w, rc: http.NewResponseController(w), t: t, wait: wait}
	for range t.Pings {
		x.write([]byte(": ping\n\n"))
		if t.PingEvery > 0 && !wait(t.PingEvery) {
			return
		}
	}
	if t.RawSSE != nil {
		for _, line := range t.RawSSE {
			x.event([]byte(line + "\n\n"))
		}
		return
	}
	chunk := func(delta map[string]any, finish any) {
		x.data(map[string]any{"id": id, "object": "chat.completion.chunk", "created": created, "model": r.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(reasoning, t.ChunkSize) {
		chunk(map[string]any{field: p}, nil)
	}
	for _, p := range pieces(text, t.ChunkSize) {
		chunk(map[string]any{"content": p}, nil)
	}
	for i, c := range calls {
		index := i
		if t.SameIndex {
			index = 0
		}
		args := c.Fn.Arguments.(string)
		c.Index = &index
		if t.ObjectArgs {
			c.Fn.Arguments = json.RawMessage(args)
			chunk(map[string]any{"tool_calls": []call{c}}, nil)
			continue
		}
		c.Fn.Arguments = ""
		chunk(map[string]any{"tool_calls": []call{c}}, nil)
		for _, p := range pieces(args, t.ChunkSize) {
			chunk(map[string]any{"tool_calls": []call{{Index: &index, Fn: fn{Arguments: p}}}}, nil)
		}
	}
	if finish != nil {
		chunk(map[string]any{}, finish)
	}
	if usage != nil && r.raw.usage {
		x.data(map[string]any{"id": id, "object": "chat.completion.chunk", "created": created, "model": r.Model, "choices": []any{}, "usage": usage})
	}
	if !t.NoDone {
		x.event([]byte("data: [DONE]\n\n"))
	}
}

// pieces cuts a text into pieces of n characters (default 16).
func pieces(s string, n int) []string {
	if n <= 0 {
		n = 16
	}
	var out []string
	count, start := 0, 0
	for i := range s {
		if count == n {
			out = append(out, s[start:i])
			start, count = i, 0
		}
		count++
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}
