package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/plugins/builtin/internal/web"
)

func TestPublicAddresses(t *testing.T) {
	for a, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:4700::1111": true, "172.15.0.1": true, "172.32.0.1": true, "100.63.0.1": true,
		"64:ff9b::808:808": true, "2002:808:808::1": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.9.9.9": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false, "198.18.0.1": false,
		"224.0.0.1": false, "239.1.1.1": false, "255.255.255.255": false, "240.0.0.1": false, "168.63.129.16": false, "203.0.113.5": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::127.0.0.1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "2001:db8::1": false, "2001::1": false, "64:ff9b::7f00:1": false,
		"64:ff9b::a00:1": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2002:a00:1::1": false, "fec0::1": false,
	} {
		if got := web.Public(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
	if web.Public(netip.Addr{}) {
		t.Error("no address")
	}
}

func TestURLs(t *testing.T) {
	for s, want := range map[string]string{
		"example.com/a?b#c":       "https://example.com/a?b",
		" <http://example.com/> ": "http://example.com/",
		"http://[::1]:80/":        "http://[::1]:80/",
		"http://1.2.3.4":          "http://1.2.3.4",
		"http://v1.example/":      "http://v1.example/",
	} {
		u, err := web.ParseURL(s)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v %v", s, u, err)
		}
	}
	for _, s := range []string{
		"", "ftp://example.com", "file:///etc/passwd", "gopher://x", "javascript:alert(1)", "data:text/html,x", "http://", "http://u:p@example.com/",
		"http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://017700000001", "http://127.0.0.1.5", "http://0.0.0.0x1/", "http://\x00/",
	} {
		if u, err := web.ParseURL(s); err == nil {
			t.Errorf("%q: %v", s, u)
		}
	}
}

func do(t *testing.T, o web.Options, url string) (*web.Page, error) {
	t.Helper()
	c := web.New(o)
	t.Cleanup(func() { _ = c.Close() })
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(t.Context(), r)
}

// refused checks that a request ends with ErrPrivate and reached nothing.
func refused(t *testing.T, url string) {
	t.Helper()
	p, err := do(t, web.Options{}, url)
	if !errors.Is(err, web.ErrPrivate) {
		t.Errorf("%s: %v %v", url, p, err)
	} else if core.KindOf(err) != core.KindDenied || !strings.Contains(core.NextOf(err), "web.allow_private") {
		t.Errorf("%s: %v, %s", url, err, core.NextOf(err))
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer srv.Close()
	port := srv.URL[strings.LastIndexByte(srv.URL, ':'):]
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.1", "169.254.169.254", "[fd00:ec2::254]", "[64:ff9b::7f00:1]"} {
		refused(t, "http://"+host+port+"/")
	}
	if hits > 0 {
		t.Errorf("%d requests arrived", hits)
	}
	if _, err := do(t, web.Options{AllowPrivate: true}, srv.URL); err != nil || hits != 1 {
		t.Errorf("allowed: %v, %d", err, hits)
	}
}

// A redirect is judged as a request is, whether it goes through the proxy or not. The
// proxy itself may have a private address.
func TestRedirectsAndProxies(t *testing.T) {
	inner := 0
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner++ }))
	defer private.Close()
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		switch r.URL.Path {
		case "/":
			_, _ = w.Write([]byte("public"))
		case "/loopback":
			http.Redirect(w, r, private.URL, http.StatusFound)
		case "/lan":
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
		case "/name":
			http.Redirect(w, r, "http://localhost/", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/decimal":
			http.Redirect(w, r, "http://2130706433/", http.StatusFound)
		}
	}))
	defer proxy.Close()
	for _, n := range []string{"HTTP_PROXY", "http_proxy"} {
		t.Setenv(n, proxy.URL)
	}
	for _, n := range []string{"NO_PROXY", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(n, "")
	}
	p, err := do(t, web.Options{}, "http://93.184.216.34/")
	if err != nil || string(p.Body) != "public" {
		t.Fatalf("%v %v", p, err)
	}
	for _, path := range []string{"/loopback", "/lan", "/name", "/decimal"} {
		refused(t, "http://93.184.216.34"+path)
	}
	refused(t, "http://10.0.0.1/")
	refused(t, "http://no-such-name.invalid/")
	if _, err := do(t, web.Options{}, "http://93.184.216.34/file"); err == nil || !strings.Contains(err.Error(), "only http") {
		t.Error(err)
	}
	if inner > 0 {
		t.Errorf("%d requests arrived", inner)
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, "http://93.184.216.34/") {
			t.Errorf("the proxy was asked for %s", a)
		}
	}
}

func TestLimits(t *testing.T) {
	stop := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		for range 6 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("begin"))
		w.(http.Flusher).Flush()
		<-stop
	})
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { <-stop })
	mux.HandleFunc("/agent", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.UserAgent())) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	defer close(stop)
	o := web.Options{AllowPrivate: true}
	if _, err := do(t, o, srv.URL+"/loop"); err == nil || !strings.Contains(err.Error(), "more than 5 redirects") {
		t.Error(err)
	}
	p, err := do(t, o, srv.URL+"/big")
	if err != nil || !p.Cut || len(p.Body) != web.MaxBody {
		t.Errorf("%v", err)
	}
	if p, err := do(t, o, srv.URL+"/agent"); err != nil || string(p.Body) != "lj" {
		t.Errorf("%v %v", p, err)
	}
	o.Timeout = 50 * time.Millisecond
	if p, err := do(t, o, srv.URL+"/slow"); err != nil || !p.Cut || string(p.Body) != "begin" {
		t.Errorf("%v %v", p, err)
	}
	if _, err := do(t, o, srv.URL+"/silent"); core.KindOf(err) != core.KindLimit {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := web.New(web.Options{AllowPrivate: true})
	defer c.Close()
	r, _ := http.NewRequest(http.MethodGet, srv.URL+"/silent", nil)
	if _, err := c.Do(ctx, r); core.KindOf(err) != core.KindInterrupted {
		t.Error(err)
	}
	other := httptest.NewServer(http.RedirectHandler(srv.URL+"/agent", http.StatusFound))
	defer other.Close()
	if _, err := do(t, web.Options{AllowPrivate: true, SameHost: true}, other.URL); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Error(err)
	}
	other.Close()
	if _, err := do(t, web.Options{AllowPrivate: true}, other.URL); err == nil || !strings.Contains(err.Error(), "no connection to 127.0.0.1") {
		t.Error(err)
	}
}
