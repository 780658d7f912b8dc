package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/memory"
	"github.com/lingjiyidong/lj/store"
)

const topK = 10

// turn is one message of a conversation.
type turn struct {
	id, speaker, text string
	at                time.Time
	session           int
}

// library is the turns of one conversation as memories in a store of their own.
type library struct {
	st   *store.Store
	svc  *memory.Service
	ids  map[int64]string
	dir  string
	bm25 *plainBM25
}

func (l *library) close() {
	l.st.Close()
	os.RemoveAll(l.dir)
}

// build stores turns the way lj stores what it takes from a conversation: the statement,
// and around it, for finding only, what was said before and after and when.
func build(ctx context.Context, c memory.Cutter, turns []turn) (*library, error) {
	dir, err := os.MkdirTemp("", "lj-eval-")
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, filepath.Join(dir, "lj.db"), store.Options{})
	if err != nil {
		return nil, err
	}
	last := time.Now()
	l := &library{st: st, dir: dir, ids: map[int64]string{}, bm25: newBM25(c, turns)}
	l.svc = memory.New(memory.Config{Store: st, Cutter: c, Now: func() time.Time { return last }, Location: time.UTC})
	rows := make([]core.Memory, len(turns))
	for i, t := range turns {
		context := memory.Surroundings(t.at, "", "")
		before, after := "", ""
		if i > 0 && turns[i-1].session == t.session {
			before = turns[i-1].text
		}
		if i+1 < len(turns) && turns[i+1].session == t.session {
			after = turns[i+1].text
		}
		context = memory.Surroundings(t.at, before, after)
		rows[i] = core.Memory{ID: int64(i + 1), Content: t.speaker + ": " + t.text, Category: core.MemoryFact, Priority: core.PriorityMedium, Importance: 3,
			State: core.MemoryActive, Source: core.SourceUser, Session: fmt.Sprint("s", t.session), Message: int64(i + 1), Context: context, CreatedAt: t.at, Project: fmt.Sprint(i), Scope: core.ScopeGlobal}
		if t.speaker == core.RoleAssistant {
			rows[i].Source = core.SourceModel
		}
		if len(rows[i].Content) > memory.MaxContent {
			rows[i].Content = strings.ToValidUTF8(rows[i].Content[:memory.MaxContent], "")
		}
	}
	if _, err := l.svc.ImportRows(ctx, rows); err != nil {
		return nil, err
	}
	all, err := l.svc.List(ctx, "", true)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		l.ids[m.ID] = turns[m.Message-1].id
	}
	return l, nil
}

func (l *library) search(ctx context.Context, q string) ([]string, error) {
	hits, err := l.svc.Search(ctx, q, topK, false)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, h := range hits {
		out = append(out, l.ids[h.ID])
	}
	return out, nil
}

// plainBM25 is the baseline: BM25 (k1 0.9, b 0.4) over the stems of the turn alone.
type plainBM25 struct {
	c     memory.Cutter
	docs  []map[string]int
	size  []int
	df    map[string]int
	ids   []string
	total int
}

func newBM25(c memory.Cutter, turns []turn) *plainBM25 {
	b := &plainBM25{c: c, df: map[string]int{}}
	for _, t := range turns {
		tf, n := map[string]int{}, 0
		for _, w := range memory.IndexWords(c, t.speaker+": "+t.text) {
			tf[w]++
			n++
		}
		for w := range tf {
			b.df[w]++
		}
		b.docs, b.size, b.ids, b.total = append(b.docs, tf), append(b.size, n), append(b.ids, t.id), b.total+n
	}
	return b
}

func (b *plainBM25) search(q string) []string {
	const k1, bb = 0.9, 0.4
	avg := float64(b.total) / float64(max(1, len(b.docs)))
	score := make([]float64, len(b.docs))
	for _, w := range memory.IndexWords(b.c, q) {
		n := float64(b.df[w])
		if n == 0 {
			continue
		}
		idf := math.Log(1 + (float64(len(b.docs))-n+0.5)/(n+0.5))
		for i, d := range b.docs {
			if tf := float64(d[w]); tf > 0 {
				score[i] += idf * tf * (k1 + 1) / (tf + k1*(1-bb+bb*float64(b.size[i])/avg))
			}
		}
	}
	order := make([]int, len(score))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return score[order[i]] > score[order[j]] })
	var out []string
	for _, i := range order[:min(topK, len(order))] {
		if score[i] > 0 {
			out = append(out, b.ids[i])
		}
	}
	return out
}

// tally collects recall and whether anything was found, question by question.
type tally struct{ recall, any []float64 }

func (t *tally) add(found, wanted []string) {
	in := map[string]bool{}
	for _, f := range found {
		in[f] = true
	}
	n := 0
	for _, w := range wanted {
		if in[w] {
			n++
		}
	}
	t.recall = append(t.recall, float64(n)/float64(len(wanted)))
	if n > 0 {
		t.any = append(t.any, 1)
	} else {
		t.any = append(t.any, 0)
	}
}

type qa struct {
	QA       string   `json:"qa_id"`
	Question string   `json:"question"`
	Category int      `json:"category"`
	Evidence []string `json:"evidence_norm"`
}

