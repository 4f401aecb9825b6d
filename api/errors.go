package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Error is an answer of the server that is no success.
type Error struct {
	Host    string // that answered
	Status  int    // of HTTP
	Code    string // for programs, such as QUEUE_NOT_FOUND; "" if the server gave none
	Message string // a sentence for people; "" likewise
	Help    string // the address of what to do about it; "" likewise
	// RequestID finds the call in the server's log; "" if the server gave none.
	RequestID string
	// RetryAfter is how long the server asks to be left alone; 0 if it does not.
	RetryAfter time.Duration
	// Repeated: an earlier try of the same call got no answer, so it may be
	// what this one is refused for.
	Repeated bool
	Location string // of a redirect
}

// Error is what the server said, with what is needed to find it in its log.
func (e *Error) Error() string {
	if e.Code == "" { // nothing of ours
		text := fmt.Sprintf("%s answered %d %s, and not as Signalbox does", e.Host, e.Status, http.StatusText(e.Status))
		if e.Location != "" {
			text += fmt.Sprintf(", and names another address: %.200q", e.Location)
		}
		return text
	}
	text := fmt.Sprintf("%s (%d %s", e.Message, e.Status, e.Code)
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	text += ")"
	if e.Repeated {
		text += ". An earlier try of this call got no answer: it may have done what was asked for"
	}
	return text
}

// Passing reports whether the same call may succeed later: the server is too
// busy, or in trouble.
func (e *Error) Passing() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
}

// Unreachable is that there was no answer.
type Unreachable struct {
	Host string
	Err  error
}

// Error says who gave none, and why.
func (u *Unreachable) Error() string {
	err := u.Err
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return fmt.Sprintf("%s cannot be reached: %v", u.Host, err)
}

// Unwrap is why there was none.
func (u *Unreachable) Unwrap() error { return u.Err }

// Stranger is that what answers is no Signalbox.
type Stranger struct {
	Host string
	Err  error // what is odd about the answer
}

// Error says so.
func (s *Stranger) Error() string {
	return fmt.Sprintf("what answers at %s is not Signalbox: %v", s.Host, s.Err)
}

// Unwrap is what is odd.
func (s *Stranger) Unwrap() error { return s.Err }
