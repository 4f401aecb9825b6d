package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/flaky"
	"signalbox/queue"
)

// ImportOverrides stores what people decided about tests, each of which its
// Check has found to be complete: all in one transaction. A test is found by its
// id or else by its names. missing are the places in the list of those that the
// repository does not have, and changed is how many decisions are others than
// before.
func (db *DB) ImportOverrides(ctx context.Context, repo queue.RepoID, wanted []flaky.TestCase, now time.Time) (changed int, missing []int, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		changed, missing = 0, nil
		if err := lockTests(ctx, tx, int64(repo)); err != nil {
			return err
		}
		rules, err := rulesOf(ctx, tx, int64(repo))
		if err != nil {
			return err
		}
		rows, err := matched(ctx, tx, int64(repo), wanted)
		if err != nil {
			return err
		}
		var touched []*caseRow // each once, though the list may name it twice
		var changes []changeRow
		for i := range wanted {
			o, row := wanted[i].Override, rows[i]
			switch {
			case row == nil:
				missing = append(missing, i)
				continue
			case row.decided(o):
				continue
			}
			_, change := row.decide(o, rules, now)
			changes = append(changes, change)
			if !slices.Contains(touched, row) {
				touched = append(touched, row)
			}
			changed++
		}
		stored := make([]caseRow, len(touched))
		for i, row := range touched {
			stored[i] = *row
		}
		return db.storeJudged(ctx, tx, stored, changes)
	})
	return changed, missing, fail("import what was decided about tests", err)
}

// decided reports whether that is what was decided already. Who decided it does
// not matter.
func (r *caseRow) decided(o flaky.Override) bool {
	return r.Setting == string(o.Setting) && r.Owner == clean(o.Owner) && r.Reason == clean(o.Reason) && time.Time(r.ExpiresAt).Equal(o.Expires)
}

// decide takes over what a person decided about a test. It says what follows, and
// what changed.
func (r *caseRow) decide(o flaky.Override, rules flaky.Rules, now time.Time) (flaky.Quarantine, changeRow) {
	was, settingWas := onOff(!time.Time(r.QuarantinedAt).IsZero()), r.Setting
	r.Setting, r.Owner, r.Reason, r.Actor, r.ExpiresAt = string(o.Setting), clean(o.Owner), clean(o.Reason), clean(o.Actor), stamp(o.Expires)
	q := rules.Decide(r.History.v, o, now)
	switch {
	case !q.On:
		r.QuarantinedAt = stamp{}
	case was == "off":
		r.QuarantinedAt = stamp(now)
	}
	return q, changeRow{CaseID: r.ID, At: stamp(now), What: "quarantine", Before: was, After: onOff(q.On), Code: string(q.Code), Reason: o.Reason, Actor: o.Actor, Score: r.Score, settingBefore: settingWas}
}

// matched are the tests of a repository that have the ids or else the names of
// some others; nil where there is none. The same test is the same row.
func matched(ctx context.Context, tx *sqlx.Tx, repository int64, wanted []flaky.TestCase) ([]*caseRow, error) {
	var ids []uuid.UUID
	names := make([][]string, 5)
	for i := range wanted {
		t := &wanted[i]
		ids = append(ids, t.ID)
		for n, part := range []string{t.File, t.Classname, t.Parent, t.Name, t.Variant} {
			names[n] = append(names[n], clean(part))
		}
	}
	var found []struct {
		N  int   `json:"n"`
		ID int64 `json:"id"`
	}
	if err := tx.SelectContext(ctx, &found, `
		WITH w AS (SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
			WITH ORDINALITY AS w(test_id, file, classname, parent, name, variant, n))
		SELECT DISTINCT ON (n) n, id FROM (
			SELECT w.n, t.id, 1 AS rank FROM w JOIN test_cases t ON t.repository_id = $1 AND t.test_id = w.test_id
			UNION ALL
			SELECT w.n, a.case_id, 2 FROM w JOIN test_aliases a ON a.repository_id = $1 AND a.test_id = w.test_id
			UNION ALL
			SELECT w.n, t.id, 3 FROM w JOIN test_cases t ON t.repository_id = $1 AND t.name = w.name AND t.file = w.file
				AND t.classname = w.classname AND t.parent = w.parent AND t.variant = w.variant) found
		ORDER BY n, rank, id`,
		repository, pq.Array(ids), pq.Array(names[0]), pq.Array(names[1]), pq.Array(names[2]), pq.Array(names[3]), pq.Array(names[4])); err != nil {
		return nil, fmt.Errorf("find tests by their names: %w", err)
	}
	numbers := make([]int64, len(found))
	for i, f := range found {
		numbers[i] = f.ID
	}
	var rows []caseRow
	if err := tx.SelectContext(ctx, &rows, `SELECT `+judgedColumns+` FROM test_cases WHERE id = ANY($1)`, pq.Array(numbers)); err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	byNumber := map[int64]*caseRow{}
	for i := range rows {
		byNumber[rows[i].ID] = &rows[i]
	}
	of := make([]*caseRow, len(wanted))
	for _, f := range found {
		of[f.N-1] = byNumber[f.ID]
	}
	return of, nil
}
