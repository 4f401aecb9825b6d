package github

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

func TestNewNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := New(Config{PrivateKey: []byte("not a key"), APIURL: "ftp://x"})
	for _, want := range []string{"App's id", "private key is no RSA key in PEM form", "data folder", `"ftp://x" must be http(s)`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	for api, want := range map[string][2]string{
		"":                             {"https://github.com", "github.com"},
		"https://ghe.example/api/v3/":  {"https://ghe.example", "ghe.example"},
		"http://127.0.0.1:1234":        {"http://127.0.0.1:1234", "127.0.0.1:1234"},
		"http://127.0.0.1:1234/api/v3": {"http://127.0.0.1:1234", "127.0.0.1:1234"},
	} {
		c, err := New(Config{AppID: 1, PrivateKey: testKey(), APIURL: api, DataDir: t.TempDir()})
		if err != nil || c.webURL != want[0] || c.Host() != want[1] {
			t.Errorf("%q: %v", api, err)
		}
	}
}

func TestFindsRepositoriesAndInstallations(t *testing.T) {
	w := newWorld(t)
	if w.repo.Owner != "acme" || w.repo.Name != "app" || w.repo.HostID == 0 || w.repo.Installation == 0 {
		t.Errorf("%+v", w.repo)
	}
	for _, name := range [][3]string{{w.c.Host(), "acme", "none"}, {w.c.Host(), "nobody", "app"}, {"github.com", "acme", "app"}, {w.c.Host(), "..", "app"}, {w.c.Host(), "a/b", "c?d"}} {
		if _, err := w.c.Find(w.ctx, name[0], name[1], name[2]); gitprovider.KindOf(err) != gitprovider.Gone {
			t.Errorf("%v: %v", name, err)
		}
	}
	w.must(w.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "big", Name: "one"}))
	w.must(w.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "big", Name: "two"}))
	all, err := w.c.Installations(w.ctx)
	w.must(err)
	n := map[string]int{}
	for _, c := range all {
		n[c.Installation.Account] = len(c.Added)
		if !c.Complete || c.Installation.Host != w.c.Host() {
			t.Errorf("%+v", c)
		}
	}
	if n["acme"] != 1 || n["big"] != 2 {
		t.Errorf("%v", n)
	}
}

