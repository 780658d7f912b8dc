package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Store keeps the rows; *store.Store is one.
type Store interface {
	// WriteMemory runs fn in one write transaction; ReadMemory on one consistent view.
	WriteMemory(ctx context.Context, fn func(core.MemoryWriter) error) error
	ReadMemory(ctx context.Context, fn func(core.MemoryReader) error) error
	// PurgeMemory is WriteMemory after which nothing of what was erased can be read in the files.
	PurgeMemory(ctx context.Context, fn func(core.MemoryWriter) error) error
	MemoryProgress(ctx context.Context, session string) (int64, error)
	SetMemoryProgress(ctx context.Context, session string, seq int64) error
	MemoryPending(ctx context.Context, limit int) ([]string, error)
}

// The limits of the spec.
const (
	DefaultLimit  = 30   // memories in one turn
	DefaultBudget = 4000 // characters of content in one turn
	MaxCritical   = 15   // active CRITICAL rows; the oldest goes out
	MaxContent    = 8000 // bytes of one memory
	maxTag        = 64   // characters of a tag
)

// Config of New. Store and Cutter are needed.
type Config struct {
	Store  Store
	Cutter Cutter
	// Project is the absolute path of the project; its memories and global ones are seen.
	Project string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Location is where times without zone are; time.Local when nil.
	Location *time.Location
	// Mask replaces secrets in a text, as core/secret does. A text that it changes never
	// becomes a memory. Nil: only texts with markers are refused.
	Mask func(string) string
	// Limit and Budget of a selection; 0: DefaultLimit and DefaultBudget.
	Limit, Budget int
	// Peek is for a clock that someone set to look at another time: reading judges by it and
	// stores nothing. Maintain stores.
	Peek bool
	// Embedder and Vectors add meaning to search and selection; nil: lexical.
	Embedder Embedder
	Vectors  VectorStore
}

// Service is the long-term memory. See the package comment.
type Service struct {
	st      Store
	cut     Cutter
	project string
	now     func() time.Time
	loc     *time.Location
	mask    func(string) string
	limit   int
	budget  int
	peek    bool
	embed   Embedder
	vectors VectorStore

	once  sync.Once
	ready error

	mu    sync.Mutex
	known map[string]*statement // analysed texts
	keep  int                   // how many of them
	rate  struct {
		at   time.Time
		days [3]int
	}
}

// New returns a Service. It touches nothing until it is used.
func New(c Config) *Service {
	s := &Service{st: c.Store, cut: c.Cutter, project: c.Project, now: c.Now, loc: c.Location, mask: c.Mask, limit: c.Limit, budget: c.Budget, peek: c.Peek,
		embed: c.Embedder, vectors: c.Vectors, known: map[string]*statement{}, keep: knownStatements}
	if s.now == nil {
		s.now = time.Now
	}
	if s.loc == nil {
		s.loc = time.Local
	}
	if s.limit <= 0 {
		s.limit = DefaultLimit
	}
	if s.budget <= 0 {
		s.budget = DefaultBudget
	}
	return s
}

// WithClock returns a Service on the same store with another clock.
func (s *Service) WithClock(now func() time.Time) *Service {
	c := s.config()
	c.Now = now
	return New(c)
}

// For returns a Service on the same store for another project.
func (s *Service) For(project string) *Service {
	c := s.config()
	c.Project = project
	return New(c)
}

func (s *Service) config() Config {
	return Config{Store: s.st, Cutter: s.cut, Project: s.project, Now: s.now, Location: s.loc, Mask: s.mask, Limit: s.limit, Budget: s.budget, Peek: s.peek,
		Embedder: s.embed, Vectors: s.vectors}
}

// prepare mends odd rows and an index that was lost, once.
func (s *Service) prepare(ctx context.Context) error {
	s.once.Do(func() {
		var rows int
		odd := false
		s.ready = s.st.ReadMemory(ctx, func(r core.MemoryReader) error {
			var err error
			if rows, _, err = r.MemoryTotals(ctx); err != nil {
				return err
			}
			odd, err = r.OddMemories(ctx)
			return err
		})
		if s.ready != nil || rows >= 0 && !odd {
			return
		}
		s.ready = s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
			if _, err := w.RepairMemories(ctx); err != nil {
				return err
			}
			return s.reindex(ctx, w)
		})
	})
	return s.ready
}

