package github

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// Readiness where the host says "blocked" to everybody, because a rule lets
// nobody update the branch: what is missing is found by us, and said in words.

// ruled starts a world whose main nobody may update, with more rules.
func ruled(t *testing.T, rules ...githubsim.Rule) *world {
	t.Helper()
	w := newWorld(t)
	_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Bypass: "exempt", Rules: append([]githubsim.Rule{{Type: "update"}}, rules...)})
	w.must(err)
	w.must(w.SetPermission("acme/app", "carol", "write"))
	w.must(w.SetPermission("acme/app", "erin", "write"))
	return w
}

func reviewsRule(more ...any) githubsim.Rule {
	p := map[string]any{"required_approving_review_count": 0}
	for i := 0; i < len(more); i += 2 {
		p[more[i].(string)] = more[i+1]
	}
	return githubsim.Rule{Type: "pull_request", Parameters: p}
}

// readiness asks until the host has computed it, and returns "" for ready, else why not.
func (w *world) readiness(number int64) string {
	w.t.Helper()
	var m queue.MergeabilitySeen
	w.eventually("mergeability", func() bool {
		facts, err := w.c.Mergeability(w.ctx, w.repo, number)
		w.must(err)
		m = facts[1].(queue.MergeabilitySeen)
		return m.Value != queue.MergeabilityInProgress
	})
	if (m.Value == queue.Mergeable) != (m.Why == "") {
		w.t.Errorf("%+v", m)
	}
	return m.Why
}

func (w *world) ready(number int64, want string) {
	w.t.Helper()
	if got := w.readiness(number); got != want {
		w.t.Errorf("#%d: %q, want %q", number, got, want)
	}
}

func (w *world) review(s queue.StepSpec, who, state string) {
	w.t.Helper()
	w.must(w.Review("acme/app", int(s.PR), who, state, ""))
}

func TestApprovalsAreTheHostsDecision(t *testing.T) {
	w := ruled(t, reviewsRule("required_approving_review_count", 2))
	a := w.open("a.txt", "a\n")
	w.must(w.SetPermission("acme/app", "dave", "read"))
	w.ready(a.PR, "0 of 2 required approvals.")
	w.review(a, "dave", "approved") // who may not write has no say
	w.review(a, "carol", "approved")
	w.ready(a.PR, "1 of 2 required approvals.")
	w.review(a, "erin", "changes_requested")
	w.ready(a.PR, "@erin requested changes; 1 of 2 required approvals.")
	w.review(a, "erin", "dismissed")
	w.ready(a.PR, "1 of 2 required approvals.")
	w.review(a, "erin", "approved")
	w.review(a, "carol", "commented") // takes nothing back
	w.ready(a.PR, "")
}

func TestCodeOwnersMustApprove(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) {
		n.Files = files(".github/CODEOWNERS", "* @nobody-special\n/docs/ @carol # the docs\nfree.txt\n")
	})
	_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Rules: []githubsim.Rule{{Type: "update"}, reviewsRule("require_code_owner_review", true)}})
	w.must(err)
	for _, login := range []string{"carol", "erin"} {
		w.must(w.SetPermission("acme/app", login, "write"))
	}
	docs, free := w.open("docs/a.md", "a\n"), w.open("free.txt", "a\n")
	w.ready(docs.PR, "An approval by a code owner of the changed files is missing.")
	w.review(docs, "erin", "approved")
	w.ready(docs.PR, "An approval by a code owner of the changed files is missing.")
	w.review(docs, "carol", "approved")
	w.ready(docs.PR, "")
	w.ready(free.PR, "")
}

func TestTheNewestPushMustBeApprovedBySomebodyElse(t *testing.T) {
	w := ruled(t, reviewsRule("required_approving_review_count", 1, "require_last_push_approval", true))
	a := w.open("a.txt", "a\n")
	w.review(a, "carol", "approved")
	w.ready(a.PR, "")
	pr, err := w.c.PullRequest(w.ctx, w.repo, a.PR)
	w.must(err)
	_, err = w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: pr.HeadRef, Files: files("b.txt", "b\n"), Message: "m", Author: "carol"})
	w.must(err)
	w.ready(a.PR, "The newest push must be approved by somebody who did not push it.")
	w.review(a, "erin", "approved")
	w.ready(a.PR, "")
}

