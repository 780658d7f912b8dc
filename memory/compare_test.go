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

// The same thing with the opposite or another value is replaced; two things that an
// antonym, a time or a name in front of the verb tells apart both stay.
func TestOppositeOrAnother(t *testing.T) {
	for _, c := range []struct {
		a, b     string
		replaces bool
	}{
		{"左边是菜单", "右边是菜单", false},
		{"The left panel shows files", "The right panel shows files", false},
		{"入口在左边", "入口在右边", true},
		{"minimum password length is 8", "maximum password length is 64", false},
		{"最小长度是8", "最大长度是64", false},
		{"read timeout is 5s", "write timeout is 10s", false},
		{"input file is a.txt", "output file is b.txt", false},
		{"开始时间是9点", "结束时间是18点", false},
		{"The old server is oslo-1", "The new server is oslo-2", false},
		{"source dir is src", "target dir is dst", false},
		{"上午的会在301室", "下午的会在302室", false},
		{"the first sprint ends on March 29", "the second sprint ends on April 12", false},
		{"内网地址是10.0.0.1", "外网地址是8.8.1.1", false},
		{"The upper limit is 100", "The lower limit is 10", false},
		{"上限是100", "下限是10", false},
		{"dev uses sqlite", "prod uses postgres", false},
		{"Windows build uses msvc", "Linux build uses gcc", false},
		{"同步任务每天运行", "异步任务每小时运行", false},
		{"public API needs no key", "private API needs a key", false},
		{"English docs are in docs/en", "Chinese docs are in docs/zh", false},
		{"open tickets go to Ann", "closed tickets go to Bob", false},
		{"I like tea", "I like coffee", false},
		{"我喜欢茶", "我喜欢咖啡", false},
		{"我讨厌茶", "我喜欢茶", true},
		{"大写用于常量", "小写用于变量", false},
		{"male users see A", "female users see B", false},
		{"Upload limit is 5MB", "Download limit is 50MB", false},
		{"买入价是3元", "卖出价是4元", false},
		{"Success responses are cached", "Failure responses are not cached", false},
		{"I hate tea", "I like tea", true},
		{"我讨厌茶", "我喜欢茶", true},
		{"I love long meetings", "I dislike long meetings", true},
		{"I hate tea", "I hate coffee", false},
		{"The user likes Go", "The user hates Go", true},
		{"Upload limit is 5MB", "Download limit is 5MB", false},
		{"旧文件放在 src", "新文件放在 src", false},
		{"主页用深色", "主页用浅色", true},
		{"The window opens on the left", "The window opens on the right", true},
		{"The service is public", "The service is private", true},
		{"服务是公开的", "服务是私有的", true},
		{"The job is synchronous", "The job is asynchronous", true},
		{"The first column is the id", "The last column is the id", false},
		{"回复要简洁", "回复要详细", true},
		{"Reply in a concise style", "Reply in a detailed style", true},
		{"The old API returns XML", "The new API returns JSON", false},
		{"The old API returns XML", "The old API returns JSON", true},
		{"前端用 npm", "后端用 npm", false},
		{"内网需要代理", "外网需要代理", false},
		{"上午的会在301室", "下午的会在302室", false},
		{"The morning run takes 30 minutes", "The evening run takes 45 minutes", false},
		{"周一的例会在301", "周二的例会在302", false},
		{"On Monday Ann is on call", "On Tuesday Bob is on call", false},
		{"The 2023 report is in docs/2023", "The 2024 report is in docs/2024", false},
		{"第一阶段三月结束", "第二阶段四月结束", false},
	} {
		for _, p := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if v := judge(p[0], p[1]); (v.rel == replaces) != c.replaces || v.rel == merges {
				t.Errorf("%q, %q: %s (%s)", p[0], p[1], relNames[v.rel], v.reason)
			}
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
