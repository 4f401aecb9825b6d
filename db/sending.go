package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/queue"
)

// deliveryRow is a delivery as its table has it.
type deliveryRow struct {
	ID      int64                   `json:"id"`
	Event   string                  `json:"event"`
	Type    string                  `json:"type"`
	Subject string                  `json:"subject"`
	At      stamp                   `json:"at"`
	Body    []byte                  `json:"body"`
	Again   bool                    `json:"again"`
	State   string                  `json:"state"`
	NextAt  stamp                   `json:"next_at"`
	Tries   document[[]account.Try] `json:"tries"`
}

// deliveryColumns are those of deliveryRow, of event_deliveries d.
const deliveryColumns = ` d.id, d.event, d.type, d.subject, d.at, d.body, d.again, d.state, d.next_at, d.tries `

func (r *deliveryRow) delivery() account.Delivery {
	return account.Delivery{
		ID: r.ID, Event: r.Event, Type: r.Type, At: r.At.time(), Body: json.RawMessage(r.Body), Again: r.Again,
		State: account.DeliveryState(r.State), NextAt: r.NextAt.time(), Tries: r.Tries.v,
	}
}

// first says that no earlier delivery of the same subject waits.
const first = ` NOT EXISTS (SELECT 1 FROM event_deliveries b
	WHERE b.subscriber_id = d.subscriber_id AND b.subject = d.subject AND b.state = 'waiting' AND b.id < d.id) `

// ClaimDeliveries takes a subscriber that has something due, and for which no
// worker is at work, and holds it until a moment; nobody else takes it until
// then or until RecordDeliveries. Of each subject there is the first delivery
// that waits, if it is due; at most wide(subscriber) of them, the oldest. ok is
// false when nothing is due.
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, wide func(account.Subscriber) int) (round account.Sending, ok bool, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		round = account.Sending{}
		var held struct {
			ID     int64  `json:"id"`
			Sealed []byte `json:"sealed"`
		}
		if err := tx.GetContext(ctx, &held, `
			UPDATE subscribers SET held_until = $2, turn = nextval('subscriber_turns')
			WHERE id = (
				SELECT s.id FROM subscribers s
				WHERE s.enabled AND COALESCE(s.held_until, $1) <= $1 AND COALESCE(s.quiet_until, $1) <= $1
					AND EXISTS (SELECT 1 FROM event_deliveries d
						WHERE d.subscriber_id = s.id AND d.state = 'waiting' AND d.next_at <= $1 AND `+first+`)
				ORDER BY s.turn LIMIT 1
				FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING id, sealed`, stamp(now), stamp(until)); err != nil {
			return err
		}
		var who subscriberRow
		if err := tx.GetContext(ctx, &who, selectSubscriber+` WHERE s.id = $1`, held.ID); err != nil {
			return fmt.Errorf("read the subscriber: %w", err)
		}
		round.Subscriber, round.Sealed, round.Org = who.subscriber(), held.Sealed, account.Organization{ID: who.OrgID, Slug: who.Slug}
		var rows []deliveryRow
		if err := tx.SelectContext(ctx, &rows, `
			SELECT`+deliveryColumns+`FROM event_deliveries d
			WHERE d.subscriber_id = $1 AND d.state = 'waiting' AND d.next_at <= $2 AND `+first+`
			ORDER BY d.id LIMIT $3`, held.ID, stamp(now), wide(round.Subscriber)); err != nil {
			return fmt.Errorf("read what is due: %w", err)
		}
		for i := range rows {
			round.Deliveries = append(round.Deliveries, rows[i].delivery())
		}
		return nil
	})
	if errors.Is(err, sql.ErrNoRows) {
		return account.Sending{}, false, nil
	}
	return round, err == nil, fail("find what is to be delivered", err)
}

