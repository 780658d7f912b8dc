// Package llm is the client for OpenAI-compatible model servers: it streams answers,
// gathers tool calls, retries what may be retried, and lists models.
//
// It owns the form of requests and answers on the wire, what real servers do differently
// from the documentation, and the words for their failures. It is the only importer of
// go-openai, which builds addresses, headers and error values; bodies pass through its
// HTTP client hook. It refuses to know what a session, a tool or a permission is: it runs
// nothing, stores nothing and prints nothing.
//
// A request is put together from the stored bytes of its messages, with the messages
// last. So encoding costs a copy, and a request's body without its closing "]}" is the
// beginning of the next one's in the same session, which is what servers' prompt caches
// want.
//
//	c, err := llm.New(llm.Config{BaseURL: "https://api.openai.com/v1", APIKey: key, Model: "gpt-4o"})
//	msgs := []json.RawMessage{llm.EncodeSystem("Be brief."), llm.EncodeUser("hi")}
//	res, err := c.Stream(ctx, llm.Request{Messages: msgs, Cause: "turn"}, func(d llm.Delta) { fmt.Print(d.Text) })
//	msgs = append(msgs, res.Message.Raw) // the bytes to store and to send back
//
// What is bounded: each wait between attempts and all of them together, the time to
// connect, the time to the first byte, the silence between bytes, keep-alives without an
// event, the size of an answer. Every failure is a core.Error of kind "model" with one
// sentence and, where there is one, the next step; keys never appear in it.
package llm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/lingjiyidong/lj/core"
)

// The defaults of Config.
const (
	DefaultConnectTimeout   = 10 * time.Second
	DefaultFirstByteTimeout = 120 * time.Second
	DefaultIdleTimeout      = 120 * time.Second
	DefaultKeepAliveTimeout = 10 * time.Minute
	DefaultRetries          = 4
	DefaultMaxWait          = 2 * time.Minute
)

const (
	finishGrace   = 5 * time.Second       // for usage and [DONE] after the finish reason
	drainGrace    = 50 * time.Millisecond // for the end of the body after [DONE]
	modelsTimeout = 30 * time.Second
	backoffFirst  = 500 * time.Millisecond
	backoffMost   = 8 * time.Second
	quickRetries  = 2 // attempts beyond the first at a server that is not there
	silentRetries = 1 // attempts beyond the first at a server that says nothing
)

// Config says which server a client talks to and how patiently. The zero value of each
// field means its default.
type Config struct {
	// BaseURL is the part of the address before /chat/completions, usually ending in /v1.
	// Empty: that of the preset.
	BaseURL string
	APIKey  string
	// KeyName is the name of the setting or variable the key comes from, for error texts.
	// Empty: the preset's variable, else OPENAI_API_KEY.
	KeyName string
	// Preset is the name of a preset. Empty: found by the base URL, if there is one.
	Preset string
	// Model is used by requests that name none. Empty: the preset's default.
	Model string
	// HTTP is the client to send with; its redirect rule and timeout are replaced. Nil: a
	// client with the proxies of the environment (never for this machine) and kept
	// connections.
	HTTP *http.Client

	ConnectTimeout   time.Duration // TCP and TLS each; not used with HTTP
	FirstByteTimeout time.Duration // from the request to the first byte of the answer's body
	IdleTimeout      time.Duration // between two bytes
	// KeepAliveTimeout is how long comments and other bytes that are no event count as
	// signs of life.
	KeepAliveTimeout time.Duration
	// MaxRetries is the number of attempts after the first; negative for none. A server
	// that cannot be reached gets at most 2, a silent one at most 1.
	MaxRetries int
	// MaxWait bounds all waits between the attempts of one request together.
	MaxWait time.Duration
	// TraceHeaders sends X-LJ-Cause and X-LJ-Step to servers that are not this machine.
	TraceHeaders bool
	UserAgent    string // default "lj"
	// OnRetry is told of each wait before it begins. It must not block.
	OnRetry func(Retry)

	// Sleep waits d or until ctx ends, and then returns its error. For tests.
	Sleep func(ctx context.Context, d time.Duration) error
	// Now is the clock that dates in Retry-After are compared with. For tests.
	Now func() time.Time
}

