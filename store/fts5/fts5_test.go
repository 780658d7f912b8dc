package fts5

import (
	"database/sql"
	"os/exec"
	"strings"
	"testing"
)

func TestSearch(t *testing.T) {
	db, err := sql.Open("sqlite3", "file:"+t.TempDir()+"/a.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		`CREATE VIRTUAL TABLE f USING fts5(body, tokenize='unicode61')`,
		`INSERT INTO f(body) VALUES('茶馆 后台 搬到 苏州'),('plain english text'),('english english english')`,
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	var got string
	if err := db.QueryRow(`SELECT body FROM f WHERE f MATCH '"苏州"'`).Scan(&got); err != nil || !strings.Contains(got, "茶馆") {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := db.QueryRow(`SELECT body FROM f WHERE f MATCH 'english' ORDER BY bm25(f) LIMIT 1`).Scan(&got); err != nil || got != "english english english" {
		t.Fatalf("bm25: got %q, %v", got, err)
	}
}

// Without the guarantee a plan depends on the value that is bound, and so each binding
// prepares the statement anew.
func TestStablePlans(t *testing.T) {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE w(word TEXT COLLATE NOCASE PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	var id, parent, unused int
	var plan string
	if err := db.QueryRow(`EXPLAIN QUERY PLAN SELECT 1 FROM w WHERE word LIKE ?`, "abc%").Scan(&id, &parent, &unused, &plan); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(plan, "SCAN") {
		t.Errorf("the plan %q was made for the value bound", plan)
	}
}

// The search and the library that it runs in must come from the same SQLite: when the
// driver is upgraded, "go generate ./store/fts5" has to be run again.
func TestSameVersionAsDriver(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/mattn/go-sqlite3").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != module {
		t.Errorf("fts5.c comes from go-sqlite3 %s, go.mod has %s: run go generate ./store/fts5", module, got)
	}
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var v string
	if err := db.QueryRow(`SELECT sqlite_version()`).Scan(&v); err != nil || v != Version {
		t.Errorf("sqlite_version() = %q (%v), fts5.c is %q", v, err, Version)
	}
}
