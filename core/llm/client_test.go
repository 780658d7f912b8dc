package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// sleeper is a Sleep that returns at once and remembers.
type sleeper struct {
	mu    sync.Mutex
	waits []time.Duration
}

func (s *sleeper) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, d)
	return ctx.Err()
}

func client(t *testing.T, url string, edit func(*llm.Config)) *llm.Client {
	t.Helper()
	cfg := llm.Config{BaseURL: url, APIKey: "tk_test_0123456789", Model: "test-model", Sleep: (&sleeper{}).sleep}
	if edit != nil {
		edit(&cfg)
	}
	c, err := llm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func start(t *testing.T, o llmtest.Options, turns ...llmtest.Turn) *llmtest.Server {
	t.Helper()
	s, err := llmtest.Start(llmtest.Script{Options: o, Turns: turns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func verify(t *testing.T, s *llmtest.Server) {
	t.Helper()
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

var (
	tools = json.RawMessage(`[{"type":"function","function":{"name":"read_file","description":"<read> & return","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]`)
	hello = []json.RawMessage{llm.EncodeSystem("You are lj."), llm.EncodeUser("hi")}
)

// screen is what a front end shows of a stream.
type screen struct {
	text, reasoning strings.Builder
	tools           []string
	resets          int
}

func (s *screen) add(d llm.Delta) {
	if d.Reset {
		s.resets++
		s.text.Reset()
		s.reasoning.Reset()
		s.tools = nil
	}
	s.text.WriteString(d.Text)
	s.reasoning.WriteString(d.Reasoning)
	if d.ToolName != "" {
		s.tools = append(s.tools, d.ToolName)
	}
}

func stream(t *testing.T, c *llm.Client, msgs []json.RawMessage) (llm.Response, *screen) {
	t.Helper()
	var sc screen
	res, err := c.Stream(t.Context(), llm.Request{Tools: tools, Messages: msgs, Cause: "turn"}, sc.add)
	if err != nil {
		t.Fatalf("stream: %v (next: %s)", err, core.NextOf(err))
	}
	if !json.Valid(res.Message.Raw) {
		t.Fatalf("raw message is not JSON: %s", res.Message.Raw)
	}
	return res, &sc
}

func TestStreamTextReasoningUsage(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Text: "茶杯 is \"<ok>\" 🍵", Reasoning: "想一想", ChunkSize: 1, WriteSize: 1,
		Usage: &llmtest.Usage{Prompt: 100, Cached: 64, Completion: 9}})
	res, sc := stream(t, client(t, s.URL(), nil), hello)
	if res.Message.Content != "茶杯 is \"<ok>\" 🍵" || sc.text.String() != res.Message.Content {
		t.Errorf("content %q, shown %q", res.Message.Content, sc.text.String())
	}
	if res.Message.Reasoning != "想一想" || sc.reasoning.String() != "想一想" {
		t.Errorf("reasoning %q", res.Message.Reasoning)
	}
	if want := (core.Usage{Requests: 1, PromptTokens: 100, CachedTokens: 64, CompletionTokens: 9}); res.Usage != want {
		t.Errorf("usage %+v", res.Usage)
	}
	if res.FinishReason != "stop" || res.Attempts != 1 {
		t.Errorf("finish %q, attempts %d", res.FinishReason, res.Attempts)
	}
	if want := `{"role":"assistant","content":"茶杯 is \"<ok>\" 🍵","reasoning_content":"想一想"}`; string(res.Message.Raw) != want {
		t.Errorf("raw %s", res.Message.Raw)
	}
	r := s.Requests()[0]
	if r.Cause != "turn" || !strings.Contains(string(r.Body), `<read> & return`) {
		t.Errorf("cause %q, body %s", r.Cause, r.Body)
	}
}

func TestUsageSpellings(t *testing.T) {
	for name, u := range map[string]string{
		"openai":    `"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":7}}`,
		"deepseek":  `"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":7,"prompt_cache_miss_tokens":3}`,
		"moonshot":  `"usage":{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":7}`,
		"anthropic": `"usage":{"input_tokens":10,"output_tokens":2,"cache_read_input_tokens":7}`,
		"groq":      `"x_groq":{"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":7}}}`,
		"nulls":     `"usage":{"prompt_tokens":10.0,"completion_tokens":"2","prompt_tokens_details":null,"cached_tokens":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.ForTest(t, llmtest.Turn{RawSSE: []string{
				`data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":null}`,
				`data: {"choices":[],` + u + `}`, `data: [DONE]`}})
			res, _ := stream(t, client(t, s.URL(), nil), hello)
			if want := (core.Usage{Requests: 1, PromptTokens: 10, CachedTokens: 7, CompletionTokens: 2}); res.Usage != want {
				t.Errorf("usage %+v", res.Usage)
			}
		})
	}
}

func TestUsageMissingIsSaid(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Text: "a", NoUsage: true})
	res, _ := stream(t, client(t, s.URL(), nil), hello)
	if res.Usage.Unreported != 1 || res.Usage.Requests != 1 {
		t.Errorf("usage %+v", res.Usage)
	}
}

// 028: arguments cut off by the output limit are answered, not run, and the history stays
// acceptable.
func TestCutArgumentsAreAProblem028(t *testing.T) {
	s := llmtest.ForTest(t,
		llmtest.Turn{Calls: []llmtest.Call{{Name: "write_file", RawArgs: `{"path":"a.txt","content":"line1\nli`}}, FinishReason: "length"},
		llmtest.Turn{Text: "ok"})
	c := client(t, s.URL(), nil)
	res, _ := stream(t, c, hello)
	call := res.Message.ToolCalls[0]
	if !strings.Contains(call.Problem, "incomplete because of the output limit") || call.Arguments != "{}" {
		t.Fatalf("call %+v", call)
	}
	stream(t, c, append(hello[:2:2], res.Message.Raw, llm.EncodeToolResult(call.ID, call.Problem)))
}

// 029: arguments that are not JSON are refused with the place of the fault.
func TestBadArgumentsAreAProblem029(t *testing.T) {
	s := llmtest.ForTest(t,
		llmtest.Turn{Calls: []llmtest.Call{{Name: "write_file", RawArgs: `{"path": "a.txt", "content": hello}`}}},
		llmtest.Turn{Text: "ok"})
	c := client(t, s.URL(), nil)
	res, _ := stream(t, c, hello)
	call := res.Message.ToolCalls[0]
	if !strings.Contains(call.Problem, "invalid character 'h'") || !strings.Contains(call.Problem, "byte 30") || call.Arguments != "{}" {
		t.Fatalf("call %+v", call)
	}
	stream(t, c, append(hello[:2:2], res.Message.Raw, llm.EncodeToolResult(call.ID, "")))
}

