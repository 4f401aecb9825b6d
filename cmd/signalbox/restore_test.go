package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"signalbox/api"
	"signalbox/db/dbtest"
	"signalbox/db/pgserver"
	"signalbox/gitprovider/githubsim"
)

// TestARestoredBackupLandsNothingTwice takes a backup in the middle of the play,
// loses the database at its end, and restores. What landed since the backup is on
// the host and not in the database: the server finds out, lands it no second time,
// and brings everything else to its end.
func TestARestoredBackupLandsNothingTwice(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays twice")
	}
	bin := postgresClients(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	restored, backup := dbtest.Empty(t), filepath.Join(t.TempDir(), "backup.sql")
	s := newServed(ctx, t, githubsim.Config{DataDir: t.TempDir()})
	p, child, host := s.play, s.child, s.sim
	played := p.begin(ctx, githubsim.CI{MinSeconds: 0.2, MaxSeconds: 0.4})
	// All ten are in the queue, and some have landed.
	if err := await(ctx, s.store.SQL(), `SELECT count(*) >= 2 FROM landings`); err != nil {
		t.Fatalf("%v\n%s", err, child.tail())
	}
	postgres := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, filepath.Join(bin, program), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	postgres("pg_dump", "--file="+backup, s.dsn)
	if err := <-played; err != nil {
		t.Fatalf("%v\n%s", err, child.tail())
	}
	child.kill(t)
	before, err := host.Log(ctx, p.repo(), "main")
	if err != nil {
		t.Fatal(err)
	}

	postgres("psql", "--quiet", "--set=ON_ERROR_STOP=1", "--file="+backup, restored)
	child.env = append(child.env, "DATABASE_URL="+restored)
	child.start(t)
	again := dbtest.Open(t, restored)
	if err := await(ctx, again.SQL(), `SELECT count(*) FILTER (WHERE state NOT IN ('merged', 'failed', 'cancelled')) = 0 FROM entries`); err != nil {
		for i := range tenParts {
			e, _ := p.client.Pull(ctx, "getSubmittedPullRequest", i+1)
			t.Logf("#%d is %s: %s", i+1, e.State, e.Reason.Message)
		}
		t.Fatalf("after the restore not everything ends: %v\n%s", err, child.tail())
	}
	after, err := host.Log(ctx, p.repo(), "main")
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) || after[0].SHA != before[0].SHA {
		t.Errorf("main had %d commits and has %d: something landed twice", len(before), len(after))
	}
	if err := p.await(ctx, allParts, api.PullRequest.Final); err != nil {
		t.Fatal(err)
	}
	for i, part := range tenParts {
		if e := p.ended[i]; e.State != part.state {
			t.Errorf("#%d ended %s (%s), not %s", i+1, e.State, e.Reason.Message, part.state)
		}
	}
	// What landed after the backup has no receipt: said, and no problem.
	q, err := queueOf(ctx, again, p.repo(), "main")
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify(ctx, again, asApp(t, host, restored), q, time.Time{})
	if err != nil || v.Problems > 0 || len(v.Landings)+len(v.Others) != len(before)-1 {
		t.Errorf("%+v, %v", v, err)
	}
	t.Logf("%d landings are in the backup, %d came later", len(v.Landings), len(v.Others))
	child.end(t)
}

// postgresClients is where pg_dump and psql are: beside the server itself. Where
// only the server is, there is nothing to back up with, and the test is skipped.
func postgresClients(t *testing.T) string {
	t.Helper()
	bin, err := pgserver.Find()
	if err != nil {
		t.Skip(err)
	}
	server, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Dir(server)
	if _, err := exec.LookPath(filepath.Join(bin, "pg_dump")); err != nil {
		t.Skip(err)
	}
	return bin
}
