package memory

import (
	"slices"
	"strings"

	"github.com/lingjiyidong/lj/memory/segment"
)

// sides are what a statement affirms and what it denies: "use pnpm, not npm". The words are
// in order, each once, without those that change nothing.
type sides struct {
	yes, no []string
	clauses [][]string // the words of each clause
}

// correction finds the beginnings that only say that what follows is a correction.
var correction = lazy(`(?i)^(?:(?:no|nope|wrong|correction|actually|sorry|scratch that|my mistake|not quite|(?:that|this|it)(?:'s| is| was) (?:wrong|incorrect|not right|not true|no longer true)|i was wrong|i misspoke|on second thought)\s*(?:[,.:;!—–]|\s-)+\s*` +
	`|(?:不对|不是(?:的|这样的?)?|不|错了?|不正确|(?:我|你|上次|之前|刚才)*(?:说|记|写|弄|搞)错了?|更正(?:一下)?|纠正(?:一下)?|订正|抱歉|对不起|改一下)[，,。.：:！!；;\s]+)+`)

// corrects divides the beginning that marks a correction from a text.
func corrects(text string) (rest string, yes bool) {
	if m := correction().FindString(text); m != "" && len(text)-len(m) > 3 {
		return text[len(m):], true
	}
	return text, false
}

// sideHints are pieces of which every text holds one that denies something beside its verb.
var sideHints = []string{"rather than", "instead of", "over", "prefer", "而不是", "而非"}

// back are words behind which an earlier denial no longer holds.
var back = set(`but 要用 得用 需用 而 而是 但 但是 改用 改成 改为 换成 使用 用 use instead`)

// sidesOf finds what a text affirms and denies; nil when it denies nothing.
func (s *statement) sidesOf(c Cutter, text, folded string, negs int) *sides {
	if len(text) > 1000 || negs == 0 && !hasAny(folded, sideHints) {
		return nil
	}
	out := &sides{}
	lex := lexiconOf()
	for _, part := range clauses(text) {
		toks := tokens(c, part, false)
		deny, prefer := false, false
		var words []string
		put := func(key string) {
			to := &out.yes
			if deny {
				to = &out.no
			}
			if !contains(*to, key) {
				*to = append(*to, key)
			}
			words = append(words, key)
		}
		for i, t := range toks {
			w := t.text
			next := ""
			if i+1 < len(toks) {
				next = toks[i+1].text
			}
			switch {
			case (w == "rather" && next == "than") || (w == "instead" && next == "of") || w == "而不是" || w == "而非" || prefer && (w == "over" || w == "to" || w == "than"):
				deny = true
				continue
			case w == "than" || w == "of":
				continue
			case s.negation(toks, i) == 1:
				deny = true
				if rest := strings.TrimLeft(w, "不没未非勿别无从并切请莫休"); rest != w && rest != "" && t.kind == segment.Chinese && !emptyRest[rest] && !soft[rest] && !pronounsOrFiller(rest) {
					put(synonymOf(lex, rest))
				}
				continue
			case deny && back[w] && i > 0 && s.negation(toks, i-1) != 1 && len(words) > 0:
				deny = false
				continue
			}
			if w == "要用" || w == "得用" || w == "需用" {
				continue // 要用 is 用
			}
			key := synonymOf(lex, t.stem)
			prefer = prefer || w == "prefer" || w == "prefers"
			if t.stop && !directional[w] && lex.side[t.stem] == nil || soft[key] || copula[key] || pronounsOrFiller(w) || prepositions[w] && !directional[w] || alsoWords[w] || newerWords[w] {
				continue
			}
			if t.kind == segment.Number {
				key = numberKey(w)
			} else if v, ok := timeWords[w]; ok {
				key = v
			}
			put(key)
		}
		if len(words) > 0 {
			out.clauses = append(out.clauses, words)
		}
	}
	if len(out.no) == 0 {
		return nil
	}
	return out
}

func synonymOf(lex *lexicon, k string) string {
	if syn, ok := lex.synonym[k]; ok {
		return syn
	}
	return k
}

func pronounsOrFiller(w string) bool {
	return pronouns[w] != "" || fillers[w] || w == "的" || w == "了"
}

