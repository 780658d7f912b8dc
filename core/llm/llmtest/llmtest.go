// Package llmtest is a scripted model server: a real HTTP server on 127.0.0.1 that speaks
// the OpenAI protocol, plays a list of turns, keeps every request and refuses with status
// 400 what the strictest server would refuse.
//
// It owns the script, the wire form of its answers (also of wrong ones: cut streams, bad
// JSON, silence) and the rules that requests are held against. It knows nothing of the
// client under test and does not import package testing, so that programs can use it too.
//
//	s := llmtest.New(
//		llmtest.Turn{Calls: []llmtest.Call{{Name: "read_file", Args: map[string]any{"path": "a.txt"}}}},
//		llmtest.Turn{Text: "It says hello."},
//	)
//	defer s.Close()
//	// … run the program with OPENAI_BASE_URL=s.URL() …
//	if err := s.Verify(); err != nil { … } // a request too many, too few or not valid
//
// # How a turn is chosen
//
// The first turn that is not used up and whose When (if any) fits the request is played.
// A turn without When fits each request. Turns that differ by When can so be played in any
// order, as steps of a plan that run at the same time need. A request that no turn fits is
// answered by the echo or Fallback if there is one, else with 400, and Verify reports it.
// Requests that break a rule are answered with 400 and use up no turn.
//
// # Script files
//
// A file is YAML or JSON: a list of turns, or an object with the keys turns and options.
// Unknown keys are errors. Durations are texts such as "300ms" or "2s".
//
//	options:
//	  key: sk-test              # other keys are answered with 401
//	  token_limit: 32000        # longer requests: 400 context_length_exceeded
//	  reasoning_required: true  # assistant messages with calls must carry reasoning_content
//	  reasoning_field: reasoning_content
//	  refuse: [stream_options, max_tokens]   # fields that are answered with 400
//	  models: [test-model]      # for GET /v1/models
//	  echo: false               # answer requests that no turn fits with their own words
//	  check_prefix: true        # a body that is not a prefix of its session's next is an error
//	  lax: false                # no rules
//	  usage: true               # report usage with each answer (default)
//	  vars: {name: value}       # for {{name}}
//	turns:
//	  - text: "Let me look."
//	    reasoning: "Which file?"
//	    reasoning_field: reasoning_content
//	    calls:
//	      - name: read_file
//	        args: {path: "{{file}}"}       # an object; placeholders inside texts
//	      - name: write_file
//	        raw_args: '{"path": "a.txt", "content": hello}'   # exactly this text
//	        id: c2
//	    capture: {file: 'found (\S+\.go)'} # before playing, from the newest tool result that fits
//	    when: {cause: turn, step: s1, model: m, user: 'regexp', system: 'regexp', last: 'regexp', tools: true}
//	    times: 2                # play it so often; -1 for ever
//	    usage: {prompt: 100, cached: 80, completion: 7}
//	    no_usage: true
//	    finish: length
//	  - status: 429
//	    headers: {Retry-After: "2"}
//	    body: '{"error":{"message":"slow down"}}'
//	  - text: half a sen
//	    calls: [{name: read_file, args: {path: a}}]
//	    cut_after: 2            # close the connection after so many events; -1: before any answer
//	    delay: 1s               # before the status line
//	    silence: 30s            # say nothing for so long after silence_after events (default 0)
//	    silence_after: 1
//	    pings: 400              # so many ": ping" lines with empty lines before the first event
//	    ping_every: 10ms
//	    chunk_size: 3           # characters of text and arguments in one event
//	    write_size: 1           # bytes in one write to the connection
//	    same_index: true        # all calls at index 0
//	    no_id: true             # calls without id
//	    object_args: true       # arguments as an object instead of text
//	    no_done: true           # no [DONE]
//	    json: true              # one JSON object instead of a stream
//	    raw_sse: ['data: {"choices":[…]}', ': comment']   # exactly these lines instead of all that
//
// A captured text may be used in text, reasoning and args as {{name}}. {{last_result}} is
// the newest tool result, {{last_user}} the newest words of the user, {{model}} the model
// asked for. The first group of a regular expression counts, else its whole match.
package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Turn is one answer of the server. The zero value is an empty answer.
type Turn struct {
	Text           string
	Reasoning      string
	ReasoningField string // default that of Options, else "reasoning_content"
	Calls          []Call
	Usage          *Usage // nil: computed from the request
	NoUsage        bool
	FinishReason   string // default "tool_calls" with calls, else "stop"; "none" for none

	Status  int // 0 is 200
	Headers map[string]string
	Body    string // the whole body, instead of an answer

	Delay        time.Duration
	CutAfter     int // events; 0 for not at all, -1 before any answer
	Silence      time.Duration
	SilenceAfter int
	Pings        int
	PingEvery    time.Duration
	ChunkSize    int // characters; default 16
	WriteSize    int // bytes; 0 for whole events
	SameIndex    bool
	NoID         bool
	ObjectArgs   bool
	NoDone       bool
	JSON         bool
	RawSSE       []string

	When    *When
	Times   int               // 0 is once, -1 for ever
	Capture map[string]string // name to regular expression
	// Match, beside When, decides from Go whether the turn fits.
	Match func(Request) bool
	// Func makes the turn from the request. It may block; it replaces all but Match, When
	// and Times.
	Func func(Request) Turn
}

