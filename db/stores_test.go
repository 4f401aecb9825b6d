package db_test

import (
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/notify"
	"signalbox/queue/engine"
	"signalbox/rest"
	"signalbox/web"
	"signalbox/webhook"
)

// The interfaces belong to their users; that db satisfies them is checked here
// because db may not import those packages.
var (
	_ engine.Store     = (*db.DB)(nil)
	_ engine.Postponer = (*db.DB)(nil)
	_ rest.Store       = (*db.DB)(nil)
	_ rest.TestStore   = (*db.DB)(nil)
	_ webhook.Store    = (*db.DB)(nil)
	_ web.Store        = (*db.DB)(nil)
	_ notify.Store     = (*db.DB)(nil)
)

func TestMain(m *testing.M) { dbtest.Main(m) }
