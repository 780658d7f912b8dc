package llmtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

func post(t *testing.T, s *llmtest.Server, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
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

const head = `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}`

const twoCalls = `,{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"x","arguments":"{\"k\":1}"}}]}`

func call(id, name, args string) string {
	a, _ := json.Marshal(args)
	return `,{"role":"assistant","content":"","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":` + string(a) + `}}]},{"role":"tool","tool_call_id":"` + id + `","content":""}`
}

func TestRules(t *testing.T) {
	result := func(id string) string { return `,{"role":"tool","tool_call_id":"` + id + `","content":"r"}` }
	tool := func(name, params string) string {
		return `{"type":"function","function":{"name":"` + name + `","parameters":` + params + `}}`
	}
	withTools := func(list string) string {
		return `{"model":"m","tools":[` + list + `],"messages":[{"role":"user","content":"u"}]}`
	}
	object := `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
	for _, tc := range []struct{ name, body, says string }{
		{"plain", head + `]}`, ""},
		{"calls answered", head + twoCalls + result("a") + result("b") + `]}`, ""},
		{"in any order", head + twoCalls + result("b") + result("a") + `,{"role":"user","content":"v"}]}`, ""},
		{"tools", withTools(tool("read-file_2", object)), ""},
		{"null content with calls", head + strings.Replace(twoCalls, `"content":""`, `"content":null`, 1) + result("a") + result("b") + `]}`, ""},

		{"one result missing at the end", head + twoCalls + result("a") + `]}`, "before the results of: b"},
		{"one result missing before a user", head + twoCalls + result("a") + `,{"role":"user","content":"v"}]}`, "missing: b"},
		{"orphan result", head + result("a") + `]}`, "no open call"},
		{"two results", head + twoCalls + result("a") + result("a") + `]}`, "no open call"},
		{"result after the user", head + twoCalls + `,{"role":"user","content":"v"}` + result("a") + result("b") + `]}`, "missing: a, b"},
		{"double id", head + strings.Replace(twoCalls, `"id":"b"`, `"id":"a"`, 1) + result("a") + result("a") + `]}`, "twice"},
		{"no id", head + call("", "x", "{}") + `]}`, "id is missing"},
		{"bad name", head + call("a", "x y", "{}") + `]}`, "[A-Za-z0-9_-]{1,64}"},
		{"long name", head + call("a", strings.Repeat("x", 65), "{}") + `]}`, "[A-Za-z0-9_-]{1,64}"},
		{"arguments cut off", head + call("a", "x", `{"k":"li`) + `]}`, "arguments is not a JSON object"},
		{"arguments empty", head + call("a", "x", "") + `]}`, "arguments is not a JSON object"},
		{"arguments a list", head + call("a", "x", "[]") + `]}`, "arguments is not a JSON object"},
		{"empty tool_calls", head + `,{"role":"assistant","content":"x","tool_calls":[]}]}`, "empty list"},
		{"result without content", head + twoCalls + `,{"role":"tool","tool_call_id":"a"}` + result("b") + `]}`, "needs content"},
		{"result with null", head + twoCalls + `,{"role":"tool","tool_call_id":"a","content":null}` + result("b") + `]}`, "needs content"},
		{"result without id", head + twoCalls + `,{"role":"tool","content":""}` + result("b") + `]}`, "needs tool_call_id"},
		{"assistant without content", head + `,{"role":"assistant","content":null}]}`, "needs content or tool_calls"},
		{"no messages", `{"model":"m","messages":[]}`, "messages is empty"},
		{"role", head + `,{"role":"function","content":"x"}]}`, "unknown role"},
		{"no role", head + `,{"content":"x"}]}`, "role is missing"},
		{"late system", head + `,{"role":"system","content":"x"}]}`, "must be the first"},
		{"no model", `{"messages":[{"role":"user","content":"u"}]}`, "model is missing"},
		{"not UTF-8", head + ",{\"role\":\"user\",\"content\":\"\xff\"}]}", "UTF-8"},
		{"not JSON", head, "not a JSON object"},
		{"options without stream", `{"model":"m","stream_options":{},"messages":[{"role":"user","content":"u"}]}`, "stream_options"},
		{"tool twice", withTools(tool("a", object) + "," + tool("a", object)), "twice"},
		{"tool name", withTools(tool("a.b", object)), "[A-Za-z0-9_-]{1,64}"},
		{"schema no object", withTools(tool("a", `{"type":"string"}`)), "schema of an object"},
		{"schema a list", withTools(tool("a", `[]`)), "not a schema"},
		{"required unknown", withTools(tool("a", `{"type":"object","required":["z"]}`)), "no property"},
		{"no tools", withTools(""), "empty list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, llmtest.Options{}, llmtest.Turn{Text: "ok", Times: -1})
			status, body := post(t, s, tc.body)
			if tc.says == "" {
				if status != 200 || s.Verify() != nil {
					t.Errorf("%d %s %v", status, body, s.Verify())
				}
				return
			}
			if status != 400 || !strings.Contains(body, tc.says) {
				t.Errorf("%d %s", status, body)
			}
			if len(s.Errors()) != 1 || s.Verify() == nil || s.Requests()[0].Turn != -1 {
				t.Errorf("errors %v", s.Errors())
			}
		})
	}
}

