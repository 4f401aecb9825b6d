package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"signalbox/queue"
)

// Cases from the field about what people and hosts write: reports of other
// products, as inputs. Where a payload of testdata is the input, the golden file
// holds the rest of what it means.

// said translates a payload of testdata after a change of it.
func said(t *testing.T, name string, change func(payload map[string]any)) []queue.Fact {
	t.Helper()
	body, ok := payloads(t)[name]
	if !ok {
		t.Fatalf("there is no payload %s", name)
	}
	payload := map[string]any{}
	if err := json.Unmarshal(body, &payload); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(payload)
	}
	body, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	event, err := parse(eventOf(name), body)
	if err != nil {
		t.Fatal(err)
	}
	return testTranslator.translate(event, testNow).facts
}

// asked are the commands among facts.
func asked(facts []queue.Fact) (commands []queue.CommandAsked) {
	for _, f := range facts {
		if c, ok := f.(queue.CommandAsked); ok {
			commands = append(commands, c)
		}
	}
	return commands
}

func seenIn(facts []queue.Fact) *queue.PullRequestSeen {
	for _, f := range facts {
		if pr, ok := f.(queue.PullRequestSeen); ok {
			return &pr
		}
	}
	return nil
}

func object(payload map[string]any, name string) map[string]any {
	o, _ := payload[name].(map[string]any)
	return o
}

// rust-lang/homu#149, openstack-infra/zuul@152a4024: a body of null, or of
// spaces, is a body without a command and without a title.
func TestBC61BodiesOfNothing(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]any{"null": nil, "empty": "", "spaces": " \r\n\t "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := said(t, "issue_comment.merge", func(p map[string]any) { object(p, "comment")["body"] = body })
			if got := asked(facts); len(got) != 0 {
				t.Errorf("a comment asks for %+v", got)
			}
			pr := seenIn(said(t, "pull_request.opened", func(p map[string]any) { object(p, "pull_request")["body"] = body }))
			if pr == nil || pr.CommitTitle != "" {
				t.Errorf("the pull request reads %+v", pr)
			}
		})
	}
}

// chdsbd/kodiak#541, #828, #847, #914: people who are gone, reviewers that are
// bots, reviews of no commit.
func TestBC62PeopleWhoAreGone(t *testing.T) {
	t.Parallel()
	pr := seenIn(said(t, "pull_request.opened", func(p map[string]any) {
		o := object(p, "pull_request")
		o["user"], o["assignee"], o["requested_reviewers"], o["milestone"] = nil, nil, nil, nil
	}))
	if pr == nil || pr.Author.Login != "ghost" || pr.Author.ID != 0 {
		t.Errorf("the pull request reads %+v, want it by ghost", pr)
	}
	for name, change := range map[string]func(map[string]any){
		"nobody":    func(r map[string]any) { r["user"] = nil },
		"a bot":     func(r map[string]any) { r["user"] = map[string]any{"login": "reviewer[bot]", "id": 9, "type": "Bot"} },
		"no commit": func(r map[string]any) { r["commit_id"] = nil },
	} {
		facts := said(t, "pull_request_review.dismissed_without_commit_or_user", func(p map[string]any) { change(object(p, "review")) })
		if len(facts) != 1 || facts[0].Kind() != "pull_request_doubted" {
			t.Errorf("a dismissed review by %s means %v, want only a doubt", name, facts)
		}
	}
	if got := asked(said(t, "issue_comment.merge", func(p map[string]any) { p["sender"] = nil })); len(got) != 0 {
		t.Errorf("a comment by nobody asks for %+v", got)
	}
}

// rust-lang/homu#123: an edit of old text is no command, whoever makes it, and a
// tick in our own box is one of the person who ticks it.
func TestBC64EditsAreNoCommands(t *testing.T) {
	t.Parallel()
	for _, login := range []string{"ada", "mallory"} {
		facts := said(t, "issue_comment.edited_into_a_command_is_none", func(p map[string]any) {
			p["sender"] = map[string]any{"login": login, "id": 7, "type": "User"}
		})
		if got := asked(facts); len(got) != 0 {
			t.Errorf("an edit by %s asks for %+v", login, got)
		}
	}
	if got := asked(said(t, "pull_request_review.edited_into_a_command", nil)); len(got) != 0 {
		t.Errorf("an edited review asks for %+v", got)
	}
	got := asked(said(t, "issue_comment.checkbox_ticked_by_a_person", func(p map[string]any) {
		p["sender"] = map[string]any{"login": "mallory", "id": 66, "type": "User"}
	}))
	if len(got) != 1 || got[0].By.Login != "mallory" || got[0].By.ID != 66 || got[0].Command.Verb != queue.VerbMerge {
		t.Errorf("a tick by mallory asks for %+v, want a merge by mallory", got)
	}
}

