package memory

import (
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/memory/segment"
)

// relation is what a new statement is to an older one.
type relation byte

const (
	apart    relation = iota // nothing to do with each other
	related                  // the same subject, in doubt: both stay, linked
	replaces                 // the same subject and attribute, another value or the opposite
	merges                   // says the same, or the same and more
)

// verdict is a relation with the reason that the history keeps.
type verdict struct {
	rel    relation
	reason string
	score  float64 // how sure, or how near; the best of several wins
	// clause is the part of the old text that is replaced, -1 for the whole of it.
	clause int
}

// sameThreshold is the least probability from the model at which two statements without any
// conflict are merged.
const (
	sameThreshold      = 0.5
	sameThresholdHan   = 0.88
	sameThresholdMoved = 0.8 // where a word stands in another place
)

// compare judges a new statement against an old one. of takes a part of a text apart.
func compare(of func(string) *statement, old, new *statement) verdict {
	if old.bare != new.bare {
		if v, ok := turned(of, old, new); ok {
			return v
		}
	}
	v := compareWhole(old, new)
	if v.rel == merges || v.rel == replaces {
		return v
	}
	// A sentence of several parts: the parts are judged on their own.
	oc, nc := old.parts, new.parts
	if len(oc) > 8 || len(nc) > 8 || len(oc) == 1 && len(nc) == 1 {
		return v
	}
	best := v
	lead, newLead := leads(old.text, oc), leads(new.text, nc)
	for i, o := range oc {
		if !lead[i] {
			continue
		}
		so := old
		if len(oc) > 1 {
			so = of(o)
		}
		for j, n := range nc {
			if !newLead[j] {
				continue
			}
			sn := new
			if len(nc) > 1 {
				sn = of(n)
			}
			if len(so.body) < 2 || len(sn.body) < 2 || so.negated == sn.negated && len(sn.retired) == 0 && !shares(so.body, sn.body) {
				continue
			}
			w := compareWhole(so, sn)
			switch {
			case w.rel == replaces && (best.rel != replaces || w.score > best.score):
				w.clause = i + old.skip
				if len(oc) == 1 {
					w.clause = -1
				}
				best = w
			case w.rel >= related && best.rel == apart:
				best = verdict{rel: related, reason: "a part of it is about the same", score: w.score / 2, clause: -1}
			}
		}
	}
	return best
}

func compareWhole(old, new *statement) verdict {
	no := func(rel relation, score float64, reason string) verdict {
		return verdict{rel: rel, reason: reason, score: score, clause: -1}
	}
	if old.bare == new.bare && old.bare != "" {
		return no(merges, 1, "same text")
	}
	a, b := old.body, new.body
	if len(a) == 0 || len(b) == 0 {
		return no(apart, 0, "")
	}
	if v, ok := retires(old, new); ok {
		return v
	}
	al := align(a, b)
	near := al.near()
	conflict := al.conflict() || clashes(old, new)

	if old.negated != new.negated {
		return contradiction(old, new, al, near)
	}
	if p, ok := al.oppositePair(); ok && len(al.sites) == 1 && al.sites[0].size() == 2 {
		if new.also {
			return no(related, near, "the opposite, said to come on top")
		}
		return no(replaces, 0.5+near/2, "says the opposite: "+p)
	}
	if old.quest != new.quest && len(asks(old)) != len(asks(new)) {
		if near > 0.5 {
			return no(related, near, "one is a question")
		}
		return no(apart, near, "")
	}
	if old.signs != new.signs {
		conflict = true
	}
	if len(al.sites) == 0 && al.moved == 0 && !conflict && !otherTense(old, new) {
		if old.weak == new.weak && old.also == new.also && agree(asks(old), asks(new)) == 1 &&
			(len(asks(old)) == 0 || probability(old, new, &al) >= sameThresholdHan) {
			return no(merges, 0.99, "same words in the same order")
		}
	}
	if !conflict && al.moved == 0 && old.weak == new.weak && !new.also && !old.also {
		if al.onlyOneSide() && contained(old, new, al) {
			return no(merges, 0.95, "one says what the other says and more")
		}
	}
	if v, ok := changed(old, new, al); ok {
		return v
	}
	if mayMerge(old, new, al) {
		least := sameThreshold
		if old.han || new.han {
			least = sameThresholdHan
		}
		if al.moved > 0 {
			least = max(sameThresholdMoved, least+0.02)
		}
		if p := probability(old, new, &al); p >= least {
			return no(merges, p, "means the same")
		}
	}
	switch {
	case near >= 0.3 || al.common >= 2 && near >= 0.25:
		return no(related, near, "same subject")
	}
	return no(apart, near, "")
}

