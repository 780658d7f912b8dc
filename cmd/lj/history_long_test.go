package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// prove says whether long campaigns run in full.
func prove() bool { return os.Getenv("LJ_TEST_PROVE") != "" }

const digestMark = "[lj: the earlier turns of this conversation no longer fit"

// watched holds every request of one session against the rules of long conversations.
type watched struct {
	mu       sync.Mutex
	last     []byte
	lastHead string
	epochs   int
	problems []string
	facts    []string // what the user said and every later request must hold
}

func (w *watched) fail(format string, a ...any) {
	if len(w.problems) < 20 {
		w.problems = append(w.problems, fmt.Sprintf(format, a...))
	}
}

// see looks at a request: it continues the one before byte by byte, or begins a new epoch.
func (w *watched) see(r llmtest.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := r.Message[1].Content
	begun := bytes.TrimSuffix(w.last, []byte("]}"))
	if w.last != nil && !bytes.HasPrefix(r.Body, begun) {
		w.epochs++
		if !strings.Contains(head, digestMark) || head == w.lastHead {
			w.fail("request %d neither continues the one before nor begins an epoch: %.200q", r.Seq, head)
		}
	}
	for _, f := range w.facts {
		if !bytes.Contains(r.Body, []byte(f)) {
			w.fail("request %d does not hold %q", r.Seq, f)
		}
	}
	w.last, w.lastHead = r.Body, head
}

