package memory

import (
	"context"
	_ "embed" // the prompt
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
)

// Maintained is one thing that maintenance changed.
type Maintained struct {
	Action  string `json:"action"` // expired, aged, merged, superseded, archived
	ID      string `json:"id"`
	Other   string `json:"other,omitempty"`
	Detail  string `json:"detail"`
	Content string `json:"content"`
}

// String is the change as one line for people.
func (m Maintained) String() string {
	other := ""
	if m.Other != "" {
		other = " (with " + m.Other + ")"
	}
	return fmt.Sprintf("%s %s%s: %s: %s", m.Action, m.ID, other, m.Detail, clip(strings.Join(strings.Fields(m.Content), " "), 80))
}

var errDry = errors.New("dry run")

// maxCompared is how many of the newest rows maintenance compares with the others.
const maxCompared = 3000

// Maintain lets expire what is due and age what is old, merges rows that say the same,
// puts aside rows that a newer one replaces, and keeps the limit of CRITICAL rows. With
// dry it only says what it would do.
func (s *Service) Maintain(ctx context.Context, dry bool) ([]Maintained, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	out := []Maintained{}
	now := s.now()
	line := func(action string, m core.Memory, other int64, detail string) {
		l := Maintained{Action: action, ID: idText([]int64{m.ID})[0], Detail: detail, Content: m.Content}
		if other != 0 {
			l.Other = idText([]int64{other})[0]
		}
		out = append(out, l)
	}
	err := s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
		expired, err := s.expire(ctx, w, now)
		if err != nil {
			return err
		}
		for _, m := range expired {
			line("expired", m, 0, "on "+m.ExpiresAt.Format(time.RFC3339))
		}
		fell, err := s.age(ctx, w, now)
		if err != nil {
			return err
		}
		for _, a := range fell {
			line("aged", a.m, 0, fmt.Sprintf("%s → %s after %d days", PriorityName(a.from), PriorityName(a.m.Priority), a.days))
		}
		if err := s.dedup(ctx, w, now, line); err != nil {
			return err
		}
		archived, err := s.capCritical(ctx, w, now, 0)
		if err != nil {
			return err
		}
		for _, m := range archived {
			line("archived", m, 0, fmt.Sprintf("more than %d CRITICAL, the oldest goes out", MaxCritical))
		}
		if dry {
			return errDry
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDry) {
		return nil, err
	}
	return out, nil
}

// dedup compares active rows with those before them.
func (s *Service) dedup(ctx context.Context, w core.MemoryWriter, now time.Time, line func(string, core.Memory, int64, string)) error {
	all, err := w.Memories(ctx, core.MemoryFilter{ByID: true})
	if err != nil {
		return err
	}
	list := all[max(0, len(all)-maxCompared):]
	gone := map[int64]bool{}
	for _, m := range list {
		if gone[m.ID] || m.Category == core.MemoryReflection {
			continue
		}
		p := &prepared{Item: Item{Content: m.Content, Category: m.Category, Priority: &m.Priority, Importance: m.Importance, Tags: m.Tags, Scope: m.Scope,
			Pinned: m.Pinned, Source: m.Source, ExpiresAt: m.ExpiresAt}, st: s.statement(m.Content), hash: m.Hash}
		p.index = indexOf(s.cut, m.Content, nil, "")
		for _, t := range tokens(s.cut, m.Content, false) {
			if !t.stop {
				p.words = append(p.words, indexWord(t.stem))
			}
		}
		hits, err := s.similar(ctx, w, p)
		if err != nil {
			return err
		}
		for _, h := range hits {
			o := h.Memory
			if o.ID >= m.ID || gone[o.ID] || o.Category == core.MemoryReflection || o.Scope != m.Scope || o.Project != m.Project {
				continue
			}
			v := compare(s.statement, s.statement(o.Content), p.st)
			older, newer := o, m
			if m.ValidFrom.Before(o.ValidFrom) {
				older, newer = m, o
				v = compare(s.statement, s.statement(older.Content), s.statement(newer.Content))
			}
			switch {
			case v.rel == merges:
				if err := s.mergeRows(ctx, w, o, m, v, now); err != nil {
					return err
				}
				gone[m.ID] = true
				line("merged", m, o.ID, v.reason)
			case v.rel == replaces && v.clause < 0 && (older.Source != core.SourceUser || newer.Source == core.SourceUser):
				older.State, older.SupersededBy, older.ValidTo, older.UpdatedAt = core.MemorySuperseded, newer.ID, newer.ValidFrom, now
				if err := w.UpdateMemory(ctx, older, nil); err != nil {
					return err
				}
				for _, e := range []core.MemoryEvent{{Memory: older.ID, Action: "superseded", Other: newer.ID, Detail: v.reason},
					{Memory: newer.ID, Action: "replaces", Other: older.ID, Detail: v.reason}} {
					e.At = now
					if err := w.AddEvent(ctx, e); err != nil {
						return err
					}
				}
				if err := s.dropDerived(ctx, w, older.ID, now); err != nil {
					return err
				}
				gone[older.ID] = true
				line("superseded", older, newer.ID, v.reason)
			}
			if gone[m.ID] {
				break
			}
		}
	}
	return nil
}