// Also more conversations than one page holds.
func TestOpenConversationsHoldItBackWhereARuleSaysSo(t *testing.T) {
	w := ruled(t, reviewsRule("required_review_thread_resolution", true))
	a := w.open("a.txt", "a\n")
	var ids []int64
	for i := range 102 {
		id, err := w.Converse("acme/app", int(a.PR), "carol", fmt.Sprint("why? ", i))
		w.must(err)
		ids = append(ids, id)
	}
	w.ready(a.PR, "102 conversations are not resolved.")
	for _, id := range ids[:101] {
		w.must(w.Resolve("acme/app", int(a.PR), id, "alice", true))
	}
	w.ready(a.PR, "1 conversation is not resolved.")
	w.must(w.Resolve("acme/app", int(a.PR), ids[101], "alice", true))
	w.ready(a.PR, "")
	w.must(w.Resolve("acme/app", int(a.PR), ids[0], "carol", false))
	w.ready(a.PR, "1 conversation is not resolved.")

	free := ruledSibling(w)
	if _, err := w.Converse("acme/free", int(free), "carol", "why?"); err != nil {
		t.Error(err)
	}
	w.repo.Name = "free"
	w.ready(free, "") // no rule, no matter
}

// ruledSibling opens a pull request in another repository, whose main nobody
// may update and that has no other rule.
func ruledSibling(w *world) int64 {
	w.t.Helper()
	w.must(w.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "acme", Name: "free"}))
	_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/free", Rules: []githubsim.Rule{{Type: "update"}}})
	w.must(err)
	p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/free", Title: "x", Author: "alice", Files: files("a", "b")})
	w.must(err)
	return int64(p.Number)
}

// Classic protection is read like a ruleset.
func TestClassicProtectionIsJudgedToo(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
	protect := func(p githubsim.Protect) {
		t.Helper()
		p.Repo = "acme/app"
		w.must(w.ProtectBranch(p))
	}
	for _, login := range []string{"carol", "erin"} {
		w.must(w.SetPermission("acme/app", login, "write"))
	}
	a := w.open("a.txt", "a\n")
	protect(githubsim.Protect{Reviews: 1, Conversations: true, Checks: []string{"ci"}})
	id, err := w.Converse("acme/app", int(a.PR), "carol", "why?")
	w.must(err)
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "ci", Conclusion: "pending"}))
	w.ready(a.PR, `0 of 1 required approvals; 1 conversation is not resolved; the required check "ci" has not ended on the pull request.`)
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "ci", Conclusion: "timed_out"}))
	w.must(w.Resolve("acme/app", int(a.PR), id, "carol", true))
	w.review(a, "carol", "approved")
	w.ready(a.PR, `The required check "ci" has failed on the pull request.`)
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "ci", Conclusion: "neutral"}))
	w.ready(a.PR, "")
	protect(githubsim.Protect{Locked: true, Signed: true})
	w.ready(a.PR, "Cannot be judged: signed commits; cannot be judged: the branch is locked.")
}

// A rule that this program does not know, or may not read, is never taken to
// be met where the host says "blocked".
func TestWhatCannotBeJudgedIsNamed(t *testing.T) {
	w := ruled(t, githubsim.Rule{Type: "a_rule_of_tomorrow"}, reviewsRule("required_reviewers", []any{map[string]any{"file_patterns": []any{"*"}, "minimum_approvals": 1, "reviewer": map[string]any{"id": 1, "type": "Team"}}}),
		githubsim.Rule{Type: "copilot_code_review"}, githubsim.Rule{Type: "merge_queue"})
	a := w.open("a.txt", "a\n")
	w.ready(a.PR, "Cannot be judged: the rule a_rule_of_tomorrow; cannot be judged: reviews by the teams that a rule names; "+
		"cannot be judged: the host's own merge queue is on for this branch.")
}

