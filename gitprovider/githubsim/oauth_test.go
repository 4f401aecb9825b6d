package githubsim

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// What GitHub refuses on the page that asks, the simulator refuses.
func TestWhatThePageThatAsksRefuses(t *testing.T) {
	w := newWorld(t)
	w.SetCallback("http://127.0.0.1:9/auth/callback")
	id, secret := w.OAuthClient()
	for _, tt := range []struct {
		name, client, back, method string
		status                     int
	}{
		{"as it should be", id, "http://127.0.0.1:9/auth/callback", "S256", 200},
		{"a folder below", id, "http://127.0.0.1:9/auth/callback/x", "S256", 200},
		{"another client", "x", "http://127.0.0.1:9/auth/callback", "S256", 404},
		{"another host", id, "http://127.0.0.1:90/auth/callback", "S256", 400},
		{"a longer host", id, "http://127.0.0.1:9.evil.example/auth/callback", "S256", 400},
		{"another path", id, "http://127.0.0.1:9/auth/callbackx", "S256", 400},
		{"another method of PKCE", id, "http://127.0.0.1:9/auth/callback", "plain", 400},
	} {
		query := url.Values{"client_id": {tt.client}, "redirect_uri": {tt.back}, "state": {`"><script>`}, "code_challenge": {"x"}, "code_challenge_method": {tt.method}}
		answer, err := http.Get(w.URL() + "/login/oauth/authorize?" + query.Encode())
		w.must(err)
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != tt.status || strings.Contains(string(body), "<script") || strings.Contains(string(body), secret) {
			t.Errorf("%s: status %d, want %d: %s", tt.name, answer.StatusCode, tt.status, body)
		}
	}
	answer, err := http.PostForm(w.URL()+"/login/oauth/access_token", url.Values{"client_id": {id}, "client_secret": {"wrong"}, "code": {"x"}})
	w.must(err)
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 200 || !strings.Contains(string(body), "error=incorrect_client_credentials") {
		t.Errorf("a wrong secret: status %d: %s", answer.StatusCode, body)
	}
}
