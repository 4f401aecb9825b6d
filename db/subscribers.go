package db

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/account"
	"signalbox/queue"
)

// maxSubscribers bounds the subscribers of one organisation: each decision on
// its queues writes a row for each of them.
const maxSubscribers = 50

// subscriberRow is a subscriber as its table has it.
type subscriberRow struct {
	ID           int64          `json:"id"`
	Key          string         `json:"key"`
	OrgID        int64          `json:"org_id"`
	Slug         string         `json:"slug"`
	Kind         string         `json:"kind"`
	Name         string         `json:"name"`
	Address      string         `json:"address"`
	Events       pq.StringArray `json:"events"`
	Repositories pq.Int64Array  `json:"repositories"`
	Enabled      bool           `json:"enabled"`
	Why          string         `json:"why"`
	CreatedAt    stamp          `json:"created_at"`
	Failures     int            `json:"failures"`
	FailingSince stamp          `json:"failing_since"`
	QuietUntil   stamp          `json:"quiet_until"`
	DeliveredAt  stamp          `json:"delivered_at"`
}

// selectSubscriber reads a subscriberRow; the condition follows.
const selectSubscriber = `
	SELECT s.id, s.key, s.org_id, o.slug, s.kind, s.name, s.address, s.events, s.repositories, s.enabled, s.why, s.created_at,
		s.failures, s.failing_since, s.quiet_until, s.delivered_at
	FROM subscribers s JOIN organizations o ON o.id = s.org_id`

func (r *subscriberRow) subscriber() account.Subscriber {
	return account.Subscriber{
		Number: r.ID, ID: r.Key, Kind: account.SubscriberKind(r.Kind), Name: r.Name, Address: r.Address, Events: r.Events,
		Enabled: r.Enabled, Why: r.Why, CreatedAt: r.CreatedAt.time(),
		Health: account.Health{Failures: r.Failures, FailingSince: r.FailingSince.time(), QuietUntil: r.QuietUntil.time(), DeliveredAt: r.DeliveredAt.time()},
	}
}

// subscribers reads subscribers with the names of the repositories they want.
func subscribers(ctx context.Context, q sqlx.QueryerContext, where string, args ...any) ([]account.Subscriber, error) {
	var rows []subscriberRow
	if err := sqlx.SelectContext(ctx, q, &rows, selectSubscriber+where, args...); err != nil {
		return nil, err
	}
	var wanted []int64
	for _, r := range rows {
		wanted = append(wanted, r.Repositories...)
	}
	names := map[int64]account.Watched{}
	if len(wanted) > 0 {
		var repos []struct {
			ID    int64  `json:"id"`
			Host  string `json:"host"`
			Owner string `json:"owner"`
			Name  string `json:"name"`
		}
		if err := sqlx.SelectContext(ctx, q, &repos, `SELECT id, host, owner, name FROM repositories WHERE id = ANY($1)`, pq.Array(wanted)); err != nil {
			return nil, fmt.Errorf("name the repositories of subscribers: %w", err)
		}
		for _, r := range repos {
			names[r.ID] = account.Watched(r)
		}
	}
	list := make([]account.Subscriber, len(rows))
	for i := range rows {
		list[i] = rows[i].subscriber()
		for _, id := range rows[i].Repositories {
			list[i].Repositories = append(list[i].Repositories, names[id])
		}
	}
	return list, nil
}

// subscriber finds one of an organisation, and locks its row if it is to be
// changed. ErrNotFound: there is none.
func subscriber(ctx context.Context, tx *sqlx.Tx, org int64, id, lock string) (account.Subscriber, error) {
	if uuid.Validate(id) != nil {
		return account.Subscriber{}, queue.ErrNotFound
	}
	list, err := subscribers(ctx, tx, ` WHERE s.org_id = $1 AND s.key = $2`+lock, org, id)
	if err == nil && len(list) == 0 {
		err = queue.ErrNotFound
	}
	if err != nil {
		return account.Subscriber{}, err
	}
	return list[0], nil
}

// lockSubscriber is for rows that are changed. It does not stand in the way of
// decisions that write deliveries.
const lockSubscriber = ` FOR NO KEY UPDATE OF s`

