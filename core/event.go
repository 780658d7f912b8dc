package core

import "encoding/json"

// The types of event. Every front end sees the same stream; the names and fields are part
// of the command line contract.
const (
	EventSession      = "session"       // SessionID
	EventText         = "text"          // Text: a piece of the answer
	EventTextReset    = "text_reset"    // the answer so far is void: a retry begins again
	EventReasoning    = "reasoning"     // Text
	EventToolStart    = "tool_start"    // ID, Name, Args
	EventToolProgress = "tool_progress" // ID, Text
	EventToolEnd      = "tool_end"      // ID, Name, Status, MS
	EventPermission   = "permission"    // ID, Name, Rule, Decision
	EventPlan         = "plan"          // Data
	EventStep         = "step"          // ID, Status
	EventCompact      = "compact"       // Data
	EventMemory       = "memory"        // Action, ID, Content
	EventUsage        = "usage"         // Usage
	EventNotice       = "notice"        // Text: a line for the person
	EventError        = "error"         // Kind, Message
	EventDone         = "done"          // Data: the object of --output json
)

// Event is one thing that happened in a turn, in the order in which it happened.
type Event struct {
	Type      string          `json:"type"`
	SessionID string          `json:"session_id,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Text      string          `json:"text,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Status    string          `json:"status,omitempty"`
	MS        *int64          `json:"ms,omitempty"`
	Rule      string          `json:"rule,omitempty"`
	Decision  string          `json:"decision,omitempty"`
	Action    string          `json:"action,omitempty"`
	Content   string          `json:"content,omitempty"`
	Kind      Kind            `json:"kind,omitempty"`
	Message   string          `json:"message,omitempty"`
	Usage     *Usage          `json:"usage,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// The ways a call can end.
const (
	CallOK        = "ok"
	CallError     = "error"
	CallDenied    = "denied"
	CallCancelled = "cancelled"
)

// Verdict is what a policy says of a call.
type Verdict int

// The verdicts, weakest first: the strictest wins.
const (
	Allow Verdict = iota
	Ask
	Deny
)

func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// Decision is a verdict with the rule it comes from.
type Decision struct {
	Verdict Verdict
	// Rule names what decided: a rule as written, or "default", "mode:plan",
	// "wall:outside-project" …
	Rule string
	// Reason is one sentence for the model and the person; "" for Allow.
	Reason string
	// Unconfined is set when the call needs the unconfined process (bash).
	Unconfined bool
}

// Denied is one call that permission stopped.
type Denied struct {
	Tool string          `json:"tool"`
	Rule string          `json:"rule"`
	Args json.RawMessage `json:"args"`
}
