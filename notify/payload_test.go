package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// What is sent, exactly. The golden files are the examples of the manual.

var when = time.Date(2026, 11, 27, 20, 7, 41, 331_000_000, time.UTC)

// sample is a delivery of that type, as the store keeps it.
func sample(t *testing.T, kind string) account.Delivery {
	t.Helper()
	d := account.Delivery{ID: 7, Event: "2f1c7d50-3a4b-4c5d-8e6f-7a8b9c0d1e2f", Type: kind, At: when, State: account.Waiting}
	var body any
	switch {
	case kind == Ping:
		body = pingData{"acme", "5b1f7a3c-8e0d-4d43-9c2b-6f1f0e6d7a55", "Signalbox can reach you."}
	case strings.HasPrefix(kind, "test_case."):
		body = testSample(flaky.EventType(kind))
	default:
		body = queueSample(queue.EventType(kind))
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	d.Body = text
	return d
}

// moves are the moves that samples are about.
var moves = map[queue.EventType]struct {
	from, to queue.EntryState
	why      queue.Reason
	message  string
	run      queue.RunID
}{
	queue.PullRequestSubmitted:      {queue.Never, queue.NotReady, queue.SubmittedByUser, "Submitted by @ann.", ""},
	queue.PullRequestQueued:         {queue.NotReady, queue.Pending, queue.NowReady, "Ready: it waits for its turn.", ""},
	queue.PullRequestTesting:        {queue.Pending, queue.Testing, queue.TestRunStarted, "Testing on main.", "3d8b"},
	queue.PullRequestTestsPassed:    {queue.Testing, queue.TestsPassed, queue.TestRunPassed, "All required checks passed on 1a2b3c4.", "3d8b"},
	queue.PullRequestPendingFailure: {queue.Testing, queue.PendingFailure, queue.RequiredStatusFailed, "The required check build failed.", "3d8b"},
	queue.PullRequestFailed:         {queue.PendingFailure, queue.Failed, queue.RequiredStatusFailed, "The required check build failed.", "3d8b"},
	queue.PullRequestCanceled:       {queue.Testing, queue.Cancelled, queue.PRPushedTo, "A push changed the head from 1a2b3c4 to 5d6e7f8 after the pull request was queued.", "3d8b"},
	queue.PullRequestMerged:         {queue.TestsPassed, queue.Merged, queue.MergedByQueue, "Landed on main as 9e8d7c6.", "3d8b"},
	queue.BatchTesting:              {queue.Pending, queue.Testing, queue.TestRunStarted, "Testing on main, together as #12, #13.", "3d8b"},
	queue.BatchTestsPassed:          {queue.Testing, queue.TestsPassed, queue.TestRunPassed, "All required checks passed on 1a2b3c4.", "3d8b"},
	queue.BatchPendingFailure:       {queue.Testing, queue.PendingFailure, queue.RequiredStatusFailed, "The required check build failed.", "3d8b"},
	queue.BatchFailed:               {queue.PendingFailure, queue.Pending, queue.BisectionRequired, "The batch failed: it is split to find out which pull request is to blame.", "3d8b"},
	queue.BatchRestarted:            {queue.Testing, queue.Pending, queue.ManualPushToTargetBranch, "Somebody pushed to main.", "3d8b"},
	queue.BatchMerged:               {queue.TestsPassed, queue.Merged, queue.MergedByQueue, "Landed on main as 9e8d7c6.", "3d8b"},
}

func queueSample(kind queue.EventType) queue.Event {
	e := queue.Event{Type: kind, At: when, Queue: 3, Repo: queue.Repo{ID: 1, Host: "github.com", Owner: "acme", Name: "app"}, Branch: "main"}
	switch kind {
	case queue.QueueStateChanged:
		e.From, e.To, e.Actor = "running", "paused", queue.Actor{Login: "ann", ID: 1}
		return e
	case queue.QueueSettingsChanged:
		e.Token = "terraform"
		e.Changes = []queue.Changed{{Name: "batch", From: "false", To: "true"}, {Name: "concurrency", From: "1", To: "4"}, {Name: "mergeMethod", From: "squash", To: "rebase"}, {Name: "requiredStatuses", From: "[]", To: `["build"]`}}
		return e
	}
	m := moves[kind]
	e.From, e.To, e.Reason, e.Message, e.Run = string(m.from), string(m.to), m.why, m.message, m.run
	if m.why == queue.SubmittedByUser {
		e.Actor = queue.Actor{Login: "ann", ID: 1}
	}
	for i, title := range []string{"Add the signal", "Paint the lever"} {
		number := int64(12 + i)
		p := queue.EventEntry{
			Entry: queue.EntryID(fmt.Sprintf("0c4d9b1e-5f6a-4b7c-8d9e-0000000000%d", number)), Submission: 1, Number: number, Title: title,
			URL: fmt.Sprintf("https://github.com/acme/app/pull/%d", number), Author: queue.Actor{Login: "bob", ID: 2}, Head: strings.Repeat("1a2b3c4d", 5), Priority: queue.Medium,
		}
		if m.to == queue.Merged {
			p.LandedCommit = strings.Repeat("9e8d7c6b", 5)
		}
		e.Entries = append(e.Entries, p)
		if strings.HasPrefix(string(kind), "pull_request.") {
			break
		}
	}
	return e
}

func testSample(kind flaky.EventType) flaky.Event {
	e := flaky.Event{
		Type: kind, Host: "github.com", Owner: "acme", Repo: "app", Number: 5, ID: uuid.MustParse("06cb6db5-f807-5198-b072-af67a0636f8a"),
		File: "src/cart_test.go", Classname: "Cart", Parent: "shop", Name: "total", Codeowners: []string{"@acme/shop"},
	}
	if kind == flaky.StatusChanged {
		e.Change = flaky.Change{At: when, What: "status", Before: "HEALTHY", After: "FLAKY", Code: "EVIDENCE_FOUND", Score: 6,
			Reason: "It failed without being broken: score 6.0 of 5, from 2 half days of the last 14 days."}
		return e
	}
	e.Change = flaky.Change{At: when, What: "quarantine", Before: "off", After: "on", Code: "SET_ALWAYS", Reason: "The clock of CI is wrong.", Actor: "ann"}
	e.SettingBefore, e.Setting, e.Repairer, e.Expires = flaky.Auto, flaky.Always, "@bob", when.AddDate(0, 0, 14)
	return e
}

// allKinds are the names of all events, the ping too.
func allKinds() []string {
	names := []string{Ping}
	for _, k := range kinds {
		names = append(names, k.Type)
	}
	return names
}

func TestEveryEventCanBeSubscribedTo(t *testing.T) {
	t.Parallel()
	var there []string
	for _, k := range queue.EventTypes {
		there = append(there, string(k))
	}
	for _, k := range flaky.EventTypes {
		there = append(there, string(k))
	}
	var listed []string
	for _, k := range kinds {
		listed = append(listed, k.Type)
		if k.Topic == "" || !strings.HasSuffix(k.About, ".") {
			t.Errorf("%s lacks words", k.Type)
		}
	}
	if !slices.Equal(there, listed) {
		t.Errorf("there are %q, listed are %q", there, listed)
	}
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	s := newService(t, &troubled{}, newHandClock())
	for _, kind := range allKinds() {
		body, err := s.payload(account.Organization{Slug: "acme"}, sample(t, kind))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		golden(t, "payloads/"+kind+".json", pretty.String()+"\n")
		if len(body) > 20_000 {
			t.Errorf("%s has %d bytes", kind, len(body))
		}
	}
	manual, err := os.ReadFile("../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range allKinds() {
		if !bytes.Contains(manual, []byte("| `"+kind+"` |")) {
			t.Errorf("docs/webhooks.md does not name `%s`", kind)
		}
	}
	// The manual shows one example of each family.
	for _, kind := range []string{"pull_request.failed", "pull_request_batch.merged", "queue.state_changed", "queue.settings_changed", "test_case.status_changed", "test_case.quarantining_setting_changed"} {
		example, err := os.ReadFile("testdata/payloads/" + kind + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(manual, example) {
			t.Errorf("docs/webhooks.md does not have the example of %s:\n%s", kind, example)
		}
	}
}

// What people read in Slack, the fallback text and the explanation below it.
func TestSlackMessages(t *testing.T) {
	t.Parallel()
	s := newService(t, &troubled{}, newHandClock())
	var out strings.Builder
	show := func(title string, d account.Delivery) {
		body, err := s.slackMessage(d)
		if err != nil {
			t.Errorf("%s: %v", title, err)
			return
		}
		var m struct {
			Text   string
			Blocks []struct {
				Type string
				Text struct {
					Type, Text string
					Verbatim   bool
				}
				Elements []struct{ Text string }
			}
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		if m.Blocks[0].Text.Text != m.Text || m.Blocks[0].Text.Type != "mrkdwn" || !m.Blocks[0].Text.Verbatim {
			t.Errorf("%s: the block is not the text: %s", title, body)
		}
		fmt.Fprintf(&out, "## %s\n%s\n", title, m.Text)
		for _, b := range m.Blocks[1:] {
			for _, e := range b.Elements {
				fmt.Fprintf(&out, "   %s\n", strings.ReplaceAll(e.Text, "\n", "\n   "))
			}
		}
	}
	changed := func(d account.Delivery, change func(*queue.Event)) account.Delivery {
		var e queue.Event
		if err := json.Unmarshal(d.Body, &e); err != nil {
			t.Fatal(err)
		}
		change(&e)
		d.Body, _ = json.Marshal(e)
		return d
	}
	for _, kind := range allKinds() {
		show(kind, sample(t, kind))
	}
	show("pull_request.queued, again", changed(sample(t, string(queue.PullRequestQueued)), func(e *queue.Event) { e.From = "testing" }))
	show("queue.state_changed, by itself", changed(sample(t, string(queue.QueueStateChanged)), func(e *queue.Event) {
		e.Actor, e.Message = queue.Actor{}, "The queue paused itself: #3 landed as something else than what was tested."
	}))
	show("pull_request_batch.merged, of many", changed(sample(t, string(queue.BatchMerged)), func(e *queue.Event) {
		for range 20 {
			e.Entries = append(e.Entries, e.Entries[0])
		}
	}))
	show("hostile", changed(sample(t, string(queue.PullRequestFailed)), func(e *queue.Event) {
		e.Entries[0].Title = "<!channel> & <https://evil.example|click|here> \u202e\x07*bold*\n\nnew line > " + strings.Repeat("long ", 100)
		e.Message, e.Branch = "<@U123> said ```x```", "a|b>c"
	}))
	golden(t, "slack.txt", out.String())
}

func TestWhatCannotBeReadIsNotSent(t *testing.T) {
	t.Parallel()
	s := newService(t, &troubled{}, newHandClock())
	for _, body := range []string{"", "null", "[]", "{}", `{"entries":[]}`} {
		if _, err := s.payload(account.Organization{}, account.Delivery{Type: "pull_request.merged", Body: []byte(body)}); err == nil {
			t.Errorf("%q is sent", body)
		}
	}
}
