package db

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"
)

// presenceClass is the first half of the advisory locks by which programs show
// that they are alive; the second is a hash of the name that they work jobs
// under.
const presenceClass = 7446273

// mostAttempts bounds how often a job is repeated because its program died:
// one that kills its program does not do so for ever.
const mostAttempts = 25

// releaseAfter is how long a job may be on its way to whoever works it.
const releaseAfter = 10 * time.Second

// Presence shows that a program is alive, by a lock that Postgres drops with
// its connection, however the program ends.
type Presence struct {
	db   *DB
	name string
	conn *sql.Conn
}

// Appear takes the lock for a program that works jobs under that name, which
// must be its alone. It keeps one connection of the pool. The caller calls
// Leave after its jobs have ended.
func (db *DB) Appear(ctx context.Context, name string) (*Presence, error) {
	p := &Presence{db: db, name: name}
	if err := p.lock(ctx); err != nil {
		return nil, fail("show that this program is alive", err)
	}
	return p, nil
}

func (p *Presence) lock(ctx context.Context) error {
	conn, err := p.db.sql.DB.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1, hashtext($2))`, presenceClass, p.name); err != nil {
		conn.Close()
		return err
	}
	p.conn = conn
	return nil
}

// Renew checks that the lock is still held, and takes it again when its
// connection broke. To be called every few seconds.
func (p *Presence) Renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if p.conn != nil {
		if _, err := p.conn.ExecContext(ctx, `SELECT 1`); err == nil {
			return nil
		}
		discard(p.conn)
		p.conn = nil
	}
	return fail("show that this program is alive", p.lock(ctx))
}

// Leave gives the lock up.
func (p *Presence) Leave() {
	if p.conn == nil {
		return
	}
	// The connection goes back to the pool, so the lock must not stay on it.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := p.conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1, hashtext($2))`, presenceClass, p.name); err != nil {
		discard(p.conn)
	} else {
		p.conn.Close()
	}
	p.conn = nil
}

// TakeOver frees the jobs that programs had in hand that are no longer alive,
// so that somebody works them at once, and returns how many there were.
// Without it they would wait for River, which only knows that a job has run
// for too long. A program whose connection broke may still be at work on one:
// every action may be done twice. The attempt that the program died in does
// not count.
func (db *DB) TakeOver(ctx context.Context) (int64, error) {
	done, err := db.sql.ExecContext(ctx, `
		UPDATE river_job j
		SET state = 'available', max_attempts = GREATEST(max_attempts, LEAST(attempt + 1, $2))
		WHERE state = 'running' AND attempt < $2 AND NOT EXISTS (
			SELECT 1 FROM pg_locks l
			WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
				AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND l.classid::bigint = $1
				AND l.objid::bigint = hashtext(j.attempted_by[array_length(j.attempted_by, 1)])::bigint & 4294967295)`,
		presenceClass, mostAttempts)
	if err != nil {
		return 0, fail("take over jobs of programs that ended", err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("take over jobs of programs that ended: %w", err)
	}
	return n, nil
}

// Release frees the jobs that the database thinks this program has in hand,
// and that it has not: their start or their end was lost with a connection.
// inHand are those that it has; what began within the last seconds is left
// alone. It returns how many there were.
func (p *Presence) Release(ctx context.Context, inHand []int64) (int64, error) {
	done, err := p.db.sql.ExecContext(ctx, `
		UPDATE river_job
		SET state = 'available', max_attempts = GREATEST(max_attempts, LEAST(attempt + 1, $4))
		WHERE state = 'running' AND attempt < $4 AND attempted_by[array_length(attempted_by, 1)] = $1
			AND id <> ALL($2) AND attempted_at < $3`,
		p.name, pq.Array(append([]int64{}, inHand...)), time.Now().Add(-releaseAfter), mostAttempts)
	if err != nil {
		return 0, fail("free jobs that nobody has in hand", err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("free jobs that nobody has in hand: %w", err)
	}
	return n, nil
}
