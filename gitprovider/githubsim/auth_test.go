package githubsim

// Who gets in: App JWTs, installation tokens, and what each is refused.

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-github/v60/github"
)

// signedJWT makes an App JWT as the App, or an impostor, would.
func signedJWT(t *testing.T, keyPEM []byte, issuer string, life time.Duration, method jwt.SigningMethod) string {
	t.Helper()
	now := time.Now()
	claims := jwt.RegisteredClaims{Issuer: issuer, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life))}
	var key any = []byte("guess")
	if method == jwt.SigningMethodRS256 {
		k, err := jwt.ParseRSAPrivateKeyFromPEM(keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		key = k
	}
	text, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// get makes a bare call and returns its status and the message of its error.
func (w *world) get(method, path, authorization, body string) (int, string, http.Header) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.URL()+path, strings.NewReader(body))
	w.must(err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	w.must(err)
	var e struct{ Message string }
	json.Unmarshal(data, &e)
	return resp.StatusCode, e.Message, resp.Header
}

func TestOnlyTheAppItselfPassesAsTheApp(t *testing.T) {
	w := newWorld(t)
	other, err := NewAppKey()
	w.must(err)
	for _, test := range []struct {
		name, jwt string
		status    int
	}{
		{"its own", signedJWT(t, testKey(), "1", 9*time.Minute, jwt.SigningMethodRS256), 200},
		{"too long a life", signedJWT(t, testKey(), "1", 20*time.Minute, jwt.SigningMethodRS256), 401},
		{"expired", signedJWT(t, testKey(), "1", -time.Minute, jwt.SigningMethodRS256), 401},
		{"another App's id", signedJWT(t, testKey(), "2", 9*time.Minute, jwt.SigningMethodRS256), 401},
		{"another key", signedJWT(t, other, "1", 9*time.Minute, jwt.SigningMethodRS256), 401},
		{"another algorithm", signedJWT(t, nil, "1", 9*time.Minute, jwt.SigningMethodHS256), 401},
		{"an installation token", w.token(), 401},
		{"nonsense", "a.b.c", 401},
	} {
		for _, root := range []string{"", "/api/v3"} {
			if status, message, _ := w.get("GET", root+"/app", "Bearer "+test.jwt, ""); status != test.status {
				t.Errorf("%s at %s/app: %d %s, want %d", test.name, root, status, message, test.status)
			}
		}
	}
}

func TestInstallationTokensEndAfterAnHour(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{now: time.Now()}
	w := emptyWorld(t, func(c *Config) { c.Now = clock.Now })
	w.repo(NewRepo{Owner: "acme", Name: "app"})
	token := w.token()
	if status, message, _ := w.get("GET", "/repos/acme/app", "token "+token, ""); status != 200 {
		t.Fatalf("fresh token: %d %s", status, message)
	}
	clock.advance(61 * time.Minute)
	if status, message, _ := w.get("GET", "/repos/acme/app", "Bearer "+token, ""); status != 401 || message != "Bad credentials" {
		t.Errorf("old token: %d %q, want 401 Bad credentials", status, message)
	}
}

