package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"signalbox/account"
)

// A stranger who reaches a server that has no App yet gets nowhere: not without
// the one-time code, not by guessing it, and not with a visit that began
// elsewhere. The host's code is traded once.

func newSetUp(t *testing.T) (s *SetUp, traded, kept *int) {
	t.Helper()
	traded, kept = new(int), new(int)
	s, err := NewSetUp(SetUpConfig{
		Code: "right", HostURL: "https://host.example", BaseURL: "https://box.example", Manifest: map[string]any{"name": "Signalbox", "url": "x"},
		Exchange: func(_ context.Context, code string) (account.App, error) {
			*traded++
			if code != "fresh" {
				return account.App{}, errors.New("no such code: secret")
			}
			return account.App{ID: 7, Slug: "box", PEM: "key"}, nil
		},
		Keep: func(context.Context, account.App) error { *kept++; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, traded, kept
}

func (s *SetUp) ask(method, target, cookie string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: setUpCookie, Value: cookie})
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestOnlyTheVisitThatBeganHereMakesTheApp(t *testing.T) {
	t.Parallel()
	s, traded, kept := newSetUp(t)
	for _, path := range []string{"/webhook", "/v1/getQueue", "/readyz"} {
		if w := s.ask("GET", path, "", nil); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := s.ask("POST", "/setup", "", url.Values{"code": {"right"}, "org": {"a/../b"}}); w.Code != http.StatusBadRequest {
		t.Errorf("an organisation of a strange name: %d", w.Code)
	}
	w := s.ask("POST", "/setup", "", url.Values{"code": {" right "}, "org": {"acme"}})
	cookie := w.Result().Cookies()[0]
	state := regexp.MustCompile(`action="https://host\.example/organizations/acme/settings/apps/new\?state=([0-9a-f]+)"`).FindStringSubmatch(w.Body.String())
	if w.Code != 200 || state == nil || !cookie.Secure || !cookie.HttpOnly || !strings.Contains(w.Body.String(), "https://box.example/webhook") {
		t.Fatalf("%d %s %+v", w.Code, w.Body, cookie)
	}
	for what, visit := range map[string][2]string{
		"another state":   {"/setup/callback?code=fresh&state=" + strings.Repeat("0", 48), cookie.Value},
		"another browser": {"/setup/callback?code=fresh&state=" + state[1], strings.Repeat("0", 48)},
		"no browser":      {"/setup/callback?code=fresh&state=" + state[1], ""},
		"no code":         {"/setup/callback?state=" + state[1], cookie.Value},
		"nothing":         {"/setup/callback", ""},
	} {
		if w := s.ask("GET", visit[0], visit[1], nil); w.Code != http.StatusForbidden || *traded != 0 {
			t.Errorf("%s: %d, %d codes traded", what, w.Code, *traded)
		}
	}
	right := "/setup/callback?code=fresh&state=" + state[1]
	for range 2 { // loading the page again changes nothing
		if w := s.ask("GET", right, cookie.Value, nil); w.Code != 200 || !strings.Contains(w.Body.String(), "https://host.example/apps/box/installations/new") || strings.Contains(w.Body.String(), "key</") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	select {
	case <-s.Done():
	default:
		t.Error("it is not done")
	}
	if *traded != 1 || *kept != 1 {
		t.Errorf("%d codes traded, %d Apps kept", *traded, *kept)
	}
}

func TestACodeThatTheHostRefusesCanBeTriedAnew(t *testing.T) {
	t.Parallel()
	s, _, kept := newSetUp(t)
	w := s.ask("POST", "/setup", "", url.Values{"code": {"right"}})
	state := regexp.MustCompile(`apps/new\?state=([0-9a-f]+)"`).FindStringSubmatch(w.Body.String())
	cookie := w.Result().Cookies()[0].Value
	if w := s.ask("GET", "/setup/callback?code=stale&state="+state[1], cookie, nil); w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), "secret") || *kept != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.ask("GET", "/setup/callback?code=fresh&state="+state[1], cookie, nil); w.Code != http.StatusForbidden {
		t.Errorf("a state is good twice: %d", w.Code)
	}
	if w := s.ask("POST", "/setup", "", url.Values{"code": {"right"}}); w.Code != 200 {
		t.Errorf("it cannot begin anew: %d", w.Code)
	}
}

func TestGuessingTheOneTimeCodeEnds(t *testing.T) {
	t.Parallel()
	s, _, _ := newSetUp(t)
	for range setUpTries {
		if w := s.ask("POST", "/setup", "", url.Values{"code": {"wrong"}}); w.Code != http.StatusForbidden {
			t.Fatal(w.Code)
		}
	}
	if w := s.ask("POST", "/setup", "", url.Values{"code": {"right"}}); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Start the server again") {
		t.Errorf("%d", w.Code)
	}
}
