package editfile

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/lingjiyidong/lj/core/workspace"
)

// A lens is a way to look at a line that hides one kind of difference.
type lens struct {
	name string
	see  func(string) string
}

var quotes = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`, "`", "'", "´", "'", "–", "-", "—", "-", "\u00a0", " ")

// lenses go from the smallest difference to the largest; each hides those before it too.
var lenses = []lens{
	{"blanks at the end of lines", func(s string) string { return strings.TrimRight(s, " \t") }},
	{"the indentation", strings.TrimSpace},
	{"blanks and tabs", squeeze},
	{"the kind of quotes or dashes", func(s string) string { return squeeze(quotes.Replace(s)) }},
	{"upper and lower case", func(s string) string { return strings.ToLower(squeeze(quotes.Replace(s))) }},
	{"full-width characters", func(s string) string { return strings.ToLower(squeeze(narrow(quotes.Replace(s)))) }},
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func narrow(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0xFF01 && r <= 0xFF5E:
			return r - 0xFEE0
		case r == '。':
			return '.'
		case r == '、':
			return ','
		}
		return r
	}, s)
}

// explain says where the nearest text to old is and what differs there.
func explain(text, old, repl string) string {
	var sb strings.Builder
	if repl != "" && strings.TrimSpace(repl) != "" {
		if i := strings.Index(text, repl); i >= 0 && len(repl) > 3 {
			fmt.Fprintf(&sb, "\nThe text of new is already in the file, at line %d: perhaps this edit was made before.", workspace.LineAt(text, i))
		}
	}
	have := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	if len(want) > len(have) && len(want) > 1 {
		fmt.Fprintf(&sb, "\nold has %d lines, the file only %d.", len(want), len(have))
	}
	if hint := slip(text, old, want); hint != "" {
		sb.WriteString("\n" + hint)
		return sb.String()
	}
	if strings.HasSuffix(old, "\n") && strings.HasSuffix(text, strings.TrimSuffix(old, "\n")) {
		fmt.Fprintf(&sb, "\nThe file ends with this text, but without a newline: leave the last newline out of old.")
		return sb.String()
	}
	for _, l := range lenses {
		if i, n := seek(have, want, l.see); n > 0 {
			fmt.Fprintf(&sb, "\nThe nearest text is at %s; only %s differs. The file has:\n%s", lineRange(i, len(want)), l.name, excerpt(have, i, len(want)))
			return sb.String()
		}
	}
	i, same := nearest(have, want)
	if i < 0 {
		sb.WriteString("\nNothing in the file is like it; read the file with read_file.")
		return sb.String()
	}
	j := 0
	for j < len(want)-1 && i+j < len(have) && have[i+j] == want[j] {
		j++
	}
	fmt.Fprintf(&sb, "\nThe nearest text is at %s (%d of %d lines equal). The first difference is in line %d:\n  file: %s\n  old:  %s",
		lineRange(i, min(len(want), len(have)-i)), same, len(want), i+j+1, clip(have[min(i+j, len(have)-1)]), clip(want[j]))
	if len(want) > 1 {
		fmt.Fprintf(&sb, "\nThe file has there:\n%s", excerpt(have, i, len(want)))
	}
	return sb.String()
}

func clip(s string) string { return workspace.Truncate(strings.ReplaceAll(s, "\t", "→"), 160) }

func lineRange(i, n int) string {
	if n <= 1 {
		return fmt.Sprintf("line %d", i+1)
	}
	return fmt.Sprintf("lines %d-%d", i+1, i+n)
}

func excerpt(lines []string, i, n int) string {
	n = min(n, len(lines)-i)
	tail := ""
	if n > 20 {
		tail, n = fmt.Sprintf("\n… %d more lines", n-20), 20
	}
	out := make([]string, n)
	for k := range out {
		out[k] = workspace.Truncate(lines[i+k], 300)
	}
	return strings.Join(out, "\n") + tail
}

