package db

import (
	"sync"

	"signalbox/queue"
)

// mostReports bounds the reports that are kept, to some ten megabytes.
const mostReports = 50_000

// reports are what CI has told of runs under test, as this program's last decision
// on each queue left it. A queue with four runs of a hundred checks would read four
// hundred rows for each decision, to learn what it knew.
//
// The turn of a queue says whether that is still so: each decision gives it
// another, whoever makes it, and nothing else writes reports. Only a Postgres that
// crashes may give a turn twice. Then its connections are lost, so that all is
// forgotten when one is made.
type reports struct {
	mu    sync.Mutex
	since int64 // how often all has been forgotten
	of    map[queue.ID]reportsOf
	n     int // reports of all queues
}

// reportsOf are those of one queue. Nobody changes the maps of a run.
type reportsOf struct {
	turn int64
	runs map[queue.RunID]map[string]queue.Report
	n    int
}

// now is for keep: what a decision learns from here on.
func (k *reports) now() (since int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since
}

// at are the reports of the runs of a queue that has a turn; nil when this program
// does not have them.
func (k *reports) at(id queue.ID, turn int64) map[queue.RunID]map[string]queue.Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept, ok := k.of[id]; ok && kept.turn == turn {
		return kept.runs
	}
	return nil
}

// keep has the reports that a decision left, unless all was forgotten since it
// began.
func (k *reports) keep(since int64, done *folded) {
	kept := reportsOf{turn: done.turn, runs: make(map[queue.RunID]map[string]queue.Report, len(done.runs))}
	for id, run := range done.runs {
		kept.runs[id] = run.checks
	}
	for i := range done.plan.Runs {
		kept.runs[done.plan.Runs[i].ID] = done.plan.Runs[i].Checks
	}
	for _, checks := range kept.runs {
		kept.n += len(checks)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if since != k.since {
		return
	}
	k.n -= k.of[done.id].n
	if k.of == nil || k.n+kept.n > mostReports {
		k.of, k.n = map[queue.ID]reportsOf{}, 0
	}
	k.of[done.id] = kept
	k.n += kept.n
}

// forget forgets all.
func (k *reports) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.since++
	k.of, k.n = nil, 0
}
