package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"signalbox/account"
	"signalbox/queue"
)

// need is what it takes to use a route.
type need int

const (
	nothing  need = iota // anybody
	signedIn             // anybody who has signed in; what is shown depends on their rights
	reader               // read access to the repository
	writer               // write access
	admin                // an administrator of the repository
	owner                // an administrator of every repository of the organisation
)

// access has a row for every route of the pages, as the router has it.
var access = map[string]need{
	"GET /":                                       signedIn,
	"GET /live":                                   signedIn,
	"GET /q/:host/:owner/:name":                   reader,
	"GET /q/:host/:owner/:name/live":              reader,
	"GET /q/:host/:owner/:name/pr/:number":        reader,
	"GET /q/:host/:owner/:name/run/:run":          reader,
	"GET /q/:host/:owner/:name/settings":          reader,
	"GET /q/:host/:owner/:name/health":            reader,
	"GET /q/:host/:owner/:name/health.csv":        reader,
	"GET /q/:host/:owner/:name/endings":           reader,
	"POST /q/:host/:owner/:name/pr/:number/:deed": writer,
	"POST /q/:host/:owner/:name/submit":           writer,
	"POST /q/:host/:owner/:name/look":             writer,
	"POST /q/:host/:owner/:name/state":            admin,
	"POST /q/:host/:owner/:name/settings":         admin,
	"GET /q/:host/:owner/:name/tests":             reader,
	"GET /q/:host/:owner/:name/tests/:test":       reader,
	"GET /q/:host/:owner/:name/uploads":           reader,
	"GET /q/:host/:owner/:name/uploads/:upload":   reader,
	"POST /q/:host/:owner/:name/tests/:test":      writer,
	"POST /q/:host/:owner/:name/tests":            admin,
	"POST /q/:host/:owner/:name/create":           admin,
	"GET /orgs/:org/tokens":                       owner,
	"GET /orgs/:org/audit":                        owner,
	"GET /orgs/:org/subscribers":                  owner,
	"GET /orgs/:org/subscribers/:id":              owner,
	"POST /orgs/:org/subscribers":                 owner,
	"POST /orgs/:org/subscribers/:id":             owner,
	"POST /orgs/:org/tokens":                      owner,
	"POST /orgs/:org/tokens/revoke":               owner,
	"GET /sign-in":                                nothing,
	"GET /auth/start":                             nothing,
	"GET /auth/callback":                          nothing,
	"POST /auth/sign-out":                         signedIn,
	"GET /assets/:file":                           nothing,
	"GET /docs/*path":                             nothing,
}

// registered are the routes of a handler, read from its router itself, so that
// none can be left out.
func registered(t *testing.T, h *Handler) []string {
	t.Helper()
	var all []string
	var walk func(method, path string, node reflect.Value)
	walk = func(method, path string, node reflect.Value) {
		node = node.Elem()
		path += node.FieldByName("path").String()
		if !node.FieldByName("handle").IsNil() {
			all = append(all, method+" "+path)
		}
		for children, i := node.FieldByName("children"), 0; i < children.Len(); i++ {
			walk(method, path, children.Index(i))
		}
	}
	trees := reflect.ValueOf(h.router).Elem().FieldByName("trees")
	for _, method := range trees.MapKeys() {
		walk(method.String(), "", trees.MapIndex(method))
	}
	slices.Sort(all)
	return all
}

// address is a request's for a route of the town: #12 in the queue of release/1.2.
func address(route string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	path = strings.NewReplacer(":host", "github.com", ":owner", "acme", ":name", "app", ":number", "12", ":deed", "cancel",
		":run", "run-two", ":org", "acme", ":id", "one", ":test", testNumber(1).String(), ":upload", "13", "*path", "").Replace(path)
	if strings.HasPrefix(path, "/q/") {
		path += "?branch=release%2F1.2&from=1772323200&until=1772409600"
	}
	return method, path
}

// forms are what the deeds take.
var forms = map[string]url.Values{
	"POST /q/:host/:owner/:name/tests":       {"automatic": {"on"}},
	"POST /q/:host/:owner/:name/tests/:test": {"setting": {"never"}, "reason": {"it finds bugs"}},
	"POST /q/:host/:owner/:name/create":      {"branch": {"next"}},
	"POST /q/:host/:owner/:name/submit":      {"number": {"77"}},
	"POST /q/:host/:owner/:name/state":       {"state": {"paused"}},
	"POST /q/:host/:owner/:name/settings":    {"was.concurrency": {"2"}, "concurrency": {"3"}},
	"POST /orgs/:org/tokens":                 {"name": {"x"}, "scope": {"read"}},
	"POST /orgs/:org/tokens/revoke":          {"id": {"1"}},
	"POST /orgs/:org/subscribers":            {"name": {"x"}, "kind": {"webhook"}, "url": {"https://x.example/"}, "events": {"pull_request.merged"}},
	"POST /orgs/:org/subscribers/:id":        {"deed": {"delete"}},
}