// Subscribers lists those of an organisation, the oldest first.
func (db *DB) Subscribers(ctx context.Context, org int64) ([]account.Subscriber, error) {
	list, err := subscribers(ctx, db.sql, ` WHERE s.org_id = $1 ORDER BY s.id`, org)
	return list, fail("list subscribers", err)
}

// Subscriber finds one of an organisation. ErrNotFound: it has none such.
func (db *DB) Subscriber(ctx context.Context, org int64, id string) (s account.Subscriber, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		s, err = subscriber(ctx, tx, org, id, "")
		return err
	})
	return s, fail("find a subscriber", err)
}

// AddSubscriber keeps a new subscriber, with its endpoint encrypted by the
// caller. ErrNotFound: a repository that it wants is not the organisation's.
func (db *DB) AddSubscriber(ctx context.Context, org int64, s account.Subscriber, sealed []byte) (account.Subscriber, error) {
	now := db.clock()
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		var n int
		// One at a time, so that the bound holds.
		if err := tx.GetContext(ctx, &org, `SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE`, org); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &n, `SELECT count(*) FROM subscribers WHERE org_id = $1`, org); err != nil {
			return fmt.Errorf("count: %w", err)
		}
		if n >= maxSubscribers {
			return account.Invalid(fmt.Sprintf("An organisation can have %d subscribers. Delete one that is not needed any more.", maxSubscribers))
		}
		wanted, err := wantedRepositories(ctx, tx, org, s.Repositories)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO subscribers (key, org_id, kind, name, address, sealed, events, repositories, enabled, why, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true, '', $9)`,
			s.ID, org, string(s.Kind), clean(s.Name), clean(s.Address), sealed, pq.Array(s.Events), pq.Array(wanted), now); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if s, err = subscriber(ctx, tx, org, s.ID, ""); err != nil {
			return err
		}
		return db.auditSubscriber(ctx, tx, org, account.SubscriberCreated, s, changedSubscriber(account.Subscriber{}, s)...)
	})
	return s, fail("add a subscriber", err)
}

// wantedRepositories are the numbers of repositories, which must be the
// organisation's.
func wantedRepositories(ctx context.Context, tx *sqlx.Tx, org int64, wanted []account.Watched) ([]int64, error) {
	ids := make([]int64, 0, len(wanted))
	for _, w := range wanted {
		ids = append(ids, w.ID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var n int
	if err := tx.GetContext(ctx, &n, `SELECT count(*) FROM repositories WHERE org_id = $1 AND id = ANY($2)`, org, pq.Array(ids)); err != nil {
		return nil, fmt.Errorf("find repositories: %w", err)
	}
	if n != len(ids) {
		return nil, queue.ErrNotFound
	}
	return ids, nil
}

// ChangeSubscriber changes what change does with a subscriber: its name, its
// address, the events and repositories that it wants, and whether it is told
// anything. change is given the endpoint as it is kept, and returns what takes its
// place, encrypted; nil = it stays. It may be called again. One that is switched
// on again, or that has moved, begins as if it had never failed: what waits for it
// is due now.
func (db *DB) ChangeSubscriber(ctx context.Context, org int64, id string, deed account.Deed, change func(s *account.Subscriber, sealed []byte) (fresh []byte, err error)) (after account.Subscriber, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		before, err := subscriber(ctx, tx, org, id, lockSubscriber)
		if err != nil {
			return err
		}
		var sealed []byte
		if err := tx.GetContext(ctx, &sealed, `SELECT sealed FROM subscribers WHERE id = $1`, before.Number); err != nil {
			return fmt.Errorf("read the endpoint: %w", err)
		}
		after = before
		fresh, err := change(&after, sealed)
		if err != nil {
			return err
		}
		moved := fresh != nil && deed == account.SubscriberChanged
		if after.Enabled && !before.Enabled || moved {
			after.Health = account.Health{DeliveredAt: before.Health.DeliveredAt}
			if err := db.dueNow(ctx, tx, before.Number); err != nil {
				return err
			}
		}
		if after.Enabled {
			after.Why = ""
		}
		if fresh == nil {
			fresh = sealed
		}
		if err := writeSubscriber(ctx, tx, org, after, fresh); err != nil {
			return err
		}
		if after, err = subscriber(ctx, tx, org, id, ""); err != nil {
			return err
		}
		changes := changedSubscriber(before, after)
		if len(changes) == 0 && bytes.Equal(fresh, sealed) {
			return nil
		}
		db.notify(tx, queue.DeliveriesWait) // what waits may go out now
		return db.auditSubscriber(ctx, tx, org, deed, after, changes...)
	})
	return after, fail("change a subscriber", err)
}

// dueNow lets what waits for a subscriber wait no longer.
func (db *DB) dueNow(ctx context.Context, tx *sqlx.Tx, number int64) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE event_deliveries SET next_at = $2 WHERE subscriber_id = $1 AND state = 'waiting' AND next_at > $2`, number, stamp(db.clock()))
	if err != nil {
		return fmt.Errorf("hurry what waits: %w", err)
	}
	return nil
}

