package core

import "time"

// PromptVersion is one version of the system text.
type PromptVersion struct {
	Version   int       `json:"version"`
	Active    bool      `json:"active"`
	Parent    int       `json:"parent"` // the version that was active when it was made; 0 for none
	Reason    string    `json:"reason"`
	CreatedAt time.Time `json:"created_at"`
	Content   string    `json:"content,omitempty"`
}
