package sdk

import "embed"

//go:embed doc.go tool.go context.go schema.go proto.go serve.go coalesce.go source.go
var source embed.FS

// Source is the source of this package, tests left out: file names to contents. Written
// into plugins/sdk of a module github.com/lingjiyidong/lj it builds by itself.
func Source() map[string][]byte {
	entries, err := source.ReadDir(".")
	if err != nil {
		return nil
	}
	files := make(map[string][]byte, len(entries))
	for _, e := range entries {
		b, err := source.ReadFile(e.Name())
		if err != nil {
			return nil
		}
		files[e.Name()] = b
	}
	return files
}
