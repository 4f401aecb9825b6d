package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
	"signalbox/web/browsertest"
)

// A server without an App is set up in a browser, without reading anything: a
// code, a button here, a button on the host, and it runs. Its secrets are kept
// so that a later start needs nothing either, and a copy of the database alone
// has none of them.
func TestAnAppIsMadeInABrowser(t *testing.T) {
	t.Parallel()
	browser := browsertest.Open(t)
	host, err := githubsim.Start(context.Background(), githubsim.Config{DataDir: t.TempDir()}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	address := freeAddress(t)
	base, dir, dsn := "http://"+address, t.TempDir(), dbtest.DSN(t)
	args := []string{"serve", "--listen=" + address, "--metrics-listen=off", "--base-url=" + base, "--github-url=" + host.URL(),
		"--data-dir=" + dir, "--database-url=" + dsn, "--github-limits=off"}
	begin := func() (log *lockedBuffer, stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		log, ended := &lockedBuffer{}, make(chan error, 1)
		go func() { ended <- run(ctx, args, console{out: log, err: log}) }()
		return log, func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%v\n%s", err, log.tail(4000))
				}
			case <-time.After(patience):
				t.Error("the server did not stop")
			}
		}
	}
	log, stop := begin()
	code := waitFor(t, log, regexp.MustCompile(`one-time code ([a-z0-9-]+)`))

	tab := browser.Tab(t, browsertest.Look{Width: 900, Height: 900, NoScript: true})
	tab.Visit(base + "/")
	tab.Sees("This server has no GitHub App yet")
	tab.Fill("#code", "wrong")
	tab.Click("#next")
	tab.Sees("This is not the code")
	tab.Fill("#code", code)
	tab.Fill("#org", "acme")
	tab.Click("#next")
	tab.Sees("Create the App on")
	tab.Click("#create")
	tab.Sees("Create GitHub App for acme")
	tab.Click("#confirm")
	tab.Sees("The App is ready")
	if !strings.Contains(tab.Text(), host.AppSlug()) {
		t.Errorf("the page says\n%s", tab.Text())
	}
	waitFor(t, log, regexp.MustCompile(`msg=(ready)`))
	ready := func() {
		t.Helper()
		resp, err := http.Get(base + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("readyz is %s", resp.Status)
		}
	}
	ready()
	stop()

	// Once more, and nobody has to do anything.
	log, stop = begin()
	waitFor(t, log, regexp.MustCompile(`msg=(ready)`))
	ready()
	stop()

	var sealed []byte
	d := dbtest.Open(t, dsn)
	if err := d.SQL().QueryRow(`SELECT sealed FROM apps`).Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	app, err := unseal(filepath.Join(dir, defaultKeyFile), strings.TrimPrefix(host.URL(), "http://"), sealed)
	if err != nil || app.Slug != host.AppSlug() || app.WebhookSecret == "" {
		t.Fatalf("%v", err)
	}
	for _, secret := range []string{app.WebhookSecret, app.ClientSecret, "PRIVATE KEY"} {
		if bytes.Contains(sealed, []byte(secret)) || strings.Contains(log.tail(1<<20), secret) {
			t.Error("a secret stands in the database or in the log as it is")
		}
	}
	if info, err := os.Stat(filepath.Join(dir, defaultKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v %v", info, err)
	}
	if _, err := unseal(filepath.Join(t.TempDir(), "none"), "x", sealed); err == nil || !strings.Contains(err.Error(), "every copy of the server needs the same") {
		t.Errorf("without the key: %v", err)
	}
	if _, err := unseal(filepath.Join(dir, defaultKeyFile), "another.host", sealed); err == nil {
		t.Error("what was kept for one host is read for another")
	}
}

// waitFor waits until a log has what a pattern matches, and returns its group.
func waitFor(t *testing.T, log *lockedBuffer, pattern *regexp.Regexp) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		if m := pattern.FindStringSubmatch(log.tail(1 << 20)); m != nil {
			return m[1]
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("no %s in\n%s", pattern, log.tail(4000))
		}
	}
}

// The host takes no manifest that GitHub would not take, and trades a code once.
func TestTheHostIsAsStrictAboutManifestsAsGitHub(t *testing.T) {
	t.Parallel()
	host, err := githubsim.Start(context.Background(), githubsim.Config{DataDir: t.TempDir()}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	back := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(back.Close)
	rest := `"redirect_url":"` + back.URL + `/back","default_permissions":{"checks":"write"}`
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for manifest, want := range map[string]string{
		`{`:                         "it is no JSON object",
		`{"name":"x",` + rest + `}`: "&#34;url&#34; wasn&#39;t supplied.",
		`{"name":"x","url":"https://x","hook_attributes":{"active":false},` + rest + `}`: "&#34;url&#34; wasn&#39;t supplied.",
		`{"name":"x","url":"https://x","default_events":["installation"],` + rest + `}`:  "Default events unsupported: installation",
		`{"name":"x","url":"https://x","default_events":["no_such"],` + rest + `}`:       "Default events unsupported: no_such",
		`{"name":"x","url":"https://x","default_events":["push"],` + rest + `}`:          "not supported by permissions: push",
		`{"name":"x","url":"https://x","default_events":["check_run"],` + rest + `}`:     "Create GitHub App for you",
	} {
		resp, err := client.PostForm(host.URL()+"/settings/apps/new?state=s", url.Values{"manifest": {manifest}})
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(resp.Body)
		resp.Body.Close()
		if !strings.Contains(body.String(), want) {
			t.Errorf("%s: %s", manifest, body.String())
		}
	}
}
