package grepfiles

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// pattern is a compiled search pattern: which lines match, each line being a text of its
// own. It is immutable; every worker has its own machine.
type pattern struct {
	prog    *syntax.Prog
	literal []byte   // the whole pattern is this text
	need    [][]byte // every matching line contains one of these
	ascii   bool     // the pattern speaks of ASCII characters only

	bounds []rune   // first rune of each interval of equal behaviour
	class  []uint16 // class of each interval
	rep    []rune   // one rune of each class
	word   []bool   // whether the class is of word characters
	low    [128]uint16
	eol    int // the class "end of line"; the number of classes is eol+1
}

func compile(src string) (*pattern, error) {
	if src == "" {
		return nil, core.Errorf(core.KindUsage, "pattern is empty")
	}
	re, err := syntax.Parse(src, syntax.Perl)
	if err != nil {
		msg := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return nil, core.Errorf(core.KindUsage, "pattern is not a valid regular expression (RE2): %s", msg).
			Hint(`there are no look-arounds and back references; to search for plain text write \Q…\E around it or put \ before ( ) [ ] { } . * + ? | ^ $`)
	}
	if spansLines(re) {
		return nil, core.Errorf(core.KindUsage, "a match lies within one line; the pattern contains a line break")
	}
	p := &pattern{ascii: asciiOnly(re)}
	if re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 {
		p.literal = []byte(string(re.Rune))
	}
	p.need = required(re)
	p.prog, err = syntax.Compile(re.Simplify())
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "pattern: %w", err)
	}
	p.classes()
	return p, nil
}

func spansLines(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') {
		return true
	}
	return slices.ContainsFunc(re.Sub, spansLines)
}

// asciiOnly says whether undecoded bytes can't change what matches: no character beyond
// ASCII is named.
func asciiOnly(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r >= utf8.RuneSelf {
				return false
			}
		}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if hi := re.Rune[i+1]; hi >= utf8.RuneSelf && !(hi == unicode.MaxRune && re.Rune[i] <= utf8.RuneSelf) {
				return false
			}
		}
	}
	for _, s := range re.Sub {
		if !asciiOnly(s) {
			return false
		}
	}
	return true
}

// required finds texts of which every match contains at least one; nil for none.
func required(re *syntax.Regexp) [][]byte {
	set := needs(re)
	for _, s := range set {
		if len(s) < 2 {
			return nil
		}
	}
	return set
}

func needs(re *syntax.Regexp) [][]byte {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return [][]byte{[]byte(string(re.Rune))}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needs(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min >= 1 {
			return needs(re.Sub[0])
		}
	case syntax.OpConcat:
		var best [][]byte
		for _, s := range re.Sub {
			if n := needs(s); n != nil && (best == nil || weight(n) > weight(best)) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var all [][]byte
		for _, s := range re.Sub {
			n := needs(s)
			if n == nil || len(all)+len(n) > 16 {
				return nil
			}
			all = append(all, n...)
		}
		return all
	}
	return nil
}

// weight is how telling a set is: its shortest member, single texts before sets.
func weight(set [][]byte) int {
	least := 1 << 20
	for _, s := range set {
		least = min(least, len(s))
	}
	return 4*least - len(set)
}

// classes divides all characters into classes that the program can't tell apart.
func (p *pattern) classes() {
	cut := map[rune]bool{0: true, '\n': true, '\n' + 1: true, utf8.RuneSelf: true}
	for _, r := range []rune{'0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1} {
		cut[r] = true
	}
	var insts []*syntax.Inst
	for i := range p.prog.Inst {
		in := &p.prog.Inst[i]
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			insts = append(insts, in)
			if len(in.Rune) == 1 {
				r0 := in.Rune[0]
				cut[r0], cut[r0+1] = true, true
				if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
					for r := unicode.SimpleFold(r0); r != r0; r = unicode.SimpleFold(r) {
						cut[r], cut[r+1] = true, true
					}
				}
			}
			for j := 0; j+1 < len(in.Rune); j += 2 {
				cut[in.Rune[j]], cut[in.Rune[j+1]+1] = true, true
			}
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			insts = append(insts, in)
		}
	}
	for r := range cut {
		p.bounds = append(p.bounds, r)
	}
	slices.Sort(p.bounds)
	ids := map[string]uint16{}
	sig := make([]byte, len(insts)+1)
	for _, r := range p.bounds {
		for i, in := range insts {
			sig[i] = '0'
			if in.MatchRune(r) {
				sig[i] = '1'
			}
		}
		sig[len(insts)] = '0'
		if syntax.IsWordChar(r) {
			sig[len(insts)] = '1'
		}
		id, ok := ids[string(sig)]
		if !ok {
			id = uint16(len(p.rep))
			ids[string(sig)] = id
			p.rep = append(p.rep, r)
			p.word = append(p.word, syntax.IsWordChar(r))
		}
		p.class = append(p.class, id)
	}
	p.eol = len(p.rep)
	for b := range p.low {
		p.low[b] = p.classOf(rune(b))
	}
}

