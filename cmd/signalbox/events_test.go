package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
	"signalbox/queue/sim"
	"signalbox/queue/texts"
)

// The stories of testdata/events are played on the whole service only: each
// tells what a webhook does, and how the queue finds out by itself when it is
// lost. A line "# event: NAME ACTION" says which webhooks a story is about.
//
//	go test ./cmd/signalbox -run TestEvents -all -retell
var retell = flag.Bool("retell", false, "write the stories of testdata/events anew")

// told are the webhooks that the queue listens to: by event, its actions.
var told = map[string][]string{
	"issue_comment":              {"created", "edited"},
	"pull_request_review":        {"submitted", "dismissed"},
	"pull_request_review_thread": {"resolved", "unresolved"},
	"pull_request":               {"opened", "reopened", "edited", "synchronize", "closed", "converted_to_draft", "ready_for_review", "labeled", "unlabeled"},
	"status":                     {""},
	"check_run":                  {"created", "completed"},
	"check_suite":                {"completed"},
	"workflow_run":               {"completed"},
	"push":                       {""},
	"branch_protection_rule":     {"created", "edited", "deleted"},
	"repository_ruleset":         {"created", "edited", "deleted"},
	"repository":                 {"renamed", "transferred", "deleted", "edited"},
	"installation":               {"created", "deleted", "suspend", "unsuspend"},
	"installation_repositories":  {"added", "removed"},
}

var eventLine = regexp.MustCompile(`(?m)^# event: (\w+)(?: (\w+))?$`)

// eventStories are the stories by name.
func eventStories(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/events/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txt")] = string(text)
	}
	return all
}

// Every webhook that we listen to has a story.
func TestEachWebhookHasAStory(t *testing.T) {
	t.Parallel()
	has := map[string]bool{}
	for name, story := range eventStories(t) {
		lines := eventLine.FindAllStringSubmatch(story, -1)
		if len(lines) == 0 {
			t.Errorf("story %s is about no webhook", name)
		}
		for _, l := range lines {
			has[l[1]+" "+l[2]] = true
			if !slices.Contains(told[l[1]], l[2]) {
				t.Errorf("story %s is about %s %s, to which we do not listen", name, l[1], l[2])
			}
		}
	}
	for event, actions := range told {
		for _, action := range actions {
			if !has[event+" "+action] {
				t.Errorf("no story is about %s %s", event, action)
			}
		}
	}
}

// shortEvents are the stories that make test plays; make stories plays all.
var shortEvents = []string{"commands", "repository_renamed", "test_branch"}

func TestEventsOnTheWholeService(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for name, story := range eventStories(t) {
		if !*allStories && !slices.Contains(shortEvents, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playEvents(t, name, story)
		})
	}
}

