package db

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// mostNumbers bounds the tests whose numbers are remembered: some 50 bytes each.
const mostNumbers = 400_000

// knownTest is the number of a test, and what is noted of the days on which it ran:
// the last one at all and the last one on a stable branch, in days since 1970; 0 is
// never.
type knownTest struct {
	number       int64
	seen, stable int32
}

// epochDay is the day of a moment, in UTC.
func epochDay(at time.Time) int32 { return int32(at.Unix() / (24 * 60 * 60)) }

// testNumbers remembers the numbers of the tests of the repositories whose reports
// came last. A report is mostly of the same tests as the one before, and to find
// ten thousand of them in Postgres takes longer than all else that entering
// it does. What is remembered was committed, and stays true: a number is of one test, and the day on
// which it was last seen only moves on. Only a rename gives a number to another
// test, and every rename is counted (test_settings.renames): what was learned before
// it is not believed after it, whichever program did it.
type testNumbers struct {
	mu    sync.Mutex
	most  int                  // tests; 0 = mostNumbers
	of    map[int64]*numbersOf // by repository
	count int
}

type numbersOf struct {
	renames int64
	of      map[uuid.UUID]knownTest
}

// find yields what is remembered of tests of a repository, and returns the others.
func (t *testNumbers) find(repository, renames int64, ids []uuid.UUID, yield func(uuid.UUID, knownTest)) (others []uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of[repository]
	if known == nil || known.renames != renames {
		return ids
	}
	for _, id := range ids {
		if n, ok := known.of[id]; ok {
			yield(id, n)
		} else {
			others = append(others, id)
		}
	}
	return others
}

// learn remembers what a committed transaction found, after so many renames.
func (t *testNumbers) learn(repository, renames int64, found map[uuid.UUID]knownTest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of[repository]
	most := cmp.Or(t.most, mostNumbers)
	if len(found) == 0 || len(found) > most || known != nil && known.renames > renames {
		return
	}
	if t.of == nil || t.count+len(found) > most {
		t.of, t.count, known = map[int64]*numbersOf{}, 0, nil
	}
	if known == nil || known.renames < renames {
		if known != nil {
			t.count -= len(known.of)
		}
		known = &numbersOf{renames, map[uuid.UUID]knownTest{}}
		t.of[repository] = known
	}
	t.count -= len(known.of)
	maps.Copy(known.of, found)
	t.count += len(known.of)
}
