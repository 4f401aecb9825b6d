package flaky

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A story is a row of runs, an hour apart, each of another commit:
//
//	S Q P   on main, of the queue, of a pull request
//	+ - ~   passed, failed, failed and passed when it was tried again
//	#7,8    the pull requests under test
//	=       of the same commit as the run before
//	!       the failure is no clue
//	'       it failed with other words
//	&       so did three other tests of the run, and nothing explains it
//	*       nothing happens for so many hours before: *12S+
type story struct {
	t       *testing.T
	history History
	at      time.Time
	run     int64
	commit  int
	runs    int
	failed  int
}

func (s *story) tell(text string) []Evidence {
	s.t.Helper()
	var found []Evidence
	for _, word := range strings.Fields(text) {
		r, f, clue := s.read(word)
		s.runs++
		if f.Failed {
			s.failed++
		}
		fresh := s.history.Observe(r, f, clue)
		if f.Failed && f.Passed && clue {
			fresh = append(fresh, Retried(r, []Result{f})...)
		}
		s.history.Add(fresh...)
		known := s.history.Recognise(f.Test)
		s.history.Add(known...)
		found = append(append(found, fresh...), known...)
	}
	return found
}

func (s *story) read(word string) (Run, Result, bool) {
	s.t.Helper()
	pause := 1
	if rest, ok := strings.CutPrefix(word, "*"); ok {
		n := strings.IndexAny(rest, "SQP")
		pause, _ = strconv.Atoi(rest[:n])
		word = rest[n:]
	}
	s.at = s.at.Add(time.Duration(pause) * time.Hour)
	if !strings.Contains(word, "=") {
		s.commit++
	}
	s.run++
	r := Run{ID: s.run, At: s.at, Trusted: true, Tests: 100, Commit: strconv.Itoa(s.commit), Branch: "main",
		Kind: map[byte]Kind{'S': Stable, 'Q': Queue, 'P': PullRequest}[word[0]]}
	if _, numbers, ok := strings.Cut(word, "#"); ok {
		for _, n := range strings.Split(strings.Trim(numbers, "!='&"), ",") {
			number, err := strconv.Atoi(n)
			if err != nil {
				s.t.Fatal(err)
			}
			r.PullRequests = append(r.PullRequests, number)
		}
	}
	f := Result{Test: uuid.NameSpaceURL, Fingerprint: 5, Unexplained: 1}
	if strings.Contains(word, "'") {
		f.Fingerprint = 6
	}
	if strings.Contains(word, "&") {
		f.Unexplained = company + 1
	}
	f.Failed, f.Passed = word[1] != '+', word[1] != '-'
	return r, f, f.Failed && !strings.Contains(word, "!")
}

func (s *story) judge() Judgement {
	return s.history.Judge(s.at, Tally{Runs: s.runs, Failures: s.failed})
}

func newStory(t *testing.T) *story { return &story{t: t, at: monday} }

