package history

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Shorten cuts a tool's output that is longer than limit bytes to its head and tail, whole
// lines where an end of line is near, between characters otherwise, and says how much is
// left out. The result, marker included, is never longer than limit; a limit under 256
// counts as 256. Shortening again changes nothing.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	limit = max(limit, 256)
	const marker = 96
	room := limit - marker
	h := cutHead(text, room/2)
	t := cutTail(text, room-len(h))
	left := len(text) - len(h) - len(t)
	return fmt.Sprintf("%s\n[… %d of %d bytes left out …]\n%s", h, left, len(text), t)
}

// near is how far an end of line may be from where a cut would fall.
const near = 256

func cutHead(s string, n int) string {
	if i := strings.LastIndexByte(s[:n], '\n'); i >= n-min(near, n/2) {
		return s[:i]
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func cutTail(s string, n int) string {
	from := len(s) - n
	if i := strings.IndexByte(s[from:], '\n'); i >= 0 && i < min(near, n/2) && from+i+1 < len(s) {
		return s[from+i+1:]
	}
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
