package db

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// channel is the name under which programs on one database notify each other.
const channel = "signalbox"

// What is notified. The payload is one of these, a space, and the name of the
// program that it comes from, which has been told already without Postgres.
const (
	factsAppended = "facts"
	planSaved     = "plan"
	eventsNoted   = "events" // there is something to deliver to subscribers
)

// notify tells the other programs, when the transaction commits.
func (db *DB) notify(ctx context.Context, tx *sqlx.Tx, what string) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, what+" "+db.name); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// Wakeups yields a value whenever facts were appended or a plan was saved, by
// this program or another on the same database; several may arrive as one.
// The channel is closed when ctx ends or the database is closed. A notification
// can be lost while the connection is: after a reconnect there is one value for
// whatever was missed, and whoever listens should look now and then anyway.
func (db *DB) Wakeups(ctx context.Context) (<-chan struct{}, error) {
	return db.join(ctx, db.signals)
}

// DeliveriesAdded yields a value whenever there is something to deliver to
// subscribers, in the way of Wakeups.
func (db *DB) DeliveriesAdded(ctx context.Context) (<-chan struct{}, error) {
	return db.join(ctx, db.notices)
}

func (db *DB) join(ctx context.Context, s *signals) (<-chan struct{}, error) {
	if err := db.ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for wake-ups: the database is closed: %w", err)
	}
	db.startListening()
	wake, leave := s.join()
	context.AfterFunc(ctx, leave)
	context.AfterFunc(db.ctx, leave)
	return wake, nil
}

// signals wakes goroutines of this program.
type signals struct {
	mu      sync.Mutex
	waiting map[chan struct{}]bool
}

func newSignals() *signals { return &signals{waiting: map[chan struct{}]bool{}} }

// join returns a channel that raise fills, and a function that closes it.
func (s *signals) join() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[c] {
			delete(s.waiting, c)
			close(c)
		}
	}
}

// raise wakes everybody who joined. It never blocks.
func (s *signals) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.waiting {
		select {
		case c <- struct{}{}:
		default: // a value is waiting there already
		}
	}
}

// startListening begins, once, to hear other programs. It ends with Close.
func (db *DB) startListening() {
	db.listen.Do(func() {
		db.wg.Go(db.hear)
	})
}

// hear passes on what other programs notify. lib/pq's listener connects again
// by itself, and then sends nil.
func (db *DB) hear() {
	listener := pq.NewListener(db.dsn, 50*time.Millisecond, 10*time.Second, func(event pq.ListenerEventType, err error) {
		if err != nil {
			db.log.Warn("notifications are interrupted", "error", err)
		}
	})
	defer listener.Close()
	go func() { // Listen blocks until the first connection stands
		if err := listener.Listen(channel); err != nil && db.ctx.Err() == nil {
			db.log.Error("notifications cannot be heard; changes by other programs are noticed later", "error", err)
		}
	}()
	// A connection that broke without a word is found out by using it.
	ping := time.NewTicker(time.Minute)
	defer ping.Stop()
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-ping.C:
			go listener.Ping()
		case n := <-listener.Notify:
			if n == nil {
				db.signals.raise()
				db.notices.raise()
				db.lookForAnswers()
				continue
			}
			what, from, _ := strings.Cut(n.Extra, " ")
			if what == eventsNoted { // our own too: nobody else tells us
				db.notices.raise()
				continue
			}
			if from == db.name {
				continue
			}
			db.signals.raise()
			if what == planSaved {
				db.lookForAnswers()
			}
		}
	}
}
