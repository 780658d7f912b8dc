package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// hostTool is a function of the host behind the interface of a tool.
type hostTool struct {
	spec core.ToolSpec
	run  func(ctx context.Context, s *turnSession, req core.ToolRequest) (core.ToolResult, error)
}

var _ core.Tool = (*hostTool)(nil)

func (h *hostTool) Spec() core.ToolSpec { return h.spec }

func (h *hostTool) Call(ctx context.Context, req core.ToolRequest) (core.ToolResult, error) {
	s, _ := sessionFrom(ctx)
	if req.Sink != nil {
		ctx = context.WithValue(ctx, sinkKey{}, req.Sink)
	}
	return h.run(ctx, s, req)
}

type sinkKey struct{}

// newHostTool makes a host tool whose arguments are decoded into T, strictly.
func newHostTool[T any](a *App, name, desc, schema string, readOnly bool, fn func(ctx context.Context, s *turnSession, in T) (string, error)) *hostTool {
	return &hostTool{
		spec: core.ToolSpec{Name: name, Description: desc, Schema: json.RawMessage(schema), ReadOnly: readOnly, Origin: core.OriginHost, Version: a.opt.Version},
		run: func(ctx context.Context, s *turnSession, req core.ToolRequest) (core.ToolResult, error) {
			var in T
			if err := decodeArgs(req.Args, &in); err != nil {
				return core.ErrorResult(fmt.Sprintf("%s: %v\nThe arguments must be one JSON object of this schema: %s", name, err, schema)), nil
			}
			text, err := fn(ctx, s, in)
			if err != nil {
				var e *core.Error
				if errors.As(err, &e) && e.Kind == core.KindInternal {
					return core.ToolResult{}, err
				}
				msg := err.Error()
				if next := core.NextOf(err); next != "" {
					msg += "; " + next
				}
				return core.ErrorResult(msg), nil
			}
			return core.ToolResult{Text: text}, nil
		},
	}
}

// decodeArgs reads one JSON object strictly: no unknown field, nothing after it.
func decodeArgs(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) && t.Field != "" {
			return fmt.Errorf("%s must be %s, not %s", t.Field, t.Type, t.Value)
		}
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

var errNoSession = core.Errorf(core.KindUsage, "this tool works inside a conversation only")

// TodoItem is one entry of a session's list.
type TodoItem struct {
	Text   string `json:"text"`
	Status string `json:"status,omitempty"` // pending, doing, done
}

func (t *TodoItem) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		t.Text, t.Status = s, "pending"
		return nil
	}
	var v struct {
		Text    string `json:"text"`
		Content string `json:"content"`
		Desc    string `json:"desc"`
		Status  string `json:"status"`
		Done    bool   `json:"done"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	t.Text, t.Status = firstOf(v.Text, v.Content, v.Desc), v.Status
	if v.Done {
		t.Status = "done"
	}
	switch t.Status {
	case "", "pending", "todo", "open":
		t.Status = "pending"
	case "doing", "in_progress", "running":
		t.Status = "doing"
	case "done", "completed", "finished":
		t.Status = "done"
	default:
		return fmt.Errorf("status %q: use pending, doing or done", t.Status)
	}
	if strings.TrimSpace(t.Text) == "" {
		return errors.New("an item needs a text")
	}
	return nil
}

func renderTodo(items []TodoItem) string {
	var b strings.Builder
	for i, it := range items {
		mark := map[string]string{"pending": "[ ]", "doing": "[>]", "done": "[x]"}[it.Status]
		fmt.Fprintf(&b, "%s %d. %s\n", mark, i+1, it.Text)
	}
	return strings.TrimRight(b.String(), "\n")
}

// openTodo renders a stored list when something of it is open, "" otherwise.
func openTodo(raw json.RawMessage) string {
	var items []TodoItem
	if json.Unmarshal(raw, &items) != nil {
		return ""
	}
	for _, it := range items {
		if it.Status != "done" {
			return renderTodo(items)
		}
	}
	return ""
}

// sessionTools are the host tools that act on the running conversation.
func (a *App) sessionTools() []core.Tool {
	return []core.Tool{
		a.planTool(),
		newHostTool(a, "todo", "Replace the task list of this conversation.",
			`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"status":{"enum":["pending","doing","done"]}},"required":["text"]}}},"required":["items"]}`, true,
			func(ctx context.Context, s *turnSession, in struct {
				Items []TodoItem `json:"items"`
			}) (string, error) {
				if s == nil {
					return "", errNoSession
				}
				raw, err := json.Marshal(in.Items)
				if err != nil {
					return "", err
				}
				if len(in.Items) == 0 {
					raw = []byte("[]")
				}
				if err := s.store.SetTodo(ctx, s.conv.Session.ID, raw); err != nil {
					return "", err
				}
				if len(in.Items) == 0 {
					return "the list is empty", nil
				}
				return renderTodo(in.Items), nil
			}),
		newHostTool(a, "read_output", "Read a stored output that was too long for the conversation: from byte offset, at most limit bytes, or the lines that match pattern.",
			`{"type":"object","properties":{"id":{"type":"string"},"offset":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":1},"pattern":{"type":"string","description":"text to find, lines around it are shown"}},"required":["id"],"additionalProperties":false}`, true,
			func(ctx context.Context, s *turnSession, in readOutput) (string, error) { return s.readOutput(ctx, in) }),
		newHostTool(a, "search_history", "Search this and earlier conversations of this project for words, also what the running one no longer shows.",
			`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":50}},"required":["query"],"additionalProperties":false}`, true,
			func(ctx context.Context, s *turnSession, in struct {
				Query string `json:"query"`
				Limit int    `json:"limit"`
			}) (string, error) {
				st, err := a.Store(ctx)
				if err != nil {
					return "", err
				}
				session, turn := "", 0
				if s != nil && !s.detached {
					session, turn = s.conv.Session.ID, s.conv.turn
				}
				hits, err := st.SearchAny(ctx, in.Query, a.Project, in.Limit, session, turn)
				if err != nil {
					return "", err
				}
				if len(hits) == 0 {
					return "nothing found", nil
				}
				var b strings.Builder
				for _, h := range hits {
					fmt.Fprintf(&b, "%s session %s turn %d %s: %s\n", h.At.Format(time.DateOnly), h.Session, h.Turn, h.Role, h.Snippet)
				}
				return strings.TrimRight(b.String(), "\n"), nil
			}),
		newHostTool(a, "ask_user", "Ask the user what only he can know.",
			`{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"}}},"required":["question"]}`, true,
			func(ctx context.Context, s *turnSession, in struct {
				Question string   `json:"question"`
				Options  []string `json:"options"`
			}) (string, error) {
				if s == nil || s.opt.Ask == nil {
					return "", core.Errorf(core.KindFailed, "nobody can be asked here: decide yourself, say what you decided, or end the turn with the question")
				}
				answer, err := s.opt.Ask.Question(ctx, in.Question, in.Options)
				if err != nil {
					return "", core.Errorf(core.KindFailed, "the user did not answer: %w", err)
				}
				return answer, nil
			}),
		newHostTool(a, "find_tools", "Search the tools that are not listed, by words.",
			`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`, true,
			func(ctx context.Context, s *turnSession, in struct {
				Query string `json:"query"`
			}) (string, error) {
				box, err := a.toolbox(ctx)
				if err != nil {
					return "", err
				}
				return box.find(in.Query), nil
			}),
		newHostTool(a, "use_tool", "Run a tool found with find_tools.",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name"]}`, true,
			func(ctx context.Context, s *turnSession, in struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			}) (string, error) {
				return "", core.Errorf(core.KindUsage, "name must be that of another tool; find_tools searches them")
			}),
	}
}

