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

// answerPoll is how often a wish looks for its answer by itself. It hears of
// it otherwise: in this program from UpdateDue, from others by notification.
const answerPoll = time.Second

// Wish appends a fact for a queue and waits until a decision has folded it.
// The answer says what became of it. An error, also the end of ctx, means that
// nobody knows: the wish may yet be granted. ErrNotFound: there is no such
// queue, or it was deleted meanwhile.
func (db *DB) Wish(ctx context.Context, repo queue.RepoID, q queue.ID, fact queue.Fact) (queue.Answer, error) {
	rows, err := rowsOfFacts([]queue.Fact{fact})
	if err != nil {
		return queue.Answer{}, err
	}
	db.startListening()
	var id int64
	var answer <-chan queue.Answer
	leave := func() {}
	defer func() { leave() }()
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		leave() // of a try that was rolled back
		ids, err := db.insertFacts(ctx, tx, repo, q, rows)
		if err != nil {
			return err
		}
		id = ids[0]
		// Before the commit: an engine can be faster than we are.
		answer, leave = db.answers.expect(id)
		return db.notify(ctx, tx, factsAppended)
	})
	if err != nil {
		return queue.Answer{}, fail("make a wish", missingIs(err, queue.ErrNotFound))
	}
	db.signals.raise()
	return db.await(ctx, q, id, answer)
}

func (db *DB) await(ctx context.Context, q queue.ID, id int64, answer <-chan queue.Answer) (queue.Answer, error) {
	poll := time.NewTicker(answerPoll)
	defer poll.Stop()
	for {
		select {
		case a := <-answer:
			return a, nil
		case <-ctx.Done():
			return queue.Answer{}, fmt.Errorf("wait for the answer to a wish: %w", ctx.Err())
		case <-db.ctx.Done():
			return queue.Answer{}, errors.New("wait for the answer to a wish: the database was closed")
		case <-poll.C:
			var there bool
			if err := db.sql.GetContext(ctx, &there, `SELECT EXISTS (SELECT 1 FROM queues WHERE id = $1)`, int64(q)); err != nil {
				return queue.Answer{}, fail("wait for the answer to a wish", err)
			}
			if !there {
				return queue.Answer{}, fmt.Errorf("wait for the answer to a wish: the queue was deleted: %w", queue.ErrNotFound)
			}
			if err := db.findAnswers(ctx, []int64{id}); err != nil {
				return queue.Answer{}, err
			}
		}
	}
}

// answers are the wishes of this program that wait for theirs.
type answers struct {
	mu      sync.Mutex
	waiting map[int64]chan queue.Answer
}

func newAnswers() *answers { return &answers{waiting: map[int64]chan queue.Answer{}} }

// expect returns where the answer to a wish will arrive, and a function that
// gives up waiting.
func (a *answers) expect(id int64) (<-chan queue.Answer, func()) {
	c := make(chan queue.Answer, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[id] = c
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, id)
	}
}

// deliver hands out answers to facts that were folded: one without an answer
// was granted.
func (a *answers) deliver(ids []int64, given map[int64]queue.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if c, ok := a.waiting[id]; ok {
			delete(a.waiting, id)
			c <- given[id] // has room: it is sent to once
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
	db.answers.deliver(found, given)
	return nil
}
