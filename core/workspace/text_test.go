package workspace_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

func enc(t testing.TB, e encoding.Encoding, s string) []byte {
	t.Helper()
	b, err := e.NewEncoder().Bytes([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, raw []byte) *workspace.Text {
	t.Helper()
	x, err := workspace.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func replace(t testing.TB, raw []byte, old, new string) ([]byte, error) {
	t.Helper()
	x := decode(t, raw)
	i := strings.Index(x.LF, old)
	if i < 0 {
		t.Fatalf("%q is not in %q", old, x.LF)
	}
	return x.Splice([]workspace.Span{{Start: i, End: i + len(old), New: new}})
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name string
		e    encoding.Encoding
		text string
		want *workspace.Encoding
	}{
		{"gbk short", simplifiedchinese.GBK, "茶馆\n", workspace.GB18030},
		{"gbk comment", simplifiedchinese.GBK, "limit = 3\n# 价格上限\n", workspace.GB18030},
		{"gb18030 menu", simplifiedchinese.GB18030, "绿茶 12元\n", workspace.GB18030},
		{"gb18030 prose", simplifiedchinese.GB18030, "这个函数返回用户的订单列表，如果没有登录就报错。\n", workspace.GB18030},
		{"gb18030 beyond gbk", simplifiedchinese.GB18030, "今天我们去喝茶，𠮷野家也不错。\n", workspace.GB18030},
		{"sjis short", japanese.ShiftJIS, "設定=1\n", workspace.ShiftJIS},
		{"sjis prose", japanese.ShiftJIS, "このファイルは設定を含んでいます。\n", workspace.ShiftJIS},
		{"euc-jp prose", japanese.EUCJP, "このファイルは設定を含んでいます。削除しないでください。\n", workspace.EUCJP},
		{"big5", traditionalchinese.Big5, "這個檔案包含設定，請不要刪除。\n", workspace.Big5},
		{"big5 short", traditionalchinese.Big5, "設定值=1\n綠茶\n", workspace.Big5},
		{"euc-kr", korean.EUCKR, "이 파일은 설정을 포함합니다. 삭제하지 마세요.\n", workspace.EUCKR},
		{"latin", charmap.Windows1252, "le café est très généreux à l’été\n", workspace.Windows1252},
		{"german", charmap.Windows1252, "Die Größe der Tür über dem Fluß\n", workspace.Windows1252},
		{"utf8", encoding.Nop, "茶馆 café\n", workspace.UTF8},
		{"declared", simplifiedchinese.GBK, "# -*- coding: gbk -*-\nx = '镕'\n", workspace.GB18030},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := enc(t, c.e, c.text)
			x := decode(t, raw)
			if x.Encoding != c.want {
				t.Errorf("%s, want %s: %q", x.Encoding, c.want, x.LF)
			}
			if x.Encoding == c.want && x.LF != c.text {
				t.Errorf("%q", x.LF)
			}
			if back, err := x.Splice(nil); err != nil || !bytes.Equal(back, raw) {
				t.Errorf("not the same bytes: %v", err)
			}
		})
	}
	x := decode(t, []byte("общ\xee\xe1\xf9\xe8\xe9 \xf2\xe5\xea\xf1\xf2\n"))
	if x.Encoding != workspace.Bytes || !strings.Contains(x.LF, `общ\xee\xe1`) {
		t.Errorf("%s %q", x.Encoding, x.LF)
	}
}

func TestFault001LineEndsAreKept(t *testing.T) {
	got, err := replace(t, []byte("int a;\r\nint b;\r\nint c;\r\n"), "int a;\nint b;", "int a;\nlong b;")
	if err != nil || string(got) != "int a;\r\nlong b;\r\nint c;\r\n" {
		t.Fatalf("%q %v", got, err)
	}
	for _, c := range []struct{ raw, old, new, want string }{
		{"a\r\nb\r\n", "a", "a\nx", "a\r\nx\r\nb\r\n"},
		{"a\r\nb", "b", "b\nc", "a\r\nb\r\nc"},
		{"a\nb\r\nc\n", "b\nc", "b\nx\nc", "a\nb\r\nx\nc\n"},
		{"a\nb\r\nc\n", "c", "C", "a\nb\r\nC\n"},
		{"a\rb\r", "b", "x\ny", "a\rx\ry\r"},
		{"a\r\nb\r\n", "a\nb\n", "", ""},
		{"a", "a", "a\n", "a\n"},
		{"\xEF\xBB\xBFa\r\nb\r\n", "a\n", "茶\n", "\xEF\xBB\xBF茶\r\nb\r\n"},
	} {
		got, err := replace(t, []byte(c.raw), c.old, c.new)
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q want %q (%v)", c.raw, got, c.want, err)
		}
	}
}

