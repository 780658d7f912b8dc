package memory

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core/secret"
	"github.com/lingjiyidong/lj/memory/segment"
)

// What people call a credential. A password may be any word; a key or a token looks like one.
const (
	passwordWords = `pass ?words?|passwd|pwd|pass ?phrases?|pass ?codes?|pin ?codes?|密码|口令|密语|通行码`
	keyWords      = `(?:api|access|auth|secret|encryption|master|private|license|signing|client)[ _-]?keys?|tokens?|secrets?|credentials?|密钥|密匙|私钥|令牌|凭证|凭据`
	// between a credential and its value
	saysIs = `(?: ?(?:现在|目前|已经?|就|默认|还|仍然?|依然|都))*\s*(?:是|为|改成|改为|设成|设为|设置为|换成|更新为|变成|(?:is|are|was|were|=>|->|=|:|：)(?:\s+(?:now|still|actually|currently|simply|just|changed to|set to|bearer|basic))*|(?:changed|set|reset) to)\s*`
)

var (
	passwordIs = lazy(`(?i)(?:^|[^a-z0-9])(` + passwordWords + `)(?:["'” ]*\)?)(?:\s+(?:for|of|to|on|in|at)\s+[^,.;:：，。\n=]{1,40}?)?` + saysIs + `(\S.*)`)
	keyIs      = lazy(`(?i)(?:^|[^a-z0-9])(` + keyWords + `)(?:["'” ]*\)?)(?:\s+(?:for|of|to|on|in|at)\s+[^,.;:：，。\n=]{1,40}?)?` + saysIs + `(\S.*)`)
	// password hunter2
	credentialThen = lazy(`(?i)(?:^|[^a-z0-9])(?:` + passwordWords + `|` + keyWords + `)\s+([!-~]{4,})\s*(?:$|[,;，。；])`)
	// hunter2 is my password
	thenCredential = lazy(`(?i)([!-~]{4,})\s*(?:\s(?:is|was|as)\s+(?:(?:my|our|the|your|their|a)\s+)?(?:[\w-]+\s+){0,2}?|(?:是|作为|当作?|做|就是)\s*\p{Han}{0,8}?)(?:` + passwordWords + `|` + keyWords + `)(?:\s+(?:for|of|to|on|in|at)\b.*)?\s*(?:$|[,.;，。；])`)

	clauseEnd = lazy(`^(?:$|[,.;!，。；！、)）]|(?i:and|but|for|on|in|at|of|to|since|because)\b)`)
	// what has letters and digits and is no secret: kinds, sizes, spans, versions, names of services
	ordinary = lazy(`(?i)^(?:\d+(?:\.\d+)?[-+ ]?(?:h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?|d|days?|w|weeks?|months?|y|years?|bits?|bytes?|chars?|characters?|digits?|letters?|kb|mb|%|times?|x|th|nd|rd|st)` +
		`|v?\d+(?:\.\d+)+|v\d+|(?:min|max)\d+|(?:hs|rs|es|ps)\d+|aes.*|sha.*|md5|base\d+|argon2\w*|bcrypt\w*|scrypt\w*|pbkdf2.*|rsa-?\d*|ed25519|x25519|oauth ?2.*|[a-z]*2fa|k8s.*|s3|ec2|utf-?8|1password\w*|x\.?509|pkcs\d+|id_.*|h2|http2|ipv[46]|uuidv?\d*` +
		`|[$%{<«].*|[~/.].*|https?:.*|[*x•.?_-]+|[\w.+-]+@[\w-]+\.[\w.]+|[\w./-]+\.(?:txt|env|ya?ml|json|toml|pem|key|ini|md|go|py|conf|cfg|sh|js|ts)|[A-Z][A-Z0-9]*_[A-Z0-9_]+` +
		`|[a-z_][\w.]*[(\[{].*|[a-z_]\w*(?:\.[a-z_]\w*)+)$`) // and code
	// what a password is said to be without being told
	describing = set(`required optional mandatory missing wrong right correct empty blank valid invalid secret safe secure insecure strong weak long short unknown known unique random sensitive
		confidential private public new old same different ok okay okta ldap sso kerberos vault bitwarden lastpass keepass keychain keyring none null nil true false tbd todo na n/a here there below above
		mine yours ours kept held set written given sent found hidden lost forgotten broken stolen chosen shown read put left taken drawn bound built made done gone due needed case-sensitive plain plaintext
		static dynamic temporary permanent important necessary unnecessary strict personal global local default bad good great fine easy hard simple complex enough minimum maximum min max see ask use please
		hash hashes salted text visible available unavailable unset env environment variable per-user per-project fresh stale live dead jwt opaque numeric alphanumeric base
		ready bearer basic oauth saml totp mfa biometric wip redacted masked omitted`)
	describingHan = `的必空存在由见请找问加至少不需要可位字随机动态定期自管理保生期更换统同上默无没多长短强弱大小数符号以内格式用从按和与什么哪吗谁秘敏感明文哈希公享重安全前后一每`
)

