package rest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"signalbox/account"
	"signalbox/queue"
)

// maxBody is the most that a request may send, in bytes.
const maxBody = 20 << 20

// jsonType is the content type of every JSON that we send.
const jsonType = "application/json; charset=utf-8"

// The headers of a request.
const (
	headerToken  = "X-Api-Token"
	headerSource = "X-Source" // which program calls; only "terraform" matters
)

// exchange is one request and what was answered to it, for the log.
type exchange struct {
	http.ResponseWriter
	id      string
	route   string // pattern of the route; "" = none
	org     string
	token   int64
	status  int
	written int
}

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (x *exchange) Write(body []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(body)
	x.written += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// ServeHTTP answers one request, logs it, and survives a handler that panics.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, id: rand.Text()}
	began := a.now()
	head := w.Header()
	head.Set("X-Request-Id", x.id)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	defer func() {
		if cause := recover(); cause != nil {
			if cause == http.ErrAbortHandler {
				panic(cause) // how net/http is told to drop the connection
			}
			a.log.Error("a handler panicked", "request", x.id, "route", x.route,
				"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			if x.status == 0 {
				a.refuse(x, fmt.Errorf("panic: %v", cause))
			}
		}
		a.access(r, x, began)
	}()
	a.router.ServeHTTP(x, r)
}

// access writes the line of a request. The path of one that matched no route
// is cut: it is whatever a stranger sent.
func (a *API) access(r *http.Request, x *exchange, began time.Time) {
	took := a.now().Sub(began)
	a.heard(x.route, x.status, took)
	line := []slog.Attr{
		slog.String("request", x.id), slog.String("method", clip(r.Method)), slog.String("route", x.route),
		slog.Int("status", x.status), slog.Int("bytes", x.written), slog.Duration("took", took),
	}
	if x.route == "" {
		line = append(line, slog.String("path", clip(r.URL.Path)))
	}
	if x.org != "" {
		line = append(line, slog.String("org", x.org), slog.Int64("token", x.token))
	}
	a.log.LogAttrs(r.Context(), slog.LevelInfo, "request", line...)
}

// serve is the handler of a route: what all have in common, then its own.
func (a *API) serve(rt route) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		if x, ok := w.(*exchange); ok {
			x.route = rt.path
		}
		result, err := a.answer(w, r, rt)
		if err != nil && rt.forCI && failureOf(err).status == http.StatusInternalServerError {
			err = &failure{status: http.StatusServiceUnavailable, code: CodeUnavailable, retry: 5 * time.Second, cause: err,
				message: "Something went wrong on our side. Try again."}
		}
		if err == nil {
			err = reply(w, http.StatusOK, result)
		}
		if err != nil {
			a.refuse(w, err)
			hearOut(w, r, err)
		}
	}
}

// answer is the order of all checks; see the package comment.
func (a *API) answer(w http.ResponseWriter, r *http.Request, rt route) (any, error) {
	// Whole microseconds, which is what the database keeps: a time that came
	// back from it must still equal the one that was sent.
	c := &call{header: r.Header, now: a.now().UTC().Truncate(time.Microsecond)}
	if rt.scope != "" {
		if err := a.admit(w, r, rt, c); err != nil {
			return nil, err
		}
	}
	var err error
	switch {
	case rt.method == http.MethodGet:
		c.query, err = readQuery(r)
	case rt.deaf:
	case rt.raw:
		if c.query, err = readQuery(r); err == nil && rt.check != nil {
			err = rt.check(r.Context(), c)
		}
		if err == nil {
			c.body, err = readBody(w, r)
		}
	default:
		if c.body, err = readJSON(w, r); rt.forCI {
			c.body = mend(c.body)
		}
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.timeout)
	defer cancel()
	return rt.handle(account.As(ctx, account.Author{Token: c.token.Name}), c)
}

// admit finds out who calls and whether they may.
func (a *API) admit(w http.ResponseWriter, r *http.Request, rt route, c *call) error {
	var token account.Token
	who, limits := caller{}, a.limits
	open := r.Header.Get(headerToken) == "" && rt.open != nil && rt.open(r.Header)
	if open {
		who.address, limits = addressOf(r), a.forks
	} else {
		var err error
		if token, err = a.token(r, c.now); err != nil {
			return err
		}
		c.token, c.org, who.token = token, token.Org, token.ID
		if x, ok := w.(*exchange); ok {
			x.org, x.token = token.Org.Slug, token.ID
		}
	}
	if wait := limits.take(who, c.now); wait > 0 {
		return &failure{status: http.StatusTooManyRequests, code: CodeRateLimited, retry: wait,
			message: "This caller has sent too many requests. Wait as long as Retry-After says."}
	}
	if !open && !token.Scope.Allows(rt.scope) {
		return &failure{status: http.StatusForbidden, code: CodeScopeMissing,
			message: fmt.Sprintf("This token has the scope %s; %s needs %s.", token.Scope, rt.path, rt.scope)}
	}
	return nil
}