// 031: a new id at the same index is a new call.
func TestTwoCallsAtIndexZero031(t *testing.T) {
	s := llmtest.ForTest(t,
		llmtest.Turn{SameIndex: true, ChunkSize: 2, Calls: []llmtest.Call{
			{ID: "c1", Name: "read_file", Args: map[string]any{"path": "a"}},
			{ID: "c2", Name: "read_file", Args: map[string]any{"path": "b"}}}},
		llmtest.Turn{Text: "both"})
	c := client(t, s.URL(), nil)
	res, sc := stream(t, c, hello)
	calls := res.Message.ToolCalls
	if len(calls) != 2 || calls[0].ID != "c1" || calls[0].Arguments != `{"path":"a"}` || calls[1].ID != "c2" || calls[1].Arguments != `{"path":"b"}` {
		t.Fatalf("calls %+v", calls)
	}
	if len(sc.tools) != 2 {
		t.Errorf("shown %v", sc.tools)
	}
	stream(t, c, append(hello[:2:2], res.Message.Raw, llm.EncodeToolResult("c1", "A"), llm.EncodeToolResult("c2", "B")))
}

func sseChunks(deltas ...string) []string {
	var out []string
	for _, d := range deltas {
		out = append(out, `data: {"choices":[{"index":0,"delta":`+d+`,"finish_reason":null}]}`)
	}
	return append(out, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `data: [DONE]`)
}

