// Small is a tool made with the SDK, for the benchmarks.
package main

import (
	"context"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type args struct {
	Text string `json:"text"`
}

func run(_ context.Context, in args) (string, error) { return in.Text, nil }

func main() { sdk.Serve("echo", "Says a text", run) }