// A long conversation in a small window, Chinese and English, with results of any size,
// killed and interrupted at random and resumed each time: no request is refused, each
// continues the one before or begins an epoch, what the user said to keep stays.
func TestLongConversationUnderKills(t *testing.T) {
	t.Parallel()
	turns := 40
	if prove() {
		turns = 300
	}
	rnd, answers := rand.New(rand.NewPCG(7, 11)), rand.New(rand.NewPCG(13, 17)) // of the user, of the server under mu
	w := &watched{}
	var mu sync.Mutex
	s, err := llmtest.Start(llmtest.Script{
		Options: llmtest.Options{TokenLimit: 32000},
		Turns: []llmtest.Turn{
			{When: &llmtest.When{Cause: "summary"}, Times: -1, Text: "## Background\n谈了茶馆和部署。\n## Tool chain\nbash counted"},
			{When: &llmtest.When{Cause: "title"}, Times: -1, Text: "Tea"},
			{When: &llmtest.When{Cause: "extraction"}, Times: -1, Text: "[]"},
			{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
				w.see(r)
				mu.Lock()
				defer mu.Unlock()
				steps := 0
				for i := len(r.Message) - 1; i >= 0 && r.Message[i].Role != "user"; i-- {
					if r.Message[i].Role == "assistant" {
						steps++
					}
				}
				if steps >= 1+answers.IntN(3) {
					return llmtest.Turn{Text: fmt.Sprintf("好的，第 %d 步做完了。 It took %d steps.", r.Seq, steps), ChunkSize: 4}
				}
				size := []int{100, 2000, 40000, 700000}[answers.IntN(4)]
				if answers.IntN(20) == 0 {
					size = 5 << 20
				}
				line := []string{"a line of output", "输出的一行"}[answers.IntN(2)]
				return llmtest.Turn{Text: "看一下", Calls: []llmtest.Call{
					{Name: "bash", Args: map[string]any{"command": fmt.Sprintf("yes '%s %d' | head -c %d", line, r.Seq, size)}},
					{Name: "list_files", Args: map[string]any{}},
					{Name: "todo", Args: map[string]any{"items": []any{fmt.Sprintf("item %d", r.Seq)}}},
				}}
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=32000")
	plans := map[int]string{2: "remember: the deploy host is oolong-17", turns / 6: "记住：茶馆的端口是 8848", turns / 2: "from now on the release branch is rel/zeta"}
	window := 150 * time.Millisecond
	killed, cancelled := 0, 0
	for i := 1; i <= turns; i++ {
		prompt := []string{
			fmt.Sprintf("question %d: what does part %d do, and where is it called from?", i, i),
			fmt.Sprintf("第 %d 个问题：这一部分是做什么的？%s", i, strings.Repeat("说得详细一点。", rnd.IntN(40))),
		}[i%2]
		args := []string{"run", "--yolo"}
		if i > 1 {
			args = append(args, "--continue")
		}
		fact := plans[i]
		if fact == "" && i > 2 && rnd.IntN(3) == 0 {
			sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT}[rnd.IntN(2)]
			cmd := u.command(t.Context(), append(args, prompt)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rnd.Int64N(int64(window))))
			_ = cmd.Process.Signal(sig) // it may have ended
			_ = cmd.Wait()
			if sig == syscall.SIGKILL {
				killed++
			} else {
				cancelled++
			}
			continue
		}
		if fact != "" {
			prompt += " " + fact
		}
		start := time.Now()
		if out, errs, status := u.run(append(args, prompt)...); status != 0 {
			t.Fatalf("turn %d: status %d: %s%s", i, status, out[max(0, len(out)-500):], errs)
		}
		window = max(window, time.Since(start))
		if fact != "" {
			w.mu.Lock()
			w.facts = append(w.facts, fact)
			w.mu.Unlock()
		}
		if i%(turns/3) == 0 {
			if out, errs, status := u.run("evolve"); status != 0 {
				t.Fatalf("evolve: %d %s%s", status, out, errs)
			}
		}
	}
	if out, errs, status := u.run("run", "--yolo", "--continue", "and at last?"); status != 0 {
		t.Fatalf("the last turn: %d %s%s", status, out, errs)
	}
	refused := 0
	for _, r := range s.Requests() {
		if r.Status >= 400 {
			refused++
		}
	}
	if refused > 0 {
		t.Errorf("%d requests were refused", refused)
	}
	for _, p := range append(w.problems, s.Errors()...) {
		t.Error(p)
	}
	if w.epochs == 0 {
		t.Error("there was no epoch")
	}
	st := u.db()
	msgs, err := st.Messages(t.Context(), u.newest())
	if err != nil {
		t.Fatal(err)
	}
	if _, changed := history.Sound(history.Log(msgs), func(string, string) []byte { return nil }); changed {
		t.Error("the log is not sound")
	}
	t.Logf("%d turns, %d requests, %d epochs, %d killed, %d cancelled, %d messages", turns, len(s.Requests()), w.epochs, killed, cancelled, len(msgs))
}

// talker runs turns of one session in this process.
type talker struct {
	u *user
	a *app.App
	c *app.Conversation
}

func (u *user) talker(o app.TurnOptions) *talker {
	u.t.Helper()
	a := u.open(u.t.Context())
	c, err := a.Conversation(u.t.Context(), o)
	if err != nil {
		u.t.Fatal(err)
	}
	return &talker{u, a, c}
}

func (x *talker) turn(prompt string) (res app.Result, compacts int) {
	x.u.t.Helper()
	res = x.c.Turn(x.u.t.Context(), app.TurnOptions{Prompt: prompt, Yolo: true, Events: func(e core.Event) {
		if e.Type == core.EventCompact {
			compacts++
		}
	}})
	if res.Err != nil {
		x.u.t.Fatalf("%.80q: %v", prompt, res.Err)
	}
	return res, compacts
}

func (x *talker) close() {
	x.u.t.Helper()
	if err := x.a.Close(); err != nil {
		x.u.t.Error(err)
	}
}

// Facts said early in a conversation of two hundred long turns are in the request that asks
// for them, with and without a summary.
func TestFactsAfterManyTurns(t *testing.T) {
	t.Parallel()
	for _, summaries := range []bool{true, false} {
		if !summaries && !prove() {
			continue
		}
		t.Run(fmt.Sprint("summaries=", summaries), func(t *testing.T) {
			t.Parallel()
			answer := strings.Repeat("The module was read, its callers were listed, and nothing unusual came up while looking at it. ", 25)
			s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{TokenLimit: 64000}, Turns: []llmtest.Turn{
				{When: &llmtest.When{Cause: "summary"}, Times: -1, Text: "Modules were looked at."},
				{Times: -1, Func: func(r llmtest.Request) llmtest.Turn { return llmtest.Turn{Text: answer, ChunkSize: 4000} }},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			u := newUser(t, s.URL())
			u.env = append(u.env, "LJ_MAX_CONTEXT_TOKENS=64000", "LJ_EVOLVE_DAILY_TOKENS=10000000")
			x := u.talker(app.TurnOptions{})
			facts := map[int]string{5: "the vault of the tea house opens with walnut-7731", 50: "生产数据库在苏州机房的 db-kestrel 上", 120: "Mei Lin signs off every release of the gateway"}
			epochs := 0
			used := 0
			for i := 1; i < 200; i++ {
				prompt := strings.Repeat(fmt.Sprintf("Please look at module %d and tell me in detail what it is good for, who calls it, and how it could be made simpler. ", i), 4)
				if i%3 == 0 {
					prompt = strings.Repeat(fmt.Sprintf("请看第 %d 个模块，说说它有什么用、谁调用它、怎样可以更简单。", i), 5)
				}
				if f := facts[i]; f != "" {
					prompt = prompt[:len(prompt)/4*3] + " By the way, " + f + ". " + prompt[:200]
				}
				res, n := x.turn(strings.ToValidUTF8(prompt, ""))
				epochs += n
				if i == 1 {
					used = res.Usage.PromptTokens
				}
				if summaries && i%60 == 0 {
					if _, err := x.a.Evolve(t.Context(), app.EvolveOptions{Only: []string{"summaries"}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			x.turn("What opens the vault of the tea house? 生产数据库在哪台机器上？ And who signs off a release of the gateway?")
			list := s.Requests()
			last := list[len(list)-1].Body
			for turn, f := range facts {
				if !bytes.Contains(last, []byte(f)) {
					t.Errorf("what was said in turn %d is not in the request: %s", turn, f)
				}
			}
			if n := prefixBreaks(s); n != epochs {
				t.Errorf("%d requests are no prefix of the next, %d epochs", n, epochs)
			}
			if got := s.Requests()[len(list)-1].Last("user").Content; !strings.Contains(got, "[turn 5,") {
				t.Errorf("turn 5 is not mentioned again: %.600s", got)
			}
			x.turn("So what opens the vault of the tea house?")
			if got := s.Requests()[len(list)].Last("user").Content; strings.Contains(got, "[turn 5,") {
				t.Error("turn 5 is mentioned twice")
			}
			// Each epoch leaves room for 60 % of the budget. A turn adds about 900 tokens.
			total := 0
			for i := 1; i < len(list); i++ {
				if d := len(list[i].Body) - len(list[i-1].Body); d > 0 {
					total += d / 3
				}
			}
			if most := total*10/(6*51200) + 1; epochs > most {
				t.Errorf("%d epochs for about %d tokens", epochs, total)
			}
			for _, e := range s.Errors() {
				t.Error(e)
			}
			t.Logf("%d epochs, first request %d tokens, about %d tokens added", epochs, used, total)
		})
	}
}

// Over a hundred turns with memories, a changing list, summaries, a tool that is saved on
// the way and resumed sessions every request is a byte prefix of the next.
func TestPrefixOverManyTurns(t *testing.T) {
	t.Parallel()
	s, err := llmtest.Start(llmtest.Script{Options: llmtest.Options{CheckPrefix: true}, Turns: []llmtest.Turn{
		{When: &llmtest.When{Cause: "summary"}, Times: -1, Text: "Much was asked."},
		{When: &llmtest.When{Cause: "title"}, Times: -1, Text: "Many questions"},
		{When: &llmtest.When{Cause: "extraction"}, Times: -1, Text: `[{"content":"The user keeps geese","category":"fact"}]`},
		{Times: -1, Func: func(r llmtest.Request) llmtest.Turn {
			last := r.Last("")
			text := r.Last("user").Content
			switch {
			case last.Role != "user":
				return llmtest.Turn{Text: "done"}
			case strings.HasSuffix(text, "list"):
				return llmtest.Turn{Calls: []llmtest.Call{{Name: "todo", Args: map[string]any{"items": []any{fmt.Sprint("item ", r.Seq)}}}}}
			case strings.HasSuffix(text, "shout"):
				return llmtest.Turn{Calls: []llmtest.Call{{Name: "use_tool", Args: map[string]any{"name": "shout", "arguments": map[string]any{"text": "hello"}}}}}
			case strings.HasSuffix(text, "keep"):
				return llmtest.Turn{Calls: []llmtest.Call{{Name: "save_memory", Args: map[string]any{"content": fmt.Sprintf("part %d belongs to team %d", r.Seq, r.Seq)}}}}
			}
			return llmtest.Turn{Text: "fine"}
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := newUser(t, s.URL())
	u.compiler()
	x := u.talker(app.TurnOptions{})
	heard := map[string]bool{}
	for i := 1; i <= 100; i++ {
		switch {
		case i == 30:
			u.saveTool("first")
		case i == 60:
			u.saveTool("second")
		case i%25 == 0: // another process resumes it
			x.close()
			x = u.talker(app.TurnOptions{Continue: true})
		}
		if i%20 == 10 {
			if out, errs, status := u.run("memory", "add", fmt.Sprintf("the person asks about part %d on Mondays", i)); status != 0 {
				t.Fatalf("%d %s%s", status, out, errs)
			}
		}
		if i%30 == 15 {
			if _, err := x.a.Idle(t.Context(), x.c); err != nil {
				t.Fatal(err)
			}
			if _, err := x.a.Evolve(t.Context(), app.EvolveOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		word := ""
		switch {
		case i%7 == 3:
			word = " list"
		case i%10 == 5:
			word = " keep"
		case i > 30 && i%6 == 0:
			word = " shout"
		}
		x.turn(fmt.Sprintf("what about part %d?%s", i, word))
		if word == " shout" {
			l := s.Requests()
			first, _, _ := strings.Cut(l[len(l)-1].Last("tool").Content, " ")
			heard[first] = true
		}
	}
	x.close()
	if !heard["first"] || !heard["second"] {
		t.Errorf("the tool said %v", heard)
	}
	rep := s.PrefixReport()
	turns, marked := 0, 0
	for _, r := range s.Requests() {
		if r.Cause == "turn" {
			turns++
			if strings.Contains(r.Last("user").Content, "<memory>") {
				marked++
			}
		}
	}
	if prefixBreaks(s) != 0 || len(rep.Breaks) != 0 || turns < 100 {
		t.Errorf("%d breaks in %d requests", prefixBreaks(s), turns)
	}
	if marked < 20 {
		t.Errorf("memories were used in %d requests only", marked)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if out, _, _ := u.run("sessions", "list"); !strings.Contains(out, "Many questions") {
		t.Errorf("no title: %s", out)
	}
}

// compiler lets lj use the compiler's cache of the tests themselves.
func (u *user) compiler() {
	u.t.Helper()
	if err := os.MkdirAll(filepath.Join(u.home, ".lj", "cache"), 0o700); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Symlink(goCache(), filepath.Join(u.home, ".lj", "cache", "go-build")); err != nil {
		u.t.Fatal(err)
	}
}

// saveTool saves the tool shout, which begins what it says with word.
func (u *user) saveTool(word string) {
	u.t.Helper()
	dir := filepath.Join(u.home, "shout")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		u.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tool.go": `package main

import (
	"context"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text string ` + "`json:\"text\"`" + `
}

func Run(_ context.Context, in Args) (string, error) { return "` + word + ` " + strings.ToUpper(in.Text), nil }

func main() { sdk.Serve("shout", "Say it loud", Run) }
`,
		"tool_test.go": `package main

import (
	"context"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	if s, err := Run(context.Background(), Args{Text: "a"}); err != nil || !strings.HasSuffix(s, "A") {
	t.Error(s, err)
	}
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			u.t.Fatal(err)
		}
	}
	if out, errs, status := u.run("tools", "save", "shout", "--dir", dir); status != 0 {
		u.t.Fatalf("%d %s%s", status, out, errs)
	}
}

// streams is a model server that keeps nothing: it streams deltas, or asks for a result.
func streams(deltas, results, size int) (*httptest.Server, *int) {
	n := new(int)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta string, finish string) {
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
		}
		*n++
		if *n <= results {
			args, _ := json.Marshal(fmt.Sprintf(`{"command":"yes 'result %d' | head -c %d"}`, *n, size))
			chunk(fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":"bash","arguments":%s}}]}`, *n, args), `"tool_calls"`)
		} else {
			for i := range deltas {
				chunk(fmt.Sprintf(`{"content":"word %d "}`, i), "null")
			}
			chunk("{}", `"stop"`)
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	return srv, n
}

// A turn of very many large results and a very long answer leaves memory and goroutines
// where they were.
func TestMemoryStaysFlat(t *testing.T) {
	deltas, results := 4000, 40
	if prove() {
		deltas, results = 20000, 500
	}
	srv, asked := streams(deltas, results, 100_000)
	defer srv.Close()
	u := newUser(t, srv.URL+"/v1")
	u.env = append(u.env, "LJ_MAX_STEPS=0", "LJ_MEMORY_ENABLED=false")
	// The program itself, with its peak.
	cmd := u.command(t.Context(), "run", "--yolo", "--output", "stream-json", "go")
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// What the kernel says at the end counts this process too, from before the program was
	// loaded: the mark of the program's own memory is read while it runs.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	peak := 0
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			running = false
		case <-time.After(10 * time.Millisecond):
			peak = max(peak, memoryOf(cmd.Process.Pid, "VmHWM"))
		}
	}
	if *asked != results+1 {
		t.Errorf("%d requests", *asked)
	}
	t.Logf("peak %d MiB with %d results and %d deltas", peak, results, deltas)
	if peak == 0 || peak > 150 && !raceEnabled() {
		t.Errorf("peak of %d MiB", peak)
	}
	// A process that stays: what it holds after one such turn and after the next.
	*asked = 0
	x := u.talker(app.TurnOptions{})
	x.turn("warm up")
	settle := func() (goroutines int, heap uint64) {
		// What ends with a turn ends soon after it.
		for range 100 {
			runtime.GC()
			if n := runtime.NumGoroutine(); n != goroutines {
				goroutines = n
				time.Sleep(20 * time.Millisecond)
				continue
			}
			break
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return goroutines, m.HeapAlloc
	}
	g1, h1 := settle()
	rounds := 2
	for range rounds {
		*asked = 0
		x.turn("again")
	}
	g2, h2 := settle()
	t.Logf("goroutines %d then %d, heap %d then %d KiB, resident %d MiB", g1, g2, h1>>10, h2>>10, memoryOf(os.Getpid(), "VmRSS"))
	if g2 > g1+5 {
		t.Errorf("%d goroutines became %d", g1, g2)
	}
	if h2 > h1+24<<20 {
		t.Errorf("the heap grew from %d to %d KiB", h1>>10, h2>>10)
	}
}

// raceEnabled says whether the race detector, which keeps memory of its own, is on.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// memoryOf is a figure of a process's memory in MiB, 0 where it can't be read.
func memoryOf(pid int, what string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, what+":"); ok && len(strings.Fields(v)) > 0 {
			n, err := strconv.Atoi(strings.Fields(v)[0])
			if err != nil {
				return 0
			}
			return n >> 10
		}
	}
	return 0
}