var locomoCategories = map[int]string{1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop"}

func locomo(ctx context.Context, c memory.Cutter, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "locomo10_shared.json"))
	if err != nil {
		return err
	}
	var convs []struct {
		ID           string                     `json:"sample_id"`
		Conversation map[string]json.RawMessage `json:"conversation"`
		QA           []qa                       `json:"qa"`
	}
	if err := json.Unmarshal(raw, &convs); err != nil {
		return fmt.Errorf("locomo10_shared.json: %w", err)
	}
	fixed := map[string][]string{}
	if raw, err := os.ReadFile(filepath.Join(dir, "locomo10_shared_errata.json")); err == nil {
		var list []struct {
			QA      string   `json:"qa_id"`
			Correct []string `json:"correct_evidence"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("locomo10_shared_errata.json: %w", err)
		}
		for _, e := range list {
			if len(e.Correct) > 0 {
				fixed[e.QA] = e.Correct
			}
		}
	}
	all, errata, base := &tally{}, &tally{}, &tally{}
	by := map[string]*tally{}
	for _, cv := range convs {
		var turns []turn
		for s := 1; s <= 60; s++ {
			body, ok := cv.Conversation[fmt.Sprintf("session_%d", s)]
			if !ok {
				continue
			}
			var date string
			if err := json.Unmarshal(cv.Conversation[fmt.Sprintf("session_%d_date_time", s)], &date); err != nil {
				date = ""
			}
			at, _ := time.Parse("3:04 pm on 2 January, 2006", date)
			var list []struct {
				Speaker string `json:"speaker"`
				ID      string `json:"dia_id"`
				Text    string `json:"text"`
				Caption string `json:"blip_caption"`
			}
			if err := json.Unmarshal(body, &list); err != nil {
				return fmt.Errorf("%s session %d: %w", cv.ID, s, err)
			}
			for _, t := range list {
				text := t.Text
				if t.Caption != "" {
					text += " [" + t.Caption + "]"
				}
				turns = append(turns, turn{t.ID, t.Speaker, text, at, s})
			}
		}
		lib, err := build(ctx, c, turns)
		if err != nil {
			return err
		}
		for _, q := range cv.QA {
			name := locomoCategories[q.Category]
			if name == "" || len(q.Evidence) == 0 {
				continue
			}
			found, err := lib.search(ctx, q.Question)
			if err != nil {
				return err
			}
			all.add(found, q.Evidence)
			base.add(lib.bm25.search(q.Question), q.Evidence)
			if by[name] == nil {
				by[name] = &tally{}
			}
			by[name].add(found, q.Evidence)
			want := q.Evidence
			if f := fixed[q.QA]; f != nil {
				want = f
			}
			errata.add(found, want)
		}
		lib.close()
	}
	report("locomo.recall@10", all.recall)
	report("locomo.any@10", all.any)
	for _, n := range []string{"single_hop", "multi_hop", "temporal", "open_domain"} {
		if t := by[n]; t != nil {
			report("locomo."+n+".recall@10", t.recall)
			report("locomo."+n+".any@10", t.any)
		}
	}
	report("locomo.errata.recall@10", errata.recall)
	report("locomo.errata.any@10", errata.any)
	report("locomo.bm25.recall@10", base.recall)
	report("locomo.bm25.any@10", base.any)
	return nil
}

var beamAbilities = []string{"information_extraction", "knowledge_update", "contradiction_resolution", "temporal_reasoning"}

func beam(ctx context.Context, c memory.Cutter, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "beam100k_shared.json"))
	if err != nil {
		return err
	}
	var chats []struct {
		ID    any `json:"chat_id"`
		Turns []struct {
			ID      int     `json:"id"`
			Batch   int     `json:"batch"`
			Role    string  `json:"role"`
			Time    *string `json:"time"`
			Content string  `json:"content"`
		} `json:"turns"`
		Probes []struct {
			Ability  string `json:"ability"`
			Question string `json:"question"`
			Evidence []int  `json:"evidence_ids"`
		} `json:"probes"`
	}
	if err := json.Unmarshal(raw, &chats); err != nil {
		return fmt.Errorf("beam100k_shared.json: %w", err)
	}
	four := map[string]bool{}
	for _, a := range beamAbilities {
		four[a] = true
	}
	ours, base := map[string]*tally{}, map[string]*tally{}
	get := func(m map[string]*tally, k string) *tally {
		if m[k] == nil {
			m[k] = &tally{}
		}
		return m[k]
	}
	for _, chat := range chats {
		var turns []turn
		var at time.Time
		for _, t := range chat.Turns {
			if t.Time != nil {
				if d, err := time.Parse("January-2-2006", *t.Time); err == nil {
					at = d
				}
			}
			turns = append(turns, turn{fmt.Sprint(t.ID), t.Role, t.Content, at, t.Batch})
		}
		lib, err := build(ctx, c, turns)
		if err != nil {
			return err
		}
		for _, p := range chat.Probes {
			if len(p.Evidence) == 0 {
				continue
			}
			var want []string
			seen := map[int]bool{}
			for _, e := range p.Evidence {
				if !seen[e] {
					seen[e] = true
					want = append(want, fmt.Sprint(e))
				}
			}
			found, err := lib.search(ctx, p.Question)
			if err != nil {
				return err
			}
			plain := lib.bm25.search(p.Question)
			get(ours, p.Ability).add(found, want)
			get(base, p.Ability).add(plain, want)
			if four[p.Ability] {
				get(ours, "").add(found, want)
				get(base, "").add(plain, want)
			}
		}
		lib.close()
	}
	report("beam.recall@10", get(ours, "").recall)
	report("beam.any@10", get(ours, "").any)
	report("beam.bm25.recall@10", get(base, "").recall)
	report("beam.bm25.any@10", get(base, "").any)
	var names []string
	for a := range ours {
		if a != "" {
			names = append(names, a)
		}
	}
	sort.Strings(names)
	for _, a := range names {
		report("beam."+a+".recall@10", ours[a].recall)
		report("beam.bm25."+a+".recall@10", base[a].recall)
	}
	return nil
}
