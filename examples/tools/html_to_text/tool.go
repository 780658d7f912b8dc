// Command html_to_text gives the text of an HTML page: headings, paragraphs, lists, links
// and tables as plain lines, without scripts and styles. It reads as browsers do roughly,
// not exactly: pages are not repaired.
package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path  string `json:"path,omitempty" jsonschema:"HTML file in UTF-8, relative to the project; or give text"`
	Text  string `json:"text,omitempty" jsonschema:"the HTML itself, instead of path"`
	Links bool   `json:"links,omitempty" jsonschema:"write the target after a link's text"`
}

func Run(ctx context.Context, in Args) (string, error) {
	if (in.Path == "") == (in.Text == "") {
		return "", errors.New("give either path or text")
	}
	if in.Path != "" {
		b, err := os.ReadFile(sdk.Path(ctx, in.Path))
		if err != nil {
			return "", err
		}
		in.Text = strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return render(in.Text, in.Links), nil
}

type writer struct {
	b      strings.Builder
	breaks int // line breaks wanted before the next text
	space  bool
	pre    int
	lists  []int // 0: bullets; n: the next number
	hrefs  []string
}

func (w *writer) line(n int) {
	w.breaks = max(w.breaks, n)
	w.space = false
}

func (w *writer) put(s string) {
	if s == "" {
		return
	}
	if w.b.Len() > 0 {
		if w.breaks > 0 {
			w.b.WriteString(strings.Repeat("\n", w.breaks))
		} else if w.space {
			w.b.WriteByte(' ')
		}
	}
	w.breaks, w.space = 0, false
	w.b.WriteString(s)
}

func (w *writer) text(s string) {
	s = html.UnescapeString(s)
	if w.pre > 0 {
		w.put(s)
		return
	}
	s = strings.ReplaceAll(s, "\u00a0", " ")
	words := strings.Fields(s)
	if len(words) == 0 {
		w.space = w.space || s != "" && w.breaks == 0
		return
	}
	if strings.TrimLeft(s, " \t\r\n") != s && w.breaks == 0 {
		w.space = true
	}
	w.put(strings.Join(words, " "))
	w.space = strings.TrimRight(s, " \t\r\n") != s
}

var attribute = regexp.MustCompile(`(?is)\s([a-z-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s>]+)`)

func attr(tag, name string) string {
	for _, m := range attribute.FindAllStringSubmatch(tag, -1) {
		if strings.EqualFold(m[1], name) {
			return html.UnescapeString(strings.Trim(m[2], `"'`))
		}
	}
	return ""
}

func render(s string, links bool) string {
	w := &writer{}
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			w.text(s)
			break
		}
		if i > 0 {
			w.text(s[:i])
			s = s[i:]
		}
		if strings.HasPrefix(s, "<!--") {
			_, s, _ = strings.Cut(s[4:], "-->")
			continue
		}
		end := tagEnd(s)
		if end < 0 {
			w.text(s[:1])
			s = s[1:]
			continue
		}
		tag := s[:end]
		s = s[end:]
		name := strings.ToLower(strings.TrimLeft(tag[1:len(tag)-1], "/"))
		if i := strings.IndexAny(name, " \t\r\n/"); i >= 0 {
			name = name[:i]
		}
		closing := tag[1] == '/'
		switch name {
		case "script", "style", "noscript", "template", "svg", "head":
			if name == "head" && !closing {
				s = w.head(s)
			} else if !closing && !strings.HasSuffix(tag, "/>") {
				s = after(s, name)
			}
		default:
			w.tag(name, tag, closing, links)
		}
	}
	lines := strings.Split(w.b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// tagEnd is where the tag at the start of s ends, -1 when it is none.
func tagEnd(s string) int {
	if len(s) < 3 || !(s[1] == '/' || s[1] == '!' || s[1] == '?' || s[1]|0x20 >= 'a' && s[1]|0x20 <= 'z') {
		return -1
	}
	quote := byte(0)
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && s[i-1] == '=':
			quote = c
		case c == '>':
			return i + 1
		}
	}
	return -1
}

// after is what follows the closing tag of an element whose content is no text.
func after(s, name string) string {
	lower := strings.ToLower(s)
	i := strings.Index(lower, "</"+name)
	if i < 0 || len(lower) != len(s) {
		return ""
	}
	_, s, _ = strings.Cut(s[i:], ">")
	return s
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

func (w *writer) head(s string) string {
	i := strings.Index(strings.ToLower(s), "</head>")
	if i < 0 {
		return s
	}
	if m := title.FindStringSubmatch(s[:min(i, len(s))]); m != nil {
		w.text(m[1])
		w.line(2)
	}
	return s[min(i, len(s)):]
}

func (w *writer) tag(name, tag string, closing, links bool) {
	switch name {
	case "br":
		w.breaks = min(w.breaks+1, 2)
		w.space = false
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.line(2)
		if !closing {
			w.put(strings.Repeat("#", int(name[1]-'0')) + " ")
		}
	case "p", "blockquote", "table", "section", "article", "figure", "form":
		w.line(2)
	case "div", "tr", "dt", "dd", "header", "footer", "main", "nav", "aside", "caption", "option", "address", "figcaption":
		w.line(1)
	case "td", "th":
		if !closing && w.breaks == 0 && w.b.Len() > 0 {
			w.put(" | ")
		}
	case "ul", "ol":
		if closing && len(w.lists) > 0 {
			w.lists = w.lists[:len(w.lists)-1]
		} else if !closing {
			n := 0
			if name == "ol" {
				n = 1
			}
			w.lists = append(w.lists, n)
		}
		if len(w.lists) == 0 || !closing && len(w.lists) == 1 {
			w.line(2)
		} else {
			w.line(1)
		}
	case "li":
		w.line(1)
		if closing {
			return
		}
		mark, depth := "- ", max(len(w.lists)-1, 0)
		if len(w.lists) > 0 && w.lists[depth] > 0 {
			mark = fmt.Sprintf("%d. ", w.lists[depth])
			w.lists[depth]++
		}
		w.put(strings.Repeat("  ", depth) + mark)
	case "hr":
		w.line(2)
		w.put("---")
		w.line(2)
	case "pre":
		w.line(2)
		if closing {
			w.pre = max(w.pre-1, 0)
		} else {
			w.pre++
		}
	case "img":
		if alt := attr(tag, "alt"); alt != "" {
			w.text(" [" + html.EscapeString(alt) + "] ")
		}
	case "a":
		if !closing {
			w.hrefs = append(w.hrefs, attr(tag, "href"))
			return
		}
		if n := len(w.hrefs); n > 0 {
			href := w.hrefs[n-1]
			w.hrefs = w.hrefs[:n-1]
			if links && href != "" && !strings.HasPrefix(href, "#") && !strings.HasPrefix(strings.ToLower(href), "javascript:") {
				space := w.space
				w.space = true
				w.put("(" + href + ")")
				w.space = space
			}
		}
	}
}

func main() {
	sdk.Serve("html_to_text", "The readable text of an HTML file or text, without scripts and styles", Run, sdk.ReadOnly())
}
