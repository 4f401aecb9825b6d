package notify

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox/account"
)

// Nothing is sent to where only we can reach.

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "140.82.121.3": true, "2606:4700::6810:1": true, "64:ff9b::808:808": true, "172.32.0.1": true, "::ffff:8.8.8.8": true,

		"127.0.0.1": false, "127.9.9.9": false, "10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"169.254.169.254": false, "0.0.0.0": false, "0.1.2.3": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false,
		"168.63.129.16": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "192.0.2.1": false,
		"::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "fc00::1": false, "ff02::1": false, "2001:db8::1": false,
		"2002:7f00:1::": false, "2001::1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::7f00:1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "fec0::1": false, "4000::1": false,
	} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %t", text, got)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestAddressesOfSubscribers(t *testing.T) {
	t.Parallel()
	open, closed := newService(t, &troubled{}, newHandClock()), newService(t, &troubled{}, newHandClock(), func(c *Config) { c.Allowed = nil })
	for text, want := range map[string]struct{ closed, open bool }{
		"https://example.com/hooks?x=1":    {true, true},
		"https://example.com:8443":         {true, true},
		"HTTPS://EXAMPLE.COM/":             {true, true},
		"https://localhost/x":              {true, true}, // found out when it is dialled
		"http://example.com/":              {false, true},
		"https://127.0.0.1/":               {false, true},
		"https://[::1]/":                   {false, false},
		"https://10.0.0.1/":                {false, false},
		"https://[::ffff:169.254.169.254]": {false, false},
		"https://user:word@example.com/":   {false, false},
		"https://user@example.com/":        {false, false},
		"https://example.com/#x":           {false, false},
		"https:///path":                    {false, false},
		"https://":                         {false, false},
		"//example.com/":                   {false, false},
		"example.com":                      {false, false},
		"ftp://example.com/":               {false, false},
		"file:///etc/passwd":               {false, false},
		"gopher://127.0.0.1:6379/x":        {false, false},
		"https://exa mple.com/":            {false, false},
		"https://example.com/\x00":         {false, false},
		"":                                 {false, false},
		"https://example.com/" + strings.Repeat("x", maxURL): {false, false},
	} {
		for s, want := range map[*Service]bool{closed: want.closed, open: want.open} {
			_, err := s.checkURL(text)
			var invalid account.Invalid
			if (err == nil) != want || err != nil && !errors.As(err, &invalid) {
				t.Errorf("%.60q with %v allowed: %v", text, s.allowed, err)
			}
		}
	}
	u, _ := url.Parse("https://hooks.slack.com/services/T0/B0/secret?token=secret")
	if shown := shownURL(u); strings.Contains(shown, "secret") || !strings.Contains(shown, "hooks.slack.com") {
		t.Errorf("shown: %s", shown)
	}
}

// try sends a ping to an address.
func try(t *testing.T, s *Service, address string) account.Try {
	t.Helper()
	round := account.Sending{Subscriber: account.Subscriber{ID: "s", Kind: account.WebhookSubscriber}, Org: account.Organization{Slug: "acme"}}
	end := account.Endpoint{URL: address, Secrets: []account.SigningSecret{{Text: "whsec_AAAA"}}}
	return s.attempt(t.Context(), &round, end, account.Delivery{Event: "e", Type: Ping, Body: []byte(`{}`)}).try
}

// A name is judged by where it leads, when it is dialled; whatever a server
// answers, nobody is followed and little is read.
func TestAttempts(t *testing.T) {
	t.Parallel()
	var visits atomic.Int64
	var inside *httptest.Server
	serve := func(w http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, inside.URL+"/ok", http.StatusTemporaryRedirect)
		case "/long":
			w.WriteHeader(http.StatusInternalServerError)
			for range 1 << 14 { // 16 MiB, if somebody reads them
				if _, err := io.WriteString(w, strings.Repeat("long \x1b[31m", 100)); err != nil {
					return
				}
			}
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/ok":
			w.Header().Set("Content-Encoding", "gzip") // which it is not
			fmt.Fprint(w, "thanks")
		}
	}
	inside = httptest.NewServer(http.HandlerFunc(serve))
	defer inside.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(serve))
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	trusting := func(c *Config) { c.Roots = roots }
	open := newService(t, &troubled{}, newHandClock(), trusting)
	closed := newService(t, &troubled{}, newHandClock(), trusting, func(c *Config) { c.Allowed = nil })
	elsewhere := newService(t, &troubled{}, newHandClock(), trusting, func(c *Config) { c.Allowed = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	named := func(address string) string { return strings.Replace(address, "127.0.0.1", "localhost", 1) }
	for _, tt := range []struct {
		name    string
		service *Service
		address string
		status  int
		problem string
		visits  int64
	}{
		{"plain, and allowed", open, inside.URL + "/ok", 200, "", 1},
		{"with a certificate", open, secure.URL + "/ok", 200, "", 1},
		{"not allowed", closed, secure.URL + "/ok", 0, "not public", 0},
		{"not allowed, by a name", closed, named(secure.URL) + "/ok", 0, "not public", 0},
		{"not allowed, and plain", closed, inside.URL + "/ok", 0, "not public", 0},
		{"others are allowed", elsewhere, named(inside.URL) + "/ok", 0, "not public", 0},
		{"a redirect", open, inside.URL + "/redirect", 307, "redirect", 1},
		{"a long answer", open, inside.URL + "/long", 500, "status 500", 1},
		{"a long header", open, inside.URL + "/header", 0, "No answer", 1},
		{"a connection that is cut", open, inside.URL + "/cut", 0, "No answer", 1},
		{"a certificate that nobody vouches for", newService(t, &troubled{}, newHandClock()), secure.URL + "/ok", 0, "certificate", 0},
		{"a name that does not exist", open, "https://nowhere.invalid/", 0, "name of the server", 0},
		{"nobody listens", open, "http://127.0.0.1:1/", 0, "refused", 0},
		{"no TLS", open, strings.Replace(inside.URL, "http:", "https:", 1) + "/ok", 0, "No answer", 0},
	} {
		before := visits.Load()
		got := try(t, tt.service, tt.address)
		if got.Status != tt.status || !strings.Contains(got.Error, tt.problem) || (tt.problem == "") != (got.Error == "") {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if n := visits.Load() - before; n != tt.visits {
			t.Errorf("%s: %d requests, want %d", tt.name, n, tt.visits)
		}
		if len(got.Answer) > keptAnswer+len("…") || strings.ContainsRune(got.Answer, 0x1b) {
			t.Errorf("%s: kept %q", tt.name, got.Answer)
		}
		if strings.Contains(got.Error, "127.0.0.1") || strings.Contains(got.Error, "/ok") {
			t.Errorf("%s: the problem quotes the address: %s", tt.name, got.Error)
		}
	}
	// A public address may not be spoken to in plain text.
	if s := open; s.reachable(netip.MustParseAddr("8.8.8.8"), false) || !s.reachable(netip.MustParseAddr("8.8.8.8"), true) {
		t.Error("plain http goes to public addresses")
	}
}
