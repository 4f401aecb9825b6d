package report

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"signalbox/flaky"
)

// bepEvent is an event of Bazel's build event protocol as --build_event_json_file
// writes it: build_event_stream.proto in JSON. Only tests matter.
type bepEvent struct {
	ID struct {
		TestResult *struct {
			Label               string
			Run, Shard, Attempt int
		} `json:"testResult"`
	} `json:"id"`
	TestResult *struct {
		Status                    string
		StatusDetails             string
		CachedLocally             bool
		TestAttemptStart          string
		TestAttemptDuration       string // "1.5s"
		TestAttemptDurationMillis string
		ExecutionInfo             struct{ CachedRemotely bool }
	} `json:"testResult"`
	Aborted *struct{ Reason, Description string } `json:"aborted"`
	Last    bool                                  `json:"lastMessage"`
}

// ScanBEP reads Bazel's build events as JSON. Each test target is a case, each
// attempt of it another one; shards are variants, because each has other tests.
// Results from a cache are left out.
//
// The bundles of the analytics CLI hold the events of tests alone: whether the
// last event came is then not known, and part says so.
func ScanBEP(r io.Reader, o Options, part bool, each func(*Case) error) (Notes, error) {
	b := &bep{options: o, each: each}
	src := &pacer{r: r}
	src.mark()
	events := json.NewDecoder(src)
	for {
		src.mark()
		var e bepEvent
		err := events.Decode(&e)
		if err != nil {
			stop := (&ctrf{src: src, json: events, tests: true, announced: -1, decoder: b.decoder})
			if err == io.EOF {
				if !part && !b.last && b.some {
					b.notes.add(Truncated, "")
				}
				if b.some {
					return b.notes, nil
				}
			}
			notes, err := stop.finish(err)
			b.notes.merge(notes)
			return b.notes, err
		}
		b.some = true
		if err := b.event(e); err != nil {
			return b.notes, err
		}
	}
}

type bep struct {
	options Options
	each    func(*Case) error
	decoder decoder
	notes   Notes
	some    bool
	last    bool
}

func (b *bep) event(e bepEvent) error {
	b.last = b.last || e.Last
	id, result := e.ID.TestResult, e.TestResult
	if id == nil {
		return nil
	}
	if result == nil {
		if e.Aborted != nil {
			b.notes.add(SuiteFailed, id.Label+": "+e.Aborted.Reason)
		}
		return nil
	}
	if result.CachedLocally || result.ExecutionInfo.CachedRemotely {
		b.notes.add(CachedResults, "")
		return nil
	}
	label := b.decoder.finish(id.Label)
	if strings.TrimSpace(label) == "" {
		b.notes.add(Nameless, "")
		return nil
	}
	c := Case{Name: label, Reruns: Attempts, Seconds: -1, Attempt: max(id.Run-1, 0)*1000 + max(id.Attempt, 1)}
	c.Classname, _, _ = strings.Cut(label, ":")
	c.Parent = c.Classname
	if id.Shard > 1 {
		c.Variant = "shard " + strconv.Itoa(id.Shard)
	}
	if d, ok := millis(result.TestAttemptDurationMillis); ok {
		c.Seconds = d.Seconds()
	} else if d, err := time.ParseDuration(result.TestAttemptDuration); err == nil && d >= 0 {
		c.Seconds = d.Seconds()
	}
	if result.TestAttemptStart != "" {
		c.At = b.options.plausible(result.TestAttemptStart, &b.notes)
	}
	switch result.Status {
	case "PASSED", "FLAKY":
		c.Outcome = Passed
	case "FAILED", "TIMEOUT":
		c.Outcome = Failed
		c.Failure = flaky.Failure{Type: result.Status, Message: b.decoder.message(result.StatusDetails)}
	default: // it was not built, not started, or the machine failed
		b.notes.add(SuiteFailed, label+": "+result.Status)
		return nil
	}
	return b.each(&c)
}
