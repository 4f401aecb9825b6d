package github

import (
	"container/list"
	"sync"
)

// lru is a small cache that forgets what was not used for the longest time.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	max   int
	order *list.List // of *lruEntry, the newest in front
	byKey map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](max int) *lru[K, V] {
	return &lru[K, V]{max: max, order: list.New(), byKey: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (v V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	el := l.byKey[key]
	if el == nil {
		return v, false
	}
	l.order.MoveToFront(el)
	return el.Value.(*lruEntry[K, V]).value, true
}

func (l *lru[K, V]) put(key K, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if el := l.byKey[key]; el != nil {
		el.Value.(*lruEntry[K, V]).value = v
		l.order.MoveToFront(el)
		return
	}
	l.byKey[key] = l.order.PushFront(&lruEntry[K, V]{key, v})
	if l.order.Len() > l.max {
		last := l.order.Back()
		l.order.Remove(last)
		delete(l.byKey, last.Value.(*lruEntry[K, V]).key)
	}
}

func (l *lru[K, V]) drop(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if el := l.byKey[key]; el != nil {
		l.order.Remove(el)
		delete(l.byKey, key)
	}
}