// reindex makes the whole index again.
func (s *Service) reindex(ctx context.Context, w core.MemoryWriter) error {
	if err := w.ResetMemoryIndex(ctx); err != nil {
		return err
	}
	after := int64(0)
	for {
		list, err := w.Memories(ctx, core.MemoryFilter{States: []string{"*"}, After: after, ByID: true, Limit: 500})
		if err != nil {
			return err
		}
		for _, m := range list {
			after = m.ID
			if m.Hash == "" || len(m.Keywords) == 0 {
				m.Hash, m.Keywords = digestOf(m.Content), Keywords(s.cut, strings.ToLower(m.Content))
				if err := w.UpdateMemory(ctx, m, nil); err != nil {
					return err
				}
			}
			if err := w.AddMemoryIndex(ctx, m.ID, indexOf(s.cut, m.Content, m.Tags, m.Context)); err != nil {
				return err
			}
		}
		if len(list) < 500 {
			return nil
		}
	}
}

// statement is analyse with a memory of its own: the same row is compared many times.
func (s *Service) statement(text string) *statement {
	s.mu.Lock()
	st := s.known[text]
	s.mu.Unlock()
	if st != nil {
		return st
	}
	st = analyse(s.cut, text)
	s.mu.Lock()
	if len(s.known) >= s.keep {
		clear(s.known)
	}
	s.known[text] = st
	s.mu.Unlock()
	return st
}

// knownStatements is how many analysed texts are kept, 1.5 kB each for a short one.
const knownStatements = 4096

// keepStatements lets a batch of n items keep what it will compare again: a row is like
// many items. The function that it returns goes back to the usual bound.
func (s *Service) keepStatements(n int) (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = min(max(knownStatements, 16*n), 8*knownStatements)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keep = knownStatements
		if len(s.known) > s.keep {
			s.known = map[string]*statement{}
		}
	}
}

// ParseID reads an id as people write it.
func ParseID(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(s), "#"), 10, 64)
	if err != nil || n <= 0 {
		return 0, core.Errorf(core.KindUsage, "memory id %q is not valid", s).Hint("ids are numbers; lj memory list shows them")
	}
	return n, nil
}

// PriorityOf is the priority that a category has when nobody says otherwise.
func PriorityOf(category string) int {
	switch category {
	case core.MemoryInstruction:
		return core.PriorityCritical
	case core.MemoryPreference:
		return core.PriorityHigh
	}
	return core.PriorityMedium
}

// CheckCategory says whether s is a category that can be given to a memory.
func CheckCategory(s string) error {
	switch s {
	case core.MemoryInstruction, core.MemoryPreference, core.MemoryFact, core.MemoryReminder, core.MemoryGeneral:
		return nil
	}
	return core.Errorf(core.KindUsage, "category %q is not known", s).Hint("use instruction, preference, fact, reminder or general")
}

// CheckScope says whether s is a scope that can be given to a memory.
func CheckScope(s string) error {
	if s == core.ScopeGlobal || s == core.ScopeProject {
		return nil
	}
	return core.Errorf(core.KindUsage, "scope %q is not known", s).Hint("use global or project")
}

