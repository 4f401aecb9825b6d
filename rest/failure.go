package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"signalbox/queue"
)

// The codes of errors. They are part of the contract: programs tell errors
// apart by them, people by the messages.
const (
	CodePathNotFound         = "PATH_NOT_FOUND"           // 404: no such endpoint
	CodeMethodNotAllowed     = "METHOD_NOT_ALLOWED"       // 405
	CodeTokenMissing         = "TOKEN_MISSING"            // 401
	CodeTokenInvalid         = "TOKEN_INVALID"            // 401: unknown, expired or revoked
	CodeForkRunUnconfirmed   = "FORK_RUN_NOT_CONFIRMED"   // 401: the host does not confirm what stands in for a token
	CodeRateLimited          = "RATE_LIMITED"             // 429
	CodeScopeMissing         = "SCOPE_MISSING"            // 403
	CodeUnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE"   // 415
	CodeBodyTooLarge         = "BODY_TOO_LARGE"           // 413
	CodeInvalidJSON          = "INVALID_JSON"             // 400: the body as a whole
	CodeInvalidRequest       = "INVALID_REQUEST"          // 400: one of its fields
	CodeQueueNotFound        = "QUEUE_NOT_FOUND"          // 404
	CodeQueueExists          = "QUEUE_EXISTS"             // 409
	CodeQueueNotEmpty        = "QUEUE_NOT_EMPTY"          // 400
	CodeNothingToReplay      = "NOTHING_TO_REPLAY"        // 409: nothing has ended lately in the queue
	CodeReplayTooSlow        = "REPLAY_TOO_SLOW"          // 503
	CodeRepositoryNotFound   = "REPOSITORY_NOT_FOUND"     // 404
	CodeNotConnected         = "REPOSITORY_NOT_CONNECTED" // 404: the App is not installed there
	CodePullRequestNotFound  = "PR_NOT_FOUND"             // 404: the host has no such pull request
	CodeOrganizationNotFound = "ORGANIZATION_NOT_FOUND"   // 404: the slug is not that of the token's organisation
	CodeTestNotFound         = "TEST_NOT_FOUND"           // 404
	CodeUploadNotFound       = "UPLOAD_NOT_FOUND"         // 404
	CodePublicRepoUnknown    = "PUBLIC_REPO_ID_UNKNOWN"   // 401: what stands in for a token is not one that is open
	CodeUploadAddressInvalid = "UPLOAD_ADDRESS_INVALID"   // 403: we did not give it out
	CodeUploadAddressExpired = "UPLOAD_ADDRESS_EXPIRED"   // 403
	CodeUploadDiffers        = "UPLOAD_DIFFERS"           // 409: other bytes came first
	CodeTestRunNotFound      = "TEST_RUN_NOT_FOUND"       // 404
	CodeSubscriberNotFound   = "SUBSCRIBER_NOT_FOUND"     // 404
	CodeDeliveryNotFound     = "DELIVERY_NOT_FOUND"       // 404
	CodeHostUnavailable      = "GIT_HOST_UNAVAILABLE"     // 503: nothing was stored
	CodeNotDecided           = "NOT_DECIDED_IN_TIME"      // 503: it may yet be done
	CodeUnavailable          = "SERVICE_UNAVAILABLE"      // 503: our storage is not there
	CodeInternal             = "INTERNAL_ERROR"           // 500
)

// refusals is what becomes of the codes with which a queue refuses a wish.
// They go out as they are.
var refusals = map[string]struct {
	status  int
	message string // where the queue gave none
}{
	queue.RefusedNotSubmitted: {http.StatusNotFound, "The pull request was never submitted to this queue."},
	queue.RefusedFinal:        {http.StatusConflict, "The pull request is no longer in the queue."},
	queue.RefusedLanding:      {http.StatusConflict, "The pull request is being landed and can no longer be taken out."},
	queue.RefusedNotTesting:   {http.StatusConflict, "The pull request is not being tested, so there is nothing to restart."},
	queue.RefusedMerged:       {http.StatusConflict, "The pull request is already merged."},
	queue.RefusedClosed:       {http.StatusConflict, "The pull request is closed."},
	queue.RefusedInStack:      {http.StatusConflict, "The pull request is in the queue already, by itself or in a stack."},
	queue.RefusedSwitching:    {http.StatusConflict, "The queue is switching modes; this can be changed when the switch is over."},
}

// failure is an error as the caller sees it. Everything else that goes wrong
// is a 500 whose details are for the log alone.
type failure struct {
	status  int
	code    string
	message string        // a sentence for people
	retry   time.Duration // > 0: when trying again makes sense
	cause   error         // for the log; nil when the caller did it
}

func (f *failure) Error() string {
	if f.cause != nil {
		return fmt.Sprintf("%s: %v", f.code, f.cause)
	}
	return f.code + ": " + f.message
}

func (f *failure) Unwrap() error { return f.cause }

func invalidJSON(message string) error {
	return &failure{status: http.StatusBadRequest, code: CodeInvalidJSON, message: message}
}

func invalidRequest(message string) error {
	return &failure{status: http.StatusBadRequest, code: CodeInvalidRequest, message: message}
}

func notFound(code, format string, args ...any) error {
	return &failure{status: http.StatusNotFound, code: code, message: fmt.Sprintf(format, args...)}
}

func (p place) notFound() error {
	return notFound(CodeQueueNotFound, "There is no merge queue for branch %q in %s.", p.branch, p.repo())
}

// orNotFound turns what a store says of something missing, or of somebody
// else's, into the answer for that noun.
func orNotFound(err, missing error) error {
	if errors.Is(err, queue.ErrNotFound) {
		return missing
	}
	return err
}

// refused is the answer to a wish that the queue did not grant. final is the
// status for a pull request that has left the queue: it is gone for one
// endpoint and a conflict for another.
func refused(answer queue.Answer, final int) error {
	kind, known := refusals[answer.Refused]
	if !known {
		kind.status, kind.message = http.StatusConflict, "The queue refused."
	}
	if answer.Refused == queue.RefusedFinal {
		kind.status = final
	}
	message := answer.Message
	if message == "" {
		message = kind.message
	}
	return &failure{status: kind.status, code: answer.Refused, message: message}
}

// hostUnavailable is the answer when the host gave none.
func hostUnavailable(host string, cause error) error {
	return &failure{status: http.StatusServiceUnavailable, code: CodeHostUnavailable, retry: 10 * time.Second, cause: cause,
		message: fmt.Sprintf("%s did not answer, so nothing was stored. Try again.", host)}
}

// undecided is the answer when nobody knows what became of a wish.
func undecided(cause error) error {
	return &failure{status: http.StatusServiceUnavailable, code: CodeNotDecided, retry: 5 * time.Second, cause: cause,
		message: "The request was not decided on in time. It may still be: ask for the pull request or the queue, or send it again, which is harmless."}
}

// failureOf is what the caller is told about an error.
func failureOf(err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	unavailable := func(message string) *failure {
		return &failure{status: http.StatusServiceUnavailable, code: CodeUnavailable, retry: 5 * time.Second, cause: err, message: message}
	}
	switch {
	case errors.Is(err, context.Canceled): // the caller has gone, or we are stopping
		return unavailable("The request was given up.")
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("The request took too long.")
	case errors.Is(err, queue.ErrUnavailable):
		return unavailable("The service cannot reach its storage at the moment. Try again.")
	}
	return &failure{status: http.StatusInternalServerError, code: CodeInternal, cause: err,
		message: "Something went wrong on our side."}
}
