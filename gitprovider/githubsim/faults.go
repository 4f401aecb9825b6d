package githubsim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is something that goes wrong with calls to come.
type Fault struct {
	// Method is an HTTP method; empty or "*" for any.
	Method string `json:"method"`
	// Path is compared with the path of the call without /api/v3: equal to
	// it, a prefix of it, or a pattern where * is any text. Git's own paths
	// count too: "/acme/app.git/git-receive-pack". Calls of GraphQL all have one
	// path, so theirs goes on with what they ask: "/graphql*addComment(*".
	Path string `json:"path"`
	// Action is fail (answer Status, nothing is done), failAfter (it is done,
	// then Status is answered), slow (answered DelayMs late), limit (403 with
	// Retry-After, a secondary rate limit), drop or dropAfter (the connection
	// breaks before or after it is done), late (the connection breaks, and what
	// the network held back is done when Arrive is called, or DelayMs later).
	Action string `json:"action"`
	// Status is what fail and failAfter answer, 502 when zero; for limit 403, and 429 to git.
	Status int `json:"status"`
	// Times is how many calls it is for; 1 when zero.
	Times int `json:"times"`
	// DelayMs is how late slow is, a second when zero, and late, only by Arrive
	// when zero.
	DelayMs int `json:"delayMs"`
	// RetryAfter is what limit says, in seconds; 1 when zero.
	RetryAfter int `json:"retryAfter"`
}

func (f Fault) check() error {
	if !slices.Contains([]string{"fail", "failAfter", "slow", "limit", "drop", "dropAfter", "late"}, f.Action) {
		return fmt.Errorf("fault action %q is none of fail, failAfter, slow, limit, drop, dropAfter, late", f.Action)
	}
	if !strings.HasPrefix(f.Path, "/") && !strings.HasPrefix(f.Path, "*") {
		return fmt.Errorf("fault path %q must begin with / or *", f.Path)
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("fault status %d is not an HTTP status", f.Status)
	}
	if f.Times < 0 || f.DelayMs < 0 || f.RetryAfter < 0 {
		return fmt.Errorf("fault numbers must not be negative")
	}
	return nil
}

func (f Fault) matches(method, asked string) bool {
	if f.Method != "" && f.Method != "*" && !strings.EqualFold(f.Method, method) {
		return false
	}
	if strings.Contains(f.Path, "*") {
		return glob(f.Path, asked)
	}
	return strings.HasPrefix(asked, f.Path)
}

// glob matches text with a pattern in which * is any text, slashes too.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return text == ""
}

// matchBranch matches a branch with a pattern as workflow files have it: * is
// any text without a slash, ** any text.
func matchBranch(pattern, branch string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "**"); ok {
		return strings.HasPrefix(branch, prefix)
	}
	ok, err := path.Match(pattern, branch)
	return err == nil && ok
}

// faultPlan is the calls that will go wrong.
type faultPlan struct {
	mu   sync.Mutex
	next []Fault
	late []func() // calls that are still under way, the first first
}

// Fail plans faults for calls to come. They are looked through in order; each
// call meets one at most.
func (s *Server) Fail(next ...Fault) error {
	for i, f := range next {
		if err := f.check(); err != nil {
			return err
		}
		next[i].Times = orElse(f.Times, 1)
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.next = append(s.faults.next, next...)
	return nil
}

// ClearFaults forgets the faults that have not happened yet.
func (s *Server) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.next = nil
}

// take finds the fault for a call and uses it up.
func (p *faultPlan) take(method, asked string) (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.next {
		if f.matches(method, asked) {
			if p.next[i].Times--; p.next[i].Times == 0 {
				p.next = slices.Delete(p.next, i, i+1)
			}
			return f, true
		}
	}
	return Fault{}, false
}

// withFaults runs a call, or what its fault makes of it.
func (s *Server) withFaults(w http.ResponseWriter, r *http.Request, asked string, do func(http.ResponseWriter)) {
	named := asked
	if asked == "/graphql" {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil {
			return // the client hung up
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		named += string(body)
	}
	f, ok := s.faults.take(r.Method, named)
	if !ok {
		do(w)
		return
	}
	s.log.Info("fault", "action", f.Action, "method", r.Method, "path", asked)
	switch f.Action {
	case "slow":
		timer := time.NewTimer(time.Duration(orElse(f.DelayMs, 1000)) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			do(w)
		case <-r.Context().Done():
		case <-s.work.ctx.Done():
			panic(http.ErrAbortHandler)
		}
		return
	case "limit":
		w.Header().Set("Retry-After", strconv.Itoa(orElse(f.RetryAfter, 1)))
		s.answer(&call{s: s, w: w, r: r}, nil, &apiError{
			status:  orElse(f.Status, limited(r.URL.Path)),
			message: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
			doc:     docs + "/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits",
		})
		return
	case "failAfter", "dropAfter":
		do(newHeld())
	case "late":
		s.holdBack(r, time.Duration(f.DelayMs)*time.Millisecond, do)
		panic(http.ErrAbortHandler)
	}
	if f.Action == "drop" || f.Action == "dropAfter" {
		panic(http.ErrAbortHandler)
	}
	s.answer(&call{s: s, w: w, r: r}, nil, &apiError{status: orElse(f.Status, 502), message: http.StatusText(orElse(f.Status, 502))})
}

// holdBack keeps a call until it is to arrive, as a network does that hung after
// it had taken all of it. Nobody gets its answer.
func (s *Server) holdBack(r *http.Request, delay time.Duration, do func(http.ResponseWriter)) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxPush))
	if err != nil {
		return // not all of it was sent
	}
	*r = *r.WithContext(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	arrive := func() { do(newHeld()) }
	if delay > 0 {
		s.work.after(delay, func(context.Context) { arrive() })
		return
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.late = append(s.faults.late, arrive)
}

// Arrive has the calls done that the network still holds back, and returns how
// many those were.
func (s *Server) Arrive() int {
	s.faults.mu.Lock()
	late := s.faults.late
	s.faults.late = nil
	s.faults.mu.Unlock()
	for _, arrive := range late {
		arrive()
	}
	return len(late)
}

// limited is the status of an answer to somebody who asks too much: of the API
// 403, of git, where no body could say what it means, 429.
func limited(path string) int {
	if strings.Contains(path, ".git/") {
		return http.StatusTooManyRequests
	}
	return http.StatusForbidden
}

// FaultsLeft is how many planned faults have not happened yet.
func (s *Server) FaultsLeft() int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	n := 0
	for _, f := range s.faults.next {
		n += f.Times
	}
	return n
}
