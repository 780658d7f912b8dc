package host

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is returned when the host is closed.
var ErrClosed = errors.New("tool host is closed")

// ErrStopped is returned by calls to a plugin that is drained or stopped.
var ErrStopped = errors.New("tool is stopped")

// StartError tells why a process could not be brought to answer.
type StartError struct {
	Name    string
	Version string
	Reason  string // one clause
	Output  string // what it printed, cut; may be empty
	Err     error  // the cause, or nil
}

func (e *StartError) Error() string {
	s := "start " + label(e.Name, e.Version) + ": " + e.Reason
	if e.Output != "" {
		s += "; it printed: " + oneLine(e.Output, 300)
	}
	return s
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// CrashError tells of a process that ended while it should not have, or of a function
// whose panic the SDK caught.
type CrashError struct {
	Tool    string // the tool that was being called; the plugin's name when none was
	Version string
	Exit    string // "exit status 2", "signal: killed", "panic caught"
	Stderr  string // the part of the end of its standard error that tells most
	InCall  bool
	InRow   int  // which crash in a row this is
	Off     bool // the tool was switched off because of it
}

func (e *CrashError) Error() string {
	s := label(e.Tool, e.Version) + " crashed"
	if e.InCall {
		s += " during a call"
	}
	s += " (" + e.Exit + ")"
	if l := firstLine(e.Stderr); l != "" {
		s += ": " + oneLine(l, 200)
	}
	return s
}

// BrokenError tells of a tool whose description cannot be used.
type BrokenError struct {
	Tool   string
	Reason string
}

func (e *BrokenError) Error() string { return "tool " + e.Tool + " is broken: " + e.Reason }

func label(name, version string) string {
	if version == "" {
		return name
	}
	return name + " " + version
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimLeft(s, "\n"), "\n")
	return s
}

func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	return cut(s, limit)
}

// cut shortens s to at most limit bytes plus an ellipsis, between characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return clipUTF8(s, limit) + "…"
}

func clipUTF8(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit
	for n > 0 && n > limit-4 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

func size(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	if n >= 1<<10 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