func (p *pattern) classOf(r rune) uint16 {
	i := sort.Search(len(p.bounds), func(i int) bool { return p.bounds[i] > r }) - 1
	return p.class[i]
}

// Special states of a machine. Transitions not yet known are 0.
const (
	unknown = 0
	dead    = 1 // nothing on this line can match any more
	matched = 2 // the line matches, whatever follows
	failed  = 3 // the line has ended without a match
	first   = 4 // the first ordinary state: the beginning of a line
)

// machine runs a pattern over bytes as a deterministic automaton whose states are made as
// they are met (the subset construction; K. Thompson, "Regular Expression Search
// Algorithm", 1968). One per goroutine.
type machine struct {
	*pattern
	trans  []uint32 // state*stride + class
	stride int
	states []state
	index  map[string]uint32

	mark []uint32 // generation in which an instruction was added
	gen  uint32
	list []uint32
	pend []uint32
	key  []byte
}

type state struct {
	insts    []uint32
	start    bool // at the beginning of the line
	lastWord bool
}

const maxStates = 4000

func (p *pattern) machine() *machine {
	m := &machine{pattern: p, stride: p.eol + 1, mark: make([]uint32, len(p.prog.Inst))}
	m.reset()
	return m
}

func (m *machine) reset() {
	m.trans = make([]uint32, first*m.stride, (first+16)*m.stride)
	m.states = make([]state, first)
	m.index = map[string]uint32{}
	m.begin()
	m.add(uint32(m.prog.Start))
	m.state(true, false)
}

func (m *machine) begin() {
	m.gen++
	m.list = m.list[:0]
}

