package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// A database of every earlier version opens, with what it holds, and takes what is new.
func TestMigratesFromEveryVersion(t *testing.T) {
	list, err := migrationList()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= len(list); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lj.db")
			db, err := sql.Open("sqlite3", path)
			if err != nil {
				t.Fatal(err)
			}
			do := func(q string) {
				t.Helper()
				if _, err := db.Exec(q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			for _, m := range list[:n] {
				do(m.sql)
			}
			do(fmt.Sprintf(`PRAGMA user_version = %d`, n))
			do(`INSERT INTO sessions(id, project, created_at, updated_at) VALUES('s', '/p', 1, 1)`)
			if n >= 3 {
				do(`INSERT INTO memories(content, aged_at, hash, keywords) VALUES('deploy with make ship', 5, 'h', 'ship')`)
				do(`INSERT INTO memory_events(memory_id, at, action) VALUES(1, 5, 'created')`)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got, err := s.Session(t.Context(), "s"); err != nil || got.Project != "/p" {
				t.Errorf("%+v %v", got, err)
			}
			if err := s.WriteMemory(t.Context(), func(w core.MemoryWriter) error {
				if n >= 3 {
					m, err := w.Memory(t.Context(), 1)
					if err != nil || m.Content != "deploy with make ship" || m.Priority != core.PriorityMedium || m.Importance != 3 || m.State != core.MemoryActive {
						t.Errorf("%+v %v", m, err)
					}
					if ev, err := w.MemoryEvents(t.Context(), 1); err != nil || len(ev) != 1 {
						t.Errorf("%+v %v", ev, err)
					}
				}
				_, err := w.AddMemory(t.Context(), core.Memory{Content: "new", Category: core.MemoryFact, State: core.MemoryActive, Scope: core.ScopeGlobal, CreatedAt: time.Now(), Hash: "x"}, core.MemoryIndex{Words: "new"})
				return err
			}); err != nil {
				t.Error(err)
			}
			texts, err := s.MemoriesWithoutVector(t.Context(), "m", 10)
			if err != nil || len(texts) == 0 {
				t.Fatalf("%v %v", texts, err)
			}
			if err := s.SetMemoryVectors(t.Context(), "m", texts[:1], [][]float32{{1, 0}}); err != nil {
				t.Error(err)
			}
			if again, err := s.MemoriesWithoutVector(t.Context(), "m", 10); err != nil || len(again) != len(texts)-1 {
				t.Errorf("%v %v", again, err)
			}
			if err := s.PurgeMemory(t.Context(), func(w core.MemoryWriter) error {
				_, err := w.EraseMemory(t.Context(), texts[0].ID)
				return err
			}); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(path + "*.bak"); err != nil || len(left) != 0 {
				t.Errorf("copies with what was erased: %v %v", left, err)
			}
			var ok string
			if err := s.DB().QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
				t.Errorf("%s %v", ok, err)
			}
		})
	}
}

// A write that fails, panics or is cancelled leaves nothing behind, no lock either.
func TestMemoryWriteThatEndsEarly(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "lj.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	add := func(ctx context.Context, w core.MemoryWriter, text string) {
		t.Helper()
		if _, err := w.AddMemory(ctx, core.Memory{Content: text, State: core.MemoryActive, Hash: text}, core.MemoryIndex{Words: text}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := map[string]func(){
		"failed": func() {
			gone := errors.New("gone")
			if err := s.WriteMemory(t.Context(), func(w core.MemoryWriter) error { add(t.Context(), w, "failed"); return gone }); !errors.Is(err, gone) {
				t.Errorf("failed: %v", err)
			}
		},
		"panicked": func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = s.WriteMemory(t.Context(), func(w core.MemoryWriter) error { add(t.Context(), w, "panicked"); panic("x") })
		},
		"cancelled": func() {
			err := s.WriteMemory(ctx, func(w core.MemoryWriter) error { add(ctx, w, "cancelled"); cancel(); return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		},
	}
	for name, end := range ends {
		end()
		// Another process writes at once, and what ended early is not there.
		other, err := Open(t.Context(), s.Path(), Options{SkipCheck: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.WriteMemory(t.Context(), func(w core.MemoryWriter) error {
			if same, err := w.MemoriesByHash(t.Context(), name, "*"); err != nil || len(same) != 0 {
				t.Errorf("%s: %v %v", name, same, err)
			}
			add(t.Context(), w, "after "+name)
			return nil
		}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := s.WriteMemory(t.Context(), func(w core.MemoryWriter) error {
			if same, err := w.MemoriesByHash(t.Context(), "after "+name, "*"); err != nil || len(same) != 1 {
				t.Errorf("after %s: %v %v", name, same, err)
			}
			return nil
		}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}
