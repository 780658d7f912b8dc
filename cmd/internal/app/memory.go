package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/memory"
	"github.com/lingjiyidong/lj/memory/segment"
	"github.com/lingjiyidong/lj/prompts"
	"github.com/lingjiyidong/lj/store"
)

// Memory is the long-term memory as this project sees it. now fixes its clock, and reading
// by it stores nothing; nil is the app's. Nothing is loaded before it is used.
func (a *App) Memory(ctx context.Context, now func() time.Time) (*memory.Service, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	peek := now != nil
	if now == nil {
		now = a.opt.Now
	}
	masks := a.masker()
	c := memory.Config{
		Store: st, Cutter: a.segmenter(), Project: a.Project, Now: now, Mask: masks.Mask, Budget: a.Config.Int("memory.max_chars"), Peek: peek,
	}
	if e := a.embedder(); e != nil {
		c.Embedder, c.Vectors = e, vectors{st}
	}
	return memory.New(c), nil
}

// embedder makes vectors with the configured server; nil without one.
func (a *App) embedder() memory.Embedder {
	base, model := a.Config.String("embedding.base_url"), a.Config.String("embedding.model")
	if base == "" || model == "" {
		return nil
	}
	key, name := a.Config.String("embedding.api_key"), "embedding.api_key"
	if s, err := a.FindServer(); err == nil && key == "" && s.BaseURL == base {
		key, name = s.Key, s.KeyName
	}
	return &embedder{a: a, base: base, key: key, keyName: name, model: model}
}

// embedder is the configured embeddings server.
type embedder struct {
	a                         *App
	base, key, keyName, model string
}

func (e *embedder) Model() string { return e.model }

func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	at := "embedding:" + e.base
	e.a.mu.Lock()
	c := e.a.client[at]
	e.a.mu.Unlock()
	if c == nil {
		var err error
		if c, err = llm.New(llm.Config{BaseURL: e.base, APIKey: e.key, KeyName: e.keyName, Model: e.model, ConnectTimeout: e.a.Config.Seconds("timeout.connect"),
			FirstByteTimeout: e.a.Config.Seconds("timeout.first_byte"), MaxRetries: -1, UserAgent: "lj/" + e.a.opt.Version}); err != nil {
			return nil, err
		}
		e.a.mu.Lock()
		e.a.client[at] = c
		e.a.mu.Unlock()
	}
	return c.Embed(ctx, e.model, texts)
}

// vectors keeps vectors in the store.
type vectors struct{ st *store.Store }

func (v vectors) Without(ctx context.Context, model string, limit int) ([]memory.Unvectored, error) {
	list, err := v.st.MemoriesWithoutVector(ctx, model, limit)
	out := make([]memory.Unvectored, len(list))
	for i, t := range list {
		out[i] = memory.Unvectored(t)
	}
	return out, err
}

func (v vectors) Set(ctx context.Context, model string, texts []memory.Unvectored, list [][]float32) error {
	out := make([]store.MemoryText, len(texts))
	for i, t := range texts {
		out[i] = store.MemoryText(t)
	}
	return v.st.SetMemoryVectors(ctx, model, out, list)
}

func (v vectors) Near(ctx context.Context, model, project string, q []float32, fn func(int64, float64)) error {
	return v.st.NearMemories(ctx, model, project, q, fn)
}

// segmenter is the process's divider of text.
func (a *App) segmenter() *segment.Segmenter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cutter == nil {
		a.cutter = segment.New(segment.Options{Cache: filepath.Join(a.Home, "cache"), UserDict: filepath.Join(a.Home, "userdict.txt")})
	}
	return a.cutter
}

// warm gets the divider of text ready beside the work, when there are memories that a
// message will be compared with.
func (a *App) warm(ctx context.Context, st *store.Store, o TurnOptions) {
	if o.NoMemory || o.step != "" || !a.Config.Bool("memory.enabled") {
		return
	}
	if some, err := hasMemories(ctx, st); err == nil && some {
		a.segmenter().Warm()
	}
}