func TestFault002OnlyTheEditedBytesDiffer(t *testing.T) {
	raw := []byte("limit = 3\n# \xBC\xDB\xB8\xF1\xC9\xCF\xCF\xDE\n")
	got, err := replace(t, raw, "limit = 3", "limit = 5")
	if err != nil || string(got) != strings.Replace(string(raw), "3", "5", 1) {
		t.Fatalf("%q %v", got, err)
	}
	// Bytes that are no text in any encoding stay as well.
	raw = []byte("x = 1 # \xff\xfe\x80\xff\ny = \xff2\n")
	got, err = replace(t, raw, `y = \xff2`, `y = \xff3`)
	if err != nil || string(got) != "x = 1 # \xff\xfe\x80\xff\ny = \xff3\n" {
		t.Fatalf("%q %v", got, err)
	}
	if _, err = replace(t, raw, `y = \xff2`, `z = \xff\xff2 \xff`); core.KindOf(err) != core.KindRefused {
		t.Fatalf("undecodable bytes were written: %v", err)
	}
	if _, err = replace(t, raw, "x", "茶"); core.KindOf(err) != core.KindRefused {
		t.Fatalf("mixed encodings: %v", err)
	}
}

func TestFault004RewriteKeepsEncoding(t *testing.T) {
	raw := enc(t, simplifiedchinese.GB18030, "绿茶 12元\r\n红茶 9元\r\n")
	got, err := decode(t, raw).Rewrite("绿茶 13元\n红茶 9元\n")
	if err != nil || !bytes.Equal(got, enc(t, simplifiedchinese.GB18030, "绿茶 13元\r\n红茶 9元\r\n")) {
		t.Fatalf("%q %v", got, err)
	}
}

func TestFault005InsertedLineInShiftJIS(t *testing.T) {
	raw := enc(t, japanese.ShiftJIS, "設定=1\n")
	got, err := replace(t, raw, "設定=1\n", "設定=1\n追加=2\n")
	if err != nil || !bytes.Equal(got, enc(t, japanese.ShiftJIS, "設定=1\n追加=2\n")) {
		t.Fatalf("%q %v", got, err)
	}
	if _, err := replace(t, raw, "1", "é"); core.KindOf(err) != core.KindRefused || !strings.Contains(err.Error(), "Shift-JIS") {
		t.Fatal(err)
	}
	if _, err := replace(t, raw, "1", "绿"); err == nil {
		t.Fatal("wrote what the encoding lacks")
	}
}

func TestWhatWouldReadOtherwiseIsRefused(t *testing.T) {
	for _, c := range []struct{ raw, old, new string }{
		{"a\nb\n", "a", "a\r"}, // would become a CRLF
	} {
		got, err := replace(t, []byte(c.raw), c.old, c.new)
		if err == nil {
			t.Errorf("%q: wrote %q", c.raw, got)
		}
	}
}

func TestUTF16(t *testing.T) {
	for _, e := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
		u := unicode.UTF16(e, unicode.UseBOM)
		raw := enc(t, u, "茶=1\r\n𠮷=2\r\n")
		x := decode(t, raw)
		if x.LF != "茶=1\n𠮷=2\n" || x.Ends != workspace.CRLF || !x.BOM {
			t.Fatalf("%+v", x)
		}
		got, err := replace(t, raw, "2", "3\n饭=4")
		if err != nil || !bytes.Equal(got, enc(t, u, "茶=1\r\n𠮷=3\r\n饭=4\r\n")) {
			t.Fatalf("%q %v", got, err)
		}
	}
}

func TestFault011FinalNewline(t *testing.T) {
	raw := []byte("l1\nl2\nl3\nl4\nl5\n")
	raw, err := replace(t, raw, "l2\nl3", "X\nY")
	if err != nil {
		t.Fatal(err)
	}
	raw, err = replace(t, raw, "l1", "l1\nZ")
	if err != nil || string(raw) != "l1\nZ\nX\nY\nl4\nl5\n" {
		t.Fatalf("%q %v", raw, err)
	}
}

func TestBinary(t *testing.T) {
	if _, err := workspace.Decode([]byte("\x89PNG\r\n\x1a\n\x00\x00")); err == nil {
		t.Fatal("PNG is text")
	}
	if k := workspace.Kind([]byte("\x89PNG\r\n\x1a\n\x00"), "a.png"); k != "PNG image" {
		t.Fatal(k)
	}
}

func TestDiff(t *testing.T) {
	a, b := "a\nb\nc\nd\ne\nf\ng\n", "a\nB\nc\nd\ne\nf\ng\nh\n"
	add, del := workspace.CountChanges(a, b)
	if add != 2 || del != 1 {
		t.Fatal(add, del)
	}
	want := "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -7 +7,2 @@\n g\n+h"
	if got := workspace.UnifiedDiff(a, b, 1, 200, 100); got != want {
		t.Fatalf("%s", got)
	}
}

func FuzzDiffRebuilds(f *testing.F) {
	f.Add("a\nb\n", "b\na")
	f.Add("", "x")
	f.Add("a\na\nb\nc\na\n", "c\na\na\nb\n\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		var out strings.Builder
		pos := 0
		for _, h := range workspace.DiffLines(a, b) {
			out.WriteString(a[pos:h.OldStart])
			out.WriteString(b[h.NewStart:h.NewEnd])
			pos = h.OldEnd
		}
		out.WriteString(a[pos:])
		if out.String() != b {
			t.Fatalf("%q -> %q: %q", a, b, out.String())
		}
	})
}

