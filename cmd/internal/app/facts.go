package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/prompts"
)

// Limits of what is quoted at the beginning of a session, in bytes.
const (
	maxInstructions = 24 << 10
	maxListing      = 60 // entries
)

// userText is the whole text of the user's message: in a session's first turn the facts of
// the project, then what changes from turn to turn, then the user's own words, last.
func (c *Conversation) userText(ctx context.Context, o TurnOptions, mode string, emit func(core.Event)) (string, error) {
	var parts []string
	if c.turn == 1 {
		parts = append(parts, c.app.facts())
	}
	now, err := c.now(ctx, o, mode)
	if err != nil {
		return "", err
	}
	parts = append(parts, now)
	mem, err := c.memoryBlock(ctx, o, emit)
	if err != nil {
		// A memory that can't be read must not stop the work; it is said.
		emit(core.Event{Type: core.EventNotice, Text: "memory is not used in this turn: " + err.Error()})
	} else if mem != "" {
		parts = append(parts, mem)
	}
	if past := c.earlier(o.Prompt); past != "" {
		parts = append(parts, past)
	}
	parts = append(parts, o.Prompt)
	return strings.Join(parts, "\n\n"), nil
}

// now is the block of what may differ from turn to turn.
func (c *Conversation) now(ctx context.Context, o TurnOptions, mode string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "time: %s\nmode: %s", c.app.opt.Now().Format(time.RFC3339), mode)
	switch mode {
	case "plan":
		b.WriteString(" (read only: nothing may be changed; work out what should be done and say it)")
	case "auto":
		b.WriteString(" (writing in the project and confined commands are allowed)")
	}
	if text, err := prompts.Role(o.Role); err != nil {
		return "", err
	} else if text != "" {
		b.WriteString("\n" + text)
	}
	if len(c.repaired) > 0 {
		fmt.Fprintf(&b, "\nlj was stopped while these calls ran; they may be partly done: %s", strings.Join(c.repaired, ", "))
		c.repaired = nil
	}
	if c.resumed {
		c.resumed = false
		st, err := c.app.Store(ctx)
		if err != nil {
			return "", err
		}
		s, err := c.state(ctx, st)
		if err != nil {
			return "", err
		}
		if s != "" {
			b.WriteString("\nthis session is resumed; decided and open in it:\n" + s)
		}
	}
	return prompts.Block("context", "", b.String()), nil
}

// facts is the block about the project: what differs between projects and must therefore
// not be in the system text.
func (a *App) facts() string {
	var b strings.Builder
	fmt.Fprintf(&b, "directory: %s\nsystem: %s/%s\n", a.Project, runtime.GOOS, runtime.GOARCH)
	if branch := gitBranch(a.Project); branch != "" {
		fmt.Fprintf(&b, "git: %s\n", branch)
	} else {
		b.WriteString("git: no repository\n")
	}
	if kinds := projectKinds(a.Project); kinds != "" {
		fmt.Fprintf(&b, "kind: %s\n", kinds)
	}
	b.WriteString("files: " + listing(a.Project))
	out := []string{prompts.Block("project", "", b.String())}
	for _, f := range []struct{ path, attrs string }{
		{filepath.Join(a.Home, "AGENTS.md"), `name="AGENTS.md" of="the user"`},
		{filepath.Join(a.Project, "AGENTS.md"), `name="AGENTS.md" of="the project"`},
		{filepath.Join(a.Project, "CLAUDE.md"), `name="CLAUDE.md" of="the project"`},
		{filepath.Join(a.Project, ".agent", "memory.md"), `name=".agent/memory.md" of="the project"`},
	} {
		if text := quoted(a.Project, a.Home, f.path); text != "" {
			out = append(out, prompts.Block("file", f.attrs, text))
		}
	}
	return strings.Join(out, "\n\n")
}

// quoted reads an instruction file that stays in its folder, cut between characters.
func quoted(project, home, path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if !inside(real, project) && !inside(real, home) {
		return "" // a link out of the project is not followed
	}
	fi, err := os.Stat(real)
	if err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(real)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, maxInstructions+1)
	n := 0
	for n < len(buf) {
		k, err := f.Read(buf[n:])
		n += k
		if err != nil {
			break
		}
	}
	text := buf[:n]
	cut := ""
	if n > maxInstructions {
		text = text[:maxInstructions]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		if len(text) > 0 {
			text = text[:len(text)-1]
		}
		cut = fmt.Sprintf("\n[cut here: the file has %d bytes; read_file shows the rest]", fi.Size())
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "\uFFFD") + cut
}

func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// gitBranch reads the branch without starting git: "on branch main", "detached at 1234567".
func gitBranch(project string) string {
	dir := gitrepo.Dir(filepath.Join(project, ".git"))
	if dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil {
		return ""
	}
	head := strings.TrimSpace(string(b))
	if ref, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok {
		return "on branch " + ref
	}
	if len(head) >= 7 {
		return "detached at " + head[:7]
	}
	return ""
}

func projectKinds(dir string) string {
	var kinds []string
	for _, k := range []struct{ file, name string }{
		{"go.mod", "Go module"}, {"package.json", "Node.js package"}, {"pyproject.toml", "Python project"}, {"setup.py", "Python project"},
		{"Cargo.toml", "Rust crate"}, {"pom.xml", "Maven project"}, {"build.gradle", "Gradle project"}, {"CMakeLists.txt", "CMake project"},
		{"Makefile", "Makefile"}, {"Dockerfile", "Dockerfile"},
	} {
		if fi, err := os.Stat(filepath.Join(dir, k.file)); err == nil && fi.Mode().IsRegular() {
			if len(kinds) == 0 || kinds[len(kinds)-1] != k.name {
				kinds = append(kinds, k.name)
			}
		}
	}
	return strings.Join(kinds, ", ")
}

// listing names the entries of the project directory, folders first.
func listing(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "(can't be read)"
	}
	var names []string
	for _, e := range entries {
		n := workspace.ShowBytes(strings.ReplaceAll(e.Name(), "\n", "\\n"))
		if n == ".git" {
			continue
		}
		if e.IsDir() {
			n += "/"
		}
		names = append(names, n)
	}
	sort.SliceStable(names, func(i, j int) bool {
		di, dj := strings.HasSuffix(names[i], "/"), strings.HasSuffix(names[j], "/")
		return di && !dj
	})
	if len(names) == 0 {
		return "(none)"
	}
	if len(names) > maxListing {
		return strings.Join(names[:maxListing], " ") + fmt.Sprintf(" … and %d more", len(names)-maxListing)
	}
	return strings.Join(names, " ")
}