// Call is one tool call of an answer. Args is marshalled to JSON, a string too; RawArgs
// is sent as it is.
type Call struct {
	ID      string
	Name    string
	Args    any
	RawArgs string
}

// Usage is what an answer says it cost, in tokens.
type Usage struct{ Prompt, Cached, Completion int }

// When says which requests a turn fits: all fields that are set must agree. User, System
// and Last are regular expressions on the newest words of the user, the system text and
// the newest message of any role.
type When struct {
	Cause, Step, Model string
	User, System, Last string
	Tools              *bool // with or without tools
}

// Options change how a server behaves. The zero value is a strict server.
type Options struct {
	Key               string
	TokenLimit        int
	ReasoningRequired bool
	ReasoningField    string
	Refuse            []string
	Models            []string
	Echo              bool
	CheckPrefix       bool
	Lax               bool
	NoUsage           bool
	Vars              map[string]string
	// Fallback answers what no turn fits.
	Fallback func(Request) Turn
	// Addr is the address to listen on; default 127.0.0.1:0.
	Addr string
}

// Script is what a server plays.
type Script struct {
	Options Options
	Turns   []Turn
}

// Request is one request as it came.
type Request struct {
	Seq     int       // from 1, of all requests for an answer
	At      time.Time // when its body had come
	Ended   time.Time // when its answer was written; zero while it is being answered
	Header  http.Header
	Body    []byte
	Cause   string // X-LJ-Cause
	Step    string // X-LJ-Step
	Model   string
	Stream  bool
	Tools   []string
	Message []Message
	Status  int // what it was answered with; 0 while it is being answered
	Turn    int // the turn that answered it, from 0; -1 for none

	raw parsed
}

// Message is one message of a request.
type Message struct {
	Role       string
	Content    string
	Reasoning  string
	ToolCallID string
	Calls      []Call // RawArgs is set
	Raw        json.RawMessage
}

// Last returns the newest message of a role, "" for any; the zero Message for none.
func (r Request) Last(role string) Message {
	for i := len(r.Message) - 1; i >= 0; i-- {
		if role == "" || r.Message[i].Role == role {
			return r.Message[i]
		}
	}
	return Message{}
}

// Server is a running scripted model server. It is safe for use by several goroutines.
type Server struct {
	opt    Options
	ln     net.Listener
	srv    *http.Server
	done   chan struct{}
	served chan struct{}
	conns  atomic.Int64
	calls  atomic.Int64

	mu       sync.Mutex
	turns    []played
	requests []*Request
	errors   []string
	models   int
	vars     map[string]string
}

type played struct {
	Turn
	n                  int
	user, system, last *regexp.Regexp
	capture            map[string]*regexp.Regexp
}

// New starts a strict server for these turns. It panics when it cannot listen or a
// regular expression is wrong.
func New(turns ...Turn) *Server {
	s, err := Start(Script{Turns: turns})
	if err != nil {
		panic(err)
	}
	return s
}

