//go:build cgo

// Package fts5 compiles SQLite's full-text search into every binary that imports it and
// registers it with each connection, whatever build tags are set. A plain "go build" of
// the SQLite driver leaves it out and the program fails at run time; with this package it
// can't. It also turns on SQLite's query planner stability guarantee: without it SQLite
// 3.54 prepares many statements anew each time that a value is bound, those of the search
// itself among them, which costs more than they do.
//
// It owns the C code of FTS5, cut out of the amalgamation of the driver that the module
// requires (see gen.go), and knows nothing of tables or queries. Import it for its effect:
//
//	import _ "github.com/lingjiyidong/lj/store/fts5"
package fts5

/*
#cgo CFLAGS: -std=gnu99 -O2 -Wno-unused-parameter -Wno-unused-function
#cgo linux LDFLAGS: -lm
#include "sqlite3.h"

extern int lj_fts5_init(sqlite3*, char**, const void*);

static int lj_connected(sqlite3 *db, char **err, const void *api) {
	int rc = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, 1, (int *)0);
	return rc ? rc : lj_fts5_init(db, err, api);
}

static int lj_fts5_register(void) {
	return sqlite3_auto_extension((void (*)(void))lj_connected);
}
*/
import "C"

import (
	"fmt"

	_ "github.com/mattn/go-sqlite3" // the SQLite library that the extension is linked against
)

//go:generate go run gen.go

func init() {
	if rc := C.lj_fts5_register(); rc != 0 {
		panic(fmt.Sprintf("register SQLite full-text search: code %d", int(rc)))
	}
}
