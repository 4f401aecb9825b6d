package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/queue"
)

const (
	// turnClass is the first half of the advisory locks that are turns; the
	// second is a hash of the repository and the pull request. Two of one hash
	// wait for each other, no more.
	turnClass = 7446274
	// turnPoll is how often somebody looks again whose turn another program has.
	turnPoll = 100 * time.Millisecond
	// turnPatience bounds a statement about turns.
	turnPatience = 5 * time.Second
)

// errTurnLost ends the work of whoever has a turn when its lock is gone.
var errTurnLost = errors.New("the connection that held the turn broke")

// subject is what one has a turn on.
type subject struct {
	repo queue.RepoID
	pr   int64
}

func (s subject) String() string { return fmt.Sprintf("%d/%d", s.repo, s.pr) }

// turns are those of one program. Locks of Postgres belong to a connection, so
// all turns are held on one, which goes back to the pool when there are none:
// who has a turn waits for the host most of the time, and must not keep a
// connection from the others for that. Within the program, where all have the
// same connection, ours keeps them apart.
type turns struct {
	pool *sql.DB

	mu   sync.Mutex // guards ours
	ours map[subject]chan struct{}

	session sync.Mutex // guards what follows; held for a statement at most
	conn    *sql.Conn  // nil while nobody has a turn
	holders int
	lost    chan struct{} // closed when conn broke
}

// InTurn calls do while nobody else is in InTurn for the same pull request, in
// this program or in another on this database. It waits for its turn as long
// as ctx lasts, and returns what do does. A program that dies gives its turns
// back with its connection. When that breaks in a living one, the context of
// do ends as soon as somebody notices; until then another program may have the
// turn too.
func (db *DB) InTurn(ctx context.Context, repo queue.RepoID, pr int64, do func(context.Context) error) error {
	t, s := &db.turns, subject{repo, pr}
	if err := t.claim(ctx, s); err != nil {
		return fail(fmt.Sprintf("wait for the turn on #%d", pr), err)
	}
	defer t.release(s)
	lost, err := t.lock(ctx, s)
	if err != nil {
		return fail(fmt.Sprintf("wait for the turn on #%d", pr), err)
	}
	defer t.unlock(s, lost)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-lost:
			cancel(errTurnLost)
		case <-ctx.Done():
		}
	}()
	return do(ctx)
}

// claim waits until nobody of this program has the turn.
func (t *turns) claim(ctx context.Context, s subject) error {
	for {
		t.mu.Lock()
		before, taken := t.ours[s]
		if !taken {
			t.ours[s] = make(chan struct{})
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *turns) release(s subject) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.ours[s])
	delete(t.ours, s)
}

// lock waits until no other program has the turn. It returns a channel that is
// closed when the lock is lost.
func (t *turns) lock(ctx context.Context, s subject) (lost chan struct{}, err error) {
	for {
		lost, ok, err := t.try(ctx, s)
		if ok || err != nil {
			return lost, err
		}
		select {
		case <-time.After(turnPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try takes the lock if it is free.
func (t *turns) try(ctx context.Context, s subject) (lost chan struct{}, ok bool, err error) {
	t.session.Lock()
	defer t.session.Unlock()
	if t.conn == nil {
		if t.conn, err = t.pool.Conn(ctx); err != nil {
			t.conn = nil
			return nil, false, err
		}
		t.lost = make(chan struct{})
	}
	defer t.idle()
	// A statement that is broken off would take the connection with it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnPatience)
	defer cancel()
	if err := t.conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1, hashtext($2))`, turnClass, s.String()).Scan(&ok); err != nil {
		t.drop()
		return nil, false, err
	}
	if ok {
		t.holders++
	}
	return t.lost, ok, nil
}

// unlock gives a lock back, unless it was lost with its connection.
func (t *turns) unlock(s subject, lost chan struct{}) {
	t.session.Lock()
	defer t.session.Unlock()
	if t.conn == nil || t.lost != lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), turnPatience)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1, hashtext($2))`, turnClass, s.String()); err != nil {
		t.drop()
		return
	}
	t.holders--
	t.idle()
}

// idle gives the connection back when no lock is on it. session is held.
func (t *turns) idle() {
	if t.conn != nil && t.holders == 0 {
		t.conn.Close()
		t.conn = nil
	}
}

// drop throws a connection away on which a statement failed: whether its locks
// are still held nobody can say. session is held.
func (t *turns) drop() {
	discard(t.conn)
	close(t.lost)
	t.conn, t.holders = nil, 0
}

// discard closes a connection of the pool for good, and with it its locks.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the one error after which the pool does
	conn.Close()
}