// RecordDeliveries writes down what became of a round, and how the subscriber
// is after it, and lets go of the subscriber. disabled is the sentence that says
// why the subscriber is switched off; "" = it is not. When it has moved meanwhile,
// a round to where it was says nothing about how it is.
func (db *DB) RecordDeliveries(ctx context.Context, round account.Sending, tried []account.Tried, health account.Health, disabled string) error {
	type row struct {
		ID     int64         `json:"id"`
		State  string        `json:"state"`
		NextAt stamp         `json:"next_at"`
		Tries  []account.Try `json:"tries"`
	}
	rows := make([]row, len(tried))
	for i, t := range tried {
		rows[i] = row{t.Delivery, string(t.State), stamp(t.NextAt), []account.Try{t.Try}}
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	number := round.Subscriber.Number
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			UPDATE event_deliveries d SET state = n.state, next_at = n.next_at, tries = d.tries || n.tries
			FROM json_to_recordset($1) AS n (id bigint, state text, next_at timestamptz, tries jsonb)
			WHERE d.id = n.id AND d.subscriber_id = $2 AND d.state = 'waiting'`, text, number); err != nil {
			return fmt.Errorf("write down the attempts: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE subscribers SET held_until = NULL WHERE id = $1`, number); err != nil {
			return fmt.Errorf("let go of the subscriber: %w", err)
		}
		result, err := tx.ExecContext(ctx, `
			UPDATE subscribers SET failures = $2, failing_since = $3, quiet_until = $4, delivered_at = $5,
				enabled = enabled AND $6 = '', why = CASE WHEN enabled THEN $6 ELSE why END
			WHERE id = $1 AND sealed = $7`, number, health.Failures, stamp(health.FailingSince), stamp(health.QuietUntil), stamp(health.DeliveredAt), disabled, round.Sealed)
		if err != nil {
			return fmt.Errorf("write down how the subscriber is: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 || disabled == "" {
			return err
		}
		return db.auditSubscriber(account.As(ctx, account.Author{Service: true}), tx, round.Org.ID, account.SubscriberDisabled, round.Subscriber,
			account.Changed{Name: "enabled", From: "true", To: "false"}, account.Changed{Name: "why", To: disabled})
	})
	return fail("record deliveries", err)
}

// NextDelivery is the earliest moment after now at which something may be due
// that is not due now; zero if there is none.
func (db *DB) NextDelivery(ctx context.Context, now time.Time) (time.Time, error) {
	var next stamp
	err := db.sql.GetContext(ctx, &next, `
		SELECT LEAST(
			(SELECT min(next_at) FROM event_deliveries WHERE state = 'waiting' AND next_at > $1),
			(SELECT min(held_until) FROM subscribers WHERE held_until > $1),
			(SELECT min(quiet_until) FROM subscribers WHERE enabled AND quiet_until > $1))`, stamp(now))
	return next.time(), fail("find the next delivery", err)
}

// Deliveries lists deliveries to a subscriber, the newest first: those with a
// smaller number than below, unless that is 0, take at most. ErrNotFound: the
// organisation has no such subscriber.
func (db *DB) Deliveries(ctx context.Context, org int64, id string, below int64, take int) (list []account.Delivery, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		list = nil
		s, err := subscriber(ctx, tx, org, id, "")
		if err != nil {
			return err
		}
		var rows []deliveryRow
		if err := tx.SelectContext(ctx, &rows, `
			SELECT`+deliveryColumns+`FROM event_deliveries d
			WHERE d.subscriber_id = $1 AND ($2::bigint = 0 OR d.id < $2) ORDER BY d.id DESC LIMIT $3`, s.Number, below, take); err != nil {
			return err
		}
		for i := range rows {
			list = append(list, rows[i].delivery())
		}
		return nil
	})
	return list, fail("list deliveries", err)
}

// Redeliver has an event delivered to a subscriber once more, after whatever
// waits for it now. ErrNotFound: there is no such subscriber or delivery.
func (db *DB) Redeliver(ctx context.Context, org int64, id string, number int64) (d account.Delivery, err error) {
	now := db.clock()
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		s, err := subscriber(ctx, tx, org, id, " FOR KEY SHARE OF s")
		if err != nil {
			return err
		}
		var row deliveryRow
		if err := tx.GetContext(ctx, &row, `
			INSERT INTO event_deliveries AS d (subscriber_id, event, type, subject, at, body, again, since, next_at)
			SELECT subscriber_id, event, type, subject, at, body, true, $3, $3 FROM event_deliveries WHERE subscriber_id = $1 AND id = $2
			RETURNING`+deliveryColumns, s.Number, number, now); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		d = row.delivery()
		db.notify(tx, queue.DeliveriesWait)
		return nil
	})
	return d, fail("deliver again", err)
}
