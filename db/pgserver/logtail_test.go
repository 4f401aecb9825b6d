package pgserver

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestLogTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	tail := &logTail{log: slog.New(slog.DiscardHandler)}
	if got := tail.quote(); got != "" {
		t.Errorf("quote of nothing = %q", got)
	}
	for i := range 100 {
		fmt.Fprintf(tail, "line %d\nhalf", i) // lines arrive in pieces
		fmt.Fprint(tail, " a line\n\n")
	}
	fmt.Fprint(tail, "unfinished")
	got := strings.Split(tail.quote(), "\n\t")
	if len(got) != 1+tailLines+1 || got[tailLines] != "half a line" || got[tailLines+1] != "unfinished" || got[tailLines-1] != "line 99" {
		t.Errorf("quote = %q", got)
	}
}

func TestLogTailIsBounded(t *testing.T) {
	t.Parallel()
	tail := &logTail{log: slog.New(slog.DiscardHandler)}
	for range 1000 {
		fmt.Fprint(tail, strings.Repeat("x", 999))
	}
	if n := len(tail.quote()); n > (tailLines+1)*(tailLineMax+1000) {
		t.Errorf("remembers %d bytes", n)
	}
}

func TestLineLevel(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]slog.Level{
		"LOG:  ready": slog.LevelDebug, "FATAL:  starting up": slog.LevelDebug,
		"WARNING:  disk": slog.LevelWarn, "PANIC:  could not write": slog.LevelError,
	} {
		if got := lineLevel(line); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
