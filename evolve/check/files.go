package check

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
)

// Limits of a tool's folder.
const (
	MaxFiles = 500
	MaxFile  = 4 << 20  // bytes of one file
	MaxTotal = 16 << 20 // bytes of all files
)

// ManifestFile is the name of the manifest; SampleFile holds the arguments of a call that
// must succeed, when it is there.
const (
	ManifestFile = "tool.yaml"
	SampleFile   = "testdata/example.json"
)

// ReadDir reads a tool's folder into memory, so that all that follows judges the same
// bytes. Hidden files are left out; links and special files are refused. The error of
// kind core.KindUsage says that there is no such folder; a *evolve.Refusal what does not
// belong in it.
func ReadDir(dir string) (map[string][]byte, error) {
	fi, err := os.Stat(dir)
	if err != nil || !fi.IsDir() {
		if err == nil {
			err = errors.New("not a directory")
		}
		return nil, core.Errorf(core.KindUsage, "read tool folder %s: %w", dir, err).Hint("lj tools new NAME makes one")
	}
	files := map[string][]byte{}
	var diags []evolve.Diagnostic
	total := 0
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == dir {
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			diags = append(diags, evolve.Diagnostic{File: rel, Message: "links are not allowed in a tool's folder; put a copy there"})
			return nil
		}
		if !d.Type().IsRegular() {
			diags = append(diags, evolve.Diagnostic{File: rel, Message: "not a regular file"})
			return nil
		}
		if len(files) == MaxFiles {
			return &evolve.Refusal{Reason: fmt.Sprintf("the folder has more than %d files", MaxFiles)}
		}
		b, err := readFile(p)
		if err != nil {
			return err
		}
		total += len(b)
		if len(b) > MaxFile {
			diags = append(diags, evolve.Diagnostic{File: rel, Message: fmt.Sprintf("larger than %d MiB", MaxFile>>20)})
			return nil
		}
		if total > MaxTotal {
			return &evolve.Refusal{Reason: fmt.Sprintf("the folder is larger than %d MiB", MaxTotal>>20)}
		}
		files[rel] = b
		return nil
	})
	var r *evolve.Refusal
	if errors.As(err, &r) {
		return nil, r
	}
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "read tool folder %s: %w", dir, err)
	}
	if len(diags) > 0 {
		return nil, &evolve.Refusal{Reason: "the folder holds what a tool may not have", Diagnostics: diags}
	}
	return files, nil
}

func readFile(p string) ([]byte, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", p)
	}
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// Digest is the hex SHA-256 over names and contents of files.
func Digest(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(h, "%d %s %x\n", len(name), name, sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sort decides what each file is. What is left out is named in notes.
func sortFiles(files map[string][]byte) (kept map[string][]byte, notes []string, diags []evolve.Diagnostic) {
	kept = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		base, ext := path.Base(name), strings.ToLower(path.Ext(name))
		bad := func(msg string) { diags = append(diags, evolve.Diagnostic{File: name, Message: msg}) }
		switch {
		case path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, "..") || strings.ContainsAny(name, "\x00\\\n"):
			bad("not a usable file name")
		case strings.HasPrefix(name, "testdata/"):
			kept[name] = files[name]
		case base == "go.mod" || base == "go.sum" || base == "go.work":
			bad("a tool has no module of its own; it imports the SDK and the standard library, remove this file")
		case strings.Contains(name, "/"):
			bad("only testdata may be a folder in a tool's folder; put all code beside each other in package main")
		case ext == ".go":
			kept[name] = files[name]
		case name == ManifestFile:
			kept[name] = files[name]
		case name == "tool.yml" || strings.EqualFold(name, ManifestFile):
			bad("the manifest's name is " + ManifestFile)
		case ext == ".s" || ext == ".syso":
			bad("assembly is not allowed in a tool")
		case slices.Contains([]string{".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm", ".f", ".f90", ".swig", ".swigcxx", ".a", ".o", ".so"}, ext):
			bad("cgo is not allowed in a tool")
		case ext == ".md" || ext == ".txt" || strings.HasPrefix(strings.ToUpper(base), "LICENSE") || strings.HasPrefix(strings.ToUpper(base), "README"):
			notes = append(notes, name+" is not part of a tool and was left out")
		default:
			bad("not part of a tool; data for tests belongs in testdata/")
		}
	}
	return kept, notes, diags
}
