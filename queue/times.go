package queue

import "time"

// How long to wait before doing a thing again, and for how long in all.
const (
	// refreshPause is the shortest time between two reads of one pull request.
	refreshPause = 2 * time.Second
	// checksPatience is how long we wait for a report that a hint says exists
	// before we read it ourselves.
	checksPatience = 10 * time.Second
	// neverStartedAfter is how long required checks may stay silent while
	// nothing else runs on the commit.
	neverStartedAfter = 30 * time.Minute
	// resultsPatience is how long after a check failed its test results are
	// waited for. Jobs upload before they end, so most are there already; a job
	// of its own that uploads needs a moment to start.
	resultsPatience = 2 * time.Minute
	// buildTriesMax is how often a build is asked for before its entries fail.
	// With the pauses between them this is more than two hours, so that an
	// outage of the host does not throw anybody out.
	buildTriesMax = 30
)

// backoff is the pause before the n-th repetition (from 1): base, doubled each
// time, at most limit.
func backoff(n int, base, limit time.Duration) time.Duration {
	pause := base
	for i := 1; i < n && pause < limit; i++ {
		pause *= 2
	}
	return min(pause, limit)
}

// stillComputing is the pause before a pull request is read again whose
// mergeability the host was computing at the n-th read in a row. Hosts begin to
// compute when somebody asks, and forget the answer when the base moves. So the
// first read after a long pause tells nothing, however long the pause was, where
// something lands all the time: every second read follows soon on the one before.
func stillComputing(n int) time.Duration {
	if n%2 == 1 {
		return backoff((n+1)/2, 250*time.Millisecond, 2*time.Second)
	}
	return backoff(n/2, time.Second, 30*time.Second)
}

// minutes and hours turn settings into durations. The largest settings would
// overflow one; a century is as good as never.
func minutes(n int64) time.Duration { return clamped(n, time.Minute) }
func hours(n int64) time.Duration   { return clamped(n, time.Hour) }

func clamped(n int64, unit time.Duration) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return time.Duration(min(n, int64(century/unit))) * unit
}
