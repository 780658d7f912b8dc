// Package badtool holds tools for tests: sound ones, and ones that crash, hang, flood,
// lie, fork, print where they should not and ignore what they are told. A test binary
// becomes such a tool by re-executing itself:
//
//	func TestMain(m *testing.M) {
//		badtool.Main() // does not return in a tool process
//		os.Exit(m.Run())
//	}
//
//	p := h.Plugin(badtool.Command("kit"))
//
// It owns misbehaviour and knows nothing of what the host does about it.
package badtool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest/badtool/early"
	"github.com/lingjiyidong/lj/plugins/sdk"
	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

const envMode = early.EnvMode

// Command is the command that makes this very program the tool of a mode; extra are
// further environment entries.
func Command(mode string, extra ...string) host.Command {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return host.Command{
		Name: mode, Version: "v1.0.0", Path: self, Origin: core.OriginToolkit,
		// A binary with the race detector waits a second at its end unless told not to.
		Env: append(append(host.BaseEnv(), envMode+"="+mode, "GORACE=atexit_sleep_ms=0"), extra...),
	}
}

// Main runs the tool that the environment names and ends the process; in a process that
// is no tool it does nothing.
func Main() {
	mode := os.Getenv(envMode)
	if mode == "" {
		return
	}
	early.Restore()
	run, ok := modes[mode]
	if !ok {
		fmt.Fprintln(os.Stderr, "no tool", mode)
		os.Exit(2)
	}
	run()
	os.Exit(0)
}

