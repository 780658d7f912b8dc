// Package grepfiles is the tool grep_files: lines of the project's text files that match a
// regular expression, bounded, sorted by path, without ignored and binary files. It owns
// the matcher; walking, ignore rules and encodings are those of core/workspace.
//
// Undecoded bytes are searched: a file is decoded only when it is not UTF-8 and the
// pattern names characters beyond ASCII, or when one of its lines is shown.
package grepfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/call"
)

// Spec describes the tool.
func Spec() core.ToolSpec {
	return core.ToolSpec{
		Name:        "grep_files",
		Description: "Search file contents line by line with a regular expression (RE2; (?i) ignores case). Gives path:line:text.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},"glob":{"type":"string","description":"only such files, as *.go"},"limit":{"type":"integer"}},"required":["pattern"]}`),
		ReadOnly:    true, Idempotent: true,
	}
}

const (
	defaultLimit = 200
	maxLimit     = 2000
	maxText      = 300       // screen cells of a shown line
	maxResult    = 64 << 10  // bytes
	segment      = 512 << 10 // bytes of a file that are searched at once
	decodeLimit  = 16 << 20  // larger files are not decoded
)

type hit struct {
	rel  string
	line int
	text string
}

// Run searches.
func Run(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	var in struct {
		Pattern, Path, Glob string
		Limit               call.Int
	}
	c, bad := call.Begin(req, &in)
	if bad != nil {
		return *bad, nil
	}
	p, err := compile(in.Pattern)
	if err != nil {
		return *call.Fail(err), nil
	}
	if in.Path == "" {
		in.Path = "."
	}
	at, err := c.WS.Resolve(in.Path, workspace.Read)
	if err != nil {
		return *call.Fail(err), nil
	}
	fi, err := os.Stat(at.Abs)
	if call.NotFound(err) {
		return *c.Missing(in.Path, at), nil
	}
	if err != nil {
		return *call.Fail(core.Errorf(core.KindFailed, "%s: %w", in.Path, err)), nil
	}
	limit := defaultLimit
	if in.Limit > 0 {
		limit = min(int(in.Limit), maxLimit)
	}
	s := &search{p: p, src: in.Pattern, limit: limit, prefix: at.Name}
	if s.prefix == "." {
		s.prefix = ""
	}
	if in.Glob != "" {
		s.glob = workspace.CompileGlob(in.Glob)
	}
	s.workers = make([]*worker, workspace.Workers())
	for i := range s.workers {
		s.workers[i] = &worker{s: s}
	}
	var stats workspace.WalkStats
	if fi.IsDir() {
		stats, err = c.WS.Walk(ctx, at, workspace.WalkOptions{}, s.visit)
		if err != nil {
			return *call.Fail(core.Errorf(core.KindInterrupted, "searching %s: %w", at.Name, err)), nil
		}
	} else {
		f, _, err := c.WS.OpenFile(at)
		if err != nil {
			return *call.Fail(err), nil
		}
		defer f.Close()
		s.workers[0].file(int(f.Fd()), "")
	}
	return core.ToolResult{Text: s.render(at.Name, in.Pattern, stats)}, nil
}

type search struct {
	p       *pattern
	src     string
	glob    *workspace.Glob
	limit   int
	prefix  string
	workers []*worker
	binary  atomic.Int64
}

// worker is the state of one goroutine of the walk.
type worker struct {
	s     *search
	m     *machine
	buf   []byte
	hits  []hit
	total int
	files int
	seen  int
	where *regexp.Regexp // finds the place of a match in a long line
}

func (s *search) visit(id int, e workspace.Entry) {
	if !e.Type.IsRegular() || s.glob != nil && !s.glob.Match(e.Rel) {
		return
	}
	fd, err := e.Open()
	if err != nil {
		return
	}
	s.workers[id].file(fd, e.Rel)
	unix.Close(fd)
}

// file searches one open file.
func (w *worker) file(fd int, rel string) {
	if w.m == nil {
		w.m = w.s.p.machine()
		w.buf = make([]byte, segment)
	}
	w.seen++
	found, line, held := 0, 1, 0
	for round := 0; ; round++ {
		n, eof := fill(fd, w.buf, held)
		b := w.buf[:n]
		if round == 0 {
			if decode, skip := w.look(b); skip {
				w.s.binary.Add(1)
				return
			} else if decode {
				if text, ok := w.decoded(fd, b, eof); ok {
					found, _ = w.lines(rel, []byte(text), 1, found)
				}
				break
			}
		}
		if !eof {
			if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
				b = b[:i+1]
			}
		}
		before, kept := found, len(w.hits)
		found, line = w.lines(rel, b, line, found)
		if found > before && round == 0 && bytes.IndexByte(b, 0) >= 0 { // binary after all
			w.hits = w.hits[:kept]
			w.total -= found
			w.s.binary.Add(1)
			return
		}
		if eof {
			break
		}
		held = copy(w.buf, w.buf[len(b):n])
	}
	if found > 0 {
		w.files++
		w.trim()
	}
}

// fill reads until the buffer is full or the file ends. A short read of a regular file is
// its end.
func fill(fd int, buf []byte, held int) (n int, eof bool) {
	for held < len(buf) {
		r, err := unix.Read(fd, buf[held:])
		if err == unix.EINTR {
			continue
		}
		if r <= 0 {
			return held, true
		}
		full := held+r == len(buf)
		held += r
		if !full {
			return held, true
		}
	}
	return held, false
}

