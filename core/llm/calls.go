package llm

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// fragment is a piece of a tool call as it streams in.
type fragment struct {
	Index    *int            `json:"index"`
	ID       json.RawMessage `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"`
}

// gathered is a tool call that is being put together.
type gathered struct {
	index int
	id    string
	name  string
	args  text
	extra json.RawMessage
}

// calls puts tool calls together from fragments, by id and index.
type calls struct{ list []*gathered }

func (c *calls) last(index int) *gathered {
	for i := len(c.list) - 1; i >= 0; i-- {
		if c.list[i].index == index {
			return c.list[i]
		}
	}
	return nil
}

func (c *calls) byID(index int, id string) *gathered {
	for i := len(c.list) - 1; i >= 0; i-- {
		if g := c.list[i]; g.index == index && g.id == id {
			return g
		}
	}
	return nil
}

// add takes one fragment; pos is its place in its list, which stands for a missing
// index. Whole says that the fragment is a whole call. It returns the name of a call that
// has just begun.
func (c *calls) add(f fragment, pos int, whole bool) (begun string) {
	index := pos
	if f.Index != nil {
		index = *f.Index
	}
	id := idText(f.ID)
	name := strings.TrimSpace(f.Function.Name)
	var g *gathered
	if !whole {
		last := c.last(index)
		if id == "" {
			g = last
		} else if g = c.byID(index, id); g == nil && last != nil && name == "" {
			switch {
			case last.id == "": // the id came after the name
				last.id = id
				g = last
			case last.name != "" && !last.closed(): // a server that makes up an id for each piece
				g = last
			}
		}
		if g != nil && name != "" && g.name != "" && (name != g.name || g.closed() && opensObject(f.Function.Arguments)) {
			// Another call under the same index, with no or the same id.
			g = nil
		}
	}
	if g == nil {
		if id == "" && name == "" && emptyArgs(f.Function.Arguments) {
			return ""
		}
		g = &gathered{index: index, id: id}
		c.list = append(c.list, g)
	}
	if name != "" && g.name == "" {
		g.name = name
		begun = name
	}
	g.addArgs(f.Function.Arguments)
	if len(f.Extra) > 0 && string(f.Extra) != "null" {
		g.extra = append(json.RawMessage(nil), f.Extra...)
	}
	return begun
}

// addArgs takes arguments as text or, from servers that send them so, as an object.
func (g *gathered) addArgs(raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if raw[0] == '"' {
		g.args.add(raw)
		return
	}
	g.args.raw(raw)
}

// closed says whether the arguments so far are one whole object.
func (g *gathered) closed() bool {
	b := bytes.TrimSpace(g.args.b)
	return len(b) > 1 && b[len(b)-1] == '}' && json.Valid(b)
}

func opensObject(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '{' || bytes.HasPrefix(raw, []byte(`"{`)))
}

func emptyArgs(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

// idText reads an id that may be a string, a number or null.
func idText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] == '"' {
		var t text
		t.add(raw)
		return t.whole()
	}
	return string(raw)
}

// finish judges the calls. Taken says whether an id is already in use in the
// conversation.
func (c *calls) finish(reason string, taken func(string) bool) (out []core.ToolCall, extra []json.RawMessage) {
	seen := map[string]bool{}
	for _, g := range c.list {
		call := core.ToolCall{ID: g.id, Name: cleanName(g.name)}
		if call.ID == "" || seen[call.ID] || taken != nil && taken(call.ID) {
			for call.ID == "" || seen[call.ID] || taken != nil && taken(call.ID) {
				call.ID = newCallID()
			}
		}
		seen[call.ID] = true
		call.Arguments, call.Problem = CheckArguments(g.args.whole(), reason)
		if call.Problem == "" && !validWireName(call.Name) {
			call.Problem = fmt.Sprintf("%q is not a tool name; nothing was run. A name has letters, digits, - and _ only, at most %d of them.", clip(call.Name, 80), core.MaxName)
		}
		out = append(out, call)
		extra = append(extra, g.extra)
	}
	return out, extra
}

// cleanName takes off what some models put around a name.
func cleanName(s string) string {
	return strings.TrimPrefix(strings.TrimSpace(s), "functions.")
}

// newCallID makes up an id: nine letters and digits, which is what the strictest server
// accepts.
func newCallID() string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var r [9]byte
	_, _ = rand.Read(r[:]) // never fails on supported systems; it ends the program instead
	for i, c := range r {
		r[i] = alphabet[int(c)%len(alphabet)]
	}
	return string(r[:])
}

// CheckArguments judges the arguments of a call as the model wrote them. It returns what
// may be stored and run, unchanged, or "{}" and a problem in words for the model. No text
// or null means no arguments. Nothing is repaired: arguments that are not one JSON object
// are refused. finish is the finish reason of the answer ("length" when the output limit
// cut it off).
func CheckArguments(args, finish string) (stored, problem string) {
	trimmed := strings.TrimSpace(args)
	if (trimmed == "" || trimmed == "null") && finish != FinishLength {
		return "{}", ""
	}
	if trimmed != "" && trimmed[0] == '{' {
		err := jsonError(args)
		if err == "" {
			if err = loneSurrogate(args); err == "" {
				return args, ""
			}
		}
		if finish == FinishLength && !json.Valid([]byte(args)) {
			return "{}", lengthProblem
		}
		return "{}", "the arguments are not valid JSON: " + err + ". Nothing was run. Send the call again with its arguments as one JSON object."
	}
	if finish == FinishLength {
		return "{}", lengthProblem
	}
	if err := jsonError(args); err != "" {
		return "{}", "the arguments are not valid JSON: " + err + ". Nothing was run. Send the call again with its arguments as one JSON object."
	}
	return "{}", "the arguments are " + jsonKind(trimmed[0]) + ", not a JSON object. Nothing was run. Send the call again with its arguments as one JSON object."
}

const lengthProblem = "the arguments are incomplete because of the output limit. Nothing was run. Send the call again in smaller pieces."

func jsonKind(c byte) string {
	switch c {
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

// jsonError says what is wrong with s as JSON, and where; "" when nothing is.
func jsonError(s string) string {
	var v json.RawMessage
	err := json.Unmarshal([]byte(s), &v)
	if err == nil {
		return ""
	}
	var se *json.SyntaxError
	if !errors.As(err, &se) {
		return err.Error()
	}
	at := min(max(int(se.Offset)-1, 0), len(s))
	if strings.Contains(se.Error(), "unexpected end") {
		at = len(s)
	}
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	from, to := max(at-24, 0), min(at+12, len(s))
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	return fmt.Sprintf("%s at byte %d, at the mark ⟪⟫ in %s⟪⟫%s", se.Error(), at+1, oneLine(s[from:at]), oneLine(s[at:to]))
}

// loneSurrogate finds an escaped half character, which every reader would replace.
func loneSurrogate(s string) string {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if s[i+1] != 'u' || i+6 > len(s) {
			i++
			continue
		}
		r := hex4([]byte(s[i+2 : i+6]))
		switch {
		case r >= 0xDC00 && r < 0xE000:
			return fmt.Sprintf("half a character, %s, at byte %d", s[i:i+6], i+1)
		case r >= 0xD800 && r < 0xDC00:
			if i+12 > len(s) || s[i+6] != '\\' || s[i+7] != 'u' || hex4([]byte(s[i+8:i+12]))>>10 != 0xDC00>>10 {
				return fmt.Sprintf("half a character, %s, at byte %d", s[i:i+6], i+1)
			}
			i += 11
		default:
			i += 5
		}
	}
	return ""
}

// oneLine shows s on one line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// clip cuts s to at most n bytes, between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