func TestRulesThatMayNotBeReadAreNamed(t *testing.T) {
	w := ruled(t)
	a := w.open("a.txt", "a\n")
	w.must(w.Fail(githubsim.Fault{Path: "/repos/acme/app/branches/main/protection", Action: "fail", Status: 403, Times: 1000},
		githubsim.Fault{Path: "/repos/acme/app/rules/branches/main", Action: "fail", Status: 403, Times: 1000}))
	const rulesets = "Cannot be judged: rulesets, which the App may not read; it needs the permission administration: read"
	w.ready(a.PR, rulesets+".") // that there is no protection everybody may know
	w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", AppMayPush: true}))
	w.ready(a.PR, rulesets+"; cannot be judged: branch protection, which the App may not read; it needs the permission administration: read.")
}

// The host's decision, and what is made of it where it has none.
func TestMissingReviewsAreNamedInWords(t *testing.T) {
	t.Parallel()
	two := rules{approvals: 2}
	for _, c := range []struct {
		rules rules
		said  reviewed
		want  string
	}{
		{rules{}, reviewed{}, ""},
		{rules{}, reviewed{against: []string{"@x"}}, ""},
		{two, reviewed{decision: "APPROVED"}, ""}, // the host counts, not we
		{two, reviewed{decision: "REVIEW_REQUIRED", approved: []string{"@x"}}, "1 of 2 required approvals"},
		{two, reviewed{decision: "REVIEW_REQUIRED", approved: []string{"@x", "@y"}}, "the host still wants an approving review"},
		{two, reviewed{decision: "CHANGES_REQUESTED", approved: []string{"@x", "@y"}}, "changes are requested"},
		{rules{}, reviewed{decision: "CHANGES_REQUESTED", against: []string{"@x", "a deleted user"}}, "@x and a deleted user requested changes"},
		{two, reviewed{approved: []string{"@x"}}, "1 of 2 required approvals"},
		{two, reviewed{approved: []string{"@x", "@y"}}, ""},
		{two, reviewed{approved: []string{"@x", "@y"}, against: []string{"@z"}}, "@z requested changes"},
		{rules{codeOwners: true}, reviewed{}, ""}, // no file of theirs
		{rules{lastPush: true, approvals: 1}, reviewed{approved: []string{"@x"}}, "cannot be judged: whether the newest push was approved by somebody else"},
		{rules{}, reviewed{decision: "NEW_WORD"}, `the host's review decision is "NEW_WORD", which is not known`},
		{rules{}, reviewed{open: 2}, ""},
		{rules{conversations: true}, reviewed{open: 2, decision: "APPROVED"}, "2 conversations are not resolved"},
	} {
		if got := strings.Join(c.rules.missingReviews(c.said), "; "); got != c.want {
			t.Errorf("%+v %+v: %q, want %q", c.rules, c.said, got, c.want)
		}
	}
}

// One query tells what was said about all pull requests that land together.
func TestReviewsOfALandingAreReadWithOneQuery(t *testing.T) {
	w := ruled(t, reviewsRule("required_approving_review_count", 1, "required_review_thread_resolution", true))
	a, b, c := w.open("a.txt", "a\n"), w.open("b.txt", "b\n"), w.open("c.txt", "c\n")
	work := w.tested(queue.MergeCommit, queue.LandExact, a, b, c)
	for _, s := range []queue.StepSpec{a, c} {
		w.review(s, "carol", "approved")
	}
	before := w.calls["POST /graphql"]
	end, _ := w.land(work)
	if end.Trouble != queue.TroubleDenied || end.Entry != b.Entry || end.Message != fmt.Sprintf("The rules of main do not allow pull request %d to land: 0 of 1 required approvals.", b.PR) {
		t.Errorf("%+v", end)
	}
	if n := w.calls["POST /graphql"] - before; n != 1 || w.calls["GET /repos/:/:/pulls/:/reviews"] != 0 {
		t.Errorf("%d queries: %v", n, w.calls)
	}
	work.Forced = []queue.EntryID{b.Entry}
	if end, _ := w.land(work); end.Trouble != "" || len(end.Landed) != 3 {
		t.Errorf("%+v", end)
	}
}

