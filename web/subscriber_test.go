package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// toldWorld are two subscribers of acme: a program that is well, and a channel
// that was switched off.
type toldWorld struct {
	mu    sync.Mutex
	list  []account.Subscriber
	log   []account.Delivery
	deeds []string
	by    account.Author
}

func newTold() *toldWorld {
	return &toldWorld{
		list: []account.Subscriber{
			{ID: "one", Kind: account.WebhookSubscriber, Name: "deploys", Address: "https://deploy.example/…", Events: []string{"pull_request.merged"}, Enabled: true,
				Repositories: []account.Watched{{ID: 1, Host: "github.com", Owner: "acme", Name: "app"}}, Health: account.Health{DeliveredAt: noon.Add(-time.Minute)}},
			{ID: "two", Kind: account.SlackSubscriber, Name: "#app " + hostile, Address: "https://hooks.slack.com/…", Events: []string{"*"}, Why: "It answered 410 Gone: it wants no deliveries any more."},
		},
		log: []account.Delivery{
			{ID: 9, Type: "pull_request.failed", At: noon.Add(-time.Minute), State: account.Waiting, NextAt: noon.Add(time.Minute), Tries: []account.Try{{At: noon, Milliseconds: 12, Error: "The server refused the connection."}}},
			{ID: 8, Type: "pull_request.merged", At: noon.Add(-time.Hour), State: account.Delivered, Again: true, Tries: []account.Try{{At: noon.Add(-time.Hour), Status: 200, Milliseconds: 7, Answer: hostile}}},
		},
	}
}

func (w *toldWorld) did(ctx context.Context, deed string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deeds, w.by = append(w.deeds, deed), account.AuthorOf(ctx)
}

func (w *toldWorld) changed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.deeds) > 0
}

func (w *toldWorld) EventKinds() []account.EventKind {
	return []account.EventKind{{Type: "pull_request.merged", Topic: "Pull requests", About: "It is on the target branch."}, {Type: "queue.state_changed", Topic: "Queues", About: "A queue was paused."}}
}

func (w *toldWorld) Create(ctx context.Context, _ int64, want account.Subscriber, address string) (account.Subscriber, string, error) {
	if !strings.HasPrefix(address, "https://") {
		return want, "", account.Invalid("The address must begin with https://.")
	}
	repos := ""
	for _, r := range want.Repositories {
		repos += " " + r.Name
	}
	w.did(ctx, "create "+want.Name+" "+strings.Join(want.Events, " ")+repos)
	return want, "whsec_fresh", nil
}

func (w *toldWorld) List(context.Context, int64) ([]account.Subscriber, error) { return w.list, nil }

func (w *toldWorld) Find(_ context.Context, _ int64, id string) (account.Subscriber, error) {
	for _, s := range w.list {
		if s.ID == id {
			return s, nil
		}
	}
	return account.Subscriber{}, queue.ErrNotFound
}

func (w *toldWorld) Change(ctx context.Context, _ int64, id string, address *string, change func(*account.Subscriber)) (account.Subscriber, error) {
	s, err := w.Find(ctx, 0, id)
	if err != nil {
		return s, err
	}
	change(&s)
	if len(s.Events) == 0 {
		return s, account.Invalid("Choose at least one event.")
	}
	deed := map[bool]string{true: "on ", false: "off "}[s.Enabled] + id + " " + s.Name + " " + strings.Join(s.Events, " ")
	for _, r := range s.Repositories {
		deed += " " + r.Name
	}
	if address != nil {
		deed += " at " + *address
	}
	w.did(ctx, deed)
	return s, nil
}

func (w *toldWorld) Rotate(ctx context.Context, _ int64, id string) (string, error) {
	w.did(ctx, "rotate "+id)
	return "whsec_rotated", nil
}

func (w *toldWorld) Delete(ctx context.Context, _ int64, id string) error {
	w.did(ctx, "delete "+id)
	return nil
}

func (w *toldWorld) Test(ctx context.Context, _ account.Organization, id string) (account.Delivery, error) {
	w.did(ctx, "test "+id)
	return account.Delivery{}, nil
}

func (w *toldWorld) Deliveries(_ context.Context, _ int64, _ string, below int64, take int) ([]account.Delivery, error) {
	var list []account.Delivery
	for _, d := range w.log {
		if (below == 0 || d.ID < below) && len(list) < take {
			list = append(list, d)
		}
	}
	return list, nil
}

func (w *toldWorld) Redeliver(ctx context.Context, _ int64, id string, number int64) (account.Delivery, error) {
	if number != 8 {
		return account.Delivery{}, queue.ErrNotFound
	}
	w.did(ctx, "redeliver "+id)
	return account.Delivery{}, nil
}

func (w *toldWorld) Sent(account.SubscriberKind, account.Organization, account.Delivery) ([]byte, error) {
	return []byte(`{"text":"` + hostile + `"}`), nil
}

