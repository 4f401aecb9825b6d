package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"signalbox/queue"

	"pgregory.net/rapid"
)

// TestPeopleAndFaults lets people do whatever they like to a queue with any
// settings, and holds every invariant after every decision. At the end all
// calms down, and every submission must have ended.
func TestPeopleAndFaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := NewWorld(anySettings(t))
		w.Auto = rapid.Bool().Draw(t, "ci by itself")
		if rapid.Bool().Draw(t, "quarantine") {
			w.state.TestChecks = []string{"ci"}
		}
		if rapid.Bool().Draw(t, "faults") {
			w.Faults = anyFaults(t)
			w.Faults.Jump = rapid.SampledFrom([]time.Duration{5 * time.Second, farOff}).Draw(t, "clock jumps by")
		}
		// Whose time is up because the clock jumped by half an hour is not innocent.
		c := Checker{Deterministic: w.Faults == nil || w.Faults.Jump != farOff}
		c.Watch(w)
		p := &people{w: w}
		t.Repeat(p.actions())
		p.calm(t)
	})
}

// TestResultsOfFailedChecks is about failed checks that results of their tests
// may excuse: little else happens, so that much of that does.
func TestResultsOfFailedChecks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings(t)
		settings.Mode = queue.Single
		w := NewWorld(settings)
		w.state.TestChecks = []string{"ci"}
		p := &people{w: w}
		p.doLittle(t, "upload")
	})
}

// TestWhoIsExpectedToFail is about adaptive queues in which what mallory opens has
// failed half the time, and so is tested on probation while others come and go.
func TestWhoIsExpectedToFail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings(t)
		settings.Speculation = queue.AdaptiveSpeculation
		w := NewWorld(settings)
		for i := range 20 {
			w.state.Recent = append(w.state.Recent, queue.Ended{PR: int64(1000 + i), Author: int64(len("mallory")), Failed: i%2 == 0})
		}
		p := &people{w: w, authors: []string{"alice", "mallory"}}
		p.doLittle(t, "submit", "targets")
	})
}

// TestLanesAndLateMerges is about lanes in which the host merges, and in which half of
// the calls to merge hang and are carried out up to two hours later. Everything passes
// or fails soon, so that much lands.
func TestLanesAndLateMerges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings(t)
		settings.Mode, settings.ChosenLandingMode = queue.Parallel, queue.LandHost
		settings.Concurrency = rapid.Int64Range(2, 6).Draw(t, "slots")
		w := NewWorld(settings)
		w.Auto = true
		faults := anyFaults(t)
		w.Faults = &Faults{Jump: 5 * time.Second, Draw: func(label string, n int) int {
			switch {
			case label == "merge call" && rapid.Bool().Draw(t, "hangs"):
				return n - 1 - rapid.IntRange(0, 2).Draw(t, "and then")
			case label == "merge call" || label != "held back for" && rapid.IntRange(0, 3).Draw(t, "well") > 0:
				return 0
			}
			return faults.Draw(label, n)
		}}
		p := &people{w: w}
		c := Checker{Deterministic: true}
		c.Watch(w)
		all := p.actions()
		t.Repeat(map[string]func(*rapid.T){
			"": all[""], "time": all["time"], "cancel": all["cancel"], "submit": all["submit"], "push": all["push"],
			"another": func(t *rapid.T) {
				p.open++
				p.must(t, w.Open(p.open, "alice", p.change(t, p.open)))
				p.must(t, w.Targets(p.open, rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}}).Draw(t, "targets")))
				p.must(t, w.Submit(p.open, Wish{}))
			},
			"and another": func(t *rapid.T) {
				p.open++
				p.must(t, w.Open(p.open, "alice", files{fmt.Sprintf("f%d", p.open): "1"}))
				p.must(t, w.Targets(p.open, []string{"a"}))
				p.must(t, w.Submit(p.open, Wish{}))
			},
		})
		p.calm(t)
	})
}