func TestOptions(t *testing.T) {
	s := start(t, llmtest.Options{Key: "k", TokenLimit: 40, ReasoningRequired: true, Echo: true, Models: []string{"m1"}})
	if status, _ := post(t, s, head+`]}`); status != 401 {
		t.Errorf("no key: %d", status)
	}
	auth := []string{"Authorization", "Bearer k"}
	if status, body := post(t, s, head+`]}`, auth...); status != 200 || !strings.Contains(body, "You said: u") {
		t.Errorf("echo: %d %s", status, body)
	}
	if status, body := post(t, s, head+`,{"role":"user","content":"`+strings.Repeat("茶", 40)+`"}]}`, auth...); status != 400 || !strings.Contains(body, "context_length_exceeded") {
		t.Errorf("limit: %d %s", status, body)
	}
	if status, body := post(t, s, head+call("a", "x", "{}")+`]}`, auth...); status != 400 || !strings.Contains(body, "reasoning_content") {
		t.Errorf("reasoning: %d %s", status, body)
	}
	with := strings.Replace(call("a", "x", "{}"), `"content":""`, `"content":"","reasoning_content":"r"`, 1)
	if status, body := post(t, s, head+with+`]}`, auth...); status != 200 {
		t.Errorf("reasoning: %d %s", status, body)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/models", nil)
	req.Header.Set("Authorization", "Bearer k")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if !strings.Contains(string(b), `"id":"m1"`) || s.ModelRequests() != 1 {
		t.Errorf("models %s", b)
	}
}

func TestVerifyCountsTurns(t *testing.T) {
	s := start(t, llmtest.Options{}, llmtest.Turn{Text: "one"}, llmtest.Turn{Text: "two"})
	post(t, s, head+`]}`)
	if err := s.Verify(); err == nil || !strings.Contains(err.Error(), "turn 2 was played 0 of 1") || s.Remaining() != 1 {
		t.Errorf("too few: %v", err)
	}
	post(t, s, head+`]}`)
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if status, body := post(t, s, head+`]}`); status != 400 || !strings.Contains(body, "no turn") {
		t.Errorf("%d %s", status, body)
	}
	if err := s.Verify(); err == nil || !strings.Contains(err.Error(), "no turn fits") {
		t.Errorf("too many: %v", err)
	}
}

func TestPrefixReport(t *testing.T) {
	s := start(t, llmtest.Options{CheckPrefix: true}, llmtest.Turn{Text: "ok", Times: -1})
	post(t, s, head+`]}`)
	post(t, s, head+`,{"role":"user","content":"v"}]}`)
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	post(t, s, strings.Replace(head, `"m"`, `"m2"`, 1)+`,{"role":"user","content":"v"}]}`)
	if rep := s.PrefixReport(); rep.Pairs != 2 || len(rep.Breaks) != 1 || rep.Breaks[0].At != len(`{"model":"m`) || s.Verify() == nil {
		t.Errorf("%+v, %v", rep, s.Verify())
	}
}

func TestScriptFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.yaml")
	script := `
options:
  models: [m]
  vars: {who: "lj \"x\""}
turns:
  - text: "step two for {{who}}"
    when: {cause: step, step: s2}
  - calls:
      - {name: read_file, args: {path: "{{file}}", deep: [{n: "{{file}}"}], k: 3}}
      - {name: write_file, raw_args: '{"path": hello}', id: c9}
    capture: {file: 'found (\S+)'}
    when: {last: 'found'}
    chunk_size: 1000
  - status: 429
    headers: {Retry-After: "2"}
    when: {user: '^slow'}
  - text: "said {{last_user}} and {{last_result}} by {{model}} {{unknown}}"
    usage: {prompt: 7, cached: 5, completion: 3}
    chunk_size: 1000
    silence: 1ms
    times: 2
`
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := llmtest.FromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stream := strings.Replace(head, `"model"`, `"stream":true,"stream_options":{"include_usage":true},"model"`, 1)
	if _, body := post(t, s, stream+`]}`); !strings.Contains(body, `said u and  by m {{unknown}}`) || !strings.Contains(body, `"cached_tokens":5`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("body %s", body)
	}
	if status, body := post(t, s, stream+`]}`, "X-LJ-Cause", "step", "X-LJ-Step", "s2"); status != 200 || !strings.Contains(body, `for lj`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := post(t, s, strings.Replace(head, `"u"`, `"slow please"`, 1)+`]}`); status != 429 {
		t.Errorf("status %d", status)
	}
	res := strings.Replace(call("a", "grep_files", "{}"), `"content":""}`, `"content":"found a\"b.go here"}`, 2)
	res = strings.Replace(res, `"content":"found a\"b.go here","tool_calls"`, `"content":"","tool_calls"`, 1)
	if _, body := post(t, s, head+res+`]}`); !strings.Contains(body, `{\"deep\":[{\"n\":\"a\\\"b.go\"}],\"k\":3,\"path\":\"a\\\"b.go\"}`) || !strings.Contains(body, `{\"path\": hello}`) || !strings.Contains(body, `"id":"c9"`) {
		t.Errorf("body %s", body)
	}
	post(t, s, head+`]}`)
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

func TestScriptFileFaults(t *testing.T) {
	for text, says := range map[string]string{
		"turns:\n  - txet: x":              "txet",
		"turns:\n  - delay: 3":             "duration",
		"- text: a\n  delay: -1s":          "duration",
		"turns: [":                         "yaml",
		"- capture: {a: '('}":              "capture.a",
		"- calls: [{args: {x: {1: two}}}]": "args",
	} {
		sc, err := llmtest.Parse([]byte(text))
		if err == nil {
			var s *llmtest.Server
			if s, err = llmtest.Start(sc); err == nil {
				s.Close()
			}
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	sc, err := llmtest.Parse([]byte(`[{"text":"json too"}]`))
	if err != nil || len(sc.Turns) != 1 {
		t.Errorf("%+v, %v", sc, err)
	}
	if _, err := llmtest.Parse(nil); err != nil {
		t.Errorf("empty: %v", err)
	}
}

// The wrong ways of a turn really go over the wire.
func TestMisbehaviour(t *testing.T) {
	s := start(t, llmtest.Options{},
		llmtest.Turn{Text: "0123456789", ChunkSize: 2, CutAfter: 3},
		llmtest.Turn{Pings: 3, Text: "x", SameIndex: true, NoDone: true, Calls: []llmtest.Call{{Name: "a", Args: "text"}, {Name: "b", RawArgs: "{}"}}})
	stream := strings.Replace(head, `"model"`, `"stream":true,"model"`, 1) + `]}`
	res, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err == nil || bytes.Count(b, []byte("data: ")) != 3 {
		t.Errorf("cut: %v, %s", err, b)
	}
	_, body := post(t, s, stream)
	if strings.Count(body, ": ping\n") != 3 || strings.Contains(body, "[DONE]") || strings.Contains(body, `"index":1`) || !strings.Contains(body, `\"text\"`) {
		t.Errorf("body %s", body)
	}
	sc := bufio.NewScanner(strings.NewReader(body))
	for sc.Scan() {
		if d, ok := strings.CutPrefix(sc.Text(), "data: "); ok && !json.Valid([]byte(d)) {
			t.Errorf("not JSON: %s", d)
		}
	}
}

func TestCloseEndsSilence(t *testing.T) {
	s := llmtest.New(llmtest.Turn{Text: "x", Silence: 1 << 40, SilenceAfter: 1})
	done := make(chan error, 1)
	go func() {
		res, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(strings.Replace(head, `"model"`, `"stream":true,"model"`, 1)+`]}`))
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		done <- err
	}()
	for end := time.Now().Add(10 * time.Second); len(s.Requests()) == 0 || s.Requests()[0].Status == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("no request came")
		}
	}
	s.Close()
	<-done
}
