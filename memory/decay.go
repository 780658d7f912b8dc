package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// Thresholds are the days after which a memory falls from CRITICAL, HIGH and MEDIUM by one
// priority, by the rate of creation: n7, n30 and n90 are the active memories created in
// the last 7, 30 and 90 days (spec/memory.md).
func Thresholds(n7, n30, n90 int) [3]int {
	f := (3*float64(n7)/7 + 2*float64(n30)/30 + float64(n90)/90) / 6
	scale := 0.0
	switch {
	case f <= 0:
		scale = 3
	case f < 0.3:
		scale = 3 - f/0.3
	case f < 1:
		scale = 2 - (f-0.3)/0.7
	case f < 3:
		scale = 1 - 0.3*(f-1)/2
	case f < 10:
		scale = 0.7 - 0.3*(f-3)/7
	default:
		scale = math.Max(0.3, 0.4-0.01*(f-10))
	}
	return [3]int{max(5, int(30*scale)), max(10, int(60*scale)), max(15, int(90*scale))}
}

const day = 24 * time.Hour

func thresholds(ctx context.Context, r core.MemoryReader, now time.Time) (days [3]int, before [3]time.Time, err error) {
	var n [3]int
	for i, d := range []int{7, 30, 90} {
		if n[i], err = r.ActiveSince(ctx, now.Add(-time.Duration(d)*day)); err != nil {
			return days, before, err
		}
	}
	days = Thresholds(n[0], n[1], n[2])
	for i, d := range days {
		before[i] = now.Add(-time.Duration(d) * day)
	}
	return days, before, nil
}

// upkeep does what must be true before memories are chosen: what is due expires, what is
// old falls one priority. It writes only when something is due.
func (s *Service) upkeep(ctx context.Context) error {
	due, err := s.due(ctx, true)
	if err != nil || !due {
		return err
	}
	return s.st.WriteMemory(ctx, func(w core.MemoryWriter) error { return s.bringUp(ctx, w, true) })
}

// due says whether something is to expire or, with old, to fall one priority.
func (s *Service) due(ctx context.Context, old bool) (due bool, err error) {
	now := s.now()
	err = s.st.ReadMemory(ctx, func(r core.MemoryReader) error {
		list, err := r.Memories(ctx, core.MemoryFilter{DueBefore: now, Limit: 1})
		if due = len(list) > 0; err != nil || due || !old {
			return err
		}
		_, before, err := s.ages(ctx, r, now)
		if err != nil {
			return err
		}
		rows, err := r.DueMemories(ctx, before)
		due = len(rows) > 0
		return err
	})
	return due, err
}

// bringUp lets expire what is due and, with old, fall what is old.
func (s *Service) bringUp(ctx context.Context, w core.MemoryWriter, old bool) error {
	now := s.now()
	if _, err := s.expire(ctx, w, now); err != nil || !old {
		return err
	}
	_, err := s.age(ctx, w, now)
	return err
}

// view reads memories as they are now: what is due has expired and, with old, what is old
// has fallen. A Service that only peeks forgets that again.
func (s *Service) view(ctx context.Context, old bool, fn func(core.MemoryReader) error) error {
	due, err := s.due(ctx, old)
	if err != nil {
		return err
	}
	if due && s.peek {
		err = s.st.WriteMemory(ctx, func(w core.MemoryWriter) error {
			if err := s.bringUp(ctx, w, old); err != nil {
				return err
			}
			if err := fn(w); err != nil {
				return err
			}
			return errDry
		})
		if errors.Is(err, errDry) {
			return nil
		}
		return err
	}
	if due {
		if err := s.st.WriteMemory(ctx, func(w core.MemoryWriter) error { return s.bringUp(ctx, w, old) }); err != nil {
			return err
		}
	}
	return s.st.ReadMemory(ctx, fn)
}

