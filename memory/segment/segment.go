// Package segment owns the division of text into words: the one instance of the Chinese
// segmenter of the process, its dictionaries, and what the segmenter must not see or must
// not split (identifiers, versions, file names, broken bytes). It refuses to know what the
// words are for: no memory, no store, no ranking.
//
//	s := segment.New(segment.Options{Cache: filepath.Join(home, "cache"), UserDict: filepath.Join(home, "userdict.txt")})
//	s.Warm()                         // in the background; Cut waits for it
//	s.Cut("部署脚本放在 deploy 目录下") // 部署 脚本 放在 deploy 目录 下
//
// The dictionaries are inside the binary and are unpacked once into the cache directory,
// under the digest of their contents. Text without Chinese characters needs no dictionary
// and loads none. A Segmenter is safe for use by several goroutines. Nothing is ever
// freed: the process has one dictionary for its whole life, whatever the number of
// Segmenters.
package segment

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/yanyiwu/gojieba"
)

// Options of New. The zero value is usable: the system's cache directory, no user words.
type Options struct {
	// Cache is the directory that the dictionaries are unpacked into, in a folder of
	// their own. Where it can't be written, a private temporary directory is used.
	Cache string
	// UserDict is a file of the user's own words, one a line, optionally followed by a
	// frequency and a tag as in jieba's format; lines that begin with # are skipped. A
	// file that does not exist is no words.
	UserDict string
}

// Segmenter divides text. See the package comment.
type Segmenter struct {
	opt  Options
	once sync.Once
	err  error
	// own are the user's words that are not all Chinese: the dictionary never sees them.
	own []string
}

// New returns a Segmenter. It touches no file.
func New(o Options) *Segmenter { return &Segmenter{opt: o} }

// shared is the process's one dictionary.
var shared struct {
	load sync.Mutex   // held while the instance is made
	use  sync.RWMutex // cuts read, added words write: the trie has no lock of its own
	j    *gojieba.Jieba
	err  error
	done bool
}

// Warm begins to load the dictionary in the background and returns at once.
func (s *Segmenter) Warm() { go s.ready() }

// Ready loads the dictionary and says what went wrong, if anything. After an error the
// Segmenter still works: Chinese is divided into pairs of characters.
func (s *Segmenter) Ready() error {
	s.ready()
	return s.err
}

func (s *Segmenter) ready() {
	s.once.Do(func() {
		s.err = load(s.opt.Cache)
		words, err := userWords(s.opt.UserDict)
		if err != nil {
			s.err = errors.Join(s.err, err)
		}
		for _, w := range words {
			if !allHan(w) {
				s.own = append(s.own, w)
				continue
			}
			if shared.j != nil {
				shared.use.Lock()
				shared.j.AddWord(w)
				shared.use.Unlock()
			}
		}
	})
}

func load(cache string) (err error) {
	shared.load.Lock()
	defer shared.load.Unlock()
	if shared.done {
		return shared.err
	}
	shared.done = true
	defer func() {
		if r := recover(); r != nil { // the binding panics on a file that vanished
			err = fmt.Errorf("load dictionary: %v", r)
		}
		shared.err = err
	}()
	files, err := unpack(cache)
	if err != nil {
		return err
	}
	onLargePages(func() { shared.j = gojieba.NewJieba(files[:]...) })
	return nil
}

// userWords reads the user's file.
func userWords(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read user dictionary: %w", err)
	}
	defer f.Close()
	var words []string
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		fields := strings.Fields(Clean(strings.TrimPrefix(sc.Text(), "\ufeff")))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if n := utf8.RuneCountInString(fields[0]); n >= 1 && n <= 32 {
			words = append(words, fields[0])
		}
	}
	if err := sc.Err(); err != nil {
		return words, fmt.Errorf("read user dictionary %s: %w", path, err)
	}
	return words, nil
}

// Clean is text without what C++ can't take: bytes that are not UTF-8 become U+FFFD, NUL
// a blank.
func Clean(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	if strings.IndexByte(text, 0) >= 0 {
		text = strings.ReplaceAll(text, "\x00", " ")
	}
	return text
}

// IsHan says whether r is a Chinese character that the dictionary knows of.
func IsHan(r rune) bool { return r >= 0x4e00 && r <= 0x9fd5 }

func allHan(s string) bool {
	for _, r := range s {
		if !IsHan(r) {
			return false
		}
	}
	return s != ""
}

// maxRun is the longest run of Chinese characters handed over in one piece, in bytes: one
// piece is one allocation in C++, and a run has no context beyond its sentence anyway.
const maxRun = 3 * 4096

// han divides a run of Chinese characters.
func (s *Segmenter) han(run string, search bool, emit func(string)) {
	s.ready()
	for len(run) > maxRun {
		s.hanPiece(run[:maxRun], search, emit)
		run = run[maxRun:]
	}
	s.hanPiece(run, search, emit)
}

func (s *Segmenter) hanPiece(run string, search bool, emit func(string)) {
	if shared.j == nil {
		pairs(run, emit)
		return
	}
	shared.use.RLock()
	var words []string
	if search {
		words = shared.j.CutForSearch(run, true)
	} else {
		words = shared.j.Cut(run, true)
	}
	shared.use.RUnlock()
	for _, w := range words {
		emit(w)
	}
}

