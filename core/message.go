package core

import "encoding/json"

// The roles of a message, as OpenAI-compatible servers name them.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is the readable form of one stored message. The form that counts is Raw, the
// very bytes that are (or were) sent to the model server; the other fields are derived
// from it once, for showing and searching.
//
// A Message is a value: it is safe to copy and to share for reading.
type Message struct {
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	Reasoning  string          `json:"reasoning,omitempty"`
	ToolCalls  []ToolCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Raw        json.RawMessage `json:"-"`
}

// ToolCall is one call that the model asked for.
type ToolCall struct {
	// ID is the server's identifier, unique within its message. Servers that send none
	// get one from the client.
	ID string `json:"id"`
	// Name is the tool's name as the model wrote it.
	Name string `json:"name"`
	// Arguments is the text of the arguments. When Problem is empty it is one valid JSON
	// object.
	Arguments string `json:"arguments"`
	// Problem says why the call must not run (cut off by the output limit, not JSON …) in
	// words for the model. Empty for a call that may run. A call with a Problem carries in
	// Arguments what may be stored and sent back ("{}" where the text was no JSON).
	Problem string `json:"problem,omitempty"`
}

// Usage counts what requests cost, in tokens as the server reported them. The zero value
// is no cost. Requests are those that were sent, each repetition counted. Where Unreported
// is not 0 the tokens are too low and every display must say so.
type Usage struct {
	Requests         int `json:"requests"`
	PromptTokens     int `json:"prompt_tokens"`
	CachedTokens     int `json:"cached_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Refused          int `json:"-"` // requests that were sent and had no answer
	Unreported       int `json:"-"` // requests whose answer carried no usage
	Guessed          int `json:"-"` // tokens that those are guessed at
}

// Add adds v to u.
func (u *Usage) Add(v Usage) {
	u.Requests += v.Requests
	u.PromptTokens += v.PromptTokens
	u.CachedTokens += v.CachedTokens
	u.CompletionTokens += v.CompletionTokens
	u.Refused += v.Refused
	u.Unreported += v.Unreported
	u.Guessed += v.Guessed
}

// Answered is how many requests had an answer, or the beginning of one.
func (u Usage) Answered() int { return u.Requests - u.Refused }

// Spent is what limits count: the reported tokens and the guessed ones.
func (u Usage) Spent() int { return u.Total() + u.Guessed }

// Total is prompt and completion tokens together; cached tokens are part of the prompt.
func (u Usage) Total() int { return u.PromptTokens + u.CompletionTokens }