// ages are the thresholds now. The rate of creation moves slowly: it is counted at most
// once a minute.
func (s *Service) ages(ctx context.Context, r core.MemoryReader, now time.Time) (days [3]int, before [3]time.Time, err error) {
	s.mu.Lock()
	c := s.rate
	s.mu.Unlock()
	if d := now.Sub(c.at); c.days[0] > 0 && d >= 0 && d < time.Minute {
		for i, d := range c.days {
			before[i] = now.Add(-time.Duration(d) * day)
		}
		return c.days, before, nil
	}
	if days, before, err = thresholds(ctx, r, now); err != nil {
		return days, before, err
	}
	s.mu.Lock()
	s.rate.at, s.rate.days = now, days
	s.mu.Unlock()
	return days, before, nil
}

func (s *Service) expire(ctx context.Context, w core.MemoryWriter, now time.Time) ([]core.Memory, error) {
	list, err := w.Memories(ctx, core.MemoryFilter{DueBefore: now, ByID: true})
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		m.State, m.ValidTo, m.UpdatedAt = core.MemoryExpired, m.ExpiresAt, now
		if err := w.UpdateMemory(ctx, m, nil); err != nil {
			return nil, err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: m.ID, At: now, Action: "expired", Detail: "on " + m.ExpiresAt.Format(time.RFC3339)}); err != nil {
			return nil, err
		}
		if err := s.dropDerived(ctx, w, m.ID, now); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// aged is one memory that fell.
type aged struct {
	m    core.Memory
	from int
	days int
}

// age lets each memory fall one priority whose time in the present one is over; from then
// on its time counts anew. Pinned rows stay.
func (s *Service) age(ctx context.Context, w core.MemoryWriter, now time.Time) ([]aged, error) {
	days, before, err := thresholds(ctx, w, now)
	if err != nil {
		return nil, err
	}
	list, err := w.DueMemories(ctx, before)
	if err != nil {
		return nil, err
	}
	var out []aged
	for _, m := range list {
		from := m.Priority
		m.Priority, m.AgedAt = from+1, now
		if err := w.UpdateMemory(ctx, m, nil); err != nil {
			return nil, err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: m.ID, At: now, Action: "aged",
			Detail: fmt.Sprintf("priority %d → %d after %d days", from, m.Priority, days[from])}); err != nil {
			return nil, err
		}
		out = append(out, aged{m, from, days[from]})
	}
	return out, nil
}

// dropDerived archives what was derived from a row that is no longer active.
func (s *Service) dropDerived(ctx context.Context, w core.MemoryWriter, id int64, now time.Time) error {
	derived, err := w.DerivedMemories(ctx, id)
	if err != nil {
		return err
	}
	for _, d := range derived {
		m, err := w.Memory(ctx, d)
		if err != nil {
			return err
		}
		if m.State != core.MemoryActive {
			continue
		}
		m.State, m.ValidTo, m.UpdatedAt = core.MemoryArchived, now, now
		if err := w.UpdateMemory(ctx, m, nil); err != nil {
			return err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: d, At: now, Action: "archived", Other: id, Detail: "a source is no longer active"}); err != nil {
			return err
		}
		if err := s.revive(ctx, w, m, now); err != nil {
			return err
		}
	}
	return nil
}

// revive makes active again what was archived because a derived row, now dead, had its
// text.
func (s *Service) revive(ctx context.Context, w core.MemoryWriter, derived core.Memory, now time.Time) error {
	for _, id := range derived.Sources {
		m, err := w.Memory(ctx, id)
		if errors.Is(err, core.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if m.State != core.MemoryArchived {
			continue
		}
		events, err := w.MemoryEvents(ctx, id)
		if err != nil {
			return err
		}
		last := core.MemoryEvent{}
		for _, e := range events {
			if e.Action == "archived" {
				last = e
			}
		}
		if last.Other != derived.ID {
			continue
		}
		m.State, m.ValidTo, m.UpdatedAt = core.MemoryActive, time.Time{}, now
		if err := w.UpdateMemory(ctx, m, nil); err != nil {
			return err
		}
		if err := w.AddEvent(ctx, core.MemoryEvent{Memory: id, At: now, Action: "revived", Other: derived.ID, Detail: "the summary that had its text is gone"}); err != nil {
			return err
		}
	}
	return nil
}
