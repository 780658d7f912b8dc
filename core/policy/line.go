package policy

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/lingjiyidong/lj/core/workspace"
)

// Limits of what is read of one line. What is beyond them is not understood.
const (
	maxLine  = 32 << 10
	maxNest  = 1000 // brackets open at once: the parser takes some 4 kB of stack for each
	maxDepth = 4    // scripts inside scripts
	maxCwds  = 8
	maxWords = 5000 // of all commands, those behind wrappers included
)

// line is a command line, taken apart.
type line struct {
	src string
	// broken says why the line can't be read; the parts before the fault are known.
	broken string
	// strange names the first construct that is not judged.
	strange string
	// cmds are the simple commands in order, inner those behind wrappers and in scripts
	// given as arguments.
	cmds, inner []*command
	// files are the redirections that open files.
	files []redirect
	count int // words so far
	seen  map[string]located
	// hidden: the line carries code that the parser does not see (python -c, eval "$x").
	hidden bool
	// unsure: a part of the line that runs is not known before it runs.
	unsure bool
}

// located is an answer of workspace.Locate.
type located struct {
	pl  workspace.Place
	err error
}

// locate is workspace.Locate, asked once for each path of a line: the whole line is judged
// by one view of the file system.
func (p *Policy) locate(l *line, base, path string) (workspace.Place, error) {
	key := base + "\x00" + path
	if v, ok := l.seen[key]; ok {
		return v.pl, v.err
	}
	pl, err := p.ws.Locate(base, path)
	if l.seen == nil {
		l.seen = map[string]located{}
	}
	l.seen[key] = located{pl, err}
	return pl, err
}

// command is one simple command.
type command struct {
	words   []word
	assigns []assign
	// cwds are the directories it may run in; lost when they are not known.
	cwds []string
	lost bool
	// bg: it is left running.
	bg bool
	// piped: its input comes from another command, a file or the line.
	piped bool
	// judged caches whether it is harmless.
	judged answer
}

// assign is NAME=value before a command or alone.
type assign struct {
	name  string
	value word
	plain bool // neither an array nor an element
}

type redirect struct {
	word  word
	write bool
	cwds  []string
	lost  bool
}

// name is the command's program as written, "" when it is not known.
func (c *command) name() string {
	if len(c.words) == 0 || !c.words[0].known {
		return ""
	}
	return c.words[0].text
}

// variable is what is known of a variable that the line sets.
type variable struct {
	values  []string
	unknown bool
	// leaves: a value may be a path that leads out of the project.
	leaves bool
}

type walker struct {
	p     *Policy
	l     *line
	cwds  []string
	lost  bool
	loops int // loops and functions around the current command
	// maybe counts what surrounds the current command and may keep it from running, or
	// its effect from lasting.
	maybe int
	depth int
	bg    int
	vars  map[string]*variable
}

var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// read takes a command line apart. It never fails: what can't be read makes it broken.
func (p *Policy) read(src string) *line {
	l := &line{src: src}
	w := &walker{p: p, l: l, cwds: []string{p.dir}}
	w.script(src)
	return l
}

// script reads the text of a script.
func (w *walker) script(src string) {
	switch {
	case len(src) > maxLine:
		w.broken("it is too long to be judged")
		return
	case !utf8.ValidString(src):
		w.broken("it is not UTF-8")
		return
	case strings.ContainsAny(src, "\x00\r"):
		// The shell keeps a carriage return as part of a word; the parser drops it.
		w.broken("it contains a control character that shells and readers take differently")
	case deep(src):
		w.broken("it is nested too deep to be judged")
		return
	}
	if why := continued(src); why != "" {
		w.strange(why)
		w.l.unsure = true
	}
	parser := parsers.Get().(*syntax.Parser)
	f, err := parser.Parse(strings.NewReader(src), "")
	parsers.Put(parser)
	if err != nil {
		w.broken("it can't be parsed")
	}
	if f != nil {
		w.safely(func() { w.stmts(f.Stmts) })
	}
}

// safely keeps a half-read tree, which may lack any part, from ending the program.
func (w *walker) safely(f func()) {
	if w.l.broken == "" {
		f()
		return
	}
	defer func() { _ = recover() }()
	f()
}

// continued finds lines joined by a backslash in ways that the shell and the parser take
// differently: the shell joins them before it looks for tokens, so that $\, a line feed and
// (command) are a substitution, but not in comments, which the parser joins. Between words
// both agree.
func continued(s string) string {
	for from := 0; ; {
		i := strings.Index(s[from:], "\\\n")
		if i < 0 {
			return ""
		}
		i += from
		from = i + 2
		n := 0
		for i-n > 0 && s[i-n-1] == '\\' {
			n++
		}
		if n%2 == 1 {
			continue // an escaped backslash, then the line's end
		}
		if i > 0 && strings.IndexByte(" \t\n", s[i-1]) < 0 {
			return "a word that goes on in the next line"
		}
		row := s[strings.LastIndexByte(s[:i], '\n')+1 : i]
		for j := 0; j < len(row); j++ {
			if row[j] == '#' && (j == 0 || strings.IndexByte(" \t;&|()<>`", row[j-1]) >= 0) {
				return "a comment that ends with a backslash"
			}
		}
	}
}

