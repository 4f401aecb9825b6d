package github

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"
)

// conn speaks with the host as one installation of the App, or as the App
// itself (id 0). It is the http.RoundTripper of its own REST client.
type conn struct {
	c      *Client
	id     int64
	rest   *github.Client
	limits *limiter
	cache  *lru[string, cached]
	// unprotected is when a branch was last seen to have no classic protection.
	unprotected *lru[string, time.Time]

	mu sync.Mutex // guards tr
	tr *ghinstallation.Transport
}

// cached is an answer that the host may confirm as unchanged.
type cached struct {
	etag   string
	header http.Header
	body   []byte
}

const (
	maxAnswer = 16 << 20  // of a call, in bytes
	maxCached = 256 << 10 // of an answer that is kept
	maxTries  = 6         // of a call that met a limit
)

// transport makes sure that there is one source of tokens. Each has an App
// transport of its own, because it writes into it.
func (k *conn) transport() *ghinstallation.Transport {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tr == nil {
		app := ghinstallation.NewAppsTransportFromPrivateKey(k.c.base, k.c.cfg.AppID, k.c.key)
		app.BaseURL = k.c.apiURL
		k.tr = ghinstallation.NewFromAppsTransport(app, k.id)
		k.tr.InstallationTokenOptions = &github.InstallationTokenOptions{} // nil would be sent as "null"
		k.tr.Client = &http.Client{Transport: k.c.base, Timeout: k.c.cfg.CallTimeout}
	}
	return k.tr
}

// token is the installation's token, fresh for a minute at least.
func (k *conn) token(ctx context.Context) (string, error) {
	token, err := k.transport().Token(ctx)
	var refused *ghinstallation.HTTPError
	if errors.As(err, &refused) && refused.Response != nil && refused.RootCause == nil {
		words, _ := io.ReadAll(io.LimitReader(refused.Response.Body, maxCached))
		refused.Response.Body.Close() // the library leaves it open
		// A limit is no suspension: whoever needs the token comes again.
		if k.limits.heard("core", refused.Response, words) {
			return "", k.limits.spent()
		}
	}
	return token, err
}

// forget drops a token that the host did not take, unless it was replaced already.
func (k *conn) forget(token string) {
	tr := k.transport()
	if now, err := tr.Token(context.Background()); err == nil && now != token {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tr == tr {
		k.tr = nil
	}
}

// RoundTrip makes one call: it waits for its turn, adds authorization and the
// ETag of what is known, waits and repeats when the host says that a limit is
// reached (nothing was done then), and gets a new token once when it is refused.
func (k *conn) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != k.rest.BaseURL.Host {
		return nil, fmt.Errorf("the host redirects to %q, where its token may not go", req.URL.Host)
	}
	body, err := drain(req)
	if err != nil {
		return nil, err
	}
	key := req.URL.String() + "\x00" + req.Header.Get("Accept")
	old, known := k.cache.get(key)
	known = known && req.Method == http.MethodGet
	renewed := false
	for try := 1; ; try++ {
		resp, answer, token, err := k.once(req, body, old.etag, known)
		if err != nil {
			return nil, err
		}
		limited := k.limits.heard(resource(req), resp, answer)
		switch {
		case resp.StatusCode == http.StatusUnauthorized && k.id != 0 && !renewed:
			renewed = true
			k.forget(token)
			continue
		case limited && try < maxTries:
			k.c.log.Warn("the host's limit is reached", "installation", k.id, "status", resp.StatusCode)
			if err := k.limits.quiet(req.Context(), resource(req)); err != nil {
				return nil, err
			}
			continue
		}
		switch {
		case resp.StatusCode == http.StatusNotModified && known:
			resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
			resp.Header, answer = old.header.Clone(), old.body
		case req.Method == http.MethodGet && resp.StatusCode == http.StatusOK && len(bytes.TrimSpace(answer)) == 0:
			return nil, fmt.Errorf("%s %s: the host answered 200 with nothing", req.Method, req.URL.Path)
		case req.Method == http.MethodGet && resp.StatusCode == http.StatusOK && resp.Header.Get("ETag") != "" && len(answer) <= maxCached:
			k.cache.put(key, cached{resp.Header.Get("ETag"), resp.Header.Clone(), answer})
		}
		// Limits are our business; the library would refuse calls by itself.
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			resp.Header.Del(name)
		}
		resp.Body = io.NopCloser(bytes.NewReader(answer))
		resp.ContentLength = int64(len(answer))
		return resp, nil
	}
}

