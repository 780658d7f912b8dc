package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lj": func() { os.Exit(run()) },
	})
}

// TestScript plays the scripts of testdata/script. Beside the usual commands they have:
//
//	modelserver FILE      start a scripted model server; OPENAI_BASE_URL leads to it
//	verify                all turns were played, no request broke a rule
//	request N REGEXP      the body of request N (from 1; -1 is the last) matches; with ! it doesn't
//	requests N            so many requests came
//	json FILE PATH WANT   the value at PATH (a.b.0.c) of the JSON in FILE is WANT
//	status N COMMAND…     the command exits with status N
//	samebeginning N M     system text and tool list of requests N and M are the same bytes
//	beginning BYTES       system text and tool list of the first request are at most so long
//	noprocess             no process of this script's home is left after 5 s
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("LJ_HOME", filepath.Join(home, ".lj"))
			e.Setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghij")
			e.Setenv("LJ_MODEL", "test-model")
			e.Setenv("LANG", "C.UTF-8")
			e.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			for _, k := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
				if v := goEnv[k]; v != "" {
					e.Setenv(k, v)
				}
			}
			return os.MkdirAll(home, 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"modelserver": startModel,
			"verify":      verify,
			"request":     checkRequest,
			"requests":    countRequests,
			"json":        checkJSON,
			"status":      checkStatus,
			"noprocess":   noProcess,

			"samebeginning": sameBeginning,
			"beginning":     beginning,
		},
	})
}

// goEnv lets scripts that call the go command share this test's caches.
var goEnv = map[string]string{
	"GOCACHE": goCache(), "GOMODCACHE": os.Getenv("GOMODCACHE"), "GOPATH": os.Getenv("GOPATH"),
}

func goCache() string {
	if d := os.Getenv("GOCACHE"); d != "" {
		return d
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(d, "go-build")
}

type serverKey struct{ ts *testscript.TestScript }

var servers = map[serverKey]*llmtest.Server{}
var serversMu = make(chan struct{}, 1)

func server(ts *testscript.TestScript) *llmtest.Server {
	serversMu <- struct{}{}
	defer func() { <-serversMu }()
	s := servers[serverKey{ts}]
	if s == nil {
		ts.Fatalf("no modelserver in this script")
	}
	return s
}

func startModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: modelserver FILE")
	}
	s, err := llmtest.FromFile(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(s.Close)
	serversMu <- struct{}{}
	servers[serverKey{ts}] = s
	<-serversMu
	ts.Setenv("OPENAI_BASE_URL", s.URL())
}

func verify(ts *testscript.TestScript, neg bool, args []string) {
	err := server(ts).Verify()
	if neg {
		if err == nil {
			ts.Fatalf("the script was kept, though it should not be")
		}
		return
	}
	ts.Check(err)
}

func checkRequest(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: request N REGEXP")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	list := server(ts).Requests()
	if n < 0 {
		n = len(list) + 1 + n
	}
	if n < 1 || n > len(list) {
		ts.Fatalf("there is no request %s: %d came", args[0], len(list))
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	if re.Match(list[n-1].Body) == neg {
		ts.Fatalf("request %d: match of %s is %v:\n%s", n, args[1], !neg, list[n-1].Body)
	}
}

// fixed is what every request of a prompt version begins with: tools and system text.
func fixed(ts *testscript.TestScript, n string) (tools, system string) {
	i, err := strconv.Atoi(n)
	ts.Check(err)
	list := server(ts).Requests()
	if i < 1 || i > len(list) {
		ts.Fatalf("there is no request %d", i)
	}
	var body struct {
		Tools    json.RawMessage
		Messages []struct{ Content string }
	}
	ts.Check(json.Unmarshal(list[i-1].Body, &body))
	return string(body.Tools), body.Messages[0].Content
}

func sameBeginning(ts *testscript.TestScript, neg bool, args []string) {
	t1, s1 := fixed(ts, args[0])
	t2, s2 := fixed(ts, args[1])
	if (t1 == t2 && s1 == s2) == neg {
		ts.Fatalf("tools are the same: %v, system texts: %v", t1 == t2, s1 == s2)
	}
}

func beginning(ts *testscript.TestScript, neg bool, args []string) {
	t, s := fixed(ts, "1")
	if most, err := strconv.Atoi(args[0]); err != nil || len(t)+len(s) > most {
		ts.Fatalf("%d bytes of tools and %d of system text, at most %s are allowed", len(t), len(s), args[0])
	}
}

func countRequests(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || fmt.Sprint(len(server(ts).Requests())) != args[0] {
		ts.Fatalf("%d requests came, want %v", len(server(ts).Requests()), args)
	}
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH WANT")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	if dec.More() {
		ts.Fatalf("%s holds more than one JSON document", args[0])
	}
	if args[1] != "." {
		for part := range strings.SplitSeq(args[1], ".") {
			switch x := v.(type) {
			case map[string]any:
				y, ok := x[part]
				if !ok && part != "len" {
					ts.Fatalf("%s: no key %s in %v", args[0], part, x)
				}
				v = y
			case []any:
				if part == "len" {
					v = json.Number(fmt.Sprint(len(x)))
					continue
				}
				i, err := strconv.Atoi(part)
				if err != nil || i >= len(x) {
					ts.Fatalf("%s: no element %s in %v", args[0], part, x)
				}
				v = x[i]
			default:
				ts.Fatalf("%s: %s leads into %v", args[0], args[1], v)
			}
		}
	}
	got := fmt.Sprint(v)
	if s, ok := v.(string); !ok {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		ts.Check(enc.Encode(v))
		got = strings.TrimSpace(b.String())
	} else {
		got = s
	}
	ok := got == args[2]
	if re, cut := strings.CutPrefix(args[2], "~"); cut {
		ok = regexp.MustCompile(re).MatchString(got)
	}
	if ok == neg {
		ts.Fatalf("%s: %s is %s, want %s", args[0], args[1], got, args[2])
	}
}

func checkStatus(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		var exit interface{ ExitCode() int }
		if !asExit(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

func asExit(err error, into *interface{ ExitCode() int }) bool {
	for err != nil {
		if x, ok := err.(interface{ ExitCode() int }); ok {
			*into = x
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

// noProcess fails when a process whose environment names this script's home still lives.
func noProcess(ts *testscript.TestScript, neg bool, args []string) {
	home := ts.Getenv("LJ_HOME")
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := processesOf(home)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, p := range left {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			ts.Fatalf("left over: %v", left)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

type leftOver struct {
	pid int
	cmd string
}

func processesOf(home string) []leftOver {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []leftOver
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(env, []byte("LJ_HOME="+home)) {
			continue
		}
		cmd, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || len(cmd) == 0 {
			continue // a zombie
		}
		out = append(out, leftOver{pid, string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '}))})
	}
	return out
}
