package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

var methods = []queue.MergeMethod{queue.MergeCommit, queue.Squash, queue.Rebase}

// What is tested is what lands, by every method and either way; doing it
// again changes nothing and reports the same.
func TestTestedStepsLandOnceHoweverOftenAsked(t *testing.T) {
	for _, method := range methods {
		for _, mode := range []queue.LandingMode{queue.LandExact, queue.LandHost} {
			t.Run(fmt.Sprint(method, " ", mode), func(t *testing.T) {
				w := newWorld(t)
				a, b := w.open("a.txt", "a\n"), w.open("b.txt", "b\n", "c/d.txt", "d\n")
				work := w.tested(method, mode, a, b)
				end, seen := w.land(work)
				if end.Trouble != "" || len(end.Landed) != 2 || len(seen) != 0 {
					t.Fatalf("%+v %+v", end, seen)
				}
				log := w.log()
				if len(log) != 3 || log[0].SHA != end.Commit || log[0].Tree != end.Tree {
					t.Fatalf("main is %+v, ended %+v", log, end)
				}
				for i, s := range work.Steps {
					l := end.Landed[i]
					if l.Entry != s.Entry || l.Differs != "" || l.Tree != s.Tree || l.Commit != log[1-i].SHA || log[1-i].Tree != s.Tree {
						t.Errorf("step %d: %+v, tested %+v", i, l, s.Step)
					}
					if mode == queue.LandExact && l.Commit != s.Commit {
						t.Errorf("step %d landed as %s, tested was %s", i, l.Commit, s.Commit)
					}
				}
				for _, s := range []queue.StepSpec{a, b} {
					pr, err := w.c.PullRequest(w.ctx, w.repo, s.PR)
					if err != nil || pr.Open || pr.Merged != (mode == queue.LandHost || method == queue.MergeCommit) {
						t.Errorf("%+v %v", pr, err)
					}
				}
				w.restart()
				again, seen := w.land(work)
				again.At = end.At
				if fmt.Sprint(again) != fmt.Sprint(end) || len(seen) != 0 || len(w.log()) != 3 {
					t.Errorf("again: %+v %+v, first %+v", again, seen, end)
				}
			})
		}
	}
}

// BC-05: the merge call fails after it merged, or without merging.
func TestAMergeCallWithoutAnAnswerIsReadBack(t *testing.T) {
	for _, f := range []githubsim.Fault{
		{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "failAfter", Status: 500},
		{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "fail", Status: 502},
		{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "dropAfter"},
		{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "drop"},
	} {
		t.Run(f.Action, func(t *testing.T) {
			w := newWorld(t)
			work := w.tested(queue.Squash, queue.LandHost, w.open("a.txt", "a\n"), w.open("b.txt", "b\n"))
			w.must(w.Fail(f))
			end, _ := w.land(work)
			if end.Trouble != "" || len(end.Landed) != 2 || len(w.log()) != 3 {
				t.Errorf("%+v", end)
			}
			if w.calls["PUT /repos/:/:/pulls/:/merge"] != map[bool]int{true: 2, false: 3}[strings.HasSuffix(f.Action, "After")] {
				t.Errorf("calls: %v", w.calls)
			}
		})
	}
}

