// Command lj is a coding agent for the terminal that grows its own tools.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/cli"
)

// version is set by the release build; otherwise it is that of the module.
var version = ""

func main() { os.Exit(run()) }

func run() int {
	// The same binary serves the built-in tools and takes the steps into confinement.
	if status, ok := app.Reexec(os.Args); ok {
		return status
	}
	var last atomic.Pointer[os.Signal]
	var handler atomic.Pointer[func() bool]
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for n := 0; ; n++ {
			sig := <-signals
			if h := handler.Load(); h != nil && sig == os.Interrupt && (*h)() {
				n--
				continue
			}
			last.CompareAndSwap(nil, &sig)
			if n == 0 {
				cancel(fmt.Errorf("%s", sig))
				continue
			}
			// A second signal does not wait for anything; children end with us.
			os.Exit(130)
		}
	}()
	dir, err := os.Getwd()
	if err != nil {
		dir = "" // commands that need none still work
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lj: find this program: "+err.Error())
		return 1
	}
	v, commit := buildVersion()
	return cli.Main(ctx, cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY: term.IsTerminal(int(os.Stdin.Fd())), OutTTY: term.IsTerminal(int(os.Stdout.Fd())), ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Environ: os.Environ(), Dir: dir, Self: self, Version: v, Commit: commit,
		OnInterrupt: func(h func() bool) {
			if h == nil {
				handler.Store(nil)
				return
			}
			handler.Store(&h)
		},
		Signal: func() os.Signal {
			if s := last.Load(); s != nil {
				return *s
			}
			return nil
		},
	}, os.Args[1:])
}

// buildVersion is the version and the commit that this binary was built from.
func buildVersion() (v, commit string) {
	v = version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return orDevel(v), ""
	}
	if v == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return orDevel(v), commit
}

func orDevel(v string) string {
	if v == "" {
		return "v0.1.0-dev"
	}
	return v
}
