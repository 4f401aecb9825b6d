package sim

import (
	"signalbox/queue"
)

// Policy is a way of running a queue, ready to be played on workloads.
type Policy struct {
	// Name is short, for a table; Says is a sentence.
	Name, Says string
	// Ours is Signalbox itself.
	Ours bool
	// FromHistory is ours that no predictor tells anything: what it expects, it
	// counted itself.
	FromHistory bool
	make        func(*race) policy
}

// Others are the policies of other queues.
func Others() []Policy {
	list := []struct {
		name, says string
		rules      interface{ policy(*race) policy }
	}{
		{"single", "one at a time, and nothing on top of what is not decided, as bors without batches", oneByOne},
		{"halving 8", "batches of up to eight, one after the other; one that fails is halved, as bors", halving},
		{"optimistic", "each on top of all ahead that has not failed, as many as CI takes; what is behind one that fails is built again at once", optimistic},
		{"zuul", "the same in a window that starts at 20, grows by one with each that lands and is halved by each that fails (Zuul's gate)", zuulGate},
		{"github-like", "each on top of all ahead; what is behind one that fails is built again when that is thrown out", cumulative},
		{"trunk-like", "lanes, batches of up to four that wait five minutes, searched beside the line when they fail; what passes takes along what it was tested on; one that failed waits for two behind it", trunkLike},
		{"speculate-all", "all combinations of outcomes, each as likely as another", speculateAll},
		{"speculate", "the likeliest combinations of outcomes first, kept while they are possible (SubmitQueue as it is published as source)", submitQueue},
		{"submitqueue 2019", "the same, learning from what has passed, and stopping what is not among the likeliest any more", submitQueue2019},
		{"submitqueue 2024", "nothing that is less likely than 20 %, learning, nothing stopped for a better one; a change with short tests lands before those with long tests when it passed with every outcome of theirs", submitQueue2024},
	}
	policies := make([]Policy, len(list))
	for i, p := range list {
		policies[i] = Policy{Name: p.name, Says: p.says, make: p.rules.policy}
	}
	return policies
}

// Engine is what ships, with settings.
func Engine(name string, s queue.Settings) Policy {
	return Policy{Name: name, Says: "Signalbox", Ours: true, make: withSettings(s)}
}

// Untold is the engine with settings that is told nothing by the predictor of a
// cell.
func Untold(name string, s queue.Settings) Policy {
	of := Engine(name, s)
	made := of.make
	of.FromHistory = true
	of.make = func(p *race) policy {
		e := made(p).(*engine)
		e.untold = true
		return e
	}
	return of
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

// Adaptive is the engine that decides by what it expects, with batches for when
// more come than there are workers.
func Adaptive(workers int) queue.Settings {
	s := Batched(workers, 16, 5)
	s.Speculation = queue.AdaptiveSpeculation
	s.Concurrency = int64(workers)
	return s
}

// Patient is the engine that lets what passes take along what is ahead of it, and
// waits for two behind one that failed.
func Patient(s queue.Settings) queue.Settings {
	s.CanOptimisticallyMerge, s.PendingFailureDepth = true, 2
	return s
}

// Thrifty is one batch at a time, which needs the fewest runs: nothing is tested on
// what fails.
func Thrifty(workers int, size int64) queue.Settings {
	s := Batched(workers, size, 1)
	s.Concurrency = 1
	return s
}

// Contenders are the policies that a cell of the benchmark is played with: those
// of others, and ours with settings that suit some cells.
func Contenders(c Cell) []Policy {
	eager := Batched(c.Workers, 4, 1)
	eager.CanOptimisticallyMerge = true
	list := append(Others(),
		Engine("signalbox", Fixed(c.Workers)),
		Engine("… optimistic, depth 2", Patient(Fixed(c.Workers))),
		Engine("… batches of 4", Batched(c.Workers, 4, 1)),
		Engine("… batches of 4, optimistic", eager),
		Engine("adaptive", Adaptive(c.Workers)),
		Engine("adaptive, optimistic, depth 2", Patient(Adaptive(c.Workers))))
	if c.Predictor > 0 {
		list = append(list, Untold("adaptive, from history", Adaptive(c.Workers)))
	}
	if c.Overlaps == 0 { // in lanes few are there to be tested together
		list = append(list,
			Engine("… batches of 16", Batched(c.Workers, 16, 1)),
			Engine("… batches of 16, a line of 1", Thrifty(c.Workers, 16)))
	}
	return list
}

// Ablation is the engine with all that its settings offer, and without each of that in
// turn: what a feature is worth is what is lost without it.
func Ablation(c Cell) []Policy {
	all := Patient(Batched(c.Workers, 4, 1))
	without := func(what string, change func(*queue.Settings)) Policy {
		s := all
		change(&s)
		return Engine("… without "+what, s)
	}
	list := []Policy{
		Engine("everything", all),
		without("batches", func(s *queue.Settings) { *s = Patient(Fixed(c.Workers)) }),
		without("optimistic merging", func(s *queue.Settings) { s.CanOptimisticallyMerge = false }),
		without("pending-failure depth", func(s *queue.Settings) { s.PendingFailureDepth = 0 }),
		without("either", func(s *queue.Settings) { s.CanOptimisticallyMerge, s.PendingFailureDepth = false, 0 }),
		without("skipping known results", func(s *queue.Settings) { s.OptimizationMode = queue.OptimizationOff }),
		without("a line (one batch at a time)", func(s *queue.Settings) { s.Concurrency = 1 }),
	}
	if c.Overlaps > 0 {
		list = append(list, Policy{Name: "… without lanes", Says: "Signalbox", Ours: true, make: func(p *race) policy {
			e := withSettings(all)(p).(*engine)
			e.s.Queue.Mode = queue.Single
			return e
		}})
	}
	return list
}
