package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/memory/segment"
)

// Cutter divides text into words; *segment.Segmenter is one.
type Cutter interface {
	Cut(text string) []string
	Terms(text string) []segment.Term
}

// fold brings text to one form for comparing: compatibility forms to the usual ones, lower
// case, runs of blanks to one.
func fold(text string) string {
	text = usual(text)
	return strings.Join(strings.Fields(strings.ToLower(text)), " ")
}

// usual is text with compatibility forms, as full-width letters and signs, in their usual
// form, and without what is no text.
func usual(text string) string {
	if ascii(text) {
		return text
	}
	return norm.NFKC.String(segment.Clean(text))
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf || s[i] == 0 {
			return false
		}
	}
	return true
}

// bare is folded text without the punctuation and blanks that carry no meaning: two texts
// with equal bare forms say the same. Signs inside identifiers and numbers stay.
func bare(text string) string { return bareOf(fold(text)) }

// bareOf is bare of a text that is folded already.
func bareOf(folded string) string {
	rs := []rune(folded)
	var b strings.Builder
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }
	for i, r := range rs {
		switch {
		case word(r):
			b.WriteRune(r)
		case unicode.IsSpace(r):
			// A blank between two words of an alphabet divides them; beside Chinese it says nothing.
			if i > 0 && i+1 < len(rs) && !segment.IsHan(rs[i-1]) && !segment.IsHan(rs[i+1]) {
				b.WriteByte(' ')
			}
		case i > 0 && i+1 < len(rs) && word(rs[i-1]) && word(rs[i+1]) && r < utf8.RuneSelf && !strings.ContainsRune(",;!?\"'`", r):
			b.WriteRune(r)
		case strings.ContainsRune("+#%$€¥<>=*/~-", r) || unicode.IsSymbol(r) && r != '`':
			b.WriteRune(r)
		case r == '.' || r == '。' || r == '!' || r == '！' || r == '，' || r == ',' || r == '；' || r == ';' || r == '、' || r == '"' || r == '\'':
			if i+1 < len(rs) && i > 0 && !segment.IsHan(rs[i-1]) && !segment.IsHan(rs[i+1]) && !unicode.IsSpace(rs[i+1]) {
				b.WriteByte(' ')
			}
		case unicode.IsPunct(r):
			if r == '?' || r == '？' {
				b.WriteByte('?')
			}
		}
	}
	return strings.TrimRight(strings.TrimSpace(b.String()), "-=*~ ")
}

// digestOf is the digest by which an exact repetition of content is found.
func digestOf(content string) string {
	b := bare(content)
	if b == "" {
		b = strings.TrimSpace(content)
	}
	h := sha256.Sum256([]byte(b))
	return hex.EncodeToString(h[:16])
}

// indexWord turns any word into letters and digits only, one to one: what the index's own
// tokenizer would split or drop is written as its code.
func indexWord(w string) string {
	plain := true
	for i := 0; i < len(w); i++ {
		if c := w[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') {
			plain = false
			break
		}
	}
	if plain {
		return w
	}
	var b strings.Builder
	const hexDigits = "0123456789abcdef"
	for _, r := range w {
		switch {
		case unicode.IsLetter(r) || unicode.Is(unicode.Nd, r) || unicode.Is(unicode.Mn, r):
			b.WriteRune(r)
		default:
			b.WriteString("zz")
			for shift := 20; shift >= 0; shift -= 4 {
				if d := (r >> shift) & 15; d != 0 || shift < 8 {
					b.WriteByte(hexDigits[d])
				}
			}
		}
	}
	return b.String()
}

// token is one word in the form that is compared and indexed.
type token struct {
	text string // folded
	stem string // what is indexed and looked up
	kind segment.Kind
	stop bool // carries little meaning
	name bool // written like a proper name
}

