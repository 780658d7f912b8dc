package webfetch

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of one conversion.
const (
	maxLevel = 8       // of lists and quotes in each other
	maxOut   = 1 << 20 // bytes of Markdown
	thin     = 200     // bytes of text below which a part can't be the readable one
)

// markdown turns a page into its title and its readable part.
func markdown(src string, base *url.URL) (title, text string) {
	doc, err := html.Parse(strings.NewReader(src))
	if err != nil { // nested too deeply
		return "", plain(src)
	}
	r := &renderer{base: base}
	if t := first(doc, func(n *html.Node) bool { return n.DataAtom == atom.Title }); t != nil {
		title = squeeze(textOf(t))
	}
	if b := first(doc, func(n *html.Node) bool { return n.DataAtom == atom.Base }); b != nil {
		if u, err := base.Parse(attr(b, "href")); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			r.base = u
		}
	}
	body := first(doc, func(n *html.Node) bool { return n.DataAtom == atom.Body })
	if body == nil {
		body = doc
	}
	root := readable(body)
	r.inside = root != body
	r.blocks(root)
	r.flush()
	if r.inside && len(r.text()) < thin { // the page means something else by that element
		whole := &renderer{base: r.base}
		whole.blocks(body)
		whole.flush()
		if len(whole.text()) > 4*len(r.text())+thin {
			r = whole
		}
	}
	return title, r.text()
}

// readable is the element that holds what the page is about.
func readable(body *html.Node) *html.Node {
	if m := first(body, func(n *html.Node) bool { return n.DataAtom == atom.Main || attr(n, "role") == "main" }); m != nil {
		if a := only(m, atom.Article); a != nil && len(textOf(a)) >= thin {
			return a
		}
		return m
	}
	if a := only(body, atom.Article); a != nil {
		return a
	}
	return body
}

// only is the single outermost element of a kind, nil when there are several.
func only(n *html.Node, a atom.Atom) *html.Node {
	var found *html.Node
	count := 0
	each(n, func(x *html.Node) bool {
		if x.DataAtom == a {
			found = x
			count++
			return false
		}
		return true
	})
	if count == 1 {
		return found
	}
	return nil
}

// each visits the elements below n in order; down says whether to go into one.
func each(n *html.Node, down func(*html.Node) bool) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && !down(c) {
			continue
		}
		each(c, down)
	}
}

func first(n *html.Node, is func(*html.Node) bool) *html.Node {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && is(c) {
			return c
		}
		if f := first(c, is); f != nil {
			return f
		}
	}
	return nil
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

func hasAttr(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

func textOf(n *html.Node) string {
	var sb strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			sb.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.Type == html.ElementNode && (c.DataAtom == atom.Script || c.DataAtom == atom.Style) {
				continue
			}
			walk(c)
		}
	}
	walk(n)
	return sb.String()
}

