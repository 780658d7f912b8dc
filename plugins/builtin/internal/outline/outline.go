// Package outline finds the definitions in source files: their names, kinds, signatures
// and lines. It owns the parsers and the cache of what they found, and is the only
// importer of tree-sitter. It knows nothing of directories, paths that may be read, tools
// and how an outline is shown.
//
//	p := outline.NewParser() // one per goroutine
//	defer p.Close()
//	f, err := p.Parse(outline.Detect("main.go", nil), src)
//	for _, s := range f.Symbols {
//		fmt.Println(s.Start, s.Kind, s.Sig)
//	}
//
// Go is read by go/parser, the other languages by tree-sitter, whose grammars are loaded
// on first use. Both go on after a syntax error.
package outline

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core/workspace"
)

// Bounds of one file.
const (
	MaxFile    = 2 << 20 // bytes; larger files are not parsed
	maxSymbols = 5000
	maxDepth   = 8
	maxSig     = 200 // screen cells
	maxTime    = 2 * time.Second
)

// Errors of Parse, to be compared with errors.Is.
var (
	ErrTooLarge = errors.New("too large to outline")
	ErrTooSlow  = errors.New("took too long to parse")
	ErrLanguage = errors.New("no outline for this kind of file")
)

// Symbol is one definition.
type Symbol struct {
	Name   string // "Run"; may itself be qualified, as "Server::run" in C++
	Parent string // the type, class or module that it belongs to, "" for none
	Kind   string // "func", "method", "type", "class", "const" …
	Sig    string // the definition's head on one line
	Start  int    // first line, from 1
	End    int    // last line
	Depth  int    // 0: not nested in another symbol
}

// File is what one source file defines, in the order of the text. It is immutable.
type File struct {
	Lang    Language
	Lines   int
	Package string // of a Go file
	Symbols []Symbol
	Broken  bool // has syntax errors; what is around them may be missing
	Cut     bool // had more symbols than are kept
}

// Language is the name of a language as people write it, "" for none that is known.
type Language string

// The languages.
const (
	Go         Language = "Go"
	Python     Language = "Python"
	JavaScript Language = "JavaScript"
	TypeScript Language = "TypeScript"
	TSX        Language = "TSX"
	Java       Language = "Java"
	C          Language = "C"
	CPP        Language = "C++"
	Rust       Language = "Rust"
	Bash       Language = "Bash"
)

// Names are the languages for people.
const Names = "Go, Python, JavaScript, TypeScript, Java, C, C++, Rust, Bash"

// Detect tells a file's language by its name and, where that says nothing, by the #! line
// with which head begins. head may be nil.
func Detect(name string, head []byte) Language {
	switch strings.ToLower(path.Ext(name)) {
	case ".go":
		return Go
	case ".py", ".pyi", ".pyw":
		return Python
	case ".js", ".jsx", ".mjs", ".cjs":
		return JavaScript
	case ".ts", ".mts", ".cts":
		return TypeScript
	case ".tsx":
		return TSX
	case ".java":
		return Java
	case ".c", ".h":
		return C
	case ".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl":
		return CPP
	case ".rs":
		return Rust
	case ".sh", ".bash", ".zsh", ".ksh":
		return Bash
	case "":
		line, _, _ := bytes.Cut(head[:min(len(head), 200)], []byte("\n"))
		if !bytes.HasPrefix(line, []byte("#!")) {
			return ""
		}
		for _, w := range strings.FieldsFunc(string(line[2:]), func(r rune) bool { return r == ' ' || r == '/' || r == '\r' }) {
			switch strings.TrimRight(w, "0123456789.") {
			case "sh", "bash", "dash", "ksh", "zsh":
				return Bash
			case "python":
				return Python
			case "node", "nodejs":
				return JavaScript
			}
		}
	}
	return ""
}

// Parser parses one file at a time. It is for one goroutine; Close frees what it holds
// outside of Go's memory.
type Parser struct {
	sitters map[Language]*sitter
}

// NewParser costs nothing before the first file.
func NewParser() *Parser { return &Parser{} }

// Close may be called more than once; the parser can be used again afterwards.
func (p *Parser) Close() {
	for _, s := range p.sitters {
		s.close()
	}
	p.sitters = nil
}

// Parse outlines one file. The error wraps ErrTooLarge, ErrTooSlow, ErrLanguage or
// workspace.ErrBinary. src is not kept.
func (p *Parser) Parse(lang Language, src []byte) (*File, error) {
	if lang == "" {
		return nil, ErrLanguage
	}
	if len(src) > MaxFile {
		return nil, ErrTooLarge
	}
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		t, err := workspace.Decode(src)
		if err != nil {
			return nil, err
		}
		src = []byte(t.LF)
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if lang == C && looksLikeCPP(src) {
		lang = CPP
	}
	if lang == Go {
		return parseGo(src), nil
	}
	if p.sitters == nil {
		p.sitters = map[Language]*sitter{}
	}
	s := p.sitters[lang]
	if s == nil {
		var err error
		if s, err = newSitter(lang); err != nil {
			return nil, err
		}
		p.sitters[lang] = s
	}
	return s.parse(src)
}

// looksLikeCPP tells headers of the two languages apart, which share the ending .h.
func looksLikeCPP(src []byte) bool {
	for _, w := range []string{"\nnamespace ", "\ntemplate <", "\ntemplate<", "\nclass ", "\n  class ", "\npublic:", "\n public:", "\n    public:", "\n  public:", "\nusing namespace ", "std::"} {
		if bytes.Contains(src, []byte(w)) {
			return true
		}
	}
	return false
}

// builder gathers the symbols of one file.
type builder struct {
	src  []byte
	file *File
}

// add appends a symbol, unless there are too many.
func (b *builder) add(s Symbol) bool {
	if s.Name == "" {
		return true
	}
	if len(b.file.Symbols) >= maxSymbols {
		b.file.Cut = true
		return false
	}
	b.file.Symbols = append(b.file.Symbols, s)
	return true
}

// sig makes one line of a piece of source.
func (b *builder) sig(from, to int) string {
	from, to = max(from, 0), min(to, len(b.src))
	if from >= to {
		return ""
	}
	text := b.src[from:to]
	const most = 4 * maxSig
	text = text[:min(len(text), 4*most)]
	var sb strings.Builder
	space := false
	for _, r := range string(text) {
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\f':
			space = sb.Len() > 0
			continue
		case r < 0x20 || r == 0x7f || r == utf8.RuneError:
			continue
		}
		if space {
			sb.WriteByte(' ')
			space = false
		}
		sb.WriteRune(r)
		if sb.Len() > most {
			break
		}
	}
	s := strings.TrimRight(sb.String(), " {:;=")
	s = strings.TrimSuffix(s, "=>")
	s = strings.NewReplacer("( ", "(", ", )", ")", " )", ")").Replace(s)
	return workspace.Truncate(strings.TrimRight(s, " "), maxSig)
}

// firstLine is the end of the line in which from lies, at most to.
func (b *builder) firstLine(from, to int) int {
	to = min(to, len(b.src))
	if from < to {
		if i := bytes.IndexByte(b.src[from:to], '\n'); i >= 0 {
			return from + i
		}
	}
	return to
}

func (b *builder) text(from, to int) string {
	if from < 0 || from >= to || to > len(b.src) || to-from > 300 {
		return ""
	}
	return strings.Join(strings.Fields(string(b.src[from:to])), " ")
}

func lines(src []byte) int {
	n := bytes.Count(src, []byte("\n"))
	if len(src) > 0 && src[len(src)-1] != '\n' {
		n++
	}
	return n
}