// An exemption from a rule about the commits is not used either.
func TestAMethodThatTheRulesForbidDoesNotLand(t *testing.T) {
	for want, rule := range map[string]githubsim.Rule{
		"they want a linear history, without merge commits":       {Type: "required_linear_history"},
		"they allow no other merge method than squash and rebase": reviewsRule("allowed_merge_methods", []any{"squash", "rebase"}),
	} {
		t.Run(rule.Type, func(t *testing.T) {
			w := ruled(t, rule)
			work := w.tested(queue.MergeCommit, queue.LandExact, w.open("a.txt", "a\n"))
			if end, _ := w.land(work); end.Trouble != queue.TroubleDenied || !strings.Contains(end.Message, want) || len(w.log()) != 1 {
				t.Errorf("%+v", end)
			}
			squash := w.tested(queue.Squash, queue.LandExact, w.open("b.txt", "b\n"))
			if end, _ := w.land(squash); end.Trouble != "" {
				t.Errorf("%+v", end)
			}
		})
	}
}

// A required check that one App alone may give is that App's: as a check run,
// and as a commit status, of which the host tells the maker by a picture.
func TestARequiredCheckOfOneAppIsThatApps(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
	rule := githubsim.Rule{Type: "required_status_checks", Parameters: map[string]any{"required_status_checks": []any{
		map[string]any{"context": "cover", "integration_id": float64(254)}, map[string]any{"context": "any"}}}}
	for _, in := range []githubsim.NewRuleset{{Org: "acme", Rules: []githubsim.Rule{rule}, Bypass: "exempt"}} {
		_, err := w.AddRuleset(in)
		w.must(err)
	}
	w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Checks: []string{"classic"}, Apps: map[string]int64{"classic": 77}, AppMayPush: true}))
	a := w.open("a.txt", "a\n")
	b := w.built(oneRun("r1", queue.Squash, 1, a))
	want := []queue.Required{{Name: "cover", AppID: 254}, {Name: "any"}, {Name: "classic", AppID: 77}}
	if fmt.Sprint(b.Required) != fmt.Sprint(want) || b.RequiredSource != queue.FromProtection {
		t.Fatalf("%+v", b)
	}
	commit := b.Chain[0].Commit
	run := queue.Run{Required: b.Required}
	verdict := func(want queue.Verdict, names string) {
		t.Helper()
		reports, err := w.c.Checks(w.ctx, w.repo, commit)
		w.must(err)
		run.Checks = map[string]queue.Report{}
		for _, r := range reports {
			run.Checks[r.Key()] = r
		}
		got, about := run.Verdict()
		if got != want || strings.Join(about, " ") != names {
			t.Errorf("%s %v, want %s %s", got, about, want, names)
		}
	}
	report := func(r githubsim.Report) {
		t.Helper()
		r.Repo, r.SHA = "acme/app", commit
		w.must(w.Report(w.ctx, r))
	}
	report(githubsim.Report{Name: "cover", Conclusion: "success", Status: true, Author: "mallory"})
	report(githubsim.Report{Name: "classic", Conclusion: "success", App: 254})
	report(githubsim.Report{Name: "any", Conclusion: "success", Status: true, Author: "mallory"})
	verdict(queue.VerdictWaiting, "cover classic")
	report(githubsim.Report{Name: "cover", Conclusion: "success", Status: true, App: 254})
	report(githubsim.Report{Name: "classic", Conclusion: "failure", App: 77})
	verdict(queue.VerdictFailed, "classic")
	report(githubsim.Report{Name: "classic", Conclusion: "success", App: 77})
	report(githubsim.Report{Name: "classic", Conclusion: "failure", App: 254})
	verdict(queue.VerdictPassed, "")
}

