package db

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
)

// asking is a question whose answers a test lets go one by one.
type asking struct {
	*together[string, int]
	begun   chan int // the number of the reading that began
	proceed chan error
	asked   int // by one reading at a time
}

func newAsking() *asking {
	return &asking{together: newTogether[string, int](), begun: make(chan int), proceed: make(chan error)}
}

func (a *asking) read(ctx context.Context) (int, error) {
	a.asked++
	n := a.asked
	a.begun <- n
	return n, <-a.proceed
}

// joins has callers ask, and returns a function that waits for them.
func (a *asking) joins(ctx context.Context, callers int, each func(n int, err error)) (wait func()) {
	var callersDone sync.WaitGroup
	for range callers {
		callersDone.Go(func() { each(a.ask(ctx, "key", a.read)) })
	}
	return callersDone.Wait
}

// Whoever asks while a question is being answered may not be given that
// answer, which can be older than the asking: all of them share the next.
func TestWhoAsksTogetherSharesAnAnswerReadAfterwards(t *testing.T) {
	t.Parallel()
	a := newAsking()
	firstDone := a.joins(t.Context(), 1, func(n int, err error) {
		if n != 1 || err != nil {
			t.Errorf("the first to ask: %d, %v", n, err)
		}
	})
	<-a.begun
	laterDone := a.joins(t.Context(), 20, func(n int, err error) {
		if n < 2 || err != nil {
			t.Errorf("who asked later: %d, %v", n, err)
		}
	})
	a.isGathering()
	other := make(chan error)
	go func() {
		_, err := a.ask(t.Context(), "another key", func(context.Context) (int, error) { return 0, nil })
		other <- err
	}()
	if err := <-other; err != nil { // does not wait for "key"
		t.Error(err)
	}
	a.proceed <- nil
	firstDone()
	go func() {
		for range a.begun {
			a.proceed <- nil
		}
	}()
	laterDone()
	close(a.begun)
	if a.asked < 2 || a.asked > 21 {
		t.Errorf("it was read %d times", a.asked)
	}
	if len(a.gathering) != 0 || len(a.sent) != 0 {
		t.Errorf("something is remembered: %v, %v", a.gathering, a.sent)
	}
}

// One caller that goes away, an error and a panic are the business of those
// whom they concern.
func TestWhatHappensToOneWhoAsksTogether(t *testing.T) {
	t.Parallel()
	a := newAsking()
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	firstDone := a.joins(ctx, 1, func(_ int, err error) {
		if !errors.Is(err, broken) {
			t.Errorf("the first: %v", err)
		}
	})
	<-a.begun
	cancel() // its own end does not end the question
	lostDone := make(chan struct{})
	gone, leave := context.WithCancel(t.Context())
	go func() { // sends the second question
		defer close(lostDone)
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = a.ask(t.Context(), "key", func(context.Context) (int, error) {
			a.begun <- 2
			<-a.proceed
			panic("lost")
		})
	}()
	a.isGathering()
	second := a.gathering["key"]
	leave()
	if _, err := a.ask(gone, "key", a.read); !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	a.proceed <- broken
	firstDone()
	<-a.begun
	a.proceed <- nil
	<-lostDone
	if _, err := second.await(t.Context()); err == nil || errors.Is(err, broken) {
		t.Errorf("who joined one that panicked: %v", err)
	}
	n, err := a.ask(t.Context(), "key", func(context.Context) (int, error) { return 7, nil })
	if n != 7 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// isGathering waits until a question waits for the one before it.
func (a *asking) isGathering() {
	for gathers := false; !gathers; runtime.Gosched() {
		a.mu.Lock()
		gathers = a.gathering["key"] != nil
		a.mu.Unlock()
	}
}