// mergeRows brings row b into row a by the rules of batch deduplication: the fuller text,
// all tags, one step more urgent (but never CRITICAL by that), one more important. b is
// archived and points to a.
func (s *Service) mergeRows(ctx context.Context, w core.MemoryWriter, a, b core.Memory, v verdict, now time.Time) error {
	before := a.Content
	if utf8.RuneCountInString(b.Content) > utf8.RuneCountInString(a.Content) && bare(a.Content) != bare(b.Content) {
		a.Content = b.Content
	}
	a.Tags = unionTags(a.Tags, b.Tags)
	a.Priority = min(a.Priority, b.Priority)
	if a.Priority > core.PriorityHigh {
		a.Priority--
		a.AgedAt = now
	}
	a.Importance = min(5, max(a.Importance, b.Importance)+1)
	a.UseCount += b.UseCount
	a.Pinned = a.Pinned || b.Pinned
	switch {
	case a.ExpiresAt.IsZero() || b.ExpiresAt.IsZero():
		a.ExpiresAt = time.Time{}
	case b.ExpiresAt.Before(a.ExpiresAt):
		a.ExpiresAt = b.ExpiresAt
	}
	if b.Source == core.SourceUser {
		a.Source = core.SourceUser
	}
	if b.LastUsedAt.After(a.LastUsedAt) {
		a.LastUsedAt = b.LastUsedAt
	}
	a.UpdatedAt = now
	if err := s.put(ctx, w, &a); err != nil {
		return err
	}
	b.State, b.SupersededBy, b.ValidTo, b.UpdatedAt = core.MemoryArchived, a.ID, now, now
	b.Pinned = false
	if err := w.UpdateMemory(ctx, b, nil); err != nil {
		return err
	}
	detail := v.reason
	if a.Content != before {
		detail += "; was: " + before
	}
	if err := w.AddEvent(ctx, core.MemoryEvent{Memory: a.ID, At: now, Action: "merged", Other: b.ID, Detail: detail}); err != nil {
		return err
	}
	return w.AddEvent(ctx, core.MemoryEvent{Memory: b.ID, At: now, Action: "archived", Other: a.ID, Detail: "merged: " + v.reason})
}

// Reflected is one derived row of Reflect.
type Reflected struct {
	ID       string   `json:"id"`
	Content  string   `json:"content"`
	Sources  []string `json:"sources"`
	Archived []string `json:"archived"`
	// Reason says why the text is a list and not the model's, "" when it is the model's.
	Reason string `json:"reason,omitempty"`
}

const (
	clusterLeast = 3
	clusterMost  = 12
	clusterNear  = 0.15
	maxDerived   = 1200 // characters of a derived text
)

//go:embed prompts/reflect.txt
var reflectPrompt string

// Reflect groups active memories on one subject and writes for each group one derived row
// with what they say together, in the model's words, below its members in rank and of no
// rule's force. A text that says what no member says is not taken: then the row lists its
// members. Members of LOW priority that were not used for 90 days and that the text covers
// are archived. A group that has its row already is left alone, and derived rows are never
// grouped, nor what was quoted from files and tools. A derived row dies when one of its
// sources is replaced, expires or is removed; what was archived for it is then active
// again.
//
// There is one request for each group; the rows of the groups before it stay when one
// fails, and the error is returned with them.
func (s *Service) Reflect(ctx context.Context, ask Asker) ([]Reflected, error) {
	out := []Reflected{}
	groups, err := s.Groups(ctx)
	if err != nil {
		return out, err
	}
	for _, group := range groups {
		var b strings.Builder
		for _, m := range group {
			fmt.Fprintf(&b, "- %s\n", strings.Join(strings.Fields(m.Content), " "))
		}
		answer, err := ask.Ask(ctx, "reflect", reflectPrompt, b.String())
		if err != nil {
			return out, err
		}
		text, reason := s.derivedText(answer, group)
		now := s.now()
		var r Reflected
		changed := false
		err = s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
			changed = false
			for _, m := range group {
				// Others may have changed it while the model wrote.
				now, err := w.Memory(ctx, m.ID)
				if errors.Is(err, core.ErrNotFound) || err == nil && (now.State != core.MemoryActive || now.Content != m.Content) {
					changed = true
					return nil
				}
				if err != nil {
					return err
				}
			}
			var err error
			r, err = s.reflectOn(ctx, w, group, text, reason, now)
			return err
		})
		if err != nil {
			return out, err
		}
		if !changed {
			out = append(out, r)
		}
	}
	return out, nil
}

