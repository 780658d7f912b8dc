package core

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The categories of a memory.
const (
	MemoryInstruction = "instruction"
	MemoryPreference  = "preference"
	MemoryFact        = "fact"
	MemoryReminder    = "reminder"
	MemoryGeneral     = "general"
	MemoryReflection  = "reflection" // derived from others, lives as long as they do
)

// The priorities of a memory, most urgent first.
const (
	PriorityCritical = iota
	PriorityHigh
	PriorityMedium
	PriorityLow
)

// The states of a memory. Only an active one is ever injected.
const (
	MemoryActive     = "active"
	MemorySuperseded = "superseded"
	MemoryArchived   = "archived"
	MemoryExpired    = "expired"
)

// Where a memory comes from. Only what the user said may be a rule.
const (
	SourceUser   = "user"
	SourceTool   = "tool"
	SourceModel  = "model"
	SourceImport = "import"
)

// The scopes of a memory.
const (
	ScopeGlobal  = "global"
	ScopeProject = "project"
)

// Memory is one thing remembered. A zero time means never.
type Memory struct {
	ID         int64
	Content    string
	Category   string
	Priority   int // 0 CRITICAL … 3 LOW
	Importance int // 1 … 5
	Tags       []string
	Scope      string // ScopeGlobal or ScopeProject
	Project    string // absolute path, for ScopeProject
	Pinned     bool
	State      string
	Source     string
	Session    string // where it was said, "" for none
	Message    int64  // its message there, 0 for none
	// Context are words around the content that help to find it (the message before, a
	// date); they are searched and never shown.
	Context      string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	AgedAt       time.Time // when its priority last changed; ageing counts from here
	ExpiresAt    time.Time
	LastUsedAt   time.Time
	UseCount     int
	LastOutcome  string // how the last turn that used it ended, "" for unknown
	ValidFrom    time.Time
	ValidTo      time.Time // when it stopped being true
	SupersededBy int64
	// Hash is the digest of the normalised content, by which an exact repetition is found.
	Hash string
	// Keywords are the words that selection compares with the topic.
	Keywords []string
	// Sources are the memories that this one was derived from, for MemoryReflection.
	Sources []int64
	// Links are other memories on the same subject that neither merged nor replaced.
	Links []int64
}