// deep says whether brackets are nested so deep that the parser, which recurses, would
// use much stack. What it counts wrong in quoted text only makes a question.
func deep(s string) bool {
	if len(s) <= maxNest {
		return false
	}
	open := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '{', '[':
			if open++; open > maxNest {
				return true
			}
		case ')', '}', ']':
			if open > 0 {
				open--
			}
		}
	}
	return false
}

func (w *walker) broken(why string) {
	if w.l.broken == "" {
		w.l.broken = why
	}
}

func (w *walker) strange(what string) {
	if w.l.strange == "" {
		w.l.strange = what
	}
}

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	if s.Coprocess || s.Disown {
		w.strange("a coprocess")
	}
	if s.Background {
		w.bg++
		defer func() { w.bg-- }()
	}
	before := len(w.l.cmds)
	beforeInner := len(w.l.inner)
	w.command(s.Cmd)
	if s.Background && len(w.l.cmds) == before {
		w.strange("a background job")
	}
	for _, r := range s.Redirs {
		w.redirect(r, before, beforeInner)
	}
}

func (w *walker) redirect(r *syntax.Redirect, before, beforeInner int) {
	if r.N != nil && !digits(r.N.Value) {
		w.strange("a redirection that sets a variable")
	}
	piped := func() { w.feeds(before, beforeInner) }
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		w.input(w.heredoc(r), before, beforeInner)
		piped()
		return
	case syntax.WordHdoc:
		w.input(w.word(r.Word), before, beforeInner)
		piped()
		return
	}
	x := w.word(r.Word)
	write := true
	switch r.Op {
	case syntax.RdrIn:
		write = false
		piped()
	case syntax.DplIn, syntax.DplOut:
		if x.known && (x.text == "-" || digits(strings.TrimSuffix(x.text, "-"))) {
			return // a copy of a descriptor
		}
		write = r.Op == syntax.DplOut
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
	default:
		w.strange("a redirection of another shell")
	}
	w.l.files = append(w.l.files, redirect{word: x, write: write, cwds: w.cwds, lost: w.lost})
}

// heredoc reads the text of a here-document, in which only $, ` and \ mean something, and
// nothing when its end word is quoted.
func (w *walker) heredoc(r *syntax.Redirect) word {
	rd := &wordReader{w: w, out: word{known: true, one: true}}
	quoted := len(r.Word.Parts) > 0
	for _, p := range r.Word.Parts {
		if l, ok := p.(*syntax.Lit); ok && !strings.Contains(l.Value, "\\") {
			quoted = false
		}
	}
	if !quoted && strings.Contains(w.l.src, "\\\n") {
		// The shell joins lines before it looks for the end word; the parser after.
		w.strange("a here-document beside a continued line")
		w.l.unsure = true
	}
	if r.Hdoc == nil {
		return rd.out
	}
	for _, p := range r.Hdoc.Parts {
		if l, ok := p.(*syntax.Lit); ok && quoted {
			rd.quoted(l.Value)
			continue
		} else if !ok && p.Pos().Line() != p.End().Line() {
			// The shell looks for the end word first, in every line.
			w.strange("a here-document with an expansion over several lines")
			w.l.unsure = true
		}
		rd.part(p, false, true)
	}
	rd.out.text = rd.text.String()
	return rd.out
}

// feeds notes that commands get input from another one, a file or the line: what runs its
// input runs code that is not seen here.
func (w *walker) feeds(n, m int) {
	for _, list := range [][]*command{w.l.cmds[n:], w.l.inner[m:]} {
		for _, c := range list {
			c.piped = true
			if len(c.words) > 0 && c.words[0].whole() {
				if b := base(c.words[0].text); shells.has(b) || interpreter(b) {
					w.l.hidden = true
				}
			}
		}
	}
}

// input notes text that the commands just read get as input: a shell runs it.
func (w *walker) input(text word, before, beforeInner int) {
	for _, list := range [][]*command{w.l.cmds[before:], w.l.inner[beforeInner:]} {
		for _, c := range list {
			if !readsScript(c) {
				continue
			}
			if text.known && w.depth < maxDepth {
				w.nested(text.text)
			} else {
				w.l.hidden = true
			}
			return
		}
	}
}

