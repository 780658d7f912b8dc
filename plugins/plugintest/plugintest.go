// Package plugintest is the contract that every tool keeps, as a program: it starts a
// tool, has it describe itself, gives it bad and good arguments, and ends it.
//
// It owns the list of checks and their words. It does not know what the tool is for, and
// it does not use package testing, so that a new tool is proved with the same code in a
// test and before it goes live.
//
//	rep := plugintest.Run(ctx, plugintest.Target{Command: cmd, Name: "csv_stats", Sample: args})
//	if !rep.OK { fmt.Println(rep) }
//
// Tools that break the contract in every way are in plugintest/badtool.
package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/host"
)

// Target is a tool to prove.
type Target struct {
	Command host.Command
	// Name is the name that the tool must have; "" for the first that its process offers.
	Name string
	// Sample are arguments of a call that must succeed. Without one the suite makes
	// arguments from the schema, and any answer is right.
	Sample json.RawMessage
	// Project is the project directory of the calls; "" for Command.Dir.
	Project string
	// HostChecks is for tools that leave the checking of arguments to the host. Bad
	// arguments must then only leave the process alive.
	HostChecks bool
	// Host runs the tool; nil for one of its own.
	Host *host.Host
	// SocketRoot is that of an own host.
	SocketRoot string
	// CallTimeout bounds each call. Default 20 s.
	CallTimeout time.Duration
}

// The checks, in their order. After a failure the ones that need it are left out.
const (
	CheckStart     = "start"     // the process starts and describes itself in time
	CheckQuiet     = "quiet"     // it prints nothing on standard output before its handshake
	CheckName      = "name"      // the tool has the name it should have
	CheckSchema    = "schema"    // description and input schema are valid
	CheckArguments = "arguments" // bad arguments get an error result, and the process lives
	CheckCall      = "call"      // one call is answered
	CheckStop      = "stop"      // it ends within two seconds when told to
	CheckProcesses = "processes" // it leaves no process behind
)

// Check is one check that was made.
type Check struct {
	Name   string        `json:"name"`
	OK     bool          `json:"ok"`
	Detail string        `json:"detail,omitempty"` // what was wrong, for whoever mends the tool
	Took   time.Duration `json:"took"`
}

// Report is the outcome. OK means that all checks were made and passed.
type Report struct {
	OK     bool            `json:"ok"`
	Checks []Check         `json:"checks"`
	Spec   core.ToolSpec   `json:"spec"`   // as the tool describes itself
	Args   json.RawMessage `json:"args"`   // of the call that was answered
	Result core.ToolResult `json:"result"` // its answer
}

