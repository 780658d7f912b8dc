package history_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
)

func pasts() []history.Past {
	var out []history.Past
	filler := strings.Repeat("the build went through and the tests were fine, the report lists what was done in which order ", 20)
	for i := 1; i <= 60; i++ {
		out = append(out, history.Past{N: i, Turn: history.Turn{User: fmt.Sprintf("please look at module %d", i), Assistant: filler}})
	}
	out[4].User = "the staging host is called oolong-17"
	out[19].User = "我们的茶馆后台端口是 8848"
	out[29].User, out[29].Files = "look at the parser", []string{"core/parse/lex.go"}
	out[39].User, out[39].Assistant = "ok", "好"
	return out
}

func mentioned(list []history.Mention) []int {
	var out []int
	for _, m := range list {
		out = append(out, m.N)
	}
	return out
}

// A message brings the turns that bear on it, though their answers are long, in both
// languages; nothing when nothing bears on it; never more than the room.
func TestRelevant(t *testing.T) {
	list := pasts()
	for _, c := range []struct {
		query string
		turn  int
	}{
		{"what was the staging host called?", 5}, {"which host is staging on", 5}, {"茶馆的端口是多少", 20}, {"后台端口", 20}, {"change core/parse/lex.go so that it is faster", 30},
	} {
		got := history.Relevant(list, c.query, 0, 2000, nil)
		found := false
		for _, m := range got {
			found = found || m.N == c.turn && strings.Contains(m.Text, list[c.turn-1].User)
		}
		if !found {
			t.Errorf("%q brings %v, not turn %d", c.query, mentioned(got), c.turn)
		}
		if len(got) > 8 {
			t.Errorf("%q brings %d turns", c.query, len(got))
		}
		again := history.Relevant(list, c.query, 0, 2000, func(n int) bool { return n == c.turn })
		for _, m := range again {
			if m.N == c.turn {
				t.Errorf("%q: turn %d was to be left out", c.query, c.turn)
			}
		}
	}
	for _, q := range []string{"", "继续", "12", "！！！", "x"} {
		if got := history.Relevant(list, q, 0, 2000, nil); len(got) > 1 {
			t.Errorf("%q brings %v", q, mentioned(got))
		}
	}
	n := 0
	for _, m := range history.Relevant(list, "the build and the tests of module 7", 0, 600, nil) {
		n += history.Estimate(m.Text)
	}
	if n > 600 {
		t.Errorf("%d tokens in a room of 600", n)
	}
	if got := history.Relevant(list, "what was the staging host called?", 60, 2000, nil); len(got) == 0 || got[0].N != 5 {
		t.Errorf("a summarised turn that clearly bears on the message is not found: %v", mentioned(got))
	}
}