// nested reads a script that is data of this line: its commands are inner ones.
func (w *walker) nested(src string) {
	if w.depth >= maxDepth {
		w.l.hidden, w.l.unsure = true, true
		return
	}
	sub := &line{src: src, count: w.l.count, seen: w.l.seen}
	v := &walker{p: w.p, l: sub, cwds: w.cwds, lost: w.lost, depth: w.depth + 1}
	v.script(src)
	if sub.broken != "" || sub.strange != "" || sub.unsure {
		w.l.hidden, w.l.unsure = true, true
	}
	if sub.count > maxWords {
		w.broken("it has too many parts to be judged")
	}
	w.l.count = sub.count
	w.l.hidden = w.l.hidden || sub.hidden
	w.l.inner = append(append(w.l.inner, sub.cmds...), sub.inner...)
	w.l.files = append(w.l.files, sub.files...)
}

func (w *walker) command(c syntax.Command) {
	switch c := c.(type) {
	case nil:
	case *syntax.CallExpr:
		w.call(c)
	case *syntax.BinaryCmd:
		pipe := c.Op == syntax.Pipe || c.Op == syntax.PipeAll
		if pipe {
			w.maybe++
		}
		w.stmt(c.X)
		if !pipe {
			w.maybe++
		}
		n, m := len(w.l.cmds), len(w.l.inner)
		w.stmt(c.Y)
		if pipe {
			w.feeds(n, m)
		}
		w.maybe--
	case *syntax.Block:
		w.stmts(c.Stmts)
	case *syntax.Subshell:
		w.maybe++
		w.stmts(c.Stmts)
		w.maybe--
	case *syntax.IfClause:
		w.maybe++
		defer func() { w.maybe-- }()
		for ; c != nil; c = c.Else {
			w.stmts(c.Cond)
			w.stmts(c.Then)
		}
	case *syntax.WhileClause:
		w.varies(c)
		w.loops++
		w.stmts(c.Cond)
		w.stmts(c.Do)
		w.loops--
	case *syntax.ForClause:
		if c.Select || c.Braces {
			w.strange("select")
		}
		switch loop := c.Loop.(type) {
		case *syntax.WordIter:
			v := &variable{}
			if !loop.InPos.IsValid() {
				v.unknown = true
			}
			for _, it := range loop.Items {
				w.value(v, w.word(it))
			}
			v.values = append(v.values, "\x00") // never a single value: it changes
			w.assign(loop.Name.Value, v)
		case *syntax.CStyleLoop:
			w.arithm(loop.Init)
			w.arithm(loop.Cond)
			w.arithm(loop.Post)
			w.strange("arithmetic with names")
		}
		for _, s := range c.Do {
			w.varies(s)
		}
		w.loops++
		w.stmts(c.Do)
		w.loops--
	case *syntax.CaseClause:
		w.maybe++
		defer func() { w.maybe-- }()
		w.word(c.Word)
		for _, it := range c.Items {
			for _, x := range it.Patterns {
				w.word(x)
			}
			w.stmts(it.Stmts)
		}
	case *syntax.TimeClause:
		w.stmt(c.Stmt)
	case *syntax.TestClause:
		if !w.test(c.X) {
			w.strange("a test that evaluates")
		}
	case *syntax.FuncDecl:
		w.strange("a function")
		w.loops++
		w.stmt(c.Body)
		w.loops--
	case *syntax.CoprocClause:
		w.strange("a coprocess")
		w.stmt(c.Stmt)
	case *syntax.DeclClause:
		w.strange(c.Variant.Value)
		for _, a := range c.Args {
			w.assignment(a)
		}
	case *syntax.ArithmCmd:
		if !w.arithm(c.X) || c.Unsigned {
			w.strange("arithmetic with names")
		}
	case *syntax.LetClause:
		w.strange("let")
		for _, x := range c.Exprs {
			w.arithm(x)
		}
	default:
		w.strange("a construct that is not known")
	}
}

// test reads [[ … ]]. Tests of numbers and of variables evaluate what they are given.
func (w *walker) test(x syntax.TestExpr) bool {
	switch x := x.(type) {
	case nil:
		return true
	case *syntax.Word:
		w.word(x)
		return true
	case *syntax.ParenTest:
		return w.test(x.X)
	case *syntax.UnaryTest:
		ok := w.test(x.X)
		return ok && x.Op != syntax.TsVarSet && x.Op != syntax.TsRefVar && x.Op != syntax.TsOptSet
	case *syntax.BinaryTest:
		a, b := w.test(x.X), w.test(x.Y)
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			return numberWord(x.X) && numberWord(x.Y)
		}
		return a && b
	}
	return false
}

func numberWord(x syntax.TestExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && digits(w.Lit())
}

