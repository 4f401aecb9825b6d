package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// People sign in, see what they may see, do what they may do, and nobody does
// it in their name.

// door is a SignIn where everybody who knows the verifier is who the code says.
type door struct{ verifiers map[string]string }

func (d *door) AuthURL(state, verifier, back string) string {
	d.verifiers[state] = verifier
	return "https://github.example/login?" + url.Values{"state": {state}, "redirect_uri": {back}}.Encode()
}

func (d *door) Identify(_ context.Context, code, verifier, _ string) (queue.Actor, error) {
	for _, v := range d.verifiers {
		if v == verifier && code != "wrong" {
			return queue.Actor{Login: code, ID: int64(len(code))}, nil
		}
	}
	return queue.Actor{}, errors.New("who is this?")
}

// visit is a browser at the pages.
type visit struct {
	t       *testing.T
	h       *Handler
	cookies map[string]*http.Cookie
}

// guarded are pages where people sign in.
func guarded(t *testing.T, w *world) *visit {
	t.Helper()
	h, err := New(Config{
		Store: w, Subscribers: w.told, Host: w, SignIn: &door{verifiers: map[string]string{}}, BaseURL: "https://signalbox.example.com", Clock: func() time.Time { return noon },
		Docs: fstest.MapFS{"README.md": {Data: []byte("# Documents\n")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &visit{t: t, h: h, cookies: map[string]*http.Cookie{}}
}

func (v *visit) send(r *http.Request) *httptest.ResponseRecorder {
	v.t.Helper()
	r.Host = "signalbox.example.com"
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || !strings.HasPrefix(c.Name, "__Host-") || c.Path != "/" || c.Domain != "" {
			v.t.Errorf("a cookie that others can get at: %s", c)
		}
		v.cookies[c.Name] = c
		if c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	return w
}

func (v *visit) get(path string) *httptest.ResponseRecorder {
	v.t.Helper()
	return v.send(httptest.NewRequest(http.MethodGet, path, nil))
}

func (v *visit) post(path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	v.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return v.send(r)
}

// comeIn signs somebody in; the number of a person is the length of the name.
func (v *visit) comeIn(login, to string) *httptest.ResponseRecorder {
	v.t.Helper()
	state := v.start(to)
	return v.get("/auth/callback?" + url.Values{"code": {login}, "state": {state}}.Encode())
}

func (v *visit) start(to string) (state string) {
	v.t.Helper()
	answer := v.get("/auth/start?to=" + url.QueryEscape(to))
	there, err := url.Parse(answer.Header().Get("Location"))
	if err != nil || there.Host != "github.example" || there.Query().Get("redirect_uri") != "https://signalbox.example.com/auth/callback" {
		v.t.Fatalf("led to %s", there)
	}
	return there.Query().Get("state")
}

// csrf is what the forms of a page carry.
func (v *visit) csrf(path string) string {
	v.t.Helper()
	_, rest, found := strings.Cut(v.get(path).Body.String(), `name="csrf" value="`)
	if !found {
		v.t.Fatalf("%s has no form", path)
	}
	token, _, _ := strings.Cut(rest, `"`)
	return token
}

const (
	ada  = "ada"     // 3: an administrator
	will = "will"    // 4: may write
	rhea = "reads"   // 5: may read
	eve  = "strange" // 7: a stranger
)

func town() *world {
	w := newWorld()
	for i := range w.queues {
		w.queues[i].Repo.Installation = 9
	}
	w.bare.Installation = 9
	w.people = map[int64]account.Right{3: account.AdminRight, 4: account.WriteRight, 5: account.ReadRight}
	w.secret = map[queue.RepoID]bool{2: true} // acme/lib
	return w
}

func TestWhoHasNotSignedInSeesNothing(t *testing.T) {
	t.Parallel()
	v := guarded(t, town())
	for name, path := range everyPage {
		if name == "no_such_page" {
			continue
		}
		answer := v.get(path)
		if to := answer.Header().Get("Location"); answer.Code != http.StatusFound || to != "/sign-in?to="+url.QueryEscape(path) {
			t.Errorf("%s: status %d, led to %q", name, answer.Code, to)
		}
	}
	stream := httptest.NewRequest(http.MethodGet, "/live", nil)
	stream.Header.Set("Accept", "text/event-stream")
	if answer := v.send(stream); answer.Code != http.StatusUnauthorized {
		t.Errorf("the stream: status %d", answer.Code)
	}
	if answer := v.post("/q/github.com/acme/app/pr/12/cancel?branch=main", nil); answer.Code != http.StatusUnauthorized {
		t.Errorf("a deed: status %d", answer.Code)
	}
	if page := v.get("/sign-in?to=/q/x").Body.String(); !strings.Contains(page, `href="/auth/start?to=%2Fq%2Fx"`) {
		t.Errorf("no way in:\n%s", page)
	}
}

func TestSomebodySignsInAndOut(t *testing.T) {
	t.Parallel()
	w := town()
	v := guarded(t, w)
	if answer := v.comeIn(ada, everyPage["queue"]); answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != everyPage["queue"] {
		t.Fatalf("status %d, led to %q", answer.Code, answer.Header().Get("Location"))
	}
	secret := v.cookies["__Host-signalbox"].Value
	if _, kept := w.sessions[account.Hash(secret)]; len(secret) < 40 || !kept || len(v.cookies) != 1 {
		t.Errorf("secret %q, cookies %v", secret, v.cookies)
	}
	if page := v.get("/").Body.String(); !strings.Contains(page, "@ada") || strings.Contains(page, secret) {
		t.Errorf("the page does not know her, or tells her secret:\n%s", page)
	}
	token := v.csrf("/")
	if answer := v.post("/auth/sign-out", url.Values{}); answer.Code != http.StatusForbidden {
		t.Errorf("signed out by somebody else: status %d", answer.Code)
	}
	if answer := v.post("/auth/sign-out", url.Values{"csrf": {token}}); answer.Code != http.StatusSeeOther || len(w.sessions) != 0 || len(v.cookies) != 0 {
		t.Errorf("status %d, %d sessions, cookies %v", answer.Code, len(w.sessions), v.cookies)
	}
	v.cookies["__Host-signalbox"] = &http.Cookie{Name: "__Host-signalbox", Value: secret}
	if answer := v.get("/"); answer.Code != http.StatusFound {
		t.Errorf("the secret still works: status %d", answer.Code)
	}
}

func TestASignInThatNobodyBeganHereIsRefused(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*visit) *httptest.ResponseRecorder{
		"without a beginning": func(v *visit) *httptest.ResponseRecorder { return v.get("/auth/callback?code=ada&state=x") },
		"with another state": func(v *visit) *httptest.ResponseRecorder {
			v.start("/")
			return v.get("/auth/callback?code=ada&state=x")
		},
		"with an empty state": func(v *visit) *httptest.ResponseRecorder { v.start("/"); return v.get("/auth/callback?code=ada") },
		"without a code":      func(v *visit) *httptest.ResponseRecorder { return v.get("/auth/callback?state=" + v.start("/")) },
		"when the person says no": func(v *visit) *httptest.ResponseRecorder {
			return v.get("/auth/callback?error=access_denied&state=" + v.start("/"))
		},
		"with a wrong code": func(v *visit) *httptest.ResponseRecorder {
			return v.get("/auth/callback?code=wrong&state=" + v.start("/"))
		},
		"with a broken cookie": func(v *visit) *httptest.ResponseRecorder {
			state := v.start("/")
			v.cookies["__Host-signalbox-sign-in"].Value = "x"
			return v.get("/auth/callback?code=ada&state=" + state)
		},
		"twice with one state": func(v *visit) *httptest.ResponseRecorder {
			state := v.start("/")
			v.get("/auth/callback?code=ada&state=" + state)
			delete(v.cookies, "__Host-signalbox")
			return v.get("/auth/callback?code=ada&state=" + state)
		},
	} {
		v := guarded(t, town())
		answer := do(v)
		if answer.Code < 400 || v.cookies["__Host-signalbox"] != nil {
			t.Errorf("%s: status %d, cookies %v", name, answer.Code, v.cookies)
		}
	}
}

// Wherever a link to our sign-in says to go afterwards, it is one of our pages.
func TestNoLinkOfOursLeadsElsewhere(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/q/a/b/c?branch=x%2Fy&all=1": "/q/a/b/c?branch=x%2Fy&all=1", "/a%2Fb": "/a%2Fb", "": "/",
		"https://evil.example/": "/", "//evil.example/": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "javascript:alert(1)": "/",
		"/\t/evil.example": "/", "http:/evil.example": "/", "evil.example": "/", "///evil.example": "/", "/%zz": "/", "/%2Fevil.example": "/",
		"/x#y": "/x", "/" + strings.Repeat("x", 3000): "/", "//": "/", "https:evil.example": "/", "@evil.example": "/",
	} {
		if got := localPath(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
		v := guarded(t, town())
		answer := v.comeIn(ada, to)
		if got := answer.Header().Get("Location"); got != want {
			t.Errorf("after the sign-in %q leads to %q, want %q", to, got, want)
		}
	}
}

func TestPeopleSeeWhatTheyMayRead(t *testing.T) {
	t.Parallel()
	w := town()
	v := guarded(t, w)
	v.comeIn(rhea, "/")
	page := v.get("/").Body.String()
	if !strings.Contains(page, "acme/app") || strings.Contains(page, "acme/lib") {
		t.Errorf("a reader of acme/app sees:\n%s", readable(page))
	}
	if answer := v.get("/q/github.com/acme/lib?branch=main"); answer.Code != http.StatusNotFound || strings.Contains(answer.Body.String(), "lib") {
		t.Errorf("a repository that she may not read: status %d", answer.Code)
	}
	if answer := v.get("/q/github.com/acme/lib/live?branch=main"); answer.Code != http.StatusNotFound {
		t.Errorf("its stream: status %d", answer.Code)
	}
	if page := v.get(everyPage["pr_testing"]).Body.String(); strings.Contains(page, "<select") {
		t.Error("a reader is offered deeds")
	}
	stranger := guarded(t, w)
	stranger.comeIn(eve, "/")
	for name, path := range everyPage {
		if body := stranger.get(path).Body.String(); strings.Contains(body, "Add the signal") || strings.Contains(body, "release/1.2 ") {
			t.Errorf("a stranger sees %s", name)
		}
	}
	// The host is away: who could read lately still can.
	w.mu.Lock()
	w.hostAway = errors.New("no answer")
	w.mu.Unlock()
	if answer := v.get(everyPage["queue"]); answer.Code != http.StatusOK {
		t.Errorf("while the host is away: status %d", answer.Code)
	}
	other := guarded(t, w)
	other.comeIn(rhea, "/")
	if answer := other.get(everyPage["queue"]); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("somebody of whom nothing is known, while the host is away: status %d", answer.Code)
	}
}

func TestPeopleDoWhatTheyMay(t *testing.T) {
	t.Parallel()
	const pr, branch = "/q/github.com/acme/app/pr/12/", "?branch=release%2F1.2"
	tests := []struct {
		name, who, path string
		form            url.Values
		status          int
		want            string // the wish, by what it says
	}{
		{"a writer cancels", will, pr + "cancel", nil, 303, "cancel_requested 12 by @will user"},
		{"a writer restarts", will, pr + "restart", nil, 303, "restart_requested 12 by @will user"},
		{"a writer submits", will, pr + "submit", url.Values{"priority": {""}, "alone": {"1"}}, 303, "submitted 12 by @will user 100 false true false"},
		{"a writer gives a priority", will, pr + "priority", url.Values{"priority": {"high"}}, 303, "submitted 12 by @will user 10 true false false"},
		{"an administrator makes it urgent", ada, pr + "priority", url.Values{"priority": {"urgent"}}, 303, "submitted 12 by @ada user 0 true false false"},
		{"an administrator forces", ada, pr + "submit", url.Values{"force": {"1"}}, 303, "submitted 12 by @ada user 100 false false true"},
		{"a writer submits from the queue's page", will, "/q/github.com/acme/app/submit", url.Values{"number": {"77"}}, 303, "submitted 77 by @will user 100 false false false"},
		{"a writer may not make it urgent", will, pr + "priority", url.Values{"priority": {"0"}}, 403, ""},
		{"a writer may not force", will, pr + "submit", url.Values{"force": {"1"}}, 403, ""},
		{"a reader may not cancel", rhea, pr + "cancel", nil, 403, ""},
		{"a reader may not submit", rhea, pr + "submit", nil, 403, ""},
		{"a stranger finds nothing", eve, pr + "cancel", nil, 404, ""},
		{"a priority that is none", will, pr + "priority", url.Values{"priority": {"256"}}, 400, ""},
		{"a deed that is none", will, pr + "explode", nil, 404, ""},
		{"a number that is none", will, "/q/github.com/acme/app/submit", url.Values{"number": {"-1"}}, 400, ""},
		{"a pull request that the host has not", will, "/q/github.com/acme/app/submit", url.Values{"number": {"4711"}}, 404, ""},
	}
	for _, tt := range tests {
		w := town()
		v := guarded(t, w)
		v.comeIn(tt.who, "/")
		form := url.Values{"csrf": {v.csrf("/")}}
		for k, values := range tt.form {
			form[k] = values
		}
		answer := v.post(tt.path+branch, form)
		if answer.Code != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, answer.Code, tt.status, readable(answer.Body.String()))
		}
		if got := wishes(w); got != tt.want {
			t.Errorf("%s: wished %q, want %q", tt.name, got, tt.want)
		}
		if answer.Code == 303 && !strings.HasPrefix(answer.Header().Get("Location"), "/q/github.com/acme/app/pr/") {
			t.Errorf("%s: led to %q", tt.name, answer.Header().Get("Location"))
		}
	}
}

