package queue

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Condition is one thing that has to be so, in words.
type Condition struct {
	Name    string // a word for programs, such as "mergeable"
	Met     bool
	Message string // a sentence for people: how it is, and what to do if it is not met
}

// Explanation says where an entry stands and what it waits for. The API, the
// comment and the dashboard all show this one.
type Explanation struct {
	Conditions []Condition
	// Position is the entry's place in queue order, 1 for the next to land; 0
	// when it is in no order (not ready, or ended).
	Position int64
	// WaitsFor says in a sentence what has to happen next; "" once ended.
	WaitsFor string
	// Until is when waiting ends by itself; zero = when it happens.
	Until time.Time
	// TestedWith are the pull requests ahead that its run includes.
	TestedWith []int64
	// Run is the run that tests or tested it; "" if none.
	Run RunID
	// EstimatedMergeAt is a guess from this queue's history; zero = none.
	EstimatedMergeAt time.Time
}

// Explain says where an entry of the window stands. It is pure, like
// everything here: it changes nothing.
func Explain(s *Snapshot, e *Entry, now time.Time) Explanation {
	d := &decision{s: s, before: s, now: now}
	x := Explanation{Conditions: d.conditions(e), Position: d.position(e), Run: e.VerifiedBy}
	g := s.Groups[e.Group]
	if g != nil {
		if r := s.run(g); r != nil {
			x.Run = r.ID
			for _, step := range r.Ahead() {
				x.TestedWith = append(x.TestedWith, step.PR)
			}
		}
	}
	if e.Active() {
		x.WaitsFor, x.Until = d.waitsFor(e, g)
		x.EstimatedMergeAt = d.estimate(e, g, x.Position)
	}
	return x
}