// tokens divides text for searching. With parts, the words inside identifiers and long
// Chinese words follow their whole.
func tokens(c Cutter, text string, parts bool) []token {
	terms := c.Terms(usual(text))
	out := make([]token, 0, len(terms)+len(terms)/4)
	add := func(w string, kind segment.Kind, first bool) {
		f := strings.ToLower(w)
		t := token{text: f, kind: kind, stem: f}
		if kind == segment.Word {
			f = strings.TrimSuffix(strings.TrimSuffix(f, "'s"), "'")
			t.text, t.stem = f, stem(f)
			t.stop = stopWords[f]
			r, _ := utf8.DecodeRuneInString(w)
			t.name = unicode.IsUpper(r) && !first && !t.stop
		} else if kind == segment.Chinese {
			t.stop = stopHan[f]
		}
		out = append(out, t)
	}
	for i, t := range terms {
		add(t.Text, t.Kind, i == 0)
		if !parts {
			continue
		}
		for _, p := range t.Parts {
			kind := segment.Word
			switch {
			case t.Kind == segment.Chinese || t.Kind == segment.Other:
				kind = t.Kind
			case strings.Trim(p, "0123456789") == "":
				kind = segment.Number
			}
			add(p, kind, true)
		}
	}
	return out
}

// grams are the pairs of neighbouring Chinese characters of a text, and the last character
// of each run: as beginnings of words they find every single character too.
func grams(text string, emit func(string)) {
	text = segment.Clean(text)
	prev := -1
	for i, r := range text {
		if !(segment.IsHan(r) || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)) {
			if prev >= 0 {
				emit(text[prev:i])
			}
			prev = -1
			continue
		}
		if prev >= 0 {
			emit(text[prev : i+utf8.RuneLen(r)])
		}
		prev = i
	}
	if prev >= 0 {
		emit(text[prev:])
	}
}

