package toolkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve/version"
)

// The rule of the watch; the package comment says it in words.
const (
	watchCrashes    = 3  // among the last watchRecent calls
	watchRecent     = 10 // calls
	watchMinCalls   = 10 // before failures count
	watchWindow     = 20 // calls in which failures are counted
	healthBatch     = 16 // answered calls kept in memory before they are written
	watchFailedHalf = 2  // at least 1/watchFailedHalf of the window failed
)

// Outcome is how one call ended. A call with wrong arguments is the caller's failure and
// must not be recorded.
type Outcome struct {
	Failed  bool   // the tool answered with an error
	Crashed bool   // its process ended
	Detail  string // what was said, for whoever mends the tool
}

// Decision is what the watch did. The zero value: nothing.
type Decision struct {
	Action  string // "", "rolled_back" or "disabled"
	Tool    string
	From    string // the version that was live
	Version string // that is live now, "" when disabled
	Reason  string // one sentence
	// Evidence are the last failures in words.
	Evidence []string
}

// ForModel is a decision in words.
func (d Decision) ForModel() string {
	if d.Action == "" {
		return ""
	}
	var b strings.Builder
	if d.Action == "disabled" {
		fmt.Fprintf(&b, "%s %s was disabled: %s.", d.Tool, d.From, d.Reason)
	} else {
		fmt.Fprintf(&b, "%s %s was put back to %s: %s.", d.Tool, d.From, d.Version, d.Reason)
	}
	for _, e := range d.Evidence {
		b.WriteString("\n- " + e)
	}
	return b.String()
}

type health struct {
	mu      sync.Mutex
	pending map[[2]string]string // name and version to letters not written yet
}

// RecordOutcome counts a call of a version and, when the rule of the watch is met, puts
// the tool back or disables it. Answered calls are written in batches.
func (t *Toolkit) RecordOutcome(ctx context.Context, name, ver string, o Outcome) (Decision, error) {
	letter := "."
	switch {
	case o.Crashed:
		letter = "c"
	case o.Failed:
		letter = "f"
	}
	key := [2]string{name, ver}
	t.health.mu.Lock()
	if t.health.pending == nil {
		t.health.pending = map[[2]string]string{}
	}
	letters := t.health.pending[key] + letter
	if letter == "." && len(letters) < healthBatch {
		t.health.pending[key] = letters
		t.health.mu.Unlock()
		return Decision{}, nil
	}
	delete(t.health.pending, key)
	t.health.mu.Unlock()
	var evidence []string
	if letter != "." {
		what := "failed"
		if o.Crashed {
			what = "crashed"
		}
		evidence = []string{fmt.Sprintf("%s %s: %s", t.o.Now().UTC().Format("2006-01-02 15:04:05"), what, clipText(o.Detail, 600))}
	}
	h, err := t.o.Ledger.AddToolHealth(ctx, name, ver, letters, evidence)
	if err != nil || letter == "." {
		return Decision{}, err
	}
	return t.judge(ctx, h)
}

func clipText(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= n {
		return s
	}
	// The end of a crash says more than its beginning.
	return strings.ToValidUTF8(s[:n/3], "") + " … " + strings.ToValidUTF8(s[len(s)-2*n/3:], "")
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func failures(s string) int { return strings.Count(s, "f") + strings.Count(s, "c") }

func (t *Toolkit) judge(ctx context.Context, h core.ToolHealth) (Decision, error) {
	record, v, err := t.liveVersion(ctx, h.Name)
	if errors.Is(err, core.ErrNotFound) {
		return Decision{}, nil
	}
	if err != nil {
		return Decision{}, err
	}
	if v.Version != h.Version || record.State != core.ToolLive {
		return Decision{}, nil
	}
	back, err := t.fallback(ctx, record)
	if err != nil {
		return Decision{}, err
	}
	recent := tail(h.Recent, watchRecent)
	window := tail(h.Recent, watchWindow)
	crashes, failed := strings.Count(recent, "c"), failures(window)
	reason := ""
	switch {
	case crashes >= watchCrashes:
		reason = fmt.Sprintf("it crashed %d times in its last %d calls", crashes, len(recent))
	case back != "" && h.Calls >= watchMinCalls && failed*watchFailedHalf >= len(window):
		before, err := t.o.Ledger.ToolHealth(ctx, h.Name, back)
		if err != nil {
			return Decision{}, err
		}
		old := tail(before.Recent, watchWindow)
		if len(old) == 0 || failures(old)*2*len(window) >= failed*len(old) {
			return Decision{}, nil // not worse than the one before, as far as is known
		}
		reason = fmt.Sprintf("%d of its last %d calls failed, of %s %d of %d", failed, len(window), back, failures(old), len(old))
	case len(window) == watchWindow && failed == watchWindow:
		reason = fmt.Sprintf("its last %d calls all failed", len(window))
	}
	if reason == "" {
		return Decision{}, nil
	}
	d := Decision{Tool: h.Name, From: h.Version, Reason: reason, Evidence: tailOf(h.Evidence, 5)}
	if back != "" {
		if _, err := t.putBack(ctx, h.Name, back, h.Version+" was put back: "+reason, nil); err != nil {
			return Decision{}, err
		}
		d.Action, d.Version = "rolled_back", back
		return d, nil
	}
	if _, err := t.Disable(ctx, h.Name, reason); err != nil {
		return Decision{}, err
	}
	d.Action = "disabled"
	return d, nil
}

func tailOf(list []string, n int) []string { return slices.Clone(list[max(0, len(list)-n):]) }

// fallback is the version that may serve instead of the live one, "" for none: the one
// that was live before it when that is lower, else the next lower accepted one, leaving
// out those that were put away themselves.
func (t *Toolkit) fallback(ctx context.Context, r core.ToolRecord) (string, error) {
	list, err := t.accepted(ctx, r.Name)
	if err != nil {
		return "", err
	}
	live, err := version.Parse(r.Version)
	if err != nil {
		return "", err
	}
	var candidates []string
	for _, v := range slices.Backward(list) {
		if w, err := version.Parse(v.Version); err == nil && w.Compare(live) < 0 {
			if v.Version == r.Previous {
				candidates = slices.Insert(candidates, 0, v.Version)
			} else {
				candidates = append(candidates, v.Version)
			}
		}
	}
	for _, c := range candidates {
		h, err := t.o.Ledger.ToolHealth(ctx, r.Name, c)
		if err != nil {
			return "", err
		}
		window := tail(h.Recent, watchWindow)
		if strings.Count(tail(h.Recent, watchRecent), "c") < watchCrashes && (len(window) < watchMinCalls || failures(window)*watchFailedHalf < len(window)) {
			return c, nil
		}
	}
	return "", nil
}

func (t *Toolkit) flushHealth(ctx context.Context) error {
	t.health.mu.Lock()
	pending := t.health.pending
	t.health.pending = nil
	t.health.mu.Unlock()
	var err error
	for k, letters := range pending {
		if _, e := t.o.Ledger.AddToolHealth(ctx, k[0], k[1], letters, nil); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}