func TestCallsOfRealServers(t *testing.T) {
	type want struct{ name, args string }
	for name, tc := range map[string]struct {
		deltas []string
		want   []want
	}{
		"no ids, same index, whole calls": {[]string{
			`{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"a","arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"a","arguments":"{\"x\":2}"}}]}`},
			[]want{{"a", `{"x":1}`}, {"a", `{"x":2}`}}},
		"no index, list of two": {[]string{
			`{"tool_calls":[{"id":"p","function":{"name":"a","arguments":"{}"}},{"id":"q","function":{"name":"b","arguments":"{\"y\":1}"}}]}`},
			[]want{{"a", `{}`}, {"b", `{"y":1}`}}},
		"id and name in each fragment": {[]string{
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{\"x\""}}]}`,
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":":1}"}}]}`},
			[]want{{"a", `{"x":1}`}}},
		"a new id for each fragment": {[]string{
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"id":"q","function":{"arguments":"{\"x\":"}}]}`,
			`{"tool_calls":[{"index":0,"id":"r","function":{"arguments":"1}"}}]}`},
			[]want{{"a", `{"x":1}`}}},
		"interleaved indexes": {[]string{
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":""}}]}`,
			`{"tool_calls":[{"index":1,"id":"q","function":{"name":"b","arguments":"{"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}},{"index":1,"function":{"arguments":"}"}}]}`},
			[]want{{"a", `{"x":1}`}, {"b", `{}`}}},
		"object arguments, numeric id": {[]string{
			`{"tool_calls":[{"index":0,"id":7,"function":{"name":"a","arguments":{"p":"a//b\n"}}}]}`},
			[]want{{"a", `{"p":"a//b\n"}`}}},
		"no arguments": {[]string{
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a"}}]}`,
			`{"tool_calls":[{"index":1,"id":"q","function":{"name":"b","arguments":""}}]}`,
			`{"tool_calls":[{"index":2,"id":"r","function":{"name":"c","arguments":null}}]}`},
			[]want{{"a", "{}"}, {"b", "{}"}, {"c", "{}"}}},
		"the same id twice": {[]string{
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"p","function":{"name":"b","arguments":"{}"}}]}`},
			[]want{{"a", "{}"}, {"b", "{}"}}},
		"id after name": {[]string{
			`{"tool_calls":[{"index":0,"function":{"name":"a","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"id":"p","function":{"arguments":"{}"}}]}`},
			[]want{{"a", "{}"}}},
		"a character in two pieces": {[]string{
			`{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{\"x\":\"\ud83c"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\udf75\"}"}}]}`},
			[]want{{"a", `{"x":"🍵"}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.ForTest(t, llmtest.Turn{RawSSE: sseChunks(tc.deltas...)}, llmtest.Turn{Text: "ok"})
			c := client(t, s.URL(), nil)
			res, _ := stream(t, c, hello)
			msgs := append(hello[:2:2], res.Message.Raw)
			ids := map[string]bool{}
			if len(res.Message.ToolCalls) != len(tc.want) {
				t.Fatalf("calls %+v", res.Message.ToolCalls)
			}
			for i, call := range res.Message.ToolCalls {
				if call.Name != tc.want[i].name || call.Arguments != tc.want[i].args || call.Problem != "" || call.ID == "" || ids[call.ID] {
					t.Errorf("call %d: %+v", i, call)
				}
				ids[call.ID] = true
				msgs = append(msgs, llm.EncodeToolResult(call.ID, ""))
			}
			stream(t, c, msgs) // the strict server takes the history
		})
	}
}

// A server that counts its ids anew in each answer does not make two calls of one name in
// one conversation.
func TestIDsAreUniqueInTheConversation(t *testing.T) {
	turn := llmtest.Turn{Calls: []llmtest.Call{{ID: "call_0", Name: "read_file", Args: map[string]any{"path": "a"}}}}
	s := llmtest.ForTest(t, turn, turn)
	c := client(t, s.URL(), nil)
	first, _ := stream(t, c, hello)
	second, _ := stream(t, c, append(hello[:2:2], first.Message.Raw, llm.EncodeToolResult("call_0", "x")))
	if id := second.Message.ToolCalls[0].ID; id == "call_0" || id == "" {
		t.Errorf("id %q is used twice", id)
	}
}

// 032: reasoning fields are stored and sent back under the names the server gave them.
func TestReasoningComesBack032(t *testing.T) {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		s := start(t, llmtest.Options{ReasoningRequired: true, ReasoningField: field},
			llmtest.Turn{Reasoning: "think \u2028 <b>", Calls: []llmtest.Call{{Name: "read_file", Args: map[string]any{"path": "a"}}}},
			llmtest.Turn{Text: "done"}, llmtest.Turn{Text: "resumed"})
		c := client(t, s.URL(), nil)
		res, _ := stream(t, c, hello)
		msgs := append(hello[:2:2], res.Message.Raw, llm.EncodeToolResult(res.Message.ToolCalls[0].ID, "x"))
		stream(t, c, msgs)
		// As after quitting and resuming: the bytes from the store, another client.
		stored := append(json.RawMessage(nil), res.Message.Raw...)
		msgs[2] = stored
		stream(t, client(t, s.URL(), nil), msgs)
		verify(t, s)
		m, err := llm.ParseMessage(stored)
		if err != nil || m.Reasoning != "think \u2028 <b>" || len(m.ToolCalls) != 1 {
			t.Errorf("parsed %+v, %v", m, err)
		}
	}
}

func TestReasoningDetailsAndExtraContentComeBack(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{RawSSE: sseChunks(
		`{"reasoning":"ab","reasoning_details":[{"type":"reasoning.text","text":"a","index":0,"format":"f","signature":null}]}`,
		`{"reasoning":"cd","reasoning_details":[{"type":"reasoning.text","text":"b\u8336","index":0,"signature":"sig"}]}`,
		`{"reasoning_details":[{"type":"reasoning.encrypted","data":"xyz==","index":1}]}`,
		`{"tool_calls":[{"index":0,"id":"p","function":{"name":"read_file","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s1"}}}]}`)})
	res, sc := stream(t, client(t, s.URL(), nil), hello)
	want := `{"role":"assistant","content":"","reasoning":"abcd","reasoning_details":[{"type":"reasoning.text","text":"ab茶","index":0,"format":"f","signature":"sig"},{"type":"reasoning.encrypted","data":"xyz==","index":1}],"tool_calls":[{"id":"p","type":"function","function":{"name":"read_file","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s1"}}}]}`
	if string(res.Message.Raw) != want {
		t.Errorf("raw\n%s\nwant\n%s", res.Message.Raw, want)
	}
	if sc.reasoning.String() != "abcd" {
		t.Errorf("shown %q", sc.reasoning.String())
	}
}

// 034: a trailing comma is refused; nothing is guessed.
func TestTrailingCommaIsRefused034(t *testing.T) {
	args := `{"url":"https://example.test/a//b","note":"x\\ny",}`
	stored, problem := llm.CheckArguments(args, "tool_calls")
	if stored != "{}" || !strings.Contains(problem, "not valid JSON") {
		t.Errorf("stored %s, problem %s", stored, problem)
	}
	ok := `{"url":"https://example.test/a//b","note":"x\\ny"}`
	if stored, problem = llm.CheckArguments(ok, "tool_calls"); stored != ok || problem != "" {
		t.Errorf("stored %s, problem %s", stored, problem)
	}
}

func TestCheckArguments(t *testing.T) {
	for _, tc := range []struct{ args, finish, stored, problem string }{
		{"", "tool_calls", "{}", ""},
		{" null ", "stop", "{}", ""},
		{"", "length", "{}", "incomplete because of the output limit"},
		{`{"a":1}`, "length", `{"a":1}`, ""},
		{` {"a":1} `, "stop", ` {"a":1} `, ""},
		{`[1]`, "stop", "{}", "a list, not a JSON object"},
		{`"{}"`, "stop", "{}", "a text, not"},
		{`12`, "stop", "{}", "a number, not"},
		{`{"a":1}{"a":1}`, "stop", "{}", "after top-level value"},
		{`{"a":"\ud83d"}`, "stop", "{}", "half a character"},
		{`{"a":"\ud83c\udf75"}`, "stop", `{"a":"\ud83c\udf75"}`, ""},
		{`{"a":"\\ud83d"}`, "stop", `{"a":"\\ud83d"}`, ""},
		{`{"茶":"杯`, "stop", "{}", "unexpected end"},
	} {
		stored, problem := llm.CheckArguments(tc.args, tc.finish)
		if stored != tc.stored || (tc.problem == "") != (problem == "") || !strings.Contains(problem, tc.problem) || !utf8.ValidString(problem) {
			t.Errorf("%q (%s): %q, %q", tc.args, tc.finish, stored, problem)
		}
	}
}

// 035: many lines without data, and very long ones, do not end a stream.
func TestPingsAndLongLines035(t *testing.T) {
	long := strings.Repeat("茶杯", 35_000)
	s := llmtest.ForTest(t, llmtest.Turn{Pings: 400, PingEvery: time.Millisecond, Text: long, ChunkSize: 70_000})
	res, _ := stream(t, client(t, s.URL(), nil), hello)
	if res.Message.Content != long {
		t.Errorf("%d bytes of %d", len(res.Message.Content), len(long))
	}
	if res.Attempts != 1 {
		t.Errorf("attempts %d", res.Attempts)
	}
}

func TestStreamForms(t *testing.T) {
	for name, turn := range map[string]llmtest.Turn{
		"no [DONE]":           {Text: "tea", NoDone: true},
		"no finish reason":    {Text: "tea", FinishReason: "none"},
		"JSON":                {Text: "tea", JSON: true},
		"no space, CRLF":      {RawSSE: []string{"data:{\"choices\":[{\"delta\":{\"content\":\"tea\"},\"finish_reason\":\"stop\"}]}\r", "data:[DONE]\r"}},
		"no empty lines":      {RawSSE: []string{"data: {\"choices\":[{\"delta\":{\"content\":\"t\"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"ea\"},\"finish_reason\":\"stop\"}]}\ndata: [DONE]"}},
		"pretty-printed":      {RawSSE: []string{"event: message\nid: 1\nretry: 5\ndata: {\"choices\":[\ndata: {\"delta\":{\"content\":\"tea\"},\"finish_reason\":\"stop\"}\ndata: ]}", "data: [DONE]"}},
		"keep-alive texts":    {RawSSE: []string{": OPENROUTER PROCESSING", "data: ping", "data:", `data: {"choices":[{"delta":{"content":"tea"},"finish_reason":"stop"}]}`, "data: [DONE]"}},
		"byte order mark":     {RawSSE: []string{"\ufeffdata: {\"choices\":[{\"delta\":{\"content\":\"tea\"},\"finish_reason\":\"stop\"}]}", "data: [DONE]"}},
		"refusal":             {RawSSE: []string{`data: {"choices":[{"delta":{"refusal":"tea","content":null},"finish_reason":"stop"}]}`, "data: [DONE]"}},
		"content parts":       {RawSSE: []string{`data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"tea"}]},"finish_reason":"stop"}]}`, "data: [DONE]"}},
		"odd types":           {RawSSE: []string{`data: {"choices":[{"delta":{"content":"tea","reasoning_details":"no list"},"finish_reason":"stop"}],"usage":{"prompt_tokens":null}}`, "data: [DONE]"}},
		"other choices":       {RawSSE: []string{`data: {"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"tea"},"finish_reason":"stop"}]}`, "data: [DONE]"}},
		"JSON without reason": {Body: `{"choices":[{"message":{"role":"assistant","content":"tea"}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.ForTest(t, turn)
			res, sc := stream(t, client(t, s.URL(), nil), hello)
			if res.Message.Content != "tea" || sc.text.String() != "tea" || res.FinishReason != "stop" || res.Attempts != 1 {
				t.Errorf("%+v, shown %q", res, sc.text.String())
			}
		})
	}
}

// A stream that says its finish reason and is then held open ends after a grace.
func TestHeldOpenAfterFinish(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Text: "tea", Silence: time.Minute, SilenceAfter: 3, NoUsage: true})
	res, _ := stream(t, client(t, s.URL(), func(c *llm.Config) { c.IdleTimeout = 100 * time.Millisecond }), hello)
	if res.Message.Content != "tea" || res.Attempts != 1 {
		t.Errorf("%+v", res)
	}
}

// The same with a server that goes on sending comments.
func TestPingsAfterFinish(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"tea\"},\"finish_reason\":\"stop\"}]}\n\n")
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, ": ping\n\n")
			_ = http.NewResponseController(w).Flush()
			<-tick.C
		}
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := client(t, srv.URL, func(c *llm.Config) { c.IdleTimeout = 100 * time.Millisecond }).Stream(ctx, llm.Request{Messages: hello}, nil)
	if err != nil || res.Message.Content != "tea" {
		t.Errorf("%+v, %v", res, err)
	}
}

// 025 and 023: a character is never broken, whatever the server cuts; bytes that are no
// character are shown.
func TestCharactersAreWhole(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{RawSSE: []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\xe8\x8c\"}}]}",
		"data: {\"choices\":[{\"delta\":{\"content\":\"\xb6b\xff \\ud83c\"}}]}",
		`data: {"choices":[{"delta":{"content":""}}]}`,
		`data: {"choices":[{"delta":{"content":"\udf75 \ud83d!"},"finish_reason":"stop"}]}`,
		"data: [DONE]"}})
	res, sc := stream(t, client(t, s.URL(), nil), hello)
	want := `a茶b\xff 🍵 \ud83d!`
	if res.Message.Content != want || sc.text.String() != want {
		t.Errorf("content %q, shown %q", res.Message.Content, sc.text.String())
	}
}

// 040: Retry-After is obeyed, the wait is announced, the third try succeeds.
func TestRetryAfterIsObeyed040(t *testing.T) {
	limit := llmtest.Turn{Status: 429, Headers: map[string]string{"Retry-After": "2"}, Times: 2}
	s := llmtest.ForTest(t, limit, llmtest.Turn{Text: "ok"})
	sl := &sleeper{}
	var told []llm.Retry
	c := client(t, s.URL(), func(c *llm.Config) {
		c.Sleep = sl.sleep
		c.OnRetry = func(r llm.Retry) { told = append(told, r) }
	})
	res, sc := stream(t, c, hello)
	if res.Attempts != 3 || len(sl.waits) != 2 || sl.waits[0] < 2*time.Second || sl.waits[1] < 2*time.Second {
		t.Errorf("attempts %d, waits %v", res.Attempts, sl.waits)
	}
	if len(told) != 2 || told[0].Attempt != 2 || told[0].Max != 5 || told[0].Wait < 2*time.Second || !strings.Contains(told[0].Reason, "429") {
		t.Errorf("told %+v", told)
	}
	if sc.resets != 0 {
		t.Errorf("%d resets of nothing", sc.resets)
	}
	if u := res.Usage; u.Requests != 3 || u.Refused != 2 || u.Answered() != 1 || u.Unreported != 0 {
		t.Errorf("usage %+v: three requests were sent, one was answered", u)
	}
}

// What was sent is counted, whatever came of it; what never left is not.
func TestSentRequestsAreCounted(t *testing.T) {
	refuse := start(t, llmtest.Options{}, llmtest.Turn{Status: 401, Body: `{"error":{"message":"no"}}`})
	silent := start(t, llmtest.Options{}, llmtest.Turn{Silence: time.Hour, Times: -1})
	gone := start(t, llmtest.Options{})
	gone.Close()
	for _, x := range []struct {
		name string
		s    *llmtest.Server
		want int
	}{{"refused", refuse, 1}, {"silent", silent, 2}, {"not there", gone, 0}} {
		c := client(t, x.s.URL(), func(c *llm.Config) { c.FirstByteTimeout = 50 * time.Millisecond })
		res, err := c.Stream(t.Context(), llm.Request{Messages: hello}, nil)
		if u := res.Usage; err == nil || u.Requests != x.want || u.Refused != x.want || u.Total() != 0 {
			t.Errorf("%s: usage %+v, want %d requests; %v", x.name, u, x.want, err)
		}
		if n := len(x.s.Requests()); n != x.want {
			t.Errorf("%s: the server saw %d requests", x.name, n)
		}
	}
}

func TestRetryAfterDate(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := llmtest.ForTest(t, llmtest.Turn{Status: 503, Headers: map[string]string{"Retry-After": now.Add(7 * time.Second).Format(http.TimeFormat)}}, llmtest.Turn{Text: "ok"})
	sl := &sleeper{}
	stream(t, client(t, s.URL(), func(c *llm.Config) { c.Sleep, c.Now = sl.sleep, func() time.Time { return now } }), hello)
	if len(sl.waits) != 1 || sl.waits[0] < 7*time.Second || sl.waits[0] > 8*time.Second {
		t.Errorf("waits %v", sl.waits)
	}
}

// 040, variant: a rate limit for ever ends after a bounded number of attempts.
func TestRateLimitForEver040(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Status: 429, Headers: map[string]string{"Retry-After": "2"}, Times: -1})
	_, err := client(t, s.URL(), nil).Stream(t.Context(), llm.Request{Messages: hello}, nil)
	if core.KindOf(err) != core.KindModel || !strings.Contains(err.Error(), "limits the rate") || !strings.Contains(err.Error(), "tried 5 times") || core.NextOf(err) == "" {
		t.Errorf("error %v, next %q", err, core.NextOf(err))
	}
	if n := len(s.Requests()); n != 5 {
		t.Errorf("%d requests", n)
	}
}

func TestRetryAfterBeyondTheBound(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Status: 429, Headers: map[string]string{"Retry-After": "3600"}})
	sl := &sleeper{}
	_, err := client(t, s.URL(), func(c *llm.Config) { c.Sleep = sl.sleep }).Stream(t.Context(), llm.Request{Messages: hello}, nil)
	if err == nil || !strings.Contains(err.Error(), "1h0m0s") || len(sl.waits) != 0 || core.KindOf(err) != core.KindModel {
		t.Errorf("error %v, waits %v", err, sl.waits)
	}
}

// 040: cancelling ends the wait.
func TestCancelEndsTheWait040(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Status: 429, Headers: map[string]string{"Retry-After": "60"}})
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, s.URL(), func(c *llm.Config) { c.Sleep = nil })
	_, err := c.Stream(ctx, llm.Request{Messages: hello, OnRetry: func(llm.Retry) { cancel() }}, nil)
	if core.KindOf(err) != core.KindInterrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// 041: a cut stream is asked for again; nothing of the half answer is kept.
func TestCutStream041(t *testing.T) {
	s := llmtest.ForTest(t,
		llmtest.Turn{Text: "Half a sen", Calls: []llmtest.Call{{ID: "half", Name: "write_file", RawArgs: `{"path":"a.txt","content":"x"}`}}, ChunkSize: 4, CutAfter: 6},
		llmtest.Turn{Text: "A whole sentence.", Calls: []llmtest.Call{{ID: "whole", Name: "read_file", Args: map[string]any{"path": "a.txt"}}}},
		llmtest.Turn{Text: "ok"})
	c := client(t, s.URL(), nil)
	res, sc := stream(t, c, hello)
	if res.Message.Content != "A whole sentence." || sc.text.String() != "A whole sentence." || sc.resets != 1 {
		t.Errorf("content %q, shown %q, resets %d", res.Message.Content, sc.text.String(), sc.resets)
	}
	if len(res.Message.ToolCalls) != 1 || res.Message.ToolCalls[0].ID != "whole" || res.Attempts != 2 {
		t.Errorf("%+v", res)
	}
	if res.Usage.Requests != 2 || res.Usage.Unreported != 1 {
		t.Errorf("usage %+v", res.Usage)
	}
	stream(t, c, append(hello[:2:2], res.Message.Raw, llm.EncodeToolResult("whole", "x")))
}

func TestCutForEverKeepsWhatWasSaid(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Text: "Half a sentence", Calls: []llmtest.Call{{Name: "read_file", RawArgs: "{}"}}, CutAfter: 3, Times: -1})
	res, err := client(t, s.URL(), func(c *llm.Config) { c.MaxRetries = 1 }).Stream(t.Context(), llm.Request{Messages: hello}, nil)
	if err == nil || !strings.Contains(err.Error(), "cut the answer off") {
		t.Fatalf("error %v", err)
	}
	if res.Message.Content != "Half a sentence" || len(res.Message.ToolCalls) != 0 || res.Attempts != 2 {
		t.Errorf("%+v", res)
	}
}

func TestCancelKeepsWhatWasSaid(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Text: "Half a sentence", Silence: time.Minute, SilenceAfter: 2})
	ctx, cancel := context.WithCancel(t.Context())
	res, err := client(t, s.URL(), nil).Stream(ctx, llm.Request{Messages: hello}, func(llm.Delta) { cancel() })
	if core.KindOf(err) != core.KindInterrupted || res.Message.Content != "Half a sentence" || res.Message.Raw == nil {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestTransientAndOther(t *testing.T) {
	for _, tc := range []struct {
		turn     llmtest.Turn
		requests int
		says     string
		next     string
	}{
		{llmtest.Turn{Status: 500}, 5, "failed (500", "try again"},
		{llmtest.Turn{Status: 529, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}, 5, "Overloaded", "try again"},
		{llmtest.Turn{CutAfter: -1}, 5, "connection to 127.0.0.1", "check"},
		{llmtest.Turn{Status: 401, Body: `{"error":{"message":"Incorrect API key provided: tk_test_0123456789. See <url>"}}`}, 1, "refused the key", "MY_KEY"},
		{llmtest.Turn{Status: 403}, 1, "refused access", "MY_KEY"},
		{llmtest.Turn{Status: 404, Body: `{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}`}, 1, `does not know the model "test-model"`, "lj models"},
		{llmtest.Turn{Status: 404, Body: `<html>not found</html>`}, 1, "no chat completions", "/v1"},
		{llmtest.Turn{Status: 400, Body: `{"error":{"message":"bad {\"x\":1}"}}`}, 1, "refused the request", "settings"},
		{llmtest.Turn{Status: 400, Body: `{"error":{"message":"[1210] wrong parameter"}}`}, 1, "[1210] wrong parameter", "settings"},
		{llmtest.Turn{Status: 429, Body: `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`}, 1, "no credit", "top up"},
		{llmtest.Turn{Status: 302, Headers: map[string]string{"Location": "http://other.test/v1/x"}, Body: "x"}, 1, "redirect", "base_url"},
		{llmtest.Turn{Body: "<html>login</html>"}, 1, "web page", "base_url"},
		{llmtest.Turn{Body: `{"error":{"message":"no","code":401}}`}, 1, "refused the key", "MY_KEY"},
		{llmtest.Turn{RawSSE: []string{`data: {"error":{"message":"Provider returned error","code":502}}`}}, 5, "failed (502", "try again"},
		{llmtest.Turn{RawSSE: []string{"event: error\ndata: {\"message\":\"overloaded\"}"}}, 5, "broke the answer off (error: overloaded)", "try again"},
		{llmtest.Turn{RawSSE: []string{`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"error"}]}`, "data: [DONE]"}}, 5, "with an error", ""},
		{llmtest.Turn{RawSSE: []string{`data: [DONE]`}}, 5, "empty answer", "base_url"},
		{llmtest.Turn{RawSSE: []string{`data: {"choices":[{"delta":{"content":"x"}`, ""}}, 5, "broken", ""},
	} {
		t.Run(tc.says, func(t *testing.T) {
			tc.turn.Times = -1
			s := start(t, llmtest.Options{}, tc.turn)
			c := client(t, s.URL(), func(c *llm.Config) { c.KeyName = "MY_KEY" })
			_, err := c.Stream(t.Context(), llm.Request{Messages: hello}, nil)
			if core.KindOf(err) != core.KindModel {
				t.Fatalf("error %v of kind %s", err, core.KindOf(err))
			}
			text := err.Error() + " " + core.NextOf(err)
			if !strings.Contains(text, tc.says) || !strings.Contains(core.NextOf(err), tc.next) {
				t.Errorf("%s | next: %s", err, core.NextOf(err))
			}
			if strings.ContainsAny(text, "{}\n") || strings.Contains(text, "Post") || strings.Contains(text, "0123456789") {
				t.Errorf("raw JSON, line breaks or the key in %q", text)
			}
			if n := len(s.Requests()); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
}

func TestContextTooLong(t *testing.T) {
	s := start(t, llmtest.Options{TokenLimit: 1000})
	c := client(t, s.URL(), nil)
	_, err := c.Stream(t.Context(), llm.Request{Messages: append(hello[:1:1], llm.EncodeUser(strings.Repeat("茶", 1200)))}, nil)
	var ce *llm.ContextError
	if !errors.Is(err, llm.ErrContextLength) || !errors.As(err, &ce) || ce.Limit != 1000 || ce.Requested < 1200 || core.KindOf(err) != core.KindModel {
		t.Errorf("error %v", err)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestSilenceIsBounded(t *testing.T) {
	short := func(c *llm.Config) {
		c.FirstByteTimeout, c.IdleTimeout, c.KeepAliveTimeout = 60*time.Millisecond, 60*time.Millisecond, 150*time.Millisecond
	}
	for name, turn := range map[string]llmtest.Turn{
		"before the status": {Delay: time.Minute},
		"after the status":  {Silence: time.Minute},
		"within the stream": {Text: "abc", Silence: time.Minute, SilenceAfter: 2},
		"only keep-alives":  {Pings: 1 << 20, PingEvery: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			turn.Times = -1
			s := start(t, llmtest.Options{}, turn)
			_, err := client(t, s.URL(), short).Stream(t.Context(), llm.Request{Messages: hello}, nil)
			if core.KindOf(err) != core.KindModel || core.NextOf(err) == "" || !strings.Contains(err.Error(), "said nothing for") && !strings.Contains(err.Error(), "without answering") {
				t.Errorf("error %v", err)
			}
			if n := len(s.Requests()); n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// Keep-alives that come for longer than the silence that is allowed do not end a stream.
func TestKeepAlivesAreLife(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Text: "ok", Pings: 40, PingEvery: 10 * time.Millisecond})
	res, _ := stream(t, client(t, s.URL(), func(c *llm.Config) { c.FirstByteTimeout, c.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond }), hello)
	if res.Attempts != 1 {
		t.Errorf("attempts %d", res.Attempts)
	}
}

func TestDeadServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	sl := &sleeper{}
	c := client(t, "http://user:secretpw@"+addr+"/v1", func(c *llm.Config) { c.Sleep = sl.sleep })
	_, err = c.Stream(t.Context(), llm.Request{Messages: hello}, nil)
	if core.KindOf(err) != core.KindModel || !strings.Contains(err.Error(), addr) || !strings.Contains(core.NextOf(err), "running") || strings.Contains(err.Error(), "secretpw") {
		t.Errorf("error %v, next %q", err, core.NextOf(err))
	}
	if len(sl.waits) != 2 {
		t.Errorf("waits %v", sl.waits)
	}
	if _, err = c.Models(t.Context()); core.KindOf(err) != core.KindModel {
		t.Errorf("models: %v", err)
	}
}

func TestLearnsWhatAServerRefuses(t *testing.T) {
	temp := 0.7
	s := start(t, llmtest.Options{Refuse: []string{"stream_options", "max_tokens", "temperature", "reasoning_effort"}},
		llmtest.Turn{Text: "one"}, llmtest.Turn{Text: "two"})
	c := client(t, s.URL(), nil)
	req := llm.Request{Messages: hello, MaxTokens: 100, Temperature: &temp, Reasoning: "low"}
	for _, want := range []string{"one", "two"} {
		res, err := c.Stream(t.Context(), req, nil)
		if err != nil || res.Message.Content != want {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	all := s.Requests()
	if len(all) != 6 {
		t.Fatalf("%d requests", len(all))
	}
	if want := `{"model":"test-model","stream":true,"max_completion_tokens":100,"messages":[`; !strings.HasPrefix(string(all[5].Body), want) || string(all[4].Body) != string(all[5].Body) {
		t.Errorf("body %s", all[5].Body)
	}
}

func TestTooLargeMaxTokensIsNotSwapped(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Times: -1, Status: 400, Body: `{"error":{"message":"max_tokens is too large: 131072. This model supports at most 16384 completion tokens","param":"max_tokens"}}`})
	_, err := client(t, s.URL(), nil).Stream(t.Context(), llm.Request{Messages: hello, MaxTokens: 131072}, nil)
	if err == nil || len(s.Requests()) != 1 || errors.Is(err, llm.ErrContextLength) {
		t.Errorf("error %v, %d requests", err, len(s.Requests()))
	}
}

// A server that refuses another one's reasoning fields gets the history without them.
func TestForeignReasoningIsLeftOut(t *testing.T) {
	s := start(t, llmtest.Options{Lax: true}, llmtest.Turn{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
		if strings.Contains(string(r.Body), "reasoning_content") {
			return llmtest.Turn{Status: 422, Body: `{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted"}]}`}
		}
		return llmtest.Turn{Text: "ok"}
	}})
	msgs := append(hello[:2:2], json.RawMessage(`{"role":"assistant","content":"a","reasoning_content":"b"}`), llm.EncodeUser("c"))
	res, _ := stream(t, client(t, s.URL(), nil), msgs)
	if res.Message.Content != "ok" || !strings.Contains(string(s.Requests()[1].Body), `{"role":"assistant","content":"a"},{"role":"user"`) {
		t.Errorf("body %s", s.Requests()[1].Body)
	}
}

// A model that refuses pictures gets the history in words, from then on at once.
func TestPicturesAreLeftOut(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
		if strings.Contains(string(r.Body), "image_url") {
			return llmtest.Turn{Status: 400, Body: `{"error":{"message":"Failed to deserialize the JSON body into the target type: messages[1]: unknown variant image_url, expected text"}}`}
		}
		return llmtest.Turn{Text: "ok"}
	}})
	c := client(t, s.URL(), nil)
	msgs := append(hello[:1:1], llm.EncodeUserImages("what is this?", []core.Image{{MIME: "image/png", Data: []byte{1}}}))
	if !c.Sees("test-model") {
		t.Error("it is called blind before it was tried")
	}
	for range 2 {
		if res, _ := stream(t, c, msgs); res.Message.Content != "ok" {
			t.Errorf("answer %+v", res)
		}
	}
	if c.Sees("test-model") || len(s.Requests()) != 3 {
		t.Errorf("%d requests", len(s.Requests()))
	}
	if body := string(s.Requests()[2].Body); !strings.Contains(body, `"content":"what is this?\n[A picture was shown here.`) {
		t.Errorf("body %s", body)
	}
	// Told so before, it is not tried.
	if res, err := client(t, s.URL(), nil).Stream(t.Context(), llm.Request{Messages: msgs, NoImages: true}, nil); err != nil || res.Message.Content != "ok" || len(s.Requests()) != 4 {
		t.Errorf("%+v, %v after %d requests", res, err, len(s.Requests()))
	}
}

// Design rule 5: a request is a byte prefix of the next.
func TestRequestsAreBytePrefixes(t *testing.T) {
	s := start(t, llmtest.Options{CheckPrefix: true},
		llmtest.Turn{Text: "look", Reasoning: "r", Calls: []llmtest.Call{{Name: "read_file", Args: map[string]any{"path": "a"}}}},
		llmtest.Turn{Calls: []llmtest.Call{{Name: "read_file", RawArgs: `{"path": bad}`}, {Name: "read_file", Args: map[string]any{"path": "<b> & 茶"}}}},
		llmtest.Turn{Text: "done"}, llmtest.Turn{Text: "again"})
	c := client(t, s.URL(), nil)
	msgs := hello[:2:2]
	for range 3 {
		res, _ := stream(t, c, msgs)
		msgs = append(msgs, res.Message.Raw)
		for _, call := range res.Message.ToolCalls {
			msgs = append(msgs, llm.EncodeToolResult(call.ID, "result \x1b[0m <&>"))
		}
	}
	msgs = append(msgs, llm.EncodeUser("and?"))
	res, _ := stream(t, client(t, s.URL(), nil), msgs)
	verify(t, s)
	if rep := s.PrefixReport(); rep.Pairs != 3 {
		t.Errorf("report %+v", rep)
	}
	if res.Usage.CachedTokens == 0 {
		t.Errorf("usage %+v", res.Usage)
	}
}

func TestOneConnectionForALoop(t *testing.T) {
	s := llmtest.ForTest(t, llmtest.Turn{Text: "ok", Times: 20, WriteSize: 1 << 20}) // the end of the body comes by itself
	c := client(t, s.URL(), nil)
	for range 20 {
		stream(t, c, hello)
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections for 20 requests", n)
	}
}

func TestTraceHeaders(t *testing.T) {
	seen := make(chan http.Header, 8)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)
	}))
	defer proxy.Close()
	// A client for a server elsewhere, whose connections all end here.
	elsewhere := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", proxy.Listener.Addr().String())
	}}}
	defer elsewhere.CloseIdleConnections()
	for _, tc := range []struct {
		url   string
		trace bool
		want  bool
	}{{proxy.URL + "/v1", false, true}, {"http://localhost:1/v1", false, true}, {"http://model.test/v1", false, false}, {"http://model.test/v1", true, true}} {
		c := client(t, tc.url, func(c *llm.Config) { c.HTTP, c.TraceHeaders = elsewhere, tc.trace })
		if _, err := c.Stream(t.Context(), llm.Request{Messages: hello, Cause: "step", Step: "s 1 茶"}, nil); err != nil {
			t.Fatal(err)
		}
		h := <-seen
		if got := h.Get("X-LJ-Cause") == "step" && h.Get("X-LJ-Step") == "s%201%20%E8%8C%B6"; got != tc.want {
			t.Errorf("%s, %v: %v", tc.url, tc.trace, h)
		}
		if h.Get("Authorization") != "Bearer tk_test_0123456789" || h.Get("User-Agent") != "lj" {
			t.Errorf("headers %v", h)
		}
	}
}

