package history

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
)

// imageTokens is what one picture counts.
const imageTokens = 85

// Estimate guesses the tokens of a text from its script: ⌊cjk/1.5 + other/4⌋ + 4 for a
// text that is not empty, where cjk are the code points U+4E00–9FFF and U+3400–4DBF. It is
// the published heuristic of the reference; a Meter corrects it by what servers report.
func Estimate(text string) int {
	if text == "" {
		return 0
	}
	cjk, other := 0, 0
	for _, r := range text {
		if r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF {
			cjk++
		} else {
			other++
		}
	}
	// In twelfths, so that nothing is lost to rounding.
	return (cjk*8+other*3)/12 + 4
}

// EstimateMessage guesses the tokens of one message as it is sent: its texts, pictures,
// calls and reasoning, and 4 for the message itself. A message that can't be read counts
// as its bytes.
func EstimateMessage(raw json.RawMessage) int {
	var m struct {
		Content   json.RawMessage   `json:"content"`
		Reasoning string            `json:"reasoning_content"`
		Calls     []json.RawMessage `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Estimate(string(raw)) + 4
	}
	n := 4 + Estimate(m.Reasoning)
	var text string
	var parts []struct{ Type, Text string }
	switch {
	case json.Unmarshal(m.Content, &text) == nil:
		n += Estimate(text)
	case json.Unmarshal(m.Content, &parts) == nil:
		for _, p := range parts {
			if p.Type == "text" {
				n += Estimate(p.Text)
			} else {
				n += imageTokens
			}
		}
	}
	for _, c := range m.Calls {
		n += Estimate(spaced(c))
	}
	return n
}

// spaced is JSON with a blank after each comma and colon and characters as they are, the
// form that the heuristic was made for.
func spaced(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var b strings.Builder
	var write func() bool
	write = func() bool {
		t, err := dec.Token()
		if err != nil {
			return false
		}
		switch x := t.(type) {
		case json.Delim:
			b.WriteRune(rune(x))
			for i := 0; dec.More(); i++ {
				if i > 0 {
					b.WriteString(", ")
				}
				if x == '{' {
					if !write() {
						return false
					}
					b.WriteString(": ")
				}
				if !write() {
					return false
				}
			}
			end, err := dec.Token()
			if err != nil {
				return false
			}
			b.WriteRune(rune(end.(json.Delim)))
		case string:
			var s bytes.Buffer
			e := json.NewEncoder(&s)
			e.SetEscapeHTML(false)
			if e.Encode(x) != nil {
				return false
			}
			b.WriteString(strings.TrimSuffix(s.String(), "\n"))
		case json.Number:
			b.WriteString(x.String())
		case bool:
			b.WriteString(strconv.FormatBool(x))
		case nil:
			b.WriteString("null")
		}
		return true
	}
	if !write() {
		return string(raw)
	}
	return b.String()
}

// Meter corrects the estimate by what a server reported, so that it holds for other
// scripts and tokenizers too. The zero value believes the estimate. Safe for use by
// several goroutines.
type Meter struct {
	mu    sync.Mutex
	ratio float64
	n     int
}

// Report tells the meter that a request estimated at so many tokens had so many.
func (m *Meter) Report(estimated, reported int) {
	if estimated <= 0 || reported <= 0 {
		return
	}
	r := min(max(float64(reported)/float64(estimated), 0.2), 8)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n++; m.n == 1 {
		m.ratio = r
		return
	}
	m.ratio += (r - m.ratio) / 2 // the newest report counts half: a conversation changes its script slowly
}

// Correct applies what was learned to an estimate.
func (m *Meter) Correct(estimated int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == 0 {
		return estimated
	}
	return int(float64(estimated) * m.ratio)
}

// Ratio is what was learned, 0 for nothing, and Learned gives it back to a new Meter.
func (m *Meter) Ratio() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == 0 {
		return 0
	}
	return m.ratio
}

// Learned sets what an earlier Meter had learned, where this one knows nothing yet.
func (m *Meter) Learned(ratio float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == 0 && ratio > 0 {
		m.ratio, m.n = min(max(ratio, 0.2), 8), 1
	}
}
