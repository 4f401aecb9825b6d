package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/gitprovider"
	"signalbox/gitprovider/github"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
	"signalbox/queue/proof"
)

// verifyCommand compares every landing with what was tested: the receipts that
// were written when it landed and the runs they name, from the database, with
// the commits and trees of the branch, from Git.
type verifyCommand struct {
	settings
	someQueues
	Since string `help:"Only what landed since this day, as 2026-01-31."`
	Git   string `type:"path" help:"A clone of the repository that --repo names, on this machine, to be compared with instead of asking the host. Nothing but the database is needed then."`
	All   bool   `help:"Show every landing, not only what is amiss."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// errUnproven is the end of a comparison that found a broken promise.
var errUnproven = errors.New("not everything that landed is proven; what is amiss is said above")

// historian knows the Git history of repositories.
type historian interface {
	// Line lists the first parents of a branch from a commit on, oldest first.
	Line(ctx context.Context, repo queue.Repo, branch, from string) ([]mirror.Commit, error)
	// Chain builds steps on a commit, and publishes nothing.
	Chain(ctx context.Context, repo queue.Repo, onto string, method queue.MergeMethod, steps []queue.StepSpec) ([]queue.Step, error)
}

// Run compares every queue that is asked for.
func (v *verifyCommand) Run(ctx context.Context, c console) error {
	since, err := v.since()
	if err != nil {
		return err
	}
	if v.LogLevel == "info" {
		v.LogLevel = "warn" // what is found is printed, and that alone
	}
	return v.with(ctx, v.logging, c, func(d *db.DB) error {
		host, done, err := v.historian(ctx, c)
		if err != nil {
			return err
		}
		defer done()
		queues, err := v.list(ctx, d)
		if err != nil {
			return err
		}
		var all []verified
		for _, q := range queues {
			one, err := verify(ctx, d, host, q, since)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		if len(all) == 0 {
			return errors.New("there is no such queue")
		}
		return v.tell(c, all)
	})
}

func (v *verifyCommand) since() (time.Time, error) {
	if v.Since == "" {
		return time.Time{}, nil
	}
	day, err := time.Parse(time.DateOnly, v.Since)
	if err != nil {
		return day, fmt.Errorf("since is %q: give a day, such as 2026-01-31", v.Since)
	}
	return day, nil
}

// historian is the host, as the App sees it, or a clone. done is called at the end.
func (v *verifyCommand) historian(ctx context.Context, c console) (host historian, done func(), err error) {
	if v.Git != "" {
		if v.Repo == "" {
			return nil, nil, errors.New("name the repository of the clone with --repo")
		}
		return newLocalHistory(v.Git)
	}
	cfg, err := v.complete(ctx, false, c)
	if err != nil {
		return nil, nil, err
	}
	client, err := github.New(hostConfig(cfg))
	if err != nil {
		return nil, nil, err
	}
	return client, client.Close, nil
}

// localHistory is a clone of a repository on this machine. It is only read:
// what has to be merged again is merged in a copy.
type localHistory struct {
	mirrors *mirror.Mirrors
	path    string
}

func newLocalHistory(path string) (historian, func(), error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "signalbox-verify-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for a copy of the repository: %w", err)
	}
	m, err := mirror.New(mirror.Config{Dir: folder, Filter: "off", AllowFile: true})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &localHistory{m, path}, func() { m.Close(); os.RemoveAll(folder) }, nil
}

func (l *localHistory) source(repo queue.Repo) mirror.Source {
	return mirror.Source{Repo: repo, URL: l.path}
}

// Line reads the clone's branch.
func (l *localHistory) Line(ctx context.Context, repo queue.Repo, branch, from string) ([]mirror.Commit, error) {
	line, ok, err := l.mirrors.Line(ctx, l.source(repo), branch, from)
	if err == nil && !ok {
		err = fmt.Errorf("the clone %s has no branch %s", l.path, branch)
	}
	return line, err
}

// Chain builds on what the clone has.
func (l *localHistory) Chain(ctx context.Context, repo queue.Repo, onto string, method queue.MergeMethod, steps []queue.StepSpec) ([]queue.Step, error) {
	return l.mirrors.Chain(ctx, l.source(repo), onto, method, steps)
}

// verified is what was found about one queue.
type verified struct {
	Repo     string          `json:"repo"`
	Branch   string          `json:"branch"`
	Problems int             `json:"problems"`
	Commits  int             `json:"commits"` // on the branch, since the first landing
	Landings []verifiedOne   `json:"landings"`
	Others   []string        `json:"others"` // commits that were put there past the queue
	Faults   []string        `json:"timelineFaults"`
	Ways     map[string]int  `json:"proven"` // landings by how they are proven
	landed   map[int64][]int // of each pull request, its places in Landings
}

// verifiedOne is one landing.
type verifiedOne struct {
	PR      int64     `json:"prNumber"`
	Commit  string    `json:"commit"`
	Tree    string    `json:"tree"`
	Run     string    `json:"testRun"` // "" = none was needed
	At      time.Time `json:"landedAt"`
	How     proof.How `json:"how"`
	Problem string    `json:"problem"`
	Note    string    `json:"note"`
	// Told: the queue found the problem itself when it landed, and stopped.
	Told bool `json:"told"`
}

// verify compares what landed through one queue with what was tested.
func verify(ctx context.Context, d *db.DB, host historian, q queue.Queue, since time.Time) (verified, error) {
	kept, line, err := proofsAndLine(ctx, d, host, q, since)
	if err != nil {
		return verified{}, err
	}
	h := proof.History{Receipts: kept.Receipts, Runs: kept.Runs, Targets: kept.Targets, Merged: map[string]string{}}
	parents := map[string]string{}
	for _, k := range line {
		h.Commits = append(h.Commits, proof.Commit{ID: k.ID, Tree: k.Tree, Parents: k.Parents})
		if len(k.Parents) > 0 {
			parents[k.ID] = k.Parents[0]
		}
	}
	for _, r := range kept.Receipts {
		if !proof.Needs(r) {
			continue
		}
		on := parents[r.Commit]
		if r.Method == queue.Rebase {
			on = r.On // the parent is another of its own commits
		}
		if h.Merged[r.Commit], err = mergedAgain(ctx, host, q.Repo, on, r); err != nil {
			return verified{}, err
		}
	}
	return found(q, kept, proof.Check(h)), nil
}

// proofsAndLine reads what is kept and the branch, so that both are of one
// moment: when something landed in between, both are read again. A queue in
// which something always lands is judged up to its last receipt.
func proofsAndLine(ctx context.Context, d *db.DB, host historian, q queue.Queue, since time.Time) (db.Proofs, []mirror.Commit, error) {
	kept, err := d.Proofs(ctx, q.ID, since)
	for try := 1; ; try++ {
		if err != nil || len(kept.Receipts) == 0 {
			return kept, nil, err
		}
		line, err := host.Line(ctx, q.Repo, q.Branch, kept.Receipts[0].On)
		if err != nil {
			return kept, nil, err
		}
		after, err := d.Proofs(ctx, q.ID, since)
		if err != nil {
			return kept, nil, err
		}
		still := !after.InFlight && len(after.Receipts) == len(kept.Receipts)
		if still || try == 5 {
			last := kept.Receipts[len(kept.Receipts)-1].Commit
			if at := slices.IndexFunc(line, func(k mirror.Commit) bool { return k.ID == last }); at >= 0 && !still {
				line = line[:at+1]
			}
			return kept, line, nil
		}
		kept = after
	}
}

// mergedAgain is the tree that merging what landed on a commit gives; "" when
// that cannot be done.
func mergedAgain(ctx context.Context, host historian, repo queue.Repo, on string, r queue.Receipt) (string, error) {
	if on == "" {
		return "", nil
	}
	steps, err := host.Chain(ctx, repo, on, r.Method, []queue.StepSpec{{Step: queue.Step{Entry: r.Entry, Submission: r.Submission, PR: r.PR, Head: r.Head}}})
	switch kind := gitprovider.KindOf(err); {
	case kind == gitprovider.Conflict || kind == gitprovider.Stale:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("merge #%d again, to compare: %w", r.PR, err)
	}
	return steps[0].Tree, nil
}

// found is a report for people and programs.
func found(q queue.Queue, kept db.Proofs, r proof.Report) verified {
	v := verified{
		Repo: q.Repo.Owner + "/" + q.Repo.Name, Branch: q.Branch, Problems: r.Problems() + len(kept.Faults), Commits: r.Commits,
		Landings: []verifiedOne{}, Others: append([]string{}, r.Others...), Faults: append([]string{}, kept.Faults...),
		Ways: map[string]int{}, landed: map[int64][]int{},
	}
	for i, l := range r.Landings {
		v.Landings = append(v.Landings, verifiedOne{l.PR, l.Commit, l.Tree, string(l.Run), kept.Receipts[i].At, l.How, l.Problem, l.Note, l.Told})
		v.Ways[string(l.How)]++
		v.landed[l.PR] = append(v.landed[l.PR], i)
	}
	return v
}

// tell prints what was found. It fails when a promise is broken.
func (v *verifyCommand) tell(c console, all []verified) error {
	problems := 0
	for _, one := range all {
		problems += one.Problems
	}
	if v.JSON {
		if err := printJSON(c, all); err != nil {
			return err
		}
	} else {
		for _, one := range all {
			one.print(c.out, v.All)
		}
	}
	if problems > 0 {
		return errUnproven
	}
	return nil
}

// print writes for a person what is amiss, and with all every landing.
func (v verified) print(w io.Writer, all bool) {
	fmt.Fprintf(w, "%s %s: %d landings, %d commits since the first\n", v.Repo, v.Branch, len(v.Landings), v.Commits)
	for _, l := range v.Landings {
		level, what := "ok", howWords[l.How]
		switch {
		case l.Problem != "":
			level, what = "PROBLEM", l.Problem
		case l.Note != "":
			level, what = "note", l.Note
		case !all:
			continue
		}
		fmt.Fprintf(w, "  %-8s #%d landed as %.10s: %s\n", level, l.PR, l.Commit, cmp.Or(what, string(l.How)))
	}
	for _, fault := range v.Faults {
		fmt.Fprintf(w, "  %-8s the timeline: %s\n", "PROBLEM", fault)
	}
	if n := len(v.Others); n > 0 {
		fmt.Fprintf(w, "  %-8s %d commits were put there past the queue, the last one %.10s\n", "note", n, v.Others[n-1])
	}
	if v.Problems > 0 {
		return
	}
	var ways []string
	for _, way := range slices.Sorted(maps.Keys(v.Ways)) {
		ways = append(ways, fmt.Sprintf("%d %s", v.Ways[way], way))
	}
	fmt.Fprintf(w, "  %-8s everything that landed is what was tested (%s)\n", "ok", cmp.Or(strings.Join(ways, ", "), "nothing has landed yet"))
}

var howWords = map[proof.How]string{
	proof.Tested:   "this very tree passed",
	proof.Together: "it passed together with what landed right after it",
	proof.Lane:     "it passed in its lane, and is merged on what other lanes landed",
	proof.Direct:   "its head contained the target and had passed there",
}