// What a row of runs proves: for each piece its kind and the two runs, counted
// from 1.
func TestWhatARowOfRunsProves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runs, want string }{
		{"S+ S- S+", "lone_failure 2/3"},
		{"S- S+", ""},       // nobody knows how it was before
		{"S+ S- S- S+", ""}, // broken, and repaired
		{"S+ S-! S+", ""},   // the run says nothing about tests
		{"S+ S- S+ S- S+", "lone_failure 2/3, lone_failure 4/5"},
		{"S+ S~ S+", "same_code 2/2"},
		{"S~", "same_code 1/1"},
		{"Q+#1 Q-#2 Q+#3", ""}, // number 2 may be what failed
		{"Q+#1 Q-#2 Q+#2,3", "lone_failure 2/3"},
		{"S+ Q-#2 S+", ""},                                     // two lines
		{"S+ P-#1 S+", ""},                                     // one pull request may well be broken
		{"S+ P-#1 P-#2 S+", ""},                                // they may fail again at any moment
		{"S+ P-#1 P-#2 S+ *12S+", "distinct_pull_request 3/4"}, // half a day has shown that they do not
		{"S+ P-#1 P-#2 S+ *11P-#2 S+ S+", ""},                  // 2 does, so it has most likely broken it
		{"S+ P-#1 P~#1 P-#2 S+ *12S+", "same_code 3/3, distinct_pull_request 4/5"},
		{"S+ P-#1 P+#1 P-#2 P+#2 S+", "distinct_pull_request 4/6"}, // a pass shows it at once
		{"S+ P-#1 P+#1 S+ P-#2 S+ P+#2", "distinct_pull_request 5/6"},
		{"S+ P-#1 P-#1! P-#2 P+#2 S+", ""}, // it failed again on 1, whatever the run says about it
		{"S+ P-#1 P-#2 P-#3 P-#2 S+ *12S+", "distinct_pull_request 4/6"},
		{"S+ P-#1 P+#1 P-#2 P+#2 P-#2 S+", "distinct_pull_request 4/7"},
		{"S+ P-#1 S+ P-#2 S- S+ *12S+", "lone_failure 5/6"}, // main was broken, so 2 need not be
		{"P-#1 P-#2 S+ P-#3 S+ *12S+", ""},                  // main was not known to be green at 1 and 2
		{"S- P-#1 P-#2 S+ *12S+", ""},
		{"S+ P-#1 S+ *337P-#2 S+ *12S+", ""}, // two weeks and an hour later
		{"S+ P-#1! P-#2! S+ *12S+", ""},
		{"S+ S~ *12S+ P-#1 P+#1 S+", "same_code 2/2, known_words 4/6"},
		{"S+ S~ *12S+ P-#1 P-#1 S+ *12S+", "same_code 2/2"},         // it is broken there, in the same words
		{"S+ P-#1 P+#1 S+ *12S~", "same_code 5/5, known_words 2/4"}, // it may be understood later
		{"S+ S- S+ *12S+ P-#1 P+#1 S+", "lone_failure 2/3, known_words 5/7"},
		{"S+ S~ P-#1 P+#1 S+", "same_code 2/2"},                            // whatever it was, it was one thing
		{"S+ S~ *12S+ P-#1' P+#1 S+", "same_code 2/2"},                     // it may have broken it otherwise
		{"S+ S~ *12S+ P-#1& P+#1 S+", "same_code 2/2"},                     // it broke more
		{"S+ S~ *12S+ P-#1 P+#1 S- S+", "same_code 2/2, lone_failure 6/7"}, // main was broken
		{"S+ P-#1 S+ *12P~#1 S+", "same_code 4/4"},                         // this pull request alone may have made it so
		{"S+ P~#1 S+ *12S+ P-#2 P+#2 S+", "same_code 2/2, distinct_pull_request 5/7, known_words 5/7"},
		{"S+ P-#1 S+ *12P-#2 S+ *12P-#3 S+ *12S+", "distinct_pull_request 4/5, distinct_pull_request 6/7"}, // they may be a stack: nothing of it ever passed
	} {
		s := newStory(t)
		var got []string
		for _, e := range s.tell(c.runs) {
			got = append(got, fmt.Sprintf("%s %d/%d", e.Kind, e.FailedRun, e.PassedRun))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s\n proves %q\n want   %q", c.runs, got, c.want)
		}
	}
}

// A run that comes late does not take the row apart.
func TestLateRunsChangeNoLine(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.tell("S+ S+ S+")
	late := Run{ID: 99, At: s.at.Add(-90 * time.Minute), Trusted: true, Kind: Stable, Branch: "main", Commit: "x"}
	s.history.Observe(late, Result{Failed: true}, true)
	if found := s.tell("S+"); len(found) > 0 || s.history.Stable.Fails > 0 {
		t.Errorf("a late failure became %v, %+v", found, s.history.Stable)
	}
}

// Only what is settled counts as another pull request: the failure on 1 came
// later than the pass of main, so main may have been broken by then.
func TestOnlySettledPullRequestsCount(t *testing.T) {
	t.Parallel()
	var h History
	observe := func(id int64, kind Kind, at int, failed bool, prs ...int) []Evidence {
		return h.Observe(Run{ID: id, Kind: kind, Branch: "main", At: monday.Add(time.Duration(at) * time.Hour), Trusted: true, PullRequests: prs},
			Result{Failed: failed, Passed: !failed}, failed)
	}
	observe(1, Stable, 1, false)
	observe(2, PullRequest, 10, true, 1)
	observe(3, PullRequest, 8, true, 2)
	observe(4, PullRequest, 12, false, 1)
	observe(5, PullRequest, 12, false, 2)
	if found := observe(6, Stable, 9, false); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if found := observe(7, Stable, 11, false); len(found) != 1 || found[0].PullRequest != 1 {
		t.Errorf("found %+v", found)
	}
}

// A pass in another job, as on another platform, one of before and one of a fork
// say nothing about the failure on a pull request.
func TestOnlyTheSameJobClearsAPullRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		check   string
		trusted bool
		failed  bool
		minutes int // after the failure
		want    int
	}{{"linux", true, false, 1, 1}, {"windows", true, false, 1, 0}, {"linux", false, false, 1, 0}, {"windows", true, true, 1, 0}, {"linux", true, false, -1, 0}} {
		var h History
		observe := func(id int64, minute int, kind Kind, check string, trusted, failed bool, prs ...int) []Evidence {
			return h.Observe(Run{ID: id, Kind: kind, Branch: "main", Check: check, At: monday.Add(time.Duration(minute) * time.Minute), Trusted: trusted, PullRequests: prs},
				Result{Failed: failed, Passed: !failed}, failed && trusted)
		}
		observe(1, 1, Stable, "linux", true, false)
		observe(2, 2, PullRequest, "linux", true, true, 1)
		observe(3, 3, PullRequest, "linux", true, false, 1)
		observe(4, 5, PullRequest, "linux", true, true, 2)
		observe(5, 5+c.minutes, PullRequest, c.check, c.trusted, c.failed, 2)
		if found := observe(6, 7, Stable, "linux", true, false); len(found) != c.want {
			t.Errorf("%+v: found %+v", c, found)
		}
	}
}