// Retry is what OnRetry is told: attempt number Attempt (2 is the first repetition) of at
// most Max begins after Wait, because of Reason.
type Retry struct {
	Attempt, Max int
	Wait         time.Duration
	Reason       string
}

// Delta is a piece of an answer as it streams in.
type Delta struct {
	Text      string
	Reasoning string
	// ToolName is the name of a call that has just begun; its arguments follow unseen.
	ToolName string
	// Reset says that the answer is asked for again: everything that this call of Stream
	// has delivered so far is void.
	Reset bool
}

// Response is a whole answer.
type Response struct {
	// Message has in Raw the bytes to store and to send back. Calls whose Problem is not
	// empty must be answered, not run.
	Message      core.Message
	FinishReason string // as the server said it; "stop" or "tool_calls" where it said nothing
	// Usage counts as requests all that were sent whole, also those that were refused, never
	// answered, or repeated; Refused says how many had no answer.
	Usage    core.Usage
	Attempts int // HTTP requests sent
}

// Client talks to one server. It is safe for use by several goroutines.
type Client struct {
	cfg     Config
	api     *openai.Client
	preset  Preset
	base    string
	host    string // host and port, for texts
	key     string
	keyName string
	trace   bool
	shapes  shapes
	closer  func()
}

// New makes a client. It makes no connection. Errors are of kind "config".
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg}
	preset, known := Preset{}, false
	if cfg.Preset != "" {
		if preset, known = PresetNamed(cfg.Preset); !known {
			var names []string
			for _, p := range Presets() {
				names = append(names, p.Name)
			}
			return nil, core.Errorf(core.KindConfig, "there is no preset %q", cfg.Preset).Hint("presets: %s", strings.Join(names, ", "))
		}
	}
	base := strings.TrimSpace(cfg.BaseURL)
	if base == "" {
		base = preset.BaseURL
	}
	if base == "" {
		return nil, core.Errorf(core.KindConfig, "no model server is configured").
			Hint("set OPENAI_BASE_URL and OPENAI_API_KEY, or a preset: `lj config init`")
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, core.Errorf(core.KindConfig, "base_url is not an http or https address").Hint("it looks like https://api.openai.com/v1")
	}
	u.Fragment, u.RawQuery = "", ""
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions")
	u.RawPath = ""
	c.base, c.host = strings.TrimRight(u.String(), "/"), u.Host
	if !known {
		preset, _ = PresetFor(c.base)
	}
	c.preset = preset
	c.key = strings.TrimSpace(cfg.APIKey)
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, core.Errorf(core.KindConfig, "the key contains characters that no key has").Hint("set it again, without quotes and line breaks")
	}
	c.keyName = cfg.KeyName
	if c.keyName == "" {
		c.keyName = preset.KeyEnv
	}
	if c.keyName == "" {
		c.keyName = "OPENAI_API_KEY"
	}
	c.trace = cfg.TraceHeaders || isLoopback(u.Host)

	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.cfg.ConnectTimeout, DefaultConnectTimeout)
	def(&c.cfg.FirstByteTimeout, DefaultFirstByteTimeout)
	def(&c.cfg.IdleTimeout, DefaultIdleTimeout)
	def(&c.cfg.KeepAliveTimeout, DefaultKeepAliveTimeout)
	def(&c.cfg.MaxWait, DefaultMaxWait)
	switch {
	case cfg.MaxRetries == 0:
		c.cfg.MaxRetries = DefaultRetries
	case cfg.MaxRetries < 0:
		c.cfg.MaxRetries = 0
	}
	if c.cfg.UserAgent == "" {
		c.cfg.UserAgent = "lj"
	}
	if c.cfg.Model == "" {
		c.cfg.Model = preset.Model
	}
	if c.cfg.Sleep == nil {
		c.cfg.Sleep = sleep
	}
	if c.cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	hc := cfg.HTTP
	if hc == nil {
		hc = &http.Client{Transport: newTransport(c.cfg.ConnectTimeout)}
		c.closer = hc.CloseIdleConnections
	}
	// The plain type on purpose: go-openai's own form for Anthropic sends no key and adds
	// a query that the compatible endpoint does not know.
	oc := openai.DefaultConfig(c.key)
	oc.BaseURL = c.base
	oc.HTTPClient = hook{httpClient(hc)}
	c.api = openai.NewClientWithConfig(oc)
	return c, nil
}

