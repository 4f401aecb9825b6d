package db

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// notice is something that happened, on its way to whoever wants to hear it.
type notice struct {
	Event   string          `json:"event"`
	Type    string          `json:"type"`
	Subject string          `json:"subject"`
	At      stamp           `json:"at"`
	Repo    int64           `json:"repo"` // 0 = of none
	Body    json.RawMessage `json:"body"`
	// Names are those by which a subscriber may want it: its own, that of its
	// family, and the one that stands for all.
	Names []string `json:"names"`
}

func newNotice(kind, subject string, at time.Time, repo int64, body any) (notice, error) {
	text, err := encode(body)
	if err != nil {
		return notice{}, fmt.Errorf("note %s: %w", kind, err)
	}
	family, _, _ := strings.Cut(kind, ".")
	return notice{uuid.NewString(), kind, clean(subject), stamp(at), repo, json.RawMessage(text), []string{kind, family + ".*", "*"}}, nil
}

// tellOfQueue has an organisation's subscribers told of what happened in a
// decision, in its transaction.
func (db *DB) tellOfQueue(ctx context.Context, tx *sqlx.Tx, org int64, events []queue.Event, now time.Time) (err error) {
	notices := make([]notice, len(events))
	for i := range events {
		e := &events[i]
		if notices[i], err = newNotice(string(e.Type), e.Subject(), e.At, int64(e.Repo.ID), e); err != nil {
			return err
		}
	}
	return db.tell(ctx, tx, org, notices, now)
}

// tell writes a delivery for each subscriber that wants a notice. They are
// numbered in the order of the notices. A subscriber that is deleted at this
// moment is not waited for longer than that takes.
func (db *DB) tell(ctx context.Context, tx *sqlx.Tx, org int64, notices []notice, now time.Time) error {
	if len(notices) == 0 {
		return nil
	}
	text, err := encode(notices)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO event_deliveries (subscriber_id, event, type, subject, at, body, since, next_at)
		SELECT s.id, (e.n->>'event')::uuid, e.n->>'type', e.n->>'subject', (e.n->>'at')::timestamptz, e.n->'body', $3, $3
		FROM jsonb_array_elements($2::jsonb) WITH ORDINALITY AS e(n, i)
		JOIN subscribers s ON s.org_id = $1 AND s.enabled
			AND e.n->'names' ?| s.events
			AND (s.repositories = '{}' OR (e.n->>'repo')::bigint = ANY(s.repositories))
		ORDER BY e.i, s.id
		FOR KEY SHARE OF s`, org, text, stamp(now))
	if err != nil {
		return fmt.Errorf("note what subscribers want to hear: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	db.notify(tx, queue.DeliveriesWait)
	return nil
}

// tellOfTests has subscribers told of what changed about tests, in the
// transaction of the change. All tests are of one repository.
func (db *DB) tellOfTests(ctx context.Context, tx *sqlx.Tx, rows []caseRow, changes []changeRow) error {
	var tests []struct {
		ID         int64          `json:"id"`
		TestID     uuid.UUID      `json:"test_id"`
		Name       string         `json:"name"`
		Parent     string         `json:"parent"`
		File       string         `json:"file"`
		Classname  string         `json:"classname"`
		Variant    string         `json:"variant"`
		Codeowners pq.StringArray `json:"codeowners"`
		Repository int64          `json:"repository_id"`
		Org        int64          `json:"org_id"`
		Host       string         `json:"host"`
		Owner      string         `json:"owner"`
		Repo       string         `json:"repo"`
	}
	ids := make([]int64, len(changes))
	for i, c := range changes {
		ids[i] = c.CaseID
	}
	if err := tx.SelectContext(ctx, &tests, `
		SELECT t.id, t.test_id, t.name, t.parent, t.file, t.classname, t.variant, t.codeowners, t.repository_id, r.org_id, r.host, r.owner, r.name AS repo
		FROM test_cases t JOIN repositories r ON r.id = t.repository_id
		WHERE t.id = ANY($1) AND (SELECT true FROM subscribers s WHERE s.org_id = r.org_id AND s.enabled LIMIT 1)`, pq.Array(ids)); err != nil {
		return fmt.Errorf("find out who wants to hear of tests: %w", err)
	}
	if len(tests) == 0 {
		return nil
	}
	judged, place := map[int64]*caseRow{}, map[int64]int{}
	for i := range rows {
		judged[rows[i].ID] = &rows[i]
	}
	for i := range tests {
		place[tests[i].ID] = i
	}
	var notices []notice
	for _, c := range changes {
		i, found := place[c.CaseID]
		if !found {
			continue
		}
		t, row, change := &tests[i], judged[c.CaseID], c.change()
		e := flaky.Event{
			Type: change.EventOf(), Host: t.Host, Owner: t.Owner, Repo: t.Repo, Number: t.ID, ID: t.TestID,
			File: t.File, Classname: t.Classname, Parent: t.Parent, Name: t.Name, Variant: t.Variant, Codeowners: t.Codeowners, Change: change,
		}
		if e.Type == flaky.QuarantineChanged {
			e.SettingBefore, e.Setting, e.Repairer, e.Expires = flaky.Setting(c.settingBefore), flaky.Setting(row.Setting), row.Owner, row.ExpiresAt.time()
			if e.SettingBefore == "" {
				e.SettingBefore = e.Setting
			}
		}
		n, err := newNotice(string(e.Type), e.Subject(), change.At, t.Repository, e)
		if err != nil {
			return err
		}
		notices = append(notices, n)
	}
	return db.tell(ctx, tx, tests[0].Org, notices, db.clock())
}

// AddTestDelivery has something delivered to a subscriber that it need not
// want: body, of that type. ErrNotFound: the organisation has no such subscriber.
func (db *DB) AddTestDelivery(ctx context.Context, org int64, id, kind string, body any) (d account.Delivery, err error) {
	now := db.clock()
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		s, err := subscriber(ctx, tx, org, id, " FOR KEY SHARE OF s")
		if err != nil {
			return err
		}
		n, err := newNotice(kind, kind+"/"+uuid.NewString(), now, 0, body)
		if err != nil {
			return err
		}
		var row deliveryRow
		if err := tx.GetContext(ctx, &row, `
			INSERT INTO event_deliveries AS d (subscriber_id, event, type, subject, at, body, since, next_at)
			VALUES ($1, $2, $3, $4, $5, $6, $5, $5) RETURNING`+deliveryColumns, s.Number, n.Event, n.Type, n.Subject, now, string(n.Body)); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		d = row.delivery()
		db.notify(tx, queue.DeliveriesWait)
		return nil
	})
	return d, fail("add a delivery", err)
}