// Who may use which page, and do what: every route, by everybody. Whoever may
// not is told nothing, and nothing happens.
func TestEveryRouteIsClosedToWhoeverMayNotUseIt(t *testing.T) {
	t.Parallel()
	visitors := []struct {
		name, login string
		has         need
	}{
		{"nobody", "", nothing}, {"a session that has expired", "", nothing}, {"a session that nobody has", "", nothing},
		{"a stranger", eve, signedIn}, {"a reader", rhea, reader}, {"a writer", will, writer}, {"an administrator", ada, admin},
		{"an administrator of everything", ada, owner},
	}
	routes := registered(t, guarded(t, town()).h)
	for route := range access {
		if !slices.Contains(routes, route) {
			t.Errorf("%s has a row and does not exist", route)
		}
	}
	for _, route := range routes {
		needs, known := access[strings.Replace(route, "HEAD ", "GET ", 1)]
		if !known {
			t.Errorf("%s has no row: say who may use it", route)
			continue
		}
		for _, who := range visitors {
			w := town()
			w.repos = []queue.Repo{{ID: 1, Installation: 9}}
			if who.has < owner {
				w.repos = append(w.repos, queue.Repo{ID: 2, Installation: 9}) // which nobody may see
			}
			v := guarded(t, w)
			switch {
			case who.login != "":
				v.comeIn(who.login, "/")
			case who.name != "nobody":
				name := v.h.cookieName(sessionCookie)
				v.cookies[name] = &http.Cookie{Name: name, Value: "anything"}
				if who.name == "a session that has expired" {
					w.sessions[account.Hash("anything")] = session{queue.Actor{Login: ada, ID: 3}, noon}
				}
			}
			status, changed := use(v, w, route, who.login != "")
			if may := who.has >= needs; may != allowed(status) {
				t.Errorf("%s by %s: status %d", route, who.name, status)
			} else if changed && !may {
				t.Errorf("%s by %s changed something", route, who.name)
			}
		}
	}
}

// allowed reports whether a status is one of somebody who may. Who has not
// signed in is led to where one does.
func allowed(status int) bool {
	return !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusFound}, status)
}

// use sends a visitor's request, as a page of ours would. It reports the status
// and whether anything has changed.
func use(v *visit, w *world, route string, signed bool) (status int, changed bool) {
	method, path := address(route)
	for name := range v.h.pages.assets {
		path = strings.Replace(path, ":file", name, 1)
	}
	form := url.Values{}
	for name, value := range forms[route] {
		form[name] = value
	}
	if signed && method == http.MethodPost {
		form.Set("csrf", v.csrf("/"))
	}
	tokens := len(w.tokens)
	gone, cancel := context.WithCancel(context.Background())
	cancel() // streams end at once
	r := httptest.NewRequestWithContext(gone, method, path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	answer := v.send(r)
	status = answer.Code
	to := answer.Header().Get("Location")
	public := strings.Contains(route, "/auth/start") || strings.Contains(route, "/auth/callback") || strings.Contains(route, "/sign-in")
	if status == http.StatusFound && (public || !strings.HasPrefix(to, "/sign-in")) || public && status != http.StatusNotFound {
		status = http.StatusOK // it leads where it should, or says why there is no sign-in to finish
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return status, len(w.wishes) > 0 || len(w.tokens) != tokens || !w.tokens[0].RevokedAt.IsZero() || w.tests.changed() || w.told.changed()
}

// Every deed by somebody who may do it, sent by somebody else in their name.
func TestNoDeedIsDoneForAnotherSite(t *testing.T) {
	t.Parallel()
	for route, needs := range access {
		if !strings.HasPrefix(route, "POST ") {
			continue
		}
		for name, spoil := range map[string]func(url.Values, http.Header){
			"without our token":           func(form url.Values, _ http.Header) { form.Del("csrf") },
			"with another token":          func(form url.Values, _ http.Header) { form.Set("csrf", "x") },
			"from another site":           func(_ url.Values, h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
			"from another site's subpage": func(_ url.Values, h http.Header) { h.Set("Sec-Fetch-Site", "same-site") },
			"from an older browser": func(_ url.Values, h http.Header) {
				h.Del("Sec-Fetch-Site")
				h.Set("Origin", "https://evil.example")
			},
		} {
			w := town()
			w.repos = []queue.Repo{{ID: 1, Installation: 9}}
			v := guarded(t, w)
			v.comeIn(ada, "/")
			sessions, tokens := len(w.sessions), len(w.tokens)
			_, path := address(route)
			form, header := url.Values{"csrf": {v.csrf("/")}}, http.Header{"Sec-Fetch-Site": {"same-origin"}}
			for field, value := range forms[route] {
				form[field] = value
			}
			spoil(form, header)
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
			r.Header = header
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if answer := v.send(r); answer.Code != http.StatusForbidden || len(w.wishes) > 0 || w.tests.changed() || w.told.changed() || len(w.sessions) != sessions || len(w.tokens) != tokens {
				t.Errorf("%s (%d) %s: status %d, wishes %v", route, needs, name, answer.Code, w.wishes)
			}
		}
	}
}