// Close closes idle connections. The client can still be used.
func (c *Client) Close() {
	if c.closer != nil {
		c.closer()
	}
}

// Model is the model of requests that name none; "" when neither the configuration nor
// the preset has one.
func (c *Client) Model() string { return c.cfg.Model }

// Preset is what is known of the server; the zero value for one that has no preset.
func (c *Client) Preset() Preset { return c.preset }

// Host is the server's host and port.
func (c *Client) Host() string { return c.host }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failure is the end of one attempt without an answer.
type failure struct {
	err    error // for people
	reason string
	api    *APIError
	retry  bool
	most   int           // retries for this kind of failure; 0 means the client's
	after  time.Duration // what the server asked for; negative for nothing
	begun  bool          // the server had begun to answer
	sent   bool          // the request had left whole, answered or not
}

// Stream sends one request and returns the whole answer. Pieces are given to out, in
// order, from the calling goroutine; out may be nil.
//
// Rate limits, server faults, connection faults and cut streams are repeated, from the
// start, within Config's bounds; nothing of a broken attempt gets into the answer. Other
// refusals are not repeated. An error has kind "model"; ErrContextLength and *APIError
// can be found in it. When ctx ends, the error has kind "interrupted" and wraps
// ctx.Err(). Beside an error the Response has, in Message, the text received by the
// last attempt (no calls, Raw nil when there was none).
func (c *Client) Stream(ctx context.Context, r Request, out func(Delta)) (Response, error) {
	model := r.Model
	if model == "" {
		model = c.cfg.Model
	}
	var res Response
	if model == "" {
		return res, core.Errorf(core.KindConfig, "no model is set for %s", c.host).Hint("set LJ_MODEL; `lj models` lists what the server offers")
	}
	onRetry := r.OnRetry
	if onRetry == nil {
		onRetry = c.cfg.OnRetry
	}
	var waited time.Duration
	retries := 0
	for {
		if err := ctx.Err(); err != nil {
			return res, interrupted(err)
		}
		sh := c.shapes.get(model)
		a := &answer{out: out}
		res.Attempts++
		f := c.once(ctx, &r, model, sh, a)
		if f == nil {
			res.Usage.Requests++
			res.Usage.Add(a.usage)
			if !a.reported {
				res.Usage.Unreported++
			}
			res.Message = a.message(idTaken(r.Messages))
			res.FinishReason = a.finish
			if res.FinishReason == "" {
				res.FinishReason = FinishStop
				if len(res.Message.ToolCalls) > 0 {
					res.FinishReason = FinishCalls
				}
			}
			return res, nil
		}
		switch {
		case f.begun:
			res.Usage.Requests++
			res.Usage.Add(a.usage)
			if !a.reported {
				res.Usage.Unreported++
			}
		case f.sent:
			res.Usage.Requests++
			res.Usage.Refused++
		}
		if err := ctx.Err(); err != nil {
			res.Message = a.partial()
			return res, interrupted(err)
		}
		adapted := f.api != nil && c.learn(f.api, &r, model, sh)
		if !adapted {
			most := c.cfg.MaxRetries
			if f.most > 0 {
				most = min(most, f.most)
			}
			if !f.retry || retries >= most {
				res.Message = a.partial()
				return res, tried(f.err, retries)
			}
			wait := f.after
			if wait < 0 {
				wait = backoff(retries)
			} else {
				wait += rand.N(100 * time.Millisecond) // so that parallel steps do not return as one
			}
			if waited+wait > c.cfg.MaxWait {
				res.Message = a.partial()
				if f.after < 0 {
					return res, tried(f.err, retries)
				}
				return res, core.Errorf(core.KindModel, "%s asks to wait %s before the next request, more than the limit of %s: %w",
					c.host, f.after.Round(time.Second), c.cfg.MaxWait, f.err).Hint("try again later, or use another model or key")
			}
			if a.delivered && out != nil {
				out(Delta{Reset: true})
			}
			retries++
			if onRetry != nil {
				onRetry(Retry{Attempt: retries + 1, Max: most + 1, Wait: wait, Reason: f.reason})
			}
			waited += wait
			if err := c.cfg.Sleep(ctx, wait); err != nil {
				return res, interrupted(err)
			}
		} else if a.delivered && out != nil {
			out(Delta{Reset: true})
		}
	}
}

