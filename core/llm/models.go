package llm

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// Model is one model that the server offers.
type Model struct {
	ID      string
	OwnedBy string
	// Context is the size of the context in tokens; 0 where the server does not say.
	Context int
}

// Models asks the server what it offers, in its order. It repeats a failed request once,
// and takes at most 30 s for each. Errors are of kind "model", or "interrupted" when ctx
// ended.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	for attempt := 0; ; attempt++ {
		list, f := c.modelsOnce(ctx)
		if f == nil {
			return list, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, interrupted(err)
		}
		if !f.retry || attempt >= min(1, c.cfg.MaxRetries) {
			return nil, tried(f.err, attempt)
		}
		wait := max(f.after, backoff(attempt))
		if wait > c.cfg.MaxWait {
			return nil, f.err
		}
		if c.cfg.OnRetry != nil {
			c.cfg.OnRetry(Retry{Attempt: attempt + 2, Max: 2, Wait: wait, Reason: f.reason})
		}
		if err := c.cfg.Sleep(ctx, wait); err != nil {
			return nil, interrupted(err)
		}
	}
}

func (c *Client) modelsOnce(parent context.Context) ([]Model, *failure) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	limit := min(modelsTimeout, c.cfg.FirstByteTimeout)
	t := time.AfterFunc(limit, func() { cancel(&silence{after: limit}) })
	defer t.Stop()
	x := &exchange{header: c.headers(nil)}
	if c.preset.ModelsHeader && c.key != "" {
		x.header["X-Api-Key"] = []string{c.key}
		x.header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	// go-openai's decoding is not used: it fails on the figures of some servers.
	_, err := c.api.ListModels(context.WithValue(ctx, exchangeKey{}, x))
	if x.err == nil && x.resp == nil {
		x.err = err
	}
	if x.err != nil {
		return nil, c.unreachable(ctx, x.err)
	}
	if x.resp.StatusCode >= 300 {
		f := c.refused(x, "")
		if x.resp.StatusCode == http.StatusNotFound {
			f.err = core.Errorf(core.KindModel, "%s has no list of models at this address (%w)", c.host, f.api).
				Hint("base_url usually ends in /v1; if this server has no list, set LJ_MODEL")
		}
		return nil, f
	}
	list, ok := parseModels(x.data)
	if !ok {
		return nil, &failure{err: core.Errorf(core.KindModel, "%s answered with something that is not a list of models", c.host).
			Hint("check base_url; it usually ends in /v1"), after: -1}
	}
	return list, nil
}

func parseModels(data []byte) ([]Model, bool) {
	type entry struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		OwnedBy any    `json:"owned_by"`
		A       count  `json:"context_length"`
		B       count  `json:"context_window"`
		C       count  `json:"max_context_length"`
		D       count  `json:"max_model_len"`
	}
	var doc struct {
		Data   *[]entry `json:"data"`
		Models *[]entry `json:"models"`
	}
	var list []entry
	if json.Unmarshal(data, &doc) == nil && (doc.Data != nil || doc.Models != nil) {
		if doc.Data != nil {
			list = *doc.Data
		} else {
			list = *doc.Models
		}
	} else if json.Unmarshal(data, &list) != nil {
		return nil, false
	}
	out := []Model{}
	for _, e := range list {
		if e.ID == "" {
			e.ID = e.Name
		}
		if e.ID == "" {
			continue
		}
		owner, _ := e.OwnedBy.(string)
		out = append(out, Model{ID: e.ID, OwnedBy: owner, Context: int(max(e.A, e.B, e.C, e.D))})
	}
	return out, true
}
