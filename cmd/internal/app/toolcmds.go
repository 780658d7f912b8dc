package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/evolve"
	"github.com/lingjiyidong/lj/evolve/toolkit"
)

// ToolReport is the outcome of a change to a tool, in the JSON form of the contract.
type ToolReport = evolve.Report

// ToolNew writes a small working tool into a new folder and returns its files.
func (a *App) ToolNew(ctx context.Context, name, dir string) ([]string, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.NewFiles(name, dir)
}

// ToolSave proves a folder of files and makes it live.
func (a *App) ToolSave(ctx context.Context, name, dir, message, bump string, progress func(string)) (*ToolReport, error) {
	if _, err := a.toolbox(ctx); err != nil { // the names that are taken
		return nil, err
	}
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Save(ctx, toolkit.SaveRequest{Name: name, Dir: dir, Message: message, Bump: bump, Progress: progress})
}

// ToolTest vets, builds and tests the live version again.
func (a *App) ToolTest(ctx context.Context, name string, progress func(string)) (*ToolReport, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Test(ctx, name, progress)
}

// ToolVersions lists all saves of a tool, newest first.
func (a *App) ToolVersions(ctx context.Context, name string) ([]toolkit.VersionInfo, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Versions(ctx, name)
}

// ToolDiff is the difference of two versions' sources.
func (a *App) ToolDiff(ctx context.Context, name, v1, v2 string) (string, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return "", err
	}
	return t.Diff(ctx, name, v1, v2)
}

// ToolRollback makes an earlier version live again.
func (a *App) ToolRollback(ctx context.Context, name, version string, progress func(string)) (*ToolReport, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Rollback(ctx, name, version, progress)
}

// byUser is why a tool is disabled when a person said so.
const byUser = "disabled by the user"

// ToolDisable switches a tool off.
func (a *App) ToolDisable(ctx context.Context, name string) (*ToolReport, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Disable(ctx, name, byUser)
}

// ToolEnable switches a tool on again.
func (a *App) ToolEnable(ctx context.Context, name string) (*ToolReport, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Enable(ctx, name)
}

// ToolRemove removes a tool; its history is kept.
func (a *App) ToolRemove(ctx context.Context, name string) (*ToolReport, error) {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Remove(ctx, name)
}

// ToolExport writes the live versions of tools to a file, in one step.
func (a *App) ToolExport(ctx context.Context, names []string, file string) error {
	t, err := a.Toolkit(ctx)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return core.Errorf(core.KindUsage, "write %s: %w", file, err)
	}
	err = t.Export(ctx, names, f)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// ToolImport proves the tools of an archive and makes them live.
func (a *App) ToolImport(ctx context.Context, r io.Reader, progress func(string)) ([]*ToolReport, error) {
	if _, err := a.toolbox(ctx); err != nil {
		return nil, err
	}
	t, err := a.Toolkit(ctx)
	if err != nil {
		return nil, err
	}
	return t.Import(ctx, r, progress)
}
