// Package core is the vocabulary of lj: messages, tool calls, tool results, tool
// specifications, sessions, usage and error kinds, and the few small interfaces that
// the parts of the program meet at.
//
// It owns words, not behaviour. It knows nothing of SQL, gRPC, git, HTTP or terminals
// and imports only the standard library, so that every other package can import it
// without importing anything else of the module.
//
// The words:
//
//   - A session is one stored conversation, bound to one project directory. Its system
//     text and tool list are fixed when it begins.
//   - A turn is what happens between one message of the user and the answer to it: one
//     or more steps.
//   - A step is one request to the model server together with the tool calls that its
//     answer asks for.
//   - A call is one use of one tool. Each call has exactly one result.
//
// A tool is used like this:
//
//	res, err := tool.Call(ctx, core.ToolRequest{CallID: "c1", Args: json.RawMessage(`{"path":"a.txt"}`)})
//	// err: the host or the protocol broke. res.IsError: the tool failed; the model reads res.Text.
package core
