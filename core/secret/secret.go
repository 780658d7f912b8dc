// Package secret owns masking: it knows which values are secret, replaces them in text by
// markers, also when the text comes in pieces, and finds the value again that a marker
// stands for, in a text that holds it.
//
// It knows nothing of where text goes. Whoever lets text out of a tool calls it, once, at
// the border, before anything is cut or stored.
//
//	m := secret.New(salt)
//	m.Add("OPENAI_API_KEY", key)
//	m.AddEnviron(os.Environ())
//	text = m.Mask(text) // «secret:OPENAI_API_KEY:5f1c02»
//
// What is masked: values given with Add; values of variables whose names speak of secrets,
// in the environment and in lines NAME=value; keys of common providers by their form;
// private keys; passwords in addresses. A Masker is safe for use by several goroutines.
package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
)

// MinLength is the least length of a value that is masked because of its name, in bytes.
// Shorter ones would make ordinary text unreadable.
const MinLength = 8

// Masker holds the known secrets.
type Masker struct {
	salt []byte

	mu     sync.RWMutex
	values []value // longest first
	seen   map[string]bool
	most   int // longest value, bytes
}

type value struct{ text, marker string }

// New returns a Masker. Markers of the same value are the same for the same salt, and say
// nothing of the value without it.
func New(salt []byte) *Masker {
	return &Masker{salt: append([]byte("lj/secret/1:"), salt...), seen: map[string]bool{}}
}

// marker is what stands for a value.
func (m *Masker) marker(name, v string) string {
	h := hmac.New(sha256.New, m.salt)
	h.Write([]byte(v))
	return "«secret:" + name + ":" + hex.EncodeToString(h.Sum(nil)[:4]) + "»"
}

var markerForm = lazy(`«secret:[A-Za-z0-9_.-]{1,64}:[0-9a-f]{8}»`)

// lazy compiles an expression when it is first used: most commands of lj mask nothing.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Markers returns the markers in text, in order, each once.
func Markers(text string) []string {
	if !strings.Contains(text, "«secret:") {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, s := range markerForm().FindAllString(text, -1) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// Add makes a value secret under a name, whatever it looks like. Values under 4 bytes are
// left out. Of a value of several lines each long line is secret too.
func (m *Masker) Add(name, v string) {
	v = strings.TrimSpace(v)
	if len(v) < 4 {
		return
	}
	name = cleanName(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(name, v)
	if strings.Contains(v, "\n") {
		for line := range strings.SplitSeq(v, "\n") {
			if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
				m.add(name, line)
			}
		}
	}
}

func (m *Masker) add(name, v string) {
	if m.seen[v] {
		return
	}
	m.seen[v] = true
	m.values = append(m.values, value{v, m.marker(name, v)})
	sort.SliceStable(m.values, func(i, j int) bool { return len(m.values[i].text) > len(m.values[j].text) })
	m.most = max(m.most, len(v))
}

func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, s)
	if len(s) > 64 {
		s = s[:64]
	}
	if s == "" {
		s = "value"
	}
	return s
}

// words that make a variable's name speak of a secret, as parts between underscores.
var secretWords = map[string]bool{
	"KEY": true, "APIKEY": true, "TOKEN": true, "SECRET": true, "PASSWORD": true, "PASSWD": true, "PASSPHRASE": true,
	"PWD": true, "CREDENTIAL": true, "CREDENTIALS": true, "PAT": true, "AUTH": true, "JWT": true, "SIGNATURE": true,
	"PASS": true, "PRIVATE": true, "ACCESSKEY": true, "SECRETKEY": true, "DSN": true,
}

// harmless names that hold such a word.
var harmless = map[string]bool{
	"PWD": true, "OLDPWD": true, "SSH_AUTH_SOCK": true, "XAUTHORITY": true, "GPG_KEY": true, "GIT_ASKPASS": true, "SSH_ASKPASS": true,
	"KEY_PATH": true, "PUBLIC_KEY": true,
}