// ParseWhen reads the time of an expiry: RFC 3339, a date (its end), a time without zone,
// or a span from now such as 7d, 12h or 2w.
func (s *Service) ParseWhen(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if n := len(text); n > 1 && strings.Contains("dw", text[n-1:]) {
		if k, err := strconv.ParseFloat(text[:n-1], 64); err == nil && k > 0 && k < 1e5 {
			if text[n-1] == 'w' {
				k *= 7
			}
			return s.now().Add(time.Duration(k * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return s.now().Add(d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, s.loc); err == nil {
		return t.AddDate(0, 0, 1).Add(-time.Second), nil
	}
	if t, ok := core.ParseTime(text, s.loc); ok {
		return t, nil
	}
	return time.Time{}, core.Errorf(core.KindUsage, "time %q is not understood", text).Hint("use 2026-03-01, 2026-03-01T08:00:00Z, 7d or 12h")
}

// Item is one thing to remember.
type Item struct {
	Content  string
	Category string // "" is general
	// Priority 0 … 3; nil is 2. Values out of range are brought into it. CRITICAL is only
	// given to what the user said.
	Priority *int
	// Importance 1 … 5; 0 is 3.
	Importance int
	Tags       []string
	ExpiresAt  time.Time
	Pinned     bool
	Scope      string // "" is global; ScopeProject binds it to the Service's project
	Source     string // "" is user
	Session    string
	Message    int64
	Context    string
	// CreatedAt is when it was said; zero is now.
	CreatedAt time.Time
	// Force stores it even though the same text was removed before.
	Force bool
}

// The actions of Result.
const (
	ActionCreated    = "created"
	ActionMerged     = "merged"
	ActionSuperseded = "superseded"
	ActionDuplicate  = "duplicate"
	ActionRefused    = "refused" // in batches: a secret, or removed by a person before
)

// Result says what became of an item. With are the other rows: those that it was merged
// into or that it replaced.
type Result struct {
	Action string   `json:"action"`
	ID     string   `json:"id"`
	With   []string `json:"with"`
	Reason string   `json:"reason,omitempty"`
	// Content is the text of the row now.
	Content string `json:"-"`
	// Linked are rows on the same subject that stay beside it.
	Linked []string `json:"linked,omitempty"`
}

// normal checks an item and gives it defaults.
func (s *Service) normal(it Item) (Item, error) {
	it.Content = strings.TrimSpace(clean(it.Content))
	switch {
	case it.Content == "":
		return it, core.Errorf(core.KindUsage, "the text to remember is empty")
	case len(it.Content) > MaxContent:
		return it, core.Errorf(core.KindUsage, "the text to remember has %d bytes, more than %d", len(it.Content), MaxContent).Hint("store a file, and remember where it is")
	case s.holdsSecret(it.Content) || s.holdsSecret(strings.Join(it.Tags, ", ")):
		return it, core.Errorf(core.KindRefused, "the text holds a secret, which is never remembered").Hint("say where the secret is kept instead")
	}
	if it.Context != "" && s.holdsSecret(it.Context) {
		it.Context = "" // what was said around it may not be kept
	}
	if it.Source == "" {
		it.Source = core.SourceUser
	}
	if it.Category == "" {
		it.Category = core.MemoryGeneral
	}
	if CheckCategory(it.Category) != nil && it.Category != core.MemoryReflection {
		it.Category = core.MemoryGeneral
	}
	p := core.PriorityMedium
	if it.Priority != nil {
		p = max(core.PriorityCritical, min(*it.Priority, core.PriorityLow))
	}
	if it.Source != core.SourceUser && it.Source != core.SourceImport {
		p = max(p, core.PriorityHigh)
		if it.Source == core.SourceTool {
			p = max(p, core.PriorityMedium)
			if it.Category == core.MemoryInstruction {
				it.Category = core.MemoryGeneral
			}
		}
	}
	it.Priority = &p
	if it.Importance == 0 {
		it.Importance = 3
	}
	it.Importance = max(1, min(it.Importance, 5))
	if it.Scope != core.ScopeProject || s.project == "" {
		it.Scope = core.ScopeGlobal
	}
	var tags []string
	for _, t := range it.Tags {
		if t = strings.Join(strings.Fields(clean(t)), " "); t != "" && !contains(tags, t) && utf8.RuneCountInString(t) <= maxTag {
			tags = append(tags, t)
		}
	}
	it.Tags = tags
	return it, nil
}

// clean is text without control characters other than line feeds and tabs.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// List returns rows: active ones by default, all with all; of a category unless it is "".
// Order: priority, then newest use, then id.
func (s *Service) List(ctx context.Context, category string, all bool) ([]core.Memory, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	f := core.MemoryFilter{Category: category, Project: s.scope()}
	if all {
		f.States, f.Project = []string{"*"}, "*"
	}
	list := []core.Memory{}
	err := s.view(ctx, false, func(r core.MemoryReader) error {
		l, err := r.Memories(ctx, f)
		list = append(list, l...)
		return err
	})
	return list, err
}

// scope is the project to look from, never "".
func (s *Service) scope() string {
	if s.project == "" {
		return "/"
	}
	return s.project
}

// Story is a memory with its history.
type Story struct {
	core.Memory
	History []core.MemoryEvent
}

// MarshalJSON writes the row with the key history.
func (st Story) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(st.Memory)
	if err != nil {
		return nil, err
	}
	h, err := json.Marshal(st.History)
	if err != nil {
		return nil, err
	}
	return append(append(append(b[:len(b)-1], `,"history":`...), h...), '}'), nil
}

// Show returns one row, whatever its state, with its history. The error wraps
// core.ErrNotFound.
func (s *Service) Show(ctx context.Context, id int64) (Story, error) {
	var st Story
	if err := s.prepare(ctx); err != nil {
		return st, err
	}
	err := s.view(ctx, false, func(r core.MemoryReader) error {
		var err error
		if st.Memory, err = r.Memory(ctx, id); err != nil {
			return err
		}
		st.History, err = r.MemoryEvents(ctx, id)
		return err
	})
	return st, err
}

// Change is what Edit changes; nil fields stay.
type Change struct {
	Content    *string
	Category   *string
	Priority   *int
	Importance *int
	Tags       *[]string
	ExpiresAt  *time.Time // the zero time: never
	Pinned     *bool
	Scope      *string
}

// Edit changes a row by a person's hand. A row that was archived or expired and gets a new
// text or a later expiry is active again. The old text stays in its history.
func (s *Service) Edit(ctx context.Context, id int64, c Change) (core.Memory, error) {
	var out core.Memory
	if err := s.prepare(ctx); err != nil {
		return out, err
	}
	now := s.now()
	err := s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
		m, err := w.Memory(ctx, id)
		if err != nil {
			return err
		}
		var what []string
		note := func(name string, before, after any) {
			if b, a := fmt.Sprint(before), fmt.Sprint(after); b != a {
				what = append(what, fmt.Sprintf("%s: %s → %s", name, b, a))
			}
		}
		content := m.Content
		if c.Content != nil {
			it, err := s.normal(Item{Content: *c.Content})
			if err != nil {
				return err
			}
			note("content", m.Content, it.Content)
			content = it.Content
		}
		if c.Category != nil {
			if err := CheckCategory(*c.Category); err != nil {
				return err
			}
			note("category", m.Category, *c.Category)
			m.Category = *c.Category
		}
		if c.Priority != nil {
			if *c.Priority < 0 || *c.Priority > 3 {
				return core.Errorf(core.KindUsage, "priority %d is not in 0 … 3", *c.Priority)
			}
			note("priority", m.Priority, *c.Priority)
			if m.Priority != *c.Priority {
				m.AgedAt = now
			}
			m.Priority = *c.Priority
		}
		if c.Importance != nil {
			if *c.Importance < 1 || *c.Importance > 5 {
				return core.Errorf(core.KindUsage, "importance %d is not in 1 … 5", *c.Importance)
			}
			note("importance", m.Importance, *c.Importance)
			m.Importance = *c.Importance
		}
		if c.Tags != nil {
			it, err := s.normal(Item{Content: "x", Tags: *c.Tags})
			if err != nil {
				return err
			}
			note("tags", strings.Join(m.Tags, ","), strings.Join(it.Tags, ","))
			m.Tags = it.Tags
		}
		if c.ExpiresAt != nil {
			note("expires", m.ExpiresAt, *c.ExpiresAt)
			m.ExpiresAt = *c.ExpiresAt
			if m.State == core.MemoryExpired && (m.ExpiresAt.IsZero() || m.ExpiresAt.After(now)) {
				m.State, m.ValidTo = core.MemoryActive, time.Time{}
			}
		}
		if c.Pinned != nil {
			note("pinned", m.Pinned, *c.Pinned)
			m.Pinned = *c.Pinned
		}
		if c.Scope != nil {
			if err := CheckScope(*c.Scope); err != nil {
				return err
			}
			note("scope", m.Scope, *c.Scope)
			if m.Scope = core.ScopeGlobal; *c.Scope == core.ScopeProject {
				m.Scope, m.Project = core.ScopeProject, s.project
			} else {
				m.Project = ""
			}
		}
		if len(what) == 0 {
			out = m
			return nil
		}
		if content != m.Content {
			m.Content, m.Source = content, core.SourceUser
			if m.State == core.MemoryArchived || m.State == core.MemoryExpired && (m.ExpiresAt.IsZero() || m.ExpiresAt.After(now)) {
				m.State, m.ValidTo = core.MemoryActive, time.Time{}
			}
		}
		m.UpdatedAt = now
		if err := s.put(ctx, w, &m); err != nil {
			return err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: id, At: now, Action: "edited", Detail: strings.Join(what, "; ")}); err != nil {
			return err
		}
		if c.Priority != nil && m.Priority == core.PriorityCritical {
			if _, err := s.capCritical(ctx, w, now, m.ID); err != nil {
				return err
			}
		}
		out, err = w.Memory(ctx, id)
		return err
	})
	return out, err
}

