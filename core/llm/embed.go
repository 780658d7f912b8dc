package llm

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/lingjiyidong/lj/core"
	"github.com/sashabaranov/go-openai"
)

// Embed asks the server for the vectors of texts, in their order, all of one length. It
// makes one attempt; ctx bounds it. Errors are of kind "model", or "interrupted" when ctx
// ended.
func (c *Client) Embed(ctx context.Context, model string, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, core.Errorf(core.KindInternal, "encode texts: %w", err)
	}
	x := &exchange{header: c.headers(nil), body: body}
	_, err = c.api.CreateEmbeddings(context.WithValue(ctx, exchangeKey{}, x), openai.EmbeddingRequestStrings{Input: texts, Model: openai.EmbeddingModel(model)})
	if ctx.Err() != nil {
		return nil, interrupted(ctx.Err())
	}
	if x.err == nil && x.resp == nil {
		x.err = err
	}
	if x.err != nil {
		return nil, c.unreachable(ctx, x.err).err
	}
	if x.resp.StatusCode >= 300 {
		f := c.refused(x, model)
		if x.resp.StatusCode == http.StatusNotFound {
			return nil, core.Errorf(core.KindModel, "%s makes no embeddings at this address (%w)", c.host, f.api).
				Hint("embedding.base_url usually ends in /v1; check embedding.model")
		}
		return nil, f.err
	}
	var doc struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	bad := core.Errorf(core.KindModel, "%s answered with something that is not a list of vectors", c.host).Hint("check embedding.base_url and embedding.model")
	if json.Unmarshal(x.data, &doc) != nil || len(doc.Data) != len(texts) {
		return nil, bad
	}
	out := make([][]float32, len(texts))
	for i, d := range doc.Data {
		if d.Index != nil {
			i = *d.Index
		}
		if i < 0 || i >= len(out) || out[i] != nil || len(d.Embedding) == 0 || len(d.Embedding) != len(doc.Data[0].Embedding) {
			return nil, bad
		}
		out[i] = d.Embedding
	}
	return out, nil
}
