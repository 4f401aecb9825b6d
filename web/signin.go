package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// SignIn finds out who a person is by OAuth with the Git host.
type SignIn interface {
	// AuthURL is the host's page that asks the person. state comes back with
	// the answer; verifier is the secret of PKCE, of which only a hash is
	// sent; back is where the host leads the person afterwards.
	AuthURL(state, verifier, back string) string
	// Identify turns the code that the host gave the person into who that
	// is. Nothing of the person's rights on the host is kept.
	Identify(ctx context.Context, code, verifier, back string) (queue.Actor, error)
}

// sessionLife is how long somebody stays signed in.
const sessionLife = 7 * 24 * time.Hour

// signInLife is how long a person has for the host's page.
const signInLife = 10 * time.Minute

// The names of our cookies.
const (
	sessionCookie = "signalbox"
	signInCookie  = "signalbox-sign-in"
)

// cookieName makes a browser hold the cookie to this very host where the
// connection is secure.
func (h *Handler) cookieName(name string) string {
	if h.secure {
		return "__Host-" + name
	}
	return name
}

// cookie sets one that no script can read and that comes with no request that
// another site makes. Life 0 removes it.
func (h *Handler) cookie(w http.ResponseWriter, name, value string, life time.Duration) {
	age := int(life / time.Second)
	if life == 0 {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: h.cookieName(name), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: h.secure, SameSite: http.SameSiteLaxMode,
	})
}

// signInView asks somebody to sign in.
type signInView struct {
	Start   string
	Problem string
}

func (signInView) template() string { return "signin" }

// Heading is the page's title.
func (signInView) Heading() string { return "Sign in" }

// localPath returns an address on this server, whatever somebody wrote: a link to
// our sign-in must not lead to another site afterwards.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(text, "\\\r\n\t") || len(text) > 2000 {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// askToSignIn shows the way in.
func (h *Handler) askToSignIn(w http.ResponseWriter, r *http.Request, to, problem string, status int) {
	h.render(w, r, status, frame{View: signInView{Start: "/auth/start?to=" + url.QueryEscape(localPath(to)), Problem: problem}})
}

// signInPage is where somebody who has not signed in comes first.
func (h *Handler) signInPage(w http.ResponseWriter, r *http.Request) {
	to := localPath(r.URL.Query().Get("to"))
	if _, ok, err := h.welcome(r); err == nil && ok {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	h.askToSignIn(w, r, to, "", http.StatusOK)
}

// signingIn is what we remember while a person is on the host's page, in a
// cookie: it binds the answer to the browser that asked.
type signingIn struct {
	State    string `json:"s"`
	Verifier string `json:"v"`
	To       string `json:"t"`
}

// startSignIn leads to the host's page.
func (h *Handler) startSignIn(w http.ResponseWriter, r *http.Request) {
	now := signingIn{State: rand.Text(), Verifier: rand.Text() + rand.Text(), To: localPath(r.URL.Query().Get("to"))}
	text, err := json.Marshal(now)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.cookie(w, signInCookie, base64.RawURLEncoding.EncodeToString(text), signInLife)
	http.Redirect(w, r, h.signIn.AuthURL(now.State, now.Verifier, h.back(r)), http.StatusFound)
}

// back is the address that the host leads to afterwards. It is one that the
// App knows.
func (h *Handler) back(r *http.Request) string {
	base := h.base
	if base == "" {
		base = "http://" + r.Host
	}
	return base + "/auth/callback"
}

// finishSignIn takes the host's answer.
func (h *Handler) finishSignIn(w http.ResponseWriter, r *http.Request) {
	began, ok := h.began(r)
	h.cookie(w, signInCookie, "", 0)
	query := r.URL.Query()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(began.State), []byte(query.Get("state"))) != 1:
		h.askToSignIn(w, r, began.To, "This sign-in was not begun in this browser, or it took too long. Begin again.", http.StatusBadRequest)
		return
	case query.Get("error") != "" || query.Get("code") == "":
		h.askToSignIn(w, r, began.To, "You were not signed in, because the host was not allowed to say who you are.", http.StatusForbidden)
		return
	}
	who, err := h.signIn.Identify(r.Context(), query.Get("code"), began.Verifier, h.back(r))
	if err == nil && who.ID == 0 {
		err = fmt.Errorf("the host named nobody")
	}
	if err != nil {
		h.log.Warn("sign-in failed", "error", err)
		h.askToSignIn(w, r, began.To, "The host did not confirm who you are. Try again; if it fails again, an operator should look at the log.", http.StatusBadGateway)
		return
	}
	if err := h.newSession(w, r, who); err != nil {
		h.refuse(w, r, err)
		return
	}
	http.Redirect(w, r, localPath(began.To), http.StatusSeeOther)
}

func (h *Handler) began(r *http.Request) (began signingIn, ok bool) {
	c, err := r.Cookie(h.cookieName(signInCookie))
	if err != nil {
		return began, false
	}
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(text, &began) != nil {
		return signingIn{}, false
	}
	return began, began.State != "" && began.Verifier != ""
}

// newSession gives somebody a session with a secret of its own, whatever
// cookie the browser had before.
func (h *Handler) newSession(w http.ResponseWriter, r *http.Request, who queue.Actor) error {
	secret := rand.Text() + rand.Text()
	now := h.clock()
	if err := h.store.NewSession(r.Context(), account.Hash(secret), who, now, now.Add(sessionLife)); err != nil {
		return fmt.Errorf("keep session: %w", err)
	}
	h.cookie(w, sessionCookie, secret, sessionLife)
	h.log.Info("signed in", "by", who.String())
	return nil
}

// signOut ends the session here and in the browser.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(h.cookieName(sessionCookie)); err == nil {
		if err := h.store.EndSession(r.Context(), account.Hash(c.Value)); err != nil {
			h.refuse(w, r, fmt.Errorf("end session: %w", err))
			return
		}
	}
	h.cookie(w, sessionCookie, "", 0)
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
