package report

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
)

// Limits of one upload.
const (
	// MaxCases is how many cases one upload may have.
	MaxCases = 1_000_000
	// failureBudget is how many bytes of failure texts one upload may keep. What
	// comes beyond that has its summary only.
	failureBudget = 32 << 20
)

// ErrTooMany says that an upload has more than [MaxCases] cases.
var ErrTooMany = errors.New("more than 1000000 test cases in one upload")

// Test is what all reports of one upload say about one test.
type Test struct {
	flaky.Test
	ID uuid.UUID

	Outcome   Outcome // of the last attempt; the worst if it is ambiguous
	Failed    bool    // any attempt failed
	Ambiguous bool    // several cases that may be several tests
	Attempts  int     // how often it ran, as far as the reports tell

	Failure     flaky.Failure // of the last attempt that failed
	Fingerprint flaky.Fingerprint
	Summary     string
	Seconds     float64 // of the last attempt; -1 is unknown
	At          time.Time

	source, number int
}

// Ran reports whether the test ran and how it ended is known.
func (t *Test) Ran() bool { return t.Outcome == Passed || t.Outcome == Failed }

// Result is the test as the rules of flakiness see it; ok is false if it did
// not run.
func (t *Test) Result() (r flaky.Result, ok bool) {
	return flaky.Result{Test: t.ID, Failed: t.Failed, Passed: t.Outcome == Passed, Ambiguous: t.Ambiguous, Fingerprint: t.Fingerprint}, t.Ran()
}

// Collector puts the cases of one upload together. Its zero value does not
// work; the exported fields are set before the first case.
type Collector struct {
	Org, Repo string // of every test's identity
	Variant   string // of the upload; what a report knows itself is added

	tests  []Test
	index  map[uuid.UUID]int32
	names  map[string]string // texts that many tests share
	source int
	cases  int
	budget int
	notes  Notes
}

// NewCollector makes an empty collector for an upload of a repository.
func NewCollector(org, repo, variant string) *Collector {
	return &Collector{Org: org, Repo: repo, Variant: variant, index: map[uuid.UUID]int32{}, names: map[string]string{}, budget: failureBudget}
}

// NextFile says that the cases that follow stand in another file.
func (c *Collector) NextFile() { c.source++ }

// Add takes a case, which is not kept. The error is [ErrTooMany].
func (c *Collector) Add(k *Case) error {
	if c.cases++; c.cases > MaxCases {
		return ErrTooMany
	}
	t := c.read(k)
	i, seen := c.index[t.ID]
	if !seen {
		c.index[t.ID] = int32(len(c.tests))
		t.File, t.Classname, t.Parent = c.shared(t.File), c.shared(t.Classname), c.shared(t.Parent)
		if len(c.tests) == cap(c.tests) { // half as much is copied as append would
			c.tests = slices.Grow(c.tests, max(256, len(c.tests)))
		}
		c.tests = append(c.tests, t)
		return nil
	}
	c.tests[i].again(&t, k.Reruns)
	return nil
}

func (c *Collector) shared(text string) string {
	if s, ok := c.names[text]; ok {
		return s
	}
	c.names[text] = text
	return text
}

// read makes a test of a case.
func (c *Collector) read(k *Case) Test {
	variant := c.Variant
	if k.Variant != "" {
		if variant != "" {
			variant += "/"
		}
		variant += k.Variant
	}
	t := Test{
		Test:    flaky.Test{Org: c.Org, Repo: c.Repo, File: k.File, Classname: k.Classname, Parent: k.Parent, Name: k.Name, Variant: variant, Given: k.Given},
		Outcome: k.Outcome, Failed: k.Outcome == Failed, Attempts: 1 + len(k.Earlier), Seconds: k.Seconds, At: k.At,
		source: c.source, number: k.Attempt,
	}
	t.ID = t.Test.ID()
	for _, e := range k.Earlier {
		t.Failed = t.Failed || e.Outcome == Failed
	}
	if t.Failed {
		t.Failure = k.Failure
		t.Fingerprint, t.Summary = flaky.Describe(k.Failure)
		size := len(k.Failure.Message) + len(k.Failure.Text) + len(k.Failure.Type)
		if c.budget -= size; c.budget < 0 {
			t.Failure = flaky.Failure{Message: t.Summary}
		}
	}
	return t
}

// again takes another case of the same name.
func (t *Test) again(k *Test, reruns Repeats) {
	if k.Outcome == Skipped || k.Outcome == Unknown {
		return // it did not run, or nobody knows how it ended
	}
	if !t.Ran() {
		*t = *k
		return
	}
	switch {
	case t.number > 0 && k.number > 0 && t.number != k.number:
		if k.number < t.number {
			*t, *k = *k, *t
		}
		t.then(k)
	case t.source != k.source:
		t.either(k)
	case reruns == Attempts && t.Outcome == Failed:
		t.then(k)
	case reruns == Silent:
		// Only how the last one ended is known. A failure that is written down
		// nevertheless counts, but nobody knows what came between.
		t.Ambiguous = t.Ambiguous || t.Failed
		t.then(k)
	default:
		t.either(k)
	}
}

// then takes the next attempt.
func (t *Test) then(k *Test) {
	attempts, failed, ambiguous := t.Attempts+k.Attempts, t.Failed || k.Failed, t.Ambiguous
	if !k.Failed {
		k.Failure, k.Fingerprint, k.Summary = t.Failure, t.Fingerprint, t.Summary
	}
	*t = *k
	t.Attempts, t.Failed, t.Ambiguous = attempts, failed, ambiguous
}

// either takes a case that may be another test: it failed if any failed.
func (t *Test) either(k *Test) {
	attempts := t.Attempts + k.Attempts
	if k.Failed && !t.Failed {
		*t = *k
	}
	t.Attempts, t.Ambiguous = attempts, true
	if t.Failed {
		t.Outcome = Failed
	}
}

// Note takes what a scanner found wrong.
func (c *Collector) Note(notes Notes) { c.notes.merge(notes) }

// Tests are the tests of the upload in the order in which they came up, and what
// was wrong with its reports. The collector is not used any more afterwards.
func (c *Collector) Tests() ([]Test, Notes) {
	for i := range c.tests {
		if c.tests[i].Ambiguous {
			c.notes.add(AmbiguousTests, c.tests[i].Name)
		}
	}
	return c.tests, c.notes
}
