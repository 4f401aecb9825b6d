package web

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"signalbox/account"
	"signalbox/queue"
	"signalbox/web/browsertest"
)

// The pages in a real browser with what is seldom there when somebody designs
// them: nothing at all, more than fits, names without an end, names
// that run from right to left, and names that are pictures.
//
//	go test ./web -run Browser -screenshots=/tmp/pictures
//
// writes what they look like.
var screenshots = flag.String("screenshots", "", "folder to write pictures of the pages to")

// odd are the names.
var odd = []string{
	strings.Repeat("Pneumonoultramicroscopicsilicovolcanoconiosis", 6),
	"תיקון שגיאה בכניסה ביום ראשון (v2) – אל תשכחו את הבדיקה",
	"إصلاح \u202eخطأ\u202c في تسجيل الدخول: \u200f#12 و main",
	"🚀🔥 Ship it 👩‍👩‍👧‍👦🏳️‍🌈 e\u0301\u0323\u0323\u0323\u0323 ＷＩＤＥ",
	hostile,
	"A title that is as long as GitHub lets one be, because somebody pasted the whole description of the change into it, with its reasons, what was tried before, why that did not work, and whom to ask about it",
}

func oddName(i int) string { return odd[i%len(odd)] }

// oddWorld is a world in which so many of everything have odd names. Of what the
// pages list in full there are as many as may be.
func oddWorld(many int) *world {
	w := newWorld()
	for i := range w.entries {
		w.entries[i].Title = oddName(i)
		w.s.ByPR(w.entries[i].Number).Title = oddName(i)
	}
	for i := range w.ended {
		w.ended[i].Title, w.ended[i].Message = oddName(i), oddName(i+1)
	}
	for i := range many {
		e := w.add(int64(1000+i), oddName(i), []queue.EntryState{queue.Pending, queue.NotReady}[i%2], queue.NowReady, 5)
		e.Mergeability, e.MergeabilityWhy, e.Author.Login = queue.NotMergeable, oddName(i+1), strings.Repeat("long-login-", 3)+"39"
		w.entries = append(w.entries, *e)
	}
	for i := range many / 10 {
		for _, id := range []queue.RunID{"run-one", "run-two"} {
			w.report(w.s.Runs[id], fmt.Sprint(oddName(i), " ", i), "completed", "failure")
		}
		w.audits = append(w.audits, account.Audit{ID: int64(i + 100), At: noon, By: account.Author{Token: oddName(i)}, Deed: account.QueueChanged, Subject: oddName(i + 1),
			Changes: []account.Changed{{Name: "requiredStatuses", From: oddName(i), To: oddName(i + 2)}}})
		w.tokens = append(w.tokens, account.Token{ID: int64(100 + i), Name: oddName(i), Scope: account.Read, CreatedAt: noon})
		w.moves = append(w.moves, queue.Move{Entry: "entry-12", PR: 12, Submission: 2, From: queue.Testing, To: queue.Pending, At: noon.Add(time.Duration(i) * time.Second),
			Reason: queue.GroupChanged, Message: oddName(i)})
		w.told.log = append(w.told.log, account.Delivery{ID: int64(7 - i), Type: "pull_request.merged", At: noon, State: account.GivenUp,
			Tries: []account.Try{{At: noon, Status: 500, Milliseconds: 15000, Error: oddName(i), Answer: oddName(i + 1)}, {At: noon, Error: oddName(i)}}})
	}
	for i := range many / 10 {
		w.told.list = append(w.told.list, account.Subscriber{ID: fmt.Sprint("s", i), Kind: account.WebhookSubscriber, Name: oddName(i), Address: "https://" + strings.Repeat("sub.", 40) + "example/…",
			Events: []string{"pull_request.merged", "queue.state_changed"}, Enabled: true, Health: account.Health{FailingSince: noon.Add(-time.Hour)}})
	}
	w.told.list[0].Name = oddName(0)
	return w
}

// nowhere is a world without anything.
func nowhere() *world {
	w := newWorld()
	w.queues, w.tokens, w.audits, w.told = w.queues[1:2], nil, nil, &toldWorld{}
	return w
}

// repositories are what an administrator of everything administers.
func repositories() []queue.Repo {
	return []queue.Repo{{ID: 1, Host: "github.com", Owner: "acme", Name: "app", Installation: 9}}
}

func TestOddPagesInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser")
	}
	t.Parallel()
	b := browsertest.Open(t)
	pages := map[string]string{
		"overview": everyPage["overview"], "queue": everyPage["queue"], "empty": everyPage["queue_empty"],
		"pr": everyPage["pr_testing"], "failed": everyPage["pr_failed"], "run": everyPage["run"], "endings": everyPage["endings"],
		"tokens": "/orgs/acme/tokens", "audit": "/orgs/acme/audit", "subscribers": "/orgs/acme/subscribers", "subscriber": "/orgs/acme/subscribers/one",
	}
	for name, tt := range map[string]struct {
		w     *world
		pages []string
	}{
		"nothing": {nowhere(), []string{"overview", "empty", "tokens", "audit", "subscribers"}},
		"few":     {oddWorld(0), []string{"overview", "queue", "pr", "failed", "run", "endings", "subscribers", "subscriber"}},
		"many":    {oddWorld(500), []string{"queue", "run", "audit", "subscribers", "subscriber"}},
	} {
		tt.w.repos = repositories()
		tt.w.people = map[int64]account.Right{0: account.AdminRight}
		h, err := New(Config{Store: tt.w, Subscribers: tt.w.told, Host: tt.w, Local: true, Clock: func() time.Time { return noon }, Docs: fstest.MapFS{"README.md": {Data: []byte("# Documents\n")}}})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(h)
		t.Cleanup(func() {
			server.CloseClientConnections() // open pages listen for news
			server.Close()
		})
		for window, look := range map[string]browsertest.Look{"phone": {Width: 390, Height: 844}, "dark": {Width: 1280, Height: 900, Dark: true}} {
			tab := b.Tab(t, look)
			for _, page := range tt.pages {
				tab.Visit(server.URL + pages[page])
				tab.Open()
				if *screenshots != "" {
					if err := os.WriteFile(filepath.Join(*screenshots, name+"-"+page+"-"+window+".png"), tab.Picture(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				for _, fault := range append(tab.Faults(), tab.Problems()...) {
					t.Errorf("%s %s, %s: %s", name, page, window, fault)
				}
			}
		}
	}
}
