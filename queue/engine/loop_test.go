package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/queue"
)

// The engine's loop, on a store in memory and a clock that stands still until
// the test moves it. Each test runs in a bubble where synctest.Wait returns
// when every goroutine waits for something: what has not happened by then
// happens only when a wake-up comes or the clock moves.

// loop is a running engine.
type loop struct {
	*memory
	clock *handClock
	log   *lockedBuffer
	end   context.CancelFunc
	ended chan struct{}
}

// start runs an engine on two queues.
func start(t *testing.T, decide Decide, change func(*Config)) *loop {
	t.Helper()
	l := &loop{memory: newMemory(testQueue(1, "main"), testQueue(2, "release")), clock: newHandClock(), log: &lockedBuffer{}, ended: make(chan struct{})}
	c := Config{
		Store: l.memory, Host: newWorld(), Decide: decide, Clock: l.clock, Workers: 2, Poll: 5 * time.Second,
		Log: slog.New(slog.NewTextHandler(l.log, nil)),
	}
	if change != nil {
		change(&c)
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.end = cancel
	go func() {
		defer close(l.ended)
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	}()
	synctest.Wait()
	return l
}

func (l *loop) stop() {
	l.end()
	<-l.ended
}

// tell appends a fact to a queue and waits until nothing moves any more.
func (l *loop) tell(t *testing.T, id queue.ID) {
	t.Helper()
	if err := l.Append(t.Context(), 1, id, queue.RulesChanged{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (l *loop) wait(d time.Duration) {
	l.clock.advance(d)
	synctest.Wait()
}

func idle(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
	return queue.Plan{Queue: s.Queue}
}

func TestAFactIsDecidedOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, idle, nil)
		defer l.stop()
		l.tell(t, 1)
		if got := l.decided(1); got != 1 {
			t.Errorf("decisions on the queue = %d, want 1 without the clock moving", got)
		}
		if got := l.decided(2); got != 0 {
			t.Errorf("decisions on the queue that nothing waited for = %d, want 0", got)
		}
	})
}

func TestAFactWithoutAQueueIsRoutedAndDecidedOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, idle, nil)
		defer l.stop()
		l.tell(t, 0)
		if l.decided(1) == 0 || l.decided(2) == 0 {
			t.Errorf("decisions = %d and %d, want both queues decided on", l.decided(1), l.decided(2))
		}
	})
}

func TestWhatWaitedBeforeTheStartIsDecidedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, idle, func(c *Config) {
			m := c.Store.(*memory)
			m.deaf = true
			_ = m.Append(t.Context(), 1, 1, queue.RulesChanged{})
		})
		defer l.stop()
		if got := l.unread(1); got != 0 {
			t.Errorf("unread facts = %d, want 0", got)
		}
	})
}

func TestARingThatNobodyHearsWakesTheNextSleeper(t *testing.T) {
	t.Parallel()
	b := newBell()
	b.ring()
	b.ring()
	select {
	case <-b:
	default:
		t.Fatal("the ring was lost")
	}
	select {
	case <-b:
		t.Fatal("two rings woke twice; they should have been merged")
	default:
	}
}

func TestAFactThatArrivesDuringADecisionIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate, folded := make(chan struct{}), []int{}
		l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
			folded = append(folded, len(facts)) // one queue: one decision at a time
			<-gate
			return idle(s, facts, now)
		}, nil)
		defer l.stop()
		l.tell(t, 1)
		l.tell(t, 1) // while the first is being decided on
		l.tell(t, 1)
		close(gate)
		synctest.Wait()
		if l.unread(1) != 0 || len(folded) != 2 || folded[1] != 2 {
			t.Errorf("decisions folded %v facts and left %d, want [1 2] and 0", folded, l.unread(1))
		}
	})
}

func TestALongDecisionDoesNotHoldUpAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
			if s.Queue.ID == 1 {
				<-gate
			}
			return idle(s, facts, now)
		}, func(c *Config) {
			m := c.Store.(*memory)
			m.deaf = true                // the poll rings once,
			m.breaks("Route", errBroken) // and the router does not
		})
		defer l.stop()
		l.tell(t, 1)
		l.tell(t, 2)
		l.wait(5 * time.Second)
		if got := l.decided(2); got != 1 {
			t.Errorf("decisions on the second queue = %d, want 1 while the first is busy", got)
		}
		close(gate)
	})
}

