package githubsim

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var errGraphQLQuota = errors.New("the quota of GraphQL is used up")

// quota counts the calls of one token in one hour.
type quota struct {
	used  int
	reset time.Time
}

// spend takes one call off a caller's quota, sets the X-RateLimit headers and
// refuses when nothing is left. GraphQL has a quota of its own, and is refused
// with status 200.
func (s *Server) spend(w http.ResponseWriter, who caller, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, resource := path == "/rate_limit", "core"
	if path == "/graphql" {
		resource, who.bucket = "graphql", "graphql "+who.bucket
	}
	q := s.quotaOf(who)
	over := q.used >= s.cfg.RateLimit
	if !over && !free {
		q.used++
	}
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(s.cfg.RateLimit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(s.cfg.RateLimit-q.used))
	h.Set("X-RateLimit-Used", strconv.Itoa(q.used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(q.reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", resource)
	if over && resource == "graphql" {
		return errGraphQLQuota
	}
	if over && !free {
		return &apiError{status: 403, message: "API rate limit exceeded for installation.", doc: docs + "/overview/rate-limits-for-the-rest-api"}
	}
	return nil
}

// quotaOf finds a caller's quota for the present hour. mu is held.
func (s *Server) quotaOf(who caller) *quota {
	key := who.bucket
	if who.kind == asInstallation {
		key = "installation " + strconv.FormatInt(who.token.inst.id, 10)
		if strings.HasPrefix(who.bucket, "graphql ") {
			key = "graphql " + key
		}
	}
	now := s.cfg.Now()
	q := s.used[key]
	if q == nil || !now.Before(q.reset) {
		q = &quota{reset: now.Add(time.Hour)}
		s.used[key] = q
	}
	return q
}

// refund makes the headers of an answer "304 Not Modified" say that it cost
// nothing, as it does on GitHub.
func (c *call) refund() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	q := c.s.quotaOf(c.who)
	if q.used > 0 {
		q.used--
	}
	c.w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(c.s.cfg.RateLimit-q.used))
	c.w.Header().Set("X-RateLimit-Used", strconv.Itoa(q.used))
}

func (c *call) rateLimit() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	q := c.s.quotaOf(c.who)
	rate := func(limit int) object {
		return object{"limit": limit, "used": q.used, "remaining": limit - q.used, "reset": q.reset.Unix()}
	}
	core := rate(c.s.cfg.RateLimit)
	return object{"resources": object{"core": core, "search": rate(c.s.cfg.RateLimit), "graphql": rate(c.s.cfg.RateLimit)}, "rate": core}, nil
}
