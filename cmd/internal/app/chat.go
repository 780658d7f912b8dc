package app

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm"
	"github.com/lingjiyidong/lj/evolve/gobuild"
)

// Price is what tokens cost by the configured prices; ok is false where none are set.
func (a *App) Price(u core.Usage) (money float64, currency string, ok bool) {
	in, cached, answer := a.Config.Float("price.prompt"), a.Config.Float("price.cached"), a.Config.Float("price.completion")
	if in == nil || answer == nil {
		return 0, "", false
	}
	low := *in
	if cached != nil {
		low = *cached
	}
	money = (float64(u.PromptTokens-u.CachedTokens)**in + float64(u.CachedTokens)*low + float64(u.CompletionTokens)**answer) / 1e6
	return money, a.Config.String("price.currency"), true
}

// HasSecret says whether a text holds something that lj masks.
func (a *App) HasSecret(text string) bool { return a.masker().Mask(text) != text }

// Provider is a model server that is known by name.
type Provider struct {
	Name, BaseURL, KeyEnv, Model, Note string
}

// Providers are the known ones.
func Providers() []Provider {
	var out []Provider
	for _, p := range llm.Presets() {
		out = append(out, Provider{p.Name, p.BaseURL, p.KeyEnv, p.Model, p.Note})
	}
	return out
}

// NeedsServer says whether no model server is configured at all: no address, no key.
func (a *App) NeedsServer() bool {
	_, err := a.FindServer()
	return err != nil && a.Config.String("base_url") == ""
}

// Offers asks a server what it offers, without any setting. It takes no longer than limit.
func Offers(ctx context.Context, baseURL, key, version string, limit time.Duration) ([]OfferedModel, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := llm.New(llm.Config{BaseURL: baseURL, APIKey: key, KeyName: "the key", Model: "-", ConnectTimeout: limit, FirstByteTimeout: limit, MaxRetries: -1, UserAgent: "lj/" + version})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	list, err := c.Models(ctx)
	if err != nil {
		return nil, err
	}
	var out []OfferedModel
	for _, m := range list {
		out = append(out, OfferedModel{ID: m.ID, OwnedBy: m.OwnedBy, Context: m.Context})
	}
	return out, nil
}

// FindGo says whether tools can be compiled here.
func FindGo(home string) error {
	_, err := gobuild.Find(gobuild.Options{Cache: filepath.Join(home, "cache")})
	return err
}

// FirstBuild says whether Go's own library has still to be compiled, which takes minutes.
func FirstBuild(home string) bool {
	list, err := os.ReadDir(filepath.Join(home, "cache", "go-build"))
	return err != nil || len(list) < 100
}

// Settle waits until nothing reads the files of LJ_HOME in the background any more: for a
// home that is about to be removed, since the dictionary's library ends the process when
// its files vanish.
func (a *App) Settle() {
	a.mu.Lock()
	c := a.cutter
	a.mu.Unlock()
	if c != nil {
		_ = c.Ready() // without a dictionary it works too
	}
}