// Secretive says whether a variable's name speaks of a secret: one of its parts is such a
// word (API_KEY, GITHUB_TOKEN, but not KEYBOARD or AUTHOR).
func Secretive(name string) bool {
	up := strings.ToUpper(name)
	if harmless[up] || strings.HasSuffix(up, "_FILE") || strings.HasSuffix(up, "_PATH") || strings.HasSuffix(up, "_URL") && !strings.Contains(up, "DATABASE") {
		return false
	}
	for part := range strings.FieldsFuncSeq(up, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
		if secretWords[part] {
			return true
		}
	}
	return strings.HasSuffix(up, "APIKEY") || strings.HasSuffix(up, "TOKEN") || strings.HasSuffix(up, "PASSWORD")
}

// plausible says whether a value under a secretive name can be a secret: not a path, a
// switch, a number or a reference.
func plausible(v string) bool {
	if len(v) < MinLength || strings.HasPrefix(v, "/") || strings.HasPrefix(v, "~") || strings.HasPrefix(v, "./") ||
		strings.HasPrefix(v, "$") || strings.HasPrefix(v, "<") || strings.HasPrefix(v, "«") || strings.ContainsAny(v, " \t()") {
		return false
	}
	switch strings.ToLower(v) {
	case "disabled", "required", "optional", "changeme", "undefined", "password", "your-key-here":
		return false
	}
	digits := 0
	for _, r := range v {
		if r >= '0' && r <= '9' {
			digits++
		}
	}
	return digits < len(v) || len(v) >= 12
}

// AddEnviron makes the values of secretive variables secret.
func (m *Masker) AddEnviron(environ []string) {
	for _, kv := range environ {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		if Secretive(k) && (plausible(v) || strings.Contains(v, "PRIVATE KEY")) {
			m.Add(k, v)
		}
		if p := urlPassword(v); len(p) >= MinLength {
			m.Add(k, p)
		}
	}
}

// EnvFile says whether a file's name is that of a file of variables: .env, .env.local,
// prod.env.
func EnvFile(name string) bool {
	base := filepath.Base(name)
	return base == ".env" || strings.HasPrefix(base, ".env.") || strings.HasSuffix(base, ".env") || base == ".envrc"
}

// AddEnvFiles reads the files of variables directly in dir and makes the values of
// secretive names in them secret. Files over 1 MiB and what can't be read are left out.
func (m *Masker) AddEnvFiles(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !EnvFile(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		fi, err := os.Stat(path)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > 1<<20 {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		m.AddEnvText(string(b))
	}
}

// AddEnvText makes the values of secretive names in lines NAME=value secret.
func (m *Masker) AddEnvText(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		k, v, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !ok || strings.HasPrefix(k, "#") {
			continue
		}
		v = strings.TrimSpace(v)
		if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') {
			if i := strings.IndexByte(v[1:], v[0]); i >= 0 {
				v = v[1 : 1+i]
			}
		} else if i := strings.Index(v, " #"); i >= 0 {
			v = strings.TrimSpace(v[:i])
		}
		k = strings.TrimSpace(k)
		if Secretive(k) && plausible(v) {
			m.Add(k, v)
		}
		if p := urlPassword(v); len(p) >= MinLength {
			m.Add(k, p)
		}
	}
}

