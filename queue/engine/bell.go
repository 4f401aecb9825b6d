package engine

// bell wakes one sleeper. Ringing never blocks, and a bell that rings while
// nobody sleeps wakes whoever goes to sleep next: a wake-up can be merged with
// another, never lost. Rings carry nothing, because whoever wakes looks at
// everything.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it is ringing already
	}
}
