package queue

import (
	"fmt"
	"slices"
)

// A merge call that the network holds back does not end with the landing that made
// it: the host may do it minutes later, when the landing has been given up and its
// entry put back, failed, cancelled or submitted again. The head of the pull request
// is part of the call, so nothing else is merged than was tested, but on whatever the
// target is by then. Nobody can take the call back. So it is remembered what was
// given up, and when the host merges it all the same, that is told as what it is.
//
// A landing that is performed once more because its worker was killed at the wrong
// moment may land, too, what was given up after the first time; an exact one only
// where nothing else has landed since.

// GivenUp is a step of a landing that ended without it.
type GivenUp struct {
	Landing    int64       `json:"landing"`
	Entry      EntryID     `json:"entry"`
	Submission int64       `json:"submission"`
	PR         int64       `json:"pr"`
	Head       string      `json:"head"`
	Method     MergeMethod `json:"method"`
	Mode       LandingMode `json:"mode"`
	// Run is the run that proved it, with Tested as its tree after this step; both
	// "" for a step that needed none.
	Run    RunID  `json:"run"`
	Tested string `json:"tested"`
	// Expect is the commit at which the target was when the landing began: what the
	// host does late stands on that or on what came after.
	Expect string `json:"expect"`
}

// keepGivenUp bounds how many steps are remembered, the newest. Hosts end a call
// within seconds, and a network holds one back for minutes.
const keepGivenUp = 100

// giveUp remembers the steps that a landing ended without.
func (d *decision) giveUp(l *Landing, f LandingEnded) {
	for _, s := range l.Land.Steps[min(len(f.Landed), len(l.Land.Steps)):] {
		e := d.s.Entries[s.Entry]
		if e == nil {
			continue
		}
		d.forgetGivenUp(s.PR)
		q := &d.s.Queue
		q.GivenUp = append(q.GivenUp, GivenUp{Landing: l.ID, Entry: s.Entry, Submission: s.Submission, PR: s.PR, Head: s.Head,
			Method: l.Land.Method, Mode: l.Land.Mode, Run: e.VerifiedBy, Tested: s.Tree, Expect: l.Land.Expect})
		q.GivenUp = q.GivenUp[max(0, len(q.GivenUp)-keepGivenUp):]
	}
}

// forgetGivenUp forgets what was given up of a pull request: it has landed.
func (d *decision) forgetGivenUp(pr int64) {
	q := &d.s.Queue
	q.GivenUp = slices.DeleteFunc(slices.Clone(q.GivenUp), func(g GivenUp) bool { return g.PR == pr })
}

// givenUp finds what was given up of a pull request.
func (d *decision) givenUp(pr int64) (GivenUp, bool) {
	list := d.s.Queue.GivenUp
	if i := slices.IndexFunc(list, func(g GivenUp) bool { return g.PR == pr }); i >= 0 {
		return list[i], true
	}
	return GivenUp{}, false
}

// seeLate notes that the host has merged for us what we have given up, or are about
// to: what is landing now is decided on when the end of that is known.
func (d *decision) seeLate(f PullRequestSeen) {
	e := d.byPR(f.Number)
	if e == nil || e.State == Merged || f.Landed == "" || f.Base != d.s.Queue.Branch || d.landedHere(f.Landed) {
		return
	}
	own, beneath := d.inFlight(f.PullRequest)
	if g, ok := d.givenUp(f.Number); !beneath && (own || ok && f.Head == g.Head) {
		e.PullRequest, e.LandedCommit = f.PullRequest, f.Landed
	}
}

// inFlight reports whether the landing in flight has a pull request at its head as
// a step of its own, or beneath one in a stack: then it lands with that.
func (d *decision) inFlight(pr PullRequest) (own, beneath bool) {
	l := d.s.Queue.Landing
	if l == nil {
		return false, false
	}
	for _, s := range l.Land.Steps {
		own = own || s.PR == pr.Number && s.Head == pr.Head
		beneath = beneath || slices.ContainsFunc(s.Stack, func(u Under) bool { return u.PR == pr.Number })
	}
	return own, beneath
}

// late reports whether the host has merged an entry that the queue does not call
// merged.
func (e *Entry) late() bool { return e.LandedCommit != "" && e.State != Merged && e.State != Never }

// lateEnding tells what the host did, and what is known of it.
func (d *decision) lateEnding(e *Entry) ending {
	g, _ := d.givenUp(e.Number)
	tested := "It had needed no tests at the time."
	if g.Run != "" {
		tested = fmt.Sprintf("Run %s had tested it as tree %s.", g.Run, short(g.Tested))
	}
	return ending{to: Merged, why: LandedLate, run: g.Run, message: fmt.Sprintf(
		"Merged as %s by a call to the host that had been given up because it was not answered. %s Whether it landed as that, `signalbox verify-history` tells.",
		short(e.LandedCommit), tested)}
}

// landedLate writes down what the host did late. Whatever is being tested was not
// tested on it.
func (d *decision) landedLate(e *Entry) {
	q := &d.s.Queue
	g, _ := d.givenUp(e.Number)
	q.Landed = append(q.Landed[:len(q.Landed):len(q.Landed)], Landed{
		Seq: q.LandedSeq() + 1, Entry: e.ID, Submission: e.Submission, PR: e.Number, Commit: e.LandedCommit,
	})
	d.known.landed = nil
	t := &q.Target
	t.Epoch++
	t.Version++ // a read that is under way may be older
	t.Hints = appendNew(t.Hints, e.LandedCommit)
	d.receipts = append(d.receipts, Receipt{
		Seq: q.LandedSeq(), Landing: g.Landing, Entry: e.ID, Submission: e.Submission, PR: e.Number, Head: g.Head,
		Run: g.Run, Method: g.Method, Mode: g.Mode, On: g.Expect, Commit: e.LandedCommit, Tested: g.Tested, Last: true,
		Differs: "the host did it after the landing had been given up", At: d.now,
	})
	d.forgetGivenUp(e.Number)
}