// hasMemories says whether there is anything to choose from, without loading anything.
func hasMemories(ctx context.Context, st *store.Store) (bool, error) {
	var n int
	err := st.DB().QueryRowContext(ctx, `SELECT EXISTS(SELECT 1 FROM memories)`).Scan(&n)
	return n > 0, err
}

// memoryBlock chooses the memories for a message and returns them as a quoted block, with
// their ids; "" when there are none.
func (c *Conversation) memoryBlock(ctx context.Context, o TurnOptions, emit func(core.Event)) (string, error) {
	if o.NoMemory || !c.app.Config.Bool("memory.enabled") {
		return "", nil
	}
	st, err := c.app.Store(ctx)
	if err != nil {
		return "", err
	}
	if some, err := hasMemories(ctx, st); err != nil || !some {
		return "", err
	}
	m, err := c.app.Memory(ctx, nil)
	if err != nil {
		return "", err
	}
	sel, err := m.Select(ctx, o.Prompt)
	if err != nil {
		return "", err
	}
	if _, failed, ok := strings.Cut(sel.Method, "lexical: "); ok {
		emit(core.Event{Type: core.EventNotice, Text: "memories are chosen by words alone: " + failed})
	}
	if len(sel.Items) == 0 {
		return "", nil
	}
	if err := m.MarkUsed(ctx, sel.IDs()); err != nil {
		return "", err
	}
	c.mem.given = sel.IDs()
	for _, it := range sel.Items {
		emit(core.Event{Type: core.EventMemory, Action: "used", ID: idText(it.ID), Content: it.Content})
	}
	return prompts.Block("memory", "", sel.Text()), nil
}

// remembering is what a conversation keeps for its memories.
type remembering struct {
	given []int64      // the memories of the running turn
	saved []core.Event // what idle time saved and the person has not been told
}

// tellSaved says what was taken up while the conversation was idle.
func (c *Conversation) tellSaved(emit func(core.Event)) {
	for _, e := range c.mem.saved {
		emit(e)
	}
	c.mem.saved = nil
}

// said divides the prompt into what the person said and what came through a pipe.
func (o TurnOptions) said() (typed, piped string) {
	typed, ok := strings.CutSuffix(o.Prompt, o.Piped)
	if o.Piped == "" || !ok {
		return o.Prompt, "" // the prompt of a step is its own
	}
	return strings.TrimRight(typed, "\n"), o.Piped
}

// keepMemories keeps what a message of the user asks, by rule, to be remembered, and how the
// turn ended for the memories that it was given. A turn without memory is not read for
// memories later either.
func (c *Conversation) keepMemories(ctx context.Context, o TurnOptions, stop core.StopReason, emit func(core.Event)) error {
	given := c.mem.given
	c.mem.given = nil
	if o.step != "" {
		return nil
	}
	st, err := c.app.Store(ctx)
	if err != nil {
		return err
	}
	if o.NoMemory || !c.app.Config.Bool("memory.enabled") {
		return st.SkipMemory(ctx, c.Session.ID)
	}
	typed, _ := o.said()
	items := memory.FromUserText(typed)
	if len(items)+len(given) == 0 {
		return nil
	}
	m, err := c.app.Memory(ctx, nil)
	if err != nil {
		return err
	}
	if err := m.MarkOutcome(ctx, given, string(stop)); err != nil || len(items) == 0 {
		return err
	}
	for i := range items {
		items[i].Session = c.Session.ID
	}
	results, err := m.IngestBatch(ctx, items)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Action == memory.ActionRefused {
			emit(core.Event{Type: core.EventNotice, Text: "not remembered: " + r.Reason})
			continue
		}
		emit(core.Event{Type: core.EventMemory, Action: r.Action, ID: r.ID, Content: r.Content})
	}
	return nil
}

