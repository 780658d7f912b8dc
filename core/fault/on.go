//go:build failpoints

package fault

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Enabled says whether this binary was built with failpoints.
const Enabled = true

// ErrInjected is what an armed point of the kind "error" returns.
var ErrInjected = errors.New("injected fault")

type action struct {
	what string
	at   int // 0: every time
	ms   int
}

var (
	once   sync.Once
	mu     sync.Mutex
	armed  map[string]action
	passed map[string]int
)

func parse() {
	armed, passed = map[string]action{}, map[string]int{}
	for part := range strings.SplitSeq(os.Getenv("LJ_FAILPOINT"), ",") {
		name, what, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			continue
		}
		a := action{}
		what, at, _ := strings.Cut(what, "@")
		a.at, _ = strconv.Atoi(at)
		what, ms, _ := strings.Cut(what, ":")
		a.ms, _ = strconv.Atoi(ms)
		a.what = what
		armed[name] = a
	}
}

// Point marks a place where a test can interrupt the program.
func Point(name string) error {
	once.Do(parse)
	mu.Lock()
	passed[name]++
	a, ok := armed[name]
	n := passed[name]
	mu.Unlock()
	if list := os.Getenv("LJ_FAILPOINT_LIST"); list != "" {
		if f, err := os.OpenFile(list, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, name)
			f.Close()
		}
	}
	if !ok || a.at > 0 && a.at != n {
		return nil
	}
	switch a.what {
	case "kill":
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {}
	case "error":
		return fmt.Errorf("%w at %s", ErrInjected, name)
	case "sleep":
		time.Sleep(time.Duration(a.ms) * time.Millisecond)
	}
	return nil
}
