package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"unicode/utf8"
)

// Permissions is what a tool wants to touch. Paths are relative to the project and "." is
// all of it; Net holds host:port; Exec program names; Env names of variables.
type Permissions struct {
	Read, Write, Net, Exec, Env []string
}

// Image is a picture in a result.
type Image struct {
	MIME string
	Data []byte
}

// Result is a result said by hand. The zero value is an empty success.
type Result struct {
	// Text is what the model reads.
	Text string
	// Structured is any value that encodes as JSON, or nil.
	Structured any
	Images     []Image
	// IsError marks a failed call; Text then says why.
	IsError bool
	// Meta is private between built-in tools and the host: any value that encodes as
	// JSON, or nil. The model never sees it.
	Meta any

	panicked bool
}

// Errorf is a failed result with this text.
func Errorf(format string, a ...any) Result {
	return Result{Text: fmt.Sprintf(format, a...), IsError: true}
}

// Info is what a tool tells about itself.
type Info struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the arguments object
	ReadOnly    bool
	Idempotent  bool
	Destructive bool
	Permissions *Permissions // nil when the tool said nothing
	Version     string
}

// Tool is one tool, made by New. It is immutable and safe for use by several goroutines.
// The zero value is not a tool.
type Tool struct{ d *definition }

type definition struct {
	info   Info
	custom bool // the schema was given, not derived
	args   reflect.Type
	run    func(ctx context.Context, args []byte) Result

	once   sync.Once
	node   *node
	schema json.RawMessage
	err    error
}

// Option changes what a tool says about itself.
type Option func(*definition)

// ReadOnly says that the tool changes nothing anywhere.
func ReadOnly() Option { return func(d *definition) { d.info.ReadOnly = true } }

// Idempotent says that running the tool twice with the same arguments is as good as once.
func Idempotent() Option { return func(d *definition) { d.info.Idempotent = true } }

// Destructive says that the tool may remove or overwrite what cannot be brought back.
func Destructive() Option { return func(d *definition) { d.info.Destructive = true } }

// WithVersion gives the tool's version, "v1.2.3". The host's own knowledge goes first.
func WithVersion(v string) Option { return func(d *definition) { d.info.Version = v } }

// WithPermissions says what the tool wants to touch.
func WithPermissions(p Permissions) Option {
	return func(d *definition) { d.info.Permissions = &p }
}

// WithSchema replaces the derived JSON Schema by this one, which describes an object. The
// caller of the tool checks arguments against it; here they are then only decoded
// strictly.
func WithSchema(schema string) Option {
	return func(d *definition) { d.schema, d.custom = json.RawMessage(schema), true }
}

// New makes a tool of a function. The argument type is a struct (see the package
// documentation); with WithSchema anything that JSON decodes into. What is wrong with
// name, type or schema is reported by Err and by ServeTools.
func New[In, Out any](name, description string, run func(context.Context, In) (Out, error), opts ...Option) Tool {
	d := &definition{args: reflect.TypeFor[In]()}
	d.info.Name, d.info.Description = name, description
	for _, o := range opts {
		o(d)
	}
	d.run = func(ctx context.Context, args []byte) Result {
		var in In
		if r, ok := d.decode(args, &in); !ok {
			return r
		}
		out, err := run(ctx, in)
		if err != nil {
			r := Errorf("%s", err.Error())
			// A result beside the error may carry partial output; its text goes first.
			if res, ok := any(out).(Result); ok {
				r = res
				r.IsError = true
				r.Text = strings.TrimSuffix(res.Text, "\n")
				if r.Text != "" {
					r.Text += "\n"
				}
				r.Text += err.Error()
			}
			return r
		}
		return toResult(out)
	}
	return Tool{d}
}

// Err is what is wrong with the tool's definition, nil for a sound one.
func (t Tool) Err() error {
	if t.d == nil {
		return errors.New("zero Tool")
	}
	t.d.prepare()
	return t.d.err
}

// Info is what the tool tells about itself.
func (t Tool) Info() Info {
	t.d.prepare()
	i := t.d.info
	i.Schema = t.d.schema
	return i
}

// Call runs the tool once in this process, as a call over the wire would: arguments are
// checked, panics caught. Structured and Meta of the result are nil or json.RawMessage.
// It is for tests and for hosts in the same process.
func (t Tool) Call(ctx context.Context, args []byte) (res Result) {
	t.d.prepare()
	if t.d.err != nil {
		return Errorf("%s: %v", t.d.info.Name, t.d.err)
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		// Not returned and no panic value: runtime.Goexit.
		res = panicResult(recover(), debug.Stack())
	}()
	res = t.d.run(ctx, args)
	res = encodeResult(res)
	returned = true
	return res
}

