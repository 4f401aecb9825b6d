package engine

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"signalbox/queue"
	"signalbox/queue/texts"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with the file that keeps it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update makes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if the new text is right, go test -update:\n%s", path, diff)
	}
}

// stage is an engine whose every step a test makes by itself: real decisions,
// the real workers, a store and a host in memory.
type stage struct {
	*memory
	*world
	t     *testing.T
	e     *Engine
	clock *handClock
	log   *lockedBuffer
}

func newStage(t *testing.T, change func(*Config), queues ...queue.Queue) *stage {
	t.Helper()
	if len(queues) == 0 {
		queues = []queue.Queue{testQueue(1, "main"), testQueue(2, "release")}
	}
	s := &stage{memory: newMemory(queues...), world: newWorld(), t: t, clock: newHandClock(), log: &lockedBuffer{}}
	ids := 0
	c := Config{
		Store: s.memory, Host: s.world, Clock: s.clock, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Site: texts.Site{Base: "https://signalbox.example.com"}, AllowedBots: []string{"Robo[bot]"},
		NewID: func() string { ids++; return fmt.Sprintf("id-%d", ids) },
	}
	if change != nil {
		change(&c)
	}
	var err error
	if s.e, err = New(c); err != nil {
		t.Fatal(err)
	}
	return s
}

// attempt works on a job once, as River would.
func (s *stage) attempt(a queue.Action, attempt int) error {
	switch a := a.(type) {
	case queue.BuildRuns:
		return attempted(s, s.e.buildRuns(), a, attempt)
	case queue.StopRun:
		return attempted(s, s.e.stopRun(), a, attempt)
	case queue.Land:
		return attempted(s, s.e.land(), a, attempt)
	case queue.SyncPR:
		return attempted(s, s.e.syncPR(), a, attempt)
	case queue.RefreshPR:
		return attempted(s, s.e.refreshPR(), a, attempt)
	case queue.ReadTarget:
		return attempted(s, s.e.readTarget(), a, attempt)
	case queue.ReadChecks:
		return attempted(s, s.e.readChecks(), a, attempt)
	case queue.Resync:
		return attempted(s, s.e.resync(), a, attempt)
	case queue.RunPreflight:
		return attempted(s, s.e.preflight(), a, attempt)
	case queue.AnswerCommand:
		return attempted(s, s.e.answerCommand(), a, attempt)
	default:
		return fmt.Errorf("no worker for %T", a)
	}
}

func attempted[A river.JobArgs](s *stage, d deed[A], a A, attempt int) error {
	w := &worker[A]{engine: s.e, deed: d}
	row := &rivertype.JobRow{Attempt: attempt, MaxAttempts: MaxAttempts(a.Kind())}
	return w.Work(s.t.Context(), &river.Job[A]{JobRow: row, Args: a})
}

// perform works on a job until it is done or given up.
func (s *stage) perform(a queue.Action) (attempts int, err error) {
	for attempts = 1; ; attempts++ {
		if err = s.attempt(a, attempts); err == nil || attempts == MaxAttempts(a.Kind()) {
			return attempts, err
		}
	}
}

// settle routes, decides and performs until there is nothing left to do.
func (s *stage) settle() {
	s.t.Helper()
	for range 200 {
		if err := s.Route(s.t.Context(), s.clock.Now()); err != nil {
			s.t.Fatal(err)
		}
		found := true
		for found {
			var err error
			if found, err = s.e.decideOne(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
		jobs := s.takeJobs()
		if len(jobs) == 0 {
			if log := s.log.String(); strings.Contains(log, "panic") {
				s.t.Fatalf("something panicked:\n%s", log)
			}
			return
		}
		for _, job := range jobs {
			_, _ = s.perform(job)
		}
	}
	s.t.Fatalf("the queue does not settle:\n%s", s.log)
}

// learn appends facts to the first queue and settles.
func (s *stage) learn(facts ...queue.Fact) {
	s.t.Helper()
	if err := s.Append(s.t.Context(), 1, 1, facts...); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// says makes somebody comment, and settles.
func (s *stage) says(login string, pr, comment int64, c queue.Command) {
	s.t.Helper()
	s.asks(queue.CommandAsked{PR: pr, Comment: comment, By: queue.Actor{Login: login, ID: int64(len(login))}, Command: c})
}

func (s *stage) asks(c queue.CommandAsked) {
	s.t.Helper()
	if c.At.IsZero() {
		c.At = s.clock.Now()
	}
	if err := s.Append(s.t.Context(), 1, 0, c); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// entry is the pull request's entry in a queue.
func (s *stage) entry(id queue.ID, pr int64) *queue.Entry {
	s.t.Helper()
	snapshot, err := s.ReadPRs(s.t.Context(), id, pr)
	if err != nil {
		s.t.Fatal(err)
	}
	e := snapshot.ByPR(pr)
	if e == nil {
		return &queue.Entry{}
	}
	return e
}

// ci reports on the test branch of the run that a pull request is in.
func (s *stage) ci(pr int64, result string) {
	s.t.Helper()
	snapshot, err := s.ReadPRs(s.t.Context(), 1, pr)
	if err != nil {
		s.t.Fatal(err)
	}
	e := snapshot.ByPR(pr)
	r := snapshot.Runs[snapshot.Groups[e.Group].Run]
	s.learn(queue.CheckReported{Commit: r.Commit, Report: queue.Report{
		Kind: queue.CheckRun, Name: "build", ID: 5, Status: "completed", Result: result, URL: "https://ci.example.com/1", At: s.clock.Now(),
	}})
}