func TestATokenSeesItsInstallationOnly(t *testing.T) {
	w := newWorld(t)
	w.repo(NewRepo{Owner: "other", Name: "secret"})
	w.repo(NewRepo{Owner: "acme", Name: "second"})
	gh := w.installation()
	repos, _, err := gh.Apps.ListRepos(w.ctx, nil)
	w.must(err)
	if repos.GetTotalCount() != 2 {
		t.Errorf("the installation has %d repositories, want 2", repos.GetTotalCount())
	}
	_, resp, err := gh.Repositories.Get(w.ctx, "other", "secret")
	if err == nil || resp.StatusCode != 404 {
		t.Errorf("another owner's repository: %v", err)
	}
	inst, _, err := w.appClient().Apps.FindRepositoryInstallation(w.ctx, "acme", "second")
	w.must(err)
	if inst.GetAccount().GetLogin() != "acme" || inst.GetAccount().GetType() != "Organization" || inst.GetAppSlug() != "signalbox" {
		t.Errorf("installation of %s (%s) for %s", inst.GetAccount().GetLogin(), inst.GetAccount().GetType(), inst.GetAppSlug())
	}
	limited, _, err := w.appClient().Apps.CreateInstallationToken(w.ctx, inst.GetID(), &github.InstallationTokenOptions{
		Repositories: []string{"second"}, Permissions: &github.InstallationPermissions{Contents: github.String("read")},
	})
	w.must(err)
	bearer := "Bearer " + limited.GetToken()
	for path, want := range map[string]int{"/repos/acme/app": 404, "/repos/acme/second/branches": 200, "/repos/acme/second/pulls": 403} {
		if status, message, _ := w.get("GET", path, bearer, ""); status != want {
			t.Errorf("limited token at %s: %d %s, want %d", path, status, message, want)
		}
	}
}

func TestAPermissionThatTheAppLacksIsNamed(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, func(c *Config) { c.Permissions = map[string]string{"metadata": "read", "pull_requests": "read"} })
	w.repo(NewRepo{Owner: "acme", Name: "app"})
	status, message, header := w.get("POST", "/repos/acme/app/issues/1/comments", "token "+w.token(), `{"body":"hello"}`)
	if status != 403 || message != "Resource not accessible by integration" || header.Get("X-Accepted-GitHub-Permissions") != "issues=write" {
		t.Errorf("got %d %q, accepted %q", status, message, header.Get("X-Accepted-GitHub-Permissions"))
	}
}

func TestErrorsHaveGitHubsForm(t *testing.T) {
	w := newWorld(t)
	auth := "token " + w.token()
	for _, test := range []struct {
		method, path, auth, body string
		status                   int
		message                  string
	}{
		{"GET", "/repos/acme/app", "", "", 404, "Not Found"},
		{"GET", "/repos/acme/app", "token nope", "", 401, "Bad credentials"},
		{"GET", "/repos/acme/none", auth, "", 404, "Not Found"},
		{"GET", "/no/such/path", auth, "", 404, "Not Found"},
		{"GET", "/repos/acme/app/pulls/77", auth, "", 404, "Not Found"},
		{"GET", "/repos/acme/app/pulls/x", auth, "", 404, "Not Found"},
		{"POST", "/repos/acme/app/pulls", auth, `{"title":`, 400, "Problems parsing JSON"},
		{"POST", "/repos/acme/app/pulls", auth, `{"title":7}`, 422, "Invalid request.\n\nFor 'properties/title', number is not of the right type."},
		{"POST", "/repos/acme/app/pulls", auth, `{"title":"x","head":"nope","base":"main"}`, 422, "Validation Failed"},
		{"POST", "/repos/acme/app/check-runs", auth, `{"name":"x","head_sha":"` + strings.Repeat("1", 40) + `"}`, 422, "No commit found for SHA: " + strings.Repeat("1", 40)},
		{"GET", "/repos/acme/app/branches/main/protection", auth, "", 404, "Branch not protected"},
		{"GET", "/repos/acme/app/commits/nope", auth, "", 422, "No commit found for SHA: nope"},
	} {
		status, message, header := w.get(test.method, test.path, test.auth, test.body)
		if status != test.status || message != test.message {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, status, message, test.status, test.message)
		}
		if header.Get("X-GitHub-Request-Id") == "" {
			t.Errorf("%s %s: no request id", test.method, test.path)
		}
	}
}

