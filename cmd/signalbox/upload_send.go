package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/account"
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

// send uploads and waits until the service has read the reports, or without a
// token asks which of the failing tests are excused. An error says in a sentence
// why nothing is known.
func (u *uploadCommand) send(ctx context.Context, sent flaky.Sent, body []byte, failing []failingTest) (*keptReport, error) {
	c, err := u.clientFor(api.StandIn{PublicRepo: strings.TrimSpace(u.PublicRepoID)})
	lacks := flatten(err)
	for i := range lacks {
		if errors.Is(lacks[i], errNoToken) {
			lacks[i] = fmt.Errorf("%w; there, SIGNALBOX_PUBLIC_REPO_ID stands in for it", errNoToken)
		}
	}
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
	query, org := factsQuery(sent), cmp.Or(u.Org, account.Slug(sent.Owner))
	if c.Anonymous() {
		query.Set("org", org)
	}
	if err := c.Send(ctx, "test-results", query, sent.ContentType, body, &kept); err != nil {
		return nil, err
	}
	if kept.ID == "" {
		return nil, &api.Stranger{Host: c.Server(), Err: errors.New("it names no upload")}
	}
	if c.Anonymous() {
		return quarantinedOf(ctx, c, sent, org, kept.ID, failing)
	}
	return readBy(ctx, &api.Queue{Client: c, Host: sent.Host, Owner: sent.Owner, Name: sent.Name}, kept.ID)
}

// quarantinedOf asks which failures are excused, for those who may ask for
// nothing else: what the service read of an upload is not told to everybody.
func quarantinedOf(ctx context.Context, c *api.Client, sent flaky.Sent, org, upload string, failing []failingTest) (*keptReport, error) {
	kept := &keptReport{ID: upload, Complete: true}
	if len(failing) == 0 {
		return kept, nil // and to ask about no test is to ask about all
	}
	asked := make([]map[string]string, len(failing))
	for i := range failing {
		t := &failing[i]
		asked[i] = map[string]string{"id": t.ID.String(), "name": t.Name, "parentName": t.Parent, "className": t.Classname, "file": t.File,
			"variant": t.Variant, "failure_message": cmp.Or(t.Failure.Message, t.Failure.Text)}
	}
	var answer struct {
		TestIDs []string `json:"testIds"`
	}
	if err := c.Post(ctx, "metrics/getQuarantineConfig", map[string]any{
		"repo": map[string]string{"host": sent.Host, "owner": sent.Owner, "name": sent.Name}, "orgUrlSlug": org, "testIdentifiers": asked,
	}, &answer); err != nil {
		return nil, err
	}
	for i := range failing {
		t := &failing[i]
		kept.Failures = append(kept.Failures, keptFailure{t.Name, t.Parent, t.File, t.Classname, t.Variant, slices.Contains(answer.TestIDs, t.ID.String()), ""})
	}
	return kept, nil
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
