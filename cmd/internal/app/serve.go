package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin"
	"github.com/lingjiyidong/lj/plugins/sdk"
)

// The classes of built-in tools: one process each, by what confines it.
const (
	classFiles = "files"
	classBash  = "bash"
	classWeb   = "web"
	// classUnconfined is bash again, for what must write elsewhere.
	classUnconfined = "bash-unconfined"
)

// webEnv carries the options of the web tools.
const webEnv = "LJ_PLUGIN_WEB"

// serveArg is the first argument of a process that serves built-in tools.
const serveArg = "__serve"

// Reexec runs what lj starts itself for: serving built-in tools, the step into
// confinement. ok is false for an ordinary command line.
func Reexec(args []string) (status int, ok bool) {
	if len(args) < 2 || !strings.HasPrefix(args[1], "__") {
		return 0, false
	}
	switch args[1] {
	case confineArg:
		if len(args) < 3 {
			break
		}
		return become(args[2:]), true
	case serveArg:
		if len(args) != 3 {
			break
		}
		return serve(args[2]), true
	}
	fmt.Fprintf(os.Stderr, "lj: %s is not for people\n", args[1])
	return 2, true
}

func serve(class string) int {
	if err := enter(); err != nil {
		fmt.Fprintf(os.Stderr, "lj: confine %s: %v\n", class, err)
		return 1
	}
	switch class {
	case classFiles:
		sdk.ServeTools(adapt(builtin.Files())...)
	case classWeb:
		var opt builtin.WebOptions
		if err := json.Unmarshal([]byte(os.Getenv(webEnv)), &opt); err != nil {
			fmt.Fprintf(os.Stderr, "lj: options of the web tools: %v\n", err)
			return 1
		}
		os.Unsetenv(webEnv)
		sdk.ServeTools(adapt(builtin.Web(opt))...)
	case classBash, classUnconfined:
		opt := builtin.BashOptions{}
		if d, err := time.ParseDuration(os.Getenv("LJ_PLUGIN_BASH_TIMEOUT")); err == nil {
			opt.Timeout = d
		}
		os.Unsetenv("LJ_PLUGIN_BASH_TIMEOUT")
		tools := builtin.Bash(opt)
		for _, t := range tools {
			if t.Close != nil {
				sdk.OnExit(func() { _ = t.Close() })
			}
		}
		sdk.ServeTools(adapt(tools)...)
	default:
		fmt.Fprintf(os.Stderr, "lj: no built-in tools of class %q\n", class)
		return 2
	}
	return 0
}

// sink passes what a built-in tool says on to the wire.
type sdkSink struct{ ctx context.Context }

func (s sdkSink) Progress(text string) { sdk.Progress(s.ctx, text) }
func (s sdkSink) Output(p []byte)      { sdk.Output(s.ctx, p) }

// adapt makes tools for the wire of built-in ones.
func adapt(list []builtin.Tool) []sdk.Tool {
	out := make([]sdk.Tool, len(list))
	for i, t := range list {
		run := t.Run
		opts := []sdk.Option{sdk.WithSchema(string(t.Spec.Schema))}
		if t.Spec.ReadOnly {
			opts = append(opts, sdk.ReadOnly())
		}
		if t.Spec.Idempotent {
			opts = append(opts, sdk.Idempotent())
		}
		if t.Spec.Destructive {
			opts = append(opts, sdk.Destructive())
		}
		out[i] = sdk.New(t.Spec.Name, t.Spec.Description, func(ctx context.Context, args json.RawMessage) (sdk.Result, error) {
			call := sdk.Call(ctx)
			res, err := run(ctx, core.ToolRequest{
				CallID: call.ID, Key: call.Key, Args: args, Project: call.Project, AddDirs: call.AddDirs,
				Context: call.Context, Sink: sdkSink{ctx},
			})
			r := sdk.Result{Text: res.Text, IsError: res.IsError}
			if len(res.Structured) > 0 {
				r.Structured = res.Structured
			}
			if len(res.Meta) > 0 {
				r.Meta = res.Meta
			}
			for _, im := range res.Images {
				r.Images = append(r.Images, sdk.Image{MIME: im.MIME, Data: im.Data})
			}
			return r, err
		}, opts...)
	}
	return out
}
