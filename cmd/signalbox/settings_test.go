package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"signalbox/account"
	"signalbox/gitprovider/githubsim"
)

// parsed reads a command line of serve without running it.
func parsed(t *testing.T, args ...string) settings {
	t.Helper()
	var grammar commands
	parser, err := newParser(&grammar, console{out: new(bytes.Buffer), err: new(bytes.Buffer)})
	if err != nil {
		t.Fatal(err)
	}
	// Who sees the pages has tests of its own.
	if _, err := parser.Parse(append([]string{"serve", "--dashboard-auth=none", "--dashboard-public=yes"}, args...)); err != nil {
		t.Fatal(err)
	}
	return grammar.Serve.settings
}

var discard = slog.New(slog.DiscardHandler)

// key writes a new App key into a file.
func key(t *testing.T) string {
	t.Helper()
	text, err := githubsim.NewAppKey()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(text))
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	s := parsed(t, "--listen=nowhere", "--base-url=signalbox.example.com", "--github-url=ftp://x", "--app-id=twelve",
		"--app-private-key=no key", "--api-rate=fast", "--deciders=0", "--database-connections=-1", "--database-url=postgres://%zz", "--github-limits=maybe",
		"--command-prefixes=/a b", "--app-slug=My App",
		"--commit-body=all", "--committer-name=machine", "--signing-key-file=/key", "--mirror-size=0")
	_, err := s.check(discard)
	if err == nil {
		t.Fatal("nothing is wrong, it says")
	}
	for _, want := range []string{"listen is", "base-url is", "github-url is", "app-id is", "app-private-key: ", "webhook-secret is missing",
		"api-rate is", "deciders is", "database-connections is", "database-url is", "github-limits is", "command-prefixes", "app-slug is",
		"commit-body is", "committer-name and committer-email", "signing-key-file: an App has no signing key", "mirror-size is"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
	if got := len(flatten(err)); got != 17 {
		t.Errorf("%d problems, want 17:\n%v", got, err)
	}
}

func TestWhoSeesThePagesIsNeverLeftToChance(t *testing.T) {
	t.Parallel()
	app := []string{"--app-id=7", "--app-private-key-file=" + key(t), "--webhook-secret=x"}
	github := []string{"--dashboard-auth=github", "--client-id=Iv1.x", "--client-secret=very-secret"}
	for _, tt := range []struct {
		name  string
		args  []string
		wrong string // a word of the problem; "" = none
		local bool   // who is at the machine may act
	}{
		{"people sign in", github, "", false},
		{"the secret is in a file", []string{"--dashboard-auth=github", "--client-id=Iv1.x", "--client-secret-file=" + write(t, "very-secret")}, "", false},
		{"the secret is missing", github[:2], "/auth/callback", false},
		{"the id is missing", []string{"--dashboard-auth=github", "--client-secret=very-secret"}, "SIGNALBOX_CLIENT_ID", false},
		{"nobody signs in at an address of this machine", []string{"--dashboard-public=no", "--listen=127.0.0.1:8080"}, "", true},
		{"and so by its other name", []string{"--dashboard-public=no", "--listen=localhost:8080", "--base-url=http://[::1]:8080"}, "", true},
		{"but people come through a proxy", []string{"--dashboard-public=no", "--listen=127.0.0.1:8080", "--base-url=https://signalbox.example.com"}, "", false},
		{"nobody signs in, and all can come", []string{"--dashboard-public=no", "--listen=:8080"}, "other machines reach :8080", false},
		{"nobody signs in, all can come, and it is meant", nil, "", false},
		{"a way that nobody knows", []string{"--dashboard-auth=saml"}, "github or none", false},
		{"neither yes nor no", []string{"--dashboard-public=maybe"}, "dashboard-public", false},
	} {
		cfg, err := parsed(t, append(app, tt.args...)...).check(discard)
		if (err != nil) != (tt.wrong != "") || err != nil && (!strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "very-secret")) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if cfg.localPages != tt.local {
			t.Errorf("%s: who is at the machine may act: %t", tt.name, cfg.localPages)
		}
	}
}

func TestWithoutAnAppTheMessageSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := parsed(t).check(discard)
	if err == nil {
		t.Fatal("it starts without an App")
	}
	for _, want := range []string{"SIGNALBOX_APP_ID", "SIGNALBOX_APP_PRIVATE_KEY_FILE", "SIGNALBOX_WEBHOOK_SECRET_FILE", "app.yml", "signalbox demo"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
}

