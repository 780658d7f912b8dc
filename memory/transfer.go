package memory

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Export writes all rows, whatever their state, as JSON Lines in order of id and returns
// how many. Import takes them back.
func (s *Service) Export(ctx context.Context, w io.Writer) (int, error) {
	if err := s.prepare(ctx); err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	n := 0
	err := s.st.ReadMemory(ctx, func(r core.MemoryReader) error {
		for after := int64(0); ; {
			list, err := r.Memories(ctx, core.MemoryFilter{States: []string{"*"}, After: after, ByID: true, Limit: 500})
			if err != nil {
				return err
			}
			for _, m := range list {
				after = m.ID
				full, err := r.Memory(ctx, m.ID) // with links
				if err != nil {
					return err
				}
				b, err := json.Marshal(full)
				if err != nil {
					return fmt.Errorf("export memory %d: %w", m.ID, err)
				}
				out.Write(append(b, '\n'))
				n++
			}
			if len(list) < 500 {
				return nil
			}
		}
	})
	if err != nil {
		return n, err
	}
	return n, out.Flush()
}

// Imported says what an import did.
type Imported struct {
	Added      int      `json:"added"`
	Merged     int      `json:"merged"`
	Duplicates int      `json:"duplicates"`
	Refused    int      `json:"refused"`
	Problems   []string `json:"problems"` // at most 20, with line numbers: what was refused or taken otherwise than written
	IDs        []string `json:"ids"`
	// Places are where the refused ones stand, as "line 3"; at most 20.
	Places []string `json:"-"`
}

const mostProblems = 20

// problem says why what stands at a place is refused.
func (im *Imported) problem(place, why string) {
	im.Refused++
	if len(im.Places) < mostProblems {
		im.Places = append(im.Places, place)
	}
	im.say(place, why)
}

// say tells of something at a place that is not taken as it is written.
func (im *Imported) say(place, what string) {
	if len(im.Problems) < mostProblems {
		im.Problems = append(im.Problems, place+": "+what)
	}
}

// Taken is how many of a file's memories are there now.
func (im *Imported) Taken() int { return im.Added + im.Merged + im.Duplicates }

func (im *Imported) count(place string, r Result) {
	switch r.Action {
	case ActionCreated, ActionSuperseded:
		im.Added++
	case ActionMerged:
		im.Merged++
	case ActionDuplicate:
		im.Duplicates++
	default:
		im.problem(place, r.Reason)
		return
	}
	im.IDs = append(im.IDs, r.ID)
}

// loose is a JSON value that may be of a wrong type: it is read as what it means.
type loose struct{ raw any }

func (l *loose) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &l.raw) }

func (l loose) text() string {
	switch v := l.raw.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// number is the value as an integer; ok is false for anything that is none, a boolean too.
func (l loose) number() (int, bool) {
	switch v := l.raw.(type) {
	case float64:
		if v != v || v > 1e12 || v < -1e12 {
			return 0, false
		}
		return int(v), true
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(v))
		return n, err == nil
	}
	return 0, false
}

func (l loose) truth() bool {
	switch v := l.raw.(type) {
	case bool:
		return v
	case float64:
		return v != 0
	case string:
		return v == "1" || strings.EqualFold(v, "true")
	}
	return false
}

