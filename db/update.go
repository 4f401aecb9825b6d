package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// foldAtOnce bounds the facts that one decision folds, and so the memory it
// takes. What remains makes the queue due again.
const foldAtOnce = 5000

// claimAmong is among how many queues that time alone made due, those that have
// been due for the longest, one is claimed: more than programs decide on at once,
// and few, for after a start every queue is due.
const claimAmong = 200

// errNotDue ends a transaction that claimed a queue which somebody else had
// just served.
var errNotDue = errors.New("not due")

// folded is what one decision took from the inbox and what it gave back.
type folded struct {
	id      queue.ID
	turn    int64   // of the queue, since the decision
	gathers bool    // facts for the queue, since the decision
	facts   []int64 // ids, dropped ones too
	// wishes are those that came from memory. Their ids among the facts are
	// below zero: see wishID.
	wishes []*wish
	before string                    // the queueText that the decision began with
	runs   map[queue.RunID]runBefore // of the window, as they were then
	plan   queue.Plan
	// answers are those of wishes, dropped ones too.
	answers map[int64]queue.Answer
	// snapshot is the window as the decision left it, for people who wait for
	// an answer here; nil when nobody does.
	snapshot *queue.Snapshot
}

// UpdateDue makes one decision on one queue that is due: see engine.Store. A
// queue is due when unread facts wait for it or its wake time has passed,
// unless it is postponed; of those that are due, the one whose last decision
// is the longest ago comes first. now is cut to the microsecond, which is what
// the database keeps, before decide sees it.
//
// What decide leaves in the snapshot must be what its plan makes of the queue:
// it is what those who wait for an answer are shown.
//
// The id is 0 when no queue was due. With again, the caller calls again: facts that
// came for the queue meanwhile need not have woken anybody. Where they gather, their
// end wakes somebody. Where other queues are due as well, somebody else is woken at
// the beginning.
//
// When decide panics, the transaction is rolled back and the panic goes on.
// With an error, id says which queue it was about, 0 if none was claimed.
func (db *DB) UpdateDue(ctx context.Context, now time.Time, decide func(*queue.Snapshot, []queue.Received, time.Time) queue.Plan) (id queue.ID, again bool, err error) {
	now = now.UTC().Truncate(time.Microsecond)
	for {
		var done folded
		err := db.updateOne(ctx, now, decide, &done)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return 0, false, nil
		case errors.Is(err, errNotDue):
			continue
		case err != nil:
			return done.id, false, fail(fmt.Sprintf("decide on queue %d", done.id), err)
		}
		return done.id, !done.gathers, nil
	}
}

// updateOne makes one decision. Whatever becomes of it, also when decide panics,
// nobody waits for ever: see giveBack.
func (db *DB) updateOne(ctx context.Context, now time.Time, decide func(*queue.Snapshot, []queue.Received, time.Time) queue.Plan, done *folded) error {
	defer db.giveBack(done)
	since := db.reports.now()
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		db.giveBack(done) // of a try that others got in the way of
		*done = folded{answers: map[int64]queue.Answer{}}
		return db.update(ctx, tx, now, decide, done)
	})
	switch {
	case err == nil:
		db.reports.keep(since, done)
		db.saved(ctx, now, done)
	case unreachable(err): // it may even have been committed: only who wished can find out
		done.answerAll(func(int) wishAnswer { return wishAnswer{err: fail("decide on a wish", err)} })
	}
	return err
}

// giveBack ends the hold on a queue, and has wishes wait again that got no
// answer.
func (db *DB) giveBack(done *folded) {
	if done.id == 0 {
		return
	}
	news := db.gathering.finish(done.id)
	if db.wishes.release(done.id, done.wishes) {
		news |= queue.FactsWait
	}
	db.signals.raise(news)
	done.wishes = nil
}

// wishID is the id among the facts of a decision of the ith wish from memory.
func wishID(i int) int64 { return -1 - int64(i) }

// answerAll answers the wishes that came from memory.
func (done *folded) answerAll(answer func(i int) wishAnswer) {
	for i, w := range done.wishes {
		w.answer <- answer(i) // has room: it is sent to once
	}
	done.wishes = nil
}

