// Command text_diff shows the difference of two texts or files as a unified diff.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	OldPath     string `json:"old_path,omitempty" jsonschema:"first file, relative to the project; or give old"`
	NewPath     string `json:"new_path,omitempty" jsonschema:"second file, relative to the project; or give new"`
	Old         string `json:"old,omitempty" jsonschema:"first text, instead of old_path"`
	New         string `json:"new,omitempty" jsonschema:"second text, instead of new_path"`
	Context     int    `json:"context,omitempty" jsonschema:"unchanged lines around each change" minimum:"0" maximum:"100" default:"3"`
	IgnoreSpace bool   `json:"ignore_space,omitempty" jsonschema:"lines that differ in spaces only are the same"`
}

// maxEdits bounds the work and memory of the comparison: 36 MB at most.
const maxEdits = 3000

func Run(ctx context.Context, in Args) (string, error) {
	a, aName, err := side(ctx, "old", in.OldPath, in.Old)
	if err != nil {
		return "", err
	}
	b, bName, err := side(ctx, "new", in.NewPath, in.New)
	if err != nil {
		return "", err
	}
	out, err := unified(ctx, aName, bName, lines(a), lines(b), in.Context, in.IgnoreSpace)
	if err == nil && out == "" {
		out = "no difference"
	}
	return out, err
}

func side(ctx context.Context, name, path, text string) (string, string, error) {
	if path == "" {
		return text, name, nil
	}
	if text != "" {
		return "", "", fmt.Errorf("give %s or %s_path, not both", name, name)
	}
	data, err := os.ReadFile(sdk.Path(ctx, path))
	if err != nil {
		return "", "", err
	}
	if strings.IndexByte(string(data), 0) >= 0 {
		return "", "", fmt.Errorf("%s: a binary file", path)
	}
	return string(data), path, nil
}

// lines keeps the line break with its line, so that a missing one at the end shows.
func lines(s string) []string {
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

type edit struct {
	op   byte // ' ', '-', '+'
	text string
}

// edits is a shortest edit script by the greedy algorithm of Myers, "An O(ND) Difference
// Algorithm and Its Variations" (1986).
func edits(ctx context.Context, a, b []string, same func(x, y string) bool) ([]edit, error) {
	start := 0
	for start < len(a) && start < len(b) && same(a[start], b[start]) {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && same(a[len(a)-1-end], b[len(b)-1-end]) {
		end++
	}
	x0, y0 := a[start:len(a)-end], b[start:len(b)-end]
	n, m := len(x0), len(y0)
	off := n + m
	v := make([]int, 2*off+2)
	var trace [][]int32
search:
	for d := 0; ; d++ {
		if d > maxEdits {
			return nil, fmt.Errorf("more than %d changed lines; compare parts of it", maxEdits)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// Row d needs the diagonals -d-1 … d+1 of the row before it.
		row := make([]int32, 2*d+3)
		for k := -d - 1; k <= d+1; k++ {
			if i := off + k; i >= 0 && i < len(v) {
				row[k+d+1] = int32(v[i])
			}
		}
		trace = append(trace, row)
		for k := -d; k <= d; k += 2 {
			if k < -m || k > n {
				continue
			}
			x := 0
			if k == -d || k != d && row[k-1+d+1] < row[k+1+d+1] {
				x = int(row[k+1+d+1])
			} else {
				x = int(row[k-1+d+1]) + 1
			}
			for x < n && x-k < m && x-k >= 0 && same(x0[x], y0[x-k]) {
				x++
			}
			v[off+k] = x
			if x >= n && x-k >= m {
				break search
			}
		}
	}
	var rev []edit
	x, y := n, m
	for d := len(trace) - 1; d >= 0; d-- {
		row, k := trace[d], x-y
		prev := k - 1
		if k == -d || k != d && row[k-1+d+1] < row[k+1+d+1] {
			prev = k + 1
		}
		px := int(row[prev+d+1])
		py := px - prev
		if d == 0 {
			px, py = 0, 0
		}
		for x > px && y > py {
			x, y = x-1, y-1
			rev = append(rev, edit{' ', y0[y]})
		}
		if d == 0 {
			break
		}
		if x == px {
			y--
			rev = append(rev, edit{'+', y0[y]})
		} else {
			x--
			rev = append(rev, edit{'-', x0[x]})
		}
	}
	var out []edit
	for _, l := range b[:start] {
		out = append(out, edit{' ', l})
	}
	for i := len(rev) - 1; i >= 0; i-- {
		out = append(out, rev[i])
	}
	for _, l := range b[len(b)-end:] {
		out = append(out, edit{' ', l})
	}
	return out, nil
}

func unified(ctx context.Context, aName, bName string, a, b []string, around int, ignoreSpace bool) (string, error) {
	if around < 0 {
		return "", errors.New("context must not be negative")
	}
	same := func(x, y string) bool { return x == y }
	if ignoreSpace {
		same = func(x, y string) bool {
			return strings.Join(strings.Fields(x), "") == strings.Join(strings.Fields(y), "")
		}
	}
	es, err := edits(ctx, a, b, same)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i, an, bn := 0, 0, 0; i < len(es); {
		if es[i].op == ' ' {
			i, an, bn = i+1, an+1, bn+1
			continue
		}
		from := max(0, i-around)
		to, last := i, i
		for to < len(es) && to-last <= 2*around+1 {
			if es[to].op != ' ' {
				last = to
			}
			to++
		}
		to = min(len(es), last+around+1)
		an, bn = an-(i-from), bn-(i-from)
		var body strings.Builder
		ac, bc := 0, 0
		for _, e := range es[from:to] {
			if e.op != '+' {
				ac++
			}
			if e.op != '-' {
				bc++
			}
			body.WriteByte(e.op)
			body.WriteString(e.text)
			if !strings.HasSuffix(e.text, "\n") {
				body.WriteString("\n\\ No newline at end of file\n")
			}
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", aName, bName)
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n%s", span(an, ac), span(bn, bc), body.String())
		i, an, bn = to, an+ac, bn+bc
	}
	return out.String(), nil
}

// span is a range as unified diffs write it: an empty one names the line before it.
func span(before, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, n)
}

func main() {
	sdk.Serve("text_diff", "Unified diff of two files or texts", Run, sdk.ReadOnly())
}
