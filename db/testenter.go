package db

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/flaky"
)

// maxSame bounds the earlier runs of the same code that an upload is compared
// with: of a commit that is run a thousand times, the newest are enough.
const maxSame = 20

// entry is the work of entering one upload, step by step, in one transaction.
type testEntry struct {
	db     *DB
	ctx    context.Context
	tx     *sqlx.Tx
	now    time.Time
	upload flaky.Upload
	read   flaky.Read
	run    flaky.Run
	rules  flaky.Rules
	tested []int64 // pull requests that a failure counts for

	renames  int64                   // of the repository's tests so far
	numbers  map[uuid.UUID]int64     // of the tests of this upload
	fresh    []int64                 // of tests that nobody has seen before
	unseen   map[uuid.UUID]knownTest // of which it is not noted yet that they run on this day
	learned  map[uuid.UUID]knownTest // what is to be remembered when all this is committed
	outcomes outcomes                // of those that ran
	failed   []flaky.Seen
	excusals map[uuid.UUID]excusal  // of what failed
	rows     map[uuid.UUID]*caseRow // tests whose history is at hand
}

// EnterUpload stores what was read of an upload and all that follows from it,
// in one transaction: results, counters, evidence, states and quarantines, and
// what the queues must hear of it. The
// uploads of a repository are entered one after the other. An upload that was
// entered already is left as it is.
func (db *DB) EnterUpload(ctx context.Context, u flaky.Upload, read flaky.Read) error {
	now := db.clock()
	var e *testEntry
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		e = nil // of a try that was rolled back
		if err := lockTests(ctx, tx, u.Repository); err != nil {
			return err
		}
		var waits bool
		if err := tx.GetContext(ctx, &waits, `SELECT entered_at IS NULL FROM test_uploads WHERE id = $1 FOR UPDATE`, u.ID); err != nil || !waits {
			return err
		}
		e = &testEntry{db: db, ctx: ctx, tx: tx, now: now, upload: u, read: read, numbers: map[uuid.UUID]int64{}, unseen: map[uuid.UUID]knownTest{},
			learned: map[uuid.UUID]knownTest{}, rows: map[uuid.UUID]*caseRow{}, excusals: map[uuid.UUID]excusal{}}
		return e.all()
	})
	if err == nil && e != nil {
		db.numbers.learn(u.Repository, e.renames, e.learned)
	}
	return fail(fmt.Sprintf("enter test report %d", u.ID), err)
}