// More required checks, and more rules, than one page holds.
func TestRequiredChecksAreReadFromAllPages(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
	for i := range 101 {
		_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Bypass: "exempt", Rules: []githubsim.Rule{{Type: "required_status_checks",
			Parameters: map[string]any{"required_status_checks": []any{map[string]any{"context": fmt.Sprint("check ", i)}}}}}})
		w.must(err)
	}
	disabled, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Disabled: true, Rules: []githubsim.Rule{{Type: "required_status_checks",
		Parameters: map[string]any{"required_status_checks": []any{map[string]any{"context": "off"}}}}}})
	w.must(err)
	a := w.open("a.txt", "a\n")
	b := w.built(oneRun("r1", queue.Squash, 1, a))
	if len(b.Required) != 101 || b.Required[100].Name != "check 100" {
		t.Errorf("%d checks, and the disabled ruleset is %d: %v", len(b.Required), disabled, b.Required)
	}
	// The verdict over more check runs than one page holds.
	commit := b.Chain[0].Commit
	for i := range 101 {
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: commit, Name: fmt.Sprint("check ", i), Conclusion: "skipped"}))
	}
	reports, err := w.c.Checks(w.ctx, w.repo, commit)
	w.must(err)
	run := queue.Run{Required: b.Required, Checks: map[string]queue.Report{}}
	for _, r := range reports {
		run.Checks[r.Key()] = r
	}
	if got, about := run.Verdict(); got != queue.VerdictPassed {
		t.Errorf("%s %v", got, about)
	}
}

// BC-10: what counts at a pull request is what was said about its head.
func TestBC10StatusesOfAnOldHeadDoNotCount(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n")
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "test", Conclusion: "success"}))
	w.ready(a.PR, "")
	pr, err := w.c.PullRequest(w.ctx, w.repo, a.PR)
	w.must(err)
	sha, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: pr.HeadRef, Files: files("b.txt", "b\n"), Message: "m", Author: "alice"})
	w.must(err)
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: sha, Name: "test", Conclusion: "pending"}))
	w.ready(a.PR, `The required check "test" has not ended on the pull request.`)
}

// BC-50: of one name and App the newest counts, however they are listed.
func TestBC50TheNewestOfANameCounts(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n")
	for _, result := range []string{"success", "failure"} {
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "test", Conclusion: result}))
	}
	w.ready(a.PR, `The required check "test" has failed on the pull request.`)
	for _, result := range []string{"failure", "success"} {
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "test", Conclusion: result, Status: true}))
	}
	w.ready(a.PR, "")
}

// BC-53: the host's own rule for each conclusion; a word that nobody knows is
// not passed.
func TestBC53EveryConclusionOfARequiredCheck(t *testing.T) {
	w := newWorld(t)
	for conclusion, want := range map[string]string{
		"success": "", "skipped": "", "neutral": "",
		"failure": "failed", "timed_out": "failed", "action_required": "failed", "cancelled": "failed", "pending": "not ended",
	} {
		a := w.open(conclusion+".txt", "a\n")
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: "test", Conclusion: conclusion}))
		if got := w.readiness(a.PR); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", conclusion, got)
		}
	}
	// Words that the host says and does not describe, and those of tomorrow.
	completed := "completed"
	for conclusion, want := range map[string]queue.Verdict{
		"startup_failure": queue.VerdictFailed, "stale": queue.VerdictInterrupted, "": queue.VerdictWaiting, "a_word_of_tomorrow": queue.VerdictWaiting,
	} {
		if got := runReport(&github.CheckRun{Status: &completed, Conclusion: &conclusion}).Outcome(); got != want {
			t.Errorf("%q: %s, want %s", conclusion, got, want)
		}
	}
}

