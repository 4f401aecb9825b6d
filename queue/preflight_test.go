package queue

import (
	"testing"
	"time"
)

// The set-up of a queue is looked at when it is made, when something that it
// depends on changes, and when somebody asks: once for what comes together,
// and once more for what came while it was under way.

// look is a queue on which nothing else happens.
type look struct {
	t   *testing.T
	s   *Snapshot
	now time.Time
}

func newLook(t *testing.T) *look {
	t.Helper()
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	q := Queue{ID: 1, Key: "00000000-0000-4000-8000-000000000001", Branch: "main", State: Running, Settings: DefaultSettings(), Preflight: Preflight{Due: now}}
	q.MergeMethod = MergeCommit
	return &look{t, NewSnapshot(q), now}
}

// decide decides on facts and returns the preflights that were asked for.
func (l *look) decide(after time.Duration, facts ...Fact) (asked []RunPreflight, wake time.Duration) {
	l.t.Helper()
	l.now = l.now.Add(after)
	var received []Received
	for i, f := range facts {
		received = append(received, Received{int64(i + 1), f})
	}
	plan := Reconcile(l.s, received, l.now)
	l.s.Queue = plan.Queue
	for _, a := range plan.Actions {
		if r, ok := a.(RunPreflight); ok {
			asked = append(asked, r)
		}
	}
	if !plan.Wake.IsZero() {
		wake = plan.Wake.Sub(l.now)
	}
	return asked, wake
}

// expect decides and compares how many were asked for and when to wake.
func (l *look) expect(what string, after time.Duration, asked int, wake time.Duration, facts ...Fact) []RunPreflight {
	l.t.Helper()
	got, w := l.decide(after, facts...)
	if len(got) != asked || w != wake {
		l.t.Errorf("%s: %d asked for, wake in %s; want %d, %s", what, len(got), w, asked, wake)
	}
	return got
}

func TestAPreflightIsAskedForOnceAndAgainAfterChanges(t *testing.T) {
	l := newLook(t)
	l.expect("a new queue", 0, 1, preflightDeadline)
	l.expect("nothing new", time.Second, 0, preflightDeadline-time.Second)
	l.expect("rules change meanwhile", time.Second, 0, preflightDeadline-2*time.Second, RulesChanged{}, RulesChanged{})
	l.expect("the answer, older than the change", time.Second, 1, preflightDeadline, PreflightSeen{At: l.now})
	l.expect("the answer to that", time.Second, 0, 0, PreflightSeen{At: l.now})
	l.expect("an idle queue", time.Hour, 0, 0)
	l.expect("a ruleset is edited", time.Second, 0, preflightPause, RulesChanged{})
	l.expect("and once more", time.Second, 0, preflightPause-time.Second, RulesChanged{})
	l.expect("then it is looked at", preflightPause-time.Second, 1, preflightDeadline)
	l.expect("no answer", preflightDeadline, 1, preflightDeadline)
	l.expect("it failed", time.Second, 0, preflightAgain, PreflightSeen{Failed: true, At: l.now})
	l.expect("and is tried again", preflightAgain, 1, preflightDeadline)
	l.expect("well", time.Second, 0, 0, PreflightSeen{At: l.now})
	l.expect("a person asks", time.Second, 1, preflightDeadline, PreflightWanted{})
	l.expect("well", time.Second, 0, 0, PreflightSeen{At: l.now})
	host, five := LandHost, int64(5)
	l.expect("a setting that has nothing to do with it", time.Second, 0, 0, ChangeRequested{Change: Change{Concurrency: &five}, At: l.now})
	asked := l.expect("a setting that has", time.Second, 1, preflightDeadline, ChangeRequested{Change: Change{LandingMode: &host}, At: l.now})
	if len(asked) != 1 || asked[0].Chosen != LandHost || asked[0].Method != MergeCommit || !asked[0].DraftPRs || asked[0].Branch != "main" {
		t.Errorf("%+v", asked)
	}
}

// Where nobody chose how to land, what is possible decides; a look that failed
// changes nothing; a choice holds.
func TestWithoutAChoiceAQueueLandsAsItCan(t *testing.T) {
	l := newLook(t)
	mode := func(want LandingMode) {
		t.Helper()
		if got := l.s.Queue.LandingMode(); got != want {
			t.Errorf("lands by %s, want %s", got, want)
		}
	}
	mode(LandExact)
	l.decide(0, PreflightSeen{NoExact: "The App is not exempt.", At: l.now})
	mode(LandHost)
	l.decide(time.Second, PreflightSeen{Failed: true, At: l.now})
	mode(LandHost)
	exact := LandExact
	l.decide(time.Second, ChangeRequested{Change: Change{LandingMode: &exact}, At: l.now})
	mode(LandExact)
	l = &look{t, NewSnapshot(l.s.Queue), l.now}
	l.s.Queue.ChosenLandingMode = ""
	l.decide(time.Second, PreflightSeen{At: l.now})
	mode(LandExact)
	squash := Squash
	l.decide(time.Second, ChangeRequested{Change: Change{MergeMethod: &squash}, At: l.now})
	mode(LandHost)
}

// What its own runs ran into is told to the next look.
func TestAPreflightKnowsWhatRunsRanInto(t *testing.T) {
	l := newLook(t)
	l.decide(0)
	l.decide(time.Second, PreflightSeen{At: l.now})
	d := begin(l.s, l.now)
	d.silent([]string{"e2e"})
	d.noDrafts(true)
	asked, _ := l.decide(0)
	if len(asked) != 1 || len(asked[0].Silent) != 1 || asked[0].Silent[0] != "e2e" || !asked[0].NoDrafts {
		t.Fatalf("%+v", asked)
	}
	l.decide(time.Second, PreflightSeen{At: l.now})
	d = begin(l.s, l.now)
	d.silent([]string{"e2e"}) // known
	if asked, _ = l.decide(0); len(asked) != 0 {
		t.Errorf("%+v", asked)
	}
	d = begin(l.s, l.now)
	d.silent(nil)
	d.noDrafts(false)
	if asked, _ = l.decide(0); len(asked) != 1 || asked[0].Silent != nil || asked[0].NoDrafts {
		t.Errorf("%+v", asked)
	}
}

// BC-37: what is not known never replaces what is, for the same head.
func TestBC37UnknownNeverReplacesKnown(t *testing.T) {
	l := newLook(t)
	l.s.Entries["e"] = &Entry{ID: "e", Submission: 1, State: NotReady, Mergeability: Mergeable, MergeabilityFor: "h", RefreshAsked: l.now,
		PullRequest: PullRequest{Number: 7, Head: "h", Base: "main", Open: true, Draft: true}}
	for _, value := range []Mergeability{MergeabilityInProgress, MergeabilityUnspecified} {
		d := begin(l.s, l.now)
		d.mergeabilitySeen(MergeabilitySeen{PR: 7, Head: "h", Value: value})
		if e := l.s.Entries["e"]; e.Mergeability != Mergeable || e.RefreshAfter.IsZero() {
			t.Errorf("after %s it is %s", value, e.Mergeability)
		}
	}
	d := begin(l.s, l.now)
	d.mergeabilitySeen(MergeabilitySeen{PR: 7, Head: "h", Value: NotMergeable, Why: "No."})
	if e := l.s.Entries["e"]; e.Mergeability != NotMergeable || e.MergeabilityWhy != "No." {
		t.Errorf("%+v", e)
	}
}
