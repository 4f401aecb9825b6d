package db_test

import (
	"testing"
	"time"

	"signalbox/queue"
)

// A decision that makes a batch cannot be saved whole: nobody ever sees the part of
// it that could.
func TestBC58NoHalfBatchIsEverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	first, second := entry(1), entry(2)
	first.Group, second.Group = 1, 1
	batch := func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
		p := unchanged(s)
		p.Entries = []queue.Entry{first, second}
		p.Groups = []queue.Group{{ID: 1, Members: []queue.EntryID{first.ID, second.ID}, FormedAt: epoch}}
		p.Line = []queue.GroupID{1}
		return p
	}
	sound := second.State
	second.State = "nonsense" // the database refuses the second member
	if _, ok, err := w.UpdateDue(t.Context(), epoch, batch); err == nil || ok {
		t.Fatalf("an illegal member was saved: %v, %v", ok, err)
	}
	s, err := w.Read(t.Context(), w.queue.ID, 1, 2)
	w.must(err)
	if len(s.Groups)+len(s.Line)+len(s.Entries) > 0 {
		t.Errorf("of a batch that was not saved there are %d groups, %d in the line, and %d members", len(s.Groups), len(s.Line), len(s.Entries))
	}
	second.State = sound // the same decision again
	if _, ok, err := w.UpdateDue(t.Context(), epoch, batch); err != nil || !ok {
		t.Fatalf("decide again: %v, %v", ok, err)
	}
	s, err = w.Read(t.Context(), w.queue.ID)
	w.must(err)
	if g := s.Groups[1]; g == nil || len(g.Members) != 2 || len(s.Entries) != 2 {
		t.Errorf("read back %+v", s)
	}
}

func TestWhatADecisionSavesIsThereForTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := entry(7)
	w.store(func(p *queue.Plan) {
		p.Entries = []queue.Entry{e}
		p.Groups = []queue.Group{{ID: 1, Members: []queue.EntryID{e.ID}, FormedAt: epoch}}
		p.Line = []queue.GroupID{1}
		p.Actions = []queue.Action{queue.ReadTarget{Queue: w.queue.ID, Branch: "main"}}
		p.Moves = []queue.Move{{Entry: e.ID, PR: 7, Submission: 1, From: queue.NotReady, To: queue.Pending, At: epoch, Reason: queue.NowReady}}
	})
	s, err := w.Read(t.Context(), w.queue.ID)
	w.must(err)
	if len(s.Entries) != 1 || len(s.Line) != 1 || s.Groups[1] == nil {
		t.Fatalf("read back %+v", s)
	}
	if _, ok := w.update(func(s *queue.Snapshot, f []queue.Received) queue.Plan { return unchanged(s) }); ok {
		t.Error("a queue is due though nothing waits for it")
	}
}

// Of a run's checks only those that a decision changed are written: the others are
// not even locked, which Postgres would log.
func TestChecksThatDidNotChangeAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	report := func(name string, id int64) queue.Report {
		return queue.Report{Kind: queue.CheckRun, Name: name, ID: id, Status: "queued", At: epoch}
	}
	w.store(func(p *queue.Plan) {
		r := liveRun("r", 1, "live", "b")
		r.Checks = map[string]queue.Report{"a": report("a", 1), "b": report("b", 2)}
		p.Runs = []queue.Run{r}
	})
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
		p := unchanged(s)
		r := *s.Runs["r"]
		r.Checks = map[string]queue.Report{"a": r.Checks["a"], "b": report("b", 3), "c": report("c", 4)}
		p.Runs = []queue.Run{r}
		return p
	})
	var got string
	w.must(w.SQL().QueryRow(`SELECT string_agg(key || report_id || CASE WHEN xmax = 0 THEN '' ELSE ' locked' END, ', ' ORDER BY key) FROM checks WHERE key IN ('a', 'c')`).Scan(&got))
	if n := w.count(`SELECT report_id FROM checks WHERE key = 'b'`); got != "a1, c4" || n != 3 {
		t.Errorf("checks %s, and b%d", got, n)
	}
}