// addressOf is where a request came from, without the port; of an IPv6 address
// the network, because one caller has all the addresses in it. Behind a proxy
// it is the proxy's: what a header says of the caller anybody can write.
func addressOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address := from.Addr().Unmap()
	if address.Is6() {
		if network, err := address.WithZone("").Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}

// token finds the caller's token. It stands in one header and nowhere else.
func (a *API) token(r *http.Request, now time.Time) (account.Token, error) {
	secret := r.Header.Get(headerToken)
	if secret == "" {
		return account.Token{}, &failure{status: http.StatusUnauthorized, code: CodeTokenMissing,
			message: "Send an API token in the header x-api-token."}
	}
	token, err := a.store.Token(r.Context(), account.Hash(secret), now)
	if errors.Is(err, queue.ErrNotFound) || err == nil && !token.Valid(now) {
		return account.Token{}, &failure{status: http.StatusUnauthorized, code: CodeTokenInvalid,
			message: "The token in the header x-api-token is unknown, expired or revoked."}
	}
	if err != nil {
		return account.Token{}, fmt.Errorf("look up token: %w", err)
	}
	return token, nil
}

// readJSON reads a body that says that it is JSON and is not too large.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	// Only the type counts: whatever parameters follow, clients send them.
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if lower(strings.TrimSpace(kind)) != "application/json" {
		return nil, &failure{status: http.StatusUnsupportedMediaType, code: CodeUnsupportedMediaType,
			message: "Send JSON, with the header Content-Type: application/json."}
	}
	return readBody(w, r)
}

// readBody reads a body that is not too large.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, tooLarge(w)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, invalidJSON("The body ended before it was complete.")
	case len(body) > maxBody:
		return nil, tooLarge(w)
	}
	return body, nil
}

// tooLarge refuses a body. The answer goes out at once; see hearOut.
func tooLarge(w http.ResponseWriter) error {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).EnableFullDuplex() // else net/http would read on before it answers
	return &failure{status: http.StatusRequestEntityTooLarge, code: CodeBodyTooLarge,
		message: fmt.Sprintf("The body must not be longer than %d bytes.", maxBody)}
}

// hearOutFor bounds the time of hearOut.
const hearOutFor = 10 * time.Second

// hearOut reads on in a body that was refused as too large, twice as much as is
// allowed. Most clients send everything before they look for an answer: if the
// connection were closed under them, they would see nothing but that.
func hearOut(w http.ResponseWriter, r *http.Request, refusal error) {
	var f *failure
	if !errors.As(refusal, &f) || f.code != CodeBodyTooLarge || r.Header.Get("Expect") != "" {
		return
	}
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(hearOutFor)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, 2*maxBody) // whatever comes of it, the answer is out
}

// readQuery reads the parameters of a GET. A query is as hostile as a body:
// what could not be stored or compared is refused here.
func readQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidRequest("The query of the URL is not encoded as a query must be.")
	}
	for name, values := range query {
		for _, text := range append(values, name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return nil, invalidRequest("The query of the URL must be valid UTF-8 without NUL characters.")
			}
		}
	}
	return query, nil
}

// reply sends a result. A document goes out as it is, all else is encoded. The encoding is finished before the first byte is
// sent, so that what cannot be encoded is still a clean 500.
func reply(w http.ResponseWriter, status int, result any) error {
	if d, ok := result.(document); ok {
		send(w, status, d)
		return nil
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	send(w, status, document{kind: jsonType, body: body.Bytes()})
	return nil
}

func send(w http.ResponseWriter, status int, d document) {
	w.Header().Set("Content-Type", d.kind)
	if d.policy != "" {
		w.Header().Set("Content-Security-Policy", d.policy)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(d.body)))
	w.WriteHeader(status)
	// An error here means that the caller has gone; there is nobody to tell.
	_, _ = w.Write(d.body)
}

// errorBody is the shape of every error.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Help is the address of what the documents say about the code; none where
	// nobody knows how this service is reached.
	Help string `json:"help,omitempty"`
}

// refuse answers with an error. Details of our own faults go to the log only;
// the caller gets the request's id to ask about them.
func (a *API) refuse(w http.ResponseWriter, err error) {
	f := failureOf(err)
	message := f.message
	if x, ok := w.(*exchange); ok && f.status >= 500 {
		message += " The request id is " + x.id + "."
		level := slog.LevelError
		if errors.Is(err, context.Canceled) { // nobody waits for the answer any more
			level = slog.LevelInfo
		}
		a.log.Log(context.Background(), level, "request failed",
			"request", x.id, "route", x.route, "code", f.code, "error", err)
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "x-api-token")
	}
	if f.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(f.retry.Seconds())))))
	}
	detail := errorDetail{Code: f.code, Message: message}
	if a.baseURL != "" {
		detail.Help = a.baseURL + queue.HelpPath(f.code)
	}
	_ = reply(w, f.status, errorBody{detail}) // it encodes: three strings
}
