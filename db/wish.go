package db

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// answerPoll is how often a wish in the inbox looks for its answer by itself. It
// hears of it otherwise: in this program from UpdateDue, from others by
// notification.
const answerPoll = time.Second

// wish is a fact whose sender waits for what becomes of it.
type wish struct {
	row    wishRow
	fact   queue.Fact      // as it would be read from the inbox
	stored chan error      // has room for one
	answer chan wishAnswer // has room for one

	// Guarded by answers.mu:
	id   int64 // of the fact in the inbox; 0 until it was written there
	left bool  // its sender waits no longer; of one in memory guarded by wishes.mu
}

// wishRow is a wish on its way into the inbox.
type wishRow struct {
	Repository int64 `json:"repository_id"`
	Queue      int64 `json:"queue_id"`
	factRow
}

func newWish(repo queue.RepoID, q queue.ID, fact queue.Fact) (*wish, error) {
	rows, err := rowsOfFacts([]queue.Fact{fact})
	if err != nil {
		return nil, err
	}
	w := &wish{row: wishRow{int64(repo), int64(q), rows[0]}, stored: make(chan error, 1), answer: make(chan wishAnswer, 1)}
	w.fact, err = queue.DecodeFact(w.row.Kind, withoutNUL(w.row.Body))
	return w, err
}

// wishAnswer is what became of a wish. The snapshot is nil when another
// program has decided. With an error nobody knows.
type wishAnswer struct {
	queue.Answer
	snapshot *queue.Snapshot
	err      error
}

// Wish has a fact for a queue decided on, and waits for that. The answer says
// what became of it. An error, also the end of ctx, means that nobody knows:
// the wish may yet be granted. ErrNotFound: there is no such queue, or it was
// deleted meanwhile.
//
// The snapshot is the window of that decision as the decision left it, complete
// like that of Read for the pull request that the wish is about. It is nil when
// another program has decided. Others who wished at the same time are given the
// same one: nobody may change it.
//
// Where this program decides on queues, a wish goes from here into the next
// decision, and is written down as what came of it. Only when that does not
// come soon, because another program has the queue in hand or none can be
// reached, is it appended to the inbox like other facts.
func (db *DB) Wish(ctx context.Context, repo queue.RepoID, q queue.ID, fact queue.Fact) (queue.Answer, *queue.Snapshot, error) {
	w, err := newWish(repo, q, fact)
	if err != nil {
		return queue.Answer{}, nil, err
	}
	db.startListening()
	a, answered, err := db.wishHere(ctx, q, w)
	if answered || err != nil {
		return a.Answer, a.snapshot, err
	}
	defer db.answers.leave(w)
	if err := db.storeWish(ctx, w); err != nil {
		db.recentQueues.forget() // it may be that the queue was deleted
		return queue.Answer{}, nil, fail("make a wish", missingIs(err, queue.ErrNotFound))
	}
	a, _, err = db.await(ctx, w, answerPoll, func() (bool, error) { return false, db.lookForAnswer(ctx, q, w) })
	return a.Answer, a.snapshot, err
}

const (
	// wishesAtOnce bounds what one writer writes together.
	wishesAtOnce = 256
	wishWriters  = 2
	// storePatience bounds one write.
	storePatience = 15 * time.Second
)

// wishing is the way of wishes into the inbox.
type wishing struct{ writers[*wish] }

func newWishing() wishing {
	return wishing{writers[*wish]{atOnce: wishWriters, waiting: make(chan *wish, 4*wishesAtOnce)}}
}

// storeWish has a wish written, and waits for that.
func (db *DB) storeWish(ctx context.Context, w *wish) error {
	write := func(first *wish) { db.storeWishes(db.wishing.more(first)) }
	if err := db.wishing.hand(ctx, db, w, write); err != nil {
		return err
	}
	stored, err := committed(ctx, db, w.stored)
	if err != nil {
		return err
	}
	return stored
}