// Whatever the bytes: decoding never fails but for binary files, an empty change changes
// nothing, and an accepted change changes only its place.
func FuzzSplice(f *testing.F) {
	f.Add([]byte("a\r\nb\n"), 1, 2, "x\ny")
	f.Add([]byte("\xBC\xDB\xB8\xF1 = 3\n"), 0, 3, "茶")
	f.Add([]byte("\xff\xfe\x61\x00\x0a\x00"), 0, 1, "é")
	f.Add([]byte("\x90\xDD\x92\xE8=1\r\r\n"), 6, 7, "")
	f.Fuzz(func(t *testing.T, raw []byte, at, n int, s string) {
		x, err := workspace.Decode(raw)
		if err != nil {
			return
		}
		if !utf8.ValidString(x.LF) {
			t.Fatalf("%q is not UTF-8", x.LF)
		}
		if same, err := x.Splice(nil); err != nil || !bytes.Equal(same, raw) {
			t.Fatalf("%q: %q %v", raw, same, err)
		}
		if at < 0 || n < 0 || at > len(x.LF) || n > len(x.LF)-at || !utf8.ValidString(s) {
			return
		}
		got, err := x.Splice([]workspace.Span{{Start: at, End: at + n, New: s}})
		if err != nil {
			return
		}
		keep := len(raw) - len(got)
		_ = keep
		if s == x.LF[at:at+n] && !bytes.Equal(got, raw) {
			t.Fatalf("no change changed %q to %q", raw, got)
		}
	})
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"茶杯茶杯", 8, "茶杯茶杯"}, {"茶杯茶杯", 7, "茶杯茶…"},
		{"茶杯茶杯", 6, "茶杯…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"abc", 0, ""}, {"a\xffbcdef", 3, "a\xff…"},
	} {
		if got := workspace.Truncate(c.s, c.n); got != c.want {
			t.Errorf("%q %d: %q", c.s, c.n, got)
		}
	}
	if workspace.Width("茶a\u0301") != 3 {
		t.Error(workspace.Width("茶a\u0301"))
	}
	if s := workspace.TruncateBytes("茶杯", 4); s != "茶" {
		t.Error(s)
	}
	if s := workspace.TailBytes("茶杯", 4); s != "杯" {
		t.Error(s)
	}
}

func TestFault023StreamIsNeverCutInACharacter(t *testing.T) {
	all := strings.Repeat("茶杯", 30000)
	for _, size := range []int{1, 7, 4096, 32768} {
		var d workspace.Display
		var sb strings.Builder
		for b := []byte(all); len(b) > 0; {
			n := min(size, len(b))
			s := d.Write(b[:n])
			if !utf8.ValidString(s) || strings.Contains(s, "\uFFFD") {
				t.Fatalf("chunks of %d: %q", size, s)
			}
			if d.Pending() > 8<<10 {
				t.Fatal("holds too much")
			}
			sb.WriteString(s)
			b = b[n:]
		}
		sb.WriteString(d.Close())
		if sb.String() != all {
			t.Fatalf("chunks of %d: text differs", size)
		}
	}
}

func TestFault025OtherEncodingsAreShown(t *testing.T) {
	if s := workspace.DecodeForDisplay([]byte("\262\350\271\335\n")); s != "茶馆\n" {
		t.Fatalf("%q", s)
	}
	gbk := enc(t, simplifiedchinese.GBK, "ok\n用户茶馆列表\nplain\n错误\n")
	for _, size := range []int{1, 3, 100} {
		var d workspace.Display
		got := ""
		for b := gbk; len(b) > 0; {
			n := min(size, len(b))
			got += d.Write(b[:n])
			b = b[n:]
		}
		if got += d.Close(); got != "ok\n用户茶馆列表\nplain\n错误\n" {
			t.Errorf("%d: %q", size, got)
		}
	}
	if s := workspace.DecodeForDisplay([]byte("a\xff\xfe\x01b 茶\n")); s != "a\\xff\\xfe\x01b 茶\n" {
		t.Fatalf("%q", s)
	}
	long := enc(t, simplifiedchinese.GBK, strings.Repeat("用户的茶馆列表", 5000))
	var d workspace.Display
	got := d.Write(long[:9001]) + d.Write(long[9001:]) + d.Close()
	if got != strings.Repeat("用户的茶馆列表", 5000) {
		t.Fatal("long line in GBK differs")
	}
}

func FuzzDisplay(f *testing.F) {
	f.Add([]byte("\262\350\271\335\n茶"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if cut < 0 || cut > len(b) {
			return
		}
		var d workspace.Display
		s := d.Write(b[:cut]) + d.Write(b[cut:]) + d.Close()
		if !utf8.ValidString(s) {
			t.Fatalf("%q", s)
		}
		if utf8.Valid(b) && s != string(b) {
			t.Fatalf("%q became %q", b, s)
		}
	})
}
