// Package builtin lists the tools that are part of lj, as plain values in three classes
// that are confined differently: files, bash and web. It knows nothing of processes, wire
// formats and permissions; an adapter serves them.
//
//	for _, t := range builtin.Files() {
//		res, err := t.Run(ctx, core.ToolRequest{Args: args, Project: dir})
//	}
package builtin

import (
	"context"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin/bash"
	"github.com/lingjiyidong/lj/plugins/builtin/createdir"
	"github.com/lingjiyidong/lj/plugins/builtin/editfile"
	"github.com/lingjiyidong/lj/plugins/builtin/findsymbol"
	"github.com/lingjiyidong/lj/plugins/builtin/getoutline"
	"github.com/lingjiyidong/lj/plugins/builtin/grepfiles"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/index"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/web"
	"github.com/lingjiyidong/lj/plugins/builtin/listfiles"
	"github.com/lingjiyidong/lj/plugins/builtin/readfile"
	"github.com/lingjiyidong/lj/plugins/builtin/webfetch"
	"github.com/lingjiyidong/lj/plugins/builtin/websearch"
	"github.com/lingjiyidong/lj/plugins/builtin/writefile"
)

// Tool is one built-in tool. Run is safe for use by several goroutines. A failure of the
// tool is a result; an error means that the call itself broke.
type Tool struct {
	Spec core.ToolSpec
	Run  func(ctx context.Context, req core.ToolRequest) (core.ToolResult, error)
	// Close ends what the tool left running and returns when it is gone. Nil where there
	// is nothing to end; tools of one class may share it, and it may be called more than
	// once.
	Close func() error
}

// Files are the tools of the class "files".
func Files() []Tool {
	x := index.New()
	return []Tool{
		{Spec: spec(readfile.Spec()), Run: readfile.Run},
		{Spec: spec(writefile.Spec()), Run: writefile.Run},
		{Spec: spec(editfile.Spec()), Run: editfile.Run},
		{Spec: spec(createdir.Spec()), Run: createdir.Run},
		{Spec: spec(listfiles.Spec()), Run: listfiles.Run},
		{Spec: spec(grepfiles.Spec()), Run: grepfiles.Run},
		{Spec: spec(getoutline.Spec()), Run: getoutline.Tool{Index: x}.Run},
		{Spec: spec(findsymbol.Spec()), Run: findsymbol.Tool{Index: x}.Run},
	}
}

// BashOptions configure the class "bash". The zero value is usable.
type BashOptions = bash.Options

// Bash are the tools of the class "bash": bash and bash_jobs. They share one set of jobs,
// which lives until Close.
func Bash(o BashOptions) []Tool {
	s := bash.New(o)
	return []Tool{
		{Spec: spec(bash.Spec()), Run: s.Run, Close: s.Close},
		{Spec: spec(bash.JobsSpec()), Run: s.RunJobs, Close: s.Close},
	}
}

// WebOptions configure the class "web". The zero value searches with DuckDuckGo and
// connects to public addresses only.
type WebOptions struct {
	// Engine of web_search: "duckduckgo", "searxng", "brave" or "tavily"; "" is the first.
	Engine string
	// URL is the address of the engine, which may be private: needed for searxng, "" for
	// the public one of the others.
	URL string
	// Key is what brave and tavily know the user by.
	Key string
	// AllowPrivate lets web_fetch connect to this machine and private networks.
	AllowPrivate bool
}

// Web are the tools of the class "web", which need the network and no files: web_fetch
// and web_search. Proxies are those of the environment at this call.
func Web(o WebOptions) []Tool {
	pages := web.New(web.Options{AllowPrivate: o.AllowPrivate})
	engine := web.New(web.Options{AllowPrivate: o.AllowPrivate || o.URL != "", SameHost: true})
	search := websearch.Tool{Engine: o.Engine, URL: o.URL, Key: o.Key, Client: engine}
	return []Tool{
		{Spec: spec(webfetch.Spec()), Run: webfetch.Tool{Client: pages}.Run, Close: pages.Close},
		{Spec: spec(websearch.Spec()), Run: search.Run, Close: engine.Close},
	}
}

func spec(s core.ToolSpec) core.ToolSpec {
	s.Origin = core.OriginBuiltin
	return s
}
