package db_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"signalbox/account"
	"signalbox/db"
	"signalbox/queue"
)

func (w *world) connect(c account.Connection) {
	w.t.Helper()
	for range 2 { // the host may say it again
		w.must(w.Connect(w.t.Context(), c))
	}
}

// where is the number of the repository that a name finds, 0 for none.
func (w *world) where(org account.Organization, name string) queue.RepoID {
	w.t.Helper()
	owner, name, _ := strings.Cut(name, "/")
	repo, err := w.Repository(w.t.Context(), org.ID, "GitHub.com", owner, name)
	if errors.Is(err, queue.ErrNotFound) {
		return 0
	}
	w.must(err)
	return repo.ID
}

func (w *world) organization(slug string) account.Organization {
	w.t.Helper()
	org, err := w.CreateOrganization(w.t.Context(), slug)
	w.must(err)
	return org
}

func TestARepositoryIsFoundByItsNamesInAnyCase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.repo.ID
	renamed := connection("acme", 5)
	renamed.Renamed = []account.Repository{repository("Acme", "Platform", hostID)}
	w.connect(renamed)
	for _, name := range []string{"acme/platform", "ACME/PLATFORM", "acme/app", "Acme/App"} {
		if got := w.where(w.org, name); got != id {
			t.Errorf("%s is repository %d, want %d", name, got, id)
		}
	}
	if _, err := w.FindQueue(t.Context(), w.org.ID, host, "acme", "app", "main"); err != nil {
		t.Errorf("the queue under the old name: %v", err)
	}
	// Another repository takes the old name.
	w.connect(connection("acme", 5, repository("acme", "app", 78)))
	if got := w.where(w.org, "acme/app"); got == id || got == 0 {
		t.Errorf("the name that another repository took leads to %d", got)
	}
	// And they swap names, which the host tells one by one.
	renamed.Renamed = []account.Repository{repository("acme", "app", hostID)}
	w.connect(renamed)
	renamed.Renamed = []account.Repository{repository("acme", "platform", 78)}
	w.connect(renamed)
	if got := w.where(w.org, "acme/app"); got != id {
		t.Errorf("after the swap acme/app is %d, want %d", got, id)
	}
	if got := w.where(w.org, "acme/platform"); got == id || got == 0 {
		t.Errorf("after the swap acme/platform is %d", got)
	}
	repo, err := w.Repo(t.Context(), id)
	w.must(err)
	if want := (queue.Repo{ID: id, Host: host, Owner: "acme", Name: "app", HostID: hostID, Installation: 5}); repo != want {
		t.Errorf("the repository reads %+v, want %+v", repo, want)
	}
	if _, err := w.Repo(t.Context(), 4711); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a repository that is not there: %v", err)
	}
}

func TestOrganisationsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	evil := w.organization("evil")
	if w.where(evil, "acme/app") != 0 {
		t.Error("the repository is seen")
	}
	if _, err := w.FindQueue(t.Context(), evil.ID, host, "acme", "app", "main"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the queue is found: %v", err)
	}
	if _, err := w.CreateQueue(t.Context(), evil.ID, host, "ACME", "app", "other", queue.DefaultSettings(), epoch); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a queue is made there: %v", err)
	}
	if err := w.DeleteQueue(t.Context(), evil.ID, host, "acme", "app", "main"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the queue is deleted: %v", err)
	}
}

func TestANotedRepositoryIsConnectedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q, err := w.CreateQueue(t.Context(), w.org.ID, host, "acme", "soon", "main", queue.DefaultSettings(), epoch)
	w.must(err)
	if q.Repo.HostID != 0 || q.Repo.Installation != 0 {
		t.Errorf("noted as %+v", q.Repo)
	}
	w.connect(connection("Acme", 5, repository("acme", "Soon", 79)))
	q, err = w.FindQueue(t.Context(), w.org.ID, host, "acme", "soon", "main")
	w.must(err)
	if want := (queue.Repo{ID: q.Repo.ID, Host: host, Owner: "acme", Name: "Soon", HostID: 79, Installation: 5}); q.Repo != want {
		t.Errorf("connected as %+v, want %+v", q.Repo, want)
	}
	// Noted under a name that a connected repository then gets.
	_, err = w.CreateQueue(t.Context(), w.org.ID, host, "acme", "next", "release", queue.DefaultSettings(), epoch)
	w.must(err)
	w.connect(account.Connection{Installation: connection("acme", 5).Installation, Renamed: []account.Repository{repository("acme", "next", 79)}})
	for _, branch := range []string{"main", "release"} {
		q, err := w.FindQueue(t.Context(), w.org.ID, host, "acme", "next", branch)
		if err != nil || q.Repo.HostID != 79 {
			t.Errorf("the queue of %s is on %+v, %v", branch, q.Repo, err)
		}
	}
}

