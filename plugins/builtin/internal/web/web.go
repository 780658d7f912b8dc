// Package web is the way to the network of the web tools: an HTTP client that connects to
// public addresses only, and bounded reading of bodies. It owns which addresses are
// public; it knows nothing of pages, search engines and tools.
//
//	c := web.New(web.Options{})
//	defer c.Close()
//	page, err := c.Do(ctx, req)
//
// An address is judged when a connection is made to it, after its name was resolved, so
// that no name and no redirect leads elsewhere.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/lingjiyidong/lj/core"
)

// Agent is the User-Agent of all requests.
const Agent = "lj"

// Bounds of one request.
const (
	MaxBody      = 5 << 20 // bytes, after decompression
	MaxTime      = 30 * time.Second
	MaxRedirects = 5
)

// Options configure a client. The zero value is usable.
type Options struct {
	// AllowPrivate permits addresses that are not public.
	AllowPrivate bool
	// SameHost refuses redirects to other hosts.
	SameHost bool
	// Timeout is for a whole request; default MaxTime.
	Timeout time.Duration
}

// Client is safe for use by several goroutines.
type Client struct {
	o       Options
	http    *http.Client
	direct  *http.Transport
	proxied *http.Transport
	proxy   func(*url.URL) (*url.URL, error)
}

// Page is an answer, read.
type Page struct {
	URL    *url.URL // after redirects
	Status int
	Header http.Header
	Body   []byte
	Cut    bool // the body was longer than MaxBody
}

// ErrPrivate is wrapped by the error of a request that an address was refused for.
var ErrPrivate = errors.New("not a public address")

// New makes a client. The proxies are those of the environment as it is now.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = MaxTime
	}
	c := &Client{o: o, proxy: httpproxy.FromEnvironment().ProxyFunc()}
	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	guarded := *d
	if !o.AllowPrivate {
		guarded.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%s: %w", address, ErrPrivate)
			}
			return check(ap.Addr())
		}
	}
	c.direct = transport(&guarded)
	c.proxied = transport(d)
	c.proxied.Proxy = func(r *http.Request) (*url.URL, error) { return c.proxy(r.URL) }
	c.http = &http.Client{Transport: c, CheckRedirect: c.redirect}
	return c
}

func transport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10, IdleConnTimeout: 20 * time.Second, MaxIdleConns: 8,
	}
}

// Close ends idle connections.
func (c *Client) Close() error {
	c.direct.CloseIdleConnections()
	c.proxied.CloseIdleConnections()
	return nil
}

// RoundTrip goes through the environment's proxy where there is one. The proxy may have a
// private address; what it is asked for may not.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkURL(r.URL); err != nil {
		return nil, err
	}
	p, err := c.proxy(r.URL)
	if err != nil {
		return nil, fmt.Errorf("proxy of the environment: %w", err)
	}
	if p == nil {
		return c.direct.RoundTrip(r)
	}
	if !c.o.AllowPrivate {
		if err := resolved(r.Context(), r.URL.Hostname()); err != nil {
			return nil, err
		}
	}
	return c.proxied.RoundTrip(r)
}

func (c *Client) redirect(r *http.Request, via []*http.Request) error {
	if len(via) > MaxRedirects {
		return fmt.Errorf("more than %d redirects", MaxRedirects)
	}
	if c.o.SameHost && !strings.EqualFold(r.URL.Host, via[0].URL.Host) {
		return fmt.Errorf("redirected to another host, %s", r.URL.Host)
	}
	return nil // RoundTrip and the dialer judge it
}

// resolved judges a host that a proxy will resolve: all its addresses must be public.
func resolved(ctx context.Context, host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return check(a)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("%s can't be resolved here, so whether the proxy would lead to a private address is not known: %w", host, errors.Join(ErrPrivate, err))
	}
	for _, a := range addrs {
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
}

