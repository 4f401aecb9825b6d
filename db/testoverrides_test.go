package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
)

// Decisions are imported together: by ids or by all names, the later of two about
// one test counts, and what is decided already changes nothing and is nobody's
// doing.
func TestDecisionsAreImported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(report{hour: 0, commit: "0", names: "a b c d"})
	named := func(name string) flaky.TestCase {
		return flaky.TestCase{Test: flaky.Test{Name: name, File: name + ".go"}}
	}
	always := flaky.Override{Setting: flaky.Always, Owner: "ann", Reason: "x", Actor: "token a", Expires: epoch.Add(24 * time.Hour)}
	with := func(c flaky.TestCase, o flaky.Override) flaky.TestCase { c.Override = o; return c }
	byID := named("gone")
	byID.ID = testID("a")
	file := []flaky.TestCase{
		with(byID, always), with(named("b"), always), with(named("nobody"), always), with(flaky.TestCase{Test: flaky.Test{Name: "c"}}, always),
		with(flaky.TestCase{ID: uuid.New()}, always), with(named("b"), flaky.Override{Setting: flaky.Never, Actor: "token a"}),
	}
	changed, missing, err := w.ImportOverrides(t.Context(), w.repo.ID, file, epoch)
	if err != nil || changed != 3 || fmt.Sprint(missing) != "[2 3 4]" {
		t.Errorf("%d changed, missing %v, %v", changed, missing, err)
	}
	want := "a ALWAYS_QUARANTINE ann true, b NEVER_QUARANTINE  false, c AUTO_QUARANTINE  false, d AUTO_QUARANTINE  false"
	decided := func() string {
		return w.column(`SELECT name || ' ' || setting || ' ' || owner || ' ' || (quarantined_at IS NOT NULL) FROM test_cases ORDER BY name`)
	}
	if got := decided(); got != want {
		t.Errorf("decided: %s", got)
	}
	file[0].Override.Actor = "token b"
	if changed, _, err := w.ImportOverrides(t.Context(), w.repo.ID, file[:1], epoch); err != nil || changed != 0 {
		t.Errorf("the same again: %d %v", changed, err)
	}
	if got := w.column(`SELECT t.name || ' ' || c.before || '>' || c.after || ' ' || c.code || ' ' || c.actor FROM test_changes c JOIN test_cases t ON t.id = c.case_id ORDER BY c.id`); got !=
		"a off>on SET_ALWAYS token a, b off>on SET_ALWAYS token a, b on>off SET_NEVER token a" {
		t.Errorf("changes: %s", got)
	}
	if got := w.column(`SELECT actor FROM test_cases WHERE name = 'a'`); got != "token a" {
		t.Errorf("decided by %s", got)
	}
}
