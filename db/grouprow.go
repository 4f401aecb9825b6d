package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// groupRow is a group as its table has it.
type groupRow struct {
	QueueID     int64                 `json:"queue_id"`
	ID          int64                 `json:"id"`
	Members     texts                 `json:"members"`
	Part        document[*queue.Part] `json:"part"`
	Run         string                `json:"run"`
	Interrupted int                   `json:"interrupted"`
	BuildTries  int                   `json:"build_tries"`
	NotBefore   stamp                 `json:"not_before"`
	Proof       int64                 `json:"proof"`
	LandTries   int                   `json:"land_tries"`
	OneByOne    bool                  `json:"one_by_one"`
	Direct      bool                  `json:"direct"`
	Urgent      bool                  `json:"urgent"`
	Probation   string                `json:"probation"`
	Confirming  bool                  `json:"confirming"`
	FormedAt    stamp                 `json:"formed_at"`
}

// groupColumns are the columns of groupRow.
const groupColumns = `
	queue_id, id, members, part, run, interrupted, build_tries, not_before, proof, land_tries, one_by_one, direct, urgent, probation, confirming, formed_at`

func rowOfGroup(q queue.ID, g *queue.Group) groupRow {
	return groupRow{
		QueueID: int64(q), ID: int64(g.ID), Members: texted(g.Members), Part: document[*queue.Part]{g.Part},
		Run: string(g.Run), Interrupted: g.Interrupted, BuildTries: g.BuildTries, NotBefore: stamp(g.NotBefore),
		Proof: int64(g.Proof), LandTries: g.LandTries, OneByOne: g.OneByOne, Direct: g.Direct, Urgent: g.Urgent,
		Probation: string(g.Probation), Confirming: g.Confirming, FormedAt: stamp(g.FormedAt),
	}
}

func (r groupRow) group() queue.Group {
	return queue.Group{
		ID: queue.GroupID(r.ID), Members: retyped[queue.EntryID](r.Members), Part: r.Part.v,
		Run: queue.RunID(r.Run), Interrupted: r.Interrupted, BuildTries: r.BuildTries, NotBefore: time.Time(r.NotBefore),
		Proof: queue.GroupID(r.Proof), LandTries: r.LandTries, OneByOne: r.OneByOne, Direct: r.Direct, Urgent: r.Urgent,
		Probation: queue.Probation(r.Probation), Confirming: r.Confirming, FormedAt: time.Time(r.FormedAt),
	}
}

// saveGroups writes groups that changed or are new, and removes those that are gone.
func saveGroups(ctx context.Context, tx *sqlx.Tx, q queue.ID, groups []queue.Group, gone []queue.GroupID) error {
	if len(groups) > 0 {
		rows := make([]groupRow, len(groups))
		for i := range groups {
			rows[i] = rowOfGroup(q, &groups[i])
		}
		text, err := encode(rows)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO groups (`+groupColumns+`)
			SELECT `+groupColumns+` FROM json_populate_recordset(NULL::groups, $1)
			ON CONFLICT (queue_id, id) DO UPDATE SET
				members = excluded.members, part = excluded.part, run = excluded.run, interrupted = excluded.interrupted,
				build_tries = excluded.build_tries, not_before = excluded.not_before, proof = excluded.proof,
				land_tries = excluded.land_tries, one_by_one = excluded.one_by_one, direct = excluded.direct, urgent = excluded.urgent,
				probation = excluded.probation, confirming = excluded.confirming, formed_at = excluded.formed_at`, text); err != nil {
			return fmt.Errorf("save groups: %w", err)
		}
	}
	if len(gone) > 0 {
		if _, err := tx.ExecContext(ctx, `DELETE FROM groups WHERE queue_id = $1 AND id = ANY($2)`,
			int64(q), pq.Array(numbered(gone))); err != nil {
			return fmt.Errorf("remove groups: %w", err)
		}
	}
	return nil
}
