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
	"strings"
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