var modes = map[string]func(){
	"kit":       func() { sdk.ServeTools(Kit()...) },
	"single":    func() { sdk.Serve("single", "Echo one text", echo) },
	"plain":     func() { servePlain(plainTools("plain")) },
	"noise":     func() { fmt.Println("hello from init"); servePlain(plainTools("noise")) },
	"printing":  func() { fmt.Println("not a handshake"); fmt.Fprintln(os.Stderr, "usage: nothing"); os.Exit(0) },
	"exit":      func() { fmt.Fprintln(os.Stderr, "no configuration found"); os.Exit(3) },
	"hang":      func() { fmt.Fprintln(os.Stderr, "waiting for nothing"); time.Sleep(time.Hour) },
	"mute":      func() { handshake(os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/none"); time.Sleep(time.Hour) },
	"elsewhere": func() { handshake("/var/run/docker.sock"); time.Sleep(time.Hour) },
	"endless":   func() { endless() },
	"liar":      func() { servePlain(lies()) },
	"empty":     func() { servePlain(nil) },
	"stubborn": func() {
		signal.Ignore(syscall.SIGTERM)
		servePlain(plainTools("stubborn"))
		time.Sleep(time.Hour)
	},
	"crashed": func() { panic("crash at start") },
}

func handshake(path string) { fmt.Printf("1|1|unix|%s|grpc|\n", path) }

func endless() {
	line := strings.Repeat("x", 1000) + "\n"
	for {
		if _, err := os.Stdout.WriteString(line); err != nil {
			time.Sleep(time.Hour)
		}
	}
}

type echoArgs struct {
	Text string `json:"text" jsonschema:"what to say"`
	N    int    `json:"n,omitempty" jsonschema:"how often" minimum:"1" default:"1"`
}

func echo(_ context.Context, in echoArgs) (string, error) {
	return strings.Repeat(in.Text, in.N), nil
}

// Kit are sound and unsound tools made with the SDK.
func Kit() []sdk.Tool {
	type none struct{}
	return []sdk.Tool{
		sdk.New("echo", "Say a text", echo, sdk.ReadOnly(), sdk.Idempotent()),
		sdk.New("sum", "Add numbers, answer as JSON", func(_ context.Context, in struct {
			Numbers []float64 `json:"numbers"`
		}) (map[string]float64, error) {
			var s float64
			for _, n := range in.Numbers {
				s += n
			}
			return map[string]float64{"sum": s}, nil
		}),
		sdk.New("talk", "Say progress and output before the result", func(ctx context.Context, in struct {
			Lines int `json:"lines"`
			Bytes int `json:"bytes"`
		}) (string, error) {
			for i := range in.Lines {
				sdk.Progress(ctx, fmt.Sprintf("line %d", i+1))
			}
			sdk.Output(ctx, []byte(strings.Repeat("o", in.Bytes)))
			return "done", nil
		}),
		sdk.New("sleep", "Wait; stops early with what it has when cancelled", func(ctx context.Context, in struct {
			Ms   int  `json:"ms"`
			Deaf bool `json:"deaf,omitempty" jsonschema:"do not stop when told"`
		}) (sdk.Result, error) {
			begun := time.Now()
			t := time.NewTimer(time.Duration(in.Ms) * time.Millisecond)
			defer t.Stop()
			done := ctx.Done()
			if in.Deaf {
				done = nil
			}
			sdk.Progress(ctx, "asleep")
			select {
			case <-t.C:
				return sdk.Result{Text: "slept"}, nil
			case <-done:
				text := "woken early"
				if d, ok := ctx.Deadline(); ok {
					text += fmt.Sprintf(" with a limit of %v", d.Sub(begun).Round(10*time.Millisecond))
				}
				return sdk.Result{Text: text}, ctx.Err()
			}
		}),
		sdk.New("boom", "Panics on boom", func(_ context.Context, in echoArgs) (string, error) {
			if in.Text == "boom" {
				var m map[string]int
				m["x"] = 1
			}
			return in.Text, nil
		}),
		sdk.New("die", "Crashes in a goroutine on boom", func(_ context.Context, in echoArgs) (string, error) {
			if in.Text == "boom" {
				fmt.Fprintln(os.Stderr, "about to fail")
				go panic("the bottom fell out")
				time.Sleep(time.Hour)
			}
			return in.Text, nil
		}),
		sdk.New("leave", "Ends the process without a word", func(context.Context, none) (string, error) {
			os.Exit(0)
			return "", nil
		}),
		sdk.New("fail", "Fails", func(context.Context, none) (string, error) {
			return "", errors.New("no such tea")
		}),
		sdk.New("env", "The environment", func(context.Context, none) (string, error) {
			return strings.Join(os.Environ(), "\n"), nil
		}),
		sdk.New("print", "Prints on both streams", func(context.Context, none) (string, error) {
			fmt.Println("on stdout")
			fmt.Fprintln(os.Stderr, "on stderr")
			return "printed", nil
		}),
		sdk.New("flood", "Floods standard error", func(_ context.Context, in struct {
			Bytes int `json:"bytes"`
		}) (string, error) {
			line := []byte(strings.Repeat("e", 999) + "\n")
			for n := 0; n < in.Bytes; n += len(line) {
				_, _ = os.Stderr.Write(line)
			}
			return "flooded", nil
		}),
		sdk.New("big", "A big result", func(_ context.Context, in struct {
			Bytes int    `json:"bytes"`
			Unit  string `json:"unit,omitempty"`
		}) (sdk.Result, error) {
			unit := in.Unit
			if unit == "" {
				unit = "b"
			}
			return sdk.Result{Text: strings.Repeat(unit, in.Bytes/len(unit))}, nil
		}),
		sdk.New("fork", "Leaves processes behind: in the group, out of it, and orphaned", func(_ context.Context, in struct {
			Mark string `json:"mark"`
		}) (string, error) {
			for _, line := range []string{"exec sleep " + in.Mark, "exec setsid sleep " + in.Mark, "(setsid sleep " + in.Mark + " &) &"} {
				c := exec.Command("sh", "-c", line)
				if err := c.Start(); err != nil {
					return "", err
				}
			}
			return "forked", nil
		}),
		sdk.New("call", "What is known of the call", func(ctx context.Context, _ none) (sdk.Result, error) {
			c := sdk.Call(ctx)
			return sdk.Result{
				Text: fmt.Sprintf("id=%s key=%s project=%s add=%q deadline=%v context=%s path=%s", c.ID, c.Key, c.Project, c.AddDirs, !c.Deadline.IsZero(), c.Context, sdk.Path(ctx, "a.txt")),
				Meta: map[string]string{"private": "yes"},
			}, nil
		}),
		sdk.New("picture", "An image and structured content", func(context.Context, none) (sdk.Result, error) {
			return sdk.Result{Text: "seen", Structured: map[string]int{"w": 1}, Images: []sdk.Image{{MIME: "image/png", Data: []byte{1, 2, 3}}}}, nil
		}),
		sdk.New("note", "Appends a line to a file", func(_ context.Context, in struct {
			File string `json:"file"`
			Line string `json:"line"`
		}) (string, error) {
			f, err := os.OpenFile(filepath.Clean(in.File), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			defer f.Close()
			_, err = f.WriteString(in.Line + "\n")
			return "noted", err
		}),
	}
}

// plain is an ordinary go-plugin gRPC tool: no SDK, no recover, no Cancel.
type plain struct {
	plugin.NetRPCUnsupportedPlugin
	wirev1.UnimplementedPluginServer
	tools []*wirev1.ToolDescription
}

func (p *plain) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	wirev1.RegisterPluginServer(s, p)
	return nil
}

func (p *plain) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is a tool")
}

func (p *plain) Describe(context.Context, *wirev1.DescribeRequest) (*wirev1.DescribeReply, error) {
	return &wirev1.DescribeReply{ProtocolVersion: wirev1.Version, Tools: p.tools}, nil
}

func (p *plain) Call(req *wirev1.CallRequest, s grpc.ServerStreamingServer[wirev1.CallEvent]) error {
	args := string(req.Arguments)
	switch {
	case strings.Contains(args, "boom"):
		fmt.Fprintln(os.Stderr, "plain tool is about to fail")
		panic("plain boom")
	case strings.Contains(args, "silence"):
		return nil
	case strings.Contains(args, "refuse"):
		return errors.New("plain refusal")
	case strings.Contains(args, "wait"):
		time.Sleep(time.Hour)
	}
	return s.Send(&wirev1.CallEvent{Event: &wirev1.CallEvent_Result{Result: &wirev1.Result{Text: args}}})
}

func servePlain(tools []*wirev1.ToolDescription) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: wirev1.Version, MagicCookieKey: wirev1.CookieKey, MagicCookieValue: wirev1.CookieValue},
		Plugins:         plugin.PluginSet{wirev1.Name: &plain{tools: tools}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}

func plainTools(name string) []*wirev1.ToolDescription {
	return []*wirev1.ToolDescription{{
		Name: name, Description: "Says its arguments",
		InputSchema: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	}}
}

// lies are descriptions that are none, beside one that is.
func lies() []*wirev1.ToolDescription {
	d := func(name, schema string) *wirev1.ToolDescription {
		return &wirev1.ToolDescription{Name: name, Description: "A lie", InputSchema: []byte(schema)}
	}
	tools := plainTools("honest")
	return append(tools,
		d("list", `[]`), d("nothing", ``), d("text", `{"type":"string"}`), d("wrong", `{"type":"object","properties":{"a":{"type":"strnig"}}}`),
		d("remote", `{"type":"object","$ref":"http://127.0.0.1:1/x.json"}`), d("pattern", `{"type":"object","properties":{"a":{"pattern":"("}}}`),
		d("version", `{"$schema":"http://example.test/none","type":"object"}`),
		d("Bad/Name", `{"type":"object"}`), d("twice", `{"type":"object"}`), d("twice", `{"type":"object"}`),
		&wirev1.ToolDescription{Name: "silent", InputSchema: []byte(`{"type":"object"}`)},
	)
}