func (w *walker) call(c *syntax.CallExpr) {
	cmd := &command{bg: w.bg > 0, judged: maybe}
	for _, a := range c.Assigns {
		cmd.assigns = append(cmd.assigns, w.assignment(a))
	}
	cmd.words = make([]word, 0, len(c.Args))
	for _, x := range c.Args {
		cmd.words = append(cmd.words, w.word(x))
	}
	cmd.cwds, cmd.lost = w.cwds, w.lost
	w.l.cmds = append(w.l.cmds, cmd)
	if w.counts(cmd) {
		w.through(cmd)
	}
	if len(c.Args) == 0 {
		for i := range cmd.assigns {
			a := &cmd.assigns[i]
			v := &variable{}
			w.value(v, a.value)
			if w.loops > 0 || !a.plain {
				v.unknown = true
			}
			w.assign(a.name, v)
		}
		return
	}
	switch cmd.name() {
	case "cd", "pushd", "popd":
		w.chdir(cmd)
	case "read", "mapfile", "readarray", "getopts", "printf", "unset":
		for _, x := range cmd.words[1:] {
			if syntax.ValidName(x.text) {
				w.assign(x.text, &variable{unknown: true})
			}
		}
	}
}

// counts adds a command's words and says whether there may be more.
func (w *walker) counts(c *command) bool {
	w.l.count += len(c.words)
	if w.l.count > maxWords {
		w.broken("it has too many parts to be judged")
		return false
	}
	return true
}

// chdir follows a change of directory. Every command after it may run in the old or in the
// new one.
func (w *walker) chdir(c *command) {
	target := ""
	for _, x := range c.words[1:] {
		if x.known && (x.text == "--" || x.text == "-P" || x.text == "-L") && target == "" {
			continue
		}
		if target != "" || !x.whole() || x.text == "" || x.text == "-" {
			w.lost = true
			return
		}
		target = x.text
	}
	if c.name() != "cd" || target == "" || w.loops > 0 || w.p.ws == nil {
		if c.name() == "cd" && w.loops > 0 && filepath.IsAbs(target) {
			w.cwds = append(w.cwds[:len(w.cwds):len(w.cwds)], target)
			return
		}
		w.lost = true
		return
	}
	next := w.cwds[:len(w.cwds):len(w.cwds)]
	if w.maybe == 0 && w.bg == 0 && len(w.cwds) == 1 {
		// It runs, and succeeds when the directory is there.
		if pl, err := w.p.locate(w.l, w.cwds[0], target); err == nil {
			if fi, err := os.Stat(pl.Abs); err == nil && fi.IsDir() {
				w.cwds = []string{pl.Abs}
				return
			}
		}
	}
	for _, base := range w.cwds {
		pl, err := w.p.locate(w.l, base, target)
		if err != nil {
			continue
		}
		known := false
		for _, n := range next {
			known = known || n == pl.Abs
		}
		if !known {
			next = append(next, pl.Abs)
		}
	}
	if len(next) > maxCwds {
		w.lost = true
		return
	}
	w.cwds = next
}

func (w *walker) assignment(a *syntax.Assign) assign {
	out := assign{plain: a.Array == nil && a.Index == nil && !a.Naked && a.Name != nil}
	if a.Name != nil {
		out.name = a.Name.Value
	}
	if a.Index != nil {
		w.arithm(a.Index)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				w.arithm(e.Index)
			}
			if e.Value != nil {
				w.word(e.Value)
			}
		}
	}
	if a.Value != nil {
		out.value = w.word(a.Value)
	} else {
		out.value = word{known: true, one: true}
	}
	if a.Append {
		out.value.known = false
		out.value.text = hole + out.value.text
	}
	if !out.plain {
		w.strange("an array or a declaration")
	}
	return out
}

// varies notes that what is assigned inside a loop may differ from round to round.
func (w *walker) varies(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil {
			w.assign(a.Name.Value, &variable{unknown: true})
		}
		return true
	})
}

// value adds a word to what a variable may be.
func (w *walker) value(v *variable, x word) {
	if w.p.ws == nil || !(&harm{p: w.p, l: w.l, c: &command{cwds: w.cwds, lost: w.lost}}).path(x) {
		v.leaves = true
	}
	switch {
	case x.whole():
		v.values = append(v.values, x.text)
	case x.glob != "":
		v.values = append(v.values, hole)
	case len(x.vars) > 0 && !x.substituted && !x.odd:
		v.values = append(v.values, hole)
	default:
		v.unknown = true
	}
}

func (w *walker) assign(name string, v *variable) {
	if w.vars == nil {
		w.vars = map[string]*variable{}
	}
	if old := w.vars[name]; old != nil {
		v = &variable{values: append(append([]string{}, old.values...), v.values...), unknown: old.unknown || v.unknown, leaves: old.leaves || v.leaves}
	}
	w.vars[name] = v
}