// TestLanesThatTouch is about adaptive queues in lanes of which many overlap two, so that
// much is tested on top of only a part of what that was tested on. Some changes pass
// only with others: those that have a key fail until the gate is open, and one that
// fails is to blame only for what it does to all that is there.
func TestLanesThatTouch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings(t)
		settings.Mode, settings.Speculation = queue.Parallel, queue.AdaptiveSpeculation
		settings.Concurrency = rapid.Int64Range(3, 8).Draw(t, "slots")
		w := NewWorld(settings)
		w.PushTarget(files{gate: "key"})
		p := &people{w: w, authors: []string{"alice", "mallory"}}
		all := p.actions()
		touch := func(t *rapid.T) {
			p.open++
			change := p.change(t, p.open)
			switch rapid.IntRange(0, 5).Draw(t, "gate") {
			case 0:
				change["key"] = "1"
			case 1:
				change[gate] = "nothing"
			}
			p.must(t, w.Open(p.open, p.author(t), change))
			p.must(t, w.Targets(p.open, rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"b"}, {"b", "c"}, {"c"}, {"c", "d"}}).Draw(t, "targets")))
			p.must(t, w.Submit(p.open, anyWish(t)))
		}
		p.do(t, map[string]func(*rapid.T){
			"": all[""], "report": all["report"], "report on": all["report"], "time": all["time"], "cancel": all["cancel"],
			"restart": all["restart"], "push": all["push"], "urgent": all["submit"], "touch": touch, "touch too": touch,
			"hedge": p.hedge, "hedge too": p.hedge,
		})
	})
}

// gate makes a tree fail that has the file which it names.
const gate = ".ci-sim/ci/gate"

// doLittle lets people open pull requests, CI report, and time pass, and besides
// only what is named, so that much of that happens.
func (p *people) doLittle(t *rapid.T, besides ...string) {
	all := p.actions()
	some := map[string]func(*rapid.T){"report on": all["report"]}
	for _, name := range append([]string{"", "open", "report", "time", "cancel"}, besides...) {
		some[name] = all[name]
	}
	p.do(t, some)
}

// do has people do these things in any order, perhaps beside faults, and then waits
// until all is calm. Every decision is checked.
func (p *people) do(t *rapid.T, some map[string]func(*rapid.T)) {
	if rapid.Bool().Draw(t, "faults") {
		p.w.Faults = anyFaults(t)
		p.w.Faults.Jump = 5 * time.Second
	}
	c := Checker{Deterministic: true}
	c.Watch(p.w)
	t.Repeat(some)
	p.calm(t)
}

// farOff is how wrong a clock can be that nobody has set right.
const farOff = 30 * time.Minute

func anyFaults(t *rapid.T) *Faults {
	return &Faults{Draw: func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }}
}

// people do things to a world.
type people struct {
	w       *World
	open    int64    // pull requests opened so far
	authors []string // who opens some; nil = alice alone
}

func (p *people) author(t *rapid.T) string {
	if p.authors == nil {
		return "alice"
	}
	return rapid.SampledFrom(p.authors).Draw(t, "author")
}

func anySettings(t *rapid.T) queue.Settings {
	s := queue.DefaultSettings()
	s.RequiredStatuses = []string{"ci"}
	s.MergeMethod = queue.MergeCommit
	s.ChosenLandingMode = rapid.SampledFrom([]queue.LandingMode{queue.LandExact, queue.LandHost}).Draw(t, "landing mode")
	s.TestingTimeoutMinutes = 60
	s.Concurrency = rapid.Int64Range(1, 4).Draw(t, "concurrency")
	s.BisectionConcurrency = rapid.Int64Range(1, 3).Draw(t, "bisection concurrency")
	s.Batch = rapid.Bool().Draw(t, "batch")
	s.BatchingMinSize = rapid.Int64Range(2, 5).Draw(t, "batch size")
	s.CanOptimisticallyMerge = rapid.Bool().Draw(t, "optimistic")
	s.Speculation = rapid.SampledFrom([]queue.Speculation{queue.FixedSpeculation, queue.AdaptiveSpeculation}).Draw(t, "speculation")
	s.PendingFailureDepth = rapid.Int64Range(0, 2).Draw(t, "depth")
	if rapid.Bool().Draw(t, "skip redundant") {
		s.OptimizationMode = queue.BisectionSkipRedundantTests
	}
	if rapid.Bool().Draw(t, "direct") {
		s.DirectMergeMode = queue.DirectMergeAlways
	}
	if rapid.Bool().Draw(t, "parallel") {
		s.Mode = queue.Parallel
	}
	return s
}

