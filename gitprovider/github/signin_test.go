package github

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// Somebody signs in: the host's page, its answer, and who it was.

const backThere = "http://127.0.0.1:9/auth/callback"

// agree is a person on the host's page: it returns what the host sends along.
func (w *world) agree(page, login string) url.Values {
	w.t.Helper()
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	address, err := url.Parse(page)
	w.must(err)
	form := address.Query()
	form.Set("login", login)
	answer, err := browser.PostForm(page, form)
	w.must(err)
	defer answer.Body.Close()
	back, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || !strings.HasPrefix(back.String(), backThere) {
		w.t.Fatalf("status %d, led to %q", answer.StatusCode, answer.Header.Get("Location"))
	}
	return back.Query()
}

func TestSomebodySignsIn(t *testing.T) {
	w := newWorld(t)
	w.SetCallback(backThere)
	w.UserToken("ada") // so that she lives there
	id, secret := w.OAuthClient()
	s := w.c.SignIn(id, secret)
	verifier := oauth2.GenerateVerifier()
	identify := func(s *SignIn, answer url.Values, verifier, back string) string {
		who, err := s.Identify(w.ctx, answer.Get("code"), verifier, back)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells the secret: %v", err)
			}
			return "nobody"
		}
		if who.ID == 0 {
			t.Error("who signed in has no number")
		}
		return who.Login
	}
	agreed := func() url.Values { return w.agree(s.AuthURL("the state", verifier, backThere), "ada") }
	answer := agreed()
	if answer.Get("state") != "the state" {
		t.Errorf("the state came back as %q", answer.Get("state"))
	}
	if got := identify(s, answer, verifier, backThere); got != "ada" {
		t.Errorf("%s signed in, not ada", got)
	}
	for name, got := range map[string]string{
		"the same code again":     identify(s, answer, verifier, backThere),
		"a code that was made up": identify(s, url.Values{"code": {"x"}}, verifier, backThere),
		"another verifier":        identify(s, agreed(), verifier+"x", backThere),
		"another address":         identify(s, agreed(), verifier, backThere+"/x"),
		"another secret":          identify(w.c.SignIn(id, "wrong"), agreed(), verifier, backThere),
	} {
		if got != "nobody" {
			t.Errorf("with %s %s signed in", name, got)
		}
	}
	if answer := w.agree(s.AuthURL("x", verifier, backThere), ""); answer.Get("error") != "access_denied" || answer.Get("code") != "" {
		t.Errorf("somebody who does not agree comes back with %v", answer)
	}
}
