package github

import (
	"strings"
	"testing"

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

func TestTheStickyCommentIsFoundAgain(t *testing.T) {
	w := newWorld(t)
	pr := w.open("a.txt", "a\n").PR
	const marker = "<!-- signalbox:sticky:1 -->"
	// somebody else quotes the marker; and there is more than a page
	for range 101 {
		_, err := w.Server.Comment("acme/app", int(pr), "bob", "I quote "+marker)
		w.must(err)
	}
	id, err := w.c.Comment(w.ctx, w.repo, pr, 0, marker, "first")
	w.must(err)
	again, err := w.c.Comment(w.ctx, w.repo, pr, id, marker, "second "+marker)
	w.must(err)
	w.restart()
	found, err := w.c.Comment(w.ctx, w.repo, pr, 0, marker, "third")
	w.must(err)
	if all := w.commentsOn(pr); again != id || found != id || len(all) != 102 || all[101] != "third\n\n"+marker {
		t.Errorf("%d, %d, %d; the last of %d is %q", id, again, found, len(all), all[len(all)-1])
	}
	// deleted by a person: a new one
	k, _ := w.c.conn(w.repo)
	_, err = k.call(w.ctx, "DELETE", at(w.repo, "issues", "comments", id), nil, nil)
	w.must(err)
	fresh, err := w.c.Comment(w.ctx, w.repo, pr, id, marker, "fourth")
	w.must(err)
	if fresh == id || len(w.commentsOn(pr)) != 102 {
		t.Errorf("%d after %d", fresh, id)
	}
	if _, err := w.c.Comment(w.ctx, w.repo, 9999, 0, marker, "x"); gitprovider.KindOf(err) != gitprovider.Gone {
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
	head := w.open("a.txt", "a\n").Head
	set := func(status, conclusion, title string) {
		t.Helper()
		w.must(w.c.Status(w.ctx, w.repo, gitprovider.Status{Commit: head, Name: "Signalbox (main)", Status: status, Conclusion: conclusion, Title: title, Summary: "s", URL: "https://x/y"}))
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