// actions are what people, the host and time can do.
func (p *people) actions() map[string]func(*rapid.T) {
	w := p.w
	return map[string]func(*rapid.T){
		"open": func(t *rapid.T) {
			change, wish := p.change(t, p.open+1), anyWish(t)
			p.open++
			p.must(t, w.Open(p.open, p.author(t), change))
			p.must(t, w.Submit(p.open, wish))
			p.targets(t, p.open)
		},
		"open on top": p.alive(func(t *rapid.T, n int64) error {
			p.open++
			p.must(t, w.OpenOn(p.open, n, "alice", p.change(t, p.open)))
			return w.SubmitStack(p.open, anyWish(t))
		}),
		"stack":   p.alive(func(t *rapid.T, n int64) error { return w.SubmitStack(n, anyWish(t)) }),
		"restack": p.alive(func(_ *rapid.T, n int64) error { return w.Restack(n) }),
		"delete branch": p.on(func(t *rapid.T, n int64) error {
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				return nil
			}
			return w.DeleteBranch(n)
		}),
		"submit":  p.on(func(t *rapid.T, n int64) error { return w.Submit(n, anyWish(t)) }),
		"cancel":  p.on(func(_ *rapid.T, n int64) error { w.Cancel(n, "bob"); return nil }),
		"restart": p.on(func(_ *rapid.T, n int64) error { w.Restart(n, "bob"); return nil }),
		"close":   p.alive(func(_ *rapid.T, n int64) error { return w.Close(n) }),
		"reopen": p.on(func(_ *rapid.T, n int64) error {
			if w.host.pulls[n].Merged || heads(w.host.ancestry(w.main()))[n] != "" {
				return nil // it has landed; whoever opens it again asks for it twice
			}
			return w.Reopen(n)
		}),
		"draft": p.alive(func(t *rapid.T, n int64) error { return w.Draft(n, rapid.Bool().Draw(t, "draft")) }),
		"block": p.alive(func(t *rapid.T, n int64) error { return w.Block(n, rapid.Bool().Draw(t, "blocked")) }),
		"push":  p.alive(func(t *rapid.T, n int64) error { return w.Push(n, p.change(t, n)) }),
		"retarget": p.alive(func(t *rapid.T, n int64) error {
			return w.Retarget(n, rapid.SampledFrom([]string{"main", "main", "next"}).Draw(t, "base"))
		}),
		"green": p.alive(func(t *rapid.T, n int64) error {
			if w.Judge(w.host.pulls[n].Head, "ci") != "success" {
				return nil
			}
			return w.Green(n)
		}),
		"targets": p.alive(func(t *rapid.T, n int64) error { p.targets(t, n); return nil }),
		"merge by hand": p.alive(func(t *rapid.T, n int64) error {
			pull := w.host.pulls[n]
			if w.gone() || heads(w.host.history("main"))[n] != "" {
				return nil
			}
			after, merges := w.host.land(n, pull.Head, w.host.branches["main"])
			if pull.Base != "main" {
				return nil
			}
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 || !merges || w.Judge(after, "ci") != "success" {
				return nil // who breaks main by hand breaks the promise, not the queue
			}
			return w.MergeByHand(n)
		}),
		"refuse": p.alive(func(t *rapid.T, n int64) error {
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				return nil
			}
			return w.Refuse(n, "The host says no.")
		}),
		"push main": func(t *rapid.T) {
			w.PushTarget(files{fmt.Sprintf("m%d", rapid.IntRange(0, 3).Draw(t, "file")): rapid.SampledFrom([]string{"1", "2"}).Draw(t, "content")})
		},
		"refuse somebody": p.alive(func(t *rapid.T, n int64) error {
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				return nil
			}
			w.host.unnamed[n] = true
			return w.Refuse(n, "The host says no.")
		}),
		"allow": p.alive(func(_ *rapid.T, n int64) error { delete(w.host.refused, n); return nil }),
		"spoil": p.on(func(t *rapid.T, n int64) error {
			return w.Spoil(n, rapid.Bool().Draw(t, "delete"))
		}),
		"delete main": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
				w.DeleteTarget()
				w.after(20*time.Minute, w.RestoreTarget) // later it is gone for good, and what landed before is not known
			}
		},
		"restore main": p.restore,
		"report":       p.report,
		"upload":       p.upload,
		"set":          p.set,
		"time": func(t *rapid.T) {
			p.must(t, w.Advance(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds"))*time.Second))
		},
		"": func(t *rapid.T) { p.must(t, w.Settle()) },
	}
}

func (p *people) restore(*rapid.T) { p.w.RestoreTarget() }

