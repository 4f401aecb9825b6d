package github

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
)

func denied(format string, args ...any) error {
	return &gitprovider.Error{Kind: gitprovider.Denied, Message: fmt.Sprintf(format, args...)}
}

// statusOf is the HTTP status that an error comes from, 0 if none.
func statusOf(err error) int {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}

// hostWords is what the host said in an error, for people.
func hostWords(err error) string {
	var answer *github.ErrorResponse
	if !errors.As(err, &answer) {
		return err.Error()
	}
	words := []string{answer.Message}
	for _, e := range answer.Errors {
		if e.Message != "" {
			words = append(words, e.Message)
		}
	}
	text := strings.TrimSpace(strings.Join(words, "\n"))
	if text == "" {
		text = fmt.Sprintf("the host answered %d", statusOf(err))
	}
	if len(text) > 4000 {
		text = strings.ToValidUTF8(text[:4000], "") + "…"
	}
	return strings.ReplaceAll(text, "\x00", "")
}

// explain gives an error of a call its kind and says what was being done.
func explain(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	var refused *ghinstallation.HTTPError
	if errors.As(err, &refused) && refused.Response != nil {
		switch refused.Response.StatusCode {
		case http.StatusUnauthorized:
			return &gitprovider.Error{Kind: gitprovider.Denied, Err: err,
				Message: doing + ": the host does not accept the App's key; check the App's id and private key, and this machine's clock"}
		case http.StatusForbidden, http.StatusNotFound:
			return &gitprovider.Error{Kind: gitprovider.Denied, Err: err,
				Message: doing + ": the App's installation is suspended or gone; install the App again, or lift the suspension"}
		}
	}
	var known *gitprovider.Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var primary *github.RateLimitError
	var secondary *github.AbuseRateLimitError
	if errors.As(err, &primary) || errors.As(err, &secondary) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	kind := gitprovider.Transient
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusGone:
		kind = gitprovider.Gone
	case http.StatusUnauthorized:
		kind, doing = gitprovider.Denied, doing+": the host does not accept the App's credentials"
	case http.StatusForbidden:
		kind = gitprovider.Denied
		if need := missingPermission(err); need != "" {
			doing += ": the App needs the permission " + need
		}
	case http.StatusConflict:
		kind = gitprovider.Stale
	case http.StatusUnprocessableEntity, http.StatusUnavailableForLegalReasons:
		kind = gitprovider.Denied
	}
	if kind == gitprovider.Transient {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return &gitprovider.Error{Kind: kind, Message: doing, Err: err}
}

// missingPermission is what the host says would have been enough.
func missingPermission(err error) string {
	var answer *github.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil {
		return ""
	}
	return strings.ReplaceAll(answer.Response.Header.Get("X-Accepted-GitHub-Permissions"), "=", ": ")
}
