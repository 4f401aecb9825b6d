package queue

// News is why those who serve queues, or show them, should look again. It says
// what kind of thing has happened and nothing more, so that any number of news
// can be heard as one.
type News uint8

// What can have happened, in this program or in another on the same store.
const (
	// FactsArrived: there are facts that nobody has handed to queues yet.
	FactsArrived News = 1 << iota
	// FactsWait: there are facts that wait for a queue.
	FactsWait
	// TimesChanged: a queue may have to be looked at sooner than whoever keeps
	// time knows. The decisions of one's own program do not say so.
	TimesChanged
	// QueueChanged: what people see of a queue may have changed.
	QueueChanged
	// DeliveriesWait: there is something to deliver to subscribers.
	DeliveriesWait
)

// AnyNews is for whoever may have missed some.
const AnyNews = FactsArrived | FactsWait | TimesChanged | QueueChanged | DeliveriesWait

// Has reports whether any of some news is among these.
func (n News) Has(any News) bool { return n&any != 0 }