// indexOf is what the index holds for a memory.
func indexOf(c Cutter, content string, tags []string, context string) core.MemoryIndex {
	var words, pairs, near strings.Builder
	put := func(b *strings.Builder, w string) {
		if w == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	for _, t := range tokens(c, content, true) {
		put(&words, indexWord(t.stem))
	}
	for _, tag := range tags {
		for _, t := range tokens(c, tag, true) {
			put(&words, indexWord(t.stem))
		}
	}
	g := func(s string) { put(&pairs, s) }
	grams(content, g)
	for _, tag := range tags {
		grams(tag, g)
	}
	for _, t := range tokens(c, context, false) {
		if !t.stop {
			put(&near, indexWord(t.stem))
		}
	}
	return core.MemoryIndex{Words: words.String(), Grams: pairs.String(), Context: near.String()}
}

// signature is a digest of the set of meaningful words of a text: a text in other order or
// with other small words has the same one. Words that turn the meaning round count. toks
// are the text's, without parts.
func signature(toks []token) string {
	var ws []string
	for _, t := range toks {
		if !t.stop || negations[t.text] {
			ws = append(ws, t.stem)
		}
	}
	sort.Strings(ws)
	h := sha256.Sum256([]byte("words\x00" + strings.Join(ws, "\x00")))
	return hex.EncodeToString(h[:16])
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// stems is set with the stems of the words too.
func stems(words string) map[string]bool {
	m := set(words)
	for w := range strings.FieldsSeq(words) {
		m[stemOf(w)] = true
	}
	return m
}

// stopWords are English words that say little about what a text is about.
var stopWords = set(`a an the and or but if of to in on at by for with from as is are was were be been being am do does did done
	have has had having i me my mine we us our ours you your yours he him his she her hers it its they them their theirs this that
	these those there here what which who whom whose when where why how can could would should shall will may might must about
	into over under again then than so such too very just also only own same s t don now not no nor any some all each both more most
	other few up down out off once during before after above below between while because until through against i'm i've i'd i'll
	it's that's there's what's you're they're we're he's she's don't doesn't didn't isn't aren't wasn't weren't can't won't wouldn't
	shouldn't couldn't haven't hasn't hadn't let's please did get got ever one like`)

// stopHan are Chinese words that say little about what a text is about.
var stopHan = set(`的 了 和 是 就 都 而 及 与 着 或 在 也 很 到 说 要 去 会 吗 呢 吧 啊 呀 么 这 那 哪 什么 怎么 怎样 如何 哪个 哪些 哪里 谁 我 你 他 她 它
	我们 你们 他们 咱们 一个 这个 那个 这些 那些 把 被 让 给 对 从 向 以 为 于 之 其 并 并且 以及 还 再 又 有 没有 请 帮 帮我 一下 请问 多少 几 可以 能 能够 个 上 下 里 中 时 时候 为什么 用`)

// negations are words that turn a statement round.
var negations = set(`not no never none nor without don't doesn't didn't isn't aren't wasn't weren't can't cannot won't wouldn't
	shouldn't couldn't haven't hasn't hadn't mustn't needn't dont doesnt nobody nothing neither longer
	不 没 没有 别 勿 不要 从不 未 无 不能 不会 不得 不必 不用 不再 不是 不准 不许 无需 无须 禁止 禁用 从未 并非 并未 不可 不应 不该 非 莫 休 切勿 请勿 不让 不想 不吃 不喝 不喜欢 不需要`)

// stem is a light English stemmer: inflections go, and the commonest derived endings. It
// only has to bring forms of one word together, not to give a word.
func stem(w string) string {
	if base, ok := irregular()[w]; ok {
		w = base
	}
	n := len(w)
	if n < 4 || w[0] < 'a' || w[0] > 'z' {
		return w
	}
	has := func(s string) bool { return strings.HasSuffix(w, s) && len(w)-len(s) >= 3 }
	switch {
	case strings.HasSuffix(w, "sses"):
		w = w[:n-2]
	case has("ies"):
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
	case has("xes"), has("ches"), has("shes"), has("zes"):
		w = w[:len(w)-2]
	case has("s") && w[len(w)-2] != 's':
		w = w[:len(w)-1]
	}
	vowel := func(s string) bool { return strings.ContainsAny(s, "aeiouy") }
	cut := func(k int) {
		w = w[:len(w)-k]
		if l := len(w); l > 3 && w[l-1] == w[l-2] && !strings.ContainsRune("lsz", rune(w[l-1])) {
			w = w[:l-1]
		}
	}
	switch {
	case strings.HasSuffix(w, "ied") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "eed"):
	case strings.HasSuffix(w, "ing") && len(w) >= 6 && vowel(w[:len(w)-3]):
		cut(3)
	case strings.HasSuffix(w, "ed") && len(w) >= 5 && vowel(w[:len(w)-2]):
		cut(2)
	}
	for _, r := range [...][2]string{{"ational", "ate"}, {"ization", "ize"}, {"ation", "ate"}, {"fulness", "ful"}, {"ousness", "ous"}, {"ement", ""},
		{"ment", ""}, {"ness", ""}, {"ally", "al"}, {"ently", "ent"}, {"ful", ""}, {"ly", ""}} {
		if strings.HasSuffix(w, r[0]) && len(w)-len(r[0]) >= 3 {
			w = w[:len(w)-len(r[0])] + r[1]
			break
		}
	}
	if len(w) > 3 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	if len(w) > 3 && w[len(w)-1] == 'y' {
		w = w[:len(w)-1] + "i"
	}
	return w
}

// irregular are forms that no rule brings to their base.
var irregular = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, g := range strings.Split(`ate eaten eat,began begun begin,bought buy,broke broken break,brought bring,built build,came come,caught catch,children kids kid child,
		chose chosen choose,did done do,drank drunk drink,drew drawn draw,drove driven drive,fell fallen fall,feet foot,felt feel,fought fight,flew flown fly,found find,
		forgot forgotten forget,forgave forgive,froze frozen freeze,gave given give,got gotten get,grew grown grow,heard hear,held hold,hid hidden hide,kept keep,knew known know,
		laid lay,led lead,left leave,lent lend,lost lose,made make,meant mean,met meet,men man,mice mouse,paid pay,people person,ran run,rang rung ring,rode ridden ride,
		rose risen rise,said says say,sang sung sing,sat sit,saw seen see,sent send,shot shoot,shown show,slept sleep,sold sell,spent spend,spoke spoken speak,stole stolen steal,
		stood stand,stuck stick,swam swum swim,swore sworn swear,taken took take,taught teach,teeth tooth,thought think,threw thrown throw,told tell,understood understand,
		went gone go,wives wife,woke woken wake,women woman,won win,wore worn wear,wrote written write,leaves leaf,knives knife,better good,best good,bigger big`, ",") {
		ws := strings.Fields(g)
		for _, w := range ws[:len(ws)-1] {
			m[w] = ws[len(ws)-1]
		}
	}
	return m
})