// ExtractOptions say how far App.Extract may go. The zero value reads all that is new.
type ExtractOptions struct {
	Sessions int    // most conversations; 0 is no limit
	Tokens   int    // no further request once so many are used; 0 is no limit
	Skip     string // a conversation that is going on and is left for later
	// Events is told of each memory that changed, as an event of type memory.
	Events func(core.Event)
	Now    func() time.Time // nil is the app's
}

// Extraction is what App.Extract did.
type Extraction struct {
	Sessions int             `json:"sessions"` // conversations that were read
	Messages int             `json:"messages"` // new messages of the user in them
	Requests int             `json:"requests"`
	Tokens   int             `json:"tokens"`
	Results  []memory.Result `json:"results"`
	Dropped  int             `json:"dropped"` // what the user's words do not bear out
	Reason   string          `json:"reason"`  // why nothing was asked, "" when something was
}

// Extract reads what was said since the last time in conversations of people, asks the
// cheap model what of it is worth keeping, and takes that up under the rules of memory.
// Without anything new there is no request. It may be stopped at any time: what was read
// is not read again. Chat's idle time and lj evolve call it. Errors of the server are
// returned with what was done before them.
func (a *App) Extract(ctx context.Context, o ExtractOptions) (Extraction, error) {
	out := Extraction{Results: []memory.Result{}}
	switch {
	case !a.Config.Bool("memory.enabled"):
		out.Reason = "memory.enabled is false"
	case !a.Config.Bool("memory.extract"):
		out.Reason = "memory.extract is false"
	}
	if out.Reason != "" {
		return out, nil
	}
	st, err := a.Store(ctx)
	if err != nil {
		return out, err
	}
	m, err := a.Memory(ctx, o.Now)
	if err != nil {
		return out, err
	}
	pending, err := m.Pending(ctx, 1000)
	if err != nil {
		return out, err
	}
	pending = slices.DeleteFunc(pending, func(id string) bool { return id == o.Skip })
	if len(pending) == 0 {
		out.Reason = "nothing new"
		return out, nil
	}
	free, err := a.alone("extract.lock")
	if err != nil {
		out.Reason = "another lj is reading"
		return out, nil
	}
	defer free()
	ask := a.Cheap()
	ask.Most = o.Tokens
	var unread error // of conversations whose answer could not be read; they come again
	row := 0
	for _, id := range pending {
		if ctx.Err() != nil || o.Sessions > 0 && out.Sessions == o.Sessions {
			break
		}
		s, serr := st.Session(ctx, id)
		if serr != nil {
			err = serr
			break
		}
		ask.Session = id
		var rep memory.ExtractReport
		rep, err = m.For(s.Project).Extract(ctx, ask, st, id)
		out.Sessions++
		out.Messages += rep.Read
		out.Requests += rep.Requests
		out.Dropped += rep.Dropped
		out.Tokens = ask.Usage.Total()
		for _, r := range rep.Results {
			out.Results = append(out.Results, r)
			if o.Events != nil {
				o.Events(core.Event{Type: core.EventMemory, Action: r.Action, ID: r.ID, Content: r.Content})
			}
		}
		if errors.Is(err, memory.ErrNoList) {
			if unread, err, row = err, nil, row+1; row == unreadMost {
				break // it is the model, not the conversation
			}
			continue
		}
		if row = 0; err != nil {
			break
		}
	}
	if err == nil {
		err = unread
	}
	if core.KindOf(err) == core.KindLimit {
		out.Reason, err = err.Error(), nil
	}
	if err == nil && out.Requests == 0 && out.Reason == "" {
		out.Reason = "the new messages say nothing to remember"
	}
	said := out.Reason
	switch {
	case err != nil:
		said = "stopped: " + err.Error()
	case said == "":
		said = fmt.Sprintf("%d conversations, %d kept, %d dropped", out.Sessions, len(out.Results), out.Dropped)
	}
	return out, errors.Join(err, m.NoteExtraction(context.WithoutCancel(ctx), said))
}

