package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/notify"
	"signalbox/queue"
)

// subscriberMemory keeps subscribers without a database. Nothing is sent, so
// the part of a notify.Store that sending needs is not there.
type subscriberMemory struct {
	notify.Store
	now        func() time.Time
	mu         sync.Mutex
	kept       []keptSubscriber
	deliveries int64
}

type keptSubscriber struct {
	account.Subscriber
	org        int64
	sealed     []byte
	deliveries []account.Delivery
}

// find finds one; mu is held.
func (m *subscriberMemory) find(org int64, id string) (*keptSubscriber, error) {
	for i := range m.kept {
		if k := &m.kept[i]; k.org == org && k.ID == id {
			return k, nil
		}
	}
	return nil, queue.ErrNotFound
}

func (m *subscriberMemory) Subscribers(_ context.Context, org int64) ([]account.Subscriber, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []account.Subscriber
	for _, k := range m.kept {
		if k.org == org {
			list = append(list, k.Subscriber)
		}
	}
	return list, nil
}

func (m *subscriberMemory) Subscriber(_ context.Context, org int64, id string) (account.Subscriber, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(org, id)
	if err != nil {
		return account.Subscriber{}, err
	}
	return k.Subscriber, nil
}

func (m *subscriberMemory) AddSubscriber(_ context.Context, org int64, s account.Subscriber, sealed []byte) (account.Subscriber, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Enabled, s.CreatedAt = true, m.now().UTC().Truncate(time.Microsecond)
	m.kept = append(m.kept, keptSubscriber{Subscriber: s, org: org, sealed: sealed})
	return s, nil
}

func (m *subscriberMemory) ChangeSubscriber(_ context.Context, org int64, id string, _ account.Deed, change func(*account.Subscriber, []byte) ([]byte, error)) (account.Subscriber, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(org, id)
	if err != nil {
		return account.Subscriber{}, err
	}
	after := k.Subscriber
	fresh, err := change(&after, k.sealed)
	if err != nil {
		return after, err
	}
	if k.Subscriber = after; fresh != nil {
		k.sealed = fresh
	}
	return after, nil
}

func (m *subscriberMemory) DeleteSubscriber(_ context.Context, org int64, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(org, id)
	if err != nil {
		return err
	}
	m.kept = slices.DeleteFunc(m.kept, func(o keptSubscriber) bool { return o.ID == k.ID })
	return nil
}

func (m *subscriberMemory) Deliveries(_ context.Context, org int64, id string, below int64, take int) ([]account.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(org, id)
	if err != nil {
		return nil, err
	}
	var list []account.Delivery
	for _, d := range slices.Backward(k.deliveries) {
		if (below == 0 || d.ID < below) && len(list) < take {
			list = append(list, d)
		}
	}
	return list, nil
}

func (m *subscriberMemory) Redeliver(_ context.Context, org int64, id string, number int64) (account.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(org, id)
	if err != nil {
		return account.Delivery{}, err
	}
	for _, d := range k.deliveries {
		if d.ID == number {
			d.Again, d.State, d.Tries = true, account.Waiting, nil
			return m.add(k, d), nil
		}
	}
	return account.Delivery{}, queue.ErrNotFound
}

func (m *subscriberMemory) AddTestDelivery(_ context.Context, org int64, id, kind string, body any) (account.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(org, id)
	if err != nil {
		return account.Delivery{}, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return account.Delivery{}, err
	}
	return m.add(k, account.Delivery{Event: "00000000-0000-4000-8000-000000000000", Type: kind, At: m.now().UTC().Truncate(time.Microsecond), Body: text, State: account.Waiting}), nil
}

// add gives a delivery its number; mu is held.
func (m *subscriberMemory) add(k *keptSubscriber, d account.Delivery) account.Delivery {
	m.deliveries++
	d.ID, d.NextAt = m.deliveries, m.now().UTC().Truncate(time.Microsecond)
	k.deliveries = append(k.deliveries, d)
	return d
}

// glass is a notify.Box that everybody sees through.
type glass struct{}

func (glass) Seal(_ context.Context, text []byte, about string) ([]byte, error) {
	return append([]byte(about+"\n"), text...), nil
}

func (glass) Open(_ context.Context, sealed []byte, about string) ([]byte, error) {
	if len(sealed) <= len(about) || string(sealed[:len(about)]) != about {
		return nil, fmt.Errorf("sealed about something else than %s", about)
	}
	return sealed[len(about)+1:], nil
}

// counting is chance that is the same every time: ones, then twos, and so on.
type counting struct {
	mu sync.Mutex
	n  byte
}

func (c *counting) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	for i := range p {
		p[i] = c.n
	}
	return len(p), nil
}

// Now and After make a testClock one that subscribers can be told things by.
func (c *testClock) Now() time.Time                       { return c.now() }
func (c *testClock) After(time.Duration) <-chan time.Time { return nil }

// newTold makes the subscribers of a world.
func newTold(t *testing.T, store notify.Store, clock *testClock) *notify.Service {
	t.Helper()
	s, err := notify.New(notify.Config{
		Store: store, Box: glass{}, Clock: clock, Random: &counting{},
		Links: notify.Links{
			Queue:       func(queue.Repo, string) string { return "" },
			PullRequest: func(queue.Repo, string, int64) string { return "" },
			Run:         func(queue.Repo, string, queue.RunID) string { return "" },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
