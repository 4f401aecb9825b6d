package db

import (
	"context"
	"time"

	"signalbox/queue"
)

// NewSession keeps who signed in under the hash of the session's secret (see
// account.Hash), until expires.
func (db *DB) NewSession(ctx context.Context, hash [32]byte, who queue.Actor, now, expires time.Time) error {
	_, err := db.sql.ExecContext(ctx, `
		INSERT INTO sessions (hash, login, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
		hash[:], clean(who.Login), who.ID, stamp(now), stamp(expires))
	return fail("keep a session", err)
}

// Session is who signed in. ErrNotFound: the session is unknown or expired.
func (db *DB) Session(ctx context.Context, hash [32]byte, now time.Time) (queue.Actor, error) {
	var row struct {
		Login  string `json:"login"`
		UserID int64  `json:"user_id"`
	}
	if err := db.sql.GetContext(ctx, &row, `SELECT login, user_id FROM sessions WHERE hash = $1 AND expires_at > $2`, hash[:], now); err != nil {
		return queue.Actor{}, fail("find a session", err)
	}
	return queue.Actor{Login: row.Login, ID: row.UserID}, nil
}

// EndSession forgets a session. One that is not there is fine.
func (db *DB) EndSession(ctx context.Context, hash [32]byte) error {
	_, err := db.sql.ExecContext(ctx, `DELETE FROM sessions WHERE hash = $1`, hash[:])
	return fail("end a session", err)
}