func playEvents(t *testing.T, name, story string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var w *town
	p := sim.Player{More: map[string]func([]string) (string, error){}}
	p.Build = func(s queue.Settings) (sim.Town, error) {
		var err error
		w, err = newTown(ctx, t, s, strings.Contains(story, "block "))
		if err == nil {
			for verb, do := range w.hostVerbs() {
				p.More[verb] = do
			}
		}
		return w, err
	}
	got, err := p.Play(story)
	if err != nil {
		t.Fatal(err)
	}
	got = nameless(got)
	if *retell {
		if err := os.WriteFile(filepath.Join("testdata/events", name+".txt"), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(story, got); diff != "" && !*retell {
		t.Errorf("the story ends differently (-story +service):\n%s", diff)
	}
	sent := map[string]bool{}
	for _, d := range w.sim.Deliveries() {
		sent[d.Event+" "+d.Action] = true
	}
	for _, l := range eventLine.FindAllStringSubmatch(story, -1) {
		if !sent[l[1]+" "+l[2]] {
			t.Errorf("the story is about %s %s, and no such webhook was sent", l[1], l[2])
		}
	}
}

// hostVerbs are the commands of stories that only a town with a host has.
func (w *town) hostVerbs() map[string]func([]string) (string, error) {
	quiet := func(do func(a []string) error) func([]string) (string, error) {
		return func(a []string) (string, error) { return "", do(a) }
	}
	return map[string]func([]string) (string, error){
		// review 1 bob approved /merge: bob reviews #1, with a text
		"review": quiet(func(a []string) error {
			return w.sim.Review(w.name, atoi(a[0]), a[1], a[2], strings.Join(a[3:], " "))
		}),
		// comment 1 bob some words
		"comment": quiet(func(a []string) error {
			_, err := w.sim.Comment(w.name, atoi(a[0]), a[1], strings.Join(a[2:], " "))
			return err
		}),
		// edit 1 bob some words: bob changes the newest comment of his on #1
		"edit": quiet(func(a []string) error {
			comments, err := w.sim.Comments(w.name, atoi(a[0]))
			for _, c := range slices.Backward(comments) {
				if c.Author == a[1] {
					return w.sim.EditComment(c.ID, a[1], strings.Join(a[2:], " "))
				}
			}
			return errors.Join(err, fmt.Errorf("%s has said nothing on #%s", a[1], a[0]))
		}),
		// tick 1 alice: alice ticks the box of our comment on #1
		"tick": quiet(w.tick),
		// thread 1 bob some words: bob begins a conversation on #1; resolve 1 ends the last
		"thread": quiet(func(a []string) (err error) {
			w.thread, err = w.sim.Converse(w.name, atoi(a[0]), a[1], strings.Join(a[2:], " "))
			return err
		}),
		"resolve":   quiet(func(a []string) error { return w.sim.Resolve(w.name, atoi(a[0]), w.thread, "bob", true) }),
		"unresolve": quiet(func(a []string) error { return w.sim.Resolve(w.name, atoi(a[0]), w.thread, "bob", false) }),
		// label 1 x, unlabel 1 x, title 1 words
		"label":   quiet(func(a []string) error { return w.edit(githubsim.Edit{AddLabel: a[1:]}, int64(atoi(a[0]))) }),
		"unlabel": quiet(func(a []string) error { return w.edit(githubsim.Edit{RemoveLabel: a[1:]}, int64(atoi(a[0]))) }),
		"title": quiet(func(a []string) error {
			title := strings.Join(a[1:], " ")
			return w.edit(githubsim.Edit{Title: &title}, int64(atoi(a[0])))
		}),
		// status 1 success: a commit status "ci" on the head of #1, not a check run
		"status": quiet(func(a []string) error {
			return w.sim.Report(w.ctx, githubsim.Report{Repo: w.name, SHA: w.heads[int64(atoi(a[0]))], Name: "ci", Conclusion: a[1], Status: true})
		}),
		// check 1 failure: the same as a check run
		"check": quiet(func(a []string) error {
			return w.sim.Report(w.ctx, githubsim.Report{Repo: w.name, SHA: w.heads[int64(atoi(a[0]))], Name: "ci", Conclusion: a[1]})
		}),
		// ci-status 1 success: the status on the run that tests #1
		"ci-status": quiet(func(a []string) error {
			commit, err := w.testedCommit(int64(atoi(a[0])))
			if err != nil {
				return err
			}
			return w.sim.Report(w.ctx, githubsim.Report{Repo: w.name, SHA: commit, Name: "ci", Conclusion: a[1], Status: true})
		}),
		// workflow 1 completed: a workflow run on the commit that tests #1
		"workflow": quiet(func(a []string) error {
			commit, err := w.testedCommit(int64(atoi(a[0])))
			if err != nil {
				return err
			}
			_, err = w.sim.SetWorkflowRun(w.ctx, githubsim.WorkflowRun{Repo: w.name, Number: atoi(a[0]), HeadSHA: commit, Status: a[1]})
			return err
		}),
		// push-test 1 x=1: somebody pushes to the branch that tests #1; delete-test 1 deletes it
		"push-test":   quiet(w.pushTest),
		"delete-test": quiet(w.pushTest),
		// delete-branch main deletes a branch; make-main makes main again, on what it was
		"delete-branch": quiet(func(a []string) error {
			_, err := w.sim.Push(w.ctx, githubsim.Push{Repo: w.name, Branch: a[0], Author: "alice", Delete: true})
			return err
		}),
		"make-main": quiet(w.forceMain),
		// fork 1 mallory x=1: mallory opens #1 from a fork; delete-fork mallory deletes the fork
		"fork":        quiet(w.openFork),
		"delete-fork": quiet(func(a []string) error { return w.sim.DeleteRepo(a[0]+"/app", a[0]) }),
		// branches: those that there are, but for main and release
		"branches": func([]string) (string, error) { return w.topics() },
		// permit workflows write: the App is given a permission; permit workflows takes it away
		"permit": quiet(func(a []string) error { return w.permit(append(a, "")) }),
		// reason 1: why #1 moved last, in words
		"reason": func(a []string) (string, error) { return w.reason(int64(atoi(a[0]))) },
		// force-main x=1: main is another history now, of one commit on its first
		"force-main": quiet(w.forceMain),
		// protect checks=a,b reviews=1; unprotect
		"protect":   quiet(w.protect),
		"unprotect": quiet(func([]string) error { return w.sim.ProtectBranch(githubsim.Protect{Repo: w.name, Remove: true}) }),
		// ruleset reviews=1, org-ruleset reviews=1: rules from which the App is exempt; drop-ruleset
		"ruleset":     quiet(func(a []string) error { return w.addRuleset(githubsim.NewRuleset{Repo: w.name}, a) }),
		"org-ruleset": quiet(func(a []string) error { return w.addRuleset(githubsim.NewRuleset{Org: "acme"}, a) }),
		"drop-ruleset": quiet(func([]string) error {
			return w.sim.RemoveRuleset(w.name, w.ruleset)
		}),
		"rename":         quiet(func(a []string) error { return w.renamed(w.sim.RenameRepo(w.name, a[0], "alice"), "acme/"+a[0]) }),
		"transfer":       quiet(func(a []string) error { return w.renamed(w.sim.TransferRepo(w.name, a[0], "alice"), a[0]+"/app") }),
		"delete-repo":    quiet(func([]string) error { return w.sim.DeleteRepo(w.name, "alice") }),
		"default-branch": quiet(func(a []string) error { return w.sim.SetDefaultBranch(w.name, a[0], "alice") }),
		"uninstall":      quiet(func([]string) error { return w.sim.Uninstall("acme", "alice") }),
		"install":        quiet(func([]string) error { return w.sim.Install("acme", "alice") }),
		"suspend":        quiet(func([]string) error { return w.sim.Suspend("acme", "alice") }),
		"unsuspend":      quiet(func([]string) error { return w.sim.Unsuspend("acme", "alice") }),
		"take-out":       quiet(func([]string) error { return w.sim.SetInstalled(w.name, "alice", false) }),
		"put-in":         quiet(func([]string) error { return w.sim.SetInstalled(w.name, "alice", true) }),
		// late POST /acme/app.git/git-receive-pack: the network holds such a call back,
		// whose caller tries again; arrive: what it held back arrives
		"late": quiet(func(a []string) error {
			w.troubled = true
			return w.sim.Fail(githubsim.Fault{Method: a[0], Path: a[1], Action: "late"})
		}),
		"arrive": func([]string) (string, error) { return fmt.Sprintf("  %d calls arrived\n", w.sim.Arrive()), nil },
		// lose: every webhook is lost from now on; hear: no more are
		"lose": quiet(func([]string) error { return w.sim.SetWebhookFaults(githubsim.WebhookFaults{Lose: 1}) }),
		"hear": quiet(func([]string) error { return w.sim.SetWebhookFaults(githubsim.WebhookFaults{}) }),
		// deaf: webhooks find nobody, and the host knows; awake: they do again
		"deaf":  quiet(func([]string) error { w.sim.SetWebhook("http://127.0.0.1:1/webhook", "secret"); return nil }),
		"awake": quiet(func([]string) error { w.sim.SetWebhook(w.hook, "secret"); return nil }),
		// log: the first lines of main's commits, newest first
		"log": func([]string) (string, error) { return w.firstLines() },
		// grant bob write: bob's right on the repository
		"grant": quiet(func(a []string) error { return w.sim.SetPermission(w.name, a[0], a[1]) }),
		// open-drafts: the draft pull requests of tests that are open
		"open-drafts": func([]string) (string, error) { return w.openDrafts() },
		// connect, redeliver: what upkeep does every ten and every five minutes
		"connect":   quiet(func([]string) error { w.service.connect(w.ctx); return nil }),
		"redeliver": quiet(func([]string) error { w.service.redeliver(w.ctx); return nil }),
	}
}

// openFork opens a pull request from the author's own fork.
func (w *town) openFork(a []string) error {
	number := int64(atoi(a[0]))
	opened, err := w.sim.OpenPull(w.ctx, githubsim.OpenPull{
		Repo: w.name, Title: fmt.Sprintf("Change %d", number), Author: a[1], Fork: true, Branch: branchName(number), Files: townFiles(parsePairs(a[2:])),
	})
	if err != nil {
		return err
	}
	if int64(opened.Number) != number {
		return fmt.Errorf("#%d became #%d", number, opened.Number)
	}
	w.opened, w.authors[number], w.heads[number] = append(w.opened, number), a[1], opened.HeadSHA
	return nil
}

func (w *town) topics() (string, error) {
	lines, err := w.sim.Branches(w.name)
	var names []string
	for _, l := range lines {
		name, _, _ := strings.Cut(l, " ")
		if test, ok := strings.CutPrefix(name, "signalbox/"); ok {
			test, _, _ = strings.Cut(test, "/")
			name = "signalbox/" + test
		}
		if name != "main" && name != "release" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return "  " + strings.Join(names, " ") + "\n", err
}

func (w *town) openDrafts() (string, error) {
	pulls, err := w.sim.Pulls(w.name)
	n := 0
	for _, p := range pulls {
		if p.Open && strings.HasPrefix(p.Head, "signalbox/") {
			n++
		}
	}
	return fmt.Sprintf("  %d\n", n), err
}

// permit gives the App a permission, or takes it away, and starts a server
// that has no token from before.
func (w *town) permit(a []string) error {
	w.sim.Grant(a[0], a[1])
	return w.crash()
}

func (w *town) reason(number int64) (text string, err error) {
	err = w.service.db.SQL().QueryRowContext(w.ctx, `SELECT regexp_replace(message, '/[0-9a-f]{8}-[0-9a-f-]*', '/RUN') FROM timeline WHERE queue_id = $1 AND pr = $2 ORDER BY id DESC LIMIT 1`, int64(w.queue.ID), number).Scan(&text)
	return "  " + text + "\n", err
}

func (w *town) firstLines() (string, error) {
	log, err := w.sim.Log(w.ctx, w.name, "main")
	var out strings.Builder
	for _, c := range log {
		first, _, _ := strings.Cut(c.Message, "\n")
		out.WriteString("  " + first + "\n")
	}
	return out.String(), err
}

func (w *town) tick(a []string) error {
	comments, err := w.sim.Comments(w.name, atoi(a[0]))
	if err != nil {
		return err
	}
	for _, c := range comments {
		if ticked := strings.Replace(c.Body, "- [ ] "+texts.Checkbox, "- [x] "+texts.Checkbox, 1); ticked != c.Body {
			return w.sim.EditComment(c.ID, a[1], ticked)
		}
	}
	return errors.New("there is no box to tick")
}

// testedRun is the commit and the branch of the newest run that tests a pull request.
func (w *town) testedRun(number int64) (commit, branch string, err error) {
	err = w.service.db.SQL().QueryRowContext(w.ctx, `
		SELECT r.commit, r.branch FROM runs r JOIN entries e ON e.queue_id = r.queue_id AND e.id = ANY(r.members)
		WHERE r.queue_id = $1 AND e.pr = $2 AND r.commit <> '' AND r.hedge = ''
		ORDER BY r.state IN ('building', 'testing') DESC, r.asked_at DESC, r.id LIMIT 1`, int64(w.queue.ID), number).Scan(&commit, &branch)
	if err != nil {
		err = fmt.Errorf("find the run that tests #%d: %w", number, err)
	}
	return commit, branch, err
}

func (w *town) testedCommit(number int64) (string, error) {
	commit, _, err := w.testedRun(number)
	return commit, err
}

func (w *town) pushTest(a []string) error {
	_, branch, err := w.testedRun(int64(atoi(a[0])))
	if err != nil {
		return err
	}
	_, err = w.sim.Push(w.ctx, githubsim.Push{Repo: w.name, Branch: branch, Author: "mallory", Message: "Mine", Delete: len(a) == 1, Files: townFiles(parsePairs(a[1:]))})
	return err
}

func (w *town) forceMain(a []string) error {
	_, err := w.sim.Push(w.ctx, githubsim.Push{
		Repo: w.name, Branch: "main", Author: "alice", Message: "Another history", From: w.first, Files: townFiles(parsePairs(a)),
	})
	return err
}

func (w *town) protect(a []string) error {
	p := githubsim.Protect{Repo: w.name, AppMayPush: true}
	for key, value := range parsePairs(a) {
		switch key {
		case "checks":
			p.Checks = strings.Split(value, ",")
		case "reviews":
			p.Reviews = atoi(value)
		case "conversations":
			p.Conversations = true
		}
	}
	return w.sim.ProtectBranch(p)
}

func (w *town) addRuleset(set githubsim.NewRuleset, a []string) (err error) {
	set.Bypass = "exempt"
	for key, value := range parsePairs(a) {
		switch key {
		case "reviews":
			set.Rules = append(set.Rules, githubsim.Rule{Type: "pull_request", Parameters: map[string]any{"required_approving_review_count": atoi(value)}})
		case "id":
			set.ID = w.ruleset
		}
	}
	w.ruleset, err = w.sim.AddRuleset(set)
	return err
}

func (w *town) renamed(err error, name string) error {
	if err == nil {
		w.name = name
	}
	return err
}

func atoi(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
}

func parsePairs(args []string) map[string]string {
	pairs := map[string]string{}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		pairs[key] = value
	}
	return pairs
}
