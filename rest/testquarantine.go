package rest

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
)

// maxReason bounds who will repair a test and why it may fail, in bytes.
const maxReason = 2000

// automatic is whether a repository's flaky tests are quarantined by
// themselves.
type automatic struct {
	Automatic bool `json:"automatic"`
}

func (a *API) setAutomaticQuarantine(ctx context.Context, c *call) (any, error) {
	var on *bool
	_, repo, err := a.namedTests(ctx, c, required("automatic", boolean(&on)))
	if err != nil {
		return nil, err
	}
	if err := a.tests.SetAutomatic(ctx, repo.ID, *on, actorOf(c), c.now); err != nil {
		return nil, fmt.Errorf("switch automatic quarantine: %w", err)
	}
	return automatic{*on}, nil
}

// actorOf is who made a change, as the audit trail names them.
func actorOf(c *call) string { return "token " + c.token.Name }

// quarantine is what a test is after somebody decided about it.
type quarantine struct {
	TestID      string  `json:"test_id"`
	Setting     string  `json:"setting"`
	Quarantined bool    `json:"quarantined"`
	Code        string  `json:"code"`
	ExpiresAt   *moment `json:"expires_at"` // null: it does not end
}

func (a *API) setQuarantine(ctx context.Context, c *call) (any, error) {
	var p testPlace
	var id uuid.UUID
	var setting flaky.Setting
	var owner, reason string
	var expires *time.Time
	err := decode(c.body, append(p.fields(), required("test_id", testCaseID(&id)), required("setting", quarantineSetting(&setting)),
		optional("owner", text(&owner, maxReason)), optional("reason", text(&reason, maxReason)), optional("expires_at", instant(&expires)))...)
	if err != nil {
		return nil, err
	}
	o := flaky.Override{Setting: setting, Owner: owner, Reason: reason, Expires: orZero(expires), Actor: actorOf(c)}
	if problem := o.Check(c.now); problem != nil {
		return nil, invalidRequest(strings.ReplaceAll(problem.Error(), "\n", "; ") + ".")
	}
	repo, err := a.repository(ctx, c, &p)
	if err != nil {
		return nil, err
	}
	q, err := a.tests.SetQuarantine(ctx, repo.ID, id, o, c.now)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("set a quarantine: %w", err), notFound(CodeTestNotFound, "There is no test %s in %s.", id, p.repo()))
	}
	return quarantine{id.String(), string(o.Setting), q.On, string(q.Code), momentOrNull(o.Expires)}, nil
}

// quarantineSetting reads a setting, in any case.
func quarantineSetting(to *flaky.Setting) func(*form, value) {
	return func(f *form, v value) {
		given, ok := textIn(f, v, maxWord)
		if !ok {
			return
		}
		if *to, ok = flaky.ParseSetting(given); !ok {
			f.refuse(v, "must be ALWAYS_QUARANTINE, NEVER_QUARANTINE or AUTO_QUARANTINE")
		}
	}
}

// linkTicket notes where somebody keeps track of a test's repair. Clients send
// the name that a ticket has in its tracker, and no organisation; where a
// tracker is known, the name leads to its page.
func (a *API) linkTicket(ctx context.Context, c *call) (any, error) {
	p := testPlace{slug: c.org.Slug}
	var id uuid.UUID
	var name, link string
	if err := decode(c.body, p.repoField(), optional("org_url_slug", text(&p.slug, maxSlug)), required("test_case_id", testCaseID(&id)),
		required("external_ticket_id", anyTextUpTo(&name, maxReason)), optional("html_url", webAddress(&link))); err != nil {
		return nil, err
	}
	switch {
	case name == "":
		link = ""
	case link == "" && isWebAddress(name):
		link = name
	case link == "" && a.ticketURL != "":
		link = strings.ReplaceAll(a.ticketURL, "{id}", url.PathEscape(name))
	}
	repo, err := a.repository(ctx, c, &p)
	if err != nil {
		return nil, err
	}
	if err := a.tests.LinkTicket(ctx, repo.ID, id, name, link); err != nil {
		return nil, orNotFound(fmt.Errorf("link a ticket: %w", err), notFound(CodeTestNotFound, "There is no test %s in %s.", id, p.repo()))
	}
	return struct{}{}, nil
}

// webAddress reads an address that a browser may be sent to.
func webAddress(to *string) func(*form, value) {
	return func(f *form, v value) {
		given, ok := textIn(f, v, maxReason)
		if ok && !isWebAddress(given) {
			f.refuse(v, "must be an address that begins with https:// or http://")
			return
		}
		*to = given
	}
}

func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// testEvidence is why a test is in its state.
type testEvidence struct {
	Evidence []proof      `json:"evidence"`
	Changes  []testChange `json:"changes"`
}

// proof is one observation that a test fails without being broken.
type proof struct {
	Kind        string   `json:"kind"`
	Weight      float64  `json:"weight"`
	At          moment   `json:"at"`
	Summary     string   `json:"summary"`
	PullRequest *int     `json:"pull_request"` // null: it is not about one
	Failed      proofRun `json:"failed"`
	Passed      proofRun `json:"passed"`
}

// proofRun is one of the two runs that contradict each other.
type proofRun struct {
	UploadID string `json:"upload_id"`
	Commit   string `json:"commit"`
	HTMLURL  string `json:"html_url"`
}

type testChange struct {
	At       moment  `json:"at"`
	What     string  `json:"what"`
	Before   string  `json:"before"`
	After    string  `json:"after"`
	Code     string  `json:"code"`
	Reason   string  `json:"reason"`
	Actor    string  `json:"actor"`
	UploadID string  `json:"upload_id"`
	Score    float64 `json:"score"`
}

func (a *API) listTestEvidence(ctx context.Context, c *call) (any, error) {
	var id uuid.UUID
	p, repo, err := a.namedTests(ctx, c, required("test_id", testCaseID(&id)))
	if err != nil {
		return nil, err
	}
	proofs, changes, err := a.tests.TestHistory(ctx, repo.ID, id)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("read the history of a test: %w", err), notFound(CodeTestNotFound, "There is no test %s in %s.", id, p.repo()))
	}
	out := testEvidence{Evidence: []proof{}, Changes: []testChange{}}
	for _, e := range proofs {
		out.Evidence = append(out.Evidence, proof{
			Kind: string(e.Kind), Weight: e.Weight(), At: moment(e.At), Summary: e.Summary, PullRequest: valueOrNull(e.PullRequest),
			Failed: proofRun{strconv.FormatInt(e.FailedRun, 10), e.FailedCommit, e.FailedLink}, Passed: proofRun{strconv.FormatInt(e.PassedRun, 10), e.PassedCommit, e.PassedLink},
		})
	}
	for _, ch := range changes {
		line := testChange{At: moment(ch.At), What: ch.What, Before: ch.Before, After: ch.After, Code: ch.Code, Reason: ch.Reason, Actor: ch.Actor, Score: ch.Score}
		if ch.Upload != 0 {
			line.UploadID = strconv.FormatInt(ch.Upload, 10)
		}
		out.Changes = append(out.Changes, line)
	}
	return out, nil
}
