package db

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// askPatience bounds a question that several callers share: it must not end
// with whoever happened to be the first of them.
const askPatience = 15 * time.Second

// together lets callers that ask the same at the same time share an answer.
// While a question is being answered, others with the same key gather, and are
// answered together by the next. So each gets an answer that was read after it
// had asked, nothing is ever remembered, and the busier the database is the
// more of them share.
type together[K comparable, V any] struct {
	mu        sync.Mutex
	gathering map[K]*question[V] // not sent yet: may be joined
	sent      map[K]*question[V]
}

// question is one that is asked once for all who joined it.
type question[V any] struct {
	answered chan struct{} // closed when the rest is set
	value    V
	err      error
}

func newTogether[K comparable, V any]() *together[K, V] {
	return &together[K, V]{gathering: map[K]*question[V]{}, sent: map[K]*question[V]{}}
}

// ask returns what read returns, called by this caller or by another who asks
// for the same key. The value may be shared: nobody may change what it refers
// to.
func (t *together[K, V]) ask(ctx context.Context, key K, read func(context.Context) (V, error)) (V, error) {
	t.mu.Lock()
	q, before := t.gathering[key], t.sent[key]
	if q != nil {
		t.mu.Unlock()
		return q.await(ctx)
	}
	q = &question[V]{answered: make(chan struct{})}
	if before != nil {
		t.gathering[key] = q
		t.mu.Unlock()
		<-before.answered
		t.mu.Lock()
		delete(t.gathering, key)
	}
	t.sent[key] = q
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askPatience)
	defer cancel()
	q.err = fmt.Errorf("whoever asked for all panicked")
	defer func() {
		t.mu.Lock()
		if t.sent[key] == q { // else the next one waits already
			delete(t.sent, key)
		}
		t.mu.Unlock()
		close(q.answered)
	}()
	q.value, q.err = read(ctx)
	return q.value, q.err
}

func (q *question[V]) await(ctx context.Context) (V, error) {
	select {
	case <-q.answered:
		return q.value, q.err
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("wait for an answer that others asked for: %w", ctx.Err())
	}
}