// namesCredential says whether a part of each word for a credential is in a line.
func namesCredential(line string) bool {
	low := strings.ToLower(line)
	for _, w := range []string{"pass", "pwd", "pin", "key", "token", "secret", "credential", "密", "口令", "通行码", "私钥", "令牌", "凭证", "凭据"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// tellsCredential says whether a text tells a password, a key or a token, in words: "my
// password is hunter2". What only describes one ("is required", "至少 12 位") does not.
func tellsCredential(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !namesCredential(line) {
			continue // the expressions cost far more than a look
		}
		rest := line
		for n := 0; n < 8; n++ {
			m := passwordIs().FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			if isPassword(strings.ToLower(rest[m[2]:m[3]]), rest[m[4]:m[5]]) {
				return true
			}
			rest = rest[m[4]:]
		}
		rest = line
		for n := 0; n < 8; n++ {
			m := keyIs().FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			if v, _ := firstValue(rest[m[4]:m[5]]); isKey(v) {
				return true
			}
			rest = rest[m[4]:]
		}
		for _, re := range []*regexp.Regexp{credentialThen(), thenCredential()} {
			for _, m := range re.FindAllStringSubmatch(line, 8) {
				if v, _ := firstValue(m[1]); looksRandom(v) {
					return true
				}
			}
		}
	}
	return false
}

// holdsSecret says whether a text may not be kept.
func (s *Service) holdsSecret(text string) bool {
	return len(secret.Markers(text)) > 0 || s.mask != nil && s.mask(text) != text || tellsCredential(text)
}

// firstValue is the first word of a text without the marks around it, and what follows it;
// the rest is "" where the word stood in quotes.
func firstValue(text string) (v, rest string) {
	for _, q := range []string{`""`, `''`, "``", "“”", "‘’", "「」", "『』"} {
		open, n := utf8.DecodeRuneInString(q)
		if r, _ := utf8.DecodeRuneInString(text); r == open {
			if in, _, ok := strings.Cut(text[n:], q[n:]); ok {
				return in, ""
			}
			text = text[n:]
		}
	}
	if r, _ := utf8.DecodeRuneInString(text); segment.IsHan(r) {
		i := strings.IndexAny(text, " \t，。；！、,;.!（(")
		if i < 0 {
			return text, ""
		}
		return text[:i], text[i:]
	}
	i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r > 0x7e })
	if i < 0 {
		i = len(text)
	}
	v, rest = text[:i], text[i:]
	cut, _, _ := strings.Cut(v, `"`)
	cut = strings.TrimRight(cut, `,;.:)'*_?!`)
	return cut, v[len(cut):] + rest
}

func isPassword(word, text string) bool {
	v, rest := firstValue(text)
	quoted := rest == "" && len(text) > len(v) && v != ""
	low := strings.ToLower(v)
	if strings.Contains(word, "phrase") {
		if words := strings.Fields(strings.Trim(text, `."'`)); len(words) >= 3 {
			for _, w := range words {
				if w = strings.ToLower(strings.Trim(w, ",;")); stopWords[w] || strings.HasSuffix(w, "ed") || w != low && describing[w] {
					return false
				}
			}
			return true
		}
	}
	whole := clauseEnd().MatchString(strings.TrimSpace(rest))
	switch {
	case v == "" || describing[low] || ordinary().MatchString(v):
		return false
	case looksRandom(v):
		return true
	}
	if r, _ := utf8.DecodeRuneInString(v); segment.IsHan(r) {
		return quoted || whole && utf8.RuneCountInString(v) >= 3 && utf8.RuneCountInString(v) <= 8 && !strings.ContainsAny(v, describingHan)
	}
	if strings.Trim(v, "0123456789") == "" {
		return len(v) >= 4 && whole
	}
	if len(v) < 4 || strings.Contains(low, "passw") {
		return false // password = "testpassword"
	}
	return quoted && !strings.Contains(v, " ") || whole && !strings.Contains(v, "_") && !stopWords[low] && !participle(low)
}

// participle says whether a word has the form of one that tells how something is.
func participle(w string) bool {
	for _, end := range []string{"ed", "ing", "able", "ible", "ive", "ory", "ary", "ous", "ful", "less", "-only"} {
		if strings.HasSuffix(w, end) && len(w) > len(end)+2 {
			return true
		}
	}
	return false
}

func isKey(v string) bool {
	if ordinary().MatchString(v) || strings.Contains(v, "/") && len(v) < 32 {
		return false
	}
	return looksRandom(v) || len(v) >= 20 && !strings.ContainsAny(v, "-_./:@ ") && ascii(v)
}

// looksRandom says whether a word has letters among digits or signs, as words have not.
func looksRandom(v string) bool {
	if len(v) < 4 || !ascii(v) || strings.Contains(v, " ") || ordinary().MatchString(v) {
		return false
	}
	letter, digit, sign := false, false, false
	for _, r := range v {
		letter = letter || unicode.IsLetter(r)
		digit = digit || unicode.IsDigit(r)
		sign = sign || strings.ContainsRune("!@#$%^&*~?+=", r)
	}
	return letter && (digit || sign) || digit && sign
}