// leads says which clauses begin a sentence: only those name their subject themselves. What
// follows a comma speaks of what came before it.
func leads(text string, parts []string) []bool {
	out := make([]bool, len(parts))
	at := 0
	for i, p := range parts {
		k := strings.Index(text[at:], p)
		if k < 0 {
			continue
		}
		before := strings.TrimSpace(text[at : at+k])
		out[i] = i == 0 || !strings.HasSuffix(before, "，") && !strings.HasSuffix(before, ",")
		at += k + len(p)
	}
	return out
}

// shares says whether two statements have a word in common.
func shares(a, b []slot) bool {
	for _, s := range a {
		if hasKey(b, s.key) {
			return true
		}
	}
	return false
}

// site is one place where two aligned statements differ.
type site struct {
	a, b     []slot
	from, to int // position among the common slots: after how many of them
}

func (s site) size() int { return len(s.a) + len(s.b) }

type alignment struct {
	a, b   []slot
	sites  []site
	common int
	keys   []slot // the common slots in order
	moved  int    // words that both have, in another order
}

// align finds the longest common subsequence of the two and the places in between.
func align(a, b []slot) alignment {
	if len(a) > 60 {
		a = a[:60]
	}
	if len(b) > 60 {
		b = b[:60]
	}
	n, m := len(a), len(b)
	t := make([]int16, (n+1)*(m+1))
	w := m + 1
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[i].key == b[j].key {
				t[i*w+j] = t[(i+1)*w+j+1] + 1
			} else {
				t[i*w+j] = max(t[(i+1)*w+j], t[i*w+j+1])
			}
		}
	}
	al := alignment{a: a, b: b}
	var cur site
	flush := func() {
		if cur.size() > 0 {
			cur.from = al.common
			al.sites = append(al.sites, cur)
		}
		cur = site{}
	}
	i, j := 0, 0
	for i < n && j < m {
		switch {
		case a[i].key == b[j].key:
			flush()
			al.common++
			al.keys = append(al.keys, a[i])
			i++
			j++
		case t[(i+1)*w+j] >= t[i*w+j+1]:
			cur.a = append(cur.a, a[i])
			i++
		default:
			cur.b = append(cur.b, b[j])
			j++
		}
	}
	cur.a = append(cur.a, a[i:]...)
	cur.b = append(cur.b, b[j:]...)
	flush()
	left := map[string]int{}
	for _, s := range al.sites {
		for _, v := range s.a {
			left[v.key]++
		}
	}
	for _, s := range al.sites {
		for _, v := range s.b {
			if left[v.key] > 0 {
				left[v.key]--
				al.moved++
			}
		}
	}
	return al
}

// near is how much of the two is common, in [0, 1].
func (al alignment) near() float64 {
	return float64(al.common+al.moved) / float64(len(al.a)+len(al.b)-al.common-al.moved)
}

// conflict says whether numbers, times or names differ: then the two are never the same.
func (al alignment) conflict() bool {
	for _, k := range []slotKind{slotNumber, slotTime, slotName} {
		if hasOther(al.a, al.b, k) && hasOther(al.b, al.a, k) {
			return true
		}
	}
	return false
}

// hasOther says whether a has something of a kind that b doesn't have as anything.
func hasOther(a, b []slot, k slotKind) bool {
	for _, s := range a {
		if s.kind == k && !hasKey(b, s.key) {
			return true
		}
	}
	return false
}

func hasKey(list []slot, key string) bool {
	for _, s := range list {
		if s.key == key {
			return true
		}
	}
	return false
}

// oppositePair finds antonyms in the place of each other, of which the one turns what the
// other says; not those that say which of two things is meant.
func (al alignment) oppositePair() (string, bool) {
	for _, s := range al.sites {
		for _, x := range s.a {
			for _, y := range s.b {
				if al.opposite(s, x, y) {
					return x.key + " / " + y.key, true
				}
			}
		}
	}
	return "", false
}

