package llm

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
)

// Vectors come in the order of the texts, whatever the order of the answer; anything else
// than vectors of one length is an error that says what to do.
func TestEmbed(t *testing.T) {
	answer := ""
	status := 200
	var asked struct {
		Model string
		Input []string
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s %s", r.URL.Path, r.Header.Get("Authorization"))
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		w.Write([]byte(answer)) //nolint:errcheck // the client may be gone
	}))
	defer srv.Close()
	c, err := New(Config{BaseURL: srv.URL + "/v1", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	answer = `{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}`
	v, err := c.Embed(t.Context(), "m", []string{"甲", "b"})
	if err != nil || v[0][0] != 1 || v[1][1] != 1 || asked.Model != "m" || asked.Input[0] != "甲" {
		t.Fatalf("%v %v %+v", v, err, asked)
	}
	for _, bad := range []string{`{}`, `{"data":[{"embedding":[1]}]}`, `{"data":[{"embedding":[1]},{"embedding":[1,2]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`,
		`{"data":[{"index":7,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"data":[{"embedding":[]},{"embedding":[]}]}`, `hello`} {
		answer = bad
		if _, err := c.Embed(t.Context(), "m", []string{"a", "b"}); core.KindOf(err) != core.KindModel || !strings.Contains(core.NextOf(err), "embedding.model") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	status, answer = 404, `{"error":{"message":"no such model"}}`
	if _, err := c.Embed(t.Context(), "m", []string{"a"}); core.KindOf(err) != core.KindModel || !strings.Contains(err.Error(), "no embeddings") {
		t.Errorf("404: %v", err)
	}
}