// ParseURL reads a URL that a model gave. A missing scheme is https.
func ParseURL(s string) (*url.URL, error) {
	s = strings.Trim(strings.TrimSpace(s), "<>\"'`")
	if s == "" {
		return nil, core.Errorf(core.KindUsage, "url is empty")
	}
	if !strings.Contains(s, "://") && !strings.HasPrefix(s, "data:") && !strings.HasPrefix(s, "javascript:") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "url: %w", err)
	}
	if err := checkURL(u); err != nil {
		return nil, core.Errorf(core.KindUsage, "%w", err)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s: only http and https URLs are fetched", u.Redacted())
	case u.Hostname() == "":
		return fmt.Errorf("%s has no host", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("%s: a URL with a user name or password is not fetched", u.Redacted())
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if _, err := netip.ParseAddr(host); err != nil && numeric(host[strings.LastIndexByte(host, '.')+1:]) {
		return fmt.Errorf("%s is neither a name nor an address of four decimal numbers: %w", host, ErrPrivate)
	}
	return nil
}

// numeric says whether the last label of a host makes it an address in one of the forms
// that C libraries read: 2130706433, 0x7f.1, 0177.0.0.1.
func numeric(label string) bool {
	if label == "" {
		return false
	}
	if _, err := strconv.ParseUint(label, 0, 64); err == nil {
		return true
	}
	return strings.Trim(label, "0123456789") == ""
}

// special are the blocks that are not public, of the IANA special-purpose registries
// (RFC 6890 and its updates), and single addresses that cloud machines find metadata at.
var special = sync.OnceValue(func() []netip.Prefix {
	var out []netip.Prefix
	for s := range strings.FieldsSeq(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
		192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
		224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
		2001::/23 2001:db8::/32 3fff::/20`) {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
})

// Public says whether an address is one of the public network. IPv6 addresses that carry
// an IPv4 address are judged by that.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if a.Is6() {
		b := a.As16()
		switch {
		case a.Zone() != "":
			return false
		case netip.MustParsePrefix("64:ff9b::/96").Contains(a): // NAT64
			return Public(netip.AddrFrom4([4]byte(b[12:])))
		case netip.MustParsePrefix("2002::/16").Contains(a): // 6to4
			return Public(netip.AddrFrom4([4]byte(b[2:6])))
		case b[0]&0xe0 != 0x20: // all that is assigned is in 2000::/3
			return false
		}
	}
	if !a.IsValid() {
		return false
	}
	for _, p := range special() {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

func check(a netip.Addr) error {
	if Public(a) {
		return nil
	}
	return fmt.Errorf("%s: %w", a, ErrPrivate)
}

// Do sends a request and reads the answer, whatever its status. The error is for people
// and models and says what to do where that is known.
func (c *Client) Do(ctx context.Context, r *http.Request) (*Page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, errTime)
	defer cancel()
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", Agent)
	}
	resp, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, c.explain(ctx, r.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	p := &Page{URL: resp.Request.URL, Status: resp.StatusCode, Header: resp.Header, Body: body}
	if len(body) > MaxBody {
		p.Body, p.Cut = body[:MaxBody], true
	} else if err != nil {
		if len(body) == 0 || ctx.Err() != nil && context.Cause(ctx) != errTime {
			return nil, c.explain(ctx, r.URL, err)
		}
		p.Cut = true
	}
	return p, nil
}

var errTime = errors.New("time is up")

// explain makes a sentence of a failure.
func (c *Client) explain(ctx context.Context, u *url.URL, err error) error {
	var ue *url.Error
	where := u.Host
	if errors.As(err, &ue) {
		if x, e := url.Parse(ue.URL); e == nil && x.Host != "" {
			where = x.Host
		}
		err = ue.Err
	}
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.Is(err, ErrPrivate):
		return core.Errorf(core.KindDenied, "%s is refused: %w", where, err).
			Hint("addresses of this machine and of private networks are not fetched unless a person sets web.allow_private")
	case context.Cause(ctx) == errTime:
		return core.Errorf(core.KindLimit, "%s did not answer in full within %v", where, c.o.Timeout)
	case ctx.Err() != nil:
		return core.Errorf(core.KindInterrupted, "%s: %w", where, context.Cause(ctx))
	case errors.As(err, &dns) && dns.IsNotFound:
		return core.Errorf(core.KindNotFound, "there is no host %s", dns.Name)
	case errors.As(err, &dns):
		return core.Errorf(core.KindFailed, "%s can't be resolved: %w", where, err).Hint("the network may be unreachable from here")
	case errors.As(err, &cert):
		return core.Errorf(core.KindFailed, "the certificate of %s is not valid: %w", where, cert.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return core.Errorf(core.KindFailed, "no connection to %s: %w", where, op.Err).Hint("the host may be down, or the network unreachable from here")
	}
	return core.Errorf(core.KindFailed, "%s: %w", where, err)
}
