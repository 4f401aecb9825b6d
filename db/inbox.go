package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"signalbox/queue"
)

// factRow is a fact on its way into the inbox.
type factRow struct {
	N         int             `json:"n"` // its place among those that came with it
	Kind      string          `json:"kind"`
	PR        *int64          `json:"pr"`
	Commit    *string         `json:"commit"`
	Branch    *string         `json:"branch"`
	Everybody bool            `json:"everybody"`
	Body      json.RawMessage `json:"body"`
}

// rowsOfFacts encodes facts. It refuses what no queue could save: such a fact
// would fail every decision that folds it.
func rowsOfFacts(facts []queue.Fact) ([]factRow, error) {
	rows := make([]factRow, len(facts))
	for i, fact := range facts {
		if err := checkFact(fact); err != nil {
			return nil, fmt.Errorf("append %s: %w", fact.Kind(), err)
		}
		body, err := queue.EncodeFact(fact)
		if err != nil {
			return nil, fmt.Errorf("append %s: %w", fact.Kind(), err)
		}
		about := fact.Subject()
		if s, ok := fact.(queue.Submitted); ok {
			about.PR = s.PullRequest.Number // for facts that overtake it, see Route
		}
		rows[i] = factRow{
			N: i, Kind: fact.Kind(), PR: unlessZero(about.PR), Commit: unlessZero(about.Commit), Branch: unlessZero(about.Branch),
			Everybody: about.Everybody, Body: body,
		}
	}
	return rows, nil
}

func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func checkFact(fact queue.Fact) error {
	s, ok := fact.(queue.Submitted)
	if !ok {
		return nil
	}
	switch pr := s.PullRequest.Number; {
	case !isUUID(string(s.ID)):
		return fmt.Errorf("the entry's id %q is not a UUID", s.ID)
	case pr < 1 || pr > queue.MaxNumber:
		return fmt.Errorf("%d is not the number of a pull request", pr)
	case s.Priority < queue.Urgent || s.Priority > queue.Lowest:
		return fmt.Errorf("priority %d is not between %d and %d", s.Priority, queue.Urgent, queue.Lowest)
	case s.Via != queue.ViaUser && s.Via != queue.ViaAPI && s.Via != queue.ViaAdmin:
		return fmt.Errorf("there is no way in called %q", s.Via)
	}
	return nil
}

// isWish reports whether somebody waits for an answer to such a fact.
func isWish(fact queue.Fact) bool {
	switch fact.(type) {
	case queue.Submitted, queue.CancelRequested, queue.RestartRequested, queue.ChangeRequested:
		return true
	default:
		return false
	}
}

// Append adds facts about a repository; q = 0 lets Route find the queues by
// the facts' subjects. They are durable when it returns. ErrNotFound: no such
// repository or queue.
func (db *DB) Append(ctx context.Context, repo queue.RepoID, q queue.ID, facts ...queue.Fact) error {
	if len(facts) == 0 {
		return nil
	}
	rows, err := rowsOfFacts(facts)
	if err != nil {
		return err
	}
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		return db.insertFacts(ctx, tx, repo, q, rows)
	})
	return fail("append facts", missingIs(err, queue.ErrNotFound))
}

// missingIs replaces a broken reference: what was referred to does not exist.
func missingIs(err, replacement error) error {
	if pq.As(err, pqerror.ForeignKeyViolation) != nil {
		return replacement
	}
	return err
}

// insertFacts writes facts, with their routes when their queue is known, and has
// all programs told.
func (db *DB) insertFacts(ctx context.Context, tx *sqlx.Tx, repo queue.RepoID, q queue.ID, rows []factRow) error {
	text, err := encode(rows)
	if err != nil {
		return err
	}
	var routedAt stamp
	now := db.clock()
	if q != 0 {
		routedAt = stamp(now)
	}
	var ids []int64
	if err := tx.SelectContext(ctx, &ids, `
		INSERT INTO inbox (repository_id, kind, pr, commit, branch, everybody, body, received_at, routed_at)
		SELECT $1, kind, pr, commit, branch, everybody, body, $3, $4
		FROM json_to_recordset($2) AS f (kind text, pr bigint, commit text, branch text, everybody boolean, body jsonb)
		RETURNING id`, int64(repo), text, now, routedAt); err != nil {
		return fmt.Errorf("insert facts: %w", err)
	}
	if q == 0 {
		db.notify(tx, queue.FactsArrived)
		return nil
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO inbox_routes (queue_id, inbox_id) SELECT $1, unnest($2::bigint[])`,
		int64(q), pq.Array(ids)); err != nil {
		return fmt.Errorf("route facts: %w", err)
	}
	db.gathering.enough(q)
	db.notify(tx, queue.FactsWait)
	return nil
}