func (al alignment) opposite(s site, x, y slot) bool {
	yes, qualifies := lexiconOf().opposite(x.key, y.key)
	return yes && !(qualifies && s.from == 0)
}

// onlyOneSide says whether all that differs is said by one of the two alone.
func (al alignment) onlyOneSide() bool {
	a, b := 0, 0
	for _, s := range al.sites {
		a += len(s.a)
		b += len(s.b)
	}
	return a == 0 || b == 0
}

// limits are words with which an addition takes something back.
var limits = []string{"except", "unless", " only", "but ", "however", "if ", "when ", "until", "除了", "除非", "但", "仅", "只", "不过", "如果", "直到", "的时候", "以外", "之外", "替代", "以前", "之前", "之后", "以后", "无关", "为止"}

// contained says whether one statement is the other with something added behind: the
// beginning is the same, and what follows is another clause, a phrase or a number, and
// takes nothing back.
func contained(old, new *statement, al alignment) bool {
	long, short := new, old
	if len(al.a) > len(al.b) {
		long, short = old, new
	}
	if len(short.content()) < 2 && len(short.slots) < 2 {
		return false
	}
	for _, c := range clauses(long.text) {
		if bare(c) == short.bare {
			return !takesBack(long.text)
		}
	}
	rest, ok := strings.CutPrefix(long.bare, short.bare)
	if !ok || rest == "" || takesBack(rest) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(strings.TrimSpace(rest))
	switch {
	case r >= '0' && r <= '9':
		last, _ := utf8.DecodeLastRuneInString(short.bare)
		return rest[0] == ' ' && !(last >= '0' && last <= '9')
	case segment.IsHan(r):
		for _, p := range []string{"并", "且", "以及", "和", "，", "来", "因为"} {
			if strings.HasPrefix(rest, p) {
				return true
			}
		}
		// Behind a name in another script no word goes on.
		last, _ := utf8.DecodeLastRuneInString(short.bare)
		return !segment.IsHan(last) && !strings.HasPrefix(rest, "的")
	}
	if rest[0] != ' ' {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return prepositions[first] && first != "per" || first == "and" || first == "because" || first == "so" || first == "which"
}

func takesBack(s string) bool {
	for _, w := range limits {
		if strings.Contains(s, w) {
			return true
		}
	}
	for w := range strings.FieldsSeq(s) {
		if negations[w] {
			return true
		}
	}
	return strings.ContainsAny(s, "不没未勿别")
}

// mayMerge says whether nothing forbids that two statements are one: no number, time,
// name, sign or polarity differs, they ask for the same if they ask, and no word
// of one stands in the place of another word of the other.
func mayMerge(old, new *statement, al alignment) bool {
	if al.conflict() || old.signs != new.signs || old.negated != new.negated || old.weak != new.weak || old.also || new.also ||
		len(old.retired)+len(new.retired) > 0 || al.common < 2 || clashes(old, new) {
		return false
	}
	if _, ok := al.oppositePair(); ok {
		return false
	}
	if agree(asks(old), asks(new)) < 1 {
		return false
	}
	onlyA, onlyB := map[string]int{}, map[string]int{}
	for _, s := range al.sites {
		for _, v := range s.a {
			onlyA[v.key]++
		}
		for _, v := range s.b {
			onlyB[v.key]++
		}
		for _, v := range append(append([]slot{}, s.a...), s.b...) {
			if directional[v.key] && len(al.a) < 8 || v.kind != slotWord && al.moved > 0 || lexiconOf().side[v.key] != nil {
				return false
			}
		}
	}
	a, b := 0, 0
	for k, n := range onlyA {
		if !soft[k] && n > onlyB[k] {
			a++
		}
	}
	for k, n := range onlyB {
		if !soft[k] && n > onlyA[k] {
			b++
		}
	}
	for _, s := range al.sites {
		for _, v := range append(append([]slot{}, s.a...), s.b...) {
			if v.kind != slotWord && onlyA[v.key] != onlyB[v.key] {
				return false // a name or number that the other does not have
			}
		}
	}
	if (old.han || new.han) && al.moved > 1 || otherTense(old, new) {
		return false // words have changed places: who does what to whom may have too
	}
	if takesBackOnce(old.text, new.text) || (old.han || new.han) && a+b > 1 && len(al.a) < 8 {
		return false
	}
	return a == 0 || b == 0
}

var (
	futureHan = set("会 将 要 将要 将会 打算 准备")
	pastHan   = set("了 过 已 已经 曾 曾经")
)

// otherTense says whether one Chinese statement is about what was and the other about what
// will be.
func otherTense(a, b *statement) bool {
	tense := func(s *statement) (future, past bool) {
		for _, t := range s.toks {
			future, past = future || futureHan[t.text], past || pastHan[t.text]
		}
		return future, past
	}
	fa, pa := tense(a)
	fb, pb := tense(b)
	return fa && !pa && pb && !fb || fb && !pb && pa && !fa
}

// takesBackOnce says whether only one of two texts restricts what it says.
func takesBackOnce(a, b string) bool {
	a, b = " "+fold(a)+" ", " "+fold(b)+" "
	for _, w := range limits {
		if strings.Contains(a, w) != strings.Contains(b, w) && !(len(w) <= 3 && w != "但") {
			return true
		}
	}
	return false
}

// MayMerge says whether the rules that protect differing statements allow two texts to be
// merged at all; the model decides among those.
func MayMerge(c Cutter, a, b string) bool {
	x, y := analyse(c, a), analyse(c, b)
	return mayMerge(x, y, align(x.content(), y.content()))
}

// Judgement is what one text is to an earlier one, for evaluation.
type Judgement struct {
	Merge   bool    // they would be merged without asking
	Replace bool    // the later would supersede the earlier
	Related bool    // both would stay, linked
	Same    float64 // probability that they mean the same
	Reason  string
	Forbids bool // a rule forbids a merge
}

// Judge says what ingest would make of the second text when it knew the first.
func Judge(c Cutter, earlier, later string) Judgement { return JudgeBy(c, nil, earlier, later) }

// JudgeBy is Judge with other weights than the fitted ones: to see how the rules do with a
// model that does not know the texts.
func JudgeBy(c Cutter, w *Weights, earlier, later string) Judgement {
	of := func(t string) *statement {
		s := analyse(c, t)
		s.model = w
		return s
	}
	x, y := of(earlier), of(later)
	v := compare(of, x, y)
	j := Judgement{Merge: v.rel == merges, Replace: v.rel == replaces, Related: v.rel == related, Reason: v.reason, Same: probability(x, y, nil)}
	j.Forbids = !j.Merge && !mayMerge(x, y, align(x.content(), y.content()))
	return j
}

// contradiction judges two statements of which one is turned round.
func contradiction(old, new *statement, al alignment, near float64) verdict {
	v := verdict{rel: related, reason: "one of them is negated", score: near, clause: -1}
	extra := 0
	for _, s := range al.sites {
		for _, list := range [][]slot{s.a, s.b} {
			for _, w := range list {
				if !soft[w.key] {
					extra++
				}
			}
		}
	}
	switch {
	case al.common == 0:
		v.rel = apart
		return v
	case al.conflict():
		if near < 0.34 {
			v.rel = apart
		}
		return v
	case extra == 0 && al.moved == 0:
		v.rel, v.reason, v.score = replaces, "says the opposite", 1
	case extra <= 1 && near >= 0.5 && al.common >= 2 || extra <= 2 && near >= 0.7 && al.common >= 3:
		// 禁止/允许, dislike/like: the word of approval itself may differ.
		if _, ok := al.oppositePair(); ok {
			// Two turns of the meaning are none.
			v.reason = "both negated and of opposite meaning"
			return v
		}
		if new.also {
			return v
		}
		if al.onlyOneSide() || approval(al) {
			v.rel, v.reason, v.score = replaces, "says the opposite", near
		}
	case near < 0.34:
		v.rel = apart
	}
	return v
}

// soft words change nothing about what is denied.
var soft = stems(`do any anymore more even still ever must need needs will should can = is 必 须 必须 需要 使用 use 要 会 允许 可以 得 能 可 应该 had have`)

func approval(al alignment) bool {
	for _, s := range al.sites {
		for _, list := range [][]slot{s.a, s.b} {
			for _, w := range list {
				if !soft[w.key] && lexiconOf().side[w.key] == nil {
					return false
				}
			}
		}
	}
	return true
}

// retires judges a new statement that says that something is gone.
func retires(old, new *statement) (verdict, bool) {
	if len(new.retired) == 0 {
		return verdict{}, false
	}
	has := func(key string) bool {
		for _, t := range old.toks {
			if t.stem == key {
				return true
			}
		}
		return false
	}
	for _, r := range new.retired {
		key, weak := strings.CutPrefix(r, "?")
		if !has(key) || contains(old.retired, key) || contains(old.retired, r) {
			continue
		}
		shared := 0
		oc := old.content()
		for _, s := range oc {
			if s.key != key && s.key != "user" && !s.pred && hasKey(new.content(), s.key) {
				shared++
			}
		}
		named := false
		for _, s := range old.slots {
			if s.key == key && s.kind == slotName || strings.ContainsAny(key, "_-./0123456789") && s.key == key {
				named = true
			}
		}
		rest := len(oc) - 1
		switch {
		case named && !weak:
		case shared >= 1 && (!weak || shared*2 >= rest):
		default:
			continue
		}
		if old.negated && !new.negated && !weak {
			continue // it never said that the thing is in use
		}
		return verdict{rel: replaces, reason: "says that " + key + " is no longer so", score: 0.9, clause: clauseWith(old.text, key)}, true
	}
	return verdict{}, false
}

// clauseWith is the number of the only clause that names key, -1 when the text has one
// clause or several name it.
func clauseWith(text, key string) int {
	cs := clauses(text)
	if len(cs) < 2 {
		return -1
	}
	at := -1
	for i, c := range cs {
		if strings.Contains(fold(c), key) {
			if at >= 0 {
				return -1
			}
			at = i
		}
	}
	return at
}

// changed judges whether the new statement gives another value to what the old one was
// about. What differs must be a value and not the subject: behind the verb, of one kind,
// with enough in common; otherwise both stay.
func changed(old, new *statement, al alignment) (verdict, bool) {
	if al.common == 0 || new.also || old.quest || new.quest {
		return verdict{}, false
	}
	attribute := 0 // what they have in common beside the verb and the user
	excl := false
	for _, s := range al.keys {
		if exclusive[s.key] {
			excl = true
		}
		if !s.pred && s.key != "user" && s.kind != slotNumber && !directional[s.key] {
			attribute++
		}
	}
	verdictOf := func(reason string) (verdict, bool) {
		return verdict{rel: replaces, reason: reason, score: 0.4 + al.near()/2, clause: -1}, true
	}
	var subs []site
	for _, s := range al.sites {
		if len(s.a) > 0 && len(s.b) > 0 {
			subs = append(subs, s)
			continue
		}
		// What only one of them says: small words are let pass.
		for _, w := range append(append([]slot{}, s.a...), s.b...) {
			if !w.pred && !soft[w.key] && w.key != "user" && !copula[w.key] && !units[w.key] && w.kind != slotTime {
				if w.kind != slotWord || !(new.newer && al.common >= 2) {
					return verdict{}, false
				}
			}
		}
	}
	if len(subs) == 0 || al.moved > 0 && len(subs) > 1 {
		return verdict{}, false
	}
	allTime, allNumber := true, true
	for _, s := range subs {
		if s.from == 0 && s.a[0].kind == slotTime && s.b[0].kind == slotTime && s.a[len(s.a)-1].kind != slotTime && s.b[len(s.b)-1].kind != slotTime {
			return verdict{}, false // the time that begins it says which thing is meant
		}
		if s.size() > 8 || len(s.a) > 5 || len(s.b) > 5 {
			return verdict{}, false
		}
		if !of(s.a, slotTime, slotNumber) || !of(s.b, slotTime, slotNumber) || !(has(s.a, slotTime) && has(s.b, slotTime)) {
			allTime = false
		}
		if !of(s.a, slotNumber, slotTime) || !of(s.b, slotNumber, slotTime) {
			allNumber = false
		}
	}
	if allTime && attribute >= 1 {
		return verdictOf("another time")
	}
	if len(subs) > 1 {
		return verdict{}, false // subject and value differ
	}
	s := subs[0]
	verbBefore := predBefore(old, s.a) || predBefore(new, s.b)
	prep := s.a[0].prep && s.b[0].prep
	if allNumber {
		if attribute >= 1 && (verbBefore || prep && s.from > 0) {
			return verdictOf("another number")
		}
		if new.newer && attribute >= 1 && s.from > 0 {
			return verdictOf("another number, said to have changed")
		}
		return verdict{}, false
	}
	if len(s.a) == 1 && len(s.b) == 1 && al.opposite(s, s.a[0], s.b[0]) {
		return verdictOf("says the opposite")
	}
	if s.from == 0 || onlyUser(al.keys[:s.from]) && attribute == 0 && !excl {
		return verdict{}, false // the subject differs
	}
	isValue := verbBefore && (!prep || copulaBefore(old, s.a) || copulaBefore(new, s.b))
	named := of(s.a, slotName, slotNumber, slotTime) && of(s.b, slotName, slotNumber, slotTime) && has(s.a, slotName) && has(s.b, slotName)
	switch {
	case excl && (isValue || prep):
		return verdictOf("another value of " + al.keys[s.from-1].key)
	case !isValue:
		return verdict{}, false
	case old.first || new.first:
		// Rules about different things add up; only a rule about the same thing with another name changes.
		if named && attribute >= 2 {
			return verdictOf("another name")
		}
		if new.newer && attribute >= 1 {
			return verdictOf("said to have changed")
		}
		return verdict{}, false
	case old.negated:
		return verdict{}, false
	case named && attribute >= 1 && (!multi(al) || attribute >= 2 || new.newer):
		return verdictOf("another name")
	case attribute >= 1 && al.near() >= 0.4 && (copulaBefore(old, s.a) || copulaBefore(new, s.b) || new.newer):
		return verdictOf("another value")
	case attribute >= 2 && s.size() <= 3 && al.near() >= 0.5 && !multi(al):
		return verdictOf("another value")
	}
	return verdict{}, false
}

var units = stems(`mb kb gb minut hour dai month year second 元 个 天 % 次 字节`)

// multi says whether the verb is one that many things can be the object of at a time.
func multi(al alignment) bool {
	for _, s := range al.keys {
		if s.key == "use" || s.key == "依赖" || s.key == "need" || s.key == "must" || s.key == "like" || s.key == "own" || s.key == "know" || s.key == "有" || s.key == "会" || s.key == "has" || s.key == "have" {
			return true
		}
	}
	return false
}

func of(list []slot, kinds ...slotKind) bool {
	for _, s := range list {
		ok := units[s.key] || copula[s.key] || s.pred
		for _, k := range kinds {
			ok = ok || s.kind == k
		}
		if !ok {
			return false
		}
	}
	return len(list) > 0
}

func has(list []slot, k slotKind) bool {
	for _, s := range list {
		if s.kind == k {
			return true
		}
	}
	return false
}

func onlyUser(list []slot) bool {
	for _, s := range list {
		if s.key != "user" && !s.pred {
			return false
		}
	}
	return true
}

// predBefore says whether a verb stands before the first of these words in a statement,
// or among them before the last.
func predBefore(s *statement, words []slot) bool {
	for _, v := range s.slots {
		if v.key == words[len(words)-1].key && v.kind == words[len(words)-1].kind && !v.pred {
			return false
		}
		if v.pred {
			return true
		}
	}
	return false
}

// copulaBefore says whether the word right before these is a copula or names the kind of
// value: is, 是, =, 叫, 改成 …
func copulaBefore(s *statement, words []slot) bool {
	for i, v := range s.slots {
		if v.key == words[0].key && v.kind == words[0].kind {
			for j := i - 1; j >= 0 && j >= i-2; j-- {
				if p := s.slots[j].key; copula[p] || strings.HasPrefix(p, "改") || strings.HasPrefix(p, "换") || strings.HasPrefix(p, "设") || p == "变成" || p == "选择" || p == "use" || p == "放在" || p == "prefer" {
					return true
				}
			}
			return false
		}
	}
	return false
}
