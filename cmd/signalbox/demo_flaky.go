package main

import (
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox/api"
	"signalbox/flaky"
)

// The tests of the demo's repository that are not as reliable as the others.
const (
	flakyTest    = "pays with a card"    // fails now and then, to this day
	repairedTest = "finds what is there" // did so until somebody repaired it
)

// demoDays is how many days of CI the demo has behind it: a test is called
// flaky only after evidence from two half days or more.
const demoDays = 13

// demoTests is the part of the demo's CI that sends test reports, with the
// client and through the API as any CI does.
type demoTests struct {
	folder string
	client *api.Queue
	url    string
	token  string
	runs   int
}

// newDemoTests sends reports about the repository of a client.
func newDemoTests(s *stage, c *api.Queue) *demoTests {
	return &demoTests{folder: s.folder, client: c, url: s.where.Dashboard, token: s.where.AdminToken}
}

// demoRun is one run of the tests.
type demoRun struct {
	at      time.Time
	retried []string // failed, and passed when they were tried again
	failed  []string
	commit  string // that was tested; "" = some commit of main
	check   string // that the job reports as; "" = one that no queue requires
	cut     bool   // the report ends in the middle of it
}

// history sends two weeks of CI, a run a day, oldest first. One test fails on
// some days to the end; another one does so in the first days and then never
// again.
func (d *demoTests) history(ctx context.Context, now time.Time) error {
	err := d.client.About(ctx, "flaky-tests/set-automatic-quarantine", map[string]any{"automatic": true}, nil)
	if err != nil {
		return err
	}
	for day := demoDays; day > 0; day-- {
		run := demoRun{at: now.AddDate(0, 0, -day)}
		if day%4 == 1 {
			run.retried = append(run.retried, flakyTest)
		}
		if day > demoDays-3 {
			run.retried = append(run.retried, repairedTest)
		}
		if o := d.send(ctx, run); o.trouble != nil {
			return fmt.Errorf("send a test report: %w", o.trouble)
		}
	}
	return nil
}

// send uploads one run and returns what came of it.
func (d *demoTests) send(ctx context.Context, run demoRun) outcome {
	d.runs++
	path := filepath.Join(d.folder, fmt.Sprintf("junit-%d.xml", d.runs))
	if err := os.WriteFile(path, []byte(run.junit()), 0o600); err != nil {
		return outcome{trouble: err}
	}
	code := min(len(run.failed), 1)
	// Mostly of a check that no queue of the demo requires: a failed one would
	// wait two minutes for the reports of its own jobs, and those here are of others.
	u := uploadCommand{
		Reports: []string{path}, connection: connection{URL: d.url, Token: d.token, Timeout: onceLimit}, ExitCode: &code, Check: cmp.Or(run.check, "nightly"),
		Repo: d.client.Host + "/" + d.client.Repo(), Sha: cmp.Or(run.commit, fmt.Sprintf("%x", sha1.Sum([]byte(path)))), Branch: d.client.Branch, Job: fmt.Sprintf("tests/%d", d.runs),
	}
	return u.outcome(ctx, func(string) string { return "" })
}

// junit is the run as a test runner reports it.
func (r demoRun) junit() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<testsuite name=\"shop\" tests=\"4\" timestamp=\"%s\">\n", r.at.UTC().Format(time.RFC3339))
	for _, name := range []string{"adds up", "greets people", flakyTest, repairedTest} {
		failure := ""
		for tag, names := range map[string][]string{"flakyFailure": r.retried, "failure": r.failed} {
			for _, n := range names {
				if n == name {
					failure = fmt.Sprintf("<%s type=\"Timeout\" message=\"no answer after 3s\">at Shop.pay (shop_test.go:42)\nat Shop.checkout (shop_test.go:17)</%s>", tag, tag)
				}
			}
		}
		fmt.Fprintf(&b, "  <testcase classname=\"Shop\" name=\"%s\" file=\"shop_test.go\" time=\"0.1\">%s</testcase>\n", name, failure)
	}
	if r.cut {
		return b.String() + "  <testcase classname=\"Shop\" name=\"\"/>\n  <testcase class"
	}
	return b.String() + "</testsuite>\n"
}

// testState is what the service says of a test.
type testState struct {
	Test struct {
		HTMLURL string `json:"html_url"`
		Status  struct {
			Value, Reason string
			Code          string `json:"reason_code"`
		}
		Quarantined bool
	}
}

// state asks for a test of the demo.
func (d *demoTests) state(ctx context.Context, name string) (testState, error) {
	id := flaky.Test{Org: d.client.Owner, Repo: d.client.Host + "/" + d.client.Owner + "/" + d.client.Name, File: "shop_test.go", Classname: "Shop", Parent: "shop", Name: name}.ID()
	var s testState
	err := d.client.About(ctx, "flaky-tests/get-test-details", map[string]any{"test_id": id.String()}, &s)
	return s, err
}

// check lets the flaky test fail once more, and demands that it is excused,
// that another failure is not, and that the repaired test has recovered. It
// returns lines that say so.
func (d *demoTests) check(ctx context.Context) (string, error) {
	var wrong []error
	excused := d.send(ctx, demoRun{at: time.Now(), failed: []string{flakyTest}})
	if !excused.verdict.Green() || excused.verdict.Code != flaky.AllExcused {
		wrong = append(wrong, fmt.Errorf("the failure of a quarantined test was not excused: %s", excused.verdict.Text), excused.trouble)
	}
	blocked := d.send(ctx, demoRun{at: time.Now(), failed: []string{"adds up"}})
	if blocked.verdict.Green() || blocked.trouble != nil {
		wrong = append(wrong, errors.New("a failure that nobody can excuse was excused"), blocked.trouble)
	}
	sick, err := d.state(ctx, flakyTest)
	wrong = append(wrong, err)
	if err == nil && (sick.Test.Status.Value != strings.ToLower(string(flaky.Flaky)) || !sick.Test.Quarantined) {
		wrong = append(wrong, fmt.Errorf("%q is %s: %s", flakyTest, sick.Test.Status.Value, sick.Test.Status.Reason))
	}
	well, err := d.state(ctx, repairedTest)
	wrong = append(wrong, err)
	if err == nil && (well.Test.Status.Code != string(flaky.Recovered) || well.Test.Quarantined) {
		wrong = append(wrong, fmt.Errorf("%q is %s: %s", repairedTest, well.Test.Status.Value, well.Test.Status.Reason))
	}
	if err := errors.Join(wrong...); err != nil {
		return "", err
	}
	return fmt.Sprintf("The test %q is flaky and quarantined, so its failure blocked nobody; %q was and has recovered.\n%s: %s", flakyTest, repairedTest, flakyTest, sick.Test.Status.Reason), nil
}
