package githubsim

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Signing in as a person, as GitHub lets the users of an App: the page that
// asks, here with a button for everybody who lives in this GitHub, and the call
// that trades the code for a token. Codes work once, for ten minutes, for the
// address they were made for, and with the verifier whose hash the page got.
// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app

// codeLife is how long a code can be traded, userTokenLife how long the token
// works.
const (
	codeLife      = 10 * time.Minute
	userTokenLife = 8 * time.Hour
)

// grant is a code that waits to be traded.
type grant struct {
	who       *account
	back      string // redirect_uri
	challenge string // of PKCE; "" without
	expires   time.Time
}

// OAuthClient returns the App's client id and client secret.
func (s *Server) OAuthClient() (id, secret string) { return s.clientID, s.clientSecret }

// SetCallback says where people who sign in are led back to: the App's
// callback URL. A redirect_uri has to begin there.
func (s *Server) SetCallback(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callback = address
}

// oauthPath reports whether a path belongs to the sign-in.
func oauthPath(path string) bool {
	return path == "/login/oauth/authorize" || path == "/login/oauth/access_token"
}

func (s *Server) serveOAuth(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	switch {
	case r.URL.Path == "/login/oauth/access_token" && r.Method == http.MethodPost:
		s.tradeCode(w, r)
	case r.URL.Path == "/login/oauth/authorize" && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		s.authorize(w, r)
	default:
		http.Error(w, "Not Found", http.StatusNotFound)
	}
}

var authorizePage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Authorize {{.App}}</title></head>
<body><h1>Authorize {{.App}}</h1><p>This is the simulated GitHub. Whom do you want to sign in as?</p>
<form method="post">{{range $name, $value := .Fields}}<input type="hidden" name="{{$name}}" value="{{$value}}">{{end}}
{{range .People}}<p><button name="login" value="{{.}}">{{.}}</button></p>{{end}}<p><button name="login" value="">Cancel</button></p></form></body></html>`))

// authorize shows the page that asks, and takes its answer.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	back, err := url.Parse(r.Form.Get("redirect_uri"))
	s.mu.Lock()
	callback := s.callback
	s.mu.Unlock()
	switch {
	case r.Form.Get("client_id") != s.clientID:
		http.Error(w, "Not Found", http.StatusNotFound) // as GitHub answers
		return
	case err != nil || !within(back, callback):
		http.Error(w, "The redirect_uri is not associated with this application.", http.StatusBadRequest)
		return
	case r.Form.Get("code_challenge") != "" && r.Form.Get("code_challenge_method") != "S256":
		http.Error(w, "The code_challenge_method must be S256.", http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodGet {
		fields := map[string]string{}
		for _, name := range []string{"client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method"} {
			fields[name] = r.Form.Get(name)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = authorizePage.Execute(w, map[string]any{"App": s.cfg.AppName, "Fields": fields, "People": s.people()})
		return
	}
	answer := url.Values{"state": {r.Form.Get("state")}}
	if code := s.grantTo(r.PostForm.Get("login"), back.String(), r.Form.Get("code_challenge")); code != "" {
		answer.Set("code", code)
	} else {
		answer.Set("error", "access_denied")
	}
	for name, values := range back.Query() {
		answer[name] = values
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// within reports whether an address is the callback or below it.
func within(address *url.URL, callback string) bool {
	c, err := url.Parse(callback)
	return err == nil && callback != "" && address.Scheme == c.Scheme && address.Host == c.Host &&
		(address.Path == c.Path || strings.HasPrefix(address.Path, strings.TrimSuffix(c.Path, "/")+"/"))
}

// people are the logins of everybody who lives here.
func (s *Server) people() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var logins []string
	for _, a := range s.accounts {
		if a.kind == "User" {
			logins = append(logins, a.login)
		}
	}
	slices.Sort(logins)
	return logins
}

// grantTo makes a code for a person; "" if there is no such person.
func (s *Server) grantTo(login, back, challenge string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := s.accounts[strings.ToLower(login)]
	if who == nil || who.kind != "User" {
		return ""
	}
	code := newSecret("")
	s.grants[code] = grant{who: who, back: back, challenge: challenge, expires: s.cfg.Now().Add(codeLife)}
	return code
}

// tradeCode gives a token for a code. GitHub answers 200 to everything, and
// encodes as a form unless JSON is asked for.
func (s *Server) tradeCode(w http.ResponseWriter, r *http.Request) {
	answer := url.Values{}
	if problem := s.trade(r, answer); problem != "" {
		answer = url.Values{"error": {problem}, "error_description": {"The code passed is incorrect or expired, or the client is not who made it."}}
	}
	if strings.Contains(r.Header.Get("Accept"), "json") {
		o := object{}
		for name := range answer {
			o[name] = answer.Get(name)
		}
		s.answer(&call{s: s, w: w, r: r}, o, nil)
		return
	}
	w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	_, _ = w.Write([]byte(answer.Encode()))
}

// trade checks a code and fills in the answer, or names what is wrong.
func (s *Server) trade(r *http.Request, answer url.Values) (problem string) {
	form := r.PostForm
	if form.Get("client_id") != s.clientID || subtle.ConstantTimeCompare([]byte(form.Get("client_secret")), []byte(s.clientSecret)) != 1 {
		return "incorrect_client_credentials"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.grants[form.Get("code")]
	delete(s.grants, form.Get("code"))
	now := s.cfg.Now()
	hash := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case !ok || !now.Before(g.expires):
		return "bad_verification_code"
	case g.back != form.Get("redirect_uri"):
		return "redirect_uri_mismatch"
	case g.challenge != "" && g.challenge != base64.RawURLEncoding.EncodeToString(hash[:]):
		return "bad_verification_code"
	}
	t := &token{secret: newSecret("ghu_"), account: g.who, expires: now.Add(userTokenLife)}
	s.tokens[t.secret] = t
	answer.Set("access_token", t.secret)
	answer.Set("token_type", "bearer")
	answer.Set("scope", "")
	return ""
}