// exact divides a run as Python's jieba does. The library differs in one rule: characters
// that the dictionary leaves single next to each other go to the model for unknown words,
// but not when together they are a known word, which the dictionary's frequencies had
// decided against.
func (s *Segmenter) exact(run string, emit func(string)) {
	s.ready()
	for len(run) > maxRun {
		s.exact(run[:maxRun], emit)
		run = run[maxRun:]
	}
	if shared.j == nil {
		pairs(run, emit)
		return
	}
	shared.use.RLock()
	defer shared.use.RUnlock()
	known, plain := shared.j.Cut(run, true), shared.j.Cut(run, false)
	at, k, pos := 0, 0, 0 // byte offset of plain words; next of known and its offset
	for i := 0; i < len(plain); {
		j, start := i, at
		for j < len(plain) && single(plain[j]) {
			at += len(plain[j])
			j++
		}
		if j == i {
			at += len(plain[i])
			j++
		}
		text := run[start:at]
		split := j-i > 1 && contains(shared.j.CutAll(text), text)
		for ; k < len(known) && pos < at; k++ {
			pos += len(known[k])
			if !split {
				emit(known[k])
			}
		}
		if split {
			for _, w := range plain[i:j] {
				emit(w)
			}
		}
		i = j
	}
}

func single(w string) bool {
	_, n := utf8.DecodeRuneInString(w)
	return n == len(w)
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// pairs emits the overlapping pairs of characters of a run; a single character is itself.
func pairs(run string, emit func(string)) {
	_, n := utf8.DecodeRuneInString(run)
	if n == len(run) {
		if n > 0 {
			emit(run)
		}
		return
	}
	for i := 0; ; {
		_, a := utf8.DecodeRuneInString(run[i:])
		if i+a >= len(run) {
			return
		}
		_, b := utf8.DecodeRuneInString(run[i+a:])
		emit(run[i : i+a+b])
		i += a
	}
}

func asciiAlnum(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// inBlock says whether jieba keeps r in one block with Chinese characters.
func inBlock(r rune) bool {
	return IsHan(r) || asciiAlnum(r) || strings.ContainsRune("+#&._%-", r)
}

// Cut divides text as jieba's exact mode does, with every character in exactly one word,
// blanks left out. Identifiers are split at their punctuation; use Terms to keep them.
func (s *Segmenter) Cut(text string) []string {
	var out []string
	emit := func(w string) { out = append(out, w) }
	text = Clean(text)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !inBlock(r) {
			if !unicode.IsSpace(r) {
				emit(text[i : i+n])
			}
			i += n
			continue
		}
		j := i
		for j < len(text) {
			r, n := utf8.DecodeRuneInString(text[j:])
			if !inBlock(r) {
				break
			}
			j += n
		}
		s.block(text[i:j], emit)
		i = j
	}
	return out
}

// mixed are the words of jieba's dictionary that hold both letters and Chinese characters,
// or signs: they are found before a text is divided into runs.
var mixed = strings.Fields(`1号店 4S店 4s店 AA制 AB型 A型 A座 A股 A轮 BB机 BP机 B型 B座 B股 B轮 CALL机 CD机 CD盒 C座 C盘 C语言 D座 D版 D盘 E化 E座 E盘 E通 F座 F盘 G盘 H盘
	H股 IC卡 IP卡 IP地址 IP电话 I盘 K党 K歌之王 N年 O型 PC机 PH值 QQ号 Q版 RSS订阅 SIM卡 T台 T型台 T恤衫 T盘 U盘 VISA卡 X光 X光线 X射线 Z盘 大S 小S
	江南Style 江南style 阿Q AT&T B超 C# C++ T恤 c# c++`)

func (s *Segmenter) block(b string, emit func(string)) {
	for b != "" {
		if w := s.whole(b); w != "" {
			emit(w)
			b = b[len(w):]
			continue
		}
		r, n := utf8.DecodeRuneInString(b)
		kind := IsHan(r)
		j := n
		for j < len(b) {
			r, n := utf8.DecodeRuneInString(b[j:])
			if IsHan(r) != kind || s.whole(b[j:]) != "" {
				break
			}
			j += n
		}
		if kind {
			s.exact(b[:j], emit)
		} else {
			asciiPieces(b[:j], emit)
		}
		b = b[j:]
	}
}

// mixedFrom are the mixed words by their first byte.
var mixedFrom = sync.OnceValue(func() *[256][]string {
	var from [256][]string
	for _, w := range mixed {
		from[w[0]] = append(from[w[0]], w)
	}
	return &from
})

// whole is the known mixed word that b begins with, "" for none. b is not empty.
func (s *Segmenter) whole(b string) string {
	best := ""
	for _, list := range [2][]string{mixedFrom()[b[0]], s.own} {
		for _, w := range list {
			if len(w) > len(best) && strings.HasPrefix(b, w) {
				if len(b) > len(w) && asciiAlnum(rune(w[len(w)-1])) && asciiAlnum(rune(b[len(w)])) {
					continue // the middle of a longer run
				}
				best = w
			}
		}
	}
	return best
}

// asciiPieces divides a run of letters, digits and +#&._%- as jieba's final step does:
// letters and digits with one decimal part and one percent sign are a word, what is
// between them another.
func asciiPieces(b string, emit func(string)) {
	for i := 0; i < len(b); {
		j := i
		for j < len(b) && asciiAlnum(rune(b[j])) {
			j++
		}
		if j == i {
			for j < len(b) && !asciiAlnum(rune(b[j])) {
				j++
			}
			emit(b[i:j])
			i = j
			continue
		}
		if j+1 < len(b) && b[j] == '.' && b[j+1] >= '0' && b[j+1] <= '9' {
			for j++; j < len(b) && b[j] >= '0' && b[j] <= '9'; j++ {
			}
		}
		if j < len(b) && b[j] == '%' {
			j++
		}
		emit(b[i:j])
		i = j
	}
}
