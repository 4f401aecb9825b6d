package db_test

import (
	"testing"

	"signalbox/account"
	"signalbox/queue"
)

// Whoever looks for commands looks where one would be obeyed, and no further
// back than there has been a queue.
func TestRepositoriesThatTakeCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.newQueue("release")
	listening := func(want int) {
		t.Helper()
		list, err := w.Listening(t.Context())
		w.must(err)
		if len(list) != want {
			t.Fatalf("%d repositories take commands, want %d", len(list), want)
		}
		if want == 1 && (list[0].Repo != w.repo || !list[0].Since.Equal(w.queue.CreatedAt)) {
			t.Errorf("%+v, want %+v since %s", list[0], w.repo, w.queue.CreatedAt)
		}
	}
	listening(1)
	w.store(func(p *queue.Plan) { p.Queue.CommandsEnabled = false })
	listening(1) // the other queue takes them
	if _, err := w.SQL().Exec(`UPDATE queues SET commands_enabled = false`); err != nil {
		t.Fatal(err)
	}
	listening(0)
	if _, err := w.SQL().Exec(`UPDATE queues SET commands_enabled = true`); err != nil {
		t.Fatal(err)
	}
	listening(1)
	w.must(w.Connect(t.Context(), account.Connection{Installation: account.Installation{ID: 5, Host: host}, Deleted: true}))
	listening(0)
}
