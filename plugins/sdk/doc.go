// Package sdk is what the author of a tool imports. A tool is a typed function and one
// call:
//
//	type Args struct {
//		Path  string `json:"path" jsonschema:"CSV file, relative to the project"`
//		Limit int    `json:"limit,omitempty" jsonschema:"rows to read" minimum:"1" default:"100"`
//	}
//
//	func Run(ctx context.Context, in Args) (string, error) {
//		data, err := os.ReadFile(sdk.Path(ctx, in.Path))
//		…
//	}
//
//	func main() { sdk.Serve("csv_stats", "Statistics of each column of a CSV file", Run) }
//
// The package owns the author's side of the tool protocol: the JSON Schema that follows
// from the argument struct, strict decoding of arguments, results, panics, progress, and
// the life of the process from handshake to shutdown. It refuses to know who calls the
// tool and why, which permissions it was given, and how versions of it are kept.
//
// It imports the standard library only and holds its own source (Source), so that a tool
// builds with a Go toolchain and nothing else. The wire is gRPC as hashicorp/go-plugin
// speaks it; docs/plugin-protocol.md describes it.
//
// # Arguments
//
// The argument type is a struct. A field's name is that of its json tag; its description
// is the jsonschema tag. A field is required unless it is a pointer or has omitempty,
// omitzero or a default tag. Further tags: enum:"a,b,c", minimum:"1", maximum:"9",
// default:"x". Nested and embedded structs, slices, maps with string keys, time.Time,
// json.RawMessage and any are known; channels, functions, recursive types and
// time.Duration (say seconds in a number instead) are refused when the tool starts.
//
// # Results
//
// A string is the text that the model reads. Any other value is given as JSON. Result
// says everything by hand. An error is a failed call: its text is for the model, which
// goes on. A panic in the function is caught and answered as a failed call with the end
// of its stack; the process goes on. A panic in a goroutine that the function started,
// and fatal errors of the runtime, end the process, and the host reports them.
//
// Everything that a tool prints, also on its standard output, goes to its standard error,
// of which the host keeps the end.
package sdk