// Somebody pushes just before the host merges, so that what lands is not what
// was tested. Nothing follows on top of it: neither at once, nor when the answer
// is lost, nor when we die in between and begin again.
func TestNothingLandsOnTopOfWhatWasNotTested(t *testing.T) {
	const merge = "/repos/acme/app/pulls/*/merge"
	for name, c := range map[string]struct {
		fault *githubsim.Fault
		dies  bool
		lane  bool // others landed since it was tested
	}{
		"the host answers":       {},
		"the answer is an error": {fault: &githubsim.Fault{Method: "PUT", Path: merge, Action: "failAfter", Status: 502}},
		"the answer is lost":     {fault: &githubsim.Fault{Method: "PUT", Path: merge, Action: "dropAfter"}},
		"we die":                 {dies: true},
		"a lane":                 {lane: true},
		"we die in a lane":       {lane: true, dies: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			work := w.tested(queue.Squash, queue.LandHost, w.open("a.txt", "a\n"), w.open("b.txt", "b\n"), w.open("c.txt", "c\n"))
			work.Recompute = c.lane
			if c.fault != nil {
				w.must(w.Fail(*c.fault))
			}
			ctx, die := context.WithCancel(w.ctx)
			defer die()
			var once sync.Once
			w.cfg.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPut {
					return http.DefaultTransport.RoundTrip(r)
				}
				once.Do(func() {
					_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("x", "x"), Message: "x", Author: "alice"})
					w.must(err)
				})
				answer, err := http.DefaultTransport.RoundTrip(r)
				if c.dies {
					die()
				}
				return answer, err
			})}
			w.restart()
			end, _, err := w.c.Land(ctx, w.repo, work, w.turn)
			if c.dies {
				if err == nil {
					t.Errorf("it ended with %+v though its time was over", end)
				}
				w.restart()
				end, _ = w.land(work)
			} else {
				w.must(err)
			}
			if end.Trouble != queue.TroubleStale || len(end.Landed) != 1 || !strings.Contains(end.Landed[0].Differs, `they differ in "x"`) {
				t.Errorf("%+v", end)
			}
			if log := w.log(); len(log) != 3 { // the first commit, the push, and one pull request
				t.Errorf("main is %+v", log)
			}
		})
	}
}

// The host merges, or takes the push, and from then on nobody may look what came of
// it: the App was suspended at that moment, or the repository renamed. That is no
// refusal: what has landed is found once somebody may look again.
func TestWhoMayNotLookAfterwardsDoesNotKnow(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		for _, mode := range []queue.LandingMode{queue.LandExact, queue.LandHost} {
			t.Run(fmt.Sprint(mode, " ", status), func(t *testing.T) {
				w := newWorld(t)
				work := w.tested(queue.Squash, mode, w.open("a.txt", "a\n"))
				w.must(w.Fail(githubsim.Fault{Method: "POST", Path: "/acme/app.git/git-receive-pack", Action: "failAfter", Status: 502}))
				w.must(w.Fail(githubsim.Fault{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "failAfter", Status: 502}))
				w.cfg.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					done := len(w.log()) > 1
					answer, err := http.DefaultTransport.RoundTrip(r)
					if err == nil && done {
						answer.StatusCode = status
					}
					return answer, err
				})}
				w.restart()
				end, _, err := w.c.Land(w.ctx, w.repo, work, w.turn)
				if err == nil || gitprovider.KindOf(err) != gitprovider.Transient {
					t.Errorf("it ended with %+v, and %q error %v", end, gitprovider.KindOf(err), err)
				}
				w.cfg.HTTP = nil
				w.restart()
				if end, _ := w.land(work); end.Trouble != "" || len(end.Landed) != 1 || len(w.log()) != 2 {
					t.Errorf("%+v", end)
				}
			})
		}
	}
}

// transport is a function that makes calls.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip makes a call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Whoever tells people how a pull request stands may be at it while it lands. A
// check of ours that a rule requires is set, and stays as it is, in the turn on
// that pull request, and so is said that it has landed.
func TestALandingTellsPeopleInTurn(t *testing.T) {
	for _, tt := range []struct {
		mode queue.LandingMode
		want []int64
	}{
		{queue.LandExact, []int64{2, 1, 2}}, // the check on the last commit, then both are closed
		{queue.LandHost, []int64{1, 2}},     // the check on each head
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = []string{"test", "Signalbox (main)"} })
			end, _ := w.land(w.tested(queue.Squash, tt.mode, w.open("a.txt", "a\n"), w.open("b.txt", "b\n")))
			if end.Trouble != "" || len(end.Landed) != 2 {
				t.Fatalf("%+v", end)
			}
			if !slices.Equal(w.turns, tt.want) {
				t.Errorf("it had the turns %v, want %v", w.turns, tt.want)
			}
			if w.calls["POST /graphql mutation"] == 0 {
				t.Error("our check was not set")
			}
		})
	}
}

