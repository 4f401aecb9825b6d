package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/queue"
)

// What has happened is counted by the hour, once, whoever counts and however
// often, and adds up to days and quantiles.

// tallied are what happened, in a few words.
func tallied(tallies []queue.Tally, err error) (text string) {
	if err != nil {
		return err.Error()
	}
	sums, spreads := map[queue.Happening]int64{}, map[queue.Happening]queue.Spread{}
	at := map[time.Time]bool{}
	for _, t := range tallies {
		sums[t.What] += t.N
		at[t.At] = true
		if spreads[t.What] == nil {
			spreads[t.What] = queue.Spread{}
		}
		spreads[t.What][t.Bucket] += t.N
	}
	text = fmt.Sprintf("%d times", len(at))
	for _, what := range []queue.Happening{queue.HasMerged, queue.HasFailed, queue.HasCancelled, queue.HasRestarted, queue.HasWaited, queue.HasTested, queue.HasRun} {
		if sums[what] > 0 {
			text += fmt.Sprintf(", %s %d", what, sums[what])
			if d := spreads[what].Quantile(0.5); d > time.Second {
				text += fmt.Sprintf(" of %s", d.Round(time.Minute))
			}
		}
	}
	return text
}

func TestWhatHappenedIsCountedByTheHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newQueue("other")
	w.history(w.queue, 9000, epoch) // one a second: two and a half hours
	w.history(other, 3, epoch)
	run := liveRun("r", 1, "c", "b")
	run.AskedAt = epoch.Add(-time.Minute)
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{run} })
	var counting sync.WaitGroup
	for range 4 { // as several copies of the program would
		counting.Go(func() {
			if _, err := w.CountHours(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	counting.Wait()
	for { // those that were left to another
		done, err := w.CountHours(t.Context())
		if w.must(err); done {
			break
		}
	}
	ctx, long := t.Context(), epoch.AddDate(0, 0, -2)
	for _, tt := range []struct {
		name        string
		q           queue.ID
		from, until time.Time
		days        bool
		want        string
	}{
		{"all of it", w.queue.ID, long, epoch.Add(time.Hour), false, "4 times, merged 9000 of 15m0s, wait 9000 of 4m0s, test 9000 of 10m0s, run 1"},
		{"by the day", w.queue.ID, long, epoch.Add(time.Hour), true, "1 times, merged 9000 of 15m0s, wait 9000 of 4m0s, test 9000 of 10m0s, run 1"},
		{"another queue", other.ID, long, epoch.Add(time.Hour), true, "1 times, merged 3 of 15m0s, wait 3 of 4m0s, test 3 of 10m0s"},
		{"an hour", w.queue.ID, epoch.Truncate(time.Hour).Add(-time.Hour), epoch.Truncate(time.Hour), false, "1 times, merged 3600 of 15m0s, wait 3462 of 4m0s, test 3600 of 10m0s"},
		{"later", w.queue.ID, epoch.Add(time.Hour), epoch.Add(2 * time.Hour), false, "0 times"},
	} {
		if got := tallied(w.Tallies(ctx, tt.q, tt.from, tt.until, tt.days)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	w.history(other, 2, epoch.Add(time.Second))
	if _, err := w.CountHours(ctx); err != nil {
		t.Fatal(err)
	}
	if got := tallied(w.Tallies(ctx, other.ID, long, epoch.Add(time.Hour), true)); got != "1 times, merged 5 of 15m0s, wait 5 of 4m0s, test 5 of 10m0s" {
		t.Errorf("counted on: %s", got)
	}
}

// Behind a bar of a chart stand those who ended then.
func TestEndingsOfAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) {
		e := entry(2)
		e.Title = "Paint it"
		p.Entries = []queue.Entry{e, entry(3)}
	})
	w.history(w.queue, 3, epoch) // #1 has no entry any more
	endings, err := w.EndedBetween(t.Context(), w.queue.ID, epoch.Add(-time.Second), epoch.Add(time.Second), 10)
	w.must(err)
	if len(endings) != 2 || endings[0].PR != 3 || endings[1].PR != 2 || endings[1].Title != "Paint it" || endings[1].Lasted != 15*time.Minute || endings[1].To != queue.Merged {
		t.Errorf("%+v", endings)
	}
	if endings, err = w.EndedBetween(t.Context(), w.queue.ID, epoch.Add(-time.Second), epoch, 10); err != nil || len(endings) != 1 {
		t.Errorf("until the last second: %+v, %v", endings, err)
	}
}

// The health of a queue with a million moves behind it.
func BenchmarkHealthOfAMillionMoves(b *testing.B) {
	w := newWorld(b)
	w.must(w.Maintain(b.Context(), epoch.AddDate(0, -1, 0)))
	w.history(w.queue, 200_000, epoch)
	var err error
	began := time.Now()
	for done := false; !done; {
		done, err = w.CountHours(b.Context())
		w.must(err)
	}
	b.Logf("counted for the first time in %s", time.Since(began).Round(time.Millisecond))
	_, err = w.SQL().Exec(`ANALYZE`)
	w.must(err)
	for name, read := range map[string]func(context.Context, *db.DB) error{
		"a day by the hour": func(ctx context.Context, d *db.DB) error {
			_, err := d.Tallies(ctx, w.queue.ID, epoch.AddDate(0, 0, -1), epoch, false)
			return err
		},
		"90 days by the day": func(ctx context.Context, d *db.DB) error {
			_, err := d.Tallies(ctx, w.queue.ID, epoch.AddDate(0, 0, -90), epoch, true)
			return err
		},
		"nothing to count": func(ctx context.Context, d *db.DB) error { _, err := d.CountHours(ctx); return err },
		"endings of an hour": func(ctx context.Context, d *db.DB) error {
			_, err := d.EndedBetween(ctx, w.queue.ID, epoch.Add(-time.Hour), epoch, 200)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := read(b.Context(), w.DB); err != nil && !errors.Is(err, context.Canceled) {
					b.Fatal(err)
				}
			}
		})
	}
}
