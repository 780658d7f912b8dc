// Package scaffold owns the files that a new tool begins with: small, working, with a
// test, ready to edit.
//
//	files := scaffold.New("csv_stats")
package scaffold

import (
	"bytes"
	"embed"
	"strings"
)

//go:embed files/*
var files embed.FS

// New are the files of a new tool of this name, by file name. The name must be valid
// (core.CheckToolName).
func New(name string) map[string][]byte {
	out := map[string][]byte{}
	for file, from := range map[string]string{"tool.go": "tool.go.txt", "tool_test.go": "tool_test.go.txt", "tool.yaml": "tool.yaml", "testdata/example.json": "example.json"} {
		b, err := files.ReadFile("files/" + from)
		if err != nil {
			continue // embedded files are there
		}
		if strings.HasSuffix(file, ".go") { // in tool.yaml NAME stands for a variable
			b = bytes.ReplaceAll(b, []byte("NAME"), []byte(name))
		}
		out[file] = b
	}
	return out
}

// Guide is how to write a tool, in few words: the description of toolkit_save carries it.
func Guide() string {
	b, err := files.ReadFile("files/guide.txt")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
