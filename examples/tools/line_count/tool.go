// Command line_count counts lines of code, comments and blank lines by language.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path   string   `json:"path,omitempty" jsonschema:"file or folder, relative to the project" default:"."`
	Ignore []string `json:"ignore,omitempty" jsonschema:"more names of files and folders to leave out, with * and ?"`
}

type language struct {
	name       string
	line       []string // what begins a comment to the end of the line
	open, shut string   // around a comment over lines
	quotes     string   // what begins a string, in which comments don't count
}

var (
	cLike  = language{line: []string{"//"}, open: "/*", shut: "*/", quotes: "\"'`"}
	hash   = language{line: []string{"#"}, quotes: "\"'"}
	markup = language{open: "<!--", shut: "-->"}
)

func named(l language, name string) language {
	l.name = name
	return l
}

var languages = map[string]language{
	".go": named(cLike, "Go"), ".c": named(cLike, "C"), ".h": named(cLike, "C"), ".cc": named(cLike, "C++"), ".cpp": named(cLike, "C++"), ".hpp": named(cLike, "C++"),
	".java": named(cLike, "Java"), ".js": named(cLike, "JavaScript"), ".mjs": named(cLike, "JavaScript"), ".jsx": named(cLike, "JavaScript"), ".ts": named(cLike, "TypeScript"), ".tsx": named(cLike, "TypeScript"),
	".rs": {name: "Rust", line: []string{"//"}, open: "/*", shut: "*/", quotes: "\""}, ".kt": named(cLike, "Kotlin"), ".swift": named(cLike, "Swift"), ".cs": named(cLike, "C#"), ".scala": named(cLike, "Scala"), ".dart": named(cLike, "Dart"), ".proto": named(cLike, "Protobuf"),
	".php": {name: "PHP", line: []string{"//", "#"}, open: "/*", shut: "*/", quotes: "\"'"}, ".css": {name: "CSS", open: "/*", shut: "*/", quotes: "\"'"}, ".scss": named(cLike, "SCSS"),
	".py": named(hash, "Python"), ".rb": named(hash, "Ruby"), ".sh": named(hash, "Shell"), ".bash": named(hash, "Shell"), ".yaml": named(hash, "YAML"), ".yml": named(hash, "YAML"), ".toml": named(hash, "TOML"), ".pl": named(hash, "Perl"), ".r": named(hash, "R"), "makefile": {name: "Makefile", line: []string{"#"}}, "dockerfile": {name: "Dockerfile", line: []string{"#"}},
	".sql": {name: "SQL", line: []string{"--"}, open: "/*", shut: "*/", quotes: "'\""}, ".lua": {name: "Lua", line: []string{"--"}, quotes: "\"'"},
	".html": named(markup, "HTML"), ".xml": named(markup, "XML"), ".vue": named(markup, "Vue"), ".md": {name: "Markdown"}, ".json": {name: "JSON"},
}

var ignored = []string{".git", ".hg", ".svn", "node_modules", "vendor", "dist", "build", "target", "__pycache__", ".venv", "venv", ".idea", ".vscode", ".agent", ".cache", "*.min.js", "*.min.css"}

type counts struct{ files, code, comment, blank int }

func Run(ctx context.Context, in Args) (string, error) {
	if in.Path == "" {
		in.Path = "."
	}
	for _, p := range in.Ignore {
		if _, err := filepath.Match(p, ""); err != nil {
			return "", fmt.Errorf("ignore %q: %w", p, err)
		}
	}
	ignore := append(append([]string{}, ignored...), in.Ignore...)
	root := sdk.Path(ctx, in.Path)
	if _, err := os.Stat(root); err != nil {
		return "", err
	}
	by := map[string]*counts{}
	skipped := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if p == root || !errors.Is(err, fs.ErrPermission) {
				return err
			}
			skipped++
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p != root {
			for _, pat := range ignore {
				if ok, _ := filepath.Match(pat, d.Name()); ok {
					if d.IsDir() {
						return filepath.SkipDir
					}
					return nil
				}
			}
		}
		if !d.Type().IsRegular() {
			return nil
		}
		ext := strings.ToLower(filepath.Ext(p))
		if ext == "" {
			ext = strings.ToLower(d.Name())
		}
		lang, ok := languages[ext]
		if !ok {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			skipped++
			return nil
		}
		if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
			return nil
		}
		c := by[lang.name]
		if c == nil {
			c = &counts{}
			by[lang.name] = c
		}
		code, comment, blank := count(string(data), lang)
		c.files, c.code, c.comment, c.blank = c.files+1, c.code+code, c.comment+comment, c.blank+blank
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(by) == 0 {
		return "no file of a known language", nil
	}
	names := make([]string, 0, len(by))
	var sum counts
	for n, c := range by {
		names = append(names, n)
		sum = counts{sum.files + c.files, sum.code + c.code, sum.comment + c.comment, sum.blank + c.blank}
	}
	sort.Slice(names, func(i, j int) bool {
		if a, b := by[names[i]].code, by[names[j]].code; a != b {
			return a > b
		}
		return names[i] < names[j]
	})
	var b strings.Builder
	row := func(n string, c counts) {
		fmt.Fprintf(&b, "%-12s %7d %9d %9d %9d\n", n, c.files, c.code, c.comment, c.blank)
	}
	fmt.Fprintf(&b, "%-12s %7s %9s %9s %9s\n", "language", "files", "code", "comment", "blank")
	for _, n := range names {
		row(n, *by[n])
	}
	row("total", sum)
	if skipped > 0 {
		fmt.Fprintf(&b, "%d files or folders could not be read\n", skipped)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// count puts a line with code and a comment under code. Strings are followed within a
// line, those in backquotes over lines.
func count(text string, l language) (code, comment, blank int) {
	if text == "" {
		return
	}
	inside, raw := false, false
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		s := strings.TrimSpace(line)
		if s == "" {
			blank++
			continue
		}
		hasCode, hasComment := false, inside
		quote := byte(0)
		if raw {
			quote, hasCode = '`', true
		}
	scan:
		for s != "" {
			switch {
			case inside:
				hasComment = true
				i := strings.Index(s, l.shut)
				if i < 0 {
					break scan
				}
				s, inside = s[i+len(l.shut):], false
				continue
			case quote != 0:
				hasCode = true
				if s[0] == '\\' && quote != '`' && len(s) > 1 {
					s = s[1:]
				} else if s[0] == quote {
					quote = 0
				}
			case l.open != "" && strings.HasPrefix(s, l.open):
				s, inside = s[len(l.open):], true
				continue
			case begins(s, l.line):
				hasComment = true
				break scan
			case strings.IndexByte(l.quotes, s[0]) >= 0:
				quote, hasCode = s[0], true
			case s[0] != ' ' && s[0] != '\t':
				hasCode = true
			}
			s = s[1:]
		}
		raw = quote == '`'
		if hasCode {
			code++
		} else if hasComment || inside {
			comment++
		}
	}
	return
}

func begins(s string, marks []string) bool {
	for _, m := range marks {
		if strings.HasPrefix(s, m) {
			return true
		}
	}
	return false
}

func main() {
	sdk.Serve("line_count", "Lines of code, comments and blank lines by language", Run, sdk.ReadOnly())
}
