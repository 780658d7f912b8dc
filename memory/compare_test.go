package memory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lingjiyidong/lj/memory/segment"
)

var testSeg = segment.New(segment.Options{Cache: filepath.Join(os.TempDir(), "lj-test-dict")})

func testPart(t string) *statement { return analyse(testSeg, t) }

func judge(a, b string) verdict { return compare(testPart, analyse(testSeg, a), analyse(testSeg, b)) }

var relNames = map[relation]string{apart: "apart", related: "related", replaces: "replaces", merges: "merges"}

// What ingest makes of pairs of statements. A pair that says the opposite or another value
// is never merged, in either order.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want relation
	}{
		{"The API listens on port 80", "the api listens on port 80.", merges},
		{"项目使用 SQLite", "项目使用 SQLite，数据库文件在 data 目录", merges},
		{"开启自动保存", "关闭自动保存", replaces},
		{"logging is enabled", "logging is disabled", replaces},
		{"run the linter before the tests", "run the linter after the tests", replaces},
		{"I do not like coffee", "I like coffee", replaces},
		{"meeting on Monday at 10:00 about budgets", "meeting on Tuesday at 10:00 about budgets", replaces},
		{"每天备份三次数据库", "每天备份五次数据库", related},
		{"use v1.2.3 of the sdk", "use v1.2.4 of the sdk", related},
		{"Alice reports to Bob", "Bob reports to Alice", related},
		{"the parser lives in core/parse.go", "the printer lives in core/print.go", related},
		{"tea is hot", "the deploy runs nightly", apart},
	} {
		for _, p := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			v := judge(p[0], p[1])
			if (v.rel == merges) != (c.want == merges) {
				t.Errorf("%q, %q: %s (%s)", p[0], p[1], relNames[v.rel], v.reason)
			}
		}
		if v := judge(c.a, c.b); c.want == replaces && v.rel != replaces || c.want == apart && v.rel != apart {
			t.Errorf("%q, %q: %s, want %s (%s)", c.a, c.b, relNames[v.rel], relNames[c.want], v.reason)
		}
	}
}

func FuzzParseExtraction(f *testing.F) {
	for _, s := range []string{`[{"content":"a"}]`, "```json\n[{'content':'a',}]\n```", `{"memories":[{"content":"a","priority":"x"}]}`, `[{"content":"a"},{"content":"b`, "[[[[", "<think>[</think>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, e := range ParseExtraction(s) {
			if e.Content == "" {
				t.Error("an empty element")
			}
		}
	})
}
