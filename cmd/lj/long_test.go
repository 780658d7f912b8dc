package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// A long conversation against a server that refuses what is over its window: no request is
// refused, calls and results stay together, what the user said stays in the request, and
// between two epochs each request is a prefix of the next.
func TestLongConversation(t *testing.T) {
	t.Parallel()
	turns := 24
	if os.Getenv("LJ_TEST_PROVE") != "" {
		turns = 300
	}
	step := 0
	s, err := llmtest.Start(llmtest.Script{
		Options: llmtest.Options{TokenLimit: 32000},
		Turns: []llmtest.Turn{{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
			step++
			if n := len(r.Message); r.Message[n-1].Role == "user" {
				return llmtest.Turn{Text: "看一下", Calls: []llmtest.Call{
					{Name: "bash", Args: map[string]any{"command": fmt.Sprintf("seq %d %d", step, step+4000)}},
					{Name: "list_files", Args: map[string]any{}},
				}}
			}
			return llmtest.Turn{Text: fmt.Sprintf("done %d 好的", step)}
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=32000")
	facts := map[int]string{2: "the deploy host is oolong-17", 7: "茶馆的端口是 8848", turns / 2: "release branch is rel/zeta"}
	compacts := 0
	for i := 1; i <= turns; i++ {
		prompt := fmt.Sprintf("question %d", i)
		if f := facts[i]; f != "" {
			prompt += ": remember that " + f
		}
		args := []string{"run", "--yolo", "--output", "stream-json"}
		if i > 1 {
			args = append(args, "--continue")
		}
		out, errs, status := u.run(append(args, prompt)...)
		if status != 0 {
			t.Fatalf("turn %d: status %d: %s%s", i, status, out[max(0, len(out)-500):], errs)
		}
		compacts += strings.Count(out, `"type":"compact"`)
	}
	for _, e := range s.Errors() {
		t.Error(e)
	}
	list := s.Requests()
	last := list[len(list)-1].Body
	for _, f := range facts {
		if !bytes.Contains(last, []byte(f)) {
			t.Errorf("%q is not in the last request", f)
		}
	}
	broken := 0
	for i := 1; i < len(list); i++ {
		if !bytes.HasPrefix(list[i].Body, bytes.TrimSuffix(list[i-1].Body, []byte("]}"))) {
			broken++
		}
	}
	if compacts == 0 || broken != compacts {
		t.Errorf("%d requests are no prefix of the next, %d epochs", broken, compacts)
	}
	if compacts > turns/3 {
		t.Errorf("%d epochs in %d turns", compacts, turns)
	}
	t.Logf("%d turns, %d requests, %d epochs", turns, len(list), compacts)
	out, _, status := u.run("sessions", "list", "--json")
	if status != 0 || !strings.Contains(out, fmt.Sprintf(`"turns": %d`, turns)) {
		t.Errorf("sessions list: %s", out)
	}
}

// A short conversation in a small window is left alone.
func TestNoNeedlessEpoch(t *testing.T) {
	t.Parallel()
	s := llmtest.New(llmtest.Turn{Text: strings.Repeat("plain english text ", 1000)}, llmtest.Turn{Text: "ok"})
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=16000")
	for _, args := range [][]string{{"run", "hi"}, {"run", "--continue", "--output", "stream-json", "go on"}} {
		if out, errs, status := u.run(args...); status != 0 || strings.Contains(out, "compact") {
			t.Fatalf("%d %s%s", status, out, errs)
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}
