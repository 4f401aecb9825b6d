package github

import (
	"fmt"
	"testing"
	"time"

	"signalbox/gitprovider/githubsim"
)

// Comments are listed from the oldest change on, over all pages, and an answer
// that has not changed is not sent again.
func TestCommentsAreListedSinceAMoment(t *testing.T) {
	w := newWorld(t)
	begin := time.Now().Add(-time.Minute)
	a := w.open("a.txt", "a\n")
	for i := range 101 {
		_, err := w.Comment("acme/app", int(a.PR), "alice", fmt.Sprintf("comment %d", i))
		w.must(err)
	}
	for range 2 {
		list, err := w.c.Comments(w.ctx, w.repo, begin)
		w.must(err)
		if len(list) != 101 || list[0].Body != "comment 0" || list[0].PR != a.PR || list[0].Login != "alice" || list[0].UserID == 0 || list[0].Bot || list[0].App != 0 || list[100].Body != "comment 100" {
			t.Fatalf("%d comments, first %+v", len(list), list[0])
		}
		if !list[0].Created.Equal(list[0].Updated) || list[0].Created.Before(begin) {
			t.Errorf("%+v", list[0])
		}
	}
	list, err := w.c.Comments(w.ctx, w.repo, time.Now().Add(time.Hour))
	if err != nil || len(list) != 0 {
		t.Errorf("comments of the future: %v %v", list, err)
	}
	w.must(w.Fail(githubsim.Fault{Method: "GET", Path: "/repos/acme/app/issues/comments", Action: "fail", Status: 403, Times: 9}))
	if _, err := w.c.Comments(w.ctx, w.repo, begin); err == nil {
		t.Error("a refusal was no error")
	}
}

// The list holds comments on issues too.
func TestCommentsOnIssuesAreLeftOut(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]bool{
		"https://github.com/acme/app/pull/7#issuecomment-1":   true,
		"https://github.com/acme/app/issues/7#issuecomment-1": false,
		"https://github.com/acme/app/pull/8#issuecomment-1":   false,
		"": false,
	} {
		if _, ok := (listedComment{ID: 1, Page: page, Issue: "https://api.github.com/repos/acme/app/issues/7"}).pull(); ok != want {
			t.Errorf("%s is on a pull request: %v", page, ok)
		}
	}
}
