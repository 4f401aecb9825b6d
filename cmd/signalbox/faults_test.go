package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// The fault table: each thing that we do on the host fails, fails though it
// was done, hangs, or meets a limit, and then the server crashes or does not.
// The play always is the same, one pull request that lands and one that fails,
// and so must be what everybody sees at its end.

// doings are what we do on the host.
var doings = []struct {
	name         string
	method, path string
	at           string // when in the play: at its start, at the end of the tests, or at their failure
	host         bool   // land through the host
	short        bool   // make test has it; make faults has all
}{
	{name: "push test branches", method: "POST", path: "/acme/app.git/git-receive-pack", short: true},
	{name: "fetch", method: "POST", path: "/acme/app.git/git-upload-pack"},
	{name: "land exactly", method: "POST", path: "/acme/app.git/git-receive-pack", at: "end", short: true},
	{name: "land through the host", method: "PUT", path: "/repos/acme/app/pulls/*/merge", at: "end", host: true, short: true},
	{name: "open a draft", method: "POST", path: "/repos/acme/app/pulls"},
	{name: "close a draft", method: "PATCH", path: "/repos/acme/app/pulls/", at: "end"},
	{name: "delete a branch", method: "DELETE", path: "/repos/acme/app/git/refs/", at: "end"},
	{name: "comment", method: "POST", path: "/graphql*addComment(*"},
	{name: "edit a comment", method: "POST", path: "/graphql*updateIssueComment(*"},
	{name: "tell of a failure", method: "POST", path: "/repos/acme/app/issues/*/comments", at: "failure"},
	{name: "make a check", method: "POST", path: "/graphql*createCheckRun(*"},
	{name: "change a check", method: "POST", path: "/graphql*updateCheckRun(*"},
	{name: "label", method: "POST", path: "/repos/acme/app/issues/*/labels"},
	{name: "take a label", method: "DELETE", path: "/repos/acme/app/issues/*/labels/*"},
	{name: "react", method: "POST", path: "/repos/acme/app/issues/comments/*/reactions"},
	{name: "read a pull request", method: "POST", path: "/graphql*pullRequest(*"},
	{name: "get a token", method: "POST", path: "/app/installations/*/access_tokens"},
}

// hostFaults are what can become of it.
var hostFaults = []struct {
	name  string
	fault githubsim.Fault
}{
	{"fails", githubsim.Fault{Action: "fail", Status: 502, Times: 2}},
	{"fails, but happened", githubsim.Fault{Action: "failAfter", Status: 502}},
	{"breaks off, but happened", githubsim.Fault{Action: "dropAfter"}},
	{"is slow", githubsim.Fault{Action: "slow", DelayMs: 1500}},
	{"is limited for an hour", githubsim.Fault{Action: "limit", RetryAfter: 3600}},
}

func TestFaultsOnTheWholeService(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	want := map[bool]string{}
	for _, host := range []bool{false, true} {
		end, err := playWithFault(t, host, nil)
		if err != nil {
			t.Fatalf("without faults: %v", err)
		}
		want[host] = end
		t.Logf("without faults, through the host %v, everybody sees:\n%s", host, end)
	}
	for _, d := range doings {
		for _, f := range hostFaults {
			for _, crash := range []bool{false, true} {
				if !*allStories && !(d.short && strings.HasPrefix(f.name, "fails,") && crash) {
					continue
				}
				name := d.name + " " + f.name
				if crash {
					name += ", then we crash"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					fault := f.fault
					fault.Method, fault.Path = d.method, d.path
					got, err := playWithFault(t, d.host, &planned{fault, d.at, crash})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want[d.host], got); diff != "" {
						t.Errorf("it ends differently (-without fault +with):\n%s", diff)
					}
				})
			}
		}
	}
}

// planned is the fault of one play.
type planned struct {
	fault githubsim.Fault
	at    string
	crash bool
}

// playWithFault plays once and tells how it ended.
func playWithFault(t *testing.T, throughHost bool, p *planned) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.RequiredStatuses, settings.CreatePRsForTestingBranches = []string{"ci"}, true
	settings.StateLabelsEnabled = true
	settings.Concurrency, settings.MergeMethod, settings.ChosenLandingMode = 2, queue.MergeCommit, queue.LandExact
	if throughHost {
		settings.ChosenLandingMode = queue.LandHost
	}
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		return "", err
	}
	w.troubled = true
	f := &faultyPlay{town: w, planned: p}
	steps := []func() error{
		func() error { return w.Open(1, "alice", map[string]string{"a.txt": "1"}) },
		func() error { return w.Open(2, "bob", map[string]string{"b.txt": "1"}) },
		func() error { return f.plan("") },
		func() error { return f.merge(1) },
		func() error { return f.until("the first is tested", "testing", 1) },
		func() error { return f.plan("end") },
		func() error { return f.report(1, "success") },
		func() error { return f.until("the first has landed", "merged", 1) },
		func() error { return f.merge(2) },
		func() error { return f.until("the second is tested", "testing", 2) },
		func() error { return f.plan("failure") },
		func() error { return f.report(2, "failure") },
		func() error { return f.until("the second has failed", "failed", 2) },
		func() error { return f.rest() },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return "", err
		}
	}
	return w.whatPeopleSee()
}

// faultyPlay is a play in which one thing goes wrong.
type faultyPlay struct {
	*town
	planned *planned
	met     bool                // the fault has happened
	verdict map[int64][2]string // what CI says of a pull request, and of which commit it has
}

// plan plans the fault if this is its time.
func (f *faultyPlay) plan(at string) error {
	if f.planned == nil || f.planned.at != at {
		return nil
	}
	return f.sim.Fail(f.planned.fault)
}

