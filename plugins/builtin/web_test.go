package builtin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin"
)

// webCall calls a tool of the class "web".
func webCall(t *testing.T, o builtin.WebOptions, name string, args map[string]string) core.ToolResult {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range builtin.Web(o) {
		if x.Spec.Name == name {
			r, err := x.Run(t.Context(), core.ToolRequest{Args: b})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatalf("no tool %s", name)
	return core.ToolResult{}
}

// page serves one answer and fetches it.
func page(t *testing.T, contentType, body string) core.ToolResult {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	r := webCall(t, builtin.WebOptions{AllowPrivate: true}, "web_fetch", map[string]string{"url": srv.URL + "/docs/page"})
	r.Text = strings.ReplaceAll(r.Text, srv.URL, "http://host")
	return r
}

const articleHTML = `<!doctype html><html><head><title>The  Title</title><style>p{}</style><script>var x = "<p>no</p>";</script></head>
<body><header>Site header</header><nav><a href="/">Home</a></nav>
<main><h1>First &amp; best</h1>
<p>Some <b>bold</b>, <em>soft</em> and <code>a &lt; b</code> text
over lines with a <a href="../other?q=1#x">link</a>, <a href="#top">no link</a><a href="javascript:alert(1)">, script</a>.<br>Next line.</p>
<ul><li>one</li><li><p>two</p><ol start="3"><li>three</li><li>four</li></ol></li></ul>
<pre><code class="language-go">func main() {
	fmt.Println("a")
}</code></pre>
<blockquote><p>quoted</p><p>twice</p></blockquote>
<table><tr><th>A</th><th>B</th></tr><tr><td>1|2</td><td><a href="/t">t</a></td></tr></table>
<form><label>Mail</label><input name=q><button>Send</button></form>
<aside>Aside</aside><div hidden>Hidden</div><div style="display: none">None</div>
<img src="/i.png" alt="Picture"><dl><dt>Term</dt><dd>Meaning</dd></dl>
<h2>Second<a href="#second">#</a></h2><div>Last <span>words</span> here and some more so that there is enough to read in this part of the page.</div>
</main><footer>Footer</footer></body></html>`

func TestFetchMakesMarkdown(t *testing.T) {
	got := page(t, "text/html; charset=utf-8", articleHTML)
	want := `# First & best

Some **bold**, *soft* and ` + "`a < b`" + ` text over lines with a [link](http://host/other?q=1#x), no link, script.
Next line.

- one
- two
  3. three
  4. four

` + "```go" + `
func main() {
	fmt.Println("a")
}
` + "```" + `

> quoted
>
> twice

| A | B |
| --- | --- |
| 1\|2 | [t](http://host/t) |

![Picture](http://host/i.png)

**Term**
  Meaning

## Second

Last words here and some more so that there is enough to read in this part of the page.`
	head, body, _ := strings.Cut(got.Text, "\n")
	if body != want || got.IsError {
		t.Errorf("%s", body)
	}
	has(t, head, "[http://host/docs/page: 200 OK, text/html, ", "title: The Title", "not instructions]")
}

func TestFetchFindsTheReadablePart(t *testing.T) {
	long := strings.Repeat("A sentence that makes it long enough. ", 20)
	r := page(t, "text/html", "<body><div>menu menu</div><article><header><h1>Head</h1></header><p>"+long+"</p></article></body>")
	has(t, r.Text, "# Head", "A sentence")
	hasNot(t, r.Text, "menu")
	r = page(t, "text/html", "<body><article>"+long+"one</article><article>"+long+"two</article></body>")
	has(t, r.Text, "one", "two")
	r = page(t, "text/html", "<body><main></main><p>"+long+"</p></body>")
	has(t, r.Text, "A sentence")
	r = page(t, "text/html", "<body><form><h1>Whole page</h1><p>text</p><input></form></body>")
	has(t, r.Text, "# Whole page")
	r = page(t, "text/html", "<body><div id=app></div><script>render()</script></body>")
	has(t, r.Text, "made by scripts")
	r = page(t, "text/html", "<table><tr><td><table><tr><td>Nested</td></tr></table></td><td>layout</td></tr></table>")
	has(t, r.Text, "Nested", "layout")
	hasNot(t, r.Text, "|")
}

func TestFetchCharsets(t *testing.T) {
	text := "统计每一列的数据，并且写入文件。"
	gbk, _ := simplifiedchinese.GBK.NewEncoder().String(text)
	sjis, _ := japanese.ShiftJIS.NewEncoder().String("日本語のテキストです。")
	u16, _ := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("<p>" + text + "</p>")
	for _, c := range []struct{ typ, body, want string }{
		{"text/html; charset=gbk", "<p>" + gbk + "</p>", text},                             // header
		{"text/html", "<meta charset=gb2312><p>" + gbk + "</p>", text},                     // meta
		{"text/html", "<p>" + gbk + "</p>", text},                                          // neither
		{"text/html", u16, text},                                                           // byte order mark
		{"text/plain", "\xef\xbb\xbf" + text, text},                                        // byte order mark
		{"text/html; charset=Shift_JIS", "<p>" + sjis + "</p>", "日本語のテキストです。"},             // header
		{"text/html; charset=iso-8859-1", "<p>caf\xe9</p>", "café"},                        // header
		{"text/html; charset=iso-8859-1", "<p>" + text + "</p>", text},                     // the header is wrong
		{"application/json", `{"a":"` + text + `"}`, `{"a":"` + text + `"}`},               // no charset
		{"text/html; charset=nonsense", "<p>" + text + "</p>", text},                       // unknown
		{"application/xhtml+xml", "<html><body><p>x " + text + "</p></body></html>", text}, // by type
		{"", "<!doctype html><p>plain</p>", "plain"},                                       // by content
		{"text/plain", "a\x1b[2Jb\x07c\r\nd", "a[2Jbc\nd"},                                 // control characters
	} {
		has(t, page(t, c.typ, c.body).Text, c.want)
	}
}

func TestFetchOtherTypes(t *testing.T) {
	r := page(t, "application/json", "{\n  \"a\": 1\n}")
	has(t, r.Text, "application/json, 12 bytes", "\n{\n  \"a\": 1\n}")
	r = page(t, "application/pdf", "%PDF-1.7 \x00\x01")
	has(t, r.Text, "PDF document, not shown]")
	r = page(t, "text/plain", "\x89PNG\r\n\x1a\n\x00\x00")
	has(t, r.Text, "PNG image, not shown]")
	r = page(t, "text/plain", "")
	has(t, r.Text, "empty]")
	r = page(t, "text/plain", strings.Repeat("0123456789abcde\n", 10_000))
	has(t, r.Text, "[cut: 4", " of 160.0 KB shown]")
	if len(r.Text) > 42<<10 {
		t.Errorf("%d bytes", len(r.Text))
	}
	r = page(t, "text/html", "<p>"+strings.Repeat("<b>", 2000)+"deep text</p>")
	has(t, r.Text, "deep text")
	r = page(t, "text/html", strings.Repeat("<blockquote><ul><li>x", 200)+"end")
	has(t, r.Text, "end")
}

func TestFetchStatusAndRedirect(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/old", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/new", http.StatusMovedPermanently) })
	mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "here") })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	o := builtin.WebOptions{AllowPrivate: true}
	r := webCall(t, o, "web_fetch", map[string]string{"url": srv.URL + "/old"})
	has(t, r.Text, srv.URL+"/new: 200 OK, redirected from "+srv.URL+"/old", "here")
	r = webCall(t, o, "web_fetch", map[string]string{"url": srv.URL + "/gone"})
	if has(t, r.Text, "404 Not Found"); !r.IsError {
		t.Error("404 is no failure")
	}
	r = webCall(t, o, "web_fetch", map[string]string{"url": srv.URL + "/busy"})
	has(t, r.Text, "429", "retry after 7", "slow down")
	r = webCall(t, builtin.WebOptions{}, "web_fetch", map[string]string{"url": srv.URL + "/new"})
	if has(t, r.Text, "refused", "web.allow_private"); !r.IsError || strings.Contains(r.Text, "here") {
		t.Error(r.Text)
	}
	r = webCall(t, o, "web_fetch", map[string]string{"url": "file:///etc/passwd"})
	if has(t, r.Text, "only http"); !r.IsError {
		t.Error(r.Text)
	}
}