func TestAQueueIsDecidedOnWhenItsWakeTimeComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
			times = append(times, now)
			p := idle(s, facts, now)
			if len(times) == 1 {
				p.Wake = now.Add(time.Hour)
			}
			return p
		}, func(c *Config) { c.Poll = 24 * time.Hour })
		defer l.stop()
		l.tell(t, 1)
		l.wait(59 * time.Minute)
		if len(times) != 1 {
			t.Fatalf("decisions before the wake time = %d, want 1", len(times))
		}
		l.wait(time.Minute)
		if len(times) != 2 || times[1].Sub(times[0]) != time.Hour {
			t.Errorf("decisions at %v, want a second one an hour after the first", times)
		}
	})
}

// Whoever keeps time need not ask the store after a decision that wants nothing
// sooner than what is waited for anyway.
func TestAWakeTimeIsAskedForWhenItMayBeSooner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var in time.Duration
		l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
			p := idle(s, facts, now)
			if in != 0 {
				p.Wake = now.Add(in)
			}
			return p
		}, func(c *Config) { c.Poll = 24 * time.Hour })
		defer l.stop()
		for _, step := range []struct {
			queue queue.ID
			in    time.Duration
			asks  int
		}{{1, 0, 0}, {1, time.Hour, 1}, {2, 2 * time.Hour, 0}, {2, time.Hour, 0}, {2, 0, 0}, {2, 30 * time.Minute, 1}} {
			before := l.timed
			in = step.in
			l.tell(t, step.queue)
			if got := l.timed - before; got != step.asks {
				t.Errorf("after a decision that wants another in %v the store was asked %d times, want %d", step.in, got, step.asks)
			}
		}
		in = 0
		l.wait(30 * time.Minute) // the second queue, which then wants nothing: the first is waited for
		l.wait(30 * time.Minute)
		if first, second := l.decided(1), l.decided(2); first != 3 || second != 5 {
			t.Errorf("decisions = %d and %d, want 3 and 5, the last of each at its time", first, second)
		}
	})
}

func TestTheSlowPollFindsWhatALostWakeUpLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, idle, func(c *Config) { c.Store.(*memory).deaf = true })
		defer l.stop()
		l.tell(t, 0)
		if got := l.decided(1); got != 0 {
			t.Fatalf("decisions before the poll = %d, want 0: the wake-up was lost", got)
		}
		l.wait(5 * time.Second)
		if got := l.decided(1); got != 1 {
			t.Errorf("decisions after the poll = %d, want 1", got)
		}
	})
}

func TestAnIdleEngineAsksTheStoreOnlyWhenItPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, idle, func(c *Config) {
			// A queue that is due but that somebody else decides on must not
			// make the clock's loop spin.
			h := c.Store.(*memory).queues[1]
			h.busy, h.wake = true, c.Clock.Now().Add(-time.Minute)
		})
		defer l.stop() // synctest.Wait in start would never have returned
		if got := l.decided(1); got != 0 {
			t.Errorf("decisions = %d, want 0", got)
		}
	})
}

func TestListeningBeginsAgainWhenTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, idle, func(c *Config) { c.Poll = 24 * time.Hour })
		defer l.stop()
		l.hangUp()
		_ = l.Append(t.Context(), 1, 1, queue.RulesChanged{}) // nobody listens
		synctest.Wait()
		if got := l.decided(1); got != 0 {
			t.Fatalf("decisions while nobody listens = %d, want 0", got)
		}
		l.wait(time.Second)
		if got := l.decided(1); got != 1 {
			t.Errorf("decisions after listening again = %d, want 1: what was missed is looked for", got)
		}
		l.tell(t, 1)
		if got := l.decided(1); got != 2 {
			t.Errorf("decisions = %d, want 2: wake-ups arrive again", got)
		}
	})
}

func TestErrorsOfTheStoreAreWaitedOut(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"UpdateDue", "save", "Route", "NextWake", "Wakeups"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := start(t, idle, func(c *Config) { c.Store.(*memory).breaks(method, errBroken) })
				defer l.stop()
				l.tell(t, 0)
				for range 20 {
					l.wait(time.Minute) // hours of failing, as far as back-off knows
				}
				if !strings.Contains(l.log.String(), errBroken.Error()) {
					t.Error("the error was not logged")
				}
				l.breaks(method, nil)
				for range 6 { // the longest back-off
					l.wait(time.Minute)
				}
				if l.unread(1)+l.unread(2) != 0 || l.decided(1) == 0 || l.decided(2) == 0 {
					t.Errorf("unread = %d and %d, decided = %d and %d, want all facts decided on once the store is back",
						l.unread(1), l.unread(2), l.decided(1), l.decided(2))
				}
			})
		})
	}
}