// The key and the conversation never follow a redirect to another place.
func TestRedirectsKeepTheKeyHome(t *testing.T) {
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	defer other.Close()
	var home *httptest.Server
	home = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/away"):
			http.Redirect(w, r, other.URL+"/v1/chat/completions", http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, "/near"):
			http.Redirect(w, r, home.URL+"/v1/chat/completions", http.StatusPermanentRedirect)
		default:
			b, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"%d"},"finish_reason":"stop"}]}`, len(b))
		}
	}))
	defer home.Close()
	_, err := client(t, home.URL+"/away/v1", nil).Stream(t.Context(), llm.Request{Messages: hello}, nil)
	if core.KindOf(err) != core.KindModel || !strings.Contains(err.Error(), "redirect") || !strings.Contains(err.Error(), strings.TrimPrefix(other.URL, "http://")) {
		t.Errorf("error %v", err)
	}
	if _, err = client(t, home.URL+"/away/v1", nil).Models(t.Context()); err == nil || leaked.Load() != 0 {
		t.Errorf("models: %v; %d requests elsewhere", err, leaked.Load())
	}
	res, err := client(t, home.URL+"/near/v1", nil).Stream(t.Context(), llm.Request{Messages: hello}, nil)
	if err != nil || res.Message.Content == "0" {
		t.Errorf("%+v, %v", res, err)
	}
}

// The proxy of the environment is read once per process, so a child process asks.
func TestProxyOfTheEnvironment(t *testing.T) {
	if base := os.Getenv("LLM_TEST_BASE"); base != "" {
		c, err := llm.New(llm.Config{BaseURL: base, Model: "m", MaxRetries: -1})
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Stream(t.Context(), llm.Request{Messages: hello}, nil)
		fmt.Printf("ANSWER %s %v\n", res.Message.Content, err)
		return
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"proxy for %s"},"finish_reason":"stop"}]}`, r.URL.Host)
	}))
	defer proxy.Close()
	s := llmtest.ForTest(t, llmtest.Turn{Text: "direct"})
	for base, want := range map[string]string{"http://model.test/v1": "ANSWER proxy for model.test", s.URL(): "ANSWER direct"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyOfTheEnvironment$", "-test.v")
		cmd.Env = []string{"LLM_TEST_BASE=" + base, "HTTP_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", base, err, out)
		}
	}
}