// unreadMost is how many answers in a row may be unreadable until a pass ends.
const unreadMost = 3

// Remembered is a memory that background work changed.
type Remembered struct {
	Action  string `json:"action"`
	ID      string `json:"id"`
	Content string `json:"content"`
}

// Reflection is what App.Reflect did.
type Reflection struct {
	Items    []memory.Reflected `json:"items"`
	Adjusted []memory.Adjusted  `json:"adjusted"`
	Requests int                `json:"requests"`
	Tokens   int                `json:"tokens"`
}

const adjustMeta = "memory_adjusted" // when priorities were last looked at

// Reflect lets the cheap model sum up memories on one subject and, when people talked since
// the last time, say which of them matter more or less than thought. Without anything to
// do there is no request and no server is needed.
func (a *App) Reflect(ctx context.Context, m *memory.Service, now time.Time) (Reflection, error) {
	out := Reflection{Items: []memory.Reflected{}, Adjusted: []memory.Adjusted{}}
	groups, err := m.Groups(ctx)
	if err != nil {
		return out, err
	}
	st, err := a.Store(ctx)
	if err != nil {
		return out, err
	}
	said, err := a.saidSince(ctx, st)
	if err != nil {
		return out, err
	}
	list, err := m.List(ctx, "", false)
	if err != nil || len(groups) == 0 && (said == "" || len(list) < 3) {
		return out, err
	}
	if _, _, err := a.CheapModel(ctx); err != nil {
		return out, fmt.Errorf("summing up memories needs a model: %w", err)
	}
	free, err := a.alone("reflect.lock")
	if err != nil {
		return out, err
	}
	defer free()
	ask := a.Cheap()
	out.Items, err = m.Reflect(ctx, ask)
	if err == nil && said != "" && len(list) >= 3 {
		var adjusted []memory.Adjusted
		if adjusted, err = m.AdjustPriorities(ctx, ask, said); err == nil {
			out.Adjusted = append(out.Adjusted, adjusted...)
			err = st.SetMeta(ctx, adjustMeta, now.UTC().Format(time.RFC3339Nano))
		}
	}
	out.Requests, out.Tokens = ask.Usage.Requests, ask.Usage.Total()
	return out, err
}

// saidSince is what people said in conversations since priorities were last looked at, the
// newest first, cut to what a request takes.
func (a *App) saidSince(ctx context.Context, st *store.Store) (string, error) {
	v, err := st.Meta(ctx, adjustMeta)
	if err != nil {
		return "", err
	}
	since, _ := core.ParseTime(v, time.UTC) // never: the zero time
	list, err := st.Sessions(ctx, store.SessionFilter{Kind: "chat", Limit: 20})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range list {
		if !s.UpdatedAt.After(since) {
			continue
		}
		msgs, err := st.Messages(ctx, s.ID)
		if err != nil {
			return "", err
		}
		for _, m := range msgs {
			if m.Role == core.RoleUser && m.Note == "" && m.At.After(since) && b.Len() < 8000 {
				if own := memory.OwnWords(m.Content); own != "" {
					fmt.Fprintf(&b, "- %s\n", strings.Join(strings.Fields(own), " "))
				}
			}
		}
	}
	return b.String(), nil
}

// alone makes this process the only one that does a piece of work, until free is called or
// the process ends.
func (a *App) alone(name string) (free func(), err error) {
	dir := filepath.Join(a.Home, "cache")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, core.Errorf(core.KindConfig, "make %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, core.Errorf(core.KindConfig, "open %s: %w", name, err)
	}
	if err := tryLock(f); err != nil {
		f.Close()
		return nil, core.Errorf(core.KindFailed, "another lj is at the same work")
	}
	return func() { _ = unlock(f) }, nil
}

