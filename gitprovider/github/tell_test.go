package github

import (
	"strings"
	"testing"
	"time"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
)

func (w *world) commentsOn(number int64) []string {
	w.t.Helper()
	k, err := w.c.conn(w.repo)
	w.must(err)
	var bodies []string
	w.must(pages(w.ctx, k, at(w.repo, "issues", number, "comments"), func(page []struct{ Body string }) error {
		for _, c := range page {
			bodies = append(bodies, c.Body)
		}
		return nil
	}))
	return bodies
}

// comment has the sticky comment read so.
func (w *world) comment(number, known int64, marker, body string) (int64, error) {
	told := w.c.Tell(w.ctx, w.repo, number, gitprovider.Telling{Comment: &gitprovider.Sticky{ID: known, Marker: marker, Body: body}})
	return told.CommentID, told.Comment
}

// check has a status check be so.
func (w *world) check(number int64, s gitprovider.Status) error {
	return w.c.Tell(w.ctx, w.repo, number, gitprovider.Telling{Statuses: []gitprovider.Status{s}}).Statuses[0]
}

func TestTheStickyCommentIsFoundAgain(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n").PR
	const marker = "<!-- signalbox:sticky:1 -->"
	// somebody else quotes the marker; and there is more than a page
	for range 101 {
		_, err := w.Server.Comment("acme/app", int(pr), "bob", "I quote "+marker)
		w.must(err)
	}
	id, err := w.comment(pr, 0, marker, "first")
	w.must(err)
	again, err := w.comment(pr, id, marker, "second "+marker)
	w.must(err)
	w.restart()
	found, err := w.comment(pr, 0, marker, "third")
	w.must(err)
	if all := w.commentsOn(pr); again != id || found != id || len(all) != 102 || all[101] != "third\n\n"+marker {
		t.Errorf("%d, %d, %d; the last of %d is %q", id, again, found, len(all), all[len(all)-1])
	}
	// deleted by a person: a new one
	k, _ := w.c.conn(w.repo)
	_, err = k.call(w.ctx, "DELETE", at(w.repo, "issues", "comments", id), nil, nil)
	w.must(err)
	fresh, err := w.comment(pr, id, marker, "fourth")
	w.must(err)
	if fresh == id || len(w.commentsOn(pr)) != 102 {
		t.Errorf("%d after %d", fresh, id)
	}
	if _, err := w.comment(9999, 0, marker, "x"); gitprovider.KindOf(err) != gitprovider.Gone {
		t.Errorf("%v", err)
	}
}

func TestANoticeIsGivenOnce(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n").PR
	for range 2 {
		w.must(w.c.Notice(w.ctx, w.repo, pr, "ended:1", "It has ended.\x00"))
	}
	w.must(w.Fail(githubsim.Fault{Method: "POST", Path: "/repos/acme/app/issues/*/comments", Action: "failAfter", Status: 502}))
	if err := w.c.Notice(w.ctx, w.repo, pr, "ended:2", "again"); err == nil {
		t.Error("no error")
	}
	w.must(w.c.Notice(w.ctx, w.repo, pr, "ended:2", "again"))
	if all := w.commentsOn(pr); len(all) != 2 || all[0] != "It has ended.\n\n<!-- ended:1 -->" {
		t.Errorf("%q", all)
	}
	w.must(w.c.Notice(w.ctx, w.repo, pr, "long", strings.Repeat("ü", 60000)))
	if all := w.commentsOn(pr); !strings.HasSuffix(all[2], "<!-- long -->") {
		t.Error("the marker is cut off")
	}
}

func TestReactionsAreKeptOnce(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n").PR
	id, err := w.Server.Comment("acme/app", int(pr), "bob", "/merge")
	w.must(err)
	for range 2 {
		w.must(w.c.React(w.ctx, w.repo, id, "+1"))
	}
	if err := w.c.React(w.ctx, w.repo, id+999, "+1"); gitprovider.KindOf(err) != gitprovider.Gone {
		t.Errorf("%v", err)
	}
}

func TestTheStatusCheckIsOneRunThatChanges(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n")
	head := pr.Head
	set := func(status, conclusion, title string) {
		t.Helper()
		w.must(w.check(pr.PR, gitprovider.Status{Commit: head, Name: "Signalbox (main)", Status: status, Conclusion: conclusion, Title: title, Summary: "s", URL: "https://x/y"}))
	}
	last := func() (run map[string]any, n int) {
		out, _ := w.raw("/commits/" + head + "/check-runs?filter=all&app_id=4711")
		runs := out["check_runs"].([]any)
		for _, r := range runs {
			if r := r.(map[string]any); run == nil || r["id"].(float64) > run["id"].(float64) {
				run = r
			}
		}
		return run, len(runs)
	}
	set("queued", "", "Queued")
	set("in_progress", "", "Testing")
	w.restart()
	set("in_progress", "", "Testing more")
	set("completed", "failure", "Failed")
	if run, n := last(); n != 1 || run["conclusion"] != "failure" || run["details_url"] != "https://x/y" || run["output"].(map[string]any)["title"] != "Failed" {
		t.Errorf("%d: %v", n, run)
	}
	set("completed", "success", "Corrected")
	if run, n := last(); n != 1 || run["conclusion"] != "success" {
		t.Errorf("%d: %v", n, run)
	}
	set("queued", "", "Once more")
	if run, n := last(); n != 2 || run["status"] != "queued" || run["conclusion"] != nil {
		t.Errorf("%d: %v", n, run)
	}
}

