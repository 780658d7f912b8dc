// Package rig wires a toolkit with the real store, host and contract suite, for tests and
// for the program that tests kill.
package rig

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/sandbox"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/toolkit"
	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest"
	"github.com/lingjiyidong/lj/plugins/sdk"
	"github.com/lingjiyidong/lj/store"
)

const (
	confineEnv = "RIG_CONFINE"
	// The program's environment travels in one variable: the SDK in this program would
	// take the host's handshake for its own.
	carriedEnv = "RIG_ENV"
)

// Reexec enters confinement and becomes the program, when this process was started for
// that.
func Reexec() {
	encoded, ok := os.LookupEnv(confineEnv)
	if !ok {
		return
	}
	var env []string
	if err := json.Unmarshal([]byte(os.Getenv(carriedEnv)), &env); err != nil {
		os.Exit(97)
	}
	p, err := sandbox.Decode(encoded)
	if err == nil {
		_, err = sandbox.Enter(p)
	}
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], env)
	}
	os.Stderr.WriteString("confine: " + err.Error() + "\n")
	os.Exit(97)
}

// Confine puts this program's confinement step in front of a command.
func Confine(cmd *exec.Cmd, c toolkit.Confinement, sockets string) error {
	if err := c.MakeWritable(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := c.Profile(sockets)
	sandbox.Prepare(cmd, p)
	cmd.Args = append([]string{self, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = self
	env, err := json.Marshal(cmd.Env)
	if err != nil {
		return err
	}
	cmd.Env = []string{confineEnv + "=" + p.Encode(), carriedEnv + "=" + string(env)}
	return nil
}

// Contract proves a program with the suite.
func Contract(ctx context.Context, t toolkit.Target) (toolkit.Proof, error) {
	rep := plugintest.Run(ctx, plugintest.Target{
		Command: host.Command{Name: t.Name, Path: t.Program, SHA256: t.SHA256, Origin: core.OriginToolkit, Dir: t.Project,
			Env: []string{"PATH=/usr/bin:/bin", "HOME=" + t.Temp, "TMPDIR=" + t.Temp},
			Sandbox: func(cmd *exec.Cmd, sockets string) error {
				return Confine(cmd, toolkit.Confinement{Program: t.Program, Permissions: t.Permissions, Project: t.Project, Temp: t.Temp}, sockets)
			}},
		Name: t.Name, Sample: t.Sample, Project: t.Project,
	})
	p := toolkit.Proof{Spec: rep.Spec, Args: rep.Args, Result: rep.Result}
	if rep.OK {
		return p, nil
	}
	p.Reason = "the contract was not kept"
	for _, c := range rep.Checks {
		if !c.OK {
			p.Reason = c.Name + ": " + c.Detail
			p.Diagnostics = append(p.Diagnostics, evolve.Diagnostic{Message: strings.TrimSpace(p.Reason)})
		}
	}
	return p, nil
}

// Open opens store and toolkit of a home, whose build cache is the shared one.
func Open(ctx context.Context, home, cache string, change func(*toolkit.Options)) (*toolkit.Toolkit, *store.Store, error) {
	if cache != "" {
		if err := os.MkdirAll(filepath.Join(home, "cache"), 0o700); err != nil {
			return nil, nil, err
		}
		if err := os.Symlink(cache, filepath.Join(home, "cache", "go-build")); err != nil && !os.IsExist(err) {
			return nil, nil, err
		}
	}
	o := toolkit.Options{Home: home, SDK: sdk.Source(), Contract: Contract,
		Confine: func(cmd *exec.Cmd, c toolkit.Confinement) error { return Confine(cmd, c, "") }}
	st, err := store.Open(ctx, filepath.Join(home, "lj.db"), store.Options{Warn: func(s string) {
		if o.Warn != nil {
			o.Warn(s)
		}
	}})
	if err != nil {
		return nil, nil, err
	}
	o.Ledger = st
	if change != nil {
		change(&o)
	}
	t, err := toolkit.Open(ctx, o)
	if err != nil {
		st.Close()
		return nil, nil, err
	}
	return t, st, nil
}