func (p *people) must(t *rapid.T, err error) {
	if err != nil {
		for _, m := range p.w.Moves {
			t.Logf("%s #%d.%d %s → %s (%s) %s", m.At.Format(time.TimeOnly), m.PR, m.Submission, m.From, m.To, m.Reason, m.Message)
		}
		t.Fatal(err)
	}
}

// on does something to any pull request, a second after what came before.
func (p *people) on(do func(t *rapid.T, n int64) error) func(*rapid.T) {
	return func(t *rapid.T) {
		if p.open == 0 {
			return
		}
		p.must(t, p.w.Advance(time.Second))
		p.must(t, do(t, rapid.Int64Range(1, p.open).Draw(t, "pr")))
	}
}

// alive does something to a pull request that is open.
func (p *people) alive(do func(t *rapid.T, n int64) error) func(*rapid.T) {
	return p.on(func(t *rapid.T, n int64) error {
		if !p.w.host.pulls[n].Open {
			return nil
		}
		return do(t, n)
	})
}

// change is a small change: mostly a file of its own, sometimes a shared one,
// sometimes a rule that makes trees fail.
func (p *people) change(t *rapid.T, n int64) map[string]string {
	own := fmt.Sprintf("f%d", n)
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return files{own: "1", ".ci-sim/ci/r" + own: ""}
	case 1:
		other := fmt.Sprintf("f%d", rapid.Int64Range(1, max(n, 2)).Draw(t, "with"))
		return files{own: "1", ".ci-sim/ci/r" + own: own + "\n" + other}
	case 2:
		return files{"shared": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "content")}
	default:
		return files{own: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "content")}
	}
}

func (p *people) targets(t *rapid.T, n int64) {
	if names := rapid.SampledFrom([][]string{nil, {}, {"a"}, {"b"}, {"a", "b"}, {"c"}, {"ALL"}}).Draw(t, "targets"); names != nil {
		p.must(t, p.w.Targets(n, names))
	}
}

func anyWish(t *rapid.T) Wish {
	var w Wish
	if rapid.IntRange(0, 3).Draw(t, "with priority") == 0 {
		value := rapid.SampledFrom([]int64{queue.Urgent, queue.High, queue.Low}).Draw(t, "priority")
		w.Priority = &value
	}
	w.NoBatch = rapid.IntRange(0, 4).Draw(t, "no batch") == 0
	return w
}

// report has CI say something about a live run: what the rule says, or that
// somebody cancelled it.
func (p *people) report(t *rapid.T) {
	if p.open == 0 || p.w.Auto {
		return
	}
	r := p.w.RunOf(rapid.Int64Range(1, p.open).Draw(t, "pr"))
	if r == nil || r.State != queue.RunTesting {
		return
	}
	result := p.w.Judge(r.Commit, "ci")
	if p.w.state.TestChecks != nil && rapid.Bool().Draw(t, "with results") {
		p.fail(t, r.Commit, result == "success")
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "cancelled") == 0 && p.w.state.Groups[r.Group].Interrupted == 0 {
		result = "cancelled"
	}
	p.w.Report(r.Commit, "ci", result)
}

// hedge has CI report on any run that tests a pull request without another.
func (p *people) hedge(t *rapid.T) {
	var live []*queue.Run
	for _, id := range slices.Sorted(maps.Keys(p.w.state.Runs)) {
		if r := p.w.state.Runs[id]; r.Hedge != "" && r.State == queue.RunTesting {
			live = append(live, r)
		}
	}
	if len(live) == 0 || p.w.Auto {
		return
	}
	r := rapid.SampledFrom(live).Draw(t, "hedge")
	result := p.w.Judge(r.Commit, "ci")
	if rapid.IntRange(0, 9).Draw(t, "cancelled") == 0 {
		result = "cancelled"
	}
	p.w.Report(r.Commit, "ci", result)
}