type readOutput struct {
	ID      string `json:"id"`
	Offset  int64  `json:"offset"`
	Limit   int64  `json:"limit"`
	Pattern string `json:"pattern"`
}

// readOutputPage is how many bytes of a stored output one call shows at most.
const readOutputPage = 48 << 10

func (s *turnSession) readOutput(ctx context.Context, in readOutput) (string, error) {
	if s == nil {
		return "", errNoSession
	}
	if err := core.CheckID(in.ID); err != nil {
		return "", err
	}
	o, err := s.store.OutputByID(ctx, s.conv.Session.ID, in.ID)
	if err != nil {
		return "", err
	}
	f, err := os.Open(filepath.Join(s.app.Home, o.Path))
	if err != nil {
		return "", core.Errorf(core.KindNotFound, "output %s is no longer stored", in.ID)
	}
	defer f.Close()
	if in.Pattern != "" {
		return grepOutput(f, in.Pattern)
	}
	if in.Offset >= o.Bytes && o.Bytes > 0 {
		return "", core.Errorf(core.KindUsage, "output %s has %d bytes; offset %d is beyond its end", in.ID, o.Bytes, in.Offset)
	}
	limit := min(readOutputPage, o.Bytes-in.Offset)
	if in.Limit > 0 {
		limit = min(limit, in.Limit)
	}
	// A few bytes more on both sides, to cut between characters.
	buf := make([]byte, limit+3)
	n, err := f.ReadAt(buf, in.Offset)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("read output %s: %w", in.ID, err)
	}
	text, from, to := runeWindow(buf[:n], int(limit))
	text = strings.ToValidUTF8(text, "\uFFFD")
	end := in.Offset + int64(to)
	head := fmt.Sprintf("[output %s, bytes %d to %d of %d", in.ID, in.Offset+int64(from), end, o.Bytes)
	if end < o.Bytes {
		head += fmt.Sprintf("; go on with offset %d", end)
	}
	if o.Dropped > 0 {
		head += fmt.Sprintf("; %d more bytes were not stored", o.Dropped)
	}
	return head + "]\n" + text, nil
}

// runeWindow is p[:limit] moved to whole characters at both ends.
func runeWindow(p []byte, limit int) (string, int, int) {
	from := 0
	for from < len(p) && from < 3 && p[from]&0xC0 == 0x80 {
		from++
	}
	to := min(limit, len(p))
	for to > from && to < len(p) && p[to]&0xC0 == 0x80 {
		to++
	}
	return string(p[from:to]), from, to
}

func grepOutput(f io.Reader, pattern string) (string, error) {
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64<<10), 1<<20)
	var b strings.Builder
	n, shown := 0, 0
	for sc.Scan() {
		n++
		if !strings.Contains(sc.Text(), pattern) {
			continue
		}
		if shown++; shown > 200 || b.Len() > readOutputPage {
			b.WriteString("[more lines match]\n")
			break
		}
		line := sc.Text()
		if len(line) > 400 {
			line = strings.ToValidUTF8(line[:400], "") + "…"
		}
		fmt.Fprintf(&b, "%d: %s\n", n, line)
	}
	if err := sc.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return "", err
	}
	if shown == 0 {
		return "no line holds " + pattern, nil
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
