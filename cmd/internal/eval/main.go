package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lingjiyidong/lj/memory/segment"
)

func main() {
	trainTo := flag.String("train", "", "fit the model of sentence pairs and write its weights to this `file`")
	flag.Parse()
	dir := os.Getenv("LJ_DATA")
	if dir == "" {
		dir = filepath.Join("..", "shared", "data")
	}
	seg := segment.New(segment.Options{})
	if *trainTo != "" {
		if err := train(seg, dir, *trainTo); err != nil {
			fmt.Fprintln(os.Stderr, "eval:", err)
			os.Exit(1)
		}
		return
	}
}