// plainSides are the sides of a text that denies nothing.
func (s *statement) plainSides(c func(string) *statement) *sides {
	out := &sides{}
	for _, part := range s.parts {
		p := s
		if len(s.parts) > 1 {
			p = c(part)
		}
		var words []string
		for _, v := range p.body {
			if !soft[v.key] && v.key != "user" && !copula[v.key] {
				words = append(words, v.key)
				if !contains(out.yes, v.key) {
					out.yes = append(out.yes, v.key)
				}
			}
		}
		if len(words) > 0 {
			out.clauses = append(out.clauses, words)
		}
	}
	return out
}

func (x *sides) has(key string) bool { return contains(x.yes, key) || contains(x.no, key) }

// clash lists the words that one of two statements affirms and the other denies.
func clash(old, new *sides) []string {
	var out []string
	for _, p := range [][2]*sides{{old, new}, {new, old}} {
		for _, k := range p[0].yes {
			if contains(p[1].no, k) && !contains(p[1].yes, k) && !contains(p[0].no, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// turned judges two statements of which one at least says what not: by the words on either
// side.
func turned(of func(string) *statement, old, new *statement) (verdict, bool) {
	if old.sides == nil && new.sides == nil || new.also || old.quest || new.quest {
		return verdict{}, false
	}
	a, b := old.sides, new.sides
	if a == nil {
		a = old.plainSides(of)
	}
	if b == nil {
		b = new.plainSides(of)
	}
	within := func(words []string, other *sides) bool {
		for _, k := range words {
			if !other.has(k) {
				return false
			}
		}
		return true
	}
	words := clash(a, b)
	if len(words) == 0 {
		if old.negated != new.negated && len(a.yes) > 0 && slices.Equal(a.yes, b.yes) {
			return verdict{rel: related, reason: "one of them also says what not", score: 0.5, clause: -1}, true
		}
		if old.sides == nil || new.sides == nil || old.weak != new.weak || old.also {
			return verdict{}, false
		}
		if slices.Equal(a.yes, b.yes) && slices.Equal(a.no, b.no) && len(a.yes) > 0 && old.signs == new.signs {
			return verdict{rel: merges, reason: "the same words on the same sides", score: 0.97, clause: -1}, true
		}
		// use pnpm, not npm; use yarn, not npm
		if len(a.yes) == 1 && len(b.yes) == 1 && slices.Equal(a.no, b.no) {
			return verdict{rel: replaces, reason: "another value instead of " + strings.Join(a.no, " "), score: 0.8, clause: -1}, true
		}
		return verdict{}, false
	}
	// What the two say of these words, and nothing else in the same clauses, must be about the same.
	for _, p := range [][2]*sides{{a, b}, {b, a}} {
		for _, c := range p[0].clauses {
			for _, k := range words {
				if contains(c, k) && !within(c, p[1]) {
					return verdict{}, false
				}
			}
		}
	}
	if new.weak && !old.weak {
		return verdict{rel: related, reason: "the opposite, perhaps", score: 0.5, clause: -1}, true
	}
	// "… for the docs" is said of less.
	for _, part := range new.parts {
		if w, _, _ := strings.Cut(fold(part), " "); prepositions[w] && len(new.parts) > 1 && !within(partWords(of(part)), a) {
			return verdict{rel: related, reason: "the opposite, for a part of it", score: 0.5, clause: -1}, true
		}
	}
	// What else the old text says stays, but not the bare other side: "use pnpm" of "use pnpm, not npm".
	more := false
	for _, c := range a.clauses {
		about := len(c) == 1
		for _, k := range words {
			about = about || contains(c, k)
		}
		more = more || !about && !within(c, b)
	}
	at := -1
	if more && len(old.parts) > 1 {
		for i, part := range old.parts {
			for _, k := range words {
				if at < 0 && hasKey(of(part).body, k) {
					at = i + old.skip
				}
			}
		}
	}
	return verdict{rel: replaces, reason: "says the opposite of " + strings.Join(words, ", "), score: 1, clause: at}, true
}

func partWords(s *statement) []string {
	var out []string
	for _, v := range s.body {
		if !v.pred && !soft[v.key] {
			out = append(out, v.key)
		}
	}
	return out
}

// clashes says whether one of two statements affirms what the other denies.
func clashes(old, new *statement) bool {
	return old.sides != nil && new.sides != nil && len(clash(old.sides, new.sides)) > 0
}

// spokenTo says whether a clause of a replaced text says nothing but what the new text is
// about.
func spokenTo(clause, new *statement) bool {
	for _, v := range clause.body {
		if v.pred || soft[v.key] || v.key == "user" || copula[v.key] {
			continue
		}
		if !hasKey(new.slots, v.key) {
			return false
		}
	}
	return true
}