func TestWhatTheQueueRefusesIsSaid(t *testing.T) {
	t.Parallel()
	w := town()
	w.answer = queue.Answer{Refused: queue.RefusedLanding, Message: "It is landing <at> this moment."}
	v := guarded(t, w)
	v.comeIn(will, "/")
	answer := v.post("/q/github.com/acme/app/pr/12/cancel?branch=release%2F1.2", url.Values{"csrf": {v.csrf("/")}})
	if body := answer.Body.String(); answer.Code != http.StatusConflict || !strings.Contains(body, "It is landing &lt;at&gt; this moment.") ||
		!strings.Contains(body, `href="/q/github.com/acme/app/pr/12?branch=release%2F1.2"`) {
		t.Errorf("status %d: %s", answer.Code, body)
	}
}

// A form counts only when it was sent from a page of ours, in this session.
func TestNobodyActsInAnothersName(t *testing.T) {
	t.Parallel()
	const path = "/q/github.com/acme/app/pr/12/cancel?branch=release%2F1.2"
	w := town()
	v, other := guarded(t, w), guarded(t, w)
	v.comeIn(will, "/")
	other.comeIn(ada, "/")
	mine, theirs := v.csrf("/"), other.csrf("/")
	for name, answer := range map[string]*httptest.ResponseRecorder{
		"no token":                      v.post(path, nil),
		"an empty token":                v.post(path, url.Values{"csrf": {""}}),
		"the token of somebody else":    v.post(path, url.Values{"csrf": {theirs}}),
		"the token in the address":      v.post(path+"&csrf="+mine, nil),
		"from another site":             v.post(path, url.Values{"csrf": {mine}}, "Sec-Fetch-Site", "cross-site"),
		"from another subdomain":        v.post(path, url.Values{"csrf": {mine}}, "Sec-Fetch-Site", "same-site"),
		"from an old browser elsewhere": v.post(path, url.Values{"csrf": {mine}}, "Sec-Fetch-Site", "", "Origin", "https://evil.example"),
		"a form that is too large":      v.post(path, url.Values{"csrf": {mine}, "x": {strings.Repeat("x", formAtMost)}}),
	} {
		if answer.Code != http.StatusForbidden && answer.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, answer.Code)
		}
	}
	if answer := v.get(path); answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("a link: status %d", answer.Code)
	}
	if got := wishes(w); got != "" {
		t.Errorf("wished %q", got)
	}
	if answer := v.post(path, url.Values{"csrf": {mine}}, "Sec-Fetch-Site", "", "Origin", "https://signalbox.example.com"); answer.Code != http.StatusSeeOther {
		t.Errorf("an old browser, from our page: status %d", answer.Code)
	}
}

