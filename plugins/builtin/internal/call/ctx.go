package call

import (
	"context"
	"time"
)

// shortContext bounds the search for candidates, which only serves an error text.
func shortContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Second)
}
