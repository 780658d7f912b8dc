package segment

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yanyiwu/gojieba"
)

// loading is what it took to load the dictionary in a process of its own.
type loading struct {
	MS     float64
	Faults int64 // pages that the kernel gave out meanwhile
	RSS    int64 // bytes of the process afterwards
}

const loadWay = "LJ_TEST_LOAD"

// TestLoadProcess is the process of loadIn.
func TestLoadProcess(t *testing.T) {
	way := os.Getenv(loadWay)
	if way == "" {
		t.Skip("runs in a process of its own")
	}
	files, err := unpack(cache)
	if err != nil {
		t.Fatal(err)
	}
	faults := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return int64(u.Minflt)
	}
	var l loading
	// As in use: the thread that loads is not the first of the process.
	done := make(chan error)
	go func() {
		before, start := faults(), time.Now()
		if way == "plain" {
			gojieba.NewJieba(files[:]...)
		} else {
			err = New(Options{Cache: cache}).Ready()
		}
		l.MS = float64(time.Since(start).Microseconds()) / 1000
		l.Faults = faults() - before
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		var f [2]int64
		for i, s := range strings.Fields(string(b))[:2] {
			for _, c := range s {
				f[i] = f[i]*10 + int64(c-'0')
			}
		}
		l.RSS = f[1] * int64(os.Getpagesize())
	}
	if err := json.NewEncoder(os.Stdout).Encode(l); err != nil {
		t.Fatal(err)
	}
}

func loadIn(tb testing.TB, way string) (l loading) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0], "-test.run", "^TestLoadProcess$", "-test.count", "1")
	cmd.Env = append(os.Environ(), loadWay+"="+way)
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	if err := json.Unmarshal([]byte(strings.SplitN(string(out), "\n", 2)[0]), &l); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return l
}

// The library's tables come and go within one heap, and what it leaves over goes back.
func TestLoadWithinOneHeap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the heap is left alone on", runtime.GOOS)
	}
	plain, ours := loadIn(t, "plain"), loadIn(t, "lj")
	if ours.Faults*3 > plain.Faults*2 {
		t.Errorf("%d pages given out, %d by the library alone", ours.Faults, plain.Faults)
	}
	if ours.RSS > 140<<20 || ours.RSS > plain.RSS*11/10 {
		t.Errorf("%d bytes in use afterwards, %d by the library alone", ours.RSS, plain.RSS)
	}
}

// BenchmarkReady loads the dictionary; the baseline, plain, is the library alone.
func BenchmarkReady(b *testing.B) {
	for _, way := range []string{"plain", "lj"} {
		b.Run(way, func(b *testing.B) {
			var ms []float64
			var rss int64
			for range b.N {
				l := loadIn(b, way)
				ms, rss = append(ms, l.MS), max(rss, l.RSS)
			}
			slices.Sort(ms)
			b.ReportMetric(ms[len(ms)/2], "ready-ms")
			b.ReportMetric(float64(rss)/(1<<20), "MiB")
		})
	}
}
