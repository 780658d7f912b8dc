package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// stranger is a user of a machine on which nothing is configured. ollama is where Ollama
// would answer.
func stranger(t *testing.T, ollama string) *user {
	t.Helper()
	u := newUser(t, "")
	var env []string
	for _, kv := range u.env {
		if !strings.HasPrefix(kv, "OPENAI_") && !strings.HasPrefix(kv, "LJ_MODEL=") {
			env = append(env, kv)
		}
	}
	u.env = append(env, "OLLAMA_HOST="+ollama, "LJ_EVOLVE_IDLE=0")
	return u
}

func (u *user) config() string { return filepath.Join(u.home, ".lj", "config.yaml") }

// checkStored holds the settings file against what it must say, readable by its owner alone.
func (u *user) checkStored(want ...string) {
	u.t.Helper()
	b, err := os.ReadFile(u.config())
	if err != nil {
		u.t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(string(b), w) {
			u.t.Errorf("the settings hold no %q: %s", w, b)
		}
	}
	if fi, err := os.Stat(u.config()); err != nil || fi.Mode().Perm() != 0o600 {
		u.t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

const nowhere = "127.0.0.1:1" // nothing listens there

// Ollama on this machine is found and used after a yes.
func TestSetupFindsOllama(t *testing.T) {
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Models: []string{"qwen3:8b", "llama3:8b"}}, Turns: []llmtest.Turn{{Text: "hello there", When: &llmtest.When{Model: "llama3:8b"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	addr := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/v1")
	u := stranger(t, addr)
	x, wait := u.terminal()
	x.see("Ollama runs on this machine with 2 models")
	x.say("\n")
	x.see("Which model?")
	x.say("2\n")
	x.see("stored in")
	x.see("/help lists the commands")
	x.say("hi\r")
	x.see("hello there")
	x.say("/exit\r")
	if st := wait(); st != 0 {
		t.Errorf("exit status %d", st)
	}
	u.checkStored("base_url: "+s.URL(), "model: llama3:8b")
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	// The next start asks nothing.
	x, wait = u.terminal()
	x.see("/help lists the commands")
	x.say("/exit\r")
	wait()
}

// A server is named, its key tried at once: a wrong one is not stored.
func TestSetupAsks(t *testing.T) {
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{Models: []string{"m1", "m2"}, Key: "sk-right-0123456789"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := stranger(t, nowhere)
	x, wait := u.terminal()
	x.see("lj needs a model server")
	x.see("deepseek")
	x.see("Which one?")
	x.say("nonsense\n")
	x.see("is none of them")
	x.see("Which one?")
	x.say(s.URL() + "\n")
	x.see("Key of")
	x.say("sk-wrong-0123456789\n")
	x.see("asking")
	x.see("Store it all the same?")
	x.say("n\n")
	x.see("Which one?")
	if _, err := os.Stat(u.config()); err == nil {
		t.Error("a wrong key was stored")
	}
	x.say(s.URL() + "\n")
	x.see("Key of")
	x.say("sk-right-0123456789\n")
	x.see("Which model?")
	x.say("m2\n")
	x.see("/help lists the commands")
	x.say("/exit\r")
	if st := wait(); st != 0 {
		t.Errorf("exit status %d", st)
	}
	u.checkStored("base_url: "+s.URL(), "api_key: sk-right-0123456789", "model: m2")
	if strings.Contains(x.all(), "sk-right") {
		t.Error("the key was shown")
	}
}

// A settings file that can't be parsed is left as it is; quitting and a closed terminal are
// the clear error; the walk-through can be had instead.
func TestSetupLeavesAndKeeps(t *testing.T) {
	u := stranger(t, nowhere)
	x, wait := u.terminal()
	x.see("Which one?")
	x.say("quit\n")
	x.see("no model server is configured")
	if st := wait(); st != 2 {
		t.Errorf("exit status %d", st)
	}
	if _, err := os.Stat(u.config()); err == nil {
		t.Error("settings were stored")
	}
	if _, errs, st := u.run(); st != 2 || !strings.Contains(errs, "no model server is configured") && !strings.Contains(errs, "the prompt is empty") {
		t.Errorf("without a terminal: status %d, %s", st, errs)
	}
	const broken = "base_url: [\n"
	if err := os.MkdirAll(filepath.Dir(u.config()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(u.config(), []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	x, wait = u.terminal()
	x.see("config.yaml")
	x.f.Close()
	wait()
	if b, _ := os.ReadFile(u.config()); string(b) != broken {
		t.Errorf("the broken file is now %q", b)
	}
}