// Before the App is installed, the organisation of the owner's login need not
// wait until then for a name that another has noted; one of another login does.
func TestTheOwnerOfANameIsNotKeptOutByANote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	squatter, third := w.organization("squatter"), w.organization("third")
	create := func(org account.Organization, owner, name string) error {
		_, err := w.CreateQueue(t.Context(), org.ID, host, owner, name, "main", queue.DefaultSettings(), epoch)
		return err
	}
	w.must(create(squatter, "ACME", "wanted"))
	note := w.where(squatter, "acme/wanted")
	if err := create(third, "acme", "wanted"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a third organisation: %v", err)
	}
	w.must(create(w.org, "Acme", "wanted"))
	if at := w.where(w.org, "acme/wanted"); at == 0 || at == note || w.where(squatter, "acme/wanted") != 0 {
		t.Errorf("the owner has it at %d, the note was %d", at, note)
	}
	if err := create(w.org, "acme", "wanted"); !errors.Is(err, queue.ErrExists) {
		t.Errorf("the owner again: %v", err)
	}
	if err := create(squatter, "acme", "wanted"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("who noted it, again: %v", err)
	}
	// What is connected belongs to whom the host says, whatever it is called.
	w.connect(connection("squatter", 9, repository("third", "installed", 90)))
	if err := create(third, "third", "installed"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a connected repository of another organisation: %v", err)
	}
}

func TestWhoInstallsTheAppHasTheRepositoryWhoeverNotedItsName(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, func(c *db.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	squatter := w.organization("squatter")
	for _, branch := range []string{"main", "release"} {
		_, err := w.CreateQueue(t.Context(), squatter.ID, host, "ACME", "wanted", branch, queue.DefaultSettings(), epoch)
		w.must(err)
	}
	note := w.where(squatter, "acme/wanted")
	other, err := w.CreateQueue(t.Context(), squatter.ID, host, "squatter", "own", "main", queue.DefaultSettings(), epoch)
	w.must(err)

	w.connect(connection("acme", 5, repository("acme", "wanted", 80), repository("acme", "fine", 81)))
	if w.where(w.org, "acme/wanted") == 0 || w.where(w.org, "acme/fine") == 0 {
		t.Error("acme does not have its repositories")
	}
	if w.where(w.org, "acme/wanted") == note {
		t.Error("what was kept for the note went over to the owner")
	}
	if w.where(squatter, "acme/wanted") != 0 || w.count(`SELECT count(*) FROM queues WHERE repository_id = $1`, int64(note)) != 0 {
		t.Error("the squatter still has the name, or its queues")
	}
	if _, err := w.FindQueue(t.Context(), squatter.ID, host, "squatter", "own", "main"); err != nil {
		t.Errorf("the squatter's own queue %d: %v", other.ID, err)
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, `queues="[main release]"`) || !strings.Contains(text, "noted_by=") {
		t.Errorf("the log says:\n%s", text)
	}
	// It cannot come back, and the owner can begin.
	if _, err := w.CreateQueue(t.Context(), squatter.ID, host, "acme", "wanted", "main", queue.DefaultSettings(), epoch); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the squatter's next queue: %v", err)
	}
	_, err = w.CreateQueue(t.Context(), w.org.ID, host, "acme", "wanted", "main", queue.DefaultSettings(), epoch)
	w.must(err)
}

func TestANameThatIsNotedGoesToWhatIsRenamedToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	squatter := w.organization("squatter")
	_, err := w.CreateQueue(t.Context(), squatter.ID, host, "acme", "next", "main", queue.DefaultSettings(), epoch)
	w.must(err)
	w.connect(account.Connection{Installation: connection("acme", 5).Installation, Renamed: []account.Repository{repository("acme", "next", hostID)}})
	if w.where(w.org, "acme/next") != w.repo.ID || w.where(w.org, "acme/app") != w.repo.ID || w.where(squatter, "acme/next") != 0 {
		t.Error("the repository does not have its new name")
	}
}

// The host's number is a proof, a name is a claim.
func TestATransferredRepositoryGoesWithItsNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connect(connection("globex", 6, repository("globex", "app", hostID)))
	globex := w.organization("globex")
	if got := w.where(globex, "globex/app"); got != w.repo.ID {
		t.Errorf("the new owner finds %d", got)
	}
	if w.where(w.org, "acme/app") != 0 {
		t.Error("the old owner still has it")
	}
}

