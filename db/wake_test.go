package db

import (
	"testing"

	"signalbox/queue"
)

func TestNotificationsOfOtherVersionsMayMeanAnything(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]struct {
		what queue.News
		from string
	}{
		"1 a":     {queue.FactsArrived, "a"},
		"8 a":     {queue.QueueChanged | queue.FactsWait | queue.TimesChanged, "a"},
		"facts a": {queue.AnyNews, "a"},
		"255 a":   {queue.AnyNews, "a"},
		"256 a":   {queue.AnyNews, "a"},
		"":        {queue.AnyNews, ""},
	} {
		if what, from := newsIn(payload); what != want.what || from != want.from {
			t.Errorf("%q is %05b from %q, want %05b from %q", payload, what, from, want.what, want.from)
		}
	}
}
