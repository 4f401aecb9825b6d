package queue

import (
	"math"
	"slices"
	"time"
)

// Tally is how often one thing happened in a queue in an hour or a day. Things
// that take time are counted by how long they took.
type Tally struct {
	At     time.Time // when the hour or the day began, in UTC
	What   Happening
	Bucket int // of the duration, see BucketOf; NoDuration for what takes none
	N      int64
}

// Happening is a thing that is counted.
type Happening string

// The happenings. An ending takes as long as its submission lasted.
const (
	HasMerged    Happening = "merged"
	HasFailed    Happening = "failed"
	HasCancelled Happening = "cancelled"
	HasRestarted Happening = "restart" // an entry went back to be tested again
	HasWaited    Happening = "wait"    // from being ready until a test began
	HasTested    Happening = "test"    // from there until the result
	HasRun       Happening = "run"     // a test run was asked for, in the line or a bisection
)

// NoDuration is the bucket of what takes no time.
const NoDuration = -1

// bucketGrowth is how much longer each bucket is than the one before: a
// quantile is right to half of it, 2.5 %.
const bucketGrowth = 1.05

// BucketOf is the bucket of a duration: its logarithm, so that quantiles of any
// hours can be added up and are equally exact for seconds and days. Less than a
// second counts as one.
func BucketOf(seconds float64) int {
	return int(math.Floor(math.Log(max(seconds, 1)) / math.Log(bucketGrowth)))
}

// Spread is how long things took.
type Spread map[int]int64 // how many by bucket

// Count is how many there are.
func (s Spread) Count() int64 {
	var n int64
	for _, k := range s {
		n += k
	}
	return n
}

// Quantile is the duration that a share of them stayed below; 0 without any.
func (s Spread) Quantile(share float64) time.Duration {
	count := s.Count()
	if count == 0 {
		return 0
	}
	buckets := make([]int, 0, len(s))
	for b := range s {
		buckets = append(buckets, b)
	}
	slices.Sort(buckets)
	want := max(int64(math.Ceil(share*float64(count))), 1)
	for _, b := range buckets {
		if want -= s[b]; want <= 0 {
			return time.Duration(math.Pow(bucketGrowth, float64(b)+0.5) * float64(time.Second)).Round(time.Second)
		}
	}
	return 0 // Unreachable: the buckets add up to count
}

// Ending is how a submission ended.
type Ending struct {
	Move
	Title  string        // of the pull request
	Lasted time.Duration // since the submission; 0 = unknown
}