// Administrators of everything say who is told what, and see what became of it.
// Secrets are shown once; nothing that comes from outside becomes markup.
func TestAdministratorsSayWhoIsTold(t *testing.T) {
	t.Parallel()
	w := town()
	w.repos = []queue.Repo{{ID: 1, Host: "github.com", Owner: "acme", Name: "app", Installation: 9}}
	v := guarded(t, w)
	v.comeIn(ada, "/")
	const page = "/orgs/acme/subscribers"
	list := v.get(page).Body.String()
	for _, want := range []string{"deploys", "https://deploy.example/…", "acme/app", "410 Gone", `value="queue.state_changed"`, "It is on the target branch."} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	one := v.get(page + "/one").Body.String()
	for _, want := range []string{"The server refused the connection.", "status 200", "once more", "waiting", "Deliver again"} {
		if !strings.Contains(one, want) {
			t.Errorf("the page of one lacks %q", want)
		}
	}
	if strings.Contains(list+one, "<script>alert") || strings.Contains(list+one, "<img src=x") {
		t.Error("what came from outside is markup")
	}
	if n := strings.Count(one, `value="redeliver"`); n != 1 {
		t.Errorf("%d deliveries can be asked for again, want the one that has ended", n)
	}
	csrf := v.csrf(page)
	send := func(path string, form url.Values) (int, string) {
		form.Set("csrf", csrf)
		answer := v.post(path, form)
		return answer.Code, answer.Header().Get("Location") + answer.Body.String()
	}
	form := url.Values{"name": {"ops"}, "kind": {"webhook"}, "url": {"https://x.example/"}, "events": {"pull_request.merged", "queue.state_changed"}, "repos": {"1"}}
	if code, body := send(page, form); code != http.StatusOK || strings.Count(body, "whsec_fresh") != 1 {
		t.Errorf("made: %d", code)
	}
	form.Set("url", " https://x.example/"+strings.Repeat("x", 1000))
	if code, _ := send(page, form); code != http.StatusOK {
		t.Errorf("a long address: %d", code)
	}
	for name, spoil := range map[string][2]string{"no https": {"url", "http://x.example/"}, "no name": {"name", ""}, "a repository of others": {"repos", "2"}} {
		wrong := url.Values{}
		for k, value := range form {
			wrong[k] = value
		}
		wrong[spoil[0]] = []string{spoil[1]}
		if code, _ := send(page, wrong); code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, code)
		}
	}
	for field, want := range map[string]int{`value="pull_request.merged" checked`: 1, `value="1" checked`: 1, " checked": 2, `name="name" required maxlength="100" value="deploys"`: 1, `value="queue.*"`: 1, `value="*"`: 1} {
		if n := strings.Count(one, field); n != want {
			t.Errorf("the form of changes has %d times %s, want %d", n, field, want)
		}
	}
	for _, changed := range []struct {
		form url.Values
		want int
	}{
		{url.Values{"name": {"ops"}, "events": {"*"}, "repos": {"1"}, "url": {" "}}, http.StatusSeeOther},
		{url.Values{"name": {"ops"}, "events": {"queue.*"}, "url": {"https://y.example/"}}, http.StatusSeeOther},
		{url.Values{"name": {"ops"}}, http.StatusBadRequest},
		{url.Values{"name": {""}, "events": {"*"}}, http.StatusBadRequest},
		{url.Values{"name": {"ops"}, "events": {"*"}, "repos": {"2"}}, http.StatusBadRequest},
	} {
		changed.form.Set("deed", "change")
		if code, _ := send(page+"/one", changed.form); code != changed.want {
			t.Errorf("changed to %v: %d, want %d", changed.form, code, changed.want)
		}
	}
	for _, deed := range []string{"test", "off", "on", "delete"} {
		if code, to := send(page+"/one", url.Values{"deed": {deed}}); code != http.StatusSeeOther || said[mustQuery(t, to, "done")] == "" {
			t.Errorf("%s: %d, led to %s", deed, code, to)
		}
	}
	if code, body := send(page+"/one", url.Values{"deed": {"rotate"}}); code != http.StatusOK || strings.Count(body, "whsec_rotated") != 1 {
		t.Errorf("a new secret: %d", code)
	}
	for number, want := range map[string]int{"8": http.StatusSeeOther, "7": http.StatusNotFound, "x": http.StatusNotFound} {
		if code, _ := send(page+"/one", url.Values{"deed": {"redeliver"}, "delivery": {number}}); code != want {
			t.Errorf("delivery %s again: %d", number, code)
		}
	}
	if code, _ := send(page+"/one", url.Values{"deed": {"explode"}}); code != http.StatusNotFound {
		t.Errorf("a deed that there is not: %d", code)
	}
	if got, want := strings.Join(w.told.deeds, ", "), "create ops pull_request.merged queue.state_changed app, create ops pull_request.merged queue.state_changed app, on one ops * app, on one ops queue.* at https://y.example/, "+
		"test one, off one deploys pull_request.merged app, on one deploys pull_request.merged app, delete one, rotate one, redeliver one"; got != want || w.told.by.Login != ada {
		t.Errorf("done: %s by %s, want %s", got, w.told.by, want)
	}
	if code := v.get(page + "/three").Code; code != http.StatusNotFound {
		t.Errorf("nobody's page: %d", code)
	}
}

func mustQuery(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}
