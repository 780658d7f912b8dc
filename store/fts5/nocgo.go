//go:build !cgo

package fts5

// The next line does not compile on purpose: lj needs cgo for SQLite and jieba. Install a
// C and C++ compiler (Debian: apt-get install gcc g++) and build with CGO_ENABLED=1.
var _ = lj_needs_cgo__install_gcc_and_gpp__then_build_with_CGO_ENABLED_1