// BC-74: a list is read to its last page, and a host whose pages go in circles
// is no reason to read for ever.
func TestListsAreReadToTheLastPage(t *testing.T) {
	t.Parallel()
	next := map[string]string{"1": "2", "2": "3", "3": ""}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/access_tokens") {
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"token":"ghs_x","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
			return
		}
		page := r.URL.Query().Get("page")
		if after := next[page]; after != "" {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?per_page=100&page=%s>; rel="next"`, server.URL, r.URL.Path, after))
		}
		fmt.Fprintf(w, `{"total_count":3,"repositories":[{"id":%s,"name":"r%s","owner":{"login":"big"}}]}`, page, page)
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{AppID: 1, PrivateKey: testKey(), APIURL: server.URL, DataDir: t.TempDir(), Limits: Unlimited})
	if err != nil {
		t.Fatal(err)
	}
	repos, err := c.repositories(t.Context(), c.installation(5))
	if err != nil || len(repos) != 3 || repos[2].Name != "r3" {
		t.Errorf("%+v %v", repos, err)
	}
	next["3"] = "1"
	if _, err := c.repositories(t.Context(), c.installation(6)); err == nil {
		t.Error("went in circles without an error")
	}
}

// BC-46: rights follow the user id, not the login.
func TestPermissionIsByUserID(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n") // alice gets write
	w.must(w.SetPermission("acme/app", "root", "admin"))
	w.must(w.SetPermission("acme/app", "reader", "read"))
	for _, c := range []struct {
		who  queue.Actor
		want gitprovider.Permission
	}{
		{a.Author, gitprovider.WritePermission},
		{queue.Actor{Login: "alice"}, gitprovider.WritePermission},
		{queue.Actor{Login: "alice", ID: a.Author.ID + 1}, gitprovider.NoPermission},
		{queue.Actor{Login: "root"}, gitprovider.AdminPermission},
		{queue.Actor{Login: "reader"}, gitprovider.ReadPermission},
		{queue.Actor{Login: "nobody-at-all"}, gitprovider.NoPermission},
		{queue.Actor{Login: "../../x"}, gitprovider.NoPermission},
		{queue.Actor{}, gitprovider.NoPermission},
	} {
		if got, err := w.c.Permission(w.ctx, w.repo, c.who); err != nil || got != c.want {
			t.Errorf("%+v: %v %v", c.who, got, err)
		}
	}
}

// BC-50, BC-74: the newest of each name, all pages, without our own.
func TestChecksAreTheNewestOfEachNameOnAllPages(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n")
	report := func(name, conclusion string, status bool) {
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: name, Conclusion: conclusion, Status: status}))
	}
	for i := range 101 {
		report(fmt.Sprint("run", i), "success", false)
		report(fmt.Sprint("status", i), "success", true)
	}
	report("ci", "success", true)
	report("ci", "failure", true)
	report("waiting", "pending", true)
	report("running", "pending", false)
	w.must(w.check(a.PR, gitprovider.Status{Commit: a.Head, Name: "Signalbox (main)", Status: "completed", Conclusion: "failure"}))
	reports, err := w.c.Checks(w.ctx, w.repo, a.Head)
	w.must(err)
	by := map[string]queue.Report{}
	for _, r := range reports {
		by[r.Name] = r
	}
	if len(reports) != 205 || len(by) != 205 || by["ci"].Result != "failure" || by["waiting"].Result != "" || by["running"].Result != "" || by["run100"].Result != "success" || by["status100"].Kind != queue.CommitStatus {
		t.Errorf("%d reports, ci %+v, waiting %+v, running %+v", len(reports), by["ci"], by["waiting"], by["running"])
	}
	if _, err := w.c.Checks(w.ctx, w.repo, strings.Repeat("a", 40)); err == nil {
		t.Error("no error for a commit that is not there")
	}
}

func TestMergeabilityIsComputedLateAndJudgedByUs(t *testing.T) {
	w := newWorld(t)
	ask := func(s queue.StepSpec, want queue.Mergeability) string {
		t.Helper()
		var m queue.MergeabilitySeen
		w.eventually("mergeability", func() bool {
			facts, err := w.c.Mergeability(w.ctx, w.repo, s.PR)
			w.must(err)
			seen, got := facts[0].(queue.PullRequestSeen), facts[1].(queue.MergeabilitySeen)
			if got.Head != seen.Head || got.PR != s.PR || !seen.Read {
				t.Fatalf("%+v %+v", seen, got)
			}
			m = got
			return got.Value != queue.MergeabilityInProgress
		})
		if m.Value != want {
			t.Errorf("%+v, want %s", m, want)
		}
		return m.Why
	}
	a := w.open("a.txt", "a\n") // blocked: its required check never ran on the head
	if why := ask(a, queue.Mergeable); why != "" {
		t.Errorf("why: %s", why)
	}
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "test", Conclusion: "failure"}))
	if why := ask(a, queue.NotMergeable); !strings.Contains(why, `"test" has failed on the pull request`) {
		t.Errorf("why: %s", why)
	}
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "test", Conclusion: "success"}))
	ask(a, queue.Mergeable)

	conflict := w.open("README.md", "other\n")
	_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("README.md", "moved\n"), Message: "m", Author: "bob"})
	w.must(err)
	if why := ask(conflict, queue.NotMergeable); !strings.Contains(why, "conflicts") {
		t.Errorf("why: %s", why)
	}
	// changes requested, and a rule that we do not know
	_, err = w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Rules: []githubsim.Rule{{Type: "update"},
		{Type: "pull_request", Parameters: map[string]any{"required_approving_review_count": 1}}}})
	w.must(err)
	b := w.open("b.txt", "b\n")
	w.must(w.SetPermission("acme/app", "carol", "write"))
	w.must(w.SetPermission("acme/app", "dave", "read"))
	w.must(w.Review("acme/app", int(b.PR), "dave", "approved", ""))
	w.must(w.Review("acme/app", int(b.PR), "carol", "changes_requested", "no"))
	if why := ask(b, queue.NotMergeable); why != "@carol requested changes; 0 of 1 required approvals." {
		t.Errorf("why: %s", why)
	}
	w.must(w.Review("acme/app", int(b.PR), "carol", "approved", ""))
	ask(b, queue.Mergeable)
	_, err = w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Rules: []githubsim.Rule{{Type: "code_scanning"}}})
	w.must(err)
	if why := ask(b, queue.NotMergeable); !strings.Contains(why, "annot be judged: the rule code_scanning") {
		t.Errorf("why: %s", why)
	}
}

func TestListsOfWhatIsOpenAndOfTestBranches(t *testing.T) {
	w := newWorld(t)
	for i := range 103 { // more than a page
		_, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "t", Author: "alice", Files: files(fmt.Sprintf("f%d", i), "x\n")})
		w.must(err)
	}
	w.must(w.ClosePull("acme/app", 7, "alice"))
	_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "release", Files: files("r", "r\n"), Message: "m", Author: "bob"})
	w.must(err)
	base := "release"
	w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: 8, Author: "alice", Base: &base}))
	list, err := w.c.OpenPullRequests(w.ctx, w.repo, "main")
	w.must(err)
	if len(list) != 101 {
		t.Errorf("%d pull requests", len(list))
	}
	for _, seen := range list {
		one, err := w.c.PullRequest(w.ctx, w.repo, seen.Number)
		w.must(err)
		one.Read = false // a list may be a little old
		if diff := cmp.Diff(one, seen); diff != "" {
			t.Fatalf("the list differs from the pull request (-one +list):\n%s", diff)
		}
		if seen.Number == 7 || seen.Number == 8 {
			t.Errorf("#%d is in the list", seen.Number)
		}
	}
	if heads, err := w.c.TestBranches(w.ctx, w.repo); err != nil || len(heads) != 0 {
		t.Errorf("%v %v", heads, err)
	}
	b := w.built(oneRun("r1", queue.Squash, 1, w.stepOf(1)))
	_, err = w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "signalboxes", Files: files("r", "r\n"), Message: "m", Author: "bob"})
	w.must(err)
	heads, err := w.c.TestBranches(w.ctx, w.repo)
	w.must(err)
	if diff := cmp.Diff(map[string]string{"signalbox/pr-1/r1": b.Chain[0].Commit}, heads); diff != "" {
		t.Errorf("test branches (-want +got):\n%s", diff)
	}
}

func TestARevokedTokenIsReplaced(t *testing.T) {
	w := newWorld(t)
	k, err := w.c.conn(w.repo)
	w.must(err)
	revoke := func() {
		_, err := k.call(w.ctx, http.MethodDelete, "installation/token", nil, nil)
		w.must(err)
	}
	revoke()
	_, _, err = w.c.Target(w.ctx, w.repo, "main")
	w.must(err)
	a := w.open("a.txt", "a\n")
	revoke()
	w.built(oneRun("r1", queue.Squash, 1, a)) // git, too
}

func TestLimitsAreWaitedFor(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	w.must(w.Fail(githubsim.Fault{Path: "/repos/acme/app/branches/*", Action: "limit", RetryAfter: 1}))
	_, _, err := w.c.Target(w.ctx, w.repo, "main")
	w.must(err)
	if took := time.Since(began); took < time.Second {
		t.Errorf("took %s", took)
	}
	// A context that ends before the host's time is up fails at once, without a kind.
	w.must(w.Fail(githubsim.Fault{Path: "/repos/acme/app/branches/*", Action: "limit", RetryAfter: 3600}))
	if _, _, err = w.c.Target(w.ctx, w.repo, "main"); gitprovider.KindOf(err) != gitprovider.Transient || err == nil {
		t.Errorf("%v", err)
	}
}

func TestWhatIsUnchangedIsAskedForOnlyByItsTag(t *testing.T) {
	w := newWorld(t)
	var statuses []int
	w.cfg.OnCall = func(_ string, status int) { statuses = append(statuses, status) }
	w.restart()
	for range 3 {
		_, _, err := w.c.Target(w.ctx, w.repo, "main")
		w.must(err)
	}
	if fmt.Sprint(statuses) != "[200 304 304]" {
		t.Errorf("%v", statuses)
	}
}

// BC-76: what is no answer is an error, not an empty one.
func TestAnswersThatAreNoneAreErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"html":   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502); w.Write([]byte("<html>Bad gateway")) },
		"empty":  func(w http.ResponseWriter, r *http.Request) {},
		"null":   func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("null")) },
		"object": func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{}`)) },
		"list":   func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`[]`)) },
		"half":   func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"number":1,`)) },
		"strange": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`{"number":"1","state":[],"total_count":"x"}`))
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/access_tokens") {
				w.WriteHeader(201)
				fmt.Fprintf(w, `{"token":"ghs_x","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
				return
			}
			answer(w, r)
		}))
		t.Cleanup(server.Close)
		c, err := New(Config{AppID: 1, PrivateKey: testKey(), APIURL: server.URL, DataDir: t.TempDir(), Limits: Unlimited})
		if err != nil {
			t.Fatal(err)
		}
		repo := queue.Repo{ID: 1, Host: c.Host(), Owner: "acme", Name: "app", HostID: 2, Installation: 3}
		ctx := t.Context()
		for what, call := range map[string]func() error{
			"pull":      func() error { _, err := c.PullRequest(ctx, repo, 1); return err },
			"target":    func() error { _, _, err := c.Target(ctx, repo, "main"); return err },
			"checks":    func() error { _, err := c.Checks(ctx, repo, strings.Repeat("a", 40)); return err },
			"mergeable": func() error { _, err := c.Mergeability(ctx, repo, 1); return err },
			"find":      func() error { _, err := c.Find(ctx, c.Host(), "acme", "app"); return err },
			"land": func() error {
				_, _, err := c.Land(ctx, repo, queue.Land{Branch: "main", Steps: make([]queue.StepSpec, 1)}, nil)
				return err
			},
			"comment": func() error {
				return c.Tell(ctx, repo, 1, gitprovider.Telling{Comment: &gitprovider.Sticky{Marker: "m", Body: "b"}}).Comment
			},
			"permission": func() error { p, err := c.Permission(ctx, repo, queue.Actor{Login: "x"}); return orNone(p, err) },
		} {
			if err := call(); err == nil || gitprovider.KindOf(err) != gitprovider.Transient {
				t.Errorf("%s after %s: %v", what, name, err)
			}
		}
	}
}

