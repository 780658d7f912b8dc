package core

import (
	"context"
	"encoding/json"
	"time"
)

// StopReason is the named end of a turn. Every turn has exactly one.
type StopReason string

// The stop reasons.
const (
	StopDone        StopReason = "done"        // the model ended the turn
	StopSteps       StopReason = "steps"       // the step limit
	StopBudget      StopReason = "budget"      // the token budget
	StopRepeated    StopReason = "repeated"    // the same calls again and again
	StopModel       StopReason = "model"       // the model server failed
	StopInterrupted StopReason = "interrupted" // cancelled
	StopContext     StopReason = "context"     // the conversation no longer fits
	StopInternal    StopReason = "internal"    // a fault of ours
)

// Session is one stored conversation.
type Session struct {
	ID        string          `json:"id"`
	Title     string          `json:"title"`
	TitleBy   string          `json:"title_by,omitempty"` // "user", "model" or ""
	Project   string          `json:"project"`
	Model     string          `json:"model"`
	System    string          `json:"-"` // system text, fixed
	Tools     json.RawMessage `json:"-"` // the tool list as sent, fixed
	Prompt    int             `json:"prompt_version"`
	Parent    string          `json:"parent,omitempty"` // the session this one was forked from
	Kind      string          `json:"kind,omitempty"`   // "" or "chat": a person's; "step": a plan's step
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	Turns     int             `json:"turns"`
	Messages  int             `json:"messages"`
	LastStop  StopReason      `json:"last_stop,omitempty"`
	Usage     Usage           `json:"usage"`
}

// StoredMessage is one message of a session's log. Seq counts from 1 within the session
// and never repeats; Turn counts from 1.
type StoredMessage struct {
	Seq  int64     `json:"seq"`
	Turn int       `json:"turn"`
	At   time.Time `json:"at"`
	// Note says what a message is beside its role: "" for ordinary ones, "repair" for one
	// that was made up at load because its sender died, "steer", "facts" …
	Note string `json:"note,omitempty"`
	Message
}

// SessionLog is the append-only message log of sessions. Append returns only when the
// messages are durable against the death of the process.
type SessionLog interface {
	Append(ctx context.Context, session string, msgs ...StoredMessage) error
	Messages(ctx context.Context, session string) ([]StoredMessage, error)
}