func (db *DB) update(ctx context.Context, tx *sqlx.Tx, now time.Time, decide func(*queue.Snapshot, []queue.Received, time.Time) queue.Plan, done *folded) error {
	wished := db.wishes.look()
	row, err := claim(ctx, tx, now, wished, db.gathering.queues())
	if errors.Is(err, sql.ErrNoRows) {
		db.wishes.passOver(wished)
	}
	if err != nil {
		return err
	}
	done.id = queue.ID(row.ID)
	db.gathering.begin(done.id)
	if row.Others { // let somebody else look
		db.signals.raise(queue.FactsWait)
	}
	done.wishes = db.wishes.take(done.id)
	facts, err := db.unread(ctx, tx, row.Asked, done)
	if err != nil {
		return err
	}
	if len(facts) == 0 && len(done.facts) == 0 && !due(row.WakeAt, now) && !due(row.HeldUntil, now) {
		return errNotDue
	}
	n, awaited := namesIn(facts), db.awaited(facts, done)
	n.people = len(awaited) > 0
	s, err := db.readWindow(ctx, tx, row.queueRow, n, now)
	if err == nil {
		err = db.readTargets(ctx, tx, s)
	}
	if err != nil {
		return err
	}
	done.runs = runsBefore(s.Runs)
	before := s.Queue // decide works on s
	before.RequiredStatuses = slices.Clone(before.RequiredStatuses)
	if done.before, err = queueText(&s.Queue, s.Line, s.Parts); err != nil {
		return err
	}
	done.plan = decide(s, facts, now)
	if done.plan.Queue.ID != done.id {
		return fmt.Errorf("the plan is for queue %d", done.plan.Queue.ID)
	}
	for _, f := range facts {
		if answer, ok := done.plan.Answers[f.ID]; ok && f.ID > 0 && isWish(f.Fact) {
			done.answers[f.ID] = answer
		}
	}
	if err := auditChanges(ctx, tx, row.OrgID, before, facts, &done.plan); err != nil {
		return err
	}
	if row.Subscribed {
		events := queue.Events(before, s, facts, &done.plan, now)
		if err := db.tellOfQueue(ctx, tx, row.OrgID, events, now); err != nil {
			return err
		}
	}
	if err := db.save(ctx, tx, now, done, done.repeats(facts)); err != nil {
		return err
	}
	return db.show(ctx, tx, s, awaited, done)
}

// awaited are the facts whose senders wait for an answer in this program.
func (db *DB) awaited(facts []queue.Received, done *folded) []queue.Fact {
	awaited := db.answers.awaited(facts)
	for _, w := range done.wishes {
		awaited = append(awaited, w.fact)
	}
	return awaited
}

// show keeps the window as the decision left it when somebody in this program
// waits for an answer, and adds what people want to see of what they asked
// about. All who asked share the cost.
func (db *DB) show(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, awaited []queue.Fact, done *folded) error {
	if len(awaited) == 0 {
		return nil
	}
	done.snapshot = s
	var n names
	for _, f := range awaited {
		n.add(f)
	}
	if len(n.prs) == 0 {
		return nil
	}
	return db.readForPeople(ctx, tx, s, n.prs)
}

func due(t stamp, now time.Time) bool { return !time.Time(t).IsZero() && !now.Before(time.Time(t)) }

// claimed is a queue whose row is locked.
type claimed struct {
	queueRow
	// Asked: there were unread facts before the row was locked. One that came
	// since makes the queue due again.
	Asked bool `json:"asked"`
	// Others: more queues were due. Some of them may be in somebody's hands.
	Others   bool   `json:"others"`
	Planning string `json:"planning"`
}

