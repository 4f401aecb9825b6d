package db

import (
	"testing"
	"time"
)

func TestWhatIsRememberedIsForgottenInTime(t *testing.T) {
	t.Parallel()
	var l lately[int, string]
	if _, ok := l.find(1); ok {
		t.Error("nothing was kept, and something is found")
	}
	ahead := time.Now().Add(time.Hour) // so that the test may take as long as it likes
	l.keep(1, "one", ahead)
	l.keep(2, "old", time.Now().Add(-rememberFor))
	if got, ok := l.find(1); !ok || got != "one" {
		t.Errorf("found %q, %v", got, ok)
	}
	if _, ok := l.find(2); ok {
		t.Error("an answer is given that is older than a moment")
	}
	l.forget()
	if _, ok := l.find(1); ok {
		t.Error("found though it was forgotten")
	}
	for i := range 3 * mostRemembered {
		l.keep(i, "many", ahead)
		if len(l.of) > mostRemembered {
			t.Fatalf("%d answers are remembered", len(l.of))
		}
	}
}