func TestSecretsNeverStandInMessages(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-very-secret"
	file := write(t, secret)
	for _, args := range [][]string{
		{"--app-id=1", "--app-private-key=" + secret, "--webhook-secret=" + secret},
		{"--app-id=1", "--app-private-key-file=" + file, "--webhook-secret=" + secret, "--webhook-secret-file=" + file},
		{"--database-url=postgres://me:" + secret + "@%zz/x"},
		{"--database-url=host=x password=" + secret + " nonsense"},
	} {
		if _, err := parsed(t, args...).check(discard); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
}

func TestSecretsComeFromFilesToo(t *testing.T) {
	t.Parallel()
	s := parsed(t, "--app-id=7", "--app-private-key-file="+key(t), "--webhook-secret-file="+write(t, "s3cret\n"), "--database-url-file="+write(t, "postgres://db/x\n"))
	cfg, err := s.check(discard)
	if err != nil {
		t.Fatal(err)
	}
	if string(cfg.webhookSecret) != "s3cret" || cfg.databaseURL != "postgres://db/x" || cfg.appID != 7 {
		t.Errorf("%q %q %d", cfg.webhookSecret, cfg.databaseURL, cfg.appID)
	}
	if _, err := parsed(t, "--app-id=7", "--app-private-key-file="+filepath.Join(t.TempDir(), "none"), "--webhook-secret=x").check(discard); err == nil || !strings.Contains(err.Error(), "app-private-key-file: ") {
		t.Errorf("%v", err)
	}
}

// TestTheHostFollowsFromTheURL: github.com has its API elsewhere, an Enterprise
// Server under its own address.
func TestTheHostFollowsFromTheURL(t *testing.T) {
	t.Parallel()
	file := key(t)
	for _, c := range []struct{ url, api, host, wantWeb, wantAPI, wantHost string }{
		{"", "", "", "https://github.com", "https://api.github.com/", "github.com"},
		{"https://GitHub.com/", "", "", "https://github.com", "https://api.github.com/", "github.com"},
		{"https://git.example.com", "", "", "https://git.example.com", "https://git.example.com/api/v3/", "git.example.com"},
		{"https://acme.ghe.com", "", "", "https://acme.ghe.com", "https://api.acme.ghe.com/", "acme.ghe.com"},
		{"https://git.example.com", "https://api.git.example.com", "", "https://git.example.com", "https://api.git.example.com/", "git.example.com"},
		{"http://127.0.0.1:3000", "", "Git.Local", "http://127.0.0.1:3000", "http://127.0.0.1:3000/api/v3/", "git.local"},
	} {
		args := []string{"--app-id=1", "--app-private-key-file=" + file, "--webhook-secret=x"}
		for name, value := range map[string]string{"--github-url=": c.url, "--github-api-url=": c.api, "--host=": c.host} {
			if value != "" {
				args = append(args, name+value)
			}
		}
		cfg, err := parsed(t, args...).check(discard)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
		} else if cfg.githubURL != c.wantWeb || cfg.githubAPIURL != c.wantAPI || cfg.host != c.wantHost {
			t.Errorf("%s: %s %s %s", c.url, cfg.githubURL, cfg.githubAPIURL, cfg.host)
		}
	}
}

func flagsOf(t *testing.T, command string) []*kong.Flag {
	t.Helper()
	for _, node := range commandLine(t).Model.Children {
		if node.Name == command {
			return node.Flags
		}
	}
	t.Fatalf("there is no command %s", command)
	return nil
}

// TestEverySettingHasAVariable: what can be set can be set in a container.
func TestEverySettingHasAVariable(t *testing.T) {
	t.Parallel()
	for _, f := range flagsOf(t, "serve") {
		want := "SIGNALBOX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if len(f.Envs) == 0 || f.Envs[0] != want {
			t.Errorf("--%s has %v, want %s", f.Name, f.Envs, want)
		}
	}
}

// TestTheHostsAnswerChangesOnlyWhatWasKnownBefore: a repository that a webhook
// connected while the host was asked is not in its answer, and stays.
func TestTheHostsAnswerChangesOnlyWhatWasKnownBefore(t *testing.T) {
	t.Parallel()
	repo := func(id int64) account.Repository { return account.Repository{HostID: id} }
	before := []account.Connection{
		{Installation: account.Installation{ID: 1}, Added: []account.Repository{repo(10), repo(11)}},
		{Installation: account.Installation{ID: 2}, Added: []account.Repository{repo(20)}},
		{Installation: account.Installation{ID: 3}, Added: []account.Repository{repo(30)}},
	}
	answer := []account.Connection{
		{Installation: account.Installation{ID: 1}, Added: []account.Repository{repo(11), repo(12)}, Complete: true},
		{Installation: account.Installation{ID: 3, Suspended: true}},
	}
	got := changes(before, answer)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	if c := got[0]; c.Complete || len(c.Added) != 2 || len(c.Removed) != 1 || c.Removed[0].HostID != 10 {
		t.Errorf("one repository less: %+v", c)
	}
	if c := got[1]; !c.Installation.Suspended || len(c.Removed) != 0 {
		t.Errorf("suspended: %+v", c)
	}
	if c := got[2]; c.Installation.ID != 2 || !c.Deleted {
		t.Errorf("uninstalled: %+v", c)
	}
}
