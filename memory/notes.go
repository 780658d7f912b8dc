package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Note is one entry of a project's .agent/memory.md, which people edit by hand.
type Note struct {
	Heading string
	Text    string
	Line    int // from 1
}

// ParseNotes reads the entries of a memory.md: each item of a list, with the lines that
// continue it, and each paragraph. Headings, rules, code blocks and comments are none.
func ParseNotes(text string) []Note {
	var out []Note
	heading, fence, comment := "", false, false
	open := false // the last note can be continued
	for i, line := range strings.Split(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), "\n") {
		t := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~"):
			fence, open = !fence, false
		case fence:
		case comment || strings.HasPrefix(t, "<!--"):
			comment, open = !strings.Contains(t, "-->"), false
		case t == "":
			open = false
		case strings.HasPrefix(t, "#"):
			heading, open = strings.TrimSpace(strings.TrimLeft(t, "#")), false
		case strings.Trim(t, "-*_= ") == "":
			open = false
		default:
			item := false
			for _, p := range []string{"- ", "* ", "+ "} {
				if strings.HasPrefix(t, p) {
					t, item = strings.TrimSpace(t[2:]), true
					break
				}
			}
			if n := strings.IndexAny(t, ".)"); !item && n > 0 && n < 4 && strings.Trim(t[:n], "0123456789") == "" && strings.HasPrefix(t[n+1:], " ") {
				t, item = strings.TrimSpace(t[n+1:]), true
			}
			t = strings.TrimPrefix(strings.TrimPrefix(t, "[ ] "), "[x] ")
			if open && !item {
				out[len(out)-1].Text += " " + t
				continue
			}
			if t != "" {
				out = append(out, Note{heading, t, i + 1})
				open = true
			}
		}
	}
	return out
}

// maxNotes is how much of a memory.md is read, in bytes.
const maxNotes = 64 << 10

// ReadNotes reads a memory.md. A file that does not exist has no notes. Its text is
// material of the project: it ranks with AGENTS.md and founds no rule.
func ReadNotes(path string) ([]Note, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read project notes: %w", err)
	}
	if len(b) > maxNotes {
		n := maxNotes
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		b = b[:n]
	}
	return ParseNotes(strings.ToValidUTF8(string(b), "\ufffd")), nil
}

// NotesText is notes as quoted lines for the model, within a number of characters; "" for
// none.
func NotesText(notes []Note, budget int) string {
	if len(notes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Project notes, quoted from .agent/memory.md. They rank with AGENTS.md, below the user's words.\n")
	used, left := 0, 0
	for _, n := range notes {
		size := utf8.RuneCountInString(n.Text)
		if used+size > budget {
			left++
			continue
		}
		used += size
		b.WriteString("> " + strings.NewReplacer("<", "‹", ">", "›").Replace(n.Text) + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "(%d more in the file)\n", left)
	}
	return strings.TrimRight(b.String(), "\n")
}

// AppendNote adds one entry under a heading of a memory.md and changes nothing else in it:
// line ends, blank lines and the rest stay. The file and the heading are made when they
// are missing; an entry that is there already is not added again (added is false).
func AppendNote(path, heading, text string) (added bool, err error) {
	text = strings.Join(strings.Fields(clean(text)), " ")
	if text == "" {
		return false, core.Errorf(core.KindUsage, "the note is empty")
	}
	if heading = strings.TrimSpace(heading); heading == "" {
		heading = "Notes"
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read project notes: %w", err)
	}
	old := string(b)
	if strings.Contains(old, "\x00") {
		return false, core.Errorf(core.KindFailed, "%s is not a text file", path)
	}
	want := bare(text)
	for _, n := range ParseNotes(old) {
		if bare(n.Text) == want {
			return false, nil
		}
	}
	eol := "\n"
	if strings.Contains(old, "\r\n") {
		eol = "\r\n"
	}
	entry := "- " + text
	lines := strings.Split(old, "\n")
	at := -1 // insert before this line
	for i, l := range lines {
		t := strings.TrimSpace(l)
		if !strings.HasPrefix(t, "#") || !strings.EqualFold(strings.TrimSpace(strings.TrimLeft(t, "#")), heading) {
			continue
		}
		at = i + 1
		for j := i + 1; j < len(lines); j++ {
			t := strings.TrimSpace(lines[j])
			if strings.HasPrefix(t, "#") {
				break
			}
			if t != "" {
				at = j + 1
				if strings.HasPrefix(t, "* ") || strings.HasPrefix(t, "+ ") {
					entry = t[:2] + text
				}
			}
		}
		break
	}
	var out string
	if at >= 0 {
		head, tail := strings.Join(lines[:at], "\n"), strings.Join(lines[at:], "\n")
		if !strings.HasSuffix(head, "\r") && eol == "\r\n" && at < len(lines) {
			head = strings.TrimSuffix(head, "\r")
		}
		if at == len(lines) { // the last line has no end
			out = head + eol + entry + eol
		} else {
			out = head + "\n" + entry + strings.TrimSuffix(eol, "\n") + "\n" + tail
		}
	} else {
		out = old
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += eol
		}
		if out != "" {
			out += eol
		}
		out += "## " + heading + eol + eol + entry + eol
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("write project notes: %w", err)
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".memory-*.md")
	if err != nil {
		return false, fmt.Errorf("write project notes: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(out)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return false, fmt.Errorf("write project notes: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return false, fmt.Errorf("write project notes: %w", err)
	}
	return true, nil
}
