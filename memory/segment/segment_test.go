package segment

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var cache = filepath.Join(os.TempDir(), "lj-test-dict")

func texts(ts []Term) string {
	var out []string
	for _, t := range ts {
		out = append(out, t.Text)
	}
	return strings.Join(out, "|")
}

func TestCut(t *testing.T) {
	s := New(Options{Cache: cache})
	for in, want := range map[string]string{
		"":                  "",
		"部署脚本放在 deploy 目录下": "部署|脚本|放在|deploy|目录|下",
		"覆盖率 80% v1.2.3":    "覆盖率|80%|v1.2|.|3",
		"C++ 与 C#":          "C++|与|C#",
		"a\x00b\xff":        "a|b|\ufffd",
	} {
		if got := strings.Join(s.Cut(in), "|"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
}

// Identifiers, versions, file names and addresses stay whole, with their parts beside them.
func TestTermsKeepIdentifiers(t *testing.T) {
	s := New(Options{Cache: cache})
	for in, want := range map[string]string{
		"先跑chk-menu再开店":                     "先跑|chk-menu|再|开店",
		"see foo_bar.go, v1.2.3 and C++.":   "see|foo_bar.go|v1.2.3|and|C++",
		"配置文件是 ~/.tea_agent/config.yaml。":   "配置文件|是|~/.tea_agent/config.yaml",
		"https://example.com/a/b?x=1 don't": "https://example.com/a/b?x=1|don't",
		"🐶 です":                              "🐶|です",
		"\xff\xfe\x00茶馆":                    "\ufffd|茶馆",
	} {
		if got := texts(s.Terms(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	got := s.Terms("getUserName")
	if len(got) != 1 || strings.Join(got[0].Parts, "|") != "get|User|Name" {
		t.Errorf("%+v", got)
	}
}

// Damaged or half written dictionary files are replaced, never given to the library, which
// would end the process.
func TestUnpackMendsDamage(t *testing.T) {
	dir := t.TempDir()
	files, err := unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 3, 4} {
		if err := os.WriteFile(files[i], nil, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := unpack(dir)
		if err != nil || again != files {
			t.Fatal(again, err)
		}
		if !whole(filepath.Dir(files[0]), fileList()) {
			t.Errorf("%s is still damaged", filepath.Base(files[i]))
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%d entries in the cache, %v", len(left), err)
	}
}

func TestUnpackAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := unpack(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestUserWords(t *testing.T) {
	p := filepath.Join(t.TempDir(), "userdict.txt")
	if err := os.WriteFile(p, []byte("\ufeff# mine\n灵机一动堂 100 n\nAI助手\n\n\xff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Cache: cache, UserDict: p})
	if got := strings.Join(s.Cut("去灵机一动堂找AI助手"), "|"); !strings.Contains(got, "灵机一动堂") || !strings.Contains(got, "AI助手") {
		t.Errorf("%q", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := New(Options{Cache: cache})
	s.Warm()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got := len(s.Terms("生产环境数据库密码保存在密钥管理系统 foo_bar.go")); got < 5 {
					t.Errorf("%d terms", got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTerms(f *testing.F) {
	for _, s := range []string{"", "茶馆chk-menu", "a\x00\xff茶", "~/./..//", "C++#%", "前\u0301後", strings.Repeat("茶", 5000)} {
		f.Add(s)
	}
	s := New(Options{Cache: cache})
	f.Fuzz(func(t *testing.T, text string) {
		for _, term := range s.Terms(text) {
			if term.Text == "" {
				t.Error("an empty term")
			}
		}
		joined := strings.Join(s.Cut(text), "")
		if want := strings.Join(strings.Fields(Clean(text)), ""); len(joined) > len(Clean(text)) || len(joined) < len(want)-len(text) {
			t.Errorf("%q became %q", text, joined)
		}
	})
}

func BenchmarkCut(b *testing.B) {
	s := New(Options{Cache: cache})
	text := strings.Repeat("生产环境数据库密码保存在密钥管理系统，每周五下午三点开周会。", 10)
	if err := s.Ready(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Cut(text)
	}
}