var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*\d+(\t|[:|→]\s?)`) })

// slip recognises mechanical mistakes: line numbers copied along, escapes written out.
func slip(text, old string, want []string) string {
	bare := make([]string, 0, len(want))
	for _, l := range want {
		m := numbered().FindString(l)
		if m == "" {
			bare = nil
			break
		}
		bare = append(bare, l[len(m):])
	}
	if bare != nil && strings.Contains(text, strings.Join(bare, "\n")) {
		return "old begins its lines with line numbers, which are not in the file: leave them out."
	}
	un := strings.NewReplacer(`\r\n`, "\n", `\n`, "\n", `\t`, "\t", `\"`, `"`, `\\`, `\`).Replace(old)
	if un != old && strings.Contains(text, un) {
		return `old has escapes written out (\n, \t, \" or \\ as two characters) where the file has the characters themselves: send them unescaped.`
	}
	return ""
}

// seek finds want in have under a lens: the index of its first line, and 1, or 0 when it
// is not there. A single line is also found inside a longer one.
func seek(have, want []string, see func(string) string) (int, int) {
	w := make([]string, len(want))
	blank := true
	for i, l := range want {
		w[i] = see(l)
		blank = blank && w[i] == ""
	}
	if blank {
		return 0, 0
	}
	h := make([]string, len(have))
	for i, l := range have {
		h[i] = see(l)
	}
	for i := 0; i+len(w) <= len(h); i++ {
		ok := true
		for j := range w {
			// The first and last line may be parts of theirs.
			switch {
			case h[i+j] == w[j]:
			case len(w) == 1 && w[0] != "" && strings.Contains(h[i], w[0]):
			case len(w) > 1 && j == 0 && w[0] != "" && strings.HasSuffix(h[i], w[0]):
			case len(w) > 1 && j == len(w)-1 && w[j] != "" && strings.HasPrefix(h[i+j], w[j]):
			default:
				ok = false
			}
			if !ok {
				break
			}
		}
		if ok {
			return i, 1
		}
	}
	return 0, 0
}

// nearest finds the place where most lines of want are, in order; failing that, the line
// most like its first telling one. -1 when nothing is alike.
func nearest(have, want []string) (at, same int) {
	const effort = 4_000_000
	at = -1
	if len(have)*len(want) <= effort {
		for i := range have {
			n := 0
			for j, l := range want {
				if i+j < len(have) && strings.TrimSpace(l) != "" && squeeze(have[i+j]) == squeeze(l) {
					n++
				}
			}
			if n > same {
				at, same = i, n
			}
		}
	}
	if at >= 0 {
		return at, same
	}
	telling, k := "", 0
	for j, l := range want {
		if n := len(strings.TrimSpace(l)); n > len(strings.TrimSpace(telling)) {
			telling, k = l, j
			if n > 20 {
				break
			}
		}
	}
	g := grams(telling)
	best := 0.0
	for i, l := range have {
		if s := alike(g, l); s > best {
			best, at = s, i
		}
	}
	if best < 0.35 {
		return -1, 0
	}
	return max(at-k, 0), 0
}

// grams are the pairs of neighbouring characters of a line, blanks left out.
func grams(s string) map[[2]rune]int {
	m := map[[2]rune]int{}
	var prev rune
	n := 0
	for _, r := range s {
		if unicode.IsSpace(r) {
			continue
		}
		if n++; n > 400 {
			break
		}
		r = unicode.ToLower(r)
		m[[2]rune{prev, r}]++
		prev = r
	}
	return m
}

// alike is the Dice coefficient of two lines' pairs.
func alike(a map[[2]rune]int, line string) float64 {
	b := grams(line)
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	na, nb, both := 0, 0, 0
	for k, n := range a {
		na += n
		both += min(n, b[k])
	}
	for _, n := range b {
		nb += n
	}
	return 2 * float64(both) / float64(na+nb)
}
