package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// moveRow is a row of the timeline.
type moveRow struct {
	QueueID    int64  `json:"queue_id"`
	EntryID    string `json:"entry_id"`
	PR         int64  `json:"pr"`
	Submission int64  `json:"submission"`
	From       string `json:"from_state"`
	To         string `json:"to_state"`
	At         stamp  `json:"at"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	ActorLogin string `json:"actor_login"`
	ActorID    int64  `json:"actor_id"`
	ActorBot   bool   `json:"actor_bot"`
	RunID      string `json:"run_id"`
}

// moveColumns are the columns of moveRow.
const moveColumns = `
	queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message,
	actor_login, actor_id, actor_bot, run_id`

// saveMoves adds to the timeline.
func saveMoves(ctx context.Context, tx *sqlx.Tx, q queue.ID, moves []queue.Move) error {
	if len(moves) == 0 {
		return nil
	}
	rows := make([]moveRow, len(moves))
	for i, m := range moves {
		rows[i] = moveRow{
			QueueID: int64(q), EntryID: string(m.Entry), PR: m.PR, Submission: m.Submission,
			From: string(m.From), To: string(m.To), At: stamp(m.At), Reason: string(m.Reason), Message: m.Message,
			ActorLogin: m.Actor.Login, ActorID: m.Actor.ID, ActorBot: m.Actor.Bot, RunID: string(m.Run),
		}
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO timeline (`+moveColumns+`)
		SELECT `+moveColumns+` FROM json_populate_recordset(NULL::timeline, $1)`, text); err != nil {
		return fmt.Errorf("save timeline: %w", err)
	}
	return nil
}

// Timeline lists the moves of a pull request in a queue, oldest first, over
// all its submissions. It is empty when there were none.
func (db *DB) Timeline(ctx context.Context, q queue.ID, pr int64) ([]queue.Move, error) {
	var rows []moveRow
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT `+moveColumns+` FROM timeline WHERE queue_id = $1 AND pr = $2 ORDER BY id`, int64(q), pr); err != nil {
		return nil, fail(fmt.Sprintf("read the timeline of #%d", pr), err)
	}
	moves := make([]queue.Move, len(rows))
	for i, r := range rows {
		moves[i] = r.move()
	}
	return moves, nil
}

func (r moveRow) move() queue.Move {
	return queue.Move{
		Entry: queue.EntryID(r.EntryID), PR: r.PR, Submission: r.Submission,
		From: queue.EntryState(r.From), To: queue.EntryState(r.To), At: time.Time(r.At),
		Reason: queue.Reason(r.Reason), Message: r.Message,
		Actor: queue.Actor{Login: r.ActorLogin, ID: r.ActorID, Bot: r.ActorBot}, Run: queue.RunID(r.RunID),
	}
}