// fail has CI fail on a commit with results of its tests. On a good tree it is a
// flake: only a quarantined test failed, and the results that say so come, in
// one part or two, before the check or soon after. On a bad one they block, or
// are incomplete, or never come.
func (p *people) fail(t *rapid.T, commit string, good bool) {
	w := p.w
	attempt := int64(len(w.host.reports[commit]) + 1)
	f := func(tests ...queue.FailingTest) queue.TestResults {
		return queue.TestResults{Commit: commit, Check: "ci", Job: "job", Attempt: attempt, Complete: true, Failing: tests}
	}
	flake := queue.FailingTest{ID: "1", Name: "TestFlaky", Quarantined: true, Standing: queue.KnownFlaky}
	uploads := []queue.TestResults{f(flake)}
	if rapid.Bool().Draw(t, "in two parts") {
		uploads = append(uploads, f())
	}
	if !good {
		bad := []queue.TestResults{f(queue.FailingTest{ID: "2", Name: "TestNew", Standing: queue.NewlyFailing}), f(flake), f(flake), f()}
		bad[1].Complete, bad[2].Check = false, ""
		uploads = bad[rapid.IntRange(0, 3).Draw(t, "why nothing is excused"):][:1]
	}
	for _, u := range uploads {
		if late := rapid.IntRange(0, 100).Draw(t, "late by"); late > 50 {
			w.after(time.Duration(late)*time.Second, func() { w.Upload(u) })
		} else {
			w.Upload(u)
		}
	}
	w.Report(commit, "ci", "failure")
}

// upload brings more results of a run that quarantine has passed: they may say
// that another test failed, which nothing excuses.
func (p *people) upload(t *rapid.T) {
	if p.open == 0 {
		return
	}
	r := p.w.RunOf(rapid.Int64Range(1, p.open).Draw(t, "pr"))
	if r == nil || r.State != queue.RunPassed || len(r.Results) == 0 {
		return
	}
	f := r.Results[0]
	f.Upload, f.Failed, f.Blocking = 0, 0, 0
	f.Failing = []queue.FailingTest{{ID: "3", Name: "TestLate", Quarantined: rapid.Bool().Draw(t, "quarantined"), Standing: queue.KnownFlaky}}
	p.w.Upload(f)
}

func (p *people) set(t *rapid.T) {
	var c queue.Change
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0:
		s := rapid.SampledFrom([]queue.State{queue.Running, queue.Paused, queue.Draining}).Draw(t, "state")
		c.State = &s
	case 1:
		n := rapid.Int64Range(1, 4).Draw(t, "concurrency")
		c.Concurrency = &n
	case 2:
		b := rapid.Bool().Draw(t, "batch")
		c.Batch = &b
	case 3:
		b := rapid.Bool().Draw(t, "optimistic")
		c.CanOptimisticallyMerge = &b
	case 4:
		m := rapid.SampledFrom([]queue.Mode{queue.Single, queue.Parallel}).Draw(t, "mode")
		c.Mode = &m
	case 5:
		m := rapid.SampledFrom([]queue.LandingMode{queue.LandExact, queue.LandHost}).Draw(t, "landing mode")
		c.LandingMode = &m
	case 6:
		m := rapid.SampledFrom([]queue.MergeMethod{queue.MergeCommit, queue.Squash}).Draw(t, "method")
		c.MergeMethod = &m
	}
	p.w.Set(c)
}

// calm lets everything end: the queue runs, CI judges by itself, nobody
// interferes, and whoever cannot become ready is closed.
func (p *people) calm(t *rapid.T) {
	w := p.w
	simulated.Add(p.open)
	if w.Faults != nil {
		w.Faults.Quiet = true
	}
	p.restore(t)
	running := queue.Running
	w.Set(queue.Change{State: &running})
	w.Auto = true
	for n := int64(1); n <= p.open; n++ {
		pr := w.host.pulls[n]
		alone := w.Entry(n) == nil || !w.Entry(n).Stacked()
		if pr.Open && (pr.Draft || w.host.blocked[n] || alone && (pr.Base != "main" && w.host.beneath(n) == nil || w.newest[pr.Head] == 0)) {
			p.must(t, w.Close(n))
		}
	}
	for _, r := range w.state.Runs {
		if r.State == queue.RunTesting {
			w.Report(r.Commit, "ci", w.Judge(r.Commit, "ci"))
		}
	}
	for range 30 {
		p.must(t, w.Advance(20*time.Minute))
		if w.state.Queue.State == queue.Paused { // something landed that was not tested; somebody has looked
			w.Set(queue.Change{State: &running})
		}
		for n := int64(1); n <= p.open; n++ { // a conflict that arose meanwhile
			if e := w.Entry(n); e != nil && e.State == queue.NotReady && e.Onto() != "main" && w.host.pulls[n].Open {
				p.must(t, w.Close(n)) // what it stands on has gone
			} else if e != nil && e.State == queue.NotReady && e.Mergeability == queue.NotMergeable && w.host.pulls[n].Open {
				p.must(t, w.Close(n))
			}
		}
	}
	p.must(t, Ended(w))
	p.must(t, Proven(w))
}