// writeSubscriber writes down how a subscriber is. ErrNotFound: a repository that
// it wants is not the organisation's.
func writeSubscriber(ctx context.Context, tx *sqlx.Tx, org int64, s account.Subscriber, sealed []byte) error {
	wanted, err := wantedRepositories(ctx, tx, org, s.Repositories)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE subscribers SET name = $2, address = $3, sealed = $4, events = $5, repositories = $6, enabled = $7, why = $8,
			failures = $9, failing_since = $10, quiet_until = $11
		WHERE id = $1`, s.Number, clean(s.Name), clean(s.Address), sealed, pq.Array(s.Events), pq.Array(wanted), s.Enabled, s.Why,
		s.Health.Failures, stamp(s.Health.FailingSince), stamp(s.Health.QuietUntil))
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}

// DeleteSubscriber forgets a subscriber with all its deliveries. ErrNotFound:
// the organisation has none such. It is switched off first, so that no decision
// waits while many rows are deleted.
func (db *DB) DeleteSubscriber(ctx context.Context, org int64, id string) error {
	var gone account.Subscriber
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) (err error) {
		if gone, err = subscriber(ctx, tx, org, id, lockSubscriber); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE subscribers SET enabled = false WHERE id = $1`, gone.Number)
		return err
	})
	if err == nil {
		_, err = db.sql.ExecContext(ctx, `DELETE FROM event_deliveries WHERE subscriber_id = $1`, gone.Number)
	}
	if err == nil {
		err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
			result, err := tx.ExecContext(ctx, `DELETE FROM subscribers WHERE id = $1`, gone.Number)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n == 0 {
				return err // somebody else was faster
			}
			return db.auditSubscriber(ctx, tx, org, account.SubscriberDeleted, gone)
		})
	}
	return fail("delete a subscriber", err)
}

// changedSubscriber lists what is different.
func changedSubscriber(before, after account.Subscriber) []account.Changed {
	var list []account.Changed
	changed := func(name, from, to string) {
		if from != to {
			list = append(list, account.Changed{Name: name, From: from, To: to})
		}
	}
	repos := func(s account.Subscriber) string {
		names := make([]string, len(s.Repositories))
		for i, r := range s.Repositories {
			names[i] = r.Host + "/" + r.Owner + "/" + r.Name
		}
		return strings.Join(names, ", ")
	}
	changed("name", before.Name, after.Name)
	changed("address", before.Address, after.Address)
	changed("events", strings.Join(before.Events, ", "), strings.Join(after.Events, ", "))
	changed("repositories", repos(before), repos(after))
	changed("enabled", fmt.Sprint(before.Enabled), fmt.Sprint(after.Enabled))
	return list
}

func (db *DB) auditSubscriber(ctx context.Context, tx *sqlx.Tx, org int64, deed account.Deed, s account.Subscriber, changes ...account.Changed) error {
	return audit(ctx, tx, org, 0, account.Audit{At: db.clock(), By: account.AuthorOf(ctx), Deed: deed, Subject: s.Name, Changes: changes})
}
