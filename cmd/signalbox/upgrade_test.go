package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// older is a program of an earlier release.
var older = flag.String("older", "", "path of a signalbox of an earlier release; make upgrade builds one")

// TestUpgrade has an older program play the first part of the play, starts this
// one beside it on the same database, which it migrates while the older one works,
// lets both work, and stops the older one before the end. Nobody who comes through
// the load balancer notices.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *older == "" {
		t.Skip("needs an older program: make upgrade builds one")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dsn := dbtest.Empty(t)
	host, err := githubsim.Start(context.Background(), githubsim.Config{DataDir: t.TempDir()}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	old, young := newChild(t, host, dsn), newChild(t, host, dsn)
	old.program = *older
	front := newProxy(t, func() (net.Conn, error) {
		conn, err := net.Dial("tcp", young.address())
		if err != nil {
			conn, err = net.Dial("tcp", old.address())
		}
		return conn, err
	})
	old.start(t)
	host.SetWebhook("http://"+front.address()+"/webhook", childSecret)
	create := exec.CommandContext(ctx, *older, "token", "create", "--org="+demoOrg, "--name=upgrade", "--scope=admin")
	create.Env = old.env
	token, err := create.Output()
	if err != nil {
		t.Fatalf("make a token with the older program: %v\n%s", err, old.tail())
	}
	where := whereabouts{API: "http://" + front.address() + "/v1", Org: demoOrg, Host: demoHost}
	p := &play{sim: host, client: newClient(where, strings.TrimSpace(string(token)), demoRepo), tell: func(string, ...any) {}}
	// Long enough that the play goes on while the programs change places.
	played := p.begin(ctx, githubsim.CI{MinSeconds: 2, MaxSeconds: 3})
	pool := dbtest.Open(t, dsn).SQL()
	newest := func() (version int64) {
		t.Helper()
		if err := pool.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	for _, step := range []struct {
		until string
		then  func()
	}{
		{`SELECT count(*) > 25 FROM timeline`, func() {
			before := newest()
			young.start(t)
			if err := await(ctx, pool, fmt.Sprintf(`SELECT count(DISTINCT objid) > 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = 7446273 AND l.granted AND %d > 0`, before)); err != nil {
				t.Fatalf("the newer program does not come up: %v\n%s", err, young.tail())
			}
			t.Logf("from schema %d to %d while the older program worked", before, newest())
		}},
		{`SELECT count(*) FILTER (WHERE to_state = 'merged') > 0 FROM timeline`, func() { old.end(t) }},
	} {
		if err := await(ctx, pool, step.until); err != nil {
			t.Fatalf("wait for %s: %v\nthe older program: %s\nthe newer: %s", step.until, err, old.tail(), young.tail())
		}
		step.then()
	}
	if err := errors.Join(<-played, p.verdicts()); err != nil {
		t.Errorf("%v\n%s", err, young.tail())
	}
	young.end(t)
}

// await waits until a question is answered with yes.
func await(ctx context.Context, pool *sql.DB, question string) error {
	for {
		var yes sql.NullBool
		err := pool.QueryRowContext(ctx, question).Scan(&yes)
		if err == nil && yes.Bool {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
