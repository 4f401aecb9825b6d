package db

import (
	"sync"
	"time"
)

const (
	// rememberFor is how old an answer may be that is given from memory.
	rememberFor = time.Second
	// mostRemembered bounds the answers of one kind that are remembered.
	mostRemembered = 10_000
)

// lately has answers of the last moment, for what every request asks and what
// hardly ever changes. Its zero value remembers nothing.
type lately[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]answered[V]
}

type answered[V any] struct {
	value V
	asked time.Time // before it was read
}

// find is the answer to a question, if it was asked within the last moment. The
// value is shared: nobody may change what it refers to.
func (l *lately[K, V]) find(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.of[key]
	return a.value, ok && time.Since(a.asked) < rememberFor
}

// keep remembers an answer to a question that was asked at a moment.
func (l *lately[K, V]) keep(key K, value V, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || len(l.of) >= mostRemembered {
		l.of = map[K]answered[V]{}
	}
	l.of[key] = answered[V]{value, asked}
}

// forget forgets all answers: this program has changed what they are about.
func (l *lately[K, V]) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = nil
}