// The states, after a row of runs.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs   string
		status Status
		code   ReasonCode
		score  float64
	}{
		{"S+ S- S+", Healthy, NoEvidence, 2},
		{"S~", Healthy, NoEvidence, 3},
		{"S~ S~ S~", Healthy, NoEvidence, 3}, // one morning is one accident
		{"S~ *12S~", Flaky, EvidenceFound, 6},
		{"S+ S- S+ *12S~", Flaky, EvidenceFound, 5},
		{"S+ S- S+ *12S- S+", Healthy, NoEvidence, 4},
		{"S+ S~ *12S+ P-#1 P+#1 S+", Flaky, EvidenceFound, 5},
		{"S+ S~ *12S+ P-#1 P-#1 S+", Healthy, NoEvidence, 3},
		{"S~& *12S~&", Healthy, NoEvidence, 3},
		{"S~& *12S~& *12S~", Flaky, EvidenceFound, 6},
		{"*9S~ *4S~", Healthy, NoEvidence, 3}, // noon between them makes it no two accidents
		{"*9S~ *13S~", Flaky, EvidenceFound, 6},
		{"S~ *300S~ *47S+", Flaky, StillFlaky, 3}, // the first is too old to count, the test is still flaky
		{"S+ S- S- S-", Broken, AlwaysFails, 0},
		{"S+ S- S-= S-=", Healthy, NoEvidence, 0}, // one commit
		{"S+ S- S-", Healthy, NoEvidence, 0},
		{"S- Q-#1 Q-#2", Broken, AlwaysFails, 0},
		{"P-#1 P-#2 P-#3", Healthy, NoEvidence, 0},
		{"S- S- S~", Healthy, NoEvidence, 3},
		{"S- S- S- S+", Healthy, PassedAgain, 0},
		{"S~ *12S~ S- S- S-", Broken, AlwaysFails, 6},
		{"S~ *12S~ S- S- S- S+", Flaky, EvidenceFound, 6},
	} {
		s := newStory(t)
		var j Judgement
		for _, word := range strings.Fields(c.runs) {
			s.tell(word)
			j = s.judge()
		}
		if j.Status != c.status || j.Code != c.code || fmt.Sprintf("%.1f", j.Score) != fmt.Sprintf("%.1f", c.score) {
			t.Errorf("%s\n is %s %s %.1f, want %s %s %.1f", c.runs, j.Status, j.Code, j.Score, c.status, c.code, c.score)
		}
		if want := c.score >= 3 && !s.history.Flaky; j.Suspected != want {
			t.Errorf("%s: suspected is %t", c.runs, j.Suspected)
		}
		if j.Reason() == "" {
			t.Errorf("%s: no reason", c.runs)
		}
	}
}

// A certificate ends at 11:30 and is renewed at 12:30: at both moments the same
// code passes and fails, on two half days. The test was broken, not flaky.
func TestBreakingAndRepairingIsNoFlakiness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		between string
		known   bool
		score   float64
	}{{"S- S- S- S- S- S- S-", false, 0}, {"S+ S- S+ S- S+ S- S+", true, 3}} {
		s := newStory(t)
		s.tell("*5S+ P~#1 " + c.between + " P~#2 S+")
		j := s.judge()
		if j.Status == Flaky || j.Score != c.score || s.history.Knows(5, s.at) != c.known {
			t.Errorf("%s between two contradictions: %s with %.1f, fingerprints known: %v", c.between, j.Status, j.Score, s.history.Known)
		}
	}
}

// A flaky test is healthy again after so many passes that its old rate would
// hardly have allowed, but not before three days, and in any case after 45.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate   float64
		passes int
		days   int
		want   ReasonCode
	}{
		{0.1, 29, 3, Recovered}, {0.1, 28, 3, StillFlaky}, {0.1, 28, 44, StillFlaky}, {0.1, 500, 2, StillFlaky},
		{0.001, 2000, 20, StillFlaky}, {0.001, 2995, 20, Recovered}, {0.001, 0, 45, EvidenceTooOld}, {0, 5000, 44, StillFlaky}, {1, 1, 3, Recovered},
	} {
		h := History{Flaky: true, Quarantined: true, LastAt: monday, Rate: c.rate, Passes: c.passes}
		j := h.Judge(monday.AddDate(0, 0, c.days), Tally{})
		if j.Code != c.want || j.Changed == (c.want == StillFlaky) || h.Quarantined != (c.want == StillFlaky) {
			t.Errorf("rate %g, %d passes, %d days: %s, changed %t, quarantined %t; want %s", c.rate, c.passes, c.days, j.Code, j.Changed, h.Quarantined, c.want)
		}
	}
}

