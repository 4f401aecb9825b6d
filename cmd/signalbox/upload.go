package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"signalbox/flaky"
)

// uploadCommand sends what tests reported to Signalbox and ends as the job
// should end: with 0 if nothing failed, or if everything that failed is
// quarantined and the reports are complete; else as the test command ended.
// Nothing that goes wrong on the way makes a failure pass, and a service that
// cannot be reached changes nothing.
type uploadCommand struct {
	Reports []string `arg:"" name:"report" help:"Files with test reports (JUnit XML, go test -json, CTRF, Bazel's build events as JSON), or patterns such as '**/TEST-*.xml'. Each has to match something."`

	ExitCode *int   `name:"exit-code" help:"How the test command ended. Without it, 1 if a test failed, else 0."`
	Expect   int    `help:"How many report files there must be at least. With fewer, the job is never green."`
	Check    string `env:"SIGNALBOX_CHECK" help:"Name under which the job reports to the Git host, as the queue requires it. Default: what the CI system says."`
	Variant  string `help:"What distinguishes this run of the tests from others in the same job name, such as an operating system: the same test is another one there."`

	Infrastructure bool `help:"The run failed for reasons outside of its tests: it counts for nothing."`

	Repo    string `env:"SIGNALBOX_REPO" help:"Repository, as host/owner/name, or owner/name on github.com. This and the next five are found in GitHub Actions, GitLab CI, CircleCI, Buildkite, Jenkins and Azure Pipelines, and in part in the Git repository around."`
	Sha     string `help:"Commit that was tested."`
	Branch  string `help:"Branch that was tested."`
	PR      int    `name:"pr" help:"Number of the pull request that was tested."`
	Job     string `help:"Name of this job in this run of CI, the same when it is tried again."`
	Attempt int    `help:"Which attempt of the job this is, from 1."`

	PublicRepoID string `name:"public-repo-id" env:"SIGNALBOX_PUBLIC_REPO_ID" help:"Public id of the repository, which CI of forks sends because it has no token. It is no secret; set-public-uploads of the API gives one out. A token wins."`
	Org          string `env:"SIGNALBOX_ORG" help:"Organisation in Signalbox, which goes with the public id. Default: the repository's owner."`

	connection `group:"connection"`
	JSON       bool `name:"json" help:"Print JSON."`
}

// Validate reports every mistake at once: a number that says nothing would be passed
// over in silence.
func (u *uploadCommand) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, n := range []struct {
		name  string
		value int
	}{{"expect", u.Expect}, {"pr", u.PR}, {"attempt", u.Attempt}} {
		if n.value < 0 {
			wrong("%s is %d: give a number from 1, or leave it out", n.name, n.value)
		}
	}
	if _, _, name := repoOf(u.Repo); u.Repo != "" && name == "" {
		wrong("repo is %q: give host/owner/name", u.Repo)
	}
	return errors.Join(problems...)
}

// Run uploads, prints what came of it, and returns the verdict.
func (u *uploadCommand) Run(ctx context.Context, c console) error {
	o := u.outcome(ctx, os.Getenv)
	if err := o.print(c, u.JSON); err != nil {
		return err
	}
	if o.verdict.Green() {
		return nil
	}
	return exitStatus(o.exitCode())
}

// exitCode is what the program ends with. Of a code only eight bits are left on Unix,
// and so 256 would be green.
func (o *outcome) exitCode() int {
	code := o.verdict.ExitCode & 0xff
	if code == 0 && !o.verdict.Green() {
		return 1
	}
	return code
}

// outcome is all that is known at the end.
type outcome struct {
	read    flaky.Read    // what we read of the reports ourselves
	files   int           // that were found
	failing []failingTest // those whose last attempt failed
	notes   []flaky.Note  // what was wrong with the reports, ours and the service's
	kept    *keptReport   // what the service made of them; nil: it did not say
	trouble error         // why it did not say
	verdict flaky.Verdict
}

// failingTest is a test that failed, with what the service says about it.
type failingTest struct {
	flaky.Seen
	excused bool
	code    flaky.QuarantineCode // "" is unknown
}

// outcome does everything but print. What failed is read here, and the service
// is asked only what of it is excused: whatever it answers, it cannot make a
// failure disappear.
func (u *uploadCommand) outcome(ctx context.Context, getenv func(string) string) outcome {
	var o outcome
	sent := u.sent(ctx, getenv)
	body, missing, err := o.collect(u, &sent)
	if err != nil {
		missing = append(missing, err.Error())
	}
	for i := range o.read.Tests {
		if t := &o.read.Tests[i]; !t.Skipped && t.Failed && (!t.Passed || t.Ambiguous) {
			o.failing = append(o.failing, failingTest{Seen: *t})
		}
	}
	o.notes = o.read.Notes
	if o.files > 0 && err == nil {
		o.kept, o.trouble = u.send(ctx, sent, body, o.failing)
	} else {
		o.trouble = errors.New("there is nothing to send")
	}
	o.excuse()
	o.verdict = flaky.Judge(o.job(u.ExitCode, missing))
	return o
}

// excuse takes over what the service says about the tests that failed.
func (o *outcome) excuse() {
	if o.kept == nil {
		return
	}
	type identity struct{ file, classname, parent, name, variant string }
	said := map[identity]keptFailure{}
	for _, f := range o.kept.Failures {
		said[identity{f.File, f.Classname, f.Parent, f.Name, f.Variant}] = f
	}
	for i := range o.failing {
		t := &o.failing[i]
		if f, ok := said[identity{t.File, t.Classname, t.Parent, t.Name, t.Variant}]; ok {
			t.excused, t.code = f.Quarantined, flaky.QuarantineCode(f.ReasonCode)
		}
	}
	for _, n := range o.kept.Notes { // the service reads the same; it may leave out more
		known := false
		for _, have := range o.notes {
			known = known || have.Code == n.Code
		}
		if !known {
			o.notes = append(o.notes, flaky.Note(n))
		}
	}
}

// job is the outcome as the rule of the verdict takes it.
func (o *outcome) job(exitCode *int, missing []string) flaky.Job {
	j := flaky.Job{Problems: missing}
	if exitCode != nil {
		j.ExitCode, j.HasExitCode = *exitCode, true
	}
	for _, f := range o.failing {
		j.Failing = append(j.Failing, flaky.Failing{Name: f.Name, Excused: f.excused, Code: f.code})
	}
	for _, n := range o.notes {
		if n.Incomplete {
			j.Problems = append(j.Problems, strings.TrimSuffix(n.Text, "."))
		}
	}
	if o.kept != nil && !o.kept.Complete && len(j.Problems) == 0 {
		j.Problems = append(j.Problems, "Signalbox calls them so")
	}
	return j
}