func (l loose) list() []string {
	var out []string
	switch v := l.raw.(type) {
	case []any:
		for _, x := range v {
			out = append(out, loose{x}.text())
		}
	case string:
		out = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == '，' || r == '、' })
	}
	kept := out[:0]
	for _, t := range out {
		if t = strings.TrimSpace(t); t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

func (l loose) time(loc *time.Location) time.Time {
	t, _ := core.ParseTime(l.text(), loc)
	return t
}

type importRow struct {
	ID, Content, Category, Priority, Importance, Tags, Scope, Project, Pinned, State, Source, Session, Message loose
	CreatedAt                                                                                                  loose `json:"created_at"`
	UpdatedAt                                                                                                  loose `json:"updated_at"`
	ExpiresAt                                                                                                  loose `json:"expires_at"`
	LastUsedAt                                                                                                 loose `json:"last_used_at"`
	UseCount                                                                                                   loose `json:"use_count"`
	SupersededBy                                                                                               loose `json:"superseded_by"`
	ValidFrom                                                                                                  loose `json:"valid_from"`
	ValidTo                                                                                                    loose `json:"valid_to"`
	LastOutcome                                                                                                loose `json:"last_outcome"`
	Sources, Links                                                                                             loose
}

// odd says which values of a row can't be taken as they are written.
func (v *importRow) odd(loc *time.Location) []string {
	var out []string
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	number := func(name string, l loose, least, most, otherwise int) {
		if l.raw == nil {
			return
		}
		n, ok := l.number()
		if f, is := l.raw.(float64); is && f != float64(n) {
			ok = false
		}
		switch {
		case !ok:
			if k, is := l.number(); is {
				otherwise = max(least, min(k, most))
			}
			say("%s %q is no whole number; it is taken as %d", name, l.text(), otherwise)
		case n == 0 && least > 0:
			say("%s %d is not in %d … %d; it is taken as %d", name, n, least, most, otherwise)
		case n < least || n > most:
			say("%s %d is not in %d … %d; it is taken as %d", name, n, least, most, max(least, min(n, most)))
		}
	}
	number("priority", v.Priority, core.PriorityCritical, core.PriorityLow, core.PriorityMedium)
	number("importance", v.Importance, 1, 5, 3)
	one := func(name string, l loose, otherwise string, known ...string) {
		if t := strings.TrimSpace(l.text()); l.raw != nil && !contains(known, t) && (t != "" || !isText(l.raw)) {
			say("%s %q is not known; it is taken as %s", name, t, otherwise)
		}
	}
	one("category", v.Category, core.MemoryGeneral, core.MemoryInstruction, core.MemoryPreference, core.MemoryFact, core.MemoryReminder, core.MemoryGeneral, core.MemoryReflection)
	one("scope", v.Scope, core.ScopeGlobal, core.ScopeGlobal, core.ScopeProject)
	one("state", v.State, core.MemoryActive, core.MemoryActive, core.MemorySuperseded, core.MemoryArchived, core.MemoryExpired)
	one("source", v.Source, core.SourceImport, core.SourceUser, core.SourceTool, core.SourceModel, core.SourceImport)
	for _, f := range []struct {
		name string
		l    loose
	}{{"expires_at", v.ExpiresAt}, {"created_at", v.CreatedAt}, {"updated_at", v.UpdatedAt}, {"last_used_at", v.LastUsedAt}} {
		if f.l.raw != nil && f.l.raw != "" && f.l.time(loc).IsZero() {
			say("%s %q is not understood; it is left out", f.name, f.l.text())
		}
	}
	if v.Pinned.raw != nil && !contains([]string{"true", "false", "1", "0", ""}, strings.ToLower(v.Pinned.text())) {
		say("%s %q is not understood; it is left out", "pinned", v.Pinned.text())
	}
	switch v.Tags.raw.(type) {
	case nil, []any, string:
		for _, t := range v.Tags.list() {
			if utf8.RuneCountInString(t) > maxTag {
				say("%s %q is not understood; it is left out", "tag", clip(t, 20))
			}
		}
	default:
		say("%s %q is not understood; it is left out", "tags", v.Tags.text())
	}
	return out
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

// maxLine is the most that a line of an import may have, in bytes.
const maxLine = 8 << 20

// ImportLines takes rows from JSON Lines. A line with content alone (and properties of an
// Item) is taken up like any new memory, from the source "import"; a line with a state or
// dates is a row of an export and is stored as it is, unless the same text is there.
// Lines that can't be read are named and left out, and so is what a line says otherwise
// than it can be taken.
func (s *Service) ImportLines(ctx context.Context, r io.Reader) (Imported, error) {
	im := Imported{Problems: []string{}, IDs: []string{}}
	var rows []core.Memory
	var items []Item
	var rowAt, itemAt []string
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	line := 0
	for sc.Scan() {
		line++
		b := bytes.TrimSpace(bytes.TrimPrefix(sc.Bytes(), []byte("\xef\xbb\xbf")))
		if len(b) == 0 {
			continue
		}
		at := fmt.Sprintf("line %d", line)
		if !utf8.Valid(b) {
			im.problem(at, "it is not UTF-8 text")
			continue
		}
		var v importRow
		if err := json.Unmarshal(b, &v); err != nil {
			im.problem(at, strings.TrimPrefix(err.Error(), "json: "))
			continue
		}
		it := Item{Content: v.Content.text(), Category: v.Category.text(), Tags: v.Tags.list(), ExpiresAt: v.ExpiresAt.time(s.loc),
			Pinned: v.Pinned.truth(), Scope: v.Scope.text(), Source: core.SourceImport}
		if n, ok := v.Priority.number(); ok {
			it.Priority = &n
		}
		if n, ok := v.Importance.number(); ok {
			it.Importance = n
		}
		it, err := s.normal(it)
		if err != nil {
			im.problem(at, err.Error())
			continue
		}
		for _, what := range v.odd(s.loc) {
			im.say(at, what)
		}
		if v.State.raw == nil && v.CreatedAt.raw == nil && v.UpdatedAt.raw == nil {
			items, itemAt = append(items, it), append(itemAt, at)
			continue
		}
		m := core.Memory{Content: it.Content, Category: it.Category, Priority: *it.Priority, Importance: it.Importance, Tags: it.Tags, Scope: it.Scope,
			Pinned: it.Pinned, State: v.State.text(), Source: v.Source.text(), Session: v.Session.text(), CreatedAt: v.CreatedAt.time(s.loc),
			UpdatedAt: v.UpdatedAt.time(s.loc), ExpiresAt: it.ExpiresAt, LastUsedAt: v.LastUsedAt.time(s.loc), LastOutcome: v.LastOutcome.text(),
			ValidFrom: v.ValidFrom.time(s.loc), ValidTo: v.ValidTo.time(s.loc)}
		if m.Scope == core.ScopeProject {
			if m.Project = v.Project.text(); m.Project == "" {
				m.Project = s.project
			}
		}
		if n, ok := v.UseCount.number(); ok {
			m.UseCount = max(0, n)
		}
		number := func(l loose) int64 { n, _ := l.number(); return int64(n) }
		m.ID, m.Message, m.SupersededBy = number(v.ID), number(v.Message), number(v.SupersededBy)
		for _, t := range v.Sources.list() {
			if n, err := strconv.ParseInt(t, 10, 64); err == nil {
				m.Sources = append(m.Sources, n)
			}
		}
		for _, t := range v.Links.list() {
			if n, err := strconv.ParseInt(t, 10, 64); err == nil {
				m.Links = append(m.Links, n)
			}
		}
		rows, rowAt = append(rows, m), append(rowAt, at)
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		im.problem(fmt.Sprintf("line %d", line+1), fmt.Sprintf("it is longer than %d MiB; the file is read no further", maxLine>>20))
	} else if err != nil {
		return im, core.Errorf(core.KindUsage, "read line %d: %w", line+1, err)
	}
	if err := s.importRows(ctx, rows, rowAt, &im); err != nil {
		return im, err
	}
	return im, s.importItems(ctx, items, itemAt, &im)
}

func (s *Service) importItems(ctx context.Context, items []Item, at []string, im *Imported) error {
	res, err := s.IngestBatch(ctx, items)
	for i, r := range res {
		if r.Action != "" {
			im.count(at[i], r)
		}
	}
	return err
}

// ImportRows stores rows of another database as they are, unless the same text is there.
// Their ids are new; references between them are kept.
func (s *Service) ImportRows(ctx context.Context, rows []core.Memory) (Imported, error) {
	im := Imported{Problems: []string{}, IDs: []string{}}
	at := make([]string, len(rows))
	for i := range rows {
		at[i] = fmt.Sprintf("row %d", i+1)
	}
	return im, s.importRows(ctx, rows, at, &im)
}

func (s *Service) importRows(ctx context.Context, rows []core.Memory, at []string, im *Imported) error {
	if len(rows) == 0 {
		return nil
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	now := s.now()
	var kept []core.Memory
	var keptAt []string
	for i, m := range rows {
		it, err := s.normal(Item{Content: m.Content, Category: m.Category, Priority: &m.Priority, Importance: m.Importance, Tags: m.Tags, Scope: m.Scope, Source: core.SourceImport})
		if err != nil {
			im.problem(at[i], err.Error())
			continue
		}
		if m.Priority != *it.Priority {
			im.say(at[i], fmt.Sprintf("%s %d is not in %d … %d; it is taken as %d", "priority", m.Priority, core.PriorityCritical, core.PriorityLow, *it.Priority))
		}
		if m.Importance != it.Importance {
			im.say(at[i], fmt.Sprintf("%s %d is not in %d … %d; it is taken as %d", "importance", m.Importance, 1, 5, it.Importance))
		}
		if m.Category != it.Category {
			im.say(at[i], fmt.Sprintf("%s %q is not known; it is taken as %s", "category", m.Category, it.Category))
		}
		m.Content, m.Category, m.Priority, m.Importance, m.Tags = it.Content, it.Category, *it.Priority, it.Importance, it.Tags
		m.Scope = it.Scope
		switch m.State {
		case core.MemoryActive, core.MemorySuperseded, core.MemoryArchived, core.MemoryExpired:
		default:
			m.State = core.MemoryActive
		}
		switch m.Source {
		case core.SourceUser, core.SourceTool, core.SourceModel:
		default:
			m.Source = core.SourceImport
		}
		if m.CreatedAt.IsZero() || m.CreatedAt.After(now) {
			m.CreatedAt = now
		}
		if m.UpdatedAt.IsZero() || m.UpdatedAt.After(now) {
			m.UpdatedAt = m.CreatedAt
		}
		if m.ValidFrom.IsZero() {
			m.ValidFrom = m.CreatedAt
		}
		m.AgedAt = m.CreatedAt
		if m.LastUsedAt.After(now) {
			m.LastUsedAt = now
		}
		kept, keptAt = append(kept, m), append(keptAt, at[i])
	}
	return s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
		ids := map[int64]int64{}
		var fresh []core.Memory
		for i, m := range kept {
			old := m.ID
			m.Hash, m.Keywords = digestOf(m.Content), Keywords(s.cut, strings.ToLower(m.Content))
			if dead, err := w.Tombstoned(ctx, m.Hash, signature(tokens(s.cut, m.Content, false))); err != nil {
				return err
			} else if dead {
				im.problem(keptAt[i], fmt.Sprintf("memory %d was removed here before; lj memory add takes it up again", old))
				continue
			}
			same, err := w.MemoriesByHash(ctx, m.Hash, "*")
			if err != nil {
				return err
			}
			dup := int64(0)
			for _, o := range same {
				if o.Scope == m.Scope && o.Project == m.Project && o.State == m.State {
					dup = o.ID
				}
			}
			if dup != 0 {
				ids[old] = dup
				im.Duplicates++
				if err := w.AddEvent(ctx, core.MemoryEvent{Memory: dup, At: now, Action: "duplicate", Detail: "imported again"}); err != nil {
					return err
				}
				continue
			}
			row := m
			row.SupersededBy, row.Sources, row.Links = 0, nil, nil
			id, err := w.AddMemory(ctx, row, indexOf(s.cut, m.Content, m.Tags, m.Context))
			if err != nil {
				return err
			}
			if err := w.AddEvent(ctx, core.MemoryEvent{Memory: id, At: now, Action: "imported", Detail: "by " + m.Source}); err != nil {
				return err
			}
			ids[old], m.ID = id, id
			im.Added++
			im.IDs = append(im.IDs, strconv.FormatInt(id, 10))
			fresh = append(fresh, m)
		}
		for _, m := range fresh {
			if to := ids[m.SupersededBy]; m.SupersededBy != 0 && to != 0 {
				row, err := w.Memory(ctx, m.ID)
				if err != nil {
					return err
				}
				row.SupersededBy = to
				if err := w.UpdateMemory(ctx, row, nil); err != nil {
					return err
				}
			}
			for _, o := range m.Links {
				if to := ids[o]; to != 0 {
					if err := w.LinkMemories(ctx, m.ID, to, "linked"); err != nil {
						return err
					}
				}
			}
			for _, o := range m.Sources {
				if to := ids[o]; to != 0 {
					if err := w.LinkMemories(ctx, m.ID, to, "derived"); err != nil {
						return err
					}
				}
			}
		}
		_, err := s.capCritical(ctx, w, now, 0)
		return err
	})
}

// ImportNotes takes the entries of a memory.md up as memories, from the source "import",
// never above MEDIUM. Headings become tags.
func (s *Service) ImportNotes(ctx context.Context, r io.Reader) (Imported, error) {
	im := Imported{Problems: []string{}, IDs: []string{}}
	text, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		return im, fmt.Errorf("read notes: %w", err)
	}
	if !utf8.Valid(text) {
		im.problem("the file", "it is not UTF-8 text")
		return im, nil
	}
	var items []Item
	var at []string
	for _, n := range ParseNotes(string(text)) {
		it := Item{Content: n.Text, Source: core.SourceImport}
		if n.Heading != "" {
			it.Tags = []string{n.Heading}
		}
		items, at = append(items, it), append(at, fmt.Sprintf("line %d", n.Line))
	}
	if len(items) == 0 && len(bytes.TrimSpace(text)) > 0 {
		im.problem("the file", "it holds no entries")
	}
	return im, s.importItems(ctx, items, at, &im)
}

