// Package listfiles is the tool list_files: what is in a directory, without what ignore
// files name. It is bounded and sorted, and says what it left out.
package listfiles

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "list_files",
		Description: "List a directory, without ignored files. pattern is a glob such as *.go or src/**/*.ts and searches subdirectories too.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"pattern":{"type":"string"},"recursive":{"type":"boolean"}}}`),
		ReadOnly:    true, Idempotent: true,
	}
}

const most = 1000

// Run lists.
func Run(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct {
		Path, Pattern string
		Recursive     *bool
	}
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	if in.Path == "" {
		in.Path = "."
	}
	p, err := c.WS.Resolve(in.Path, workspace.Read)
	if err != nil {
		return *call.Fail(err), nil
	}
	fi, err := os.Stat(p.Abs)
	switch {
	case call.NotFound(err):
		return *c.Missing(in.Path, p), nil
	case err != nil:
		return *call.Fail(core.Errorf(core.KindFailed, "%s: %w", in.Path, err)), nil
	case !fi.IsDir():
		return core.ToolResult{Text: fmt.Sprintf("%s is a file, %s", p.Name, workspace.Size(fi.Size()))}, nil
	}
	o := workspace.WalkOptions{Depth: 1}
	if in.Recursive != nil && *in.Recursive || in.Recursive == nil && in.Pattern != "" {
		o.Depth = 0
	}
	var glob *workspace.Glob
	if in.Pattern != "" {
		glob = workspace.CompileGlob(in.Pattern)
	}
	lists := make([][]string, workspace.Workers())
	stats, err := c.WS.Walk(ctx, p, o, func(w int, e workspace.Entry) {
		if glob != nil && !glob.Match(e.Rel) {
			return
		}
		name := e.Rel
		switch {
		case e.Type.IsDir() && glob == nil && o.Depth == 0:
			return // the paths of the files show it
		case e.Type.IsDir():
			name += "/"
		case e.Type&fs.ModeSymlink != 0:
			name += " -> " + e.Readlink()
		}
		lists[w] = append(lists[w], name)
	})
	if err != nil {
		return *call.Fail(core.Errorf(core.KindInterrupted, "listing %s: %w", p.Name, err)), nil
	}
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	sort.Strings(all)
	return core.ToolResult{Text: render(p, in.Pattern, all, stats)}, nil
}

func render(p workspace.Path, pattern string, all []string, stats workspace.WalkStats) string {
	var sb strings.Builder
	what := ""
	if pattern != "" {
		what = " that match " + pattern
	}
	n := "entries"
	if len(all) == 1 {
		n = "entry"
	}
	fmt.Fprintf(&sb, "[%s: %d %s%s", p.Name, len(all), n, what)
	if stats.Ignored > 0 {
		fmt.Fprintf(&sb, ", %d ignored", stats.Ignored)
	}
	if stats.Unreadable > 0 {
		fmt.Fprintf(&sb, ", %d directories unreadable", stats.Unreadable)
	}
	sb.WriteString("]")
	size := 0
	for i, name := range all {
		if size += len(name) + 1; i == most || size > 48<<10 {
			fmt.Fprintf(&sb, "\n[%d more; choose a narrower path or pattern]", len(all)-i)
			break
		}
		sb.WriteByte('\n')
		sb.WriteString(workspace.ShowBytes(name))
	}
	return sb.String()
}