// The engine panics on one queue, as in an outage that nobody thought of
// (bors-ng/bors-ng#206): nothing of that queue may be lost, and nothing of the
// others may wait.
func TestBC23APanicLosesNothingAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(*memory) Store{
		"with a store that can put a queue off": func(m *memory) Store { return m },
		"with one that cannot":                  func(m *memory) Store { return plainStore{m} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sick := true
				panics := 0
				l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
					if s.Queue.ID == 1 && sick {
						panics++
						panic("a fault in the decision")
					}
					return idle(s, facts, now)
				}, func(c *Config) {
					m := c.Store.(*memory)
					c.Store, c.Workers = store(m), 1
				})
				defer l.stop()
				l.tell(t, 1)
				if l.unread(1) != 1 || panics == 0 {
					t.Fatalf("unread = %d after %d panics, want the fact still there after at least one", l.unread(1), panics)
				}
				if log := l.log.String(); !strings.Contains(log, "a fault in the decision") || !strings.Contains(log, "loop_test.go") {
					t.Errorf("the log has neither what was thrown nor where:\n%s", log)
				}
				if _, ok := store(l.memory).(Postponer); ok {
					l.tell(t, 2)
					if got := l.decided(2); got != 1 {
						t.Errorf("decisions on the healthy queue = %d, want 1 at once", got)
					}
				}
				for range 60 {
					l.wait(time.Second)
				}
				if panics < 3 || panics > 40 {
					t.Errorf("panics in a minute = %d, want some, with back-off", panics)
				}
				sick = false
				for range 10 {
					l.wait(time.Minute)
				}
				if l.unread(1) != 0 || l.decided(1) != 1 {
					t.Errorf("unread = %d, decisions = %d, want 0 and 1 when the fault is gone", l.unread(1), l.decided(1))
				}
			})
		})
	}
}

func TestTheEndWaitsForTheDecisionInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
			<-gate
			return idle(s, facts, now)
		}, nil)
		l.tell(t, 1)
		l.end()
		synctest.Wait()
		select {
		case <-l.ended:
			t.Fatal("Run returned with a decision in hand")
		default:
		}
		close(gate)
		<-l.ended
		if l.unread(1) != 0 || l.decided(1) != 1 {
			t.Errorf("unread = %d, decisions = %d, want 0 and 1: the decision is saved", l.unread(1), l.decided(1))
		}
	})
}

func TestEveryMoveIsOneLineOfTheLogAndOneCallOfTheHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var moved []queue.Move
		l := start(t, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
			p := idle(s, facts, now)
			p.Moves = []queue.Move{{PR: 7, From: queue.Testing, To: queue.TestsPassed, Reason: queue.TestRunPassed, Run: "r1"}}
			return p
		}, func(c *Config) { c.Hooks.Moved = func(m queue.Move) { moved = append(moved, m) } })
		defer l.stop()
		l.tell(t, 1)
		if len(moved) != 1 || moved[0].PR != 7 {
			t.Errorf("hook was called with %v, want the one move", moved)
		}
		log := l.log.String()
		for _, want := range []string{"queue=1", "pr=7", "from=testing", "to=tests_passed", "reason=TEST_RUN_PASSED", "run=r1"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %q:\n%s", want, log)
			}
		}
	})
}

func TestAnEngineWithoutAStoreOrAHostSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	if err == nil || !strings.Contains(err.Error(), "Config.Store") || !strings.Contains(err.Error(), "Config.Host") {
		t.Errorf("error = %v, want one that names both", err)
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func testQueue(id queue.ID, branch string) queue.Queue {
	s := queue.DefaultSettings()
	s.RequiredStatuses = []string{"build"}
	s.CreatePRsForTestingBranches = false
	s.MergeMethod = queue.MergeCommit
	return queue.Queue{
		ID: id, Key: fmt.Sprintf("00000000-0000-4000-8000-%012d", id), Branch: branch, State: queue.Running, Settings: s,
		Repo: queue.Repo{ID: 1, Host: "github.com", Owner: "acme", Name: "app", HostID: 11, Installation: 111},
	}
}
