package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config says which server to call, and as whom.
type Config struct {
	// URL is the address of the server, such as https://signalbox.example.com.
	// It may have a path, which then stands before /v1.
	URL string
	// Token is an API token; "" sends none.
	Token string
	// StandIn is what is sent where there is no token.
	StandIn StandIn
	// UserAgent names the program that calls.
	UserAgent string
	// Patience is how long a call is tried again after answers that ask for
	// that (429 and 5xx) and after none. 0 is one try. The end of a call's
	// context is the end of patience too.
	Patience time.Duration
	// Timeout bounds one try. 0 is a minute.
	Timeout time.Duration
}

// StandIn is what CI of a fork, which has no secrets, sends in place of a token.
// Each lets it do one thing only; "" is none.
type StandIn struct {
	ForkRun    string // the run of CI of its pull request: to set impacted targets
	PublicRepo string // the repository's public id: to upload test results and ask what is quarantined
}

// Client calls one server. It may be used by several goroutines at once, and
// keeps connections open between calls. Proxies are those that HTTPS_PROXY,
// HTTP_PROXY and NO_PROXY name.
type Client struct {
	base     *url.URL
	header   http.Header
	patience time.Duration
	http     *http.Client
	// wait is rest, but in tests.
	wait func(context.Context, time.Duration) bool
}

// How long to wait before another try, at first, at most, and at most when the
// server names a time.
const (
	firstWait    = 100 * time.Millisecond
	mostWait     = 5 * time.Second
	mostObedient = 10 * time.Minute
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// ErrAddress is that no server can have such an address.
var ErrAddress = errors.New("not the address of a server")

// New returns a client of the server at cfg.URL. It calls nothing.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(strings.TrimSpace(cfg.URL), "/"))
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, ErrAddress // without the text: a password may stand in it
	}
	c := &Client{base: base, patience: cfg.Patience, wait: rest, header: http.Header{"User-Agent": {cfg.UserAgent}}}
	if cfg.Token != "" {
		c.header.Set("x-api-token", cfg.Token)
	} else {
		for name, value := range map[string]string{"x-forked-workflow-run-id": cfg.StandIn.ForkRun, "x-trunk-public-repo-id": cfg.StandIn.PublicRepo} {
			if value != "" {
				c.header.Set(name, value)
			}
		}
	}
	timeout := cfg.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	// A redirect is not followed: body and token are for one address alone.
	c.http = &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// Server is the name of the server, with its port if that is not the usual one.
func (c *Client) Server() string { return c.base.Host }

// Anonymous reports whether calls bring no token.
func (c *Client) Anonymous() bool { return c.header.Get("x-api-token") == "" }

// Post sends a body as JSON to an endpoint such as "getQueue" and reads the
// answer into answer, nil to drop it. It tries again as [Config.Patience] says:
// every call of this API may be sent twice.
func (c *Client) Post(ctx context.Context, endpoint string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	return c.Send(ctx, endpoint, nil, "application/json", text, answer)
}

// Send posts a body of any type, likewise.
func (c *Client) Send(ctx context.Context, endpoint string, query url.Values, contentType string, body []byte, answer any) error {
	return c.call(ctx, request{http.MethodPost, endpoint, query, contentType, body}, answer)
}

// Get asks an endpoint that takes no body, likewise.
func (c *Client) Get(ctx context.Context, endpoint string, answer any) error {
	return c.call(ctx, request{method: http.MethodGet, endpoint: endpoint}, answer)
}

// request is what is sent, as often as need be.
type request struct {
	method, endpoint string
	query            url.Values
	contentType      string
	body             []byte
}

func (c *Client) call(ctx context.Context, r request, answer any) error {
	end := time.Now().Add(c.patience)
	if at, ok := ctx.Deadline(); ok && at.Before(end) {
		end = at
	}
	unknown := false // what an earlier try did
	var said error   // by the server in the try before, if what that did is not known either
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		err := c.try(ctx, r, answer)
		var refused *Error
		switch {
		case errors.As(err, &refused):
			refused.Repeated = unknown
		case err != nil && said != nil && ctx.Err() != nil:
			return said // it tells more than that the time was up during the next try
		}
		again, retry := worthRepeating(err)
		if !retry {
			return err
		}
		said = nil
		switch {
		case refused == nil:
			unknown = true
		case refused.Status != http.StatusTooManyRequests:
			unknown, said = true, err
		}
		// Copies of a program that were turned away together come back apart.
		pause := max(again, wait/2+rand.N(wait/2))
		if time.Now().Add(pause).After(end) || !c.wait(ctx, pause) {
			return err
		}
	}
}

// worthRepeating reports whether another try may succeed, and when at the
// earliest.
func worthRepeating(err error) (after time.Duration, yes bool) {
	var refused *Error
	var silent *Unreachable
	switch {
	case errors.As(err, &refused):
		return refused.RetryAfter, refused.Passing()
	case errors.As(err, &silent):
		return 0, true
	}
	return 0, false
}

// try calls once.
func (c *Client) try(ctx context.Context, r request, answer any) error {
	address := c.base.JoinPath("v1", r.endpoint)
	address.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	req.Header = c.header.Clone()
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var failed *url.Error // its text has the whole address
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return &Unreachable{c.base.Host, err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &Unreachable{c.base.Host, fmt.Errorf("its answer broke off: %w", err)}
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(c.base.Host, resp, text)
	}
	if answer == nil {
		answer = new(json.RawMessage)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return &Stranger{c.base.Host, err}
	}
	return nil
}

// rest waits, and reports whether there is still time then.
func rest(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// refusal is an answer that is no success.
func refusal(host string, resp *http.Response, body []byte) *Error {
	e := &Error{Host: host, Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id"), Location: resp.Header.Get("Location")}
	var told struct {
		Error struct{ Code, Message, Help string }
	}
	if json.Unmarshal(body, &told) == nil {
		e.Code, e.Message, e.Help = told.Error.Code, told.Error.Message, told.Error.Help
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = min(time.Duration(min(seconds, 1<<20))*time.Second, mostObedient)
	} else if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = min(max(time.Until(at), 0), mostObedient)
	}
	return e
}

// Once is the same client with no patience: each call is tried once.
func (c *Client) Once() *Client {
	once := *c
	once.patience = 0
	return &once
}