// drain reads a request's body so that it can be sent again.
func drain(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	return io.ReadAll(req.Body)
}

// once sends a request once and reads the whole answer.
func (k *conn) once(req *http.Request, body []byte, etag string, known bool) (*http.Response, []byte, string, error) {
	done, err := k.limits.wait(req.Context(), req)
	if err != nil {
		return nil, nil, "", err
	}
	defer done()
	ctx, cancel := context.WithTimeout(req.Context(), k.c.cfg.CallTimeout)
	defer cancel()
	out := req.Clone(ctx)
	if body != nil {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	if known {
		out.Header.Set("If-None-Match", etag)
	}
	token := ""
	through := k.c.base
	if k.id == 0 {
		app := ghinstallation.NewAppsTransportFromPrivateKey(k.c.base, k.c.cfg.AppID, k.c.key)
		through = app
	} else {
		if token, err = k.token(ctx); err != nil {
			return nil, nil, "", err
		}
		out.Header.Set("Authorization", "token "+token)
	}
	endpoint := endpointOf(req.Method, strings.TrimPrefix(req.URL.Path, k.rest.BaseURL.Path))
	if _, changes := changesOf(ctx); changes {
		endpoint += " mutation"
	}
	resp, err := through.RoundTrip(out)
	if err != nil {
		k.c.cfg.OnCall(endpoint, 0)
		return nil, nil, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	k.c.cfg.OnCall(endpoint, resp.StatusCode)
	if budget, ok := budgetOf(k.id, resp.Header); ok {
		k.c.cfg.OnBudget(budget)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("read the answer to %s: %w", endpoint, err)
	}
	if len(answer) > maxAnswer {
		return nil, nil, "", fmt.Errorf("the answer to %s is longer than %d bytes", endpoint, maxAnswer)
	}
	return resp, answer, token, nil
}

var pathWord = regexp.MustCompile(`^[a-z_-]+$`)

// endpointOf is a call without what varies in it, for metrics: words of the
// API stay, names and numbers become ":".
func endpointOf(method, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[len(parts)-1] == "graphql" && method == http.MethodPost {
		return "POST /graphql"
	}
	for i, p := range parts {
		keep := pathWord.MatchString(p)
		if parts[0] == "repos" {
			switch {
			case i == 1 || i == 2:
				keep = false
			case i > 3 && (parts[3] == "branches" || parts[3] == "rules" && i > 4 || parts[3] == "git" && i > 5 || parts[3] == "collaborators" && i == 4 || parts[3] == "commits" && i == 4):
				keep = p == "protection" && i == len(parts)-1 && i > 4
			}
		}
		if !keep {
			parts[i] = ":"
		}
	}
	if len(parts) > 5 && parts[3] == "git" {
		parts = append(parts[:5:5], ":")
	}
	return method + " /" + strings.Join(parts, "/")
}

// call makes a call and decodes the answer into out, which may be nil.
func (k *conn) call(ctx context.Context, method, path string, in, out any) (*github.Response, error) {
	req, err := k.rest.NewRequest(method, path, in)
	if err != nil {
		return nil, err
	}
	return k.rest.Do(ctx, req, out)
}

// pages makes a call for each page of a list. Every answer is decoded into a
// new value of T and given to each.
func pages[T any](ctx context.Context, k *conn, path string, each func(T) error) error {
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	for page := 1; page != 0; {
		var out T
		resp, err := k.call(ctx, http.MethodGet, fmt.Sprintf("%s%sper_page=100&page=%d", path, sep, page), nil, &out)
		if err != nil {
			return err
		}
		if err := each(out); err != nil {
			return err
		}
		if resp.NextPage != 0 && resp.NextPage <= page {
			return fmt.Errorf("list %s: page %d is followed by page %d", path, page, resp.NextPage)
		}
		page = resp.NextPage
	}
	return nil
}