// derivedText is the model's text for a group where it says nothing else than its members;
// else "" and why not.
func (s *Service) derivedText(answer string, group []core.Memory) (text, reason string) {
	text = strings.TrimSpace(clean(thinking().ReplaceAllString(answer, "")))
	if m := fences().FindStringSubmatch(text); m != nil && strings.HasPrefix(text, "```") {
		text = strings.TrimSpace(m[1])
	}
	ground := map[string]bool{}
	for _, m := range group {
		for _, t := range tokens(s.cut, m.Content, true) {
			if !t.stop {
				ground[t.stem] = true
			}
		}
		grams(m.Content, func(g string) { ground[g] = true })
	}
	switch {
	case text == "":
		return "", "the model said nothing"
	case utf8.RuneCountInString(text) > maxDerived:
		return "", "the model's text is too long"
	case s.holdsSecret(text):
		return "", "the model's text holds a secret"
	case s.coverage(text, ground) < 0.7:
		return "", "the model's text says what no memory says"
	}
	return text, ""
}

// Groups are the groups of memories on one subject that have no derived row yet.
func (s *Service) Groups(ctx context.Context) ([][]core.Memory, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	var out [][]core.Memory
	err := s.st.ReadMemory(ctx, func(r core.MemoryReader) error {
		list, err := r.Memories(ctx, core.MemoryFilter{ByID: true})
		if err != nil {
			return err
		}
		covered := map[int64]bool{}
		var rows []core.Memory
		for _, m := range list {
			if m.Category == core.MemoryReflection {
				full, err := r.Memory(ctx, m.ID)
				if err != nil {
					return err
				}
				for _, src := range full.Sources {
					covered[src] = true
				}
				continue
			}
			if m.Source != core.SourceTool {
				rows = append(rows, m)
			}
		}
		out = s.clusters(rows, covered)
		return nil
	})
	return out, err
}

// clusters groups rows of one category and scope by the words that they share, weighed by
// how rare they are. The result depends on the rows only.
func (s *Service) clusters(rows []core.Memory, covered map[int64]bool) [][]core.Memory {
	df := map[string]int{}
	words := make([]map[string]bool, len(rows))
	for i, m := range rows {
		words[i] = map[string]bool{}
		for _, k := range m.Keywords {
			if !stopWords[k] && !stopHan[k] && pronouns[k] == "" {
				words[i][stemOf(k)] = true
			}
		}
		for k := range words[i] {
			df[k]++
		}
	}
	near := func(a, b int) float64 {
		both, all := 0.0, 0.0
		for k := range words[a] {
			v := 1 / float64(1+df[k])
			all += v
			if words[b][k] {
				both += v
			}
		}
		for k := range words[b] {
			if !words[a][k] {
				all += 1 / float64(1+df[k])
			}
		}
		if all == 0 {
			return 0
		}
		return both / all
	}
	by := map[string][]int{}
	var keys []string
	for i, m := range rows {
		if covered[m.ID] {
			continue
		}
		k := m.Category + "\x00" + m.Scope + "\x00" + m.Project
		if by[k] == nil {
			keys = append(keys, k)
		}
		by[k] = append(by[k], i)
	}
	sort.Strings(keys)
	var out [][]core.Memory
	for _, k := range keys {
		idx := by[k]
		if len(idx) > 400 {
			idx = idx[len(idx)-400:]
		}
		used := map[int]bool{}
		for _, seed := range idx {
			if used[seed] {
				continue
			}
			type cand struct {
				i int
				n float64
			}
			var cs []cand
			for _, j := range idx {
				if j != seed && !used[j] {
					if n := near(seed, j); n >= clusterNear {
						cs = append(cs, cand{j, n})
					}
				}
			}
			if len(cs)+1 < clusterLeast {
				continue
			}
			sort.SliceStable(cs, func(a, b int) bool { return cs[a].n > cs[b].n })
			group := []core.Memory{rows[seed]}
			used[seed] = true
			for _, c := range cs[:min(len(cs), clusterMost-1)] {
				used[c.i] = true
				group = append(group, rows[c.i])
			}
			sort.SliceStable(group, func(a, b int) bool {
				if group[a].Priority != group[b].Priority {
					return group[a].Priority < group[b].Priority
				}
				return group[a].ID < group[b].ID
			})
			out = append(out, group)
		}
	}
	return out
}