func TestAPushWithoutAnAnswerIsReadBack(t *testing.T) {
	for _, f := range []githubsim.Fault{
		{Method: "POST", Path: "/acme/app.git/git-receive-pack", Action: "failAfter", Status: 500},
		{Method: "POST", Path: "/acme/app.git/git-receive-pack", Action: "fail", Status: 502},
	} {
		t.Run(f.Action, func(t *testing.T) {
			w := newWorld(t)
			work := w.tested(queue.MergeCommit, queue.LandExact, w.open("a.txt", "a\n"))
			w.must(w.Fail(f))
			end, _, err := w.c.Land(w.ctx, w.repo, work, w.turn)
			if f.Action == "fail" {
				if gitprovider.KindOf(err) != gitprovider.Transient || err == nil {
					t.Fatalf("%+v %v", end, err)
				}
				end, _, err = w.c.Land(w.ctx, w.repo, work, w.turn)
			}
			if err != nil || end.Trouble != "" || len(end.Landed) != 1 || len(w.log()) != 2 {
				t.Errorf("%+v %v", end, err)
			}
		})
	}
}

func TestWhatIsNotAsStatedStopsALanding(t *testing.T) {
	for _, mode := range []queue.LandingMode{queue.LandExact, queue.LandHost} {
		for name, change := range map[string]func(w *world, s queue.StepSpec){
			"pushed": func(w *world, s queue.StepSpec) {
				pr, err := w.c.PullRequest(w.ctx, w.repo, s.PR)
				w.must(err)
				_, err = w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: pr.HeadRef, Files: files("more.txt", "m\n"), Message: "more", Author: "alice"})
				w.must(err)
			},
			"closed": func(w *world, s queue.StepSpec) { w.must(w.ClosePull("acme/app", int(s.PR), "alice")) },
			"draft": func(w *world, s queue.StepSpec) {
				yes := true
				w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(s.PR), Author: "alice", Draft: &yes}))
			},
			"base": func(w *world, s queue.StepSpec) {
				_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "release", Files: files("r", "r"), Message: "r", Author: "alice"})
				w.must(err)
				base := "release"
				w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(s.PR), Author: "alice", Base: &base}))
			},
		} {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.open("a.txt", "a\n"), w.open("b.txt", "b\n")
				work := w.tested(queue.MergeCommit, mode, a, b)
				change(w, b)
				end, seen := w.land(work)
				if end.Trouble != queue.TroubleStale || end.Entry != b.Entry || len(end.Landed) != 0 || len(w.log()) != 1 {
					t.Errorf("%+v", end)
				}
				if len(seen) != 1 || seen[0].Number != b.PR || !seen[0].Read {
					t.Errorf("seen %+v", seen)
				}
			})
		}
	}
}

func TestATargetThatMovedLosesTheSwap(t *testing.T) {
	for _, mode := range []queue.LandingMode{queue.LandExact, queue.LandHost} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t)
			work := w.tested(queue.Squash, mode, w.open("a.txt", "a\n"))
			hand, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("hand.txt", "h\n"), Message: "by hand", Author: "bob"})
			w.must(err)
			end, _ := w.land(work)
			if end.Trouble != queue.TroubleStale || len(end.Landed) != 0 || end.Commit != hand || w.log()[0].SHA != hand {
				t.Errorf("%+v", end)
			}
		})
	}
	t.Run("between the read and the push", func(t *testing.T) {
		w := newWorld(t)
		work := w.tested(queue.MergeCommit, queue.LandExact, w.open("a.txt", "a\n"))
		l := &landing{c: w.c, repo: w.repo, work: work}
		l.k, _ = w.c.conn(w.repo)
		w.must(l.readTarget(w.ctx))
		for _, s := range work.Steps {
			pr, seen, err := w.c.pull(w.ctx, l.k, w.repo, s.PR)
			w.must(err)
			l.pulls, l.seen = append(l.pulls, pr), append(l.seen, seen)
		}
		_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("hand.txt", "h\n"), Message: "by hand", Author: "bob"})
		w.must(err)
		w.must(l.exact(w.ctx))
		if l.end.Trouble != queue.TroubleStale || len(l.end.Landed) != 0 || w.log()[0].Tree != l.end.Tree {
			t.Errorf("%+v", l.end)
		}
	})
}