// runs are our check runs on a commit, all of them.
func (w *world) runs(head string) []any {
	w.t.Helper()
	out, _ := w.raw("/commits/" + head + "/check-runs?filter=all&app_id=4711")
	return out["check_runs"].([]any)
}

// A comment and a check are made, and changed, with one call, and who makes them
// first knows from the pull request that there are none.
func TestACommentAndACheckAreOneCall(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n")
	var id int64
	tell := func(body, status string, first bool) {
		t.Helper()
		told := w.c.Tell(w.ctx, w.repo, pr.PR, gitprovider.Telling{
			Comment:  &gitprovider.Sticky{ID: id, Marker: "<!-- s -->", Body: body},
			Statuses: []gitprovider.Status{{Commit: pr.Head, Name: "Signalbox (main)", Status: status, Title: body, New: first}},
		})
		w.must(told.Comment)
		w.must(told.Statuses[0])
		id = told.CommentID
	}
	tell("first", "queued", true)
	tell("second", "in_progress", false)
	if all, runs := w.commentsOn(pr.PR), w.runs(pr.Head); len(all) != 1 || !strings.HasPrefix(all[0], "second") || len(runs) != 1 || runs[0].(map[string]any)["status"] != "in_progress" {
		t.Errorf("comments %q, checks %v", all, runs)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls["POST /graphql mutation"] != 2 || w.calls["GET /repos/:/:/issues/:/comments"] != 1 /* ours, just now */ {
		t.Errorf("calls: %v", w.calls)
	}
}

// What the host refuses does not keep the rest from being written, and is not
// written twice when the rest is tried again.
func TestWhatIsRefusedIsRefusedByItself(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n")
	tell := func(commit string) gitprovider.Told {
		return w.c.Tell(w.ctx, w.repo, pr.PR, gitprovider.Telling{
			Comment:  &gitprovider.Sticky{Marker: "<!-- s -->", Body: "text"},
			Statuses: []gitprovider.Status{{Commit: commit, Name: "Signalbox (main)", Status: "queued"}, {Commit: pr.Head, Name: "other", Status: "queued"}},
		})
	}
	for range 2 {
		told := tell(strings.Repeat("0", 40))
		if told.Comment != nil || gitprovider.KindOf(told.Statuses[0]) != gitprovider.Denied || told.Statuses[1] != nil {
			t.Errorf("%+v", told)
		}
	}
	if all, runs := w.commentsOn(pr.PR), w.runs(pr.Head); len(all) != 1 || len(runs) != 1 {
		t.Errorf("comments %q, checks %v", all, runs)
	}
}

// An answer that did not arrive says nothing, so what there is now is looked for.
func TestATellingWithoutAnAnswerIsNotDoneTwice(t *testing.T) {
	for _, action := range []string{"failAfter", "dropAfter", "fail"} {
		t.Run(action, func(t *testing.T) {
			w := newWorld(t)
			pr := w.open("a.txt", "a\n")
			w.must(w.Fail(githubsim.Fault{Path: "/graphql*addComment(*", Action: action, Status: 502}))
			for try := range 2 {
				told := w.c.Tell(w.ctx, w.repo, pr.PR, gitprovider.Telling{
					Comment:  &gitprovider.Sticky{Marker: "<!-- s -->", Body: "text"},
					Statuses: []gitprovider.Status{{Commit: pr.Head, Name: "Signalbox (main)", Status: "queued", New: try == 0}},
				})
				if failed := try == 0; (told.Comment != nil) != failed || (told.Statuses[0] != nil) != failed || failed && gitprovider.KindOf(told.Comment) != gitprovider.Transient {
					t.Errorf("try %d: %+v", try+1, told)
				}
			}
			if all, runs := w.commentsOn(pr.PR), w.runs(pr.Head); len(all) != 1 || len(runs) != 1 {
				t.Errorf("comments %q, checks %v", all, runs)
			}
		})
	}
}

// A pull request that was read without a comment a while ago may have one by now.
func TestThatThereIsNoCommentIsBelievedForAMinute(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.cfg.Now = func() time.Time { return now }
	w.restart()
	pr := w.open("a.txt", "a\n").PR
	another, err := New(w.cfg)
	w.must(err)
	const marker = "<!-- s -->"
	told := another.Tell(w.ctx, w.repo, pr, gitprovider.Telling{Comment: &gitprovider.Sticky{Marker: marker, Body: "by another copy, which died then"}})
	w.must(told.Comment)
	now = now.Add(2 * time.Minute)
	id, err := w.comment(pr, 0, marker, "text")
	w.must(err)
	if all := w.commentsOn(pr); id != told.CommentID || len(all) != 1 || !strings.HasPrefix(all[0], "text") {
		t.Errorf("%d after %d: %q", id, told.CommentID, all)
	}
}
