package memory

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Add takes one thing up: as a new row, into a row that says the same, in place of rows
// that it replaces, or as one more use of a row with the same text.
//
// The error's kind is core.KindUsage for an empty or too long text and core.KindRefused
// for one with a secret, or one that was removed before and does not come from the user.
func (s *Service) Add(ctx context.Context, it Item) (Result, error) {
	it, err := s.normal(it)
	if err != nil {
		return Result{}, err
	}
	res, err := s.ingest(ctx, []Item{it})
	if err != nil {
		return Result{}, err
	}
	if res[0].Action == ActionRefused {
		return Result{}, core.Errorf(core.KindRefused, "%s", res[0].Reason)
	}
	return res[0], nil
}

// IngestBatch takes several things up, in order, each compared with all rows and with the
// items before it, in one transaction. Items that can't be stored have the action
// ActionRefused and a reason; an empty item has an empty Action.
func (s *Service) IngestBatch(ctx context.Context, items []Item) ([]Result, error) {
	out := make([]Result, len(items))
	var good []Item
	var at []int
	for i, it := range items {
		n, err := s.normal(it)
		switch {
		case err == nil:
			good, at = append(good, n), append(at, i)
		case core.KindOf(err) == core.KindRefused || strings.TrimSpace(it.Content) != "":
			out[i] = Result{Action: ActionRefused, Reason: err.Error()}
		}
	}
	if len(good) == 0 {
		return out, nil
	}
	defer s.keepStatements(len(good))()
	// A batch of any size holds the write lock for a moment only.
	const piece = 250
	for from := 0; from < len(good); from += piece {
		to := min(from+piece, len(good))
		res, err := s.ingest(ctx, good[from:to])
		if err != nil {
			return out, err
		}
		for k, r := range res {
			out[at[from+k]] = r
		}
	}
	return out, nil
}

// manyValues is how many active rows may differ from a new one in the value of the same
// attribute for it to replace them.
const manyValues = 2

// prepared is an item with everything that needs no transaction.
type prepared struct {
	Item
	st       *statement
	index    core.MemoryIndex
	hash     string
	sig      string
	keywords []string
	words    []string // index words that carry meaning
}