// One turn of very many steps is made to fit: its user's words stay whole, its newest
// steps too, the others become lines; calls and results stay together.
func TestOneHugeTurn(t *testing.T) {
	var log []core.StoredMessage
	add := func(m core.Message, raw map[string]any) {
		m.Raw = encode(raw)
		log = append(log, core.StoredMessage{Seq: int64(len(log) + 1), Turn: 1, Message: m})
	}
	user := "do the whole migration, never touch the table accounts"
	add(core.Message{Role: "user", Content: user}, map[string]any{"role": "user", "content": user})
	for i := range 400 {
		id := fmt.Sprintf("c%d", i)
		args, err := json.Marshal(map[string]string{"path": fmt.Sprintf("f%d.go", i), "content": strings.Repeat("x", 900)})
		if err != nil {
			t.Fatal(err)
		}
		add(core.Message{Role: "assistant", ToolCalls: []core.ToolCall{{ID: id, Name: "write_file", Arguments: string(args)}}},
			map[string]any{"role": "assistant", "content": "", "reasoning_content": "so", "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "write_file", "arguments": string(args)}}}})
		add(core.Message{Role: "tool", ToolCallID: id, Content: "written " + id}, map[string]any{"role": "tool", "tool_call_id": id, "content": "written " + id})
	}
	// A picture that a tool read goes with its step.
	shown := core.StoredMessage{Turn: 1, Note: "images", Message: core.Message{Role: "user", Content: "[lj] The pictures", Raw: encode(map[string]any{"role": "user", "content": "[lj] The pictures"})}}
	log = append(log[:21:21], append([]core.StoredMessage{shown}, log[21:]...)...)
	for _, budget := range []int{4000, 20000, 100000} {
		o := options(budget)
		o.Running, o.Facts = true, strings.Repeat("fact ", 100)
		e := history.Begin(log, o)
		if n := tokens(e.Messages); n > budget/2 {
			t.Errorf("budget %d: %d tokens", budget, n)
		}
		paired(t, e.Messages)
		if e.Messages[1].Content != user {
			t.Errorf("budget %d: the user's words are %q", budget, e.Messages[1].Content)
		}
		if last := e.Messages[len(e.Messages)-1]; last.ToolCallID != "c399" {
			t.Errorf("budget %d: the newest step is lost: %+v", budget, last)
		}
		if !strings.Contains(e.Messages[2].Content, "write_file") || !strings.Contains(e.Messages[2].Content, "written c") {
			t.Errorf("budget %d: the earlier steps are not told: %.200s", budget, e.Messages[2].Content)
		}
		for _, m := range e.Messages {
			if strings.Contains(m.Content, "The pictures") {
				t.Errorf("budget %d: the picture of a step that is gone stays", budget)
			}
			var v map[string]any
			if err := json.Unmarshal(m.Raw, &v); err != nil {
				t.Errorf("budget %d: %v: %s", budget, err, m.Raw)
			}
			if m.Role == "assistant" && v["reasoning_content"] != "so" {
				t.Errorf("budget %d: what the server wants back is lost: %.200s", budget, m.Raw)
			}
		}
	}
}

// Few steps with huge arguments and texts are shortened inside, so that they stay calls
// that a server takes.
func TestHugeArguments(t *testing.T) {
	var log []core.StoredMessage
	add := func(m core.Message, raw map[string]any) {
		m.Raw = encode(raw)
		log = append(log, core.StoredMessage{Turn: 1, Message: m})
	}
	add(core.Message{Role: "user", Content: "write it"}, map[string]any{"role": "user", "content": "write it"})
	for _, id := range []string{"a", "b"} {
		args := string(encode(map[string]any{"path": "big.txt", "content": strings.Repeat("很长的一行\n", 20000)}))
		add(core.Message{Role: "assistant", Content: "now", ToolCalls: []core.ToolCall{{ID: id, Name: "write_file", Arguments: args}}},
			map[string]any{"role": "assistant", "content": strings.Repeat("now ", 9000), "reasoning_content": "so",
				"tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "write_file", "arguments": args}}}})
		add(core.Message{Role: "tool", ToolCallID: id, Content: "ok"}, map[string]any{"role": "tool", "tool_call_id": id, "content": "ok"})
	}
	o := options(20000)
	o.Running = true
	e := history.Begin(log, o)
	if n := tokens(e.Messages); n > o.Budget/2 {
		t.Errorf("%d tokens", n)
	}
	paired(t, e.Messages)
	calls := 0
	for _, m := range e.Messages {
		var v struct {
			Role      string
			Reasoning string `json:"reasoning_content"`
			Calls     []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(m.Raw, &v); err != nil {
			t.Fatal(err)
		}
		for _, c := range v.Calls {
			calls++
			var in struct{ Path, Content string }
			if err := json.Unmarshal([]byte(c.Function.Arguments), &in); err != nil || in.Path != "big.txt" || !strings.Contains(in.Content, "left out") || c.Type != "function" || v.Reasoning != "so" {
				t.Errorf("%v: %.300s", err, m.Raw)
			}
			if !strings.HasPrefix(string(m.Raw), `{"role":"assistant"`) {
				t.Errorf("%.80s", m.Raw)
			}
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// The beginning of an epoch holds facts, summaries and what is decided; what a summary
// covers loses its answers before anything else, never the user's words.
func TestEpochWithSummaries(t *testing.T) {
	log := talk(60, 600)
	o := options(12000)
	o.Facts = "directory: /p"
	o.Summaries = []history.Summary{{From: 1, Upto: 30, Semantic: "The port list was agreed.", Tools: "read_file showed b.go"}}
	e := history.Begin(log, o)
	head := e.Messages[0].Content
	for _, want := range []string{"directory: /p", "Summary of turns 1 to 30:\nThe port list was agreed.", "read_file showed b.go", "[ ] 4. four", "question 1 茶馆", "question 30 茶馆"} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in %.2000s", want, head)
		}
	}
	if e.Covered != 30 {
		t.Errorf("%d turns are covered", e.Covered)
	}
	if n := tokens(e.Messages); n > o.Budget*4/10 {
		t.Errorf("%d tokens of %d", n, o.Budget)
	}
	o.Summaries[0].Semantic = strings.Repeat("长 ", 30000)
	if n := tokens(history.Begin(log, o).Messages); n > o.Budget*45/100 {
		t.Errorf("with a huge summary: %d tokens of %d", n, o.Budget)
	}
}

// What the user wants kept stays when his words have to be cut.
func TestClippedWords(t *testing.T) {
	var log []core.StoredMessage
	for i := 1; i <= 100; i++ {
		user := strings.Repeat(fmt.Sprintf("Some talk about thing %d that goes on for a while. ", i), 8)
		if i == 50 {
			user += "Remember: the vault key is kept in drawer-99. " + user
		}
		log = append(log,
			core.StoredMessage{Turn: i, Message: core.Message{Role: "user", Content: user, Raw: encode(map[string]any{"role": "user", "content": user})}},
			core.StoredMessage{Turn: i, Message: core.Message{Role: "assistant", Content: "ok", Raw: encode(map[string]any{"role": "assistant", "content": "ok"})}})
	}
	for _, budget := range []int{30000, 8000, 3000} {
		e := history.Begin(log, options(budget))
		if !strings.Contains(e.Messages[0].Content, "the vault key is kept in drawer-99") {
			t.Errorf("budget %d: what was to be remembered is lost: %.3000s", budget, e.Messages[0].Content)
		}
		if n := tokens(e.Messages); n > budget*4/10 {
			t.Errorf("budget %d: %d tokens", budget, n)
		}
	}
}

func TestSound(t *testing.T) {
	result := func(id, text string) []byte {
		return encode(map[string]any{"role": "tool", "tool_call_id": id, "content": text})
	}
	log := talk(3, 50)
	if got, changed := history.Sound(log, result); changed || len(got) != len(log) {
		t.Error("a sound log is changed")
	}
	// A lost result, a lost call.
	broken := append([]core.StoredMessage(nil), log[:2]...)
	broken = append(broken, log[3:5]...)
	broken = append(broken, log[6:]...)
	got, changed := history.Sound(broken, result)
	if !changed {
		t.Error("nothing was changed")
	}
	paired(t, got)
}

func TestSummaryInput(t *testing.T) {
	list := pasts()
	text, from, upto := history.SummaryInput(list, 0, 1<<20, "[ ] 4. four")
	if from != 1 || upto != history.SummaryTurns || !strings.Contains(text, "[ ] 4. four") || !strings.Contains(text, "oolong-17") {
		t.Errorf("turns %d to %d: %.300s", from, upto, text)
	}
	seen := 0
	for after := 0; ; {
		text, from, to := history.SummaryInput(list, after, 3000, "")
		if to == 0 {
			break
		}
		if from != after+1 || history.Estimate(text) > 3100 {
			t.Errorf("after %d: turns %d to %d, %d tokens", after, from, to, history.Estimate(text))
		}
		seen += to - after
		after = to
	}
	if seen != len(list) {
		t.Errorf("%d of %d turns", seen, len(list))
	}
	huge := []history.Past{{N: 7, Turn: history.Turn{User: strings.Repeat("很长", 4000), Assistant: strings.Repeat("word ", 4000)}}}
	if text, from, upto := history.SummaryInput(huge, 6, 500, ""); from != 7 || upto != 7 || history.Estimate(text) > 600 {
		t.Errorf("a huge turn: %d to %d, %d tokens", from, upto, history.Estimate(text))
	}
}

func TestParseSummary(t *testing.T) {
	for _, c := range []struct{ in, semantic, tools string }{
		{"## Background\nA port.\n## Tool chain\nread_file showed it", "## Background\nA port.", "read_file showed it"},
		{"<think>hm</think>Just a text", "Just a text", ""},
		{"## 背景\n端口\n## 工具调用链回顾\nbash 跑了测试\n## Open work\nstep 4", "## 背景\n端口\n\n## Open work\nstep 4", "bash 跑了测试"},
	} {
		s, tools, ok := history.ParseSummary(c.in)
		if !ok || s != c.semantic || tools != c.tools {
			t.Errorf("%q: %q, %q, %v", c.in, s, tools, ok)
		}
	}
	if _, _, ok := history.ParseSummary("<think>only thoughts</think>"); ok {
		t.Error("thoughts alone are taken for a summary")
	}
	if s, _, _ := history.ParseSummary(strings.Repeat("很", 50000)); len([]rune(s)) > history.SummaryMost+10 {
		t.Errorf("%d characters", len([]rune(s)))
	}
}
