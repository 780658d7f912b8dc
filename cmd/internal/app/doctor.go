package app

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/sandbox"
)

// Check is one line of the doctor.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// Doctor looks at everything lj depends on. It changes nothing but scratch files and sends
// nothing to a model server beyond opening a connection.
func (a *App) Doctor(ctx context.Context) []Check {
	var out []Check
	add := func(name, status, detail, fix string) { out = append(out, Check{name, status, detail, fix}) }

	if err := writable(a.Home); err != nil {
		add("home", "fail", fmt.Sprintf("%s: %v", a.Home, err), "set LJ_HOME to a directory that you can write to")
	} else if fi, err := os.Stat(a.Home); err == nil && fi.Mode().Perm()&0o077 != 0 {
		add("home", "warn", fmt.Sprintf("%s is open to others (%o)", a.Home, fi.Mode().Perm()), "chmod 700 "+a.Home)
	} else {
		add("home", "ok", a.Home, "")
	}

	if st, err := a.Store(ctx); err != nil {
		add("database", "fail", err.Error(), "")
	} else if err := fullTextWorks(st.DB()); err != nil {
		add("database", "fail", "full-text search: "+err.Error(), "build lj with cgo")
	} else {
		add("database", "ok", st.Path(), "")
	}

	if broken := a.Config.Broken; len(broken) > 0 {
		fixes := make([]string, len(broken))
		details := make([]string, len(broken))
		for i, err := range broken {
			details[i], fixes[i] = err.Error(), core.NextOf(err)
		}
		add("settings", "fail", strings.Join(details, "; "), fixes[0])
	} else if warnings := append(slices.Clone(a.Config.Warnings), a.UnknownRules(ctx)...); len(warnings) > 0 {
		add("settings", "warn", strings.Join(warnings, "; "), "mend the keys named")
	} else {
		detail := a.UserFile()
		if _, err := os.Stat(detail); errors.Is(err, fs.ErrNotExist) {
			detail = "built-in values; there is no " + detail
		}
		add("settings", "ok", detail, "")
	}

	if s, err := a.FindServer(); err != nil {
		add("server", "warn", err.Error(), "set OPENAI_BASE_URL and OPENAI_API_KEY; lj demo works without")
	} else if err := reachable(ctx, s.BaseURL); err != nil {
		add("server", "warn", fmt.Sprintf("%s (from %s): %v", s.BaseURL, s.Source, err), "start the server, or mend base_url")
	} else {
		detail := fmt.Sprintf("%s (from %s), model %s", s.BaseURL, s.Source, firstOf(s.Model, "the first that it offers"))
		if s.Key == "" {
			detail += ", no key"
		}
		add("server", "ok", detail, "")
	}

	for _, p := range []struct{ name, why, fix string }{
		{"bash", "commands run in it", "install bash"},
		{"git", "the model uses it", "install git"},
		{"go", "self-written tools are built with it", "install Go 1.26 or newer from https://go.dev/dl"},
	} {
		if path, err := exec.LookPath(p.name); err != nil {
			add(p.name, "warn", "not found; "+p.why, p.fix)
		} else {
			add(p.name, "ok", path, "")
		}
	}
	out = append(out, a.guardChecks(ctx)...)
	return out
}

func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	name := f.Name()
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(name)
}

func fullTextWorks(db *sql.DB) error {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ExecContext(context.Background(), `CREATE VIRTUAL TABLE temp.doctor USING fts5(x); DROP TABLE temp.doctor`)
	return err
}

// reachable opens and closes a connection to the server.
func reachable(ctx context.Context, base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	return c.Close()
}

// guardChecks show that a known bad change is refused and what this machine enforces.
func (a *App) guardChecks(ctx context.Context) []Check {
	rep := sandbox.Probe()
	conf := Check{Name: "confinement", Status: "ok", Detail: fmt.Sprintf("Landlock %d, seccomp, no new privileges, mount name space", rep.Landlock)}
	if len(rep.Missing) > 0 {
		conf.Status, conf.Detail = "warn", "not enforced here: "+strings.Join(rep.Missing, "; ")
		conf.Fix = "commands ask before they run, in mode auto too; a newer kernel with Landlock, seccomp and user name spaces enforces it"
	} else if os.Geteuid() == 0 {
		conf.Detail += "; as root the number of processes is not limited"
	}
	return []Check{a.tryGuard(ctx), conf}
}

// tryGuard lets real tools try to change a guard file of a scratch project: by name, and
// by the shell.
func (a *App) tryGuard(ctx context.Context) Check {
	fail := func(format string, v ...any) Check {
		return Check{"guard", "fail", fmt.Sprintf(format, v...), "do not let lj run unattended on this machine"}
	}
	dir, err := os.MkdirTemp("", "lj-doctor-")
	if err != nil {
		return fail("no scratch directory: %v", err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fail("no scratch directory: %v", err)
	}
	const before = "max_steps: 5\n"
	target := filepath.Join(dir, ".agent", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fail("no scratch project: %v", err)
	}
	if err := os.WriteFile(target, []byte(before), 0o644); err != nil {
		return fail("no scratch project: %v", err)
	}
	opt := a.opt
	opt.Dir, opt.Warn, opt.Flags, opt.Tolerate = dir, nil, nil, true
	sub, err := Open(ctx, opt)
	if err != nil {
		return fail("%v", err)
	}
	defer sub.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tried := 0
	for _, call := range []struct{ name, args string }{
		{"write_file", `{"path":".agent/config.yaml","content":"mode: auto\n"}`},
		{"bash", `{"command":"f=config; echo 'mode: auto' > .agent/$f.yaml"}`},
		{"bash", `{"command":"cd .agent && printf 'mode: auto' | tee config.yaml"}`},
	} {
		if call.name == "bash" && !a.confined() {
			continue
		}
		tried++
		res, err := sub.ToolCall(ctx, call.name, json.RawMessage(call.args), TurnOptions{})
		if core.KindOf(err) == core.KindDenied || err == nil && res.IsError {
			if b, rerr := os.ReadFile(target); rerr == nil && string(b) == before {
				continue
			}
		}
		if b, rerr := os.ReadFile(target); err != nil && rerr == nil && string(b) == before {
			return Check{"guard", "fail", fmt.Sprintf("it could not be tried: %v", err), firstOf(core.NextOf(err), "mend what fails above")}
		}
		return fail("%s %s was not refused", call.name, call.args)
	}
	return Check{Name: "guard", Status: "ok", Detail: fmt.Sprintf("%d attempts to change a project's .agent/config.yaml were refused", tried)}
}