func (e *testEntry) all() (err error) {
	known, err := e.unwrap()
	if err != nil {
		return err
	}
	if known != 0 {
		e.read.Tests = nil
		e.read.Notes = append(e.read.Notes, flaky.Note{Code: "UPLOADED_BEFORE", Count: 1,
			Text: fmt.Sprintf("The same reports of this attempt of the job came before, as upload %d, and count once.", known)})
	}
	if e.run, e.tested, err = place(e.ctx, e.tx, e.upload); err != nil {
		return err
	}
	if e.rules, err = rulesOf(e.ctx, e.tx, e.upload.Repository); err != nil {
		return err
	}
	if e.run.At = e.read.At; e.run.At.IsZero() || e.run.At.After(e.upload.Received) {
		e.run.At = e.upload.Received
	}
	for _, step := range []func() error{e.aliases, e.tests, e.owners, e.count, e.judge, e.failures, e.tellQueues, e.finish} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mostNew bounds the tests that an upload may bring to a repository that has
// tests already: names that change every run are no tests.
func mostNew(known, ran int) int {
	if known == 0 {
		return ran
	}
	return max(1000, ran/2)
}

// tests finds the numbers of the upload's tests and makes those that are new.
func (e *testEntry) tests() error {
	ids := make([]uuid.UUID, len(e.read.Tests))
	for i := range e.read.Tests {
		ids[i] = e.read.Tests[i].ID
	}
	var known int
	if err := e.tx.GetContext(e.ctx, &known, `SELECT count(*) FROM (SELECT 1 FROM test_cases WHERE repository_id = $1 LIMIT 1) t`, e.upload.Repository); err != nil {
		return fmt.Errorf("find out whether there are tests: %w", err)
	}
	if err := e.look(ids); err != nil {
		return err
	}
	var fresh []caseRow
	var freshIDs []uuid.UUID
	isFresh := map[uuid.UUID]bool{}
	dropped := 0
	for i := range e.read.Tests {
		t := &e.read.Tests[i]
		if _, have := e.numbers[t.ID]; have {
			continue
		}
		if len(fresh) == mostNew(known, len(ids)) {
			dropped++
			continue
		}
		e.numbers[t.ID], isFresh[t.ID] = 0, true
		row := newCase(e.upload, t, e.run.At)
		if e.onStable() {
			row.StableSince, row.StableOn = row.SeenOn, row.SeenOn
		}
		fresh, freshIDs = append(fresh, row), append(freshIDs, t.ID)
	}
	if dropped > 0 {
		e.read.Notes = append(e.read.Notes, flaky.Note{Code: "TOO_MANY_NEW_TESTS", Count: dropped,
			Text: fmt.Sprintf(flaky.Worded(dropped, "%d {test is|tests are} left out because the repository has never seen {it|them} and there are too many of that kind. Do their names change with every run?"), dropped)})
	}
	if err := e.makeCases(fresh); err != nil {
		return err
	}
	if err := e.look(freshIDs); err != nil {
		return err
	}
	ran := make([]outcome, 0, len(ids))
	for i := range e.read.Tests {
		t := &e.read.Tests[i]
		number := e.numbers[t.ID]
		if number != 0 && isFresh[t.ID] {
			e.fresh = append(e.fresh, number)
		}
		if number == 0 || t.Skipped {
			continue
		}
		ran = append(ran, outcome{number, outcomeOf(t.Result)})
		if t.Failed {
			e.failed = append(e.failed, *t)
		}
	}
	e.outcomes = inOrder(ran)
	e.run.Tests, e.run.Failed = len(e.outcomes), len(e.failed)
	return e.seen()
}

// seen notes the day on which tests ran, once a day.
func (e *testEntry) seen() error {
	var unseen []int64
	for id, n := range e.unseen {
		if _, ran := e.outcomes.of(n.number); !ran {
			continue
		}
		unseen = append(unseen, n.number)
		n.seen = max(n.seen, epochDay(e.run.At))
		if e.onStable() {
			n.stable = max(n.stable, epochDay(e.run.At))
		}
		e.learned[id] = n
	}
	if len(unseen) == 0 {
		return nil
	}
	_, err := e.tx.ExecContext(e.ctx, `
		UPDATE test_cases SET seen_on = greatest(seen_on, $2::date),
			stable_since = CASE WHEN $4 THEN coalesce(stable_since, $2) ELSE stable_since END,
			stable_on = CASE WHEN $4 THEN greatest(stable_on, $2) ELSE stable_on END
		WHERE repository_id = $1 AND id = ANY($3)`,
		e.upload.Repository, day(e.run.At), pq.Array(unseen), e.onStable())
	if err != nil {
		return fmt.Errorf("note that tests ran: %w", err)
	}
	return nil
}

// onStable reports whether the names in the upload are all that ran in it on a
// stable branch.
func (e *testEntry) onStable() bool {
	return e.run.Kind == flaky.Stable && e.run.Trusted && !e.run.Infrastructure && e.read.Complete()
}

// look finds the numbers of tests by their ids, and those of which this day is
// not noted yet.
func (e *testEntry) look(ids []uuid.UUID) error {
	today, stable := epochDay(e.run.At), e.onStable()
	take := func(id uuid.UUID, n knownTest) {
		e.numbers[id] = n.number
		if n.seen < today || stable && n.stable < today {
			e.unseen[id] = n
		}
	}
	return e.ask(e.db.numbers.find(e.upload.Repository, e.renames, ids, take), take)
}

// ask yields tests that are not remembered. There may be a hundred thousand: they
// come as one value, because rows would take longer to read than to find.
func (e *testEntry) ask(ids []uuid.UUID, yield func(uuid.UUID, knownTest)) error {
	if len(ids) == 0 {
		return nil
	}
	var found []byte
	if err := e.tx.GetContext(e.ctx, &found, `
		SELECT coalesce(string_agg(int4send(u.place::int) || int8send(t.id) ||
			int4send(t.seen_on - date '1970-01-01') || int4send(coalesce(t.stable_on - date '1970-01-01', 0)), ''), '')
		FROM unnest($2::uuid[]) WITH ORDINALITY AS u(id, place) JOIN test_cases t ON t.repository_id = $1 AND t.test_id = u.id`,
		e.upload.Repository, uuids(ids)); err != nil {
		return fmt.Errorf("find tests: %w", err)
	}
	const size = 4 + 8 + 4 + 4
	for ; len(found) >= size; found = found[size:] {
		id := ids[binary.BigEndian.Uint32(found)-1]
		n := knownTest{int64(binary.BigEndian.Uint64(found[4:])), int32(binary.BigEndian.Uint32(found[12:])), int32(binary.BigEndian.Uint32(found[16:]))}
		e.learned[id] = n
		yield(id, n)
	}
	return nil
}

// uuids is an array of Postgres.
func uuids(ids []uuid.UUID) string {
	b := make([]byte, 0, 37*len(ids)+2)
	b = append(b, '{')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, id.String()...)
	}
	return string(append(b, '}'))
}

