package db_test

import (
	"fmt"
	"testing"

	"signalbox/account"
	"signalbox/queue"
)

// Whoever changes the set-up of an organisation stands in its audit log, with
// what was different afterwards; who was refused, or changed nothing, does not.
func TestTheAuditLogTellsWhoChangedWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := account.As(t.Context(), account.Author{Token: "terraform"})
	ask := func(refused string, f queue.ChangeRequested) {
		t.Helper()
		f.At = epoch
		w.must(w.Append(ctx, w.repo.ID, w.queue.ID, f))
		w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
			p := unchanged(s)
			if refused != "" {
				p.Answers = map[int64]queue.Answer{facts[0].ID: {Refused: refused}}
				return p
			}
			p.Queue.Settings = p.Queue.Settings.With(f.Change)
			s.Queue.Settings = p.Queue.Settings // a decision works on its snapshot
			return p
		})
	}
	two, one, names := int64(2), int64(1), []string{"build"}
	ask("", queue.ChangeRequested{Change: queue.Change{Concurrency: &two, RequiredStatuses: &names}, By: queue.Actor{Login: "ada", ID: 3}, Via: queue.ViaUser})
	ask("", queue.ChangeRequested{Change: queue.Change{Concurrency: &two}, Via: queue.ViaAPI, Token: "terraform"})
	ask(queue.RefusedSwitching, queue.ChangeRequested{Change: queue.Change{Concurrency: &one}, Via: queue.ViaAPI, Token: "terraform"})
	ask("", queue.ChangeRequested{Change: queue.Change{Concurrency: &one}, Via: queue.ViaAdmin})
	_, err := w.CreateQueue(ctx, w.org.ID, host, "acme", "app", "old", queue.DefaultSettings(), epoch)
	w.must(err)
	w.must(w.DeleteQueue(ctx, w.org.ID, host, "acme", "app", "old"))
	token, err := w.CreateToken(t.Context(), w.org, "ci", account.Submit, account.Hash("x"), epoch)
	w.must(err)
	w.must(w.RevokeToken(ctx, w.org.ID, token.ID))

	says := func(lines []account.Audit, err error) (text string) {
		w.must(err)
		for _, l := range lines {
			text += fmt.Sprintf("%s: %s %s %v\n", l.By, l.Deed, l.Subject, l.Changes)
		}
		return text
	}
	const want = `API token terraform: token_revoked ci []
the command line: token_created ci [{scope  submit}]
API token terraform: queue_deleted github.com/acme/app:old []
API token terraform: queue_created github.com/acme/app:old []
the administrator of this installation: queue_changed github.com/acme/app:main [{concurrency 2 1}]
@ada: queue_changed github.com/acme/app:main [{concurrency 1 2} {requiredStatuses [] ["build"]}]
the command line: queue_created github.com/acme/app:main []
`
	if got := says(w.Audit(t.Context(), w.org.ID, 0, 100)); got != want {
		t.Errorf("the log is\n%s\nwant\n%s", got, want)
	}
	page, err := w.AuditOf(t.Context(), w.queue.ID, 0, 1)
	w.must(err)
	if rest := says(w.AuditOf(t.Context(), w.queue.ID, page[0].ID, 1)); rest != "@ada: queue_changed github.com/acme/app:main [{concurrency 1 2} {requiredStatuses [] [\"build\"]}]\n" {
		t.Errorf("the second page of the queue's log is %q", rest)
	}
	other, err := w.CreateOrganization(t.Context(), "other")
	w.must(err)
	if got := says(w.Audit(t.Context(), other.ID, 0, 100)); got != "" {
		t.Errorf("another organisation sees %q", got)
	}
	if org, repos, err := w.Organization(t.Context(), "ACME"); err != nil || org.ID != w.org.ID || len(repos) != 1 || repos[0].ID != w.repo.ID {
		t.Errorf("%v, %v, %v", org, repos, err)
	}
	if slug, err := w.OrganizationName(t.Context(), w.queue.ID); err != nil || slug != "acme" {
		t.Errorf("%q, %v", slug, err)
	}
}
