package db_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/flaky"
)

// BC-103. A test that fails everywhere is broken: it is never quarantined by
// itself, and by hand only with somebody who repairs it and an end.
func TestBC103BrokenIsNotFlaky(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	w.automatic()
	w.send(report{hour: 0, commit: "0", names: "a b"})
	for i := range 8 {
		clock = epoch.Add(time.Duration(6*(i+1)) * time.Hour)
		sent := flaky.Sent{}
		if i%2 == 0 {
			sent.Pull = 100 + i
		}
		for attempt := range 2 {
			sent.Attempt = attempt + 1
			w.send(report{hour: 6 * (i + 1), commit: fmt.Sprint("c", i), sent: sent, names: "a- b"})
		}
		if d := w.details("a", 6*(i+1)); !d.QuarantinedAt.IsZero() || d.Status == flaky.Flaky {
			t.Fatalf("after %d runs: %+v", 2*(i+1), d.TestCase)
		}
	}
	if d := w.details("a", 48); d.Status != flaky.Broken {
		t.Errorf("at the end: %+v", d.TestCase)
	}
	if err := (flaky.Override{Setting: flaky.Always, Reason: "x"}).Check(clock); err == nil {
		t.Error("somebody may excuse it for ever")
	}
}

// BC-104. A shard that is sent twice counts once; a retry in which the test passes
// hides no failure; and a late copy of the first attempt changes nothing.
func TestBC104CopiesAndRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upload := func(attempt int, names string) bool {
		t.Helper()
		u := flaky.Upload{Repository: int64(w.repo.ID), Received: epoch, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: "c", Branch: "main", Job: "7/shard1", Attempt: attempt}}}
		key := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", names, u.Job, attempt)) // as the API makes it: content, job, attempt
		id, fresh, err := w.AddUpload(t.Context(), u, key, []byte(names))
		w.must(err)
		if u.ID = id; fresh {
			w.must(w.EnterUpload(t.Context(), u, readOf(names)))
		}
		return fresh
	}
	for n, step := range []struct {
		attempt int
		names   string
		fresh   bool
	}{{1, "a- b", true}, {1, "a- b", false}, {2, "a b", true}, {1, "a- b", false}} {
		if got := upload(step.attempt, step.names); got != step.fresh {
			t.Errorf("step %d: new is %v", n, got)
		}
	}
	if d := w.details("a", 1); d.Week != (flaky.Tally{Runs: 2, Failures: 1}) || d.Score != 3 {
		t.Errorf("%+v", d)
	}
	if got := w.column(`SELECT kind FROM test_evidence`); got != "same_code" {
		t.Errorf("evidence: %s", got)
	}
}
