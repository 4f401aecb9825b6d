package db

import (
	"sync"
	"time"

	"signalbox/queue"
)

// gatherEach is for how long a queue lets facts gather for each fact of its last
// decision, where that changed nothing but what is known of runs. One that comes
// now and then is decided on at once; where hundreds come in a second a decision
// takes all that came in Config.Gather, and costs hardly more than with one.
const gatherEach = 15 * time.Millisecond

// forRoute is the key among gathering's of the facts that are left for Route.
const forRoute queue.ID = 0

// gathering are the queues that this program lets facts gather for, and those that
// it has in hand: what comes while a queue is decided on wakes nobody, who would
// find its row locked. Only facts that webhooks bring wait for that: a wish, what a
// job has to say, and time that has come are decided on at once, with all that has
// gathered.
type gathering struct {
	each, most time.Duration // gatherEach and Config.Gather

	mu sync.Mutex
	of map[queue.ID]*gathered
}

func newGathering(most time.Duration) gathering {
	return gathering{each: gatherEach, most: most, of: map[queue.ID]*gathered{}}
}

// gathered is one of them.
type gathered struct {
	news queue.News  // to raise at the end
	end  *time.Timer // nil while the queue is in hand
}

// begin has facts gather for a queue that is in hand, until gather or finish.
func (g *gathering) begin(key queue.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[key] == nil {
		g.of[key] = &gathered{}
	}
}

// finish ends what begin began, and returns the news that were kept.
func (g *gathering) finish(key queue.ID) (news queue.News) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if this := g.of[key]; this != nil && this.end == nil {
		delete(g.of, key)
		return this.news
	}
	return 0
}

// gatherAfter has facts gather for a queue when a decision says that they may, and
// reports whether they do.
func (db *DB) gatherAfter(done *folded) bool {
	if !changesOnlyRuns(&done.plan) {
		return false
	}
	g := &db.gathering
	lasts := min(time.Duration(len(done.facts))*g.each, g.most)
	db.gather(done.id, lasts, queue.FactsWait)
	return lasts > 0
}

// gather begins to let facts gather, with news that are raised at the end in any
// case.
func (db *DB) gather(key queue.ID, lasts time.Duration, news queue.News) {
	if lasts <= 0 {
		return
	}
	g := &db.gathering
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.of[key]; old != nil {
		old.stop()
		news |= old.news
	}
	this := &gathered{news: news}
	this.end = time.AfterFunc(lasts, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.of[key] == this {
			delete(g.of, key)
			db.signals.raise(this.news)
		}
	})
	g.of[key] = this
}

// holds reports whether facts gather there, and keeps news of more until the end.
func (g *gathering) holds(key queue.ID, news queue.News) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	this := g.of[key]
	if this == nil {
		return false
	}
	this.news |= news
	return true
}

// enough ends it. Whoever calls has news of its own to tell.
func (g *gathering) enough(key queue.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if this := g.of[key]; this != nil {
		this.stop()
		delete(g.of, key)
	}
}

func (f *gathered) stop() {
	if f.end != nil {
		f.end.Stop()
	}
}

// queues lists those for which facts gather.
func (g *gathering) queues() []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := []int64{}
	for key := range g.of {
		if key != forRoute {
			ids = append(ids, int64(key))
		}
	}
	return ids
}

// newsOf are what programs are told of deliveries that were stored. Of facts that
// gather somewhere they hear at the end of that.
func (db *DB) newsOf(r received) queue.News {
	var news queue.News
	if r.Left && !db.gathering.holds(forRoute, queue.FactsArrived) {
		news |= queue.FactsArrived
	}
	for _, id := range r.Queues {
		if !db.gathering.holds(queue.ID(id), queue.FactsWait) {
			news |= queue.FactsWait
		}
	}
	return news
}

// changesOnlyRuns reports whether a decision did nothing that anybody would have
// to be told of.
func changesOnlyRuns(p *queue.Plan) bool {
	return len(p.Moves)+len(p.Actions)+len(p.Entries)+len(p.Groups)+len(p.Gone)+len(p.Receipts)+len(p.Answers) == 0
}