// Without the target nobody can look what an earlier attempt has landed: that it
// is missing is told apart from every other reason to stop.
func TestATargetThatDoesNotExistIsToldAsMissing(t *testing.T) {
	w := newWorld(t)
	work := w.tested(queue.Squash, queue.LandHost, w.open("a.txt", "a\n"))
	there := work
	work.Branch = "gone"
	if end, _ := w.land(work); !end.Missing || end.Commit != "" || end.Trouble != queue.TroubleStale || len(end.Landed) != 0 {
		t.Errorf("%+v", end)
	}
	if end, _ := w.land(there); end.Missing || len(end.Landed) != 1 {
		t.Errorf("%+v", end)
	}
}

// The rest of a landing of which the host merged a part goes on where it stopped.
func TestAHalfLandingIsFinished(t *testing.T) {
	w := newWorld(t)
	work := w.tested(queue.Squash, queue.LandHost, w.open("a.txt", "a\n"), w.open("b.txt", "b\n"), w.open("c.txt", "c\n"))
	half := work
	half.Steps = work.Steps[:1]
	w.land(half)
	w.restart()
	end, _ := w.land(work)
	if end.Trouble != "" || len(end.Landed) != 3 || len(w.log()) != 4 || end.Landed[2].Tree != work.Steps[2].Tree {
		t.Errorf("%+v", end)
	}
}

// BC-07: the host refuses one in the middle; what landed before it is told.
func TestARefusalInTheMiddleTellsWhatLanded(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.open("a.txt", "a\n"), w.open("b.txt", "b\n"), w.open("c.txt", "c\n")
	work := w.tested(queue.Squash, queue.LandHost, a, b, c)
	w.must(w.Fail(githubsim.Fault{Method: "PUT", Path: fmt.Sprintf("/repos/acme/app/pulls/%d/merge", b.PR), Action: "fail", Status: 422, Times: 9}))
	end, _ := w.land(work)
	if end.Trouble != queue.TroubleDenied || end.Entry != b.Entry || len(end.Landed) != 1 || end.Landed[0].Entry != a.Entry || len(w.log()) != 2 {
		t.Errorf("%+v", end)
	}
}

func TestARefusedPushIsToldInFull(t *testing.T) {
	no := false
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks, n.Bypass = []string{"other"}, &no })
	a := w.open("a.txt", "a\n")
	run := oneRun("r1", queue.MergeCommit, 1, a)
	b := w.build(queue.BuildRuns{Runs: []queue.BuildRun{run}, RequiredStatuses: []string{"test"}})["r1"].(queue.RunBuilt)
	a.Step = b.Chain[0]
	end, _ := w.land(queue.Land{Branch: "main", Mode: queue.LandExact, Method: queue.MergeCommit, Expect: b.Base.Commit, Steps: []queue.StepSpec{a}})
	if end.Trouble != queue.TroubleDenied || end.Entry != a.Entry || !strings.Contains(end.Message, "GH013") || !strings.Contains(end.Message, `"other"`) {
		t.Errorf("%+v", end)
	}
}

// BC-20: holding a bypass never means skipping a rule.
func TestTheHostsRulesHoldThoughWeAreExempt(t *testing.T) {
	t.Run("a check of theirs failed on the tested commit", func(t *testing.T) {
		w := newWorld(t)
		work := w.tested(queue.MergeCommit, queue.LandExact, w.open("a.txt", "a\n"))
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: work.Steps[0].Commit, Name: "test", Conclusion: "failure"}))
		end, _ := w.land(work)
		if end.Trouble != queue.TroubleDenied || end.Entry != work.Steps[0].Entry || !strings.Contains(end.Message, `"test" has failed`) || len(w.log()) != 1 {
			t.Fatalf("%+v", end)
		}
		work.Forced = []queue.EntryID{work.Steps[0].Entry}
		if end, _ := w.land(work); end.Trouble != "" || len(end.Landed) != 1 {
			t.Errorf("forced: %+v", end)
		}
	})
	t.Run("an approval is missing", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Bypass: "exempt",
			Rules: []githubsim.Rule{{Type: "pull_request", Parameters: map[string]any{"required_approving_review_count": 1}}}})
		w.must(err)
		work := w.tested(queue.MergeCommit, queue.LandExact, w.open("a.txt", "a\n"))
		end, _ := w.land(work)
		if end.Trouble != queue.TroubleDenied || !strings.Contains(end.Message, "0 of 1 required approvals") {
			t.Fatalf("%+v", end)
		}
		w.must(w.SetPermission("acme/app", "carol", "write"))
		w.must(w.Review("acme/app", int(work.Steps[0].PR), "carol", "approved", ""))
		if end, _ := w.land(work); end.Trouble != "" || len(end.Landed) != 1 {
			t.Errorf("%+v", end)
		}
	})
}

