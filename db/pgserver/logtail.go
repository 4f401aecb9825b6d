package pgserver

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// logTail takes what a program writes: every line goes to the log, and the
// last ones are remembered for the error if it fails.
type logTail struct {
	log *slog.Logger

	mu      sync.Mutex
	partial []byte
	lines   []string
}

const (
	tailLines   = 20
	tailLineMax = 2000
)

// Write implements io.Writer. It never fails: the server must not be disturbed.
func (t *logTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, b...)
	for {
		i := bytes.IndexByte(t.partial, '\n')
		if i < 0 && len(t.partial) < tailLineMax {
			return len(b), nil
		}
		if i < 0 {
			i = len(t.partial)
		}
		t.line(string(t.partial[:i]))
		t.partial = t.partial[min(i+1, len(t.partial)):]
	}
}

func (t *logTail) line(line string) {
	if line == "" {
		return
	}
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
	t.log.Log(context.Background(), lineLevel(line), "postgres: "+line)
}

// lineLevel keeps ordinary life at Debug: an ERROR is a statement's, which its
// client hears of, and FATAL is how Postgres says that it is still starting.
func lineLevel(line string) slog.Level {
	switch {
	case strings.HasPrefix(line, "PANIC:"):
		return slog.LevelError
	case strings.HasPrefix(line, "WARNING:"):
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// quote returns the remembered lines, ready to follow an error; "" for none.
func (t *logTail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, line := range append(t.lines[:len(t.lines):len(t.lines)], string(t.partial)) {
		if line != "" {
			b.WriteString("\n\t" + line)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "; it said:" + b.String()
}
