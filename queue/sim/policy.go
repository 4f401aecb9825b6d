package sim

import (
	"signalbox/queue"
)

// Policy is a way of running a queue, ready to be played on workloads.
type Policy struct {
	// Name is short, for a table; Says is a sentence.
	Name, Says string
	make       func(*race) policy
}

// Others are the policies of other queues.
func Others() []Policy {
	return []Policy{
		{"single", "one at a time, and nothing on top of what is not decided, as bors without batches", oneByOne},
		{"halving 8", "batches of up to eight, one after the other; one that fails is halved, as bors", halvingOf(8)},
		{"zuul", "Zuul's gate: a window that starts at 20, grows by one with each that lands and is halved by each that fails", zuul},
		{"github-like", "each on top of all ahead; what is behind one that fails is built again", cumulative},
		{"speculate", "SubmitQueue as published: the likeliest combinations of outcomes first, kept while they are possible", speculate},
	}
}

// Engine is what ships, with settings.
func Engine(name string, s queue.Settings) Policy {
	return Policy{Name: name, Says: "Signalbox", make: withSettings(s)}
}

// Fixed is the engine with a concurrency of all workers, and nothing else.
func Fixed(workers int) queue.Settings {
	s := queue.DefaultSettings()
	s.Concurrency, s.BisectionConcurrency = int64(workers), int64(workers)
	return s
}

// Batched is the engine with batches of at most size, that wait so long to fill,
// and with the search for culprits that skips what is known. The workers are shared
// between the line and the searches.
func Batched(workers int, size, wait int64) queue.Settings {
	s := Fixed(workers)
	s.Batch, s.BatchingMinSize, s.BatchingMaxWaitTimeMinutes = true, size, wait
	s.OptimizationMode = queue.BisectionSkipRedundantTests
	s.BisectionConcurrency = int64(max(workers/4, 1))
	s.Concurrency = int64(max(workers-workers/4, 1))
	return s
}

// Contenders are the policies that a cell of the benchmark is played with: those
// of others, and ours with settings that suit some cells.
func Contenders(c Cell) []Policy {
	// One batch at a time needs the fewest runs: nothing is tested on what fails.
	thrifty := Batched(c.Workers, 16, 1)
	thrifty.Concurrency = 1
	careful := Fixed(c.Workers)
	careful.PendingFailureDepth, careful.CanOptimisticallyMerge = 2, true
	return append(Others(),
		Engine("signalbox", Fixed(c.Workers)),
		Engine("… batches of 4", Batched(c.Workers, 4, 1)),
		Engine("… batches of 16", Batched(c.Workers, 16, 1)),
		Engine("… batches of 16, a line of 1", thrifty),
		Engine("… optimistic, depth 2", careful))
}