// That a branch has no classic protection is learned with the rest of what a
// judgement or a landing depends on, and new protection counts at once. Whoever builds
// believes it for half a minute.
func TestABranchWithoutProtectionIsAskedAboutSeldom(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.cfg.Now = func() time.Time { return now }
	w.restart()
	asked := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.calls["GET /repos/:/:/branches/:/protection"]
	}
	a, b := w.open("a.txt", "a\n"), w.open("b.txt", "b\n")
	before := asked()
	w.ready(a.PR, "")
	w.ready(b.PR, "")
	if end, _ := w.land(w.tested(queue.MergeCommit, queue.LandExact, b)); end.Trouble != "" || len(end.Landed) != 1 {
		t.Fatalf("%+v", end)
	}
	if got := asked() - before; got != 0 {
		t.Errorf("asked %d times although there is none", got)
	}
	now = now.Add(unprotectedFor)
	for i := range 2 {
		w.built(oneRun(fmt.Sprint("r", i), queue.Squash, 1, a))
	}
	if got := asked() - before; got != 1 {
		t.Errorf("asked %d times for two builds that nothing was read before", got)
	}
	work := w.tested(queue.MergeCommit, queue.LandExact, a)
	w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Reviews: 1, AppMayPush: true}))
	w.ready(a.PR, "0 of 1 required approvals.")
	if end, _ := w.land(work); end.Trouble != queue.TroubleDenied || !strings.Contains(end.Message, "0 of 1 required approvals") || len(w.log()) != 2 {
		t.Errorf("landed past the protection: %+v", end)
	}
}

// A draft that the host could see as merged is closed before the push.
func TestDraftsAreClosedBeforeTheirHeadBecomesReachable(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n")
	run := oneRun("r1", queue.MergeCommit, 1, a)
	b := w.build(queue.BuildRuns{Runs: []queue.BuildRun{run}, DraftPRs: true})["r1"].(queue.RunBuilt)
	a.Step = b.Chain[0]
	end, _ := w.land(queue.Land{Branch: "main", Mode: queue.LandExact, Method: queue.MergeCommit, Expect: b.Base.Commit, Steps: []queue.StepSpec{a}, Drafts: []int64{b.DraftPR}})
	if end.Trouble != "" {
		t.Fatalf("%+v", end)
	}
	if draft, err := w.c.PullRequest(w.ctx, w.repo, b.DraftPR); err != nil || draft.Open || draft.Merged {
		t.Errorf("%+v %v", draft, err)
	}
	if pr, err := w.c.PullRequest(w.ctx, w.repo, a.PR); err != nil || !pr.Merged {
		t.Errorf("%+v %v", pr, err)
	}
}

// The tested commit no longer stands on the target, whose tree is the same:
// the steps are written again with equal trees.
func TestTestedChangesAreWrittenAgainOnOtherCommitsWithTheSameTrees(t *testing.T) {
	for _, method := range methods {
		w := &world{}
		t.Run(string(method), func(t *testing.T) {
			w = newWorld(t)
			a, b := w.open("a.txt", "a\n"), w.open("b.txt", "b\n")
			both := w.tested(method, queue.LandExact, a, b)
			one := both
			one.Mode, one.Steps = queue.LandHost, both.Steps[:1]
			first, _ := w.land(one) // the host's commit is another than ours
			rest := both
			rest.Expect, rest.Steps = first.Commit, both.Steps[1:]
			end, _ := w.land(rest)
			if end.Trouble != "" || len(end.Landed) != 1 || end.Landed[0].Tree != b.Tree && end.Landed[0].Tree != both.Steps[1].Tree {
				t.Fatalf("%+v", end)
			}
			w.restart()
			again, _ := w.land(rest)
			if again.Trouble != "" || len(again.Landed) != 1 || again.Landed[0] != end.Landed[0] || len(w.log()) != 3 {
				t.Errorf("again %+v, first %+v", again, end)
			}
		})
	}
}
