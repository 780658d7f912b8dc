// Command floor is the least that a Go program can do in place of lj: one streamed request
// and, for as long as the answer asks for it, a command and another request. The
// benchmarks measure lj against it in the same run.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("floor")
		return
	}
	msgs := []any{map[string]string{"role": "user", "content": "hi"}}
	for {
		body, err := json.Marshal(map[string]any{"model": "m", "stream": true, "messages": msgs})
		if err != nil {
			panic(err)
		}
		res, err := http.Post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		var text, id, name, args string
		sc := bufio.NewScanner(res.Body)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			data, ok := strings.CutPrefix(sc.Text(), "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			var c struct {
				Choices []struct {
					Delta struct {
						Content   string
						ToolCalls []struct {
							ID       string
							Function struct{ Name, Arguments string }
						} `json:"tool_calls"`
					}
				}
			}
			if json.Unmarshal([]byte(data), &c) != nil || len(c.Choices) == 0 {
				continue
			}
			d := c.Choices[0].Delta
			text += d.Content
			for _, t := range d.ToolCalls {
				id += t.ID
				name += t.Function.Name
				args += t.Function.Arguments
			}
		}
		res.Body.Close()
		if id == "" {
			fmt.Println(text)
			return
		}
		var in struct{ Command string }
		if json.Unmarshal([]byte(args), &in) != nil {
			panic(args)
		}
		out, _ := exec.Command("bash", "-c", in.Command).CombinedOutput() // the status does not matter here
		msgs = append(msgs,
			map[string]any{"role": "assistant", "content": text, "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]string{"name": name, "arguments": args}}}},
			map[string]string{"role": "tool", "tool_call_id": id, "content": string(out)})
	}
}
