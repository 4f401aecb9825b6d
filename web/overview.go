package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"
	"golang.org/x/sync/errgroup"

	"signalbox/account"
	"signalbox/queue"
)

// overviewView is the page of all queues, or of those of one repository.
type overviewView struct {
	Title string
	Only  string // the one repository that it is about; "" = all
	Orgs  []orgQueues
	// Bare are repositories that have no queue yet.
	Bare   []bareRepo
	Search string // what their names were searched for
	More   bool   // there are more than were looked at
	CSRF   string
	Told   string
	Now    moment
}

// orgQueues are the repositories of one organisation that have queues.
type orgQueues struct {
	Slug  string
	Pages []tab // of the organisation, for those who may see them
	Repos []repoQueues
}

// repoQueues are the queues of one repository.
type repoQueues struct {
	Repo, URL string
	Tests     string // address of the page of its tests
	Unhealthy int    // flaky and broken tests
	Queues    []queueLine
}

// queueLine is one queue among others.
type queueLine struct {
	Branch, URL       string
	State             badge
	Why               string
	Mode              queue.Mode
	Slots             int64
	NotReady, Pending int64
	Testing, Passed   int64
	Failing           int64 // failed, and the cause is not clear yet
}

// bareRepo is a repository without a queue.
type bareRepo struct {
	Repo, URL, Tests  string
	Host, Owner, Name string
	Branch            string // that a queue is proposed for
	Unhealthy         int
	Create            string // where the form that makes a queue is sent; "" = the reader may not
}

func (overviewView) template() string { return "overview" }

// Heading is the page's title.
func (v overviewView) Heading() string { return v.Title }

// seen is what a reader may see of all repositories.
type seen struct {
	queues    []queue.Queue
	bare      []queue.Repo
	more      bool
	rights    map[queue.RepoID]account.Right
	places    map[queue.RepoID]account.Place
	counts    map[queue.ID]map[queue.EntryState]int64
	unhealthy map[queue.RepoID]int
}

func viewOverview(s seen, now time.Time) overviewView {
	v := overviewView{Title: "Queues", More: s.more, Now: at(now, now)}
	for _, q := range s.queues {
		slug := s.places[q.Repo.ID].Org
		i := slices.IndexFunc(v.Orgs, func(o orgQueues) bool { return o.Slug == slug })
		if i < 0 {
			i = len(v.Orgs)
			v.Orgs = append(v.Orgs, orgQueues{Slug: slug, Pages: orgTabs(slug, "")})
		}
		org := &v.Orgs[i]
		if s.rights[q.Repo.ID] < account.AdminRight {
			org.Pages = nil // they take an administrator of all
		}
		if len(org.Repos) == 0 || org.Repos[len(org.Repos)-1].Repo != q.Repo.String() {
			org.Repos = append(org.Repos, repoQueues{Repo: q.Repo.String(), URL: RepoURL("", q.Repo), Tests: testsURL(q.Repo), Unhealthy: s.unhealthy[q.Repo.ID]})
		}
		repo := &org.Repos[len(org.Repos)-1]
		repo.Queues = append(repo.Queues, lineOf(&q, s.counts[q.ID]))
	}
	slices.SortStableFunc(v.Orgs, func(a, b orgQueues) int { return strings.Compare(a.Slug, b.Slug) })
	for _, r := range s.bare {
		bare := bareRepo{
			Repo: r.String(), URL: RepoURL("", r), Tests: testsURL(r), Host: r.Host, Owner: r.Owner, Name: r.Name,
			Branch: cmp.Or(s.places[r.ID].DefaultBranch, "main"), Unhealthy: s.unhealthy[r.ID],
		}
		if s.rights[r.ID] >= account.AdminRight {
			bare.Create = RepoURL("", r) + "/create"
		}
		v.Bare = append(v.Bare, bare)
	}
	return v
}

func lineOf(q *queue.Queue, n map[queue.EntryState]int64) queueLine {
	return queueLine{
		Branch: q.Branch, URL: QueueURL("", q.Repo, q.Branch), State: look(queueBadges, q.State), Why: q.StateWhy,
		Mode: q.ReportedMode(), Slots: q.Concurrency, NotReady: n[queue.NotReady], Pending: n[queue.Pending],
		Testing: n[queue.Testing], Passed: n[queue.TestsPassed], Failing: n[queue.PendingFailure],
	}
}

// overview shows all queues, and the repositories that have none yet.
func (h *Handler) overview(r *http.Request) (frame, error) {
	queues, err := h.store.Queues(r.Context())
	if err != nil {
		return frame{}, fmt.Errorf("list queues: %w", err)
	}
	turns := map[queue.ID]int64{}
	for _, q := range queues {
		turns[q.ID] = q.Turn
	}
	f := frame{Stream: "/live", Seen: turnOf(turns, 0)}
	search := strings.TrimSpace(r.URL.Query().Get("repo"))
	if !storable(search) {
		search = ""
	}
	bare, err := h.store.WithoutQueue(r.Context(), search, bareShown+1)
	if err != nil {
		return f, fmt.Errorf("list repositories without a queue: %w", err)
	}
	more := len(bare) > bareShown
	s, err := h.see(r.Context(), queues, bare[:min(len(bare), bareShown)])
	if err != nil {
		return f, err
	}
	s.more = more
	v := viewOverview(s, h.clock())
	v.Search, v.Told, v.CSRF = search, told(r), visitorOf(r.Context()).csrf
	f.View = v
	return f, nil
}

// bareShown is how many repositories without a queue are shown at most: what
// somebody may do on each of them is asked of the host.
const bareShown = 30

