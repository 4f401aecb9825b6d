package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"signalbox/account"
	"signalbox/flaky"
)

// keptReport is what the service says of an upload that it has read.
type keptReport struct {
	ID       string        `json:"id"`
	Status   string        `json:"status"` // WAITING or READ
	Complete bool          `json:"complete"`
	Tests    int           `json:"tests"`
	Failed   int           `json:"failed"`
	Notes    []keptNote    `json:"notes"`
	Failures []keptFailure `json:"failures"`
}

// keptNote is one thing that was wrong with it.
type keptNote flaky.Note

// keptFailure is a test that failed in it.
type keptFailure struct {
	Name        string `json:"name"`
	Parent      string `json:"parent"`
	File        string `json:"file"`
	Classname   string `json:"classname"`
	Variant     string `json:"variant"`
	Quarantined bool   `json:"quarantined"`
	ReasonCode  string `json:"reason_code"`
}

// How long to wait between two questions, at first and at most.
const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// send uploads and waits until the service has read the reports. An error says
// in a sentence why nothing is known.
func (u *uploadCommand) send(ctx context.Context, sent flaky.Sent, body []byte) (*keptReport, error) {
	s := remote{token: u.Token}
	base, err := url.Parse(strings.TrimRight(strings.TrimSpace(u.URL), "/"))
	var lacks []error
	for _, need := range []struct {
		ok   bool
		text string
	}{
		{err == nil && (base.Scheme == "https" || base.Scheme == "http") && base.Host != "", "the address of Signalbox: set SIGNALBOX_URL or --url, such as https://signalbox.example.com"},
		{u.Token != "", "a token: set SIGNALBOX_TOKEN (CI keeps secrets from pull requests of forks)"},
		{sent.Owner != "" && sent.Name != "", "the repository: give --repo host/owner/name"},
		{sent.Commit != "", "the commit: give --sha"},
		{sent.Job != "", "the name of the job: give --job"},
	} {
		if !need.ok {
			lacks = append(lacks, errors.New(need.text))
		}
	}
	if len(lacks) > 0 {
		return nil, fmt.Errorf("this is missing: %w", errors.Join(lacks...))
	}
	s.base = base
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	var kept struct {
		ID string `json:"id"`
	}
	if err := s.post(ctx, "test-results", factsQuery(sent), sent.ContentType, body, &kept); err != nil {
		return nil, err
	}
	if kept.ID == "" {
		return nil, errors.New("what answers is not Signalbox: it names no upload")
	}
	return s.readBy(ctx, sent, kept.ID)
}

// factsQuery is what is said of an upload as the query of its address.
func factsQuery(sent flaky.Sent) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"ci": sent.CI, "host": sent.Host, "owner": sent.Owner, "name": sent.Name, "sha": sent.Commit, "tree": sent.Tree, "head": sent.Head, "base": sent.Base,
		"branch": sent.Branch, "job": sent.Job, "check": sent.Check, "link": sent.Link, "variant": sent.Variant,
		"pr": number(sent.Pull), "attempt": number(sent.Attempt), "expected": number(sent.Expected), "fork": yes(sent.Fork), "infrastructure": yes(sent.Infrastructure),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if sent.ExitCode != nil && *sent.ExitCode >= 0 && *sent.ExitCode <= 255 {
		q.Set("exit_code", strconv.Itoa(*sent.ExitCode))
	}
	return q
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// remote is Signalbox, somewhere.
type remote struct {
	base  *url.URL
	token string
}

// readBy waits until the service has read an upload.
func (s remote) readBy(ctx context.Context, sent flaky.Sent, id string) (*keptReport, error) {
	question, err := json.Marshal(map[string]any{
		"repo": map[string]string{"host": sent.Host, "owner": sent.Owner, "name": sent.Name}, "org_url_slug": account.Slug(sent.Owner), "upload_id": id,
	})
	if err != nil {
		return nil, err
	}
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		var answer struct {
			Upload *keptReport `json:"upload"`
		}
		if err := s.post(ctx, "flaky-tests/get-upload", nil, "application/json", question, &answer); err != nil {
			return nil, err
		}
		switch kept := answer.Upload; {
		case kept == nil || kept.ID != id || kept.Status != "READ" && kept.Status != "WAITING":
			return nil, errors.New("what answers is not Signalbox: it does not know the upload that it took")
		case kept.Status == "READ":
			return kept, nil
		}
		if err := pause(ctx, wait); err != nil {
			return nil, errors.New("it took the reports and has not read them in time")
		}
	}
}

// post calls an endpoint until it answers or time is up: what was sent once
// already counts once. What is no answer of Signalbox is an error.
func (s remote) post(ctx context.Context, endpoint string, query url.Values, contentType string, body []byte, answer any) error {
	address := s.base.JoinPath("v1", endpoint)
	address.RawQuery = query.Encode()
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		again, err := s.try(ctx, address.String(), contentType, body, answer)
		if err == nil || again < 0 {
			return err
		}
		if pause(ctx, max(wait, again)) != nil {
			return err
		}
	}
}

// never is that trying again would not help.
const never = time.Duration(-1)

// try calls once. With an error comes how long to wait before the next time.
func (s remote) try(ctx context.Context, address, contentType string, body []byte, answer any) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return never, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("x-api-token", s.token)
	req.Header.Set("User-Agent", "signalbox/"+programVersion())
	resp, err := uploadClient.Do(req)
	if err != nil {
		var failed *url.Error // its text has the whole address
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return 0, fmt.Errorf("%s cannot be reached: %w", s.base.Host, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("%s broke off its answer: %w", s.base.Host, err)
	}
	if resp.StatusCode != http.StatusOK {
		var failed struct{ Error apiError }
		if json.Unmarshal(text, &failed) != nil || failed.Error.Message == "" {
			failed.Error.Message = "no message"
		}
		again := never
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			again = time.Duration(min(max(seconds, 0), 600)) * time.Second
		}
		return again, fmt.Errorf("%s answered %s: %s", s.base.Host, resp.Status, failed.Error.Message)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return never, fmt.Errorf("what answers at %s is not Signalbox: %w", s.base.Host, err)
	}
	return 0, nil
}

// uploadClient does not follow redirects: the body and the token are for one
// address alone.
var uploadClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// pause waits, and fails if time would be up before that.
func pause(ctx context.Context, wait time.Duration) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		return context.DeadlineExceeded
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
