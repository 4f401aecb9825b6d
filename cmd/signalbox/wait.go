package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"signalbox/api"
)

// waiting says whether a command waits until a pull request has ended, and how.
type waiting struct {
	Wait        bool          `short:"w" help:"Wait until it has ended and show the progress. The exit code says how it ended."`
	WaitTimeout time.Duration `name:"wait-timeout" help:"With --wait: how long at most. The pull request stays in the queue. Default: as long as it takes."`
	Interval    time.Duration `default:"5s" help:"With --wait: how often to look."`
}

// leastInterval is how often one may look: a server has other callers.
const leastInterval = 50 * time.Millisecond

// check says what is wrong with the flags.
func (w waiting) check(command string) error {
	switch {
	case w.Interval < leastInterval:
		return wrongUse(command, "interval is %s: give at least %s", w.Interval, leastInterval)
	case w.WaitTimeout < 0:
		return wrongUse(command, "wait-timeout is %s: give a duration such as 2h", w.WaitTimeout)
	case w.WaitTimeout > 0 && !w.Wait:
		return wrongUse(command, "wait-timeout goes with wait")
	}
	return nil
}

// How long to stay away from a server that does not answer, at most; and how
// long to be silent: CI systems end jobs that say nothing.
const (
	mostAway   = 30 * time.Second
	mostSilent = 4 * time.Minute
)

// outcome waits, says how it ended, and returns that as the exit status.
func (w waiting) outcome(ctx context.Context, c console, q *api.Queue, number int, asJSON bool) error {
	p := newProgress(c.err)
	seen, err := w.watch(ctx, p, q, number)
	switch {
	case ctx.Err() != nil:
		p.say(fmt.Sprintf("Stopped waiting. #%d stays in the queue: signalbox status %d --wait goes on, signalbox cancel %d takes it out.", number, number, number))
		return exitStatus(exitInterrupted)
	case errors.Is(err, errTimeIsUp):
		p.say(fmt.Sprintf("The time is up. #%d stays in the queue: signalbox status %d --wait goes on, signalbox cancel %d takes it out.", number, number, number))
		return exitStatus(exitWaiting)
	case err != nil:
		return err
	}
	if asJSON {
		err = printAnswer[json.RawMessage](ctx, c, q, "getSubmittedPullRequest", number)
	} else {
		_, err = fmt.Fprintln(c.out, seen.line())
	}
	if err != nil {
		return err
	}
	switch seen.State {
	case "merged":
		return nil
	case "cancelled":
		return exitStatus(exitCancelled)
	default:
		return exitStatus(exitFailed)
	}
}

// errTimeIsUp is that a pull request did not end in time.
var errTimeIsUp = errors.New("the time is up")

// watch looks again and again until the pull request has ended. A server or a
// network that is away is waited for; an answer that will not change is an error.
func (w waiting) watch(ctx context.Context, p *progress, q *api.Queue, number int) (sight, error) {
	once := *q
	once.Client = q.Once()
	begun, away := time.Now(), w.Interval
	for {
		seen, err := sightOf(ctx, &once, number)
		next := w.Interval
		var refused *api.Error
		var silent *api.Unreachable
		switch {
		case err == nil:
			p.show(seen, time.Now())
			if api.Final(seen.State) {
				return seen, nil
			}
			away = w.Interval
		case errors.As(err, &refused) && refused.Passing(), errors.As(err, &silent):
			if ctx.Err() != nil {
				return sight{}, ctx.Err()
			}
			p.trouble(err, time.Now())
			if next = away; refused != nil {
				next = max(next, refused.RetryAfter)
			}
			away = min(2*away, max(mostAway, w.Interval))
		default:
			return sight{}, err
		}
		if left := w.WaitTimeout - time.Since(begun); w.WaitTimeout > 0 && left < next {
			if pause(ctx, max(left, 0)) != nil {
				return sight{}, ctx.Err()
			}
			return sight{}, errTimeIsUp
		}
		if err := pause(ctx, next); err != nil {
			return sight{}, err
		}
	}
}

// progress shows what happens: on a terminal as a few lines that are drawn
// again, elsewhere as one line for each thing that is new.
type progress struct {
	out   io.Writer
	size  func() (columns, rows int) // of the terminal; nil: out is none
	drawn int                        // lines on the terminal that the next drawing replaces
	last  string                     // what was noted last, and when
	at    time.Time
	down  bool // the server did not answer the last time
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.size = func() (int, int) {
			columns, rows, err := term.GetSize(int(f.Fd()))
			if err != nil || columns < 20 || rows < 3 {
				return 80, 24
			}
			return columns, rows
		}
	}
	return p
}

// show shows a pull request.
func (p *progress) show(s sight, now time.Time) {
	if p.size != nil {
		p.draw(s.block(now))
		return
	}
	p.note(s.line(), now, p.down)
	p.down = false
}

// trouble says that the server does not answer, once.
func (p *progress) trouble(err error, now time.Time) {
	if line := printable(err.Error()) + "; trying again."; p.size != nil {
		p.draw([]string{line})
	} else if !p.down {
		p.down = true
		p.note(line, now, true)
	}
}

// note writes a line with the time, if it is new, or if it is long since the
// last one.
func (p *progress) note(line string, now time.Time, again bool) {
	if line == p.last && !again && now.Sub(p.at) < mostSilent {
		return
	}
	p.last, p.at = line, now
	fmt.Fprintf(p.out, "%s  %s\n", now.Format("15:04:05"), line)
}

// say writes a last line below whatever is there.
func (p *progress) say(line string) {
	p.leave()
	fmt.Fprintln(p.out, line)
}

// leave has the next drawing begin below whatever is there.
func (p *progress) leave() { p.drawn = 0 }

// draw replaces what was drawn before. Lines are broken here and not by the
// terminal: only then it is known how far up the next drawing begins.
func (p *progress) draw(lines []string) {
	columns, rows := p.size()
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", p.drawn)
	}
	p.drawn = 0
	for _, line := range lines {
		for _, part := range broken(line, columns-1) {
			if p.drawn < rows-1 {
				b.WriteString(part + "\n")
				p.drawn++
			}
		}
	}
	_, _ = io.WriteString(p.out, b.String())
}

// broken is a line as several of at most so many columns, at spaces where that
// is possible. What follows the first is as far in as that.
func broken(line string, columns int) []string {
	words := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(words)]
	var lines []string
	row, used := indent, len(indent)
	for _, word := range strings.Fields(words) {
		if used > len(indent) && used+1+wide(word) > columns {
			lines = append(lines, row)
			row, used = indent, len(indent)
		}
		if used > len(indent) {
			row, used = row+" ", used+1
		}
		for _, r := range word {
			if used+wide(string(r)) > columns {
				lines = append(lines, row)
				row, used = indent, len(indent)
			}
			row, used = row+string(r), used+wide(string(r))
		}
	}
	return append(lines, row)
}

// wide is how many columns of a terminal a text takes.
func wide(text string) int {
	n := 0
	for _, r := range text {
		n++
		if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
			n++
		}
	}
	return n
}