// String is the report as lines of text.
func (r Report) String() string {
	var b strings.Builder
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(&b, "%s %s", mark, c.Name)
		if c.Detail != "" {
			b.WriteString(": " + c.Detail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Run makes all checks. It is bounded by ctx, by the host's limits and CallTimeout.
func Run(ctx context.Context, t Target) Report {
	if t.CallTimeout == 0 {
		t.CallTimeout = 20 * time.Second
	}
	if t.Project == "" {
		t.Project = t.Command.Dir
	}
	s := &suite{t: t}
	h := t.Host
	if h == nil {
		own, err := host.New(host.Options{SocketRoot: t.SocketRoot})
		if err != nil {
			s.add(CheckStart, time.Now(), err.Error())
			return s.rep
		}
		defer func() {
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = own.Close(cctx)
		}()
		h = own
	}
	t.Command.Specs = nil // it must speak for itself
	s.p = h.Plugin(t.Command)
	ok := s.describe(ctx) && s.arguments(ctx) && s.call(ctx)
	began := time.Now()
	end := s.p.Stop(ctx)
	if !ok {
		return s.rep
	}
	detail := ""
	if !end.Graceful {
		detail = "the process did not end within two seconds when told to, and was killed"
	}
	ok = s.add(CheckStop, began, detail)
	detail = ""
	if end.Strays > 0 {
		detail = fmt.Sprintf("it left %d processes behind, which were killed", end.Strays)
	}
	s.rep.OK = s.add(CheckProcesses, began, detail) && ok
	return s.rep
}

type suite struct {
	t    Target
	p    *host.Plugin
	rep  Report
	tool string
}

// add records a check; an empty detail is a pass.
func (s *suite) add(name string, began time.Time, detail string) bool {
	s.rep.Checks = append(s.rep.Checks, Check{Name: name, OK: detail == "", Detail: detail, Took: time.Since(began)})
	return detail == ""
}

func (s *suite) describe(ctx context.Context) bool {
	began := time.Now()
	specs, err := s.p.Describe(ctx)
	broken := map[string]string{}
	var rest error
	for _, e := range flatten(err) {
		var b *host.BrokenError
		if errors.As(e, &b) {
			broken[b.Tool] = b.Reason
		} else {
			rest = errors.Join(rest, e)
		}
	}
	if rest != nil {
		return s.add(CheckStart, began, rest.Error())
	}
	s.add(CheckStart, began, "")
	if n := strings.TrimSpace(s.p.Noise()); n != "" {
		s.add(CheckQuiet, began, "it printed on standard output before its handshake: "+n)
		return false
	}
	s.add(CheckQuiet, began, "")
	names := slices.Collect(maps.Keys(broken))
	for _, sp := range specs {
		names = append(names, sp.Name)
	}
	slices.Sort(names)
	s.tool = s.t.Name
	if s.tool == "" && len(specs) > 0 {
		s.tool = specs[0].Name
	} else if s.tool == "" {
		s.tool = names[0]
	}
	if !slices.Contains(names, s.tool) {
		return s.add(CheckName, began, fmt.Sprintf("it calls itself %s, not %s", strings.Join(names, ", "), s.tool))
	}
	s.add(CheckName, began, "")
	if why, bad := broken[s.tool]; bad {
		return s.add(CheckSchema, began, why)
	}
	for _, sp := range specs {
		if sp.Name == s.tool {
			s.rep.Spec = sp
		}
	}
	return s.add(CheckSchema, began, "")
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func (s *suite) try(ctx context.Context, tool core.Tool, args string) (core.ToolResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.t.CallTimeout)
	defer cancel()
	return tool.Call(ctx, core.ToolRequest{CallID: "contract", Key: "contract", Args: json.RawMessage(args), Project: s.t.Project})
}

// arguments gives the tool what it must refuse. None of it can be right for any schema of
// an object: no JSON, no object, a name that is unknown.
func (s *suite) arguments(ctx context.Context) bool {
	began := time.Now()
	bad := []string{`{`, `[]`}
	if closed(s.rep.Spec.Schema) {
		bad = append(bad, `{"no_such_argument_":1}`)
	}
	for _, args := range bad {
		pid := s.p.PID()
		res, err := s.try(ctx, s.p.Unchecked(s.tool), args)
		switch {
		case err != nil:
			return s.add(CheckArguments, began, err.Error())
		case pid == 0 || s.p.PID() != pid:
			return s.add(CheckArguments, began, fmt.Sprintf("the arguments %s ended the process: %s", args, res.Text))
		case !res.IsError && !s.t.HostChecks:
			return s.add(CheckArguments, began, fmt.Sprintf("the arguments %s were taken", args))
		}
	}
	return s.add(CheckArguments, began, "")
}

func closed(schema json.RawMessage) bool {
	var s struct {
		Additional any            `json:"additionalProperties"`
		Patterns   map[string]any `json:"patternProperties"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Additional == false && len(s.Patterns) == 0
}

func (s *suite) call(ctx context.Context) bool {
	began := time.Now()
	args, given := s.t.Sample, len(s.t.Sample) > 0
	if !given {
		args = SampleOf(s.rep.Spec.Schema)
	}
	before := s.p.Crashes()
	res, err := s.try(ctx, s.p.Tool(s.tool), string(args))
	s.rep.Args, s.rep.Result = args, res
	switch {
	case err != nil:
		return s.add(CheckCall, began, err.Error())
	case s.p.Crashes() > before, s.p.PID() == 0:
		return s.add(CheckCall, began, fmt.Sprintf("the call with %s ended badly: %s", args, res.Text))
	case given && res.IsError:
		return s.add(CheckCall, began, fmt.Sprintf("the call with %s failed: %s", args, res.Text))
	}
	return s.add(CheckCall, began, "")
}

// SampleOf makes arguments that fit a schema: what is required, with the first of an
// enumeration, the default, or a plain value. It knows the schemas that plugins/sdk
// derives; for others the sample may not fit.
func SampleOf(schema json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return json.RawMessage("{}")
	}
	b, err := json.Marshal(sample(v, 0))
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

func sample(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > 16 {
		return "x"
	}
	if d, ok := s["default"]; ok {
		return d
	}
	if e, ok := s["enum"].([]any); ok && len(e) > 0 {
		return e[0]
	}
	number := func(v float64) float64 {
		if m, ok := s["minimum"].(float64); ok {
			v = max(v, m)
		}
		if m, ok := s["maximum"].(float64); ok {
			v = min(v, m)
		}
		return v
	}
	switch s["type"] {
	case "object":
		out := map[string]any{}
		props, _ := s["properties"].(map[string]any)
		req, _ := s["required"].([]any)
		for _, r := range req {
			if name, ok := r.(string); ok {
				out[name] = sample(props[name], depth+1)
			}
		}
		return out
	case "array":
		n := 0
		if m, ok := s["minItems"].(float64); ok {
			n = int(min(m, 16))
		}
		list := make([]any, n)
		for i := range list {
			list[i] = sample(s["items"], depth+1)
		}
		return list
	case "integer", "number":
		return number(1)
	case "boolean":
		return false
	case "null":
		return nil
	}
	if s["format"] == "date-time" {
		return "2000-01-01T00:00:00Z"
	}
	if s["contentEncoding"] == "base64" {
		return "eA=="
	}
	return "x"
}