var urlUser = lazy(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/@:"']*:([^\s/@"']+)@`)

func urlPassword(v string) string {
	if g := urlUser().FindStringSubmatch(v); g != nil && !strings.HasPrefix(g[1], "$") && !strings.HasPrefix(g[1], "«") && !strings.HasPrefix(g[1], "<") {
		return g[1]
	}
	return ""
}

// form is a kind of secret that is known by how it looks. The first group, where there is
// one, is the secret part; the second the name.
type form struct {
	name  string
	hints []string // one of them is in every match
	re    func() *regexp.Regexp
}

var forms = []form{
	{"private-key", []string{"PRIVATE KEY-----"}, lazy(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:(.+?))(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)},
	{"api-key", []string{"sk-"}, lazy(`\b(sk-[A-Za-z0-9_-]{16,})`)},
	{"stripe-key", []string{"k_live_", "k_test_"}, lazy(`\b([rs]k_(?:live|test)_[A-Za-z0-9]{16,})`)},
	{"github-token", []string{"gh"}, lazy(`\b(gh[pousr]_[A-Za-z0-9]{30,})`)},
	{"github-token", []string{"github_pat_"}, lazy(`\b(github_pat_[A-Za-z0-9_]{30,})`)},
	{"gitlab-token", []string{"glpat-"}, lazy(`\b(glpat-[A-Za-z0-9_-]{18,})`)},
	{"aws-key", []string{"AKIA", "ASIA"}, lazy(`\b((?:AKIA|ASIA)[0-9A-Z]{16})\b`)},
	{"google-key", []string{"AIza"}, lazy(`\b(AIza[0-9A-Za-z_-]{35})`)},
	{"google-token", []string{"ya29."}, lazy(`\b(ya29\.[0-9A-Za-z_-]{20,})`)},
	{"slack-token", []string{"xox"}, lazy(`\b(xox[abposr]-[0-9A-Za-z-]{16,})`)},
	{"huggingface-token", []string{"hf_"}, lazy(`\b(hf_[A-Za-z0-9]{30,})`)},
	{"npm-token", []string{"npm_"}, lazy(`\b(npm_[A-Za-z0-9]{30,})`)},
	{"sendgrid-key", []string{"SG."}, lazy(`\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})`)},
	{"groq-key", []string{"gsk_"}, lazy(`\b(gsk_[A-Za-z0-9]{30,})`)},
	{"xai-key", []string{"xai-"}, lazy(`\b(xai-[A-Za-z0-9]{30,})`)},
	{"jwt", []string{"eyJ"}, lazy(`\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`)},
	{"url-password", []string{"://"}, urlUser},
}

var assignment = lazy(`(?m)^[ \t]*(?:export[ \t]+|declare -x[ \t]+|[+-])?([A-Za-z][A-Za-z0-9_]*)=("[^"\n]*"|'[^'\n]*'|[^\s"'` + "`" + `;]+)`)

// Mask replaces every secret in text by its marker.
func (m *Masker) Mask(text string) string {
	out, _ := m.mask(text, nil)
	return out
}

// mask replaces secrets; with found it also notes which marker stood for what.
func (m *Masker) mask(text string, found map[string]string) (string, bool) {
	if len(text) < 4 {
		return text, false
	}
	did := false
	note := func(marker, v string) string {
		did = true
		if found != nil {
			found[marker] = v
		}
		return marker
	}
	m.mu.RLock()
	values := m.values
	m.mu.RUnlock()
	for _, v := range values {
		if strings.Contains(text, v.text) {
			text = strings.ReplaceAll(text, v.text, note(v.marker, v.text))
		}
	}
	if strings.IndexByte(text, '=') >= 0 {
		text = replace(assignment(), text, func(g []int) (int, int, string) {
			name, from, to := text[g[2]:g[3]], g[4], g[5]
			if to-from >= 2 && (text[from] == '"' || text[from] == '\'') {
				from, to = from+1, to-1
			}
			v := text[from:to]
			// Only names as the environment has them: code assigns in lower case.
			if strings.ToUpper(name) != name || !Secretive(name) || !plausible(v) || strings.Contains(v, "«secret:") {
				return 0, 0, ""
			}
			return from, to, note(m.marker(cleanName(name), v), v)
		})
	}
	for _, f := range forms {
		hit := false
		for _, h := range f.hints {
			if strings.Contains(text, h) {
				hit = true
				break
			}
		}
		if !hit {
			continue
		}
		text = replace(f.re(), text, func(g []int) (int, int, string) {
			v := text[g[2]:g[3]]
			if strings.Contains(v, "«secret:") || f.name == "url-password" && (len(v) < 3 || strings.HasPrefix(v, "$") || strings.HasPrefix(v, "<")) {
				return 0, 0, ""
			}
			return g[2], g[3], note(m.marker(f.name, v), v)
		})
	}
	return text, did
}

// replace replaces the part of each match that fn names; an empty replacement keeps it.
func replace(re *regexp.Regexp, text string, fn func(g []int) (from, to int, with string)) string {
	all := re.FindAllStringSubmatchIndex(text, -1)
	if all == nil {
		return text
	}
	var b strings.Builder
	last := 0
	for _, g := range all {
		from, to, with := fn(g)
		if with == "" {
			continue
		}
		b.WriteString(text[last:from])
		b.WriteString(with)
		last = to
	}
	if last == 0 {
		return text
	}
	b.WriteString(text[last:])
	return b.String()
}

// Restore replaces the markers in text by the values that they stand for, as far as
// original (the content of the file that is being written) holds them. missing are the
// markers that original has no value for: such a text must not be written.
func (m *Masker) Restore(text, original string) (restored string, missing []string) {
	marks := Markers(text)
	if marks == nil {
		return text, nil
	}
	found := map[string]string{}
	m.mask(original, found)
	for _, mark := range marks {
		if strings.Contains(original, mark) {
			continue // the file itself speaks of markers
		}
		v, ok := found[mark]
		if !ok {
			missing = append(missing, mark)
			continue
		}
		text = strings.ReplaceAll(text, mark, v)
	}
	return text, missing
}

// hold is how much of a line without end a Stream keeps back before it lets go.
const hold = 16 << 10

// Stream masks text that comes in pieces: a secret cut in two is still found. It lets
// whole lines through at once and keeps the rest back. Not safe for several goroutines.
type Stream struct {
	m    *Masker
	rest strings.Builder
}

// Stream returns a new stream.
func (m *Masker) Stream() *Stream { return &Stream{m: m} }

// Push takes a piece and returns what is safe to show.
func (s *Stream) Push(text string) string {
	s.rest.WriteString(text)
	all := s.rest.String()
	cut := strings.LastIndexByte(all, '\n') + 1
	if i := strings.LastIndex(all[:cut], "-----BEGIN "); i >= 0 && strings.Contains(all[i:cut], "PRIVATE KEY-----") && !strings.Contains(all[i:], "-----END ") && len(all)-i < hold {
		cut = strings.LastIndexByte(all[:i], '\n') + 1
	}
	// Values of several lines must not be cut either.
	s.m.mu.RLock()
	for _, v := range s.m.values {
		if !strings.Contains(v.text, "\n") {
			continue
		}
		for n := min(len(v.text)-1, cut); n > 0; n-- {
			if strings.HasSuffix(all[:cut], v.text[:n]) {
				cut -= n
				break
			}
		}
	}
	most := s.m.most
	s.m.mu.RUnlock()
	if len(all)-cut > hold {
		// A very long line: keep back what a secret could still reach into, and cut where
		// no secret goes on.
		back := max(most, 1024)
		for at := len(all) - back; at > cut; at-- {
			if c := all[at-1]; c == ' ' || c == '\t' || c == ',' || c == ';' || at == len(all)-2*back {
				cut = at
				for cut > 0 && cut < len(all) && all[cut]&0xC0 == 0x80 {
					cut--
				}
				break
			}
		}
	}
	if cut == 0 {
		return ""
	}
	out := s.m.Mask(all[:cut])
	s.rest.Reset()
	s.rest.WriteString(all[cut:])
	return out
}

// Close returns the rest.
func (s *Stream) Close() string {
	out := s.m.Mask(s.rest.String())
	s.rest.Reset()
	return out
}
