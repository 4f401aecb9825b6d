package db_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/migrations"
)

// schema describes every column, constraint, index and function of ours.
func schema(t *testing.T, pool *sql.DB) string {
	t.Helper()
	var text string
	err := pool.QueryRowContext(t.Context(), `
		SELECT COALESCE(string_agg(line, E'\n' ORDER BY line), '') FROM (
			SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) AS line
				FROM information_schema.columns WHERE table_schema = 'public'
			UNION ALL SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
			UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
			UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		) s WHERE line NOT LIKE '%river%' AND line NOT LIKE '%goose%'`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	pool, err := sql.Open("postgres", dbtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	empty := schema(t, pool)
	var before []string // the schema before each migration
	for range provider.ListSources() {
		before = append(before, schema(t, pool))
		if _, err := provider.UpByOne(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	whole := schema(t, pool)
	for i := len(before) - 1; i >= 0; i-- {
		if _, err := provider.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before[i], schema(t, pool)); diff != "" {
			t.Errorf("migration %d leaves something behind (-before +after):\n%s", i+1, diff)
		}
	}
	if got := schema(t, pool); got != empty {
		t.Errorf("after all the way down there is\n%s", got)
	}
	if err := db.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	trim := func(s string) []string { return strings.Split(s, "\n") }
	if diff := cmp.Diff(trim(whole), trim(schema(t, pool))); diff != "" {
		t.Errorf("up again (-first +second):\n%s", diff)
	}
}

func TestManyProgramsMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	d := dbtest.Open(t, dsn)
	if err := d.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "signalbox migrate") {
		t.Errorf("an empty database is ready: %v", err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := dbtest.Open(t, dsn).Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := d.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	var jobs int
	if err := d.SQL().QueryRow(`SELECT count(*) FROM river_job`).Scan(&jobs); err != nil {
		t.Errorf("River's tables: %v", err)
	}
}

// An index of what is in jobs would be paid for by every decision.
func TestNobodyLooksIntoJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if n := w.count(`SELECT count(*) FROM pg_indexes WHERE tablename = 'river_job' AND indexdef LIKE '%USING gin%' AND $1`, true); n != 0 {
		t.Errorf("the table of jobs has %d indexes of their contents", n)
	}
}

// A program runs on a schema that has more than it knows, unless that says that
// it must not; then it neither starts nor takes requests.
func TestAProgramThatIsTooOldRefusesToRun(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	var newest int64
	if err := d.SQL().QueryRow(`SELECT max(version_id) FROM goose_db_version`).Scan(&newest); err != nil {
		t.Fatal(err)
	}
	run := func(sql string, args ...any) {
		t.Helper()
		if _, err := d.SQL().Exec(sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, newest+1)
	run(`UPDATE schema_needs SET version = $1`, newest)
	if err := errors.Join(d.Migrate(t.Context()), d.Ready(t.Context())); err != nil {
		t.Errorf("a schema that only has more: %v", err)
	}
	run(`UPDATE schema_needs SET version = $1`, newest+1)
	for what, err := range map[string]error{"start": d.Migrate(t.Context()), "take requests": d.Ready(t.Context())} {
		if !errors.Is(err, db.ErrTooOld) || !strings.Contains(err.Error(), "newer Signalbox") {
			t.Errorf("a program that is too old may %s: %v", what, err)
		}
	}
}
