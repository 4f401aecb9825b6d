package db_test

import (
	"testing"

	"signalbox/queue"
)

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
