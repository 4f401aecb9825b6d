package flaky

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// Arrival is a run with its results: the one that comes in, or one that came
// before.
type Arrival struct {
	Run      Run
	Failures []Result // tests of which any attempt failed
	// Passed reports whether a test ran and passed at once, and can be told
	// from every other test of the run.
	Passed func(uuid.UUID) bool
}

// Entered is what a run changed.
type Entered struct {
	Evidence []Evidence
	// Touched are the tests whose history is another now, in order of their
	// ids. They are judged next ([History.Judge]) and stored.
	Touched []uuid.UUID
}

// Enter enters a run into the histories of its tests.
//
// histories has the history of each test of the run that was ever entered, as
// far as the test failed now or is watched ([History.Watched]), and of each that
// failed in a run of the same code; what is missing is made. same are the runs
// of the same code that came before, and last the newest run of each line
// ([Run.Line]) of the repository: a test that begins to be watched first hears
// of those that it passed.
func Enter(a Arrival, histories map[uuid.UUID]*History, same, last []Arrival) Entered {
	clues := explain(a.Run, Clues(a.Run, a.Failures), histories)
	found := Retried(a.Run, clues)
	for _, s := range same {
		found = append(found, Contradictions(a.Run, clues, s.Run, s.Passed)...)
		found = append(found, Contradictions(s.Run, explain(s.Run, Clues(s.Run, s.Failures), histories), a.Run, a.Passed)...)
	}
	e := entering{arrival: a, histories: histories, last: last, touched: map[uuid.UUID]bool{}, failed: map[uuid.UUID]Result{}, clue: map[uuid.UUID]bool{}}
	for _, f := range a.Failures {
		e.failed[f.Test] = f
		e.wake(f.Test)
	}
	for _, c := range clues {
		e.failed[c.Test], e.clue[c.Test] = c, true
	}
	found = append(found, e.observe()...)
	for _, f := range found {
		h := histories[f.Test]
		if h == nil {
			h = &History{}
			histories[f.Test] = h
		}
		h.Add(f)
		e.touched[f.Test] = true
	}
	for test := range e.touched {
		known := histories[test].Recognise(test)
		histories[test].Add(known...)
		found = append(found, known...)
	}
	slices.SortFunc(found, func(a, b Evidence) int {
		return cmp.Or(bytes.Compare(a.Test[:], b.Test[:]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.FailedRun, b.FailedRun), cmp.Compare(a.PassedRun, b.PassedRun))
	})
	touched := slices.Collect(maps.Keys(e.touched))
	slices.SortFunc(touched, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return Entered{Evidence: found, Touched: touched}
}

// explain counts the clues of a run that nothing explained when it ended. What it
// proves itself is known from its end on, so that whoever asks later counts alike.
func explain(r Run, clues []Result, histories map[uuid.UUID]*History) []Result {
	unexplained := 0
	for i := range clues {
		if h := histories[clues[i].Test]; h == nil || !h.knewBefore(clues[i].Fingerprint, r.At) {
			clues[i].Unexplained = 1
			unexplained++
		}
	}
	for i := range clues {
		clues[i].Unexplained *= unexplained
	}
	return clues
}

type entering struct {
	arrival   Arrival
	histories map[uuid.UUID]*History
	last      []Arrival
	failed    map[uuid.UUID]Result
	clue      map[uuid.UUID]bool
	touched   map[uuid.UUID]bool
}

// wake begins to watch a test that failed.
func (e *entering) wake(test uuid.UUID) {
	h := e.histories[test]
	if h == nil {
		h = &History{}
		e.histories[test] = h
	}
	if h.Watched() {
		return
	}
	for _, l := range e.last {
		if l.Passed(test) {
			h.Observe(l.Run, Result{Test: test, Passed: true}, false)
		}
	}
}

// observe tells the histories of the run, in any order: none sees another.
func (e *entering) observe() []Evidence {
	var found []Evidence
	for test, h := range e.histories {
		f, failed := e.failed[test]
		switch {
		case failed:
		case h.Watched() && e.arrival.Passed(test):
			f = Result{Test: test, Passed: true}
		default:
			continue
		}
		found = append(found, h.Observe(e.arrival.Run, f, e.clue[test])...)
		e.touched[test] = true
	}
	return found
}
