package db

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// channel is the name under which programs on one database notify each other.
// The payload is a queue.News as a number, a space, and the name of the program
// that it comes from, which has been told already without Postgres.
const channel = "signalbox"

const (
	// spreadPause is how long news gather, while there are many, before the
	// other programs hear of them together.
	spreadPause = 5 * time.Millisecond
	// spreadPatience bounds one notification, and the last one of a program
	// that ends.
	spreadPatience = 2 * time.Second
	// spreadAgain is when news are sent again that could not be sent.
	spreadAgain = time.Second
)

// notify has all programs told, this one included, when the transaction has
// been committed. It is not NOTIFY in that transaction: Postgres commits those
// that notify one after the other, each with its own write to the disk.
func (db *DB) notify(tx *sqlx.Tx, what queue.News) { db.uncommitted.add(tx, tidings{news: what}) }

// tidings are what programs are to be told.
type tidings struct {
	news queue.News
	jobs []string // the job queues that have more, without repetitions
}

func (t *tidings) add(more tidings) {
	t.news |= more.news
	for _, name := range more.jobs {
		if !slices.Contains(t.jobs, name) {
			t.jobs = append(t.jobs, name)
		}
	}
}

// uncommitted is what transactions have to tell once they are committed.
type uncommitted struct {
	mu sync.Mutex
	of map[*sqlx.Tx]*tidings
}

func (u *uncommitted) add(tx *sqlx.Tx, what tidings) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[*sqlx.Tx]*tidings{}
	}
	if u.of[tx] == nil {
		u.of[tx] = &tidings{}
	}
	u.of[tx].add(what)
}

func (u *uncommitted) take(tx *sqlx.Tx) tidings {
	u.mu.Lock()
	defer u.mu.Unlock()
	what := u.of[tx]
	delete(u.of, tx)
	if what == nil {
		return tidings{}
	}
	return *what
}

// announce tells all programs something that has been committed: this one at
// once, the others in a moment. A program that dies in between has told nobody
// else; they look by themselves now and then.
func (db *DB) announce(what tidings) {
	if what.news == 0 && len(what.jobs) == 0 {
		return
	}
	db.signals.raise(what.news)
	db.spreading.Do(func() { db.wg.Go(db.spread) })
	db.unspread.add(what)
}

// unspread is what other programs, and all who work jobs, have yet to hear.
type unspread struct {
	mu   sync.Mutex
	what tidings
	more chan struct{} // has room for one
}

func newUnspread() unspread { return unspread{more: make(chan struct{}, 1)} }

func (u *unspread) add(what tidings) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.what.add(what)
	select {
	case u.more <- struct{}{}:
	default: // it is known that there is more
	}
}

func (u *unspread) take() tidings {
	u.mu.Lock()
	defer u.mu.Unlock()
	what := u.what
	u.what = tidings{}
	return what
}

// spread sends what was announced to the other programs. The first news go out
// at once, and those that follow soon after go together. It ends with Close,
// when it has sent the last.
func (db *DB) spread() {
	for ended := false; !ended; {
		select {
		case <-db.unspread.more:
		case <-db.ctx.Done():
			ended = true
		}
		what := db.unspread.take()
		pause := spreadPause
		if err := db.send(what); err != nil && !ended {
			db.log.Warn("other programs hear later of what has changed", "error", err)
			db.unspread.add(what)
			pause = spreadAgain
		}
		select {
		case <-time.After(pause):
		case <-db.ctx.Done():
		}
	}
}

// jobsChannel is where River listens for jobs, in the schema that it is in.
const jobsChannel = "river_insert"

func (db *DB) send(what tidings) error {
	if what.news == 0 && len(what.jobs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), spreadPatience)
	defer cancel()
	if _, err := db.sql.ExecContext(ctx, `
		-- A notification is a commit. Nobody needs it after a crash, so it waits for no disk.
		SELECT pg_notify(n.channel, n.payload), set_config('synchronous_commit', 'off', true)
		FROM (
			SELECT $1 AS channel, $2 AS payload WHERE $3
			UNION ALL
			SELECT current_schema() || '.' || $4, json_build_object('queue', name)::text FROM unnest($5::text[]) AS j (name)
		) n`,
		channel, fmt.Sprintf("%d %s", what.news, db.name), what.news != 0, jobsChannel, pq.Array(what.jobs)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// Wakeups yields what happens to queues, in this program or in another on the
// same database; several news may arrive as one. The channel is closed when ctx
// ends or the database is closed. A notification can be lost while the
// connection is: after a reconnect there is queue.AnyNews for whatever was
// missed, and whoever listens should look now and then anyway.
func (db *DB) Wakeups(ctx context.Context) (<-chan queue.News, error) {
	return db.join(ctx, queue.AnyNews&^queue.DeliveriesWait)
}

// DeliveriesAdded yields a value whenever there is something to deliver to
// subscribers, in the way of Wakeups.
func (db *DB) DeliveriesAdded(ctx context.Context) (<-chan queue.News, error) {
	return db.join(ctx, queue.DeliveriesWait)
}

func (db *DB) join(ctx context.Context, about queue.News) (<-chan queue.News, error) {
	if err := db.ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for wake-ups: the database is closed: %w", err)
	}
	db.startListening()
	wake, leave := db.signals.join(about)
	context.AfterFunc(ctx, leave)
	context.AfterFunc(db.ctx, leave)
	return wake, nil
}

// signals wakes goroutines of this program.
type signals struct {
	mu      sync.Mutex
	waiting map[chan queue.News]queue.News // what each wants to hear of
}

func newSignals() *signals { return &signals{waiting: map[chan queue.News]queue.News{}} }

// join returns a channel that raise fills with news of some kinds, and a
// function that closes it.
func (s *signals) join(about queue.News) (<-chan queue.News, func()) {
	c := make(chan queue.News, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[c] = about
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[c] != 0 {
			delete(s.waiting, c)
			close(c)
		}
	}
}

// raise wakes everybody who joined for such news. It never blocks.
func (s *signals) raise(what queue.News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, about := range s.waiting {
		news := what & about
		if news == 0 {
			continue
		}
		select {
		case unheard := <-c:
			news |= unheard
		default:
		}
		c <- news // has room: nobody else sends
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
			what, from := queue.AnyNews, ""
			if n != nil {
				what, from = newsIn(n.Extra)
			}
			if from == db.name {
				continue
			}
			db.signals.raise(what)
			if what.Has(queue.QueueChanged) {
				db.lookForAnswers()
			}
		}
	}
}

// newsIn reads a notification. A decision of another program may have left a
// queue due, or set a time at which it is. What another version means by its
// notification may be anything.
func newsIn(payload string) (what queue.News, from string) {
	number, from, _ := strings.Cut(payload, " ")
	n, err := strconv.ParseUint(number, 10, 8)
	if what = queue.News(n); err != nil || what&^queue.AnyNews != 0 {
		what = queue.AnyNews
	}
	if what.Has(queue.QueueChanged) {
		what |= queue.FactsWait | queue.TimesChanged
	}
	return what, from
}