// repository leads from a repository to its only queue, lists several, and says
// what to do where there is none.
func (h *Handler) repository(r *http.Request) (frame, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return frame{}, err
	}
	all, err := h.store.Queues(r.Context())
	if err != nil {
		return frame{}, fmt.Errorf("list queues: %w", err)
	}
	queues := slices.DeleteFunc(slices.Clone(all), func(q queue.Queue) bool { return q.Repo.ID != repo.ID })
	var bare []queue.Repo
	switch len(queues) {
	case 0:
		bare = append(bare, repo)
	case 1:
		return frame{}, moved(QueueURL("", queues[0].Repo, queues[0].Branch))
	}
	s, err := h.see(r.Context(), queues, bare)
	if err != nil {
		return frame{}, err
	}
	v := viewOverview(s, h.clock())
	v.Title, v.Only, v.CSRF = "Queues of "+repo.Owner+"/"+repo.Name, repo.String(), visitorOf(r.Context()).csrf
	return frame{View: v, Tabs: repoTabs(repo, RepoURL("", repo)), Stream: "/live"}, nil
}

// see reads what the visitor may see of queues and of repositories without any.
func (h *Handler) see(ctx context.Context, queues []queue.Queue, bare []queue.Repo) (s seen, err error) {
	repos := slices.Clone(bare)
	for _, q := range queues {
		repos = append(repos, q.Repo)
	}
	if s.rights, err = h.rightsOn(ctx, repos); err != nil {
		return s, err
	}
	s.queues = slices.DeleteFunc(slices.Clone(queues), func(q queue.Queue) bool { return s.rights[q.Repo.ID] < account.ReadRight })
	s.bare = slices.DeleteFunc(bare, func(r queue.Repo) bool { return s.rights[r.ID] < account.ReadRight })
	ids := make([]queue.RepoID, len(repos))
	for i, r := range repos {
		ids[i] = r.ID
	}
	if s.places, err = h.store.Places(ctx, ids); err != nil {
		return s, fmt.Errorf("find out to whom repositories belong: %w", err)
	}
	if s.counts, err = h.store.Counts(ctx); err != nil {
		return s, fmt.Errorf("count entries: %w", err)
	}
	if s.unhealthy, err = h.store.CountUnhealthyTests(ctx); err != nil {
		return s, fmt.Errorf("count unhealthy tests: %w", err)
	}
	return s, nil
}

// rightsOn is what the visitor may do on repositories.
func (h *Handler) rightsOn(ctx context.Context, repos []queue.Repo) (map[queue.RepoID]account.Right, error) {
	answers := make([]account.Right, len(repos))
	asked := map[queue.RepoID]int{}
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for i, repo := range repos {
		if _, before := asked[repo.ID]; before {
			continue
		}
		asked[repo.ID] = i
		group.Go(func() (err error) {
			answers[i], err = h.right(asking, repo, false)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	rights := make(map[queue.RepoID]account.Right, len(asked))
	for id, i := range asked {
		rights[id] = answers[i]
	}
	return rights, nil
}

// repoNamed finds the repository that a request is about, for those who may
// read it.
func (h *Handler) repoNamed(r *http.Request) (queue.Repo, error) {
	gone := absent("There is no such repository, or the App is not installed on it.")
	p := httprouter.ParamsFromContext(r.Context())
	host, owner, name := p.ByName("host"), p.ByName("owner"), p.ByName("name")
	if !storable(host) || !storable(owner) || !storable(name) {
		return queue.Repo{}, gone
	}
	repo, err := h.store.RepositoryNamed(r.Context(), host, owner, name)
	if errors.Is(err, queue.ErrNotFound) {
		return repo, gone
	}
	if err != nil {
		return repo, fmt.Errorf("find repository: %w", err)
	}
	right, err := h.right(r.Context(), repo, false)
	if err == nil && right < account.ReadRight {
		return queue.Repo{}, gone // for this reader
	}
	return repo, err
}

// createQueue makes a queue with the settings that a new one has.
func (h *Handler) createQueue(r *http.Request) (string, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return "", err
	}
	page := RepoURL("", repo)
	if err := h.need(r.Context(), repo, account.AdminRight); err != nil {
		return "", returning(err, page)
	}
	branch := strings.TrimSpace(r.PostForm.Get("branch"))
	if !storable(branch) || len(branch) > 255 {
		return "", refusal{http.StatusBadRequest, "Name the branch that pull requests are to be merged into, such as main.", page}
	}
	places, err := h.store.Places(r.Context(), []queue.RepoID{repo.ID})
	if err != nil {
		return "", fmt.Errorf("find out to whom a repository belongs: %w", err)
	}
	org, _, err := h.store.Organization(r.Context(), places[repo.ID].Org)
	if err != nil {
		return "", fmt.Errorf("find the organisation of a repository: %w", err)
	}
	q, err := h.store.CreateQueue(authored(r.Context()), org.ID, repo.Host, repo.Owner, repo.Name, branch, queue.NewSettings(queue.Change{}), h.clock())
	switch {
	case errors.Is(err, queue.ErrExists):
		return "", refusal{http.StatusConflict, "There is a queue for that branch already.", page}
	case err != nil:
		return "", fmt.Errorf("create queue: %w", err)
	}
	return QueueURL("", q.Repo, q.Branch) + "&done=created", nil
}

// problemView is the page for what cannot be shown.
type problemView struct {
	Title, Message string
	Back           string // where the reader came from; "" = all queues
}

func (problemView) template() string { return "problem" }

// Heading is the page's title.
func (v problemView) Heading() string { return v.Title }
