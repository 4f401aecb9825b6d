//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"signalbox/db"
	"signalbox/queue"
)

// calm waits until every submission has ended, no job is left, and no test
// branch. It fails the test when nothing ends for too long, and says what is left.
func (c *chaos) calm() {
	c.t.Helper()
	began := time.Now()
	fewest, since := 1<<30, began
	for _, k := range c.copies {
		k.await()
	}
	d := c.open()
	defer d.Close()
	for still := 0; still < 3; { // three looks in a row, a second apart
		for _, q := range c.queues {
			if err := q.look(c.ctx); err != nil {
				c.t.Fatal(err)
			}
		}
		left, err := c.left(d)
		if len(left) < fewest {
			fewest, since = len(left), time.Now()
		}
		switch {
		case err != nil:
			c.t.Fatal(err)
		case len(left) == 0:
			still++
		case time.Since(since) > calmLimit || c.ctx.Err() != nil:
			c.fail("%s later, and after %s in which nothing ended, there still is:\n%s", time.Since(began), time.Since(since), strings.Join(left, "\n"))
		default:
			still = 0
		}
		time.Sleep(time.Second) // the pace of the looks
	}
	c.calmed = time.Since(began)
}

// fail ends the test with the ends of all logs.
func (c *chaos) fail(format string, args ...any) {
	c.t.Helper()
	for i, k := range c.copies {
		c.t.Logf("the end of the log of copy %d:\n%s", i, k.log.tail(8000))
	}
	c.t.Fatalf(format, args...)
}

// left is what has not ended.
func (c *chaos) left(d *db.DB) ([]string, error) {
	var left []string
	for _, q := range c.queues {
		rows, err := d.SQL().QueryContext(c.ctx, `SELECT pr, state, message FROM entries WHERE queue_id = $1`, int64(q.queue.ID))
		if err != nil {
			return nil, err
		}
		known := map[int]bool{}
		for rows.Next() {
			var pr int
			var state, message string
			if err := rows.Scan(&pr, &state, &message); err != nil {
				return nil, err
			}
			known[pr] = true
			// Who waits for a conflict to be resolved waits for a person.
			if e := queue.EntryState(state); !e.Final() && !(e == queue.NotReady && q.pulls[pr] != nil && !q.pulls[pr].harmless) {
				left = append(left, fmt.Sprintf("%s #%d is %s: %s", q.name, pr, state, message))
			}
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
		for _, pr := range slices.Sorted(maps.Keys(q.pulls)) {
			if !known[pr] && q.pulls[pr].harmless {
				left = append(left, fmt.Sprintf("%s #%d was never heard of", q.name, pr))
			}
		}
		branches, err := c.sim.Branches(q.repo())
		if err != nil {
			return nil, err
		}
		for _, b := range branches {
			if strings.HasPrefix(b, "signalbox/") {
				left = append(left, q.name+" has the branch "+b)
			}
		}
	}
	var jobs int
	err := d.SQL().QueryRowContext(c.ctx, `SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')
		AND kind NOT IN ('resync', 'refresh_pr')`).Scan(&jobs)
	if jobs > 0 {
		left = append(left, fmt.Sprint(jobs, " jobs"))
	}
	return left, err
}

// longEnough is how long a run takes in which everything breaks at least once.
const longEnough = 3 * time.Minute

// check looks whether the promises hold.
func (c *chaos) check() {
	d := c.open()
	defer d.Close()
	for i, k := range c.copies {
		if lines := k.log.panics(); len(lines) > 0 {
			c.t.Errorf("copy %d panicked: %q", i, lines)
		}
	}
	host := asApp(c.t, c.sim, c.pg.DSN(chaosDatabase))
	for _, q := range c.queues {
		a := &auditor{sim: c.sim, host: host, client: q.client, db: d, foreign: q.foreign}
		found, err := a.check(c.ctx)
		if err != nil {
			c.t.Errorf("%s: %v", q.name, err)
		}
		for _, fault := range q.ledger(d).faults() {
			c.t.Errorf("%s: %s", q.name, fault)
		}
		states := q.states(d)
		q.figures = fmt.Sprintf("%d pull requests, %d landings (%v), %d pushes past the queue, paused itself %d times, ended %v", len(q.pulls), len(found.Landings), found.Ways, len(q.foreign), q.paused, states)
	}
	for _, b := range c.breakages(c.copies[0]) {
		if c.broke[b.name] == 0 && *chaosFor >= longEnough {
			c.t.Errorf("in %s there never was %s", *chaosFor, b.name)
		}
	}
	if c.t.Failed() {
		c.fail("a promise is broken")
	}
}

// ledger gathers what is known of the queue's branch without the queue.
func (q *chaosQueue) ledger(d *db.DB) ledger {
	q.c.t.Helper()
	l := ledger{foreign: q.foreign, own: map[int]string{}, merged: map[int]bool{}, lanes: q.lanes}
	var err error
	if l.commits, err = q.c.sim.Log(q.c.ctx, q.repo(), "main"); err == nil {
		l.paths, err = q.c.sim.Files(q.repo(), l.commits[0].Tree)
	}
	if err == nil {
		l.passed, err = q.c.sim.Passed(q.repo(), demoChecks...)
	}
	var merged []int64
	if err == nil {
		err = d.SQL().QueryRowContext(q.c.ctx, `SELECT array_agg(DISTINCT pr) FROM timeline WHERE queue_id = $1 AND to_state = 'merged'`,
			int64(q.queue.ID)).Scan(pq.Array(&merged))
	}
	if err != nil {
		q.c.t.Fatal(err)
	}
	for _, pr := range merged {
		l.merged[int(pr)] = true
	}
	for pr, p := range q.pulls {
		l.own[pr] = p.path
	}
	return l
}

// states counts how pull requests have ended, and demands that the harmless ones
// have landed.
func (q *chaosQueue) states(d *db.DB) map[string]int {
	counts := map[string]int{}
	for _, pr := range slices.Sorted(maps.Keys(q.pulls)) {
		e, err := d.Entry(q.c.ctx, q.queue.ID, int64(pr))
		if err != nil {
			if q.pulls[pr].harmless {
				q.c.t.Errorf("%s #%d: %v", q.name, pr, err)
			}
			counts["closed before it was heard of"]++
			continue
		}
		counts[string(e.State)]++
		if q.pulls[pr].harmless && e.State != queue.Merged {
			q.c.t.Errorf("%s #%d is harmless, and ended %s: %s: %s", q.name, pr, e.State, e.Reason, e.Message)
			moves, _ := d.Timeline(q.c.ctx, q.queue.ID, int64(pr))
			for _, m := range moves {
				q.c.t.Logf("%s #%d.%d %s → %s (%s) %s", m.At.Format(time.TimeOnly), m.PR, m.Submission, m.From, m.To, m.Reason, m.Message)
			}
		}
	}
	return counts
}

// httpGet is the status of an answer.
func httpGet(ctx context.Context, address string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