// reflectOn writes the derived row of a group: text, or a list of the members when it is "".
func (s *Service) reflectOn(ctx context.Context, w core.MemoryWriter, group []core.Memory, text, reason string, now time.Time) (Reflected, error) {
	ground := map[string]bool{}
	for _, t := range tokens(s.cut, text, true) {
		ground[t.stem] = true
	}
	grams(text, func(g string) { ground[g] = true })
	whole := map[int64]bool{} // whose text the row covers
	r := Reflected{Sources: []string{}, Archived: []string{}, Reason: reason}
	top := core.PriorityLow
	for _, m := range group {
		top = min(top, m.Priority)
		r.Sources = append(r.Sources, idText([]int64{m.ID})...)
		whole[m.ID] = text != "" && s.coverage(m.Content, ground) >= 0.9
	}
	if text == "" {
		text = s.listOf(group, whole, now)
	}
	m := core.Memory{Content: text, Category: core.MemoryReflection, Priority: min(core.PriorityLow, max(core.PriorityMedium, top+1)), Importance: 2,
		Tags: []string{"summary", group[0].Category}, Scope: group[0].Scope, Project: group[0].Project, State: core.MemoryActive, Source: core.SourceModel,
		CreatedAt: now, UpdatedAt: now, AgedAt: now, ValidFrom: now}
	for _, g := range group {
		m.Sources = append(m.Sources, g.ID)
	}
	m.Hash, m.Keywords = digestOf(m.Content), Keywords(s.cut, strings.ToLower(m.Content))
	id, err := w.AddMemory(ctx, m, indexOf(s.cut, m.Content, m.Tags, ""))
	if err != nil {
		return r, err
	}
	r.ID, r.Content = idText([]int64{id})[0], m.Content
	if err := w.AddEvent(ctx, core.MemoryEvent{Memory: id, At: now, Action: "created", Detail: "derived from " + strings.Join(r.Sources, ", ")}); err != nil {
		return r, err
	}
	for _, g := range group {
		if g.Priority != core.PriorityLow || g.Pinned || !whole[g.ID] || now.Sub(g.CreatedAt) < 90*day || now.Sub(g.LastUsedAt) < 90*day {
			continue
		}
		g.State, g.UpdatedAt = core.MemoryArchived, now
		if err := w.UpdateMemory(ctx, g, nil); err != nil {
			return r, err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: g.ID, At: now, Action: "archived", Other: id, Detail: "long unused; its text is in the summary"}); err != nil {
			return r, err
		}
		r.Archived = append(r.Archived, idText([]int64{g.ID})...)
	}
	return r, nil
}

// listOf is the text of a derived row without a model: a heading, the most frequent words,
// the first members. It marks those that are wholly in it.
func (s *Service) listOf(group []core.Memory, whole map[int64]bool, now time.Time) string {
	counts := map[string]int{}
	var order []string
	for _, m := range group {
		for _, k := range m.Keywords {
			if stopWords[k] || stopHan[k] || utf8.RuneCountInString(k) < 2 {
				continue
			}
			if counts[k] == 0 {
				order = append(order, k)
			}
			counts[k]++
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return counts[order[i]] > counts[order[j]] })
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] 反思归纳 (%s)\n涵盖 %d 条相关记忆\n", strings.ToUpper(group[0].Category), now.In(s.loc).Format(time.DateOnly), len(group))
	if len(order) > 0 {
		fmt.Fprintf(&b, "关键词: %s\n", strings.Join(order[:min(len(order), 5)], ", "))
	}
	b.WriteString("---")
	for i, m := range group {
		if i < 5 {
			line := strings.Join(strings.Fields(m.Content), " ")
			whole[m.ID] = utf8.RuneCountInString(line) <= 100
			fmt.Fprintf(&b, "\n%d. %s", i+1, clip(line, 100))
		}
	}
	if len(group) > 5 {
		fmt.Fprintf(&b, "\n... 及其他 %d 条", len(group)-5)
	}
	return b.String()
}