// Start starts a server for a script.
func Start(sc Script) (*Server, error) {
	s := &Server{opt: sc.Options, done: make(chan struct{}), served: make(chan struct{}), vars: map[string]string{}}
	for k, v := range sc.Options.Vars {
		s.vars[k] = v
	}
	if err := s.add(sc.Turns); err != nil {
		return nil, err
	}
	addr := sc.Options.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("scripted model server: %w", err)
	}
	s.ln = ln
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("POST /v1/chat/completions", s.serveChat)
	s.srv = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // cut connections are wanted
		ConnState: func(_ net.Conn, st http.ConnState) {
			if st == http.StateNew {
				s.conns.Add(1)
			}
		},
	}
	go func() {
		defer close(s.served)
		_ = s.srv.Serve(ln)
	}()
	return s, nil
}

// FromFile starts a server for a script file.
func FromFile(path string) (*Server, error) {
	sc, err := Load(path)
	if err != nil {
		return nil, err
	}
	return Start(sc)
}

// TB is the part of testing.TB that ForTest needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// ForTest starts a strict server that is closed at the end of the test, which fails when
// Verify does.
func ForTest(t TB, turns ...Turn) *Server {
	t.Helper()
	s := New(turns...)
	t.Cleanup(func() {
		s.Close()
		if err := s.Verify(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return s
}

// Add appends turns. It panics on a wrong regular expression.
func (s *Server) Add(turns ...Turn) {
	if err := s.add(turns); err != nil {
		panic(err)
	}
}

func (s *Server) add(turns []Turn) error {
	var list []played
	for i, t := range turns {
		p := played{Turn: t}
		compile := func(what, expr string) *regexp.Regexp {
			if expr == "" {
				return nil
			}
			re, err := regexp.Compile(expr)
			if err != nil {
				panic(fmt.Errorf("turn %d: %s: %w", i+1, what, err))
			}
			return re
		}
		err := func() (err error) {
			defer func() {
				if e, ok := recover().(error); ok {
					err = e
				}
			}()
			if t.When != nil {
				p.user, p.system, p.last = compile("when.user", t.When.User), compile("when.system", t.When.System), compile("when.last", t.When.Last)
			}
			p.capture = map[string]*regexp.Regexp{}
			for name, expr := range t.Capture {
				p.capture[name] = compile("capture."+name, expr)
			}
			return nil
		}()
		if err != nil {
			return err
		}
		list = append(list, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, list...)
	return nil
}

// URL is the base URL for clients; it ends in /v1.
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() + "/v1" }

// Close ends the server and all its connections, also silent ones.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	s.mu.Unlock()
	_ = s.srv.Close()
	<-s.served
}

// Connections is how many connections clients have opened.
func (s *Server) Connections() int { return int(s.conns.Load()) }

// ModelRequests is how often the list of models was asked for.
func (s *Server) ModelRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models
}

// Requests returns all requests for an answer so far, refused ones too.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Errors returns what was wrong so far: broken rules, requests that no turn fitted,
// captures that found nothing, and, with Options.CheckPrefix, broken prefixes.
func (s *Server) Errors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.errors...)
}

// Remaining is the number of turns that were not played once.
func (s *Server) Remaining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.turns {
		if t.n == 0 {
			n++
		}
	}
	return n
}

// Verify says whether everything went by the script: no errors, every turn played.
func (s *Server) Verify() error {
	var lines []string
	s.mu.Lock()
	lines = append(lines, s.errors...)
	for i, t := range s.turns {
		want := max(t.Times, 1)
		if t.Times == -1 {
			want = 0
		}
		if t.n < want {
			lines = append(lines, fmt.Sprintf("turn %d was played %d of %d times", i+1, t.n, want))
		}
	}
	s.mu.Unlock()
	if s.opt.CheckPrefix {
		for _, b := range s.PrefixReport().Breaks {
			lines = append(lines, b.String())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("scripted model server: %s", strings.Join(lines, "; "))
}

func (s *Server) fail(format string, a ...any) {
	s.mu.Lock()
	s.errors = append(s.errors, fmt.Sprintf(format, a...))
	s.mu.Unlock()
}