// put writes a row whose text may have changed, with digest, keywords and index.
func (s *Service) put(ctx context.Context, w core.MemoryWriter, m *core.Memory) error {
	m.Hash, m.Keywords = digestOf(m.Content), Keywords(s.cut, strings.ToLower(m.Content))
	ix := indexOf(s.cut, m.Content, m.Tags, m.Context)
	return w.UpdateMemory(ctx, *m, &ix)
}

// Pin sets or takes away the mark that keeps a row in every selection.
func (s *Service) Pin(ctx context.Context, id int64, pinned bool) (core.Memory, error) {
	return s.Edit(ctx, id, Change{Pinned: &pinned})
}

// Remove erases a row for good: text, index, history. What was derived from it goes too.
// A tombstone (digests only) keeps the same text from being taken up again by itself. The
// ids of all erased rows are returned.
func (s *Service) Remove(ctx context.Context, id int64) ([]int64, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	var gone []int64
	err := s.st.PurgeMemory(ctx, func(w core.MemoryWriter) error {
		gone = nil
		todo := []int64{id}
		for len(todo) > 0 {
			one := todo[0]
			todo = todo[1:]
			m, err := w.Memory(ctx, one)
			if err != nil {
				if one != id {
					continue
				}
				return err
			}
			if m.Category == core.MemoryReflection {
				if err := s.revive(ctx, w, m, s.now()); err != nil {
					return err
				}
			}
			if err := s.disinherit(ctx, w, m); err != nil {
				return err
			}
			derived, err := w.EraseMemory(ctx, one)
			if err != nil {
				return err
			}
			if m.Category != core.MemoryReflection {
				if err := w.AddTombstone(ctx, s.now(), m.Hash, digestOf(m.Content), signature(tokens(s.cut, m.Content, false))); err != nil {
					return err
				}
			}
			gone = append(gone, one)
			todo = append(todo, derived...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	clear(s.known)
	s.mu.Unlock()
	return gone, nil
}

// disinherit takes a row's text out of the context of the row that replaced it.
func (s *Service) disinherit(ctx context.Context, w core.MemoryWriter, old core.Memory) error {
	if old.SupersededBy == 0 {
		return nil
	}
	m, err := w.Memory(ctx, old.SupersededBy)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rest := strings.TrimSpace(strings.ReplaceAll(m.Context, clip(old.Content, inherited), ""))
	if rest == m.Context {
		return nil
	}
	m.Context = rest
	return s.put(ctx, w, &m)
}

// MarkUsed counts that these memories were given to a turn.
func (s *Service) MarkUsed(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return s.st.WriteMemory(ctx, func(w core.MemoryWriter) error { return w.UseMemories(ctx, ids, s.now()) })
}

// MarkOutcome records how the turn ended that these memories were given to.
func (s *Service) MarkOutcome(ctx context.Context, ids []int64, outcome string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.st.WriteMemory(ctx, func(w core.MemoryWriter) error { return w.SetOutcome(ctx, ids, outcome) })
}

func idText(ids []int64) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		out = append(out, strconv.FormatInt(id, 10))
	}
	return out
}

func unionTags(a, b []string) []string {
	out := append([]string{}, a...)
	for _, t := range b {
		if !contains(out, t) {
			out = append(out, t)
		}
	}
	sort.Strings(out)
	return out
}
