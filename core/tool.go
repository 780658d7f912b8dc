package core

import (
	"context"
	"encoding/json"
	"time"
)

// Where a tool comes from.
const (
	OriginBuiltin = "builtin" // served by lj re-executing itself
	OriginHost    = "host"    // a function of the host that acts on lj itself
	OriginToolkit = "toolkit" // written by the agent or the user, its own binary
	OriginMCP     = "mcp"     // offered by an MCP server
)

// ToolSpec is what is known of a tool before it is called. It is immutable once
// published and safe to share.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"` // JSON Schema of the arguments object
	ReadOnly    bool            `json:"read_only"`
	Idempotent  bool            `json:"idempotent"`
	Destructive bool            `json:"destructive"`
	Permissions Permissions     `json:"permissions"`
	Origin      string          `json:"origin"`
	Version     string          `json:"version"` // "v1.2.3"; that of lj for builtin and host tools
}

// Permissions is what a tool's manifest asks for. The zero value asks for nothing;
// DefaultPermissions is what a manifest that says nothing means.
type Permissions struct {
	Read  []string `json:"read" yaml:"read"`   // paths relative to the project, "." for all of it
	Write []string `json:"write" yaml:"write"` // likewise
	Net   []string `json:"net" yaml:"net"`     // host:port
	Exec  []string `json:"exec" yaml:"exec"`   // program names
	Env   []string `json:"env" yaml:"env"`     // names of environment variables
}

// DefaultPermissions is to read the project and nothing else.
func DefaultPermissions() Permissions { return Permissions{Read: []string{"."}} }

// ToolRequest is one call on its way to a tool.
type ToolRequest struct {
	CallID string
	// Key is the idempotency key: the same key is the same piece of work, whatever the
	// number of attempts.
	Key     string
	Args    json.RawMessage
	Project string // absolute path of the project directory
	// AddDirs are further directories that this session may touch (absolute, resolved).
	AddDirs []string
	// Context is private between host and built-in tools (for example the digests of the
	// files read so far); nil for others.
	Context json.RawMessage
	// Sink takes progress and raw output while the call runs. Nil discards both.
	Sink Sink
}

// Sink takes what a running call says before its result. Implementations are safe for
// use by several goroutines and must not block for long.
type Sink interface {
	// Progress takes one short line for people.
	Progress(text string)
	// Output takes raw bytes of the work's own output (stdout and stderr of a command),
	// cut anywhere, also inside a character. The slice must not be kept.
	Output(p []byte)
}

// ToolResult is what a call ended with. A tool that failed returns a result with IsError:
// the model reads it and goes on. A Go error beside it means that the host or the
// protocol broke.
type ToolResult struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Images     []Image         `json:"images,omitempty"`
	IsError    bool            `json:"is_error"`
	// Meta is private between built-in tools and the host (files touched, exit status);
	// it never reaches the model.
	Meta json.RawMessage `json:"-"`
}

// Image is a picture in a result.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// Tool is anything that the agent can call. Implementations are safe for use by several
// goroutines. Call returns when the work has ended or ctx is done, whichever is first,
// plus a short grace in which the work is stopped.
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, req ToolRequest) (ToolResult, error)
}

// Warmer is a Tool that can prepare itself (start its process) before the first call.
// Warm returns at once; it never fails, a later Call does.
type Warmer interface{ Warm() }

// ErrorResult is a failed result with this text.
func ErrorResult(text string) ToolResult { return ToolResult{Text: text, IsError: true} }

// FileTouch is one file that a built-in tool read or changed, as reported in
// ToolResult.Meta. Digests are hex SHA-256 of the whole file's bytes, "" where there was
// no file.
type FileTouch struct {
	Path   string `json:"path"` // absolute, links resolved
	Op     string `json:"op"`   // "read" or "write"
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Partial is true for a read that did not cover the whole file.
	Partial bool `json:"partial,omitempty"`
}

// ToolMeta is the form of ToolResult.Meta of built-in tools.
type ToolMeta struct {
	Files []FileTouch `json:"files,omitempty"`
	// Exit is the exit status of a command, nil where there was none.
	Exit     *int `json:"exit,omitempty"`
	TimedOut bool `json:"timed_out,omitempty"`
	// Jobs are background jobs that this call left running.
	Jobs []string `json:"jobs,omitempty"`
}

// ToolContext is the form of ToolRequest.Context for built-in tools.
type ToolContext struct {
	Session string `json:"session,omitempty"`
	// Known holds, for each absolute path that this session has read or written, the
	// digest of the whole file at that moment.
	Known map[string]string `json:"known,omitempty"`
	// ReadOnly is the wall of plan mode: whatever the arguments say, nothing is changed.
	ReadOnly bool `json:"read_only,omitempty"`
	// Unconfined asks for the second bash process, after a person's yes.
	Unconfined bool `json:"unconfined,omitempty"`
}

// ToolStat is what the registry counts for a tool.
type ToolStat struct {
	Calls    int           `json:"calls"`
	Failures int           `json:"failures"`
	P50      time.Duration `json:"p50"`
}
