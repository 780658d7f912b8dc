package memory

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/store"
)

// The test binary plays the other processes.
func TestMain(m *testing.M) {
	if path := os.Getenv("MEMORY_TEST_WRITER"); path != "" {
		if err := writeMany(path, os.Getenv("MEMORY_TEST_NAME")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const perProcess = 100

// writeMany adds memories and says on stdout which ones are acknowledged.
func writeMany(path, name string) error {
	ctx := context.Background()
	st, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	svc := New(Config{Store: st, Cutter: testSeg, Project: "/p"})
	for i := range perProcess {
		text := fmt.Sprintf("writer %s keeps item %s%d in place", name, name, i)
		if _, err := svc.Add(ctx, Item{Content: text}); err != nil {
			return err
		}
		fmt.Println(text)
	}
	return nil
}

// 059, and more: ten processes add at once, one of them is killed in the middle; nothing
// that was acknowledged is lost and the file is sound.
func TestTenProcessesLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lj.db")
	st, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var said []string
	var wg sync.WaitGroup
	for p := range 10 {
		name := string(rune('a'+p)) + "writer"
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "MEMORY_TEST_WRITER="+path, "MEMORY_TEST_NAME="+name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			sc := bufio.NewScanner(out)
			n := 0
			for sc.Scan() {
				mu.Lock()
				said = append(said, sc.Text())
				mu.Unlock()
				if n++; p == 3 && n == 40 {
					if err := cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
			io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil && p != 3 {
				t.Errorf("writer %s: %v", name, err)
			}
		})
	}
	wg.Wait()
	svc := New(Config{Store: st, Cutter: testSeg, Project: "/p"})
	list, err := svc.List(t.Context(), "", true)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range list {
		have[m.Content] = true
	}
	lost := 0
	for _, text := range said {
		if !have[text] {
			lost++
		}
	}
	if lost > 0 || len(said) < 9*perProcess+40 {
		t.Errorf("%d acknowledged, %d lost", len(said), lost)
	}
	var ok string
	if err := st.DB().QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("integrity: %q %v", ok, err)
	}
	if _, err := st.DB().Exec(`INSERT INTO memory_index(memory_index) VALUES('integrity-check')`); err != nil {
		t.Errorf("index: %v", err)
	}
	hits, err := svc.Search(t.Context(), "cwriter7", 5, true)
	if err != nil || len(hits) == 0 || !strings.Contains(hits[0].Content, "cwriter7 ") {
		t.Errorf("%v %v", hits, err)
	}
}

// Restated boot files, recalled memories and small talk add nothing; true facts stay. A
// scaled-down month: each day says some facts anew in other forms, repeats what was
// recalled, and lets the model try to keep file contents and task notes.
func TestMonthOfJunk(t *testing.T) {
	f := newService(t)
	ctx := t.Context()
	var facts []string
	for i := range 60 {
		facts = append(facts, fmt.Sprintf("service %s%d listens on port %d", string(rune('a'+i%26)), i, 3000+i))
	}
	for _, x := range facts {
		f.add(t, x)
	}
	spoken := Spoken{Known: true, Session: "s", User: "please go on with the task"}
	save := Tools(f.Service, ToolOptions{Spoken: func(context.Context) Spoken { return spoken }})[0]
	for d := range 32 {
		f.now = f.now.Add(day)
		for k := range 5 {
			x := facts[(d*7+k*11)%len(facts)]
			if r, err := f.Add(ctx, Item{Content: strings.ToUpper(x[:1]) + x[1:] + ".", Source: "model"}); err != nil || r.Action != ActionDuplicate {
				t.Fatalf("recalled: %+v %v", r, err)
			}
		}
		for _, junk := range []string{"Always run lint before test as AGENTS.md says", "Never commit to main (from CONTRIBUTING)", "You must use the audit script"} {
			res, err := save.Call(ctx, coreRequest(fmt.Sprintf(`{"content":%q}`, junk)))
			if err != nil || !res.IsError {
				t.Fatalf("junk was kept: %+v %v", res, err)
			}
		}
		if n := len(FromUserText("ok thanks\n> remember: run x\nwhat do you remember?")); n != 0 {
			t.Fatal("small talk was captured")
		}
		if _, err := f.Maintain(ctx, false); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	active := f.active(t)
	for _, x := range facts {
		for _, a := range active {
			if strings.EqualFold(strings.TrimSuffix(a, "."), x) {
				kept++
				break
			}
		}
	}
	if kept < len(facts)*98/100 || len(active)-kept > len(facts)*5/100 {
		t.Errorf("%d of %d facts kept, %d other rows", kept, len(facts), len(active)-kept)
	}
}
