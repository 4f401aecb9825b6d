//go:build linux

package main

import (
	"context"
	"os"
	"syscall"
	"testing"

	"signalbox/db"
	"signalbox/db/pgserver"
)

// sharedDir is a folder like t.TempDir's, which Postgres's own user may enter, too.
func sharedDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "signalbox-test-")
	demand(t)(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	demand(t)(os.Chmod(dir, 0o711))
	return dir
}

// ownPostgres is a Postgres of a test's own, which commits durably and can be
// killed.
type ownPostgres struct {
	*pgserver.Server
	t   testing.TB
	dir string
}

// newPostgres starts one in a folder of a sharedDir, with an empty database.
func newPostgres(t testing.TB, dir, database string) *ownPostgres {
	t.Helper()
	p := &ownPostgres{t: t, dir: dir}
	p.start()
	t.Cleanup(func() { p.Stop() })
	admin := p.open("postgres")
	defer admin.Close()
	_, err := admin.SQL().ExecContext(t.Context(), "CREATE DATABASE "+database)
	demand(t)(err)
	return p
}

// start starts it on the folder that it had.
func (p *ownPostgres) start() {
	p.t.Helper()
	server, err := pgserver.Start(p.t.Context(), pgserver.Config{Dir: p.dir})
	if err != nil {
		p.t.Fatalf("Postgres does not start: %v", err)
	}
	p.Server = server
}

// kill ends it as a power failure would.
func (p *ownPostgres) kill() {
	p.t.Helper()
	demand(p.t)(syscall.Kill(p.PID(), syscall.SIGKILL))
	<-p.Done()
	p.Stop() // it has ended badly, and that is as it should be
}

// open opens one of its databases.
func (p *ownPostgres) open(database string) *db.DB {
	p.t.Helper()
	d, err := db.Open(context.Background(), db.Config{DSN: p.DSN(database), MaxOpen: 4})
	demand(p.t)(err)
	return d
}
