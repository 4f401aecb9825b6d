package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/queue"
)

// maxDelivery bounds the id of a delivery; GitHub's are UUIDs.
const maxDelivery = 200

// delivery is what one webhook delivery comes to. Its tags are the columns in
// receive's statement.
type delivery struct {
	N      int       `json:"n"` // its place among those that are stored together
	ID     string    `json:"id"`
	Host   string    `json:"host"`
	HostID int64     `json:"host_id"`
	Facts  []factRow `json:"facts"`
}

// Receive stores the facts of a delivery and applies its changes of
// installations, all in one transaction, durable when it returns: see
// webhook.Store. A delivery of which nothing was stored (no facts and no
// connections, or a repository that is not connected) is not remembered: it can
// be repeated with no effect, or, once the repository is connected, with its
// proper one.
func (db *DB) Receive(ctx context.Context, id string, host string, repoHostID int64, facts []queue.Fact, connections []account.Connection) (fresh bool, err error) {
	if id == "" || len(id) > maxDelivery {
		return false, fmt.Errorf("receive: a delivery's id has 1 to %d characters, not %d", maxDelivery, len(id))
	}
	rows, err := rowsOfFacts(facts)
	if err != nil {
		return false, fmt.Errorf("receive %s: %w", clean(id), err)
	}
	d := delivery{ID: clean(id), Host: strings.ToLower(clean(host)), HostID: repoHostID, Facts: rows}
	if len(connections) > 0 {
		fresh, err = db.receiveConnections(ctx, d, connections)
	} else if len(facts) > 0 {
		fresh, err = db.receiveFacts(ctx, d)
	} else {
		return true, nil
	}
	if err != nil {
		return false, fail("receive "+d.ID, err)
	}
	return fresh, nil
}

// received is what became of deliveries that were stored together.
type received struct {
	Repeated texts   `json:"repeated"` // ids of those that had been received before
	Queues   numbers `json:"queues"`   // that were handed facts
	// Left: some facts are for Route, because they wait for a run or are commands.
	Left bool `json:"left"`
}

// receive stores the facts of deliveries, each with another id, in the order in
// which they are given, and hands them to their queues as Route does: all in one
// statement, which is a transaction of its own. A row of the inbox that is written
// once, as what it stays, costs Postgres a third of one that is marked afterwards.
func (db *DB) receive(ctx context.Context, q sqlx.QueryerContext, deliveries []delivery) (r received, err error) {
	for i := range deliveries {
		deliveries[i].N = i
	}
	text, err := encode(deliveries)
	if err != nil {
		return r, err
	}
	now := db.clock()
	if err := sqlx.GetContext(ctx, q, &r, `
		WITH given AS MATERIALIZED (
			SELECT d.n, d.id, d.facts, r.id AS repository_id
			FROM json_to_recordset($1) AS d (n bigint, id text, host text, host_id bigint, facts json)
			-- Each by the index, however many repositories there are.
			CROSS JOIN LATERAL (SELECT id FROM repositories
				WHERE host = d.host AND host_id = d.host_id AND installation IS NOT NULL LIMIT 1) r
		), fresh AS (
			INSERT INTO deliveries (id, received_at) SELECT id, $3::timestamptz FROM given
			ORDER BY id -- so that two of these never wait for each other
			ON CONFLICT DO NOTHING RETURNING id
		), facts AS (
			SELECT g.repository_id, f.* FROM given g JOIN fresh USING (id), json_to_recordset(g.facts)
				AS f (n bigint, kind text, pr bigint, commit text, branch text, everybody boolean, body jsonb)
			ORDER BY g.n, f.n
		), placed AS MATERIALIZED (
			SELECT nextval('inbox_id_seq') AS id, f.*, ARRAY(SELECT q.id FROM queues q WHERE `+concerned+`) AS queues FROM facts f
		), stored AS (
			INSERT INTO inbox (id, repository_id, kind, pr, commit, branch, everybody, body, received_at, waits, routed_at)
			SELECT id, repository_id, kind, pr, commit, branch, everybody, body, $3, commit IS NOT NULL AND queues = '{}',
				CASE WHEN kind <> 'command_asked' AND (commit IS NULL OR queues <> '{}') THEN $3 END
			FROM placed
		), routed AS (
			INSERT INTO inbox_routes (queue_id, inbox_id) SELECT unnest(queues), id FROM placed
		)
		SELECT ARRAY(SELECT id FROM given WHERE id NOT IN (SELECT id FROM fresh)) AS repeated,
			ARRAY(SELECT DISTINCT unnest(queues) FROM placed) AS queues,
			EXISTS (SELECT 1 FROM placed WHERE kind = 'command_asked' OR commit IS NOT NULL AND queues = '{}') AS left`,
		text, now.Add(-keepEnded), now); err != nil {
		return r, fmt.Errorf("store facts: %w", err)
	}
	return r, nil
}

// receiveConnections is the rare path: changes of installations, with the
// facts of the same delivery after them, on repositories that they may have
// connected.
func (db *DB) receiveConnections(ctx context.Context, d delivery, connections []account.Connection) (fresh bool, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, `
			INSERT INTO deliveries (id, received_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`, d.ID, db.clock())
		if err != nil {
			return fmt.Errorf("remember delivery: %w", err)
		}
		n, err := result.RowsAffected()
		if fresh = n == 1; err != nil || !fresh {
			return err
		}
		for _, c := range connections {
			if err := db.connect(ctx, tx, c); err != nil {
				return err
			}
		}
		if len(d.Facts) == 0 {
			return nil
		}
		repo, err := connectedRepo(ctx, tx, d.Host, d.HostID)
		if err != nil || repo == 0 {
			return err
		}
		return db.insertFacts(ctx, tx, repo, 0, d.Facts)
	})
	return fresh, err
}

// connectedRepo finds a repository by the host's number; 0 if it is not
// connected.
func connectedRepo(ctx context.Context, tx *sqlx.Tx, host string, hostID int64) (queue.RepoID, error) {
	var ids []int64
	if err := tx.SelectContext(ctx, &ids, `
		SELECT id FROM repositories WHERE host = $1 AND host_id = $2 AND installation IS NOT NULL`, host, hostID); err != nil {
		return 0, fmt.Errorf("find repository: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return queue.RepoID(ids[0]), nil
}
