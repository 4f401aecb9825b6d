package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// verifyHistory has the command compare what the play landed: with the host, as
// the App, and with a clone; then with a database that somebody has changed, and
// with a branch that somebody has rewritten.
func verifyHistory(t *testing.T, dsn string, sim *githubsim.Server, git string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, sim.AppKeyPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	repos, err := filepath.Glob(filepath.Join(git, "*.git"))
	if err != nil || len(repos) != 1 {
		t.Fatalf("the host keeps %v (%v)", repos, err)
	}
	app := []string{"--dashboard-auth=none", "--dashboard-public=yes", fmt.Sprint("--app-id=", sim.AppID()), "--app-private-key-file=" + key,
		"--webhook-secret=x", "--host=" + demoHost, "--github-url=" + sim.URL(), "--data-dir=" + t.TempDir()}
	clone := []string{"--repo=acme/app", "--git=" + repos[0]}
	look := func(more ...string) (string, error) {
		return command(t, append([]string{"verify-history", "--database-url=" + dsn}, more...)...)
	}

	for _, way := range [][]string{app, clone} {
		out, err := look(append(way, "--json")...)
		var all []verified
		if err != nil || json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 || len(all[0].Landings) != 5 || all[0].Problems != 0 || len(all[0].Others) != 0 {
			t.Errorf("%v: %v\n%s", way[0], err, out)
		}
		if out, err = look(append(way, "--all")...); err != nil || strings.Count(out, "this very tree passed") != 5 || !strings.Contains(out, "everything that landed is what was tested (5 tested)") {
			t.Errorf("%v: %v\n%s", way[0], err, out)
		}
	}
	if _, err := look("--git=" + repos[0]); err == nil || !strings.Contains(err.Error(), "--repo") {
		t.Errorf("a clone of nobody knows what: %v", err)
	}
	if _, err := look(append(clone, "--since=yesterday")...); err == nil || !strings.Contains(err.Error(), "2026-01-31") {
		t.Errorf("a day that is none: %v", err)
	}

	d := dbtest.Open(t, dsn)
	for _, lie := range []struct{ sql, back, says string }{
		{`UPDATE runs SET state = 'failed' WHERE state = 'passed'`, `UPDATE runs SET state = 'passed' WHERE state = 'failed' AND why = ''`, "is failed"},
		{`UPDATE timeline SET from_state = 'testing', to_state = 'tests_passed' WHERE to_state = 'pending' AND pr = 1`, "", "the timeline: #1 moved from"},
		{`DELETE FROM timeline WHERE pr = 2 AND from_state = ''`, "", "the timeline: #2 begins as not_ready"},
		{`DELETE FROM timeline WHERE pr = 3`, "", "and has no timeline"},
		{`UPDATE timeline SET submission = 7 WHERE pr = 5 AND to_state = 'pending'`, "", "the timeline: #5 is in submission 7, and was in 1"},
		{`DELETE FROM landings WHERE pr = 4`, "", "the timeline: #4 is called landed by the timeline, and there is no receipt of it"},
		{`UPDATE landings SET tree = repeat('0', 40), tested_tree = repeat('0', 40) WHERE pr = 1`, "", "#1 landed as"},
	} {
		if _, err := d.SQL().ExecContext(t.Context(), lie.sql); err != nil {
			t.Fatal(err)
		}
		if out, err := look(clone...); !errors.Is(err, errUnproven) || !strings.Contains(out, lie.says) {
			t.Errorf("after %s: %v\n%s", lie.sql, err, out)
		}
		if lie.back != "" {
			if _, err := d.SQL().ExecContext(t.Context(), lie.back); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, err := look(clone...); !errors.Is(err, errUnproven) || !strings.Contains(out, "1 commits were put there past the queue") {
		t.Errorf("a landing without a receipt: %v\n%s", err, out)
	}
}