type memoryJSON struct {
	ID           string     `json:"id"`
	Content      string     `json:"content"`
	Category     string     `json:"category"`
	Priority     int        `json:"priority"`
	Importance   int        `json:"importance"`
	Tags         []string   `json:"tags"`
	Scope        string     `json:"scope"`
	Project      string     `json:"project,omitempty"`
	Pinned       bool       `json:"pinned"`
	State        string     `json:"state"`
	Source       string     `json:"source"`
	Session      string     `json:"session,omitempty"`
	Message      int64      `json:"message,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
	ExpiresAt    *time.Time `json:"expires_at"`
	LastUsedAt   *time.Time `json:"last_used_at"`
	UseCount     int        `json:"use_count"`
	SupersededBy *string    `json:"superseded_by"`
	ValidFrom    *time.Time `json:"valid_from,omitempty"`
	ValidTo      *time.Time `json:"valid_to,omitempty"`
	LastOutcome  string     `json:"last_outcome,omitempty"`
	Sources      []string   `json:"sources,omitempty"`
	Links        []string   `json:"links,omitempty"`
}

// MarshalJSON writes the row of the command line contract: ids are strings, missing
// times null.
func (m Memory) MarshalJSON() ([]byte, error) {
	opt := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	ids := func(in []int64) (out []string) {
		for _, v := range in {
			out = append(out, strconv.FormatInt(v, 10))
		}
		return out
	}
	j := memoryJSON{
		ID: strconv.FormatInt(m.ID, 10), Content: m.Content, Category: m.Category, Priority: m.Priority, Importance: m.Importance,
		Tags: m.Tags, Scope: m.Scope, Project: m.Project, Pinned: m.Pinned, State: m.State, Source: m.Source, Session: m.Session,
		Message: m.Message, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, ExpiresAt: opt(m.ExpiresAt), LastUsedAt: opt(m.LastUsedAt),
		UseCount: m.UseCount, ValidFrom: opt(m.ValidFrom), ValidTo: opt(m.ValidTo), LastOutcome: m.LastOutcome,
		Sources: ids(m.Sources), Links: ids(m.Links),
	}
	if j.Tags == nil {
		j.Tags = []string{}
	}
	if m.SupersededBy != 0 {
		s := strconv.FormatInt(m.SupersededBy, 10)
		j.SupersededBy = &s
	}
	return json.Marshal(j)
}

// MemoryEvent is one line of a memory's history.
type MemoryEvent struct {
	Memory int64     `json:"-"`
	At     time.Time `json:"at"`
	Action string    `json:"action"` // created, merged, duplicate, superseded, replaces, linked, edited, used …
	Detail string    `json:"detail,omitempty"`
	Other  int64     `json:"other,omitempty"` // the other memory it is about, 0 for none
}

// MemoryIndex is what a search looks at: words separated by blanks, each of letters and
// digits only.
type MemoryIndex struct {
	Words   string
	Grams   string
	Context string
}

// MemoryQuery asks the index for candidates. Any and All hold index words; a row must hold
// all of All and, when Any is not empty, at least one of Any.
type MemoryQuery struct {
	Any    []string
	All    []string
	Column string // "words", "grams", "context" or "" for all
	Prefix bool   // the words are beginnings of words
	// Newest orders by id, newest first, without a score; otherwise the best by BM25
	// first, with the columns weighed 1, 0.3 and 0.35.
	Newest bool
	// States limits to rows in these states; nil is active ones only.
	States  []string
	Project string // rows of this project and global ones; "*" for all
	Limit   int
}

// MemoryHit is one answer of the index. Score is the negated bm25() of SQLite: more is
// better; 0 with Newest.
type MemoryHit struct {
	Memory Memory
	Index  MemoryIndex
	Score  float64
}

// MemoryRank is what ranking needs of a row. Keywords and Tags are separated by line feeds.
type MemoryRank struct {
	ID         int64
	Priority   int
	Importance int
	LastUsedAt time.Time
	Keywords   string
	Tags       string
}

// MemoryFilter narrows a list. The zero value is all active rows.
type MemoryFilter struct {
	States     []string // nil: active only
	Category   string
	Priorities []int
	Pinned     bool   // pinned rows only
	Project    string // rows of this project and global ones; "" and "*" are all
	DueBefore  time.Time
	Limit      int
	After      int64 // ids above this, for paging in order of id
	ByID       bool  // ascending by id; otherwise by priority, then newest use, then id
}

// MemoryTier is a group of rows whose rank without a query depends on their last use only.
type MemoryTier struct{ Priority, Importance int }

// MemoryReader reads memories within one transaction.
type MemoryReader interface {
	// Memory returns one row; the error wraps ErrNotFound.
	Memory(ctx context.Context, id int64) (Memory, error)
	// MemoriesByID returns the rows with these ids that exist, in the order of the ids,
	// without their links and sources.
	MemoriesByID(ctx context.Context, ids []int64) ([]Memory, error)
	Memories(ctx context.Context, f MemoryFilter) ([]Memory, error)
	MatchMemories(ctx context.Context, q MemoryQuery) ([]MemoryHit, error)
	// MemoriesByHash returns the active rows with this digest that may be seen from a
	// project; with the project "*" those of every project and in every state.
	MemoriesByHash(ctx context.Context, hash, project string) ([]Memory, error)
	// MemoryTierTop returns the most recently used rows of a group.
	MemoryTierTop(ctx context.Context, t MemoryTier, project string, limit int) ([]MemoryRank, error)
	// RankMemories is MatchMemories with what ranking needs only.
	RankMemories(ctx context.Context, q MemoryQuery) ([]MemoryRank, error)
	// DueMemories returns active, unpinned rows of priority 0, 1 and 2 that have their
	// priority since at most the given times.
	DueMemories(ctx context.Context, before [3]time.Time) ([]Memory, error)
	// WordCounts says in how many rows each index word occurs, and Total how many rows are
	// indexed with how many words in all.
	WordCounts(ctx context.Context, words []string) (map[string]int, error)
	MemoryTotals(ctx context.Context) (rows, words int, err error)
	// ContentLike returns active rows whose content holds this piece of text, newest first.
	ContentLike(ctx context.Context, piece string, f MemoryFilter) ([]Memory, error)
	MemoryEvents(ctx context.Context, id int64) ([]MemoryEvent, error)
	// Tombstoned says whether content with one of these digests was removed by a person.
	Tombstoned(ctx context.Context, hashes ...string) (bool, error)
	// DerivedMemories are the ids of rows of which this one is a source.
	DerivedMemories(ctx context.Context, id int64) ([]int64, error)
	// OddMemories says whether an active row lacks its priority, importance or age.
	OddMemories(ctx context.Context) (bool, error)
	// MemoryRanks lists what ranking needs of active rows, CRITICAL ones aside, in the order
	// of priority, newest use and id.
	MemoryRanks(ctx context.Context, project string, limit int) ([]MemoryRank, error)
	// FewMemories says whether there are at most so many active rows below CRITICAL.
	FewMemories(ctx context.Context, most int) (bool, error)
	// CountMemories counts rows by state and category, bytes of content, and rows created
	// since a time.
	CountMemories(ctx context.Context) (MemoryCounts, error)
	ActiveSince(ctx context.Context, since time.Time) (int, error)
}

// MemoryCounts is what the store knows of the whole.
type MemoryCounts struct {
	States     map[string]int `json:"states"`
	Categories map[string]int `json:"categories"` // of active rows
	Pinned     int            `json:"pinned"`
	Bytes      int64          `json:"content_bytes"`
	Tombstones int            `json:"tombstones"`
	Events     int            `json:"history"`
}

// MemoryWriter reads and writes memories within one transaction.
type MemoryWriter interface {
	MemoryReader
	// AddMemory stores a new row with its index and returns its id.
	AddMemory(ctx context.Context, m Memory, ix MemoryIndex) (int64, error)
	// UpdateMemory replaces a row; its index too unless ix is nil.
	UpdateMemory(ctx context.Context, m Memory, ix *MemoryIndex) error
	// UseMemories counts one use of each row.
	UseMemories(ctx context.Context, ids []int64, at time.Time) error
	SetOutcome(ctx context.Context, ids []int64, outcome string) error
	LinkMemories(ctx context.Context, a, b int64, kind string) error
	AddEvent(ctx context.Context, e MemoryEvent) error
	// EraseMemory takes a row, its index, history and links away; derived rows of which it
	// was a source are returned.
	EraseMemory(ctx context.Context, id int64) (derived []int64, err error)
	// RepairMemories gives rows with missing values their defaults and returns how many.
	RepairMemories(ctx context.Context) (int, error)
	// ResetMemoryIndex empties the index and AddMemoryIndex fills it again, row by row.
	ResetMemoryIndex(ctx context.Context) error
	AddMemoryIndex(ctx context.Context, id int64, ix MemoryIndex) error
	AddTombstone(ctx context.Context, at time.Time, hashes ...string) error
	DropTombstone(ctx context.Context, hashes ...string) error
}

// ParseTime reads a written time: RFC 3339 and ISO 8601 with or without zone, a
// blank instead of the T, a date alone (its beginning), slashes instead of dashes, or
// milliseconds since 1970. A time without zone is in loc. It reports whether it could.
func ParseTime(s string, loc *time.Location) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return time.Time{}, false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 1e11 {
		return time.UnixMilli(n), true
	}
	s = strings.ReplaceAll(s, "/", "-")
	for _, f := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(f, s); err == nil {
			return t, true
		}
	}
	for _, f := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02", "2006-1-2", "2006-1-2 15:04:05"} {
		if t, err := time.ParseInLocation(f, s, loc); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
