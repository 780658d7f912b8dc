package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// hole stands in a word's text for what is known only when the line runs.
const hole = "\x00"

// word is what is known of one word of a command before it runs.
type word struct {
	// text is the word's value; holes stand for expansions that are not known.
	text string
	// known: text is exactly what the command gets, as one argument.
	known bool
	// one: whatever it expands to, it is one argument.
	one bool
	// odd: written in a way that has no plain meaning here ($'…', braces …).
	odd bool
	// glob is the word as a pattern of path/filepath when it has unquoted wildcards and
	// is otherwise known, "" for others.
	glob string
	// vars are the variables in it that the line itself sets.
	vars []string
	// substituted: it contains the output of a command or a variable that the line does
	// not set.
	substituted bool
	// fd: it is a descriptor that <(…) or >(…) gives.
	fd bool
}

// whole says that text is complete, though perhaps by way of $HOME or ~.
func (w word) whole() bool { return !w.odd && w.glob == "" && !strings.Contains(w.text, hole) }

// wordReader puts a word together from its parts.
type wordReader struct {
	w    *walker
	text strings.Builder
	glob strings.Builder
	out  word

	hasGlob bool
	brace   int // 0 none, 1 an unquoted {, 2 then a comma or .., 3 then a }
}

// word evaluates a word as far as that can be done without running anything. Commands
// inside it are read as parts of the line.
func (w *walker) word(x *syntax.Word) word {
	if x == nil {
		return word{known: true, one: true}
	}
	if len(x.Parts) == 1 { // the usual case
		if l, ok := x.Parts[0].(*syntax.Lit); ok && (l.Value == "[" || !strings.ContainsAny(l.Value, "\\*?[{~\x00")) {
			return word{text: l.Value, known: true, one: true}
		}
	}
	r := &wordReader{w: w, out: word{known: true, one: true}}
	for i, p := range x.Parts {
		r.part(p, i == 0, false)
	}
	r.out.text = r.text.String()
	if r.brace == 3 && r.out.text != "{}" {
		r.out.odd, r.out.known, r.out.one = true, false, false
	}
	if r.hasGlob {
		r.out.one = false
		if !r.out.odd && !strings.Contains(r.out.text, hole) {
			r.out.glob = r.glob.String()
		}
		r.out.known = false
	}
	return r.out
}

