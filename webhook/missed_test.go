package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// remembered is a Store that knows what it was given before.
type remembered struct {
	seen map[string]bool
	got  []string
	err  error
}

// Receive keeps what the commands are.
func (r *remembered) Receive(_ context.Context, delivery, _ string, repo int64, facts []queue.Fact, _ []account.Connection) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	if r.seen[delivery] {
		return false, nil
	}
	r.seen[delivery] = true
	for _, f := range facts {
		c := f.(queue.CommandAsked)
		r.got = append(r.got, fmt.Sprintf("%s of %s on #%d of %d at %s", c.Command.Verb, c.By.Login, c.PR, repo, c.At.Format("15:04")))
	}
	return true, nil
}

// A command that the host lists is the one that it would have sent, so it
// counts once, whichever comes first.
func TestCommandsThatTheHostListsCountOnce(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	comment := func(id int64, body string) account.Comment {
		return account.Comment{ID: id, PR: 7, Login: "wil", UserID: 2, Body: body, Created: made, Updated: made}
	}
	edited, gone, ours, through := comment(2, "/merge"), comment(3, "/merge"), comment(4, "/merge"), comment(5, "/merge")
	edited.Updated = made.Add(time.Second)
	gone.Login, gone.UserID = "", 0
	ours.Login, ours.Bot = "signalbox[bot]", true
	through.App = 4711
	store := &remembered{seen: map[string]bool{}}
	rc, err := New(Config{Secret: []byte("s"), Store: store, AppID: 4711, AppSlug: "signalbox"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{2, 0} {
		n, err := rc.Missed(t.Context(), 11, []account.Comment{comment(1, "/merge"), edited, gone, ours, through, comment(6, "> /merge"), comment(7, "/cancel")})
		if err != nil || n != want {
			t.Errorf("look %d found %d commands, %v; want %d", i+1, n, err, want)
		}
	}
	if got, want := strings.Join(store.got, "; "), "merge of wil on #7 of 11 at 12:00; cancel of wil on #7 of 11 at 12:00"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// The webhook of the first comes late.
	payload := `{"action":"created","issue":{"number":7,"pull_request":{}},"repository":{"id":11},"sender":{"login":"wil","id":2,"type":"User"},` +
		`"comment":{"id":1,"body":"/merge","created_at":"2026-03-04T12:00:00Z","user":{"login":"wil","id":2,"type":"User"}}}`
	if outcome, p := rc.receive(t.Context(), "issue_comment", "8f0c", []byte(payload)); p != nil || outcome != Duplicate {
		t.Errorf("the late webhook was %s %v, want a duplicate", outcome, p)
	}
	store.err = errors.New("the database is away")
	if _, err := rc.Missed(t.Context(), 11, []account.Comment{comment(8, "/merge")}); err == nil {
		t.Error("a command that could not be stored was no error")
	}
}
