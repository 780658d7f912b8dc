package evolve

import (
	"fmt"
	"strings"
)

// Diagnostic is one problem at one place. Line and Column count from 1 and are 0 where
// there is none.
type Diagnostic struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	// Text is the source line, for showing.
	Text string `json:"-"`
}

// Place is file:line:column, as far as known.
func (d Diagnostic) Place() string {
	switch {
	case d.File == "":
		return ""
	case d.Line == 0:
		return d.File
	case d.Column == 0:
		return fmt.Sprintf("%s:%d", d.File, d.Line)
	}
	return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column)
}

func (d Diagnostic) String() string {
	if p := d.Place(); p != "" {
		return p + ": " + d.Message
	}
	return d.Message
}

// StepReport is the outcome of one step.
type StepReport struct {
	Step  string `json:"step"`
	OK    bool   `json:"ok"`
	MS    int64  `json:"ms"`
	Tests int    `json:"tests,omitempty"` // that ran and passed
}

// Report is the outcome of a chain. Its JSON is that of lj tools save --json.
type Report struct {
	Name string `json:"name"`
	// Version is nil when nothing was accepted.
	Version   *string      `json:"version"`
	Accepted  bool         `json:"accepted"`
	Live      bool         `json:"live"`
	Unchanged bool         `json:"unchanged"`
	Steps     []StepReport `json:"steps"`
	// Diagnostics is never nil.
	Diagnostics []Diagnostic `json:"diagnostics"`
	// Notes are what a reader should know of an accepted change too: formatted files,
	// loosened tests, left-out files.
	Notes []string `json:"notes,omitempty"`
	// Reason says in one sentence why it was refused.
	Reason string `json:"reason,omitempty"`
	Commit string `json:"commit,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Note adds a note once.
func (r *Report) Note(format string, a ...any) {
	n := fmt.Sprintf(format, a...)
	for _, have := range r.Notes {
		if have == n {
			return
		}
	}
	r.Notes = append(r.Notes, n)
}

// Failed is the name of the step that failed, "" when none did.
func (r *Report) Failed() string {
	for _, s := range r.Steps {
		if !s.OK {
			return s.Step
		}
	}
	return ""
}

// advice says what to change when a step failed.
var advice = map[string]string{
	"check":    "mend the lines named and save again",
	"vet":      "mend the lines named and save again",
	"build":    "mend the lines named and save again",
	"test":     "mend the code (or a test that is wrong) and save again",
	"contract": "mend what the tool does when it starts or is called and save again",
}

const shownDiagnostics = 12

// ForModel is the report in few words: what happened, where, what to change.
func (r *Report) ForModel() string {
	var b strings.Builder
	switch {
	case r.Unchanged:
		fmt.Fprintf(&b, "%s %s is unchanged and live: this is its source already.", r.Name, version(r))
	case r.Accepted:
		tests := 0
		for _, s := range r.Steps {
			tests += s.Tests
		}
		fmt.Fprintf(&b, "%s %s passed all steps (%d tests) and is live. Call it now by its name, or with use_tool.", r.Name, version(r), tests)
	default:
		fmt.Fprintf(&b, "%s was refused", r.Name)
		if f := r.Failed(); f != "" {
			fmt.Fprintf(&b, " at step %s", f)
		}
		if r.Reason != "" {
			b.WriteString(": " + r.Reason)
		}
		b.WriteString(". Nothing was changed.")
		if a := advice[r.Failed()]; a != "" && len(r.Diagnostics) > 0 {
			b.WriteString(" What to do: " + a + ".")
		}
	}
	for i, d := range r.Diagnostics {
		if i == shownDiagnostics {
			fmt.Fprintf(&b, "\n… and %d more", len(r.Diagnostics)-i)
			break
		}
		b.WriteString("\n" + d.String())
		if t := strings.TrimSpace(d.Text); t != "" {
			b.WriteString("\n    " + t)
		}
	}
	for _, n := range r.Notes {
		b.WriteString("\nnote: " + n)
	}
	return b.String()
}

func version(r *Report) string {
	if r.Version == nil {
		return ""
	}
	return *r.Version
}

// ForPerson is the report as lines for a terminal.
func (r *Report) ForPerson() string {
	var b strings.Builder
	for _, s := range r.Steps {
		b.WriteString(s.line() + "\n")
	}
	for _, d := range r.Diagnostics {
		b.WriteString("  " + strings.ReplaceAll(d.String(), "\n", "\n    ") + "\n")
	}
	for _, n := range r.Notes {
		b.WriteString("  note: " + n + "\n")
	}
	switch {
	case r.Unchanged:
		fmt.Fprintf(&b, "%s %s is unchanged\n", r.Name, version(r))
	case r.Accepted && r.Live:
		fmt.Fprintf(&b, "%s %s is live\n", r.Name, version(r))
	case r.Accepted:
		fmt.Fprintf(&b, "%s is no longer live\n", r.Name)
	default:
		fmt.Fprintf(&b, "%s was refused, nothing was changed", r.Name)
		if r.Reason != "" {
			b.WriteString(": " + r.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (s StepReport) line() string {
	mark := "ok  "
	if !s.OK {
		mark = "FAIL"
	}
	line := fmt.Sprintf("%s %-8s %5d ms", mark, s.Step, s.MS)
	if s.Tests > 0 {
		line += fmt.Sprintf("  %d tests", s.Tests)
	}
	return line
}