// engine scripts a search engine.
func engine(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func find(t *testing.T, o builtin.WebOptions) core.ToolResult {
	t.Helper()
	return webCall(t, o, "web_search", map[string]string{"query": "go  tree-sitter"})
}

const want2 = "1. One & <T> title\n   https://one.example/a?b=1\n   A bold snippet.\n2. Two\n   https://two.example/"

func answers(t *testing.T, r core.ToolResult) {
	t.Helper()
	if _, list, _ := strings.Cut(r.Text, "]\n"); r.IsError || list != want2 {
		t.Errorf("%s", r.Text)
	}
}

func TestSearchDuckDuckGo(t *testing.T) {
	const row = `<div class="result results_links web-result"><div class="links_main"><h2><a class="result__a" href="%u">%t</a></h2><a class="result__snippet" href="x">%s</a></div></div>`
	fill := func(u, t, s string) string { return strings.NewReplacer("%u", u, "%t", t, "%s", s).Replace(row) }
	body := "<html><body>" +
		strings.Replace(fill("https://ad.example/", "Ad", "buy"), `class="result `, `class="result result--ad `, 1) +
		fill("//duckduckgo.com/l/?uddg=https%3A%2F%2Fone.example%2Fa%3Fb%3D1&rut=x", "One &amp; &lt;T&gt; title", "A <b>bold</b>\n snippet.") +
		fill("https://two.example/", "Two", "") + fill("https://two.example/", "Two again", "") + fill("javascript:x", "Bad", "") + "</body></html>"
	u := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/html/" || r.URL.Query().Get("q") != "go tree-sitter" || r.UserAgent() != "lj" {
			t.Errorf("%s %s", r.URL, r.UserAgent())
		}
		_, _ = io.WriteString(w, body)
	})
	answers(t, find(t, builtin.WebOptions{URL: u + "/html/"}))
	for words, h := range map[string]http.HandlerFunc{
		"proof that a person|searxng": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `<form id="challenge-form"><div class="anomaly-modal"></div></form>`)
		},
		"not its result page|web.search": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<p>Welcome</p>") },
		"takes no more searches|30":      func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "30"); w.WriteHeader(429) },
		"answered 500":                   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
	} {
		r := find(t, builtin.WebOptions{URL: engine(t, h)})
		if has(t, r.Text, strings.Split(words, "|")...); !r.IsError {
			t.Error(r.Text)
		}
	}
	r := find(t, builtin.WebOptions{URL: engine(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `<div class="no-results">No results.</div>`)
	})})
	if has(t, r.Text, "no results for go tree-sitter"); r.IsError {
		t.Error(r.Text)
	}
}

