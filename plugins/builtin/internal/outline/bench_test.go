package outline_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lingjiyidong/lj/plugins/builtin/internal/outline"
)

func BenchmarkParse(b *testing.B) {
	files, _ := filepath.Glob("testdata/*")
	p := outline.NewParser()
	defer p.Close()
	for _, name := range files {
		lang := outline.Detect(name, nil)
		if lang == "" {
			continue
		}
		one, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		var src []byte
		for len(src) < 20_000 {
			src = append(append(src, one...), '\n')
		}
		b.Run(string(lang), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Parse(lang, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
