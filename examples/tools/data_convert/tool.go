// Command data_convert converts between JSON, YAML and TOML. The order of keys stays.
//
// JSON and TOML 1.0 are read as a whole. Of YAML it reads what settings are made of: block
// and flow mappings and sequences, plain, quoted, literal and folded text, comments, one
// document, the types of the core schema. Anchors, aliases, tags, merge and complex keys are
// refused by line; comments do not survive. What the target can't hold (null in TOML, infinity
// in JSON) is an error that names the place.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Text   string `json:"text,omitempty" jsonschema:"the data; or give path"`
	Path   string `json:"path,omitempty" jsonschema:"file, relative to the project"`
	From   string `json:"from,omitempty" jsonschema:"json, yaml or toml; default: by the file's ending"`
	To     string `json:"to" jsonschema:"json, yaml or toml"`
	Indent int    `json:"indent,omitempty" jsonschema:"blanks per level of JSON and YAML, 1 to 8; default: 2"`
}

// The values: nil, bool, string, []any and these.
type (
	number  string // a number as JSON writes it
	special string // inf, -inf, nan
	moment  string // a date or time of TOML
	object  struct {
		keys   []string
		values map[string]any
	}
)

func newObject() *object { return &object{values: map[string]any{}} }

func (o *object) set(key string, v any) bool {
	if _, again := o.values[key]; again {
		return false
	}
	o.keys = append(o.keys, key)
	o.values[key] = v
	return true
}

// maxDepth is the deepest nesting that is read, so that no input exhausts the stack.
const maxDepth = 200

var errDeep = fmt.Errorf("it is nested more than %d levels deep", maxDepth)

func Run(ctx context.Context, in Args) (string, error) {
	if (in.Text == "") == (in.Path == "") {
		return "", errors.New("give either text or path")
	}
	if in.Path != "" {
		b, err := os.ReadFile(sdk.Path(ctx, in.Path))
		if err != nil {
			return "", err
		}
		in.Text = string(b)
		if in.From == "" {
			in.From = strings.TrimPrefix(strings.ToLower(filepath.Ext(in.Path)), ".")
		}
	}
	if in.Indent == 0 {
		in.Indent = 2
	}
	if in.Indent < 1 || in.Indent > 8 {
		return "", errors.New("indent: 1 to 8")
	}
	if !utf8.ValidString(in.Text) {
		return "", errors.New("the data is not UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(in.Text, "\ufeff"), "\r\n", "\n")
	var v any
	var err error
	switch strings.ToLower(in.From) {
	case "json":
		v, err = parseJSON(text)
	case "yaml", "yml":
		v, err = parseYAML(text)
	case "toml":
		v, err = parseTOML(text)
	case "":
		return "", errors.New("say from: json, yaml or toml")
	default:
		return "", fmt.Errorf("from %q: json, yaml or toml", in.From)
	}
	if err != nil {
		return "", err
	}
	pad := strings.Repeat(" ", in.Indent)
	switch strings.ToLower(in.To) {
	case "json":
		return writeJSON(v, pad)
	case "yaml", "yml":
		return writeYAML(v, pad), nil
	case "toml":
		return writeTOML(v)
	}
	return "", fmt.Errorf("to %q: json, yaml or toml", in.To)
}

// at names a line in an error.
func at(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

func main() {
	sdk.Serve("data_convert", "Converts between JSON, YAML and TOML, keeping the order of keys", Run, sdk.ReadOnly())
}