func TestQueuesHearThatTheirRepositoryLeft(t *testing.T) {
	t.Parallel()
	installation := account.Installation{ID: 5, Host: host, Account: "acme"}
	suspended := installation
	suspended.Suspended = true
	app := repository("acme", "app", hostID)
	tests := []struct {
		name       string
		connection account.Connection
		gone       bool
	}{
		{"removed", account.Connection{Installation: installation, Removed: []account.Repository{app}}, true},
		{"missing in the whole list", account.Connection{Installation: installation, Complete: true}, true},
		{"in the whole list", account.Connection{Installation: installation, Complete: true, Added: []account.Repository{app}}, false},
		{"uninstalled", account.Connection{Installation: installation, Deleted: true}, true},
		{"suspended", account.Connection{Installation: suspended}, true},
		{"another one removed", account.Connection{Installation: installation, Removed: []account.Repository{repository("acme", "x", 99)}}, false},
		{"removed from another installation", account.Connection{Installation: account.Installation{ID: 9, Host: host, Account: "b"}, Removed: []account.Repository{app}}, false},
	}
	w := newWorld(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.must(w.Connect(t.Context(), account.Connection{Installation: installation, Added: []account.Repository{app}}))
			w.connect(tt.connection)
			w.must(w.Route(t.Context(), epoch))
			got := slices.DeleteFunc(w.taken()[w.queue.ID], func(kind string) bool { return kind == queue.PreflightWanted{}.Kind() })
			want := 0
			if tt.gone {
				want = 1
			}
			if len(got) != want {
				t.Errorf("the queue hears %v", got)
			}
			repo, err := w.Repo(t.Context(), w.repo.ID)
			w.must(err)
			if (repo.Installation == 0) != tt.gone {
				t.Errorf("the repository's installation is %d", repo.Installation)
			}
		})
	}
	// Rules of the account are about every repository, and nothing else.
	w.must(w.Connect(t.Context(), account.Connection{Installation: suspended, Added: []account.Repository{app}}))
	w.must(w.Route(t.Context(), epoch))
	w.taken()
	w.must(w.Connect(t.Context(), account.Connection{Installation: installation, RulesChanged: true}))
	w.must(w.Connect(t.Context(), account.Connection{Installation: account.Installation{ID: 9, Host: host, Account: "b"}, RulesChanged: true}))
	w.must(w.Route(t.Context(), epoch))
	if got := w.taken()[w.queue.ID]; len(got) != 1 || got[0] != (queue.RulesChanged{}).Kind() {
		t.Errorf("after a change of the account's rules the queue hears %v", got)
	}
	// The end of a suspension names no repositories.
	w.connect(account.Connection{Installation: suspended, Added: []account.Repository{app}})
	w.connect(account.Connection{Installation: installation})
	repo, err := w.Repo(t.Context(), w.repo.ID)
	w.must(err)
	if repo.Installation != 5 {
		t.Errorf("after the suspension the installation is %d", repo.Installation)
	}
}

// A new queue's set-up is looked at, and so is that of each queue of a
// repository for which the App is installed, allowed more, or back from a
// suspension. Being told the same again is no reason.
func TestTheSetUpIsLookedAtWhenTheInstallationChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := repository("acme", "app", hostID)
	installation := connection("acme", 5).Installation
	suspended := installation
	suspended.Suspended = true
	for _, c := range []struct {
		what       string
		connection account.Connection
		want       string
	}{
		{"the same again", connection("acme", 5, app), ""},
		{"other permissions", account.Connection{Installation: installation, Permitted: true}, "preflight_wanted"},
		{"suspended", account.Connection{Installation: suspended}, "repository_gone"},
		{"lifted", account.Connection{Installation: installation}, "preflight_wanted"},
		{"removed", account.Connection{Installation: installation, Removed: []account.Repository{app}}, "repository_gone"},
		{"added", connection("acme", 5, app), "preflight_wanted"},
		{"another installation", connection("acme", 6, app), "preflight_wanted"},
	} {
		w.connect(c.connection)
		w.must(w.Route(t.Context(), epoch))
		if got := strings.Join(slices.Compact(w.taken()[w.queue.ID]), " "); got != c.want {
			t.Errorf("%s: the queue hears %q, want %q", c.what, got, c.want)
		}
	}
	q, err := w.CreateQueue(t.Context(), w.org.ID, host, "acme", "app", "next", queue.DefaultSettings(), epoch)
	w.must(err)
	if !q.Preflight.Due.Equal(epoch) {
		t.Errorf("the new queue's preflight is %+v", q.Preflight)
	}
	if wake, err := w.NextWake(t.Context()); err != nil || !wake.Equal(epoch) {
		t.Errorf("the new queue wakes the engine at %s (%v)", wake, err)
	}
}

func TestConnectionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]account.Connection{
		"no account":           connection("", 9),
		"no installation":      connection("acme", 0),
		"no repository number": connection("acme", 5, repository("acme", "x", 0)),
		"no repository name":   connection("acme", 5, repository("acme", "", 7)),
	} {
		if err := w.Connect(t.Context(), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
