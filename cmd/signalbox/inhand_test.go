package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// A job is in hand while it is worked, and a while longer, until its end has
// been written down.
func TestJobsAreInHandUntilTheirEndIsWrittenDown(t *testing.T) {
	t.Parallel()
	h := &inHand{ended: map[int64]time.Time{}}
	work := h.middleware()
	err := work(context.Background(), &rivertype.JobRow{ID: 7}, func(context.Context) error {
		if got := h.jobs(time.Now().Add(time.Hour)); !slices.Equal(got, []int64{7}) {
			t.Errorf("while it is worked: %v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.jobs(time.Now()); !slices.Equal(got, []int64{7}) {
		t.Errorf("just after its work: %v", got)
	}
	if got := h.jobs(time.Now().Add(keepEnded + time.Second)); len(got) != 0 {
		t.Errorf("long after its work: %v", got)
	}
}