// claim locks the row of a queue that is due, or for which wishes wait in memory,
// and that nobody else has locked. That facts wait for a queue for which they are
// to gather makes it not due.
//
// Planning a decision's statements anew takes Postgres longer than working them,
// and gains nothing: they are written so that one plan is right whatever they
// are asked for. So it is told to keep their plans, until the transaction ends.
func claim(ctx context.Context, tx *sqlx.Tx, now time.Time, wished, gathering []int64) (claimed, error) {
	var row claimed
	err := tx.GetContext(ctx, &row, `
		-- Each queue with unread facts is found by one step in the index, however
		-- many facts wait and however many queues there are without.
		WITH RECURSIVE asked AS (
			(SELECT queue_id FROM inbox_routes ORDER BY queue_id LIMIT 1)
			UNION ALL
			SELECT (SELECT u.queue_id FROM inbox_routes u WHERE u.queue_id > a.queue_id ORDER BY u.queue_id LIMIT 1)
			FROM asked a WHERE a.queue_id IS NOT NULL
		), due AS MATERIALIZED (
			SELECT queue_id AS id FROM asked WHERE queue_id IS NOT NULL AND queue_id <> ALL($4)
			UNION SELECT unnest($3::bigint[])
			UNION (SELECT id FROM queues WHERE held_until <= $1 ORDER BY held_until LIMIT $2)
			UNION (SELECT id FROM queues WHERE held_until IS NULL AND wake_at <= $1 ORDER BY wake_at LIMIT $2)
		)
		SELECT EXISTS (SELECT 1 FROM asked a WHERE a.queue_id = q.id) AS asked, (SELECT count(*) > 1 FROM due) AS others,
			set_config('plan_cache_mode', 'force_generic_plan', true) AS planning,`+queueColumns+fromQueues+`
		WHERE q.id IN (SELECT id FROM due) AND (q.held_until IS NULL OR q.held_until <= $1)
		ORDER BY q.turn, q.id LIMIT 1
		FOR NO KEY UPDATE OF q SKIP LOCKED`, now, claimAmong, pq.Array(wished), pq.Array(gathering))
	if err != nil {
		return row, fmt.Errorf("claim a queue: %w", err)
	}
	return row, nil
}

// unread reads the unread facts of a queue, if it was asked for with any, and adds
// the wishes from memory. One that this version does not understand is counted and
// left out: it must not hold up the queue.
func (db *DB) unread(ctx context.Context, tx *sqlx.Tx, asked bool, done *folded) ([]queue.Received, error) {
	var rows []struct {
		ID   int64  `json:"id"`
		Kind string `json:"kind"`
		Body []byte `json:"body"`
	}
	if asked {
		if err := tx.SelectContext(ctx, &rows, `
			SELECT i.id, i.kind, i.body FROM inbox_routes u JOIN inbox i ON i.id = u.inbox_id
			WHERE u.queue_id = $1 ORDER BY u.inbox_id LIMIT $2`, int64(done.id), foldAtOnce); err != nil {
			return nil, fmt.Errorf("read facts: %w", err)
		}
	}
	facts := make([]queue.Received, 0, len(rows)+len(done.wishes))
	for _, row := range rows {
		done.facts = append(done.facts, row.ID)
		fact, err := queue.DecodeFact(row.Kind, row.Body)
		if err != nil {
			db.dropped.Add(1)
			db.log.Error("a fact was dropped", "queue", done.id, "fact", row.ID, "kind", row.Kind, "error", err)
			done.answers[row.ID] = queue.Answer{Refused: "NOT_UNDERSTOOD", Message: "This version of Signalbox does not understand the request."}
			continue
		}
		facts = append(facts, queue.Received{ID: row.ID, Fact: fact})
	}
	for i, w := range done.wishes {
		facts = append(facts, queue.Received{ID: wishID(i), Fact: w.fact})
	}
	return facts, nil
}

// repeats reports whether a decision that a crash of Postgres undoes is made again,
// from the same facts, and nobody notices: nothing was done and nobody was answered
// because of it. Nor was a subscriber told: events come of moves, and of what changes the
// queue's row, which waits for the disk in any case (saveQueue).
func (done *folded) repeats(facts []queue.Received) bool {
	return changesOnlyRuns(&done.plan) && len(done.wishes) == 0 &&
		!slices.ContainsFunc(facts, func(f queue.Received) bool { return isWish(f.Fact) })
}

