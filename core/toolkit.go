package core

import (
	"encoding/json"
	"time"
)

// The states of a tool of the toolkit.
const (
	ToolLive     = "live"
	ToolDisabled = "disabled" // by a person, or because it kept failing
	ToolBroken   = "broken"   // its program is gone and can't be built again
	ToolRemoved  = "removed"  // taken out; its versions are kept
)

// The outcomes of a save.
const (
	VersionAccepted = "accepted"
	VersionRejected = "rejected"
)

// ToolRecord is what is true of one tool of the toolkit now.
type ToolRecord struct {
	Name string `json:"name"`
	// Version is the live one, also of a disabled tool; "" for a removed one.
	Version string `json:"version"`
	State   string `json:"state"`
	// Reason says why it is disabled or broken, "" otherwise.
	Reason string `json:"reason,omitempty"`
	// Previous is the version that was live before, "" for none.
	Previous  string    `json:"previous,omitempty"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ToolVersion is one saved version of a tool, accepted or rejected.
type ToolVersion struct {
	ID      int64     `json:"-"`
	Name    string    `json:"name"`
	Version string    `json:"version"` // "" when rejected
	Commit  string    `json:"commit"`
	SHA256  string    `json:"sha256"` // of the program
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	// Source is the hex SHA-256 of the tool's files; Recipe that of all that goes into
	// the program: source, SDK, Go version, flags. The program is stored under Recipe.
	Source string `json:"source"`
	Recipe string `json:"recipe"`
	// Spec is what the program says of itself, with the permissions that were approved.
	Spec ToolSpec `json:"spec"`
	// Report is the whole report of the save as JSON.
	Report json.RawMessage `json:"-"`
}

// ToolFailure is a recipe that did not pass, so that it is not tried again unchanged.
type ToolFailure struct {
	Key         string // recipe and approved permissions
	Name        string
	Step        string
	Reason      string
	Diagnostics json.RawMessage
	At          time.Time
}

// The states of a change.
const (
	ChangeOpen      = "open"      // begun; nothing counts yet
	ChangeCommitted = "committed" // counts; what mirrors it may still be missing
	ChangeDone      = "done"
	ChangeUndone    = "undone"
)

// Change is one change of lj to itself as the journal knows it: intent before, result
// after.
type Change struct {
	ID    int64           `json:"id"`
	Kind  string          `json:"kind"` // "tool.save", "tool.rollback" …
	Name  string          `json:"name"`
	State string          `json:"state"`
	Step  string          `json:"step"`           // the last that was begun
	Owner string          `json:"owner"`          // names the lock that its process holds
	Data  json.RawMessage `json:"data,omitempty"` // what finishing or undoing it needs
	Note  string          `json:"note,omitempty"` // how it ended
	At    time.Time       `json:"at"`
}

// ToolHealth is what calls of one version ended with. Recent has one letter a call, oldest
// first, at most 32: "." answered, "f" failed, "c" crashed.
type ToolHealth struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Calls    int      `json:"calls"`
	Failures int      `json:"failures"`
	Crashes  int      `json:"crashes"`
	Recent   string   `json:"recent"`
	Evidence []string `json:"evidence"` // the last failures in words, at most 10
}
