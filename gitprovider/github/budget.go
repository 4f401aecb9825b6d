package github

import (
	"net/http"
	"strconv"
	"time"
)

// Budget is what the host says is left of the calls that it allows one
// installation in some time, usually an hour.
type Budget struct {
	Installation int64  // 0: the App itself
	Resource     string // core, search …: the host counts them apart
	Limit        int
	Remaining    int
	Reset        time.Time // when Remaining is Limit again
}

// budgetOf reads what an answer says of the budget. ok is false when it says
// nothing, as servers without limits do.
func budgetOf(installation int64, h http.Header) (b Budget, ok bool) {
	limit, err1 := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	remaining, err2 := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	reset, err3 := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || limit < 0 || remaining < 0 {
		return b, false
	}
	resource := h.Get("X-RateLimit-Resource")
	if resource == "" || len(resource) > 40 || !pathWord.MatchString(resource) {
		resource = "core"
	}
	return Budget{installation, resource, limit, remaining, time.Unix(reset, 0)}, true
}
