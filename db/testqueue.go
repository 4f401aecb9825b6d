package db

import (
	"cmp"
	"fmt"
	"time"

	"signalbox/flaky"
	"signalbox/queue"
)

// keepTestCheck is for how long after its last upload a check is one whose jobs
// upload test results.
const keepTestCheck = 14 * 24 * time.Hour

// excusal is whether one failure of a test counts, and why.
type excusal struct {
	quarantined bool
	excused     bool
	code        flaky.QuarantineCode
}

// tellQueues tells the queues what an upload says about a commit that one of
// them may be testing: a run has it, or is being built and may have it in a
// moment. The fact is written in the transaction that enters the upload, so that
// none is ever without the other. Uploads that nobody vouches for tell nothing.
func (e *testEntry) tellQueues() error {
	if !e.run.Trusted {
		return nil
	}
	if err := e.noteCheck(); err != nil {
		return err
	}
	commit := cmp.Or(e.upload.Head, e.upload.Commit) // checks are reported on the head, not on its merge with the base
	if commit == "" {
		return nil
	}
	var tested bool
	if err := e.tx.GetContext(e.ctx, &tested, `
		SELECT EXISTS (SELECT 1 FROM runs r JOIN queues q ON q.id = r.queue_id
			WHERE q.repository_id = $1 AND (r.commit = $2 OR r.state = 'building'))`, e.upload.Repository, clean(commit)); err != nil {
		return fmt.Errorf("find out whether a queue tests the commit: %w", err)
	}
	if !tested {
		return nil
	}
	rows, err := rowsOfFacts([]queue.Fact{e.results(commit)})
	if err != nil {
		return err
	}
	return e.db.insertFacts(e.ctx, e.tx, queue.RepoID(e.upload.Repository), 0, rows)
}

// noteCheck remembers that jobs which report as this check upload results.
func (e *testEntry) noteCheck() error {
	check := clean(e.upload.Check)
	if check == "" {
		return nil
	}
	if _, err := e.tx.ExecContext(e.ctx, `
		INSERT INTO test_checks AS t (repository_id, name, seen_at) VALUES ($1, $2, $3)
		ON CONFLICT (repository_id, name) DO UPDATE SET seen_at = excluded.seen_at
		WHERE t.seen_at < excluded.seen_at - interval '1 day'`, e.upload.Repository, check, stamp(e.now)); err != nil {
		return fmt.Errorf("note that a check has test results: %w", err)
	}
	return nil
}

// results is what the upload says, for a queue: which tests failed in the end,
// and which of them count.
func (e *testEntry) results(commit string) queue.TestResults {
	u := e.upload
	f := queue.TestResults{
		Commit: clean(commit), Check: clean(u.Check), Job: clean(u.Job), Attempt: int64(max(u.Attempt, 1)), Upload: u.ID,
		Complete: e.read.Complete() && !u.Infrastructure && (u.ExitCode == nil || !flaky.Crash(*u.ExitCode)),
	}
	var blocking, excused []queue.FailingTest
	for i := range e.read.Tests {
		t := &e.read.Tests[i]
		if !t.Failed || t.Skipped || t.Passed && !t.Ambiguous {
			continue
		}
		test := e.failing(t)
		f.Failed++
		if test.Excused() {
			excused = append(excused, test)
			continue
		}
		f.Blocking++
		blocking = append(blocking, test)
	}
	all := append(blocking, excused...)
	f.Failing = all[:min(len(all), queue.MaxFailingTests)]
	return f
}

// failing is a failed test as a queue sees it. One that was left out because
// there are too many that nobody has seen before is new.
func (e *testEntry) failing(t *flaky.Seen) queue.FailingTest {
	test := queue.FailingTest{ID: t.ID.String(), Name: flaky.Shown(t.Name), Standing: queue.NewlyFailing}
	x := e.excusals[t.ID]
	test.Quarantined = x.quarantined
	test.NewFailure = x.quarantined && !x.excused
	row := e.rows[t.ID]
	if row == nil {
		return test
	}
	h := row.History.v
	onBase := h != nil && h.Stable.Fails > 0
	switch {
	case onBase && h.Broken:
		test.Standing = queue.FailingOnBase
	case x.quarantined || h != nil && h.Flaky:
		test.Standing = queue.KnownFlaky
	case onBase:
		test.Standing = queue.FailingOnBase
	}
	return test
}

// testChecks are the checks whose jobs upload test results, in a repository that
// excuses failures of quarantined tests; none in another.
const testChecks = `
	ARRAY(SELECT c.name FROM test_checks c WHERE c.repository_id = $11 AND c.seen_at > $12 AND (
		EXISTS (SELECT 1 FROM test_settings s WHERE s.repository_id = $11 AND s.automatic)
		OR EXISTS (SELECT 1 FROM test_cases t WHERE t.repository_id = $11 AND t.quarantined_at IS NOT NULL))
		ORDER BY c.seen_at DESC, c.name LIMIT 200)`
