package db

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// deliveriesAtOnce bounds what one writer writes together.
	deliveriesAtOnce = 128
	// inboundWriters write few deliveries beside each other, so that what comes now
	// and then does not wait for the commit of another one.
	inboundWriters = 2
	// fewDeliveries are that many. While more are written, all others wait and go
	// together: most of what a write costs is the same for one and for thirty.
	fewDeliveries = 4
	// inboundPatience bounds one write.
	inboundPatience = 30 * time.Second
)

// inbound is the way of deliveries into the inbox.
type inbound struct {
	writers[arrival]
	many sync.Mutex // is held while more than a few are written
}

// arrival is a delivery whose sender waits.
type arrival struct {
	delivery
	stored chan<- storing // has room for one
}

// storing is what became of an arrival.
type storing struct {
	fresh bool
	err   error
}

func newInbound() inbound {
	return inbound{writers: writers[arrival]{atOnce: inboundWriters, waiting: make(chan arrival, 8*deliveriesAtOnce)}}
}

// receiveFacts has a delivery stored and waits for that. When ctx ends first,
// nobody knows: it may yet be stored, and the host will deliver it again.
func (db *DB) receiveFacts(ctx context.Context, d delivery) (fresh bool, err error) {
	stored := make(chan storing, 1)
	if err := db.inbound.hand(ctx, db, arrival{d, stored}, db.writeArrivals); err != nil {
		return false, err
	}
	s, err := committed(ctx, db, stored)
	if err != nil {
		return false, err
	}
	return s.fresh, s.err
}

// writeArrivals writes one that waited, and what waits behind it.
func (db *DB) writeArrivals(first arrival) {
	in := &db.inbound
	in.many.Lock()
	batch, repeated := in.more(first)
	if len(batch) > fewDeliveries {
		defer in.many.Unlock()
	} else {
		in.many.Unlock()
	}
	db.store(batch, repeated)
}

// more takes what is waiting behind the first. Of two with one id, which the
// host sends when it is impatient, the later goes to its own write.
func (in *inbound) more(first arrival) (batch, repeated []arrival) {
	batch = append(batch, first)
	ids := map[string]bool{first.ID: true}
	for len(batch) < deliveriesAtOnce {
		select {
		case a := <-in.waiting:
			if ids[a.ID] {
				repeated = append(repeated, a)
				continue
			}
			ids[a.ID] = true
			batch = append(batch, a)
		default:
			return batch, repeated
		}
	}
	return batch, repeated
}

// store writes a batch and answers its senders. Where it fails for any other
// reason than that the database is away, each is tried alone: one that cannot
// be stored must not take others with it.
func (db *DB) store(batch, repeated []arrival) {
	if err := db.storeTogether(batch); err != nil {
		for _, a := range batch {
			if unreachable(err) {
				a.stored <- storing{err: err}
			} else if err := db.storeTogether([]arrival{a}); err != nil {
				a.stored <- storing{err: err}
			}
		}
	}
	for _, a := range repeated {
		if err := db.storeTogether([]arrival{a}); err != nil {
			a.stored <- storing{err: err}
		}
	}
}

// storeTogether writes arrivals in one statement and answers their senders,
// unless it fails.
func (db *DB) storeTogether(batch []arrival) error {
	ctx, cancel := context.WithTimeout(db.ctx, inboundPatience)
	defer cancel()
	deliveries := make([]delivery, len(batch))
	for i, a := range batch {
		deliveries[i] = a.delivery
	}
	r, err := db.receive(ctx, db.sql, deliveries)
	if err != nil {
		return err
	}
	db.announce(tidings{news: db.newsOf(r)})
	for _, a := range batch {
		a.stored <- storing{fresh: !slices.Contains(r.Repeated, a.ID)}
	}
	return nil
}
