package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

// previewLimit is the size of a file, in bytes, up to which a question shows what a call
// would change in it.
const previewLimit = 1 << 20

// previewLines is how many lines of a difference a question carries.
const previewLines = 50_000

// previewDiff is what a writing call would change, in unified form and masked, for the
// question; "" where it can't be told before: other tools, binary or large files, an edit
// that would not apply.
func (a *App) previewDiff(call core.ToolCall) string {
	var in struct {
		Path       string  `json:"path"`
		Content    *string `json:"content"`
		Old        string  `json:"old"`
		New        *string `json:"new"`
		Occurrence int     `json:"occurrence"`
		All        bool    `json:"all"`
	}
	if call.Name != "write_file" && call.Name != "edit_file" || json.Unmarshal([]byte(call.Arguments), &in) != nil || in.Path == "" {
		return ""
	}
	path := in.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Project, path)
	}
	before := ""
	if fi, err := os.Stat(path); err == nil {
		if !fi.Mode().IsRegular() || fi.Size() > previewLimit {
			return ""
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		text, err := workspace.Decode(raw)
		if err != nil {
			return ""
		}
		before = text.LF
	}
	after := ""
	switch {
	case call.Name == "write_file" && in.Content != nil:
		after = workspace.Normalise(*in.Content)
	case call.Name == "edit_file" && in.New != nil && in.Old != "":
		old, repl := workspace.Normalise(in.Old), workspace.Normalise(*in.New)
		n := strings.Count(before, old)
		switch {
		case n == 0 || in.Occurrence > n || in.Occurrence < 0 || n > 1 && in.Occurrence == 0 && !in.All:
			return ""
		case in.Occurrence > 1:
			at := 0
			for range in.Occurrence - 1 {
				at += strings.Index(before[at:], old) + len(old)
			}
			at += strings.Index(before[at:], old)
			after = before[:at] + repl + before[at+len(old):]
		case in.All:
			after = strings.ReplaceAll(before, old, repl)
		default:
			after = strings.Replace(before, old, repl, 1)
		}
	default:
		return ""
	}
	m := a.masker()
	return m.Mask(workspace.UnifiedDiff(before, after, 2, 0, previewLines))
}
