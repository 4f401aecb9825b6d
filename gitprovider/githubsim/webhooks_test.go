package githubsim

// Webhooks: signed, in order, remembered, sent again on request; and lost,
// doubled, late and out of order when a test wants them so.

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"
)

func TestEveryPayloadIsOneThatGoGitHubKnows(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	id, err := w.Comment("acme/app", p.Number, "alice", "/merge")
	w.must(err)
	w.must(w.EditComment(id, "bob", "/merge now"))
	w.must(w.Review("acme/app", p.Number, "bob", "approved", ""))
	w.must(w.Report(w.ctx, Report{Repo: "acme/app", SHA: p.HeadSHA, Name: "x", Conclusion: "success"}))
	w.must(w.Report(w.ctx, Report{Repo: "acme/app", SHA: p.HeadSHA, Name: "x", Conclusion: "success", Status: true}))
	_, err = w.MergePull(w.ctx, "acme/app", p.Number, "alice", "merge")
	w.must(err)
	w.repo(NewRepo{Owner: "acme", Name: "second"})
	w.SetWebhook(w.app.URL, testSecret)
	w.delivered()
	seen := map[string]bool{}
	for _, e := range w.app.all("installation", "") {
		seen[e.Name] = true
	}
	w.app.mu.Lock()
	defer w.app.mu.Unlock()
	for _, e := range w.app.events {
		seen[e.Name+" "+e.action()] = true
		if _, err := github.ParseWebHook(e.Name, e.Raw); err != nil {
			t.Errorf("%s %s: %v", e.Name, e.action(), err)
		}
		for _, name := range []string{"X-GitHub-Delivery", "X-GitHub-Hook-ID", "X-GitHub-Hook-Installation-Target-ID"} {
			if e.Header.Get(name) == "" {
				t.Errorf("%s %s has no %s", e.Name, e.action(), name)
			}
		}
		if e.Name != "ping" && (e.at("installation", "id") == nil || e.at("sender", "login") == nil) {
			t.Errorf("%s %s lacks installation or sender", e.Name, e.action())
		}
		aboutRepo := e.Name != "ping" && !strings.HasPrefix(e.Name, "installation")
		if has := e.at("repository", "full_name") != nil; has != aboutRepo {
			t.Errorf("%s %s names a repository: %v", e.Name, e.action(), has)
		}
	}
	for _, want := range []string{
		"installation created", "installation_repositories added", "ping ", "push ", "status ",
		"pull_request opened", "pull_request closed", "issue_comment created", "issue_comment edited",
		"pull_request_review submitted", "check_run created", "check_run completed", "check_suite completed", "check_suite requested",
	} {
		if !seen[want] {
			t.Errorf("no event %q", want)
		}
	}
}

func TestAFailedDeliveryIsKeptAndSentAgainOnRequest(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	w.delivered()
	w.app.answer(http.StatusServiceUnavailable)
	_, err := w.Comment("acme/app", p.Number, "alice", "/merge")
	w.must(err)
	w.delivered()
	if n := len(w.app.all("issue_comment", "")); n != 0 {
		t.Fatalf("%d comments arrived at a receiver that is down", n)
	}
	w.app.answer(http.StatusAccepted)
	app := w.appClient()
	var failed *github.HookDelivery
	cursor := ""
	for {
		list, resp, err := app.Apps.ListHookDeliveries(w.ctx, &github.ListCursorOptions{PerPage: 2, Cursor: cursor})
		w.must(err)
		for _, d := range list {
			if d.GetStatusCode() == 503 {
				failed = d
			}
		}
		if cursor = resp.Cursor; cursor == "" {
			break
		}
	}
	if failed == nil || failed.GetEvent() != "issue_comment" || failed.GetAction() != "created" {
		t.Fatalf("the list has no such failure: %v", failed)
	}
	full, _, err := app.Apps.GetHookDelivery(w.ctx, failed.GetID())
	w.must(err)
	payload, err := full.ParseRequestPayload()
	w.must(err)
	if c, ok := payload.(*github.IssueCommentEvent); !ok || c.GetComment().GetBody() != "/merge" {
		t.Errorf("payload %T", payload)
	}
	_, _, err = app.Apps.RedeliverHookDelivery(w.ctx, failed.GetID())
	if _, accepted := err.(*github.AcceptedError); err != nil && !accepted {
		t.Fatal(err)
	}
	e := w.app.wait(t, "issue_comment", "created", nil)
	if e.ID != failed.GetGUID() {
		t.Errorf("it came again as %s, was %s", e.ID, failed.GetGUID())
	}
}

func TestAReceiverThatIsNotThereIsAFailureToo(t *testing.T) {
	w := newWorld(t)
	w.delivered()
	w.app.Close()
	p := w.pull("a.txt", "a\n")
	w.delivered()
	for _, d := range w.Deliveries() {
		if d.Event == "pull_request" && (d.StatusCode != 502 || d.Status != "failed to connect to host") {
			t.Errorf("#%d opened: %d %s", p.Number, d.StatusCode, d.Status)
		}
	}
	if status, _, _ := w.get("GET", "/app/hook/deliveries/999999999", "", ""); status != 401 {
		t.Errorf("without a JWT: %d", status)
	}
}

func TestWebhooksCanBeLostDoubledAndLate(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	send := func(f WebhookFaults) (ids map[string]int, order []string) {
		t.Helper()
		w.must(w.SetWebhookFaults(f))
		before := len(w.app.all("issue_comment", ""))
		for i := range 40 {
			_, err := w.Comment("acme/app", p.Number, "alice", strconv.Itoa(i))
			w.must(err)
		}
		w.delivered()
		ids = map[string]int{}
		for _, e := range w.app.all("issue_comment", "")[before:] {
			ids[e.ID]++
			order = append(order, e.at("comment", "body").(string))
		}
		return ids, order
	}
	if ids, order := send(WebhookFaults{}); len(ids) != 40 || order[0] != "0" || order[39] != "39" {
		t.Errorf("without faults: %v", order)
	}
	if ids, _ := send(WebhookFaults{Lose: 0.5, Seed: 1}); len(ids) < 8 || len(ids) > 32 {
		t.Errorf("half are lost, and %d of 40 came", len(ids))
	}
	ids, order := send(WebhookFaults{Repeat: 1})
	if len(ids) != 40 || len(order) != 80 {
		t.Errorf("all come twice: %d ids, %d deliveries", len(ids), len(order))
	}
	ids, order = send(WebhookFaults{Reorder: 0.5, Seed: 2, DelayMs: 10})
	sorted := true
	for i := 1; i < len(order); i++ {
		a, _ := strconv.Atoi(order[i-1])
		b, _ := strconv.Atoi(order[i])
		sorted = sorted && a < b
	}
	if len(ids) != 40 || sorted {
		t.Errorf("reordered: %d ids, in order %v", len(ids), order)
	}
	w.must(w.SetWebhookFaults(WebhookFaults{}))
}

func TestOnlySubscribedEventsAreSent(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, func(c *Config) { c.Events = []string{"push"} })
	w.repo(NewRepo{Owner: "acme", Name: "app"})
	w.pull("a.txt", "a\n")
	w.app.wait(t, "push", "", nil)
	w.delivered()
	if n := len(w.app.all("pull_request", "")); n != 0 {
		t.Errorf("%d pull_request events", n)
	}
}
