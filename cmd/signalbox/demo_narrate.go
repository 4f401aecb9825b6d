package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"signalbox/queue"
)

// narrator tells what happens, a line for each thing that people care about.
type narrator struct {
	mu    sync.Mutex // guards out: several goroutines tell
	out   io.Writer
	start time.Time
}

// say tells one thing.
func (n *narrator) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.out, "%5.1fs  %s\n", time.Since(n.start).Seconds(), fmt.Sprintf(format, args...))
}

// verbs says what a move means to somebody who watches.
var verbs = map[queue.EntryState]string{
	queue.NotReady:       "submitted",
	queue.Pending:        "in line",
	queue.Testing:        "testing",
	queue.TestsPassed:    "passed",
	queue.PendingFailure: "red",
	queue.Merged:         "MERGED",
	queue.Failed:         "FAILED",
	queue.Cancelled:      "CANCELLED",
}

// moved tells a move in its own words.
func (n *narrator) moved(m queue.Move) {
	n.say("      #%-3d %-10s %s", m.PR, verbs[m.To], m.Message)
}