// BC-55: our own check is never waited for.
func TestBC55OurOwnRequiredCheckDoesNotHoldBack(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = []string{"test", "Signalbox (main)"} })
	a := w.open("a.txt", "a\n")
	w.must(w.check(a.PR, gitprovider.Status{Commit: a.Head, Name: "Signalbox (main)", Status: "in_progress"}))
	w.ready(a.PR, "")
	if b := w.built(oneRun("r1", queue.Squash, 1, a)); len(b.Required) != 1 || b.Required[0].Name != "test" {
		t.Errorf("%+v", b.Required)
	}
}

// BC-77: a state that did not exist when this was written means waiting; the
// known ones mean what the host says. BC-37: a sparse answer is no answer.
func TestBC77EveryMergeableState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mergeable, state string
		draft            bool
		want             queue.Mergeability
	}{
		{"null", "unknown", false, queue.MergeabilityInProgress},
		{"null", "", false, queue.MergeabilityInProgress},
		{"null", "clean", false, queue.MergeabilityInProgress},
		{"true", "unknown", false, queue.MergeabilityInProgress},
		{"true", "new_thing", false, queue.MergeabilityInProgress},
		{"true", "clean", false, queue.Mergeable},
		{"true", "CLEAN", false, queue.Mergeable},
		{"true", "unstable", false, queue.Mergeable},
		{"true", "has_hooks", false, queue.Mergeable},
		{"true", "behind", false, queue.Mergeable},
		{"true", "blocked", false, queue.Mergeable}, // by nothing that we find
		{"true", "draft", false, queue.NotMergeable},
		{"true", "clean", true, queue.NotMergeable},
		{"null", "dirty", false, queue.NotMergeable},
		{"false", "dirty", false, queue.NotMergeable},
		{"false", "blocked", false, queue.NotMergeable},
		{"false", "clean", false, queue.NotMergeable},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/access_tokens"):
				w.WriteHeader(201)
				fmt.Fprintf(w, `{"token":"ghs_x","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
			case strings.HasSuffix(r.URL.Path, "/protection"):
				w.WriteHeader(404)
			case strings.Contains(r.URL.Path, "/rules/"):
				w.Write([]byte("[]"))
			default:
				fmt.Fprintf(w, `{"data":{"repository":{"id":"R_x","pr1":{"number":1,"state":"OPEN","mergeable":%q,"mergeStateStatus":%q,"isDraft":%t,
					"updatedAt":"2026-01-02T03:04:05Z","headRefOid":"%s","headRefName":"x","baseRefName":"main","author":null,
					"latestOpinionatedReviews":{"nodes":[],"pageInfo":{}},"reviewThreads":{"nodes":[],"pageInfo":{}},"statusCheckRollup":null}}}}`,
					map[string]string{"true": "MERGEABLE", "false": "CONFLICTING", "null": "UNKNOWN"}[c.mergeable], strings.ToUpper(c.state), c.draft, strings.Repeat("a", 40))
			}
		}))
		t.Cleanup(server.Close)
		client, err := New(Config{AppID: 1, PrivateKey: testKey(), APIURL: server.URL, DataDir: t.TempDir(), Limits: Unlimited})
		if err != nil {
			t.Fatal(err)
		}
		facts, err := client.Mergeability(t.Context(), queue.Repo{ID: 1, Host: client.Host(), Owner: "acme", Name: "app", HostID: 2, Installation: 3}, 1)
		if err != nil || facts[1].(queue.MergeabilitySeen).Value != c.want {
			t.Errorf("%+v: %+v %v", c, facts, err)
		}
	}
}

// BC-88: a draft is not ready, and closed wins over draft.
func TestBC88DraftsAndClosedDrafts(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n")
	yes, no := true, false
	w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(a.PR), Author: "alice", Draft: &yes}))
	w.ready(a.PR, "The pull request is a draft.")
	w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(a.PR), Author: "alice", Draft: &no}))
	w.ready(a.PR, "")
	w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(a.PR), Author: "alice", Draft: &yes}))
	w.must(w.ClosePull("acme/app", int(a.PR), "alice"))
	w.ready(a.PR, "The pull request is closed.")
}

// BC-62: people who are gone do not break what is read about them.
func TestBC62ReviewsOfDeletedUsers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/access_tokens") {
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"token":"ghs_x","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
			return
		}
		fmt.Fprint(w, `{"data":{"repository":{"id":"R_x","pr7":{"id":"x","number":7,"state":"OPEN","updatedAt":"2026-01-02T03:04:05Z","headRefName":"x","baseRefName":"main","headRefOid":"`+strings.Repeat("a", 40)+`",
			"author":null,"headRepository":null,"mergedAt":null,"mergeCommit":null,"labels":{"nodes":[]},"reviewDecision":"CHANGES_REQUESTED",
			"latestOpinionatedReviews":{"nodes":[{"state":"CHANGES_REQUESTED","author":null},{"state":"APPROVED","author":{"login":"bot[bot]"}}],"pageInfo":{"hasNextPage":false,"endCursor":null}},
			"reviewThreads":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}}}`)
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{AppID: 1, PrivateKey: testKey(), APIURL: server.URL, DataDir: t.TempDir(), Limits: Unlimited})
	if err != nil {
		t.Fatal(err)
	}
	repo := queue.Repo{ID: 1, Host: c.Host(), Owner: "acme", Name: "app", HostID: 2}
	f, err := c.look(t.Context(), c.installation(3), repo, question{pulls: []int64{7}})
	if err != nil || fmt.Sprint(f.said[7].against, f.said[7].approved) != "[a deleted user] [@bot[bot]]" {
		t.Errorf("%+v %v", f.said, err)
	}
	if _, seen, err := c.seenOf(repo, f, 7); err != nil || seen.Author != (queue.Actor{Login: "ghost", ID: 10137}) || !seen.Fork {
		t.Errorf("%+v %v", seen, err)
	}
}

// Where a query goes wrong, nothing is judged by half an answer.
func TestAQueryThatGoesWrongIsAnError(t *testing.T) {
	w := ruled(t, reviewsRule("required_approving_review_count", 1))
	a := w.open("a.txt", "a\n")
	k, err := w.c.conn(w.repo)
	w.must(err)
	f, err := w.c.look(w.ctx, k, w.repo, question{pulls: []int64{a.PR, 999}, branch: "nowhere", commit: strings.Repeat("0", 40)})
	if err != nil || f.pulls[a.PR] == nil || f.pulls[999] != nil || !f.missing || f.reports != nil {
		t.Errorf("what is not there: %+v, %v", f, err)
	}
	other := w.repo
	other.Name = "nothing"
	if _, err := w.c.look(w.ctx, k, other, question{pulls: []int64{a.PR}}); gitprovider.KindOf(err) != gitprovider.Gone {
		t.Errorf("a repository that is not there: %v", err)
	}
	err = k.query(w.ctx, "{ viewer { login } }", nil, new(map[string]any))
	if err == nil || !strings.Contains(err.Error(), "Field 'viewer' doesn't exist on type 'Query'") {
		t.Errorf("%v", err)
	}
	// The budget of queries is one of its own: calls of REST go on.
	w.must(w.Fail(githubsim.Fault{Path: "/graphql", Action: "limit", RetryAfter: 1}))
	w.ready(a.PR, "0 of 1 required approvals.")
}

// The query goes beside the REST API, on github.com and on an Enterprise Server.
func TestQueriesFindTheirAddress(t *testing.T) {
	w := ruled(t, reviewsRule("required_approving_review_count", 1))
	a := w.open("a.txt", "a\n")
	w.cfg.APIURL = w.URL() + "/api/v3"
	w.restart()
	w.ready(a.PR, "0 of 1 required approvals.")
	for api, want := range map[string]string{"https://api.github.com": "graphql", "https://api.acme.ghe.com": "graphql", "https://git.example.com/api/v3": "../graphql"} {
		if got := (&Client{apiURL: api}).graphQLPath(); got != want {
			t.Errorf("queries of %s go to %s, want %s", api, got, want)
		}
	}
}