// pass lets time pass, and crashes once when the fault has happened.
func (f *faultyPlay) pass(d time.Duration) error {
	if err := f.Pass(d); err != nil {
		return err
	}
	if err := f.reportWhatIsNew(); err != nil {
		return err
	}
	if f.planned == nil || f.met || f.sim.FaultsLeft() > 0 {
		return nil
	}
	f.met = true
	if !f.planned.crash {
		return nil
	}
	return f.crash()
}

// merge has alice comment /merge, and waits until the queue has heard it.
func (f *faultyPlay) merge(number int64) error {
	if _, err := f.sim.Comment(f.name, int(number), "alice", "/merge"); err != nil {
		return err
	}
	return f.wait("the queue has heard of the pull request", func() (bool, error) {
		n, err := f.submissions(number)
		return n > 0, err
	})
}

// until waits until pull requests are in a state.
func (f *faultyPlay) until(what, state string, numbers ...int64) error {
	return f.wait(what, func() (bool, error) {
		for _, number := range numbers {
			var is string
			err := f.service.db.SQL().QueryRowContext(f.ctx, `SELECT state FROM entries WHERE queue_id = $1 AND pr = $2`, int64(f.queue.ID), number).Scan(&is)
			if err != nil || is != state {
				return false, err
			}
			if _, _, err := f.testedRun(number); err != nil {
				return false, nil //nolint:nilerr // it is not built yet
			}
		}
		return true, nil
	})
}

// wait lets time pass until something is so, for three hours at most.
func (f *faultyPlay) wait(what string, so func() (bool, error)) error {
	for begin := f.clock.Now(); ; {
		if err := f.pass(5 * time.Second); err != nil {
			return err
		}
		if ok, err := so(); ok || err != nil {
			return err
		}
		if f.clock.Now().Sub(begin) > 3*time.Hour {
			return fmt.Errorf("three hours passed, and it is not so that %s", what)
		}
		if f.clock.Now().Sub(begin) > time.Minute {
			f.clock.advance(5 * time.Minute)
		}
	}
}

// report has CI report on whatever tests a pull request, from now on: a run may
// be made again.
func (f *faultyPlay) report(number int64, conclusion string) error {
	if f.verdict == nil {
		f.verdict = map[int64][2]string{}
	}
	f.verdict[number] = [2]string{conclusion, ""}
	return f.pass(0)
}

func (f *faultyPlay) reportWhatIsNew() error {
	for number, v := range f.verdict {
		var state string
		if err := f.service.db.SQL().QueryRowContext(f.ctx, `SELECT state FROM entries WHERE queue_id = $1 AND pr = $2`, int64(f.queue.ID), number).Scan(&state); err != nil {
			return err
		}
		commit, err := f.testedCommit(number)
		if err != nil || commit == v[1] || state != "testing" {
			continue
		}
		f.verdict[number] = [2]string{v[0], commit}
		if err := f.CI(number, "ci", v[0]); err != nil {
			return err
		}
	}
	return f.Pass(0)
}

// rest waits until all that is to be told has been told.
func (f *faultyPlay) rest() error {
	if err := f.pass(time.Minute); err != nil {
		return err
	}
	return f.wait("no job is left", func() (bool, error) {
		var left int
		err := f.service.db.SQL().QueryRowContext(f.ctx, `
			SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'pending', 'scheduled', 'retryable')`).Scan(&left)
		return left == 0 && (f.planned == nil || f.met), err
	})
}

var inconstant = []struct{ pattern, instead string }{
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "ID"},
	{`\b[0-9a-f]{40}\b`, "COMMIT"},
	{`\b[0-9a-f]{7}\b`, "COMMIT"},
	{`127\.0\.0\.1:\d+`, "HERE"},
	{`\b\d+ (second|minute|hour)s?\b`, "TIME"},
	{`runs/\d+`, "runs/N"},
}

// whatPeopleSee is everything on the host that is there at the end, without
// the names and times that differ from play to play.
func (w *town) whatPeopleSee() (string, error) {
	var out strings.Builder
	log, err := w.sim.Log(w.ctx, w.name, "main")
	if err != nil {
		return "", err
	}
	for _, c := range log {
		fmt.Fprintf(&out, "main: %s\n", strings.ReplaceAll(c.Message, "\n", "\n      "))
	}
	branches, err := w.sim.Branches(w.name)
	if err != nil {
		return "", err
	}
	for _, b := range branches {
		fmt.Fprintf(&out, "branch %s\n", b)
	}
	pulls, err := w.sim.Pulls(w.name)
	if err != nil {
		return "", err
	}
	drafts := 0
	for _, p := range pulls {
		if strings.HasPrefix(p.Head, "signalbox/") {
			drafts++ // a run that was made again has another
			if p.Open || p.Merged {
				fmt.Fprintf(&out, "draft left: %+v\n", p)
			}
			continue
		}
		fmt.Fprintf(&out, "#%d open %v merged %v labels %v\n", p.Number, p.Open, p.Merged, p.Labels)
		runs, err := w.sim.CheckRuns(w.name, p.HeadSHA, "signalbox")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "  checks: %s\n", strings.Join(runs, ", "))
		comments, err := w.sim.Comments(w.name, p.Number)
		if err != nil {
			return "", err
		}
		for _, c := range comments {
			slices.Sort(c.Reactions)
			fmt.Fprintf(&out, "  @%s %v: %s\n", c.Author, c.Reactions, strings.ReplaceAll(c.Body, "\n", "\n    "))
		}
	}
	fmt.Fprintf(&out, "drafts were opened: %v\n", drafts > 0)
	text := out.String()
	for _, i := range inconstant {
		text = regexp.MustCompile(i.pattern).ReplaceAllString(text, i.instead)
	}
	return text, nil
}
