package db

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"signalbox/flaky"
)

// caseRow is a test with its history.
type caseRow struct {
	ID            int64                    `json:"id"`
	RepositoryID  int64                    `json:"repository_id"`
	TestID        uuid.UUID                `json:"test_id"`
	Name          string                   `json:"name"`
	Parent        string                   `json:"parent"`
	File          string                   `json:"file"`
	Classname     string                   `json:"classname"`
	Variant       string                   `json:"variant"`
	FirstSeen     stamp                    `json:"first_seen"`
	SeenOn        stamp                    `json:"seen_on"`
	StableSince   stamp                    `json:"stable_since"`
	StableOn      stamp                    `json:"stable_on"`
	Status        string                   `json:"status"`
	StatusAt      stamp                    `json:"status_at"`
	StatusCode    string                   `json:"status_code"`
	StatusReason  string                   `json:"status_reason"`
	Suspected     bool                     `json:"suspected"`
	Score         float64                  `json:"score"`
	Setting       string                   `json:"setting"`
	Owner         string                   `json:"owner"`
	Reason        string                   `json:"reason"`
	Actor         string                   `json:"actor"`
	ExpiresAt     stamp                    `json:"expires_at"`
	QuarantinedAt stamp                    `json:"quarantined_at"`
	Watched       bool                     `json:"watched"`
	History       document[*flaky.History] `json:"history"`
}

// judgedColumns are those of caseRow that a judgement reads and writes.
const judgedColumns = `id, repository_id, test_id, status, status_at, status_code, status_reason, suspected, score,
	setting, owner, reason, actor, expires_at, quarantined_at, watched, history`

func (r *caseRow) override() flaky.Override {
	return flaky.Override{Setting: flaky.Setting(r.Setting), Owner: r.Owner, Reason: r.Reason, Actor: r.Actor, Expires: time.Time(r.ExpiresAt)}
}

// names are what the test is known by.
func (r *caseRow) names() flaky.Test {
	return flaky.Test{File: r.File, Classname: r.Classname, Parent: r.Parent, Name: r.Name, Variant: r.Variant}
}

func newCase(u flaky.Upload, t *flaky.Seen, at time.Time) caseRow {
	return caseRow{RepositoryID: u.Repository, TestID: t.ID, Name: flaky.Shown(t.Name), Parent: flaky.Shown(t.Parent), File: flaky.Shown(t.File),
		Classname: flaky.Shown(t.Classname), Variant: flaky.Shown(t.Variant), FirstSeen: stamp(at), SeenOn: stamp(at), StatusAt: stamp(at)}
}

// makeCases inserts tests that nobody has seen before.
func (e *testEntry) makeCases(fresh []caseRow) error {
	for part := range slices.Chunk(fresh, 5000) {
		text, err := encode(part)
		if err != nil {
			return err
		}
		if _, err := e.tx.ExecContext(e.ctx, `
			INSERT INTO test_cases (repository_id, test_id, name, parent, file, classname, variant, first_seen, seen_on, status_at, stable_since, stable_on)
			SELECT repository_id, test_id, name, parent, file, classname, variant, first_seen, seen_on, status_at, stable_since, stable_on
			FROM json_populate_recordset(NULL::test_cases, $1) ON CONFLICT (repository_id, test_id) DO NOTHING`, text); err != nil {
			return fmt.Errorf("make tests: %w", err)
		}
	}
	return nil
}

// earlier is an upload that came before.
type earlier struct {
	ID  int64               `json:"id"`
	At  stamp               `json:"at"`
	Run document[flaky.Run] `json:"run"`
}

// judge enters the run into the histories of its tests, and judges those that
// it changed.
func (e *testEntry) judge() error {
	same, last, err := e.before()
	if err != nil {
		return err
	}
	arrival := flaky.Arrival{Run: e.run, Passed: e.passed(e.outcomes)}
	for i := range e.failed {
		arrival.Failures = append(arrival.Failures, e.failed[i].Result)
	}
	if err := e.histories(same); err != nil {
		return err
	}
	histories := map[uuid.UUID]*flaky.History{}
	for id, row := range e.rows {
		if row.History.v != nil {
			histories[id] = row.History.v
		}
	}
	entered := flaky.Enter(arrival, histories, same, last)
	if err := e.keepEvidence(entered.Evidence); err != nil {
		return err
	}
	return e.settle(entered.Touched, histories)
}

// passed tells by numbers which tests passed.
func (e *testEntry) passed(o outcomes) func(uuid.UUID) bool {
	return func(id uuid.UUID) bool { return o.passed(e.numbers[id]) }
}