// squeeze makes one space of every run of white space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// plain is what remains of a page without its marks, for one that can't be parsed.
func plain(src string) string {
	z := html.NewTokenizer(strings.NewReader(src))
	var sb strings.Builder
	skip := ""
	for sb.Len() < maxOut {
		switch z.Next() {
		case html.ErrorToken:
			return sb.String()
		case html.StartTagToken:
			name, _ := z.TagName()
			if s := string(name); skip == "" && (s == "script" || s == "style") {
				skip = s
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		case html.TextToken:
			if t := squeeze(string(z.Text())); skip == "" && t != "" {
				sb.WriteString(html.UnescapeString(t))
				sb.WriteByte('\n')
			}
		}
	}
	return sb.String()
}

// renderer writes Markdown. A paragraph is gathered in line and goes out with flush.
type renderer struct {
	base   *url.URL
	out    strings.Builder
	line   strings.Builder
	prefix string // of every line: quotes and the indentation of lists
	bullet string // of the next block's first line, in prefix from at on
	at     int
	gap    int // how much of prefix the empty line before the next block has
	level  int
	inside bool // within the readable part, where a header is its own
	tight  bool // the next block follows without an empty line
}

func (r *renderer) text() string { return strings.Trim(r.out.String(), "\n") }

func (r *renderer) full() bool { return r.out.Len() > maxOut }

// dropped says whether an element is not part of what a reader reads.
func (r *renderer) dropped(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Nav, atom.Aside, atom.Footer, atom.Iframe, atom.Svg,
		atom.Canvas, atom.Button, atom.Input, atom.Select, atom.Textarea, atom.Dialog, atom.Object, atom.Embed, atom.Audio, atom.Video, atom.Head:
		return true
	case atom.Header:
		return !r.inside
	case atom.Form: // some pages are one form
		return first(n, func(x *html.Node) bool {
			return x.DataAtom == atom.P || x.DataAtom == atom.H1 || x.DataAtom == atom.H2 || x.DataAtom == atom.Article || x.DataAtom == atom.Main
		}) == nil
	}
	switch attr(n, "role") {
	case "navigation", "banner", "contentinfo", "search", "complementary", "dialog":
		return true
	}
	if hasAttr(n, "hidden") || attr(n, "aria-hidden") == "true" {
		return true
	}
	if s := attr(n, "style"); s != "" {
		s = strings.ReplaceAll(strings.ToLower(s), " ", "")
		return strings.Contains(s, "display:none") || strings.Contains(s, "visibility:hidden")
	}
	return false
}

// blocks renders the children of an element.
func (r *renderer) blocks(n *html.Node) {
	for c := n.FirstChild; c != nil && !r.full(); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			r.words(c.Data)
		case c.Type == html.ElementNode && !r.dropped(c):
			r.element(c)
		}
	}
}

// words adds running text.
func (r *renderer) words(s string) {
	if s == "" {
		return
	}
	lead, _ := firstRune(s)
	if unicode.IsSpace(lead) {
		r.space()
	}
	for i, w := range strings.Fields(s) {
		if i > 0 {
			r.space()
		}
		r.line.WriteString(w)
	}
	if last := s[len(s)-1]; last <= ' ' {
		r.space()
	}
}

func firstRune(s string) (rune, int) {
	for i, c := range s {
		return c, i
	}
	return 0, 0
}

func (r *renderer) space() {
	if s := r.line.String(); s != "" && s[len(s)-1] != ' ' && s[len(s)-1] != '\n' {
		r.line.WriteByte(' ')
	}
}

// flush writes the paragraph that was gathered.
func (r *renderer) flush() {
	s := strings.TrimSpace(r.line.String())
	r.line.Reset()
	if s != "" {
		r.block(s)
	}
}

// block writes lines as one block.
func (r *renderer) block(s string) {
	if r.out.Len() > 0 {
		r.out.WriteByte('\n')
		if !r.tight {
			r.out.WriteString(strings.TrimRight(r.prefix[:min(r.gap, len(r.prefix))], " "))
			r.out.WriteByte('\n')
		}
	}
	r.tight, r.gap = false, len(r.prefix)
	for i, l := range strings.Split(s, "\n") {
		if i > 0 {
			r.out.WriteByte('\n')
		}
		p := r.prefix
		if r.bullet != "" {
			p = p[:r.at] + r.bullet + p[r.at+len(r.bullet):]
			r.bullet = ""
		}
		r.out.WriteString(strings.TrimRight(p+l, " "))
	}
}

// deeper renders with a longer prefix.
func (r *renderer) deeper(prefix, bullet string, f func()) {
	if r.level >= maxLevel {
		f()
		return
	}
	old := r.prefix
	r.level++
	r.prefix = old + prefix
	if bullet != "" {
		r.bullet, r.at = bullet, len(old)
	}
	f()
	r.flush()
	r.prefix, r.bullet, r.gap = old, "", len(old)
	r.level--
}