func (d *definition) prepare() {
	d.once.Do(func() {
		if err := checkName(d.info.Name); err != nil {
			d.err = err
			return
		}
		if strings.TrimSpace(d.info.Description) == "" {
			d.err = errors.New("the description is empty")
			return
		}
		if d.custom {
			var obj map[string]any
			if err := json.Unmarshal(d.schema, &obj); err != nil {
				d.err = fmt.Errorf("schema: %w", err)
			} else if obj["type"] != "object" {
				d.err = errors.New(`schema: "type" is not "object"`)
			}
			return
		}
		n, err := schemaOf(d.args)
		if err != nil {
			d.err = fmt.Errorf("arguments: %w", err)
			return
		}
		d.node, d.schema = n, n.json()
	})
}

// decode fills in, or gives the failed result that says what is wrong with args.
func (d *definition) decode(args []byte, in any) (Result, bool) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	bad := func(problems ...string) (Result, bool) {
		schema := string(d.schema)
		if len(schema) > 4096 {
			schema = schema[:4096] + "…"
		}
		return Errorf("the arguments of %s are not valid:\n- %s\nThey follow this schema: %s",
			d.info.Name, strings.Join(problems, "\n- "), schema), false
	}
	if d.node != nil {
		dec := json.NewDecoder(bytes.NewReader(args))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return bad("not JSON: " + err.Error())
		}
		if dec.More() {
			return bad("more than one JSON value")
		}
		c := checker{}
		v = c.check(v, d.node, "")
		if len(c.problems) > 0 {
			return bad(c.problems...)
		}
		if c.changed {
			b, err := json.Marshal(v)
			if err != nil {
				return bad(err.Error())
			}
			args = b
		}
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(in); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return bad(fmt.Sprintf("%s: %s does not fit (%s)", te.Field, te.Value, te.Type))
		}
		return bad(strings.TrimPrefix(err.Error(), "json: "))
	}
	return Result{}, true
}

func toResult(v any) Result {
	switch v := v.(type) {
	case nil:
		return Result{}
	case Result:
		return v
	case *Result:
		if v == nil {
			return Result{}
		}
		return *v
	case string:
		return Result{Text: v}
	case []byte:
		return Result{Text: string(v)}
	}
	b, err := encodeJSON(v)
	if err != nil {
		return Errorf("the result does not encode as JSON: %v", err)
	}
	return Result{Text: string(b), Structured: json.RawMessage(b)}
}

// encodeResult turns Structured and Meta into json.RawMessage and makes Text valid UTF-8.
func encodeResult(r Result) Result {
	r.Text = showBytes(r.Text)
	for _, p := range []*any{&r.Structured, &r.Meta} {
		if *p == nil {
			continue
		}
		b, err := encodeJSON(*p)
		if err != nil {
			return Errorf("the result does not encode as JSON: %v", err)
		}
		*p = json.RawMessage(b)
	}
	return r
}

// showBytes writes the bytes that are not UTF-8 as \xNN.
func showBytes(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func encodeJSON(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		if !json.Valid(raw) {
			return nil, errors.New("json.RawMessage holds no JSON")
		}
		return raw, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// panicResult is the answer to a call whose function panicked, and leaves the whole stack
// on standard error.
func panicResult(value any, stack []byte) Result {
	what := "the tool's function called runtime.Goexit"
	if value != nil {
		what = fmt.Sprintf("panic: %v", value)
	}
	fmt.Fprintf(os.Stderr, "%s\n\n%s", what, stack)
	r := Errorf("%s\n\n%s", what, panicFrames(string(stack)))
	r.Text = showBytes(r.Text)
	r.panicked = true
	return r
}

// panicFrames is the part of a stack that helps to mend the tool: what lies between the
// panic and this package, at most 12 frames.
func panicFrames(stack string) string {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	from := 1
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") || strings.HasPrefix(l, "runtime.Goexit(") {
			from = i + 2
		}
	}
	var out []string
	for i := from; i+1 < len(lines) && len(out) < 24; i += 2 {
		if strings.Contains(lines[i], "plugins/sdk.New[") {
			break
		}
		out = append(out, lines[i], lines[i+1])
	}
	return strings.Join(out, "\n")
}

func checkName(s string) error {
	if s == "" || len(s) > 64 {
		return fmt.Errorf("name %q: 1 to 64 characters", s)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_') {
			continue
		}
		return fmt.Errorf("name %q: a lower-case letter, then lower-case letters, digits and _", s)
	}
	return nil
}