// look decides from a file's beginning whether it must be decoded first or is binary.
func (w *worker) look(b []byte) (decode, skip bool) {
	if len(b) >= 2 && (b[0] == 0xFF && b[1] == 0xFE || b[0] == 0xFE && b[1] == 0xFF) {
		return true, false
	}
	if bytes.IndexByte(b[:min(len(b), 8192)], 0) >= 0 {
		return false, true
	}
	return !w.s.p.ascii && !validPrefix(b), false
}

// validPrefix says whether b is UTF-8, except that its last character may be cut.
func validPrefix(b []byte) bool {
	for n := 0; n < utf8.UTFMax && n <= len(b); n++ {
		if n == 0 || b[len(b)-n] >= 0x80 {
			if utf8.Valid(b[:len(b)-n]) {
				return true
			}
			continue
		}
		break
	}
	return false
}

// decoded reads the rest of a file and decodes it.
func (w *worker) decoded(fd int, head []byte, eof bool) (string, bool) {
	raw := head
	if !eof {
		raw = append([]byte(nil), head...)
		f := dupFile(fd)
		if f == nil {
			return "", false
		}
		rest, err := io.ReadAll(io.LimitReader(f, decodeLimit))
		f.Close()
		if err != nil {
			return "", false
		}
		raw = append(raw, rest...)
	}
	t, err := workspace.Decode(raw)
	if err != nil {
		return "", false
	}
	return t.LF, true
}

func dupFile(fd int) *os.File {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(n), "file")
}

// lines searches whole lines, the first of which has number line. It returns the matches
// so far and the number of the line after b.
func (w *worker) lines(rel string, b []byte, line, found int) (int, int) {
	pos, counted := 0, 0
	for pos < len(b) {
		start, end, ok := w.m.next(b, pos)
		if !ok {
			break
		}
		w.total++
		if found++; found <= w.s.limit {
			line += bytes.Count(b[counted:start], []byte("\n"))
			counted = start
			w.hits = append(w.hits, hit{rel, line, w.show(b[start:end])})
		}
		pos = lineAfter(b, end)
	}
	return found, line + bytes.Count(b[counted:], []byte("\n"))
}

// show makes one line fit, around the match when it is long.
func (w *worker) show(b []byte) string {
	if len(b) <= maxText && utf8.Valid(b) {
		return string(b)
	}
	lead := ""
	if len(b) > maxText {
		if w.where == nil {
			w.where = regexp.MustCompile(w.s.src)
		}
		if at := w.where.FindIndex(b); at != nil && at[0] > maxText/2 {
			from := at[0] - maxText/4
			for from > 0 && !utf8.RuneStart(b[from]) {
				from--
			}
			b, lead = b[from:], "…"
		}
		if len(b) > 4*maxText {
			cut := 4 * maxText
			for cut > 0 && !utf8.RuneStart(b[cut]) {
				cut--
			}
			b = b[:cut]
		}
	}
	return workspace.Truncate(lead+workspace.DecodeForDisplay(b), maxText)
}

// trim keeps what can still be among the first matches by path.
func (w *worker) trim() {
	if len(w.hits) > 4*w.s.limit+1000 {
		order(w.hits)
		w.hits = w.hits[:w.s.limit:w.s.limit]
	}
}

func order(h []hit) {
	sort.SliceStable(h, func(i, j int) bool {
		if h[i].rel != h[j].rel {
			return h[i].rel < h[j].rel
		}
		return h[i].line < h[j].line
	})
}

func (s *search) render(name, src string, stats workspace.WalkStats) string {
	var hits []hit
	total, files, seen := 0, 0, 0
	for _, w := range s.workers {
		hits = append(hits, w.hits...)
		total, files, seen = total+w.total, files+w.files, seen+w.seen
	}
	if total == 0 {
		msg := fmt.Sprintf("no line matches %s in %s (%d files searched", src, name, seen)
		if n := s.binary.Load(); n > 0 {
			msg += fmt.Sprintf(", %d binary", n)
		}
		if stats.Ignored > 0 {
			msg += fmt.Sprintf(", %d ignored", stats.Ignored)
		}
		return msg + ")"
	}
	order(hits)
	var sb strings.Builder
	shown := 0
	for _, h := range hits {
		path := workspace.ShowBytes(h.rel)
		switch {
		case path == "":
			path = s.prefix
		case s.prefix != "":
			path = s.prefix + "/" + path
		}
		row := fmt.Sprintf("%s:%d:%s\n", path, h.line, h.text)
		if shown == s.limit || sb.Len()+len(row) > maxResult {
			break
		}
		sb.WriteString(row)
		shown++
	}
	if shown < total {
		fmt.Fprintf(&sb, "[first %d of %d matching lines in %d files; narrow pattern, path or glob, or raise limit (at most %d)]", shown, total, files, maxLimit)
	} else {
		n := "lines"
		if total == 1 {
			n = "line"
		}
		fmt.Fprintf(&sb, "[%d matching %s in %d of %d files]", total, n, files, seen)
	}
	return sb.String()
}