func (r *renderer) element(n *html.Node) {
	switch n.DataAtom {
	case atom.Br:
		r.line.WriteByte('\n')
	case atom.Hr:
		r.flush()
		r.block("---")
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		r.flush()
		if s := r.inline(n); s != "" {
			r.block(strings.Repeat("#", int(n.Data[1]-'0')) + " " + s)
		}
	case atom.Pre, atom.Listing, atom.Xmp:
		r.flush()
		r.code(n)
	case atom.Blockquote:
		r.flush()
		r.deeper("> ", "", func() { r.blocks(n) })
	case atom.Ul, atom.Ol, atom.Menu:
		r.list(n)
	case atom.Li: // outside of a list
		r.flush()
		r.deeper("  ", "- ", func() { r.blocks(n) })
	case atom.Dt:
		r.flush()
		if s := r.inline(n); s != "" {
			r.block("**" + s + "**")
		}
	case atom.Dd:
		r.flush()
		r.deeper("  ", "", func() { r.tight = true; r.blocks(n) })
	case atom.Table:
		r.flush()
		r.table(n)
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt:
		if s := squeeze(textOf(n)); s != "" {
			tick := fence(s, "`", 1)
			if strings.Contains(s, "`") {
				s = " " + s + " "
			}
			r.line.WriteString(tick + s + tick)
		}
	case atom.Strong, atom.B:
		r.mark(n, "**")
	case atom.Em, atom.I:
		r.mark(n, "*")
	case atom.Del, atom.S:
		r.mark(n, "~~")
	case atom.A:
		r.link(n)
	case atom.Img:
		if alt := squeeze(attr(n, "alt")); alt != "" {
			if u := r.absolute(attr(n, "src")); u != "" {
				r.line.WriteString("![" + alt + "](" + u + ")")
			} else {
				r.line.WriteString("[" + alt + "]")
			}
		}
	case atom.Span, atom.Small, atom.Sub, atom.Sup, atom.U, atom.Mark, atom.Abbr, atom.Cite, atom.Q, atom.Time, atom.Label,
		atom.Font, atom.Var, atom.Bdi, atom.Bdo, atom.Data, atom.Dfn, atom.Ins, atom.Wbr, atom.Big:
		r.blocks(n)
	default:
		if n.DataAtom == 0 { // an element of the page's own: text runs on
			r.blocks(n)
			return
		}
		r.flush()
		r.blocks(n)
		r.flush()
	}
}

// inline renders an element as one line.
func (r *renderer) inline(n *html.Node) string {
	sub := &renderer{base: r.base, inside: r.inside, level: r.level}
	sub.blocks(n)
	sub.flush()
	return squeeze(sub.text())
}

func (r *renderer) mark(n *html.Node, m string) {
	if first(n, block) != nil {
		r.blocks(n)
		return
	}
	text := textOf(n)
	s := r.inline(n)
	if s == "" {
		r.words(text)
		return
	}
	if text != strings.TrimLeft(text, " \n\t") {
		r.space()
	}
	r.line.WriteString(m + s + m)
	if text != strings.TrimRight(text, " \n\t") {
		r.space()
	}
}

func block(n *html.Node) bool {
	switch n.DataAtom {
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Table, atom.Pre, atom.Blockquote, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Section, atom.Article:
		return true
	}
	return false
}

func (r *renderer) link(n *html.Node) {
	switch squeeze(textOf(n)) {
	case "#", "¶", "§", "🔗": // marks beside headings
		return
	}
	u := r.absolute(attr(n, "href"))
	if u == "" {
		r.blocks(n)
		return
	}
	if h := first(n, block); h != nil && len(textOf(n)) > 300 { // a card
		r.blocks(n)
		return
	}
	s := r.inline(n)
	if strings.HasPrefix(s, "# ") || strings.HasPrefix(s, "## ") || strings.HasPrefix(s, "### ") || strings.HasPrefix(s, "#### ") {
		s = strings.TrimLeft(s, "# ")
	}
	if s == "" {
		return
	}
	text := textOf(n)
	if text != strings.TrimLeft(text, " \n\t") {
		r.space()
	}
	r.line.WriteString("[" + s + "](" + u + ")")
	if text != strings.TrimRight(text, " \n\t") {
		r.space()
	}
}

// absolute is a link target, "" for one that leads nowhere else.
func (r *renderer) absolute(href string) string {
	href = strings.TrimSpace(href)
	if href == "" || href[0] == '#' {
		return ""
	}
	u, err := r.base.Parse(href)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "http", "https", "mailto":
	default:
		return ""
	}
	return strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(u.String())
}