// Stats is what lj memory stats shows.
type Stats struct {
	core.MemoryCounts
	Indexed int `json:"indexed"`
	// Pending are conversations with messages that extraction has not read.
	Pending int `json:"pending_sessions"`
	// LastExtraction is when extraction last ran, nil for never, and LastResult what came
	// of it, or why it did not run.
	LastExtraction *time.Time `json:"last_extraction"`
	LastResult     string     `json:"last_result"`
	Thresholds     [3]int     `json:"decay_days"`
	Method         string     `json:"search"`
}

// Stats counts.
func (s *Service) Stats(ctx context.Context) (Stats, error) {
	st := Stats{Method: methodLexical + " (no embeddings endpoint)"}
	if s.embed != nil && s.vectors != nil {
		st.Method = methodHybrid + " (" + s.embed.Model() + ")"
	}
	if err := s.prepare(ctx); err != nil {
		return st, err
	}
	err := s.view(ctx, true, func(r core.MemoryReader) error {
		var err error
		if st.MemoryCounts, err = r.CountMemories(ctx); err != nil {
			return err
		}
		if st.Indexed, _, err = r.MemoryTotals(ctx); err != nil {
			return err
		}
		st.Thresholds, _, err = thresholds(ctx, r, s.now())
		return err
	})
	if err != nil {
		return st, err
	}
	pending, err := s.st.MemoryPending(ctx, 1000)
	st.Pending = len(pending)
	if err != nil {
		return st, err
	}
	if m, ok := s.st.(metaStore); ok {
		v, err := m.Meta(ctx, extractionMeta)
		if err != nil {
			return st, err
		}
		at, what, _ := strings.Cut(v, " ")
		if t, ok := core.ParseTime(at, time.UTC); ok {
			st.LastExtraction = &t
		}
		st.LastResult = what
	}
	if st.LastResult == "" {
		st.LastResult = "never ran: it waits for chat's idle time or lj evolve"
	}
	return st, nil
}

const extractionMeta = "memory_extraction"

// metaStore keeps small settings; *store.Store is one.
type metaStore interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// NoteExtraction records when extraction ran and what came of it, or why it did not.
func (s *Service) NoteExtraction(ctx context.Context, result string) error {
	if m, ok := s.st.(metaStore); ok {
		return m.SetMeta(ctx, extractionMeta, s.now().UTC().Format(time.RFC3339)+" "+result)
	}
	return nil
}
