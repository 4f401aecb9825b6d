package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/api"
	"signalbox/db"
	"signalbox/gitprovider/githubsim"
	"signalbox/web/browsertest"
)

// The pages in a real browser, of the real service on a simulated GitHub.
//
//	go test ./cmd/signalbox -run Browser -screenshots=/tmp/pictures
//
// writes what every page looks like.
var screenshots = flag.String("screenshots", "", "folder to write pictures of the pages to")

// scene is a queue in the middle of its work: pull requests of every state, a
// batch that failed and is searched for its culprit, and a week behind it.
//
//	main ◄─ #5 #6 ◄─ #7 #8 ◄─ #9 #10      #3 ◄─ #4 beside it
type scene struct {
	t      *testing.T
	ctx    context.Context
	stage  *stage
	client *api.Queue
}

var sceneTitles = []string{
	"Cache the parsed templates", "Close idle connections", "Explain the error to the person who sees it", "Retry what may work later",
	"Read the file once", "Drop the old flag", "Sort before comparing", "Count in bytes, not in letters", "Name the timeout", "Test the empty case",
	"Fix the login that fails on Sundays", "Half a bridge", "Say which file is meant", "Log the address of the peer", "Wait for the lock", "Remove dead code",
}

func newScene(t *testing.T, o stageOptions) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	o.listen, o.log = "127.0.0.1:0", discard
	s, err := setStage(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.clear(); err != nil {
			t.Error(err)
		}
	})
	sc := &scene{t: t, ctx: ctx, stage: s, client: newClient(s.where, s.where.AdminToken, demoRepo)}
	// Its CI never runs by itself: what checks say is said here.
	sc.must(s.sim.CreateRepo(ctx, githubsim.NewRepo{
		Owner: demoOrg, Name: demoRepo, Creator: "alice", Checks: demoChecks, RequiredChecks: demoChecks, CI: githubsim.CI{Branches: []string{"never"}},
	}))
	sc.must(persist(ctx, func() error {
		return sc.client.Call(ctx, "createQueue", map[string]any{
			"mergeMethod": "merge_commit", "concurrency": 3, "bisectionConcurrency": 2, "batch": true, "batchingMinSize": 2, "batchingMaxWaitTimeMinutes": 60,
			"createPrsForTestingBranches": false, // they would take numbers
		}, nil)
	}))
	return sc
}

func (sc *scene) must(err error) {
	sc.t.Helper()
	if err != nil {
		sc.t.Fatal(err)
	}
}

// play brings the scene about.
func (sc *scene) play() {
	sc.set("paused")
	for n := 1; n <= 10; n++ {
		sc.open(n, false)
	}
	sc.await(10, func(e api.PullRequest) bool { return e.Readiness.Mergeability == "mergeable" })
	sc.set("running")
	sc.checks(sc.tested(1, 2), "success", "success")
	sc.await(2, func(e api.PullRequest) bool { return e.State == "merged" })
	sc.tests(sc.tested(3, 4))
	sc.checks(sc.tested(3, 4), "failure", "success")
	sc.checks(sc.tested(3), "success", "success")
	sc.checks(sc.tested(4), "pending", "success")
	sc.checks(sc.tested(5, 6), "success", "pending")
	sc.checks(sc.tested(7, 8), "pending", "pending")
	sc.tested(9, 10)
	sc.open(11, false, "--priority=high")
	sc.open(12, true)
	for n := 13; n <= len(sceneTitles); n++ {
		sc.open(n, false)
	}
	_, err := sc.stage.sim.Comment(sc.repo(), 16, "bob", "/cancel")
	sc.must(err)
	sc.reaches(16, func(e api.PullRequest) bool { return e.State == "cancelled" })
	sc.reaches(11, func(e api.PullRequest) bool { return e.State == "pending" })
	sc.past()
}

// tests gives the repository two weeks of test reports: a test is flaky, one has
// recovered, one is broken, a report is cut off, and one is of a commit that a
// group of the queue is tested with.
func (sc *scene) tests(commit string) {
	sc.t.Helper()
	d := newDemoTests(sc.stage, sc.client)
	now := time.Now()
	sc.must(d.history(sc.ctx, now))
	sc.must(d.send(sc.ctx, demoRun{at: now, failed: []string{flakyTest, "adds up"}, retried: []string{repairedTest}, commit: commit, check: demoChecks[0]}).trouble)
	sc.must(d.send(sc.ctx, demoRun{at: now, cut: true}).trouble)
	for range 3 {
		sc.must(d.send(sc.ctx, demoRun{at: now, failed: []string{"greets people"}}).trouble)
	}
}

