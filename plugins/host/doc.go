// Package host runs tool processes: it starts them, talks to them over plugins/wire,
// bounds what they may cost, and ends them.
//
// It owns processes, sockets and the translation between core.Tool and the wire. It
// refuses to know where tools come from, which version is live (plugins/registry), what a
// tool may touch (the caller's Sandbox hook) and what the model is told beyond the result
// of a call.
//
//	h, err := host.New(host.Options{SocketRoot: dir})
//	defer h.Close(ctx)
//	p := h.Plugin(host.Command{Name: "csv_stats", Version: "v1.0.0", Path: bin, Origin: core.OriginToolkit})
//	res, err := p.Tool("csv_stats").Call(ctx, core.ToolRequest{Args: args, Project: dir})
//
// # What is promised
//
// A process starts with the first call (or Warm), stays, and is started again after a
// crash. Three crashes of a tool in a row within CrashWindow switch the tool off until
// Enable. A tool's failure (no start, crash, hang, flood, a schema that is none) is a
// result that the model reads; a Go error from Call means that the host is closed or the
// plugin was stopped.
//
// A call ends with its context: the tool is asked to stop, has CallGrace to answer with
// what it has, and then its process is ended. Another call in the same process is left
// its time unless the process is beyond help.
//
// Each process has its own group and session of signals, no standard input, the
// environment that Command names and no other, a socket in a folder only its user can
// enter, and a secret that each request carries. Ending it ends its group; what has left
// the group is found by its environment. When the host itself is killed the kernel ends
// its children, and tools made with plugins/sdk take their group along.
//
// Everything in this package is safe for use by several goroutines.
package host
