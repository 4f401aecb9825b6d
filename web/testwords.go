package web

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox/flaky"
	"signalbox/queue"
)

// The words in which pages speak of tests.

var statusBadges = map[flaky.Status]badge{
	flaky.Healthy: {"healthy", "good"}, flaky.Flaky: {"flaky", "wait"}, flaky.Broken: {"broken", "bad"},
}

var (
	quarantinedBadge = badge{"quarantined", "busy"}
	suspectedBadge   = badge{"suspected", "off"}
)

// testBadges are what is to be seen at once of a test.
func testBadges(t *flaky.TestCase) []badge {
	all := []badge{look(statusBadges, t.Status)}
	if t.Suspected && t.Status == flaky.Healthy {
		all[0] = suspectedBadge
	}
	if !t.QuarantinedAt.IsZero() {
		all = append(all, quarantinedBadge)
	}
	return all
}

// showNames are what the lists of tests are called.
var showNames = map[flaky.Show]string{
	flaky.ShowNotable: "worth a look", flaky.ShowFlaky: "flaky", flaky.ShowBroken: "broken", flaky.ShowSuspected: "suspected",
	flaky.ShowQuarantined: "quarantined", flaky.ShowDecided: "decided by people", flaky.ShowAll: "all tests",
}

// meaning explains a word.
type meaning struct {
	Word badge
	Text string
}

// meanings are the states of tests, as people read them.
var meanings = []meaning{
	{look(statusBadges, flaky.Healthy), "Nothing shows that it fails at random."},
	{suspectedBadge, fmt.Sprintf("It passed and failed on the same code once: a score of %d. That is shown and changes nothing.", flaky.SuspectedScore)},
	{look(statusBadges, flaky.Flaky), fmt.Sprintf("It fails without being broken: evidence of two half days or more in the last 14 days adds up to a score of %d. "+
		"It is healthy again after so many passes that its old rate of failing is unlikely, three days at the earliest.", flaky.FlakyScore)},
	{look(statusBadges, flaky.Broken), "Its last three runs or more all failed on branches that must be green, over two commits or more. Somebody has to repair it: a broken test is never quarantined automatically."},
	{quarantinedBadge, fmt.Sprintf("Its failures do not block anybody, except those of a kind that it never had before. Automatic quarantine, where it is on, begins at a score of %v.", flaky.QuarantineScore)},
}

// decisions say what counts for a failure, and why.
var decisions = map[flaky.QuarantineCode]string{
	flaky.SetAlways:       "excused: somebody decided so",
	flaky.SetNever:        "blocks: somebody decided that its failures count",
	flaky.AutomaticOn:     "excused: the test is quarantined",
	flaky.SuspendedBroken: "blocks: the test is broken now",
	flaky.RepositoryOff:   "blocks: automatic quarantine is off",
	flaky.NotEnough:       "blocks: flaky, but with too little evidence for quarantine",
	flaky.NotFlaky:        "blocks: nothing shows that it fails at random",
	flaky.NewFailure:      "blocks: the test never failed like this before",
	flaky.KnownFailure:    "excused: the test is known to fail like this",
}

// changedBecause says why a test came into quarantine, or out of it.
var changedBecause = map[flaky.QuarantineCode]string{
	flaky.SetAlways:       "Somebody decided so.",
	flaky.SetNever:        "Somebody decided that its failures count.",
	flaky.AutomaticOn:     "There is enough evidence.",
	flaky.SuspendedBroken: "It is broken now.",
	flaky.RepositoryOff:   "Automatic quarantine is off.",
	flaky.NotEnough:       "There is not enough evidence.",
	flaky.NotFlaky:        "It is not flaky now.",
}

// decisionText says what counts for a failure; "" if nobody decided yet.
func decisionText(code flaky.QuarantineCode) string {
	if text, ok := decisions[code]; ok {
		return text
	}
	return strings.ToLower(sentence(queue.Reason(code)))
}

var evidenceNames = map[flaky.EvidenceKind]string{
	flaky.SameCode:            "The same code passed and failed",
	flaky.LoneFailure:         "One failure between two passes on a branch that must be green",
	flaky.KnownWords:          "A failure on one more pull request, with words known from elsewhere",
	flaky.DistinctPullRequest: "A failure on one more pull request while the branch was green",
}

// testedOn says in a few words what a run tested.
func testedOn(kind flaky.Kind, branch string, prs []int) string {
	names := make([]string, len(prs))
	for i, n := range prs {
		names[i] = fmt.Sprintf("#%d", n)
	}
	switch {
	case kind == flaky.Queue:
		return strings.TrimSpace("queue of " + branch + " with " + strings.Join(names, ", "))
	case len(prs) > 0:
		return "pull request " + strings.Join(names, ", ")
	case kind == flaky.PullRequest:
		return "pull request"
	case branch != "":
		return branch
	}
	return look(map[flaky.Kind]badge{}, kind).Text
}

// where says where a test stands in its code, as far as its report said so.
func where(t *flaky.Test) string {
	var parts []string
	for _, p := range []string{t.File, t.Parent, t.Classname} {
		if p != "" && (len(parts) == 0 || parts[len(parts)-1] != p) {
			parts = append(parts, p)
		}
	}
	if t.Variant != "" {
		parts = append(parts, "variant "+t.Variant)
	}
	return strings.Join(parts, " · ")
}

// rate is a share of failures in words.
func rate(t flaky.Tally) string {
	switch {
	case t.Runs == 0:
		return "no runs"
	case t.Failures == 0:
		return fmt.Sprintf("none of %d", t.Runs)
	}
	return fmt.Sprintf("%d of %d", t.Failures, t.Runs)
}

// percent is a share of failures as a number.
func percent(t flaky.Tally) string {
	switch p := t.Rate() * 100; {
	case t.Runs == 0:
		return "–"
	case p > 0 && p < 1:
		return fmt.Sprintf("%.1f %%", p)
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

var standings = map[queue.Standing]badge{
	queue.KnownFlaky: {"known flaky", "wait"}, queue.FailingOnBase: {"also fails on the branch", "wait"}, queue.NewlyFailing: {"new", "bad"},
}

// failedTest is a test that failed under a check of a run.
type failedTest struct {
	Name, URL string
	Standing  badge
}

// failedTests are those of a check.
type failedTests struct {
	Check string
	Tests []failedTest
	More  int64
	Why   string // results excuse nothing although no test is known that blocks
}

// failedIn lists the tests that failed in a run, by the checks that they were
// reported under.
func failedIn(repo queue.Repo, r *queue.Run) []failedTests {
	var all []failedTests
	seen := map[string]bool{}
	for _, results := range r.Results {
		if seen[results.Check] {
			continue
		}
		seen[results.Check] = true
		tests, more := r.Tests(results.Check)
		f := failedTests{Check: results.Check, More: more}
		for _, want := range r.Required {
			if report, found := r.Report(want); found && want.Name == results.Check && report.Outcome() == queue.VerdictFailed && !r.PassedByQuarantine(want) {
				f.Why = r.Unexplained(results.Check)
			}
		}
		for _, t := range tests {
			row := failedTest{Name: t.Name, Standing: look(standings, cmp.Or(t.Standing, queue.NewlyFailing))}
			switch {
			case t.Excused():
				row.Standing = quarantinedBadge
			case t.NewFailure:
				row.Standing = badge{"never failed like this", "bad"}
			}
			if t.ID != "" {
				row.URL = TestURL("", repo, t.ID)
			}
			f.Tests = append(f.Tests, row)
		}
		if len(f.Tests) > 0 || f.Why != "" {
			all = append(all, f)
		}
	}
	return all
}
