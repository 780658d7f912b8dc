package toolkit

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/check"
)

// Limits of an archive.
const (
	maxArchive        = 64 << 20 // bytes, compressed and not
	maxArchiveEntries = 5000
)

const archiveList = "lj-tools.json"

type archived struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  string `json:"source"`
	Message string `json:"message"`
}

// Export writes the live versions of tools as a tar.gz: a folder for each tool, and a list
// of what they were. The same versions give the same bytes.
func (t *Toolkit) Export(ctx context.Context, names []string, w io.Writer) error {
	if len(names) == 0 {
		return core.Errorf(core.KindUsage, "export: no tool named")
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return t.unknown(ctx, names[0])
	}
	var list []archived
	files := map[string][]byte{}
	for _, name := range names {
		_, v, err := t.liveVersion(ctx, name)
		if err != nil {
			return err
		}
		src, err := t.sourceAt(repo, v)
		if err != nil {
			return err
		}
		for n, b := range src {
			files[name+"/"+n] = b
		}
		list = append(list, archived{name, v.Version, v.Source, v.Message})
	}
	if files[archiveList], err = json.MarshalIndent(map[string]any{"format": 1, "tools": list}, "", "  "); err != nil {
		return core.Errorf(core.KindInternal, "export: %w", err)
	}
	gz := gzip.NewWriter(w)
	tw := tar.NewWriter(gz)
	for _, n := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: n, Size: int64(len(files[n])), Mode: 0o644, ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR}
		if len(n) > 100 {
			h.Format = tar.FormatPAX
		}
		if err := tw.WriteHeader(h); err != nil {
			return core.Errorf(core.KindFailed, "export: %w", err)
		}
		if _, err := tw.Write(files[n]); err != nil {
			return core.Errorf(core.KindFailed, "export: %w", err)
		}
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		return core.Errorf(core.KindFailed, "export: %w", err)
	}
	return nil
}

// readArchive reads an archive into memory: tools by name, their files by path. Nothing
// is unpacked to the disk.
func readArchive(r io.Reader) (tools map[string]map[string][]byte, list []archived, err error) {
	bad := func(format string, a ...any) error {
		return core.Errorf(core.KindUsage, "import: "+format, a...).Hint("an archive is what lj tools export writes")
	}
	gz, err := gzip.NewReader(io.LimitReader(r, maxArchive+1))
	if err != nil {
		return nil, nil, bad("not a tar.gz: %w", err)
	}
	tr := tar.NewReader(io.LimitReader(gz, maxArchive+1))
	tools = map[string]map[string][]byte{}
	total, entries := 0, 0
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, bad("the archive is damaged or larger than %d MiB: %w", maxArchive>>20, err)
		}
		if entries++; entries > maxArchiveEntries {
			return nil, nil, bad("more than %d entries", maxArchiveEntries)
		}
		name := strings.TrimPrefix(h.Name, "./")
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		default:
			return nil, nil, bad("%q is a link or special file", h.Name)
		}
		if name == "" || path.Clean(name) != name || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsAny(name, "\x00\\") {
			return nil, nil, bad("the path %q is not allowed", h.Name)
		}
		if h.Size > check.MaxFile || int64(total)+h.Size > maxArchive {
			return nil, nil, bad("%q is too large", h.Name)
		}
		b, err := io.ReadAll(io.LimitReader(tr, check.MaxFile+1))
		if err != nil || int64(len(b)) != h.Size {
			return nil, nil, bad("%q is cut off", h.Name)
		}
		total += len(b)
		if name == archiveList {
			var l struct {
				Tools []archived `json:"tools"`
			}
			if err := json.Unmarshal(b, &l); err != nil {
				return nil, nil, bad("%s: %w", archiveList, err)
			}
			list = l.Tools
			continue
		}
		tool, file, ok := strings.Cut(name, "/")
		if !ok {
			return nil, nil, bad("%q is not in a tool's folder", h.Name)
		}
		if file == skillFile {
			continue
		}
		if err := core.CheckToolName(tool); err != nil {
			return nil, nil, bad("%w", err)
		}
		if tools[tool] == nil {
			tools[tool] = map[string][]byte{}
		}
		if _, twice := tools[tool][file]; twice {
			return nil, nil, bad("%q is there twice", h.Name)
		}
		tools[tool][file] = b
	}
	if len(tools) == 0 {
		return nil, nil, bad("no tool in it")
	}
	return tools, list, nil
}

// Import takes an archive's tools through the whole chain, each by itself, numbered by
// this toolkit. It returns a report for each in the order of names; the error is that of
// the first that did not pass, the others are tried nevertheless.
func (t *Toolkit) Import(ctx context.Context, r io.Reader, progress func(string)) ([]*evolve.Report, error) {
	tools, list, err := readArchive(r)
	if err != nil {
		return nil, err
	}
	was := map[string]archived{}
	for _, a := range list {
		was[a.Name] = a
	}
	var reports []*evolve.Report
	var first error
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		msg := "imported"
		if a, ok := was[name]; ok {
			msg = strings.TrimSpace(fmt.Sprintf("imported, was %s: %s", a.Version, a.Message))
		}
		p := progress
		if p != nil {
			p = func(s string) { progress(name + ": " + s) }
		}
		rep, err := t.Save(ctx, SaveRequest{Name: name, Files: tools[name], Message: msg, Progress: p})
		if rep != nil {
			reports = append(reports, rep)
		}
		if err != nil {
			if first == nil {
				first = err
			}
			if core.KindOf(err) == core.KindInterrupted {
				break
			}
		}
	}
	return reports, first
}
