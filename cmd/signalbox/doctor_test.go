package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// The doctor looks at every queue on the host, says what to do, keeps what it
// found, and fails while something is wrong.
func TestDoctorFindsTroubleAndItsCure(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	keyFile := key(t)
	pem, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	host, err := githubsim.Start(ctx, githubsim.Config{DataDir: t.TempDir(), AppKeyPEM: pem, Events: account.Events, Permissions: account.Permissions}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	if err := host.CreateRepo(ctx, githubsim.NewRepo{Owner: "acme", Name: "app"}); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(host.URL(), "http://")
	dsn := dbtest.DSN(t)
	d := dbtest.Open(t, dsn)
	org, err := d.CreateOrganization(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}
	settings := queue.DefaultSettings()
	settings.MergeMethod = queue.MergeCommit
	q, err := d.CreateQueue(ctx, org.ID, name, "acme", "app", "main", settings, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"doctor", "--dashboard-auth=none", "--dashboard-public=yes", "--app-id=1", "--app-private-key-file=" + keyFile, "--webhook-secret=x",
		"--github-url=" + host.URL(), "--data-dir=" + t.TempDir(), "--database-url=" + dsn}

	out, err := command(t, args...)
	if !errors.Is(err, errTrouble) || !strings.Contains(out, "problem  No status is required") || !strings.Contains(out, "→ Name some in") || strings.Contains(out, "ok       ") {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err := host.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Name: "checks", Rules: []githubsim.Rule{{Type: "required_status_checks",
		Parameters: map[string]any{"required_status_checks": []any{map[string]any{"context": "test"}}}}}}); err != nil {
		t.Fatal(err)
	}
	out, err = command(t, append(args, "--json", "--repo=ACME/app", "--branch=main")...)
	var found []examined
	if err != nil || json.Unmarshal([]byte(out), &found) != nil || len(found) != 1 || found[0].Problems != 0 || found[0].LandingMode != "host" {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err = command(t, append(args, "--all")...); err != nil || !strings.Contains(out, "ok       The App is installed on") || !strings.Contains(out, "note     The queue lands through the host's merge call") {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err = command(t, append(args, "--branch=release")...); err == nil || !strings.Contains(err.Error(), "no such queue") {
		t.Errorf("%v", err)
	}
	// What was found is news for the queue, and so for the pages.
	kept := 0
	if err := d.SQL().QueryRowContext(ctx, `SELECT count(*) FROM inbox WHERE kind = 'preflight_seen'`).Scan(&kept); err != nil || kept != 3 {
		t.Errorf("%d answers are kept for queue %d (%v)", kept, q.ID, err)
	}
}