func interrupted(err error) error {
	return core.Errorf(core.KindInterrupted, "the request to the model was interrupted: %w", err)
}

// tried adds how often something was tried.
func tried(err error, retries int) error {
	var e *core.Error
	if retries == 0 || !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Msg = fmt.Sprintf("%s; tried %d times", c.Msg, retries+1)
	return &c
}

// backoff is the wait before repetition n, counted from 0: doubling from half a second
// to eight seconds, a quarter more or less by chance.
func backoff(n int) time.Duration {
	d := backoffMost
	if n < 4 {
		d = backoffFirst << n
	}
	return d*3/4 + rand.N(d/2)
}

// once is one attempt. It returns nil when a holds a whole answer.
func (c *Client) once(parent context.Context, r *Request, model string, sh shape, a *answer) (f *failure) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	x := &exchange{body: c.assemble(r, model, sh), header: c.headers(r), keep: true}
	defer func() {
		if f != nil {
			f.sent = x.resp != nil || x.sent.Load()
		}
	}()
	w := newWatch(cancel, c.cfg.FirstByteTimeout, c.cfg.IdleTimeout, c.cfg.KeepAliveTimeout)
	defer w.timer.Stop()

	// The body that go-openai encodes here is replaced in the hook. It gets no model name:
	// it refuses some names by itself.
	stream, err := c.api.CreateChatCompletionStream(context.WithValue(ctx, exchangeKey{}, x), openai.ChatCompletionRequest{})
	if x.resp == nil {
		if x.err == nil {
			x.err = err
		}
		return c.unreachable(ctx, x.err)
	}
	if x.resp.StatusCode >= 300 {
		return c.refused(x, model)
	}
	if err != nil {
		return &failure{err: core.Errorf(core.KindModel, "%s: %w", c.host, err), after: -1}
	}
	defer stream.Close()

	body := watched{x.resp.Body, w, cancel}
	events := newSSE(body)
	for {
		data, isErr, done, err := events.next()
		if err == nil && !done {
			w.last = time.Now()
			err = a.add(data, isErr)
		}
		if err == nil && !done {
			if a.finish != "" && !w.frozen {
				w.freeze(min(finishGrace, c.cfg.IdleTimeout))
			}
			continue
		}
		var api *APIError
		complete := (a.finish != "" || a.whole) && a.finish != "error" && a.chunks > 0
		switch {
		case errors.As(err, &api):
		case done && a.chunks > 0 && a.finish != "error", complete && parent.Err() == nil && !errors.Is(err, errTooLarge):
			if x.resp.ProtoMajor == 1 {
				w.freeze(drainGrace)
				_, _ = io.Copy(io.Discard, io.LimitReader(x.resp.Body, 64<<10)) // so that the connection can be used again
			}
			return nil
		}
		return c.cut(ctx, err, api, a, model)
	}
}

// headers are what a request carries beside what go-openai sets.
func (c *Client) headers(r *Request) http.Header {
	h := http.Header{"User-Agent": {c.cfg.UserAgent}}
	if c.trace && r != nil {
		if r.Cause != "" {
			h["X-Lj-Cause"] = []string{headerText(r.Cause)}
		}
		if r.Step != "" {
			h["X-Lj-Step"] = []string{headerText(r.Step)}
		}
	}
	return h
}

// headerText is s as a header can carry it.
func headerText(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return url.PathEscape(s)
	}
	return s
}

// refused is the failure of a request that was answered with a status.
func (c *Client) refused(x *exchange, model string) *failure {
	e := parseAPIError(x.resp.StatusCode, x.data)
	if e.Status >= 300 && e.Status < 400 {
		e.Message = ""
		if u, err := x.resp.Location(); err == nil {
			e.Message = "to " + u.Scheme + "://" + u.Host
		}
	}
	f := &failure{err: c.explain(e, model), api: e, retry: e.transient() && !e.tooLong(), after: retryAfter(x.resp.Header, c.cfg.Now())}
	f.reason = e.Error()
	return f
}

// retryAfter is what the server asks to wait, negative when it asks nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms := parseSeconds(h.Get("Retry-After-Ms")); ms >= 0 {
		return ms / 1000
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if d := parseSeconds(v); d >= 0 {
		return d
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0)
	}
	return -1
}