// orNone turns "no permission" into an error: that is the safe answer, too.
func orNone(p gitprovider.Permission, err error) error {
	if err == nil && p == gitprovider.NoPermission {
		return errors.New("none")
	}
	return err
}

func TestEndpointsAreFromABoundedSet(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"repos/acme/app/pulls/7":                          "GET /repos/:/:/pulls/:",
		"repos/acme/app/pulls/7/merge":                    "GET /repos/:/:/pulls/:/merge",
		"repos/pulls/merge/branches/feature/protection/x": "GET /repos/:/:/branches/:/:/:",
		"repos/a/b/branches/release/protection":           "GET /repos/:/:/branches/:/protection",
		"repos/a/b/rules/branches/main":                   "GET /repos/:/:/rules/branches/:",
		"repos/a/b/git/refs/heads/signalbox/pr-1/x":       "GET /repos/:/:/git/refs/:",
		"repos/a/b/commits/main/check-runs":               "GET /repos/:/:/commits/:/check-runs",
		"repos/a/b/collaborators/alice/permission":        "GET /repos/:/:/collaborators/:/permission",
		"repos/a/b/issues/comments/5/reactions":           "GET /repos/:/:/issues/comments/:/reactions",
		"app/installations":                               "GET /app/installations",
		"repos/a/b/issues/5/comments":                     "GET /repos/:/:/issues/:/comments",
	} {
		if got := endpointOf("GET", path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestAMissingPermissionIsNamed(t *testing.T) {
	w := newWorld(t)
	s, err := githubsim.Start(w.ctx, githubsim.Config{DataDir: t.TempDir(), AppKeyPEM: testKey(), AppID: 4711,
		Permissions: map[string]string{"metadata": "read", "pull_requests": "read", "contents": "read"}}, "127.0.0.1:0")
	w.must(err)
	t.Cleanup(s.Close)
	w.must(s.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "acme", Name: "app"}))
	w.cfg.APIURL = s.URL()
	w.restart()
	repo, err := w.c.Find(w.ctx, w.c.Host(), "acme", "app")
	w.must(err)
	p, err := s.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "x", Author: "alice", Files: files("a", "b")})
	w.must(err)
	err = w.c.Notice(w.ctx, repo, int64(p.Number), "m", "b")
	if gitprovider.KindOf(err) != gitprovider.Denied || !strings.Contains(err.Error(), "issues: read") {
		t.Errorf("%v", err)
	}
}
