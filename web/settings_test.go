package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"signalbox/account"
	"signalbox/queue"
)

// Administrators change a queue and the tokens of its organisation; what they
// did not touch stays, and everything is in their name.

const settingsPage = "/q/github.com/acme/app/settings?branch=release%2F1.2"

// Every setting that the API can change stands on the page, under its name.
func TestEverySettingStandsOnThePage(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(queue.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	all["landingMode"] = "" // left out while it follows the merge method
	for _, g := range settingGroups {
		for _, d := range g.Defs {
			if _, known := all[d.Name]; !known {
				t.Errorf("%s is no setting", d.Name)
			}
			delete(all, d.Name)
			// What the page shows is what the form takes back.
			q := queue.Queue{Settings: queue.DefaultSettings()}
			var c queue.Change
			if err := d.wish(&c, d.read(&q)); err != nil || d.Label == "" || d.Help == "" {
				t.Errorf("%s: %v", d.Name, err)
			}
			if changed := c.Against(&q); len(changed) != 0 {
				t.Errorf("%s: what is shown would change %v", d.Name, changed)
			}
		}
	}
	for name := range all {
		t.Errorf("%s does not stand on the page", name)
	}
}

// filled is the form of the settings' page as a browser sends it back.
func filled(q *queue.Queue, csrf string, changes map[string]string) url.Values {
	form := url.Values{"csrf": {csrf}}
	for _, g := range settingGroups {
		for _, d := range g.Defs {
			value := d.read(q)
			form.Set("was."+d.Name, strings.ReplaceAll(value, "\n", "\r\n"))
			if c, ok := changes[d.Name]; ok {
				value = c
			}
			if d.Kind != "switch" || value == "true" {
				form.Set(d.Name, strings.ReplaceAll(value, "\n", "\r\n"))
			}
		}
	}
	return form
}

func TestAdministratorsChangeSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, who string
		changes   map[string]string
		status    int
		want      string // the change, as JSON; "" = none was wished
	}{
		{"a number and a switch", ada, map[string]string{"concurrency": "7", "commentsEnabled": "false"}, 303, `{"concurrency":7,"commentsEnabled":false}`},
		{"a switch that was off", ada, map[string]string{"batch": "true"}, 303, `{"batch":true}`},
		{"a list", ada, map[string]string{"requiredStatuses": " build \n\nunit"}, 303, `{"requiredStatuses":["build","unit"]}`},
		{"a choice", ada, map[string]string{"mode": "parallel", "landingMode": "exact"}, 303, `{"mode":"parallel","landingMode":"exact"}`},
		{"nothing", ada, nil, 303, ""},
		{"by a writer", will, map[string]string{"concurrency": "7"}, 403, ""},
		{"a number that is too small", ada, map[string]string{"concurrency": "0"}, 400, ""},
		{"a number that is none", ada, map[string]string{"batchingMinSize": "many"}, 400, ""},
		{"a choice that is none", ada, map[string]string{"mergeMethod": "octopus"}, 400, ""},
		{"a check twice", ada, map[string]string{"requiredStatuses": "a\na"}, 400, ""},
		{"an empty label", ada, map[string]string{"enqueueingLabel": " "}, 400, ""},
	} {
		w := town()
		v := guarded(t, w)
		v.comeIn(tt.who, "/")
		answer := v.post(settingsPage, filled(&w.queues[2], v.csrf("/"), tt.changes))
		if answer.Code != tt.status {
			t.Errorf("%s: status %d: %s", tt.name, answer.Code, readable(answer.Body.String()))
		}
		got := ""
		for _, f := range w.wishes {
			change := f.(queue.ChangeRequested)
			text, _ := json.Marshal(change.Change)
			got = string(text)
			if change.By.Login != tt.who || change.Via != queue.ViaUser {
				t.Errorf("%s: in the name of %s via %s", tt.name, change.By, change.Via)
			}
		}
		if got != tt.want {
			t.Errorf("%s: wished %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAdministratorsPauseAndRun(t *testing.T) {
	t.Parallel()
	const path = "/q/github.com/acme/app/state?branch=release%2F1.2"
	w := town()
	admin, writer := guarded(t, w), guarded(t, w)
	admin.comeIn(ada, "/")
	writer.comeIn(will, "/")
	for _, tt := range []struct {
		who    *visit
		state  string
		status int
	}{{admin, "paused", 303}, {admin, "switching_modes", 400}, {admin, "", 400}, {writer, "paused", 403}} {
		if answer := tt.who.post(path, url.Values{"csrf": {tt.who.csrf("/")}, "state": {tt.state}}); answer.Code != tt.status {
			t.Errorf("state %q: status %d, want %d", tt.state, answer.Code, tt.status)
		}
	}
	if len(w.wishes) != 1 || *w.wishes[0].(queue.ChangeRequested).Change.State != queue.Paused {
		t.Errorf("wished %+v", w.wishes)
	}
	if page := admin.get(everyPage["queue"]).Body.String(); !strings.Contains(page, ">Pause</button>") || strings.Contains(page, ">Run</button>") {
		t.Error("a running queue can be paused, not run")
	}
	if page := writer.get(everyPage["queue"]).Body.String(); strings.Contains(page, ">Pause</button>") {
		t.Error("a writer is offered to pause it")
	}
}

func TestWritersHaveTheSetUpLookedAt(t *testing.T) {
	t.Parallel()
	const path = "/q/github.com/acme/app/look?branch=release%2F1.2"
	w := town()
	w.queues[2].Preflight = w.s.Queue.Preflight
	v, reader := guarded(t, w), guarded(t, w)
	v.comeIn(will, "/")
	reader.comeIn(rhea, "/")
	if answer := v.post(path, url.Values{"csrf": {v.csrf("/")}}); answer.Code != 303 || wishes(w) != "preflight_wanted" {
		t.Errorf("status %d, wished %q", answer.Code, wishes(w))
	}
	if answer := reader.post(path, url.Values{"csrf": {reader.csrf("/")}}); answer.Code != 403 || wishes(w) != "preflight_wanted" {
		t.Errorf("a reader: status %d, wished %q", answer.Code, wishes(w))
	}
	page := readable(v.get(settingsPage).Body.String())
	for _, want := range []string{"fine The branch is there.", "to do The repository does not allow squash.", "Look again"} {
		if !strings.Contains(page, want) {
			t.Errorf("the settings' page has no %q", want)
		}
	}
}

func TestTokensAreMadeAndRevokedByAdministratorsOfEverything(t *testing.T) {
	t.Parallel()
	const page = "/orgs/acme/tokens"
	w := town()
	app, lib := queue.Repo{ID: 1, Installation: 9}, queue.Repo{ID: 2, Installation: 9}
	w.repos = []queue.Repo{app}
	v := guarded(t, w)
	v.comeIn(ada, "/")
	answer := v.post(page, url.Values{"csrf": {v.csrf("/")}, "name": {" deploy <b>"}, "scope": {"submit"}, "days": {"30"}})
	body := answer.Body.String()
	_, rest, found := strings.Cut(body, `<code class="secret">`)
	secret, _, _ := strings.Cut(rest, "<")
	made := w.tokens[len(w.tokens)-1]
	if !found || account.Hash(secret) != w.hash || made.Name != "deploy <b>" || made.Scope != account.Submit || !made.ExpiresAt.Equal(noon.AddDate(0, 0, 30)) {
		t.Fatalf("status %d, made %+v: %s", answer.Code, made, readable(body))
	}
	if w.author != (account.Author{Login: "ada", UserID: 3}) || strings.Contains(body, "<b>") && strings.Contains(body, "deploy <b>") {
		t.Errorf("in the name of %v: %s", w.author, body)
	}
	if again := v.get(page).Body.String(); strings.Contains(again, secret) || !strings.Contains(again, "deploy &lt;b&gt;") {
		t.Error("the secret is shown again, or the token is not listed")
	}
	if answer := v.post(page+"/revoke", url.Values{"csrf": {v.csrf("/")}, "id": {fmt.Sprint(made.ID)}}); answer.Code != 303 || w.tokens[made.ID-1].RevokedAt.IsZero() {
		t.Errorf("status %d, %+v", answer.Code, w.tokens[made.ID-1])
	}
	for name, form := range map[string]url.Values{
		"no name": {"scope": {"read"}}, "a scope that is none": {"name": {"x"}, "scope": {"god"}}, "no time to live": {"name": {"x"}, "scope": {"read"}, "days": {"0"}},
	} {
		form.Set("csrf", v.csrf("/"))
		if answer := v.post(page, form); answer.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, answer.Code)
		}
	}
	count := len(w.tokens)
	refused := func(name string, v *visit) {
		t.Helper()
		csrf := v.csrf("/")
		for what, answer := range map[string]int{
			"the tokens": v.get(page).Code, "the log": v.get("/orgs/acme/audit").Code, "another organisation": v.get("/orgs/other/tokens").Code,
			"making one": v.post(page, url.Values{"csrf": {csrf}, "name": {"x"}, "scope": {"admin"}}).Code,
			"revoking":   v.post(page+"/revoke", url.Values{"csrf": {csrf}, "id": {"1"}}).Code,
		} {
			if answer != http.StatusNotFound {
				t.Errorf("%s: %s: status %d", name, what, answer)
			}
		}
	}
	writer := guarded(t, w)
	writer.comeIn(will, "/")
	refused("a writer", writer)
	w.repos = []queue.Repo{app, lib}
	refused("an administrator of some repositories", v)
	w.repos = nil
	refused("anybody, of an organisation without repositories", v)
	if len(w.tokens) != count || !w.tokens[0].RevokedAt.IsZero() {
		t.Errorf("tokens are now %+v", w.tokens)
	}
}

func TestTheAuditLogIsTurnedPageByPage(t *testing.T) {
	t.Parallel()
	w := town()
	w.repos = []queue.Repo{{ID: 1, Installation: 9}}
	w.audits = nil
	for i := range int64(auditShown + 5) {
		w.audits = append(w.audits, account.Audit{ID: 1000 - i, At: noon, Deed: account.TokenCreated, Subject: fmt.Sprintf("token-%d-%s", i, hostile)})
	}
	v := guarded(t, w)
	v.comeIn(ada, "/")
	first := v.get("/orgs/acme/audit").Body.String()
	_, rest, _ := strings.Cut(first, `<p><a href="/orgs/acme/audit?`)
	older, _, _ := strings.Cut(rest, `"`)
	second := v.get("/orgs/acme/audit?" + older).Body.String()
	if strings.Count(first, "token-") != auditShown || strings.Count(second, "token-") != 5 || strings.Contains(second, "Older") || strings.Contains(first, "<img src=x") {
		t.Errorf("%d lines, then %d by %q", strings.Count(first, "token-"), strings.Count(second, "token-"), older)
	}
}