func parseSeconds(s string) time.Duration {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return -1
	}
	var f float64
	if _, err := fmt.Sscanf(s, "%g", &f); err != nil || f < 0 {
		return -1
	}
	return time.Duration(min(f, 1e8) * float64(time.Second))
}

// unreachable is the failure of a request that got no answer at all.
func (c *Client) unreachable(ctx context.Context, err error) *failure {
	if f := c.silent(ctx); f != nil {
		return f
	}
	var ue *url.Error
	if errors.As(err, &ue) { // it would repeat the whole address
		err = ue.Err
	}
	f := &failure{retry: true, after: -1}
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.most, f.reason = quickRetries, "connection refused"
		f.err = core.Errorf(core.KindModel, "no model server answers at %s: connection refused", c.host).
			Hint("check base_url, and that the server is running")
	case errors.As(err, &dns):
		f.most, f.reason = quickRetries, "host name not found"
		f.err = core.Errorf(core.KindModel, "the host %s cannot be found", dns.Name).Hint("check base_url and the network")
	case errors.As(err, &cert), errors.As(err, &unknown):
		f.retry = false
		f.err = core.Errorf(core.KindModel, "the certificate of %s is not trusted: %w", c.host, err).Hint("check base_url, the clock, and the certificates of this machine")
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		f.retry = false
		f.err = core.Errorf(core.KindModel, "%s does not speak HTTPS", c.host).Hint("base_url should begin with http://")
	case isTimeout(err):
		f.most, f.reason = quickRetries, "connecting took too long"
		f.err = core.Errorf(core.KindModel, "no connection to %s within %s", c.host, c.cfg.ConnectTimeout).Hint("check base_url, the network and the proxy settings")
	default:
		f.reason = "connection lost"
		f.err = core.Errorf(core.KindModel, "the connection to %s failed: %s", c.host, c.redact(sentence(err.Error()))).Hint("check base_url, the network and the proxy settings")
	}
	return f
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// silent is the failure of an exchange that was ended for its silence, nil for another.
func (c *Client) silent(ctx context.Context) *failure {
	var s *silence
	if !errors.As(context.Cause(ctx), &s) {
		return nil
	}
	f := &failure{retry: true, most: silentRetries, after: -1, reason: "no answer for " + s.after.String()}
	if s.pings {
		f.err = core.Errorf(core.KindModel, "%s kept the connection open for %s without answering", c.host, s.after)
	} else {
		f.err = core.Errorf(core.KindModel, "%s said nothing for %s", c.host, s.after)
	}
	f.err = f.err.(*core.Error).Hint("try again, or use another model; a local server may still be loading the model")
	return f
}

// cut is the failure of an answer that had begun.
func (c *Client) cut(ctx context.Context, err error, api *APIError, a *answer, model string) *failure {
	f := c.silent(ctx)
	switch {
	case f != nil:
	case api != nil:
		f = &failure{err: c.explain(api, model), api: api, retry: api.transient() && !api.tooLong(), after: -1, reason: api.Error()}
	case errors.Is(err, errTooLarge), errors.Is(err, errNotAPI):
		f = &failure{err: core.Errorf(core.KindModel, "%s: %w", c.host, err).Hint("check base_url; it usually ends in /v1"), after: -1}
	case errors.Is(err, errBroken):
		f = &failure{err: core.Errorf(core.KindModel, "%s: %w", c.host, err), retry: true, after: -1, reason: "broken stream"}
	case a.chunks == 0 && (err == nil || errors.Is(err, io.EOF)):
		f = &failure{err: core.Errorf(core.KindModel, "%s sent an empty answer", c.host).Hint("check base_url and the model"), retry: true, after: -1, reason: "empty answer"}
	case a.finish == "error":
		f = &failure{err: core.Errorf(core.KindModel, "%s ended the answer with an error", c.host), retry: true, after: -1, reason: "the server ended the answer with an error"}
	default:
		f = &failure{err: core.Errorf(core.KindModel, "%s cut the answer off before its end", c.host).Hint("try again; a proxy between may end long answers"),
			retry: true, after: -1, reason: "the answer was cut off"}
	}
	f.begun = a.chunks > 0
	return f
}