// Passes are counted from the last evidence on, and the rate is that of the time
// when it was found.
func TestPassesSinceTheLastEvidence(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.tell("S+ S+ S~ *12S~")
	s.judge()
	s.tell("S+ S+ P+#4 P-#5!")
	s.judge()
	if s.history.Passes != 3 || s.history.Rate != 0.5 {
		t.Errorf("%d passes at rate %g, want 3 at 0.5", s.history.Passes, s.history.Rate)
	}
	s.tell("S~")
	s.judge()
	if s.history.Passes != 0 || s.history.Rate != 4.0/9 {
		t.Errorf("after new evidence: %d passes at rate %g", s.history.Passes, s.history.Rate)
	}
}

// A test that is not watched may miss passes: nothing comes of them but a later
// failure, and before that it is told of the last pass.
func TestUnwatchedPassesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"S+ P-#1 P+#1 S+", "S+ P-#1 S+ P-#1", "S+ P-#1 S+ *12S+", "S+ S- S+", "S- S- S- S+", "Q+#1 Q-#2 Q+#3", "S~ S+"} {
		s := newStory(t)
		s.tell(before)
		s.judge()
		if s.history.Watched() {
			t.Errorf("%s: still watched: %+v", before, s.history)
		}
	}
	for _, before := range []string{"S-", "S+ S-", "Q-#1", "S+ P-#1", "S+ P-#1 S+", "S~ *12S~", "S+ Q+#1 Q-#2"} {
		s := newStory(t)
		s.tell(before)
		s.judge()
		if !s.history.Watched() {
			t.Errorf("%s: not watched: %+v", before, s.history)
		}
	}
}

// However long a test fails in however many ways, its history stays small and
// survives being stored.
func TestAHistoryStaysSmall(t *testing.T) {
	t.Parallel()
	var h History
	for i := range 20_000 {
		at := monday.Add(time.Duration(i) * 10 * time.Minute)
		r := Run{ID: int64(i + 1), At: at, Trusted: true, Branch: fmt.Sprint("b", i%100), Commit: fmt.Sprint(i), PullRequests: []int{i},
			Kind: []Kind{Stable, Queue, PullRequest}[i%3]}
		f := Result{Failed: i%7 < 3, Passed: i%7 > 1, Fingerprint: Fingerprint(i)}
		h.Add(h.Observe(r, f, true)...)
		h.Add(Retried(r, []Result{f})...)
		h.Judge(at, Tally{Runs: i + 1, Failures: i / 2})
	}
	stored, err := json.Marshal(h)
	if err != nil || len(stored) > 32<<10 {
		t.Errorf("%d bytes, %v", len(stored), err)
	}
	for what, n := range map[string][2]int{"lines": {len(h.Lines), maxLines}, "pull requests": {len(h.PullRequests), maxPulls},
		"fingerprints": {len(h.Known), maxKnown}, "epochs": {len(h.Epochs), 29}} {
		if n[0] > n[1] {
			t.Errorf("%d %s", n[0], what)
		}
	}
	var back History
	if err := json.Unmarshal(stored, &back); err != nil || !reflect.DeepEqual(h, back) {
		t.Errorf("came back otherwise: %v\n%+v\n%+v", err, h, back)
	}
}

// A renamed test keeps what it was, and goes on where the new name is.
func TestJoinedHistories(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	evidence := func(days int, f Fingerprint) Evidence {
		return Evidence{Kind: SameCode, At: at.AddDate(0, 0, days), FailedRun: 1, PassedRun: 2, Fingerprint: f}
	}
	before, after := &History{Flaky: true, Lines: []Line{{Name: "old"}}}, &History{Lines: []Line{{Name: "new"}}, Stable: Tail{Run: 9}}
	before.Add(evidence(0, 1), evidence(1, 1))
	after.Add(evidence(3, 2))
	now := at.AddDate(0, 0, 4)
	h := Joined(before, after, []Evidence{evidence(3, 2)})
	if j := h.Judge(now, Tally{Runs: 10, Failures: 3}); j.Score != 9 || j.Epochs != 3 || j.Status != Flaky || h.Lines[0].Name != "new" || h.Stable.Run != 9 || !h.Knows(1, now) || !h.Knows(2, now) {
		t.Errorf("%+v of %+v", j, h)
	}
	if Joined(nil, after, nil) != after || Joined(before, nil, nil) != before || Joined(nil, nil, nil) != nil {
		t.Error("one of them alone is not the result")
	}
}