func TestSearchSearXNG(t *testing.T) {
	u := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/search" || r.URL.Query().Get("format") != "json" || r.URL.Query().Get("q") != "go tree-sitter" {
			t.Errorf("%s", r.URL)
		}
		_, _ = io.WriteString(w, `{"results":[{"title":"One & <T> title","url":"https://one.example/a?b=1","content":"A bold snippet."},{"title":"Two","url":"https://two.example/"}]}`)
	})
	answers(t, find(t, builtin.WebOptions{Engine: "searxng", URL: u + "/base/"}))
	r := find(t, builtin.WebOptions{Engine: "searxng"})
	has(t, r.Text, "web.search_url")
	r = find(t, builtin.WebOptions{Engine: "searxng", URL: engine(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) })})
	has(t, r.Text, "search.formats")
	r = find(t, builtin.WebOptions{Engine: "searxng", URL: engine(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>") })})
	has(t, r.Text, "not its JSON")
}

func TestSearchBraveAndTavily(t *testing.T) {
	const key = "sk-test-0123456789"
	brave := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Subscription-Token") != key || r.URL.Query().Get("q") != "go tree-sitter" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"web":{"results":[{"title":"One &amp; &lt;T&gt; title","url":"https://one.example/a?b=1","description":"A <strong>bold</strong> snippet."},{"title":"Two","url":"https://two.example/"}]}}`)
	})
	tavily := engine(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Query string }
		if json.NewDecoder(r.Body).Decode(&in) != nil || r.Method != http.MethodPost || in.Query != "go tree-sitter" || r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"results":[{"title":"One & <T> title","url":"https://one.example/a?b=1","content":"A bold snippet."},{"title":"Two","url":"https://two.example/"}]}`)
	})
	for name, u := range map[string]string{"brave": brave, "tavily": tavily} {
		answers(t, find(t, builtin.WebOptions{Engine: name, URL: u, Key: key}))
		r := find(t, builtin.WebOptions{Engine: name, URL: u})
		if has(t, r.Text, "needs a key", "web.search_key"); !r.IsError {
			t.Error(r.Text)
		}
		r = find(t, builtin.WebOptions{Engine: name, URL: u, Key: "wrong-key-value"})
		if has(t, r.Text, "refuses the key"); !r.IsError || strings.Contains(r.Text, "wrong-key-value") {
			t.Error(r.Text)
		}
	}
	r := find(t, builtin.WebOptions{Engine: "altavista"})
	has(t, r.Text, "no search engine", "duckduckgo, searxng, brave, tavily")
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	r = find(t, builtin.WebOptions{URL: srv.URL})
	if has(t, r.Text, "no connection"); !r.IsError {
		t.Error(r.Text)
	}
}

// The four tools cost the model little.
func TestSpecsAreShort(t *testing.T) {
	for _, x := range append(builtin.Files(), builtin.Web(builtin.WebOptions{})...) {
		switch x.Spec.Name {
		case "get_outline", "find_symbol", "web_fetch", "web_search":
			if n := len(x.Spec.Description) + len(x.Spec.Schema); n > 260 || !x.Spec.ReadOnly || x.Spec.Origin != core.OriginBuiltin {
				t.Errorf("%s: %d bytes", x.Spec.Name, n)
			}
		}
	}
}
