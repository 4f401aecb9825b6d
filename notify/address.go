package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"signalbox/account"
)

// maxURL bounds an address, in bytes.
const maxURL = 2000

// checkURL reads the address that a subscriber is to be reached at.
func (s *Service) checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return nil, account.Invalid(fmt.Sprintf("The address is longer than %d characters.", maxURL))
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, account.Invalid("Give an address such as https://example.com/hooks.")
	case u.User != nil:
		return nil, account.Invalid("The address has a user name or a password in it. Leave them out: deliveries are signed.")
	case u.Fragment != "":
		return nil, account.Invalid("The address has a # in it. Servers never see what follows.")
	case u.Scheme == "http" && len(s.allowed) == 0:
		return nil, account.Invalid("The address must begin with https://.")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !s.reachable(ip, u.Scheme == "https") {
		return nil, account.Invalid("The address is not a public one. The operator of this server can allow private ones.")
	}
	return u, nil
}

// shownURL is an address as people may see it. What follows the host is left
// out: Slack's and many others have their secret there.
func shownURL(u *url.URL) string { return u.Scheme + "://" + u.Host + "/…" }

// special are networks that are no part of the public Internet although nothing
// in an address's form says so, by the registries of IANA, and 168.63.129.16,
// where Microsoft's cloud answers its machines.
var special = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

// global is where public addresses of IPv6 are.
var global = netip.MustParsePrefix("2000::/3")

// translated are addresses of IPv6 that lead to one of IPv4, their last part.
var translated = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// public reports whether an address is one of the public Internet. It errs
// towards no.
func public(ip netip.Addr) bool {
	ip = ip.WithZone("").Unmap()
	if translated.Contains(ip) {
		bytes := ip.As16()
		return public(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	if ip.Is6() && !global.Contains(ip) {
		return false
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !contains(special, ip)
}

func contains(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// reachable reports whether we may connect to an address: over TLS, to public
// ones; whatever the operator has allowed.
func (s *Service) reachable(ip netip.Addr, secure bool) bool {
	return contains(s.allowed, ip.WithZone("").Unmap()) || secure && public(ip)
}

// errPrivate is what a connection fails with that must not be made.
var errPrivate = errors.New("the name leads to an address that is not public")

// errPlain is the same for plain http, which may go to allowed addresses alone.
var errPlain = errors.New("plain http is for addresses that the operator has allowed; use https")

// The limits on one attempt.
const (
	attemptTimeout = 15 * time.Second
	dialTimeout    = 5 * time.Second
	maxHeader      = 16 << 10
	maxAnswer      = 4 << 10 // read of an answer
	keptAnswer     = 500     // shown of it
)

// newClient makes a client that connects where it may, and follows nobody.
func (s *Service) newClient(secure bool, roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		// The address that was dialled, after the name was resolved.
		to, err := netip.ParseAddrPort(address)
		switch {
		case err != nil:
			return errPrivate
		case s.reachable(to.Addr(), secure):
			return nil
		case !secure && public(to.Addr()):
			return errPlain
		}
		return errPrivate
	}}
	return &http.Client{
		Timeout: attemptTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{
			Proxy: nil, // a proxy would resolve the name anew, and connect where it likes
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: attemptTimeout, MaxResponseHeaderBytes: maxHeader,
			DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConns: 64, MaxIdleConnsPerHost: widest, IdleConnTimeout: 30 * time.Second,
		},
	}
}

// problem says in a sentence why there was no answer. What the cause quotes of
// the address, which may be a secret, is left out.
func problem(err error) string {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errPrivate), errors.Is(err, errPlain):
		return "Not sent: " + innermost(err) + "."
	case errors.As(err, &dns) && dns.IsNotFound:
		return "The name of the server does not exist."
	case errors.As(err, &dns):
		return "The name of the server could not be looked up."
	case errors.As(err, &unknown), errors.As(err, &wrongName), errors.As(err, &invalid):
		return "The server's certificate is not valid: " + innermost(err) + "."
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("No answer within %d seconds.", int(attemptTimeout.Seconds()))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The server refused the connection."
	}
	return "No answer: " + innermost(err) + "."
}

// innermost is the text of the error that all others wrap.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return strings.TrimSuffix(clip(printable(err.Error()), 200), ".")
		}
		err = next
	}
}