// memoryTools are save_memory, search_memory and forget_memory.
func (a *App) memoryTools(ctx context.Context) ([]core.Tool, error) {
	m, err := a.Memory(ctx, nil)
	if err != nil {
		return nil, err
	}
	return memory.Tools(m, memory.ToolOptions{
		Version: a.opt.Version,
		Spoken: func(ctx context.Context) memory.Spoken {
			s, ok := sessionFrom(ctx)
			if !ok || s.detached {
				return memory.Spoken{}
			}
			sp := memory.Spoken{Session: s.conv.Session.ID, Known: true}
			msgs, err := s.store.Messages(ctx, s.conv.Session.ID)
			if err != nil {
				return sp
			}
			var said []string
			for _, x := range msgs {
				if x.Role == core.RoleUser && x.Note != "epoch" && x.Note != "copy" {
					said = append(said, memory.OwnWords(x.Content))
					sp.Message = x.Seq
				}
			}
			sp.User = strings.Join(said, "\n")
			return sp
		},
		Saved: func(ctx context.Context, action, id, content string) {
			s, ok := sessionFrom(ctx)
			if !ok {
				return
			}
			s.emit(core.Event{Type: core.EventMemory, Action: action, ID: id, Content: content})
			if action != memory.ActionCreated && action != memory.ActionSuperseded {
				return
			}
			if err := a.note(content); err != nil {
				a.opt.Warn(err.Error())
			}
		},
	}), nil
}

// note adds a line to the project's own notes, where a person can edit it.
func (a *App) note(content string) error {
	dir, err := a.ensureAgentDir()
	if err != nil {
		return err
	}
	_, err = memory.AppendNote(filepath.Join(dir, "memory.md"), "Saved", content)
	return err
}

func idText(id int64) string {
	return strconv.FormatInt(id, 10)
}

// MemoryImport takes up memories from a file: JSON Lines, a memory.md, or the reference's
// chat_history.db.
func (a *App) MemoryImport(ctx context.Context, m *memory.Service, path string) (memory.Imported, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // it would repeat the path
		}
		return memory.Imported{}, core.Errorf(core.KindUsage, "open %s: %w", path, err)
	}
	defer f.Close()
	head := make([]byte, 16)
	n, _ := f.Read(head) // a short file has a short head
	if string(head[:n]) == "SQLite format 3\x00" {
		rows, err := store.ReferenceMemories(ctx, path, time.Local)
		if err != nil {
			return memory.Imported{}, err
		}
		return m.ImportRows(ctx, rows)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return memory.Imported{}, err
	}
	if strings.EqualFold(filepath.Ext(path), ".md") {
		return m.ImportNotes(ctx, f)
	}
	return m.ImportLines(ctx, f)
}

// The words of memory that front ends need.
type (
	// MemoryService is the long-term memory.
	MemoryService = memory.Service
	// MemoryItem is one thing to remember.
	MemoryItem = memory.Item
	// MemoryStats are the counts of long-term memory.
	MemoryStats = memory.Stats
	// Reflected is a memory that sums up others.
	Reflected = memory.Reflected
	// MemoryChange is what a person changes of a memory.
	MemoryChange = memory.Change
)

// MemoryID reads the id of a memory.
func MemoryID(s string) (int64, error) { return memory.ParseID(s) }

// CheckCategory says whether there is a category of this name; "" is none given.
func CheckCategory(name string) error {
	if name == "" {
		return nil
	}
	return memory.CheckCategory(name)
}

// CheckScope says whether there is a scope of this name; "" is none given.
func CheckScope(name string) error {
	if name == "" {
		return nil
	}
	return memory.CheckScope(name)
}

// PriorityName is the name of a priority.
func PriorityName(p int) string { return memory.PriorityName(p) }

// WithKeys is the JSON object of a value with further keys.
func WithKeys(v any, more map[string]any) (map[string]any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, err
	}
	for k, x := range more {
		out[k] = x
	}
	return out, nil
}