// before finds the runs of the same code. If anything failed it finds the newest of each
// line as well, for whoever begins to be watched.
func (e *testEntry) before() (same, last []flaky.Arrival, err error) {
	since := stamp(e.run.At.Add(-flaky.Window))
	var rows []earlier
	if err := e.tx.SelectContext(e.ctx, &rows, `
		SELECT id, at, run FROM test_uploads
		WHERE id IN (
			SELECT id FROM (SELECT id FROM test_uploads WHERE repository_id = $1 AND tree = $2 AND $2 <> '' AND entered_at IS NOT NULL ORDER BY id DESC LIMIT $4) t
			UNION SELECT id FROM (SELECT id FROM test_uploads WHERE repository_id = $1 AND commit = $3 AND $3 <> '' AND entered_at IS NOT NULL ORDER BY id DESC LIMIT $4) c)
			AND at >= $5 ORDER BY id`, e.upload.Repository, clean(e.run.Tree), clean(e.run.Commit), maxSame, since); err != nil {
		return nil, nil, fmt.Errorf("find runs of the same code: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(r earlier) bool { return !r.Run.v.SameCodeAs(e.run) })
	if same, err = e.arrivals(rows); err != nil {
		return nil, nil, err
	}
	for i := range same {
		if same[i].Failures, err = e.failuresOf(same[i].Run.ID, same[i].Run.At); err != nil {
			return nil, nil, err
		}
	}
	if len(e.failed) == 0 {
		return same, nil, nil
	}
	var lines []earlier
	if err := e.tx.SelectContext(e.ctx, &lines, `
		SELECT id, at, run FROM (
			SELECT DISTINCT ON (line) id, run, at FROM test_uploads
			WHERE repository_id = $1 AND line <> '' AND entered_at IS NOT NULL AND at >= $2 ORDER BY line, at DESC) u
		ORDER BY at`, e.upload.Repository, since); err != nil {
		return nil, nil, fmt.Errorf("find the newest runs: %w", err)
	}
	last, err = e.arrivals(lines)
	return same, last, err
}

// arrivals are uploads with what their tests did, without those whose results were
// dropped.
func (e *testEntry) arrivals(uploads []earlier) ([]flaky.Arrival, error) {
	if len(uploads) == 0 {
		return nil, nil
	}
	var days []string
	var ids []int64
	for _, u := range uploads {
		days, ids = append(days, day(u.At.time())), append(ids, u.ID)
	}
	var rows []struct {
		ID     int64  `json:"upload_id"`
		Packed []byte `json:"packed"`
	}
	// The days let Postgres leave out the partitions of all others.
	if err := e.tx.SelectContext(e.ctx, &rows, `SELECT upload_id, packed FROM test_results WHERE day = ANY($1::date[]) AND upload_id = ANY($2)`,
		pq.Array(days), pq.Array(ids)); err != nil {
		return nil, fmt.Errorf("read results of earlier runs: %w", err)
	}
	did := map[int64]outcomes{}
	for _, r := range rows {
		o, err := unpackOutcomes(r.Packed)
		if err != nil {
			return nil, err
		}
		did[r.ID] = o
	}
	var all []flaky.Arrival
	for _, u := range uploads {
		if o, kept := did[u.ID]; kept {
			all = append(all, flaky.Arrival{Run: u.Run.v, Passed: e.passed(o)})
		}
	}
	return all, nil
}

// failuresOf are the failures of an upload that came before.
func (e *testEntry) failuresOf(upload int64, at time.Time) ([]flaky.Result, error) {
	var rows []struct {
		CaseID      int64     `json:"case_id"`
		TestID      uuid.UUID `json:"test_id"`
		Fingerprint int64     `json:"fingerprint"`
		Passed      bool      `json:"passed"`
		Ambiguous   bool      `json:"ambiguous"`
	}
	if err := e.tx.SelectContext(e.ctx, &rows, `
		SELECT f.case_id, t.test_id, f.fingerprint, f.passed, f.ambiguous FROM test_failures f JOIN test_cases t ON t.id = f.case_id
		WHERE f.day = $1 AND f.upload_id = $2`, day(at), upload); err != nil {
		return nil, fmt.Errorf("read the failures of an upload: %w", err)
	}
	results := make([]flaky.Result, len(rows))
	for i, r := range rows {
		results[i] = flaky.Result{Test: r.TestID, Failed: true, Passed: r.Passed, Ambiguous: r.Ambiguous, Fingerprint: flaky.Fingerprint(r.Fingerprint)}
	}
	return results, nil
}

// histories reads the tests that failed now or in a run of the same code, and
// those of this run that are watched.
func (e *testEntry) histories(same []flaky.Arrival) error {
	var failed []uuid.UUID
	for i := range e.failed {
		failed = append(failed, e.failed[i].ID)
	}
	for _, s := range same {
		for _, f := range s.Failures {
			failed = append(failed, f.Test)
		}
	}
	var watched []int64
	if err := e.tx.SelectContext(e.ctx, &watched, `SELECT id FROM test_cases WHERE repository_id = $1 AND watched`, e.upload.Repository); err != nil {
		return fmt.Errorf("find tests whose passes count: %w", err)
	}
	watched = slices.DeleteFunc(watched, func(n int64) bool { _, ran := e.outcomes.of(n); return !ran })
	var rows []caseRow
	if err := e.tx.SelectContext(e.ctx, &rows, `
		SELECT `+judgedColumns+` FROM test_cases WHERE id IN (
			SELECT id FROM test_cases WHERE repository_id = $1 AND test_id = ANY($2::uuid[]) UNION SELECT unnest($3::bigint[]))`, e.upload.Repository, uuids(failed), pq.Array(watched)); err != nil {
		return fmt.Errorf("read the histories of tests: %w", err)
	}
	for i := range rows {
		e.rows[rows[i].TestID] = &rows[i]
	}
	return nil
}

// evidenceRow is a piece of evidence.
type evidenceRow struct {
	CaseID      int64  `json:"case_id"`
	Kind        string `json:"kind"`
	At          stamp  `json:"at"`
	Failed      int64  `json:"failed_upload"`
	Passed      int64  `json:"passed_upload"`
	PR          int    `json:"pr"`
	Fingerprint int64  `json:"fingerprint"`
	FoundAt     stamp  `json:"found_at"`
	Crowded     bool   `json:"crowded"`
}

// evidenceColumns are those of evidenceRow.
const evidenceColumns = `case_id, kind, at, failed_upload, passed_upload, pr, fingerprint, found_at, coalesce(crowded, false) AS crowded`

func (r *evidenceRow) evidence(test uuid.UUID) flaky.Evidence {
	return flaky.Evidence{Test: test, Kind: flaky.EvidenceKind(r.Kind), At: r.At.time(), FailedRun: r.Failed, PassedRun: r.Passed,
		PullRequest: r.PR, Fingerprint: flaky.Fingerprint(r.Fingerprint), Crowded: r.Crowded}
}

func (e *testEntry) keepEvidence(found []flaky.Evidence) error {
	var rows []evidenceRow
	for _, f := range found {
		row := e.rows[f.Test]
		if row == nil {
			continue // Unreachable: evidence is about tests that failed
		}
		rows = append(rows, evidenceRow{row.ID, string(f.Kind), stamp(f.At), f.FailedRun, f.PassedRun, f.PullRequest, int64(f.Fingerprint), stamp(e.now), f.Crowded})
	}
	return e.insert("test_evidence", rows, len(rows))
}

// insert adds rows to a table. One that is there already stays as it is.
func (e *testEntry) insert(table string, rows any, n int) error {
	if n == 0 {
		return nil
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := e.tx.ExecContext(e.ctx, `INSERT INTO `+table+` SELECT * FROM json_populate_recordset(NULL::`+table+`, $1) ON CONFLICT DO NOTHING`, text); err != nil {
		return fmt.Errorf("insert into %s: %w", table, err)
	}
	return nil
}

// settle judges tests and stores what they are now.
func (e *testEntry) settle(touched []uuid.UUID, histories map[uuid.UUID]*flaky.History) error {
	var numbers []int64
	for _, id := range touched {
		numbers = append(numbers, e.rows[id].ID)
	}
	counts, err := talliesOf(e.ctx, e.tx, "test_days", e.upload.Repository, numbers, e.now.Add(-flaky.Window), e.now)
	if err != nil {
		return err
	}
	var rows []caseRow
	var changes []changeRow
	for _, id := range touched {
		row := e.rows[id]
		changes = append(changes, row.judge(histories[id], e.rules, counts[row.ID], e.now, e.upload.ID)...)
		rows = append(rows, *row)
	}
	return e.db.storeJudged(e.ctx, e.tx, rows, changes)
}

// changeRow is a line of what changed about a test.
type changeRow struct {
	CaseID   int64   `json:"case_id"`
	At       stamp   `json:"at"`
	What     string  `json:"what"`
	Before   string  `json:"before"`
	After    string  `json:"after"`
	Code     string  `json:"code"`
	Reason   string  `json:"reason"`
	Actor    string  `json:"actor"`
	UploadID *int64  `json:"upload_id"`
	Score    float64 `json:"score"`
	// settingBefore is what had been decided about the test, where a person
	// decides anew; "" = what is decided now. It is told and not kept.
	settingBefore string
}

func (c *changeRow) change() flaky.Change {
	change := flaky.Change{At: c.At.time(), What: c.What, Before: c.Before, After: c.After, Code: c.Code, Reason: c.Reason, Actor: c.Actor, Score: c.Score}
	if c.UploadID != nil {
		change.Upload = *c.UploadID
	}
	return change
}

// judge moves a test to where it should be and says what changed. upload is the
// run that made the difference; 0 is time or a person.
func (r *caseRow) judge(h *flaky.History, rules flaky.Rules, tally flaky.Tally, now time.Time, upload int64) []changeRow {
	var changes []changeRow
	change := changeRow{CaseID: r.ID, At: stamp(now), Score: r.Score}
	if upload != 0 {
		change.UploadID = &upload
	}
	if h != nil {
		j := h.Judge(now, tally)
		r.History.v, r.Watched, r.Suspected, r.Score = h, h.Watched(), j.Suspected, j.Score
		change.Score = j.Score
		if string(j.Status) != r.Status {
			status := change
			status.What, status.Before, status.After, status.Code, status.Reason = "status", r.Status, string(j.Status), string(j.Code), j.Reason()
			changes = append(changes, status)
			r.StatusAt = stamp(now)
		}
		r.Status, r.StatusCode, r.StatusReason = string(j.Status), string(j.Code), j.Reason()
	}
	q := rules.Decide(h, r.override(), now)
	if was := !time.Time(r.QuarantinedAt).IsZero(); was != q.On {
		change.What, change.Before, change.After, change.Code = "quarantine", onOff(was), onOff(q.On), string(q.Code)
		change.Reason = cmp.Or(r.override().Reason, r.StatusReason)
		changes = append(changes, change)
		r.QuarantinedAt = stamp{}
		if q.On {
			r.QuarantinedAt = stamp(now)
		}
	}
	return changes
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// failureRow is a failure as its table has it.
type failureRow struct {
	Day         string `json:"day"`
	CaseID      int64  `json:"case_id"`
	UploadID    int64  `json:"upload_id"`
	At          stamp  `json:"at"`
	Fingerprint int64  `json:"fingerprint"`
	Summary     string `json:"summary"`
	Kind        string `json:"kind"`
	Message     string `json:"message"`
	Body        string `json:"body"`
	Passed      bool   `json:"passed"`
	Ambiguous   bool   `json:"ambiguous"`
	Excused     bool   `json:"excused"`
	Code        string `json:"code"`
}

// failures stores the rows of what failed.
func (e *testEntry) failures() error {
	var rows []failureRow
	for i := range e.failed {
		f := &e.failed[i]
		row := e.rows[f.ID]
		quarantine := e.rules.Decide(row.History.v, row.override(), e.now)
		excused, code := quarantine.Excuses(row.History.v, f.Fingerprint, e.now)
		e.excusals[f.ID] = excusal{quarantine.On, excused, code}
		rows = append(rows, failureRow{day(e.run.At), row.ID, e.upload.ID, stamp(e.run.At), int64(f.Fingerprint), f.Summary, f.Failure.Type, f.Failure.Message, f.Failure.Text,
			f.Passed, f.Ambiguous, excused, string(code)})
	}
	for part := range slices.Chunk(rows, 1000) {
		if err := e.insert("test_failures", part, len(part)); err != nil {
			return err
		}
	}
	if e.run.Infrastructure || len(rows) == 0 {
		return nil
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := e.tx.ExecContext(e.ctx, `
		INSERT INTO test_fingerprints AS t (case_id, day, fingerprint, summary, count, last_at)
		SELECT case_id, day, fingerprint, summary, 1, at FROM json_populate_recordset(NULL::test_failures, $1)
		ON CONFLICT (case_id, day, fingerprint) DO UPDATE SET count = t.count + 1, last_at = greatest(t.last_at, excluded.last_at)`, text); err != nil {
		return fmt.Errorf("count kinds of failures: %w", err)
	}
	if _, err := e.tx.ExecContext(e.ctx, `
		INSERT INTO test_pulls (case_id, day, pr) SELECT f.case_id, f.day, p FROM json_populate_recordset(NULL::test_failures, $1) f, unnest($2::bigint[]) p
		ON CONFLICT DO NOTHING`, text, pq.Array(e.tested)); err != nil {
		return fmt.Errorf("note pull requests on which tests failed: %w", err)
	}
	return nil
}
