package workspace

import (
	"fmt"
	"strings"
)

// Hunk is one difference between two texts, as byte ranges that begin and end at line
// boundaries, with the numbers of the first lines (from 1).
type Hunk struct {
	OldStart, OldEnd, NewStart, NewEnd int
	OldLine, NewLine                   int
}

// DiffLines compares two texts line by line and gives the differences in order. It is
// exact up to a bounded effort; beyond it, parts that differ a lot come as one hunk.
func DiffLines(a, b string) []Hunk {
	al, bl := splitLines(a), splitLines(b)
	p := 0
	for p < len(al) && p < len(bl) && al[p] == bl[p] {
		p++
	}
	q := 0
	for q < len(al)-p && q < len(bl)-p && al[len(al)-1-q] == bl[len(bl)-1-q] {
		q++
	}
	var hunks []Hunk
	ao, bo := offsets(al), offsets(bl)
	emit := func(a0, a1, b0, b1 int) {
		hunks = append(hunks, Hunk{ao[a0], ao[a1], bo[b0], bo[b1], a0 + 1, b0 + 1})
	}
	midA, midB := al[p:len(al)-q], bl[p:len(bl)-q]
	if len(midA) == 0 && len(midB) == 0 {
		return nil
	}
	i, j := 0, 0
	for _, m := range matches(midA, midB) {
		if m[0] > i || m[1] > j {
			emit(p+i, p+m[0], p+j, p+m[1])
		}
		i, j = m[0]+1, m[1]+1
	}
	if i < len(midA) || j < len(midB) {
		emit(p+i, p+len(midA), p+j, p+len(midB))
	}
	return hunks
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

func offsets(lines []string) []int {
	o := make([]int, len(lines)+1)
	for i, l := range lines {
		o[i+1] = o[i] + len(l)
	}
	return o
}

// matches gives the pairs of equal lines of a longest common subsequence, by the greedy
// algorithm of E. W. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986),
// given up after a fixed number of differences.
func matches(a, b []string) [][2]int {
	const limit = 1000
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return nil
	}
	maxD := min(n+m, limit)
	v := make([]int, 2*maxD+2)
	var trace [][]int
	for d := 0; d <= maxD; d++ {
		trace = append(trace, append([]int(nil), v[maxD-d:min(maxD+d+2, len(v))]...))
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				if k == -d || k != d && v[maxD+k-1] < v[maxD+k+1] {
					x = v[maxD+k+1]
				} else {
					x = v[maxD+k-1] + 1
				}
			}
			y := x - k
			for x < n && y < m && a[x] == b[y] {
				x++
				y++
			}
			v[maxD+k] = x
			if x >= n && y >= m {
				return backtrack(trace, n, m, d)
			}
		}
	}
	return nil
}

// backtrack walks the saved frontiers from the end. trace[d][i] is the frontier of
// diagonal i-d before round d.
func backtrack(trace [][]int, x, y, d int) [][2]int {
	var rev [][2]int
	for ; d > 0; d-- {
		t := trace[d]
		get := func(k int) int { return t[k+d] }
		k := x - y
		pk := k - 1
		if k == -d || k != d && get(k-1) < get(k+1) {
			pk = k + 1
		}
		px := get(pk)
		py := px - pk
		for x > px && y > py {
			if x-1 < px || y-1 < py {
				break
			}
			x--
			y--
			rev = append(rev, [2]int{x, y})
		}
		x, y = px, py
	}
	for x > 0 && y > 0 {
		x--
		y--
		rev = append(rev, [2]int{x, y})
	}
	out := make([][2]int, len(rev))
	for i, m := range rev {
		out[len(rev)-1-i] = m
	}
	return out
}

// CountChanges is the number of lines added and removed between two texts.
func CountChanges(a, b string) (added, removed int) {
	for _, h := range DiffLines(a, b) {
		added += CountLines(b[h.NewStart:h.NewEnd])
		removed += CountLines(a[h.OldStart:h.OldEnd])
	}
	return added, removed
}

// UnifiedDiff shows the differences of two texts in unified form without file names, with
// context lines around each. Lines are cut after width columns (0: never), the whole after
// maxLines lines (see CutDiff).
func UnifiedDiff(a, b string, context, width, maxLines int) string {
	hunks := DiffLines(a, b)
	if len(hunks) == 0 {
		return ""
	}
	al, bl := splitLines(a), splitLines(b)
	type rng struct{ a0, a1, b0, b1 int }
	var rs []rng
	for _, h := range hunks {
		r := rng{h.OldLine - 1, h.OldLine - 1 + CountLines(a[h.OldStart:h.OldEnd]), h.NewLine - 1, h.NewLine - 1 + CountLines(b[h.NewStart:h.NewEnd])}
		rs = append(rs, r)
	}
	var out []string
	put := func(mark, l string) {
		l, whole := strings.CutSuffix(l, "\n")
		if width > 0 {
			l = Truncate(l, width)
		}
		out = append(out, mark+l)
		if !whole {
			out = append(out, `\ no newline at the end`)
		}
	}
	for i := 0; i < len(rs); {
		j := i
		for j+1 < len(rs) && rs[j+1].a0-rs[j].a1 <= 2*context {
			j++
		}
		a0, b0 := max(rs[i].a0-context, 0), max(rs[i].b0-context, 0)
		a1, b1 := min(rs[j].a1+context, len(al)), min(rs[j].b1+context, len(bl))
		out = append(out, fmt.Sprintf("@@ -%s +%s @@", span(a0, a1), span(b0, b1)))
		x := a0
		for k := i; k <= j; k++ {
			for ; x < rs[k].a0; x++ {
				put(" ", al[x])
			}
			for ; x < rs[k].a1; x++ {
				put("-", al[x])
			}
			for y := rs[k].b0; y < rs[k].b1; y++ {
				put("+", bl[y])
			}
		}
		for ; x < a1; x++ {
			put(" ", al[x])
		}
		i = j + 1
	}
	short, _ := CutDiff(strings.Join(out, "\n"), 0, maxLines)
	return short
}

// CutDiff shortens a difference to lines of width columns (0: any) and to maxLines lines,
// with a last line that says how many are left out. cut says whether anything is missing.
func CutDiff(diff string, width, maxLines int) (short string, cut bool) {
	lines := strings.Split(diff, "\n")
	left := max(0, len(lines)-maxLines)
	lines = lines[:len(lines)-left]
	for i, l := range lines {
		if width > 0 {
			if t := Truncate(l, width+1); t != l { // its mark has a column too
				lines[i], cut = t, true
			}
		}
	}
	if left > 0 {
		lines, cut = append(lines, fmt.Sprintf("… %d more lines of the difference", left)), true
	}
	return strings.Join(lines, "\n"), cut
}

func span(from, to int) string {
	if to-from == 1 {
		return fmt.Sprint(from + 1)
	}
	if to == from {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}
