package core

import (
	"strings"
	"unicode/utf8"
)

// MaxName is the longest tool or skill name, in bytes.
const MaxName = 64

// CheckToolName says whether s may name a tool: [a-z][a-z0-9_]*, at most MaxName bytes.
// It is the only place where tool names are judged.
func CheckToolName(s string) error {
	return checkName("tool", s, func(i int, c byte) bool {
		return c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_')
	}, "a lower-case letter, then lower-case letters, digits and _")
}

// CheckSkillName says whether s may name a skill: [a-z0-9][a-z0-9-]*, at most MaxName
// bytes.
func CheckSkillName(s string) error {
	return checkName("skill", s, func(i int, c byte) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && c == '-'
	}, "lower-case letters, digits and -")
}

// CheckID says whether s may be an identifier of a session, snapshot, plan or the like,
// or the beginning of one: letters, digits, - and _, at most MaxName bytes.
func CheckID(s string) error {
	return checkName("id", s, func(i int, c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '_')
	}, "letters, digits, - and _")
}

func checkName(what, s string, ok func(int, byte) bool, rule string) error {
	switch {
	case s == "":
		return Errorf(KindUsage, "%s name is empty", what).Hint("a name is %s", rule)
	case len(s) > MaxName:
		return Errorf(KindUsage, "%s name %q is longer than %d bytes", what, clip(s), MaxName)
	}
	for i := 0; i < len(s); i++ {
		if !ok(i, s[i]) {
			return Errorf(KindUsage, "%s name %q is not valid", what, clip(s)).Hint("a name is %s", rule)
		}
	}
	return nil
}

func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	n := 77
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Nearest returns the candidate that is most like s, "" when none is close: an edit
// distance of at most a third of the longer length. Ties go to the first.
func Nearest(s string, candidates []string) string {
	best, bestD := "", -1
	ls := strings.ToLower(s)
	for _, c := range candidates {
		d := distance(ls, strings.ToLower(c))
		limit := max(len(s), len(c)) / 3
		if limit < 1 {
			limit = 1
		}
		if d <= limit && (bestD < 0 || d < bestD) {
			best, bestD = c, d
		}
	}
	return best
}

// distance is the optimal string alignment distance (insert, delete, replace, swap of
// neighbours) in bytes.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 1 << 20
	}
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
