package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/store"
)

// The test binary plays the other processes.
func TestMain(m *testing.M) {
	if path := os.Getenv("STORE_TEST_WRITER"); path != "" {
		if err := writer(path, os.Getenv("STORE_TEST_SESSION")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const writers, perWriter = 8, 50

func writer(path, session string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	errs := make(chan error, writers)
	for w := range writers {
		go func() {
			for i := range perWriter {
				if err := s.Append(ctx, session, message(core.RoleUser, fmt.Sprintf("writer %d message %d 茶馆", w, i), 1)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		err = errors.Join(err, <-errs)
	}
	return err
}

func message(role, text string, turn int) core.StoredMessage {
	raw, err := json.Marshal(map[string]string{"role": role, "content": text})
	if err != nil {
		panic(err)
	}
	return core.StoredMessage{Turn: turn, Message: core.Message{Role: role, Content: text, Raw: raw}}
}

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path, store.Options{Warn: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSession(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "lj.db"))
	ctx := t.Context()
	in := core.Session{ID: "0193-abc", Project: "/p", Model: "m", System: "be good", Tools: json.RawMessage(`[{"a":1}]`), Title: "茶馆"}
	if err := s.CreateSession(ctx, in); err != nil {
		t.Fatal(err)
	}
	raw := json.RawMessage(`{"role":"assistant","content":"ok","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}],"reasoning_content":"hm"}`)
	msgs := []core.StoredMessage{message(core.RoleUser, "hello", 1), {Turn: 1, Message: core.Message{Role: core.RoleAssistant, Raw: raw}}}
	if err := s.Append(ctx, in.ID, msgs...); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, in.ID, core.StoredMessage{Turn: 1, Note: "repair", Message: core.Message{Role: core.RoleTool, Raw: json.RawMessage(`{"role":"tool","tool_call_id":"c1","content":""}`)}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Messages(ctx, in.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Seq != 1 || got[2].Seq != 3 || !bytes.Equal(got[1].Raw, raw) {
		t.Fatalf("got %d messages: %+v", len(got), got)
	}
	if c := got[1].ToolCalls; len(c) != 1 || c[0].Name != "bash" || got[1].Reasoning != "hm" || got[2].ToolCallID != "c1" || got[2].Note != "repair" {
		t.Errorf("readable form: %+v", got)
	}
	if err := s.EndTurn(ctx, in.ID, core.StopDone, core.Usage{Requests: 2, PromptTokens: 10, CachedTokens: 4, CompletionTokens: 3}); err != nil {
		t.Fatal(err)
	}
	v, err := s.Session(ctx, "0193-a")
	if err != nil {
		t.Fatal(err)
	}
	if v.System != in.System || string(v.Tools) != string(in.Tools) || v.Turns != 1 || v.Messages != 3 || v.LastStop != core.StopDone || v.Usage.CachedTokens != 4 {
		t.Errorf("session: %+v", v)
	}
	if _, err := s.Session(ctx, "nope"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("unknown id: %v", err)
	}
	for _, bad := range []string{"", "../x", "a'b", "a%"} {
		if _, err := s.Session(ctx, bad); core.KindOf(err) != core.KindUsage {
			t.Errorf("id %q: %v", bad, err)
		}
	}
	if err := s.CreateSession(ctx, core.Session{ID: "0193-abd", Project: "/q"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(ctx, "0193"); core.KindOf(err) != core.KindUsage {
		t.Errorf("ambiguous id: %v", err)
	}
	// A title of the user is never replaced.
	for _, by := range []string{"user", "model"} {
		if err := s.SetTitle(ctx, in.ID, "by "+by, by); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := s.Session(ctx, in.ID); err != nil || v.Title != "by user" {
		t.Errorf("title %q, %v", v.Title, err)
	}
	list, err := s.Sessions(ctx, store.SessionFilter{Project: "/p"})
	if err != nil || len(list) != 1 || list[0].ID != in.ID {
		t.Errorf("list: %v %v", list, err)
	}
	if _, err := s.DeleteSession(ctx, in.ID); err != nil {
		t.Fatal(err)
	}
	if msgs, err := s.Messages(ctx, in.ID); err != nil || len(msgs) != 0 {
		t.Errorf("messages after delete: %v %v", msgs, err)
	}
}

func TestSearch(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "lj.db"))
	ctx := t.Context()
	if err := s.CreateSession(ctx, core.Session{ID: "a", Project: "/p"}); err != nil {
		t.Fatal(err)
	}
	texts := []string{"茶馆后台搬到苏州机房，先跑chk-menu再开店", "The quick brown fox", "release v1.2.3 of foo_bar.go", "emoji 🎉 party", "日本語のテスト"}
	for i, x := range texts {
		if err := s.Append(ctx, "a", message(core.RoleUser, x, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for q, turn := range map[string]int{
		"苏州": 1, "机房": 1, "menu": 1, "苏州机房": 1, "茶": 1, "店": 1, "chk-menu": 1, "后台 开店": 1,
		"QUICK fox": 2, "foo_bar.go": 3, "v1.2.3": 3, "party": 4, "テスト": 5,
	} {
		hits, err := s.Search(ctx, q, "", 10)
		if err != nil || len(hits) != 1 || hits[0].Turn != turn {
			t.Errorf("%q: %+v %v", q, hits, err)
		}
	}
	for _, q := range []string{"", "   ", "\"", "*", "AND", "OR NOT", "NEAR(", "';--", "🎉", "^", "不存在", "a:b", "-", "()"} {
		if hits, err := s.Search(ctx, q, "", 10); err != nil || len(hits) != 0 {
			t.Errorf("%q: %v %v", q, hits, err)
		}
	}
	if hits, err := s.Search(ctx, "茶", "/other", 10); err != nil || len(hits) != 0 {
		t.Errorf("other project: %v %v", hits, err)
	}
	// New messages are found too, removed ones are not.
	if err := s.Append(ctx, "a", message(core.RoleAssistant, "新的消息", 6)); err != nil {
		t.Fatal(err)
	}
	if hits, err := s.Search(ctx, "消息", "/p", 10); err != nil || len(hits) != 1 {
		t.Errorf("new message: %v %v", hits, err)
	}
	if _, err := s.DeleteSession(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if hits, err := s.Search(ctx, "消息", "", 10); err != nil || len(hits) != 0 {
		t.Errorf("removed message: %v %v", hits, err)
	}
}

// Several processes write at once while another reads: all rows, no lock error.
func TestProcessesWriteAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lj.db")
	s := open(t, path)
	if err := s.CreateSession(t.Context(), core.Session{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+path, "STORE_TEST_SESSION=a")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer: %v: %s", err, out)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		if _, err := s.Search(t.Context(), "茶馆", "", 5); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			running = false
		default:
		}
	}
	msgs, err := s.Messages(t.Context(), "a")
	if err != nil || len(msgs) != 2*writers*perWriter {
		t.Errorf("got %d messages, want %d (%v)", len(msgs), 2*writers*perWriter, err)
	}
}

func TestWaitsForAnotherWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lj.db")
	s := open(t, path)
	if err := s.CreateSession(t.Context(), core.Session{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite3", path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Append(t.Context(), "a", message(core.RoleUser, "x", 1)) }()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Odd rows never switch a feature off.
func TestOddRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lj.db")
	s := open(t, path)
	if err := s.CreateSession(t.Context(), core.Session{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`INSERT INTO messages(session_id, seq, turn, at, role, text, raw) VALUES('a', 1, 1, 0, 'user', NULL, '{"role":"user","content":null}')`,
		`INSERT INTO messages(session_id, seq, turn, at, role, text, raw) VALUES('a', 2, 1, 0, 'assistant', '喝茶', x'')`,
		`INSERT INTO messages(session_id, seq, turn, at, role, text, raw) VALUES('a', 3, 1, 0, 'user', '好茶', '{"role":"user","content":"好茶"}')`,
	} {
		if _, err := s.DB().Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	hits, err := s.Search(t.Context(), "茶", "", 10)
	if err != nil || len(hits) != 2 {
		t.Errorf("search: %v %v", hits, err)
	}
	msgs, err := s.Messages(t.Context(), "a")
	if err != nil || len(msgs) != 2 || msgs[0].Content != "" || msgs[1].Content != "好茶" {
		t.Errorf("messages: %+v %v", msgs, err)
	}
}

// fill makes a database of some size and closes it.
func fill(t *testing.T, path string, n int) {
	t.Helper()
	s, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateSession(t.Context(), core.Session{ID: "a", Title: "kept"}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := s.Append(t.Context(), "a", message(core.RoleUser, fmt.Sprintf("message %d %s", i, strings.Repeat("x", 500)), i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDamage(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"4 KiB in the middle": func(t *testing.T, path string) { overwrite(t, path, 0.5, 4096) },
		"the header":          func(t *testing.T, path string) { overwrite(t, path, 0, 100) },
		"cut short": func(t *testing.T, path string) {
			fi, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, fi.Size()/2); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lj.db")
			fill(t, path, 400)
			spoil(t, path)
			var said []string
			s, err := store.Open(t.Context(), path, store.Options{Warn: func(x string) { said = append(said, x) }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if len(said) != 1 || !strings.Contains(said[0], "damaged") || !strings.Contains(said[0], path+".damaged-") {
				t.Errorf("said %q", said)
			}
			// It works as before.
			if err := s.CreateSession(t.Context(), core.Session{ID: "b"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Append(t.Context(), "b", message(core.RoleUser, "hello", 1)); err != nil {
				t.Fatal(err)
			}
			if hits, err := s.Search(t.Context(), "hello", "", 5); err != nil || len(hits) != 1 {
				t.Errorf("search: %v %v", hits, err)
			}
			aside, err := filepath.Glob(path + ".damaged-*")
			if err != nil || len(aside) == 0 {
				t.Errorf("the damaged file is gone: %v %v", aside, err)
			}
			if name == "4 KiB in the middle" {
				msgs, err := s.Messages(t.Context(), "a")
				if err != nil || len(msgs) < 350 {
					t.Errorf("recovered %d of 400 messages (%v)", len(msgs), err)
				}
			}
			var ok string
			if err := s.DB().QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
				t.Errorf("integrity_check: %q %v", ok, err)
			}
		})
	}
}

func overwrite(t *testing.T, path string, at float64, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xA5}, n), int64(float64(fi.Size())*at)/4096*4096); err != nil {
		t.Fatal(err)
	}
}

// A database that a newer program wrote is left alone.
func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lj.db")
	fill(t, path, 1)
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`PRAGMA user_version = 999`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), path, store.Options{})
	if !errors.Is(err, store.ErrNewer) || core.KindOf(err) != core.KindConfig {
		t.Errorf("got %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}

func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	fill(t, filepath.Join(dir, "lj.db"), 1)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "lj.db"): 0o600} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, fi.Mode(), err)
		}
	}
}

func TestCallStats(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "lj.db"))
	for i, st := range []string{"ok", "error", "ok", "denied", "cancelled"} {
		if err := s.RecordCalls(t.Context(), store.CallRecord{Session: "a", Name: "bash", Status: st, Took: time.Duration(i+1) * 10 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.CallStats(t.Context())
	if err != nil || got["bash"] != (core.ToolStat{Calls: 3, Failures: 1, P50: 20 * time.Millisecond}) {
		t.Errorf("got %+v %v", got, err)
	}
}

func TestKnownTodoGrantsCosts(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "lj.db"))
	ctx := t.Context()
	if err := s.CreateSession(ctx, core.Session{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"1", "2"} {
		if err := s.SetKnown(ctx, "a", map[string]string{"/p/x": d}); err != nil {
			t.Fatal(err)
		}
	}
	if k, err := s.Known(ctx, "a"); err != nil || k["/p/x"] != "2" {
		t.Errorf("known: %v %v", k, err)
	}
	if v, err := s.Todo(ctx, "a"); err != nil || string(v) != "[]" {
		t.Errorf("todo: %s %v", v, err)
	}
	if err := s.SetTodo(ctx, "a", json.RawMessage(`[{"text":"x"}]`)); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Todo(ctx, "a"); err != nil || string(v) != `[{"text":"x"}]` {
		t.Errorf("todo: %s %v", v, err)
	}
	for range 2 {
		if err := s.Grant(ctx, "/p", "bash(ls)"); err != nil {
			t.Fatal(err)
		}
		if err := s.AddCost(ctx, "turn", "m", "a", core.Usage{Requests: 1, PromptTokens: 5, CompletionTokens: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if g, err := s.Grants(ctx, "/p"); err != nil || len(g) != 1 {
		t.Errorf("grants: %v %v", g, err)
	}
	c, err := s.Costs(ctx, "a", "")
	if err != nil || len(c) != 1 || c[0].Requests != 2 || c[0].Total() != 14 {
		t.Errorf("costs: %+v %v", c, err)
	}
}

func BenchmarkAppend(b *testing.B) {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "lj.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.CreateSession(b.Context(), core.Session{ID: "a"}); err != nil {
		b.Fatal(err)
	}
	m := message(core.RoleUser, strings.Repeat("x", 1000), 1)
	for b.Loop() {
		if err := s.Append(b.Context(), "a", m); err != nil {
			b.Fatal(err)
		}
	}
}