// save writes everything that a decision wants.
func (db *DB) save(ctx context.Context, tx *sqlx.Tx, now time.Time, done *folded, repeats bool) error {
	p := &done.plan
	if err := db.wakeForTargets(ctx, tx, p, now); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() (err error) { done.turn, err = saveQueue(ctx, tx, done.before, p, repeats); return err },
		func() error { return saveGroups(ctx, tx, done.id, p.Groups, p.Gone) },
		func() error { return saveRuns(ctx, tx, done.id, p.Runs, done.runs) },
		func() error { return saveEntries(ctx, tx, done.id, p.Entries) },
		func() error { return saveMoves(ctx, tx, done.id, p.Moves) },
		func() error { return saveReceipts(ctx, tx, done.id, p.Receipts) },
		func() error { return saveAnswers(ctx, tx, done.answers) },
		func() error { return forget(ctx, tx, done.id, done.facts) },
		func() error { return db.insertJobs(ctx, tx, p.Actions, untold(p.Entries)...) },
		func() error { return adopt(ctx, tx, done.id, done.built(), now) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	db.notify(tx, queue.QueueChanged)
	return nil
}

// untold are the entries that came into being with a decision.
func untold(entries []queue.Entry) []queue.EntryID {
	var ids []queue.EntryID
	for i := range entries {
		if entries[i].Version == 1 { // each telling comes with another
			ids = append(ids, entries[i].ID)
		}
	}
	return ids
}

// saved follows the commit of a decision.
func (db *DB) saved(ctx context.Context, now time.Time, done *folded) {
	done.answerAll(func(i int) wishAnswer {
		return wishAnswer{Answer: done.plan.Answers[wishID(i)], snapshot: done.snapshot}
	})
	db.answers.deliver(done.facts, done.answers, done.snapshot)
	done.gathers = db.gatherAfter(done)
	// Once more, for facts that Route put aside while the runs were not yet
	// to be seen. An error costs nothing but time: the next Route looks too.
	if built := done.built(); len(built) > 0 {
		err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error { return adopt(ctx, tx, done.id, built, now) })
		if err != nil {
			db.log.Warn("adopting reports on a new run is put off", "queue", done.id, "error", err)
		}
	}
}

// built are the commits of runs that the decision learned of: their reports are
// wanted.
func (done *folded) built() []string {
	var list []string
	for _, r := range done.plan.Runs {
		if r.Commit != "" && r.State == queue.RunTesting && done.runs[r.ID].commit != r.Commit {
			list = append(list, r.Commit)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// forget deletes the routes of facts that were folded: these and no others.
func forget(ctx context.Context, tx *sqlx.Tx, q queue.ID, facts []int64) error {
	if len(facts) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM inbox_routes WHERE queue_id = $1 AND inbox_id = ANY($2)`,
		int64(q), pq.Array(facts)); err != nil {
		return fmt.Errorf("forget folded facts: %w", err)
	}
	return nil
}

// saveAnswers keeps the answers to wishes for senders in other programs. That
// a wish was granted goes without saying.
func saveAnswers(ctx context.Context, tx *sqlx.Tx, answers map[int64]queue.Answer) error {
	type row struct {
		ID     int64        `json:"id"`
		Answer queue.Answer `json:"answer"`
	}
	var rows []row
	for id, answer := range answers {
		if answer != (queue.Answer{}) {
			rows = append(rows, row{id, answer})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE inbox i SET answer = a.answer
		FROM json_to_recordset($1) AS a (id bigint, answer jsonb) WHERE i.id = a.id`, text); err != nil {
		return fmt.Errorf("save answers: %w", err)
	}
	return nil
}

// Postpone makes a queue not due before until, whatever waits for it: see
// engine.Postponer. The next decision on it ends that.
func (db *DB) Postpone(ctx context.Context, id queue.ID, until time.Time) error {
	_, err := db.sql.ExecContext(ctx, `
		UPDATE queues SET held_until = $2, turn = nextval('queue_turns') WHERE id = $1`, int64(id), stamp(until))
	return fail(fmt.Sprintf("postpone queue %d", id), err)
}

// NextWake is the earliest time at which a queue is due without a new fact;
// zero if none is.
func (db *DB) NextWake(ctx context.Context) (time.Time, error) {
	var wake stamp
	err := db.sql.GetContext(ctx, &wake, `
		SELECT LEAST((SELECT min(held_until) FROM queues), (SELECT min(wake_at) FROM queues WHERE held_until IS NULL))`)
	return time.Time(wake), fail("find the next wake time", err)
}