// add puts an instruction and all that it leads to without reading into the list.
func (m *machine) add(pc uint32) {
	m.pend = append(m.pend[:0], pc)
	for len(m.pend) > 0 {
		pc := m.pend[len(m.pend)-1]
		m.pend = m.pend[:len(m.pend)-1]
		if m.mark[pc] == m.gen {
			continue
		}
		m.mark[pc] = m.gen
		in := &m.prog.Inst[pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.pend = append(m.pend, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			m.pend = append(m.pend, in.Out)
		case syntax.InstFail:
		default:
			m.list = append(m.list, pc)
		}
	}
}

// state finds or makes the state of the list.
func (m *machine) state(start, lastWord bool) uint32 {
	slices.Sort(m.list)
	m.key = m.key[:0]
	for _, pc := range m.list {
		if m.prog.Inst[pc].Op == syntax.InstMatch {
			return matched
		}
		m.key = append(m.key, byte(pc), byte(pc>>8), byte(pc>>16))
	}
	if len(m.list) == 0 {
		return dead
	}
	m.key = append(m.key, flag(start)|flag(lastWord)<<1)
	if id, ok := m.index[string(m.key)]; ok {
		return id
	}
	id := uint32(len(m.states))
	m.states = append(m.states, state{insts: slices.Clone(m.list), start: start, lastWord: lastWord})
	m.trans = append(m.trans, make([]uint32, m.stride)...)
	m.index[string(m.key)] = id
	return id
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// step computes the transition of state s under class c.
func (m *machine) step(s uint32, c int) uint32 {
	st := m.states[s]
	word := c != m.eol && m.word[c]
	var now syntax.EmptyOp
	if st.start {
		now |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if c == m.eol {
		now |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	if st.lastWord != word {
		now |= syntax.EmptyWordBoundary
	} else {
		now |= syntax.EmptyNoWordBoundary
	}
	// What the position allows without reading.
	m.begin()
	for _, pc := range st.insts {
		m.add(pc)
	}
	for i := 0; i < len(m.list); i++ {
		if in := &m.prog.Inst[m.list[i]]; in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&^now == 0 {
			m.add(in.Out)
		}
	}
	for _, pc := range m.list {
		if m.prog.Inst[pc].Op == syntax.InstMatch {
			return matched
		}
	}
	if c == m.eol {
		return failed
	}
	here := slices.Clone(m.list)
	m.begin()
	for _, pc := range here {
		in := &m.prog.Inst[pc]
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if in.MatchRune(m.rep[c]) {
				m.add(in.Out)
			}
		}
	}
	m.add(uint32(m.prog.Start)) // a match may begin here as well
	return m.drop(word)
}

// drop removes the instructions that can never be passed any more (\A after the first
// character) and finds the state.
func (m *machine) drop(word bool) uint32 {
	m.list = slices.DeleteFunc(m.list, func(pc uint32) bool {
		in := &m.prog.Inst[pc]
		return in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&(syntax.EmptyBeginText|syntax.EmptyBeginLine) != 0
	})
	return m.state(false, word)
}

// next finds the first matching line at or after from, where a line begins. end is where
// its text ends, before the line break.
func (m *machine) next(b []byte, from int) (start, end int, ok bool) {
	if m.literal != nil {
		i := bytes.Index(b[from:], m.literal)
		if i < 0 {
			return 0, 0, false
		}
		start, end = lineAround(b, from+i)
		return start, end, true
	}
	if len(m.need) == 1 {
		for from < len(b) {
			i := bytes.Index(b[from:], m.need[0])
			if i < 0 {
				return 0, 0, false
			}
			start, end = lineAround(b, from+i)
			if _, _, ok := m.scan(b[:end], start); ok {
				return start, end, true
			}
			from = lineAfter(b, end)
		}
		return 0, 0, false
	}
	if len(m.need) > 1 && !slices.ContainsFunc(m.need, func(s []byte) bool { return bytes.Contains(b[from:], s) }) {
		return 0, 0, false
	}
	return m.scan(b, from)
}

// scan runs the automaton line by line.
func (m *machine) scan(b []byte, from int) (start, end int, ok bool) {
	for start = from; start < len(b); {
		s := uint32(first)
		if len(m.states) > maxStates {
			m.reset()
		}
		if len(m.states) == first { // the empty match: every line
			return start, lineEnd(b, start), true
		}
		i := start
		stride, low, trans := uint32(m.stride), &m.low, m.trans
	line:
		for {
			var c uint32
			n := 1
			switch {
			case i >= len(b) || b[i] == '\n' || b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
				c = uint32(m.eol)
			case b[i] < utf8.RuneSelf:
				c = uint32(low[b[i]])
			default:
				var r rune
				r, n = utf8.DecodeRune(b[i:])
				c = uint32(m.classOf(r))
			}
			t := trans[s*stride+c]
			if t == unknown {
				t = m.step(s, int(c))
				m.trans[s*stride+c] = t
				if t >= first && len(m.states) > 2*maxStates { // one endless line
					st := m.states[t]
					m.reset()
					m.list = append(m.list[:0], st.insts...)
					t = m.state(st.start, st.lastWord)
				}
				trans = m.trans
			}
			switch t {
			case matched:
				return start, lineEnd(b, i), true
			case dead:
				i = lineEnd(b, i)
				break line
			case failed:
				break line
			}
			s = t
			i += n
		}
		start = lineAfter(b, i)
	}
	return 0, 0, false
}

// lineEnd is the end of the text of the line that holds i.
func lineEnd(b []byte, i int) int {
	j := bytes.IndexByte(b[i:], '\n')
	if j < 0 {
		return len(b)
	}
	if end := i + j; end > i && b[end-1] == '\r' {
		return end - 1
	}
	return i + j
}

func lineAround(b []byte, i int) (start, end int) {
	return bytes.LastIndexByte(b[:i], '\n') + 1, lineEnd(b, i)
}

// lineAfter is the beginning of the line after the one whose text ends at end.
func lineAfter(b []byte, end int) int {
	j := bytes.IndexByte(b[end:], '\n')
	if j < 0 {
		return len(b)
	}
	return end + j + 1
}
