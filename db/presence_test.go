package db_test

import (
	"context"
	"testing"

	"signalbox/db/dbtest"
)

// A program that is killed has jobs in hand. As soon as its connection is gone
// others may have them; those of programs that live are left alone.
func TestJobsOfADeadProgramAreTakenOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := dbtest.DSN(t)
	d := dbtest.Open(t, dsn)
	// TakeOver compares hashes across connections of different pools.
	living, err := dbtest.Open(t, dsn).Appear(ctx, "living")
	if err != nil {
		t.Fatal(err)
	}
	defer living.Leave()
	dying, err := dbtest.Open(t, dsn).Appear(ctx, "dying")
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"living", "dying"} {
		if _, err := d.SQL().ExecContext(ctx, `
			INSERT INTO river_job (args, attempt, attempted_at, attempted_by, kind, max_attempts, queue, state)
			VALUES ('{}', 3, now(), ARRAY['somebody', $1], 'land', 3, 'land', 'running')`, who); err != nil {
			t.Fatal(err)
		}
	}
	takeOver := func(want int64) {
		t.Helper()
		if n, err := d.TakeOver(ctx); err != nil || n != want {
			t.Fatalf("took over %d jobs, %v; want %d", n, err, want)
		}
	}
	takeOver(0)
	if err := living.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	dying.Leave()
	takeOver(1)
	takeOver(0)
	var state string
	var attempt, most int
	if err := d.SQL().QueryRowContext(ctx, `SELECT state, attempt, max_attempts FROM river_job WHERE attempted_by[2] = 'dying'`).Scan(&state, &attempt, &most); err != nil {
		t.Fatal(err)
	}
	if state != "available" || attempt != 3 || most != 4 {
		t.Errorf("the job is %s after %d of %d attempts; want available with one more", state, attempt, most)
	}
}

// A job whose start was lost with a connection is ours in the database alone.
func TestJobsThatNobodyHasInHandAreFreed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := dbtest.New(t)
	me, err := d.Appear(ctx, "me")
	if err != nil {
		t.Fatal(err)
	}
	defer me.Leave()
	var ids []int64
	for _, age := range []string{"1 hour", "1 hour", "0"} { // in hand, lost, just begun
		var id int64
		if err := d.SQL().QueryRowContext(ctx, `
			INSERT INTO river_job (args, attempt, attempted_at, attempted_by, kind, max_attempts, queue, state)
			VALUES ('{}', 1, now() - $1::interval, ARRAY['me'], 'land', 3, 'land', 'running') RETURNING id`, age).Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if n, err := me.Release(ctx, ids[:1]); err != nil || n != 1 {
		t.Fatalf("freed %d jobs, %v; want 1", n, err)
	}
	var free int64
	if err := d.SQL().QueryRowContext(ctx, `SELECT id FROM river_job WHERE state = 'available'`).Scan(&free); err != nil || free != ids[1] {
		t.Errorf("job %d is free, %v; want %d", free, err, ids[1])
	}
	if n, err := me.Release(ctx, nil); err != nil || n != 1 {
		t.Errorf("with nothing in hand, freed %d jobs, %v; want 1", n, err)
	}
}
