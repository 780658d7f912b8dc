package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

func TestConstantsAreThoseOfTheWire(t *testing.T) {
	if protocolVersion != wirev1.Version || cookieKey != wirev1.CookieKey || cookieValue != wirev1.CookieValue ||
		envSecret != wirev1.EnvSecret || envLifeline != wirev1.EnvLifeline ||
		!bytes.EqualFold([]byte(secretHeader), []byte(wirev1.SecretHeader)) ||
		servicePath != "/"+wirev1.Plugin_ServiceDesc.ServiceName+"/" {
		t.Error("the constants of sdk and wire differ")
	}
}

func TestEncodingAgreesWithTheGeneratedCode(t *testing.T) {
	req := &wirev1.CallRequest{
		Tool: "t", Arguments: []byte(`{"a":1}`), CallId: "c", IdempotencyKey: "k", DeadlineUnixMs: 1 << 41,
		Project: []byte("/p\xff"), AddDirs: [][]byte{[]byte("/a"), []byte("")}, Context: []byte("{}"), Serial: 1 << 60,
	}
	b, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeCallRequest(b)
	want := callRequest{tool: "t", args: req.Arguments, deadline: 1 << 41, serial: 1 << 60,
		info: CallInfo{ID: "c", Key: "k", Project: "/p\xff", AddDirs: []string{"/a", ""}, Context: json.RawMessage("{}")}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}

	var ev wirev1.CallEvent
	res := Result{Text: "茶", Structured: json.RawMessage(`[1]`), Images: []Image{{"image/png", []byte{0, 1}}, {"image/gif", nil}}, IsError: true, Meta: json.RawMessage("2"), panicked: true}
	if err := proto.Unmarshal(encodeResultEvent(res), &ev); err != nil {
		t.Fatal(err)
	}
	wantEv := &wirev1.CallEvent{Event: &wirev1.CallEvent_Result{Result: &wirev1.Result{
		Text: "茶", Structured: []byte(`[1]`), Images: []*wirev1.Image{{Mime: "image/png", Data: []byte{0, 1}}, {Mime: "image/gif"}},
		IsError: true, Meta: []byte("2"), Panicked: true}}}
	if !proto.Equal(&ev, wantEv) {
		t.Errorf("%v", &ev)
	}
	if err := proto.Unmarshal(encodeResultEvent(Result{}), &ev); err != nil || ev.GetResult() == nil {
		t.Errorf("an empty result: %v, %v", &ev, err)
	}

	var d wirev1.ToolDescription
	info := Info{Name: "n", Description: "d", Schema: json.RawMessage(`{}`), ReadOnly: true, Idempotent: true, Destructive: true,
		Permissions: &Permissions{Read: []string{"."}, Env: []string{"A", ""}}, Version: "v1.0.0"}
	if err := proto.Unmarshal(encodeDescription(info), &d); err != nil {
		t.Fatal(err)
	}
	wantD := &wirev1.ToolDescription{Name: "n", Description: "d", InputSchema: []byte(`{}`), ReadOnly: true, Idempotent: true, Destructive: true,
		Permissions: &wirev1.Permissions{Read: []string{"."}, Env: []string{"A", ""}}, Version: "v1.0.0"}
	if !proto.Equal(&d, wantD) {
		t.Errorf("%v", &d)
	}
}

// FuzzDecodeCallRequest: never a panic, and what the generated code takes is read alike.
func FuzzDecodeCallRequest(f *testing.F) {
	for _, r := range []*wirev1.CallRequest{{}, {Tool: "t", Arguments: []byte("{}"), Serial: 7}, {AddDirs: [][]byte{[]byte("/a")}, DeadlineUnixMs: -1}} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeCallRequest(b)
		var want wirev1.CallRequest
		if proto.Unmarshal(b, &want) != nil {
			return
		}
		if len(want.ProtoReflect().GetUnknown()) > 0 {
			return // groups and foreign wire types are skipped differently
		}
		if err != nil {
			t.Fatalf("%v for %x", err, b)
		}
		if got.tool != want.Tool || !bytes.Equal(got.args, want.Arguments) || got.serial != want.Serial || got.deadline != want.DeadlineUnixMs || got.info.Project != string(want.Project) {
			t.Fatalf("%+v, %v", got, &want)
		}
	})
}

func FuzzArguments(f *testing.F) {
	type in struct {
		S string         `json:"s"`
		N int            `json:"n,omitempty" minimum:"1"`
		L []float64      `json:"l,omitempty"`
		M map[string]any `json:"m,omitempty"`
	}
	tool := New("t", "d", func(_ context.Context, v in) (string, error) {
		return v.S, nil
	})
	for _, s := range []string{`{"s":"a"}`, `{"s":1}`, `{"s":"a","n":1e400}`, `{"s":"a","l":[null]}`, `[`, `{"s":"a","m":{"x":[[]]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = tool.Call(t.Context(), b) })
}
