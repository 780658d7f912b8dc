package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Common struct {
	Verbose bool `json:"verbose,omitempty"`
	Limit   int  `json:"limit" default:"3"`
}

type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y,omitempty"`
}

type Args struct {
	Common
	Path    string            `json:"path" jsonschema:"CSV file, relative to the project"`
	Mode    string            `json:"mode,omitempty" enum:"fast,slow"`
	Level   int               `json:"level,omitempty" minimum:"1" maximum:"9"`
	Sizes   []uint8Alias      `json:"sizes,omitempty" enum:"1,2,4"`
	Points  []Point           `json:"points,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	At      *time.Time        `json:"at,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Any     any               `json:"any,omitempty"`
	Data    []byte            `json:"data,omitempty"`
	Skipped string            `json:"-"`
	Ratio   *float32          `json:"ratio"`
	Limit   int               `json:"limit" default:"5" maximum:"100"`
	hidden  int
}

type uint8Alias uint16

func TestSchema(t *testing.T) {
	tool := sdk.New("t", "d", func(_ context.Context, in Args) (Args, error) { _ = in.hidden; return in, nil })
	if err := tool.Err(); err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"object","properties":{` +
		`"path":{"type":"string","description":"CSV file, relative to the project"},` +
		`"mode":{"type":"string","enum":["fast","slow"]},` +
		`"level":{"type":"integer","minimum":1,"maximum":9},` +
		`"sizes":{"type":"array","items":{"type":"integer","enum":[1,2,4],"minimum":0}},` +
		`"points":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x"],"additionalProperties":false}},` +
		`"labels":{"type":"object","additionalProperties":{"type":"string"}},` +
		`"at":{"type":"string","format":"date-time"},"raw":{},"any":{},` +
		`"data":{"type":"string","contentEncoding":"base64"},` +
		`"ratio":{"type":"number"},` +
		`"limit":{"type":"integer","maximum":100,"default":5},` +
		`"verbose":{"type":"boolean"}},"required":["path"],"additionalProperties":false}`
	got := string(tool.Info().Schema)
	if got != want {
		t.Errorf("schema\n got %s\nwant %s", got, want)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(got), &s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
		t.Error(err)
	}
}

func TestUnsoundDefinitions(t *testing.T) {
	type loop struct {
		Next *loopT `json:"next"`
	}
	_ = loop{}
	for name, tool := range map[string]sdk.Tool{
		"time.Duration": sdk.New("t", "d", func(context.Context, struct{ D time.Duration }) (string, error) { return "", nil }),
		"itself":        sdk.New("t", "d", func(context.Context, loopT) (string, error) { return "", nil }),
		"JSON form":     sdk.New("t", "d", func(context.Context, struct{ C chan int }) (string, error) { return "", nil }),
		"keys":          sdk.New("t", "d", func(context.Context, struct{ M map[int]string }) (string, error) { return "", nil }),
		"not a struct":  sdk.New("t", "d", func(context.Context, string) (string, error) { return "", nil }),
		"name":          sdk.New("T-1", "d", func(context.Context, struct{}) (string, error) { return "", nil }),
		"description":   sdk.New("t", " ", func(context.Context, struct{}) (string, error) { return "", nil }),
		"enum": sdk.New("t", "d", func(context.Context, struct {
			B bool `enum:"a"`
		}) (string, error) {
			return "", nil
		}),
		"default": sdk.New("t", "d", func(context.Context, struct {
			N int `default:"x"`
		}) (string, error) {
			return "", nil
		}),
		"minimum": sdk.New("t", "d", func(context.Context, struct {
			S string `minimum:"1"`
		}) (string, error) {
			return "", nil
		}),
		`"object"`: sdk.New("t", "d", func(context.Context, any) (string, error) { return "", nil }, sdk.WithSchema(`{"type":"string"}`)),
		"zero":     {},
	} {
		if err := tool.Err(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type loopT struct {
	Next *loopT `json:"next"`
}

func TestArguments(t *testing.T) {
	tool := sdk.New("t", "d", func(_ context.Context, in Args) (Args, error) { return in, nil })
	call := func(args string) sdk.Result { return tool.Call(t.Context(), []byte(args)) }
	for args, want := range map[string]string{
		`{"path":"a"}`:               `"limit":5`,
		`{"path":"a","limit":7}`:     `"limit":7`,
		`{"path":"a","limit":7.0}`:   `"limit":7`,
		`{"path":"a","limit":1e1}`:   `"limit":10`,
		`{"path":"a","mode":null}`:   `"path":"a"`,
		`{"path":"a","sizes":[4]}`:   `"sizes":[4]`,
		`{"path":"a","any":[1,{}]}`:  `"any":[1,{}]`,
		`{"path":"a","data":"YQ=="}`: `"data":"YQ=="`,
		`{"path":"<&>"}`:             `"path":"<&>"`,
	} {
		if r := call(args); r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %v %s", args, r.IsError, r.Text)
		}
	}
	for args, want := range map[string]string{
		``:                                          "path: missing (string, CSV file",
		`{}`:                                        "path: missing",
		`{"path":1}`:                                "path: want string, got integer 1",
		`{"path":null}`:                             "path: want string, got null",
		`{"path":"a","pth":1}`:                      "pth: unknown; known are path, mode",
		`{"path":"a","PATH":"b"}`:                   "PATH: unknown",
		`{"path":"a","level":10}`:                   "level: 10 is more than 9",
		`{"path":"a","level":1.5}`:                  "level: want a whole number, got 1.5",
		`{"path":"a","mode":"quick"}`:               "mode: quick is none of fast, slow",
		`{"path":"a","sizes":[1,3]}`:                "sizes[1]: 3 is none of 1, 2, 4",
		`{"path":"a","points":[{"y":1}]}`:           "points[0].x: missing (number)",
		`{"path":"a","labels":{"k":1}}`:             "labels.k: want string",
		`{"path":"a","at":"yesterday"}`:             "yesterday",
		`{"path":"a","limit":99999999999999999999}`: "limit",
		`{"path":"a"} {}`:                           "more than one JSON value",
		`{"path":`:                                  "not JSON",
		`[]`:                                        "want object, got array",
	} {
		r := call(args)
		if !r.IsError || !strings.Contains(r.Text, want) || !strings.Contains(r.Text, "the arguments of t are not valid") {
			t.Errorf("%s: %v\n%s", args, r.IsError, r.Text)
		}
	}
}

func TestResults(t *testing.T) {
	type none struct{}
	run := func(v any, err error) sdk.Result {
		return sdk.New("t", "d", func(context.Context, none) (any, error) { return v, err }).Call(t.Context(), nil)
	}
	if r := run("text", nil); r.Text != "text" || r.Structured != nil {
		t.Errorf("%+v", r)
	}
	if r := run(nil, nil); r.Text != "" || r.IsError {
		t.Errorf("%+v", r)
	}
	if r := run(map[string]int{"a": 1}, nil); r.Text != `{"a":1}` {
		t.Errorf("%+v", r)
	}
	if r := run(sdk.Result{Text: "x\xff", Structured: []int{1}, Meta: 2}, nil); r.Text != `x\xff` || string(r.Structured.(json.RawMessage)) != "[1]" || string(r.Meta.(json.RawMessage)) != "2" {
		t.Errorf("%+v", r)
	}
	if r := run("partial", errors.New("broke")); r.Text != "broke" || !r.IsError {
		t.Errorf("%+v", r)
	}
	if r := run(sdk.Result{Text: "partial\n"}, errors.New("broke")); r.Text != "partial\nbroke" || !r.IsError {
		t.Errorf("%+v", r)
	}
	if r := run(func() {}, nil); !r.IsError || !strings.Contains(r.Text, "does not encode") {
		t.Errorf("%+v", r)
	}
	if r := run(sdk.Errorf("no %s", "tea"), nil); !r.IsError || r.Text != "no tea" {
		t.Errorf("%+v", r)
	}
}

func TestPanicIsAResult(t *testing.T) {
	tool := sdk.New("t", "d", func(_ context.Context, in struct{ How string }) (string, error) {
		if in.How == "goexit" {
			runtime.Goexit()
		}
		var s []int
		return "", errors.New(string(rune(s[3])))
	})
	r := tool.Call(t.Context(), []byte(`{"How":"index"}`))
	if !r.IsError || !strings.Contains(r.Text, "panic: runtime error: index out of range [3]") || !strings.Contains(r.Text, "sdk_test.go:") {
		t.Errorf("%s", r.Text)
	}
	got := make(chan sdk.Result, 1)
	go func() {
		defer func() { close(got) }()
		got <- tool.Call(context.Background(), []byte(`{"How":"goexit"}`))
	}()
	<-got // Goexit cannot be stopped, only seen; over the wire the stream then ends with an error
}

func TestContext(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := sdk.Path(t.Context(), "a/../b"); got != filepath.Join(wd, "b") {
		t.Errorf("outside of a call: %s", got)
	}
	sdk.Progress(t.Context(), "nobody hears this")
	s := &sink{}
	ctx := sdk.NewContext(t.Context(), sdk.CallInfo{ID: "1", Project: "/p", Context: json.RawMessage(`{}`)}, s)
	sdk.Progress(ctx, "line")
	sdk.Output(ctx, []byte("bytes"))
	if sdk.Project(ctx) != "/p" || sdk.Path(ctx, "x") != "/p/x" || sdk.Path(ctx, "/y") != "/y" || sdk.Call(ctx).ID != "1" || string(sdk.Context(ctx)) != "{}" || s.text != "linebytes" {
		t.Errorf("%v %q", sdk.Call(ctx), s.text)
	}
}

type sink struct{ text string }

func (s *sink) Progress(t string) { s.text += t }
func (s *sink) Output(p []byte)   { s.text += string(p) }

func TestSourceIsWholeAndBuildsAlone(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			want = append(want, f)
		}
	}
	src := sdk.Source()
	for f := range src {
		got = append(got, f)
	}
	sort.Strings(got)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("embedded %v, in the folder %v", got, want)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module github.com/lingjiyidong/lj\n\ngo 1.26.0\n")
	for f, b := range src {
		write("plugins/sdk/"+f, string(b))
	}
	write("tools/hello/tool.go", `package main

import (
	"context"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Name string `+"`json:\"name\"`"+`
}

func Run(ctx context.Context, in Args) (string, error) { return "hello " + in.Name, nil }

func main() { sdk.Serve("hello", "Says hello", Run) }
`)
	bin := filepath.Join(dir, "hello")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "./tools/hello")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Run by hand it says what it is.
	out, err := exec.Command(bin).CombinedOutput()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.ExitCode() != 2 || !strings.Contains(string(out), "lj tools call hello") {
		t.Errorf("%v: %s", err, out)
	}
}