// test is the address of the page of a test.
func (sc *scene) test(name string) string {
	sc.t.Helper()
	s, err := newDemoTests(sc.stage, sc.client).state(sc.ctx, name)
	sc.must(err)
	return strings.TrimPrefix(s.Test.HTMLURL, strings.TrimSuffix(sc.stage.where.Dashboard, "/"))
}

// tools makes a repository without a queue, and waits until the server has heard
// of it: its first page is not followed by itself.
func (sc *scene) tools() {
	sc.t.Helper()
	sc.must(sc.stage.sim.CreateRepo(sc.ctx, githubsim.NewRepo{Owner: demoOrg, Name: "tools", Creator: "alice"}))
	sc.must(persist(sc.ctx, func() error {
		page, err := http.Get(sc.stage.where.Dashboard)
		if err != nil {
			return err
		}
		defer page.Body.Close()
		text, err := io.ReadAll(page.Body)
		if err == nil && !strings.Contains(string(text), demoOrg+"/tools") {
			err = errNotYet
		}
		return err
	}))
}

func (sc *scene) repo() string { return demoOrg + "/" + demoRepo }

func (sc *scene) set(state string) {
	sc.t.Helper()
	sc.must(persist(sc.ctx, func() error { return sc.client.Call(sc.ctx, "updateQueue", map[string]any{"state": state}, nil) }))
}

// open opens and submits a pull request.
func (sc *scene) open(number int, draft bool, flags ...string) {
	sc.t.Helper()
	author := people[number%5]
	opened, err := sc.stage.sim.OpenPull(sc.ctx, githubsim.OpenPull{
		Repo: sc.repo(), Title: sceneTitles[number-1], Author: author, Draft: draft, Files: filesOf(map[string]string{fmt.Sprintf("work/%d", number): author}),
	})
	sc.must(err)
	if opened.Number != number {
		sc.t.Fatalf("#%d was opened as #%d", number, opened.Number)
	}
	_, err = sc.stage.sim.Comment(sc.repo(), number, author, strings.Join(append([]string{"/merge"}, flags...), " "))
	sc.must(err)
	sc.reaches(number, func(api.PullRequest) bool { return true })
}

// reaches waits until something holds of a pull request.
func (sc *scene) reaches(number int, holds func(api.PullRequest) bool) {
	sc.t.Helper()
	sc.must(persist(sc.ctx, func() error {
		e, err := sc.client.Pull(sc.ctx, "getSubmittedPullRequest", number)
		if err == nil && !holds(e) {
			err = errNotYet
		}
		return err
	}))
}

// await waits until something holds of the first pull requests.
func (sc *scene) await(last int, holds func(api.PullRequest) bool) {
	sc.t.Helper()
	for n := 1; n <= last; n++ {
		sc.reaches(n, holds)
	}
}

// tested waits until some pull requests are a group that is tested, and returns
// the commit that CI is to test.
func (sc *scene) tested(numbers ...int64) (commit string) {
	sc.t.Helper()
	sc.must(persist(sc.ctx, func() error {
		var graph struct {
			Groups []struct {
				PRNumbers []int64
				TestRunID string
			}
			Runs []struct{ ID, TestBranchSha, Status string }
		}
		if err := sc.client.Call(sc.ctx, "getQueueGraph", nil, &graph); err != nil {
			return err
		}
		for _, g := range graph.Groups {
			for _, r := range graph.Runs {
				if slices.Equal(g.PRNumbers, numbers) && r.ID == g.TestRunID && r.TestBranchSha != "" && r.Status == "in_progress" {
					commit = r.TestBranchSha
					return nil
				}
			}
		}
		return errNotYet
	}))
	return commit
}

// checks reports what CI says of a commit: of build, then of test.
func (sc *scene) checks(commit string, conclusions ...string) {
	sc.t.Helper()
	for i, c := range conclusions {
		sc.must(sc.stage.sim.Report(sc.ctx, githubsim.Report{Repo: sc.repo(), SHA: commit, Name: demoChecks[i], Conclusion: c}))
	}
}

