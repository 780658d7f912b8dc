// Package createdir is the tool create_directory. It makes a directory and its parents
// inside the workspace and knows nothing else.
package createdir

import (
	"context"
	"encoding/json"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "create_directory",
		Description: "Create a directory and its parents. write_file makes parents by itself.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		Idempotent:  true,
	}
}

// Run makes the directory.
func Run(_ context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct{ Path string }
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	if bad := c.Writable(); bad != nil {
		return *bad, nil
	}
	p, err := c.WS.Resolve(in.Path, workspace.Write)
	if err != nil {
		return *call.Fail(err), nil
	}
	made, err := c.WS.MkdirAll(p)
	switch {
	case err != nil:
		return *call.Fail(err), nil
	case !made:
		return core.ToolResult{Text: p.Name + " exists already"}, nil
	}
	return core.ToolResult{Text: "created " + p.Name}, nil
}
