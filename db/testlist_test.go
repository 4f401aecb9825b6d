package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/flaky"
)

// Numbered pages of tests: those in a state, and those that failed in a time,
// the last moment of which does not count. What failed for reasons outside of
// the tests did not fail.
func TestPagesOfTests(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	w.automatic()
	for i, names := range []string{"a~ b c d", "a~ b- c d", "a~ b- c d", "a~ b- c~ d"} {
		clock = epoch.Add(time.Duration(13*i) * time.Hour)
		w.send(report{hour: 13 * i, commit: fmt.Sprint(i), names: names})
	}
	w.send(report{hour: 39, commit: "p", sent: flaky.Sent{Facts: flaky.Facts{Pull: 7}}, names: "a- d-"})
	w.send(report{hour: 40, commit: "i", sent: flaky.Sent{Infrastructure: true, Facts: flaky.Facts{Branch: "x"}}, names: "d-"})
	at := func(hour int) time.Time { return epoch.Add(time.Duration(hour) * time.Hour) }
	for _, tt := range []struct {
		what string
		only flaky.Selection
		want string
	}{
		{"flaky", flaky.Selection{Show: flaky.ShowFlaky}, "a"},
		{"broken", flaky.Selection{Show: flaky.ShowBroken}, "b"},
		{"quarantined", flaky.Selection{Show: flaky.ShowQuarantined}, "a"},
		{"failed in a time", flaky.Selection{Show: flaky.ShowAll, FailedFrom: at(39), FailedTo: at(40)}, "b a d c"},
		{"failed before its end", flaky.Selection{Show: flaky.ShowAll, FailedFrom: at(0), FailedTo: at(13)}, "a"},
		{"failed in nothing that counts", flaky.Selection{Show: flaky.ShowAll, FailedFrom: at(40), FailedTo: at(41)}, ""},
	} {
		tests, total, err := w.TestPage(t.Context(), w.repo.ID, tt.only, 0, 10, at(41))
		w.must(err)
		var names []string
		for _, c := range tests {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != tt.want || total != len(names) {
			t.Errorf("%s: %q of %d, want %q", tt.what, got, total, tt.want)
		}
	}
	failed := flaky.Selection{Show: flaky.ShowAll, FailedFrom: at(39), FailedTo: at(40)}
	tests, total, err := w.TestPage(t.Context(), w.repo.ID, failed, 1, 2, at(41))
	if err != nil || total != 4 || len(tests) != 2 || tests[0].Name != "a" || tests[0].PullRequests != 1 || tests[1].PullRequests != 1 {
		t.Errorf("a part: %d %+v %v", total, tests, err)
	}
	if tests, total, err := w.TestPage(t.Context(), w.repo.ID+1, failed, 0, 10, at(41)); err != nil || total != 0 || len(tests) != 0 {
		t.Errorf("of another repository: %d %v %v", total, tests, err)
	}
}