// quoted adds text that means itself.
func (r *wordReader) quoted(s string) {
	r.text.WriteString(s)
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`*?[]\`, s[i]) >= 0 {
			r.glob.WriteByte('\\')
		}
		r.glob.WriteByte(s[i])
	}
}

// unknown adds an expansion whose value is not known.
func (r *wordReader) unknown(quoted bool) {
	r.text.WriteString(hole)
	r.out.known = false
	if !quoted {
		r.out.one = false
	}
}

func (r *wordReader) part(p syntax.WordPart, first, inQuotes bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		if inQuotes {
			r.quoted(unescapeQuoted(p.Value))
		} else {
			r.literal(p.Value, first)
		}
	case *syntax.SglQuoted:
		if !p.Dollar {
			r.quoted(p.Value)
			return
		}
		v, ok := ansiC(p.Value)
		r.quoted(v)
		r.out.known = false
		r.out.odd = true
		if !ok {
			r.unknown(true)
		}
	case *syntax.DblQuoted:
		if p.Dollar { // translated by the locale
			r.out.odd, r.out.known = true, false
		}
		for _, q := range p.Parts {
			r.part(q, false, true)
		}
	case *syntax.ParamExp:
		r.param(p, inQuotes)
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			r.w.strange("a substitution that runs in this shell")
		}
		r.w.stmts(p.Stmts)
		r.unknown(inQuotes)
		r.out.substituted = true
	case *syntax.ProcSubst:
		r.w.stmts(p.Stmts)
		r.text.WriteString("/dev/fd/" + hole)
		r.out.known, r.out.fd = false, r.text.Len() == len("/dev/fd/"+hole)
	case *syntax.ArithmExp:
		if p.Unsigned || !r.w.arithm(p.X) {
			r.w.strange("arithmetic with names")
		}
		r.unknown(inQuotes)
		r.out.substituted = true
	default: // extended globs and what a later parser may know
		r.w.strange("an extended pattern")
		r.unknown(false)
		r.out.odd = true
	}
}

// literal adds unquoted text: it resolves backslashes, ~ and notes wildcards and braces.
func (r *wordReader) literal(s string, first bool) {
	if first && strings.HasPrefix(s, "~") {
		user, rest, slash := strings.Cut(s[1:], "/")
		switch {
		case user == "" && r.w.p.c.UserHome != "":
			r.quoted(r.w.p.c.UserHome)
			r.out.known = false
			s = rest
			if slash {
				s = "/" + rest
			}
		default: // another user's home, ~+, ~-
			r.out.odd, r.out.known = true, false
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i >= len(s) {
				r.quoted(`\`) // the end of the line: it means itself
			} else if s[i] != '\n' {
				_, n := utf8.DecodeRuneInString(s[i:])
				r.quoted(s[i : i+n])
				i += n - 1
			}
			continue
		case '*', '?', '[':
			r.hasGlob = true
		case '{':
			if r.brace == 0 {
				r.brace = 1
			}
		case ',':
			if r.brace == 1 {
				r.brace = 2
			}
		case '.':
			if r.brace == 1 && strings.HasPrefix(s[i:], "..") {
				r.brace = 2
			}
		case '}':
			if r.brace == 2 {
				r.brace = 3
			}
		case 0:
			r.out.odd, r.out.known = true, false
			continue
		}
		r.text.WriteByte(s[i])
		if s[i] == '!' && i > 0 && s[i-1] == '[' {
			r.glob.WriteByte('^')
		} else {
			r.glob.WriteByte(s[i])
		}
	}
}

// param adds $name and its relatives. Only forms that can neither set a variable nor
// evaluate one's content are read; others make the line strange.
func (r *wordReader) param(p *syntax.ParamExp, inQuotes bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	ok := name != "" && p.Flags == nil && !p.Excl && !p.Width && !p.IsSet && p.NestedParam == nil &&
		len(p.Modifiers) == 0 && p.Names == 0 &&
		p.Split == syntax.OptUnset && p.GlobSubst == syntax.OptUnset && p.RcExpand == syntax.OptUnset
	simple := ok && !p.Length
	if p.Index != nil {
		simple = false
		if !constantIndex(p.Index) {
			ok = false
			r.w.arithm(p.Index)
		}
	}
	if p.Slice != nil {
		simple = false
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil && !r.w.arithm(x) {
				ok = false
			}
		}
	}
	if p.Repl != nil {
		simple = false
		r.w.word(p.Repl.Orig)
		r.w.word(p.Repl.With)
	}
	if p.Exp != nil {
		simple = false
		r.w.word(p.Exp.Word)
		switch p.Exp.Op {
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
			syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix,
			syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		default: // ${x:=…} sets, ${x@P} evaluates
			ok = false
		}
	}
	if !ok {
		r.w.strange("an expansion that sets or evaluates")
	}
	many := name == "@" || name == "*" || p.Index != nil
	if simple {
		if v, set := r.w.vars[name]; set {
			if len(v.values) == 1 && !v.unknown {
				if inQuotes || !strings.ContainsAny(v.values[0], " \t\n*?[") {
					r.quoted(v.values[0])
					r.out.known = false
					return
				}
			}
			r.out.vars = append(r.out.vars, name)
			r.unknown(inQuotes && !many)
			r.out.substituted = r.out.substituted || v.unknown || v.leaves
			return
		}
		if v := r.w.environment(name); v != "" {
			r.quoted(v)
			r.out.known = false
			return
		}
	}
	r.unknown(inQuotes && !many)
	r.out.substituted = true
}

// environment gives the few variables whose value matters for where a path leads.
func (w *walker) environment(name string) string {
	switch name {
	case "HOME":
		return w.p.c.UserHome
	case "LJ_HOME":
		return w.p.c.Home
	case "PWD":
		if len(w.cwds) == 1 && !w.lost {
			return w.cwds[0]
		}
	}
	return ""
}

// constantIndex: ${a[0]}, ${a[@]}, ${a[*]}.
func constantIndex(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	if !ok {
		return false
	}
	s := w.Lit()
	return s == "@" || s == "*" || digits(s)
}

// arithm reads an arithmetic expression and says whether it is made of numbers alone: the
// shell evaluates a variable's content as an expression again, and a[$(command)] in it
// runs the command.
func (w *walker) arithm(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case nil:
		return true
	case *syntax.Word:
		s := x.Lit()
		if s == "" {
			w.word(x)
		}
		return digits(s)
	case *syntax.ParenArithm:
		return w.arithm(x.X)
	case *syntax.UnaryArithm:
		ok := w.arithm(x.X)
		return ok && x.Op != syntax.Inc && x.Op != syntax.Dec
	case *syntax.BinaryArithm:
		a, b := w.arithm(x.X), w.arithm(x.Y)
		return a && b // an assignment has a name on its left
	case *syntax.FlagsArithm:
		w.arithm(x.X)
	}
	return false
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// unescapeQuoted resolves the backslashes that mean something between double quotes.
func unescapeQuoted(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '$', '`', '"', '\\':
				i++
			case '\n':
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ansiC decodes the inside of $'…' (bash manual, "ANSI-C Quoting"); ok is false when
// something in it is not decoded.
func ansiC(s string) (_ string, ok bool) {
	var b strings.Builder
	ok = true
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		number := func(base, max int) {
			n := 0
			for n < max && i+1+n < len(s) {
				if _, err := strconv.ParseUint(s[i+1+n:i+2+n], base, 32); err != nil {
					break
				}
				n++
			}
			v, err := strconv.ParseUint(s[i+1:i+1+n], base, 32)
			if err != nil || v == 0 {
				ok = false
				return
			}
			i += n
			if max <= 3 {
				b.WriteByte(byte(v))
			} else {
				b.WriteRune(rune(v))
			}
		}
		switch c := s[i]; c {
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'e', 'E':
			b.WriteByte(0x1b)
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case 'x':
			number(16, 2)
		case 'u':
			number(16, 4)
		case 'U':
			number(16, 8)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i--
			number(8, 3)
		default:
			ok = false
		}
	}
	return b.String(), ok
}