// more takes what waits behind the first.
func (w *wishing) more(first *wish) []*wish {
	batch := []*wish{first}
	for len(batch) < wishesAtOnce {
		select {
		case next := <-w.waiting:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// storeWishes writes a batch and tells its senders. Where it fails for any
// other reason than that the database is away, each is tried alone: a queue
// that was deleted must not take the wishes of others with it.
func (db *DB) storeWishes(batch []*wish) {
	err := db.storeWishesTogether(batch)
	if err != nil && len(batch) > 1 && !unreachable(err) {
		for i := range batch {
			db.storeWishes(batch[i : i+1])
		}
		return
	}
	for _, w := range batch {
		w.stored <- err
	}
}

func (db *DB) storeWishesTogether(batch []*wish) error {
	ctx, cancel := context.WithTimeout(db.ctx, storePatience)
	defer cancel()
	rows := make([]wishRow, len(batch))
	for i, w := range batch {
		rows[i] = w.row
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	return db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		var ids []int64
		if err := tx.SelectContext(ctx, &ids, `
			WITH given AS MATERIALIZED (
				SELECT nextval('inbox_id_seq') AS id, f.* FROM json_to_recordset($1) AS f (
					repository_id bigint, queue_id bigint, kind text, pr bigint, commit text, branch text, everybody boolean, body jsonb)
			), stored AS (
				INSERT INTO inbox (id, repository_id, kind, pr, commit, branch, everybody, body, received_at, routed_at)
				SELECT id, repository_id, kind, pr, commit, branch, everybody, body, $2::timestamptz, $2 FROM given
			), routed AS (
				INSERT INTO inbox_routes (queue_id, inbox_id) SELECT queue_id, id FROM given
			)
			SELECT id FROM given ORDER BY id`, text, db.clock()); err != nil {
			return fmt.Errorf("store wishes: %w", err)
		}
		// Before the commit: an engine can be faster than we are.
		db.answers.expect(batch, ids)
		db.notify(tx, queue.FactsWait)
		return nil
	})
}

// await waits for the answer to a wish. Every so often it calls look, which may
// end the waiting: then there is no answer.
func (db *DB) await(ctx context.Context, w *wish, every time.Duration, look func() (end bool, err error)) (a wishAnswer, answered bool, err error) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case a := <-w.answer:
			return a, true, a.err
		case <-ctx.Done():
			return wishAnswer{}, false, fmt.Errorf("wait for the answer to a wish: %w", ctx.Err())
		case <-db.ctx.Done():
			return wishAnswer{}, false, errors.New("wait for the answer to a wish: the database was closed")
		case <-again.C:
			if end, err := look(); end || err != nil {
				return wishAnswer{}, false, err
			}
		}
	}
}

// lookForAnswer delivers the answer to a wish that is in the inbox, if there is
// one. ErrNotFound: its queue was deleted.
func (db *DB) lookForAnswer(ctx context.Context, q queue.ID, w *wish) error {
	var there bool
	if err := db.sql.GetContext(ctx, &there, `SELECT EXISTS (SELECT 1 FROM queues WHERE id = $1)`, int64(q)); err != nil {
		return fail("wait for the answer to a wish", err)
	}
	if !there {
		return fmt.Errorf("wait for the answer to a wish: the queue was deleted: %w", queue.ErrNotFound)
	}
	return db.findAnswers(ctx, []int64{w.id})
}

// answers are the wishes of this program that wait for theirs.
type answers struct {
	mu      sync.Mutex
	waiting map[int64]*wish
}

func newAnswers() *answers { return &answers{waiting: map[int64]*wish{}} }

// expect notes the ids of wishes that were written. It may be called again
// with others, when a transaction was rolled back.
func (a *answers) expect(wishes []*wish, ids []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, w := range wishes {
		delete(a.waiting, w.id)
		if w.id = ids[i]; !w.left {
			a.waiting[w.id] = w
		}
	}
}

// leave gives up waiting.
func (a *answers) leave(w *wish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.left = true
	delete(a.waiting, w.id)
}

// awaited are those of the facts whose senders wait in this program.
func (a *answers) awaited(facts []queue.Received) []queue.Fact {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []queue.Fact
	for _, f := range facts {
		if a.waiting[f.ID] != nil {
			found = append(found, f.Fact)
		}
	}
	return found
}

// deliver hands out answers to facts that were folded, with the snapshot that
// the decision left if it was made here: one without an answer was granted.
func (a *answers) deliver(ids []int64, given map[int64]queue.Answer, s *queue.Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if w, ok := a.waiting[id]; ok {
			delete(a.waiting, id)
			w.answer <- wishAnswer{Answer: given[id], snapshot: s} // has room: it is sent to once
		}
	}
}

// pending are the wishes that wait.
func (a *answers) pending() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]int64, 0, len(a.waiting))
	for id := range a.waiting {
		ids = append(ids, id)
	}
	return ids
}

// lookForAnswers delivers what another program's decision has answered.
func (db *DB) lookForAnswers() {
	ids := db.answers.pending()
	if len(ids) == 0 {
		return
	}
	if err := db.findAnswers(db.ctx, ids); err != nil && db.ctx.Err() == nil {
		db.log.Warn("answers are looked for later", "error", err)
	}
}

// findAnswers delivers the answers to those of the wishes that are no longer
// unread.
func (db *DB) findAnswers(ctx context.Context, ids []int64) error {
	var rows []struct {
		ID     int64                  `json:"id"`
		Answer document[queue.Answer] `json:"answer"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT i.id, i.answer FROM inbox i
		WHERE i.id = ANY($1) AND i.routed_at IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM inbox_routes u WHERE u.inbox_id = i.id AND u.queue_id = ANY(
				SELECT q.id FROM queues q WHERE q.repository_id = i.repository_id))`, pq.Array(ids)); err != nil {
		return fail("look for answers", err)
	}
	found := make([]int64, len(rows))
	given := map[int64]queue.Answer{}
	for i, row := range rows {
		found[i], given[row.ID] = row.ID, row.Answer.v
	}
	db.answers.deliver(found, given, nil)
	return nil
}
