package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// history is a conversation of 2,000 messages and about 1.3 MB, in both forms.
func history() (raw []json.RawMessage, typed []openai.ChatCompletionMessage) {
	add := func(r json.RawMessage, m openai.ChatCompletionMessage) { raw, typed = append(raw, r), append(typed, m) }
	add(EncodeSystem("You are lj."), openai.ChatCompletionMessage{Role: "system", Content: "You are lj."})
	add(EncodeUser("work"), openai.ChatCompletionMessage{Role: "user", Content: "work"})
	out := strings.Repeat("func main() { fmt.Println(\"茶馆 <b>\") }\n", 27)
	for i := range 999 {
		id, args := fmt.Sprintf("call_%d", i), fmt.Sprintf(`{"path":"dir/file_%d.go","offset":1,"limit":200}`, i)
		add(EncodeAssistant("Reading on.", []core.ToolCall{{ID: id, Name: "read_file", Arguments: args}}), openai.ChatCompletionMessage{
			Role: "assistant", Content: "Reading on.", ToolCalls: []openai.ToolCall{{ID: id, Type: "function", Function: openai.FunctionCall{Name: "read_file", Arguments: args}}}})
		add(EncodeToolResult(id, out), openai.ChatCompletionMessage{Role: "tool", Content: out, ToolCallID: id})
	}
	return raw, typed
}

var sink []byte

// BenchmarkEncode compares the assembly of a request from stored bytes with go-openai's
// own encoding of the same conversation, the named baseline.
func BenchmarkEncode(b *testing.B) {
	raw, typed := history()
	c, err := New(Config{BaseURL: "http://127.0.0.1:1/v1", Model: "m"})
	if err != nil {
		b.Fatal(err)
	}
	r := &Request{Messages: raw}
	n := len(c.assemble(r, "m", shape{}))
	b.Run("assemble", func(b *testing.B) {
		b.SetBytes(int64(n))
		for b.Loop() {
			sink = c.assemble(r, "m", shape{})
		}
	})
	b.Run("baseline_go-openai_json", func(b *testing.B) {
		b.SetBytes(int64(n))
		for b.Loop() {
			if sink, err = json.Marshal(openai.ChatCompletionRequest{Model: "m", Stream: true, Messages: typed}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStep is a whole request and answer with one call against the scripted server
// in the same process, with a short history and with a long one.
func BenchmarkStep(b *testing.B) {
	long, _ := history()
	for name, msgs := range map[string][]json.RawMessage{"short": long[:4], "long_1.3MB": long} {
		b.Run(name, func(b *testing.B) {
			s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Lax: true, NoUsage: true}, Turns: []llmtest.Turn{
				{Times: -1, Text: "Reading.", Calls: []llmtest.Call{{Name: "echo", RawArgs: `{"text":"hi"}`}}}}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			c, err := New(Config{BaseURL: s.URL(), Model: "m"})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for b.Loop() {
				if _, err := c.Stream(b.Context(), Request{Messages: msgs}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDeltas is the cost of one delta of a stream.
func BenchmarkDeltas(b *testing.B) {
	line := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"some words "},"finish_reason":null}]}`)
	for b.Loop() {
		a := &answer{out: func(Delta) {}}
		if err := a.add(line, false); err != nil {
			b.Fatal(err)
		}
	}
}
