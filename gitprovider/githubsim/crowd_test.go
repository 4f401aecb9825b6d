package githubsim

// Many at once: people, the merge call, pushes and CI on one repository.

import (
	"fmt"
	"testing"

	"github.com/google/go-github/v60/github"
	"golang.org/x/sync/errgroup"
)

func TestACrowdLosesNothing(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, func(c *Config) { c.DeliveryWorkers = 3 })
	w.repo(NewRepo{Owner: "acme", Name: "app", Checks: []string{"test"}, CI: CI{PullRequests: true}})
	gh := w.installation()
	const workers, each = 4, 5
	var g errgroup.Group
	for n := range workers {
		g.Go(func() error {
			author := fmt.Sprint("dev", n)
			for i := range each {
				p, err := w.OpenPull(w.ctx, OpenPull{
					Repo: "acme/app", Author: author, Title: "Change", Fork: n == 0, Branch: fmt.Sprint("t", n, "-", i), Files: files(fmt.Sprint(n, "/", i), "x\n"),
				})
				if err != nil {
					return err
				}
				if _, err := w.Comment("acme/app", p.Number, author, "/merge"); err != nil {
					return err
				}
				if _, _, err := gh.PullRequests.Get(w.ctx, "acme", "app", p.Number); err != nil {
					return err
				}
				method := []string{"merge", "squash", "rebase"}[i%3]
				if _, _, err := gh.PullRequests.Merge(w.ctx, "acme", "app", p.Number, "", &github.PullRequestOptions{MergeMethod: method, SHA: p.HeadSHA}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.must(g.Wait())
	log, err := w.Log(w.ctx, "acme/app", "main")
	w.must(err)
	seen := map[int]bool{}
	for _, c := range log[:len(log)-1] {
		seen[c.PR] = true
	}
	if len(log) != workers*each+1 || len(seen) != workers*each || seen[0] {
		t.Errorf("the log has %d commits of %d pull requests, want %d", len(log)-1, len(seen), workers*each)
	}
	w.delivered()
	if n := len(w.app.all("pull_request", "closed")); n != workers*each {
		t.Errorf("%d closed events, want %d", n, workers*each)
	}
	w.clone(w.token(), "acme/app").git("fsck", "--full", "--strict")
}