// day is the day of a moment, in UTC, as a parameter.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// count adds the upload to the counters of its hour and its day. A run that was
// marked as an infrastructure failure counts nowhere.
func (e *testEntry) count() error {
	if e.run.Infrastructure || len(e.outcomes) == 0 {
		return nil
	}
	chunks := map[int64]outcomes{}
	for rest := e.outcomes; len(rest) > 0; {
		c := rest[0].number / chunkSize
		n, _ := slices.BinarySearchFunc(rest, (c+1)*chunkSize, outcome.against)
		chunks[c], rest = rest[:n], rest[n:]
	}
	at := e.run.At.UTC()
	for table, start := range map[string]time.Time{"test_hours": at.Truncate(time.Hour), "test_days": at.Truncate(24 * time.Hour)} {
		if err := e.countIn(table, start, chunks); err != nil {
			return fmt.Errorf("count in %s: %w", table, err)
		}
	}
	return nil
}

func (e *testEntry) countIn(table string, start time.Time, chunks map[int64]outcomes) error {
	numbers := make([]int64, 0, len(chunks))
	for c := range chunks {
		numbers = append(numbers, c)
	}
	var old []struct {
		Chunk  int64  `json:"chunk"`
		Counts []byte `json:"counts"`
	}
	if err := e.tx.SelectContext(e.ctx, &old, `SELECT chunk, counts FROM `+table+` WHERE repository_id = $1 AND at = $2 AND chunk = ANY($3)`,
		e.upload.Repository, stamp(start), pq.Array(numbers)); err != nil {
		return err
	}
	before := map[int64][]byte{}
	for _, o := range old {
		before[o.Chunk] = o.Counts
	}
	packed := make([][]byte, len(numbers))
	for i, c := range numbers {
		var sum tallies
		if err := sum.add(before[c]); err != nil {
			return err
		}
		for _, of := range chunks[c] {
			place := of.number % chunkSize
			sum[place] = sum[place].Plus(flaky.Tally{Runs: 1, Failures: int(of.bits & bitFailed)})
		}
		packed[i] = sum.pack()
	}
	_, err := e.tx.ExecContext(e.ctx, `
		INSERT INTO `+table+` (repository_id, chunk, at, counts) SELECT $1, c, $2, p FROM unnest($3::bigint[], $4::bytea[]) AS u(c, p)
		ON CONFLICT (repository_id, chunk, at) DO UPDATE SET counts = excluded.counts`, e.upload.Repository, stamp(start), pq.Array(numbers), pq.Array(packed))
	return err
}

// finish marks the upload as entered.
func (e *testEntry) finish() error {
	if _, err := e.tx.ExecContext(e.ctx, `INSERT INTO test_results (day, upload_id, packed) VALUES ($1, $2, $3)`, day(e.run.At), e.upload.ID, e.outcomes.pack()); err != nil {
		return fmt.Errorf("store results: %w", err)
	}
	run, err := encode(e.run)
	if err != nil {
		return err
	}
	notes, err := encode(append([]flaky.Note{}, e.read.Notes...))
	if err != nil {
		return err
	}
	sent, err := encode(e.upload.Sent)
	if err != nil {
		return err
	}
	_, err = e.tx.ExecContext(e.ctx, `
		UPDATE test_uploads SET entered_at = $2, body = NULL, line = $3, run = $4, tree = $5, at = $6, tests = $7, failed = $8, skipped = $9, complete = $10, notes = $11,
			sent = $12, commit = $13
		WHERE id = $1`, e.upload.ID, stamp(e.now), clean(e.run.Line()), run, clean(e.run.Tree), stamp(e.run.At), e.run.Tests, e.run.Failed, e.read.Skipped(), e.read.Complete(), notes,
		sent, clean(e.upload.Commit))
	if err != nil {
		return fmt.Errorf("mark the upload as entered: %w", err)
	}
	return nil
}
