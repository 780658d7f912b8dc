// Command modelserver plays a script of model answers on 127.0.0.1, for trying lj by hand
// without a model:
//
//	go run ./cmd/internal/modelserver script.yaml
//
// It prints the base URL and, for each request, one line. The form of scripts is described
// in core/llm/llmtest.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: modelserver SCRIPT.yaml")
		os.Exit(2)
	}
	s, err := llmtest.FromFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "modelserver: "+err.Error())
		os.Exit(2)
	}
	fmt.Println(s.URL())
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	<-ch
	for _, r := range s.Requests() {
		fmt.Println(string(r.Body))
	}
	for _, e := range s.Errors() {
		fmt.Fprintln(os.Stderr, "modelserver: "+e)
	}
	s.Close()
}