func (r *renderer) list(n *html.Node) {
	r.flush()
	num, _ := strconv.Atoi(attr(n, "start"))
	if num == 0 {
		num = 1
	}
	// A list within an item follows its text at once.
	tight := r.level > 0
	for c := n.FirstChild; c != nil && !r.full(); c = c.NextSibling {
		if c.Type != html.ElementNode || r.dropped(c) {
			continue
		}
		if c.DataAtom != atom.Li {
			r.blocks(c)
			r.flush()
			continue
		}
		b := "- "
		if n.DataAtom == atom.Ol {
			b = strconv.Itoa(num) + ". "
			num++
		}
		r.deeper(strings.Repeat(" ", len(b)), b, func() {
			r.tight = tight
			r.blocks(c)
		})
		tight = true
	}
	r.tight = false
}

// fence is a run of at least n marks that does not occur in s.
func fence(s, mark string, n int) string {
	f := strings.Repeat(mark, n)
	for strings.Contains(s, f) {
		f += mark
	}
	return f
}

func (r *renderer) code(n *html.Node) {
	var sb strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			sb.WriteString(n.Data)
		case n.DataAtom == atom.Br:
			sb.WriteByte('\n')
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.DataAtom != atom.Button && c.DataAtom != atom.Script && c.DataAtom != atom.Style {
				walk(c)
			}
		}
	}
	walk(n)
	s := strings.Trim(strings.ReplaceAll(strings.ReplaceAll(sb.String(), "\r\n", "\n"), "\r", "\n"), "\n")
	if strings.TrimSpace(s) == "" {
		return
	}
	lang := language(n)
	if lang == "" {
		if c := first(n, func(x *html.Node) bool { return x.DataAtom == atom.Code }); c != nil {
			lang = language(c)
		}
	}
	f := fence(s, "`", 3)
	r.block(f + lang + "\n" + s + "\n" + f)
}

// language is what the class of an element says of its code.
func language(n *html.Node) string {
	for c := range strings.FieldsSeq(attr(n, "class")) {
		for _, p := range []string{"language-", "lang-", "highlight-source-"} {
			if l, ok := strings.CutPrefix(c, p); ok && len(l) < 20 && !strings.ContainsAny(l, "`\n") {
				return l
			}
		}
	}
	return ""
}

// table renders a table of data with pipes, and one that is a page's layout as blocks.
func (r *renderer) table(n *html.Node) {
	var rows [][]*html.Node
	layout := attr(n, "role") == "presentation"
	each(n, func(x *html.Node) bool {
		switch x.DataAtom {
		case atom.Table:
			layout = true
			return false
		case atom.Tr:
			rows = append(rows, nil)
		case atom.Td, atom.Th:
			if len(rows) > 0 {
				rows[len(rows)-1] = append(rows[len(rows)-1], x)
			}
			return first(x, func(y *html.Node) bool { return y.DataAtom == atom.Table }) != nil
		}
		return true
	})
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	if layout || width < 2 || width > 40 {
		for _, row := range rows {
			for _, cell := range row {
				r.blocks(cell)
				r.flush()
			}
		}
		return
	}
	if c := first(n, func(x *html.Node) bool { return x.DataAtom == atom.Caption }); c != nil {
		if s := r.inline(c); s != "" {
			r.block(s)
		}
	}
	var sb strings.Builder
	line := 0
	for _, row := range rows {
		if len(row) == 0 || sb.Len() > maxOut {
			continue
		}
		if line++; line > 1 {
			sb.WriteByte('\n')
		}
		sb.WriteByte('|')
		for i := range width {
			s := ""
			if i < len(row) {
				s = strings.ReplaceAll(r.inline(row[i]), "|", "\\|")
			}
			sb.WriteString(" " + s + " |")
		}
		if line == 1 {
			sb.WriteString("\n|" + strings.Repeat(" --- |", width))
		}
	}
	if line > 0 {
		r.block(sb.String())
	}
}