// Without sign-in only who sits at the machine acts, and nobody who pretends to.
func TestWithoutSignInOnlyThisMachineActs(t *testing.T) {
	t.Parallel()
	const path = "/q/github.com/acme/app/pr/12/cancel?branch=release%2F1.2"
	tests := []struct {
		name, from, host string
		header           string
		local            bool // as the service is configured
		may              bool
	}{
		{"at the machine", "127.0.0.1:5", "127.0.0.1:8080", "", true, true},
		{"by its name", "[::1]:5", "localhost", "", true, true},
		{"from elsewhere", "10.0.0.7:5", "127.0.0.1:8080", "", true, false},
		{"through a proxy", "127.0.0.1:5", "127.0.0.1:8080", "X-Forwarded-For", true, false},
		{"by somebody else's name", "127.0.0.1:5", "evil.example", "", true, false},
		{"where it is not allowed", "127.0.0.1:5", "127.0.0.1:8080", "", false, false},
	}
	for _, tt := range tests {
		w := town()
		h, err := New(Config{Store: w, Host: w, Local: tt.local, Clock: func() time.Time { return noon }})
		if err != nil {
			t.Fatal(err)
		}
		request := func(method, path, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.RemoteAddr, r.Host = tt.from, tt.host
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if tt.header != "" {
				r.Header.Set(tt.header, "10.0.0.9")
			}
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			return answer
		}
		page := request(http.MethodGet, everyPage["pr_testing"], "")
		if page.Code != http.StatusOK || strings.Contains(page.Body.String(), "<select") != tt.may {
			t.Errorf("%s: status %d, offered deeds: %t", tt.name, page.Code, !tt.may)
		}
		answer := request(http.MethodPost, path, "csrf="+csrfToken(h.secret))
		if (answer.Code == http.StatusSeeOther) != tt.may || (wishes(w) == "cancel_requested 12 by Signalbox admin") != tt.may {
			t.Errorf("%s: status %d, wished %q", tt.name, answer.Code, wishes(w))
		}
	}
}

// Nobody can put our pages into theirs and let people click on them.
func TestPagesStandInNoFrame(t *testing.T) {
	t.Parallel()
	v := guarded(t, town())
	v.comeIn(ada, "/")
	for _, path := range []string{"/", everyPage["pr_testing"], "/sign-in", "/nothing"} {
		head := v.get(path).Header()
		if !strings.Contains(head.Get("Content-Security-Policy"), "frame-ancestors 'none'") || head.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, head)
		}
	}
}
