// Command csv_stats tells what is in each column of a CSV file: its type, how many cells
// are empty, how many values differ, and minimum, maximum and mean where they make sense.
package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path      string `json:"path" jsonschema:"CSV file, relative to the project"`
	Delimiter string `json:"delimiter,omitempty" jsonschema:"one character between cells; default: comma, or tab, ; or | if the first line says so"`
	NoHeader  bool   `json:"no_header,omitempty" jsonschema:"the first row is data too; columns are then called column1, column2, …"`
}

type Column struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"` // integer, number, date, boolean, text, empty
	Count    int      `json:"count"`
	Empty    int      `json:"empty"`
	Distinct int      `json:"distinct"`
	Min      string   `json:"min,omitempty"`
	Max      string   `json:"max,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
}

type Stats struct {
	Rows    int      `json:"rows"`
	Columns []Column `json:"columns"`
}

type column struct {
	Column
	values           map[string]bool
	ints, nums       bool
	dates, bools     bool
	min, max         float64
	mean             float64
	minText, maxText string
}

func Run(ctx context.Context, in Args) (Stats, error) {
	data, err := os.ReadFile(sdk.Path(ctx, in.Path))
	if err != nil {
		return Stats{}, err
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	if r.Comma, err = delimiter(in.Delimiter, data); err != nil {
		return Stats{}, err
	}
	first, err := r.Read()
	if errors.Is(err, io.EOF) {
		return Stats{}, errors.New("the file is empty")
	}
	if err != nil {
		return Stats{}, err
	}
	cols := make([]*column, len(first))
	for i, name := range first {
		if in.NoHeader {
			name = fmt.Sprintf("column%d", i+1)
		}
		cols[i] = newColumn(name)
	}
	var s Stats
	for row := first; ; {
		if s.Rows > 0 || in.NoHeader {
			for i, c := range cols {
				if i < len(row) {
					c.add(row[i])
				} else {
					c.add("")
				}
			}
		}
		s.Rows++
		if row, err = r.Read(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Stats{}, err
		}
		if len(row) > len(cols) {
			line, _ := r.FieldPos(0)
			return Stats{}, fmt.Errorf("line %d has %d cells, the first row has %d", line, len(row), len(cols))
		}
		if err := ctx.Err(); err != nil {
			return Stats{}, err
		}
	}
	if !in.NoHeader {
		s.Rows--
	}
	for _, c := range cols {
		s.Columns = append(s.Columns, c.done())
	}
	return s, nil
}

func delimiter(given string, data []byte) (rune, error) {
	if given == `\t` || given == "tab" {
		given = "\t"
	}
	if given != "" {
		r := []rune(given)
		if len(r) != 1 || strings.ContainsAny(given, "\"\r\n") {
			return 0, fmt.Errorf("delimiter %q: one character, not a quote or line break", given)
		}
		return r[0], nil
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	best, most := ',', 0
	for _, d := range ",\t;|" {
		if n := bytes.Count(line, []byte(string(d))); n > most {
			best, most = d, n
		}
	}
	return best, nil
}

func newColumn(name string) *column {
	return &column{Column: Column{Name: name}, values: map[string]bool{}, ints: true, nums: true, dates: true, bools: true,
		min: math.Inf(1), max: math.Inf(-1)}
}

func (c *column) add(v string) {
	v = strings.TrimSpace(v)
	if v == "" {
		c.Empty++
		return
	}
	c.Count++
	c.values[v] = true
	if c.minText == "" || v < c.minText {
		c.minText = v
	}
	if v > c.maxText {
		c.maxText = v
	}
	if c.ints {
		_, err := strconv.ParseInt(v, 10, 64)
		c.ints = err == nil
	}
	if c.nums {
		f, err := strconv.ParseFloat(v, 64)
		if c.nums = err == nil && !math.IsNaN(f) && !math.IsInf(f, 0); c.nums {
			c.min, c.max = math.Min(c.min, f), math.Max(c.max, f)
			c.mean += (f - c.mean) / float64(c.Count)
		}
	}
	if c.dates {
		_, err := time.Parse(time.DateOnly, v)
		if err != nil {
			_, err = time.Parse(time.RFC3339, v)
		}
		c.dates = err == nil
	}
	if c.bools {
		l := strings.ToLower(v)
		c.bools = l == "true" || l == "false"
	}
}

func (c *column) done() Column {
	c.Distinct = len(c.values)
	switch {
	case c.Count == 0:
		c.Type = "empty"
		return c.Column
	case c.ints:
		c.Type = "integer"
	case c.nums:
		c.Type = "number"
	case c.dates:
		c.Type = "date"
	case c.bools:
		c.Type = "boolean"
	default:
		c.Type = "text"
	}
	c.Min, c.Max = c.minText, c.maxText
	if c.nums {
		c.Min, c.Max = strconv.FormatFloat(c.min, 'f', -1, 64), strconv.FormatFloat(c.max, 'f', -1, 64)
		mean := math.Round(c.mean*1e6) / 1e6
		c.Mean = &mean
	}
	return c.Column
}

func main() {
	sdk.Serve("csv_stats", "Statistics of each column of a CSV file: type, empty, distinct, min, max, mean", Run, sdk.ReadOnly())
}
