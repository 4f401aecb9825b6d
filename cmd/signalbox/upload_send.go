package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"signalbox/api"
	"signalbox/flaky"
)

// keptReport is what the service says of an upload that it has read.
type keptReport struct {
	ID       string        `json:"id"`
	Status   string        `json:"status"` // waiting or read
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
	firstQuestion = 100 * time.Millisecond
	lastQuestion  = 5 * time.Second
)

// send uploads and waits until the service has read the reports. An error says
// in a sentence why nothing is known.
func (u *uploadCommand) send(ctx context.Context, sent flaky.Sent, body []byte) (*keptReport, error) {
	c, err := u.client()
	lacks := flatten(err)
	for _, need := range []struct {
		ok   bool
		text string
	}{
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
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	var kept struct {
		ID string `json:"id"`
	}
	if err := c.Send(ctx, "test-results", factsQuery(sent), sent.ContentType, body, &kept); err != nil {
		return nil, err
	}
	if kept.ID == "" {
		return nil, &api.Stranger{Host: c.Server(), Err: errors.New("it names no upload")}
	}
	return readBy(ctx, &api.Queue{Client: c, Host: sent.Host, Owner: sent.Owner, Name: sent.Name}, kept.ID)
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

// readBy waits until the service has read an upload.
func readBy(ctx context.Context, q *api.Queue, id string) (*keptReport, error) {
	for wait := firstQuestion; ; wait = min(2*wait, lastQuestion) {
		var answer struct {
			Upload *keptReport `json:"upload"`
		}
		if err := q.About(ctx, "flaky-tests/get-upload", map[string]any{"upload_id": id}, &answer); err != nil {
			return nil, err
		}
		switch kept := answer.Upload; {
		case kept == nil || kept.ID != id || kept.Status != "read" && kept.Status != "waiting":
			return nil, &api.Stranger{Host: q.Server(), Err: errors.New("it does not know the upload that it took")}
		case kept.Status == "read":
			return kept, nil
		}
		if err := pause(ctx, wait); err != nil {
			return nil, errors.New("it took the reports and has not read them in time")
		}
	}
}

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