// rust-lang/homu#54, chdsbd/kodiak#86: what we write ourselves is no command,
// even where it lists them; neither is our edit of our own comment.
func TestBC65WeDoNotAnswerOurselves(t *testing.T) {
	t.Parallel()
	us := map[string]any{"login": "signalbox[bot]", "id": 41, "type": "Bot"}
	for _, name := range []string{"issue_comment.merge", "issue_comment.checkbox_ticked_by_a_person"} {
		if got := asked(said(t, name, func(p map[string]any) { p["sender"] = us; object(p, "comment")["user"] = us })); len(got) != 0 {
			t.Errorf("%s, by ourselves, asks for %+v", name, got)
		}
	}
	labels := said(t, "pull_request.labeled_by_a_person", func(p map[string]any) { p["sender"] = us })
	if got := asked(labels); len(got) != 0 {
		t.Errorf("our own label asks for %+v", got)
	}
	// The text of another bot is asked about, and answered only if it is on the list.
	got := asked(said(t, "issue_comment.by_another_bot_is_asked", nil))
	if len(got) != 1 || !got[0].By.Bot {
		t.Errorf("another bot asks for %+v, want one command by a bot", got)
	}
}

// NixOS/nixpkgs-merge-bot#87: a command given with an approving review counts.
func TestBC67ACommandInAReview(t *testing.T) {
	t.Parallel()
	facts := said(t, "pull_request_review.approves_and_merges", nil)
	got := asked(facts)
	if len(got) != 1 || got[0].Command.Verb != queue.VerbMerge || got[0].Review == 0 || got[0].Comment != 0 {
		t.Errorf("the review asks for %+v, want a merge", got)
	}
	if len(facts) != 2 || facts[0].Kind() != "pull_request_doubted" {
		t.Errorf("the review means %v, want also that mergeability may have changed", facts)
	}
}

// rust-lang/homu#32, #131, bors-ng/bors-ng@4214425: odd words change nothing and
// are explained; odd spacing and case are understood.
func TestBC68OddWords(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"/merge --priority=9001", "/merge please", "/merge -p urgent -p low", "/merge --priority=", "/signalbox stack -t"} {
		c, ok := ParseCommand(body, testPrefixes)
		if !ok || c.Verb != queue.VerbInvalid || c.Problem == "" || strings.Contains(c.Problem, "@") {
			t.Errorf("%q is %+v, want it explained", body, c)
		}
	}
	for _, body := range []string{"/Merge", "@signalbox: merge", "  /signalbox \t MERGE  "} {
		if c, ok := ParseCommand(body, testPrefixes); !ok || c.Verb != queue.VerbMerge {
			t.Errorf("%q is %+v, want a merge", body, c)
		}
	}
}

// kubernetes/test-infra@7bd9c5093: labels are compared without regard to case
// where they count, and a label changes nothing else than what it says.
func TestBC79LabelsKeepTheirSpelling(t *testing.T) {
	t.Parallel()
	got := asked(said(t, "pull_request.labeled_by_a_person", func(p map[string]any) { object(p, "label")["name"] = "QuEuE" }))
	if len(got) != 1 || got[0].Label == nil || got[0].Label.Name != "QuEuE" || got[0].Command.Verb != "" {
		t.Errorf("the label means %+v, want a label to be looked at", got)
	}
	for name, label := range map[string]any{"none": nil, "no name": map[string]any{"name": nil}, "spaces": map[string]any{"name": " "}} {
		if got := asked(said(t, "pull_request.labeled_by_a_person", func(p map[string]any) { p["label"] = label })); len(got) != 0 {
			t.Errorf("a label of %s asks for %+v", name, got)
		}
	}
}

// odoo/runbot#305: a pull request that comes back says how it is now, and is
// looked at again.
func TestBC89AReopenedPullRequestIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	facts := said(t, "pull_request.reopened_needs_another_look", func(p map[string]any) {
		object(object(p, "pull_request"), "base")["ref"] = "release"
	})
	pr := seenIn(facts)
	if pr == nil || pr.Base != "release" || !pr.Open || len(facts) != 2 || facts[1].Kind() != "pull_request_doubted" {
		t.Errorf("it means %v, want its new base and a doubt", facts)
	}
}
