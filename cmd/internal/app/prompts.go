package app

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
	"github.com/lingjiyidong/lj/prompts"
)

// MaxPrompt is the largest system text that is accepted, in bytes.
const MaxPrompt = prompts.MaxSystem

// systemText is the active system text and its version number.
func (a *App) systemText(ctx context.Context) (string, int, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return "", 0, err
	}
	p, ok, err := st.ActivePrompt(ctx)
	if err != nil {
		return "", 0, err
	}
	if ok {
		return p.Content, p.Version, nil
	}
	return prompts.System(), prompts.BuiltinVersion, nil
}

// Prompts lists all versions of the system text, newest first; contents are left out.
func (a *App) Prompts(ctx context.Context) ([]core.PromptVersion, error) {
	list, err := a.allPrompts(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]core.PromptVersion, 0, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		p := list[i]
		p.Content = ""
		out = append(out, p)
	}
	return out, nil
}

func (a *App) allPrompts(ctx context.Context) ([]core.PromptVersion, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := st.Prompts(ctx)
	if err != nil {
		return nil, err
	}
	builtin := core.PromptVersion{Version: prompts.BuiltinVersion, Active: true, Reason: "built-in", Content: prompts.System(), CreatedAt: installedAt()}
	for _, p := range stored {
		if p.Active {
			builtin.Active = false
		}
	}
	return append([]core.PromptVersion{builtin}, stored...), nil
}

// installedAt is when this program was put where it is, which is when its built-in text
// came to this machine.
func installedAt() time.Time {
	exe, err := os.Executable()
	if err != nil {
		return time.Now()
	}
	info, err := os.Stat(exe)
	if err != nil { // replaced or removed while it runs
		return time.Now()
	}
	return info.ModTime()
}

// Prompt is one version of the system text, "" the active one.
func (a *App) Prompt(ctx context.Context, version string) (core.PromptVersion, error) {
	list, err := a.allPrompts(ctx)
	if err != nil {
		return core.PromptVersion{}, err
	}
	want := 0
	if version != "" {
		if want, err = strconv.Atoi(strings.TrimPrefix(version, "v")); err != nil {
			return core.PromptVersion{}, core.Errorf(core.KindUsage, "a prompt version is a number, not %q", version)
		}
	}
	for _, p := range list {
		if want == p.Version || version == "" && p.Active {
			return p, nil
		}
	}
	return core.PromptVersion{}, core.Errorf(core.KindNotFound, "prompt version %s: %w", version, core.ErrNotFound).Hint("lj prompts list shows them")
}

// SetPrompt stores a new version of the system text and makes it active from the next
// session on. A text that equals the active one changes nothing.
func (a *App) SetPrompt(ctx context.Context, text, reason string) (core.PromptVersion, error) {
	if err := prompts.Check(text); err != nil {
		return core.PromptVersion{}, err
	}
	active, err := a.Prompt(ctx, "")
	if err != nil {
		return active, err
	}
	if strings.TrimSpace(active.Content) == strings.TrimSpace(text) {
		return active, nil
	}
	st, err := a.Store(ctx)
	if err != nil {
		return active, err
	}
	return st.AddPrompt(ctx, core.PromptVersion{Content: strings.TrimSpace(text), Parent: active.Version, Reason: reason}, prompts.BuiltinVersion)
}

// RollbackPrompt makes an earlier version active again, from the next session on.
func (a *App) RollbackPrompt(ctx context.Context, version string) (core.PromptVersion, error) {
	p, err := a.Prompt(ctx, version)
	if err != nil {
		return p, err
	}
	st, err := a.Store(ctx)
	if err != nil {
		return p, err
	}
	n := p.Version
	if n == prompts.BuiltinVersion {
		n = 0
	}
	if err := st.ActivatePrompt(ctx, n); err != nil {
		return p, err
	}
	p.Active = true
	return p, nil
}

// DiffPrompts is the difference of two versions as a unified diff.
func (a *App) DiffPrompts(ctx context.Context, v1, v2 string) (string, error) {
	p1, err := a.Prompt(ctx, v1)
	if err != nil {
		return "", err
	}
	p2, err := a.Prompt(ctx, v2)
	if err != nil {
		return "", err
	}
	return workspace.UnifiedDiff(p1.Content+"\n", p2.Content+"\n", 3, 0, 100_000), nil
}
