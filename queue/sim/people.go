package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"signalbox/queue"
)

// Open opens a pull request with a change, from the present head of main.
func (w *World) Open(number int64, author string, change map[string]string) error {
	return w.open(number, author, change, "main", w.main(), w.main())
}

// OpenOn opens a pull request on top of the branch of another.
func (w *World) OpenOn(number, below int64, author string, change map[string]string) error {
	p := w.host.pulls[below]
	if p == nil {
		return fmt.Errorf("there is no #%d", below)
	}
	return w.open(number, author, change, p.HeadRef, p.from, p.Head)
}

// open opens a pull request whose branch begins at a commit. from is where the
// lowest branch of its stack began.
func (w *World) open(number int64, author string, change map[string]string, base, from, at string) error {
	if w.host.pulls[number] != nil {
		return fmt.Errorf("#%d exists", number)
	}
	p := &pull{from: from, PullRequest: queue.PullRequest{
		Number: number, Title: fmt.Sprintf("Change %d", number), Author: queue.Actor{Login: author, ID: int64(len(author))},
		URL: fmt.Sprintf("https://github.com/acme/app/pull/%d", number), Base: base, Open: true,
		HeadRef: fmt.Sprintf("change-%d", number),
	}}
	p.Head = w.host.commit(w.host.commits[at].tree.with(change), number, at)
	p.touch(w.Now)
	w.host.pulls[number] = p
	return nil
}

// change finds a pull request, changes it and tells the queue.
func (w *World) change(number int64, how func(*pull)) error {
	p := w.host.pulls[number]
	if p == nil {
		return fmt.Errorf("there is no #%d", number)
	}
	how(p)
	p.touch(w.Now)
	w.notify(queue.PullRequestSeen{PullRequest: p.PullRequest, Landed: p.landed})
	return nil
}

// Push pushes a change to a pull request's branch.
func (w *World) Push(number int64, change map[string]string) error {
	return w.change(number, func(p *pull) {
		p.Head = w.host.commit(w.host.commits[p.Head].tree.with(change), number, p.Head)
	})
}

