package llm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// newTransport is a transport for model servers: the proxies of the environment, but
// never for this machine; kept connections, so that the requests of a tool loop share
// one; dead HTTP/2 connections noticed by pings.
func newTransport(connect time.Duration) *http.Transport {
	d := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if isLoopback(r.URL.Host) {
				return nil, nil
			}
			return http.ProxyFromEnvironment(r)
		},
		DialContext:           d.DialContext,
		ForceAttemptHTTP2:     true, // over TLS only
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		TLSHandshakeTimeout:   connect,
		DisableCompression:    true, // compressors hold back pieces of a stream
		MaxIdleConns:          16,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// httpClient is base with the redirect rule of this package: at most three, to the same
// scheme, host and port, and never one that turns a POST into a GET.
func httpClient(base *http.Client) *http.Client {
	c := *base
	c.Timeout = 0 // a stream may last; silence is what is bounded
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method || len(via) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return &c
}

// exchange is one HTTP request as it passes through go-openai: what goes in besides what
// go-openai knows, and what came out.
type exchange struct {
	body   []byte      // the request body, instead of go-openai's; nil for none
	header http.Header // more headers
	keep   bool        // leave the body of a good answer unread

	resp *http.Response
	data []byte      // the body of a refusal, or of an answer that is not kept
	err  error       // the transport's error
	sent atomic.Bool // the whole request was written to a connection
}

type exchangeKey struct{}

// hook is the HTTP client that go-openai is given.
type hook struct{ http *http.Client }

const maxRefusal = 256 << 10

// Do sends the request with the body and headers of its exchange.
func (h hook) Do(req *http.Request) (*http.Response, error) {
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		return nil, errors.New("request without exchange")
	}
	req.Header.Del("Connection") // HTTP/1.1 keeps connections anyway
	for k, v := range x.header {
		req.Header[k] = v
	}
	if x.body != nil {
		req.ContentLength = int64(len(x.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
		req.Body, _ = req.GetBody()
	}
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			x.sent.Store(true)
		}
	}}
	x.resp, x.err = h.http.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if x.err != nil {
		return nil, x.err
	}
	if x.resp.StatusCode >= 300 || !x.keep {
		limit := int64(maxRefusal)
		if x.resp.StatusCode < 300 {
			limit = maxLine
		}
		var err error
		x.data, err = io.ReadAll(io.LimitReader(x.resp.Body, limit))
		x.resp.Body.Close()
		if err != nil && x.resp.StatusCode < 300 {
			x.err = err
		}
		x.resp.Body = io.NopCloser(bytes.NewReader(nil))
	}
	return x.resp, nil
}

// watch bounds the silence of one exchange. It cancels the exchange's context with a
// silence as cause.
type watch struct {
	timer  *time.Timer
	idle   time.Duration
	alive  time.Duration // how long bytes without an event count as life
	last   time.Time     // the last event
	frozen bool          // the timer is no longer moved
}

// silence is the cause of the end of an exchange in which the server said nothing.
type silence struct {
	after time.Duration
	pings bool // there were signs of life, but no answer
}

func (s *silence) Error() string { return "nothing for " + s.after.String() }

func newWatch(cancel context.CancelCauseFunc, first, idle, alive time.Duration) *watch {
	w := &watch{idle: idle, alive: alive, last: time.Now()}
	s := &silence{after: first}
	w.timer = time.AfterFunc(first, func() { cancel(s) })
	return w
}

// bytes notes that bytes came in.
func (w *watch) bytes(cancel context.CancelCauseFunc) {
	if w.frozen {
		return
	}
	if since := time.Since(w.last); since > w.alive {
		cancel(&silence{after: w.alive, pings: true})
		return
	}
	w.timer.Reset(w.idle)
}

// freeze sets the time that is left, whatever comes in.
func (w *watch) freeze(d time.Duration) {
	w.frozen = true
	w.timer.Reset(d)
}

// watched is a response body under watch.
type watched struct {
	io.Reader
	w      *watch
	cancel context.CancelCauseFunc
}

func (b watched) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.w.bytes(b.cancel)
	}
	return n, err
}