func (s *Service) ingest(ctx context.Context, items []Item) ([]Result, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	list := make([]prepared, len(items))
	for i, it := range items {
		p := prepared{Item: it, st: s.statement(it.Content), hash: digestOf(it.Content)}
		toks := p.st.toks
		if p.st.fixes {
			toks = tokens(s.cut, it.Content, false)
		}
		p.sig = signature(toks)
		p.index = indexOf(s.cut, it.Content, it.Tags, it.Context)
		p.keywords = Keywords(s.cut, strings.ToLower(it.Content))
		seen := map[string]bool{}
		for _, t := range toks {
			if w := indexWord(t.stem); !t.stop && !seen[w] {
				seen[w] = true
				p.words = append(p.words, w)
			}
		}
		list[i] = p
	}
	out := make([]Result, len(items))
	err := s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
		for i := range list {
			var err error
			if out[i], err = s.ingestOne(ctx, w, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// sameScope says whether a row and an item speak of the same world.
func (s *Service) sameScope(m core.Memory, it Item) bool {
	if m.Scope == core.ScopeProject {
		return it.Scope == core.ScopeProject && m.Project == s.project
	}
	return it.Scope != core.ScopeProject
}

func (s *Service) ingestOne(ctx context.Context, w core.MemoryWriter, p *prepared) (Result, error) {
	now := s.now()
	if p.Force || p.Source == core.SourceUser {
		if err := w.DropTombstone(ctx, p.hash, p.sig); err != nil {
			return Result{}, err
		}
	} else if dead, err := w.Tombstoned(ctx, p.hash, p.sig); err != nil {
		return Result{}, err
	} else if dead {
		return Result{Action: ActionRefused, Reason: "the same text was removed before"}, nil
	}
	same, err := w.MemoriesByHash(ctx, p.hash, s.scope())
	if err != nil {
		return Result{}, err
	}
	for _, m := range same {
		if s.sameScope(m, p.Item) || m.Scope == core.ScopeGlobal {
			return s.repeat(ctx, w, m, p, now)
		}
	}
	hits, err := s.similar(ctx, w, p)
	if err != nil {
		return Result{}, err
	}
	type found struct {
		m *core.Memory
		v verdict
	}
	var merge, replace, link []found
	for i := range hits {
		f := found{&hits[i].Memory, compare(s.statement, s.statement(hits[i].Memory.Content), p.st)}
		if f.v.rel >= replaces && !s.sameScope(*f.m, p.Item) {
			f.v.rel = related
		}
		if f.m.Category == core.MemoryReflection {
			continue
		}
		switch f.v.rel {
		case merges:
			merge = append(merge, f)
		case replaces:
			replace = append(replace, f)
		case related:
			link = append(link, f)
		}
	}
	sort.SliceStable(merge, func(i, j int) bool { return merge[i].v.score > merge[j].v.score })
	if len(merge) > 0 {
		return s.merge(ctx, w, *merge[0].m, p, merge[0].v, now)
	}
	at := p.CreatedAt
	if at.IsZero() || at.After(now) {
		at = now
	}
	m := core.Memory{Content: p.Content, Category: p.Category, Priority: *p.Priority, Importance: p.Importance, Tags: p.Tags, Scope: p.Scope,
		Pinned: p.Pinned, State: core.MemoryActive, Source: p.Source, Session: p.Session, Message: p.Message, Context: p.Context,
		CreatedAt: at, UpdatedAt: now, AgedAt: at, ExpiresAt: p.ExpiresAt, ValidFrom: at, Hash: p.hash, Keywords: p.keywords}
	if m.Scope == core.ScopeProject {
		m.Project = s.project
	}
	if !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(now) {
		m.State = core.MemoryExpired
	}
	// Several values that live side by side show that there can be several: one more is no
	// correction.
	var other []found
	for _, f := range replace {
		if strings.HasPrefix(f.v.reason, "another") {
			other = append(other, f)
		}
	}
	if len(other) > manyValues {
		kept := replace[:0]
		for _, f := range replace {
			if strings.HasPrefix(f.v.reason, "another") {
				f.v.reason = "one of several values"
				link = append(link, f)
			} else {
				kept = append(kept, f)
			}
		}
		replace = kept
	}
	// What others wrote never puts the user's own words aside; and an older statement does
	// not replace a newer one.
	var kept []found
	var newer *core.Memory
	for _, f := range replace {
		switch {
		case f.m.Source == core.SourceUser && p.Source != core.SourceUser && p.Source != core.SourceImport:
			link = append(link, f)
		case at.Before(f.m.ValidFrom):
			if newer == nil || f.m.ValidFrom.After(newer.ValidFrom) {
				newer = f.m
			}
		default:
			kept = append(kept, f)
		}
	}
	if newer != nil {
		m.State, m.SupersededBy, m.ValidTo = core.MemorySuperseded, newer.ID, newer.ValidFrom
	}
	index := p.index
	for _, f := range kept {
		inherit(&m, *f.m, p.st.retired)
	}
	if len(kept) > 0 {
		index = indexOf(s.cut, m.Content, m.Tags, m.Context)
	}
	id, err := w.AddMemory(ctx, m, index)
	if err != nil {
		return Result{}, err
	}
	res := Result{Action: ActionCreated, ID: idText([]int64{id})[0], With: []string{}, Content: m.Content}
	event := func(e core.MemoryEvent) {
		if err == nil {
			e.At = now
			err = w.AddEvent(ctx, e)
		}
	}
	event(core.MemoryEvent{Memory: id, Action: "created", Detail: "by " + m.Source})
	if newer != nil {
		event(core.MemoryEvent{Memory: id, Action: "superseded", Other: newer.ID, Detail: "older than what is known"})
	}
	for _, f := range kept {
		old := *f.m
		rest := s.remainder(old.Content, f.v.clause, p.st)
		old.State, old.SupersededBy, old.ValidTo, old.UpdatedAt = core.MemorySuperseded, id, at, now
		pinned := old.Pinned
		old.Pinned = false
		if err == nil {
			err = w.UpdateMemory(ctx, old, nil)
		}
		event(core.MemoryEvent{Memory: old.ID, Action: "superseded", Other: id, Detail: f.v.reason})
		event(core.MemoryEvent{Memory: id, Action: "replaces", Other: old.ID, Detail: f.v.reason})
		res.Action = ActionSuperseded
		res.With = append(res.With, idText([]int64{old.ID})...)
		if err == nil && rest != "" {
			err = s.keepRest(ctx, w, old, rest, pinned, now)
		} else if pinned && err == nil {
			m.ID, m.Pinned = id, true // what was pinned stays pinned in its new form
			err = w.UpdateMemory(ctx, m, nil)
			event(core.MemoryEvent{Memory: id, Action: "pinned", Other: old.ID, Detail: "as what it replaces was"})
		}
		if err == nil {
			err = s.dropDerived(ctx, w, old.ID, now)
		}
	}
	sort.SliceStable(link, func(i, j int) bool { return link[i].v.score > link[j].v.score })
	for i, f := range link {
		if i == 3 {
			break
		}
		if err == nil {
			err = w.LinkMemories(ctx, id, f.m.ID, "linked")
		}
		event(core.MemoryEvent{Memory: id, Action: "linked", Other: f.m.ID, Detail: f.v.reason})
		res.Linked = append(res.Linked, idText([]int64{f.m.ID})...)
	}
	if err == nil && m.State == core.MemoryActive && m.Priority == core.PriorityCritical {
		_, err = s.capCritical(ctx, w, now, id)
	}
	return res, err
}

const inherited = 300 // characters of a replaced text that help to find the new one

// inherit lets a row be found by what the row was about that it replaces: "make ship
// instead of ship_old" does not say what for.
func inherit(m *core.Memory, old core.Memory, retired []string) {
	m.Context = strings.TrimSpace(m.Context + "\n" + clip(old.Content, inherited))
	gone := map[string]bool{}
	for _, r := range retired {
		gone[strings.TrimPrefix(r, "?")] = true
	}
	n := 0
	for _, k := range old.Keywords {
		if n == 12 {
			break
		}
		if !gone[k] && !stopWords[k] && !stopHan[k] && pronouns[k] == "" && !contains(m.Keywords, k) {
			m.Keywords = append(m.Keywords[:len(m.Keywords):len(m.Keywords)], k)
			n++
		}
	}
}

// keepRest stores the parts of a replaced text that the new one says nothing about.
func (s *Service) keepRest(ctx context.Context, w core.MemoryWriter, old core.Memory, rest string, pinned bool, now time.Time) error {
	m := old
	m.ID, m.Content, m.State, m.SupersededBy, m.ValidTo, m.Pinned, m.UseCount = 0, rest, core.MemoryActive, 0, time.Time{}, pinned, 0
	m.Hash, m.Keywords, m.Links, m.Sources = digestOf(rest), Keywords(s.cut, strings.ToLower(rest)), nil, nil
	same, err := w.MemoriesByHash(ctx, m.Hash, s.scope())
	if err != nil || len(same) > 0 {
		return err
	}
	id, err := w.AddMemory(ctx, m, indexOf(s.cut, rest, m.Tags, m.Context))
	if err != nil {
		return err
	}
	if err := w.LinkMemories(ctx, id, old.ID, "linked"); err != nil {
		return err
	}
	return w.AddEvent(ctx, core.MemoryEvent{Memory: id, At: now, Action: "split", Other: old.ID, Detail: "what the replaced text said beside"})
}

// remainder is the text without one of its clauses and without those that say only what
// the new text is about; "" when nothing of weight is left.
func (s *Service) remainder(text string, clause int, new *statement) string {
	cs := clauses(text)
	if clause < 0 || clause >= len(cs) || len(cs) < 2 {
		return ""
	}
	var rest []string
	for i, c := range cs {
		if i != clause && !spokenTo(s.statement(c), new) {
			rest = append(rest, c)
		}
	}
	sep := ". "
	for _, r := range text {
		if r >= 0x4e00 && r <= 0x9fff {
			sep = "；"
			break
		}
	}
	out := strings.Join(rest, sep)
	if utf8.RuneCountInString(out) < 3 {
		return ""
	}
	return out
}

// repeat counts one more use of a row with the same text.
func (s *Service) repeat(ctx context.Context, w core.MemoryWriter, m core.Memory, p *prepared, now time.Time) (Result, error) {
	m.UseCount++
	if now.After(m.LastUsedAt) {
		m.LastUsedAt = now
	}
	detail := s.absorb(&m, p, now)
	if err := w.UpdateMemory(ctx, m, s.indexIf(m, detail)); err != nil {
		return Result{}, err
	}
	if err := w.AddEvent(ctx, core.MemoryEvent{Memory: m.ID, At: now, Action: "duplicate", Detail: join("said again by "+p.Source, detail)}); err != nil {
		return Result{}, err
	}
	if strings.Contains(detail, "priority") && m.Priority == core.PriorityCritical {
		if _, err := s.capCritical(ctx, w, now, m.ID); err != nil {
			return Result{}, err
		}
	}
	id := idText([]int64{m.ID})
	return Result{Action: ActionDuplicate, ID: id[0], With: id, Content: m.Content}, nil
}

func (s *Service) indexIf(m core.Memory, detail string) *core.MemoryIndex {
	if !strings.Contains(detail, "tags") {
		return nil
	}
	ix := indexOf(s.cut, m.Content, m.Tags, m.Context)
	return &ix
}

// absorb brings what an item says of itself into a row by the rules of a merge: the more
// urgent priority, the higher importance, all tags, the earlier expiry when both have one.
// A permanent memory stays permanent. It returns what changed.
func (s *Service) absorb(m *core.Memory, p *prepared, now time.Time) string {
	var what []string
	prio := *p.Priority
	if prio < m.Priority {
		what = append(what, fmt.Sprintf("priority %d → %d", m.Priority, prio))
		m.Priority, m.AgedAt = prio, now
	}
	if p.Importance > m.Importance {
		what = append(what, fmt.Sprintf("importance %d → %d", m.Importance, p.Importance))
		m.Importance = p.Importance
	}
	if tags := unionTags(m.Tags, p.Tags); len(p.Tags) > 0 && len(tags) != len(m.Tags) {
		what = append(what, "tags "+strings.Join(tags, ", "))
		m.Tags = tags
	}
	if !m.ExpiresAt.IsZero() && !p.ExpiresAt.IsZero() && p.ExpiresAt.Before(m.ExpiresAt) {
		what = append(what, "expires "+p.ExpiresAt.Format(time.RFC3339))
		m.ExpiresAt = p.ExpiresAt
	}
	if p.Pinned && !m.Pinned {
		what = append(what, "pinned")
		m.Pinned = true
	}
	if p.Source == core.SourceUser && m.Source != core.SourceUser {
		what = append(what, "confirmed by the user")
		m.Source = core.SourceUser
	}
	if len(what) > 0 {
		m.UpdatedAt = now
	}
	return strings.Join(what, "; ")
}

func join(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "; ")
}

// merge brings an item into a row that says the same.
func (s *Service) merge(ctx context.Context, w core.MemoryWriter, m core.Memory, p *prepared, v verdict, now time.Time) (Result, error) {
	before := m.Content
	detail := s.absorb(&m, p, now)
	text := m.Content
	if bo, bn := bare(m.Content), bare(p.Content); bo != bn && utf8.RuneCountInString(p.Content) > utf8.RuneCountInString(m.Content) &&
		(p.Source == core.SourceUser || m.Source != core.SourceUser) {
		text = p.Content // the fuller one
	}
	m.UpdatedAt = now
	m.UseCount++
	if now.After(m.LastUsedAt) {
		m.LastUsedAt = now
	}
	var err error
	if text != m.Content {
		m.Content = text
		err = s.put(ctx, w, &m)
		detail = join(v.reason, "was: "+before, detail)
	} else {
		err = w.UpdateMemory(ctx, m, s.indexIf(m, detail))
		detail = join(v.reason, "also said: "+p.Content, detail)
	}
	if err != nil {
		return Result{}, err
	}
	if err := w.AddEvent(ctx, core.MemoryEvent{Memory: m.ID, At: now, Action: "merged", Detail: detail}); err != nil {
		return Result{}, err
	}
	if strings.Contains(detail, "priority") && m.Priority == core.PriorityCritical {
		if _, err := s.capCritical(ctx, w, now, m.ID); err != nil {
			return Result{}, err
		}
	}
	id := idText([]int64{m.ID})
	return Result{Action: ActionMerged, ID: id[0], With: id, Content: m.Content}, nil
}

// The bounds of a search for rows like a new one.
const (
	similarRows = 10  // rows that are compared word by word
	rareRows    = 120 // index entries that the rarest words may have together
)

// similar finds active rows with words in common, the most alike first.
func (s *Service) similar(ctx context.Context, r core.MemoryReader, p *prepared) ([]core.MemoryHit, error) {
	words := p.words
	if len(words) == 0 {
		for w := range strings.FieldsSeq(p.index.Words) {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return nil, nil
	}
	rare, common, err := s.rarest(ctx, r, words, rareRows, 8)
	if err != nil {
		return nil, err
	}
	hits := make([]core.MemoryHit, 0, 2*similarRows+4)
	seen := map[int64]bool{}
	add := func(q core.MemoryQuery) error {
		q.Project, q.Column = s.scope(), "words"
		list, err := r.MatchMemories(ctx, q)
		for _, h := range list {
			if !seen[h.Memory.ID] {
				seen[h.Memory.ID] = true
				hits = append(hits, h)
			}
		}
		return err
	}
	if len(rare) > 0 {
		if err := add(core.MemoryQuery{Any: rare, Limit: similarRows + 4}); err != nil {
			return nil, err
		}
	}
	if len(common) >= 2 {
		if err := add(core.MemoryQuery{All: common[:min(len(common), 3)], Newest: true, Limit: max(similarRows/2, similarRows-len(hits))}); err != nil {
			return nil, err
		}
	} else if len(common) == 1 && len(rare) == 0 {
		if err := add(core.MemoryQuery{All: common, Newest: true, Limit: similarRows}); err != nil {
			return nil, err
		}
	}
	mine := map[string]bool{}
	for _, w := range words {
		mine[w] = true
	}
	for i := range hits {
		n, both := 0, 0
		for w := range strings.FieldsSeq(hits[i].Index.Words) {
			n++
			if mine[w] {
				both++
			}
		}
		hits[i].Score = float64(both) / float64(len(words)+max(n-both, 0)+1)
		if 4*both < min(n, len(words)) {
			hits[i].Score = 0 // not even a part of one is like a part of the other
		}
	}
	sortLarge(hits, func(a, b *core.MemoryHit) int { return cmp.Compare(b.Score, a.Score) })
	if len(p.st.retired) == 0 {
		for i, h := range hits {
			if h.Score < 0.08 && i > 2 {
				hits = hits[:i]
				break
			}
		}
	}
	return hits[:min(len(hits), similarRows)], nil
}

// rarest divides words into those that the index has few rows for, up to a number of rows
// together, and the others, rarest first in both. Words without rows are left out.
func (s *Service) rarest(ctx context.Context, r core.MemoryReader, words []string, budget, most int) (rare, common []string, err error) {
	counts, err := r.WordCounts(ctx, words)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	var list []string
	for _, w := range words {
		if counts[w] > 0 && !seen[w] {
			seen[w] = true
			list = append(list, w)
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return counts[list[i]] < counts[list[j]] })
	sum := 0
	for _, w := range list {
		if sum += counts[w]; len(common) == 0 && sum <= budget && len(rare) < most {
			rare = append(rare, w)
		} else {
			common = append(common, w)
		}
	}
	return rare, common, nil
}

// capCritical archives the oldest CRITICAL rows beyond MaxCritical; pinned ones and keep
// stay.
func (s *Service) capCritical(ctx context.Context, w core.MemoryWriter, now time.Time, keep int64) ([]core.Memory, error) {
	list, err := w.Memories(ctx, core.MemoryFilter{Priorities: []int{core.PriorityCritical}})
	if err != nil {
		return nil, err
	}
	over := len(list) - MaxCritical
	if over <= 0 {
		return nil, nil
	}
	sort.SliceStable(list, func(i, j int) bool {
		if !list[i].CreatedAt.Equal(list[j].CreatedAt) {
			return list[i].CreatedAt.Before(list[j].CreatedAt)
		}
		return list[i].ID < list[j].ID
	})
	var out []core.Memory
	for _, m := range list {
		if over == 0 {
			break
		}
		if m.Pinned || m.ID == keep {
			continue
		}
		m.State, m.UpdatedAt, m.ValidTo = core.MemoryArchived, now, now
		if err := w.UpdateMemory(ctx, m, nil); err != nil {
			return nil, err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: m.ID, At: now, Action: "archived", Other: keep,
			Detail: fmt.Sprintf("more than %d CRITICAL memories; the oldest goes out", MaxCritical)}); err != nil {
			return nil, err
		}
		out = append(out, m)
		over--
	}
	return out, nil
}
