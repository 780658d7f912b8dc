// Package i18n owns the texts that people read, in English and Chinese. JSON keys, codes
// and texts for the model are not its business: those are always English.
//
// A text is looked up by its English form, so that code stays readable and a text without
// a translation is still a text:
//
//	p := i18n.For("zh")
//	p.T("session %s is removed", id)
package i18n

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"
)

// Printer gives texts in one language. The zero value speaks English. Safe to share.
type Printer struct{ lang string }

// For returns the printer for a language tag such as "zh_CN.UTF-8", "zh" or "C". Anything
// but Chinese is English.
func For(tag string) Printer {
	if strings.HasPrefix(strings.ToLower(tag), "zh") {
		return Printer{"zh"}
	}
	return Printer{}
}

// Detect chooses the language: LJ_LANG, then LC_ALL, LC_MESSAGES, LANG.
func Detect(env func(string) string) Printer {
	for _, name := range []string{"LJ_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := env(name); v != "" {
			return For(v)
		}
	}
	return Printer{}
}

// Lang is "zh" or "en".
func (p Printer) Lang() string {
	if p.lang == "" {
		return "en"
	}
	return p.lang
}

// T formats a text in the printer's language.
func (p Printer) T(format string, a ...any) string {
	if p.lang == "zh" {
		if t, ok := chinese[format]; ok {
			format = t
		}
	}
	if len(a) == 0 {
		return format
	}
	return fmt.Sprintf(format, a...)
}

// Tell translates a text that is already formatted, such as an error: one that is known
// as a whole, or that fits a known text with verbs. Another is returned as it is.
func (p Printer) Tell(text string) string {
	if p.lang != "zh" {
		return text
	}
	if t, ok := chinese[text]; ok {
		return t
	}
	for _, f := range patterns() {
		g := f.re.FindStringSubmatch(text)
		if g == nil {
			continue
		}
		args := make([]any, len(g)-1)
		for i, s := range g[1:] {
			args[i] = s
		}
		return fmt.Sprintf(f.to, args...)
	}
	return text
}

type pattern struct {
	re *regexp.Regexp
	to string
}

// verb finds the verbs of a format.
var verb = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[sdqv]`) })

// patterns are the texts with verbs, as expressions, made on first need.
var patterns = sync.OnceValue(func() []pattern {
	var out []pattern
	for en, zh := range chinese {
		if !verb().MatchString(en) || strings.Contains(en, "\n") {
			continue
		}
		var re strings.Builder
		re.WriteString("^")
		last := 0
		for _, m := range verb().FindAllStringIndex(en, -1) {
			re.WriteString(regexp.QuoteMeta(en[last:m[0]]))
			re.WriteString("(.+?)")
			last = m[1]
		}
		re.WriteString(regexp.QuoteMeta(en[last:]) + "$")
		out = append(out, pattern{regexp.MustCompile(re.String()), verb().ReplaceAllString(zh, "%s")})
	}
	sort.Slice(out, func(i, j int) bool { return len(out[i].re.String()) > len(out[j].re.String()) })
	return out
})