// past gives the queue a week of history, for its charts.
func (sc *scene) past() {
	sc.t.Helper()
	store, err := db.Open(sc.ctx, db.Config{DSN: sc.stage.where.Database, MaxOpen: 2})
	sc.must(err)
	_, err = store.SQL().ExecContext(sc.ctx, `
		INSERT INTO timeline (queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message, actor_login, actor_id, actor_bot, run_id)
		SELECT q.id, gen_random_uuid(), 1000 + n, 1, m.from_state, CASE WHEN m.to_state = 'merged' AND n % 9 = 0 THEN 'failed' ELSE m.to_state END,
			date_trunc('hour', now()) - n * interval '37 minutes' - m.before * (0.6 + (n * 7 % 13) / 10.0) * interval '1 second', 'TEST', '', '', 0, false, ''
		FROM queues q, generate_series(1, 260) n CROSS JOIN (VALUES
			('', 'not_ready', 1500), ('not_ready', 'pending', 1400), ('pending', 'testing', 1000),
			('testing', 'tests_passed', 60), ('tests_passed', 'merged', 0)) m (from_state, to_state, before)
		ORDER BY 7`)
	sc.must(err)
	sc.must(store.Close())
}

// visit opens an address of the dashboard.
func (sc *scene) visit(tab *browsertest.Tab, path string) {
	tab.Visit(strings.TrimSuffix(sc.stage.where.Dashboard, "/") + path)
}

// page is the address of a page of the queue.
func (sc *scene) page(rest string) string {
	return "/q/" + demoHost + "/" + demoOrg + "/" + demoRepo + rest + "?branch=main"
}

// runOf is the address of the page of the run that tests a pull request, and
// firstRunOf that of the first one that did.
func (sc *scene) runOf(number int) string {
	runs := sc.runsOf(number)
	return runs[len(runs)-1]
}

func (sc *scene) firstRunOf(number int) string { return sc.runsOf(number)[0] }

func (sc *scene) runsOf(number int) (runs []string) {
	sc.t.Helper()
	var details struct{ Timeline []struct{ TestRunID *string } }
	sc.must(sc.client.Call(sc.ctx, "explainPullRequest", map[string]any{"pr": map[string]int{"number": number}}, &details))
	for _, m := range details.Timeline {
		if m.TestRunID != nil {
			runs = append(runs, sc.page("/run/"+url.PathEscape(*m.TestRunID)))
		}
	}
	if len(runs) == 0 {
		sc.t.Fatalf("#%d was never tested", number)
	}
	return runs
}

func TestPagesInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser and a whole service")
	}
	t.Parallel()
	b := browsertest.Open(t)
	sc := newScene(t, stageOptions{})
	sc.tools()
	sc.play()
	tests, uploads := "/q/"+demoHost+"/"+sc.repo()+"/tests", "/q/"+demoHost+"/"+sc.repo()+"/uploads"
	pages := map[string]string{
		"overview": "/", "queue": sc.page(""), "pr-testing": sc.page("/pr/4"), "pr-merged": sc.page("/pr/1"), "pr-not-ready": sc.page("/pr/12"),
		"run": sc.runOf(5), "health": sc.page("/health"), "settings": sc.page("/settings"), "tokens": "/orgs/acme/tokens", "audit": "/orgs/acme/audit",
		"endings": sc.page("/endings") + fmt.Sprintf("&from=%d&until=%d", time.Now().Add(-24*time.Hour).Unix(), time.Now().Add(time.Hour).Unix()),
		"missing": sc.page("/pr/99"), "run-failed": sc.firstRunOf(4), "without-queue": "/q/" + demoHost + "/" + demoOrg + "/tools",
		"tests": tests, "tests-all": tests + "?show=all", "tests-none": "/q/" + demoHost + "/" + demoOrg + "/tools/tests",
		"test-flaky": sc.test(flakyTest), "test-broken": sc.test("greets people"), "test-new": sc.test("adds up"),
		"uploads": uploads, "upload": fmt.Sprint(uploads, "/", demoDays+1), "upload-cut": fmt.Sprint(uploads, "/", demoDays+2),
	}
	for name, look := range map[string]browsertest.Look{
		"light": {Width: 1280, Height: 900}, "dark": {Width: 1280, Height: 900, Dark: true},
		"phone": {Width: 390, Height: 844}, "phone-dark": {Width: 390, Height: 844, Dark: true},
	} {
		tab := b.Tab(t, look)
		for page, path := range pages {
			sc.visit(tab, path)
			if *screenshots != "" {
				sc.must(os.WriteFile(filepath.Join(*screenshots, page+"-"+name+".png"), tab.Picture(), 0o644))
			}
			if faults := tab.Faults(); len(faults) > 0 {
				t.Errorf("%s, %s:\n%s", page, name, strings.Join(faults, "\n"))
			}
			problems := slices.DeleteFunc(tab.Problems(), func(p string) bool { return page == "missing" && strings.Contains(p, "404") })
			if len(problems) > 0 {
				t.Errorf("%s, %s: the page complains:\n%s", page, name, strings.Join(problems, "\n"))
			}
		}
	}
}