func TestModels(t *testing.T) {
	s := start(t, llmtest.Options{Key: "tk_test_0123456789", Models: []string{"b", "a"}})
	list, err := client(t, s.URL(), nil).Models(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "b" {
		t.Errorf("%v, %v", list, err)
	}
	_, err = client(t, s.URL(), func(c *llm.Config) { c.APIKey = "sk-wrong-1234567890" }).Models(t.Context())
	if core.KindOf(err) != core.KindModel || !strings.Contains(err.Error(), "refused the key") {
		t.Errorf("error %v", err)
	}
	for body, want := range map[string]string{
		`{"data":[{"id":"x","created":1.5,"owned_by":null,"max_model_len":4096}]}`: "[{x  4096}]",
		`[{"id":"y","context_length":8}]`:                                          "[{y  8}]",
		`{"models":[{"name":"z"}]}`:                                                "[{z  0}]",
		`{"data":[]}`:                                                              "[]",
		`<html>`:                                                                   "not a list",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		list, err := client(t, srv.URL, nil).Models(t.Context())
		if got := fmt.Sprintf("%v %v", list, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
		srv.Close()
	}
}

func TestNewRefuses(t *testing.T) {
	for want, cfg := range map[string]llm.Config{
		"no model server":  {},
		"no preset":        {Preset: "nobody"},
		"not an http":      {BaseURL: "api.openai.com/v1"},
		"no key has":       {BaseURL: "http://127.0.0.1:1/v1", APIKey: "sk a"},
		"no model is set ": {BaseURL: "http://127.0.0.1:1/v1"},
	} {
		c, err := llm.New(cfg)
		if err == nil {
			_, err = c.Stream(t.Context(), llm.Request{Messages: hello}, nil)
		}
		if core.KindOf(err) != core.KindConfig || !strings.Contains(err.Error(), want) || core.NextOf(err) == "" {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestPresets(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range llm.Presets() {
		if seen[p.Name] || p.BaseURL == "" || p.KeyEnv == "" && p.Name != "ollama" {
			t.Errorf("preset %+v", p)
		}
		seen[p.Name] = true
		if q, ok := llm.PresetFor(p.BaseURL); !ok || q.Name != p.Name {
			t.Errorf("%s is taken for %q", p.BaseURL, q.Name)
		}
		if c, err := llm.New(llm.Config{Preset: p.Name}); err != nil || c.Model() != p.Model {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	for _, name := range []string{"openai", "anthropic", "deepseek", "qwen", "moonshot", "zhipu", "volcengine", "siliconflow", "openrouter", "gemini", "groq", "mistral", "xai", "ollama"} {
		if !seen[name] {
			t.Errorf("no preset %s", name)
		}
	}
	if p, ok := llm.PresetNamed("DashScope"); !ok || p.Name != "qwen" {
		t.Errorf("%+v", p)
	}
	if _, ok := llm.PresetFor("https://notapi.openai.com.evil.test/v1"); ok {
		t.Error("a foreign host has a preset")
	}
	if p, _ := llm.PresetNamed("anthropic"); !strings.Contains(p.Note, "no prompt caching") {
		t.Error("the note does not speak of prompt caching")
	}
}

func TestParallelUse(t *testing.T) {
	s := start(t, llmtest.Options{Refuse: []string{"stream_options"}}, llmtest.Turn{Text: "ok", Times: -1})
	c := client(t, s.URL(), nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				if _, err := c.Stream(t.Context(), llm.Request{Messages: hello, Cause: "step", Step: fmt.Sprint(i)}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestEncode(t *testing.T) {
	for _, tc := range []struct {
		got  json.RawMessage
		want string
	}{
		{llm.EncodeSystem(""), `{"role":"system","content":""}`},
		{llm.EncodeUser("<a> & \"b\"\\\n\t\r\x00\x1b\u2028茶🍵\x7f"), "{\"role\":\"user\",\"content\":\"<a> & \\\"b\\\"\\\\\\n\\t\\r\\u0000\\u001b\u2028茶🍵\x7f\"}"},
		{llm.EncodeUser("\xb2\xe8ok\xe8\x8c"), `{"role":"user","content":"\\xb2\\xe8ok\\xe8\\x8c"}`},
		{llm.EncodeToolResult("c1", ""), `{"role":"tool","tool_call_id":"c1","content":""}`},
		{llm.EncodeAssistant("", []core.ToolCall{{ID: "c", Name: "a b", Arguments: "{}"}}), `{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"a_b","arguments":"{}"}}]}`},
		{llm.EncodeUserImages("x", []core.Image{{MIME: "image/png", Data: []byte{1}}}), `{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQ=="}}]}`},
	} {
		if string(tc.got) != tc.want || !json.Valid(tc.got) {
			t.Errorf("got %s\nwant %s", tc.got, tc.want)
		}
	}
	list, err := llm.EncodeTools([]core.ToolSpec{{Name: "t", Description: "a < b", Schema: json.RawMessage("{ \"type\": \"object\" }")}, {Name: "u"}})
	if want := `[{"type":"function","function":{"name":"t","description":"a < b","parameters":{"type":"object"}}},{"type":"function","function":{"name":"u","description":"","parameters":{"type":"object","properties":{}}}}]`; err != nil || string(list) != want {
		t.Errorf("%s, %v", list, err)
	}
	if _, err = llm.EncodeTools([]core.ToolSpec{{Name: "t", Schema: json.RawMessage("{")}}); err == nil {
		t.Error("a broken schema was taken")
	}
}
