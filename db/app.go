package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// KeepApp keeps the secrets of the App that a server made for itself on a
// host, encrypted by the caller. ErrExists: there is one already.
func (db *DB) KeepApp(ctx context.Context, host string, sealed []byte) error {
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, `
			INSERT INTO apps (host, sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (host) DO NOTHING`,
			strings.ToLower(clean(host)), sealed, db.clock())
		if err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return queue.ErrExists
		}
		return nil
	})
	return fail("keep the App", err)
}

// App is what KeepApp kept for a host. ErrNotFound: nothing.
func (db *DB) App(ctx context.Context, host string) ([]byte, error) {
	var sealed []byte
	err := db.sql.GetContext(ctx, &sealed, `SELECT sealed FROM apps WHERE host = $1`, strings.ToLower(clean(host)))
	return sealed, fail("read the App", err)
}