// An open page shows what happens without being loaded again, what the reader
// does is done, and a reader without a script sees the same.
func TestAPageIsFollowedAndUsedInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser and a whole service")
	}
	t.Parallel()
	b := browsertest.Open(t)
	sc := newScene(t, stageOptions{})
	sc.open(1, false)
	sc.reaches(1, func(e api.PullRequest) bool { return e.State == "pending" }) // it is the first of its batch
	sc.open(2, false)
	commit := sc.tested(1, 2)
	tab := b.Tab(t, browsertest.Look{Width: 1280, Height: 900})
	sc.visit(tab, sc.page(""))
	tab.Sees("live")
	tab.Sees("0/2 checks")
	began := time.Now()
	sc.checks(commit, "success")
	tab.Sees("1/2 checks")
	t.Logf("a check was reported, and the page showed it after %s", time.Since(began).Round(time.Millisecond))
	sc.checks(commit, "success", "success")
	tab.Sees("Nothing is being tested.")
	tab.Sees("Landed on main")

	sc.open(3, false)
	sc.visit(tab, sc.page("/pr/3"))
	tab.Click("button.danger") // and agrees to the question
	tab.Sees("It was taken out of the queue.")
	tab.Sees("Submit again")
	sc.reaches(3, func(e api.PullRequest) bool { return e.State == "cancelled" })
	tab.Click("button.main")
	tab.Sees("It is queued.")
	sc.must(newDemoTests(sc.stage, sc.client).send(sc.ctx, demoRun{at: time.Now(), failed: []string{"adds up"}}).trouble)
	sc.visit(tab, "/q/"+demoHost+"/"+sc.repo()+"/tests?show=all&text=adds")
	tab.Click("tbody a")
	tab.Sees("Its failures block")
	tab.Click("input[value=ALWAYS_QUARANTINE]")
	tab.Fill("#owner", "@alice")
	tab.Fill("#reason", "the clock of the machine jumps")
	tab.Click("form.card button")
	tab.Sees("Your decision counts from now on.")
	tab.Sees("Repaired by @alice. Reason: the clock of the machine jumps")
	sc.tools()
	sc.visit(tab, "/")
	tab.Sees("acme/tools")
	tab.Click("form.inline button")
	tab.Sees("The queue is made.")
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("pages complain: %q", problems)
	}

	plain := b.Tab(t, browsertest.Look{Width: 1280, Height: 900, NoScript: true})
	sc.visit(plain, sc.page(""))
	if text := plain.Text(); !strings.Contains(text, "Cache the parsed templates") || !strings.Contains(text, "Reload for newer.") {
		t.Errorf("without a script the page says:\n%s", text)
	}
}

// People sign in as GitHub lets them, and land on the page that they wanted.
func TestPeopleSignInInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser and a whole service")
	}
	t.Parallel()
	b := browsertest.Open(t)
	sc := newScene(t, stageOptions{signIn: true})
	sc.open(1, false)
	sc.must(sc.stage.sim.SetPermission(sc.repo(), "alice", "admin"))
	sc.stage.sim.UserToken("stranger") // so that there is one
	tab := b.Tab(t, browsertest.Look{Width: 1280, Height: 900})
	sc.visit(tab, sc.page("/pr/1"))
	tab.Sees("Sign in with GitHub")
	if faults := tab.Faults(); len(faults) > 0 {
		t.Errorf("the sign-in page:\n%s", strings.Join(faults, "\n"))
	}
	tab.Click("a.main")
	tab.Sees("Whom do you want to sign in as?")
	tab.Click("button[value=alice]")
	tab.Sees("Cache the parsed templates")
	tab.Sees("@alice")
	if address := tab.Address(); !strings.HasSuffix(address, sc.page("/pr/1")) {
		t.Errorf("led to %s", address)
	}
	other := b.Tab(t, browsertest.Look{Width: 390, Height: 844})
	sc.visit(other, sc.page("/pr/1"))
	other.Click("a.main")
	other.Sees("Whom do you want to sign in as?")
	other.Click("button[value=stranger]")
	other.Sees("There is no such queue.")
	tab.Click("form[action='/auth/sign-out'] button")
	tab.Sees("Sign in with GitHub")
}