// DeleteBranch deletes the branch of a pull request. The host closes what is
// open from it, and what is based on it: that gets the base of the merged pull
// request instead, if it was one.
func (w *World) DeleteBranch(number int64) error {
	gone := w.host.pulls[number]
	if gone == nil {
		return fmt.Errorf("there is no #%d", number)
	}
	if gone.Open {
		if err := w.Close(number); err != nil {
			return err
		}
	}
	for _, n := range w.host.numbers() {
		p := w.host.pulls[n]
		switch {
		case !p.Open || p.Base != gone.HeadRef:
		case gone.Merged:
			if err := w.Retarget(n, gone.Base); err != nil {
				return err
			}
		default:
			if err := w.Close(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restack brings what is beneath a pull request into its branch.
func (w *World) Restack(number int64) error {
	below := w.host.beneath(number)
	if below == nil {
		return nil
	}
	return w.change(number, func(p *pull) {
		of := func(id string) files { return w.host.commits[id].tree }
		if tree, ok := merge(of(p.from), of(below.Head), of(p.Head)); ok {
			p.Head = w.host.commit(tree, number, p.Head, below.Head)
		}
	})
}

// Close closes a pull request, Reopen opens it again.
func (w *World) Close(number int64) error {
	return w.change(number, func(p *pull) { p.Open = false })
}

// Reopen opens a closed pull request again.
func (w *World) Reopen(number int64) error {
	return w.change(number, func(p *pull) { p.Open = true })
}

// Draft makes a pull request a draft or ready for review.
func (w *World) Draft(number int64, draft bool) error {
	return w.change(number, func(p *pull) { p.Draft = draft })
}

// Retarget changes the base branch of a pull request.
func (w *World) Retarget(number int64, base string) error {
	return w.change(number, func(p *pull) { p.Base = base })
}

// Block makes a pull request miss a review, or have it.
func (w *World) Block(number int64, blocked bool) error {
	w.host.blocked[number] = blocked
	w.notify(queue.PullRequestDoubted{PR: number})
	return nil
}

// Green has CI pass on a pull request's head.
func (w *World) Green(number int64) error {
	p := w.host.pulls[number]
	if p == nil {
		return fmt.Errorf("there is no #%d", number)
	}
	w.host.green[p.Head] = true
	w.notify(queue.ChecksDoubted{Commit: p.Head})
	return nil
}

// Refuse has the host refuse to land a pull request, with these words.
func (w *World) Refuse(number int64, why string) error {
	w.host.refused[number] = why
	return nil
}

// Hang has the next call that merges a pull request hang until Arrive, and the host
// refuse the one after it.
func (w *World) Hang(number int64) error {
	w.host.hung[number] = true
	return nil
}

// Arrive has merge calls done that the network has held back.
func (w *World) Arrive() error {
	late := w.late
	w.late = nil
	if len(late) == 0 {
		return errors.New("nothing hangs")
	}
	for _, arrive := range late {
		arrive()
	}
	return nil
}

// PushTarget pushes a change straight to main, past the queue.
func (w *World) PushTarget(change map[string]string) {
	w.RestoreTarget()
	before := w.host.branches["main"]
	after := w.host.commit(w.host.commits[before].tree.with(change), 0, before)
	w.host.branches["main"] = after
	w.notify(queue.TargetMoved{Branch: "main", Before: before, After: after})
}

// DeleteTarget deletes main, RestoreTarget makes it again where it was.
func (w *World) DeleteTarget() {
	if head := w.host.branches["main"]; head != "" {
		w.host.deleted = head
		delete(w.host.branches, "main")
		w.notify(queue.TargetMoved{Branch: "main", Before: head})
	}
}

// RestoreTarget makes a deleted main again.
func (w *World) RestoreTarget() {
	if w.host.branches["main"] == "" {
		w.host.branches["main"] = w.host.deleted
		w.notify(queue.TargetMoved{Branch: "main", After: w.host.deleted})
	}
}

// Spoil deletes the test branch of a pull request's run, or pushes to it.
func (w *World) Spoil(number int64, remove bool) error {
	r := w.RunOf(number)
	if r == nil || w.host.branches[r.Branch] == "" {
		return nil
	}
	after := ""
	if remove {
		delete(w.host.branches, r.Branch)
	} else {
		at := w.host.branches[r.Branch]
		after = w.host.commit(w.host.commits[at].tree.with(files{"spoilt": "1"}), 0, at)
		w.host.branches[r.Branch] = after
	}
	w.notify(queue.TestBranchMoved{Branch: r.Branch, After: after})
	return nil
}

// MergeByHand lands a pull request on main with the host's button.
func (w *World) MergeByHand(number int64) error {
	w.RestoreTarget()
	before := w.host.branches["main"]
	err := w.change(number, func(p *pull) {
		if after, ok := w.host.land(number, p.Head, before); ok {
			w.host.branches["main"] = after
			p.Open, p.Merged = false, true
		}
	})
	if err == nil {
		w.notify(queue.TargetMoved{Branch: "main", Before: before, After: w.host.branches["main"]})
	}
	return err
}

// Wish is what a submission may ask for beyond the default.
type Wish struct {
	Priority *int64
	NoBatch  bool
	Force    bool
	Title    string // of a stack
}

// Submit asks for a pull request to be merged.
func (w *World) Submit(number int64, wish Wish) error {
	p := w.host.pulls[number]
	if p == nil {
		return fmt.Errorf("there is no #%d", number)
	}
	f := queue.Submitted{
		PullRequest: p.PullRequest, ID: entryID(number),
		By: p.Author, Via: queue.ViaUser, Priority: queue.Medium, NoBatch: wish.NoBatch, Force: wish.Force, At: w.clock(),
	}
	if wish.Priority != nil {
		f.Priority, f.PriorityGiven = *wish.Priority, true
	}
	w.tell(f)
	return nil
}

// entryID is that of the entry of a pull request.
func entryID(number int64) queue.EntryID {
	return queue.EntryID(fmt.Sprintf("00000000-0000-4000-8000-%012d", number))
}

// SubmitStack asks for a pull request to be merged with all that it stands on.
func (w *World) SubmitStack(number int64, wish Wish) error {
	if err := w.Submit(number, wish); err != nil {
		return err
	}
	f := w.inbox[len(w.inbox)-1].(queue.Submitted)
	f.Title = wish.Title
	for p := w.host.beneath(number); p != nil; p = w.host.beneath(p.Number) {
		f.Stack = append([]queue.PullRequest{p.PullRequest}, f.Stack...)
	}
	w.inbox[len(w.inbox)-1] = f
	return nil
}

// Cancel asks for a pull request to leave.
func (w *World) Cancel(number int64, by string) {
	w.tell(queue.CancelRequested{PR: number, By: queue.Actor{Login: by, ID: int64(len(by))}, Via: queue.ViaUser, At: w.clock()})
}

// Restart asks for a pull request's group to be tested again.
func (w *World) Restart(number int64, by string) {
	w.tell(queue.RestartRequested{PR: number, By: queue.Actor{Login: by, ID: int64(len(by))}, Via: queue.ViaUser, At: w.clock()})
}

// Set changes the queue's settings or state.
func (w *World) Set(c queue.Change) {
	w.tell(queue.ChangeRequested{Change: c, By: queue.Actor{Login: "owner", ID: 5}, At: w.clock()})
}

// RunOf finds the run that tests a pull request: the live one, else the newest.
func (w *World) RunOf(number int64) *queue.Run { return w.runWithout(number, "") }

// HedgeOf finds the run that tests a pull request without another one that is ahead.
func (w *World) HedgeOf(number, without int64) *queue.Run {
	if e := w.Entry(without); e != nil {
		return w.runWithout(number, e.ID)
	}
	return nil
}

func (w *World) runWithout(number int64, without queue.EntryID) *queue.Run {
	e := w.Entry(number)
	if e == nil {
		return nil
	}
	var runs []*queue.Run
	for _, r := range w.state.Runs {
		if slices.Contains(r.Members, e.ID) && r.Hedge == without {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return slices.MaxFunc(runs, func(a, b *queue.Run) int {
		if a.State.Live() != b.State.Live() {
			if a.State.Live() {
				return 1
			}
			return -1
		}
		return cmp.Or(a.AskedAt.Compare(b.AskedAt), cmp.Compare(a.ID, b.ID)) // two may be of one moment
	})
}

// startCI lets CI look at a pushed test branch.
func (w *World) startCI(branch, commit string) {
	if !w.Auto {
		return
	}
	tree := w.host.commits[commit].tree
	id := w.host.commits[commit].treeID
	w.builds[id]++
	attempt := w.builds[id]
	for _, check := range w.Checks {
		result := "success"
		if tree.fails(check) || w.Flaky != nil && w.Flaky(id, attempt) {
			result = "failure"
		}
		w.after(w.CITime, func() {
			if w.host.branches[branch] == commit {
				w.Report(commit, check, result)
			}
		})
	}
}

// Report has CI report a check on a commit.
func (w *World) Report(commit, check, result string) {
	w.host.checks++
	r := queue.Report{
		Kind: queue.CheckRun, Name: check, AppID: 15368, ID: w.host.checks, Status: "completed", Result: result, At: w.Now,
	}
	w.host.reports[commit] = append(w.host.reports[commit], r)
	w.notify(queue.CheckReported{Commit: commit, Report: r})
}

// Upload tells the queue what came of test results, with a number of their own
// unless they have one.
func (w *World) Upload(f queue.TestResults) {
	if f.Upload == 0 {
		f.Upload = int64(len(w.uploads)) + 1
	}
	w.uploads = append(w.uploads, f)
	w.tell(f)
}

// Judge is what the CI rule says about a commit for a check.
func (w *World) Judge(commit, check string) string {
	if w.host.commits[commit].tree.fails(check) {
		return "failure"
	}
	return "success"
}
