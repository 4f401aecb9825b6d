package engine

import (
	"errors"
	"time"

	"github.com/riverqueue/river"

	"signalbox/queue"
)

// limits bound the work on one action: how often and how long it is tried.
type limits struct {
	attempts     int
	timeout      time.Duration // of one attempt
	first, most  time.Duration // the wait after the first failed attempt, and the longest
	fitsDeadline time.Duration // all attempts together must be over by then; 0 = nobody waits
}

// RescueStuckAfter is for River's RescueStuckJobsAfter: a job that has run
// this long lost its process. It is just above the longest timeout, because
// until then nothing repeats what a killed process had in hand.
const RescueStuckAfter = 2*time.Minute + 10*time.Second

// kinds has the limits of each kind of action. Where a decision waits for the
// fact that comes of the action, the last attempt ends, a rescue included,
// before the decision's own deadline passes and it asks again.
var kinds = map[string]limits{
	// A first build clones the repository.
	queue.BuildRuns{}.Kind(): {attempts: 3, timeout: 2 * time.Minute, first: 5 * time.Second, most: 20 * time.Second, fitsDeadline: 10 * time.Minute},
	// Not knowing whether something landed holds up everything: try often.
	queue.Land{}.Kind():       {attempts: 4, timeout: 90 * time.Second, first: 2 * time.Second, most: 20 * time.Second, fitsDeadline: 10 * time.Minute},
	queue.RefreshPR{}.Kind():  {attempts: 4, timeout: 20 * time.Second, first: 2 * time.Second, most: 20 * time.Second, fitsDeadline: 5 * time.Minute},
	queue.ReadTarget{}.Kind(): {attempts: 4, timeout: 20 * time.Second, first: time.Second, most: 20 * time.Second, fitsDeadline: 5 * time.Minute},
	queue.ReadChecks{}.Kind(): {attempts: 4, timeout: 30 * time.Second, first: 2 * time.Second, most: 20 * time.Second, fitsDeadline: 5 * time.Minute},
	// It may have to clone the repository.
	queue.RunPreflight{}.Kind(): {attempts: 3, timeout: 2 * time.Minute, first: 5 * time.Second, most: 20 * time.Second, fitsDeadline: 10 * time.Minute},
	// The next resync comes anyway.
	queue.Resync{}.Kind(): {attempts: 2, timeout: 90 * time.Second, first: 5 * time.Second, most: 5 * time.Second},
	// Nothing waits for these: they outlast an outage of the host.
	queue.StopRun{}.Kind():       {attempts: 12, timeout: time.Minute, first: 2 * time.Second, most: 10 * time.Minute},
	queue.SyncPR{}.Kind():        {attempts: 12, timeout: time.Minute, first: 2 * time.Second, most: 10 * time.Minute},
	queue.AnswerCommand{}.Kind(): {attempts: 12, timeout: time.Minute, first: 2 * time.Second, most: 10 * time.Minute},
}

// MaxAttempts is how often an action of that kind is tried, for whoever
// inserts its job. A kind that this version does not know is tried once.
func MaxAttempts(kind string) int { return max(kinds[kind].attempts, 1) }

// AddWorkers registers a worker for every kind of action of package queue. It
// fails when one of the kinds has a worker already.
func (e *Engine) AddWorkers(w *river.Workers) error {
	return errors.Join(
		add(e, w, e.buildRuns()),
		add(e, w, e.stopRun()),
		add(e, w, e.land()),
		add(e, w, e.syncPR()),
		add(e, w, e.refreshPR()),
		add(e, w, e.readTarget()),
		add(e, w, e.readChecks()),
		add(e, w, e.resync()),
		add(e, w, e.preflight()),
		add(e, w, e.answerCommand()),
	)
}

func add[A river.JobArgs](e *Engine, w *river.Workers, d deed[A]) error {
	return river.AddWorkerSafely(w, &worker[A]{engine: e, deed: d})
}