func TestAnUnchangedAnswerIsNotSentAgainAndCostsNothing(t *testing.T) {
	w := newWorld(t)
	token := w.token()
	get := func(tag string) (int, http.Header) {
		req, _ := http.NewRequestWithContext(w.ctx, "GET", w.URL()+"/api/v3/repos/acme/app/branches/main", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("If-None-Match", tag)
		resp, err := http.DefaultClient.Do(req)
		w.must(err)
		resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
	status, first := get("")
	tag := first.Get("ETag")
	if status != 200 || tag == "" {
		t.Fatalf("first answer: %d, ETag %q", status, tag)
	}
	status, second := get("W/" + tag)
	if status != 304 || second.Get("X-RateLimit-Remaining") != first.Get("X-RateLimit-Remaining") {
		t.Errorf("second answer: %d, %s calls left after %s", status, second.Get("X-RateLimit-Remaining"), first.Get("X-RateLimit-Remaining"))
	}
	_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("b", "b")})
	w.must(err)
	if status, _ := get(tag); status != 200 {
		t.Errorf("after a push: %d, want 200", status)
	}
}

func TestTheRateLimitEnds(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, func(c *Config) { c.RateLimit = 3 })
	w.repo(NewRepo{Owner: "acme", Name: "app"})
	gh := w.installation()
	var limited *github.RateLimitError
	for range 4 {
		if _, _, err := gh.Repositories.Get(w.ctx, "acme", "app"); err != nil {
			var ok bool
			if limited, ok = err.(*github.RateLimitError); !ok {
				t.Fatalf("got %v", err)
			}
		}
	}
	if limited == nil || limited.Rate.Limit != 3 || !limited.Rate.Reset.After(time.Now()) {
		t.Errorf("the limit was not kept: %v", limited)
	}
}

func TestListsComeInPages(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	for range 7 {
		_, err := w.Comment("acme/app", p.Number, "bob", "again")
		w.must(err)
	}
	gh := w.installation()
	opt := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 3}}
	var sizes []int
	seen := map[int64]bool{}
	for {
		comments, resp, err := gh.Issues.ListComments(w.ctx, "acme", "app", p.Number, opt)
		w.must(err)
		sizes = append(sizes, len(comments))
		for _, c := range comments {
			seen[c.GetID()] = true
		}
		if opt.Page == 2 && (resp.PrevPage != 1 || resp.LastPage != 3 || resp.FirstPage != 1) {
			t.Errorf("page 2 links to %d, %d, %d", resp.PrevPage, resp.LastPage, resp.FirstPage)
		}
		if resp.NextPage == 0 {
			break
		}
		opt.Page = resp.NextPage
	}
	if len(seen) != 7 || len(sizes) != 3 || sizes[2] != 1 {
		t.Errorf("pages of %v with %d comments in all", sizes, len(seen))
	}
}

func TestPeopleAndTheirRights(t *testing.T) {
	w := newWorld(t)
	w.must(w.SetPermission("acme/app", "mona", "maintain"))
	_, err := w.Comment("acme/app", w.pull("a", "a").Number, "stranger", "hello")
	w.must(err)
	gh := w.installation()
	for login, want := range map[string][2]string{
		"alice": {"write", "write"}, "mona": {"write", "maintain"}, "stranger": {"none", "none"},
	} {
		level, _, err := gh.Repositories.GetPermissionLevel(w.ctx, "acme", "app", login)
		w.must(err)
		if level.GetPermission() != want[0] || level.GetUser().GetRoleName() != want[1] {
			t.Errorf("%s has %s as %s, want %v", login, level.GetPermission(), level.GetUser().GetRoleName(), want)
		}
		user, _, err := gh.Users.GetByID(w.ctx, level.GetUser().GetID())
		w.must(err)
		if user.GetLogin() != login {
			t.Errorf("user %d is %s, want %s", level.GetUser().GetID(), user.GetLogin(), login)
		}
	}
	if _, resp, err := gh.Repositories.GetPermissionLevel(w.ctx, "acme", "app", "nobody"); err == nil || resp.StatusCode != 404 {
		t.Errorf("somebody unknown: %v", err)
	}
}
