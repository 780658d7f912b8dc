// Package call is what the built-in tools share: reading arguments, opening the
// workspace, and forming results. It owns no tool and knows nothing of how calls travel.
//
//	var in struct{ Path string `json:"path"` }
//	c, res := call.Begin(req, &in)
//	if res != nil { return *res, nil }
package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/secret"
	"github.com/lingjiyidong/lj/core/workspace"
)

// Int is a whole number that some models send as text or as 3.0. The zero value is "not
// given".
type Int int

// UnmarshalJSON takes 3, 3.0, "3" and null.
func (n *Int) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `" `)
	if s == "" || s == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int(f)) {
		return fmt.Errorf("%s is not a whole number", b)
	}
	*n = Int(f)
	return nil
}

// Call is one call of a file tool.
type Call struct {
	Req core.ToolRequest
	Ctx core.ToolContext
	WS  *workspace.Workspace
}

// Begin reads the arguments into in and opens the workspace. A result that is not nil is
// the failure to give back.
func Begin(req core.ToolRequest, in any) (*Call, *core.ToolResult) {
	c := &Call{Req: req}
	if res := Args(req, in); res != nil {
		return nil, res
	}
	if len(req.Context) > 0 {
		if err := json.Unmarshal(req.Context, &c.Ctx); err != nil {
			return nil, Fail(core.Errorf(core.KindInternal, "tool context: %w", err))
		}
	}
	ws, err := workspace.Open(req.Project, workspace.Options{AddDirs: req.AddDirs})
	if err != nil {
		return nil, Fail(err)
	}
	c.WS = ws
	return c, nil
}

// Args reads the arguments alone.
func Args(req core.ToolRequest, in any) *core.ToolResult {
	args := req.Args
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	if err := json.Unmarshal(args, in); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return Fail(core.Errorf(core.KindUsage, "argument %s must be %s, not %s", te.Field, kindOf(te.Type.Kind().String()), te.Value))
		}
		return Fail(core.Errorf(core.KindUsage, "arguments: %w", err))
	}
	return nil
}

func kindOf(k string) string {
	switch k {
	case "bool":
		return "true or false"
	case "string":
		return "a text"
	}
	return "a " + k
}

// Writable refuses in plan mode, where nothing is changed whatever the arguments say.
func (c *Call) Writable() *core.ToolResult {
	if c.Ctx.ReadOnly {
		return Fail(core.Errorf(core.KindDenied, "plan mode is read-only: nothing was changed"))
	}
	return nil
}

// Masked refuses new text with a mask in it that the host could not turn back into the
// value: writing it would put the mask in the value's place. have is the file's text, where
// such words may stand by themselves.
func Masked(text, have string) *core.ToolResult {
	for _, m := range secret.Markers(text) {
		if !strings.Contains(have, m) {
			return Failf("%s stands for a value that is hidden from you and is not in this file; nothing was written. Leave that part of the file out of the change, or ask the user.", m)
		}
	}
	return nil
}

// Known is the digest under which this session knows a file, "" when it was not read.
func (c *Call) Known(p workspace.Path) string { return c.Ctx.Known[p.Abs] }

// Fail is the failed result of an error: its sentence and, where there is one, the next
// step.
func Fail(err error) *core.ToolResult {
	text := err.Error()
	if next := core.NextOf(err); next != "" {
		text += "\n" + next
	}
	r := core.ErrorResult(text)
	return &r
}

// Failf is a failed result with this text.
func Failf(format string, a ...any) *core.ToolResult {
	r := core.ErrorResult(fmt.Sprintf(format, a...))
	return &r
}

// WithMeta adds the private part of a result.
func WithMeta(r core.ToolResult, m core.ToolMeta) core.ToolResult {
	r.Meta, _ = json.Marshal(m)
	return r
}

// Missing is the failed result for a path that does not exist: it shows what is near.
func (c *Call) Missing(given string, p workspace.Path) *core.ToolResult {
	text := given + " does not exist"
	if near := c.near(p); len(near) > 0 {
		text += "; did you mean:\n" + strings.Join(near, "\n")
	} else {
		text += "; list_files shows what does"
	}
	return Failf("%s", text)
}

// NotFound says whether an error means that the path does not exist.
func NotFound(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// near gathers up to eight candidates: files of the same name anywhere in the project
// first, then similar names in the same directory.
func (c *Call) near(p workspace.Path) []string {
	const most = 8
	base := filepath.Base(p.Abs)
	var same []string
	root, err := c.WS.Resolve(".", workspace.Read)
	if err == nil {
		same = c.find(root, base)
	}
	if len(same) > most {
		same = same[:most]
	}
	var names []string
	if entries, err := os.ReadDir(filepath.Dir(p.Abs)); err == nil {
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	out := same
	for len(out) < most && len(out) < len(same)+3 {
		n := core.Nearest(base, names)
		if n == "" {
			for _, cand := range names { // another extension
				if trimExt(cand) == trimExt(base) && trimExt(base) != "" {
					n = cand
					break
				}
			}
		}
		if n == "" {
			break
		}
		names = remove(names, n)
		cand := c.WS.Display(filepath.Join(filepath.Dir(p.Abs), n))
		if !contains(out, cand) {
			out = append(out, cand)
		}
	}
	return out
}

func trimExt(s string) string { return strings.TrimSuffix(s, filepath.Ext(s)) }

func remove(list []string, s string) []string {
	var out []string
	for _, x := range list {
		if x != s {
			out = append(out, x)
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// find looks for files of a name in the whole tree, sorted.
func (c *Call) find(root workspace.Path, base string) []string {
	found := make([][]string, workspace.Workers())
	ctx, cancel := shortContext()
	defer cancel()
	_, _ = c.WS.Walk(ctx, root, workspace.WalkOptions{}, func(w int, e workspace.Entry) {
		if name := e.Rel[strings.LastIndexByte(e.Rel, '/')+1:]; strings.EqualFold(name, base) {
			found[w] = append(found[w], workspace.ShowBytes(e.Rel))
		}
	})
	var out []string
	for _, f := range found {
		out = append(out, f...)
	}
	sort.Strings(out)
	return out
}