// estimate guesses when an entry lands if nothing fails: a run takes as long
// as this queue's runs usually do, groups land as soon as the last of those
// ahead has passed, and entries that wait are tested in rounds of as many as
// there are slots. It is zero where nothing can be said: no history, not
// ready, held by a failure, or a queue that does not land.
func (d *decision) estimate(e *Entry, g *Group, position int64) time.Time {
	q := &d.s.Queue
	usual := d.s.TypicalTest
	if usual <= 0 || position == 0 || !q.State.Lands() || e.State == PendingFailure {
		return time.Time{}
	}
	if g == nil {
		perRound := max(q.Concurrency, 1)
		if q.Batch {
			perRound *= max(q.BatchingMinSize, 1)
		}
		return d.now.Add(usual * time.Duration(min((position-1)/perRound+1, 1000)))
	}
	at := d.now
	for _, a := range slices.Concat(d.ahead(g), []*Group{g}) {
		if left := d.now.Add(usual); d.state(a) == Pending {
			at = later(at, left)
		} else if r := d.s.run(a); r != nil && r.State == RunTesting {
			at = later(at, r.StartedAt.Add(usual))
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ready reports whether every condition for admission is met.
func (d *decision) ready(e *Entry) bool {
	for _, c := range d.readiness(e) {
		if !c.Met {
			return false
		}
	}
	return true
}

// readiness lists the conditions for admission other than the queue's state.
func (d *decision) readiness(e *Entry) []Condition {
	conditions := []Condition{
		condition("open", e.Open, "The pull request is open.", "The pull request is closed. Reopen it."),
		condition("not_draft", !e.Draft, "The pull request is ready for review.", "The pull request is a draft. Mark it ready for review."),
		condition("base_branch", d.baseFits(e),
			d.targets(e),
			fmt.Sprintf("The pull request targets %s, not %s: it waits until it is retargeted. The host does that when a pull request beneath it has landed and that branch is deleted; or change its base branch.", e.Base, d.s.Queue.Branch)),
	}
	conditions = append(conditions, d.mergeable(e))
	if e.Stacked() {
		return append(conditions, d.stacked(e))
	}
	if d.s.Queue.Mode == Parallel {
		conditions = append(conditions, condition("impacted_targets", e.Targets != 0,
			"The impacted targets of its head commit are known.",
			fmt.Sprintf("Nobody has told which targets %s impacts. CI uploads them with setImpactedTargets.", short(e.Head))))
	}
	return conditions
}

func (d *decision) mergeable(e *Entry) Condition {
	switch {
	case e.Forced:
		return Condition{"mergeable", true, "An administrator forced it past the host's rules."}
	case e.Mergeability == Mergeable:
		return Condition{"mergeable", true, "The host calls the pull request mergeable."}
	case !e.Open: // the host judges it otherwise, and why is another condition's
		return Condition{"mergeable", false, "Whether it can be merged is judged once it is open."}
	case e.Draft:
		return Condition{"mergeable", false, "Whether it can be merged is judged once it is ready for review."}
	case e.Mergeability == NotMergeable:
		return Condition{"mergeable", false, e.MergeabilityWhy}
	default:
		return Condition{"mergeable", false, "The host has not said yet whether the pull request can be merged."}
	}
}

func condition(name string, met bool, yes, no string) Condition {
	if met {
		return Condition{name, true, yes}
	}
	return Condition{name, false, no}
}

// conditions lists everything that has to be so before the entry can land, in
// the order in which it happens.
func (d *decision) conditions(e *Entry) []Condition {
	if !e.Active() {
		return nil
	}
	q := &d.s.Queue
	conditions := []Condition{}
	if e.State == NotReady {
		conditions = append(conditions, condition("queue_admits", q.State.Admits(), "The queue admits pull requests.", d.queueStands()))
	}
	conditions = append(conditions, d.readiness(e)...)
	g := d.s.Groups[e.Group]
	var r *Run
	if g != nil {
		r = d.s.run(g)
	}
	conditions = append(conditions, condition("tested", e.State == TestsPassed, strings.TrimSpace("All required checks passed on what will land. "+clearedBy(d.s.Runs[e.VerifiedBy])), d.notTested(r)))
	if d.adaptive() && e.State != NotReady && e.State != TestsPassed {
		conditions = append(conditions, d.expected(e, g))
	}
	if g != nil {
		ahead := len(d.ahead(g))
		conditions = append(conditions, condition("first_in_line", ahead == 0, "Nothing ahead of it is left.",
			fmt.Sprintf("%d %s ahead of it must land or leave first.", ahead, plural(ahead, "group"))))
	}
	return append(conditions, condition("queue_lands", q.State.Lands() && !q.Target.Missing, "The queue lands what has passed.", d.cannotLand()))
}

// expected says whether an adaptive queue tests others on top of an entry.
func (d *decision) expected(e *Entry, g *Group) Condition {
	why := d.chance(e).why()
	switch {
	case g != nil && g.apart() && e.State == PendingFailure:
		return Condition{"in_base", false, "Its tests failed: others are not tested on top of it."}
	case g != nil && g.alone() && g.Confirming:
		return Condition{"in_base", false, "It failed, which may be by chance or for want of what was left out: it is tested once more, alone, and that counts. When it passes, it takes its place behind those that are being tested."}
	case g != nil && g.alone() && !d.risky(e):
		return Condition{"in_base", false, "So many are ahead of it that not all of them will land: it is tested alone first, and then takes its place behind those that are being tested."}
	case e.Returned != 0:
		return Condition{"in_base", true, "It has been tested before and is not known to fail, so others are tested on top of it."}
	case g != nil && g.apart() || g == nil && d.risky(e):
		return Condition{"in_base", false, why + " So others are not tested on top of it; when it passes, it goes on behind those that are being tested."}
	default:
		return Condition{"in_base", true, why + " So others are tested on top of it."}
	}
}

func (d *decision) notTested(r *Run) string {
	switch {
	case r == nil:
		return "It has not been tested yet."
	case r.State == Building:
		return "Its test branch is being built."
	case r.State == RunFailed:
		return r.Message
	default:
		j := r.judge(d.now, d.s.TestChecks)
		text := fmt.Sprintf("Required checks still running or missing on %s: %s.", short(r.Commit), list(j.names))
		if !j.until.IsZero() {
			text = fmt.Sprintf("%s failed on %s. It counts as passed if test results come and everything that failed is quarantined.", list(j.names), short(r.Commit))
		}
		return strings.TrimSpace(text + " " + r.ClearedText())
	}
}

// clearedBy says what quarantine passed in the run that proves an entry.
func clearedBy(r *Run) string {
	if r == nil {
		return ""
	}
	return r.ClearedText()
}

func (d *decision) queueStands() string {
	q := &d.s.Queue
	switch {
	case q.StateWhy != "":
		return q.StateWhy
	case q.State == SwitchingModes:
		return fmt.Sprintf("The queue is switching to %s mode and admits nobody until its line is empty.", q.WantedMode)
	default:
		return fmt.Sprintf("The queue is %s. Somebody with the right to do so can set it running.", q.State)
	}
}

// cannotLand says why nothing lands although it has passed.
func (d *decision) cannotLand() string {
	if d.s.Queue.Target.Missing {
		return d.noTarget() + " and what has passed lands."
	}
	return d.queueStands()
}

// noTarget is the beginning of a sentence that says what follows.
func (d *decision) noTarget() string {
	return fmt.Sprintf("The branch %s does not exist on the host. Push it,", d.s.Queue.Branch)
}

// missing is the first unmet condition for admission, a sentence.
func (d *decision) missing(e *Entry) string {
	if !d.s.Queue.State.Admits() {
		return d.queueStands()
	}
	for _, c := range d.readiness(e) {
		if !c.Met {
			return c.Message
		}
	}
	return ""
}

// waitsFor names the one thing that has to happen next.
func (d *decision) waitsFor(e *Entry, g *Group) (string, time.Time) {
	q := &d.s.Queue
	if d.isLanding(e) {
		if blind := q.Landing.Blind; !blind.IsZero() {
			return fmt.Sprintf("It is landing, but %s cannot be read on the host: the branch does not exist, or the App may not work on the repository. Whether it has landed is known when that is mended.", q.Branch), blind.Add(blindForGood)
		}
		return "It is landing.", time.Time{}
	}
	switch e.State {
	case NotReady:
		var until time.Time
		if q.NotReadyTimeoutHours > 0 {
			until = e.SubmittedAt.Add(hours(q.NotReadyTimeoutHours))
		}
		return d.missing(e), until
	case Pending:
		return d.pendingFor(e, g)
	case Testing:
		r := d.s.run(g)
		if r == nil {
			return "Its tests are starting.", time.Time{}
		}
		text := d.notTested(r) + d.hedgedText(g)
		if until := r.judge(d.now, d.s.TestChecks).until; !until.IsZero() {
			return text, until
		}
		return text, r.Deadline
	case PendingFailure:
		return "Its tests failed. Whether that is its own fault is decided when everything ahead of it has landed or left." + d.hedgedText(g), time.Time{}
	default: // passed
		switch {
		case !q.State.Lands() || q.Target.Missing:
			return d.cannotLand(), time.Time{}
		case g != nil && len(d.ahead(g)) > 0:
			return "It passed and lands as soon as everything ahead of it has landed or left.", time.Time{}
		default:
			return "It passed and lands next.", time.Time{}
		}
	}
}

// hedgedText says without whom a group is tested besides.
func (d *decision) hedgedText(g *Group) string {
	var numbers []int64
	for _, r := range d.hedgesOf(g) {
		if a := d.inLine(r.Hedge); a != nil && r.State != Interrupted {
			for _, e := range d.s.members(a) {
				numbers = append(numbers, e.Number)
			}
		}
	}
	slices.Sort(numbers)
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = fmt.Sprintf("#%d", n)
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" It is also tested without %s, in case that fails.", names[0])
	default:
		return fmt.Sprintf(" It is also tested without each of %s, in case that fails.", list(names))
	}
}

func (d *decision) pendingFor(e *Entry, g *Group) (string, time.Time) {
	q := &d.s.Queue
	switch {
	case q.Target.Missing:
		return d.noTarget() + " and testing begins.", time.Time{}
	case e.ConflictsWith != "":
		if other := d.s.Entries[e.ConflictsWith]; other != nil && other.Active() {
			return e.Message, time.Time{}
		}
	case g != nil && g.Run != "":
		return "Its test branch is being built.", time.Time{}
	case g != nil && d.now.Before(g.NotBefore):
		return strings.TrimSpace("Its test branch could not be built yet; it is tried again. " + e.Message), g.NotBefore
	}
	if !q.State.Retests() {
		return d.queueStands(), time.Time{}
	}
	if d.freeSlots() > 0 {
		return d.slotIsFree(e)
	}
	return "It waits for one of " + fmt.Sprint(q.Concurrency) + " testing " + plural(int(min(q.Concurrency, 2)), "slot") + ".", time.Time{}
}

// slotIsFree says what a pending entry waits for although a slot is free.
func (d *decision) slotIsFree(e *Entry) (string, time.Time) {
	if full := e.AdmittedAt.Add(minutes(d.s.Queue.BatchingMaxWaitTimeMinutes)); d.batched(e) && d.now.Before(full) {
		return fmt.Sprintf("It waits for its batch to fill, or for %d minutes.", d.s.Queue.BatchingMaxWaitTimeMinutes), full
	}
	if d.s.Queue.Target.Doubted {
		return fmt.Sprintf("Somebody moved %s: its head is being read.", d.s.Queue.Branch), time.Time{}
	}
	return "It starts as soon as the test branch ahead of it is built.", time.Time{}
}

// position counts the entries before this one in queue order. For an entry
// whose place the store has counted, that count is used.
func (d *decision) position(e *Entry) int64 {
	var place int64
	for _, g := range d.line() {
		for _, id := range g.Members {
			place++
			if id == e.ID {
				return place
			}
		}
	}
	if e.State != Pending {
		return 0
	}
	if counted, ok := d.s.FreeAhead[e.ID]; ok {
		return place + counted + 1
	}
	for _, other := range d.sorted((*Entry).Free) {
		place++
		if other.ID == e.ID {
			return place
		}
	}
	return 0
}

func list(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	text := names[0]
	for _, n := range names[1 : len(names)-1] {
		text += ", " + n
	}
	return text + " and " + names[len(names)-1]
}
