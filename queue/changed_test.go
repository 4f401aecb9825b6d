package queue

import (
	"fmt"
	"testing"
)

// What a change makes different is said by the names of the API; what it names
// and leaves as it is, is no difference.
func TestWhatAChangeMakesDifferent(t *testing.T) {
	t.Parallel()
	q := Queue{State: Running, Settings: DefaultSettings()}
	two, one, yes, names := int64(2), int64(1), true, []string{"build", "a \"b\""}
	paused, exact, host := Paused, LandExact, LandHost
	for _, tt := range []struct {
		name   string
		change Change
		want   string
	}{
		{"nothing", Change{}, "[]"},
		{"the same", Change{Concurrency: &one, LandingMode: &host}, "[]"},
		{"a number, a switch and a list", Change{Concurrency: &two, Batch: &yes, RequiredStatuses: &names},
			`[{batch false true} {concurrency 1 2} {requiredStatuses [] ["build","a \"b\""]}]`},
		{"words", Change{State: &paused, LandingMode: &exact}, "[{landingMode host exact} {state running paused}]"},
	} {
		if got := fmt.Sprint(tt.change.Against(&q)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
