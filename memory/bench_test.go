package memory

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/store"
)

var benchSubjects = []string{"后端服务", "支付接口", "缓存层", "部署脚本", "前端页面", "the API gateway", "the config loader", "定时任务", "数据库", "消息队列", "login module", "报表", "CI pipeline", "用户", "项目"}
var benchVerbs = []string{"使用", "监听", "依赖", "限制", "记录", "禁止", "uses", "needs", "logs to", "写入", "优先选择", "推荐"}
var benchObjects = []string{"SQLite 数据库", "端口 8080", "Redis 集群", "structured logging", "五分钟超时", "重试三次", "docker image", "JSON 格式", "OAuth2 token", "夜间备份", "中文注释", "rate limit", "环境变量", "deploy 目录"}

func benchText(r *rand.Rand, i int) string {
	return fmt.Sprintf("%s%s%s，编号 %c%c%d，负责人 %c%c%c", benchSubjects[r.Intn(len(benchSubjects))], benchVerbs[r.Intn(len(benchVerbs))], benchObjects[r.Intn(len(benchObjects))],
		'a'+r.Intn(26), 'a'+r.Intn(26), i, 'a'+r.Intn(26), 'a'+r.Intn(26), 'a'+r.Intn(26))
}

var benchTopics = []string{"后端服务监听哪个端口？", "帮我写一个 SQLite 数据库备份脚本", "how do I configure structured logging for the API gateway", "部署脚本报错了，docker image 构建失败",
	"今天天气怎么样", "登录模块的 OAuth2 token 过期了，缓存层使用 Redis 集群", ""}

// benchService is a store with n rows of many priorities, importances and dates.
func benchService(b testing.TB, n int) *fixture {
	b.Helper()
	st, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "lj.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	f := &fixture{st: st, now: testNow}
	f.Service = New(Config{Store: st, Cutter: testSeg, Project: "/p", Now: func() time.Time { return f.now }, Location: time.UTC})
	r := rand.New(rand.NewSource(1))
	rows := make([]core.Memory, n)
	for i := range rows {
		rows[i] = core.Memory{ID: int64(i + 1), Content: benchText(r, i), Category: core.MemoryFact, Priority: 1 + r.Intn(3), Importance: 1 + r.Intn(5), State: core.MemoryActive,
			Source: core.SourceUser, CreatedAt: testNow.Add(-time.Duration(r.Intn(20*24)) * time.Hour)}
		if r.Intn(2) == 0 {
			rows[i].LastUsedAt = testNow.Add(-time.Duration(r.Intn(100*24)) * time.Hour)
		}
	}
	if _, err := f.ImportRows(b.Context(), rows); err != nil {
		b.Fatal(err)
	}
	return f
}

func p95(d []time.Duration) float64 {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return float64(d[min(len(d)-1, len(d)*95/100)].Microseconds()) / 1000
}

// BenchmarkSelect chooses memories for a turn; p95-ms beside it. BenchmarkPlainTopK is the
// baseline: one BM25 query of the same words for the best 30 rows and nothing else.
func BenchmarkSelect(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := benchService(b, n)
			var times []time.Duration
			if _, err := f.Select(b.Context(), "warm"); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				if _, err := f.Select(b.Context(), benchTopics[i%len(benchTopics)]); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			b.ReportMetric(p95(times), "p95-ms")
		})
	}
}

func BenchmarkPlainTopK(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := benchService(b, n)
			var times []time.Duration
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				words := IndexWords(testSeg, benchTopics[i%len(benchTopics)])
				if err := f.st.ReadMemory(b.Context(), func(r core.MemoryReader) error {
					_, err := r.MatchMemories(b.Context(), core.MemoryQuery{Any: words, Project: "/p", Limit: 30})
					return err
				}); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			b.ReportMetric(p95(times), "p95-ms")
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := benchService(b, n)
			var times []time.Duration
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				if _, err := f.Search(b.Context(), benchTopics[i%len(benchTopics)], 10, false); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			b.ReportMetric(p95(times), "p95-ms")
		})
	}
}

// BenchmarkIngest takes 1,000 items up into 10,000 rows; ms/1000 is the median. The
// baseline, plain, asks for the ten best rows of each item's words by BM25 and adds a row,
// in transactions of the same size, and compares nothing.
func BenchmarkIngest(b *testing.B) {
	full := benchService(b, 10000)
	if err := full.st.Close(); err != nil {
		b.Fatal(err)
	}
	rows, err := os.ReadFile(full.st.Path())
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewSource(2))
	items := make([]Item, 1000)
	for i := range items {
		items[i] = Item{Content: benchText(r, 20000+i), Category: core.MemoryFact}
	}
	for _, way := range []struct {
		name   string
		ingest func(*fixture) error
	}{
		{"plain", func(f *fixture) error {
			for piece := range slices.Chunk(items, 250) {
				err := f.st.WriteMemory(b.Context(), func(w core.MemoryWriter) error {
					for _, it := range piece {
						ix := indexOf(testSeg, it.Content, nil, "")
						if _, err := w.MatchMemories(b.Context(), core.MemoryQuery{Any: strings.Fields(ix.Words), Project: "/p", Limit: 10}); err != nil {
							return err
						}
						if _, err := w.AddMemory(b.Context(), core.Memory{Content: it.Content, Category: it.Category, Priority: core.PriorityMedium, Importance: 3,
							State: core.MemoryActive, Source: core.SourceUser, Hash: digestOf(it.Content), CreatedAt: testNow}, ix); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"lj", func(f *fixture) error {
			res, err := f.IngestBatch(b.Context(), items)
			if err == nil && len(res) != len(items) {
				err = fmt.Errorf("%d results for %d items", len(res), len(items))
			}
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			var times []time.Duration
			for range b.N {
				b.StopTimer()
				path := filepath.Join(b.TempDir(), "lj.db")
				if err := os.WriteFile(path, rows, 0o600); err != nil {
					b.Fatal(err)
				}
				st, err := store.Open(b.Context(), path, store.Options{})
				if err != nil {
					b.Fatal(err)
				}
				f := &fixture{st: st, now: testNow}
				f.Service = New(Config{Store: st, Cutter: testSeg, Project: "/p", Now: func() time.Time { return f.now }, Location: time.UTC})
				b.StartTimer()
				start := time.Now()
				if err := way.ingest(f); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
				b.StopTimer()
				if err := st.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/1000")
		})
	}
}
