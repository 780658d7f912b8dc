// Package index outlines the files of a workspace: one file, or all below a directory
// except ignored ones and those that others made. It owns the walk, the reading and the
// time that they may take; parsing and remembering are those of package outline. It knows
// nothing of how results are shown.
//
//	x := index.New()
//	stats, err := x.Walk(ctx, ws, dir, nil, func(worker int, rel string, f *outline.File) { … })
package index

import (
	"context"
	"errors"
	"io"
	"path"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/outline"
)

// patience is what one walk may take. What was not looked at by then is counted.
const patience = 20 * time.Second

// Index holds what was found so far. It is safe for use by several goroutines.
type Index struct {
	cache *outline.Cache
}

// New is an empty index; it costs nothing.
func New() *Index { return &Index{cache: outline.NewCache()} }

// Stats says what a walk saw and left out.
type Stats struct {
	Files      int // source files looked at
	ThirdParty int // source files in directories of dependencies and build results
	Large      int // source files above outline.MaxFile
	Unparsed   int // source files that are not text or took too long
	Late       bool
	workspace.WalkStats
}

// File outlines one file. The error is one of OpenFile or of outline.Parser.Parse.
func (x *Index) File(ws *workspace.Workspace, at workspace.Path) (*outline.File, error) {
	f, _, err := ws.OpenFile(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lang := outline.Detect(at.Abs, nil)
	if lang == "" {
		head := make([]byte, 200)
		n, _ := f.ReadAt(head, 0)
		lang = outline.Detect(at.Abs, head[:n])
	}
	r := x.reader(nil)
	defer r.parser.Close()
	out, _, err := r.file(int(f.Fd()), at.Abs, lang)
	return out, err
}

// Walk outlines the source files below a directory, from several goroutines at once. When
// want is not nil, a file that is not known yet is read and parsed only if want says so of
// its bytes. Files that ctx or the time limit leave no time for make Late true.
func (x *Index) Walk(ctx context.Context, ws *workspace.Workspace, at workspace.Path, want func(src []byte) bool, visit func(worker int, rel string, f *outline.File)) (Stats, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	readers := make([]*reader, workspace.Workers())
	for i := range readers {
		readers[i] = x.reader(want)
	}
	defer func() {
		for _, r := range readers {
			r.parser.Close()
		}
	}()
	var files, third, large, bad atomic.Int64
	ws2, err := ws.Walk(limited, at, workspace.WalkOptions{}, func(id int, e workspace.Entry) {
		if !e.Type.IsRegular() || limited.Err() != nil {
			return
		}
		lang := outline.Detect(e.Rel, nil)
		if lang == "" {
			return
		}
		if workspace.ThirdParty(e.Rel) {
			third.Add(1)
			return
		}
		f, skipped, err := readers[id].entry(e, path.Join(at.Abs, e.Rel), lang)
		files.Add(1)
		switch {
		case errors.Is(err, outline.ErrTooLarge):
			large.Add(1)
		case err != nil:
			bad.Add(1)
		case !skipped:
			visit(id, e.Rel, f)
		}
	})
	st := Stats{Files: int(files.Load()), ThirdParty: int(third.Load()), Large: int(large.Load()), Unparsed: int(bad.Load()), WalkStats: ws2}
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		st.Late, err = true, nil
	}
	return st, err
}

// reader is the state of one goroutine.
type reader struct {
	x      *Index
	want   func([]byte) bool
	parser *outline.Parser
	buf    []byte
}

func (x *Index) reader(want func([]byte) bool) *reader {
	return &reader{x: x, want: want, parser: outline.NewParser()}
}

// entry asks the cache before it opens anything.
func (r *reader) entry(e workspace.Entry, abs string, lang outline.Language) (f *outline.File, skipped bool, err error) {
	st, err := e.Stat()
	if err != nil {
		return nil, false, err
	}
	s := outline.StatOf(&st)
	if s.Size() > outline.MaxFile {
		return nil, false, outline.ErrTooLarge
	}
	if f, err, ok := r.x.cache.Get(abs, s); ok {
		return f, false, err
	}
	fd, err := e.Open()
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(fd)
	return r.file(fd, abs, lang)
}

// file outlines an open file; skipped means that want said no.
func (r *reader) file(fd int, abs string, lang outline.Language) (f *outline.File, skipped bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, false, err
	}
	s := outline.StatOf(&st)
	if s.Size() > outline.MaxFile {
		return nil, false, outline.ErrTooLarge
	}
	if f, err, ok := r.x.cache.Get(abs, s); ok {
		return f, false, err
	}
	src, err := r.read(fd, int(s.Size()))
	if err != nil {
		return nil, false, err
	}
	if r.want != nil && !r.want(src) {
		return nil, true, nil
	}
	f, err = r.parser.Parse(lang, src)
	r.x.cache.Put(abs, s, f, err)
	return f, false, err
}

// read reads a file that has this size, or a little more by now. The bytes are good until
// the next call.
func (r *reader) read(fd, size int) ([]byte, error) {
	if cap(r.buf) < size+1 {
		r.buf = make([]byte, size+1, max(2*size, 64<<10)+1)
	}
	b := r.buf[:cap(r.buf)]
	n := 0
	for n < len(b) {
		k, err := unix.Read(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if k <= 0 {
			return b[:n], nil
		}
		n += k
		if n == len(b) && n <= outline.MaxFile {
			bigger := make([]byte, 2*len(b))
			copy(bigger, b)
			r.buf, b = bigger, bigger
		}
	}
	return nil, io.ErrShortBuffer
}
