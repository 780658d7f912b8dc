// Command log_summary tells what is in a log file: how many lines of each level, the time
// range, and the messages that come most often, with numbers and identifiers masked.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path  string `json:"path" jsonschema:"log file, relative to the project"`
	Level string `json:"level,omitempty" jsonschema:"messages of this level only: error, warn, info, debug …"`
	Top   int    `json:"top,omitempty" jsonschema:"messages to show" minimum:"1" maximum:"200" default:"10"`
}

var levels = []string{"fatal", "error", "warn", "info", "debug", "trace"}

var levelNames = map[string]string{"FATAL": "fatal", "PANIC": "fatal", "CRITICAL": "fatal", "CRIT": "fatal", "ERROR": "error", "ERR": "error", "SEVERE": "error",
	"WARN": "warn", "WARNING": "warn", "INFO": "info", "NOTICE": "info", "DEBUG": "debug", "TRACE": "trace"}

var (
	// A level: in capitals as a word, in brackets, or as level=… and "level":"…".
	levelKey  = regexp.MustCompile(`(?i)\b(?:level|lvl|severity)"?\s*[=:]\s*"?([a-z]+)`)
	levelWord = regexp.MustCompile(`\b(FATAL|PANIC|CRITICAL|CRIT|ERROR|ERR|SEVERE|WARN|WARNING|INFO|NOTICE|DEBUG|TRACE)\b|\[(?i:(fatal|panic|critical|crit|error|err|severe|warn|warning|info|notice|debug|trace))\]`)
	stamp     = regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}`)
	masks     = []struct {
		re *regexp.Regexp
		to string
	}{
		{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
		{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`), "<ip>"},
		{regexp.MustCompile(`\b0x[0-9a-fA-F]+\b|\b[0-9a-f]*(?:[0-9][a-f]|[a-f][0-9])[0-9a-f]{6,}\b`), "<hex>"},
		{regexp.MustCompile(`\d+(?:\.\d+)?`), "#"},
	}
)

type message struct {
	text, example string
	n, line       int
}

func Run(ctx context.Context, in Args) (string, error) {
	want := ""
	if in.Level != "" {
		if want = levelNames[strings.ToUpper(in.Level)]; want == "" {
			return "", fmt.Errorf("level %q: one of %s", in.Level, strings.Join(levels, ", "))
		}
	}
	if in.Top <= 0 {
		in.Top = 10
	}
	f, err := os.Open(sdk.Path(ctx, in.Path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	count := map[string]int{}
	messages := map[string]*message{}
	lines, dropped := 0, 0
	var first, last stamped
	for {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		lines++
		if lines%1000 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if s := stamp.FindString(line); s != "" {
			if t, ok := parseTime(s); ok {
				if first.text == "" || t.Before(first.t) {
					first = stamped{t, s}
				}
				if last.text == "" || t.After(last.t) {
					last = stamped{t, s}
				}
			}
		}
		l := level(line)
		count[l]++
		if want != "" && l != want {
			continue
		}
		key := mask(line)
		m := messages[key]
		if m == nil {
			if len(messages) >= 100000 {
				dropped++
				continue
			}
			m = &message{text: key, example: line, line: lines}
			messages[key] = m
		}
		m.n++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d lines", lines)
	if first.text != "" {
		fmt.Fprintf(&b, ", from %s to %s", first.text, last.text)
	}
	b.WriteString("\n")
	for _, l := range append(levels, "") {
		if n := count[l]; n > 0 {
			if l == "" {
				l = "no level"
			}
			fmt.Fprintf(&b, "%s: %d\n", l, n)
		}
	}
	all := make([]*message, 0, len(messages))
	for _, m := range messages {
		all = append(all, m)
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].n != all[j].n {
			return all[i].n > all[j].n
		}
		return all[i].line < all[j].line
	})
	if len(all) > 0 {
		b.WriteString("most frequent:\n")
	}
	for i, m := range all {
		if i == in.Top {
			fmt.Fprintf(&b, "… and %d other messages\n", len(all)-i)
			break
		}
		fmt.Fprintf(&b, "%6d× %s (first in line %d)\n", m.n, short(m.text), m.line)
	}
	if dropped > 0 {
		fmt.Fprintf(&b, "%d lines with other messages were not counted: too many different ones\n", dropped)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

type stamped struct {
	t    time.Time
	text string
}

// readLine gives at most 16 KiB of a line and skips the rest of it.
func readLine(r *bufio.Reader) (string, error) {
	var b []byte
	for {
		part, more, err := r.ReadLine()
		if err != nil {
			return "", err
		}
		if room := 16<<10 - len(b); room > 0 {
			b = append(b, part[:min(len(part), room)]...)
		}
		if !more {
			return strings.ToValidUTF8(string(b), "\uFFFD"), nil
		}
	}
}

// parseTime reads a stamp; one without a zone counts as UTC, which orders well in one file.
func parseTime(s string) (time.Time, bool) {
	s = strings.NewReplacer("/", "-", ",", ".").Replace(s)
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	for _, l := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", "02-Jan-2006:15:04:05 -0700"} {
		if t, err := time.Parse(l, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func level(line string) string {
	if m := levelKey.FindStringSubmatch(line); m != nil {
		if l := levelNames[strings.ToUpper(m[1])]; l != "" {
			return l
		}
	}
	if m := levelWord.FindStringSubmatch(line); m != nil {
		return levelNames[strings.ToUpper(m[1]+m[2])]
	}
	return ""
}

func mask(line string) string {
	line = stamp.ReplaceAllString(line, "")
	for _, m := range masks {
		line = m.re.ReplaceAllString(line, m.to)
	}
	return strings.Join(strings.Fields(line), " ")
}

func short(s string) string {
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}

func main() {
	sdk.Serve("log_summary", "Summary of a log file: levels, time range, most frequent messages", Run, sdk.ReadOnly())
}
